"""A real Dask scheduler and workers as processes on free ports, which tests may kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from distributed import Client
from distributed.security import Security

from service.settings import Settings
from tests.faults.bench import ROOT, eventually
from tests.servers import free_ports

START_SECONDS = 240.0  # kernels may have to be compiled first, on a busy machine
TTL = "5s"  # a worker that is silent for so long has lost its tasks
CA, CERTIFICATE, KEY = (
    f"DASK_DISTRIBUTED__COMM__TLS__{name}" for name in ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY")
)  # fmt: skip
WARM = "from ml_core.numerics.jit import warm_up; warm_up()"


class Cluster:
    """A scheduler and one-thread workers that share the stores of some settings."""

    def __init__(
        self, folder: Path, settings: Settings, *, workers: int = 2, preload: str = "service.dask_worker",
        tls: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.folder, self.settings, self.preload, self.workers = folder, settings, preload, workers
        self.tls = tls or {}
        (port,) = free_ports(1)
        self.address = f"{'tls' if tls else 'tcp'}://127.0.0.1:{port}"
        self.scheduler = self.start_scheduler()
        self.crew: subprocess.Popen[bytes] | None = None

    def _start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        env = {**os.environ, **self.settings.to_env(), **self.tls, "DASK_DISTRIBUTED__WORKER__DAEMON": "True",
               "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": TTL}  # fmt: skip
        with (self.folder / f"{name}.log").open("ab") as sink:
            return subprocess.Popen([sys.executable, "-m", f"distributed.cli.dask_{name}", *words, "--no-dashboard"],
                                    env=env, cwd=ROOT, stdout=sink, stderr=sink)  # fmt: skip

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        """Start the scheduler on its port."""
        protocol, _, port = self.address.replace("://127.0.0.1", "").partition(":")
        return self._start("scheduler", "--protocol", protocol, "--host", "127.0.0.1", "--port", port)

    def start_workers(self) -> None:
        """Start the workers; returns when all are ready. Kernels are compiled before, once for all of them."""
        if self.preload == "service.dask_worker":  # the other one loads no kernels
            subprocess.run([sys.executable, "-c", WARM], cwd=ROOT, check=True, timeout=START_SECONDS)
        self.crew = self._start(
            "worker", self.address, "--nthreads", "1", "--nworkers", str(self.workers), "--host", "127.0.0.1",
            "--death-timeout", "60", "--local-directory", str(self.folder / "scratch"), "--preload", self.preload,
        )  # fmt: skip
        with self.client() as client:
            eventually(lambda: len(client.nthreads()) == self.workers, START_SECONDS)

    def client(self) -> Client:
        """A client of its own."""
        encrypted = {"tls_ca_file": self.tls[CA], "tls_client_cert": self.tls[CERTIFICATE],
                     "tls_client_key": self.tls[KEY], "require_encryption": True} if self.tls else {}  # fmt: skip
        return Client(self.address, timeout=START_SECONDS, set_as_default=False, security=Security(**encrypted))

    def freeze(self, *, frozen: bool) -> None:
        """Stop the scheduler so that it keeps its connections and says nothing, or let it go on."""
        self.scheduler.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    def lose_scheduler(self) -> None:
        """SIGKILL the scheduler; its workers end by themselves."""
        self.scheduler.kill()
        self.scheduler.wait()

    def restart(self) -> None:
        """Start a scheduler on the same port and the workers anew, as a supervisor would."""
        if self.crew is not None:
            self.crew.wait(START_SECONDS)
        self.scheduler = self.start_scheduler()
        self.start_workers()

    def tasks(self) -> int:
        """How many tasks the scheduler knows."""
        with self.client() as client:
            return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))

    def kill_worker(self) -> None:
        """SIGKILL one worker process; its nanny starts another."""
        with self.client() as client:
            pid = next(iter(client.run(os.getpid).values()))
        psutil.Process(pid).kill()

    @contextmanager
    def frozen_worker(self) -> Iterator[None]:
        """One worker process is stopped for the block, keeps its connections and says nothing."""
        with self.client() as client:
            worker = psutil.Process(next(iter(client.run(os.getpid).values())))
        worker.suspend()
        try:
            yield
        finally:
            with suppress(psutil.NoSuchProcess):  # its nanny has replaced it
                worker.resume()

    def close(self) -> None:
        """End every process."""
        for process in (self.crew, self.scheduler):
            if process is not None:
                family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
                process.kill()
                process.wait()
                for p in family:
                    if p.is_running():
                        p.kill()


def encryption(folder: Path) -> dict[str, str]:
    """Dask's variables for TLS, as docs/cluster.md has them, with a certificate that signs itself."""
    certificate, key = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=postfit",
                    "-keyout", key, "-out", certificate], check=True, capture_output=True)  # fmt: skip
    made = {CA: certificate, "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"}
    for who in ("CLIENT", "SCHEDULER", "WORKER"):
        made |= {CERTIFICATE.replace("CLIENT", who): certificate, KEY.replace("CLIENT", who): key}
    return made


@contextmanager
def running(folder: Path, settings: Settings, **options: object) -> Iterator[Cluster]:
    """A cluster for the block."""
    cluster = Cluster(folder, settings, **options)  # type: ignore[arg-type]
    try:
        cluster.start_workers()
        yield cluster
    finally:
        cluster.close()
