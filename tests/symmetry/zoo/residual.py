"""Residual networks. One u for each channel of a stage: the stream that all of its blocks add to."""

from functools import partial

from torch import nn
from torch.nn import functional as F

from ._build import conv_bn, finish, normal

class Block(nn.Module):
    """relu(body(x) + shortcut(x)), in place as torchvision does it."""

    def __init__(self, body, shortcut=()):
        super().__init__()
        self.body, self.shortcut = nn.Sequential(*body), nn.Sequential(*shortcut)

    def forward(self, x):
        out = self.body(x)
        out += self.shortcut(x)
        return F.relu(out, inplace=True)


class Pad(nn.Module):
    """Option A of He et al. (2016), section 4.2: every second pixel, and new channels that are 0."""

    def __init__(self, channels):
        super().__init__()
        self.channels = channels

    def forward(self, x):
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.channels // 2, self.channels - self.channels // 2))


def relu():
    return nn.ReLU(inplace=True)


def stem(kind, width):
    if kind == "cifar":
        return [*conv_bn(3, width, 3), relu()]
    return [*conv_bn(3, width, 7, stride=2), relu(), nn.MaxPool2d(3, 2, padding=1)]


def head(width, classes):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]


def basic(widths=(64, 128, 256, 512), blocks=(2, 2, 2, 2), kind="imagenet", pixels=32, option="B", classes=10, seed=0):
    """ResNet-18 and -34: two 3x3 convolutions in each block. Option B: 1x1 convolution and norm where widths change."""
    layers, width = stem(kind, widths[0]), widths[0]
    for w, n in zip(widths, blocks, strict=True):
        for k in range(n):
            stride = 2 if k == 0 and w != widths[0] else 1
            shortcut = ()
            if stride == 2:
                shortcut = conv_bn(width, w, 1, stride) if option == "B" else [Pad(w - width)]
            layers.append(Block([*conv_bn(width, w, 3, stride), relu(), *conv_bn(w, w, 3)], shortcut))
            width = w
    net = nn.Sequential(*layers, *head(width, classes))

    dim = widths[0]  # the stem's convolution; after its norm begins the first stream
    dim += sum(n * (w + w + w) for w, n in zip(widths, blocks, strict=True))  # conv, norm, conv; then the stream
    if option == "B":
        dim += sum(widths)  # a stream for each stage
        dim += sum(widths[1:])  # between the convolution and the norm of each shortcut
    else:
        dim += widths[-1]  # the channels go on through the stages as one stream; each stage adds those it's wider by
    return finish(net, seed), normal(1, 3, pixels, pixels), dim


def bottleneck(
    widths=(64, 128, 256, 512),
    blocks=(3, 4, 6, 3),
    kind="imagenet",
    pixels=32,
    grow=1,
    groups=1,
    out=4,
    classes=10,
    seed=0,
):
    """ResNet-50; with groups and grow=2, ResNeXt. In a grouped convolution too, each output channel is free."""
    layers, width = stem(kind, widths[0]), widths[0]
    for stage, (w, n) in enumerate(zip(widths, blocks, strict=True)):
        for k in range(n):
            stride, inner = (2 if stage and k == 0 else 1), grow * w
            body = [
                *(*conv_bn(width, inner, 1), relu()),
                *(*conv_bn(inner, inner, 3, stride, groups), relu()),
                *conv_bn(inner, out * w, 1),
            ]
            layers.append(Block(body, () if k else conv_bn(width, out * w, 1, stride)))
            width = out * w
    net = nn.Sequential(*layers, *head(width, classes))

    dim = 2 * widths[0]  # the stem's convolution and norm: the first block has a convolution in its shortcut already
    for w, n in zip(widths, blocks, strict=True):
        dim += out * w  # the stream
        dim += out * w  # between the convolution and the norm of the first block's shortcut
        dim += n * (2 * grow * w + 2 * grow * w + out * w)  # (conv, norm) twice, conv; then the stream
    return finish(net, seed), normal(1, 3, pixels, pixels), dim


class PreBlock(nn.Module):
    """He et al. (2016), "Identity mappings": norm, ReLU, convolution, twice. The 1x1 shortcut starts after the ReLU."""

    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(c_in), nn.BatchNorm2d(c_out)
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(c_in, c_out, 1, stride, bias=False) if c_in != c_out else None

    def forward(self, x):
        a = F.relu(self.norm1(x))
        return self.conv2(F.relu(self.norm2(self.conv1(a)))) + (x if self.shortcut is None else self.shortcut(a))


def pre_activation(widths=(16, 32, 64), blocks=(2, 2, 2), pixels=16, classes=10, seed=0):
    layers, width = [nn.Conv2d(3, widths[0], 3, padding=1, bias=False)], widths[0]
    dim = 0
    for w, n in zip(widths, blocks, strict=True):
        dim += w  # the stream: last convolutions of the blocks, shortcut, and the stem in the first stage
        for _ in range(n):
            layers.append(PreBlock(width, w, 1 if width == w else 2))
            dim += width + w + w  # after the first norm, between conv and norm, after the second norm
            width = w
    net = nn.Sequential(*layers, nn.BatchNorm2d(width), nn.ReLU(), *head(width, classes))
    dim += width  # after the last norm
    return finish(net, seed), normal(1, 3, pixels, pixels), dim


ZOO = {
    "resnet18": partial(basic, pixels=64),
    "resnet18_cifar": partial(basic, kind="cifar"),
    "resnet20_option_a": partial(basic, widths=(16, 32, 64), blocks=(3, 3, 3), kind="cifar", option="A"),
    "resnet50": partial(bottleneck, pixels=64),
    "resnext": partial(bottleneck, widths=(16, 32), blocks=(2, 2), kind="cifar", grow=2, groups=4),
    "pre_activation": pre_activation,
}
SMALL = {
    "resnet18": {"widths": (2, 3), "blocks": (1, 2), "pixels": 16, "classes": 3},
    "resnet18_cifar": {"widths": (2, 3), "blocks": (2, 1), "pixels": 5, "classes": 3},
    "resnet20_option_a": {"widths": (2, 4), "blocks": (1, 2), "pixels": 5, "classes": 3},
    "resnet50": {"widths": (2, 3), "blocks": (2, 1), "pixels": 16, "out": 2, "classes": 3},
    "resnext": {"widths": (2, 3), "blocks": (1, 1), "pixels": 5, "groups": 2, "out": 2, "classes": 3},
    "pre_activation": {"widths": (2, 3), "blocks": (2, 2), "pixels": 5, "classes": 3},
}
IDLE: dict[str, int] = {}
