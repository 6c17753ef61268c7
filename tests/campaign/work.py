"""The clients of a campaign: they submit jobs until each is accepted once, and remember what they were promised."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np

RETRIED = {409, 429, 500, 502, 503, 507}
QUICK = ("beta_bernoulli", "quadratic_discriminant_analysis", "logistic_regression", "bayesian_linear_regression")


@dataclass
class Promise:
    """A job that a server accepted: what was asked, what it answered, whether it was asked to cancel."""

    key: str
    body: dict[str, Any]
    model: str
    job: str
    cancelled: bool = False


@dataclass
class Clients:
    """Threads that submit and cancel through any server; every answer of the service is counted."""

    urls: list[str]
    seed: int
    promises: list[Promise] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def call(
        self, rng: random.Random, method: str, path: str, seconds: float = 240.0, final: int = 200, **request: Any
    ) -> httpx.Response:
        """Repeat a request on any server until it is answered for good; `final` is such an answer."""
        deadline = time.monotonic() + seconds
        while True:
            url = rng.choice(self.urls)
            try:
                answer = httpx.request(method, url + path, timeout=10.0, **request)
                status = str(answer.status_code)
            except httpx.TransportError as error:
                answer, status = None, type(error).__name__
            with self._lock:
                self.answers[f"{method} {status}"] += 1
            if answer is not None and answer.status_code == 500:
                with self._lock:
                    self.wrong.append(f"{method} {path}: 500 {answer.text[:300]}")
            if answer is not None and (answer.status_code == final or answer.status_code not in RETRIED):
                return answer
            assert time.monotonic() < deadline, f"{method} {path}: nobody answered for {seconds:g} s; last {status}"
            time.sleep(0.05 + 0.2 * rng.random())

    def tables(self) -> dict[str, str]:
        """Store the tables that the jobs use; their ids."""
        rng, made = random.Random(self.seed), {}
        for name, text in (("flips", flips()), ("blobs", blobs(400)), ("wide", blobs(4000))):
            headers = {"Idempotency-Key": f"{self.seed}-{name}", "Content-Type": "text/csv"}
            send = {"params": {"name": name}, "content": text.encode(), "headers": headers}
            answer = self.call(rng, "POST", "/v1/datasets", **send)
            assert answer.status_code == 201, answer.text
            made[name] = answer.json()["id"]
        return made

    def submit(self, count: int, threads: int, tables: dict[str, str], spread: bool) -> None:
        """Submit `count` jobs from several threads and cancel some of them."""
        todo = iter(range(count))
        errors: list[BaseException] = []

        def one() -> None:
            try:
                while True:
                    with self._lock:
                        i = next(todo, None)
                    if i is None:
                        return
                    self._job(i, tables, spread)
            except BaseException as error:
                errors.append(error)

        workers = [threading.Thread(target=one) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if errors:
            raise errors[0]

    def _job(self, i: int, tables: dict[str, str], spread: bool) -> None:
        rng = random.Random(1000 * self.seed + i)
        body, key = self._body(rng, tables, spread), f"campaign-{self.seed}-{i}"
        send = {"json": body, "headers": {"Idempotency-Key": key, "Prefer": "respond-async"}}
        answer = self.call(rng, "POST", "/v1/models", **send)
        assert answer.status_code in (201, 202), f"{body}: {answer.status_code} {answer.text}"
        document = answer.json()
        promise = Promise(key, body, document["id"], document["job"])
        with self._lock:
            self.promises.append(promise)
        if rng.random() < 0.1:  # the same request again, through another server: the same model
            again = self.call(rng, "POST", "/v1/models", **send)
            if again.json().get("id") != promise.model:
                self.wrong.append(f"{key} made {promise.model} and then {again.text[:200]}")
        if rng.random() < 0.08:
            promise.cancelled = self.call(rng, "POST", f"/v1/jobs/{promise.job}/cancel", final=409).status_code == 202

    def _body(self, rng: random.Random, tables: dict[str, str], spread: bool) -> dict[str, Any]:
        kind = rng.choice(QUICK) if rng.random() < 0.85 else "random_forest_classifier"
        if kind == "beta_bernoulli":
            return {"estimator": {"algorithm": kind}, "dataset": tables["flips"], "seed": rng.randrange(9)}
        if kind == "bayesian_linear_regression":
            return {"estimator": {"algorithm": kind}, "dataset": tables["blobs"], "target": "x0"}
        if kind == "random_forest_classifier":
            params = {"n_estimators": rng.choice((20, 60))}
            return {"estimator": {"algorithm": kind, "params": params}, "dataset": tables["wide"], "target": "y",
                    **({"spread": True} if spread and rng.random() < 0.6 else {})}  # fmt: skip
        return {"estimator": {"algorithm": kind}, "dataset": tables["blobs"], "target": "y"}


def flips() -> str:
    """A CSV of coin flips."""
    rng = np.random.default_rng(3)
    rows = "\n".join(",".join(map(str, row)) for row in rng.integers(0, 2, (50, 3)))
    return f"a,b,c\n{rows}\n"


def blobs(rows: int) -> str:
    """A CSV of normal features and a class that depends on two of them."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(rows, 6))
    y = x[:, 0] * x[:, 1] + 0.5 * rng.normal(size=rows) > 0
    lines = [",".join([f"x{j}" for j in range(6)] + ["y"])]
    lines += [",".join([*(f"{v:.4f}" for v in row), "up" if up else "down"]) for row, up in zip(x, y, strict=True)]
    return "\n".join(lines) + "\n"
