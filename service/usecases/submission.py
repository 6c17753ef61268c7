"""Queueing the job that makes a resource, exactly once."""

from __future__ import annotations

from service.ports import Job, Ledger, NewJob


def once(ledger: Ledger, new: NewJob) -> Job:
    """The job that makes this resource: the one it already has, as after a repeated request, else this one, queued.

    It comes before the model's record, so that a full queue leaves no record behind.
    """
    return ledger.put(new, once=True)
