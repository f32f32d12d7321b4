"""OpenML without a network: scikit-learn's fetch_openml is replaced by what it would return."""

from urllib.error import HTTPError, URLError

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils import Bunch

from truerisk.data import fetch, load
from truerisk.errors import TrueriskError


def bunch(**change):
    fields = {
        "data": np.arange(60.0).reshape(20, 3),
        "target": np.array(["wolf", "ape"] * 10, dtype=object),
        "categories": {},
        "feature_names": ["a", "b", "c"],
        "details": {"id": "61", "version": "2"},
    }
    return Bunch(**{**fields, **change})


@pytest.fixture
def openml(monkeypatch, tmp_path):
    """Set what the next fetch returns or raises; the calls are recorded."""
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / name))
    calls = []

    def answer(result):
        def fake(**options):
            calls.append(options)
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr("sklearn.datasets.fetch_openml", fake)
        return calls

    return answer


def test_by_name_and_by_number(openml, tmp_path):
    calls = openml(bunch())
    data = load("openml:zoo")
    assert data.X.shape == (20, 3)
    assert data.y.tolist() == [1, 0] * 10  # ape, wolf
    assert data.classes == 2
    assert data.source == "openml:61"
    assert data.note == "version 2; classes: ape, wolf"
    assert load(data.source).sha256 == data.sha256
    assert calls[0]["name"] == "zoo"
    assert calls[1]["data_id"] == 61
    assert "name" not in calls[1]
    for options in calls:
        assert options["as_frame"] is False
        assert options["parser"] == "liac-arff"
        assert options["data_home"] == str(tmp_path / "truerisk")


def test_numbered_and_sparse_data(openml):
    openml(bunch(data=sparse.csr_matrix(np.eye(20)), target=np.array([3.0, 7.0] * 10), details={}))
    data = load("openml:numbers")
    assert data.X.shape == (20, 20)
    assert data.y.tolist() == [0, 1] * 10
    assert data.source == "openml:numbers"


def test_fetch_tells_what_is_in_the_cache(openml):
    openml(bunch())
    assert "20 examples" in fetch("openml:zoo")


MISSING = np.ones((20, 3))
MISSING[4:6, 1] = np.nan
REFUSED = {
    "categories": (bunch(categories={"b": ["x", "y"]}), "features b are not numeric"),
    "text": (bunch(data=np.array([["x"] * 3] * 20, dtype=object)), "not numeric"),
    "missing": (bunch(data=MISSING), "2 of 20 examples have missing features"),
    "no target": (bunch(target=None), "no single target"),
    "two targets": (bunch(target=np.ones((20, 2))), "no single target"),
    "regression": (bunch(target=np.arange(20) / 3), "target that is no class"),
    "missing label": (bunch(target=np.array([None, "a"] * 10, dtype=object)), "labels are missing"),
    "too large": (bunch(data=sparse.csr_matrix((10**6, 10**6))), "too large"),
    "no network": (URLError("Name or service not known"), r"not known\); check the network"),
    "time out": (TimeoutError("timed out"), r"could not be fetched .*\(timed out\)"),
    "not found": (HTTPError("https://x", 412, "Precondition", {}, None), "not known to openml.org"),
    "server error": (HTTPError("https://x", 500, "Broken", {}, None), "check the network"),
    "no such name": (ValueError("No active dataset zoo found."), "No active dataset zoo found"),
}


@pytest.mark.parametrize(("result", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_in_one_sentence(openml, result, sentence):
    openml(result)
    with pytest.raises(TrueriskError, match=sentence) as caught:
        load("openml:zoo")
    assert str(caught.value).startswith("openml:zoo")
    assert "\n" not in str(caught.value)


def test_empty_name():
    with pytest.raises(TrueriskError, match="needs a name or a number"):
        load("openml:")
