"""The runner inside `serve`: a subprocess that lives and dies with the server and is started again when it dies."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from service.runner.pulse import Pulse
from service.settings import Settings

log = logging.getLogger("postfit.embedded")
COMMAND = (sys.executable, "-m", "service", "runner")
STABLE_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 30.0
STOP_SECONDS = 10.0  # beyond the grace period


class Embedded:
    """Starts the runner, watches it from a thread, and stops it.

    The runner itself watches this process: it compares its parent id with `settings.parent` all the time, so it ends,
    and its children with it, even when the server is killed.
    """

    def __init__(
        self, settings: Settings, command: Sequence[str] = COMMAND, environ: Mapping[str, str] = os.environ
    ) -> None:
        self._command = list(command)
        clean = {k: v for k, v in environ.items() if not k.startswith("POSTFIT_")}
        self._environ = {**clean, **settings.to_env(parent=os.getpid())}
        self._pulse = Pulse(settings.data)
        self._stop_seconds = settings.grace_seconds + STOP_SECONDS
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._keep, name="runner", daemon=True)
        self.starts = 0

    def start(self) -> None:
        """Start the runner and the thread that watches it."""
        self._thread.start()

    def alive(self) -> bool:
        """Whether the runner runs now."""
        process = self._process
        return process is not None and process.poll() is None

    def fault(self) -> str | None:
        """Why jobs are not worked on now; None when they are."""
        return self._pulse.fault() if self.alive() else "the worker process is not running; it is started again"

    @property
    def pid(self) -> int | None:
        """Process id of the runner."""
        return self._process.pid if self._process is not None else None

    def stop(self) -> None:
        """Ask the runner to end, wait for its grace period and a bit, and kill it when it does not."""
        with self._lock:
            self._stopping.set()
            if self._process is not None and self._process.poll() is None:
                self._process.terminate()
        if self._thread.ident is None:
            return
        self._thread.join(self._stop_seconds)
        if self._process is not None and self._process.poll() is None:
            log.warning("the runner did not end within %.0f s and is killed", self._stop_seconds)
            self._process.kill()
        self._thread.join()

    def _keep(self) -> None:
        pause = 0.1
        while not self._stopping.is_set():
            began = time.monotonic()
            with self._lock:
                if self._stopping.is_set():
                    return
                self._pulse.forget()
                self._process = subprocess.Popen(  # noqa: S603 - the command is the program's own
                    self._command, env=self._environ, stdin=subprocess.DEVNULL,
                    process_group=0,  # Ctrl-C goes to the server alone, which then asks the runner once
                )  # fmt: skip
                self.starts += 1
            code = self._process.wait()
            if self._stopping.is_set():
                return
            pause = 0.1 if time.monotonic() - began > STABLE_SECONDS else min(2 * pause, LONGEST_PAUSE_SECONDS)
            log.error("the runner ended with code %d and is started again in %.1f s", code, pause)
            self._stopping.wait(pause)
