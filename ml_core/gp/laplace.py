"""Laplace's approximation of a Gaussian process behind class labels: the likelihood and the mode, for any prior.

Two classes have one function f (n, 1) behind the logistic likelihood, K classes one each (n, K) behind the softmax; all
have the same kernel. W is minus the second derivative of the log likelihood: D = s p(1-p), or per row s(diag p - ppᵀ).

References
----------
Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, sections 3.4, 3.5 and 5.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.numerics.stable import expit, log_expit, log_softmax, softmax

STEPS = 100
HALVINGS = 30
SETTLED = 1e-11
STALLED = 1e-7
QUICK, CLOSE = 0.3, 1e-6
EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Labelled:
    """Rows X (n, d), codes y (n,) of `classes` classes, weights (n,): a row of weight w is w such rows.

    Scores are functions f of prior mean 0 plus `offset` (C,), the prior mean of the scores.
    """

    X: Matrix
    y: Codes
    weight: Vector
    classes: int
    offset: Vector

    @property
    def functions(self) -> int:
        """How many functions there are."""
        return 1 if self.classes == 2 else self.classes

    def take(self, rows: np.ndarray) -> Labelled:
        """Of some rows."""
        return Labelled(self.X[rows], self.y[rows], self.weight[rows], self.classes, self.offset)

    def log_likelihood(self, f: Matrix) -> float:
        """Σ s log p(y | f)."""
        f = f + self.offset
        if self.classes == 2:
            return float(self.weight @ log_expit(np.where(self.y == 1, f[:, 0], -f[:, 0])))
        return float(self.weight @ log_softmax(f)[np.arange(len(f)), self.y])

    def residual(self, f: Matrix) -> Matrix:
        """s (1_y - p), the gradient of `log_likelihood`."""
        f, s = f + self.offset, self.weight[:, None]
        if self.classes == 2:
            return np.asarray(s * np.where(self.y[:, None] == 1, expit(-f), -expit(f)))
        out = -softmax(f)
        out[np.arange(len(f)), self.y] += 1.0
        return np.asarray(s * out)

    def chances(self, f: Matrix) -> Matrix:
        """p, of the second class or of each."""
        f = f + self.offset
        return np.asarray(expit(f) if self.classes == 2 else softmax(f))

    def curved(self, p: Matrix, v: Matrix) -> Matrix:
        """W v."""
        s = self.weight[:, None]
        if self.classes == 2:
            return np.asarray(s * p * (1.0 - p) * v)
        return np.asarray(s * p * (v - np.einsum("ij,ij->i", p, v)[:, None]))

    def widths(self, p: Matrix) -> Matrix:
        """√D, D the part of W that is diagonal in the functions."""
        return np.asarray(np.sqrt(self.weight[:, None] * (p * (1.0 - p) if self.classes == 2 else p)))

    def pair(self, p: Matrix, c: int, e: int) -> Vector:
        """(n,) entries of W between the functions c and e."""
        return np.asarray(self.weight * p[:, c] * ((c == e) - p[:, e]))


class Curved(Protocol):
    """The curvature of the log posterior at some scores."""

    @property
    def half_logdet(self) -> float:
        """½ log|I + K W|."""


T = TypeVar("T", bound=Curved)


class Prior(Protocol[T]):
    """A covariance of the scores of n rows, by r coefficients a (r, C) of any functions: scores(a), -½ norm(a)."""

    @property
    def size(self) -> int:
        """r."""

    def scores(self, a: Matrix) -> Matrix:
        """(n, C) functions of coefficients."""

    def gather(self, V: Matrix) -> Matrix:
        """(r, C) coefficients' share of a gradient V (n, C) by scores; the log posterior's is gather(V) - a."""

    def norm(self, a: Matrix, f: Matrix) -> float:
        """Σ over functions of the squared norm, f = scores(a)."""

    def unit(self, weight: Vector) -> float:
        """Size of what is gathered from residuals of 1 times the weights (n,)."""

    def curvature(self, rows: Labelled, f: Matrix) -> T:
        """At scores f (n, C)."""

    def step(self, curve: T, g: Matrix) -> Matrix:
        """(r, C) Newton's step from what was gathered of the gradient."""

    def slack(self, rows: Labelled, f: Matrix) -> float:
        """Nats that the evidence loses for what the prior leaves out of the kernel."""

    def dense(self) -> Matrix:
        """(n, n) covariance of one function."""


@dataclass
class Mode:
    """The most probable functions f (n, C) by coefficients a (r, C), their log posterior up to a constant, the steps.

    `miss` is the largest derivative by a coefficient in the prior's unit; over all rows |a - s(1_y - p)| over max s.
    """

    a: Matrix
    f: Matrix
    value: float
    steps: int
    miss: float

    @property
    def converged(self) -> bool:
        """Whether the mode is stationary to rounding."""
        return self.miss <= STALLED


def mode(rows: Labelled, prior: Prior[T], start: Matrix | None = None) -> Mode:
    """Newton's method with halved steps over a, from 0 or from scores near the mode, `start` (n, C). There is one mode.

    A curvature costs the most; it serves again while each step makes the gradient three times as small and leaves it
    above CLOSE: log|I + K W| depends on the mode to first order, so the last steps are Newton's own.
    """
    curve: T | None = None
    at = _at(rows, prior, np.zeros((prior.size, rows.functions)), 0)
    if start is not None:
        b = rows.curved(rows.chances(start), start) + rows.residual(start)
        curve = prior.curvature(rows, start)
        near = _at(rows, prior, prior.step(curve, prior.gather(b)), 1)
        at = near if near.value > at.value else at
    for step in range(1, STEPS + 1):
        if at.miss <= SETTLED:
            break
        progress.tick(step, None, "Newton steps", objective=at.value)
        if step > 1 and progress.late():
            break
        fresh = curve is None
        curve = prior.curvature(rows, at.f) if curve is None else curve
        found = _shorter(rows, prior, at, prior.step(curve, prior.gather(rows.residual(at.f)) - at.a), step)
        stalled = found is None or (found.miss <= STALLED and found.miss > 0.5 * at.miss)
        if stalled and fresh:
            at = at if found is None or at.miss <= found.miss else found
            break
        if found is None or found.miss > QUICK * at.miss or found.miss <= CLOSE:
            curve = None
        at = at if found is None else found
    return at


def _shorter(rows: Labelled, prior: Prior[T], at: Mode, move: Matrix, step: int) -> Mode | None:
    """The first of the whole move, half of it … that does not lower the log posterior (up to its rounding).

    Close to the mode, where values differ by rounding alone, a gradient half as large tells as well.
    """
    t = 1.0
    for _ in range(HALVINGS):
        found = _at(rows, prior, at.a + t * move, step)
        nearer = at.miss <= CLOSE and found.miss <= 0.5 * at.miss
        if nearer or found.value >= at.value - 64 * EPS * (1.0 + abs(at.value)):
            return found
        t /= 2
    return None


def _at(rows: Labelled, prior: Prior[T], a: Matrix, step: int) -> Mode:
    f = prior.scores(a)
    miss = float(np.abs(a - prior.gather(rows.residual(f))).max()) / prior.unit(rows.weight)
    return Mode(a, f, rows.log_likelihood(f) - 0.5 * prior.norm(a, f), step, miss)
