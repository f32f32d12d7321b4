"""CSV and TSV: numbers come back exactly, labels are found by name, and odd tables are refused by column."""

import contextlib
import dataclasses

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from truerisk.data import load, load_inputs
from truerisk.errors import TrueriskError

ROWS = 12


def text(header="a,b,label", row=lambda i: f"{i % 5},{i / 4},{i % 3}", n=ROWS, end="\n"):
    """A table from a header and a function of the row number."""
    return end.join([header, *map(row, range(n))]) + end


@pytest.fixture
def write(tmp_path):
    def put(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return put


def tables(dtype, elements):
    shapes = st.tuples(st.integers(10, 30), st.integers(1, 4))
    return hnp.arrays(dtype, shapes, elements=elements)


@settings(max_examples=60, deadline=None)
@given(
    tables(np.int64, st.integers(-(2**63), 2**63 - 1))
    | tables(np.float32, st.floats(width=32, allow_nan=False, allow_infinity=False))
)
def test_numbers_are_those_of_an_npz_file(tmp_path_factory, X):
    X = np.concatenate([X, X[:1] * 0], axis=0)  # ends where it cannot number the rows
    y = np.arange(len(X)) % 2
    folder = tmp_path_factory.mktemp("tables")
    np.savez(folder / "data.npz", X=X, y=y)
    lines = [",".join([f"f{j}" for j in range(X.shape[1])] + ["label"])]
    lines += [",".join([*map(repr, row.tolist()), str(label)]) for row, label in zip(X, y, strict=True)]
    (folder / "data.csv").write_text("\n".join(lines))
    assert load(folder / "data.csv").sha256 == load(folder / "data.npz").sha256


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("name", ["data.csv", "data.tsv", "DATA.CSV"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_separators_and_line_ends(write, separator, name, end):
    data = load(write(text(end=end).replace(",", separator), name))
    assert data.X.shape == (ROWS, 2)
    assert data.X.dtype == np.float32
    assert data.X[5].tolist() == [0, 1.25]
    assert data.y.tolist() == [i % 3 for i in range(ROWS)]
    assert data.class_names == ()
    assert data.source == name


@pytest.mark.parametrize("label", ["label", "Labels", "TARGET", "class", "y"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_well_known_labels_wherever_they_stand(write, label, place):
    names = ["a", "b"]
    names.insert(place, label)
    frame = pd.DataFrame({"a": np.arange(ROWS) % 5, "b": np.arange(ROWS) % 7, label: np.arange(ROWS) % 2})
    data = load(write(frame[names].to_csv(index=False)))
    assert data.X.T.tolist() == [[i % 5 for i in range(ROWS)], [i % 7 for i in range(ROWS)]]
    assert data.X.dtype == np.int64
    assert data.y.tolist() == [i % 2 for i in range(ROWS)]


def test_a_named_label(write, tmp_path, monkeypatch):
    path = write(text("a,label,b:c", lambda i: f"{i % 4},{i % 3},{i % 2}"))
    assert load(f"{path}:label").classes == 3
    data = load(f"{path}:b:c")  # names may have colons too
    assert data.y.tolist() == [i % 2 for i in range(ROWS)]
    assert data.X[:, 1].tolist() == [i % 3 for i in range(ROWS)]
    assert (data.name, data.source) == ("data", "data.csv:b:c")
    monkeypatch.chdir(tmp_path)
    assert load(data.source).sha256 == data.sha256
    assert load(f"{path}:Label").sha256 == load(f"{path}:label").sha256
    with pytest.raises(TrueriskError, match=r"does not have a column 'lable'; choose from a, label, b:c\."):
        load(f"{path}:lable")
    path.rename(tmp_path / "a.csv:b.csv")
    assert load(tmp_path / "a.csv:b.csv").classes == 3
    with pytest.raises(TrueriskError, match=r"nothing.csv does not exist"):
        load("nothing.csv:label")


@pytest.mark.parametrize("header", ["a,b,c", "y,b,label"])
def test_one_question_where_the_label_is_not_clear(write, header):
    path = write(text(header))
    with pytest.raises(TrueriskError) as caught:
        load(path)
    assert header.replace(",", ", ") in str(caught.value)
    assert str(caught.value).endswith(f"type {path}:COLUMN.")


def test_text_labels_and_truth_values(write, notes):
    data = load(write(text(row=lambda i: f"{i % 2 == 0},{i % 3 == 0},{'no yes maybe'.split()[i % 3]}")))
    assert data.class_names == ("maybe", "no", "yes")
    assert data.y.tolist() == [1, 2, 0] * 4
    assert data.X.dtype == np.int64
    assert data.X[:4].tolist() == [[1, 1], [0, 0], [1, 0], [0, 1]]
    assert "note: data.csv: classes are numbered in sorted order: maybe = 0, no = 1, yes = 2." in notes()
    data = load(write(text(row=lambda i: f"{i % 2},0.5,{i % 2 == 0}")))
    assert data.y.tolist() == [1, 0] * 6
    assert data.class_names == ()


def test_quotes_spaces_and_the_mark_of_windows(write):
    content = text('"a, b", "c",label', lambda i: f'{i % 4}, "{i % 2}.5", "x ""{i % 2}"""')
    data = load(write(b"\xef\xbb\xbf\n" + content.encode()))
    assert data.X[1].tolist() == [1, 1.5]
    assert data.class_names == ('x "0"', 'x "1"')


def test_the_index_of_pandas_is_left_out(write, notes):
    frame = pd.DataFrame({"a": np.arange(ROWS) % 5, "label": np.arange(ROWS) % 2})
    data = load(write(frame.to_csv()))
    assert data.X.shape == (ROWS, 1)
    assert "left out the index column" in notes()
    with pytest.raises(TrueriskError, match=r"a column has no name; .*index=False"):
        load(write(frame[::-1].to_csv()))


ODD = {
    "empty": (b"", "is empty"),
    "blank": (b"\n\n", "empty lines only"),
    "text feature": (
        text(row=lambda i: f"{i % 2},red,{i % 2}"),
        "column 'b' is not numeric .it holds 'red'.*get_dummies",
    ),
    "decimal commas": (
        text(row=lambda i: f"0,5;{i},5;{i % 2}").replace("a,b,label", "a;b;label"),
        "decimals with a point",
    ),
    "huge integers": (text(row=lambda i: f"{10**30 + i},1,{i % 2}"), "column 'a'|NaN"),
    "large unsigned": (text(row=lambda i: f"{2**64 - 1},1,{i % 2}"), "column 'a' holds integers above"),
    "missing": (
        text(row=lambda i: f"{'' if i == 3 else i % 2},1,{i % 2}"),
        "column 'a' has 1 missing values, the first in row 4",
    ),
    "missing, said": (text(row=lambda i: f"{'NA' if i > 3 else i % 2},1,{i % 2}"), "column 'a' has 8 missing"),
    "missing label": (text(row=lambda i: f"{i % 2},1,{'' if i == 0 else 'cat'}"), "column 'label' has 1 missing"),
    "infinite": (text(row=lambda i: f"{i % 2},inf,{i % 2}"), "NaN or infinite"),
    "too large": (text(row=lambda i: f"{i % 2},1e300,{i % 2}"), "too large for 32 bits"),
    "no header": (text("1,2,0"), "starts with a line of numbers; add a first line"),
    "no header, pandas": (text(",1,0"), "starts with a line of numbers"),
    "no header, text label": (text("5.1,3.5,setosa"), "looks like data"),
    "same names": (text("a,a,label"), "two columns are named 'a'"),
    "same names in other spaces": (text("a, a ,label"), "two columns are named 'a'"),
    "one column": (text("label", lambda i: str(i % 2)), "has a single column"),
    "index and label only": (text(",label", lambda i: f"{i},{i % 2}"), "no feature columns"),
    "short line": (text(row=lambda i: "1,2" if i == 4 else "1,2,0"), "line 6 has 2 fields, but the header has 3"),
    "long line": (text(row=lambda i: "1,2,0,4" if i == 4 else "1,2,0"), "line 6 has 4 fields"),
    "all lines long": (text(row=lambda i: f"1,2,{i % 2},4"), "line 2 has 4 fields"),
    "header only": (b"a,b,label\n", "no rows"),
    "few rows": (text(n=9), "9 examples are too few"),
    "row numbers": (text(row=lambda i: f"{i},0.5,{i % 2}"), "column 'a' only numbers the rows.*remove this column"),
    "row numbers from 1": (text(row=lambda i: f"0.5,{i + 1},{i % 2}"), "column 'b' only numbers the rows"),
    "latin-1": (text("größe,b,label").encode("latin-1"), "not UTF-8"),
    "utf-16": (text().encode("utf-16"), "not UTF-8"),
    "gzip": (b"\x1f\x8b\x08\x00" + b"\xee" * 30, "not UTF-8"),
    "zeros": (b"a,b,label\n1,\0,0\n", "not a text file"),
    "endless quote": (text() + '"1,2,3\n', "not a readable table|fields"),
    "endless field": (b"a,b,label\n" + b"1" * 200_000 + b",2,0\n", "not a readable table"),
    "measurements": (text(row=lambda i: f"{i % 2},0.5,{i / 7}"), "look like measurements"),
    "signs": (text(row=lambda i: f"{i % 2},0.5,{i % 2 * 2 - 1}"), r"\(y \+ 1\) // 2"),
    "dates": (text(row=lambda i: f"2020-01-{i + 10},0.5,{i % 2}"), "column 'a' is not numeric"),
    "numbers and words": (
        text(row=lambda i: f"{'x' if i == 7 else i % 2},0.5,{i % 2}"),
        "column 'a' is not numeric .it holds 'x'",
    ),
    "line ends in names": (text('"a\nb",c,d'), "has the columns a.b, c, d;"),
    "control characters": (text(row=lambda i: f"{i % 2},1,{'good bad'.split()[i % 2]}\x1b[0m"), "control characters"),
    "one class": (text(row=lambda i: f"{i % 2},0.5,cat"), "at least two classes"),
}


@pytest.mark.parametrize(("content", "sentence"), ODD.values(), ids=ODD.keys())
def test_odd_tables_get_their_sentence(write, content, sentence):
    path = write(content)
    with pytest.raises(TrueriskError, match=sentence) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet='a1,;\t\n\r" .-', max_size=80).map(str.encode))
def test_any_bytes_are_data_or_get_a_sentence(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "data.csv"
    path.write_bytes(content)
    for read in (load, load_inputs):
        with contextlib.suppress(TrueriskError):  # any other exception fails
            read(path)


def test_inputs_of_tables(write):
    inputs = load_inputs(write(text("a,b,c", n=1)))
    assert inputs.X.tolist() == [[0, 0, 0]]
    assert inputs.y is None
    inputs = load_inputs(write(text("a,b,label", lambda i: f"{i},{i},{'no yes'.split()[i % 2]}", n=3)))
    assert inputs.X.dtype == np.int64
    assert inputs.y.tolist() == [0, 1, 0]
    assert inputs.class_names == ("no", "yes")
    path = write(text("a,b,c", lambda i: f"{i % 3},{i % 2},1", n=5))
    assert load_inputs(f"{path}:b").y.tolist() == [0, 1, 0, 1, 0]
    assert load_inputs(write(text("a", lambda i: f"{i / 3}", n=5))).X.shape == (5, 1)
    with pytest.raises(TrueriskError, match=r"type .*:COLUMN"):
        load_inputs(write(text("a,y,label")))


def labels(write, *values):
    """The table of these labels, repeated until there are enough rows."""
    return load(write(text(row=lambda i: f"{i % 2},{i % 3},{values[i % len(values)]}")))


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (("1", "2", "3", "3b"), ("1", "2", "3", "3b")),
        (("007", "010"), ("007", "010")),
        (("1e1", "1E2"), ("1E2", "1e1")),
        (("+1", "2"), ("+1", "2")),
        (("True", "False", "maybe"), ("False", "True", "maybe")),
        (("NA", "null", "None"), ("NA", "None", "null")),
        (("nan", "x"), ("nan", "x")),
    ],
)
def test_labels_that_are_names(write, values, names):
    assert labels(write, *values).class_names == names


def test_labels_that_are_numbers(write, notes):
    for values in (("1", "2"), ("1.0", "2.0"), ("1", "2.0"), ('"1"', "2 ")):
        data = labels(write, *values)
        assert (set(data.y.tolist()), data.class_names) == ({1, 2}, ())
    assert notes() == ""
    assert labels(write, "True", "False").y.tolist()[:2] == [1, 0]
    assert "False = 0, True = 1" in notes()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (("1", "2", "NA"), "missing values"),
        (("1", "2", "nan"), "missing values"),
        (("cat", "", "dog"), "missing values"),
        (("1", "", "2"), "missing values"),
        (("1.5", "2"), "look like measurements"),
        (("cat", "cat "), "the class names 'cat' and 'cat ' look the same"),
        (("caf\u00e9", "cafe\u0301"), "look the same; spell them in one way"),
        (("1" * 1001, "2"), "a label has 1,001 characters"),
    ],
)
def test_labels_that_are_neither(write, values, sentence):
    with pytest.raises(TrueriskError, match=sentence):
        labels(write, *values)


def test_a_long_label_needs_no_memory():
    from truerisk.data.formats.labels import number_classes

    with pytest.raises(TrueriskError, match="a label has 3,000,000 characters"):  # as one array, 120 GB
        number_classes(["x" * 3_000_000] + ["a"] * 10_000, "toy")


@pytest.mark.parametrize("numbers", [np.arange(ROWS)[::-1] + 17, np.roll(np.arange(ROWS), 5), np.arange(ROWS) / 1.0])
def test_row_numbers_in_any_order(write, numbers):
    with pytest.raises(TrueriskError, match="column 'Id' only numbers the rows"):
        load(write(text("a,Id,label", lambda i: f"{i % 2},{numbers[i]},{i % 3}")))
    with pytest.raises(TrueriskError, match="column 'Unnamed: 0' is an index that pandas wrote"):
        load(write(text("Unnamed: 0,a,label", lambda i: f"{i % 2},{numbers[i]},{i % 3}")))


def test_separators_of_thousands(write):
    with pytest.raises(TrueriskError, match="holds '1,234'; remove separators of thousands"):
        load(write(text("a,b,label", lambda i: f'{i % 2},"1,234",{i % 3}')))


def test_many_columns_are_compared_quickly(tmp_path):
    import time

    from truerisk.data.formats.tables import check_columns

    start = time.perf_counter()
    check_columns([str(i) for i in range(200_000)], tmp_path, True)
    assert time.perf_counter() - start < 5


def test_column_names_are_kept(write):
    data = load(write(text("b,a,label", lambda i: f"{i % 2},{i % 3},{i % 2}")))
    assert data.feature_names == ("b", "a")
    assert data.take([1, 2]).feature_names == data.floats().feature_names == ("b", "a")
    unnamed = dataclasses.replace(data, feature_names=())
    assert unnamed.sha256 == data.sha256
    assert load_inputs(write(text("b,a", lambda i: f"{i % 2},{i % 3}"))).feature_names == ("b", "a")
    odd = write(text('"b\nc",a,label', lambda i: f"{i % 2},{i % 3},{i % 2}"))
    assert load(odd).feature_names == ("b c", "a")


def test_inputs_to_predict_on_may_count_up(write):
    """Ten years in a row are not row numbers; the columns of the certificate decide."""
    path = write(text("year,a", lambda i: f"{2000 + i},{i % 3}"))
    assert load_inputs(path).X[:, 0].tolist() == [2000 + i for i in range(ROWS)]


def test_verify_takes_the_columns_of_the_certificate(tmp_path):
    """The same numbers as arrays, which have no names, and under other names."""
    import truerisk

    rng = np.random.default_rng(0)
    lines = [f"{a:.3f},{b:.3f},{int(a > 0)}" for a, b in rng.standard_normal((60, 2))]
    for name, header in (("one", "a,b,label"), ("two", "c,d,label")):
        (tmp_path / f"{name}.csv").write_text("\n".join([header, *lines]))
    data = load(tmp_path / "one.csv")
    truerisk.certify("mlp:4", tmp_path / "one.csv", epochs=1).save(tmp_path / "out")
    assert truerisk.verify(tmp_path / "out", data=(data.X, data.y)).noticed == []
    assert truerisk.verify(tmp_path / "out", data=tmp_path / "one.csv").noticed == []
    noticed = truerisk.verify(tmp_path / "out", data=tmp_path / "two.csv").noticed
    assert noticed == ["the certificate and the data give the columns other names; the numbers agree"]
