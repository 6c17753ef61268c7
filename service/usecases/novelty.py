"""How far rows lie from the rows a model learned from, column by column and as a whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from ml_core.metrics.two_sample import TwoSample, fisher_exact, holm, homogeneity, kolmogorov_smirnov
from ml_core.preprocessing.reference import Levels, Reference, Sketch, as_type, level_counts
from ml_core.preprocessing.table import Column, Table
from service.errors import Conflict
from service.ports import Json

LEVEL = 0.05
MAX_LEVELS_SHOWN = 20
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNITS = {"date": timedelta(days=1), "datetime": timedelta(seconds=1)}


def novelty(
    model_id: str,
    reference: Reference | None,
    table: Table,
    unreadable: Mapping[str, int],
    dropped: Collection[str] = (),
) -> Json:
    """The report on the rows of a table, in which `unreadable` cells of each column count as empty; Conflict.

    A column is tested when two cells or more can be compared; of one row each cell's place among the training cells is
    told instead. All p-values together are adjusted by Holm's method. Of columns whose empty cells `dropped` their rows
    from training, the share of empty cells there is not known.
    """
    if reference is None:
        raise Conflict(
            f"model {model_id} was stored without a summary of its training rows, as models were before novelty came; "
            "fit it again (its request is in GET /v1/models/{id}) and ask the new version, or leave novelty out"
        )
    columns = [
        _column(name, kind, known, as_type(kind, table[name]), unreadable.get(name, 0), name in dropped)
        for name, kind, known in zip(reference.names, reference.types, reference.columns, strict=True)
    ]
    rows = len(table[reference.names[0]].values)
    return {"rows": rows, "training_rows": reference.rows, "overall": _overall(columns, rows), "columns": columns}


def _column(name: str, kind: str, known: Sketch | Levels, column: Column, unreadable: int, dropped: bool) -> Json:
    rows = len(column.values) - unreadable
    gaps = int(column.missing.sum()) - unreadable
    told = _levels(known, column) if isinstance(known, Levels) else _numbers(known, column)
    if len(column.values) == 1:
        told |= {"test": None, "position": None if gaps or unreadable else _position(known, column)}
    missing = _missing(known, gaps, rows)
    if dropped:
        missing |= {"training_share": None, "test": None}
    return {"name": name, "type": kind, "unreadable": unreadable, "missing": missing, **told}


def _missing(known: Sketch | Levels, gaps: int, rows: int) -> Json:
    """Empty cells here and in training, and whether their shares differ (Fisher)."""
    trained = known.rows + known.missing
    testable = rows > 1 and trained > 1 and 0 < gaps + known.missing < rows + trained
    return {
        "count": gaps, "share": _share(gaps, rows), "training_share": _share(known.missing, trained),
        "test": _told(fisher_exact(gaps, rows, known.missing, trained)) if testable else None,
    }  # fmt: skip


def _numbers(known: Sketch, column: Column) -> Json:
    values = column.values[~column.missing]
    low, high = known.range or (np.inf, -np.inf)
    below, above = int((values < low).sum()), int((values > high).sum())
    testable = len(values) > 1 and known.rows > 1
    test = kolmogorov_smirnov(known.largest_gap(values), len(values), known.rows) if testable else None
    return {
        "range": {"training": None if known.range is None else [_cell(column.type, v) for v in known.range],
                  "below": below, "above": above, "share": _share(below + above, len(values))},
        "test": None if test is None else _told(test) | {"error_bound": known.error_bound},
    }  # fmt: skip


def _levels(known: Levels, column: Column) -> Json:
    found, gaps = level_counts(column)
    place = {level: i for i, level in enumerate(known.levels)}
    new = {level: k for level, k in found.items() if level not in place}
    unseen = 0 if known.others else sum(new.values())
    counts = np.array([*(found.get(level, 0) for level in known.levels), *([sum(new.values())] if known.others else
                       new.values())], dtype=np.int64)  # fmt: skip
    trained = np.zeros(len(counts), dtype=np.int64)
    trained[: len(known.counts)] = known.counts
    if known.others:
        trained[-1] = known.others
    present = len(column.values) - gaps
    test = homogeneity(counts, trained) if present > 1 else None
    most = sorted(new.items(), key=lambda item: (-item[1], item[0]))[:MAX_LEVELS_SHOWN]
    return {
        "unseen": {"count": unseen, "share": _share(unseen, present), "distinct": 0 if known.others else len(new),
                   "levels": [] if known.others else [{"level": level, "count": k} for level, k in most]},
        "test": None if test is None else _told(test),
    }  # fmt: skip


def _position(known: Sketch | Levels, column: Column) -> Json:
    """Where one cell lies: shares of the training cells, as intervals where the sketch leaves them open."""
    if isinstance(known, Levels):
        level = next(iter(level_counts(column)[0]))
        at = known.levels.index(level) if level in known.levels else None
        return {"training_share": None if at is None and known.others else
                _share(0 if at is None else int(known.counts[at]), known.rows)}  # fmt: skip
    return {
        "below": [_share(float(v[0]), known.rows) for v in known.below(column.values)],
        "up_to": [_share(float(v[0]), known.rows) for v in known.upto(column.values)],
    }


def _overall(columns: list[Json], rows: int) -> Json:
    """Holm over all tests, whose adjusted p-values are put beside the plain ones."""
    asked = [(c["name"], test) for c in columns for test in (c["test"], c["missing"]["test"]) if test is not None]
    adjusted = holm(np.array([test["p_value"] for _, test in asked])) if asked else np.zeros(0)
    for (_, test), p in zip(asked, adjusted.tolist(), strict=True):
        test["p_adjusted"] = p
    differ = list(dict.fromkeys(name for name, test in asked if test["p_adjusted"] <= LEVEL))
    return {
        "method": "holm", "level": LEVEL, "tests": len(asked), "differ": differ,
        "smallest_p_adjusted": float(adjusted.min()) if len(adjusted) else None,
        "statement": _statement(len(asked), len(differ), rows),
    }  # fmt: skip


def _statement(tests: int, differ: int, rows: int) -> str:
    if not tests:
        return "One row cannot be tested; see each column's position." if rows == 1 else "No column could be tested."
    chance = (
        f"if these were independent draws of the training distribution, any column would be named here with "
        f"probability at most {LEVEL:g} ({tests} tests, Holm)"
    )
    if not differ:
        return f"No column differs detectably from the training rows; {chance}."
    return f"{differ} column{'s differ' if differ > 1 else ' differs'} from the training rows; {chance}."


def _told(test: TwoSample) -> Json:
    return {"name": test.name, "statistic": test.statistic, "p_value": test.p_value, "p_adjusted": None,
            "method": test.method}  # fmt: skip


def _share(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def _cell(kind: str, value: float) -> Any:
    """A training value as it stands in a table: ISO text for moments."""
    if kind not in UNITS:
        return int(value) if kind == "integer" else value
    try:
        moment = EPOCH + value * UNITS[kind]
    except OverflowError:
        return value
    return moment.date().isoformat() if kind == "date" else moment.isoformat().replace("+00:00", "Z")
