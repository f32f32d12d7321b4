"""Residual networks. One u for each channel of a stage: the stream that all of its blocks add to."""

from functools import partial

from torch import nn
from torch.nn import functional as F

from ._build import Mean, Permute, Plus, Scale, conv_bn, finish, head, normal


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
    if not clipped:
        dim += after  # plain ReLU pins nothing
    return finish(net, seed), normal(1, 3, pixels, pixels), dim


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
    net = nn.Sequential(*layers, Mean(2, 3), nn.LayerNorm(width), nn.Linear(width, 4))
    dim += width  # after the last norm
    return finish(net, seed), normal(1, 3, pixels, pixels), dim


ZOO = {
    "resnet18": basic,
    "resnet18_cifar": partial(basic, kind="cifar", pixels=16),
    "resnet20_option_a": partial(basic, widths=(16, 32, 64), blocks=(3, 3, 3), kind="cifar", pixels=16, option="A"),
    "resnet50": bottleneck,
    "resnext": partial(bottleneck, widths=(16, 32), blocks=(2, 2), kind="cifar", pixels=16, grow=2, groups=4),
    "pre_activation": pre_activation,
    "mobilenet": mobilenet,
    "mobilenet_relu": partial(mobilenet, clipped=False),
    "squeeze_excite": squeeze_excite,
    "squeeze_excite_hard": partial(squeeze_excite, gate=nn.Hardsigmoid),
    "convnext": convnext,
}
SMALL = {
    "resnet18": {"widths": (2, 3), "blocks": (1, 1), "pixels": 10, "classes": 3},
    "resnet18_cifar": {"widths": (2, 3), "blocks": (2, 1), "pixels": 5, "classes": 3},
    "resnet20_option_a": {"widths": (2, 4), "blocks": (1, 1), "pixels": 5, "classes": 3},
    "resnet50": {"widths": (2, 2), "blocks": (2, 1), "pixels": 10, "out": 2, "classes": 3},
    "resnext": {"widths": (2, 3), "blocks": (1, 1), "pixels": 5, "groups": 2, "out": 2, "classes": 3},
    "pre_activation": {"widths": (2, 3), "blocks": (1, 2), "pixels": 5, "classes": 3},
    "mobilenet": {"stem": 2, "stages": ((1, 3, 1), (2, 3, 2)), "last": 4},
    "mobilenet_relu": {"stem": 2, "stages": ((1, 3, 1), (2, 3, 2)), "last": 4},
    "squeeze_excite": {"width": 3, "squeezed": 2, "blocks": 1, "pixels": 4},
    "squeeze_excite_hard": {"width": 3, "squeezed": 2, "blocks": 1, "pixels": 4},
    "convnext": {"widths": (2, 3), "blocks": (1, 1), "kernel": 3, "pixels": 8},
}
IDLE: dict[str, int] = {}
