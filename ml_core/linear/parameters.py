"""Annotations that constructors of several linear models share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ml_core.params import Tol
from ml_core.solvers.linear_first_order import FirstOrder

DirectSolver = Annotated[
    Literal["auto", "svd", "qr", "normal_equations"],
    Field(description="How to minimise; auto chooses between normal_equations and qr by size and condition."),
]
Rcond = Annotated[
    float | None,
    Field(gt=0, lt=1, description="Relative cut-off of the rank (qr, svd); by default what rounding can fake."),
]
MinNorm = Annotated[
    Literal["augmented", "centered"],
    Field(description="Of many solutions take the least |(b, w)| (augmented) or the least |w| (centered)."),
]
PenaltyL1 = Annotated[float, Field(ge=0, le=1e90, description="Penalty on the sum of |w|.")]
PenaltyL2 = Annotated[float, Field(ge=0, le=1e90, description="Penalty on half the sum of w².")]
SmoothSolver = Literal["newton", "irls", "lbfgs"] | FirstOrder
Parametrization = Annotated[
    Literal["full", "reference"], Field(description="Beyond two classes: K vectors of sum 0, or class 0 at 0.")
]
Threshold = Annotated[
    float, Field(gt=0, lt=1, description="Two classes: predict the second from this probability on.")
]
Distance = Annotated[
    Tol, Field(description="Distance to the optimum in standard errors (newton, irls, lbfgs); largest gradient per row "
               "and standardised column (the others).")
]  # fmt: skip
