"""Memory is asked for before it is used."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ml_core.errors import OverBudget

SHARE = 0.8
_grant: ContextVar[float] = ContextVar("memory", default=float("inf"))


@contextmanager
def grant(most: float) -> Iterator[None]:
    """Inside the block no more than `most` bytes are granted."""
    token = _grant.set(min(most, _grant.get()))
    try:
        yield
    finally:
        _grant.reset(token)


def granted() -> float:
    """Bytes that a fit may use: the grant in force, the process's limit on data, 80 % of the machine's memory."""
    machine = SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS))
    return float(min([machine, _grant.get(), *(v for v in limits if v != resource.RLIM_INFINITY)]))


def ask(needed: float, what: str, advice: str) -> None:
    """OverBudget where `needed` bytes are more than is granted."""
    most = granted()
    if needed > most:
        raise OverBudget(f"{what} needs about {needed / 1e9:.1f} GB of {most / 1e9:.1f} GB; {advice}")
