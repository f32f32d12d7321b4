"""Parquet tables: the same as the CSV of the same frame; old pyarrow and broken files are refused."""

import sys

import numpy as np
import pandas as pd
import pytest

from truerisk.data import load, load_inputs
from truerisk.errors import TrueriskError

N = 20


@pytest.fixture
def arrow():
    return pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def frame(**change):
    columns = {"a": np.arange(N) % 7, "b": np.arange(N) / 8, "label": np.arange(N) % 2, **change}
    return pd.DataFrame(columns)


@pytest.mark.parametrize(
    "change",
    [{}, {"b": np.arange(N) % 3 == 0}, {"label": ["no", "yes"] * 10}, {"b": np.arange(N, 3 * N, 2)}],
    ids=["numbers", "truth values", "text labels", "integers"],
)
def test_a_table_equals_its_csv(arrow, tmp_path, change):
    frame(**change).to_parquet(tmp_path / "data.parquet")
    frame(**change).to_csv(tmp_path / "data.csv", index=False)
    data, twin = load(tmp_path / "data.parquet"), load(tmp_path / "data.csv")
    assert data.sha256 == twin.sha256
    assert data.class_names == twin.class_names
    assert (data.name, data.source) == ("data", "data.parquet")
    frame().to_parquet(tmp_path / "data.parquet")
    by_name = load(f"{tmp_path / 'data.parquet'}:a")
    assert by_name.classes == 7
    assert by_name.source == "data.parquet:a"


def test_types_of_pandas(arrow, tmp_path, notes):
    kinds = {"a": pd.array(np.arange(N) % 7, dtype="Int16"), "label": pd.Categorical(["no", "yes"] * 10)}
    table = frame(**kinds, b=(np.arange(N) / 8).astype(np.float32)).set_index(np.roll(np.arange(N), 3))
    table.to_parquet(tmp_path / "data.parquet")
    data = load(tmp_path / "data.parquet")
    assert data.X.shape == (N, 2)
    assert data.class_names == ("no", "yes")
    assert "left out the index column" in notes()
    frame(label=pd.Categorical(np.arange(N) % 3)).to_parquet(tmp_path / "data.parquet")
    data = load(tmp_path / "data.parquet")
    assert (data.classes, data.class_names) == (3, ())


ODD = {
    "text": ({"b": ["red"] * N}, "column 'b' is not numeric .it holds 'red'"),
    "categories": ({"b": pd.Categorical(["red"] * N)}, "column 'b' is not numeric"),
    "dates": ({"b": pd.date_range("2020", periods=N)}, "column 'b' is not numeric"),
    "lists": ({"b": [[1, 2]] * N}, "column b is not numeric"),
    "bytes": ({"b": [b"1"] * N}, "column 'b' is not numeric"),
    "missing": ({"b": [None, *range(1, N)]}, "column 'b' has 1 missing values"),
    "missing integers": ({"b": pd.array([None] * N, dtype="Int64")}, "column 'b' has 20 missing"),
    "missing labels": ({"label": [None, "a"] * 10}, "column 'label' has 10 missing"),
    "labels of bytes": ({"label": [b"a", b"b"] * 10}, "column 'label' holds bytes values"),
    "labels of lists": ({"label": [[1], [2]] * 10}, "column label is not numeric .its type is list"),
    "row numbers": ({"a": np.arange(N)}, "column 'a' only numbers the rows"),
    "two labels": ({"y": np.arange(N) % 2}, "type .*data.parquet:COLUMN"),
}


@pytest.mark.parametrize(("change", "sentence"), ODD.values(), ids=ODD.keys())
def test_odd_tables_get_their_sentence(arrow, tmp_path, change, sentence):
    frame(**change).to_parquet(tmp_path / "data.parquet")
    with pytest.raises(TrueriskError, match=sentence):
        load(tmp_path / "data.parquet")


def test_same_names_and_a_single_column(arrow, tmp_path):
    import pyarrow.parquet as parquet

    path = tmp_path / "data.parquet"
    parquet.write_table(arrow.table([list(range(N))] * 2, names=["a", "a"]), path)
    with pytest.raises(TrueriskError, match="two columns are named 'a'"):
        load(path)
    frame()[["label"]].to_parquet(path)
    with pytest.raises(TrueriskError, match="single column"):
        load(path)
    frame()[:0].to_parquet(path)
    with pytest.raises(TrueriskError, match="no rows"):
        load(path)


def test_broken_files(arrow, tmp_path):
    path = tmp_path / "data.parquet"
    frame().to_parquet(path)
    content = path.read_bytes()
    for broken in (b"PAR1", b"hello" * 10, content[:-20], content[: len(content) // 2] + b"PAR1", content[4:]):
        path.write_bytes(broken)
        with pytest.raises(TrueriskError, match="not a readable Parquet file"):
            load(path)
    path.write_bytes(b"")
    with pytest.raises(TrueriskError, match="is empty"):
        load(path)


def test_a_small_file_cannot_fill_the_memory(arrow, tmp_path, monkeypatch):
    monkeypatch.setattr("truerisk.data.formats.reading.MAX_BYTES", 100)
    frame().to_parquet(tmp_path / "data.parquet")
    with pytest.raises(TrueriskError, match="needs 480 bytes, more than 100"):
        load(tmp_path / "data.parquet")


def test_folders_in_the_path_add_no_columns(arrow, tmp_path):
    (tmp_path / "year=2020").mkdir()
    frame().to_parquet(tmp_path / "year=2020" / "data.parquet")
    assert load(tmp_path / "year=2020" / "data.parquet").X.shape == (N, 2)


def test_pyarrow_is_missing_or_too_old(tmp_path, monkeypatch):
    path = tmp_path / "data.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TrueriskError, match="pip install pyarrow"):
        load(path)

    class Old:
        __version__ = "14.0.0"

    monkeypatch.setitem(sys.modules, "pyarrow", Old)
    with pytest.raises(TrueriskError, match=r"pyarrow 14.0.0, which may run code .*pip install -U pyarrow"):
        load(path)


def test_inputs_without_labels(arrow, tmp_path):
    frame()[["a", "b"]][:2].to_parquet(tmp_path / "data.parquet")
    inputs = load_inputs(tmp_path / "data.parquet")
    assert inputs.X.shape == (2, 2)
    assert inputs.y is None


def test_index_columns_are_left_out(arrow, tmp_path, notes):
    path = tmp_path / "data.parquet"
    table = frame(key=np.arange(N) ** 2)
    table.set_index("key").to_parquet(path)
    data = load(path)
    assert data.feature_names == ("a", "b")
    assert "left out the index column key that pandas wrote" in notes()
    table.set_index("label").to_parquet(path)
    assert load(path).y.tolist() == [i % 2 for i in range(N)]  # the label is the label, wherever pandas keeps it


def test_a_huge_text_is_refused_before_it_is_read(arrow, tmp_path, monkeypatch):
    path = tmp_path / "data.parquet"
    frame(label=["x" * 10_000, "y"] * (N // 2)).to_parquet(path)
    with pytest.raises(TrueriskError, match="column label holds a text of 10,000 bytes"):
        load(path)
    monkeypatch.setattr("truerisk.data.formats.reading.MAX_BYTES", 5000)
    with pytest.raises(TrueriskError, match="bytes, more than 5,000"):
        load(path)


def test_a_text_that_stands_in_many_rows_is_not_copied(arrow, tmp_path):
    import pyarrow.parquet as parquet

    n = 200_000
    words = arrow.DictionaryArray.from_arrays(arrow.array(np.arange(n, dtype=np.int32) % 2), ["x" * 500_000, "y"])
    path = tmp_path / "data.parquet"
    parquet.write_table(arrow.table({"a": np.arange(n) % 7, "label": words}), path)  # as plain texts, 50 GB
    with pytest.raises(TrueriskError, match="column label holds a text of 500,000 bytes"):
        load(path)
