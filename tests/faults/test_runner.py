"""Every way in which a job can end on a real runner: answers, mistakes, crashes, limits, cancellations."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from service.ports import NewJob
from tests.faults.bench import LIMITS, Bench, eventually, gone, pids

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the runner uses prctl, /proc and flock of Linux")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One runner for the tests that leave it alive."""
    made = Bench(tmp_path_factory.mktemp("shared") / "data")
    made.run()
    yield made
    made.close()


def test_a_job_is_done_in_a_polite_process_of_its_own(shared: Bench) -> None:
    job = shared.ended(shared.put("echo", text="ä"))
    assert job.state == "succeeded"
    assert job.result is not None
    assert job.result["spec"] == {"text": "ä"}
    assert job.result["array"] == [0, 1, 2]
    assert job.result["not_finite"] is None
    assert job.result["leader"] is True
    assert job.result["nice"] == 10
    assert (job.result["cores"], job.result["attempt"]) == (1, 1)
    assert job.result["maker"] in [p.pid for p in psutil.Process(shared.runners[0].pid).children()], "not its own work"
    single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "2"}
    assert job.result["threads"] == single
    assert job.progress == {"fraction": 1.0, "metrics": {"loss": 0.5}}


def test_a_killed_child_is_run_again(shared: Bench) -> None:
    job = shared.ended(shared.put("die_once"))
    assert (job.state, job.attempts, job.result) == ("succeeded", 2, {"attempt": 2})


def test_a_child_killed_from_outside_is_run_again(shared: Bench, tmp_path: Path) -> None:
    job_id = shared.put("loop", mark=str(tmp_path / "mark"))
    os.kill(pids(tmp_path / "mark", 1)[0], signal.SIGKILL)
    first, second = pids(tmp_path / "mark", 2)
    assert first != second
    assert gone(first)
    assert shared.running(job_id).attempts == 2
    shared.ledger.cancel(job_id)
    assert shared.ended(job_id).state == "cancelled"


@pytest.mark.parametrize(
    ("kind", "says"), [("segfault", "signal 11 (SIGSEGV)"), ("leave", "exit code 7 without an answer")]
)
def test_a_poison_job_fails_after_its_attempts_with_the_cause(shared: Bench, kind: str, says: str) -> None:
    job = shared.ended(shared.put(kind))
    assert (job.state, job.attempts) == ("failed", 3)
    assert job.error is not None
    assert job.error["code"] == "worker_crashed"
    assert says in job.error["detail"]
    assert kind != "segfault" or ("address zero" in job.log_tail and "Segmentation fault" in job.log_tail)


def test_the_users_mistake_is_told_and_not_repeated(shared: Bench) -> None:
    job = shared.ended(shared.put("user_mistake"))
    assert (job.state, job.attempts) == ("failed", 1)
    assert job.error == {
        "code": "user_error", "kind": "InvalidData", "detail": "3 values are missing in 'age'",
        "problem": "invalid_data",
        "issues": [{"pointer": "/rows/17/age", "code": "missing", "detail": "fill or drop it"}],
    }  # fmt: skip


@pytest.mark.parametrize(("kind", "says"), [("our_mistake", "KeyError"), ("not_json", "must be JSON, not object")])
def test_our_mistake_is_not_blamed_on_the_user(shared: Bench, kind: str, says: str) -> None:
    job = shared.ended(shared.put(kind))
    assert (job.state, job.attempts) == ("failed", 1)
    assert job.error is not None
    assert job.error["code"] == "worker_crashed"
    assert says in job.error["detail"]
    assert "Traceback" in job.log_tail


def test_surroundings_that_are_away_are_tried_again(shared: Bench) -> None:
    job = shared.ended(shared.put("away"))
    assert (job.state, job.attempts, job.engine_losses) == ("succeeded", 1, 1)


def test_an_allocation_over_the_limit_fails_with_both_numbers(shared: Bench) -> None:
    job = shared.ended(shared.put("allocate", limits=replace(LIMITS, memory_bytes=1 << 28)))
    assert (job.state, job.attempts) == ("failed", 1)
    assert job.error is not None
    assert job.error["code"] == "memory_limit"
    assert "256 MiB" in job.error["detail"]
    assert "8.00 GiB" in job.error["detail"]
    assert job.error["limit_bytes"] == 1 << 28


def test_a_job_that_reads_a_table_may_use_its_limit(shared: Bench) -> None:
    job = shared.ended(shared.put("tabulate", bytes=5 << 28, limits=replace(LIMITS, memory_bytes=3 << 29)))
    assert (job.state, job.result) == ("succeeded", {"bytes": 5 << 28, "rows": 1 << 18}), job.error


def test_a_hog_hidden_in_another_process_is_stopped(shared: Bench) -> None:
    job = shared.ended(shared.put("hog", limits=replace(LIMITS, memory_bytes=1 << 27)))
    assert (job.state, job.attempts) == ("failed", 1)
    assert job.error is not None
    assert job.error["code"] == "memory_limit"
    assert job.error["peak_bytes"] > job.error["limit_bytes"] == 1 << 27


def test_a_job_over_its_time_is_stopped(shared: Bench) -> None:
    job = shared.ended(shared.put("loop", limits=replace(LIMITS, wall_seconds=0.3)))
    assert (job.state, job.attempts) == ("failed", 1)
    assert job.error is not None
    assert job.error["code"] == "timed_out"
    assert "0.3 seconds" in job.error["detail"]


@pytest.mark.parametrize("kind", ["loop", "matrix_loop", "compiled_loop"])
def test_cancel_ends_whatever_is_running(shared: Bench, tmp_path: Path, kind: str) -> None:
    job_id = shared.put(kind, mark=str(tmp_path / "mark"))
    (pid,) = pids(tmp_path / "mark", 1)
    shared.ledger.cancel(job_id)
    assert shared.ended(job_id, seconds=5.0).state == "cancelled"
    assert eventually(lambda: gone(pid)) < 5.0


def test_cancel_reaches_processes_that_the_job_started(shared: Bench, tmp_path: Path) -> None:
    job_id = shared.put("with_family", family=str(tmp_path / "family"))
    eventually(lambda: (tmp_path / "family").exists() and (tmp_path / "family").read_text())
    shared.ledger.cancel(job_id)
    assert shared.ended(job_id, seconds=5.0).state == "cancelled"
    other = int((tmp_path / "family").read_text())
    assert eventually(lambda: not psutil.pid_exists(other)) < 5.0


def test_what_a_crashed_job_left_behind_is_ended(shared: Bench, tmp_path: Path) -> None:
    job = shared.ended(shared.put("with_family", family=str(tmp_path / "family"), leave=True))
    assert (job.state, job.attempts) == ("failed", 3)
    other = int((tmp_path / "family").read_text())
    assert eventually(lambda: not psutil.pid_exists(other)) < 5.0


def test_a_long_job_never_blocks_a_short_one(shared: Bench) -> None:
    long = shared.put("loop")
    shared.running(long)
    waiting = shared.put("echo")
    assert shared.ended(shared.put("echo", lane="instant")).state == "succeeded"
    assert shared.ledger.get(long).state == "running"
    assert shared.ledger.get(waiting).state == "queued"
    shared.ledger.cancel(long)
    assert shared.ended(waiting).state == "succeeded"


def test_progress_is_throttled_and_the_last_one_is_kept(shared: Bench) -> None:
    job = shared.ended(shared.put("steps"))
    assert job.state == "succeeded"
    assert job.progress == {"step": 199_999, "total": 200_000, "fraction": 199_999 / 200_000}


def test_a_large_answer_arrives_whole(shared: Bench) -> None:
    job = shared.ended(shared.put("big", n=1_000_000))
    assert job.result == {"values": list(range(1_000_000))}


def test_a_short_job_leaves_its_process_to_the_next_one_of_the_same_tenant(shared: Bench) -> None:
    def told(tenant: str) -> tuple[int, int]:
        job = shared.ended(shared.ledger.put(NewJob("echo", "mdl_1", {}, "instant", LIMITS, tenant=tenant)).id)
        assert job.result is not None
        assert job.log_tail == ""
        return job.result["pid"], job.result["jobs"]

    def again() -> bool:
        first, second = told("a"), told("a")
        return first[0] == second[0] and second[1] == first[1] + 1

    eventually(again)
    a, b = told("a"), told("b")
    assert a[0] != b[0]


def test_a_hog_hurts_no_neighbour(shared: Bench, tmp_path: Path) -> None:
    neighbour = shared.put("until", lane="instant", file=str(tmp_path / "go"), mark=str(tmp_path / "mark"))
    pids(tmp_path / "mark", 1)
    hog = shared.ended(shared.put("hog", limits=replace(LIMITS, memory_bytes=1 << 27)))
    (tmp_path / "go").touch()
    assert hog.error is not None
    assert hog.error["code"] == "memory_limit"
    job = shared.ended(neighbour)
    assert (job.state, job.attempts) == ("succeeded", 1)
