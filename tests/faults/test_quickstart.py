"""The first command of the README from its prompt to its end."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.faults.bench import ROOT, eventually, gone
from tests.faults.service import FIT_SECONDS, START_SECONDS, command, environ, free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the runner uses prctl, /proc and flock of Linux"),
]

PROGRAM = (sys.executable, "-m", "service")


def test_the_tour_shows_predictions_certificates_and_the_way_on(tmp_path: Path) -> None:
    port = free_port()
    out = subprocess.run(
        [*PROGRAM, "--data", str(tmp_path / "data"), "quickstart", "--exit", "--port", str(port)],
        env=environ(), cwd=ROOT, capture_output=True, text=True, timeout=FIT_SECONDS, check=False,
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    assert out.stderr == ""
    assert "\r" not in out.stdout
    assert "\x1b" not in out.stdout
    assert re.search(r"^\[#{40}\] 100%  succeeded, fit 6 of 6, 300 of 300 trees$", out.stdout, re.M)
    head, *rows = re.search(r"^  prediction.*\n(?:  \w+ .*\n){3}", out.stdout, re.M).group().splitlines()  # type: ignore[union-attr]
    assert head.split() == ["prediction", "P(Adelie)", "P(Chinstrap)", "P(Gentoo)"]
    for row in rows:
        label, *shares = row.split()
        assert sum(map(float, shares)) == pytest.approx(1.0, abs=2e-3)
        assert max(zip(map(float, shares), ("Adelie", "Chinstrap", "Gentoo"), strict=True))[1] == label
    assert out.stdout.count("[holds]") >= 4
    assert "FAILS" not in out.stdout
    assert out.stdout.splitlines()[-1].strip() == f"http://127.0.0.1:{port}/docs"
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_a_port_in_use_says_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        out = command("--data", str(tmp_path / "data"), "quickstart", "--port", str(port))
    assert out.returncode == 1
    assert f"Port {port}" in out.stderr
    assert f"--port {port + 1}" in out.stderr
    assert out.stdout == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_with_everything_it_started(tmp_path: Path, number: signal.Signals) -> None:
    tour = subprocess.Popen(
        [*PROGRAM, "--data", str(tmp_path / "data"), "quickstart", "--port", str(free_port())],
        env=environ(), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    family: list[psutil.Process] = []

    def started() -> bool:
        assert tour.poll() is None
        family[:] = psutil.Process(tour.pid).children(recursive=True)
        return len(family) >= 3

    eventually(started, START_SECONDS)
    tour.send_signal(number)
    said, complained = tour.communicate(timeout=START_SECONDS)  # kernels may have to be compiled first
    assert tour.returncode == 0, complained
    assert complained == ""
    assert said.endswith("Stopping the service …\n")
    assert all(gone(p.pid) for p in family)


def test_beyond_loopback_the_tour_makes_a_key_and_takes_it_back(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    out = subprocess.run(
        [*PROGRAM, *data, "quickstart", "--exit", "--host", "0.0.0.0", "--port", str(free_port())],
        env=environ(), cwd=ROOT, capture_output=True, text=True, timeout=FIT_SECONDS, check=False,
    )  # fmt: skip
    assert out.returncode == 0, out.stdout + out.stderr
    assert re.search(r"^Key      pf_\S+ ", out.stdout, re.M)
    assert out.stdout.count("[holds]") >= 4
    assert command(*data, "keys", "list").stdout == ""
