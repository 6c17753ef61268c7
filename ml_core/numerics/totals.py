"""Sums over rows as values that add up."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Self


class Total:
    """A frozen dataclass whose fields are sums: numbers, arrays, values with `merge`, or tuples of these."""

    def merge(self, other: Self) -> Self:
        """Of both sets of rows, field by field."""
        names = [f.name for f in fields(self)]  # type: ignore[arg-type]
        return type(self)(*(_added(getattr(self, name), getattr(other, name)) for name in names))


def _added(a: Any, b: Any) -> Any:
    if isinstance(a, tuple):
        return tuple(_added(x, y) for x, y in zip(a, b, strict=True))
    return a.merge(b) if hasattr(a, "merge") else a + b
