"""A killed run goes on where it was and ends with the same bits. Another run's file, or a bad one, is ignored."""

import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.nets import architecture
from truerisk.training import Checkpoint, Plan, checkpoint, fit, run

KEY = {"run": 1}
PLAN = Plan(epochs=12, batch_size=8, lr=0.02, schedule="cosine", seed=7)


class Stop(Exception):
    pass


def problem(stop_after=None, optimizer="adam"):
    """A network with dropout and batch norm: the loss draws numbers and the buffers move."""
    torch.manual_seed(0)
    X, y = torch.randn(30, 3), torch.randint(0, 2, (30,))
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.4), nn.Linear(6, 2))
    calls = [0]

    def loss(batch):
        calls[0] += 1
        if stop_after is not None and calls[0] > stop_after:
            raise Stop
        return nn.functional.cross_entropy(module(X[batch]), y[batch])

    return module, loss, calls


def train(path, plan=PLAN, key=KEY, stop_after=None):
    module, loss, calls = problem(stop_after)
    keep = Checkpoint(path, key) if path else None
    history = run(module, [{"params": list(module.parameters())}], loss, 30, plan, checkpoint=keep)
    return module.state_dict(), history, calls[0]


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


STEPS = 4  # batches in an epoch


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("stop_after", [STEPS, STEPS + 1, 3 * STEPS - 1, 7 * STEPS + 2])
def test_an_interrupted_run_ends_with_the_same_bits(tmp_path, monkeypatch, optimizer, stop_after):
    monkeypatch.setattr(checkpoint, "SAVE_EVERY", 0.0)
    plan = Plan(epochs=12, batch_size=8, lr=0.02, seed=7, optimizer=optimizer)
    whole, history, _ = train(None, plan)
    with pytest.raises(Stop):
        train(tmp_path / "c.pt", plan, stop_after=stop_after)
    done = stop_after // STEPS
    resumed, again, calls = train(tmp_path / "c.pt", plan)
    assert calls == (12 - done) * STEPS  # it went on, it did not start anew
    assert again.losses == history.losses
    assert same(whole, resumed)


def test_an_interrupted_fit_with_augmentation_ends_with_the_same_bits(tmp_path, monkeypatch):
    """Mirror images depend on the number of the epoch, which a resumed run must not begin to count anew."""
    monkeypatch.setattr(checkpoint, "SAVE_EVERY", 0.0)
    rng = np.random.default_rng(0)
    toy = Data("toy", rng.random((24, 1, 9, 9)), rng.integers(0, 3, 24), 3)
    plan = Plan(5, 8, "sgd", 0.1, nesterov=True, schedule="triangle", label_smoothing=0.1, augment="rotate:9,flip")

    def train(keep, stop_after=None):
        module, calls = architecture("mirrored-resnet:9-4", (1, 9, 9), 3).build(0), [0]

        def count(*_):
            calls[0] += 1
            if stop_after is not None and calls[0] > stop_after:
                raise Stop

        module.register_forward_pre_hook(count)
        fit(module, toy, plan, checkpoint=Checkpoint(tmp_path / "c.pt", KEY) if keep else None)
        return module.state_dict(), calls[0]

    whole, _ = train(keep=False)
    with pytest.raises(Stop):
        train(keep=True, stop_after=10)  # three steps an epoch: killed in the fourth
    resumed, calls = train(keep=True)
    assert calls == 6
    assert same(whole, resumed)


def test_interrupted_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SAVE_EVERY", 0.0)
    whole, _, _ = train(None)
    for stop_after in (9, 9):
        with pytest.raises(Stop):
            train(tmp_path / "c.pt", stop_after=stop_after)
    resumed, _, calls = train(tmp_path / "c.pt")
    assert calls == (12 - 4) * STEPS
    assert same(whole, resumed)


CHILD = """
    import sys, time
    import torch
    from torch import nn
    from truerisk.training import Checkpoint, Plan, checkpoint, run

    checkpoint.SAVE_EVERY = 0.0
    torch.manual_seed(0)
    X, y = torch.randn(30, 3), torch.randint(0, 2, (30,))
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.4), nn.Linear(6, 2))

    def loss(batch):
        time.sleep(0.004)
        return nn.functional.cross_entropy(module(X[batch]), y[batch])

    plan = Plan(epochs=200, batch_size=8, lr=0.02, schedule="cosine", seed=7)
    run(module, [{"params": list(module.parameters())}], loss, 30, plan, checkpoint=Checkpoint(sys.argv[1], {"run": 1}))
"""


@pytest.mark.long
def test_a_real_kill_at_any_moment(tmp_path):
    """The child is killed with SIGKILL while it trains and writes a checkpoint after every epoch."""
    path, plan = tmp_path / "c.pt", Plan(epochs=200, batch_size=8, lr=0.02, schedule="cosine", seed=7)
    script = tmp_path / "child.py"
    script.write_text(textwrap.dedent(CHILD))
    with subprocess.Popen([sys.executable, str(script), str(path)], env=dict(os.environ)) as child:
        deadline = time.monotonic() + 60
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.37)
        assert child.poll() is None, "the child ended before it could be killed"
        child.send_signal(signal.SIGKILL)
        assert child.wait(timeout=30) == -signal.SIGKILL
    module, _, _ = problem()
    first, losses = Checkpoint(path, KEY).load(module, torch.optim.Adam(module.parameters()))
    assert 0 < first < 200
    assert len(losses) == first
    whole, history, _ = train(None, plan)
    resumed, again, calls = train(path, plan)
    assert calls == (200 - first) * STEPS
    assert history.losses == again.losses
    assert same(whole, resumed)


def test_a_finished_run_is_not_trained_again(tmp_path):
    first, history, _ = train(tmp_path / "c.pt")
    again, repeated, calls = train(tmp_path / "c.pt")
    assert calls == 0
    assert same(first, again)
    assert history == repeated


def test_a_run_that_reached_its_target_is_not_trained_further(tmp_path):
    _, free, _ = train(None)
    plan = Plan(**{**PLAN.record(), "target_loss": max(free.losses)})
    first, history, _ = train(tmp_path / "c.pt", plan)
    assert history.reached_target
    assert history.epochs < PLAN.epochs
    again, repeated, calls = train(tmp_path / "c.pt", plan)
    assert calls == 0
    assert repeated == history
    assert same(first, again)


def test_short_runs_write_once_and_leave_no_temporary_file(tmp_path):
    train(tmp_path / "deep" / "er" / "c.pt")
    assert [p.name for p in (tmp_path / "deep" / "er").iterdir()] == ["c.pt"]


def ignored(path, key=KEY):
    """Whether the file at ``path`` leaves a new run exactly as it was."""
    module, _, _ = problem()
    optimizer = torch.optim.Adam(module.parameters())
    before = {k: v.clone() for k, v in module.state_dict().items()}
    result = Checkpoint(path, key).load(module, optimizer)
    return result == (0, []) and same(before, module.state_dict()) and not optimizer.state_dict()["state"]


def test_the_file_of_another_run_is_ignored(tmp_path):
    train(tmp_path / "c.pt")
    assert ignored(tmp_path / "c.pt", key={"run": 2})
    assert ignored(tmp_path / "c.pt", key={"run": 1, "more": 0})
    assert not ignored(tmp_path / "c.pt", key=KEY)
    whole, _, _ = train(None)
    other, _, calls = train(tmp_path / "c.pt", key={"run": 2})
    assert calls == 12 * STEPS
    assert same(whole, other)


@pytest.mark.parametrize("content", [b"", b"\0" * 99, b"PK\x03\x04rubbish", b"\x80\x02.", None])
def test_rubbish_and_nothing_are_ignored(tmp_path, content):
    if content is not None:
        (tmp_path / "c.pt").write_bytes(content)
    assert ignored(tmp_path / "c.pt")


@pytest.mark.parametrize("content", [[1], {"key": 3}, {}, None])
def test_other_contents_are_ignored(tmp_path, content):
    torch.save(content, tmp_path / "c.pt")
    assert ignored(tmp_path / "c.pt")


def test_a_damaged_file_is_ignored_or_used_but_never_an_error(tmp_path):
    train(tmp_path / "c.pt")
    whole, dice, others = (tmp_path / "c.pt").read_bytes(), random.Random(0), {}
    for _ in range(250):
        content = bytearray(whole)
        if dice.random() < 0.3:
            content = content[: dice.randrange(len(content))]
        else:
            content[dice.randrange(len(content))] = dice.randrange(256)
        (tmp_path / "c.pt").write_bytes(bytes(content))
        module, _, _ = problem()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                Checkpoint(tmp_path / "c.pt", KEY).load(module, torch.optim.Adam(module.parameters()))
        except Exception as error:
            others[type(error).__name__] = str(error)
    assert not others


class Evil:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("how", ["torch", "legacy", "pickle"])
def test_a_malicious_file_runs_nothing(tmp_path, how):
    mark, path = tmp_path / "mark", tmp_path / "c.pt"
    payload = {"key": Checkpoint(path, KEY).key, "epoch": 3, "losses": [1.0], "holder": Evil(mark), "optimizer": {}}
    if how == "pickle":
        path.write_bytes(pickle.dumps(payload, protocol=2))
    else:
        torch.save(payload, path, _use_new_zipfile_serialization=how == "torch")
    assert ignored(path)
    assert not mark.exists()
    pickle.loads(pickle.dumps(Evil(mark)))
    assert mark.exists()  # the payload was live


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    train(tmp_path / "c.pt")
    before = (tmp_path / "c.pt").read_bytes()

    def broken(path, content):
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_bytes", broken)
    module, _, _ = problem()
    with pytest.raises(TrueriskError, match="space"):
        Checkpoint(tmp_path / "c.pt", KEY).save(module, torch.optim.Adam(module.parameters()), 1, [0.0], force=True)
    assert (tmp_path / "c.pt").read_bytes() == before
