"""From rows to verdicts: cells, reasons for no verdict, sentences, JSON."""

import json
import math
from functools import partial, wraps

import pytest

from truerisk.errors import TrueriskError
from truerisk.lab import OURS, PERCENT, POINTS, TIMES, Above, Checked, Claim, Exact, Paper, Rows, at_least, at_most
from truerisk.lab.units import PLAIN, between
from truerisk.lab.verdict import judge

PAPER = Paper("Zhang, Bengio, Hardt", 2017, "Rethinking generalization")
SEEDS = range(20, 25)


def gap(runs):
    return runs.where(p=1).one("error") - runs.where(p=0).one("error")


def first_error(runs):
    return runs.where(p=1).one("error")


def scaled(runs, by):
    return by * gap(runs)


def ratio(runs):
    long = runs.where(p=1).one("error")
    return Above(long / 0.1) if long > 0.8 else long / 0.1


def by_name(runs):
    return {"a": gap(runs), "b": gap(runs) / 2}


def misspelled(runs):
    return runs.one("eror")


def fails(runs):
    return 1 / 0


def nothing(runs):
    return math.nan


def yes(runs):
    return True


def diverges(runs):
    return float(runs.diverged())


def rows(models=("mlp", "cnn"), errors=(0.1, 0.6), spread=0.01, seeds=SEEDS, **more):
    found = []
    for m, model in enumerate(models):
        for seed in seeds:
            noise = spread * ((7 * seed + 3 * m) % 5 - 2)
            found += [
                {"model": model, "p": p, "seed": seed, "n_test": 500, "error": e + p * noise, **more}
                for p, e in enumerate(errors)
            ]
    return found


FIELDS = ("model", "p", "seed", "n_test")


def claim(effect=gap, wants=None, **more):
    wants = wants or at_least(20, POINTS)
    options = {"every": ("model",), "counted_on": "n_test", **more}
    return Claim("gap", "Random labels are worse.", effect, wants, PAPER.at("Table 1"), **options)


def verdict(each, found=None, missing=(), scale="quick"):
    return judge(each, Rows(rows() if found is None else found, missing, FIELDS), scale)


def test_reproduced():
    found = verdict(claim())
    assert (found.word, found.reason) == ("reproduced", "")
    assert [cell.name for cell in found.cells] == ["mlp", "cnn"]
    assert list(found.cells[0].values) == list(SEEDS)
    assert found.sentence.startswith("Reproduced: 50.0 points (")
    assert found.sentence.endswith("the threshold is at least 20 points.")


def test_not_reproduced_if_one_cell_is_outside():
    good, bad = rows(models=("mlp",)), rows(models=("cnn",), errors=(0.1, 0.2))
    found = verdict(claim(), good + bad)
    assert found.word == "not reproduced"
    assert found.decisive.name == "cnn"
    assert "in cnn (farthest of 2 cells)" in found.sentence


def test_no_verdict_where_the_interval_straddles():
    found = verdict(claim(wants=at_least(50, POINTS)))
    assert (found.word, found.reason) == ("no verdict", "straddles")
    assert "too close to the threshold" in found.sentence


def test_a_cell_that_is_outside_is_not_enough_among_many():
    """One of 20 equal cells at 2% happens in a third of all cases."""
    good = rows(models=[f"m{i}" for i in range(19)])
    bad = rows(models=("bad",), errors=(0.1, 0.2), spread=0.045)
    assert verdict(claim(), bad).word == "not reproduced"
    found = verdict(claim(), good + bad)
    assert (found.word, found.decisive.name) == ("no verdict", "bad")
    assert "not clearly enough for so many cells" in found.sentence


def test_equivalence():
    small = rows(errors=(0.10, 0.101), spread=0.002)
    assert verdict(claim(wants=between(-3, 3, POINTS)), small).word == "reproduced"
    assert verdict(claim(wants=between(-3, 3, POINTS))).word == "not reproduced"


def test_one_seed_gives_no_verdict():
    found = verdict(claim(), rows(seeds=[20]))
    assert (found.word, found.reason) == ("no verdict", "one seed")
    assert "its spread is unknown" in found.sentence


def test_a_missing_run_gives_no_verdict_whatever_the_rest_says():
    some = rows()
    found = verdict(claim(), some[1:], missing=[{k: some[0][k] for k in FIELDS}])
    assert (found.word, found.reason) == ("no verdict", "incomplete")
    assert "1 of 10 runs is missing (model=mlp, p=0, seed=20" in found.sentence


def test_a_whole_missing_seed_is_no_smaller_sample():
    some = rows()
    gone = [{k: row[k] for k in FIELDS} for row in some if row["seed"] == 20]
    assert verdict(claim(), [row for row in some if row["seed"] != 20], gone).reason == "incomplete"


def test_a_diverged_run():
    some = [{**row, "diverged": row["seed"] == 21 and row["p"] == 1} for row in rows()]
    assert verdict(claim(), some).reason == "diverged"
    assert [cell.values[21] for cell in verdict(claim(diverges, at_most(90, PERCENT)), some).cells] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("effect", "said"),
    [
        (misspelled, "no field 'eror' in a run; its fields are model, p, seed, n_test, error"),
        (fails, "ZeroDivisionError"),
        (nothing, "is nan; check the fields that it divides"),
        (yes, "returned a bool; use float(...)"),
    ],
)
def test_a_slip_in_an_effect_is_told(effect, said):
    each = claim(effect, every=("model",), where={"p": 1})
    found = verdict(each)
    assert (found.word, found.reason) == ("no verdict", "broken")
    assert said in found.sentence
    assert verdict(each, scale="smoke").reason == "broken"  # so that smoke tests find it


def test_numbers_that_a_unit_cannot_have():
    found = verdict(claim(partial(scaled, by=100)))
    assert found.reason == "broken"
    assert "return the plain number, 0.12 for 12%" in found.sentence


@pytest.mark.parametrize("field", [{"every": ("network",)}, {"where": {"network": "mlp"}}, {"where": {"error": 0.6}}])
def test_cells_are_made_of_settings_only(field):
    """A field of the record would choose among the runs that ended well."""
    found = verdict(claim(**field))
    assert found.reason == "broken"
    assert "in settings, which have" in found.sentence


def test_counted_on_a_field_that_no_setting_has():
    assert "counts on 'n_tests'" in verdict(claim(counted_on="n_tests")).sentence


def test_smoke_gives_no_verdict():
    found = verdict(claim(), scale="smoke")
    assert (found.word, found.reason) == ("no verdict", "smoke")
    assert len(found.cells) == 2


def test_rivals_are_cells():
    found = verdict(claim(by_name))
    assert [cell.name for cell in found.cells] == ["mlp, a", "mlp, b", "cnn, a", "cnn, b"]
    assert found.word == "reproduced"
    assert found.decisive.rival == "b"


def test_limits():
    each = claim(ratio, at_most(4, TIMES), counted_on=None)
    found = verdict(each, rows(errors=(0.1, 0.85)))
    assert found.word == "not reproduced"
    assert "over 8.5" in found.sentence
    assert found.json()["cells"][0]["above"] == list(SEEDS)


def all_there(rows):
    return Checked(len(rows) == 20, f"{len(rows)} runs")


def test_exact():
    each = Exact("all", "All are there.", all_there, PAPER.theorem("Theorem 1"), "20 runs")
    assert verdict(each).word == "exact"
    assert verdict(each, rows(models=("mlp",))).word == "not reproduced"
    assert verdict(each).sentence == "Exact: 20 runs; the threshold is 20 runs."


def test_json_has_the_numbers():
    found = json.loads(json.dumps(verdict(claim(published="40 points", published_at=40)).json(), allow_nan=False))
    assert found["wants"] == [0.2, None]
    assert (found["unit"], found["whose"], found["source"]) == ("points", "paper", "Zhang et al. 2017, Table 1")
    assert found["cells"][0]["seeds"]["20"] == pytest.approx(rows()[1]["error"] - 0.1)
    cell = found["cells"][found["decisive"]]
    assert cell["low"] < cell["mean"] < cell["high"]


def test_what_cannot_be_a_claim():
    with pytest.raises(TrueriskError, match="define it there with def"):
        claim(lambda runs: 1.0)
    with pytest.raises(TrueriskError, match="counted_on"):
        claim(counted_on=None)
    with pytest.raises(TrueriskError, match="small letters"):
        Claim("A Gap", "It is.", gap, at_least(1, PLAIN), OURS)
    with pytest.raises(TrueriskError, match="lower end first"):
        between(3, -3, POINTS)
    assert claim(pilot="a trial with seeds 0 to 2 gave 45 points").group == "trial"


def test_the_spread_of_a_share_is_at_least_one_example():
    """All seeds agree to the digit, on 10 examples: the interval is as wide as one of them makes it."""
    some = [{**row, "n_test": 10} for row in rows(spread=0.0)]
    found = verdict(claim(first_error, at_least(55, PERCENT)), some)
    assert found.word == "no verdict"
    assert verdict(claim(first_error, at_least(55, PERCENT)), rows(spread=0.0)).word == "reproduced"


def sometimes_nothing(runs):
    return {} if runs.present[0]["seed"] in (20, 21) else gap(runs)


def sometimes_other(runs):
    return {"b" if runs.present[0]["seed"] == 20 else "a": gap(runs)}


def endless(runs):
    return math.inf


@pytest.mark.parametrize(
    ("effect", "said"),
    [(sometimes_nothing, "returned no number"), (sometimes_other, "other rivals in other seeds"), (endless, "is inf")],
)
def test_no_seed_is_dropped_by_an_effect(effect, said):
    found = verdict(claim(effect))
    assert found.reason == "broken"
    assert said in found.sentence


@pytest.mark.parametrize("field", ["model", "seed"])
def test_no_run_is_dropped_because_it_lacks_a_field(field):
    some = rows()
    del some[3][field]
    found = verdict(claim(), some)
    assert found.reason == "broken"
    assert f"no field '{field}'" in found.sentence


def test_seeds_are_integers():
    """1 and 1.0 would be one seed in a table of seeds."""
    assert "must be an integer" in verdict(claim(), [{**row, "seed": float(row["seed"])} for row in rows()]).sentence


def test_an_exact_claim_is_not_checked_on_survivors():
    each = Exact("all", "All are there.", all_there, PAPER.theorem("Theorem 1"), "20 runs")
    some = rows()
    assert verdict(each, some[1:], missing=some[:1]).reason == "incomplete"
    assert verdict(each, [{**row, "diverged": True} for row in some]).reason == "diverged"
    assert verdict(each, []).reason == "incomplete"
    chosen = Exact("all", "All are there.", all_there, PAPER.theorem("Theorem 1"), "20 runs", where={"error": 0.1})
    assert "in settings, which have" in verdict(chosen).sentence


def says_no(rows):
    return Checked("no", "a text is true")


def test_the_answer_of_an_exact_claim_is_yes_or_no():
    assert verdict(Exact("all", "All are there.", says_no, OURS, "yes")).reason == "broken"


def one(runs):
    return 1.0


def test_a_tie_in_all_seeds_shows_no_difference():
    """Random labels took exactly as long as true ones: that is not longer."""
    found = verdict(claim(one, at_least(1, TIMES), counted_on=None))
    assert (found.word, found.reason) == ("no verdict", "straddles")


def test_an_effect_in_disguise_is_refused():
    """Its code would not be the code that is committed."""
    with pytest.raises(TrueriskError, match="define it there with def"):
        claim(wraps(gap)(lambda runs: 0.0))


@pytest.mark.parametrize(
    "wants",
    [
        at_most(120, PERCENT), at_least(0, PERCENT), at_least(-100, POINTS), at_least(150, PERCENT), at_least(0, TIMES),
        between(-300, 300, POINTS),
    ],
)  # fmt: skip
def test_a_region_that_nothing_can_miss_or_meet(wants):
    with pytest.raises(TrueriskError, match="choose a threshold strictly between"):
        claim(wants=wants)


def test_counted_on_nothing():
    with pytest.raises(TrueriskError, match="at least 1"):
        claim(counted_on=0)
