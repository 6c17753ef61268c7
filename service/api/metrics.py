"""Figures for Prometheus. A request costs one dictionary entry and one bucket; the rest is done by the scrape."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from starlette.types import Scope

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
UNKNOWN = "(none)"


class Histogram:
    """Counts of values up to each bound, and their sum."""

    def __init__(self, bounds: tuple[float, ...] = BOUNDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by upper bound, as Prometheus wants them."""
        out, total = [], 0
        for bound, n in zip((*map(str, self.bounds), "+Inf"), list(self.counts), strict=True):
            total += n
            out.append((bound, float(total)))
        return out


class Requests:
    """What this process answered, by route template, method and status."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.counts: Tally[tuple[str, str, int]] = Tally()
        self.seconds: dict[str, Histogram] = {}

    def record(self, scope: Scope, status: int, seconds: float) -> None:
        """Count an answered request; called on the event loop only."""
        route = getattr(scope.get("route"), "path", UNKNOWN)
        method = scope["method"] if scope["method"] in METHODS else "OTHER"
        self.counts[route, method, status] += 1
        found = self.seconds.get(route)
        if found is None:
            found = self.seconds[route] = Histogram()
        found.add(seconds)

    def collect(self) -> Iterator[Metric]:
        """The metric families."""
        total = CounterMetricFamily("postfit_http_requests", "Requests answered by this process.",
                                    labels=("route", "method", "status"))  # fmt: skip
        for (route, method, status), n in list(self.counts.items()):
            total.add_metric((route, method, str(status)), n)
        yield total
        spent = HistogramMetricFamily("postfit_http_request_seconds", "From the request to the end of its answer.",
                                      labels=("route",))  # fmt: skip
        for route, histogram in list(self.seconds.items()):
            spent.add_metric((route,), histogram.buckets(), histogram.sum)
        yield spent
        yield GaugeMetricFamily("postfit_http_requests_in_flight", "Requests under way now.", value=self.in_flight)


def exposition(*sources: Callable[[], Iterator[Metric]]) -> bytes:
    """The text of all sources and of the process itself."""
    collectors = CollectorRegistry(auto_describe=False)
    ProcessCollector("", lambda: "self", "/proc", collectors)
    PlatformCollector(collectors)
    for source in sources:
        collectors.register(_Source(source))
    return generate_latest(collectors)


class _Source:
    """A function as a collector."""

    def __init__(self, collect: Callable[[], Iterator[Metric]]) -> None:
        self._collect = collect

    def describe(self) -> Any:
        """Nothing: names are unique by construction."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The families."""
        return self._collect()
