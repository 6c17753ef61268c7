"""Compiled loops over bytes of text: where a record begins, and cells put together as Arrow wants them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ml_core.numerics.jit import compiled, read_only
from service.intake.kernels import DOUBLED, LF, MISSING, QUOTE, Bytes


@compiled(lambda: (*read_only(np.frombuffer(b"a\n", np.uint8)), 0))
def boundary(data: Bytes, inside: int) -> int:
    """Where the first record begins after a line feed outside quotes; the size when none does."""
    for at in range(data.size):
        if data[at] == QUOTE:
            inside = 1 - inside
        elif data[at] == LF and not inside:
            return at + 1
    return data.size


def _gathered() -> tuple[Any, ...]:
    return (
        *read_only(np.frombuffer(b"ab", np.uint8)),
        np.array([[0, 2]], np.int32), np.ones(1, np.uint8), np.zeros(2, np.int32), np.zeros(2, np.uint8),
    )  # fmt: skip


@compiled(_gathered)
def gather(data: Bytes, places: Any, marks: Bytes, offsets: Any, out: Bytes) -> None:
    """The bytes of the cells one after the other, doubled quotes made single; offsets (n + 1,) as Arrow has them."""
    to = 0
    for row in range(marks.size):
        if marks[row] != MISSING:
            at, end = places[row, 0], places[row, 1]
            while at < end:
                out[to] = data[at]
                at += 2 if data[at] == QUOTE and marks[row] == DOUBLED else 1
                to += 1
        offsets[row + 1] = to


def _texts() -> tuple[Any, ...]:
    return *read_only(np.frombuffer(b"ab", np.uint8), np.array([0, 1, 2])), 2, np.zeros(2, np.uint8)


@compiled(_texts)
def bucket(data: Bytes, offsets: Any, parts: int, out: Bytes) -> None:
    """A part from 0 for each text data[offsets[i]:offsets[i + 1]], by its FNV-1a hash; equal texts share one."""
    for row in range(out.size):
        code = np.uint64(14695981039346656037)
        for at in range(offsets[row], offsets[row + 1]):
            code = (code ^ np.uint64(data[at])) * np.uint64(1099511628211)
        out[row] = (code ^ (code >> np.uint64(32))) % np.uint64(parts)
