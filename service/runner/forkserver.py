"""A small fork server: imports and compiled kernels are loaded once, every worker then starts from a warm copy.

It answers as soon as its imports are done, while a process of its own compiles what is not in the cache yet; then it
loads the kernels from there, and children made after that have them.

The server (`python -m service.runner.forkserver`) has one thread, so that PR_SET_PDEATHSIG of its children follows its
life, and holds no pipe that a child could inherit: when the runner is killed the server dies, and the children with it.
"""

from __future__ import annotations

import gc
import importlib
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from service.runner.child import Work, Worker, live
from service.runner.process import adopt_orphans, children, die_with_parent, drop_file_pages, kill_group, kill_tree
from service.settings import Settings

_BYTES = 65_536
COMPILER_NICENESS = 15


class Exit(msgspec.Struct):
    """How a child ended: minus the signal, or the exit code."""

    pid: int
    code: int
    cpu_seconds: float
    peak_rss_bytes: int


class ForkServer:
    """The runner's side: start the server, ask for children, hear of their ends."""

    def __init__(self, settings: Settings, work: str, warm: str | None, environ: Mapping[str, str]) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        clean = {k: v for k, v in environ.items() if not k.startswith("POSTFIT_")}
        command = [sys.executable, "-m", "service.runner.forkserver", str(theirs.fileno()), str(os.getpid()), work]
        self.process = subprocess.Popen(  # noqa: S603 - the command is this very module
            command + ([warm] if warm else []), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            env={**clean, **settings.to_env(), **_surroundings(settings)},
        )  # fmt: skip
        theirs.close()
        self.control.setblocking(False)
        self.ready = False
        self.warm = warm is None

    def spawn(self) -> tuple[socket.socket, int]:
        """Ask for a child; its socket, and the reading end of its output."""
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            socket.send_fds(self.control, [b"fork"], [theirs.fileno(), writing])
        except OSError:
            ours.close()
            os.close(reading)
            raise
        finally:
            theirs.close()
            os.close(writing)
        ours.setblocking(False)
        os.set_blocking(reading, False)
        return ours, reading

    def exits(self) -> list[Exit] | None:
        """The children that ended since the last call; None when the server itself is gone."""
        found: list[Exit] = []
        while True:
            try:
                message = self.control.recv(_BYTES)
            except BlockingIOError:
                return found
            except ConnectionResetError:
                return None
            if not message:
                return None
            if message in (b"ready", b"warm"):
                self.ready, self.warm = True, self.warm or message == b"warm"
            else:
                found.append(msgspec.json.decode(message, type=Exit))

    def close(self) -> None:
        """End the server and with it every child."""
        self.control.close()
        self.process.kill()
        self.process.wait()


def _surroundings(settings: Settings) -> dict[str, str]:
    """One BLAS and OpenMP thread, so that results have the same bits on any machine; numba may use every core.

    Arrow allocates by the system: its own pool reserves 1 GiB at a time, which a job's limit counts as used.
    """
    single = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    pool = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
    return {**dict.fromkeys(single, "1"), **pool, "NUMBA_NUM_THREADS": str(settings.cores)}


def load(path: str) -> Callable[..., Any]:
    """The function at `package.module:name`."""
    module, _, name = path.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


class _Server:
    """The server's side: a loop over requests to fork and children that ended."""

    def __init__(
        self, control: socket.socket, work: Work, settings: Settings, warm: Callable[[], object] | None
    ) -> None:
        self._control = control
        self._work = work
        self._settings = settings
        self._warm = warm
        self._worker: Worker | None = None
        self._compiler: int | None = None
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._children: set[int] = set()

    def run(self) -> None:
        """Serve until the runner closes the control socket."""
        signal.set_wakeup_fd(self._woken)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for ignored in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ignored, signal.SIG_IGN)
        self._prepare()
        gc.collect()
        gc.freeze()
        self._control.send(b"ready")
        if self._warm is not None:
            self._compile(self._warm)
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._control and not self._serve():
                        return
                self._reap()

    def _prepare(self) -> None:
        """Make what every child works with, once, so that their pages stay shared; no connection outlives this.

        Where it cannot be made, the job that comes tries again and has the error as its own.
        """
        try:
            self._worker = self._work(self._settings)
            self._worker.rest()
        except Exception:
            traceback.print_exc()
            self._worker = None

    def _compile(self, warm: Callable[[], object]) -> None:
        """Fill the cache of kernels in a process of its own, because a compiler never gives its memory back."""
        server, pid = os.getpid(), os.fork()
        if pid:
            self._compiler = pid
            self._children.add(pid)
            return
        self._leave_to_child()
        die_with_parent(server)
        os.nice(COMPILER_NICENESS)
        code = 1
        try:
            warm()
            code = 0
        except Exception:
            traceback.print_exc()
        os._exit(code)

    def _load(self, code: int) -> None:
        """The kernels are in the cache (or this process compiles what a failed compiler left): load them."""
        if code:
            sys.stderr.write(f"the process that compiles the kernels ended with {code}\n")
        if self._warm is not None:
            self._warm()
        if self._worker is None:
            self._prepare()
        gc.collect()
        gc.freeze()
        drop_file_pages()
        self._control.send(b"warm")

    def _leave_to_child(self) -> None:
        signal.set_wakeup_fd(-1)
        for inherited in (self._control.fileno(), self._wake, self._woken):
            os.close(inherited)

    def _serve(self) -> bool:
        try:
            message, descriptors, _, _ = socket.recv_fds(self._control, 16, 2, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:  # the runner died with words of ours unread
            message, descriptors = b"", []
        if not message:
            for pid in self._children:
                kill_tree(pid)
            return False
        pipe, log = socket.socket(fileno=descriptors[0]), descriptors[1]
        try:
            self._fork(pipe, log)
        except OSError as refused:  # the runner sees the closed socket and asks again later
            sys.stderr.write(f"no process can be made now: {refused}\n")
        pipe.close()
        os.close(log)
        return True

    def _fork(self, pipe: socket.socket, log: int) -> None:
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._leave_to_child()
            live(self._work, self._settings, pipe, log, server, self._worker)
        self._children.add(pid)

    def _reap(self) -> None:
        try:
            while os.read(self._wake, 512):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._children:
                self._children.remove(pid)
                if pid == self._compiler:
                    self._load(os.waitstatus_to_exitcode(status))
                    continue
                kill_group(pid)
                self._tell(pid, status, usage)
                self._kill_orphans()

    def _kill_orphans(self) -> None:
        """End what a job started in a session of its own and left behind; it has become a child of this process."""
        for pid in children(os.getpid()):
            if pid not in self._children:
                kill_tree(pid)

    def _tell(self, pid: int, status: int, usage: resource.struct_rusage) -> None:
        code = os.waitstatus_to_exitcode(status)
        seconds = usage.ru_utime + usage.ru_stime
        self._control.send(msgspec.json.encode(Exit(pid, code, seconds, usage.ru_maxrss * 1024)))


def main(control: str, parent: str, work: str, warm: str | None = None) -> None:
    """Load everything, then serve."""
    die_with_parent(int(parent))
    adopt_orphans()
    function, warming = load(work), load(warm) if warm else None
    with socket.socket(fileno=int(control)) as pipe:
        pipe.set_inheritable(False)
        _Server(pipe, function, Settings.from_env(os.environ), warming).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
