"""The hook that every iterative loop calls. A context variable: nothing is passed down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


def tick(step: int, total: int | None = None, unit: str = "iterations", **metrics: float) -> None:
    """Tell where the loop is. The listener may raise `Cancelled`; solvers let it pass."""
    listener = _listener.get()
    if listener is not None:
        listener.hear(Tick(step, total, unit, metrics))


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
