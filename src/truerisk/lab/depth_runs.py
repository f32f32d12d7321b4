"""The runs of `vanishing-gradients`: gradients through layers and through time, and what deep networks then learn."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.data import Data
from truerisk.data.scaling import normalize, shrink_images
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.nets.deep import deep_convnet, deep_mlp
from truerisk.nets.recurrent import Recurrent, state_derivatives
from truerisk.seeds import derive, seeded_globals

ARMS: dict[str, Setting] = {
    "sigmoid, Xavier": {"activation": "sigmoid", "start": "xavier"},
    "tanh, small start": {"activation": "tanh", "start": "default"},
    "tanh, Xavier": {"activation": "tanh", "start": "xavier"},
    "ReLU, small start": {"activation": "relu", "start": "default"},
    "ReLU, Xavier": {"activation": "relu", "start": "xavier"},
    "ReLU, He": {"activation": "relu", "start": "he"},
    "ReLU, small start, skips": {"activation": "relu", "start": "default", "skips": True},
    "ReLU, He, batch norm": {"activation": "relu", "start": "he", "norm": "batch"},
    "ReLU, He, layer norm": {"activation": "relu", "start": "he", "norm": "layer"},
    "ReLU, He, batch norm, skips": {"activation": "relu", "start": "he", "norm": "batch", "skips": True},
}
CELLS: dict[str, Setting] = {
    "tanh": {"cell": "tanh"},
    "tanh, orthogonal": {"cell": "orthogonal"},
    "LSTM": {"cell": "lstm", "forget": 1.0},
    "LSTM, open gates": {"cell": "lstm", "forget": 4.0},
}
TIMES = (1, 2, 4, 8, 16, 32, 64)
SEQUENCES = 16  # whose derivatives are averaged
CUE, TESTS = 2, 1000  # numbers per step of a sequence; sequences that count errors


def learned(setting: Setting, n_test: int) -> tuple[Data, Data]:
    """Examples of a setting: images small and whitened one by one, columns of tables standardized."""
    s = setting
    train, test = samples(s["data"], s["n"], n_test, derive(s["seed"], "examples"), s.get("data_sha256"))
    return normalize(shrink_images(train, s["side"]), shrink_images(test, s["side"]))


def tensors(data: Data) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(data.X), torch.from_numpy(data.y)


def run_gradients(setting: Setting) -> Record:
    """At the start, for each depth: norms of gradients of the first hidden layer over those of the last.

    ``weights`` is about the matrices from hidden units to hidden units, ``signals`` about the hidden units themselves,
    that is, about what backpropagation has left when it arrives.
    """
    s = setting
    X, y = tensors(learned(s, 1)[0])
    classes = int(y.max()) + 1
    weights, signals = [], []
    for depth in s["depths"]:
        with seeded_globals(derive(s["seed"], "initial weights", depth)):
            net = deep_mlp(X.shape[1:], classes, depth, s["width"], **ARMS[s["arm"]]).double().train()
        hidden: list[Tensor] = []
        for layer in list(net.children())[1:-1]:
            layer.register_forward_hook(keep(hidden))
        F.cross_entropy(net(X.double()), y).backward()
        inner = [m.weight.grad.norm() for m in net.modules() if isinstance(m, nn.Linear)][1:-1]  # type: ignore[union-attr]
        weights.append(_ratio(float(inner[0]), float(inner[-1])))
        signals.append(_ratio(float(hidden[0].grad.norm()), float(hidden[-1].grad.norm())))  # type: ignore[union-attr]
    return {"weights": weights, "signals": signals}


def keep(where: list[Tensor]) -> Callable[[nn.Module, object, Tensor], None]:
    """A hook that keeps outputs, and their gradients once there are any."""

    def hook(_: nn.Module, __: object, out: Tensor) -> None:
        out.retain_grad()
        where.append(out)

    return hook


def _ratio(top: float, bottom: float) -> float:
    return float(f"{max(top, 1e-300) / max(bottom, 1e-300):.5g}")


def train(net: nn.Module, X: Tensor, y: Tensor, setting: Setting) -> bool:
    """SGD with momentum 0.9 and a cosine schedule; whether the loss stayed finite."""
    s = setting
    generator = torch.Generator().manual_seed(derive(s["seed"], "batches"))
    optimizer = torch.optim.SGD(net.parameters(), s["lr"], momentum=0.9)
    net.train()
    for k in range(s["steps"]):
        optimizer.param_groups[0]["lr"] = s["lr"] * 0.5 * (1 + math.cos(math.pi * k / s["steps"]))
        batch = torch.randperm(len(X), generator=generator)[: s["batch"]]
        optimizer.zero_grad()
        loss = F.cross_entropy(net(X[batch]), y[batch])
        loss.backward()
        optimizer.step()
    return math.isfinite(float(loss.detach()))


@torch.no_grad()
def counted(net: nn.Module, X: Tensor, y: Tensor) -> tuple[float, float]:
    """(mean cross-entropy, share of errors) in training mode, all examples as one batch.

    Running averages of batch norm lag behind in short runs; this is about what training has reached.
    """
    net.train()
    logits = net(X)
    return float(F.cross_entropy(logits, y)), float((logits.argmax(dim=1) != y).double().mean())


def run_deep(setting: Setting) -> Record:
    """A network with fully connected layers: its training loss and error after a fixed number of steps."""
    s = setting
    data, _ = learned(s, 1)
    X, y = tensors(data)
    with seeded_globals(derive(s["seed"], "initial weights")):
        net = deep_mlp(X.shape[1:], data.classes, s["depth"], s["width"], **ARMS[s["arm"]])
    finite = train(net, X, y, s)
    loss, error = counted(net, X, y)
    if not finite or not math.isfinite(loss):
        return {"diverged": True}
    return {"loss": min(loss, math.log(data.classes)), "train_error": error, "diverged": False}


def run_plain(setting: Setting) -> Record:
    """A convolutional network with shortcuts or without: errors, and the reach of gradients at the start."""
    s = setting
    data, fresh = learned(s, s["n_test"])
    (X, y), (Xt, yt) = tensors(data), tensors(fresh)
    with seeded_globals(derive(s["seed"], "initial weights")):
        net = deep_convnet(data.input_shape, data.classes, s["depth"], s["width"], s["residual"])
    net.train()
    F.cross_entropy(net(X[: s["batch"]]), y[: s["batch"]]).backward()
    sizes = [float(m.weight.grad.norm()) for m in net.modules() if isinstance(m, nn.Conv2d)][1:]  # type: ignore[union-attr]
    finite = train(net, X, y, s)
    loss, error = counted(net, X, y)
    if not finite or not math.isfinite(loss):
        return {"diverged": True}
    reach, test = _ratio(sizes[0], sizes[-1]), counted(net, Xt, yt)[1]
    return {"loss": loss, "train_error": error, "test_error": test, "reach": reach, "diverged": False}


def run_state(setting: Setting) -> Record:
    """How strongly the state after T steps depends on the first one: mean log10 of the derivative's norm."""
    s, how = setting, CELLS[setting["cell"]]
    with seeded_globals(derive(s["seed"], "initial weights")):
        net = Recurrent(how["cell"], CUE, s["hidden"], 2, how.get("forget", 1.0))
        x = torch.randn(SEQUENCES, TIMES[-1], CUE)
    logs = state_derivatives(net, x, TIMES).mean(dim=1) / math.log(10)
    return {"times": list(TIMES), "logs": [round(float(value), 4) for value in logs]}


def remembered(n: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sequences whose label is the sign of their first number; all later ones are noise."""
    y = torch.randint(0, 2, (n,), generator=generator)
    x = torch.zeros(n, length, CUE)
    x[:, :, 0] = torch.randn(n, length, generator=generator)
    x[:, 0, 0], x[:, 0, 1] = 2.0 * y - 1, 1.0
    return x, y


def run_memory(setting: Setting) -> Record:
    """Adam with clipped gradients on new sequences in every step; the error on sequences that it has not met."""
    s, how = setting, CELLS[setting["cell"]]
    with seeded_globals(derive(s["seed"], "initial weights")):
        net = Recurrent(how["cell"], CUE, s["hidden"], 2, how.get("forget", 1.0))
    generator = torch.Generator().manual_seed(derive(s["seed"], "sequences"))
    optimizer = torch.optim.Adam(net.parameters(), s["lr"])
    for _ in range(s["steps"]):
        x, y = remembered(s["batch"], s["length"], generator)
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        x, y = remembered(TESTS, s["length"], generator)
        return {"test_error": float((net(x).argmax(dim=1) != y).double().mean())}


RUNS: dict[str, Callable[[Setting], Record]] = {
    "gradients": run_gradients,
    "deep": run_deep,
    "plain": run_plain,
    "state": run_state,
    "memory": run_memory,
}
