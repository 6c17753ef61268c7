"""What a fit may use, threads here or an engine elsewhere: decided by the surroundings, never by the model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from threading import Condition
from typing import Any, Generic, Protocol, TypeVar, cast

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


def row_ranges(n: int, width: int, *, square: bool = True) -> list[slice]:
    """Ranges of about `CELLS` cells that cover n rows of `width` cells: whatever the threads, so that bits are.

    With results of width² numbers (`square`) they hold 8 rows per column at least, so that adding results costs little.
    """
    rows = max(CELLS // max(width, 1), 8 * width if square else 1, 1)
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

    with ThreadPoolExecutor(n - 1) as pool:
        yield from _helped(pool, n, piece, len(todo), AHEAD * n)


def _helped(pool: ThreadPoolExecutor, n: int, work: Callable[[int], R], total: int, room: int) -> Iterator[R]:
    """work(0) … work(total - 1) by the caller and n - 1 threads of the pool."""
    shared = _Shared(work, total, room)
    try:
        for _ in range(min(n, total) - 1):
            pool.submit(shared.help)
        yield from map(shared.result, range(total))
    finally:
        shared.stop()


class _Shared(Generic[R]):
    """Pieces 0 … total - 1 that the caller and its helpers take in order, at most `room` beyond what was asked for.

    The caller works too: on as many cores as there are threads nobody has to be woken to hand out the next piece.
    """

    def __init__(self, work: Callable[[int], R], total: int, room: int) -> None:
        self.work, self.total, self.room = work, total, room
        self.taken, self.asked = 0, 0
        self.done: dict[int, tuple[R, None] | tuple[None, BaseException]] = {}
        self.changed = Condition()
        self.context = copy_context()

    def help(self) -> None:
        """What a helper does until all pieces are taken."""
        while True:
            with self.changed:
                while (i := self._take()) is None and self.taken < self.total:
                    self.changed.wait()
            if i is None:
                return
            self._run(i)

    def result(self, k: int) -> R:
        """Of piece k, the caller's next; takes pieces itself until it is there."""
        self.asked = k
        while True:
            with self.changed:
                self.changed.notify_all()
                while k not in self.done and (i := self._take()) is None:
                    self.changed.wait()
                if k in self.done:
                    value, error = self.done.pop(k)
                    break
            self._run(cast(int, i))
        if error is not None:
            raise error
        return cast(R, value)

    def stop(self) -> None:
        """Nobody takes another piece."""
        with self.changed:
            self.total = self.taken
            self.changed.notify_all()

    def _take(self) -> int | None:
        if self.taken >= min(self.total, self.asked + self.room):
            return None
        self.taken += 1
        return self.taken - 1

    def _run(self, i: int) -> None:
        outcome: tuple[R, None] | tuple[None, BaseException]
        try:
            outcome = self.context.copy().run(self.work, i), None
        except BaseException as e:
            outcome = None, e
        with self.changed:
            self.done[i] = outcome
            self.changed.notify_all()


@contextmanager
def team(worth: bool = True) -> Iterator[Callable[[Callable[[T], R], Sequence[T]], list[R]]]:
    """Gives `each(function, items)`, which runs the items on threads kept for the block and waits for all of them.

    Without `worth`, work too small to share, they run here.
    """
    n = threads() if worth else 1
    if n <= 1:
        yield lambda function, items: list(map(function, items))
        return
    with ThreadPoolExecutor(n - 1) as pool:
        yield lambda function, items: list(_helped(pool, n, lambda i: function(items[i]), len(items), len(items)))


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
