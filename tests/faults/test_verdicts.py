"""What the end of a process means, without a process."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from ml_core.errors import Cancelled, InvalidParameter
from service.errors import ArtifactRejected, Invalid, Issue, NotReady, StorageFull
from service.ports import Claim, Job, Limits
from service.runner import supervisor
from service.runner.child import Order, verdict_of
from service.runner.forkserver import Exit
from service.runner.lock import only_runner
from service.runner.process import status_bytes
from service.runner.supervisor import Child
from service.settings import Settings

LIMITS = Limits(10.0, 100 << 20, 1)
SINCE = datetime(2026, 1, 2, tzinfo=UTC)
JOB = Job("job_1", "fit", "mdl_1", {"a": [1.5, None]}, "long", LIMITS, 0, "running", 1, SINCE)


@pytest.fixture
def child() -> Iterator[Child]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    made = Child(ours, reading, pid=0, claim=Claim(JOB, 1, "A"))
    made.other_end, made.writing = theirs, writing  # type: ignore[attr-defined]
    yield made
    made.close()
    theirs.close()
    os.close(writing)


def ended(code: int) -> Exit:
    return Exit(pid=1, code=code, cpu_seconds=0.5, peak_rss_bytes=7)


@pytest.mark.parametrize(
    ("code", "state", "error", "says"),
    [
        (-signal.SIGSEGV, "queued", "worker_crashed", "signal 11 (SIGSEGV)"),
        (-signal.SIGKILL, "queued", "worker_crashed", "signal 9 (SIGKILL)"),
        (-signal.SIGXCPU, "failed", "timed_out", "processor time"),
        (3, "queued", "worker_crashed", "exit code 3"),
        (0, "queued", "worker_crashed", "without an answer"),
        (-99, "queued", "worker_crashed", "signal 99 (unknown)"),
    ],
)
def test_an_end_without_an_answer(child: Child, code: int, state: str, error: str, says: str) -> None:
    verdict = child.verdict(ended(code))
    assert verdict.state == state
    assert verdict.error is not None
    assert verdict.error["code"] == error
    assert says in verdict.error["detail"]
    assert child.attempt("host", ended(code)).exit_code == code


def test_a_native_crash_near_the_limit_is_a_failed_allocation(child: Child) -> None:
    child.peak_bytes = 90 << 20
    verdict = child.verdict(ended(-signal.SIGABRT))
    assert verdict.state == "failed"
    assert verdict.error is not None
    assert verdict.error["code"] == "memory_limit"
    assert (verdict.error["limit_bytes"], verdict.error["peak_bytes"]) == (100 << 20, 90 << 20)


def test_a_kill_by_the_kernel_is_told_from_others(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "kernel_kills", lambda: 1)
    verdict = child.verdict(ended(-signal.SIGKILL))
    assert verdict.error is not None
    assert (verdict.state, verdict.error["code"]) == ("failed", "memory_limit")


@pytest.mark.parametrize(
    ("reason", "state", "code"),
    [("cancelled", "cancelled", None), ("lost", None, None), ("released", None, None),
     ("timed_out", "failed", "timed_out"), ("memory_limit", "failed", "memory_limit")],
)  # fmt: skip
def test_the_reason_for_a_kill_comes_first(child: Child, reason: str, state: str | None, code: str | None) -> None:
    child.reason = reason  # type: ignore[assignment]
    child.final = {"result": {}}
    verdict = child.verdict(ended(-signal.SIGKILL))
    assert verdict.state == state
    assert (verdict.error or {}).get("code") == code


def test_without_a_fork_server_the_worker_has_crashed(child: Child) -> None:
    verdict = child.verdict(None)
    assert verdict.state == "queued"
    assert verdict.error is not None
    assert verdict.error["code"] == "worker_crashed"


def test_messages_may_come_in_pieces_and_logs_are_cut(child: Child) -> None:
    message = msgspec.json.encode({"result": {"text": "x" * 50_000}, "cpu_seconds": 2.0}) + b"\n"
    os.write(child.writing, b"a" * 20_000 + b"\xffend")  # type: ignore[attr-defined]
    for part in (b'{"progress": {"step": 1}}\n' + message[:10], message[10:30_000], message[30_000:]):
        child.other_end.sendall(part)  # type: ignore[attr-defined]
        child.listen()
    assert child.progress == {"step": 1}
    assert child.verdict(None).result == {"text": "x" * 50_000}
    assert child.attempt("host", None).cpu_seconds == 2.0
    assert len(child.log_tail) == supervisor.LOG_BYTES
    assert child.log_tail.endswith("a\ufffdend")


def test_a_job_survives_the_trip_to_its_child() -> None:
    order = Order(JOB, 2)
    assert msgspec.json.decode(msgspec.json.encode(order), type=Order) == order


@pytest.mark.parametrize(
    ("fault", "state", "code"),
    [
        (InvalidParameter("alpha must be positive"), "failed", "user_error"),
        (Invalid("no", issues=(Issue("/x", "missing", "say x"),)), "failed", "user_error"),
        (NotReady("away"), "queued", "engine_lost"),
        (StorageFull("full"), "queued", "engine_lost"),
        (Cancelled("the runner is gone"), "failed", "worker_crashed"),
        (ArtifactRejected("bad digest"), "failed", "worker_crashed"),
        (ZeroDivisionError("by zero"), "failed", "worker_crashed"),
        (OSError(2, "no", "\udcff"), "failed", "worker_crashed"),
    ],
)
def test_whose_fault_it_was(fault: Exception, state: str, code: str) -> None:
    verdict = verdict_of(fault)
    assert (verdict["state"], verdict["error"]["code"]) == (state, code)
    assert verdict["error"]["kind"] == type(fault).__name__
    assert msgspec.json.encode(verdict)
    assert ("issues" in verdict["error"]) == bool(getattr(fault, "issues", ()))


def test_the_lock_names_the_holder_that_died(tmp_path: Path) -> None:
    with only_runner(tmp_path, "first", lambda: False) as before:
        assert before is None
        with only_runner(tmp_path, "second", lambda: False) as refused:
            assert refused == ""
    with only_runner(tmp_path, "third", lambda: False) as before:
        assert before is None
    (tmp_path / "runner.lock").write_text("killed")
    with only_runner(tmp_path, "fourth", lambda: False) as before:
        assert before == "killed"


def test_settings_survive_the_environment(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, require_keys=True, lease_seconds=1.5, database=None)
    assert Settings.from_env(settings.to_env()) == settings
    assert Settings.from_env(settings.to_env(parent=7)).parent == 7


def test_memory_of_processes_is_read_in_bytes() -> None:
    assert status_bytes("self", "VmHWM") > 1 << 20
    assert status_bytes(2**22 + 1, "VmHWM") == 0
