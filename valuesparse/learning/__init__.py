"""Learning: optimisers that know nothing of the model they are for.

======================= ==============================================================
``lbfgs``               L-BFGS and OWL-QN, resumable, the same bits for any threads
``_linesearch``         its line searches
``parts``               what online learning asks of a model, and its losses (MSFXM10)
``rules``               how weights follow from one example: Algorithm 1 of MSFXM10, and others
``online``              passes over the examples
``_checkpoint``         the state of a learner in a file, from which a run that was cut off goes on
``_state``              what the states of learners consist of; states are checked when read
======================= ==============================================================
"""

from valuesparse.learning._state import Field
from valuesparse.learning.lbfgs import Bounded, Iteration, Lbfgs
from valuesparse.learning.online import Epoch, Online
from valuesparse.learning.parts import (
    PartModel,
    SweepingModel,
    Together,
    loss_and_gradient,
    supported,
)
from valuesparse.learning.rules import (
    Aggressive,
    Arow,
    PassiveAggressive,
    Perceptron,
    Rule,
    Update,
)

__all__ = [
    "Aggressive",
    "Arow",
    "Bounded",
    "Epoch",
    "Field",
    "Iteration",
    "Lbfgs",
    "Online",
    "PartModel",
    "PassiveAggressive",
    "Perceptron",
    "Rule",
    "SweepingModel",
    "Together",
    "Update",
    "loss_and_gradient",
    "supported",
]
