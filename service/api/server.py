"""Runs the application under uvicorn."""

from __future__ import annotations

import gc
import logging
import os
import signal
import tempfile

import uvicorn

from service.api.app import create_asgi
from service.container import build
from service.runner.embedded import Embedded
from service.settings import Settings


def serve(settings: Settings) -> int:
    """Serve until a signal comes; the embedded worker lives and dies with this process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)  # uvicorn raises it again after shutting down: being asked is no failure
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    services = build(settings)
    tempfile.tempdir = str(services.objects.scratch())  # parts of forms go to the data disk; /tmp may be memory
    app = create_asgi(services, Embedded(settings))
    config = uvicorn.Config(app, host=settings.host, port=settings.port, access_log=False, log_level="warning",
                            timeout_graceful_shutdown=10, server_header=False, proxy_headers=False)  # fmt: skip
    logging.getLogger("postfit").info("serving on http://%s:%d, documentation at /docs", settings.host, settings.port)
    gc.collect()
    gc.freeze()  # what is loaded by now stays; the collector need not walk through it again and again
    uvicorn.Server(config).run()
    return 0


def _leave(number: int, frame: object) -> None:
    raise SystemExit(0)
