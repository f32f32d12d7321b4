"""Equal values are not the same draw: nothing is deleted because of what it looks like."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

import truerisk
from truerisk import TrueriskError, bounds
from truerisk.certificates.draws import UNLABELLED, Draws, equal_rows, read_ids
from truerisk.certificates.workshop.compare import settle_inputs
from truerisk.certificates.workshop.fresh import leave_out
from truerisk.data import Data, load

DELTA = 0.05
RUNS, N = 300, 200
# With a rate of failures of at most DELTA, more than 35 of 300 occur with probability 1e-6 (binomial tail): this many
# are allowed. The advice to delete by value fails in every run, so that the tests would see it.
ALLOWED = 35
COMMON, RARE = 20, 10**6  # values that make up half of the draws, and of the other half
RISK = 0.25  # of a network that misclassifies every other common value, and no rare one
VOUCHED = Draws(word=True)


def draw(rng, n):
    """Discrete inputs as tables have them, with labels that nobody needs here."""
    value = np.where(rng.random(n) < 0.5, rng.integers(0, COMMON, n), COMMON + rng.integers(0, RARE, n))
    return Data("discrete", value[:, None].astype(np.float32), np.arange(n) % 2, 2)


def errors(X):
    """Misclassified common values: the even ones."""
    return int(((X[:, 0] < COMMON) & (X[:, 0] % 2 == 0)).sum())


class TestCoverage:
    """The true risk of the network above is 1/4; how often is a bound below it?"""

    def bounds_of(self, sample):
        rng = np.random.default_rng(7)
        found = []
        for _ in range(RUNS):
            counted, n = sample(rng)
            found.append(bounds.clopper_pearson(counted, n, DELTA))
        return np.asarray(found)

    def test_fresh_rows_deleted_by_value(self):
        """What used to be advised: the sample that is left holds no common value, so no error is ever seen."""

        def deleted(rng):
            data, seen = draw(rng, N), draw(rng, N)
            _, across = equal_rows(data.X, seen.X)
            rest = np.delete(data.X, across, axis=0)
            return errors(rest), len(rest)

        assert (self.bounds_of(deleted) < RISK).mean() > 0.99

    def test_fresh_rows_as_they_were_drawn(self):
        def kept(rng):
            data, seen = draw(rng, N), draw(rng, N)
            parts, draws, _ = leave_out(data, seen, draws=VOUCHED)
            assert draws.repeats > N / 4
            return errors(data.X[parts.certify]), len(parts.certify)

        assert (self.bounds_of(kept) < RISK).sum() <= ALLOWED

    def test_fresh_rows_by_number(self):
        """Row numbers of one set tell rows apart: no word is needed."""

        def numbered(rng):
            data = draw(rng, 2 * N)
            parts, draws, _ = leave_out(data, np.arange(N))
            assert draws.repeats == 0
            return errors(data.X[parts.certify]), len(parts.certify)

        assert (self.bounds_of(numbered) < RISK).sum() <= ALLOWED

    def test_unlabelled_inputs(self):
        """Disagreement with a perfect surrogate: listed as drawn it covers, listed once by value it does not."""
        labelled, rng = draw(np.random.default_rng(8), N), np.random.default_rng(9)
        covered, failed = 0, 0
        for _ in range(RUNS):
            X = draw(rng, N).X
            draws = settle_inputs(X, labelled, VOUCHED)
            assert draws.repeats > N / 4
            covered += bounds.disagreement(0.0, errors(X), len(X), DELTA) >= RISK
            once = np.unique(X, axis=0)
            failed += bounds.disagreement(0.0, errors(once), len(once), DELTA) < RISK
        assert RUNS - covered <= ALLOWED
        assert failed > 0.99 * RUNS


@pytest.fixture(scope="module")
def small():
    """Binary inputs: equal rows are everywhere."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (120, 6)).astype(np.float32)
    return Data("binary", X, X[:, 0].astype(int), 2)


@pytest.fixture(scope="module")
def network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2))


class TestFresh:
    def test_row_numbers_are_enough_and_equal_values_a_warning(self, small, network):
        cert = truerisk.certify(network, fresh=small, trained_on=np.arange(60))
        assert cert.record["n_certify"] == 60
        told = " ".join(cert.record["warnings"])
        assert "certification examples have the same inputs" in told
        assert "remove" not in told

    def test_two_sets_need_a_word(self, small, network, tmp_path):
        fresh, seen = small.take(np.arange(60, 120)), small.take(np.arange(60))
        with pytest.raises(
            TrueriskError, match=r"of 60 fresh examples .*--trained-on-ids.*--repeats-are-draws"
        ) as error:
            truerisk.certify(network, fresh=fresh, trained_on=seen)
        assert "remove" not in str(error.value)
        cert = truerisk.certify(network, fresh=fresh, trained_on=seen, repeats_are_draws=True)
        assert cert.record["settings"]["repeats_are_draws"] is True
        repeats = cert.record["settings"]["repeats"]
        assert repeats == len(equal_rows(fresh.X, seen.X)[1]) > 20
        assert any(f"You vouch that rows equal to another one ({repeats})" in line for line in cert.assumptions)
        cert.save(tmp_path)
        result = truerisk.verify(tmp_path, data=fresh, model=network)
        assert result.risk_bound == cert.risk_bound
        assert any("are separate draws; you vouch for it" in line for line in result.unchecked)

    def test_a_word_about_nothing_is_not_printed(self, network):
        rng = np.random.default_rng(3)
        fresh, seen = (Data("x", rng.normal(size=(30, 6)), np.arange(30) % 2, 2) for _ in range(2))
        cert = truerisk.certify(network, fresh=fresh, trained_on=seen, repeats_are_draws=True)
        assert cert.record["settings"]["repeats"] == 0
        assert cert.record["settings"]["repeats_are_draws"] is False
        assert not any("equal another" in line for line in cert.assumptions)

    def test_identities_decide(self, small, network):
        fresh, seen = small.take(np.arange(60, 120)), small.take(np.arange(60))
        names = [f"patient {i}" for i in range(120)]
        given = {"trained_on": seen, "trained_on_ids": names[:60]}
        cert = truerisk.certify(network, fresh=fresh, ids=names[60:], **given)
        assert cert.record["settings"]["repeats_are_draws"] is False
        assert any("row identities that you gave decide" in line for line in cert.assumptions)
        assert len(cert.record["settings"]["row_ids"]) == 64
        with pytest.raises(TrueriskError, match=r"row 1 of the fresh examples and row 7 of the data .*'patient 7'"):
            truerisk.certify(network, fresh=fresh, ids=["patient 60", "patient 7", *names[62:]], **given)
        with pytest.raises(TrueriskError, match=r"rows 0 and 2 of the fresh examples .*'patient 60'.*keep one"):
            truerisk.certify(network, fresh=fresh, ids=[*names[60:62], "patient 60", *names[63:]], **given)

    def test_identities_of_one_side_need_a_word_for_the_other(self, small, network):
        fresh, seen = small.take(np.arange(60, 120)), small.take(np.arange(60))
        with pytest.raises(TrueriskError, match="--trained-on-ids"):
            truerisk.certify(network, fresh=fresh, trained_on=seen, ids=np.arange(60))

    def test_identities_by_row_number(self, small, network):
        ids = np.arange(120)
        assert truerisk.certify(network, fresh=small, trained_on=np.arange(60), ids=ids).record["n_certify"] == 60
        ids[70] = 5
        with pytest.raises(TrueriskError, match="row 70 of the fresh examples and row 5 of the rows that the network"):
            truerisk.certify(network, fresh=small, trained_on=np.arange(60), ids=ids)
        ids[70], ids[3] = 70, 4  # one draw twice in training: nothing that certifies
        assert truerisk.certify(network, fresh=small, trained_on=np.arange(60), ids=ids).record["n_certify"] == 60

    @pytest.mark.parametrize(
        ("told", "arguments"),
        [
            ("119 identities for 120", {"ids": np.arange(119)}),
            ("list of integers or words", {"ids": np.ones(120)}),
            ("one integer or word per row", {"ids": 7}),
            ("does not exist", {"ids": "nowhere.txt"}),
            ("must end in", {"ids": "nowhere.csv"}),
            ("needs training data of its own", {"trained_on_ids": np.arange(120)}),
            ("give --fresh or --unlabeled", {"ids": np.arange(120), "fresh": None, "data": "digits"}),
        ],
    )
    def test_identities_that_say_nothing_are_refused(self, small, network, told, arguments):
        wish = {"fresh": small, **arguments}
        with pytest.raises(TrueriskError, match=told):
            truerisk.certify(network, **wish)


def test_identities_are_read_from_files(tmp_path):
    np.save(tmp_path / "ids.npy", np.array(["a", "7"]))
    (tmp_path / "ids.txt").write_text("a\n7\n")
    (tmp_path / "ids.json").write_text(json.dumps(["a", 7]))
    for suffix in ("npy", "txt", "json"):
        assert read_ids(tmp_path / f"ids.{suffix}", "ids") == ("a", "7")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(TrueriskError, match="ids cannot be read"):
        read_ids(tmp_path / "bad.json", "ids")


QUICK = {"method": "disagreement", "epochs": 1}


@pytest.fixture(scope="module")
def inputs():
    return np.random.default_rng(5).integers(0, 2, (90, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def made(small, network, inputs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("vouched")
    cert = truerisk.certify(network, small, unlabelled=inputs, repeats_are_draws=True, **QUICK)
    cert.save(folder)
    return cert, folder


class TestUnlabelled:
    def test_equal_inputs_need_a_word(self, small, network, inputs):
        with pytest.raises(TrueriskError, match=r"of 90 unlabeled inputs equal another one; .*--ids FILE") as error:
            truerisk.certify(network, small, unlabelled=inputs, **QUICK)
        assert "remove" not in str(error.value)

    def test_the_word_is_recorded_printed_and_verified(self, made, small, network, inputs):
        cert, folder = made
        within, across = equal_rows(inputs, small.X)
        repeats = len({*within, *across})
        assert cert.record["disagreement"]["unlabelled"] == 90, "nothing is deleted"
        assert cert.record["settings"]["repeats"] == repeats > 60
        assert any(f"You vouch that rows equal to another one ({repeats})" in line for line in cert.assumptions)
        result = truerisk.verify(folder, data=small, model=network)
        assert result.risk_bound == cert.risk_bound
        assert any("are separate draws; you vouch for it" in line for line in result.unchecked)

    @pytest.mark.parametrize(
        "fields",
        [{"repeats_are_draws": False}, {"repeats": 0}, {"repeats": 3}, {"repeats_are_draws": False, "repeats": 0}],
    )
    def test_without_the_word_verify_refuses(self, made, small, network, edit, tmp_path, fields):
        def silent(record):
            record["settings"] |= fields
            record["assumptions"] = [line for line in record["assumptions"] if "equal to another" not in line]

        edit(made[1], tmp_path, record=silent)
        with pytest.raises(truerisk.VerificationError):
            truerisk.verify(tmp_path, data=small, model=network)

    def test_a_longer_list_is_seen(self, made, small, network, edit, tmp_path):
        """A forger who lists every input twice must say so in the settings, and the sentence is printed."""

        def twice(tensors):
            tensors["X"] = torch.cat([tensors["X"]] * 2)

        edit(made[1], tmp_path, tensors=("unlabelled.safetensors", twice))
        with pytest.raises(truerisk.VerificationError, match="settings mention"):
            truerisk.verify(tmp_path, data=small, model=network)

    def test_identities_decide(self, small, network, inputs):
        ids, seen = [f"u{i}" for i in range(90)], [f"d{i}" for i in range(120)]
        given = {"unlabelled": inputs, **QUICK}
        cert = truerisk.certify(network, small, ids=ids, trained_on_ids=seen, **given)
        assert any("row identities that you gave decide" in line for line in cert.assumptions)
        with pytest.raises(TrueriskError, match="--trained-on-ids"):
            truerisk.certify(network, small, ids=ids, **given)
        with pytest.raises(TrueriskError, match="rows 0 and 1 of the unlabeled inputs"):
            truerisk.certify(network, small, ids=["u0", "u0", *ids[2:]], trained_on_ids=seen, **given)
        with pytest.raises(TrueriskError, match="row 3 of the unlabeled inputs and row 5 of the labeled data"):
            truerisk.certify(network, small, ids=[*ids[:3], "d5", *ids[4:]], trained_on_ids=seen, **given)
        with pytest.raises(TrueriskError, match="rows 0 and 1 of the labeled data"):
            truerisk.certify(network, small, ids=ids, trained_on_ids=["d0", "d0", *seen[2:]], **given)

    def test_another_method_needs_no_word(self, small, network):
        """Rows of one labelled set are told apart by their numbers."""
        cert = truerisk.certify(lambda: nn.Linear(6, 2), small, method="hold-out", epochs=1)
        assert cert.record["settings"]["repeats"] == 0
        assert any("same inputs" in line for line in cert.record["warnings"])

    def test_one_kind_of_list(self):
        X = np.zeros((20, 6), dtype=np.float32)
        assert Draws(word=True).between(X, X, UNLABELLED, "the labeled data").repeats == 20


class TestScale:
    """Bytes are divided by 255, the same numbers in another type are not: they are the same rows all the same."""

    bytes_ = np.random.default_rng(0).integers(0, 256, (40, 6), dtype=np.uint8)
    y = np.arange(40) % 2

    @pytest.mark.parametrize("kind", [np.int16, np.float32, np.float64])
    @pytest.mark.parametrize("swap", [False, True])
    def test_rows_that_differ_by_the_factor_255_are_equal(self, kind, swap):
        pair = load((self.bytes_, self.y)), load((self.bytes_[20:].astype(kind), self.y[20:]))
        new, seen = pair[::-1] if swap else pair
        assert equal_rows(new.X, seen.X) == ([], list(range(20)) if swap else list(range(20, 40)))
        with pytest.raises(TrueriskError, match=r"20 of .* fresh examples .* up to the factor 255; give"):
            leave_out(new, seen)
        assert leave_out(new, seen, draws=VOUCHED)[1].repeats == 20

    def test_unlabeled_inputs(self):
        data = load((self.bytes_, self.y))
        with pytest.raises(TrueriskError, match="40 of 40 unlabeled inputs"):
            settle_inputs(self.bytes_.astype(np.float32), data, Draws())

    def test_a_division_that_rounded_differently(self):
        scaled = self.bytes_.astype(np.float32) * np.float32(1 / 255)
        assert len(equal_rows(scaled, load((self.bytes_, self.y)).X)[1]) == 40

    def test_other_rows_are_not(self):
        rng = np.random.default_rng(1)
        other = rng.integers(0, 256, (40, 6)).astype(np.float32)
        assert equal_rows(other, load((self.bytes_, self.y)).X) == ([], [])
        small = 1e-6 * rng.random((40, 1), dtype=np.float32)  # near 0, which is a byte
        assert equal_rows(small, 1e-6 * rng.random((40, 1), dtype=np.float32)) == ([], [])
        assert equal_rows(np.array([[1, 0]]), np.array([[0, 1], [1, 1]])) == ([], [])
