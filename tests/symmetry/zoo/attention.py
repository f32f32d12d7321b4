"""Networks that mix tokens: transformers, MLP-Mixer, and language models with tied embeddings.

The logits q.k of attention are pinned by the softmax: for each head and each of its dimensions, u_q = -u_k. The
values are free, and what attention gives out has their u. All tokens share one u for each channel, because the same
linear layers act on all of them. A norm pins what it reads, so the stream of a pre-norm transformer is pinned.
"""

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from ._build import Mean, Permute, Plus, finish, normal, tokens

CLASSES = 3


class Attention(nn.Module):
    """One linear layer for q, k and v, then `kind`: PyTorch's function, or written out; "linear" has no softmax."""

    def __init__(self, width, heads, kind):
        super().__init__()
        self.heads, self.kind = heads, kind
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        if self.kind == "sdpa":
            q, k, v = self.qkv(x).reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            a = F.scaled_dot_product_attention(q, k, v)
        else:
            q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
            logits = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
            a = (logits if self.kind == "linear" else logits.softmax(-1)) @ v
        return self.out(a.transpose(1, 2).reshape(batch, length, width))


class BuiltIn(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


class Patches(nn.Module):
    """Patches as tokens, a class token in front of them if there is one, plus position embeddings."""

    def __init__(self, width, patch, count, token):
        super().__init__()
        self.conv = nn.Conv2d(1, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width)) if token else None
        self.position = nn.Parameter(torch.zeros(1, count + token, width))

    def forward(self, x):
        x = self.conv(x).flatten(2).transpose(1, 2)
        if self.token is not None:
            x = torch.cat([self.token.expand(len(x), -1, -1), x], 1)
        return x + self.position


class First(nn.Module):
    def forward(self, x):
        return x[:, 0]


def vit(attention="built-in", token=True, width=24, heads=3, depth=2, side=3, seed=0):
    """A vision transformer; the head reads the class token or the mean."""
    layers = [Patches(width, 2, side * side, token)]
    for _ in range(depth):
        mixer = BuiltIn(width, heads) if attention == "built-in" else Attention(width, heads, attention)
        mlp = [nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)]
        layers += [Plus(nn.LayerNorm(width), mixer), Plus(nn.LayerNorm(width), *mlp)]
    net = nn.Sequential(*layers, nn.LayerNorm(width), First() if token else Mean(1), nn.Linear(width, CLASSES))
    block = width + width + width  # after the first norm; q against k; v
    if attention == "linear":
        block += heads  # no softmax: u_q + u_k is only the same for all dimensions of a head, as the logits are a sum
    block += width + 0  # after the second norm; hidden, pinned by GELU
    dim = depth * block + width  # after the last norm
    return finish(net, seed), normal(2, 1, 2 * side, 2 * side), dim


def encoder(norm_first, activation, width=16, heads=2, hidden=24, depth=2, seed=0):
    """nn.TransformerEncoderLayer."""
    layers = [
        nn.TransformerEncoderLayer(width, heads, hidden, activation=activation, batch_first=True, norm_first=norm_first)
        for _ in range(depth)
    ]
    net = nn.Sequential(nn.Linear(5, width), *layers, Mean(1), nn.Linear(width, CLASSES))
    block = width + width  # q against k; v
    block += hidden if activation == "relu" else 0
    dim = depth * block
    if norm_first:
        dim += depth * (width + width)  # after the two norms; the stream is pinned to its end
    else:
        dim += width  # after the last norm; each other one gives to a sum that the next norm reads
    return finish(net, seed), normal(2, 4, 5), dim


class RMSNorm(nn.Module):
    """As nn.RMSNorm, written out."""

    def __init__(self, width, eps):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Rotary(nn.Module):
    """Grouped-query attention with rotary positions, without biases. `norm`: one for q, one for k, on each head."""

    def __init__(self, width, heads, kv_heads, length, norm):
        super().__init__()
        self.heads, self.kv_heads, d = heads, kv_heads, width // heads
        self.q, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, kv_heads * d, bias=False) for _ in range(2))
        self.q_norm, self.k_norm = norm(d), norm(d)
        angles = torch.arange(length)[:, None] * 100.0 ** (-torch.arange(d // 2) / (d // 2))
        self.register_buffer("cos", torch.cat([angles, angles], -1).cos())
        self.register_buffer("sin", torch.cat([angles, angles], -1).sin())

    def turn(self, x):
        a, b = x.chunk(2, dim=-1)
        return x * self.cos + torch.cat([-b, a], dim=-1) * self.sin

    def forward(self, x):
        batch, length, width = x.shape
        q = self.q(x).view(batch, length, self.heads, -1).transpose(1, 2)
        k, v = (f(x).view(batch, length, self.kv_heads, -1).transpose(1, 2) for f in (self.k, self.v))
        q, k = self.turn(self.q_norm(q)), self.turn(self.k_norm(k))
        if self.kv_heads < self.heads:
            k, v = (t.repeat_interleave(self.heads // self.kv_heads, dim=1) for t in (k, v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(a.transpose(1, 2).reshape(batch, length, width))


class Gated(nn.Module):
    """down(act(gate(x)) * up(x))."""

    def __init__(self, width, hidden, act):
        super().__init__()
        self.act = act
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(self.act(self.gate(x)) * self.up(x))


def llama(
    act=F.silu,
    norm=nn.RMSNorm,
    qk_norm=False,
    tied=False,
    width=16,
    heads=2,
    kv_heads=2,
    hidden=20,
    depth=2,
    vocabulary=11,
    seed=0,
):
    """A language model as Llama builds it: RMSNorm, rotary positions, gated MLP."""
    length, norm = 6, partial(norm, eps=1e-5)
    embedding, head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary, bias=False)
    if tied:
        head.weight = embedding.weight
    layers = []
    for _ in range(depth):
        layers.append(Plus(norm(width), Rotary(width, heads, kv_heads, length, norm if qk_norm else nn.Identity)))
        layers.append(Plus(norm(width), Gated(width, hidden, act)))
    net = nn.Sequential(embedding, *layers, norm(width), head)

    head_width = width // heads
    kv = kv_heads * head_width
    block = width + width  # after the two norms
    # q against k: turning mixes dimensions d and d + half, so they are tied. So are heads that share k or a gain.
    block += head_width // 2 if qk_norm else kv // 2
    block += kv  # v
    block += hidden  # up
    if act is not F.silu:
        block += hidden  # gate: ReLU and the identity are homogeneous, the product's u is the sum of both
    dim = depth * block
    if not tied:
        dim += width  # after the last norm
    # Tied, the embedding moves by u of the stream, which is 0, and as the head by -u of the last norm: that's 0 too.
    return finish(net, seed), tokens(2, length, vocabulary), dim


class TiedLanguageModel(nn.Module):
    def __init__(self, width, hidden, vocabulary, residual):
        super().__init__()
        self.embedding, self.residual = nn.Embedding(vocabulary, width), residual
        self.body = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))

    def forward(self, x):
        x = self.embedding(x)
        x = x + self.body(x) if self.residual else self.body(x)
        return F.linear(x, self.embedding.weight)


def tied(residual, width=8, hidden=12, vocabulary=9, seed=0):
    """The table moves by u of what's read from it, and by -u of what it's multiplied with at the end."""
    net = TiedLanguageModel(width, hidden, vocabulary, residual)
    dim = hidden
    if not residual:
        dim += width  # u before the body, -u behind it. With a residual the two are equal, hence 0
    return finish(net, seed), tokens(2, 6, vocabulary), dim


def mixer(activation=nn.GELU, width=12, hidden=16, depth=2, side=3, seed=0):
    """MLP-Mixer. The layers that mix tokens use the same weights for each channel.

    What they read has u[c] for channel c (the gain of the norm before); their first matrix moves by u_hidden[t, c] -
    u[c] and its bias by u_hidden[t, c], neither of which may depend on c. So u is one number for all channels.
    """
    count = side * side
    layers = [nn.Conv2d(1, width, 2, 2), nn.Flatten(2), Permute(0, 2, 1)]
    for _ in range(depth):
        mix = [nn.Linear(count, hidden), activation(), nn.Linear(hidden, count)]
        mlp = [nn.Linear(width, hidden), activation(), nn.Linear(hidden, width)]
        layers.append(Plus(nn.LayerNorm(width), Permute(0, 2, 1), *mix, Permute(0, 2, 1)))
        layers.append(Plus(nn.LayerNorm(width), *mlp))
    net = nn.Sequential(*layers, nn.LayerNorm(width), Mean(1), nn.Linear(width, CLASSES))
    free = 0 if activation is nn.GELU else hidden
    block = 1 + free  # after the first norm; hidden
    block += width + free  # after the second norm; hidden
    dim = depth * block + width  # after the last norm
    return finish(net, seed), normal(2, 1, 2 * side, 2 * side), dim


ZOO = {
    "vit": vit,
    "vit_sdpa": partial(vit, "sdpa"),
    "vit_matmul": partial(vit, "matmul", token=False),
    "vit_linear": partial(vit, "linear"),
    "encoder_pre_relu": partial(encoder, True, "relu"),
    "encoder_pre_gelu": partial(encoder, True, "gelu"),
    "encoder_post_relu": partial(encoder, False, "relu"),
    "encoder_post_gelu": partial(encoder, False, "gelu"),
    "llama": llama,
    "llama_grouped_query": partial(llama, heads=4),
    "llama_qk_norm": partial(llama, qk_norm=True),
    "llama_tied": partial(llama, tied=True),
    "llama_reglu": partial(llama, act=F.relu, norm=RMSNorm),
    "llama_bilinear": partial(llama, act=nn.Identity()),
    "tied": partial(tied, False),
    "tied_residual": partial(tied, True),
    "mixer": mixer,
    "mixer_relu": partial(mixer, nn.ReLU),
}
_VIT = {"width": 4, "heads": 2, "depth": 1, "side": 2}
_ENCODER = {"width": 4, "heads": 2, "hidden": 3, "depth": 2}
_LLAMA = {"width": 8, "heads": 2, "hidden": 3, "depth": 1, "vocabulary": 5}
_TIED = {"width": 3, "hidden": 4, "vocabulary": 5}
_MIXER = {"width": 3, "hidden": 4, "depth": 1, "side": 2}
_SIZES = {"vit": _VIT, "encoder": _ENCODER, "llama": _LLAMA, "tied": _TIED, "mixer": _MIXER}
SMALL = {name: _SIZES[name.split("_")[0]] for name in ZOO}
SMALL["llama_grouped_query"] = _LLAMA | {"kv_heads": 1}
IDLE = {
    # A bias of k adds the same number to all logits of a query.
    name: SMALL[name]["depth"] * SMALL[name]["width"]
    for name in ZOO
    if name.startswith(("vit", "encoder")) and name != "vit_linear"
} | {
    # The last bias of a token mix adds the same number to all channels of a token: all norms on the stream subtract it.
    name: SMALL[name]["depth"] * SMALL[name]["side"] ** 2
    for name in ("mixer", "mixer_relu")
}
