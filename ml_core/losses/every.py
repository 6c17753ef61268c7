"""Every loss, by name: importing this lets `loss_of` read all of them."""

from __future__ import annotations

from ml_core.losses.absolute import Absolute
from ml_core.losses.epsilon_insensitive import EpsilonInsensitive
from ml_core.losses.exponential import Exponential
from ml_core.losses.gamma import Gamma, InverseGamma
from ml_core.losses.hinge import Hinge, SquaredHinge
from ml_core.losses.huber import Huber
from ml_core.losses.logistic import Logistic
from ml_core.losses.named import LOSSES, LossSpec, Named, loss_of
from ml_core.losses.norm import Norm
from ml_core.losses.perceptron import Perceptron
from ml_core.losses.poisson import Poisson
from ml_core.losses.softmax import Softmax
from ml_core.losses.squared import Squared
from ml_core.losses.squared_length import SquaredLength
from ml_core.losses.tukey import Tukey
from ml_core.losses.zero_one import LossMatrix, ZeroOne

__all__ = [
    "LOSSES", "Absolute", "EpsilonInsensitive", "Exponential", "Gamma", "Hinge", "Huber", "InverseGamma", "Logistic",
    "LossMatrix", "LossSpec", "Named", "Norm", "Perceptron", "Poisson", "Softmax", "Squared", "SquaredHinge",
    "SquaredLength", "Tukey", "ZeroOne", "loss_of",
]  # fmt: skip
