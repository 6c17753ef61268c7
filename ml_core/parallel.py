"""How many threads a fit may use: a budget of the surroundings, never a parameter of the model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
_threads: ContextVar[int | None] = ContextVar("threads", default=None)


def threads() -> int:
    """The budget in force: what `use_threads` granted, else every core."""
    return _threads.get() or os.cpu_count() or 1


@contextmanager
def use_threads(n: int) -> Iterator[None]:
    """Grant n threads to the block."""
    token = _threads.set(max(1, n))
    try:
        yield
    finally:
        _threads.reset(token)


def ordered_map(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """`map` on the thread budget, results in order; progress ticks made inside reach the caller's listener."""
    todo = list(items)
    n = min(threads(), len(todo))
    if n <= 1:
        yield from map(function, todo)
        return
    pool = ThreadPoolExecutor(n)
    try:
        yield from [f.result() for f in [pool.submit(copy_context().run, function, x) for x in todo]]
    finally:
        pool.shutdown(cancel_futures=True)
