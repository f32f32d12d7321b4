"""Convolutional networks without a residual stream of their own family (those are in residual.py)."""

from functools import partial
from itertools import pairwise

import torch
from torch import nn

from ._build import Mean, Permute, Plus, Scale, conv_bn, finish, normal

CLASSES = 4


def head(width):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES)]


def vgg(stages=((16, 16), (32, 32)), hidden=64, pixels=12, seed=0):
    """Two u for each channel: one between convolution and norm, one after the norm. Pooling and dropout pass it on.

    The flattened image keeps the u of its channels: all pixels of a channel come from the same weights.
    """
    layers, width, size = [], 3, pixels
    for stage in stages:
        for w in stage:
            layers += [nn.Conv2d(width, w, 3, padding=1), nn.BatchNorm2d(w), nn.ReLU(inplace=True)]
            width = w
        layers.append(nn.MaxPool2d(2))
        size //= 2
    layers += [nn.Flatten(), nn.Linear(width * size * size, hidden), nn.ReLU(), nn.Dropout()]
    net = nn.Sequential(*layers, nn.Linear(hidden, CLASSES))
    dim = 2 * sum(map(sum, stages)) + hidden
    return finish(net, seed), normal(1, 3, pixels, pixels), dim


class Branches(nn.Module):
    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(nn.Sequential(*b) for b in branches)

    def forward(self, x):
        return torch.cat([b(x) for b in self.branches], 1)


def inception(stem=16, width=8, blocks=2, pixels=8, seed=0):
    """Four branches next to each other: each channel of each (conv, norm, ReLU) has its two u."""

    def conv(c_in, c_out, kernel):
        return [*conv_bn(c_in, c_out, kernel), nn.ReLU()]

    layers, c, w = conv(3, stem, 3), stem, width
    for _ in range(blocks):
        layers.append(
            Branches(
                conv(c, w, 1),
                conv(c, w, 1) + conv(w, 2 * w, 3),
                conv(c, w, 1) + conv(w, w, 3) + conv(w, w, 3),
                [nn.MaxPool2d(3, 1, padding=1), *conv(c, w, 1)],  # the pool passes on the u of its input
            )
        )
        c = w + 2 * w + w + w
    net = nn.Sequential(*layers, *head(c))
    dim = 2 * stem + blocks * 2 * (w + (w + 2 * w) + (w + w + w) + w)
    return finish(net, seed), normal(2, 3, pixels, pixels), dim


class Grow(nn.Module):
    def __init__(self, *body):
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x):
        return torch.cat([x, self.body(x)], 1)


def densenet(stem=8, growth=4, blocks=(3, 3), pixels=8, seed=0):
    """Norm, ReLU, convolution. All norms on a feature see the same u before them, each has its own after it."""

    def conv(c_in, c_out, kernel):
        return [nn.BatchNorm2d(c_in), nn.ReLU(), nn.Conv2d(c_in, c_out, kernel, padding=kernel // 2, bias=False)]

    layers, c, inner = [nn.Conv2d(3, stem, 3, padding=1, bias=False)], stem, 2 * growth
    dim = stem
    for stage, n in enumerate(blocks):
        if stage:
            layers += [*conv(c, c // 2, 1), nn.AvgPool2d(2)]
            dim += c + c // 2  # after the norm; the features that the next stage begins with
            c //= 2
        for _ in range(n):
            layers.append(Grow(*conv(c, inner, 1), *conv(inner, growth, 3)))
            dim += c + 2 * inner  # after the first norm; around the second norm
            dim += growth  # the new features
            c += growth
    net = nn.Sequential(*layers, nn.BatchNorm2d(c), nn.ReLU(), *head(c))
    dim += c  # after the last norm
    return finish(net, seed), normal(1, 3, pixels, pixels), dim


def mobilenet(stem=8, stages=((1, 6, 1), (4, 12, 2), (4, 16, 2)), last=32, clipped=True, pixels=8, seed=0):
    """MobileNetV2. `stages`: (expansion, channels, blocks). ReLU6 pins what's after a norm, not what's before it."""
    act = nn.ReLU6 if clipped else nn.ReLU
    layers, c = [*conv_bn(3, stem, 3, stride=2), act()], stem
    dim = stem
    after = stem  # channels between a norm and an activation
    for expansion, width, n in stages:
        for _ in range(n):
            inner = expansion * c
            body = [*conv_bn(c, inner, 1), act()] if expansion > 1 else []
            body += [*conv_bn(inner, inner, 3, groups=inner), act(), *conv_bn(inner, width, 1)]
            if expansion > 1:
                dim, after = dim + inner, after + inner  # the 1x1 convolution that expands
            dim, after = dim + inner, after + inner  # the depthwise one: each output channel is free
            dim += width  # the 1x1 convolution that projects
            if c != width:
                dim += width  # the norm at its end begins a stream
            layers.append(Plus(*body) if c == width else nn.Sequential(*body))
            c = width
    net = nn.Sequential(*layers, *conv_bn(c, last, 1), act(), *head(last))
    dim, after = dim + last, after + last
    return finish(net, seed), normal(1, 3, pixels, pixels), dim if clipped else dim + after


class SqueezeExcite(nn.Module):
    """x times a gate from the mean of x."""

    def __init__(self, width, squeezed, gate):
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, squeezed, 1), nn.ReLU(), nn.Conv2d(squeezed, width, 1), gate()
        )

    def forward(self, x):
        return x * self.gate(x)


def squeeze_excite(width=16, squeezed=4, blocks=2, gate=nn.Sigmoid, pixels=8, seed=0):
    """The sigmoid pins the gate at 0, so the product has the u of x."""
    layers = [*conv_bn(3, width, 3), nn.ReLU()]
    for _ in range(blocks):
        body = [*conv_bn(width, width, 3), nn.ReLU(), *conv_bn(width, width, 3), SqueezeExcite(width, squeezed, gate)]
        layers += [Plus(*body), nn.ReLU()]
    net = nn.Sequential(*layers, *head(width))
    dim = width + width  # the stem's convolution; the stream
    dim += blocks * (width + width + width)  # conv, norm, conv; the second norm's output is the stream's
    dim += blocks * squeezed  # the gate's hidden layer
    return finish(net, seed), normal(1, 3, pixels, pixels), dim


class ChannelNorm(nn.Sequential):
    """LayerNorm over the channels of an image."""

    def __init__(self, width):
        super().__init__(Permute(0, 2, 3, 1), nn.LayerNorm(width), Permute(0, 3, 1, 2))


def convnext(widths=(12, 24), blocks=(2, 2), kernel=7, pixels=16, seed=0):
    """Each stream ends in a LayerNorm (before the next stage, or before the head) and is pinned by it."""
    layers, width, dim = [], None, 0
    for w, n in zip(widths, blocks, strict=True):
        if width is None:
            layers += [nn.Conv2d(3, w, 2, stride=2), ChannelNorm(w)]  # 0: before it the norm, after it the stream
        else:
            layers += [ChannelNorm(width), nn.Conv2d(width, w, 2, stride=2)]
            dim += width  # after the norm; the convolution's output is the stream
        for _ in range(n):
            body = [nn.Conv2d(w, w, kernel, padding=kernel // 2, groups=w), Permute(0, 2, 3, 1), nn.LayerNorm(w)]
            body += [nn.Linear(w, 4 * w), nn.GELU(), nn.Linear(4 * w, w), Scale(w), Permute(0, 3, 1, 2)]
            layers.append(Plus(*body))
            dim += 0 + w  # the depthwise convolution is pinned by the norm; after the norm
            dim += 0 + w  # hidden, pinned by GELU; between the second linear layer and the scale
        width = w
    net = nn.Sequential(*layers, Mean(2, 3), nn.LayerNorm(width), nn.Linear(width, CLASSES))
    dim += width  # after the last norm
    return finish(net, seed), normal(1, 3, pixels, pixels), dim


def norm_net(norm, gain=True, width=8, pixels=8, seed=0):
    """Norms that compute their own statistics pin their input (by eps, and by mixing channels); the gain is free."""
    norms = {
        "group": lambda: nn.GroupNorm(2, width, affine=gain),
        "instance": lambda: nn.InstanceNorm2d(width, affine=gain),
    }
    net = nn.Sequential(
        *(nn.Conv2d(3, width, 3), norms[norm](), nn.ReLU()),
        *(nn.Conv2d(width, width, 3), norms[norm](), nn.ReLU()),
        *head(width),
    )
    return finish(net, seed), normal(2, 3, pixels, pixels), 2 * width if gain else 0


class UNet(nn.Module):
    def __init__(self, widths, up):
        super().__init__()

        def double(c_in, c_out):
            return nn.Sequential(*conv_bn(c_in, c_out, 3), nn.ReLU(), *conv_bn(c_out, c_out, 3), nn.ReLU())

        self.down = nn.ModuleList(double(a, b) for a, b in pairwise((3, *widths)))
        self.up, self.merge = nn.ModuleList(), nn.ModuleList()
        self.pool = nn.MaxPool2d(2)
        for w, below in reversed(list(pairwise(widths))):
            if up == "transpose":
                self.up.append(nn.ConvTranspose2d(below, w, 2, stride=2))
                self.merge.append(double(2 * w, w))
            else:
                self.up.append(nn.Upsample(scale_factor=2, mode=up))
                self.merge.append(double(below + w, w))
        self.last = nn.Conv2d(widths[0], CLASSES, 1)

    def forward(self, x):
        skips = []
        for k, block in enumerate(self.down):
            x = block(self.pool(x) if k else x)
            skips.append(x)
        skips.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([skips.pop(), up(x)], 1))
        return self.last(x)


def unet(widths=(8, 12, 16), up="transpose", pixels=8, seed=0):
    """Each skip keeps the u of its channels in the concatenation."""
    dim = sum(4 * w for w in widths)  # (conv, norm) twice on the way down
    dim += sum(4 * w for w in widths[:-1])  # and on the way up
    if up == "transpose":
        dim += sum(widths[:-1])  # the transposed convolutions; upsampling passes on what it gets
    return finish(UNet(widths, up), seed), normal(1, 3, pixels, pixels), dim


def conv1d(width=8, seed=0):
    net = nn.Sequential(
        *(nn.Conv1d(2, width, 3), nn.ReLU(), nn.MaxPool1d(2)),
        *(nn.Conv1d(width, 2 * width, 3), nn.BatchNorm1d(2 * width), nn.LeakyReLU(0.2), nn.AvgPool1d(2)),
        *(nn.Flatten(), nn.Linear(2 * width * 2, CLASSES)),
    )
    return finish(net, seed), normal(2, 2, 15), width + 2 * (2 * width)


def conv3d(width=6, seed=0):
    net = nn.Sequential(
        *(nn.Conv3d(1, width, 3), nn.ReLU(), nn.MaxPool3d(2)),
        *(nn.Conv3d(width, width, 2), nn.ReLU(), nn.AdaptiveAvgPool3d(1)),
        *(nn.Flatten(), nn.Linear(width, CLASSES)),
    )
    return finish(net, seed), normal(2, 1, 8, 8, 8), width + width


ZOO = {
    "vgg": vgg,
    "inception": inception,
    "densenet": densenet,
    "mobilenet": mobilenet,
    "mobilenet_relu": partial(mobilenet, clipped=False),
    "squeeze_excite": squeeze_excite,
    "squeeze_excite_hard": partial(squeeze_excite, gate=nn.Hardsigmoid),
    "convnext": convnext,
    "group_norm": partial(norm_net, "group"),
    "group_norm_no_gain": partial(norm_net, "group", gain=False),
    "instance_norm": partial(norm_net, "instance"),
    "unet": unet,
    "unet_nearest": partial(unet, up="nearest"),
    "unet_bilinear": partial(unet, up="bilinear"),
    "conv1d": conv1d,
    "conv3d": conv3d,
}
SMALL = {
    "vgg": {"stages": ((2,), (3,)), "hidden": 4, "pixels": 6},
    "inception": {"stem": 2, "width": 2, "blocks": 1, "pixels": 4},
    "densenet": {"stem": 2, "growth": 2, "blocks": (2, 1), "pixels": 4},
    "mobilenet": {"stem": 2, "stages": ((1, 3, 1), (2, 3, 2)), "last": 4},
    "mobilenet_relu": {"stem": 2, "stages": ((1, 3, 1), (2, 3, 2)), "last": 4},
    "squeeze_excite": {"width": 3, "squeezed": 2, "blocks": 1, "pixels": 4},
    "squeeze_excite_hard": {"width": 3, "squeezed": 2, "blocks": 1, "pixels": 4},
    "convnext": {"widths": (2, 3), "blocks": (1, 1), "kernel": 3, "pixels": 8},
    "group_norm": {"width": 4, "pixels": 6},
    "group_norm_no_gain": {"width": 4, "pixels": 6},
    "instance_norm": {"width": 3, "pixels": 6},
    "unet": {"widths": (2, 3), "pixels": 4},
    "unet_nearest": {"widths": (2, 3), "pixels": 4},
    "unet_bilinear": {"widths": (2, 3), "pixels": 4},
    "conv1d": {"width": 2},
    "conv3d": {"width": 2},
}
IDLE = {
    "instance_norm": 2 * 3,  # a bias before an instance norm: the norm subtracts it again
}
