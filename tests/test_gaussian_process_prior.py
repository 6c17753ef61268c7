"""Draws from a Gaussian process prior: their moments, their seed, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from ml_core.errors import InvalidData, OverBudget
from ml_core.gp.gaussian_process_prior import GaussianProcessPrior, gaussian_process_prior
from ml_core.kernels import MaternKernel, RBFKernel, kernel_of

POINTS = np.array([[0.0], [0.3], [2.0]])


def test_draws_have_the_moments_of_the_prior() -> None:
    k = 2.0 * MaternKernel(0.7, 1.5)
    out = gaussian_process_prior(points=POINTS, kernel=k, samples=10_000, mean=3.0, noise_variance=0.1)
    value = out.value
    np.testing.assert_allclose(value.covariance, k(POINTS) + 0.1 * np.eye(3), rtol=1e-12)
    np.testing.assert_allclose(value.standard_deviation, np.sqrt(2.1), rtol=1e-12)
    np.testing.assert_allclose(value.draws.mean(axis=0), 3.0, atol=0.06)
    np.testing.assert_allclose(np.cov(value.draws.T), value.covariance, atol=0.1)
    assert all(c.holds for c in out.certificates)
    assert kernel_of(value.kernel) == k


def test_equal_seeds_give_equal_draws_and_lengths_come_from_the_points() -> None:
    def drawn(seed: int) -> GaussianProcessPrior:
        return gaussian_process_prior(points=POINTS, kernel=RBFKernel(None), samples=3, random_state=seed).value

    one, two, other = map(drawn, (1, 1, 2))
    assert np.array_equal(one.draws, two.draws)
    assert not np.array_equal(one.draws, other.draws)
    assert one.kernel["length_scale"] == pytest.approx(1.7)


def test_what_is_empty_or_too_large_is_refused() -> None:
    with pytest.raises(InvalidData, match="at least one"):
        gaussian_process_prior(points=np.zeros((0, 1)), kernel=RBFKernel(1.0))
    with pytest.raises(OverBudget, match="GB"):
        gaussian_process_prior(points=np.zeros((9000, 1)), kernel=RBFKernel(1.0))
