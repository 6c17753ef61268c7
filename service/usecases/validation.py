"""Scores on rows that a model has not seen: fresh fits of the same spec on parts of the rows, here or on an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from ml_core import naming, parallel, progress
from ml_core.base import Estimator
from ml_core.metrics.chunked import Scores, figures, scores_of
from ml_core.metrics.summary import metrics
from ml_core.preprocessing.table_fit import fit_encoder
from ml_core.registry import build
from ml_core.selection.splits import Split
from service.errors import Invalid, Issue, NotReady
from service.ports import Json
from service.usecases.chunked import Host
from service.usecases.partition import MAX_REFITS, alone, in_one_fit, labels, plan_of, splits, too_many
from service.usecases.preparation import Prepared, prepare, rows_of, subset


def build_estimator(request: Json) -> Estimator:
    """The estimator of a request, every default and seed filled in."""
    return build(request["estimator"], seed=request.get("seed", 0), pointer="/estimator")


def takes_weights(estimator: Any, weights: Any) -> None:
    """Invalid where weights are given to an algorithm that takes none."""
    if weights is not None and not estimator.weighted:
        raise Invalid(
            f"{type(estimator).__name__} takes no weights",
            issues=(Issue("/weights", "not_supported", "leave the weights out"),),
        )


def arguments(estimator: Any, data: Prepared) -> tuple[Any, ...]:
    """X, y and the weights where there are any; Invalid."""
    takes_weights(estimator, data.weights)
    return (data.X, data.y) if data.weights is None else (data.X, data.y, data.weights)


def fit(estimator: Any, data: Prepared) -> None:
    """Fit on all rows, whose columns have the names that this encoding gives them."""
    with naming.use(data.encoder.named):
        estimator.fit(*arguments(estimator, data))


@dataclass(frozen=True)
class Snapshot:
    """A dataset as it was when the job began, read from the store of whichever host asks."""

    record: Json

    def get(self, dataset_id: str) -> Json:
        """The record."""
        return self.record

    def table(self, dataset_id: str) -> Any:
        """The table, mapped from disk; NotReady where this process was told of no store."""
        if Host.tables is None:
            raise NotReady("this process has no store of tables; build the services before folds are scored")
        return Host.tables(self.record["sha256"])


def validate(
    request: Json, datasets: Any, fitted: Any, data: Prepared, plan: list[Split], scored: Callable[[], None]
) -> Json | None:
    """Held-out scores averaged over folds, with each fold's; `scored` hears of each. None where nothing is held out.

    Rows that are left out one by one are scored together. An engine takes whole folds and reads the rows itself;
    without one, folds follow each other, each on all threads, so that one at a time is in memory.
    """
    if in_one_fit(request, data, fitted):
        return figures(_left_out(request, fitted, data))
    if not plan:
        return None
    if parallel.spreads():
        seen = Snapshot(datasets.get(request["dataset"]))
        found = parallel.spread_map(score_fold, range(len(plan)), (request, seen))
    else:
        found = (_in_turn(len(plan) - k, request, data, *split) for k, split in enumerate(plan))
    scores: list[Any] = []
    for one in found:
        scores.append(one)
        scored()
    if _single(request):
        return figures(reduce(Scores.merge, scores))
    return average(scores, [] if data.parts is None else labels(data.parts))


class _Told:
    """Its predictions of rows are the rows."""

    task = "regression"

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X


def _left_out(request: Json, fitted: Any, data: Prepared) -> Scores:
    """Scores of each row by a fit of all others: as the one fit tells, and by such a fit where it cannot."""
    found, n = fitted.left_out(*arguments(fitted, data)), len(data.X)
    unknown = np.isnan(found.reshape(n, -1)).any(axis=1) | alone(data)
    if unknown.sum() > MAX_REFITS:
        raise too_many(int(unknown.sum()))
    told, rows = ~unknown, np.arange(n)
    y, s = np.asarray(data.y), data.weights
    scores = [scores_of(_Told(), found[told], y[told], None if s is None else s[told])] if told.any() else []
    apart = np.flatnonzero(unknown)
    scores += [_in_turn(len(apart) - k, request, data, rows[rows != i], rows[[i]]) for k, i in enumerate(apart)]
    return reduce(Scores.merge, scores)


def average(scores: list[Json], folds: Sequence[Any] = ()) -> Json:
    """The mean of each figure over the folds, the number of rows scored, and the folds, with their names if any."""
    names = [k for k in scores[0] if k != "rows"]
    mean = {k: _mean([s.get(k) for s in scores]) for k in names}
    return {"rows": sum(s["rows"] for s in scores), **mean,
            "folds": [{"fold": f} | s for f, s in zip(folds, scores, strict=True)] if folds else scores}  # fmt: skip


def score_fold(number: int, request: Json, datasets: Snapshot) -> Any:
    """`score` of one fold from the stored table."""
    estimator = build_estimator(request)
    data = prepare(datasets, request, estimator)
    return score(request, data, *splits(request, data, estimator)[number])


def _in_turn(still: int, request: Json, data: Prepared, train: np.ndarray, test: np.ndarray) -> Any:
    """`score` in its part of the time, of `still` fits that are left."""
    with progress.share(still):
        return score(request, data, train, test)


def score(request: Json, data: Prepared, train: np.ndarray, test: np.ndarray) -> Any:
    """Fit encoding and estimator on the training rows alone; what only the test rows have is ignored or filled.

    The figures of the test rows, or of rows left out one by one what can be merged to figures of all.
    """
    fresh = build_estimator(request)
    encoder = fit_encoder(rows_of(data.inputs, train), data.encoding.held_out())
    part = subset(data, encoder, train)
    fit(fresh, part)
    held = subset(data, encoder, test)
    by = scores_of if _single(request) else metrics
    return by(fresh, held.X, held.y, held.weights)


def _single(request: Json) -> bool:
    return bool(plan_of(request)["method"] == "leave_one_out")


def _mean(values: list[Any]) -> float | None:
    return None if any(v is None for v in values) else float(np.mean(values))
