"""The same results on every engine; failures reported; processes killed; nothing lost."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from truerisk import lab
from truerisk.engine import Engine, Store
from truerisk.errors import TrueriskError
from truerisk.lab.catalogue import load

PATIENCE = 120  # seconds after which something that should have happened has not


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {PATIENCE} seconds for {what}")


def records(out):
    """The stored record of every setting, byte for byte."""
    entries = [json.loads(path.read_text()) for path in Path(out).rglob("records/*.json")]
    return {json.dumps(e["setting"], sort_keys=True): json.dumps(e["record"]) for e in entries}


class Cluster:
    """A real scheduler and two worker processes on loopback."""

    def __init__(self):
        self.scheduler, self.workers = None, []

    def repair(self):
        """Start what a test before has killed; at first, everything."""
        if self.scheduler is None or self.scheduler.poll() is not None:
            self.stop()
            self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
            lines = (line for line in self.scheduler.stdout if "Scheduler at:" in line)
            self.address = next(lines).split("Scheduler at:")[1].strip()
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        for worker in [worker for worker in self.workers if worker.poll() is not None]:
            self._end(worker)
            self.workers.remove(worker)
        fresh = len(self.workers) < 2
        while len(self.workers) < 2:
            self.workers.append(self._start("worker", self.address, *options))
        if fresh:
            self._warm_up()

    def _warm_up(self):
        """Wait until both workers are there and have imported what tasks need, which takes longer than most tasks."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=PATIENCE)
            client.run(importlib.import_module, "torch")

    def stop(self):
        for process in [*self.workers, *([self.scheduler] if self.scheduler else [])]:
            self._end(process)
        self.scheduler, self.workers = None, []

    @staticmethod
    def _start(*command):
        quiet = os.environ | {"DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False"}  # it looks 100 times a second
        command = [sys.executable, "-m", "dask", *command]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=quiet)

    @staticmethod
    def _end(process):
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="module")
def one_cluster():
    pytest.importorskip("distributed")
    cluster = Cluster()
    yield cluster
    cluster.stop()


@pytest.fixture
def cluster(one_cluster):
    """One cluster for all tests, as its start takes longer than most of them, but whole at the start of each."""
    one_cluster.repair()
    return one_cluster


@pytest.fixture(scope="module")
def pool():
    """Two local processes, for tests that leave them alive."""
    with Engine("local", workers=2) as engine:
        yield engine


def test_local_processes_equal_inline(toy, pool, tmp_path):
    path = toy(tasks=6)
    inline = lab.run(path, engine="inline", out=tmp_path / "inline")
    local = lab.run(path, engine=pool, out=tmp_path / "local")
    assert [row["drawn"] for row in inline.rows] == [row["drawn"] for row in local.rows]
    assert records(tmp_path / "inline") == records(tmp_path / "local")
    assert len({tuple(row["drawn"]) for row in inline.rows}) == 6  # each setting has its own seed
    assert local.rows.max("threads_used") == 1
    assert os.getpid() not in {process for _, process in toy.ran()[6:]}


def test_what_is_stored_is_not_run_again(toy, tmp_path):
    first = lab.run(toy(tasks=3), engine="inline", out=tmp_path / "out")
    again = lab.run(toy(tasks=5), engine="inline", out=tmp_path / "out")
    assert (first.computed, first.reused) == (3, 0)
    # TASKS is not part of the task's code, so the first three are still good
    assert (again.computed, again.reused) == (2, 3)
    assert sorted(number for number, _ in toy.ran()) == [0, 1, 2, 3, 4]
    other = lab.run(toy(tasks=5, extra="time.sleep(0)"), engine="inline", out=tmp_path / "out")
    assert (other.computed, other.reused) == (5, 0)  # its own code changed


@pytest.mark.parametrize("engine", ["inline", "local"])
def test_a_failing_task_stops_nothing(request, toy, tmp_path, engine):
    engine = request.getfixturevalue("pool") if engine == "local" else engine
    fails = 'if setting["number"] in (1, 4):\n    raise ValueError("no such number")'
    result = lab.run(toy(tasks=6, extra=fails), engine=engine, out=tmp_path / "out")
    assert [row["number"] for row in result.rows] == [0, 2, 3, 5]
    assert [failure.setting["number"] for failure in result.failures] == [1, 4]
    assert result.failures[0].error == "ValueError: no such number (toy.py, line 26)"
    assert "toy.py" in result.failures[0].trace
    assert result.verdicts[0].word == "no verdict"
    assert result.verdicts[0].measured.startswith("2 of 6 runs are missing (number=1")
    again = lab.run(toy(tasks=6, extra=fails), engine=engine, out=tmp_path / "out")
    assert (again.computed, again.reused, len(again.failures)) == (0, 4, 2)


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ('return {"number": 1}', "repeats names of its setting (number)"),
        ("return [1]", "returned a list"),
        ('return {"x": float("nan")}', "['x'] is nan"),
        ('return {"x": torch.zeros(1)}', "['x'] is a Tensor"),
        ('return {"x": "\\udcff"}', "['x'] is no valid text"),
    ],
)
def test_a_bad_record_is_a_failure(toy, tmp_path, extra, said):
    result = lab.run(toy(tasks=1, extra=extra), engine="inline", out=tmp_path)
    assert said in result.failures[0].error


@pytest.mark.parametrize("engine", ["inline", "local"])
def test_a_task_may_exit_and_print(toy, tmp_path, capfd, engine):
    """Neither ends the others, nor does it spoil standard output."""
    extra = 'print("loud")\nif setting["number"] == 1:\n    raise SystemExit(7)'
    result = lab.run(toy(tasks=3, extra=extra), engine=engine, out=tmp_path / "out", workers=1)
    assert [row["number"] for row in result.rows] == [0, 2]
    assert result.failures[0].error == "SystemExit: 7 (toy.py, line 27)"
    assert capfd.readouterr().out == ""


def test_code_at_the_top_of_a_file_does_not_touch_the_seeds(toy, pool, tmp_path):
    path = Path(toy(tasks=3))
    path.write_text(path.read_text().replace("TASKS = ", "torch.manual_seed(0)\nTASKS = ", 1))
    inline = lab.run(str(path), engine="inline", out=tmp_path / "inline")
    local = lab.run(str(path), engine=pool, out=tmp_path / "local")
    assert [row["drawn"] for row in inline.rows] == [row["drawn"] for row in local.rows]


def test_a_task_may_run_an_experiment(toy, tmp_path):
    inner = tmp_path / "inner.py"
    inner.write_text(Path(toy(tasks=1)).read_text())
    extra = f'from truerisk import lab\nlab.run({str(inner)!r}, engine="inline", out={str(tmp_path / "inner")!r})'
    assert len(lab.run(toy(tasks=1, extra=extra), engine="inline", out=tmp_path / "out").rows) == 1


@pytest.mark.long
def test_a_local_worker_that_is_killed_is_replaced(toy, tmp_path):
    """One task kills its own process the first time it runs; all results are there in the end."""
    kills = """
    import signal, pathlib
    mark = pathlib.Path(setting["log"] + ".killed")
    if setting["number"] == 2 and not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    """
    result = lab.run(toy(tasks=6, sleep=0.05, extra=kills), engine="local", out=tmp_path / "out", workers=2)
    assert len(result.rows) == 6
    assert result.failures == []
    inline = lab.run(toy(tasks=6, sleep=0.05, extra=kills), engine="inline", out=tmp_path / "inline")
    assert [row["drawn"] for row in inline.rows] == [row["drawn"] for row in result.rows]


@pytest.mark.long
def test_a_task_that_always_kills_its_process_is_blamed_alone(toy, tmp_path):
    kills = 'import signal\nif setting["number"] == 2:\n    os.kill(os.getpid(), signal.SIGKILL)'
    result = lab.run(toy(tasks=5, sleep=0.05, extra=kills), engine="local", out=tmp_path / "out", workers=2)
    assert [failure.setting["number"] for failure in result.failures] == [2]
    assert "its process died" in result.failures[0].error
    assert [row["number"] for row in result.rows] == [0, 1, 3, 4]


@pytest.mark.long
def test_dask_equals_inline_bit_for_bit(cluster, tmp_path):
    """A real experiment, networks trained and all, on two workers of a real scheduler."""
    inline = lab.run("random-labels", "smoke", engine="inline", out=tmp_path / "inline")
    dask = lab.run("random-labels", "smoke", engine=cluster.address, out=tmp_path / "dask")
    assert len(dask.rows) == len(inline.rows) == dask.computed > 3
    assert records(tmp_path / "dask") == records(tmp_path / "inline")
    assert [v.sentence for v in dask.verdicts] == [v.sentence for v in inline.verdicts]
    assert all(worker.poll() is None for worker in cluster.workers)


@pytest.mark.long
def test_a_dask_worker_is_killed(cluster, toy, tmp_path):
    path, pids = toy(tasks=12, sleep=0.3), {worker.pid for worker in cluster.workers}
    code = "import sys; from truerisk import lab; r = lab.run(sys.argv[1], engine=sys.argv[2], out=sys.argv[3]);"
    code += "print(len(r.rows), len(r.failures), r.computed)"
    command = [sys.executable, "-c", code, path, cluster.address, str(tmp_path / "out")]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    wait_until(lambda: {process for _, process in toy.ran()} == pids and len(toy.ran()) >= 4, "both workers to work")
    cluster.workers[0].send_signal(signal.SIGKILL)
    toy.hurry()
    out, _ = driver.communicate(timeout=PATIENCE)
    assert out.split() == ["12", "0", "12"]
    counts = Counter(number for number, _ in toy.ran())
    assert sorted(counts) == list(range(12))
    assert max(counts.values()) <= 2  # again only what ran, or lay, on the killed worker
    inline = lab.run(path, engine="inline", out=tmp_path / "inline")
    assert records(tmp_path / "out") == records(tmp_path / "inline")
    assert len(inline.rows) == 12


@pytest.mark.long
@pytest.mark.parametrize("engine", ["inline", "local", "dask"])
def test_the_driver_is_killed(request, toy, tmp_path, engine):
    """``kill -9`` in the middle; the second run does what is missing and nothing else."""
    path, out = toy(tasks=12, sleep=0.2), tmp_path / "out"
    address = request.getfixturevalue("cluster").address if engine == "dask" else engine
    code = "import sys; from truerisk import lab; lab.run(sys.argv[1], engine=sys.argv[2], out=sys.argv[3], workers=2)"
    driver = subprocess.Popen([sys.executable, "-c", code, path, address, str(out)])
    wait_until(lambda: len(records(out)) >= 3, "three results")
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    toy.hurry()
    kept = len(records(out))
    assert 3 <= kept < 12
    if engine == "local":  # workers go with their driver
        for process in {process for _, process in toy.ran()}:
            wait_until(lambda process=process: not Path(f"/proc/{process}").exists(), f"worker {process} to end")
    elif engine == "dask":  # tasks in flight may still end, and are lost; then nobody works any more
        previous = -1
        while len(toy.ran()) != previous:
            previous = len(toy.ran())
            time.sleep(1.0)
    before = len(toy.ran())
    # Only what was in flight is lost. A scheduler may be ahead of its driver, so there it is not counted.
    assert engine == "dask" or before - kept <= {"inline": 1, "local": 4}[engine]
    again = lab.run(path, engine=address, out=out, workers=2)
    assert (again.computed, again.reused) == (12 - kept, kept)
    assert len(toy.ran()) - before == 12 - kept  # counted where the tasks run
    inline = lab.run(path, engine="inline", out=tmp_path / "inline")
    assert [row["drawn"] for row in again.rows] == [row["drawn"] for row in inline.rows]


def test_a_worker_with_other_code_is_refused(toy, tmp_path):
    from dataclasses import replace

    experiment = load(toy(tasks=1))
    other = replace(experiment.task, fingerprint="another")
    # the driver's copy says "another", the worker's copy of the same task computes its own
    from truerisk.engine.call import call

    answer = call(experiment.task, {"number": 0, "log": str(toy.log)}, other.fingerprint)
    assert "other code" in answer.error
    assert toy.ran() == []


def test_tasks_in_one_process_take_turns(toy, tmp_path):
    """A Dask worker with several threads: global seeds are not mixed up."""
    from concurrent.futures import ThreadPoolExecutor

    from truerisk.engine.call import call

    experiment = load(toy(tasks=8, sleep=0.02))
    settings = experiment.settings("quick")
    alone = [call(experiment.task, s, experiment.task.fingerprint).record for s in settings]
    with ThreadPoolExecutor(4) as threads:
        jobs = [threads.submit(call, experiment.task, s, experiment.task.fingerprint) for s in settings]
    assert [job.result().record for job in jobs] == alone


def test_a_setting_may_ask_for_threads():
    from truerisk.engine.call import call
    from truerisk.engine.version import fingerprint

    for threads in (1, 2):
        answer = call(threads_of_torch, {"threads": threads}, fingerprint(threads_of_torch))
        assert answer.record == {"torch": threads}


def threads_of_torch(setting):
    import torch

    return {"torch": torch.get_num_threads()}


def test_any_fsspec_path_will_do(toy, tmp_path):
    out = f"memory://{tmp_path.name}"
    assert lab.run(toy(tasks=2), engine="inline", out=out).computed == 2
    assert lab.run(toy(tasks=2), engine="inline", out=Store(out)).reused == 2


@pytest.mark.parametrize(
    ("engine", "workers", "said"),
    [
        ("cloud", None, "no engine 'cloud'"),
        ("local", 0, "at least 1"),
        ("tcp://127.0.0.1:9", None, "no Dask scheduler answers at tcp://127.0.0.1:9"),
    ],
)
def test_bad_engines_are_one_sentence(monkeypatch, toy, tmp_path, engine, workers, said):
    monkeypatch.setattr("truerisk.engine.executors.CONNECT", 0.2)
    with pytest.raises(TrueriskError, match=said):
        lab.run(toy(), engine=engine, out=tmp_path, workers=workers)


@pytest.mark.long
def test_a_scheduler_that_is_killed_is_told_in_one_sentence(cluster, toy, tmp_path):
    code = "import sys; from truerisk import lab; lab.run(sys.argv[1], engine=sys.argv[2], out=sys.argv[3])"
    command = [sys.executable, "-c", code, toy(tasks=12, sleep=0.5), cluster.address, str(tmp_path / "out")]
    driver = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: len(records(tmp_path / "out")) >= 1, "a result")
    cluster.scheduler.send_signal(signal.SIGKILL)
    _, err = driver.communicate(timeout=PATIENCE)
    assert "the connection to the cluster was lost; finished runs are kept" in err
    assert driver.returncode == 1  # a TrueriskError; the command line makes one line and exit code 2 of it


def test_a_setting_twice_is_refused(tmp_path, toy):
    path = Path(toy(tasks=2))
    path.write_text(path.read_text().replace('"number": number', '"number": 0'))
    with pytest.raises(TrueriskError, match="holds a setting twice"):
        lab.run(str(path), engine="inline", out=tmp_path)


def test_the_engine_is_opened_once(toy, tmp_path):
    with Engine("local", workers=1) as engine:
        lab.run(toy(tasks=2), engine=engine, out=tmp_path / "one")
        lab.run(toy(tasks=2), engine=engine, out=tmp_path / "two")
    assert len({process for _, process in toy.ran()}) == 1
