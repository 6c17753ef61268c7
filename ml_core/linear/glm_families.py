"""Families of generalised linear models: loss, mean, deviance, variance and likelihood of each.

Targets are per unit of exposure E (y = count/E, or successes/trials) and weights are s E, which makes every formula
here that of a row without exposure. `pieces` and `log_likelihood` keep the exposure, which the mass of a count needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator
from scipy.special import expit, gammaln, log_expit, xlogy

from ml_core.arrays import Matrix, Vector
from ml_core.distributions.base import Distribution
from ml_core.distributions.bernoulli import Bernoulli
from ml_core.distributions.beta_binomial import BetaBinomial
from ml_core.distributions.gamma import Gamma as GammaDistribution
from ml_core.distributions.negative_binomial import NegativeBinomial
from ml_core.distributions.student import StudentT
from ml_core.errors import InvalidParameter, Issue
from ml_core.linear.gamma_shape import best_shape, largest_over_shapes
from ml_core.losses.base import Interval, TwiceSmooth
from ml_core.losses.gamma import Gamma, InverseGamma
from ml_core.losses.logistic import Logistic
from ml_core.losses.poisson import Poisson
from ml_core.losses.squared import Squared
from ml_core.numerics.logistic_normal import mean_logistic
from ml_core.solvers.base import Steps

Name = Literal["gaussian", "bernoulli", "binomial", "poisson", "gamma"]
Link = Literal["identity", "log", "logit", "inverse"]
LEAST = 1e-12
EPS = float(np.finfo(float).eps)


def _elsewhere(name: object) -> object:
    """The name; ValueError says where the one family is whose means have a score for each class."""
    if name == "multinomial":
        raise ValueError("the multinomial family, a score for each class, is the algorithm softmax_regression")
    return name


Chosen = Annotated[Name, BeforeValidator(_elsewhere)]


@dataclass(frozen=True)
class Spread:
    """Dispersion, its degrees of freedom, and the exposure (n,) of the rows asked for; None without a column."""

    dispersion: float
    degrees_of_freedom: float
    exposure: Vector | None


class Family(ABC):
    """A family with one link."""

    link: Link
    loss: TwiceSmooth
    exposed: bool = False
    """Whether targets may be counts per exposure."""
    ends: bool = False
    """Whether means have an end that targets reach and finite predictors do not."""
    free_dispersion: bool = False
    relative: bool = False
    """Whether slopes of the loss are shares of the target (log link of gamma), not in its unit."""
    whole: bool = False
    targets: str

    @property
    def domain(self) -> Interval:
        """The targets it takes."""
        return self.loss.domain

    def mean(self, eta: Vector) -> Vector:
        """(n,) mean at the linear predictor."""
        return eta

    @abstractmethod
    def off(self, y: Vector, eta: Vector) -> Vector:
        """(n,) y less its mean, over the standard deviation of a target at dispersion 1."""

    @abstractmethod
    def deviance(self, y: Vector, eta: Vector) -> Vector:
        """(n,) unit deviances, ≥ 0."""

    @abstractmethod
    def pieces(self, y: Vector, eta: Vector, exposure: Vector) -> Matrix:
        """(n, k) what the log-likelihood sums."""

    @abstractmethod
    def log_likelihood(self, sums: Vector, total: float, dispersion: float) -> float:
        """From the weighted sums of `pieces` and the sum of the weights."""

    def precise_likelihood(self, sums: Vector, plain: Vector, logs: float, rows: int, total: float) -> Steps[float]:
        """Log-likelihood with precisions s, from the sums of `pieces` with and without them, Σ log s and Σ s.

        Where the dispersion is free that of a row is φ/s, φ the likeliest; else precisions count as shares of rows.
        """
        yield from ()
        return self.log_likelihood(sums, total, 1.0)

    @abstractmethod
    def predictive(self, eta: Vector, variance: Vector, spread: Spread) -> Distribution:
        """Distribution of the targets, whose predictor is normal with this mean and variance."""


class _Gaussian(Family):
    link: Link = "identity"
    loss = Squared()
    free_dispersion = True
    targets = "numbers"

    def off(self, y: Vector, eta: Vector) -> Vector:
        return y - eta

    def deviance(self, y: Vector, eta: Vector) -> Vector:
        return np.square(y - eta)

    def pieces(self, y: Vector, eta: Vector, exposure: Vector) -> Matrix:
        return np.square(y - eta)[:, None]

    def log_likelihood(self, sums: Vector, total: float, dispersion: float) -> float:
        with np.errstate(divide="ignore"):
            return float(-0.5 * total * (np.log(2 * np.pi * sums[0] / total) + 1))

    def precise_likelihood(self, sums: Vector, plain: Vector, logs: float, rows: int, total: float) -> Steps[float]:
        yield from ()
        return self.log_likelihood(sums, float(rows), 1.0) + 0.5 * logs

    def predictive(self, eta: Vector, variance: Vector, spread: Spread) -> Distribution:
        scale = np.sqrt(spread.dispersion + variance)
        return StudentT(eta, scale, np.full(len(eta), spread.degrees_of_freedom), np.sqrt(variance))


class _Poisson(Family):
    link: Link = "log"
    loss = Poisson()
    exposed = ends = whole = True
    targets = "counts of at least 0"

    def mean(self, eta: Vector) -> Vector:
        with np.errstate(over="ignore"):
            return np.exp(eta)

    def off(self, y: Vector, eta: Vector) -> Vector:
        mean = self.mean(eta)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(y == mean, 0.0, (y - mean) / np.sqrt(mean))

    def deviance(self, y: Vector, eta: Vector) -> Vector:
        mean = self.mean(eta)
        with np.errstate(divide="ignore", invalid="ignore"):
            return 2 * (np.where(y > 0, xlogy(y, y / mean), 0.0) - (y - mean))

    def pieces(self, y: Vector, eta: Vector, exposure: Vector) -> Matrix:
        count, rate = exposure * y, exposure * self.mean(eta)
        return (xlogy(count, rate) - rate - gammaln(count + 1))[:, None]

    def log_likelihood(self, sums: Vector, total: float, dispersion: float) -> float:
        return float(sums[0])

    def predictive(self, eta: Vector, variance: Vector, spread: Spread) -> Distribution:
        """The rate is log-normal; the gamma distribution of its mean and variance makes the count negative binomial."""
        v = np.maximum(variance, LEAST)
        mean = np.exp(eta + 0.5 * v) * (1.0 if spread.exposure is None else spread.exposure)
        size = 1.0 / np.expm1(v)
        return NegativeBinomial(size, size / (size + mean))


class _Binomial(Family):
    link: Link = "logit"
    loss = Logistic()
    exposed = ends = True
    targets = "shares from 0 to 1, or with `exposure` successes among so many trials"

    def mean(self, eta: Vector) -> Vector:
        return np.asarray(expit(eta))

    def off(self, y: Vector, eta: Vector) -> Vector:
        with np.errstate(over="ignore", invalid="ignore"):
            below = np.where(y < 1, (1 - y) * np.exp(0.5 * eta), 0.0)
            return np.where(y > 0, y * np.exp(-0.5 * eta), 0.0) - below

    def deviance(self, y: Vector, eta: Vector) -> Vector:
        with np.errstate(invalid="ignore"):
            won = np.where(y > 0, xlogy(y, y) - y * log_expit(eta), 0.0)
            return 2 * (won + np.where(y < 1, xlogy(1 - y, 1 - y) - (1 - y) * log_expit(-eta), 0.0))

    def pieces(self, y: Vector, eta: Vector, exposure: Vector) -> Matrix:
        won, lost = exposure * y, exposure * (1 - y)
        whole = np.round(won)  # y is a rounded quotient, and 49 (y/49) need not be y
        ways = gammaln(exposure + 1) - gammaln(whole + 1) - gammaln(exposure - whole + 1)
        counted = (np.abs(won - whole) <= 4 * EPS * exposure) & (exposure == np.round(exposure))
        return (won * log_expit(eta) + lost * log_expit(-eta) + np.where(counted, ways, 0.0))[:, None]

    def log_likelihood(self, sums: Vector, total: float, dispersion: float) -> float:
        return float(sums[0])

    def predictive(self, eta: Vector, variance: Vector, spread: Spread) -> Distribution:
        """E σ(η) by the probit curve that σ resembles; among trials, beta of that mean and of Var σ(η)."""
        p = mean_logistic(eta, variance)
        if spread.exposure is None:
            return Bernoulli(p)
        p = np.clip(p, LEAST, 1 - LEAST)
        total = np.maximum(1.0 / np.maximum(variance * p * (1 - p), LEAST) - 1.0, LEAST)
        return BetaBinomial(spread.exposure, p * total, (1 - p) * total)


class _Bernoulli(_Binomial):
    """One trial a row."""

    exposed = False
    domain = Interval(0.0, 1.0, whole=True)
    targets = "0 or 1"


class _Gamma(Family):
    free_dispersion = True
    targets = "numbers above 0"

    def off(self, y: Vector, eta: Vector) -> Vector:
        return y / self.mean(eta) - 1

    def deviance(self, y: Vector, eta: Vector) -> Vector:
        ratio = y / self.mean(eta)
        return 2 * (ratio - 1 - np.log(ratio))

    def pieces(self, y: Vector, eta: Vector, exposure: Vector) -> Matrix:
        ratio = y / self.mean(eta)
        return np.stack([np.log(ratio) - ratio, np.log(y)], axis=1)

    def log_likelihood(self, sums: Vector, total: float, dispersion: float) -> float:
        """At the shape of greatest likelihood, the root of log k - ψ(k) = -1 - Σ s (log r - r)/Σ s."""
        k = best_shape(-1.0 - float(sums[0]) / total)
        return float(k * sums[0] + total * (k * np.log(k) - gammaln(k)) - sums[1])

    def precise_likelihood(self, sums: Vector, plain: Vector, logs: float, rows: int, total: float) -> Steps[float]:
        return (yield from largest_over_shapes(float(sums[0]), total)) - float(plain[1])


class _LogGamma(_Gamma):
    link: Link = "log"
    relative = True
    loss = Gamma()

    def mean(self, eta: Vector) -> Vector:
        with np.errstate(over="ignore"):
            return np.exp(eta)

    def predictive(self, eta: Vector, variance: Vector, spread: Spread) -> Distribution:
        """Gamma of the mean and variance that a log-normal mean gives."""
        more = np.expm1(variance)
        shape = 1.0 / (spread.dispersion * (1 + more) + more)
        return GammaDistribution(shape, shape / np.exp(eta + 0.5 * variance))


class _InverseGamma(_Gamma):
    link: Link = "inverse"
    loss = InverseGamma()

    def mean(self, eta: Vector) -> Vector:
        with np.errstate(divide="ignore"):
            return 1.0 / eta

    def predictive(self, eta: Vector, variance: Vector, spread: Spread) -> Distribution:
        """Gamma of mean 1/η, its variance enlarged by that of 1/η to first order."""
        shape = 1.0 / (spread.dispersion + variance / np.square(eta))
        return GammaDistribution(shape, shape * eta)


FAMILIES: dict[tuple[str, str], Family] = {
    ("gaussian", "identity"): _Gaussian(), ("poisson", "log"): _Poisson(), ("binomial", "logit"): _Binomial(),
    ("bernoulli", "logit"): _Bernoulli(), ("gamma", "log"): _LogGamma(), ("gamma", "inverse"): _InverseGamma(),
}  # fmt: skip


def links_of(name: str) -> list[str]:
    """Links of a family, the usual one first."""
    return [link for family, link in FAMILIES if family == name]


def family_of(name: str, link: str | None) -> Family:
    """The family with this link, or its usual one; InvalidParameter says which it has."""
    links = links_of(name)
    found = FAMILIES.get((name, link or links[0]))
    if found is None:
        text = f"{name} has the link{'s' * (len(links) > 1)} {' and '.join(links)}, not {link}"
        raise InvalidParameter(text, [Issue("/params/link", "unknown_link", text)])
    return found
