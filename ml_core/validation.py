"""X, y, weights and labels → checked arrays. Every message about data is written here."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ml_core.arrays import Codes, Labels, Matrix, Vector
from ml_core.errors import DataConversionWarning, InvalidData, Issue, NotFittedError, pointer
from ml_core.naming import name as column_name
from ml_core.numerics.column_moments import magnitudes
from ml_core.numerics.sparse_rows import check_sparse

ACCEPTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "real": (np.isfinite, "a finite number"),
    "levels": (np.isfinite, "a finite number"),
    "binary": (lambda X: (X == 0) | (X == 1), "0 or 1"),
    "count": (lambda X: (X >= 0) & (np.floor(X) == X) & np.isfinite(X), "a whole number of at least 0"),
    "nonnegative": (lambda X: (X >= 0) & np.isfinite(X), "a number of at least 0"),
}
MAX_ISSUES = 20
MANY = 1 << 16
"""Cells from which a compiled look at all of them, on threads, is faster than their sum."""
SQUARABLE = 1e-150
WEIGHTS = (1e-90, 1e90)
"""Range of positive weights: outside of it their sums with squares of columns overflow or vanish."""


def _dense(X: Any, name: str = "X") -> np.ndarray:
    if hasattr(X, "tocsr"):
        raise TypeError(f"{name} is a sparse matrix; pass a dense array (X.toarray())")
    try:
        A = np.asarray(X)
    except ValueError as e:
        raise InvalidData(f"{name} is ragged: its rows differ in length ({e})") from e
    if A.dtype.kind == "c":
        raise InvalidData(f"Complex data not supported: {name} holds complex numbers")
    if A.dtype.kind in "OUSV":
        try:
            A = A.astype(np.float64)
        except TypeError as e:
            raise TypeError(f"argument must be a string or a number: {name} holds {e}") from e
        except ValueError as e:
            raise InvalidData(f"{name} must hold numbers: {e}") from e
    return A


def check_matrix(
    X: Any, *, owner: str = "", accepts: str = "real", min_rows: int = 1, largest: float = math.inf,
    sparse: bool = False, whole: bool = True,
) -> Matrix:  # fmt: skip
    """X as float64, C-ordered (n, d); InvalidData says which cell is not finite, too large or outside the domain.

    Unless these rows are the `whole` table, a column of theirs may be so small that its squares vanish.
    With `sparse` a scipy.sparse X becomes a csr_array, which an estimator that says so takes in place of a table. Of
    `levels`, columns may be text; then the table is of objects, numbers and texts by column.
    """
    if sparse and issparse(X):
        return check_sparse(X, owner=owner, min_rows=min_rows, largest=largest)
    if accepts == "levels" and (table := _with_text(X)) is not None:
        return table
    A = X if type(X) is np.ndarray and X.dtype == np.float64 else _dense(X)
    if A.ndim != 2:
        raise InvalidData(
            f"Expected 2D array, got {A.ndim}D array instead. Reshape your data: array.reshape(-1, 1) for one feature, "
            "array.reshape(1, -1) for one sample."
        )
    if A.shape[0] < min_rows:
        raise InvalidData(f"Found array with {A.shape[0]} sample(s) (shape={A.shape}) while a minimum of {min_rows} "
                          f"is required by {owner or 'this method'}.")  # fmt: skip
    if A.shape[1] < 1:
        raise InvalidData(f"Found array with 0 feature(s) (shape={A.shape}) while a minimum of 1 is required.")
    A = np.ascontiguousarray(A, dtype=np.float64)
    top = magnitudes(A) if largest < math.inf or A.size > MANY else None
    if top is None or accepts != "real" or not np.isfinite(top).all():
        _check_domain(A, accepts, owner)
    if top is not None:
        _check_range(A, top, owner, largest)
        if whole:
            check_squares(top, owner, largest)
    return A


def _with_text(X: Any) -> np.ndarray | None:
    """(n, d) objects where some column is text, else None; InvalidData for a column of both."""
    kind = X.dtype.kind if isinstance(X, np.ndarray) else ""
    if kind not in ("", "O", "U") or hasattr(X, "tocsr"):
        return None
    A = np.asarray(X) if kind else np.array(X, dtype=object)
    if A.ndim != 2 or not A.size:
        return None
    A = A.astype(object)
    said = np.frompyfunc(lambda v: isinstance(v, str), 1, 1)(A).astype(bool)
    text = said.any(axis=0)
    if not text.any():
        return None
    if (mixed := np.argwhere(text & ~said)).size:
        i, j = mixed[0]
        raise InvalidData(f"column {column_name(j)} mixes text and other values: row {i} holds {A[i, j]!r:.40}",
                          [Issue(pointer("rows", i, column_name(j)), "mixed_column", "expected text")])  # fmt: skip
    numbers = check_matrix(np.where(text, 0.0, A))
    return np.where(text, A, numbers)


def _check_range(A: Matrix, top: Vector, owner: str, largest: float) -> None:
    """Refuse cells above `largest`; `top` (d,) is the largest magnitude of each column."""
    if (top > largest).any():
        i, j = np.argwhere(np.abs(A) > largest)[0]
        text = f"magnitudes up to {largest:g}; divide column {column_name(j)} by a constant"
        raise InvalidData(f"{owner or 'X'} accepts {text}; row {i} holds {A[i, j]:g}",
                          [Issue(pointer("rows", i, column_name(j)), "out_of_domain", f"expected {text}")])  # fmt: skip


def check_squares(top: Vector, owner: str, largest: float) -> None:
    """Refuse columns whose squares vanish, where cells are bounded by `largest` because of squares.

    `top` (d,) is the largest magnitude of each column over all rows.
    """
    tiny = np.flatnonzero((top > 0) & (top < SQUARABLE))
    if len(tiny) and largest * SQUARABLE < 1:
        j = tiny[0]
        text = f"all of column {column_name(j)} is below {SQUARABLE:g}, where squares vanish; multiply it by a constant"
        raise InvalidData(f"{owner or 'X'}: {text}", [Issue(pointer("columns", column_name(j)), "out_of_domain", text)])


def _check_domain(A: Matrix, accepts: str, owner: str) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        if accepts in ("real", "levels") and math.isfinite(A.sum()):
            return
    test, want = ACCEPTS[accepts]
    bad = np.argwhere(~test(A))
    if not len(bad):
        return
    issues = [Issue(pointer("rows", i, column_name(j)), "out_of_domain", f"expected {want}, got {A[i, j]}")
              for i, j in bad[:MAX_ISSUES]]  # fmt: skip
    i, j = bad[0]
    if np.isfinite(A).all():
        negative = "Negative values in data: " if accepts in ("count", "nonnegative") and A[i, j] < 0 else ""
        raise InvalidData(f"{negative}{owner or 'X'} accepts {want}; row {i}, column {column_name(j)} is {A[i, j]:g} "
                          f"({len(bad)} such)", issues)  # fmt: skip
    raise InvalidData(f"Input X contains NaN or infinity: row {i}, column {column_name(j)} is {A[i, j]} "
                      f"({len(bad)} such)", issues)  # fmt: skip


def check_weights(weight: Any, n: int) -> Vector:
    """(n,) non-negative finite weights, not all zero; None gives ones, a scalar is repeated."""
    if weight is None:
        return np.ones(n)
    s = _dense(weight, "sample_weight").astype(np.float64)
    if s.ndim == 0:
        s = np.full(n, float(s))
    if s.ndim != 1:
        raise InvalidData("Sample weights must be 1D array or scalar")
    if len(s) != n:
        raise InvalidData(f"sample_weight.shape == {s.shape}, expected {(n,)}!")
    bad = np.flatnonzero(~(np.isfinite(s) & (s >= 0)))
    if len(bad):
        raise InvalidData(f"sample_weight must be finite and non-negative; row {bad[0]} is {s[bad[0]]}",
                          [Issue("/weights", "negative", "weights are numbers of at least 0")])  # fmt: skip
    if not s.any():
        raise InvalidData("sample_weight is zero for every row",
                          [Issue("/weights", "all_zero", "give some row a positive weight")])  # fmt: skip
    far = np.flatnonzero((s > 0) & ((s < WEIGHTS[0]) | (s > WEIGHTS[1])))
    if len(far):
        raise InvalidData(f"positive sample_weight must lie between {WEIGHTS[0]:g} and {WEIGHTS[1]:g}, row {far[0]} is "
                          f"{s[far[0]]:g}; multiply all weights by a constant",
                          [Issue("/weights", "out_of_range", "multiply all weights by a constant")])  # fmt: skip
    return s


def _column(y: Any, n: int, owner: str, several: bool = False) -> np.ndarray:
    if y is None:
        raise InvalidData(f"{owner} requires y to be passed, but the target y is None")
    if hasattr(y, "tocsr"):
        raise TypeError("y is a sparse matrix; pass a dense array")
    t = np.asarray(y)
    if t.dtype.kind == "c":
        raise InvalidData("Complex data not supported: y holds complex numbers")
    if t.ndim == 2 and t.shape[1] == 1 and not several:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Use y.ravel().",
            DataConversionWarning,
            stacklevel=5,
        )
        t = t[:, 0]
    if t.ndim != 1 and not (several and t.ndim == 2):
        raise InvalidData(f"y should be a 1d array, got an array of shape {t.shape} instead.")
    if len(t) != n:
        raise InvalidData(f"Found input variables with inconsistent numbers of samples: X has {n} rows, y has {len(t)}")
    return t


def check_targets(y: Any, n: int, owner: str, *, several: bool, top: float = math.inf) -> Vector | Matrix:
    """Regression targets, float64, finite, at most `top` in magnitude: (n,) or, for several outputs, (n, q)."""
    t = _column(y, n, owner, several)
    try:
        t = t.astype(np.float64)
    except (TypeError, ValueError) as e:
        raise InvalidData(f"y must hold numbers: {e}") from e
    bad = np.argwhere(~np.isfinite(t))
    if len(bad):
        raise InvalidData(f"Input y contains NaN or infinity: row {bad[0][0]} is {t[tuple(bad[0])]} ({len(bad)} such)",
                          [Issue(f"/rows/{int(b[0])}", "not_finite", "empty") for b in bad[:MAX_ISSUES]])  # fmt: skip
    if top < math.inf and np.abs(t).max(initial=0.0) > top:
        raise InvalidData(f"{owner} accepts targets of magnitude up to {top:g}, got {np.abs(t).max():g}",
                          [Issue("/target", "out_of_domain", "divide the target by a constant")])  # fmt: skip
    return np.ascontiguousarray(t)


def check_labels(t: np.ndarray, keep: np.ndarray, owner: str) -> tuple[Labels, Codes]:
    """Sorted classes (K,) of the rows to keep, two at least, and their codes; t (n,) holds the labels of all rows."""
    classes, codes = distinct_labels(t[keep], owner)
    if len(classes) < 2:
        only = classes.tolist()[0]
        lost = [v for v in distinct_labels(t, owner)[0].tolist() if v != only]
        if lost:
            gone = ", ".join(map(repr, lost[:MAX_ISSUES]))
            text = f"every row of {gone} has weight 0, which leaves {only!r} alone"
            raise InvalidData(f"{owner} needs at least two classes; {text}, only one class",
                              [Issue("/weights", "one_class", "weigh rows of two classes")])  # fmt: skip
        raise InvalidData(f"{owner} needs at least two classes; every row of y is {only!r}, only one class",
                          [Issue("/target", "one_class", "choose a target that varies")])  # fmt: skip
    return classes, codes


def distinct_labels(t: np.ndarray, owner: str, *, rows: bool = True) -> tuple[Labels, Codes]:
    """Sorted labels and codes (n,). Labels are strings, booleans, or numbers; those with a fraction must recur.

    `rows` says that t holds the label of each row, so that a continuous target can be told from numbers of classes.
    """
    if t.dtype.kind == "f" and not np.isfinite(t).all():
        raise InvalidData("Input y contains NaN or infinity")
    if t.dtype.kind == "O" and any(v is None or (isinstance(v, float) and np.isnan(v)) for v in t):
        raise InvalidData("Input y contains NaN or null")
    try:
        classes, codes = np.unique(t, return_inverse=True)
    except TypeError as e:
        raise InvalidData(f"y mixes kinds of labels that have no order: {e}") from e
    if rows:
        check_recurring(classes, len(t), owner)
    return classes, np.asarray(codes, dtype=np.int64)


def check_recurring(classes: Labels, n: int, owner: str) -> None:
    """InvalidData where labels of n rows are numbers with a fraction that hardly recur: a continuous target."""
    if classes.dtype.kind != "f" or len(classes) <= max(2, n // 2):
        return
    broken = classes[classes != np.floor(classes)]
    if len(broken):
        raise InvalidData(f"Unknown label type: continuous. {owner} needs classes, which recur; y holds {len(classes)} "
                          f"different numbers in {n} rows, such as {broken[0]}",
                          [Issue("/target", "not_classes", "choose a column of classes, or a regression")])  # fmt: skip


def check_query(model: Any, X: Any = None, *, width: int | None = None) -> Matrix:
    """NotFittedError before anything else; then X of the fitted width. Called by every public method of a model."""
    if not model.__sklearn_is_fitted__():
        raise NotFittedError(f"This {type(model).__name__} instance is not fitted yet. Call 'fit' first.")
    if X is None:
        return np.empty((0, 0))
    A = check_matrix(X, owner=type(model).__name__, accepts=model._query_domain(), sparse=model.sparse)
    want = width or model.n_features_in_
    if A.shape[1] != want:
        raise InvalidData(
            f"X has {A.shape[1]} features, but {type(model).__name__} is expecting {want} features as input"
        )
    return A
