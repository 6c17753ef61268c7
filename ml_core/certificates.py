"""What a fit can say about itself: certificates recomputed from the answer, and one shape for every diagnostic."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ml_core.arrays import Vector

FAILED = "certificate_fails"
REMEDY = ("rely on the answer only as far as the value says; columns of z-scores (standard_scaler in a pipeline), "
          "weights near 1 and more steps help")  # fmt: skip
"""What to do where a certificate fails and the algorithm does not know better."""


@dataclass(frozen=True)
class Notice:
    """A fact about a fit that its user should know: a stable `code`, what happened, and what to do."""

    code: str
    message: str
    advice: str = ""


@dataclass(frozen=True)
class Certificate:
    """A checkable statement of how good an answer is: it holds when `value` ≤ `tolerance` (or ≥ when `at_least`)."""

    name: str
    value: float
    tolerance: float
    meaning: str
    at_least: bool = False

    @property
    def holds(self) -> bool:
        """Whether the statement is true; a value that is not finite never holds."""
        if math.isnan(self.value):
            return False
        return bool(self.value >= self.tolerance if self.at_least else self.value <= self.tolerance)

    def failure(self, remedy: str) -> Notice:
        """The notice of a certificate that does not hold."""
        side = "at least" if self.at_least else "at most"
        text = f"certificate {self.name} does not hold: {self.value:.3g} where {side} {self.tolerance:.3g} was due"
        return Notice(FAILED, f"{text} ({self.meaning})", remedy)

    def to_json(self) -> dict[str, Any]:
        """The certificate as the contract writes it."""
        return {
            "name": self.name, "value": finite(self.value), "tolerance": finite(self.tolerance),
            "holds": self.holds, "meaning": self.meaning,
        }  # fmt: skip


@dataclass(frozen=True)
class Table:
    """A small named table: column names and rows of scalars (None where a value has no meaning)."""

    columns: tuple[str, ...]
    rows: list[list[Any]]


@dataclass
class Diagnostics:
    """Everything an analyst wants to see of one fit. `curves` hold x, y and more columns of equal length."""

    summary: dict[str, float | int | None] = field(default_factory=dict)
    certificates: list[Certificate] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)
    traces: dict[str, Vector | list[float]] = field(default_factory=dict)
    curves: dict[str, dict[str, Any]] = field(default_factory=dict)
    matrices: dict[str, Any] = field(default_factory=dict)
    warnings: list[Notice] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready: numbers finite or None."""
        return {
            "summary": plain(self.summary),
            "certificates": [c.to_json() for c in self.certificates],
            "tables": {k: {"columns": list(t.columns), "rows": plain(t.rows)} for k, t in self.tables.items()},
            "traces": plain(self.traces),
            "curves": plain(self.curves),
            "matrices": plain(self.matrices),
            "warnings": [{"code": w.code, "message": w.message, "advice": w.advice} for w in self.warnings],
        }


def with_failures(notices: Iterable[Notice], certificates: Iterable[Certificate], remedy: str) -> list[Notice]:
    """The notices, and one for each certificate that fails and that none of them names: none fails in silence."""
    out = list(notices)
    for c in certificates:
        if not c.holds and not any(n.code == FAILED and f"certificate {c.name} " in n.message for n in out):
            out.append(c.failure(remedy))
    return out


def finite(x: float) -> float | None:
    """x, or None where it is not a finite number."""
    return float(x) if math.isfinite(x) else None


def plain(value: Any) -> Any:
    """Nested dicts, sequences, arrays and NumPy scalars → JSON values; non-finite numbers become None."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return finite(value)
    return value
