"""A model that is none: one sentence with what it is and what to give instead."""

import pytest

from truerisk.errors import TrueriskError
from truerisk.nets import architecture


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("m.onnx", "m.onnx is an ONNX graph, but a PyTorch module is needed"),
        ("folder/net.KERAS", "a Keras model"),
        ("w.pt", "w.pt holds weights, not a network; give --weights w.pt"),
        ("last.ckpt", "holds weights"),
        ("w.safetensors", "holds weights"),
        ("resnet18", "torchvision.models:resnet18, your own FILE.py:NAME"),
        ("vit_b_16", "torchvision.models:vit_b_16"),
        ("mpl", "did you mean mlp?"),
        ("covnet:8-16", "did you mean convnet?"),
        ("something", "built-in are mlp, convnet"),
        ("missing.py", "missing.py is a file; name the function, class or module in it, as in --model missing.py:NAME"),
    ],
)
def test_the_real_reason_is_named(name, told):
    with pytest.raises(TrueriskError) as error:
        architecture(name, (1, 8, 8), 10).build(0)
    assert told in str(error.value)


def test_a_python_file_is_read_but_not_run(tmp_path):
    file = tmp_path / "net.py"
    file.write_text("raise SystemExit('it was run')\nclass Block: pass\ndef build(): pass\n")
    with pytest.raises(TrueriskError, match=r"as in --model .*net\.py:build"):
        architecture(str(file), (4,), 2)
    file.write_text("def broken(:")
    with pytest.raises(TrueriskError, match=r"net\.py:NAME"):
        architecture(str(file), (4,), 2)


def test_a_file_with_a_name_is_not_refused(tmp_path):
    file = tmp_path / "net.py"
    file.write_text("from torch import nn\ndef build(): return nn.Linear(4, 2)\n")
    assert architecture(f"{file}:build", (4,), 2).build(0).out_features == 2
