"""What a fit may use, threads here or an engine elsewhere: decided by the surroundings, never by the model."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, Protocol, TypeVar

from ml_core import progress

T = TypeVar("T")
R = TypeVar("R")
AHEAD = 2
CELLS = 1 << 19


class Mapper(Protocol):
    """An engine that takes independent pieces of a fit elsewhere."""

    def __call__(self, function: Callable[..., R], items: Sequence[Any], shared: tuple[Any, ...]) -> Iterator[R]:
        """`function(item, *shared)` for every item, in order. `shared` arrays travel by reference."""


_mapper: ContextVar[Mapper | None] = ContextVar("mapper", default=None)
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


def row_ranges(n: int, width: int) -> list[slice]:
    """Ranges of about `CELLS` cells that cover n rows of `width` cells: whatever the threads, so that bits are.

    With results of width² numbers they hold 8 rows per column at least, so that adding results costs little.
    """
    rows = max(CELLS // width, 8 * width, 1)
    return [slice(i, min(n, i + rows)) for i in range(0, n, rows)]


def ordered_map(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """`map` on the thread budget, results in order; progress ticks made inside reach the caller's listener.

    At most `AHEAD` results per thread wait for the caller, so that a sum over many pieces holds few of them. Pieces
    that run side by side share the budget, and all of them the time until the deadline.
    """
    todo = list(items)
    n = min(threads(), len(todo))
    if n <= 1 and progress.left() is None:
        yield from map(function, todo)
        return
    own = threads() // max(n, 1)

    def piece(i: int) -> R:
        with use_threads(own), progress.share(max(1.0, (len(todo) - i) / n)):
            return function(todo[i])

    if n <= 1:
        yield from map(piece, range(len(todo)))
        return

    pool = ThreadPoolExecutor(n)
    try:
        waiting: deque[Future[R]] = deque()
        for i in range(len(todo)):
            waiting.append(pool.submit(copy_context().run, piece, i))
            if len(waiting) >= AHEAD * n:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def team(worth: bool = True) -> Iterator[Callable[[Callable[[T], R], Sequence[T]], list[R]]]:
    """Gives `each(function, items)`, which runs the items on threads kept for the block and waits for all of them.

    Without `worth`, work too small to share, they run here.
    """
    n = threads() if worth else 1
    if n <= 1:
        yield lambda function, items: list(map(function, items))
        return
    with ThreadPoolExecutor(n) as pool:
        yield lambda function, items: list(pool.map(function, items))


@contextmanager
def use_mapper(mapper: Mapper | None) -> Iterator[None]:
    """Let the engine take the `spread_map` calls of the block."""
    token = _mapper.set(mapper)
    try:
        yield
    finally:
        _mapper.reset(token)


def spreads() -> bool:
    """Whether an engine takes the `spread_map` calls made here."""
    return _mapper.get() is not None


def spread_map(function: Callable[..., R], items: Sequence[Any], shared: tuple[Any, ...] = ()) -> Iterator[R]:
    """`function(item, *shared)` for every item, in order: on the engine in force, else on the thread budget.

    `function` must be importable by name and pure, and the answer of an item must not depend on who computes it, so
    that a spread fit has the bits of a local one. Worth it for pieces of a tenth of a second and more.
    """
    mapper = _mapper.get()
    if mapper is not None:
        yield from mapper(function, list(items), shared)
        return
    yield from ordered_map(lambda item: function(item, *shared), items)
