"""Kill and stop real runners, fork servers and servers: no accepted job is lost, nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import sqlalchemy

from service.errors import QueueFull
from service.runner.embedded import Embedded
from tests.contract.ledgers import POSTGRES, postgres_schema, without_postgres
from tests.faults.bench import COMMAND, LIMITS, ROOT, Bench, eventually, gone, pids

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the runner uses prctl, /proc and flock of Linux")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "data")
    yield made
    made.close()


def test_nothing_outlives_a_killed_runner_and_the_next_one_goes_on(bench: Bench, tmp_path: Path) -> None:
    runner = bench.run()
    job_id = bench.put("loop", mark=str(tmp_path / "mark"))
    first = pids(tmp_path / "mark", 1)[0]
    family = [p.pid for p in psutil.Process(runner.pid).children(recursive=True)]
    assert first in family
    assert len(family) >= 2
    runner.kill()
    runner.wait()
    assert eventually(lambda: all(gone(pid) for pid in family)) < 5.0
    bench.run()
    assert pids(tmp_path / "mark", 2)[1] != first
    assert bench.running(job_id).attempts == 2


def test_a_runner_elsewhere_takes_over_when_the_lease_is_over(bench: Bench, tmp_path: Path) -> None:
    runner = bench.run()
    job_id = bench.put("loop", mark=str(tmp_path / "mark"))
    pids(tmp_path / "mark", 1)
    elsewhere = bench.settings.to_env(data=None)
    bench.run(**{**elsewhere, "POSTFIT_DATA": str(tmp_path / "b"), "POSTFIT_DATABASE": bench.settings.database_url})
    runner.kill()
    runner.wait()
    pids(tmp_path / "mark", 2)
    assert bench.running(job_id).attempts == 2


def test_a_runner_that_slept_through_its_lease_does_no_harm(bench: Bench, tmp_path: Path) -> None:
    sleeper = bench.run()
    job_id = bench.put("loop", mark=str(tmp_path / "mark"))
    first = pids(tmp_path / "mark", 1)[0]
    stale = bench.ledger.get(job_id).worker
    sleeper.send_signal(signal.SIGSTOP)
    bench.run(POSTFIT_DATA=str(tmp_path / "b"), POSTFIT_DATABASE=bench.settings.database_url)
    pids(tmp_path / "mark", 2)
    sleeper.send_signal(signal.SIGCONT)
    assert eventually(lambda: gone(first)) < 10.0
    job = bench.ledger.get(job_id)
    assert (job.state, job.attempts) == ("running", 2)
    assert job.worker != stale
    bench.ledger.cancel(job_id)
    assert bench.ended(job_id).state == "cancelled"


def test_a_killed_fork_server_is_replaced(bench: Bench, tmp_path: Path) -> None:
    runner = bench.run()
    job_id = bench.put("loop", mark=str(tmp_path / "mark"))
    first = pids(tmp_path / "mark", 1)[0]
    psutil.Process(first).parent().kill()
    assert eventually(lambda: gone(first)) < 5.0
    pids(tmp_path / "mark", 2)
    assert runner.poll() is None
    assert bench.running(job_id).attempts == 2


def test_a_cancelled_job_ends_though_the_fork_server_is_frozen(bench: Bench, tmp_path: Path) -> None:
    bench.run()
    job_id = bench.put("loop", mark=str(tmp_path / "mark"))
    first = pids(tmp_path / "mark", 1)[0]
    server = psutil.Process(first).parent()
    server.suspend()
    try:
        bench.ledger.cancel(job_id)
        assert bench.ended(job_id, 10.0).state == "cancelled"
        assert gone(first)
    finally:
        server.resume()
    assert [bench.ended(bench.put("echo")).state for _ in range(3)] == ["succeeded"] * 3


def test_work_begins_before_everything_is_compiled(bench: Bench, tmp_path: Path) -> None:
    runner = bench.run(WARM_WHEN=str(tmp_path / "warm"))
    early = bench.ended(bench.put("echo"))
    assert early.result is not None
    assert early.result["warm"] is False
    long = bench.put("loop", mark=str(tmp_path / "mark"))
    first = psutil.Process(pids(tmp_path / "mark", 1)[0])
    (tmp_path / "warm").touch()

    def warm() -> bool:
        job = bench.ended(bench.put("echo", lane="instant"))
        return job.result is not None and job.result["warm"]

    eventually(warm)
    assert len(psutil.Process(runner.pid).children()) == 1
    assert first.is_running()
    bench.ledger.cancel(long)
    assert bench.ended(long).state == "cancelled"


def test_sigterm_hands_jobs_back_without_counting_the_attempt(bench: Bench, tmp_path: Path) -> None:
    runner = bench.run()
    job_id = bench.put("loop", mark=str(tmp_path / "mark"))
    child = pids(tmp_path / "mark", 1)[0]
    runner.terminate()
    assert runner.wait(20) == 0
    job = bench.ledger.get(job_id)
    assert (job.state, job.attempts, job.worker) == ("queued", 0, None)
    assert gone(child)


def test_sigterm_lets_jobs_end_within_the_grace_period(bench: Bench, tmp_path: Path) -> None:
    runner = bench.run(POSTFIT_GRACE_SECONDS="60")
    job_id = bench.put("loop", mark=str(tmp_path / "mark"), limits=replace(LIMITS, wall_seconds=0.5))
    pids(tmp_path / "mark", 1)
    runner.terminate()
    assert runner.wait(20) == 0
    job = bench.ledger.get(job_id)
    assert job.state == "failed"
    assert job.error is not None
    assert job.error["code"] == "timed_out"


def test_one_runner_per_folder(bench: Bench) -> None:
    first, second = bench.run(), bench.run()
    bench.ended(bench.put("echo"))
    working = [r for r in (first, second) if psutil.Process(r.pid).children()]
    assert len(working) == 1
    working[0].terminate()
    working[0].wait(20)
    assert bench.ended(bench.put("echo")).state == "succeeded"


def test_a_full_queue_refuses_and_tells_when_to_come_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "data", max_queued=2)
    bench.put("echo")
    bench.put("echo")
    with pytest.raises(QueueFull) as full:
        bench.put("echo")
    assert full.value.retry_after_seconds >= 1
    bench.close()


def test_the_embedded_runner_is_restarted_and_stopped(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    embedded = Embedded(bench.settings, COMMAND)
    embedded.start()
    assert bench.ended(bench.put("echo")).state == "succeeded"
    assert embedded.alive()
    assert embedded.pid is not None
    os.kill(embedded.pid, signal.SIGKILL)
    eventually(lambda: embedded.starts == 2)
    assert bench.ended(bench.put("echo")).state == "succeeded"
    family = [embedded.pid, *(p.pid for p in psutil.Process(embedded.pid).children(recursive=True))]
    embedded.stop()
    assert not embedded.alive()
    eventually(lambda: all(gone(pid) for pid in family))


def test_nothing_outlives_a_killed_server(bench: Bench, tmp_path: Path) -> None:
    code = (
        "import os, time; from service.runner.embedded import Embedded; from service.settings import Settings\n"
        f"e = Embedded(Settings.from_env(os.environ), {COMMAND!r}); e.start(); time.sleep(600)"
    )
    env = {**os.environ, **bench.settings.to_env(), "POSTFIT_GRACE_SECONDS": "60"}
    server = subprocess.Popen([sys.executable, "-c", code], env=env, cwd=ROOT)
    job_id = bench.put("loop", mark=str(tmp_path / "mark"))
    pids(tmp_path / "mark", 1)
    family = [p.pid for p in psutil.Process(server.pid).children(recursive=True)]
    assert len(family) >= 3
    server.kill()
    server.wait()
    assert eventually(lambda: all(gone(pid) for pid in family)) < 5.0
    job = bench.ledger.get(job_id)
    assert (job.state, job.attempts) == ("queued", 0)


def test_a_job_survives_a_database_that_goes_away(tmp_path: Path) -> None:
    if reason := without_postgres():
        pytest.skip(reason)
    with postgres_schema() as url, closing(Bench(tmp_path / "data", database=url)) as bench:
        bench.run()
        job_id = bench.put("until", file=str(tmp_path / "go"), mark=str(tmp_path / "mark"))
        pids(tmp_path / "mark", 1)
        cut = sqlalchemy.text(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = :name"
        )
        name = sqlalchemy.make_url(url).query["application_name"]
        admin = sqlalchemy.create_engine(POSTGRES, poolclass=sqlalchemy.NullPool)
        with admin.connect() as connection:
            assert connection.execute(cut, {"name": name}).scalar_one() >= 3  # two of the runner, ours
        (tmp_path / "go").touch()
        job = bench.ended(job_id)
        assert (job.state, job.attempts) == ("succeeded", 1)
