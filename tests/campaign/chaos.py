"""What goes wrong during a campaign: processes die, freeze and come back, in an order that a seed decides."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import psutil

from tests.campaign.servers import Server

WORKING = 10  # the niceness of a process at work on a job


@dataclass
class Chaos:
    """A thread that breaks one thing after the other for some seconds; what it broke is counted."""

    runners: list[Server]
    apis: list[Server]
    stores: list[Server]
    engines: list[Server]
    seed: int
    seconds: float
    pause: tuple[float, float] = (0.3, 1.5)
    longest_freeze: float = 6.0
    done: Counter[str] = field(default_factory=Counter)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _later: list[tuple[float, Server]] = field(default_factory=list)
    fault: BaseException | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait(self) -> None:
        """Until its seconds are over."""
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """End, and put everything back to work."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        for server in [*self.stores, *self.engines, *self.apis, *self.runners]:
            server.signal(signal.SIGCONT)
            if not server.alive():
                server.start()
        if self.fault is not None:
            raise self.fault

    def _run(self) -> None:
        rng, end = random.Random(self.seed), time.monotonic() + self.seconds
        try:
            while not self._over.wait(rng.uniform(*self.pause)) and time.monotonic() < end:
                self._thaw()
                self._break(rng)
            self._thaw(everything=True)
        except BaseException as fault:
            self.fault = fault

    def _thaw(self, everything: bool = False) -> None:
        now = time.monotonic()
        for due, server in [entry for entry in self._later if everything or entry[0] <= now]:
            server.signal(signal.SIGCONT)
            self._later.remove((due, server))

    def _break(self, rng: random.Random) -> None:
        kinds = [("runner", self.runners, 3), ("child", self.runners, 4), ("api", self.apis, 2),
                 ("store", self.stores, 2), ("engine", self.engines, 2)]  # fmt: skip
        usable = [kind for kind in kinds if kind[1]]
        name, servers, _ = rng.choices(usable, [weight for *_, weight in usable])[0]
        server = rng.choice(servers)
        if name == "child":
            self._child(rng, server)
        elif rng.random() < 0.5 and server.alive():
            self._freeze(rng, server)
        else:
            self._kill(server)

    def _freeze(self, rng: random.Random, server: Server) -> None:
        if any(frozen is server for _, frozen in self._later):
            return
        server.signal(signal.SIGSTOP, whole=server not in self.runners or rng.random() < 0.5)
        self._later.append((time.monotonic() + rng.uniform(0.2, self.longest_freeze), server))
        self.done[f"freeze {server.name}"] += 1

    def _kill(self, server: Server) -> None:
        server.kill()
        self.done[f"kill {server.name}"] += 1
        self._later = [entry for entry in self._later if entry[1] is not server]
        server.start()

    def _child(self, rng: random.Random, runner: Server) -> None:
        """Kill a process at work on a job, or any other below the runner."""
        below = runner.family()[1:]
        busy = [p for p in below if _nice(p) == WORKING]
        if not below:
            return
        victim = rng.choice(busy or below)
        try:
            victim.send_signal(rng.choice((signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM)))
        except psutil.NoSuchProcess:
            return
        self.done["kill child at work" if busy else "kill idle child or fork server"] += 1


def _nice(process: psutil.Process) -> int:
    try:
        return int(process.nice())
    except psutil.NoSuchProcess:
        return 0
