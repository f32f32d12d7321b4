"""Papers that several experiments are about."""

from __future__ import annotations

from truerisk.lab.claim import Paper

ZHANG = Paper(
    "Zhang, Bengio, Hardt, Recht, Vinyals",
    2017,
    "Understanding deep learning requires rethinking generalization",
    "ICLR",
    arxiv="1611.03530",
)
ARPIT = Paper(
    "Arpit, Jastrzebski, Ballas, Krueger, Bengio, Kanwal, Maharaj, Fischer, Courville, Bengio, Lacoste-Julien",
    2017,
    "A closer look at memorization in deep networks",
    "ICML",
    arxiv="1706.05394",
)
MOHRI = Paper("Mohri, Rostamizadeh, Talwalkar", 2018, "Foundations of Machine Learning", "2nd edition, MIT Press")
BELKIN = Paper(
    "Belkin, Hsu, Ma, Mandal",
    2019,
    "Reconciling modern machine-learning practice and the classical bias-variance trade-off",
    "PNAS",
    arxiv="1812.11118",
)
