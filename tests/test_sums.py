"""Every model that learns from sums: chunks, updates and forgetting give what one fit to the rows gives."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_core import parallel, progress
from ml_core.base import clone
from ml_core.decomposition.principal_component_analysis import PrincipalComponentAnalysis
from ml_core.errors import Cancelled, InvalidData
from ml_core.linear.linear_regression import LinearRegression
from ml_core.numerics.triangle import Triangle
from ml_core.registry import algorithms
from ml_core.statistics import Moments
from ml_core.sums import Additive, chunkable, diagnose_chunks, fit_chunks
from tests.checks import answers, fresh
from tests.rows import Row, all_rows

ROWS = [r for r in all_rows() if r.chunk_digits]
ADDITIVE = [r for r in ROWS if issubclass(algorithms()[r.name].cls, Additive)]
named = {"ids": lambda r: r.name}


@dataclass(frozen=True)
class Cut:
    """A table cut into pieces; each piece is the numbers of its rows."""

    X: np.ndarray
    y: np.ndarray | None
    s: np.ndarray | None
    pieces: tuple[np.ndarray, ...]

    def __len__(self) -> int:
        return len(self.pieces)

    def read(self, i: int) -> tuple[Any, Any, Any]:
        at = self.pieces[i]
        return self.X[at], None if self.y is None else self.y[at], None if self.s is None else self.s[at]


def table(row: Row) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """The row's data in an order without meaning, and whole weights where it takes them."""
    X, y = row.data()
    r = np.random.default_rng(7)
    at = r.permutation(len(X))
    s = r.integers(1, 4, len(X)).astype(float) if fresh(row).weighted else None
    return X[at], None if y is None else y[at], s


def cut(row: Row, *places: int) -> Cut:
    X, y, s = table(row)
    return Cut(X, y, s, tuple(np.split(np.arange(len(X)), places)))


def weigh(s: np.ndarray | None) -> dict[str, Any]:
    return {} if s is None else {"sample_weight": s}


def whole(row: Row) -> Any:
    X, y, s = table(row)
    return fresh(row).fit(X, y, **weigh(s))


def check_agreement(row: Row, one: Any, two: Any, X: np.ndarray, digits: float | None = None) -> None:
    a, b = answers(one, X), answers(two, X)
    assert a.keys() == b.keys()
    for name, value in a.items():
        if value.dtype.kind not in "f":
            np.testing.assert_array_equal(value, b[name])
            continue
        size = max(float(np.abs(value).max()), 1e-300)
        np.testing.assert_allclose(b[name], value, rtol=0, atol=size * 10.0 ** -(digits or row.chunk_digits))


def test_every_sum_states_its_digits():
    assert {n for n, a in algorithms().items() if issubclass(a.cls, Additive)} <= {r.name for r in ROWS}
    assert all(chunkable(algorithms()[r.name].cls) for r in ADDITIVE)


@pytest.mark.parametrize("row", ROWS, **named)
@pytest.mark.parametrize("places", [(), (17,), (0, 3, 3, 40), tuple(range(1, 50))], ids=str)
def test_chunks_give_the_fit(row, places):
    pieces = cut(row, *places)
    model = fit_chunks(fresh(row), pieces)
    check_agreement(row, whole(row), model, pieces.X)
    assert model.n_features_in_ == pieces.X.shape[1]
    report = diagnose_chunks(model, pieces).to_json()
    assert report["certificates"]
    assert all(c["holds"] for c in report["certificates"]), report["certificates"]


@pytest.mark.parametrize("row", ROWS, **named)
def test_the_order_of_chunks_does_not_matter(row):
    pieces = cut(row, 5, 11, 40)
    turned = Cut(pieces.X, pieces.y, pieces.s, pieces.pieces[::-1])
    check_agreement(row, fit_chunks(fresh(row), pieces), fit_chunks(fresh(row), turned), pieces.X)


@pytest.mark.parametrize("row", ROWS, **named)
def test_chunks_without_weight_do_not_count(row):
    pieces = cut(row, 20, 30)
    if pieces.s is None:
        pytest.skip(f"{row.name} takes no weights")
    s = pieces.s.copy()
    s[20:30] = 0.0
    model = fit_chunks(fresh(row), Cut(pieces.X, pieces.y, s, pieces.pieces))
    check_agreement(row, fresh(row).fit(pieces.X, pieces.y, sample_weight=s), model, pieces.X)


@pytest.mark.parametrize("row", ADDITIVE, **named)
def test_update_is_the_fit_to_all_rows_and_forget_undoes_it(row):
    X, y, s = table(row)
    A, B = np.arange(len(X)) < len(X) // 2, np.arange(len(X)) >= len(X) // 2

    def part(at):
        return X[at], None if y is None else y[at], *(() if s is None else (s[at],))

    first = fresh(row).fit(*part(A))
    after = pickle.loads(pickle.dumps(first)).update(*part(B))
    check_agreement(row, whole(row), after, X, row.chunk_digits - 1)
    check_agreement(row, first, after.forget(*part(B)), X, row.chunk_digits - 2)
    check_agreement(row, first, whole(row).forget(*part(B)), X, row.chunk_digits - 2)
    assert first.diagnostics(*part(A)).summary


@pytest.mark.parametrize("row", ADDITIVE, **named)
def test_rows_that_were_never_seen_cannot_be_forgotten(row):
    X, y, s = table(row)
    model = whole(row)
    before = pickle.dumps(vars(model))
    far = X if model.accepts == "binary" else (X - X.mean(axis=0)) * 100
    many = {} if s is None else {"sample_weight": 50 * s}
    for rows, more in ((far, many), (X, weigh(s))):
        with pytest.raises(InvalidData):
            model.forget(rows, y, **more)
        assert pickle.dumps(vars(model)) == before


@pytest.mark.parametrize("row", ROWS, **named)
def test_an_engine_elsewhere_gives_the_bits_of_threads_here(row):
    pieces = cut(row, 10, 25)

    def elsewhere(function: Any, items: Sequence[Any], shared: tuple[Any, ...]) -> Iterator[Any]:
        sent = pickle.dumps((function, items, shared))
        for i in range(len(items)):
            f, every, rest = pickle.loads(sent)
            yield pickle.loads(pickle.dumps(f(every[i], *rest)))

    with parallel.use_threads(1):
        one = fit_chunks(fresh(row), pieces)
    with parallel.use_threads(3):
        two = fit_chunks(fresh(row), pieces)
    with parallel.use_mapper(elsewhere):
        three = fit_chunks(fresh(row), pieces)
    for name, value in answers(one, pieces.X).items():
        np.testing.assert_array_equal(value, answers(two, pieces.X)[name])
        np.testing.assert_array_equal(value, answers(three, pieces.X)[name])


@pytest.mark.parametrize("row", ROWS, **named)
def test_a_fit_from_chunks_can_be_cancelled(row):
    def stop(tick: progress.Tick) -> None:
        raise Cancelled

    model = fresh(row)
    with progress.listen(stop), pytest.raises(Cancelled):
        fit_chunks(model, cut(row, 10, 25))
    assert not model.__sklearn_is_fitted__()


@pytest.mark.parametrize("row", ROWS, **named)
def test_a_refusal_names_the_chunk(row):
    pieces = cut(row, 10, 25)
    pieces.X[12, 0] = np.nan
    with pytest.raises(InvalidData, match="chunk 1 of 3"):
        fit_chunks(fresh(row), pieces)
    with pytest.raises(InvalidData, match="no row of positive weight"):
        fit_chunks(fresh(row), Cut(pieces.X, pieces.y, pieces.s, ()))


@pytest.mark.parametrize("row", [r for r in ADDITIVE if r.name in ("linear_regression", "standard_scaler")], **named)
def test_offsets_and_units_cost_no_digits(row):
    pieces = cut(row, 1, 2, 20, 41)
    X = pieces.X * [1.0, 1e6, 1e-6, 1.0] + [1e8, 0.0, 0.0, -1e8]
    model = fit_chunks(fresh(row), Cut(X, pieces.y, pieces.s, pieces.pieces))
    check_agreement(row, fresh(row).fit(X, pieces.y, **weigh(pieces.s)), model, X, 12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 39), st.sampled_from([0.0, 1e8]))
def test_sums_of_parts_merge_and_subtract(seed, place, offset):
    r = np.random.default_rng(seed)
    A, s = r.normal(size=(40, 3)) * [1.0, 1e5, 1e-5] + offset * np.array([1.0, 0.0, 0.0]), r.integers(1, 5, 40) * 1.0
    for kind in (Moments.of, Triangle.of):
        parts = kind(A[:place], s[:place]), kind(A[place:], s[place:])
        both, all_rows = parts[0].merge(parts[1]), kind(A, s)
        check_same(both, all_rows, 1e-12)
        rest = both.subtract(parts[0]) if place < 30 else both
        check_same(rest, parts[1] if place < 30 else both, 1e-10)


def scatter(sums: Any) -> np.ndarray:
    return sums.root.T @ sums.root if isinstance(sums, Triangle) else sums.scatter


def check_same(one: Any, two: Any, share: float) -> None:
    d = np.sqrt(np.diag(scatter(two)))
    np.testing.assert_allclose(scatter(one) / np.outer(d, d), scatter(two) / np.outer(d, d), rtol=0, atol=share)
    np.testing.assert_allclose(((one.mean - two.mean) + (one.rest - two.rest)) / d, 0, atol=share)
    assert (one.rows, one.total) == (two.rows, two.total)


@pytest.mark.parametrize("exponent", [2, 4, 6])
def test_least_squares_from_chunks_keeps_the_digits_of_an_orthogonal_method(exponent):
    r = np.random.default_rng(0)
    n, w = 600, np.array([1.0, -2.0, 3.0])
    Q = np.linalg.qr(r.normal(size=(n, 3)))[0]
    X = np.round((Q * np.sqrt(n)) @ [[1, 1, 1], [0, 10.0**-exponent, 1], [0, 0, 1]] * 2.0**30) / 2.0**30
    y = X @ w + r.normal(size=n)
    pieces = Cut(X, y, None, tuple(np.split(np.arange(n), [7, 100, 101, 450])))
    ours, exact = fit_chunks(LinearRegression(), pieces), LinearRegression(solver="qr", decimals=False).fit(X, y)
    np.testing.assert_allclose(ours.coef_, exact.coef_, rtol=10.0 ** (exponent - 15))
    np.testing.assert_allclose(ours.rss_, exact.rss_, rtol=1e-13)
    np.testing.assert_allclose(ours.deviations_, exact.deviations_, rtol=10.0 ** (exponent - 14))
    assert ours.rank_ == exact.rank_ == 4


def test_several_targets_without_intercept_and_precision_weights_from_chunks():
    r = np.random.default_rng(1)
    X, s = r.normal(size=(80, 3)), r.random(80) + 0.5
    Y = X @ r.normal(size=(3, 2)) + r.normal(size=(80, 2))
    for given_params in ({"fit_intercept": False}, {"weight_kind": "precision"}):
        pieces = Cut(X, Y, s, tuple(np.split(np.arange(80), [30, 31])))
        ours = fit_chunks(LinearRegression(**given_params), pieces)
        plain = LinearRegression(**given_params).fit(X, Y, sample_weight=s)
        for name in ("coef_", "intercept_", "sigma2_", "deviations_", "n_"):
            np.testing.assert_allclose(getattr(ours, name), getattr(plain, name), rtol=1e-12)
        assert ours.diagnostics(X, Y, s).tables["outputs"].rows


def test_dependent_columns_have_the_same_rank_and_least_norm_from_chunks():
    r = np.random.default_rng(2)
    X = r.normal(size=(50, 3))
    X = np.column_stack([X, X[:, 0] - X[:, 1], np.full(50, 0.1)])
    y = X @ r.normal(size=5) + r.normal(size=50)
    ours = fit_chunks(LinearRegression(), Cut(X, y, None, tuple(np.split(np.arange(50), [20]))))
    plain = LinearRegression().fit(X, y)
    assert ours.rank_ == plain.rank_ == 4
    np.testing.assert_allclose(ours.coef_, plain.coef_, rtol=1e-11, atol=1e-12)
    assert [n.code for n in ours.notices_] == ["rank_deficient"]


def test_forgetting_what_determines_a_column_is_refused():
    r = np.random.default_rng(3)
    X = np.column_stack([r.normal(size=40), np.repeat([0.0, 1.0], 20)])
    y = X.sum(axis=1) + r.normal(size=40)
    model = LinearRegression().fit(X, y)
    with pytest.raises(InvalidData, match="fit the rows that are to stay"):
        model.forget(X[20:], y[20:])
    with pytest.raises(InvalidData, match="1 targets, these rows have 2"):
        model.update(X, np.stack([y, y], axis=1))


def test_labels_of_another_kind_are_refused():
    row = next(r for r in ADDITIVE if r.name == "quadratic_discriminant_analysis")
    pieces = cut(row, 30)
    mixed = Cut(pieces.X, pieces.y, pieces.s, pieces.pieces)
    object.__setattr__(mixed, "read", lambda i: (pieces.X[:30], np.arange(30) if i else pieces.y[:30], None))
    with pytest.raises(InvalidData, match="another like"):
        fit_chunks(fresh(row), mixed)
    with pytest.raises(InvalidData, match="never seen"):
        whole(row).update(pieces.X[:2], np.array(["a", "zebra"]), sample_weight=[1.0, 1.0])


@pytest.mark.parametrize("params", [{}, {"n_components": 2}, {"standardize": True, "ddof": 1}, {"center": False}])
@pytest.mark.parametrize("solver", ["full", "covariance"])
def test_components_update_from_every_route_that_keeps_sums(params, solver):
    r = np.random.default_rng(4)
    X = r.normal(size=(90, 6)) @ r.normal(size=(6, 6)) + 3
    model = PrincipalComponentAnalysis(solver=solver, **params)
    want = clone(model).fit(X)
    for ours in (clone(model).fit(X[:40]).update(X[40:]), clone(model).fit(np.vstack([X, X[:9]])).forget(X[:9]),
                 fit_chunks(clone(model), Cut(X, None, None, tuple(np.split(np.arange(90), [3, 30]))))):  # fmt: skip
        np.testing.assert_allclose(ours.explained_variance_, want.explained_variance_, rtol=1e-9)
        np.testing.assert_allclose(ours.components_, want.components_, atol=1e-8)
        np.testing.assert_allclose(ours.discarded_variance_, want.discarded_variance_, rtol=1e-9, atol=1e-12)
        assert all(c.holds for c in ours.diagnostics(X).certificates)


def test_components_without_sums_say_so():
    X = np.random.default_rng(5).normal(size=(30, 8))
    model = PrincipalComponentAnalysis(n_components=2, solver="lanczos").fit(X)
    with pytest.raises(InvalidData, match="keeps no sums"):
        model.update(X)
