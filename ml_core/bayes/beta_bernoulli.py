"""Coins with a beta prior."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field
from scipy.special import betaln, gammaln

from ml_core.arrays import Matrix, Vector
from ml_core.base import Cost, Density
from ml_core.capabilities import Follows, HasParameterPosterior, HasPosterior, Samples, Weighted
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.distributions.base import Distribution
from ml_core.distributions.bernoulli import Bernoulli
from ml_core.distributions.beta import Beta
from ml_core.distributions.beta_binomial import BetaBinomial
from ml_core.errors import InvalidData
from ml_core.registry import algorithm
from ml_core.statistics import Counts
from ml_core.sums import Additive, Census, Passes

DRAWN = 50
EPS = float(np.finfo(float).eps)
MOST_FLIPS = 2.0**53
EXACT_FACTORS = 1_000_000
GRID = (np.arange(200) + 0.5) / 200
COLUMNS = (
    "column", "heads", "tails", "frequency", "alpha", "beta", "mean", "median", "mode", "variance",
    "standard_deviation", "central_low", "central_high", "densest_low", "densest_high", "log_evidence",
    "log_evidence_counts",
)  # fmt: skip


def log_rising(start: float, steps: float) -> float:
    """Log of start (start + 1) … (start + steps - 1): the first factors by their logarithms, the rest by log Γ."""
    whole = int(min(np.floor(steps), EXACT_FACTORS))
    rest = gammaln(start + steps) - gammaln(start + whole)
    return float(np.log(start + np.arange(whole)).sum() + rest)


@algorithm("beta_bernoulli")
class BetaBernoulli(Additive, Weighted, Samples, HasPosterior, HasParameterPosterior, Density):
    """Probability of heads of each 0/1 column, with a beta prior: conjugate, so the posterior is exact.

    p_j ~ Beta(a, b), x_ij | p_j ~ Bernoulli(p_j); after h heads and t tails p_j ~ Beta(a + h, b + t). The next flip is
    heads with probability (a + h)/(a + b + h + t); heads among m future flips are beta-binomial; the evidence of the
    sequence is B(a + h, b + t)/B(a, b). Weights count as repeated flips. Columns are independent coins. Fit, update and
    forget are sums, O(n d); batches may come in any order, whole numbers of flips come and go without rounding.

    References
    ----------
    Bishop (2006), Pattern Recognition and Machine Learning, section 2.1.1.
    Gelman, Carlin, Stern, Dunson, Vehtari, Rubin (2013), Bayesian Data Analysis, 3rd ed., chapter 2.
    """

    complexity = "O(n d)"
    tags = ("parametric", "generative", "low_capacity", "bayesian")
    example_params: ClassVar[dict[str, Any]] = {"a": 2.0, "b": 2.0}
    accepts = Follows("binary", lambda model: "binary" if model.binarize is None else "real")

    sums_: Annotated[Counts, "ones and zeros per column"]
    heads_: Annotated[Vector, "(d,) summed weight of ones per column"]
    tails_: Annotated[Vector, "(d,) summed weight of zeros per column"]
    alpha_: Annotated[Vector, "(d,) a + heads"]
    beta_: Annotated[Vector, "(d,) b + tails"]

    def __init__(
        self,
        *,
        a: Annotated[float, Field(gt=0, le=1e15, description="Prior heads.")] = 1.0,
        b: Annotated[float, Field(gt=0, le=1e15, description="Prior tails.")] = 1.0,
        level: Annotated[float, Field(gt=0, lt=1, description="Probability of the reported intervals.")] = 0.95,
        future_flips: Annotated[int, Field(ge=0, le=1000, description="m, the flips whose heads are predicted.")] = 10,
        binarize: Annotated[
            float | None,
            Field(allow_inf_nan=False, description="Values above this are heads; null takes 0/1 data only."),
        ] = None,
    ) -> None:
        self.a = a
        self.b = b
        self.level = level
        self.future_flips = future_flips
        self.binarize = binarize

    def _flips(self, X: Matrix) -> Matrix:
        return X if self.binarize is None else np.greater(X, self.binarize).astype(np.float64)

    def _sums(self, X: Matrix, s: Vector) -> Counts:
        F = self._flips(X)
        return Counts(s @ F, s @ (1.0 - F))

    def _solve(self, sums: Counts) -> None:
        flips = float((sums.ones + sums.zeros).max())
        if flips > MOST_FLIPS:
            raise InvalidData(f"the weights count {flips:g} flips, so many that one more changes nothing; divide the "
                              "weights by a constant")  # fmt: skip
        self.sums_, self.heads_, self.tails_ = sums, sums.ones, sums.zeros
        self.alpha_, self.beta_ = self.a + sums.ones, self.b + sums.zeros

    def _log_density(self, X: Matrix) -> Vector:
        return self._posterior(X).log_density(self._flips(X))

    def _posterior(self, X: Matrix) -> Distribution:
        return Bernoulli(np.tile(self.alpha_ / (self.alpha_ + self.beta_), (len(X), 1)))

    def _parameter_posterior(self) -> dict[str, Distribution]:
        return {"p": self._coins()}

    def _coins(self) -> Beta:
        return Beta(self.alpha_, self.beta_)

    def _sample(self, n: int, rng: np.random.Generator) -> tuple[Matrix, None]:
        """Rows of the predictive distribution, each with its own probabilities of heads."""
        return (rng.random((n, len(self.alpha_))) < self._coins().sample(n, rng)).astype(np.float64), None

    def future(self, m: int) -> BetaBinomial:
        """Heads among the next m flips of each column, a batch of d."""
        return BetaBinomial(np.full(len(self.alpha_), float(m)), self.alpha_, self.beta_)

    def log_evidence(self) -> Vector:
        """(d,) log B(a + heads, b + tails) - log B(a, b), nats: the probability of the sequence of flips."""
        return np.asarray(betaln(self.alpha_, self.beta_) - betaln(self.a, self.b))

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Two weighted sums."""
        return Cost(flops=4.0 * n * d, memory_bytes=8.0 * n * d)

    def _audit(self, census: Census) -> Passes:
        counts = yield self._sums
        coins, n = self._coins(), self.heads_ + self.tails_
        central = np.asarray(coins.interval(self.level))
        densest = coins.highest_density_interval(self.level)
        evidence = self.log_evidence()
        choose = gammaln(n + 1) - gammaln(self.heads_ + 1) - gammaln(self.tails_ + 1)
        values = (
            np.arange(len(n)), self.heads_, self.tails_, self.heads_ / n, self.alpha_, self.beta_, coins.mean,
            coins.median, coins.mode, coins.variance, coins.sd, *central.T, *densest.T,
            evidence, evidence + choose,
        )  # fmt: skip
        rows = [[j, *map(float, row)] for j, *row in zip(*values, strict=True)]
        out = Diagnostics(summary={"flips": float(n[0]), "columns": len(n), "log_evidence": float(evidence.sum())})
        out.tables["coins"] = Table(COLUMNS, [[None if np.isnan(v) else v for v in row] for row in rows])
        out.certificates = self._certificates(counts, central, densest)
        self._draw(out)
        return out

    def _draw(self, out: Diagnostics) -> None:
        """Curves of the first columns: densities of prior and posterior, probabilities of future heads."""
        size, future = len(GRID), self.future(self.future_flips)
        out.curves["density"] = {"x": GRID, "prior": np.exp(Beta(self.a, self.b).log_density(GRID))}
        out.curves["future_heads"] = {"x": np.arange(self.future_flips + 1)}
        for j in range(min(DRAWN, len(self.alpha_))):
            one = Beta(np.full(size, self.alpha_[j]), np.full(size, self.beta_[j]))
            out.curves["density"][f"column_{j}"] = np.exp(one.log_density(GRID))
            out.curves["future_heads"][f"column_{j}"] = future.masses(j)

    def _certificates(self, counts: Counts, central: Matrix, densest: Matrix) -> list[Certificate]:
        coins, n = self._coins(), self.heads_ + self.tails_
        total = max(1.0, float((counts.ones + counts.zeros).max()))
        counted = np.abs([coins.alpha - self.a - counts.ones, coins.beta - self.b - counts.zeros]).max()
        mass = [np.abs(coins.cdf(pair[:, 1]) - coins.cdf(pair[:, 0]) - self.level) for pair in (central, densest)]
        ends = np.concatenate([central.T, densest.T])
        steepest = float(np.nanmax([np.exp(coins.log_density(end)) * end for end in ends]))
        prior, frequency = self.a / (self.a + self.b), self.heads_ / n
        outside = np.maximum(np.minimum(prior, frequency) - coins.mean, coins.mean - np.maximum(prior, frequency))
        chain = np.array([log_rising(self.a, h) + log_rising(self.b, t) - log_rising(self.a + self.b, h + t)
                          for h, t in zip(self.heads_, self.tails_, strict=True)])  # fmt: skip
        evidence = np.abs(chain - self.log_evidence()) / np.maximum(np.abs(chain), 1.0)
        rounding = EPS * (gammaln(self.a + self.b + n) + 1) / np.maximum(np.abs(chain), 1.0)
        return [
            Certificate("count_error", float(counted / total), 1e-9,
                        "the posterior is the prior plus the flips of these rows (after an update: of all rows)"),
            Certificate("interval_mass_error", float(np.nanmax(np.concatenate(mass))), 1e-9 + 4 * EPS * steepest,
                        "central and densest intervals hold the stated probability"),
            Certificate("mean_outside_prior_and_frequency", float(outside.max()), 1e-12,
                        "the posterior mean lies between the prior mean and the frequency of heads"),
            Certificate("evidence_error", float(evidence.max()), float(1e-9 + 8 * rounding.max()),
                        "the evidence equals the product of the predictive probabilities, flip after flip (relative)"),
        ]  # fmt: skip
