"""The loss surface of a network over lines and planes of weight space, next to that of a rescaled twin."""

from truerisk.landscape.directions import NORMALIZATIONS, Direction, normalized, random_direction, weights_of
from truerisk.landscape.explore import Landscape, Pair, explore
from truerisk.landscape.planes import KINDS, Plane, hessian_plane, line, pca_plane, random_plane
from truerisk.landscape.reading import Reading, curvatures, doubling, nonconvex, read
from truerisk.landscape.surface import Surface, evaluate
from truerisk.landscape.twin import Twin, rescaled_twin

__all__ = [
    "KINDS",
    "NORMALIZATIONS",
    "Direction",
    "Landscape",
    "Pair",
    "Plane",
    "Reading",
    "Surface",
    "Twin",
    "curvatures",
    "doubling",
    "evaluate",
    "explore",
    "hessian_plane",
    "line",
    "nonconvex",
    "normalized",
    "pca_plane",
    "random_direction",
    "random_plane",
    "read",
    "rescaled_twin",
    "weights_of",
]
