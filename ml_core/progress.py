"""The hook that every iterative loop calls, and the time it may take: context variables, nothing is passed down."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import RLock


@dataclass(frozen=True)
class Tick:
    """Where a loop is: `step` of at most `total` `unit`s, and the figures worth watching."""

    step: int
    total: int | None
    unit: str = "iterations"
    metrics: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.step}{f' of {self.total}' if self.total else ''} {self.unit}"


Sink = Callable[[Tick], None]


class _Listener:
    """A sink that hears one tick at a time, whichever threads tell it, and what it heard last."""

    def __init__(self, sink: Sink) -> None:
        self.sink, self.last, self.lock = sink, Tick(0, None), RLock()

    def hear(self, t: Tick | None) -> None:
        with self.lock:
            self.last = t or self.last
            self.sink(self.last)


_listener: ContextVar[_Listener | None] = ContextVar("progress", default=None)
_until: ContextVar[float | None] = ContextVar("deadline", default=None)
_last: ContextVar[Tick | None] = ContextVar("last tick", default=None)
_cut: ContextVar[list[Tick | None] | None] = ContextVar("cut short", default=None)


def tick(step: int, total: int | None = None, unit: str = "iterations", **metrics: float) -> None:
    """Tell where the loop is. The listener may raise `Cancelled`; solvers let it pass."""
    listener = _listener.get()
    if listener is not None:
        listener.hear(Tick(step, total, unit, metrics))
    if _until.get() is not None:
        _last.set(Tick(step, total, unit))


def pulse() -> None:
    """Repeat the last tick: a long step that has nothing new to tell can be cancelled within."""
    listener = _listener.get()
    if listener is not None:
        listener.hear(None)


@contextmanager
def listen(sink: Sink) -> Iterator[None]:
    """Send the ticks of everything inside the block to `sink` (threads started inside must copy the context)."""
    token = _listener.set(_Listener(sink))
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Ask the loops of the block to give their best answer so far after `seconds`, or at an outer deadline before.

    Every loop makes its first step whatever the time; what is no loop, or cannot stop, takes as long as it does. None
    sets no deadline of its own. An answer that time ended depends on the speed of the machine.
    """
    outer = _until.get()
    ends = [t for t in (outer, None if seconds is None else time.monotonic() + seconds) if t is not None]
    token = _until.set(min(ends, default=None))
    try:
        yield
    finally:
        _until.reset(token)


def left() -> float | None:
    """Seconds until the deadline in force, 0 after it; None where there is none."""
    until = _until.get()
    return None if until is None else max(0.0, until - time.monotonic())


@contextmanager
def share(pieces: float) -> Iterator[None]:
    """Give the block its part of the time that is left, of so many equal pieces that begin now."""
    seconds = left()
    with deadline(None if seconds is None else seconds / pieces):
        yield


def late() -> bool:
    """Whether time is over: asked by a loop that then ends, which `cut_short` tells."""
    until = _until.get()
    if until is None or time.monotonic() < until:
        return False
    heard([_last.get()])
    return True


@contextmanager
def cut_short() -> Iterator[list[Tick | None]]:
    """The loops of the block that time ended, by their last ticks; blocks around this one hear of them too."""
    inner: list[Tick | None] = []
    token = _cut.set(inner)
    try:
        yield inner
    finally:
        _cut.reset(token)
        heard(inner)


def heard(cut: Iterable[Tick | None]) -> None:
    """Take in the loops that time ended elsewhere."""
    inner = _cut.get()
    if inner is not None:
        inner.extend(cut)


def was_cut() -> bool:
    """Whether time has ended a loop of the innermost `cut_short` block."""
    return bool(_cut.get())
