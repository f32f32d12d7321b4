"""Path norms and path lifts stay along the orbits that `find_symmetry` finds; which networks have none is listed."""

import copy
from dataclasses import replace

import pytest
import torch

from truerisk.errors import TrueriskError
from truerisk.symmetry import path_lift, path_norm
from truerisk.symmetry.paths import follow

from .zoo import SMALL, ZOO, small

ORDERS = [{"p": 1}, {"p": 2}, {"p": 3.5}, {"log": True}]
SEEDS = range(3)

# What paths can't follow, with the operation that is named; token ids are no real inputs for a path to start at.
REFUSED = {
    "mlp_squared": "mul",
    "mlp_tanh": "tanh",
    "mlp_gelu": "gelu",
    "half_pinned": "tanh",
    "group_norm": "group_norm",
    "group_norm_no_gain": "group_norm",
    "instance_norm": "instance_norm",
    "image_norm": "layer_norm",
    "mobilenet": "hardtanh",
    "squeeze_excite": "sigmoid",
    "squeeze_excite_hard": "hardsigmoid",
    "convnext": "layer_norm",
    "vit": "layer_norm",
    "vit_sdpa": "layer_norm",
    "vit_matmul": "layer_norm",
    "vit_linear": "layer_norm",
    "encoder_pre_relu": "layer_norm",
    "encoder_pre_gelu": "layer_norm",
    "encoder_post_relu": "scaled_dot_product_attention",
    "encoder_post_gelu": "scaled_dot_product_attention",
    "mixer": "layer_norm",
    "mixer_relu": "layer_norm",
}
TOKENS = [name for name in ZOO if name.startswith(("llama", "tied"))]
HOMOGENEOUS = [name for name in ZOO if name not in REFUSED and name not in TOKENS]
# Even the small versions of these have more paths than path_lift lists.
TOO_MANY = {
    *("vgg", "inception", "densenet", "unet", "unet_nearest", "unet_bilinear", "conv3d", "resnet18", "resnet18_cifar"),
    *("resnet20_option_a", "resnet50", "resnext", "pre_activation", "mobilenet_relu"),
}
STILL = {"shared_first_bias"}  # its only rescaling is the identity


@pytest.fixture(scope="module", autouse=True)
def _each_network_captured_once():
    """torch.export takes 97 % of the time of a path norm; a rescaled network is the same graph with other weights."""
    capture, graphs = follow.capture, {}

    def once(model, example):
        if not hasattr(model, "orbit"):
            return capture(model, example)
        if model.orbit not in graphs:
            graphs[model.orbit] = capture(model, example)
        return replace(graphs[model.orbit], module=model)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follow, "capture", once)
        yield


@pytest.fixture(scope="module", params=HOMOGENEOUS)
def orbit(request):
    """A network and three others that compute the same."""
    name = request.param
    module, x, _, symmetry = small(name)
    module.orbit = name  # copies keep it
    return name, module, x, [symmetry.rescale(module, symmetry.random(std=1.0, seed=seed)) for seed in SEEDS]


def test_path_norm_stays(orbit):
    _, module, x, moved = orbit
    for order in ORDERS:
        norm = path_norm(module, x, **order)
        for other in moved:
            assert path_norm(other, x, **order) == pytest.approx(norm, rel=1e-10, abs=0), order


def test_path_lift_stays(orbit):
    name, module, x, moved = orbit
    if name in TOO_MANY:
        with pytest.raises(TrueriskError, match="but limit is 100,000"):
            path_lift(module, x)
        return
    lift = path_lift(module, x)
    for other in (path_lift(twin, x) for twin in moved):
        torch.testing.assert_close(other.paths, lift.paths, rtol=1e-10, atol=0)
        assert other.signs.keys() == lift.signs.keys()
        assert all(torch.equal(other.signs[key], lift.signs[key]) for key in lift.signs)


# --- the tests above can fail -------------------------------------------------------------------------------


def l2(module):
    return torch.cat([weight.detach().flatten() for weight in module.parameters()]).norm().item()


def test_l2_norm_does_not_stay(orbit):
    """A random rescaling may nearly keep it, so the largest of three changes counts."""
    name, module, _, moved = orbit
    changes = [abs(l2(other) / l2(module) - 1) for other in moved]
    assert max(changes) > 0.1 or name in STILL


def test_wrong_rescaling(orbit):
    """One layer's weights times 2, and nothing divided by it."""
    _, module, x, _ = orbit
    wrong = copy.deepcopy(module)
    next(weight for weight in wrong.parameters() if weight.ndim > 1).data *= 2
    assert path_norm(wrong, x) > 1.1 * path_norm(module, x)


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REFUSED)
def test_refused_operations(name):
    module, x, _ = ZOO[name](**SMALL[name])
    with pytest.raises(TrueriskError, match=rf"^{REFUSED[name]} \(in .*, so paths can't follow it"):
        path_norm(module, x)


@pytest.mark.parametrize("name", TOKENS)
def test_refused_inputs(name):
    module, x, _ = ZOO[name](**SMALL[name])
    with pytest.raises(TrueriskError, match=r"^paths start at real inputs"):
        path_norm(module, x)
