"""An arithmetic coder for yes/no decisions, in whole numbers, and adaptive models of them.

Why the code lengths may be used as a prior. Fix a model: a rule that gives, for each decision, the odds from the
decisions before it. The coder starts with an interval and cuts it at each decision into two parts that do not
overlap, one for each answer. So two different messages of the same language end in two disjoint intervals: the
number of decisions need not be the same, as long as the model knows from the decisions themselves when a message
ends. A codeword is a string of bytes b such that *every* extension of b (a number in [b, b + 256^-len)) lies in the
message's interval. Then the sets of extensions of two codewords are disjoint, and their sizes are 2^-bits with
bits = 8 len(b); as they all lie in [0, 1), the sum of 2^-bits over all messages is at most 1 (Kraft's inequality).
Nothing else is stored: no length, no end mark. Whole bytes cost up to 9 bits more than the logarithm of the interval,
and make the count plain: it is the size of the file.

Rissanen (1976) and Pasco (1976) for arithmetic coding; Krichevsky and Trofimov (1981) for the counts that start at
one half. Python loops over decisions: some seconds for a million, which is far more than codes that can certify
anything have.
"""

from __future__ import annotations

from typing import Protocol

from truerisk.errors import TrueriskError

_WIDE, _NARROW = 56, 48  # bits: the interval's width stays above 2^48 (of 2^56), one byte moves out at a time
_MOST = 1 << 40  # odds are ratios of whole numbers whose sum must stay below this, so that no part gets empty


class Odds:
    """Krichevsky-Trofimov odds of one kind of decision: counts of no and yes so far, each plus one half."""

    __slots__ = ("no", "yes")

    def __init__(self) -> None:
        self.no = self.yes = 1  # twice the count, plus one

    def learn(self, answer: bool) -> None:
        if answer:
            self.yes += 2
        else:
            self.no += 2


class Fair(Odds):
    """Even odds that learn nothing."""

    def learn(self, answer: bool) -> None:
        pass


class Coder(Protocol):
    """What a model talks to: the answer is written if it is known; if it is being read, what is passed is ignored."""

    def decide(self, odds: Odds, answer: bool = False) -> bool: ...


class Writer:
    """``decide(odds, answer)`` for each decision, then ``finish()``."""

    def __init__(self) -> None:
        self._out = bytearray()
        self._low, self._width = 0, 1 << _WIDE

    def decide(self, odds: Odds, answer: bool = False) -> bool:
        """Write one answer, and let the odds learn it."""
        part = _part(self._width, odds)
        if answer:
            self._low += part
            self._width -= part
        else:
            self._width = part
        odds.learn(answer)
        while self._width <= 1 << _NARROW:
            self._move_out()
        return answer

    def _move_out(self) -> None:
        byte = self._low >> _NARROW
        if byte > 255:
            self._carry()
        self._out.append(byte & 255)
        self._low = (self._low & ((1 << _NARROW) - 1)) << 8
        self._width <<= 8

    def _carry(self) -> None:
        """Add one to the bytes that were written; they can't all be 255, as the whole interval lies below 1."""
        place = len(self._out) - 1
        while self._out[place] == 255:
            self._out[place] = 0
            place -= 1
        self._out[place] += 1

    def finish(self) -> bytes:
        """The shortest bytes all of whose extensions lie in the interval; the smallest ones if there are several."""
        written = len(self._out)
        low = (int.from_bytes(self._out) << _WIDE) + self._low
        places = 8 * written + _WIDE  # bits after the point
        for length in range(written, places // 8 + 1):  # shorter ones reach farther than any interval that is left
            unit = 1 << (places - 8 * length)
            first = -(-low // unit)
            if (first + 1) * unit <= low + self._width:
                return first.to_bytes(length)
        raise AssertionError("the interval is wider than its last place")


class Reader:
    """``decide(odds)`` gives the answers of a ``Writer`` back, if it is asked with the same odds."""

    def __init__(self, code: bytes) -> None:
        self._code = code
        self._at = _WIDE // 8
        self._value = int.from_bytes(code[: self._at].ljust(self._at, b"\0"))  # minus the interval's lower end
        self._width = 1 << _WIDE

    def decide(self, odds: Odds, answer: bool = False) -> bool:
        """Read one answer, and let the odds learn it; ``answer`` is ignored."""
        part = _part(self._width, odds)
        answer = self._value >= part
        if answer:
            self._value -= part
            self._width -= part
        else:
            self._width = part
        odds.learn(answer)
        while self._width <= 1 << _NARROW:
            self._move_in()
        return answer

    def _move_in(self) -> None:
        # Bytes after the end count as 0: in a codeword they can't matter, and what is no codeword is found out when
        # the message is written again. The limit only keeps a code that was cut from being read on and on.
        if self._at > len(self._code) + 2 * _WIDE // 8:
            raise TrueriskError("the code ends before the network is complete; restore the whole file.")
        byte = self._code[self._at] if self._at < len(self._code) else 0
        self._at += 1
        self._value = (self._value << 8) | byte
        self._width <<= 8


def _part(width: int, odds: Odds) -> int:
    """The part of the interval for no; never empty, nor all of it."""
    total = odds.no + odds.yes
    if total >= _MOST:
        raise TrueriskError("this network has too many weights for one code; use a smaller one.")
    return width * odds.no // total
