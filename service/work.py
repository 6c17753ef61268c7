"""What a worker does for each kind of job. A new kind is one entry in `KINDS`."""

from __future__ import annotations

from collections.abc import Callable

from service.container import Services, build
from service.ports import Job, Json, Report
from service.settings import Settings

KINDS: dict[str, Callable[[Services, Job, Report], Json]] = {
    "fit": lambda services, job, report: services.training.run(job, report),
    "update": lambda services, job, report: services.updates.run(job, report),
    "sweep": lambda services, job, report: services.housekeeping.run(job, report),
    "forget": lambda services, job, report: services.updates.run(job, report),
}


def run(settings: Settings, job: Job, report: Report) -> Json:
    """Do the job with this process's own services; its return value becomes the job's result."""
    return KINDS[job.kind](build(settings), job, report)
