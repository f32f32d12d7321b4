r"""Description length: the shorter a predictor can be written down, the less it can overfit.

A code is fixed before the data is seen: a way to write predictors as bit strings of which none begins
another (prefix-free), so that the numbers 2^-bits add up to at most 1 over all predictors (Kraft).
"""

import math

from truerisk.bounds._checks import Count, Number, as_float, check_delta, check_errors, mirrored, outward
from truerisk.bounds._tails import tail_inverse
from truerisk.errors import TrueriskError


def description_length(errors: Count, n: Count, bits: Number, delta: Number) -> float:
    """Return the p at which at most `errors` errors among `n` have probability delta 2^-bits.

    The Occam's razor bound (Langford 2005, Section 4, with the exact binomial tail; used for networks by Zhou
    et al. 2019 and Lotfi et al. 2022): each predictor h gets the share delta 2^-bits(h) of delta, the shares
    add up to at most delta by Kraft's inequality, and each h taken alone is a fixed predictor on n fresh
    examples. So with probability at least 1 - delta the true risk of *every* h with a code is at most the
    result at its own errors and bits, also of one that was trained on the n examples.

    `bits` is the length of the whole message: everything that the decoder needs and that was not fixed
    beforehand (codebooks, scales, which weights are zero, the choice of an architecture), and it must tell
    the decoder where it ends. A file of a length that the code does not fix pays for that length too.

    Evaluated in logarithms, as delta 2^-bits soon underflows. Never more than the Chernoff form
    ``kl_inverse(errors/n, (bits ln 2 + ln(1/delta)) / n)``, and never less than errors/n.

    >>> round(description_length(0, 100, 0, 0.05), 6)  # 1 - 0.05^(1/100)
    0.029513
    >>> round(description_length(300, 60_000, 20_000, 0.05), 4)
    0.2261
    """
    errors, n = check_errors(errors, n)
    length = as_float(bits, "bits")
    if length < 0.0:
        raise TrueriskError(f"bits must be at least 0, got {length}: pass the length of the code word in bits.")
    return tail_inverse(errors, n, outward(length * math.log(2.0) - math.log(check_delta(delta))))


def description_length_lower(errors: Count, n: Count, bits: Number, delta: Number) -> float:
    """Return the p at which at least `errors` errors among `n` have probability delta 2^-bits: the other end.

    The other tail of every predictor with a code, with a delta of its own: 1 minus `description_length` for the
    right answers. `errors` must not hold ties that the network may break in favor of the label.

    >>> round(description_length_lower(100, 100, 0, 0.05), 6)  # 0.05^(1/100)
    0.970487
    """
    errors, n = check_errors(errors, n)
    return mirrored(description_length(n - errors, n, bits, delta))
