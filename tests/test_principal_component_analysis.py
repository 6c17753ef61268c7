"""principal_component_analysis against certified values, scikit-learn, SVD in numpy, and its own theorems."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.decomposition import PCA

from ml_core import bundle, progress
from ml_core.decomposition.principal_component_analysis import PrincipalComponentAnalysis as Model
from ml_core.errors import InvalidData, InvalidParameter
from ml_core.rng import generator
from ml_core.solvers import spectrum

SOLVERS = ("auto", "full", "covariance", "lanczos", "randomized")
WINE = [
    4.7324369775835883154, 2.5110809296451240056, 1.4542418678464661572, 0.92416586682487378739,
    0.85804867653711082248, 0.64528221246785445802, 0.55414146624578303176, 0.35046627494625388336,
    0.29051203269397724605, 0.25232001036082474315, 0.22706428173088487718, 0.16972373898012123173,
    0.10396199182075325997,
]  # fmt: skip
WINE_FIRST = [
    0.14432939540601132828, -0.24518758025722075797, -0.0020510614443710910243, -0.23932040548753484053,
    0.14199204195298724497, 0.39466084506663014705, 0.4229342967100590699, -0.29853310295471524116,
    0.31342948830768860688, -0.088616704724722901512, 0.29671456358638119015, 0.37616741073871281854,
    0.28675222689680493378,
]  # fmt: skip
CROSS = np.array([[3.0, 1], [1, 3], [-3, -1], [-1, -3]])


def table(n=80, d=6, seed=0):
    r = np.random.default_rng(seed)
    return r.normal(size=(n, d)) @ np.diag(2.0 ** -np.arange(d)) @ r.normal(size=(d, d)) + 5


def codes(model):
    return [n.code for n in model.notices_]


def assert_certified(model, X, **kw):
    found = model.diagnostics(X, **kw).certificates
    assert len(found) == 4
    assert all(c.holds for c in found), found


@pytest.mark.parametrize("solver", ["auto", "full", "covariance"])
def test_wine_standardised_to_the_certified_digits(solver):
    X = load_wine().data
    model = Model(standardize=True, solver=solver).fit(X)
    np.testing.assert_allclose(model.explained_variance_ * len(X) / (len(X) - 1), WINE, rtol=1e-12)
    np.testing.assert_allclose(model.components_[0], WINE_FIRST, rtol=1e-10)
    both = Model(standardize=True, ddof=1, solver=solver).fit(X)
    np.testing.assert_allclose(both.explained_variance_, model.explained_variance_, rtol=1e-12)
    assert_certified(model, X)


def test_the_four_points_of_the_catalogue():
    model = Model(n_components=1).fit(CROSS)
    np.testing.assert_allclose(Model().fit(CROSS).explained_variance_, [8, 2], rtol=1e-14)
    np.testing.assert_allclose(Model(ddof=1).fit(CROSS).explained_variance_, [32 / 3, 8 / 3], rtol=1e-14)
    np.testing.assert_allclose(Model(standardize=True).fit(CROSS).explained_variance_, [1.6, 0.4], rtol=1e-14)
    np.testing.assert_allclose(model.components_, [[0.5**0.5, 0.5**0.5]], rtol=1e-14)
    assert model.explained_variance_ratio_[0] == pytest.approx(0.8)
    assert model.discarded_variance_ == pytest.approx(2)
    summary = model.diagnostics(CROSS).summary
    assert summary["reconstruction_error"] == pytest.approx(2)
    np.testing.assert_allclose(model.transform(CROSS)[:, 0], [8**0.5, 8**0.5, -(8**0.5), -(8**0.5)], rtol=1e-14)


@pytest.mark.parametrize("solver", SOLVERS)
def test_signs_agree_for_every_solver_and_row_order(solver):
    """PCA-1."""
    X = np.array([[1.0, 2, 0], [2, 1, 1], [3, 5, 2], [4, 3, 1], [5, 6, 4]])
    want = [
        [0.500732771766, 0.702339334837, 0.505950738729],
        [0.754970954724, -0.640281683908, 0.141627055239],
    ]
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
        model = Model(n_components=2, solver=solver).fit(X[order])
        np.testing.assert_allclose(model.components_, want, atol=1e-11)


@pytest.mark.parametrize("copies", [1, 4, 400])
@pytest.mark.parametrize("solver", ["auto", "full", "covariance"])
def test_a_large_offset_costs_no_digits(copies, solver):
    """PCA-3: the default of scikit-learn answers 3.368, 3.368 for four copies."""
    X = np.tile(1e8 + np.array([[0.0, 0], [1, 2], [2, 1], [3, 5], [4, 3]]), (copies, 1))
    want = np.array([5.428626204439, 0.771373795561])
    model = Model(ddof=1, solver=solver).fit(X)
    np.testing.assert_allclose(model.explained_variance_, want * 4 * copies / (5 * copies - 1), rtol=1e-11)
    if copies == 4:
        np.testing.assert_allclose(model.explained_variance_, [4.571474698475, 0.649577933104], rtol=1e-11)


@pytest.mark.parametrize("solver", ["auto", "full", "covariance", "randomized"])
def test_rank_deficient_table(solver):
    """PCA-5."""
    X = np.array([[1.0, 2, 3, 4, 5], [2, 1, 0, 1, 2], [4, 4, 4, 4, 4]])
    model = Model(n_components=3, whiten=True, solver=solver).fit(X)
    assert model.rank_ == 2
    assert model.explained_variance_[2] <= 1e-12
    assert "rank_deficient" in codes(model)
    Z = model.transform(X)
    assert np.isfinite(Z).all()
    np.testing.assert_allclose(Z[:, 2], 0)
    np.testing.assert_allclose((Z[:, :2] ** 2).mean(axis=0), 1)
    np.testing.assert_allclose(model.inverse_transform(Z), X, atol=1e-12)
    with pytest.raises(InvalidParameter, match="≤ 3, got 4"):
        Model(n_components=4, solver=solver).fit(X)
    if solver != "randomized":
        assert Model(solver=solver).fit(X).components_.shape == (2, 5)
    assert_certified(model, X)


@pytest.mark.parametrize("shape", [(80, 6), (12, 30), (40, 25)])
def test_every_solver_gives_the_same_answer(shape):
    X = table(*shape)
    peer = PCA(3, svd_solver="full").fit(X)
    for solver in SOLVERS:
        model = Model(n_components=3, solver=solver, ddof=1).fit(X)
        np.testing.assert_allclose(model.explained_variance_, peer.explained_variance_, rtol=1e-10)
        np.testing.assert_allclose(model.components_, spectrum.orient(peer.components_), atol=1e-7)
        assert model.discarded_variance_ == pytest.approx(np.cov(X.T).trace() - peer.explained_variance_.sum())
        assert_certified(model, X)


def test_raw_breast_cancer_keeps_its_smallest_eigenvalue():
    X = load_breast_cancer().data
    A = X - X.mean(axis=0)
    want = np.linalg.svd(A, compute_uv=False) ** 2 / len(X)
    auto = Model().fit(X)
    assert auto.solver_ == "full"
    np.testing.assert_allclose(auto.explained_variance_, want, rtol=1e-9)
    assert "covariance_accuracy" in codes(Model(n_components=30, solver="covariance").fit(X))
    assert Model(n_components=2).fit(X).solver_ == "covariance"


def test_fraction_takes_the_least_number():
    X = table()
    every = Model().fit(X)
    share = np.cumsum(every.explained_variance_ratio_)
    for k in range(1, 6):
        for solver in ("auto", "full", "covariance"):
            above, below = Model(n_components=float(share[k - 1] + 1e-9), solver=solver), share[k - 1] - 1e-9
            assert above.fit(X).n_features_out_ == k + 1
            assert Model(n_components=float(below), solver=solver).fit(X).n_features_out_ == k
    with pytest.raises(InvalidParameter, match="whole number"):
        Model(n_components=0.5, solver="lanczos").fit(X)
    for bad in (0, 1.0, 1.5, -1):
        with pytest.raises(InvalidParameter):
            Model(n_components=bad).fit(X)


def test_without_centring_the_first_axis_is_the_mean():
    X = np.random.default_rng(0).normal(size=(100, 3)) + np.array([100.0, 0, 0])
    model = Model(center=False).fit(X)
    assert "not_centered" in codes(model)
    np.testing.assert_array_equal(model.mean_, 0)
    assert model.components_[0, 0] == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(model.singular_values_, np.linalg.svd(X, compute_uv=False), rtol=1e-11)
    assert_certified(model, X)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(2, 20), st.integers(1, 8), st.booleans(), st.booleans(), st.sampled_from([0, 1])
)
def test_theorems_on_random_tables(seed, n, d, standardize, whiten, ddof):
    """PT32."""
    X = np.random.default_rng(seed).normal(size=(n, d)) * np.logspace(0, 3, d)
    whole = Model(standardize=standardize, whiten=whiten, ddof=ddof).fit(X)
    np.testing.assert_allclose(whole.inverse_transform(whole.transform(X)), X, rtol=1e-9, atol=1e-9 * np.abs(X).max())
    assert whole.explained_variance_ratio_.sum() == pytest.approx(1)
    k = max(whole.rank_ // 2, 1)
    model = Model(n_components=k, standardize=standardize, whiten=whiten, ddof=ddof).fit(X)
    assert_certified(model, X)
    S = (X - X.mean(axis=0)) / model.scale_
    S = S.T @ S / (n - ddof)
    values = np.linalg.eigvalsh(S)[::-1]
    np.testing.assert_allclose(model.explained_variance_, values[:k], rtol=1e-7, atol=1e-10 * values[0])
    assert model.discarded_variance_ == pytest.approx(values[k:].sum(), rel=1e-7, abs=1e-9 * values[0])
    V = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, k)))[0]
    assert np.trace(V.T @ S @ V) <= model.explained_variance_.sum() * (1 + 1e-9)


def test_weights_are_repetitions():
    X, s = table(40), np.random.default_rng(5).integers(0, 4, 40)
    for solver in ("full", "covariance"):
        weighted = Model(ddof=1, standardize=True, solver=solver).fit(X, sample_weight=s)
        repeated = Model(ddof=1, standardize=True, solver=solver).fit(np.repeat(X, s, axis=0))
        for name in ("mean_", "scale_", "components_", "explained_variance_"):
            np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-9, atol=1e-12)
        assert_certified(weighted, X, sample_weight=s)


def test_offset_and_weights_through_the_covariance():
    """The mean that the covariance pass corrects equals the two-pass mean of exact numbers."""
    X = 1e9 + np.arange(60.0).reshape(20, 3) ** 2
    s = np.arange(1.0, 21)
    exact = 1e9 + s @ (X - 1e9) / s.sum()
    model = Model(solver="covariance", n_components=1).fit(X, sample_weight=s)
    np.testing.assert_allclose(model.mean_, exact, rtol=3e-16)
    np.testing.assert_allclose(spectrum.weighted_mean(X, s), exact, rtol=3e-16)


@pytest.mark.parametrize("offset", [0.0, 0.1, 3.0, 1e3])
def test_gram_of_the_raw_table_loses_nothing(offset):
    """Centred and uncentred products agree to rounding, sorted rows (an unlike sample) included."""
    X = np.sort(np.random.default_rng(0).normal(size=(3000, 4)), axis=0) + offset
    rows = spectrum.Rows(X, X.mean(axis=0), np.ones(4))
    A = X - X.mean(axis=0)
    np.testing.assert_allclose(spectrum.gram(rows, 3000.0), A.T @ A, rtol=1e-12)
    lonely = np.zeros((5000, 2))
    lonely[1] = [1e6, 1.0]
    found = Model(solver="covariance").fit(lonely + np.array([1.0, 0.0]))
    want = np.linalg.eigvalsh(np.cov(lonely.T, ddof=0))[::-1]
    np.testing.assert_allclose(found.explained_variance_, want[:1], rtol=1e-9)


def test_automatic_choice():
    r = np.random.default_rng(0)
    assert Model().fit(r.normal(size=(100, 5))).solver_ == "covariance"
    assert Model().fit(r.normal(size=(5, 100))).solver_ == "full"
    wide = r.normal(size=(300, 12)) @ r.normal(size=(12, 400)) + 0.01 * r.normal(size=(300, 400))
    model = Model(n_components=3).fit(wide)
    assert model.solver_ == "lanczos"
    np.testing.assert_allclose(
        model.explained_variance_, Model(n_components=3, solver="full").fit(wide).explained_variance_
    )


def test_iterations_tick_and_slow_convergence_is_reported():
    A, seen = np.random.default_rng(0).normal(size=(200, 100)), []
    with progress.listen(seen.append):
        Model(n_components=2, solver="lanczos").fit(A)
        Model(n_components=2, solver="randomized").fit(A)
    assert {t.unit for t in seen} == {"matrix products", "iterations"}
    found = spectrum.randomized(A, 2, generator(0), max_iter=2)
    assert not found.converged


def test_orientation_ignores_rounding_between_equal_entries():
    V = np.array([[-0.5, 0.5 + 1e-16, 0.5, 0.5], [0.0, -1, 0, 0]])
    np.testing.assert_array_equal(spectrum.orient(V), [-V[0], -V[1]])


def test_names_report_and_stored_model(tmp_path):
    X = table()
    model = Model(n_components=2, whiten=True).fit(X)
    np.testing.assert_array_equal(model.get_feature_names_out(), ["component0", "component1"])
    report = model.diagnostics(X)
    assert [r[0] for r in report.tables["components"].rows] == [1, 2]
    np.testing.assert_allclose(report.curves["scree"]["cumulative_ratio"], np.cumsum(model.explained_variance_ratio_))
    bundle.save_bundle(model, tmp_path / "m")
    fixed = X.copy()
    fixed.flags.writeable = False
    np.testing.assert_array_equal(bundle.load_bundle(tmp_path / "m").transform(fixed), model.transform(X))


def test_hostile_input():
    flat = Model(standardize=True).fit(np.full((4, 3), 0.1))
    assert flat.components_.shape == (1, 3)
    np.testing.assert_array_equal(flat.explained_variance_, [0])
    assert "constant_column" in codes(flat)
    with pytest.raises(InvalidData, match="1 sample"):
        Model().fit([[1.0, 2.0]])
    with pytest.raises(InvalidData):
        Model().fit([[1.0, np.inf], [0, 0]])
    with pytest.raises(InvalidParameter, match="≤ 1, got 2"):
        Model(n_components=2, solver="lanczos").fit(CROSS)
    tiny = Model().fit(1e-150 * CROSS)
    np.testing.assert_allclose(tiny.explained_variance_ratio_, [0.8, 0.2])
