"""Real servers for tests, each with its own folder and free ports, gone at the end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

START_SECONDS = 90.0
BUCKET = "postfit"
ACCESS, SECRET = "tester", "tester-secret"
PARTS = ("master", "volume", "filer", "s3")


@dataclass
class Seaweed:
    """A running SeaweedFS: `url` for POSTFIT_OBJECTS, `env` with the AWS_… variables that reach it."""

    url: str
    env: dict[str, str]
    command: list[str]
    log: Path
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """Freeze it: connections are taken, nothing answers."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once and wait for its ports."""
        self.process.kill()
        self.process.wait()

    def start(self) -> None:
        """Start it again on the same folder and ports; returns when it takes writes."""
        self.process = _launch(self.command, self.log)
        _until_written(self)


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now, all different."""
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(count)]
        for s in taken:
            s.bind(("127.0.0.1", 0))
        return [int(s.getsockname()[1]) for s in taken]


def seaweed_command(folder: Path) -> tuple[list[str], dict[str, str]]:
    """How to start a SeaweedFS that keeps its data below `folder`, and the variables with which to reach it."""
    data, identities = folder / "seaweed", folder / "identities.json"
    data.mkdir(parents=True, exist_ok=True)
    identities.write_text(json.dumps({"identities": [{
        "name": ACCESS, "credentials": [{"accessKey": ACCESS, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "List", "Tagging", "Write"]}]}))  # fmt: skip
    ports = free_ports(2 * len(PARTS))
    flags = {"ip": "127.0.0.1", "ip.bind": "127.0.0.1", "dir": str(data), "s3.config": str(identities),
             "s3.port.iceberg": "0", "s3.port.lance": "0", "volume.max": "20",
             "master.volumeSizeLimitMB": "64"}  # fmt: skip
    for i, name in enumerate(PARTS):
        flags |= {f"{name}.port": str(ports[2 * i]), f"{name}.port.grpc": str(ports[2 * i + 1])}
    weed = str(Path(sys.executable).with_name("weed"))
    command = [weed, "server", "-filer", "-s3", *(f"-{name}={value}" for name, value in flags.items())]
    return command, {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{flags['s3.port']}", "AWS_ACCESS_KEY_ID": ACCESS,
        "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true",
    }  # fmt: skip


@contextmanager
def seaweed(folder: Path) -> Iterator[Seaweed]:
    """A SeaweedFS that takes writes; killed at the end."""
    command, env = seaweed_command(folder)
    log = folder / "seaweed.log"
    server = Seaweed(f"s3://{BUCKET}/test", env, command, log, _launch(command, log))
    try:
        _until_written(server)
        yield server
    finally:
        server.resume()
        server.kill()


def _launch(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as sink:
        return subprocess.Popen(command, cwd=log.parent, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)


def _until_written(server: Seaweed) -> None:
    env = server.env
    store = S3Store(
        BUCKET, endpoint=env["AWS_ENDPOINT_URL"], access_key_id=ACCESS, secret_access_key=SECRET,
        region=env["AWS_REGION"], client_options={"allow_http": True, "timeout": "5s"}, retry_config={"max_retries": 0},
    )  # fmt: skip
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            obstore.put(store, "started", os.urandom(8))
            return
        except BaseError as refused:
            assert server.process.poll() is None, f"SeaweedFS ended: {server.log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"SeaweedFS takes no writes: {refused}"
            time.sleep(0.05)
