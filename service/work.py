"""What a worker does for each kind of job. A new kind is one entry in `KINDS`."""

from __future__ import annotations

from collections.abc import Callable

from service.container import Services, build
from service.ports import Job, Json, Report
from service.settings import Settings

KINDS: dict[str, Callable[[Services, Job, Report], Json]] = {
    "fit": lambda services, job, report: services.training.run(job, report),
    "update": lambda services, job, report: services.updates.run(job, report),
    "predict": lambda services, job, report: services.bulk.run(job, report),
    "sweep": lambda services, job, report: services.housekeeping.run(job, report),
    "forget": lambda services, job, report: services.updates.run(job, report),
}


class Worker:
    """One worker process: its services are built once and serve all its jobs."""

    def __init__(self, settings: Settings) -> None:
        self._services = build(settings)

    def run(self, job: Job, report: Report) -> Json:
        """Do the job; the return value becomes its result."""
        return KINDS[job.kind](self._services, job, report)

    def rest(self) -> None:
        """Nothing to do for a while: hold no connection to the database."""
        self._services.db.engine.dispose()


def run(settings: Settings, job: Job, report: Report) -> Json:
    """Do one job with services of its own."""
    return Worker(settings).run(job, report)
