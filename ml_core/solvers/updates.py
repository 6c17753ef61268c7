"""How a gradient becomes a step: update rules as values, for one loop (`first_order.descend`).

A rule has a state of arrays; `move(state, g, h, rate, t)` gives step and next state; t = 1, 2, … counts steps.

References
----------
Polyak (1964), Some methods of speeding up the convergence of iteration methods. Nesterov (1983), A method of solving a
convex programming problem with convergence rate O(1/k²). Tieleman, Hinton (2012), RMSProp. Kingma, Ba (2015), Adam.
Reddi, Kale, Kumar (2018), On the convergence of Adam and beyond. LeCun, Bottou, Orr, Müller (1998), Efficient BackProp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ml_core.arrays import Vector

State = tuple[Vector, ...]


class Update(Protocol):
    """A rule; `curved` ones also ask for a diagonal of curvature."""

    @property
    def curved(self) -> bool:
        """Whether `move` uses h."""

    def begin(self, d: int) -> State:
        """The state before the first step of d unknowns."""

    def move(self, state: State, g: Vector, h: Vector, rate: float, t: int) -> tuple[Vector, State]:
        """Step and next state from the gradient g and the curvatures h (d,)."""


@dataclass(frozen=True)
class Steepest:
    """Δ = -rate g."""

    curved = False

    def begin(self, d: int) -> State:
        """Nothing to remember."""
        return ()

    def move(self, state: State, g: Vector, h: Vector, rate: float, t: int) -> tuple[Vector, State]:
        """Against the gradient."""
        return -rate * g, ()


@dataclass(frozen=True)
class Momentum:
    """Δₖ = -rate g + beta Δₖ₋₁ (heavy ball); Nesterov's takes the gradient as if one step ahead: -rate g + beta Δₖ."""

    beta: float = 0.9
    nesterov: bool = False
    curved = False

    def begin(self, d: int) -> State:
        """Δ₀ = 0."""
        return (np.zeros(d),)

    def move(self, state: State, g: Vector, h: Vector, rate: float, t: int) -> tuple[Vector, State]:
        """With the last step."""
        step = self.beta * state[0] - rate * g
        return (self.beta * step - rate * g if self.nesterov else step), (step,)


@dataclass(frozen=True)
class RMSprop:
    """v ← rho v + (1 - rho) g²; Δ = -rate g / (√v + eps)."""

    rho: float = 0.9
    eps: float = 1e-8
    curved = False

    def begin(self, d: int) -> State:
        """v = 0."""
        return (np.zeros(d),)

    def move(self, state: State, g: Vector, h: Vector, rate: float, t: int) -> tuple[Vector, State]:
        """Each entry over the root of its mean square."""
        v = self.rho * state[0] + (1.0 - self.rho) * g * g
        return -rate * g / (np.sqrt(v) + self.eps), (v,)


@dataclass(frozen=True)
class Adam:
    """m, v: running means of g and g²; Δ = -rate m̂ / (√v̂ + eps), both corrected for their start at 0.

    With `amsgrad`, v̂ is the largest so far, so that denominators never shrink.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    amsgrad: bool = False
    curved = False

    def begin(self, d: int) -> State:
        """m = v = 0, and the largest v̂."""
        return np.zeros(d), np.zeros(d), np.zeros(d)

    def move(self, state: State, g: Vector, h: Vector, rate: float, t: int) -> tuple[Vector, State]:
        """The mean gradient over the root of the mean square."""
        m = self.beta1 * state[0] + (1.0 - self.beta1) * g
        v = self.beta2 * state[1] + (1.0 - self.beta2) * g * g
        now = v / (1.0 - self.beta2**t)
        top = np.maximum(state[2], now) if self.amsgrad else now
        return -rate * m / ((1.0 - self.beta1**t) * (np.sqrt(top) + self.eps)), (m, v, top)


@dataclass(frozen=True)
class DiagonalLevenbergMarquardt:
    """h̄ ← (1 - c) h̄ + c h, h the curvatures of the batch; Δ = -rate g / (h̄ + mu): a rate for each unknown."""

    c: float = 0.1
    mu: float = 1e-2
    curved = True

    def begin(self, d: int) -> State:
        """h̄ = 0, replaced by the first curvatures."""
        return (np.zeros(d),)

    def move(self, state: State, g: Vector, h: Vector, rate: float, t: int) -> tuple[Vector, State]:
        """Each entry over its mean curvature."""
        mean = h if t == 1 else (1.0 - self.c) * state[0] + self.c * h
        return -rate * g / (mean + self.mu), (mean,)
