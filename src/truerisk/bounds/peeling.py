r"""Rademacher complexity of networks by peeling off one layer after another: products of norms, and path norms.

All functions return ln Rad(ramp loss at margin 1) for the class of networks whose norm is at most 1. Classes here
scale, so Rad at norm r and margin gamma is r/gamma times that (see `margin`).

Setting: f(x) = W_d relu(W_(d-1) ... relu(W_1 x)), without biases. With biases, x is (x, 1) and W_l is [[W, b], [0,
1]] ([W, b] for the last one): the ReLU keeps the 1. Layers may be any matrices, those of convolutions too, and a ReLU
may be missing, as its place then needs no contraction. n inputs are the rows of X; d = `depth`, K = `outputs`.

From margins to outputs. The ramp loss of the margin is a function of the K outputs that changes by at most
sqrt(2)/gamma times their l2 distance. By the contraction inequality for vectors (Maurer 2016, "A vector-contraction
inequality for Rademacher complexities", Corollary 4), with signs s_ik,

    n Rad(ramp loss) <= sqrt(2) (sqrt(2)/gamma) E sup_f sum_ik s_ik f_k(x_i).

With two classes the margin is +-(f_1 - f_0), one number: Talagrand's contraction gives 1/gamma in place of 2/gamma
and one output in place of K. Pass ``outputs=1`` then: the norm of w_1 - w_0 is at most the sum of theirs.

The last layer. With rows w_k of W_d and h the layers below, sup_f sum_ik s_ik f_k(x_i) <= sum_k ||w_k|| times max_k
sup_h ||sum_i s_ik h(x_i)||* (the dual norm). So the norm of the last layer is sum_k ||w_k||, and K enters through a
maximum of K variables that are distributed alike. This step, and therefore the constants, are ours; they are derived
below from the cited inequalities. Note that sum_k ||w_k||_2 is at most sqrt(K) times the Frobenius norm.
"""

import math

from truerisk.bounds._checks import Count, Number, as_float, check_count
from truerisk.bounds.radii import LOG2
from truerisk.errors import TrueriskError


def contraction(outputs: Count) -> float:
    """Return 2 for a margin between several outputs, 1 for a single output (see the top of this file)."""
    return 1.0 if check_count(outputs, "outputs") == 1 else 2.0


def _log_positive(value: Number, name: str) -> float:
    number = as_float(value, name)
    if not 0.0 < number < math.inf:
        raise TrueriskError(f"{name} must be positive and finite, got {number}: are all inputs zero?")
    return math.log(number)


def neyshabur_2015(depth: Count, outputs: Count, input_norm: Number, n: Count) -> float:
    r"""Return ln of c 2^(d-1) ||X||_F min(sqrt(K), 1 + sqrt(2 ln K)) / n, c = 2 (1 if K = 1).

    The norm is sum_k ||w_k||_2 times the Frobenius norms of all other layers. After Neyshabur, Tomioka and Srebro
    (2015, "Norm-based capacity control in neural networks", Corollary 2 with p = q = 2, number from memory).
    `input_norm` is ||X||_F, the root of the sum of squares of all entries of all inputs.

    Peeling: sup over ||W||_F <= 1 of ||sum_i s_i relu(W h(x_i))||_2 is reached where W has one row that is not zero, so
    it is sup over ||w||_2 <= 1 of |sum_i s_i relu(w.h(x_i))|, and its mean, with a maximum over k or without, at most
    twice that without the ReLU (Ledoux and Talagrand 1991, Theorem 4.12, number from memory): E max_k sup ||sum_i s_ik
    h(x_i)||. After d - 1 layers max_k ||sum_i s_ik x_i|| is left. Its mean is at most the root of the sum of K squares,
    sqrt(K) ||X||_F; and by `golowich_frobenius` with d = 1 at most (1 + sqrt(2 ln K)) ||X||_F.

    >>> round(math.exp(neyshabur_2015(1, 1, 20.0, 100)), 12), round(math.exp(neyshabur_2015(3, 4, 20.0, 100)), 12)
    (0.2, 3.2)
    """
    depth, k = check_count(depth, "depth"), check_count(outputs, "outputs")
    several = min(math.sqrt(k), 1.0 + math.sqrt(2.0 * math.log(k)))
    front = math.log(contraction(k) * several / check_count(n))
    return front + (depth - 1) * LOG2 + _log_positive(input_norm, "input_norm")


def golowich_frobenius(depth: Count, outputs: Count, input_norm: Number, n: Count) -> float:
    r"""Return ln of c ||X||_F (1 + sqrt(2 ((d-1) ln 2 + ln K))) / n, c = 2 (1 if K = 1).

    The norm is that of `neyshabur_2015`. Golowich, Rakhlin and Shamir (2018, "Size-independent sample complexity of
    neural networks", Theorem 1, with (sqrt(2 d ln 2) + 1) for one output; the ln K is ours).

    Let Y_k = sup_h ||sum_i s_ik h(x_i)||_2 over layers of Frobenius norm 1. For any t > 0, by Jensen's inequality, E
    max_k Y_k <= (1/t) ln(K E exp(t Y_1)). One layer: E exp(t sup |sum_i s_i relu(w.h(x_i))|) is at most twice E exp(t
    sup sum_i s_i relu(w.h(x_i))), as exp|a| <= exp(a) + exp(-a) and the signs are symmetric, and that at most the same
    without the ReLU (Ledoux and Talagrand, inequality 4.20, number from memory). After d - 1 layers 2^(d-1) E exp(t Z)
    is left with Z = ||sum_i s_i x_i||. E Z <= ||X||_F; turning s_i moves Z by at most 2 ||x_i||, so E exp(t Z) <= exp(t
    ||X||_F + t^2 ||X||_F^2 / 2). The best t gives the formula.

    >>> round(math.exp(golowich_frobenius(1, 1, 20.0, 100)), 12)
    0.2
    """
    depth, k = check_count(depth, "depth"), check_count(outputs, "outputs")
    root = 1.0 + math.sqrt(2.0 * ((depth - 1) * LOG2 + math.log(k)))
    return math.log(contraction(k) * root / check_count(n)) + _log_positive(input_norm, "input_norm")


def golowich_rows(depth: Count, outputs: Count, features: Count, column_norm: Number, n: Count) -> float:
    r"""Return ln of c M sqrt(2 (d ln 2 + ln D + ln K)) / n, c = 2 (1 if K = 1), D = `features`.

    The norm is the sum of all |entries| of the last layer times, for each other layer, the largest l1 norm of a row.
    `column_norm` is M = max_j sqrt(sum_i x_ij^2), over all D input features j. Golowich, Rakhlin and Shamir (2018,
    Theorem 2, there 2 sqrt(d + 1 + ln D) for one output; constants ours).

    Peeling as in `golowich_frobenius`, with the dual norm max_j in place of the l2 norm: a factor 2 for each of d - 1
    ReLUs, and in the end E exp(t max_j |sum_i s_i x_ij|) <= 2 D exp(t^2 M^2 / 2).

    >>> round(math.exp(golowich_rows(1, 1, 1, 20.0, 100)), 12)  # 0.2 sqrt(2 ln 2)
    0.235482004503
    """
    depth, k = check_count(depth, "depth"), check_count(outputs, "outputs")
    logs = depth * LOG2 + math.log(check_count(features, "features")) + math.log(k)
    return _largest_sum(logs, k, column_norm, n)


def gonon_paths(depth: Count, outputs: Count, features: Count, column_norm: Number, n: Count) -> float:
    r"""Return ln of c M sqrt(2 (ln(2^d - 1) + ln 2 + ln D + ln K)) / n for any ReLU network, c = 2 (1 if K = 1).

    The norm is the l1 path norm: the sum over all paths from an input (or a bias) to an output of the product of
    |weights|, a maximum counting as the sum over its window. Networks may have skip connections and max-pools. After
    Gonon, Brisebarre, Riccietti and Gribonval (2024, "A path-norm toolkit for modern networks", Theorem 3.1, number
    from memory); constants and proof ours. Here d - 1 is the largest number of ReLUs on a path, where a maximum over k
    entries counts as ceil(log2 k) of them; D and M are as in `golowich_rows`, and where there are biases the constant 1
    is one of the D features.

    For a unit v, let P_v be the sum over the paths that end there. Its input z_v = sum_u w_uv a_u divided by P_v is a
    combination of a_u / P_u with coefficients whose |values| add up to 1. Let A_0 be the features, Z_t all such
    combinations of A_(t-1), and A_t the features together with all max(p z, q z') for z, z' in Z_t and p + q = 1, p,
    q >= 0. The ReLU is p = 1; Z_t and A_t grow with t; a maximum over k units is a tree of maxima of two. So f_k /
    P_k is in Z_d. Let E_t = E exp(r sup over Z_t of sum_i s_i z(x_i)) = E exp(r sup over A_(t-1) of |sum_i s_i
    a(x_i)|). Then E_1 <= 2 D exp(r^2 M^2 / 2), and E_t <= E_1 + 2 E_(t-1), as for the maxima: with f = p z, g = q z',

        max(f, g) = (f + g)/2 + |f - g|/2,

    by Cauchy and Schwarz E exp(r sup sum_i s_i max(f, g)) is at most the geometric mean of E exp(r sup sum_i s_i (f +
    g)) and E exp(r sup sum_i s_i |f - g|); contraction takes the |.| away; and f + g, f - g are in Z_(t-1). So E_d <=
    (2^d - 1) E_1, and the maximum over K outputs adds ln K.

    >>> math.isclose(gonon_paths(1, 1, 7, 20.0, 100), golowich_rows(1, 1, 7, 20.0, 100))
    True
    """
    depth, k = check_count(depth, "depth"), check_count(outputs, "outputs")
    tree = depth * LOG2 + math.log1p(-(2.0**-depth))
    logs = tree + LOG2 + math.log(check_count(features, "features")) + math.log(k)
    return _largest_sum(logs, k, column_norm, n)


def _largest_sum(logs: float, outputs: int, column_norm: Number, n: Count) -> float:
    """ln(c M sqrt(2 logs) / n): the best r in (1/r) (logs + r^2 M^2 / 2)."""
    front = math.log(contraction(outputs) / check_count(n))
    return front + 0.5 * math.log(2.0 * logs) + _log_positive(column_norm, "column_norm")
