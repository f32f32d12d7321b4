"""The path lift against paths enumerated one by one, against Jacobians, and along orbits of rescalings."""

from __future__ import annotations

import itertools
from functools import reduce
from itertools import chain, pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk import memory
from truerisk.errors import TrueriskError
from truerisk.symmetry import path_lift
from truerisk.symmetry.paths import lift
from truerisk.symmetry.paths.count import Number, _Counts, count_paths

# --- slow twins: networks as lists of edges, paths as lists of (place, product) -------------------------------


def entries(*sizes):
    return list(itertools.product(*map(range, sizes)))


def extend(prefixes, edges, biases=()):
    """Paths one layer further: edges are (from, to, weight), biases (place, value)."""
    return [(to, v * w) for at, v in prefixes for start, to, w in edges if start == at] + list(biases)


def linear(layer):
    edges = [((i,), (o,), layer.weight[o, i].item()) for o, i in entries(*layer.weight.shape)]
    return edges, [((o,), b.item()) for o, b in enumerate(layer.bias)]


def conv(layer, height, width):
    """The edges and biases of a convolution, and its output size; no dilation, no groups."""
    (s, _), (p, _), (k, _) = layer.stride, layer.padding, layer.kernel_size
    h, w = (height + 2 * p - k) // s + 1, (width + 2 * p - k) // s + 1
    edges = []
    for o, c, y, x, i, j in entries(*layer.weight.shape[:2], h, w, k, k):
        row, column = y * s + i - p, x * s + j - p
        if 0 <= row < height and 0 <= column < width:
            edges.append(((c, row, column), (o, y, x), layer.weight[o, c, i, j].item()))
    biases = [((o, y, x), layer.bias[o].item()) for o, y, x in entries(layer.weight.shape[0], h, w)]
    return edges, biases


def batch_norm(layer, height, width, bias):
    """Edges and biases of a norm, which takes the bias of the layer before it along."""
    places = entries(layer.num_features, height, width)
    scale = layer.weight / (layer.running_var + layer.eps).sqrt()
    shift = (layer.bias + scale * (bias - layer.running_mean)).tolist()
    return [(at, at, scale[at[0]].item()) for at in places], [(at, shift[at[0]]) for at in places]


def pool(channels, height, width, k, weight):
    return [((c, y, x), (c, y // k, x // k), weight) for c, y, x in entries(channels, height, width)]


def flat(prefixes, height, width):
    return [((c * height * width + y * width + x,), v) for (c, y, x), v in prefixes]


def same_products(found: Tensor, prefixes) -> bool:
    expected = torch.tensor([v for _, v in prefixes], dtype=torch.float64)
    same = found.shape == expected.shape
    return same and torch.allclose(found.sort().values, expected.sort().values, rtol=1e-12, atol=1e-15)


def randomise(model, seed=0):
    torch.manual_seed(seed)
    model = model.double()
    for name, tensor in itertools.chain(model.named_parameters(), model.named_buffers()):
        if tensor.is_floating_point():
            tensor.data.uniform_(0.5, 2.0) if name.endswith("var") else tensor.data.normal_()
    return model


# --- paths, one by one --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(2, 1), (3, 4, 2), (2, 3, 2, 3)])
def test_perceptron(sizes):
    layers = [nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
    model = randomise(nn.Sequential(*itertools.chain(*((layer, nn.ReLU()) for layer in layers))))
    expected = []
    for first in range(len(sizes)):  # 0: paths from inputs; l: paths from the bias of layer l
        for path in itertools.product(*map(range, sizes[first:])):
            product = 1.0 if first == 0 else layers[first - 1].bias[path[0]].item()
            for layer, (i, o) in zip(layers[first:], itertools.pairwise(path), strict=True):
                product *= layer.weight[o, i].item()
            expected.append((None, product))
    assert same_products(path_lift(model, torch.zeros(1, sizes[0])).paths, expected)


def test_convolution_batch_norm_and_pools():
    model = randomise(
        nn.Sequential(
            nn.Conv2d(1, 2, 3, padding=1),
            nn.BatchNorm2d(2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(2, 2, 2, stride=2, padding=1),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Linear(2, 2),
        )
    )
    paths = [(at, 1.0) for at in entries(1, 6, 5)]
    paths = extend(paths, conv(model[0], 6, 5)[0])
    paths = extend(paths, *batch_norm(model[1], 6, 5, model[0].bias))
    paths = [(at, v) for at, v in paths if at[2] < 4]  # the last column fills no window
    paths = extend(paths, pool(2, 6, 4, 2, 1.0))
    paths = extend(paths, *conv(model[4], 3, 2))
    paths = extend(paths, pool(2, 2, 2, 2, 0.25))
    paths = extend(flat(paths, 1, 1), *linear(model[7]))
    assert same_products(path_lift(model, torch.zeros(1, 1, 6, 5)).paths, paths)


class Residual(nn.Module):
    """A skip, a projection and a concatenation."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 4), nn.Linear(4, 3)
        self.project, self.last = nn.Linear(3, 2), nn.Linear(5, 2)

    def forward(self, x):
        x = torch.relu(x + self.outer(torch.relu(self.inner(x))))
        return self.last(torch.cat([self.project(x), x], 1))


def test_residual():
    model = randomise(Residual())
    start = [((i,), 1.0) for i in range(3)]
    stream = start + extend(extend(start, *linear(model.inner)), *linear(model.outer))
    joined = extend(stream, *linear(model.project)) + [((i + 2,), v) for (i,), v in stream]
    assert same_products(path_lift(model, torch.zeros(1, 3)).paths, extend(joined, *linear(model.last)))


def test_weight_used_twice():
    layer = randomise(nn.Linear(2, 2))
    paths = [((i,), 1.0) for i in range(2)]
    paths = extend(extend(paths, *linear(layer)), *linear(layer))
    lift = path_lift(nn.Sequential(layer, nn.ReLU(), layer), torch.zeros(1, 2))
    assert same_products(lift.paths, paths)
    assert list(lift.signs) == ["0.weight", "0.bias"]


def test_max_pool_with_padding_dilation_and_ceil_mode():
    pool = nn.MaxPool2d(2, stride=3, padding=1, dilation=2, ceil_mode=True)
    lift = path_lift(nn.Sequential(pool), torch.zeros(1, 2, 6, 5))
    ones = torch.ones(1, 2, 6, 5, dtype=torch.float64)  # of each window, the entries that lie in the image
    windows = F.unfold(F.pad(ones, (1, 3, 1, 3)), 2, dilation=2, stride=3).reshape(2, 4, -1)
    height, width = pool(ones).shape[2:]
    inside = windows.reshape(2, 4, 3, 3)[..., :height, :width]
    assert lift.paths.tolist() == [1.0] * int(inside.sum())


# --- single operations: one path for each entry of the Jacobian -----------------------------------------------


class Apply(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn
        self.weight = nn.Parameter(torch.zeros(4, 3))

    def forward(self, x):
        return self.fn(x, self.weight)


IMAGE, WORDS = (1, 4, 5, 6), (1, 2, 3)
OPERATIONS = {
    "conv": (nn.Conv2d(4, 6, 3, 2, padding=(2, 1), dilation=(2, 1), groups=2, bias=False), IMAGE),
    "conv same": (nn.Conv2d(4, 2, (2, 3), padding="same", bias=False), IMAGE),
    "conv valid": (nn.Conv2d(4, 2, 2, padding="valid", bias=False), IMAGE),
    "conv1d": (nn.Conv1d(2, 2, 2, bias=False), WORDS),
    "conv3d": (nn.Conv3d(2, 3, 2, padding=1, bias=False), (1, 2, 2, 3, 2)),
    "unbatched conv": (Apply(lambda x, w: F.conv1d(x[0], w[:2, :2, None])), WORDS),
    "transposed": (nn.ConvTranspose2d(4, 2, 3, 2, 1, 1, groups=2, bias=False, dilation=2), IMAGE),
    "transposed cropped": (nn.ConvTranspose1d(2, 3, 2, stride=3, padding=1, bias=False), WORDS),
    "average": (nn.AvgPool2d(3, 2, padding=1, ceil_mode=True), IMAGE),
    "average inside": (nn.AvgPool2d(3, 2, padding=1, count_include_pad=False), IMAGE),
    "average divisor": (nn.AvgPool2d(2, divisor_override=3), IMAGE),
    "average1d": (nn.AvgPool1d(2), WORDS),
    "adaptive": (nn.AdaptiveAvgPool2d((2, 4)), IMAGE),
    "mean": (Apply(lambda x, w: x.mean((2, -1), keepdim=True)), IMAGE),
    "sum": (Apply(lambda x, w: x.sum(1)), WORDS),
    "nearest": (nn.Upsample(scale_factor=2), IMAGE),
    "bilinear": (nn.Upsample(size=(7, 9), mode="bilinear"), IMAGE),
    "bilinear corners": (nn.Upsample(scale_factor=1.5, mode="bilinear", align_corners=True), IMAGE),
    "bicubic": (nn.Upsample(scale_factor=2, mode="bicubic"), IMAGE),
    "linear on words": (nn.Linear(3, 2, bias=False), WORDS),
    "matmul": (Apply(lambda x, w: x @ w.mT), WORDS),
    "matmul left": (Apply(lambda x, w: w[:, :2] @ x), WORDS),
    "matmul vector": (Apply(lambda x, w: w[0, :2] @ (x[0] @ torch.diag(w[1]))), WORDS),
    "matmul batch": (Apply(lambda x, w: x @ w.reshape(2, 3, 2)), WORDS),
    "matmul mixed batch": (Apply(lambda x, w: w[:, None, None, :2] @ x), WORDS),
    "vector product": (Apply(lambda x, w: torch.dot(x[0, 0], w[0])), WORDS),
    "vector on the left": (Apply(lambda x, w: w[0, :2] @ x), WORDS),
    "linear to a number": (Apply(lambda x, w: F.linear(x, w[0])), WORDS),
    "einsum": (Apply(lambda x, w: torch.einsum("bij,kj->bki", x, w)), WORDS),
    "einsum in the other order": (Apply(lambda x, w: torch.einsum("kj, bij -> kib", w, x)), WORDS),
    "einsum by entry": (Apply(lambda x, w: torch.einsum("bij,ij->jbi", x, w[:2])), WORDS),
    "einsum to a number": (Apply(lambda x, w: torch.einsum("bij,ij->", x, w[:2])), WORDS),
    "einsum with a sum": (Apply(lambda x, w: torch.einsum("bij,kj->bk", x, w)), WORDS),
    "einsum broadcast": (Apply(lambda x, w: torch.einsum("bij,ki->bkj", x, w[:, :1])), WORDS),
    "where": (Apply(lambda x, w: torch.where(torch.eye(3, dtype=bool)[:, None], 2 * x, -x.flip(2))), WORDS),
    "times": (Apply(lambda x, w: 3 * x * w[0] / w[1]), WORDS),
    "broadcast": (Apply(lambda x, w: x.unsqueeze(1) * w[:, None]), WORDS),
    "minus": (Apply(lambda x, w: 2.0 * -x), WORDS),
    "halves": (Apply(lambda x, w: torch.cat(x.chunk(2, 1)[::-1], -1) @ w[0].repeat(2)), WORDS),
    "stack": (Apply(lambda x, w: torch.stack(x.unbind(1), -1).transpose(1, 2).reshape(1, -1)), WORDS),
    "index": (Apply(lambda x, w: x[:, [1, 0, 1], ::2]), WORDS),
    "roll": (Apply(lambda x, w: x.roll(1, -1).flip(1)), WORDS),
    "zero padding": (nn.ZeroPad2d((1, 2, 0, -1)), IMAGE),
    "reflection": (nn.ReflectionPad2d(2), IMAGE),
    "replication": (nn.ReplicationPad2d(2), IMAGE),
    "circular": (Apply(lambda x, w: F.pad(x, (1, 1), mode="circular")), WORDS),
    "shuffle": (nn.PixelShuffle(2), IMAGE),
    "channels": (nn.ChannelShuffle(2), IMAGE),
    "dropout": (nn.Dropout(), WORDS),
    "tall": (Apply(lambda x, w: x.expand(1, 2, 3).tril()), (1, 1, 3)),
}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("name", OPERATIONS)
def test_operation(name):
    model, shape = OPERATIONS[name]
    model = randomise(model).eval()
    x = torch.ones(shape, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(model, x).flatten()
    paths = path_lift(model, x).paths
    # A linear map is at ones the sum of its paths.
    assert paths.sum().item() == pytest.approx(model(x).sum().item(), rel=1e-10, abs=1e-12)
    paths, jacobian = (t[t.abs() > 1e-14].sort().values for t in (paths, jacobian))
    torch.testing.assert_close(paths, jacobian, rtol=1e-12, atol=1e-14)


def test_biases_by_addition():
    model = Apply(lambda x, w: torch.sub(1.0 - x, w[0], alpha=2.0) + x)
    model.weight.data[0] = torch.tensor([3.0, 4.0, 5.0])
    paths = path_lift(model, torch.zeros(1, 3)).paths
    assert sorted(paths.tolist()) == [-10, -8, -6, -1, -1, -1, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda x, w: torch.addmm(w[0], x, w[1:].mT, beta=2, alpha=-1), [*range(-11, -2), 0, 2, 4]),
        (lambda x, w: torch.addmm(x, w[:1, :1] + 5, x, beta=3, alpha=-2), [-10, -10, -10, 3, 3, 3]),
        (lambda x, w: torch.addmm(x, w[:1], w[1:], alpha=2), [1, 1, 1, 48, 54, 60]),  # of weights alone: a bias
        (lambda x, w: torch.addmv(w[2], w[1:], x[0]), [*range(3, 12), 6, 7, 8]),
    ],
)
def test_add_product(fn, expected):
    model = Apply(fn)
    model.weight.data = torch.arange(12.0).reshape(4, 3)
    assert sorted(path_lift(model, torch.zeros(1, 3)).paths.tolist()) == sorted(expected)


def test_summed_weights_are_edges_next_to_each_other():
    model = Apply(lambda x, w: torch.einsum("bi,ki->b", x, w))
    model.weight.data = torch.arange(12.0).reshape(4, 3)
    assert sorted(path_lift(model, torch.zeros(1, 3)).paths.tolist()) == [*range(12)]


def test_constants_are_chosen_as_biases():
    model = Apply(lambda x, w: torch.where(torch.tensor([True, False, False]), x, 7.0))
    assert path_lift(model, torch.zeros(1, 3)).paths.tolist() == [1, 7, 7]


def test_constants_are_joined_as_biases():
    model = Apply(lambda x, w: torch.cat([x, w[:1]], 1))
    model.weight.data[0] = torch.tensor([3.0, 4.0, 5.0])
    assert path_lift(model, torch.zeros(1, 2)).paths.tolist() == [1, 1, 3, 4, 5]


# --- invariance, order, signs -------------------------------------------------------------------------------


def rescaled_residual(model, seed=1):
    """The same function: hidden units of `inner` times c, `outer` divided by c."""
    torch.manual_seed(seed)
    twin = Residual().double()
    twin.load_state_dict(model.state_dict())
    c = torch.randn(4, dtype=torch.float64).exp()
    twin.inner.weight.data *= c[:, None]
    twin.inner.bias.data *= c
    twin.outer.weight.data /= c
    return twin


def test_rescaling_changes_no_entry():
    model = randomise(Residual())
    twin = rescaled_residual(model)
    x = torch.randn(5, 3, dtype=torch.float64)
    torch.testing.assert_close(twin(x), model(x))
    lift, other = path_lift(model, x), path_lift(twin, x)
    torch.testing.assert_close(other.paths, lift.paths, rtol=1e-10, atol=0)
    assert lift.signs.keys() == other.signs.keys()
    assert all(torch.equal(lift.signs[name], other.signs[name]) for name in lift.signs)


def test_weights_of_zero_keep_the_order():
    model = randomise(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)))
    before = path_lift(model, torch.zeros(1, 2)).paths
    model[0].weight.data[1] = 0.0
    after = path_lift(model, torch.zeros(1, 2)).paths
    assert before.shape == after.shape
    assert int((before != after).sum()) == 4  # two inputs through unit 1 to two outputs
    assert torch.equal(after[before != after], torch.zeros(4, dtype=torch.float64))


def test_signs():
    model = randomise(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)))
    lift = path_lift(model, torch.zeros(1, 2))
    model[0].weight.data.neg_()
    model[0].bias.data.neg_()
    model[2].weight.data.neg_()  # the same products, another function
    other = path_lift(model, torch.zeros(1, 2))
    torch.testing.assert_close(other.paths, lift.paths)
    assert torch.equal(other.signs["0.weight"], -lift.signs["0.weight"])
    assert torch.equal(other.signs["2.bias"], lift.signs["2.bias"])
    model[2].bias.data.zero_()
    assert path_lift(model, torch.zeros(1, 2)).signs["2.bias"].tolist() == [0.0]


def test_batch_size_does_not_matter():
    model = randomise(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)))
    lifts = [path_lift(model, torch.randn(n, 2, 2)).paths for n in (0, 1, 7)]
    assert torch.equal(lifts[0], lifts[1])
    assert torch.equal(lifts[1], lifts[2])


def test_limit():
    model = nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, bias=False))
    assert len(path_lift(model, torch.zeros(1, 3), limit=24).paths) == 24
    with pytest.raises(TrueriskError, match=r"has 24 paths, which may take 0.1 GiB, but limit is 23; raise limit, or"):
        path_lift(model, torch.zeros(1, 3), limit=23)
    dropped = nn.Sequential(nn.Linear(3, 4, bias=False), Few())
    assert len(path_lift(dropped, torch.zeros(1, 3), limit=12).paths) == 3
    with pytest.raises(TrueriskError, match=r"has 3 paths \(12 on the way\)"):
        path_lift(dropped, torch.zeros(1, 3), limit=11)


class Few(nn.Module):
    def forward(self, x):
        return x[:, :1]


@pytest.mark.parametrize("limit", [100_000, 10**15])
def test_too_many_paths_are_counted_and_never_listed(limit, monkeypatch):
    """784-512-512-10: every input and hidden unit counts, and every bias. Listing them would take 100 GiB."""
    sizes = (784, 512, 512, 10)
    model = nn.Sequential(*chain.from_iterable((nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(sizes)))
    monkeypatch.setattr(lift, "_Prefixes", None)  # whoever starts to list fails
    count = reduce(lambda paths, width: (paths + 1) * width, sizes[1:], sizes[0])
    with pytest.raises(TrueriskError, match=rf"has {count:,} paths, which may take \d\d\d GiB, but .*use path_norm"):
        path_lift(model, torch.zeros(1, 784), limit=limit)


def test_counts_beyond_the_range_of_floats(monkeypatch):
    """175 layers of 64 units without biases: 64^176 paths. A float with a power of 2 beside it holds that exactly."""
    counts = _Counts(torch.ones(1, 64, dtype=torch.float64), 0, [])
    for _ in range(175):
        counts = counts.matmul(torch.zeros(64, 64))
    assert counts.total == max(counts.seen) == 64**176 > 2**1024
    assert counts.plus(counts).total == 2 * 64**176
    assert counts.start(torch.zeros(3)).total == 3
    monkeypatch.setattr(lift, "count_paths", lambda *_: Number(counts.total, counts.total, sum(counts.seen)))
    with pytest.raises(TrueriskError, match=r"has about 10\^317.9 paths, which may take 10\^31\d.\d GiB, but"):
        path_lift(nn.Linear(1, 1), torch.zeros(1, 1), limit=10**18)


def test_memory_is_a_limit_too(monkeypatch):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    monkeypatch.setattr(lift, "spare", lambda: 1000)
    with pytest.raises(
        TrueriskError, match=r"has 34 paths, which may take 0.1 GiB, but 0.1 GiB can be spared here; use"
    ):
        path_lift(model, torch.zeros(1, 3))
    monkeypatch.setattr(lift, "spare", lambda: 100_000)
    assert len(path_lift(model, torch.zeros(1, 3)).paths) == 34


def test_paths_are_counted_as_they_are_listed():
    """Convolutions, pools, a norm, biases, a residual sum: the count is the length of the list."""
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(2, 4, 2, groups=2),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4, 3),
    )  # fmt: skip
    x = torch.zeros(1, 1, 6, 6)
    assert count_paths(model, x).paths == len(path_lift(model, x).paths)


def test_spare_memory(tmp_path):
    """Of a container, the limit minus what is used; nothing where there is no limit."""
    assert memory._group_left(tmp_path) is None
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("100\n")
    assert memory._group_left(tmp_path) is None
    (tmp_path / "memory.max").write_text("1000\n")
    assert memory._group_left(tmp_path) == 900


def test_refusal_names_the_operation():
    with pytest.raises(TrueriskError, match=r"tanh \(in 1\)"):
        path_lift(nn.Sequential(nn.Linear(2, 2), nn.Tanh()), torch.zeros(1, 2))
