"""Errors of a penalised fit on rows that it did not see, for every penalty that is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ml_core import progress
from ml_core.arrays import Matrix, Vector
from ml_core.base import clone
from ml_core.linear.linear_sums import fast_sums
from ml_core.parallel import ordered_map
from ml_core.selection.splits import Split, parts_of

if TYPE_CHECKING:
    from ml_core.linear.penalised_squares import PenalisedSquares


def fold_errors(m: PenalisedSquares, X: Matrix, y: Vector | Matrix, s: Vector) -> Matrix:
    """(k, a) mean squared error of each fold, over outputs, by fits of the other folds; one decomposition a fold.

    Penalties are those beside the mean: with fewer rows they shrink with the weight of the rows.
    """
    grid = m._grid()

    def errors(split: Split) -> Vector:
        train, test = split
        part: PenalisedSquares = clone(m)  # type: ignore[assignment]
        part.choose_alpha, part.notices_ = "given", []
        part._learn(fast_sums(X[train], y[train], s[train], m.fit_intercept), None)
        found, share, out = part._shrinkage(), float(s[train].sum() / s.sum()), np.zeros(len(grid))
        for i, alpha in enumerate(grid.tolist()):
            progress.tick(i, len(grid), "penalties")
            part._keep(found, alpha * share)
            square = np.square(y[test] - part._predict(X[test])).reshape(len(test), -1)
            out[i] = float(s[test] @ square.mean(axis=1) / s[test].sum())
        return out

    return np.array(list(ordered_map(errors, parts_of(len(X), m.folds, m.random_state))))
