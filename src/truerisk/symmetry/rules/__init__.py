"""How each operation passes log-scales on. To teach truerisk an operation, add a rule to one of these tables."""

from __future__ import annotations

from truerisk.symmetry.rules import contractions, elementwise, movement, norms, reductions
from truerisk.symmetry.tracer import Rule

RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **contractions.RULES,
    **norms.RULES,
    **reductions.RULES,
    **movement.RULES,
}
