"""The losses of decisions, as functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from ml_core.arrays import Vector
from ml_core.certificates import Certificate
from ml_core.labels import distinct
from ml_core.losses.arguments import Marks, Numbers, Weight, codes_of, weights_of, wrong
from ml_core.losses.zero_one import LossMatrix
from ml_core.params import Label, RealMatrix
from ml_core.registry import Answer, function

Decisions = Annotated[Marks, Field(min_length=1, description="(n,) decisions z.")]
Truth = Annotated[Marks, Field(min_length=1, description="(n,) true labels.")]


@dataclass(frozen=True)
class DecisionReport:
    """Loss per row, weighted `total` and `mean`, and the constant decision of least loss (the first of equals).

    `table[z][y]` is the weight of rows with decision z and truth y, `matrix` the losses, in the order of `decisions`
    and `classes`.
    """

    value: Numbers
    total: float
    mean: float
    best_constant: Label | None
    best_constant_mean: float
    decisions: Marks
    classes: Marks
    matrix: RealMatrix
    table: RealMatrix


@function("zero_one_loss", example={"prediction": ["a", "b", "b"], "y": ["a", "a", "b"]})
def zero_one_loss(*, prediction: Decisions, y: Truth, sample_weight: Weight = None) -> Answer[DecisionReport]:
    """1 where the label is wrong, else 0; the mean is the error rate.

    No slope: neither convex nor continuous in any score. The best constant is the most frequent label.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, section 2.4.
    """
    kinds = distinct([*prediction, *y])
    return _report(prediction, y, 1.0 - np.eye(len(kinds)), kinds, kinds, sample_weight)


@function(
    "asymmetric_loss_matrix",
    example={"prediction": [0, 1, 1], "y": [0, 0, 1], "matrix": [[0.0, 10.0], [1.0, 0.0]]},
)
def asymmetric_loss_matrix(
    *,
    prediction: Decisions,
    y: Truth,
    matrix: Annotated[RealMatrix, Field(description="matrix[z][y]: loss of decision z when y is true.")],
    decisions: Annotated[Marks | None, Field(description="Names of the rows; default: classes, or 0 …")] = None,
    classes: Annotated[Marks | None, Field(description="Names of the columns; default 0, 1, …")] = None,
    sample_weight: Weight = None,
) -> Answer[DecisionReport]:
    """matrix[z][y] of each row: mistakes of different cost, and decisions that are no class, such as a rejection.

    A matrix of ones with a zero diagonal is the zero-one loss. Without slope; `bayes_risk` finds the best decisions.

    References
    ----------
    Berger (1985), Statistical Decision Theory and Bayesian Analysis, chapter 1.
    """
    Z, K = matrix.shape
    columns = list(range(K)) if classes is None else classes
    rows = (columns if Z == K else list(range(Z))) if decisions is None else decisions
    for name, labels, size in (("classes", columns, K), ("decisions", rows, Z)):
        if len(labels) != size or len(distinct(labels)) != size:
            raise wrong(name, "length", f"{name} needs {size} different labels, as the matrix has")
    return _report(prediction, y, matrix, rows, columns, sample_weight)


def _report(
    prediction: list[Any], y: list[Any], matrix: np.ndarray, rows: list[Any], columns: list[Any], weight: Vector | None
) -> Answer[DecisionReport]:
    if len(prediction) != len(y):
        raise wrong("y", "length", f"there are {len(prediction)} decisions and {len(y)} labels; give one for each")
    s = weights_of(weight, len(y))
    loss = LossMatrix(matrix)
    z, t = codes_of(prediction, rows, "prediction"), codes_of(y, columns, "y")
    value = loss.value(z[:, None].astype(np.float64), t.astype(np.float64))
    best = int(loss.start(t.astype(np.float64), s)[0])
    table = np.zeros(matrix.shape)
    np.add.at(table, (z, t), s)
    total = float(s @ value)
    found = DecisionReport(
        value, total, total / float(s.sum()), rows[best], float(matrix[best] @ table.sum(axis=0) / s.sum()), rows,
        columns, matrix, table,
    )  # fmt: skip
    size = float((np.abs(matrix) * table).sum()) or 1.0
    check = Certificate("total_error", abs(total - float((matrix * table).sum())) / size, 1e-12,
                        "the total of the rows against that of the table (relative)")  # fmt: skip
    return Answer(found, (check,))
