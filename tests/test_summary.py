"""Figures of a fit against scikit-learn, and null where a figure has no meaning."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as peer

from ml_core.cluster.k_means import KMeans
from ml_core.linear.linear_regression import LinearRegression
from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.metrics.summary import metrics
from ml_core.mixture.gaussian_mixture import GaussianMixture

R = np.random.default_rng(3)
X = R.normal(size=(40, 3))
Y = X @ [1.0, -2.0, 0.5] + R.normal(size=40)
S = np.linspace(0, 3, 40)


@pytest.mark.parametrize("s", [None, S])
@pytest.mark.parametrize("unit", [1e-90, 1.0, 1e90])
@pytest.mark.parametrize("outputs", [1, 2])
def test_regression_figures_equal_the_peer(s: np.ndarray | None, unit: float, outputs: int) -> None:
    y = Y if outputs == 1 else np.column_stack([Y, X[:, 0] + R.normal(size=40)])
    model = LinearRegression().fit(X, y)
    out = metrics(model, X, y, s)
    f = model.predict(X)
    assert out["r2"] == pytest.approx(peer.r2_score(y, f, sample_weight=s), rel=1e-12)
    assert model.score(X, y, s) == pytest.approx(out["r2"], rel=1e-14)
    assert out["mean_squared_error"] == pytest.approx(peer.mean_squared_error(y, f, sample_weight=s), rel=1e-12)
    assert out["mean_absolute_error"] == pytest.approx(peer.mean_absolute_error(y, f, sample_weight=s), rel=1e-12)
    scaled = metrics(LinearRegression().fit(X, y * unit), X, y * unit, s)
    assert scaled["r2"] == pytest.approx(out["r2"], rel=1e-9)
    assert scaled["root_mean_squared_error"] == pytest.approx(out["root_mean_squared_error"] * unit, rel=1e-9)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9 + 0.1, -1e200])
def test_a_constant_truth_has_no_explained_share(value: float) -> None:
    model = LinearRegression().fit(X, Y)
    out = metrics(model, X, np.full(40, value))
    assert out["r2"] is None
    assert np.isnan(model.score(X, np.full(40, value)))
    assert out["mean_absolute_error"] is not None
    assert metrics(model, X[:1], Y[:1])["r2"] is None
    varied = np.where(np.arange(40) == 7, 5.0, value)
    assert metrics(model, X, varied, (np.arange(40) != 7).astype(float))["r2"] is None


def test_a_squared_error_beyond_a_float_is_null_and_its_root_is_not() -> None:
    out = metrics(LinearRegression().fit(X, Y), X, 1e200 * Y)
    assert out["mean_squared_error"] is None
    assert out["root_mean_squared_error"] == pytest.approx(1e200 * float(np.sqrt(np.mean(Y**2))), rel=1e-12)


@pytest.mark.parametrize("s", [None, S])
def test_classification_figures_equal_the_peer(s: np.ndarray | None) -> None:
    y = np.where(Y > 0, "yes", "no")
    model = LogisticRegression(alpha=1.0).fit(X, y)
    out = metrics(model, X, y, s)
    assert out["accuracy"] == pytest.approx(peer.accuracy_score(y, model.predict(X), sample_weight=s))
    assert out["accuracy"] + out["error_rate"] == pytest.approx(1)
    assert out["log_loss"] == pytest.approx(peer.log_loss(y, model.predict_proba(X), sample_weight=s), rel=1e-12)
    assert out["zero_probability_rows"] == 0


def test_a_label_never_seen_has_probability_zero() -> None:
    model = LogisticRegression(alpha=1.0).fit(X, (Y > 0).astype(int))
    out = metrics(model, X, np.where(np.arange(40) < 3, 9, Y > 0))
    assert out["log_loss"] is None
    assert out["zero_probability_rows"] == 3


def test_unsupervised_fits() -> None:
    mixture = GaussianMixture(n_components=1).fit(X)
    assert metrics(mixture, X, None, S)["mean_log_density"] == pytest.approx(
        np.average(mixture.score_samples(X), weights=S)
    )
    assert metrics(KMeans(n_clusters=2).fit(X), X, None) == {"rows": 40}
