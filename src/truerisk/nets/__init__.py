"""Networks: the built-in ones, the user's own, and the checks that make them certifiable."""

from truerisk.names import BUILTIN, FACTORY, MODULE
from truerisk.nets.adapt import Adapted, adapted, fitted, inner, refitted
from truerisk.nets.architecture import Architecture, architecture
from truerisk.nets.builtin import builtin, convnet, mlp
from truerisk.nets.checks import check_network
from truerisk.nets.classics import CLASSICS, classic, small_alexnet, small_inception
from truerisk.nets.cosine import cosnet, mirrored_cosnet
from truerisk.nets.evaluate import (
    NOTHING,
    Tally,
    count_errors,
    count_wrong,
    margins,
    outputs,
    precision,
    predict_labels,
    tally,
)
from truerisk.nets.fold import fold_batch_norm, unfoldable
from truerisk.nets.memorizer import memorize, memorize_deep
from truerisk.nets.recognize import builtin_name
from truerisk.nets.reinitialize import reinitialized
from truerisk.nets.residual import mirrored_resnet, resnet
from truerisk.nets.weights import load_weights, read_weights

__all__ = [
    "BUILTIN",
    "CLASSICS",
    "FACTORY",
    "MODULE",
    "NOTHING",
    "Adapted",
    "Architecture",
    "Tally",
    "adapted",
    "architecture",
    "builtin",
    "builtin_name",
    "check_network",
    "classic",
    "convnet",
    "cosnet",
    "count_errors",
    "count_wrong",
    "fitted",
    "fold_batch_norm",
    "inner",
    "load_weights",
    "margins",
    "memorize",
    "memorize_deep",
    "mirrored_cosnet",
    "mirrored_resnet",
    "mlp",
    "outputs",
    "precision",
    "predict_labels",
    "read_weights",
    "refitted",
    "reinitialized",
    "resnet",
    "small_alexnet",
    "small_inception",
    "tally",
    "unfoldable",
]
