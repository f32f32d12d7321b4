"""PAC-Bayes on modules: Gaussian priors and posteriors, their training, their risk."""

from truerisk.pacbayes.gaussian import Gaussian
from truerisk.pacbayes.monte_carlo import DrawPlan, GibbsEstimate, draw_predictions, gibbs_risk, plan_draws
from truerisk.pacbayes.objectives import OBJECTIVES
from truerisk.pacbayes.posterior import train_posterior
from truerisk.pacbayes.priors import fan_in_std
from truerisk.pacbayes.stochastic import NotPerExample, StochasticNetwork

__all__ = [
    "OBJECTIVES",
    "DrawPlan",
    "Gaussian",
    "GibbsEstimate",
    "NotPerExample",
    "StochasticNetwork",
    "draw_predictions",
    "fan_in_std",
    "gibbs_risk",
    "plan_draws",
    "train_posterior",
]
