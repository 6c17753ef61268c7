"""Figures for Prometheus: this process's requests and cache; the whole service's queue, runners and ends of jobs."""

from __future__ import annotations

import threading
import time
from collections import Counter as Tally
from collections.abc import Iterator

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from starlette.responses import Response

from service.api.bodies import StrictRoute
from service.api.deps import Use
from service.api.metrics import MEDIA_TYPE, Histogram, exposition
from service.api.problems import document
from service.container import Services
from service.errors import NotReady

router = APIRouter(route_class=StrictRoute)
KEPT_SECONDS = 1.0
JOB_BOUNDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 1800.0, 3600.0, 14400.0)
LANES = ("instant", "long")
STATES = ("queued", "running")


class Engine:
    """Figures that the database knows, read at most once a second however many scrape."""

    def __init__(self, use: Services) -> None:
        self.use = use
        self.ends: Tally[tuple[str, str, str]] = Tally()
        self.run = {lane: Histogram(JOB_BOUNDS) for lane in LANES}
        self.wait = {lane: Histogram(JOB_BOUNDS) for lane in LANES}
        self._lock = threading.Lock()
        self._at = -KEPT_SECONDS
        self._families: list[Metric] = []

    def collect(self) -> Iterator[Metric]:
        """The metric families; NotReady while the database is away is told by `postfit_database_up`."""
        with self._lock:
            if time.monotonic() - self._at >= KEPT_SECONDS:
                try:
                    self._families = [*self._queue(), *self._runners(), *self._ended(), _up(1)]
                except NotReady:
                    self._families = [_up(0)]
                self._at = time.monotonic()
            yield from self._families

    def _queue(self) -> list[Metric]:
        jobs = GaugeMetricFamily("postfit_jobs", "Unfinished jobs.", labels=("state", "lane"))
        depth = GaugeMetricFamily("postfit_queue_depth", "Jobs that wait for a runner.", labels=("lane",))
        oldest = GaugeMetricFamily("postfit_queue_oldest_seconds", "Age of the oldest waiting job.", labels=("lane",))
        found = {(r["state"], r["lane"]): r for r in self.use.figures.unfinished()}
        for state in STATES:
            for lane in LANES:
                jobs.add_metric((state, lane), found.get((state, lane), {}).get("jobs", 0))
        for lane in LANES:
            waiting = found.get(("queued", lane), {})
            depth.add_metric((lane,), waiting.get("jobs", 0))
            oldest.add_metric((lane,), max(0.0, waiting.get("oldest_seconds", 0.0)))
        return [jobs, depth, oldest]

    def _runners(self) -> list[Metric]:
        alive = self.use.runners.alive()
        well = [r for r in alive if r.state == "well"]
        return [
            GaugeMetricFamily("postfit_runners", "Runners that reported within one lease.", value=len(alive)),
            GaugeMetricFamily("postfit_runners_unwell", "Those that cannot work now.", value=len(alive) - len(well)),
            GaugeMetricFamily("postfit_runner_slots", "Jobs that all well runners can work on at once.",
                              value=sum(r.slots for r in well)),
            GaugeMetricFamily("postfit_runner_busy", "Jobs that they work on.", value=sum(r.busy for r in well)),
        ]  # fmt: skip

    def _ended(self) -> list[Metric]:
        for job in self.use.figures.ended():
            self.ends[job["kind"], job["state"], job["code"]] += 1
            self.run[job["lane"]].add(job["run_seconds"])
            self.wait[job["lane"]].add(job["wait_seconds"])
        ends = CounterMetricFamily("postfit_jobs_ended", "Jobs that ended since this process's first scrape, by code of"
                                   " their error.", labels=("kind", "state", "code"))  # fmt: skip
        for labels, n in self.ends.items():
            ends.add_metric(labels, n)
        run = HistogramMetricFamily("postfit_job_run_seconds", "From the claim of the last attempt to the end.",
                                    labels=("lane",))  # fmt: skip
        wait = HistogramMetricFamily("postfit_job_wait_seconds", "From the submission to that claim.",
                                     labels=("lane",))  # fmt: skip
        for family, histograms in ((run, self.run), (wait, self.wait)):
            for lane, histogram in histograms.items():
                family.add_metric((lane,), histogram.buckets(), histogram.sum)
        return [ends, run, wait]


def _up(value: int) -> Metric:
    return GaugeMetricFamily("postfit_database_up", "Whether the database answers this process.", value=value)


def _memory(use: Services) -> Iterator[Metric]:
    memory = use.inference.memory
    yield CounterMetricFamily("postfit_model_cache_hits", "Models found in memory.", value=memory.hits)
    yield CounterMetricFamily("postfit_model_cache_misses", "Models loaded from the store.", value=memory.misses)
    yield GaugeMetricFamily("postfit_models_in_memory", "Models in memory now.", value=len(memory))


@router.get("/metrics", operation_id="metrics", tags=["Operations"], summary="Figures for Prometheus",
            response_class=Response, responses={200: {"content": {"text/plain": {}}}, **document()})  # fmt: skip
async def metrics(request: Request, use: Use) -> Response:
    """Prometheus text: requests, latencies, queue, runners, ends of jobs, models in memory, the process.

    Requests and models in memory are this process's; jobs and runners are the whole service's and equal on every server
    (take their `max`). Where keys are required a scraper needs one.
    """
    state = request.app.state
    sources = (state.requests.collect, state.engine.collect, lambda: _memory(use))
    return Response(await run_in_threadpool(exposition, *sources), media_type=MEDIA_TYPE)
