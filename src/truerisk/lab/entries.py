"""The table of the experiments: title, chapter, and sizes, in the order in which they are best read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Entry(NamedTuple):
    """An experiment as ``truerisk lab list`` shows it: its module loads torch, this does not. A test compares them."""

    title: str
    chapter: str
    sizes: Mapping[str, tuple[int, int]]  # scale -> runs, claims that it can settle
    own_data: bool = False  # takes --data

    @property
    def scales(self) -> list[str]:
        return list(self.sizes)


ENTRIES: dict[str, Entry] = {
    "random-labels": Entry(
        "Networks fit random labels",
        "fitting noise",
        {"smoke": (28, 10), "quick": (140, 10), "medium": (150, 10), "paper": (93, 10)},
        own_data=True,
    ),
    "regularizers": Entry(
        "Do explicit regularizers explain generalization?",
        "fitting noise",
        {"smoke": (37, 9), "quick": (105, 8), "medium": (81, 9), "paper": (85, 9)},
    ),
    "convex-regularization": Entry(
        "Do convex models need a regularizer where networks do not?",
        "fitting noise",
        {"smoke": (32, 6), "quick": (128, 6), "medium": (104, 6), "paper": (104, 6)},
        own_data=True,
    ),
    "rademacher": Entry(
        "Rademacher complexity: how well do networks follow random signs?",
        "capacity",
        {"smoke": (11, 5), "quick": (65, 5), "medium": (39, 5), "paper": (49, 5)},
    ),
    "shattering": Entry(
        "VC dimension: which points can be labeled in every way?",
        "capacity",
        {"smoke": (46, 6), "quick": (103, 6), "medium": (93, 6), "paper": (105, 6)},
    ),
    "memorizer": Entry(
        "A network that memorizes by construction",
        "capacity",
        {"smoke": (26, 7), "quick": (178, 7), "medium": (57, 5), "paper": (57, 4)},
    ),
    "kernel-interpolation": Entry(
        "Kernel interpolation",
        "interpolation",
        {"smoke": (12, 13), "quick": (66, 4), "medium": (31, 6), "paper": (16, 7)},
    ),
    "minimum-norm": Entry(
        "The smallest norm, and what SGD finds",
        "interpolation",
        {"smoke": (7, 6), "quick": (45, 6), "medium": (13, 3), "paper": (6, 2)},
    ),
    "double-descent": Entry(
        "Double descent: more features than examples",
        "overparameterization",
        {"smoke": (11, 10), "quick": (85, 10), "medium": (45, 9), "paper": (9, 4)},
        own_data=True,
    ),
    "network-descent": Entry(
        "Double descent: the error of trained networks falls, rises, and falls again",
        "overparameterization",
        {"smoke": (18, 11), "quick": (141, 9), "medium": (144, 11), "paper": (246, 11)},
        own_data=True,
    ),
    "tree-descent": Entry(
        "Double descent in forests and boosting",
        "overparameterization",
        {"smoke": (4, 6), "quick": (20, 6), "medium": (12, 6), "paper": (12, 6)},
        own_data=True,
    ),
    "smoothness": Entry(
        "Memorizing against interpolating: does smoothness decide?",
        "overparameterization",
        {"smoke": (30, 19), "quick": (150, 19), "medium": (30, 7), "paper": (30, 7)},
        own_data=True,
    ),
    "kernels": Entry(
        "Do random features become a kernel machine?",
        "overparameterization",
        {"smoke": (11, 11), "quick": (55, 11), "medium": (33, 11), "paper": (33, 11)},
        own_data=True,
    ),
    "norm-capacity": Entry(
        "Which norm falls as a network grows?",
        "overparameterization",
        {"smoke": (8, 9), "quick": (135, 9), "medium": (24, 7), "paper": (36, 7)},
        own_data=True,
    ),
    "infinite-width": Entry(
        "Is an infinitely wide regularized network a convex problem?",
        "overparameterization",
        {"smoke": (2, 6), "quick": (10, 6), "medium": (9, 6), "paper": (6, 6)},
        own_data=True,
    ),
    "matrix-factorization": Entry(
        "Low rank or low norm: the bias of matrix factorization",
        "overparameterization",
        {"smoke": (17, 14), "quick": (171, 14), "medium": (6, 1), "paper": (15, 5)},
        own_data=True,
    ),
    "averaging": Entry(
        "Averages of members that fit every label",
        "overparameterization",
        {"smoke": (10, 12), "quick": (52, 12), "medium": (26, 12), "paper": (26, 12)},
        own_data=True,
    ),
    "certified-descent": Entry(
        "Does a certificate see the second descent?",
        "overparameterization",
        {"smoke": (17, 14), "quick": (117, 14), "medium": (83, 14), "paper": (147, 14)},
        own_data=True,
    ),
    "stability": Entry(
        "How much does one training example matter?",
        "what SGD does",
        {"smoke": (8, 12), "quick": (80, 12), "medium": (39, 12), "paper": (39, 12)},
        own_data=True,
    ),
    "coherent-gradients": Entry(
        "Do per-example gradients agree?",
        "what SGD does",
        {"smoke": (5, 9), "quick": (25, 9), "medium": (15, 9), "paper": (15, 9)},
        own_data=True,
    ),
    "winsorized": Entry(
        "Does SGD memorize less if few examples cannot move a weight?",
        "what SGD does",
        {"smoke": (7, 8), "quick": (42, 8), "medium": (21, 8), "paper": (36, 8)},
        own_data=True,
    ),
    "batch-size": Entry(
        "Do large batches end in sharp minima?",
        "what SGD does",
        {"smoke": (7, 14), "quick": (45, 11), "medium": (21, 14), "paper": (21, 14)},
        own_data=True,
    ),
    "nonconvex": Entry(
        "Are networks hard to minimize?",
        "what SGD does",
        {"smoke": (9, 14), "quick": (66, 14), "medium": (35, 14), "paper": (25, 14)},
        own_data=True,
    ),
    "loss-landscape": Entry(
        "What does a picture of the loss show?",
        "what SGD does",
        {"smoke": (6, 8), "quick": (18, 8), "medium": (8, 8), "paper": (12, 8)},
        own_data=True,
    ),
    "good-bad-minima": Entry(
        "Good and bad minima with the same training error",
        "what SGD does",
        {"smoke": (5, 13), "quick": (30, 13), "medium": (3, 11), "paper": (3, 11)},
        own_data=True,
    ),
    "moons-widths": Entry(
        "Thirty points, any width: does the Lipschitz constant tell?",
        "what SGD does",
        {"smoke": (21, 9), "quick": (258, 9), "medium": (276, 9), "paper": (348, 9)},
    ),
    "random-label-pretraining": Entry(
        "What random labels teach a network, and what only looks like it",
        "what SGD does",
        {"smoke": (2, 11), "quick": (20, 11), "medium": (6, 11), "paper": (6, 11)},
        own_data=True,
    ),
    "conditioning": Entry(
        "How badly is a network conditioned, and what repairs it?",
        "what SGD does",
        {"smoke": (28, 11), "quick": (75, 11), "medium": (53, 11), "paper": (53, 11)},
        own_data=True,
    ),
    "vanishing-gradients": Entry(
        "Do gradients reach the first layer, and the first step?",
        "what SGD does",
        {"smoke": (29, 14), "quick": (129, 14), "medium": (79, 14), "paper": (79, 14)},
        own_data=True,
    ),
    "normalization": Entry(
        "Which normalization helps where?",
        "what SGD does",
        {"smoke": (68, 12), "quick": (220, 12), "medium": (144, 12), "paper": (144, 12)},
        own_data=True,
    ),
    "optimizers": Entry(
        "Is a stronger optimizer a stronger learner?",
        "what SGD does",
        {"smoke": (29, 13), "quick": (145, 13), "medium": (72, 12), "paper": (72, 12)},
        own_data=True,
    ),
    "takeaways": Entry(
        "Which advice on training is worth its time?",
        "what SGD does",
        {"smoke": (20, 16), "quick": (100, 16), "medium": (60, 16), "paper": (60, 16)},
        own_data=True,
    ),
    "mystery": Entry(
        "What makes networks generalize? Seven suspects at once",
        "what SGD does",
        {"smoke": (4, 13), "quick": (40, 11), "medium": (96, 13), "paper": (192, 13)},
        own_data=True,
    ),
    "easy-examples": Entry(
        "Do networks learn easy examples first?",
        "a closer look at memorization",
        {"smoke": (6, 5), "quick": (15, 4), "medium": (9, 4), "paper": (9, 4)},
    ),
    "loss-sensitivity": Entry(
        "Do few examples matter, or all of them?",
        "a closer look at memorization",
        {"smoke": (7, 3), "quick": (31, 3), "medium": (19, 3), "paper": (19, 3)},
    ),
    "capacity": Entry(
        "Does noise need more capacity and time?",
        "a closer look at memorization",
        {"smoke": (18, 4), "quick": (82, 4), "medium": (53, 4), "paper": (68, 4)},
    ),
    "critical-samples": Entry(
        "How near to a decision boundary do the data lie?",
        "a closer look at memorization",
        {"smoke": (5, 5), "quick": (25, 5), "medium": (15, 5), "paper": (15, 5)},
    ),
    "memory-regularizers": Entry(
        "Which regularizer takes the memory away?",
        "a closer look at memorization",
        {"smoke": (12, 5), "quick": (290, 5), "medium": (174, 5), "paper": (186, 5)},
    ),
    "rescaling-bounds": Entry(
        "How much does rescaling lower PAC-Bayes bounds?",
        "bounds and measures",
        {"smoke": (10, 14), "quick": (40, 7), "medium": (31, 0), "paper": (93, 9)},
    ),
    "predictiveness": Entry(
        "Which measures predict generalization?",
        "bounds and measures",
        {"smoke": (8, 6), "quick": (80, 4), "medium": (243, 6), "paper": (405, 6)},
    ),
}
