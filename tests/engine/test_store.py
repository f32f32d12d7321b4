"""The store: whole files or none, damage noticed, any file system."""

import json

import pytest

from truerisk.engine import Store
from truerisk.errors import TrueriskError

SETTING, RECORD = {"n": 1, "p": 0.5}, {"error": 0.25, "curve": [1.0, 0.5]}


@pytest.fixture(params=["{}", "memory://{}", "file://{}", "{}/o [1]*", "memory://{}/o [1]*"])
def store(request, tmp_path):
    return Store(request.param.format(tmp_path))


def test_what_is_saved_is_found(store):
    assert store.find("e", {"k": SETTING}) == {}
    store.save("e", "k", SETTING, RECORD, seconds=1.5)
    entry = store.find("e", {"k": SETTING, "other": {"n": 2}})
    assert list(entry) == ["k"]
    assert entry["k"]["record"] == RECORD
    assert entry["k"]["seconds"] == 1.5
    assert store.find("another", {"k": SETTING}) == {}


def test_pages_and_lists(store):
    store.write("e/quick.html", b"<p>")
    store.write("e/quick.json", b"{}")
    store.write("e/quick.json", b"[]")  # over the old one
    store.save("e", "k", SETTING, RECORD, seconds=1.0)
    assert store.pages(".json") == ["e/quick.json"]
    assert store.read(["e/quick.json", "e/none.json"]) == {"e/quick.json": b"[]"}
    assert store.pages("tmp") == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: text.replace("0.25", "0.24"),
        lambda text: text.replace('"n": 1', '"n": 2'),
        lambda text: json.dumps({**json.loads(text), "sha256": "0" * 64}),
        lambda text: "[1, 2]",
        lambda text: "\x00\xff",
    ],
)
def test_damaged_files_count_as_absent(tmp_path, damage):
    store = Store(tmp_path)
    store.save("e", "k", SETTING, RECORD, seconds=1.0)
    [path] = tmp_path.rglob("k.json")
    path.write_text(damage(path.read_text()))
    assert store.find("e", {"k": SETTING}) == {}


def test_a_file_of_another_setting_is_not_taken(tmp_path):
    store = Store(tmp_path)
    store.save("e", "k", SETTING, RECORD, seconds=1.0)
    assert store.find("e", {"k": {**SETTING, "n": 2}}) == {}


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TrueriskError, match="cannot be written"):
        Store(tmp_path / "file" / "below").save("e", "k", SETTING, RECORD, seconds=1.0)
    with pytest.raises(TrueriskError, match="cannot be written"):
        Store(tmp_path / "file" / "below").check()
    with pytest.raises(TrueriskError, match="nothing can be stored"):
        Store("nosuchprotocol://x")


def test_the_check_leaves_nothing_behind(tmp_path):
    Store(tmp_path / "new").check()
    assert list((tmp_path / "new").iterdir()) == []
