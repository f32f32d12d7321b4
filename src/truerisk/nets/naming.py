"""What a user may have meant by a model that is not one: files of other kinds, and networks of other libraries."""

from __future__ import annotations

import ast
import difflib
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path

from truerisk.errors import TrueriskError

WEIGHTS = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")
OTHERS = {".onnx": "an ONNX graph", ".h5": "a Keras model", ".keras": "a Keras model", ".pb": "a TensorFlow graph",
          ".tflite": "a TensorFlow Lite model", ".pkl": "a pickle", ".joblib": "a pickle"}  # fmt: skip
TORCHVISION = re.compile(
    r"(wide_)?(res|reg|dense|mobile|efficient|squeeze|shuffle|mnas)net\w*\d\w*|alexnet|googlenet|vgg\w*|inception\w*|resnext\w*|"
    r"vit_\w*|swin_\w*|convnext_\w*"
)


def refuse_files(name: str) -> None:
    """Refuse a file that holds no network which could be built; what it is, and what to give."""
    suffix = Path(name).suffix.lower()
    if suffix in WEIGHTS:
        raise TrueriskError(f"{name} holds weights, not a network; give --weights {name} and --model FILE.py:NAME.")
    if suffix in OTHERS:
        raise TrueriskError(
            f"{name} is {OTHERS[suffix]}, but a PyTorch module is needed; give --model FILE.py:NAME, which builds it."
        )
    if suffix == ".py":
        found = _defined_in(Path(name))
        example = f"{name}:{found[0] if found else 'NAME'}"
        raise TrueriskError(f"{name} is a file; name the function, class or module in it, as in --model {example}.")


def unknown(name: str, builtin: Sequence[str]) -> TrueriskError:
    """The error for a name that no built-in network has."""
    close = difflib.get_close_matches(name.partition(":")[0], builtin, n=1)
    if TORCHVISION.fullmatch(name.lower()):
        missing = "" if importlib.util.find_spec("torchvision") else " (once it is installed)"
        hint = f"torchvision's{missing} is torchvision.models:{name}, your own FILE.py:NAME."
    elif close:
        hint = f"did you mean {close[0]}?"
    else:
        hint = f"built-in are {', '.join(builtin)}; your own is FILE.py:NAME."
    return TrueriskError(f"there is no built-in network called {name!r}; {hint}")


def _defined_in(path: Path) -> list[str]:
    """Functions, classes and variables at the top of a file, read without running it."""
    try:
        body = ast.parse(path.read_text()).body
    except (OSError, ValueError, SyntaxError, RecursionError):
        return []
    named = [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    named += [t.id for node in body if isinstance(node, ast.Assign) for t in node.targets if isinstance(t, ast.Name)]
    # A function that builds a network is likelier meant than a class of one of its parts.
    return sorted(named, key=lambda each: each.lower() not in ("build", "model", "net", "make", "create_model"))
