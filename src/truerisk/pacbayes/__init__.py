"""PAC-Bayes on modules: Gaussian priors and posteriors, their training, their risk."""

from truerisk.pacbayes.chain import Chain, kl_chain, kls, rescale_and_tune
from truerisk.pacbayes.columns import COLUMNS, FORMS, KLColumns, bound_columns, kl_columns
from truerisk.pacbayes.draw import draw, draw_noise, drawn_network, log_ratio
from truerisk.pacbayes.gaussian import Gaussian, in_float32
from truerisk.pacbayes.head import find_head
from truerisk.pacbayes.layer_scales import best_layer_scales, layer_groups, with_layer_scales
from truerisk.pacbayes.lifted import LiftedKL, lifted_kl
from truerisk.pacbayes.monte_carlo import GibbsEstimate, draw_predictions, gibbs_risk, plan_draws
from truerisk.pacbayes.objectives import OBJECTIVES
from truerisk.pacbayes.posterior import train_posterior
from truerisk.pacbayes.priors import fan_in_std
from truerisk.pacbayes.rescaling import RescalingReport, Walked, rescaling_report
from truerisk.pacbayes.scale import tuned_scale
from truerisk.pacbayes.stochastic import NotPerExample, StochasticNetwork
from truerisk.pacbayes.tightening import Tightened, tighten
from truerisk.pacbayes.walk import Step, walk
from truerisk.plan import DrawPlan

__all__ = [
    "COLUMNS",
    "FORMS",
    "OBJECTIVES",
    "Chain",
    "DrawPlan",
    "Gaussian",
    "GibbsEstimate",
    "KLColumns",
    "LiftedKL",
    "NotPerExample",
    "RescalingReport",
    "Step",
    "StochasticNetwork",
    "Tightened",
    "Walked",
    "best_layer_scales",
    "bound_columns",
    "draw",
    "draw_noise",
    "draw_predictions",
    "drawn_network",
    "fan_in_std",
    "find_head",
    "gibbs_risk",
    "in_float32",
    "kl_chain",
    "kl_columns",
    "kls",
    "layer_groups",
    "lifted_kl",
    "log_ratio",
    "plan_draws",
    "rescale_and_tune",
    "rescaling_report",
    "tighten",
    "train_posterior",
    "tuned_scale",
    "walk",
    "with_layer_scales",
]
