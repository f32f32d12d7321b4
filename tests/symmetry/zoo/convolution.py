"""Convolutional networks without residuals: chains, branches, concatenations."""

from functools import partial
from itertools import pairwise

import torch
from torch import nn

from ._build import Scale, conv_bn, finish, head, normal

CLASSES = 4


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


def pixel_scale(width=6, pixels=6, seed=0):
    """A parameter for each pixel of each channel, then a linear layer that reads each of them with its own weights."""
    side = pixels - 2
    net = nn.Sequential(
        *(nn.Conv2d(3, width, 3), Scale(width, side, side), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(width * side * side, CLASSES)),
    )
    return finish(net, seed), normal(2, 3, pixels, pixels), width + width * side * side  # before; after the scale


def image_norm(width=6, pixels=8, seed=0):
    """LayerNorm over whole images, with a gain for each pixel. A convolution reads all pixels with the same weights."""
    one, two = pixels - 2, pixels - 4
    net = nn.Sequential(
        *(nn.Conv2d(3, width, 3), nn.LayerNorm((width, one, one)), nn.ReLU()),
        *(nn.Conv2d(width, width, 3), nn.LayerNorm((width, two, two)), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(width * two * two, CLASSES)),
    )
    return finish(net, seed), normal(2, 3, pixels, pixels), width + width * two * two  # after each norm


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
    "group_norm": partial(norm_net, "group"),
    "group_norm_no_gain": partial(norm_net, "group", gain=False),
    "instance_norm": partial(norm_net, "instance"),
    "pixel_scale": pixel_scale,
    "image_norm": image_norm,
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
    "group_norm": {"width": 4, "pixels": 6},
    "group_norm_no_gain": {"width": 4, "pixels": 6},
    "instance_norm": {"width": 3, "pixels": 6},
    "pixel_scale": {"width": 2, "pixels": 4},
    "image_norm": {"width": 2, "pixels": 6},
    "unet": {"widths": (2, 3), "pixels": 4},
    "unet_nearest": {"widths": (2, 3), "pixels": 4},
    "unet_bilinear": {"widths": (2, 3), "pixels": 4},
    "conv1d": {"width": 2},
    "conv3d": {"width": 2},
}
IDLE = {
    "instance_norm": 2 * 3,  # a bias before an instance norm: the norm subtracts it again
}
