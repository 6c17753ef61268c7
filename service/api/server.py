"""Runs the application under uvicorn."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import tempfile
import threading
import time
from math import ceil

import uvicorn

from service.api.app import create_asgi
from service.api.drain import Drain
from service.container import Services, build
from service.errors import NotReady
from service.runner.embedded import Embedded
from service.settings import Settings

DRAIN_SECONDS = 10
LEAVE_SECONDS = 2.0
AWAY_SECONDS = 1.0
log = logging.getLogger("postfit")


class Server(uvicorn.Server):
    """uvicorn that tells the application before it waits for the requests under way."""

    def __init__(self, config: uvicorn.Config, drain: Drain) -> None:
        super().__init__(config)
        self.drain = drain

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse new connections, end waits, let the other requests finish, stop the runner."""
        self.drain.begin()
        await super().shutdown(sockets)
        threading.Thread(target=_abandon, name="abandon", daemon=True).start()


def drain_seconds(settings: Settings) -> int:
    """How long a server that ends waits for the requests under way."""
    return min(DRAIN_SECONDS, ceil(settings.grace_seconds))


def serve(settings: Settings) -> int:
    """Serve until a signal comes; the embedded worker lives and dies with this process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)  # uvicorn raises it again after shutting down: being asked is no failure
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    services = opened(settings)
    tempfile.tempdir = str(services.objects.scratch())  # parts of forms go to the data disk; /tmp may be memory
    drain = Drain()
    app = create_asgi(services, Embedded(settings) if settings.runner == "embedded" else None, drain)
    config = uvicorn.Config(app, host=settings.host, port=settings.port, access_log=False, log_level="warning",
                            timeout_graceful_shutdown=drain_seconds(settings), server_header=False,
                            proxy_headers=False)  # fmt: skip
    log.info("serving on http://%s:%d, documentation at /docs", settings.host, settings.port)
    gc.collect()
    gc.freeze()  # what is loaded by now stays; the collector need not walk through it again and again
    Server(config, drain).run()
    return 0


def opened(settings: Settings) -> Services:
    """The services once the database answers; a server that starts before its database waits for it."""
    while True:
        try:
            return build(settings)
        except NotReady as away:
            log.warning("not serving yet: %s", away)
            time.sleep(AWAY_SECONDS)


def _abandon() -> None:
    """End the process though threads still compute: they cannot be stopped otherwise, and Python waits for them."""
    time.sleep(LEAVE_SECONDS)
    log.warning("requests that still compute are abandoned")
    os._exit(0)


def _leave(number: int, frame: object) -> None:
    raise SystemExit(0)
