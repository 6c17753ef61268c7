"""One child and its attempt: what it said, what it uses, when it must be killed, and what its end means."""

from __future__ import annotations

import os
import signal
import socket
import time
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from service.ports import Attempt, Claim, Json, State
from service.runner.child import Order, memory_error
from service.runner.forkserver import Exit
from service.runner.process import anonymous_bytes, kernel_kills, kill_tree

Reason = Literal["cancelled", "timed_out", "memory_limit", "lost", "released"]
_BYTES = 1 << 20
HANDOVER_SECONDS = 5.0
LOG_BYTES, LOG_READS = 16_384, 16
NEAR_LIMIT = 0.8  # a native crash with this share of the memory in use is taken for a failed allocation


@dataclass(frozen=True)
class Verdict:
    """How an attempt ends: the state to write, or None when nothing may be written."""

    state: State | None
    result: Json | None = None
    error: Json | None = None


@dataclass(eq=False)
class Child:
    """A process that waits for a job or works on one."""

    pipe: socket.socket
    log: int
    warm: bool = True
    tenant: str | None = None
    idle_since: float = 0.0
    pid: int = 0
    claim: Claim | None = None
    reason: Reason | None = None
    final: Json | None = None
    progress: Json | None = None
    peak_bytes: int = 0
    gone: bool = False
    gone_since: float = float("inf")
    log_ended: bool = False
    _started: float = 0.0
    _baseline: int = 0
    _kernel_kills: int = 0
    _buffer: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    @property
    def ready(self) -> bool:
        """Whether it waits for a job."""
        return self.pid > 0 and self.claim is None and not self.gone

    @property
    def held(self) -> Claim:
        """The claim it works on."""
        if self.claim is None:
            raise ValueError("this child waits for a job")
        return self.claim

    @property
    def log_tail(self) -> str:
        """The last of what it printed."""
        return self._tail.decode(errors="replace")

    def assign(self, claim: Claim) -> None:
        """Give it the job."""
        self.claim, self.tenant = claim, claim.job.tenant
        self.reason = self.final = self.progress = None
        self.peak_bytes = 0
        self._tail.clear()
        self._started = time.monotonic()
        self._kernel_kills = kernel_kills()
        self.pipe.settimeout(HANDOVER_SECONDS)
        try:
            self.pipe.sendall(msgspec.json.encode(Order(claim.job, claim.attempt)) + b"\n")
        except OSError:  # it ended, or hangs, before it had the job
            self.gone = True
            kill_tree(self.pid)
        self.pipe.setblocking(False)

    @property
    def again(self) -> bool:
        """Whether its process may work on another job."""
        said = self.final or {}
        return "result" in said and said.get("again", False) and self.reason is None and not self.gone

    def rest(self) -> None:
        """The attempt is over and the process waits for the next one."""
        self._baseline = (self.final or {}).get("anonymous_bytes", self._baseline)
        self.claim, self.idle_since = None, time.monotonic()

    def listen(self) -> None:
        """Take in what it sent and printed."""
        if not self.log_ended:
            self._drain_log()
        while not self.gone:
            try:
                data = self.pipe.recv(_BYTES)
            except BlockingIOError:
                break
            except ConnectionResetError:
                data = b""
            if not data:
                self.gone = True
            self._buffer += data
            cut = self._buffer.rfind(b"\n", len(self._buffer) - len(data))
            if cut >= 0:
                lines = bytes(self._buffer[:cut]).split(b"\n")
                del self._buffer[: cut + 1]
                self._understand(lines)

    def _understand(self, lines: list[bytes]) -> None:
        for line in lines:
            message: Json = msgspec.json.decode(line)
            if "hello" in message:
                self.pid, self._baseline = message["hello"], message["anonymous_bytes"]
            self.progress = message.get("progress", self.progress)
            if "result" in message or "error" in message:
                self.final = message
                if not self.log_ended:
                    self._drain_log()  # what was printed before the answer is there by now

    def _drain_log(self) -> None:
        for _ in range(LOG_READS):  # a bound, for a job that prints without end must not hold up the others
            try:
                data = os.read(self.log, _BYTES)
            except BlockingIOError:
                return
            if not data:
                self.log_ended = True
                return
            self._tail += data
            del self._tail[:-LOG_BYTES]

    def must_stop(self) -> Reason | None:
        """Why it has to be killed now: its deadline or its memory."""
        if self.claim is None or self.reason or self.final:
            return None
        limits = self.claim.job.limits
        if time.monotonic() - self._started > limits.wall_seconds:
            return "timed_out"
        self.peak_bytes = max(self.peak_bytes, anonymous_bytes(self.pid) - self._baseline)
        return "memory_limit" if self.peak_bytes > limits.memory_bytes else None

    def kill(self, reason: Reason) -> None:
        """Kill it and everything it started; its end is then judged by the reason."""
        self.reason = self.reason or reason
        kill_tree(self.pid)

    def close(self) -> None:
        """Give back its descriptors."""
        self.pipe.close()
        os.close(self.log)

    def attempt(self, host: str, end: Exit | None) -> Attempt:
        """The figures of the attempt."""
        usage = self.final or {}
        return Attempt(
            host=host, pid=self.pid, exit_code=end.code if end else 0 if self.final else None,
            peak_rss_bytes=usage.get("peak_rss_bytes", end.peak_rss_bytes if end else 0),
            cpu_seconds=usage.get("cpu_seconds", end.cpu_seconds if end else 0.0),
        )  # fmt: skip

    def verdict(self, end: Exit | None) -> Verdict:
        """What its end means. A reason to kill comes before what it said, and that before how it exited."""
        if self.reason is not None:
            return self._killed(self.reason)
        if self.final is not None and "result" in self.final:
            return Verdict("succeeded", result=self.final["result"])
        if self.final is not None:
            return Verdict(self.final["state"], error=self.final["error"])
        return self._died(end)

    def _killed(self, reason: Reason) -> Verdict:
        job = self.held.job
        if reason == "memory_limit":
            used = f"it was stopped at {self.peak_bytes / 2**20:.0f} MiB"
            return Verdict("failed", error=memory_error(job, used, self.peak_bytes))
        if reason == "timed_out":
            detail = f"the job may run {job.limits.wall_seconds:g} seconds and was stopped"
            return Verdict("failed", error={"code": "timed_out", "detail": detail})
        return Verdict("cancelled" if reason == "cancelled" else None)

    def _died(self, end: Exit | None) -> Verdict:
        if end is None:
            return _crashed("the worker ended, and the fork server with it or without telling how", None)
        if end.code == -signal.SIGXCPU:
            return Verdict("failed", error={"code": "timed_out", "detail": "the job used up its processor time"})
        starved = end.code == -signal.SIGKILL and kernel_kills() > self._kernel_kills
        if starved or (end.code < 0 and self.peak_bytes > NEAR_LIMIT * self.held.job.limits.memory_bytes):
            who = "the kernel stopped it for lack of memory" if starved else "an allocation failed in native code"
            return Verdict("failed", error=memory_error(self.held.job, who, max(self.peak_bytes, end.peak_rss_bytes)))
        return _crashed(_how(end.code), end.code)


def _crashed(detail: str, code: int | None) -> Verdict:
    return Verdict("queued", error={"code": "worker_crashed", "detail": detail, "exit_code": code})


def _how(code: int) -> str:
    if code >= 0:
        return f"the worker left with exit code {code} without an answer"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    return f"the worker was ended by signal {-code} ({name})"
