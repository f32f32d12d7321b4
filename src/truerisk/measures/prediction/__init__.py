"""How well measures predict generalization, over a set of trained networks (Jiang et al. 2020, Dziugaite et al. 2020).

``rank`` takes the networks as plain rows and gives a ``Score`` for each measure; ``power`` tells whether these networks
differ enough for that.
"""

from truerisk.measures.prediction.pairs import Row
from truerisk.measures.prediction.power import Power, power
from truerisk.measures.prediction.ranking import Score, rank
from truerisk.measures.prediction.robust import Environment

__all__ = ["Environment", "Power", "Row", "Score", "power", "rank"]
