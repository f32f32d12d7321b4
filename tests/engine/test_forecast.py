"""The time left of a grid: simulated schedules on a clock that nobody waits for."""

import heapq
import io
import itertools
import random
import re
import sys
from dataclasses import dataclass

import pytest

from truerisk import progress
from truerisk.engine import Engine, Grid, Store, forecast, grid, run_grid
from truerisk.engine.forecast import Forecast, order

LOOKS = [share / 100 for share in range(20, 91, 2)]  # shares of the whole time
WIDTHS = (1, 2, 6)


@dataclass
class Task:
    """A setting, its guessed cost, and the seconds that it takes."""

    setting: dict
    cost: float
    seconds: float


SIZES = {"small": 1.0, "medium": 4.0, "large": 16.0}


def tasks(seeds=range(8), dearer=None, spread=0.0, factor=10.0):
    """Three networks on two datasets. Guessed units are 3 seconds, except that one network takes ``factor`` as long."""
    chance = random.Random(0)
    found = {}
    for model, data, seed in itertools.product(SIZES, ("digits", "moons"), seeds):
        cost = SIZES[model] * (1.5 if data == "digits" else 1.0)
        seconds = 3 * cost * (factor if model == dearer else 1.0) * chance.uniform(1 - spread, 1 + spread)
        found[f"{model} {data} {seed}"] = Task({"model": model, "data": data, "seed": seed}, cost, seconds)
    return found


def times(tasks, names, width, startup=0.0):
    """When each task starts and ends, if these start one after the other as soon as one of ``width`` places is free.

    The first task at each place takes ``startup`` seconds more.
    """
    free, found = [0.0] * width, {}
    for name in names:
        start = heapq.heappop(free)
        found[name] = (start, start + tasks[name].seconds + (startup if start == 0 else 0.0))
        heapq.heappush(free, found[name][1])
    return found


def new_rule(tasks, width, stored=(), queue=False, startup=0.0):
    """(now, forecast, truth) at each look. With a ``queue``, all tasks are handed over at once."""
    settings, cost = {name: t.setting for name, t in tasks.items()}, {name: t.cost for name, t in tasks.items()}
    names = order(settings, cost, 0 if queue else width)
    when = times(tasks, names, width, startup)
    end = max(ended for _, ended in when.values())
    told = Forecast({name: settings[name] for name in names}, cost, None if queue else width, stored)
    events = [(0.0 if queue else started, 0, name) for name, (started, _) in when.items()]
    events += [(ended, 1, name) for name, (_, ended) in when.items()]
    events += [(share * end, 2, "") for share in LOOKS]
    found = []
    for now, kind, name in sorted(events, key=lambda event: event[:2]):
        if kind == 0:
            told.start(name, now)
        elif kind == 1:
            told.finish(name, now, when[name][1] - when[name][0])
        else:
            found.append((now, told.left(now), end - now))
    return found


def old_rule(tasks, width):
    """As it was before: the longest guess first, and time in proportion to the guessed cost that is done."""
    when = times(tasks, sorted(tasks, key=lambda name: -tasks[name].cost), width)
    end, whole = max(ended for _, ended in when.values()), sum(task.cost for task in tasks.values())
    found = []
    for now in (share * end for share in LOOKS):
        done = sum(tasks[name].cost for name, (_, ended) in when.items() if ended <= now)
        found.append((now, now / done * (whole - done) if done else None, end - now))
    return found


def worst(looks):
    """The largest factor between forecast and truth, beyond 5% of the whole time; infinite where nothing was said."""
    slack = 0.05 * sum(looks[0][::2])
    factors = [
        float("inf") if left is None else max(left / (truth + slack), (truth - slack) / max(left, 1e-9))
        for _, left, truth in looks
    ]
    return max(1.0, *factors)


# ---- how good it is --------------------------------------------------------------------------------------------------


def seeds(width):
    """As many tasks for each place, whatever the width: at least seven times the longest one."""
    return range(8 * width)


@pytest.mark.parametrize("width", WIDTHS)
def test_honest_costs(width):
    assert worst(new_rule(tasks(seeds(width)), width)) < 1.05


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dearer", SIZES)
def test_one_kind_ten_times_dearer_than_guessed(dearer, width):
    grid = tasks(seeds(width), dearer=dearer)
    assert worst(new_rule(grid, width)) < 1.05
    assert worst(old_rule(grid, width)) > 2


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dearer", [None, *SIZES])
def test_durations_that_vary_by_thirty_percent(dearer, width):
    grid = tasks(seeds(width), dearer=dearer, spread=0.3)
    assert worst(new_rule(grid, width)) < 1.5
    assert dearer is None or worst(old_rule(grid, width)) > 2


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dearer", [None, *SIZES])
def test_workers_that_take_long_to_start(dearer, width):
    """As long as thirty of the shortest tasks, which come first."""
    assert worst(new_rule(tasks(seeds(width), dearer=dearer), width, startup=100)) < 1.5


def test_before_the_first_dear_task_has_finished():
    """Six places for 16 dear tasks: the first of them ends after 28% of the time, so 20% is too early to know."""
    grid = tasks(range(8), dearer="large")
    assert 1.5 < worst(new_rule(grid, 6)) < 2
    assert worst([look for look in new_rule(grid, 6) if look[0] > 500]) < 1.05


@pytest.mark.parametrize("slower", [1.0, 2.5])
@pytest.mark.parametrize("dearer", SIZES)
def test_stored_siblings(dearer, slower):
    """Three seeds are stored. On the machine that stored them, the forecast is right from the start."""
    earlier = [(t.setting, t.cost, t.seconds) for t in tasks(range(3), dearer=dearer).values()]
    grid = tasks(range(3, 11), dearer=dearer)
    for task in grid.values():
        task.seconds *= slower
    assert worst(new_rule(grid, 2, earlier)) < 1.05
    settings, cost = {name: t.setting for name, t in grid.items()}, {name: t.cost for name, t in grid.items()}
    whole = max(end for _, end in times(grid, grid, 2).values())
    assert Forecast(settings, cost, 2, earlier).left(0.0) == pytest.approx(whole / slower, rel=0.02)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dearer", [None, *SIZES])
def test_a_scheduler_that_does_not_tell_its_workers(dearer, width):
    looks = new_rule(tasks(seeds(width), dearer=dearer, spread=0.3), width, queue=True)
    assert worst(looks) < 1.5


def test_a_scheduler_with_a_place_for_every_task():
    """Nothing is said on the word of one worker; later, another round is expected, as more workers are not known."""
    grid = {str(seed): Task({"seed": seed}, 1.0, 10.0 + seed) for seed in range(10)}
    told = Forecast({name: t.setting for name, t in grid.items()}, dict.fromkeys(grid, 1.0), width=None)
    for name in grid:
        told.start(name, 0.0)
    said = []
    for name, task in grid.items():
        told.finish(name, task.seconds, task.seconds)
        said.append(told.left(task.seconds))
    assert said[:4] == [None] * 4
    assert said[4] == 12  # the mean of the finished ones
    assert said[-1] == 0


# ---- details ---------------------------------------------------------------------------------------------------------


def two(width=1, **more):
    """Two siblings and a task of another kind."""
    settings = {"a": {"n": 1, "seed": 0}, "b": {"n": 1, "seed": 1}, "c": {"n": 2, "seed": 0}}
    return Forecast(settings, {"a": 1.0, "b": 1.0, "c": 3.0}, width, **more)


def test_nothing_is_said_before_anything_is_known():
    told = two()
    assert told.left(0.0) is None
    told.start("a", 0.0)
    assert told.left(100.0) is None
    assert told.share(100.0, None) == 0
    told.finish("a", 101.0, None)  # it failed: nothing is learned
    assert told.left(101.0) is None


def test_runs_of_this_call_come_before_stored_ones():
    told = two(stored=[({"n": 1, "seed": 7}, 1.0, 50.0)])
    assert told.left(0.0) == 50 + 50 + 150
    told.start("c", 0.0)
    told.finish("c", 99.0, 99.0)  # the first one says little: it may have waited for its worker
    assert told.left(99.0) == 50 + 50
    told.start("a", 99.0)
    told.finish("a", 109.0, 10.0)
    assert told.left(109.0) == 10


def test_a_running_task_counts_down_and_a_late_one_counts_up():
    told = two()
    told.start("a", 0.0)
    told.finish("a", 10.0, 10.0)
    told.start("b", 10.0)
    told.start("c", 10.0)
    told.width = 2
    assert told.left(14.0) == 26  # c
    told.finish("b", 20.0, 10.0)
    assert told.left(39.9) == 3  # a tenth of the expected time, not 0.1 seconds
    assert told.left(60.0) == 20 < told.left(80.0)


def test_a_late_task_warns_of_its_waiting_siblings():
    settings = {"x": {"n": 1, "seed": 0}, "y": {"n": 2, "seed": 0}, "z": {"n": 2, "seed": 1}}
    told = Forecast(settings, dict.fromkeys(settings, 1.0), width=1)
    told.start("x", 0.0)
    told.finish("x", 10.0, 10.0)
    told.start("y", 10.0)
    assert told.left(10.0) == 20
    assert told.left(60.0) == 40 + 90
    told.finish("y", 70.0, 60.0)
    told.start("z", 70.0)
    assert told.left(70.0) == 60


def test_the_share_never_falls():
    told = two()
    told.start("a", 0.0)
    told.finish("a", 10.0, 10.0)
    told.start("c", 10.0)
    shares = [told.share(now, told.left(now)) for now in range(10, 200, 10)]
    assert shares[0] == pytest.approx(10 / 50)
    assert shares == sorted(shares)
    assert told.left(190.0) > told.left(30.0)  # though the forecast rises
    told.finish("c", 200.0, 190.0)
    told.start("b", 200.0)
    told.finish("b", 210.0, 10.0)
    assert told.left(210.0) == 0
    assert told.share(210.0, 0.0) == 1


def test_a_lost_task_waits_again():
    told = two()
    told.start("a", 0.0)
    told.again("a")
    assert list(told.waiting) == ["a", "b", "c"]
    told.start("a", 5.0)
    told.finish("a", 15.0, 10.0)
    assert told.left(15.0) == 40


@pytest.mark.parametrize("seconds", [0.0, 1e-12])
def test_tasks_that_take_no_time(seconds):
    told = two()
    told.start("a", 0.0)
    told.finish("a", 0.0, seconds)
    assert told.left(0.0) == pytest.approx(0.0, abs=1e-9)
    assert 0 <= told.share(0.0, told.left(0.0)) <= 1


def test_settings_with_different_fields_and_with_none_but_a_seed():
    settings = {"a": {"seed": 0}, "b": {"seed": 1}}
    told = Forecast(settings, dict.fromkeys(settings, 1.0), width=1)
    told.start("a", 0.0)
    told.finish("a", 4.0, 4.0)
    assert told.left(4.0) == 4
    settings = {"a": {"part": "x", "n": [1, 2], "seed": 0}, "b": {"part": "y"}, "c": {"part": "x", "n": [1, 2]}}
    told = Forecast(settings, dict.fromkeys(settings, 1.0), width=1)
    for name, start, end in (("a", 0.0, 1.0), ("b", 1.0, 10.0)):
        told.start(name, start)
        told.finish(name, end, end - start)
    assert told.left(10.0) == 1


# ---- the order of tasks ----------------------------------------------------------------------------------------------


def test_every_value_is_tried_early_and_then_the_longest_come_first():
    grid = tasks()
    settings, cost = {name: t.setting for name, t in grid.items()}, {name: t.cost for name, t in grid.items()}
    names = order(settings, cost)
    assert sorted(names) == sorted(grid)
    assert names[:4] == ["small moons 0", "small digits 0", "medium moons 0", "large moons 0"]
    assert [cost[name] for name in names[4:]] == sorted((cost[name] for name in names[4:]), reverse=True)


def test_where_every_task_is_of_its_own_kind_the_long_ones_still_come_before_most():
    cost = {str(i): float(i) for i in range(1, 101)}
    names = order({name: {"number": name} for name in cost}, cost)
    early = names.index("100")
    assert sum(cost[name] for name in names[:early]) <= forecast.EARLY * sum(cost.values())
    assert names[early:] == sorted(names[early:], key=lambda name: -cost[name])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dearer", [None, *SIZES])
def test_the_order_takes_hardly_longer(dearer, width):
    grid = tasks(seeds(width), dearer=dearer, spread=0.3)
    settings, cost = {name: t.setting for name, t in grid.items()}, {name: t.cost for name, t in grid.items()}
    whole = [
        max(end for _, end in times(grid, names, width).values())
        for names in (order(settings, cost), sorted(grid, key=lambda name: -cost[name]))
    ]
    assert whole[0] < 1.05 * whole[1]


# ---- what people see -------------------------------------------------------------------------------------------------


@pytest.fixture
def shown(monkeypatch):
    """What a grid reports to its progress bar: (steps, note, seconds left) of each call."""
    calls = []

    class Bar:
        def __init__(self, label, total):
            assert total == grid.UNITS

        def __enter__(self):
            return lambda steps, note, left: calls.append((steps, note, left))

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(progress, "bar", Bar)
    monkeypatch.setattr(grid, "LOOK", 0.0)
    return calls


def work(setting):
    if setting["number"] == 1:
        raise ValueError("one fails")
    return {"double": 2 * setting["number"]}


def test_a_grid_reports_its_forecast(shown, tmp_path):
    report = run_grid(Grid("toy", work, [{"number": i} for i in range(5)]), Store(tmp_path), Engine("inline"))
    assert (len(report.done), len(report.failed)) == (4, 1)
    steps, notes, left = zip(*shown, strict=True)
    assert min(steps) >= 0
    assert sum(steps) == grid.UNITS
    assert notes[-1] == "4 of 5 runs"
    assert None not in left
    assert left[-1] == 0
    again = run_grid(Grid("toy", work, [{"number": i} for i in range(7)]), Store(tmp_path), Engine("inline"))
    assert [done.reused for done in again.done] == [True] * 4 + [False] * 2


def test_plain_lines_show_the_time_left_that_is_given(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_enabled", True)
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    with progress.bar("grid", total=100) as advance:
        advance(0, note="0 of 9 runs", left=None)
        advance(20, note="1 of 9 runs", left=1500.0)
    assert capsys.readouterr().err.splitlines() == [
        "grid: 0%  0 of 9 runs",
        "grid: 20%, about 25 min left  1 of 9 runs",
    ]


def test_a_terminal_shows_the_time_left_that_is_given(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(progress, "_enabled", True)
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.bar("grid", total=100) as advance:
        advance(20, note="1 of 9 runs", left=1500.0)
    assert re.search("20%.*about 25 min left.*1 of 9 runs", terminal.getvalue())
