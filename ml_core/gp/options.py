"""Parameters that several kernel methods and Gaussian processes share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ml_core.kernels import KernelSpec
from ml_core.params import Tol

Similarity = Annotated[KernelSpec | None, Field(description="k; null: Gaussian of the median distance.")]
Covariance = Annotated[
    KernelSpec | None, Field(description="k; null: Gaussian, its length starting at the median distance.")
]
Hyperparameters = Annotated[
    Literal["maximise", "given"], Field(description="Maximise the marginal likelihood, or keep what is given.")
]
Fixed = Annotated[
    list[str] | tuple[str, ...],
    Field(description="Hyperparameters that stay: signal_variance, kernel/length_scale …; noise_variance where there "
          "is one."),
]  # fmt: skip
SearchFactor = Annotated[
    float, Field(gt=1, le=1e12, description="Each is searched between its start / this and its start × this.")
]
Restarts = Annotated[int, Field(ge=0, le=100, description="Random starts beside the first.")]
Slope = Annotated[Tol, Field(description="Largest derivative, nats per logarithm, to stop at.")]
Method = Annotated[Literal["auto", "exact", "sparse"], Field(description="auto: exact up to exact_rows and memory.")]
ExactRows = Annotated[int, Field(ge=1, description="Most rows that auto takes exactly.")]
Inducing = Annotated[int, Field(ge=1, le=5000, description="Inducing rows of the sparse method.")]
