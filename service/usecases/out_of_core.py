"""Fits of tables larger than the memory that a job may use: whether, how, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass

from ml_core import progress
from ml_core.base import Estimator
from ml_core.certificates import Diagnostics, Notice
from ml_core.metrics.chunked import Scores, scores_chunks
from ml_core.registry import algorithms
from ml_core.sums import chunkable, diagnose_chunks
from service.errors import Invalid, Issue, TooLarge
from service.ports import Json, Limits, Report
from service.usecases.chunked import DatasetChunks, chunk_rows

BASE_MEMORY = 256 << 20
READ_BYTES = 40.0
"""Bytes per cell while a chunk is read: its columns, the matrix they are put together to, and its scaled copy."""


@dataclass(frozen=True)
class Shape:
    """Rows, encoded columns, and classes or outputs of a fit; rows of the table that they are chosen from."""

    rows: int
    width: int
    classes: int
    in_table: int


@dataclass(frozen=True)
class Plan:
    """How a fit goes through its rows: rows per chunk, chunks, threads that read at once, and the memory it takes."""

    rows: int
    count: int
    threads: int
    memory_bytes: int


def memory_of(estimator: Estimator, shape: Shape) -> int:
    """Estimated bytes of a fit with all rows in memory."""
    held = estimator.cost(shape.rows, shape.width, shape.classes).memory_bytes
    return int(beside(shape.rows, shape.width) + held)


def beside(rows: int, width: int) -> float:
    """Bytes of the process and the table, which a fit leaves alone."""
    return BASE_MEMORY + 24.0 * rows * width


def plan(estimator: Estimator, shape: Shape, limits: Limits, request: Json) -> Plan | None:
    """How to fit in chunks; None where the rows fit in memory. TooLarge or Invalid where neither is possible.

    A fit over several machines goes in chunks as soon as there are two, wherever it can.
    """
    needed = memory_of(estimator, shape)
    refused = _refusal(estimator, request, needed, limits)
    found = _chunks(estimator, shape, limits)
    if needed <= limits.memory_bytes:
        spreads = request.get("spread") and refused is None and found.count > 1
        return found if spreads and found.memory_bytes <= limits.memory_bytes else None
    if refused is not None:
        raise refused
    if found.memory_bytes > limits.memory_bytes:
        raise _too_large(found.memory_bytes, limits, "raise the limit: this is the fit in chunks already")
    return found


def _chunks(estimator: Estimator, shape: Shape, limits: Limits) -> Plan:
    size = min(chunk_rows(shape.width), shape.in_table)
    each = READ_BYTES * size * shape.width + estimator.cost(size, shape.width, shape.classes).memory_bytes
    threads = max(1, min(limits.cores, int((limits.memory_bytes - BASE_MEMORY) // each)))
    return Plan(size, -(-shape.in_table // size), threads, int(BASE_MEMORY + threads * each))


def _refusal(estimator: Estimator, request: Json, needed: int, limits: Limits) -> Exception | None:
    """Why a fit that does not fit in memory cannot go in chunks either."""
    if not chunkable(estimator):
        able = sorted(name for name, a in algorithms().items() if a.cls.task == estimator.task and chunkable(a.cls))
        instead = f", or choose an algorithm that learns from chunks: {', '.join(able)}" if able else ""
        whole = getattr(estimator, "approximation", "") == "none"
        smaller = ", set approximation to nystroem or auto" if whole else ""
        return _too_large(needed, limits, f"raise the limit{smaller}, take fewer rows{instead}")
    if (request.get("validation") or {}).get("method", "none") not in ("none", "split_column"):
        advice = ("hold rows out by a split column, leave validation out and score the model on a dataset of its own, "
                  "or raise limits.memory_bytes")  # fmt: skip
        return Invalid(
            f"rows are drawn to be held out of fits in memory only; this one is estimated to need {needed} bytes and "
            f"its limit is {limits.memory_bytes}: {advice}",
            issues=(Issue("/validation/method", "not_in_chunks", advice),),
        )
    return None


def _too_large(needed: int, limits: Limits, advice: str) -> TooLarge:
    return TooLarge(f"the fit is estimated to need {needed} bytes and its limit is {limits.memory_bytes}; {advice}",
                    issues=(Issue("/limits/memory_bytes", "over_budget", advice),))  # fmt: skip


def certify(estimator: Estimator, chunks: DatasetChunks) -> tuple[Diagnostics, Scores]:
    """Diagnostics and training scores, each in passes over all rows; what they leave out is said."""
    out = diagnose_chunks(estimator, chunks)
    out.warnings.append(Notice(
        "fitted_in_chunks",
        f"learned from {chunks.source.selected} rows in {len(chunks)} chunks of {chunks.source.size}, for together "
        "they would not fit in the memory granted; the digits are those that the algorithm's page states, and "
        "diagnostics that need all rows at once (figures row by row, ranks of rows) are left out",
        "raise limits.memory_bytes for a fit in memory",
    ))  # fmt: skip
    return out, scores_chunks(estimator, chunks)


class Passes:
    """Progress of a number of passes over the chunks that nobody knows before: each takes half of what is left.

    Between passes an iterative fit says how many iterations it has made; the chunks of the next pass repeat it.
    """

    def __init__(self, report: Report) -> None:
        self.report = report
        self.done = 0
        self.last = 0
        self.fraction = 0.0
        self.between: progress.Tick | None = None

    def tell(self, t: progress.Tick) -> None:
        """Report a chunk that was read, or an iteration that ended; what else loops in a chunk is not passed on."""
        if t.unit == "iterations":
            self.between = t
            self._say(t, _counted(t))
        elif t.unit == "chunks" and t.total:
            if t.step <= self.last:
                self.done += 1
            self.last = t.step
            left = 0.5**self.done
            self.fraction = 1.0 - left + 0.5 * left * t.step / t.total
            after = f", after {_counted(self.between)}" if self.between else ""
            self._say(t, f"pass {self.done + 1}, chunk {t.step} of {t.total}{after}")

    def _say(self, t: progress.Tick, message: str) -> None:
        metrics = t.metrics or (self.between.metrics if self.between else {})
        self.report.progress({"fraction": self.fraction, "step": t.step, "total": t.total, "unit": t.unit,
                              "message": message, "metrics": metrics})  # fmt: skip


def _counted(t: progress.Tick) -> str:
    return f"{t.step} of at most {t.total} iterations" if t.total else f"{t.step} iterations"
