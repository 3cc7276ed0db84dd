"""What a table of times tells: latency and bandwidth, steps, scaling, each with its uncertainty.

Timing noise is proportional: a message that takes a thousand times longer also scatters a thousand
times more. So every point counts by its relative distance from the model, which gives it the weight
1/T². T is here the model's own time, found by repeating the fit: weighing by the reading itself
would trust whatever came out too fast. (The quasi-likelihood of a constant coefficient of
variation: McCullagh and Nelder, Generalized Linear Models, 1989, chapter 8.)

Standard errors are scaled by the scatter about the model. Intervals are Student's t with as many
degrees of freedom as there are more points than coefficients. They speak of that scatter alone: a
model of the wrong shape, or another run on another day, may lie outside. Give one time for each
size, such as the `middle` of its repetitions; repetitions of one run are too alike to be counted
as points of their own.
"""

from ringside.measure.fit.breakpoints import Step, steps
from ringside.measure.fit.efficiency import strong_efficiency, weak_efficiency
from ringside.measure.fit.latency import Line, line
from ringside.measure.fit.least_squares import WEIGHTS
from ringside.measure.fit.repetitions import Middle, middle
from ringside.measure.fit.scaling_models import Model, Prediction, Scaling, scaling

__all__ = [
    "WEIGHTS",
    "Line",
    "Middle",
    "Model",
    "Prediction",
    "Scaling",
    "Step",
    "line",
    "middle",
    "scaling",
    "steps",
    "strong_efficiency",
    "weak_efficiency",
]
