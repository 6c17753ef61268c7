"""Why a figure has no value: every null of an answer is told with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ml_core import naming
from ml_core.certificates import Diagnostics, Notice, Table, plain, with_failures

UNDEFINED = "undefined"
NO_SPREAD = "the target does not vary (or its squares vanish), so there is nothing to explain"
DEPENDENT = "no finite number: columns are combinations of others, or the ratio is beyond the largest double"
FREEDOM = "it takes residual degrees of freedom"
ALONE = "a row that alone determines a direction can only be left out by a fit without it"
SINGLE = "it takes residual degrees of freedom, a fit that is not exact, and rows that decide no direction alone"
UNBOUNDED = "the residuals are all 0 (or their squares vanish), so that the likelihood has no bound"
NO_PLANE = "the normal of the plane is 0"
MIXED = "the classes are not separable, so that no bound exists"
TOO_LARGE = "beyond the largest double in these units"
FREE = "it takes a row that is not fitted by itself"
NONE = "no finite number for these rows"
REASONS = {
    "r2": NO_SPREAD, "mean_r2": NO_SPREAD, "r1": NO_SPREAD, "explained_deviance": NO_SPREAD, "pseudo_r2": NO_SPREAD,
    "adjusted_r2": "it takes a target that varies and residual degrees of freedom",
    "condition_number": DEPENDENT, "weighted_condition_number": DEPENDENT, "hessian_condition": DEPENDENT,
    "information_condition": DEPENDENT, "condition_bound": DEPENDENT,
    "digits_left": "some slope is not determined, or all slopes are 0",
    "sigma2_unbiased": FREEDOM, "mallows_cp": FREEDOM, "dispersion": FREEDOM, "pearson_dispersion": FREEDOM,
    "log_likelihood": UNBOUNDED, "aic": UNBOUNDED, "bic": UNBOUNDED,
    "leave_one_out_mse": ALONE, "gcv": FREE,
    "largest_studentized_residual": SINGLE, "largest_cook_distance": SINGLE, "standardized": SINGLE,
    "studentized": SINGLE, "studentized_residual": SINGLE, "cook_distance": SINGLE,
    "plane_offset": NO_PLANE, "radius2": MIXED, "margin": MIXED, "bound": MIXED, "bound_on_corrections": MIXED,
    "coefficient_covariance": TOO_LARGE, "estimate": TOO_LARGE, "mean_squared_error": TOO_LARGE,
    "gradient_step_bound": TOO_LARGE, "standard_deviation": TOO_LARGE, "low": TOO_LARGE, "high": TOO_LARGE,
    "log_loss": "some row has the probability 0 (zero_probability_rows), whose loss is infinite",
    "mean_log_density": "some row has the density 0, whose logarithm is infinite",
}  # fmt: skip
"""The reasons of figures by name."""
MEANT = {"negative_class", "prior_standard_deviation", "vif", "inducing_rows", "columns_out"}
"""Figures whose null is a value: all other classes; a flat prior; an intercept, whose variance nothing inflates; all
rows; a last step that predicts."""


def notices_of(names: Iterable[str]) -> list[Notice]:
    """One notice for each reason, with the figures that have it."""
    reasons: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        reasons.setdefault(REASONS.get(name, NONE), []).append(name)
    return [Notice(UNDEFINED, f"{', '.join(named)}: null, because {why}") for why, named in reasons.items()]


def with_undefined(notices: Iterable[Notice], figures: Mapping[str, Any] | None) -> list[Notice]:
    """The notices, and those of metrics without a value that none of them names."""
    out = list(notices)
    told = [n.message for n in out if n.code == UNDEFINED]
    lacking = [name for name, v in (figures or {}).items() if v is None]
    named = {name for text in told for name in text.partition(":")[0].split(", ")}
    return out + notices_of(name for name in lacking if name not in named)


def complete(out: Diagnostics, notices: Iterable[Notice], remedy: str) -> Diagnostics:
    """Tell the notices of the fit, certificates that fail, why a figure is null, and the names of columns.

    The reason of a null stands in the column `reason` of its row, or else in a notice.
    """
    out.tables = {name: naming.told(_reasoned(table)) for name, table in out.tables.items()}
    told = with_failures([*notices, *out.warnings], out.certificates, remedy)
    out.warnings = [*told, *notices_of(_unexplained(out))]
    return out


def _reasoned(table: Table) -> Table:
    """Rows with a null get the reason that their column `reason` lacks."""
    if "reason" not in table.columns:
        return table
    at, rows = table.columns.index("reason"), []
    for row in table.rows:
        lacking = [c for c in _lacking(table, row) if c != "reason"]
        rows.append([*row[:at], REASONS.get(lacking[0], NONE), *row[at + 1 :]] if lacking and row[at] is None else row)
    return Table(table.columns, rows)


def _unexplained(out: Diagnostics) -> Iterator[str]:
    yield from (name for name, v in out.summary.items() if _missing(v))
    for table in out.tables.values():
        if "reason" not in table.columns:
            yield from (c for row in table.rows for c in _lacking(table, row))
    for curve in out.curves.values():
        yield from (name for name, v in curve.items() if _missing(v))
    yield from (name for name, v in (*out.matrices.items(), *out.traces.items()) if _missing(v))


def _lacking(table: Table, row: list[Any]) -> Iterator[str]:
    return (c for c, v in zip(table.columns, row, strict=True) if c not in MEANT and _missing(v))


def _missing(value: Any) -> bool:
    """Whether a null will stand in the JSON of the value."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "f" and not bool(np.isfinite(value).all())
    if isinstance(value, (list, tuple)):
        return any(_missing(v) for v in value)
    return plain(value) is None
