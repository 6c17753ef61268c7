"""A server that starts before its database waits for it, and ends when it is told to."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests.campaign import servers
from tests.faults.bench import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="starts Debian's PostgreSQL")


def test_a_server_waits_for_its_database() -> None:
    folder = Path(tempfile.mkdtemp(prefix="late-"))
    database, url = servers.postgres(folder)
    env = {"POSTFIT_DATA": str(folder / "data"), "POSTFIT_DATABASE": url}
    api, _ = servers.api(folder, 0, env)
    try:
        api.start()
        eventually(lambda: "not serving yet" in api.log.read_text(), 60.0)
        assert api.alive()
        database.start().ready()
        api.ready()
        assert api.starts == 1
        database.kill()
        assert api.end(20.0) == 0
    finally:
        for server in (api, database):
            server.signal(9)
            server.kill()
    shutil.rmtree(folder)
