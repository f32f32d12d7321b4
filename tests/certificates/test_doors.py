"""Networks and inputs as new users have them, all the way: certify, verify, predict, measure, symmetry, tour."""

import hashlib
import json
from dataclasses import replace

import doors
import numpy as np
import pytest
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import nn

import truerisk
from truerisk.certificates import Certificate
from truerisk.data import load, load_inputs
from truerisk.data.matching import match_classes
from truerisk.measures import MEASURES
from truerisk.nets import Adapted
from truerisk.nets.graph import flat

DIGITS = load("digits").take(range(500))
OBJECTS = [doors.HuggingFace, doors.WithHidden, doors.Lone, doors.Pair, doors.DataClass]
ONE = {
    "[N, 1]": (doors.OneLogit, None),
    "[N]": (lambda: doors.OneLogit(flat=True), None),
    "probabilities": (lambda: doors.OneLogit(sigmoid=True), "probabilities"),
}


def there_and_back(cert, folder, model, data):
    """Save, verify, load, predict: the bound confirmed, and the predictions of the loaded certificate."""
    cert.save(folder)
    assert truerisk.verify(folder, data=data, model=model).claimed == cert.risk_bound
    loaded = Certificate.load(folder, model)
    X = data[0] if isinstance(data, tuple) else data.X
    again = loaded.predictor(X, seed=3)
    assert np.array_equal(again, cert.predictor(X, seed=3))
    return again


# ---- outputs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_is_certified_as_its_logits(kind, tmp_path):
    plain = truerisk.certify(doors.Plain, DIGITS, epochs=3)
    cert = truerisk.certify(kind, DIGITS, epochs=3)
    assert cert.risk_bound == plain.risk_bound
    labels = there_and_back(cert, tmp_path, kind, DIGITS)
    assert np.array_equal(labels, plain.predictor(DIGITS.X))


@pytest.mark.parametrize(
    "method", ["pac-bayes-kl", "single-draw", "progressive", "pick-to-learn", "description-length"]
)
def test_every_method_takes_an_object(method, tmp_path):
    options = {"draws": 2000} if method == "pac-bayes-kl" else {"rounds": 2} if method == "pick-to-learn" else {}
    cert = truerisk.certify(doors.Pair, DIGITS, method=method, epochs=1, options=options)
    assert len(there_and_back(cert, tmp_path, doors.Pair, DIGITS)) == len(DIGITS)


def test_an_own_training_gets_the_own_network(tmp_path):
    """With the outputs that its author knows, and the dataset with the author's integers."""
    seen = []

    def fit(module, dataset):
        seen.append((type(module), type(module(dataset.tensors[0][:2])), dataset.tensors[0].dtype))

    cert = truerisk.certify(doors.Pair, DIGITS, fit=fit)
    assert set(seen) == {(doors.Pair, tuple, torch.float32)}
    there_and_back(cert, tmp_path / "pair", doors.Pair, DIGITS)
    seen.clear()
    cert = truerisk.certify(doors.Tokens, doors.sentences(), fit=fit)
    assert seen[0][2] == torch.int64


def test_given_weights_fit_the_own_network(tmp_path):
    torch.manual_seed(1)
    trained = doors.Pair()
    for weights in (trained.state_dict(), {f"module.{k}": v for k, v in trained.state_dict().items()}):
        cert = truerisk.certify(doors.Pair, fresh=DIGITS, weights=weights)
        assert isinstance(cert.evidence.network, Adapted)
        wrong = (trained(torch.from_numpy(DIGITS.X))[0].argmax(1).numpy() != DIGITS.y).sum()
        assert cert.record.counts["floor"] == wrong
    there_and_back(cert, tmp_path, doors.Pair, DIGITS)


@pytest.mark.parametrize("name", ONE)
def test_one_logit_is_certified(name, tmp_path):
    build, outputs = ONE[name]
    data = doors.tumors()
    cert = truerisk.certify(build, data, epochs=10, outputs=outputs, two_sided=True)
    assert cert.record.settings.outputs == (outputs or "logits")
    labels = there_and_back(cert, tmp_path, build, data)
    own = cert.evidence.network.network(torch.from_numpy(data[0])).detach().reshape(-1).numpy()
    assert np.array_equal(labels, own > (0.5 if outputs else 0))
    assert cert.risk_bound < 0.4  # guessing: 0.63


def test_one_logit_is_trained_as_its_two_output_twin():
    """The same function, so the same errors; only the zero is not trained."""
    torch.manual_seed(0)
    one = doors.OneLogit()
    certs = [truerisk.certify(net, fresh=doors.tumors()) for net in (one, doors.TwoLogits(one))]
    assert certs[0].risk_bound == certs[1].risk_bound


def test_what_one_output_means_is_part_of_the_certificate(tmp_path):
    """Another meaning is another predictor: the draws and the hash of the settings change, and verify reads it."""
    build, data = ONE["probabilities"][0], doors.tumors()
    cert = truerisk.certify(build, data, epochs=3, outputs="probabilities")
    cert.save(tmp_path)
    file = tmp_path / "certificate.json"
    file.write_text(file.read_text().replace('"outputs": "probabilities"', '"outputs": "logits"'))
    with pytest.raises(truerisk.VerificationError):
        truerisk.verify(tmp_path, data=data, model=build)
    file.write_text(file.read_text().replace(',\n    "outputs": "logits"', ""))
    with pytest.raises(truerisk.TrueriskError, match=r"give the certified model|cannot be used"):
        truerisk.verify(tmp_path, data=data, model=build)


class Packed(nn.Module):
    """Counts the tokens that are not padding, and cannot run on an input of zeros."""

    def __init__(self):
        super().__init__()
        self.words, self.rnn, self.head = (
            nn.Embedding(doors.VOCABULARY, 4),
            nn.GRU(4, 4, batch_first=True),
            nn.Linear(4, 1),
        )

    def forward(self, ids):
        lengths = (ids != 0).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(self.words(ids), lengths, batch_first=True, enforce_sorted=False)
        return self.head(self.rnn(packed)[1][-1])


def test_a_network_that_does_not_run_on_zeros(tmp_path):
    data = doors.sentences()
    assert set(there_and_back(truerisk.certify(Packed, data, epochs=1), tmp_path, Packed, data)) <= {0, 1}


def test_one_logit_says_how_it_is_read():
    cert = truerisk.certify(doors.OneLogit, doors.tumors(), epochs=1)
    assert any("one output per example, which you mean as logits: class 1 is answered above 0" in line
               for line in cert.assumptions)  # fmt: skip


def test_probabilities_that_are_none_are_contradicted(tmp_path, monkeypatch):
    """A forger who reads logits at another threshold would have a second predictor to choose from."""
    from truerisk.nets import adapt

    torch.manual_seed(0)
    net, data = doors.OneLogit(), doors.tumors()
    with monkeypatch.context() as forged:
        forged.setattr(adapt, "_meaning", lambda *_: "probabilities")
        truerisk.certify(net, fresh=data).save(tmp_path)
    with pytest.raises(truerisk.VerificationError, match="are not probabilities"):
        truerisk.verify(tmp_path, data=data, model=net)


def test_a_built_in_network_has_no_single_output(tmp_path):
    truerisk.certify("mlp:4", "digits", epochs=1).save(tmp_path)
    file = tmp_path / "certificate.json"
    text = file.read_text()
    file.write_text(text.replace('"own_rows": 0', '"own_rows": 0,\n    "outputs": "logits"'))
    assert file.read_text() != text
    with pytest.raises(truerisk.VerificationError):
        truerisk.verify(tmp_path)


def test_one_logit_of_a_built_in_shape_is_charged_like_the_built_in_network():
    digits = load("digits")
    data = (digits.X.reshape(-1, 64), digits.y % 2)
    one, two = (
        truerisk.certify(lambda k=k: nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, k)), data, epochs=1)
        for k in (1, 2)
    )
    assert one.record.settings.tried == two.record.settings.tried > 1


def _nudge(folder, name):
    """Change the numbers of a stored file by 1e-6, and its hash."""
    stored = load_tensors((folder / name).read_bytes())
    content = save_tensors({key: value * (1 + 1e-6) for key, value in stored.items()})
    (folder / name).write_bytes(content)
    claims = json.loads((folder / "certificate.json").read_text())
    claims["files"][name] = hashlib.sha256(content).hexdigest()
    (folder / "certificate.json").write_text(json.dumps(claims))


def test_a_count_of_few_draws_is_repeated(tmp_path, monkeypatch):
    """Chance explains a count of four fifths where there are few draws; the certificate's own draws do not."""
    from dataclasses import replace

    import truerisk.pacbayes as pacbayes

    honest = pacbayes.gibbs_risk
    with monkeypatch.context() as forged:
        forged.setattr(
            pacbayes,
            "gibbs_risk",
            lambda *a, **k: (lambda e: replace(e, errors=int(0.8 * e.errors), sure=0))(honest(*a, **k)),
        )
        cert = truerisk.certify("mlp:8", DIGITS, method="pac-bayes-kl", prior="init", epochs=30, options={"draws": 1})
    cert.save(tmp_path)
    with pytest.raises(truerisk.VerificationError, match=r"own draws give|new draws give"):
        truerisk.verify(tmp_path, data=DIGITS)
    _nudge(tmp_path, "prior.safetensors")  # as another processor's rounding would: that must not excuse the count
    with pytest.raises(truerisk.VerificationError, match=r"own draws give|new draws give"):
        truerisk.verify(tmp_path, data=DIGITS)
    cert = truerisk.certify("mlp:8", DIGITS, method="pac-bayes-kl", prior="init", epochs=30, options={"draws": 1})
    cert.save(tmp_path, force=True)
    assert truerisk.verify(tmp_path, data=DIGITS).claimed == cert.risk_bound


# ---- integers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [doors.Bag, doors.Tokens])
@pytest.mark.parametrize("method", [None, "pac-bayes-kl", "single-draw"])
def test_token_ids_stay_integers(kind, method, tmp_path):
    data = doors.sentences()
    options = {"draws": 1000} if method == "pac-bayes-kl" else {}
    cert = truerisk.certify(kind, data, method=method, epochs=2, options=options)
    assert cert.record.data.dtype == "int64"
    there_and_back(cert, tmp_path, kind, data)


def test_predicting_takes_what_was_certified(tmp_path):
    cert = truerisk.certify(doors.Tokens, doors.sentences(), epochs=1)
    ids = doors.sentences(20)[0]
    with pytest.raises(truerisk.TrueriskError, match="the predictor takes integers"):
        cert.predictor(ids.astype(np.float32))
    ids[7, 3] = doors.VOCABULARY
    with pytest.raises(truerisk.TrueriskError, match="does not run on these inputs"):
        cert.predictor(ids)


def test_integers_for_a_network_of_real_numbers_are_the_same_numbers(tmp_path):
    """The same certificate, whichever type the file has; either verifies it."""
    X = np.round(16 * DIGITS.X).astype(np.int64)
    certs = [truerisk.certify("mlp:8", (x, DIGITS.y), epochs=1) for x in (X, X.astype(np.float32))]
    assert certs[0].record.data == certs[1].record.data
    assert certs[0].risk_bound == certs[1].risk_bound
    certs[0].save(tmp_path)
    for x in (X, X.astype(np.int16), X.astype(np.float32)):
        truerisk.verify(tmp_path, data=(x, DIGITS.y))
    assert np.array_equal(certs[0].predictor(X), certs[0].predictor(X.astype(np.float64)))


def test_other_token_ids_are_other_data(tmp_path):
    ids, y = doors.sentences()
    truerisk.certify(doors.Bag, (ids, y), epochs=1).save(tmp_path)
    with pytest.raises(truerisk.VerificationError, match="not the certified data"):
        truerisk.verify(tmp_path, data=(ids.astype(np.float32), y), model=doors.Bag)


def test_equal_rows_are_found_across_types():
    """Copies of training rows do not pass as fresh because another file holds them as floats."""
    ids, y = doors.sentences()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(doors.LENGTH, 2))
    for fresh, seen in ((ids, ids.astype(np.float32)), (ids.astype(np.float64), ids)):
        with pytest.raises(truerisk.TrueriskError, match="equal one in the data that the network was trained on"):
            truerisk.certify(net, fresh=(fresh, y), trained_on=(seen, y))


def test_other_inputs_that_the_network_does_not_take_are_refused():
    ids, y = doors.sentences()
    torch.manual_seed(0)
    net = doors.Tokens()
    outside = np.where(ids == 3, doors.VOCABULARY, ids)
    with pytest.raises(truerisk.TrueriskError, match="does not run on inputs of shape"):
        truerisk.certify(net, fresh=(ids[:200], y[:200]), trained_on=(outside[200:], y[200:]))
    with pytest.raises(truerisk.TrueriskError, match="give both as integers"):
        truerisk.certify(net, fresh=(ids[:200], y[:200]), trained_on=(ids[200:].astype(np.float32), y[200:]))
    weights = net.state_dict()
    with pytest.raises(truerisk.TrueriskError, match="does not run on inputs of shape"):
        truerisk.certify(doors.Tokens, (ids[:200], y[:200]), weights=weights, unlabelled=outside[200:])


# ---- untrained networks and other names ------------------------------------------------------------------------


def test_fresh_data_for_an_untrained_network_is_refused():
    with pytest.raises(truerisk.TrueriskError, match="builds an untrained one; give its --weights"):
        truerisk.certify(doors.Plain, fresh=DIGITS)
    trained = doors.Plain()
    assert truerisk.certify(trained, fresh=DIGITS).risk_bound <= 1
    assert truerisk.certify(lambda: trained, fresh=DIGITS).risk_bound <= 1  # loads its weights itself


def test_labels_from_1_get_a_note():
    cert = truerisk.certify("mlp:4", (DIGITS.X, DIGITS.y + 1), epochs=1)
    assert any("No example has label 0" in line for line in cert.record.warnings)
    cert = truerisk.certify("mlp:4", (DIGITS.X, DIGITS.y), epochs=1)
    assert not any("No example has label 0" in line for line in cert.record.warnings)


def test_files_that_number_their_classes_differently_are_refused(tmp_path):
    for name, classes in (("train", "abc"), ("fresh", "ac")):
        lines = [f"{i / 7},{i % 5},{classes[i % len(classes)]}" for i in range(30)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["u,v,label", *lines]))
    torch.manual_seed(0)
    net = nn.Linear(2, 3)
    with pytest.raises(truerisk.TrueriskError, match="the class 'b' is in one of them only"):
        truerisk.certify(net, fresh=tmp_path / "fresh.csv", trained_on=tmp_path / "train.csv", repeats_are_draws=True)


# ---- measure, symmetry, tour -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_is_measured_as_its_logits(kind):
    torch.manual_seed(0)
    plain, other = doors.Plain(), kind()
    other.load_state_dict(plain.state_dict())
    names = ["parameters", "spectral-complexity", "path-norm", "margin"]
    names = [name for name in names if name in MEASURES]
    assert len(names) > 2
    before, after = (truerisk.measure(net, DIGITS, only=names) for net in (plain, other))
    assert {name: before[name] for name in names} == {name: after[name] for name in names}


def test_one_logit_is_measured_as_its_two_output_twin():
    """All that is made of layers, and every bound that does not count parameters."""
    torch.manual_seed(0)
    one = doors.OneLogit()
    data = doors.tumors()
    found, twin = (truerisk.measure(net, data, rows=100) for net in (one, doors.TwoLogits(one)))
    assert found.skipped.keys() ^ twin.skipped.keys() <= {n for n in MEASURES if MEASURES[n].family == "sharpness"}
    alike = {n for n in twin.values.keys() & found.values.keys() if np.isclose(found[n], twin[n], rtol=1e-6)}
    assert len(alike) >= 40
    # Those that differ know that the zero is no parameter: counts, gradients, perturbations of weights.
    others = {MEASURES[name].family for name in twin.values.keys() - alike}
    assert not others & {"norms", "products", "margins", "paths", "normalized"}
    assert {n for n in twin.bounds if not np.isclose(found[n], twin[n], rtol=1e-6)} <= {"float-count"}


def test_token_ids_are_measured_but_for_what_changes_inputs():
    found = truerisk.measure(doors.Tokens(), doors.sentences(), rows=50)
    assert found["parameters"] == sum(p.numel() for p in doors.Tokens().parameters())
    assert "integers" in found.skipped["loss-sensitivity"]


@pytest.mark.parametrize(("kind", "dim"), [(doors.HuggingFace, 16), (doors.Lone, 16), (doors.Pair, 0)])
def test_symmetries_of_objects(kind, dim):
    """The hidden units can be rescaled, unless the network shows them as an output."""
    torch.manual_seed(0)
    net, x = kind(), torch.randn(3, 64)
    sym = truerisk.find_symmetry(net, x[:1])
    assert sym.dim == dim
    twin = sym.rescale(net, sym.random(seed=0))
    assert type(twin) is kind
    before, after = (next(iter(flat(each(x)))) for each in (net, twin))
    torch.testing.assert_close(before, after)
    assert truerisk.path_norm(net, x[:1]) > 0


def test_symmetries_of_token_ids():
    assert truerisk.find_symmetry(doors.Tokens(), torch.zeros(1, doors.LENGTH, dtype=torch.int64)).dim == 16


@pytest.mark.long
def test_a_tour_with_one_logit():
    found = truerisk.tour(doors.OneLogit, doors.tumors(), minutes=5, workers=1)
    assert found.labels.true_labels.risk_upper < 0.2 < found.labels.random_labels.risk_lower
    assert found.twin is not None


def test_search_takes_them():
    found = truerisk.search([doors.OneLogit], doors.tumors(), lrs=[0.01], epochs=2)
    assert found.winner.errors < found.winner.n
    with pytest.raises(truerisk.TrueriskError, match="some of the models take integers"):
        truerisk.search(["mlp:4", doors.Bag], doors.sentences(), lrs=[0.01], epochs=1)


# ---- columns and classes by name -------------------------------------------------------------------------------


def table(path, columns, classes, n=30, seed=0):
    """A file with these columns, whose numbers depend on the column's name only, and these classes by turns."""
    rng = np.random.default_rng(seed)
    values = {name: rng.integers(0, 10**6, n) / 7 for name in sorted(columns)}
    lines = [
        ",".join([*(repr(float(values[name][i])) for name in columns), classes[i % len(classes)]]) for i in range(n)
    ]
    path.write_text("\n".join([",".join([*columns, "label"]), *lines]))
    return path


@pytest.fixture
def linear():
    torch.manual_seed(0)
    return nn.Linear(2, 4)


def test_columns_of_the_training_data_are_matched_by_name(tmp_path, linear):
    fresh = table(tmp_path / "fresh.csv", "uv", "01")
    same = table(tmp_path / "same.csv", "vu", "01")
    with pytest.raises(truerisk.TrueriskError, match="30 of 30 fresh examples"):
        truerisk.certify(linear, fresh=fresh, trained_on=same)
    straight, swapped = (table(tmp_path / f"{names}.csv", names, "01", seed=1) for names in ("uv", "vu"))
    certs = [truerisk.certify(linear, fresh=fresh, trained_on=each) for each in (straight, swapped)]
    assert certs[0].to_json()["data"]["feature_names"] == ["u", "v"]
    assert certs[0].to_json()["fit"] == certs[1].to_json()["fit"]
    other = table(tmp_path / "other.csv", "uw", "01", seed=1)
    with pytest.raises(
        truerisk.TrueriskError, match=r"the column 'v' is in one of .* only; give both the same columns"
    ):
        truerisk.certify(linear, fresh=fresh, trained_on=other)


def test_unlabeled_inputs_are_matched_by_name(tmp_path, linear):
    data = table(tmp_path / "data.csv", "uv", "01", n=200)
    inputs = table(tmp_path / "inputs.csv", "vu", "01", n=200)
    with pytest.raises(truerisk.TrueriskError, match="200 of 200 unlabeled inputs"):
        truerisk.certify(linear, data, unlabelled=inputs, method="disagreement")


def test_names_on_one_side_and_numbers_on_the_other(tmp_path, linear):
    names = table(tmp_path / "names.csv", "uv", ["1", "2", "3", "3b"])
    numbers = table(tmp_path / "numbers.csv", "uv", "123", seed=1)
    with pytest.raises(truerisk.TrueriskError, match="the label '3b' of the training data is not a class"):
        truerisk.certify(linear, fresh=numbers, trained_on=names)
    same = table(tmp_path / "same.csv", "uv", ["1", "2", "3"], seed=1)
    found = match_classes(load(same), load(names), "the training data")
    assert found.y.tolist() == [i % 3 for i in range(30)]  # 1 is class 0 of the file with names
    assert found.class_names == ("1", "2", "3", "3b")
    assert match_classes(load(same), load(numbers), "the training data").y.tolist() == [1 + i % 3 for i in range(30)]
    words = replace(load(numbers), class_names=("1", "0", "3", "2"))
    assert match_classes(words, load(numbers), "x").y.tolist() == [int("1032"[1 + i % 3]) for i in range(30)]
    with pytest.raises(truerisk.TrueriskError, match=r"number their classes differently .their order differs"):
        match_classes(words, replace(words, class_names=("0", "1", "2", "3")), "x")


# ---- data, all the way -----------------------------------------------------------------------------------------

COLORS = ("blue", "red")


def picture(color, rng):
    image = rng.integers(0, 60, (6, 6, 3), dtype=np.uint8)
    image[..., 0 if color == "red" else 2] += 150
    return image


def image_folder(place):
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for color in COLORS:
        (place / color).mkdir(parents=True)
        for number in range(30):
            image.fromarray(picture(color, rng)).save(place / color / f"{number}.png")
    return place


def colors_table(place):
    rng = np.random.default_rng(0)
    rows = [f"{a:.4f},{b:.4f},{COLORS[int(a > 0)]}" for a, b in rng.standard_normal((60, 2))]
    place.mkdir()
    (place / "table.csv").write_text("\n".join(["a,b,color", *rows]))
    return f"{place / 'table.csv'}:color"


def archive(place):
    place.mkdir()
    np.savez(place / "cells.npz", images=DIGITS.X, targets=DIGITS.y)
    return place / "cells.npz"


def tensors(place):
    place.mkdir()
    torch.save((torch.from_numpy(DIGITS.X), torch.from_numpy(DIGITS.y)), place / "pair.pt")
    return place / "pair.pt"


def loader(place):
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(DIGITS.X), torch.from_numpy(DIGITS.y))
    return torch.utils.data.DataLoader(dataset, batch_size=32, shuffle=True)


@pytest.mark.parametrize("source", [image_folder, colors_table, archive, tensors, loader])
def test_data_as_users_have_it(source, tmp_path):
    """certify, verify with the same thing, predict on its inputs, measure, and symmetry of what was trained."""
    given = source(tmp_path / "data")
    data = load(given)
    cert = truerisk.certify("mlp:16", given, epochs=20)
    cert.save(tmp_path / "out")
    assert truerisk.verify(tmp_path / "out", data=given).claimed == cert.risk_bound
    inputs = given if isinstance(given, torch.utils.data.DataLoader) else load_inputs(given)
    labels = Certificate.load(tmp_path / "out").predictor(data.X if inputs is given else inputs.X)
    rows = cert.evidence.parts.certify
    assert (labels != data.y)[rows].sum() == cert.record.counts["floor"]  # the very predictor that was certified
    network = cert.evidence.network
    assert truerisk.measure(network, given, only=["parameters"])["parameters"] > 0
    assert truerisk.find_symmetry(network, torch.from_numpy(data.floats().blank)).dim == 16
    assert cert.record.data.class_names == (COLORS if source in (image_folder, colors_table) else ())
