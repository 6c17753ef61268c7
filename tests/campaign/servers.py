"""Everything a campaign runs, as processes that can be killed, stopped, resumed and started again."""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

ROOT = Path(__file__).parent.parent.parent
START_SECONDS = 90.0


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def wait(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Return when the condition holds; AssertionError after so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:g} s"
        time.sleep(0.05)


@dataclass
class Server:
    """One process (with its descendants) and how to start it again."""

    name: str
    command: list[str]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    probe: Callable[[], bool] | None = None
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0

    def start(self) -> Server:
        """Start the process."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("POSTFIT_", "AWS_"))}
        with self.log.open("ab") as sink:
            self.process = subprocess.Popen(
                self.command, env={**clean, **self.env}, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
            )
        self.starts += 1
        return self

    def ready(self, seconds: float = START_SECONDS) -> Server:
        """Wait until it answers; one that ends meanwhile is started again."""

        def answers() -> bool:
            if not self.alive():
                self.start()
            return self.probe is None or self.probe()

        wait(answers, seconds, f"{self.name} ready")
        return self

    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.poll() is None

    def family(self) -> list[psutil.Process]:
        """The process and its descendants."""
        if self.process is None or not self.alive():
            return []
        try:
            own = psutil.Process(self.process.pid)
            return [own, *own.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def signal(self, number: int, *, whole: bool = True) -> None:
        """Send a signal to the process, or to all of its family."""
        for member in self.family() if whole else self.family()[:1]:
            try:
                member.send_signal(number)
            except psutil.NoSuchProcess:
                continue

    def kill(self) -> None:
        """SIGKILL the process itself, as the kernel or an operator would; its descendants are its own affair."""
        if self.process is not None and self.alive():
            self.process.kill()
            self.process.wait()

    def end(self, seconds: float = 60.0) -> int | None:
        """SIGTERM, then wait; the exit code, None when it had to be killed."""
        if self.process is None or not self.alive():
            return None
        self.signal(signal.SIGCONT)
        self.process.terminate()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None


def reaches(url: str) -> Callable[[], bool]:
    """A probe: does the address answer with 200?"""

    def probe() -> bool:
        try:
            return httpx.get(url, timeout=2.0).status_code == 200
        except httpx.TransportError:
            return False

    return probe


def listens(port: int) -> Callable[[], bool]:
    """A probe: does somebody take connections on the port?"""

    def probe() -> bool:
        with socket.socket() as s:
            s.settimeout(1.0)
            return s.connect_ex(("127.0.0.1", port)) == 0

    return probe


def postgres(folder: Path) -> tuple[Server, str]:
    """A PostgreSQL of the campaign's own, and its SQLAlchemy URL."""
    (binaries,) = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1:]
    owner, data, port = pwd.getpwnam("postgres"), folder / "postgres", free_port()
    data.mkdir()
    for above in (data, *folder.parents):
        if os.stat(above).st_uid == os.getuid() and above != Path("/"):
            above.chmod(above.stat().st_mode | 0o011)
    folder.chmod(folder.stat().st_mode | 0o055)
    os.chown(data, owner.pw_uid, owner.pw_gid)
    act = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
    subprocess.run([*act, f"{binaries}/initdb", "-D", str(data), "-A", "trust", "--no-sync"], check=True,
                   capture_output=True, cwd="/")  # fmt: skip
    command = [*act, f"{binaries}/postgres", "-D", str(data), "-p", str(port), "-k", str(data), "-c",
               "listen_addresses=127.0.0.1", "-c", "max_connections=200"]  # fmt: skip
    server = Server("postgres", command, folder / "postgres.log", probe=listens(port))
    return server, f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres"


def seaweed(folder: Path) -> tuple[Server, dict[str, str]]:
    """A SeaweedFS, and the variables with which the service reaches its bucket."""
    data, access, secret = folder / "seaweed", "campaign", "campaign-secret"
    data.mkdir()
    ports = {name: free_port() for name in ("master", "volume", "filer", "s3")}
    grpc = {f"{name}.port.grpc": free_port() for name in ports}
    identities = folder / "identities.json"
    identities.write_text(json.dumps({"identities": [{
        "name": access, "credentials": [{"accessKey": access, "secretKey": secret}],
        "actions": ["Admin", "Read", "List", "Tagging", "Write"]}]}))  # fmt: skip
    flags = {"ip": "127.0.0.1", "ip.bind": "127.0.0.1", "dir": str(data), "s3.config": str(identities),
             "s3.port.iceberg": "0", "s3.port.lance": "0", "volume.max": "20",
             "master.volumeSizeLimitMB": "64"}  # fmt: skip
    flags |= {f"{name}.port": str(port) for name, port in ports.items()} | {k: str(v) for k, v in grpc.items()}
    weed = Path(sys.executable).with_name("weed")
    command = [str(weed), "server", "-filer", "-s3", *(f"-{name}={value}" for name, value in flags.items())]
    env = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{ports['s3']}", "AWS_ACCESS_KEY_ID": access,
           "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}  # fmt: skip
    return Server("seaweed", command, folder / "seaweed.log", probe=bucket(env)), env


def bucket(env: Mapping[str, str]) -> Callable[[], bool]:
    """A probe: can the bucket be made and written?"""

    def probe() -> bool:
        import obstore
        from obstore.exceptions import BaseError
        from obstore.store import S3Store

        store = S3Store(
            "postfit", endpoint=env["AWS_ENDPOINT_URL"], access_key_id=env["AWS_ACCESS_KEY_ID"],
            secret_access_key=env["AWS_SECRET_ACCESS_KEY"], region="us-east-1",
            client_options={"allow_http": True, "timeout": "3s"}, retry_config={"max_retries": 0},
        )  # fmt: skip
        try:
            made = httpx.put(f"{env['AWS_ENDPOINT_URL']}/postfit", timeout=3.0)
            obstore.put(store, "probe", b"1")
        except (BaseError, httpx.TransportError):
            return False
        return made.status_code < 500

    return probe


def dask(folder: Path, workers: int, env: Mapping[str, str]) -> tuple[Server, list[Server], str]:
    """A Dask scheduler, its one-thread workers, and its address."""
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    tool = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    scheduler = Server("scheduler", [*tool, "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"],
                       folder / "scheduler.log", env, listens(port))  # fmt: skip
    tool = [sys.executable, "-m", "distributed.cli.dask_worker"]
    made = [
        Server(f"dask-worker-{i}", [*tool, address, "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1",
               "--death-timeout", "60", "--preload", "service.dask_worker",
               "--local-directory", str(folder / f"dask-{i}")],
               folder / f"dask-{i}.log", env)
        for i in range(workers)
    ]  # fmt: skip
    return scheduler, made, address


def api(folder: Path, i: int, env: Mapping[str, str]) -> tuple[Server, str]:
    """A server process without a runner, and its address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "service", "serve", "--port", str(port)]
    log = folder / f"api-{i}.log"
    return Server(f"api-{i}", command, log, {**env, "POSTFIT_RUNNER": "none"}, reaches(f"{url}/v1/health/live")), url


def runner(folder: Path, i: int, env: Mapping[str, str]) -> Server:
    """A runner process."""
    return Server(f"runner-{i}", [sys.executable, "-m", "service", "runner"], folder / f"runner-{i}.log", env)
