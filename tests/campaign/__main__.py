"""A fault campaign: `python -m tests.campaign --store sqlite|postgresql --jobs 500 --minutes 3`.

500 jobs are submitted through two servers to three runners while runners, the processes at work, servers, the database,
the object store and the Dask scheduler are killed, frozen and resumed at random. Then everything must be true that
`verdict.py` looks at. Prints one JSON object; the exit code is 1 when anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.campaign import servers
from tests.campaign.chaos import Chaos
from tests.campaign.verdict import judge, leftovers, settled
from tests.campaign.work import Clients

LEASE_SECONDS = 4.0
THREADS = 4


def settings(folder: Path, name: str, **more: str) -> dict[str, str]:
    """Variables of one service process."""
    common = {"POSTFIT_DATA": str(folder / name), "POSTFIT_LEASE_SECONDS": str(LEASE_SECONDS),
              "POSTFIT_MAX_ATTEMPTS": "40", "POSTFIT_MAX_ENGINE_LOSSES": "60", "POSTFIT_ENGINE_WAIT_SECONDS": "20",
              "POSTFIT_SECRET": "ab" * 32, "POSTFIT_GRACE_SECONDS": "2", "POSTFIT_SLOTS": "1"}  # fmt: skip
    return {**common, **more}


class World:
    """All processes of one campaign; the runners of a cluster have data folders of their own."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder = folder
        self.stores: list[servers.Server] = []
        self.engines: list[servers.Server] = []
        self.workers: list[servers.Server] = []
        self.objects: dict[str, str] | Path = folder / "data" / "objects"
        self.database = f"sqlite:///{folder / 'data' / 'service.db'}"
        shared: dict[str, str] = {}
        if store == "postgresql":
            shared = self._cluster()
        homes = [f"data-{i}" if self.stores else "data" for i in range(5)]
        made = [servers.api(folder, i, settings(folder, homes[i], **shared)) for i in range(2)]
        self.apis, self.urls = [server for server, _ in made], [url for _, url in made]
        self.runners = [servers.runner(folder, i, settings(folder, homes[2 + i], **shared)) for i in range(3)]

    def _cluster(self) -> dict[str, str]:
        database, self.database = servers.postgres(self.folder)
        objects, self.objects = servers.seaweed(self.folder)
        self.stores = [database, objects]
        shared = {**self.objects, "POSTFIT_DATABASE": self.database, "POSTFIT_OBJECTS": "s3://postfit/campaign"}
        dask = settings(self.folder, "dask", **shared)
        scheduler, self.workers, address = servers.dask(self.folder, 2, dask)
        self.engines = [scheduler]
        return {**shared, "POSTFIT_DASK": address}

    def everything(self) -> list[servers.Server]:
        """In the order in which they start."""
        return [*self.stores, *self.engines, *self.workers, *self.apis, *self.runners]

    def start(self) -> None:
        """Start all of it."""
        for server in self.everything():
            server.start()
            if server in self.stores:
                server.ready()
        for server in [*self.apis, *self.engines]:
            server.ready()

    def revive(self) -> None:
        """Start what has ended, the workers of a scheduler that died too."""
        for server in self.everything():
            if not server.alive():
                server.start()
        for server in [*self.stores, *self.apis]:
            server.ready()

    def stop(self) -> dict[str, int | None]:
        """End all of it, the service first; exit codes."""
        codes = {server.name: server.end(30.0) for server in [*self.runners, *self.apis]}
        for server in [*self.workers, *self.engines, *self.stores]:
            server.signal(9)
            server.kill()
        return codes


def run(
    folder: Path, store: str, jobs: int, seconds: float, seed: int, pause: tuple[float, float] = (0.3, 1.5)
) -> dict[str, Any]:
    """One campaign with so many seconds of faults; the report, whose `wrong` should be empty."""
    world, began = World(folder, store), time.monotonic()
    try:
        world.start()
        clients = Clients(world.urls, seed)
        tables = clients.tables()
        chaos = Chaos(world.runners, world.apis, world.stores, world.engines, seed, seconds, pause)
        chaos.start()
        try:
            clients.submit(jobs, THREADS, tables, spread=bool(world.engines))
            chaos.wait()
        finally:
            chaos.stop()
        world.revive()
        ended = settled(clients, 600.0)
        verdict = judge(clients, world.database, world.objects)
    finally:
        codes = world.stop()
    deadline = time.monotonic() + 3.0
    while leftovers(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    wrong = list(verdict.wrong) if ended else ["not every job ended", *verdict.wrong]
    wrong += [f"still running: {text}" for text in leftovers(folder)]
    wrong += [f"{name} ended with {code} at SIGTERM" for name, code in codes.items() if code != 0]
    return {
        "store": store, "seed": seed, "accepted": len(clients.promises), "seconds": round(time.monotonic() - began, 1),
        "states": dict(verdict.states), "attempts": dict(sorted(verdict.attempts.items())), "ends": dict(verdict.ends),
        "artifacts_verified": verdict.artifacts, "orphan_objects": verdict.orphans,
        "broken": dict(sorted(chaos.done.items())), "answers": dict(clients.answers), "wrong": wrong,
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign")
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="leave the folder with its logs")
    given = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="campaign-"))
    report = run(folder, given.store, given.jobs, 60 * given.minutes, given.seed)
    if not given.keep and not report["wrong"]:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        report["folder"] = str(folder)
    json.dump(report, sys.stdout, indent=2)
    return int(bool(report["wrong"]))


if __name__ == "__main__":
    sys.exit(main())
