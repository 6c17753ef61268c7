"""What every solver returns. Not converging is a reason in the answer, never an exception."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ml_core.arrays import Vector

Reason = Literal["gradient", "objective", "step", "gap", "direct", "max_iter", "line_search", "diverged", "separable"]


@dataclass(frozen=True)
class Solution:
    """The best iterate `w`, iterations, whether the stopping rule was met and which, and the objective trace."""

    w: Vector
    n_iter: int
    converged: bool
    reason: Reason
    trace: list[float] = field(default_factory=list)
