"""Distributions are frozen batches: each parameter has the batch along its first axis, each answer too.

A family gives `parameters`, `mean`, `variance`, `quantile`, `log_density`, `sample`; the rest follows and may be
overridden where something stabler exists.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import plain

FAMILIES: dict[str, type[Distribution]] = {}


class Distribution(ABC):
    """A batch of n distributions of one family."""

    family: ClassVar[str]

    def __init_subclass__(cls) -> None:
        FAMILIES[cls.family] = cls

    if TYPE_CHECKING:  # a family may have them as fields, which an inherited property would turn into defaults

        @property
        def mean(self) -> Any:
            """(n,) or (n, d) means; NaN where there is none."""

        @property
        def variance(self) -> Any:
            """(n,) variances, or of each coordinate (n, d); NaN where there is none."""

    @property
    def sd(self) -> Any:
        """Standard deviations."""
        return np.sqrt(self.variance)

    @abstractmethod
    def log_density(self, x: Any) -> Vector:
        """(n,) natural-log density or mass of x, one value (or row) per member of the batch."""

    @abstractmethod
    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """(n_samples, n, …) draws."""

    def quantile(self, p: float) -> Any:
        """(n,) value below which the share p lies, or None for families without an order."""
        return None

    def interval(self, level: float) -> Matrix | None:
        """(n, 2) equal-tailed intervals of probability `level`, or None where there is no order."""
        low, high = self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)
        return None if low is None else np.stack([low, high], axis=-1)

    def parameters(self) -> dict[str, Any]:
        """Parameters by their standard names, batch along the first axis; absent optional ones are left out."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return {k: v for k, v in values.items() if v is not None}

    def __len__(self) -> int:
        first = next(iter(self.parameters().values()))
        return len(first)

    def to_json(self, level: float = 0.9) -> list[dict[str, Any]]:
        """One JSON object per member: family, parameters, mean, variance, standard deviation, interval at `level`."""
        columns = {k: plain(np.asarray(v)) for k, v in self.parameters().items()}
        columns |= {"mean": plain(np.asarray(self.mean)), "variance": plain(np.asarray(self.variance))}
        columns |= {"standard_deviation": plain(np.asarray(self.sd))}
        interval = self.interval(level)
        rows = []
        for i in range(len(self)):
            row = {"family": self.family} | {k: v[i] for k, v in columns.items()}
            if interval is not None:
                row |= {"interval": plain(interval[i]), "level": level}
            rows.append(row)
        return rows
