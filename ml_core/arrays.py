"""Names for array shapes: documentation that mypy reads. All are float64 and C-ordered at the border unless said."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
"""(n, d): one sample per row."""
Vector = NDArray[np.float64]
"""(n,) or (d,)."""
Codes = NDArray[np.int64]
"""(n,) class or cluster numbers 0 … K-1."""
Labels = NDArray[Any]
"""(n,) labels as the user wrote them."""
