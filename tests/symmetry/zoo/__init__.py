"""Networks whose group of rescalings is known by hand.

Each channel of each hidden tensor may be multiplied by exp(u); the weights before and after it take the factor up,
and the function of the network stays what it was. A builder gives (module, example input, dim): dim counts the free
u, and beside it stands where each term comes from. `ZOO[name](seed=1, **SMALL[name])` is the same network with a
few hundred weights. `IDLE` tells how many weights of the small network have no influence whatever.

The words used: a channel is *free* (its u is anything), *pinned* (its u is 0), or *tied* to another one.
A *stream* is a sum that many layers add to: all of it is tied.
"""

from functools import cache

from truerisk.symmetry import find_symmetry

from . import attention, convolution, dense, residual

FAMILIES = (dense, convolution, residual, attention)
ZOO = {name: build for family in FAMILIES for name, build in family.ZOO.items()}
SMALL = {name: sizes for family in FAMILIES for name, sizes in family.SMALL.items()}
IDLE = {name: count for family in FAMILIES for name, count in family.IDLE.items()}


@cache
def small(name):
    """(module, example input, dim, symmetry) of the small network, searched once for all tests: don't change it.

    The symmetry is not checked by numbers: test_zoo.py checks those of the large networks.
    """
    module, x, dim = ZOO[name](**SMALL[name])
    return module, x, dim, find_symmetry(module, x, check=False)
