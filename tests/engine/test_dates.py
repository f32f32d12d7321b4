"""When a run finished: kept with its result, but no part of its name."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from truerisk.engine import Engine, Grid, Store, pending, run_grid, stored

SETTINGS = [{"number": 1}, {"number": 2}]


def double(setting):
    return {"double": 2 * setting["number"]}


def run(out):
    return run_grid(Grid("toy", double, SETTINGS), Store(out), Engine("inline")).done


def entries(out) -> dict[str, dict]:
    return {path.name: json.loads(path.read_text()) for path in Path(out).rglob("records/*.json")}


def test_a_run_has_the_date_of_its_end(tmp_path):
    before = datetime.now(UTC) - timedelta(seconds=1)  # dates have no fraction
    first = run(tmp_path)
    for done in first:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", done.at)
        assert before <= datetime.fromisoformat(done.at) <= datetime.now(UTC)
    assert sorted(entry["at"] for entry in entries(tmp_path).values()) == sorted(done.at for done in first)


def test_a_reused_run_keeps_its_date(tmp_path):
    first = run(tmp_path)
    again = run(tmp_path)
    assert all(done.reused for done in again)
    assert [done.at for done in again] == [done.at for done in first]
    assert [done.at for done in stored(Grid("toy", double, SETTINGS), Store(tmp_path))] == [done.at for done in first]


def test_the_date_is_no_part_of_the_key(tmp_path, monkeypatch):
    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2031, 2, 3, 4, 5, 6, tzinfo=tz)

    run(tmp_path / "now")
    monkeypatch.setattr("truerisk.engine.clock.datetime", Later)
    assert {done.at for done in run(tmp_path / "later")} == {"2031-02-03T04:05:06.000Z"}
    assert entries(tmp_path / "now").keys() == entries(tmp_path / "later").keys()


def test_an_entry_from_before_dates_were_kept_is_found(tmp_path):
    run(tmp_path)
    store = Store(tmp_path)
    for name, entry in entries(tmp_path).items():  # written as it was then
        store.save("toy", name.removesuffix(".json"), entry["setting"], entry["record"], 1.5, version=entry["version"])
    assert all("at" not in entry for entry in entries(tmp_path).values())
    found = run(tmp_path)
    assert [(done.reused, done.at, done.seconds) for done in found] == [(True, "", 1.5)] * 2
    assert [done.record for done in found] == [{"double": 2}, {"double": 4}]


def test_runs_of_earlier_code_with_the_same_results_are_found(tmp_path):
    run(tmp_path)
    [version] = {entry["version"] for entry in entries(tmp_path).values()}
    changed = Grid("toy", double, SETTINGS, version=2)
    assert pending(changed, Store(tmp_path)) == SETTINGS
    assert pending(replace(changed, same=(version,)), Store(tmp_path)) == []
    assert [d.record for d in stored(replace(changed, same=(version,)), Store(tmp_path))] == [
        {"double": 2},
        {"double": 4},
    ]
