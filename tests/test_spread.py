"""One fit over a real Dask cluster: the same bits, and what happens when parts of it die."""

from __future__ import annotations

import pickle
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from distributed import Client

from ml_core.cluster.k_means import KMeans
from ml_core.ensemble.random_forest import RandomForestClassifier
from ml_core.errors import Incompatible, InvalidData, Issue, MLError
from ml_core.parallel import spread_map, use_mapper
from service.adapters import dask_spread, spread_payload
from service.adapters.dask_spread import DaskSpread
from service.adapters.objects import LocalObjects
from service.container import build
from service.errors import EngineLost, EngineMismatch, ServiceError
from service.ports import Job, Limits, Report
from service.runner.child import verdict_of
from service.settings import Settings
from tests import spread_work
from tests.dask_cluster import Cluster, running
from tests.faults.bench import eventually

SILENT = Report(lambda progress: None, 1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Cluster:
    folder = tmp_path_factory.mktemp("dask")
    with running(folder, Settings(data=folder / "data")) as made:
        yield made


def settings_of(cluster: Cluster, **changes: Any) -> Settings:
    return cluster.settings.model_copy(update={"dask": cluster.address, "engine_wait_seconds": 30.0, **changes})


def spread_of(settings: Settings) -> DaskSpread:
    return DaskSpread(settings, LocalObjects(settings.data / "objects"))


def job(number: int = 1, **changes: Any) -> Job:
    plain = Job(f"job_{number}", "fit", "mdl_1", {}, "long", Limits(100.0, 1 << 30, 1), 0, "running", 1,
                datetime.now(UTC), spread=True)  # fmt: skip
    return replace(plain, **changes)


def kept(settings: Settings) -> list[str]:
    return list(LocalObjects(settings.data / "objects").keys("spread/"))


def test_answers_keep_their_order_and_large_arrays_travel_by_reference(cluster, monkeypatch):
    sent = []
    submit = Client.submit

    def weigh(self, function, packet, group, *rest, **more):
        sent.append(len(packet) if isinstance(packet, bytes) else 0)
        return submit(self, function, packet, group, *rest, **more)

    monkeypatch.setattr(Client, "submit", weigh)
    settings = settings_of(cluster)
    a, b = np.arange(1e6), np.ones(3)
    with spread_of(settings).session(job(), SILENT) as engine:
        found = list(engine.mapper(spread_work.total, range(40), (a, b)))
        assert len(kept(settings)) == 1
    assert found == [(i, float(a[i:].sum() + 3.0), False) for i in range(40)]
    assert max(sent) < 1000
    assert kept(settings) == []


def test_a_forest_and_restarts_have_the_bits_of_a_local_fit(cluster, monkeypatch):
    monkeypatch.setattr("ml_core.solvers.k_means_search.SPREAD_WORK", 0.0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    y = X[:, 0] * X[:, 1] > 0
    forest = RandomForestClassifier(n_estimators=15)
    here, means = RandomForestClassifier(n_estimators=15).fit(X, y), KMeans(n_clusters=3, n_init=4).fit(X)
    with spread_of(settings_of(cluster)).session(job(), SILENT) as engine, use_mapper(engine.mapper):
        forest.fit(X, y)
        spread_means = KMeans(n_clusters=3, n_init=4).fit(X)
    for name in ("nodes_", "roots_", "values_", "feature_importances_", "oob_decision_function_"):
        np.testing.assert_array_equal(getattr(forest, name), getattr(here, name))
    np.testing.assert_array_equal(spread_means.cluster_centers_, means.cluster_centers_)
    np.testing.assert_array_equal(spread_means.inertias_, means.inertias_)


@pytest.mark.parametrize("more", [
    {"estimator": {"algorithm": "random_forest_classifier", "params": {"n_estimators": 5}}, "target": "species"},
    {"estimator": {"algorithm": "bayesian_linear_regression", "params": {}}, "target": "petal_width",
     "features": ["sepal_length", "petal_length"], "validation": {"method": "holdout"}},
    {"estimator": {"algorithm": "bayesian_linear_regression", "params": {}}, "target": "petal_width",
     "features": ["sepal_length", "petal_length"], "validation": {"method": "none"},
     "chunks": {"rows": 20, "threads": 1, "memory_bytes": 1 << 20}},
    {"estimator": {"algorithm": "bayesian_linear_regression", "params": {}}, "target": "petal_width",
     "features": ["sepal_length", "petal_length"], "chunks": {"rows": 20, "threads": 1, "memory_bytes": 1 << 20},
     "rows": {"where": [{"not": {"column": "sepal_width", "op": "<", "value": 2.9}}], "sample": 60},
     "validation": {"method": "split_column", "column": "species", "validation": ["setosa"]}},
])  # fmt: skip
def test_a_fit_with_its_folds_or_chunks_is_that_of_one_host(cluster, more):
    services = build(settings_of(cluster))
    request = {"dataset": "iris", "validation": {"method": "k_fold", "k": 3}, "seed": 3} | more
    full, _ = services.training.complete({k: v for k, v in request.items() if k != "chunks"})
    full |= {"chunks": more["chunks"]} if "chunks" in more else {}
    results = []
    probe = np.ones((2, len(full["features"])))
    for number, spread in enumerate((False, True)):
        result = services.training.run(job(number, resource=f"mdl_{number}", spec=full, spread=spread), SILENT)
        artifact = services.artifacts.load(result["artifact"])
        results.append((result["metrics"], result["warnings"], artifact.estimator.predict(probe).tolist()))
    assert results[0] == results[1]
    services.db.close()


def test_the_callers_mistake_passes_as_itself(cluster):
    with spread_of(settings_of(cluster)).session(job(), SILENT) as engine, use_mapper(engine.mapper):
        with pytest.raises(InvalidData, match="3 values are missing") as refused:
            list(spread_map(spread_work.refuse, range(3)))
        assert [i.pointer for i in refused.value.issues] == ["/rows/17/age"]
        with pytest.raises(TypeError, match="cannot be imported"):
            list(spread_map(lambda i: i, range(3)))


def test_a_killed_worker_is_not_noticed(cluster, tmp_path):
    with spread_of(settings_of(cluster)).session(job(), SILENT) as engine:
        killer = threading.Thread(target=lambda: (
            eventually(lambda: len(list(tmp_path.glob("begun-*"))) >= 2), cluster.kill_worker(),
            (tmp_path / "go").touch()))  # fmt: skip
        killer.start()
        assert list(engine.mapper(spread_work.slow, range(6), (str(tmp_path),))) == list(range(6))
        killer.join()


def test_two_jobs_share_the_workers(cluster):
    found: dict[int, list[Any]] = {}

    def run(number: int) -> None:
        with spread_of(settings_of(cluster)).session(job(number), SILENT) as engine:
            found[number] = list(engine.mapper(spread_work.total, range(30), (np.full(9000, number), np.ones(2))))

    threads = [threading.Thread(target=run, args=(n,)) for n in (1, 2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert {n: found[n][0][1] for n in found} == {1: 9002.0, 2: 18002.0}
    assert all([i for i, _, _ in f] == list(range(30)) for f in found.values())


def test_leaving_a_session_releases_its_tasks(cluster, tmp_path):
    with spread_of(settings_of(cluster)).session(job(), SILENT) as engine:
        answers = engine.mapper(spread_work.slow, range(50), (str(tmp_path),))
        watch = threading.Thread(target=next, args=(answers,))
        watch.start()
        eventually(lambda: any(tmp_path.glob("begun-*")))  # one: the killed worker's successor may still be loading
        (tmp_path / "go").touch()
        watch.join()
        answers.close()
    eventually(lambda: cluster.tasks() == 0)
    assert len(list(tmp_path.glob("begun-*"))) < 50


def test_other_versions_fail_at_once_and_say_which(cluster, monkeypatch):
    other = spread_payload.facts() | {"numpy": "1.0"}
    monkeypatch.setattr(Client, "run_on_scheduler", lambda self, function, **timeout: other)
    session = spread_of(settings_of(cluster)).session(job(), SILENT)
    with pytest.raises(EngineMismatch, match=r"numpy 1\.0 on the scheduler at tcp:.* but .* with the job") as apart:
        session.__enter__()
    verdict = verdict_of(apart.value)
    assert (verdict["state"], verdict["error"]["code"]) == ("failed", "engine_mismatch")
    with pytest.raises(EngineMismatch, match="on the worker on"):
        spread_payload.work(b"", [1], other, "a-host")


def test_a_task_gets_the_time_that_is_left_and_tells_what_it_ended():
    packet = pickle.dumps((spread_work.late, (), ()))
    _, answers, cut = spread_payload.work(packet, [3, 4], spread_payload.facts(), "a-host", 0.0)
    assert (answers, [str(t) for t in cut]) == ([True, True], ["3 of 9 steps", "4 of 9 steps"])
    assert spread_payload.work(packet, [3], spread_payload.facts(), "a-host")[1:] == ([False], [])
    queued = spread_payload.work(packet, [3], spread_payload.facts(), "a-host", 100.0, time.time() - 1.0)
    assert queued[1] == [True]  # the end does not wait for a task that began late
    packet = pickle.dumps((spread_work.room, (), ()))
    assert spread_payload.work(packet, [0, 1], spread_payload.facts(), "a-host", 100.0, np.inf, 5e6)[1] == [
        (5e6, True), (5e6, False)]  # fmt: skip


def test_a_stranger_among_the_stores_is_told(cluster, tmp_path):
    other = settings_of(cluster, data=tmp_path / "elsewhere")
    with spread_of(other).session(job(), SILENT) as engine, pytest.raises(EngineMismatch, match="POSTFIT_OBJECTS"):
        list(engine.mapper(spread_work.total, range(2), (np.arange(1e5), np.ones(2))))


@pytest.mark.parametrize(("changes", "code"), [
    ({"dask": None}, "engine_absent"), ({"dask": "tcp://127.0.0.1:9", "engine_wait_seconds": 0.3}, "engine_away"),
])  # fmt: skip
def test_without_a_cluster_one_host_does_the_work_and_says_so(tmp_path, changes, code):
    with spread_of(Settings(data=tmp_path, **changes)).session(job(), SILENT) as engine:
        assert engine.mapper is None
        assert engine.notice.code == code


@pytest.mark.parametrize(("file", "cause"), [(None, "name none"), ("no-such.pem", "No such file")])
def test_a_runner_without_a_certificate_fails_a_job_at_once_and_says_so(tmp_path, file, cause):
    given = {f"distributed.comm.tls.{key}": file for key in ("ca-file", "client.cert", "client.key")}
    session = spread_of(Settings(data=tmp_path, dask="tls://127.0.0.1:9")).session(job(), SILENT)
    with dask.config.set(given), pytest.raises(EngineMismatch, match=f"{cause}.*CLIENT__CERT"):
        session.__enter__()


def test_a_job_that_does_not_ask_gets_no_engine(cluster):
    with spread_of(settings_of(cluster)).session(job(spread=False), SILENT) as engine:
        assert (engine.mapper, engine.notice) == (None, None)


def test_a_frozen_scheduler_is_a_lost_one(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(dask_spread, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(dask_spread, "CONNECT_SECONDS", 0.5)
    session = spread_of(settings_of(cluster)).session(job(), SILENT)
    try:
        with session as engine:
            answers = engine.mapper(spread_work.total, range(4000), (np.arange(1e5), np.ones(2)))
            assert next(answers)[0] == 0
            cluster.freeze(frozen=True)
            with pytest.raises(EngineLost, match="does not answer"):
                list(answers)
        with spread_of(settings_of(cluster, engine_wait_seconds=0.8)).session(job(), SILENT) as engine:
            assert engine.notice.code == "engine_away"
    finally:
        cluster.freeze(frozen=False)
    eventually(lambda: cluster.tasks() == 0)


def test_an_answer_that_stays_on_its_way_does_not_hold_a_job_whose_scheduler_froze(cluster, monkeypatch):
    monkeypatch.setattr(dask_spread, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(dask_spread, "CONNECT_SECONDS", 0.5)
    gather = Client.gather

    def freeze(self, *given, **more):
        cluster.freeze(frozen=True)
        return gather(self, *given, **more)

    monkeypatch.setattr(Client, "gather", freeze)
    session = spread_of(settings_of(cluster)).session(job(), SILENT)
    try:
        with pytest.raises(EngineLost, match="does not answer"), session as engine:
            list(engine.mapper(spread_work.nothing, range(2), ()))
    finally:
        cluster.freeze(frozen=False)
    eventually(lambda: cluster.tasks() == 0)


def test_a_lost_scheduler_sends_the_job_back_to_the_queue(tmp_path):
    settings = Settings(data=tmp_path / "data")
    with running(tmp_path, settings, workers=1, preload="service.adapters.spread_payload") as cluster:
        mark = tmp_path / "marks"
        mark.mkdir()

        def kill() -> None:
            eventually(lambda: any(mark.glob("begun-*")))
            cluster.lose_scheduler()

        killer = threading.Thread(target=kill)
        killer.start()
        session = spread_of(settings_of(cluster)).session(job(), SILENT)
        with pytest.raises(EngineLost) as lost, session as engine:
            list(engine.mapper(spread_work.slow, range(9), (str(mark),)))
        killer.join()
        (mark / "go").touch()
        verdict = verdict_of(lost.value)
        assert (verdict["state"], verdict["error"]["code"]) == ("queued", "engine_lost")
        away = settings_of(cluster, engine_wait_seconds=0.5)
        with spread_of(away).session(job(engine_losses=1), SILENT) as engine:
            assert engine.notice.code == "engine_away"


def test_a_cluster_without_workers_is_a_lost_one(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(dask_spread, "LOOK_SECONDS", 0.02)
    with spread_of(settings_of(cluster)).session(job(), SILENT) as engine:
        engine.mapper._wait_seconds = 0.1
        monkeypatch.setattr(Client, "nthreads", lambda self, **timeout: {})
        with pytest.raises(EngineLost, match=r"no worker for 0\.1 s"):
            list(engine.mapper(spread_work.slow, range(3), (str(tmp_path),)))
        (tmp_path / "go").touch()
    monkeypatch.undo()
    eventually(lambda: cluster.tasks() == 0)


def test_the_last_attempt_that_may_lose_its_engine_does_without(cluster):
    almost = settings_of(cluster).max_engine_losses - 1
    with spread_of(settings_of(cluster)).session(job(engine_losses=almost), SILENT) as engine:
        assert engine.notice.code == "engine_away"
    assert Path(cluster.settings.data).exists()


def test_every_error_survives_the_way_from_a_worker():
    def below(cls: type) -> list[type]:
        return [cls, *(d for c in cls.__subclasses__() for d in below(c))]

    for cls in {*below(MLError), *below(ServiceError)}:
        error = cls("loss", "solver", "gradient") if cls is Incompatible else cls("what came, what to do")
        if isinstance(error, MLError) and cls is not Incompatible:
            error.issues = (Issue("/rows/17/age", "missing", "fill or drop it"),)
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (cls, str(error))
        assert getattr(again, "issues", ()) == getattr(error, "issues", ())
