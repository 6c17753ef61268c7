"""The hook that every iterative loop calls. A context variable: nothing is passed down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Tick:
    """Where a loop is: `step` of at most `total` `unit`s, and the figures worth watching."""

    step: int
    total: int | None
    unit: str = "iterations"
    metrics: dict[str, float] = field(default_factory=dict)


Sink = Callable[[Tick], None]
_sink: ContextVar[Sink | None] = ContextVar("progress", default=None)


def tick(step: int, total: int | None = None, unit: str = "iterations", **metrics: float) -> None:
    """Tell where the loop is. The listener may raise `Cancelled`; solvers let it pass."""
    sink = _sink.get()
    if sink is not None:
        sink(Tick(step, total, unit, metrics))


@contextmanager
def listen(sink: Sink) -> Iterator[None]:
    """Send the ticks of everything inside the block to `sink` (threads started inside must copy the context)."""
    token = _sink.set(sink)
    try:
        yield
    finally:
        _sink.reset(token)
