"""Weights from files: never runs code, never leaves anything but one clear error."""

import os
import pickle
import random
import warnings
import zipfile

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.nets import load_weights, read_weights


def net():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def test_safetensors_and_state_dicts_come_back_exactly(tmp_path):
    trained = net()
    save_file(trained.state_dict(), tmp_path / "w.safetensors")
    torch.save(trained.state_dict(), tmp_path / "w.pt")
    torch.save({"state_dict": trained.state_dict(), "epoch": 3}, tmp_path / "nested.pt")
    torch.save(trained.state_dict(), tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    for name in ("w.safetensors", "w.pt", "nested.pt", "old.pth"):
        module = net()
        assert not same(module.state_dict(), trained.state_dict())
        load_weights(module, tmp_path / name)
        assert same(module.state_dict(), trained.state_dict()), name
        assert same(read_weights(str(tmp_path / name)), trained.state_dict()), name


class Touch:
    """Its unpickling creates a file: what a real attack would replace by something worse."""

    def __init__(self, path, call):
        self.path, self.call = str(path), call

    def __reduce__(self):
        if self.call == "system":
            return os.system, (f"touch '{self.path}'",)
        if self.call == "exec":
            return exec, (f"open({self.path!r}, 'w').close()",)
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("call", ["system", "exec", "mkdir"])
@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin", ".pkl", ".safetensors", ""])
@pytest.mark.parametrize("how", ["torch", "torch legacy", "pickle 2", "pickle 5"])
def test_a_pickle_never_runs_code(tmp_path, call, suffix, how):
    mark = tmp_path / "mark"
    payload = {"0.weight": Touch(mark, call)}
    path = tmp_path / f"evil{suffix}"
    if how.startswith("pickle"):
        path.write_bytes(pickle.dumps(payload, protocol=int(how[-1])))
    else:
        torch.save(payload, path, _use_new_zipfile_serialization=how == "torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about new pickle protocols
        with pytest.raises(TrueriskError):
            read_weights(path)
    assert not mark.exists()


@pytest.mark.parametrize("call", ["system", "exec", "mkdir"])
def test_the_payload_above_does_run_where_it_is_let(tmp_path, call):
    """Otherwise the test above would prove nothing."""
    mark = tmp_path / "mark"
    pickle.loads(pickle.dumps(Touch(mark, call)))
    assert mark.exists()


@pytest.mark.parametrize("name", ["absent.pt", "absent.safetensors", "."])
def test_missing_files(tmp_path, name):
    with pytest.raises(TrueriskError, match="does not exist"):
        read_weights(tmp_path / name)


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"hello", b"PK\x03\x04" + b"x" * 50, b"\x80\x02."])
@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_rubbish(tmp_path, content, suffix):
    path = tmp_path / f"w{suffix}"
    path.write_bytes(content)
    with pytest.raises(TrueriskError):
        read_weights(path)


def test_a_zip_of_something_else(tmp_path):
    with zipfile.ZipFile(tmp_path / "w.pt", "w") as archive:
        archive.writestr("readme.txt", "nothing")
    with pytest.raises(TrueriskError):
        read_weights(tmp_path / "w.pt")


@pytest.mark.parametrize("kind", ["zip", "legacy", "safetensors"])
def test_damaged_files_give_weights_or_one_clear_error(tmp_path, kind):
    """A download that broke off or a flipped byte: never another exception, which would be a traceback."""
    path = tmp_path / ("w.safetensors" if kind == "safetensors" else "w.pt")
    if kind == "safetensors":
        save_file(net().state_dict(), path)
    else:
        torch.save(net().state_dict(), path, _use_new_zipfile_serialization=kind == "zip")
    whole, dice, others = path.read_bytes(), random.Random(0), {}
    for _ in range(250):
        content = bytearray(whole)
        if dice.random() < 0.3:
            content = content[: dice.randrange(len(content))]
        else:
            content[dice.randrange(len(content))] = dice.randrange(256)
        path.write_bytes(bytes(content))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                load_weights(net(), path)
        except TrueriskError:
            pass
        except Exception as error:
            others[type(error).__name__] = str(error)
    assert not others


@pytest.mark.parametrize(
    "content",
    [
        [1, 2],
        None,
        torch.zeros(3),
        {"0.weight": 3.0},
        {"state_dict": None},
        {1: torch.zeros(1)},
        {"state_dict": {2: torch.zeros(1)}},
    ],
)
def test_what_is_no_state_dict(tmp_path, content):
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(TrueriskError):
        load_weights(net(), tmp_path / "w.pt")


def test_a_whole_pickled_module_is_refused(tmp_path):
    torch.save(net(), tmp_path / "w.pt")
    with pytest.raises(TrueriskError, match="state_dict"):
        read_weights(tmp_path / "w.pt")


@pytest.mark.parametrize("change", ["shape", "missing", "extra"])
def test_weights_that_do_not_fit(tmp_path, change):
    weights = net().state_dict()
    if change == "shape":
        weights["0.weight"] = torch.zeros(3, 4)
    elif change == "missing":
        del weights["0.weight"]
    else:
        weights["more"] = torch.zeros(1)
    torch.save(dict(weights), tmp_path / "w.pt")
    with pytest.raises(TrueriskError, match=r"0\.weight|more"):
        load_weights(net(), tmp_path / "w.pt")


# ---- wrappings of checkpoints ----------------------------------------------------------------------------------


class Wrapped(nn.Module):
    """A network in which only one part has parameters: what is around it has buffers at most."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.5, 0.4, 0.3]))
        self.inner = net()

    def forward(self, x):
        return self.inner(x - self.mean)


def lightning(trained, prefix="model."):
    """What a Trainer of Lightning writes, by hand."""
    return {
        "epoch": 3,
        "global_step": 120,
        "pytorch-lightning_version": "2.5.0",
        "state_dict": {f"{prefix}{name}": value for name, value in trained.state_dict().items()},
        "optimizer_states": [{"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"lr": 0.1}]}],
        "lr_schedulers": [],
        "callbacks": {},
        "hparams_name": "kwargs",
    }


@pytest.mark.parametrize(
    ("wrap", "said"),
    [
        (lambda t: {f"module.{k}": v for k, v in t.items()}, "'module.' of the names was removed"),
        (lambda t: {f"_orig_mod.{k}": v for k, v in t.items()}, "'_orig_mod.'"),
        (lambda t: {f"_orig_mod.module.{k}": v for k, v in t.items()}, "'_orig_mod.module.'"),
        (lambda t: {"model": dict(t), "optimizer": {"lr": 0.1}, "epoch": 7}, "its entry 'model' is used"),
        (lambda t: {"model_state_dict": dict(t), "loss": 0.3}, "its entry 'model_state_dict'"),
        (lambda t: {"state_dict": {f"net.{k}": v for k, v in t.items()}}, "'net.'"),
        (lambda t: {"model": {"state_dict": dict(t)}}, "its entry 'model.state_dict'"),
    ],
)
def test_wrappings_are_undone_and_said(tmp_path, capsys, monkeypatch, wrap, said):
    monkeypatch.setattr("truerisk.progress._enabled", True)
    trained, module = net(), net()
    torch.save(wrap(trained.state_dict()), tmp_path / "w.pt")
    load_weights(module, tmp_path / "w.pt")
    assert same(module.state_dict(), trained.state_dict())
    assert said in capsys.readouterr().err


def test_a_lightning_checkpoint(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("truerisk.progress._enabled", True)
    trained, module = net(), net()
    content = lightning(trained)
    content["state_dict"]["criterion.weight"] = torch.ones(2)  # of the loss: no part of the network
    torch.save(content, tmp_path / "last.ckpt")
    load_weights(module, tmp_path / "last.ckpt")
    assert same(module.state_dict(), trained.state_dict())
    said = capsys.readouterr().err
    assert "its entry 'state_dict' is used" in said
    assert "the prefix 'model.' of the names was removed, and 1 entries outside of it were left out" in said


def test_a_plain_file_says_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("truerisk.progress._enabled", True)
    torch.save(net().state_dict(), tmp_path / "w.pt")
    load_weights(net(), tmp_path / "w.pt")
    assert capsys.readouterr().err == ""


def test_weights_of_the_only_part_with_parameters(tmp_path):
    trained, module = net(), Wrapped()
    torch.save(trained.state_dict(), tmp_path / "w.pt")
    load_weights(module, tmp_path / "w.pt")
    assert same(module.inner.state_dict(), trained.state_dict())
    assert module.mean.tolist() == Wrapped().mean.tolist()


@pytest.mark.parametrize(
    "change",
    [
        lambda t: {f"module.{k}": v for k, v in t.items() if k != "0.bias"},  # one is missing
        lambda t: {f"module.{k}": v[:1] for k, v in t.items()},  # another shape
        lambda t: {f"module.{k}" if k != "0.bias" else f"other.{k}": v for k, v in t.items()},  # two prefixes
        lambda t: {**t, "extra": torch.zeros(1)},
    ],
)
def test_nothing_is_loaded_in_part(change):
    trained, module = net(), net()
    before = {k: v.clone() for k, v in module.state_dict().items()}
    with pytest.raises(TrueriskError, match="do not fit the model"):
        load_weights(module, change(trained.state_dict()))
    assert same(
        {k: v for k, v in module.state_dict().items() if "weight" in k}, {k: before[k] for k in before if "weight" in k}
    )


def test_two_networks_in_one_checkpoint_are_not_guessed():
    """An average of the weights next to them (EMA), or a teacher next to its student."""
    one, two = net(), net()
    both = {f"net.{k}": v for k, v in one.state_dict().items()} | {f"ema.{k}": v for k, v in two.state_dict().items()}
    with pytest.raises(TrueriskError, match=r"fit in two ways \(the prefix 'ema.' .* 'net.'"):
        load_weights(net(), both)
    copies = {f"{prefix}.{k}": v for k, v in one.state_dict().items() for prefix in ("a", "b")}
    module = net()
    load_weights(module, copies)  # whichever it is
    assert same(module.state_dict(), one.state_dict())


def test_codes_of_a_quantized_network_are_no_weights():
    trained = net().state_dict()
    for change in (lambda v: (100 * v).to(torch.int8), lambda v: v.to(torch.complex64)):
        with pytest.raises(TrueriskError, match="do not fit the model"):
            load_weights(net(), {name: change(value) for name, value in trained.items()})
    module = net()
    load_weights(module, {name: value.half() for name, value in trained.items()})
    assert torch.allclose(module[0].weight, trained["0.weight"], atol=1e-3)


def test_old_checkpoints_lack_the_counters_of_batch_norm():
    def build():
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))

    trained, module = build(), build()
    old = {f"module.{k}": v for k, v in trained.state_dict().items() if not k.endswith("num_batches_tracked")}
    load_weights(module, old)
    assert same(module.state_dict(), trained.state_dict())


def test_two_parts_of_one_shape_are_not_guessed():
    """The checkpoint fits either half: neither is all of the network."""
    both = nn.ModuleDict({"left": net(), "right": net()})
    with pytest.raises(TrueriskError, match="do not fit the model"):
        load_weights(both, net().state_dict())


def test_other_content_is_named(tmp_path):
    torch.save({"epoch": 3, "lr": 0.1}, tmp_path / "a.pt")
    with pytest.raises(TrueriskError, match="a dictionary with epoch, lr, not a state dict"):
        read_weights(tmp_path / "a.pt")
    torch.save([torch.zeros(2)], tmp_path / "b.pt")
    with pytest.raises(TrueriskError, match="holds a list, not a state dict"):
        read_weights(tmp_path / "b.pt")
    torch.save(net(), tmp_path / "whole.pt")
    with pytest.raises(
        TrueriskError, match=r"torch\.nn\.modules\.container\.Sequential, and loading Python objects runs"
    ):
        read_weights(tmp_path / "whole.pt")
