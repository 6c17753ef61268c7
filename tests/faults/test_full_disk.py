"""A real service whose data folder is on a disk of few megabytes: what does not fit is refused and nothing breaks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.faults.bench import eventually
from tests.faults.service import Served, table

pytestmark = pytest.mark.slow
MEGABYTE = 1 << 20
DISK = 48 * MEGABYTE


def not_mountable(folder: Path) -> str | None:
    """Why no disk can be mounted here, or None when one can."""
    try:
        with small_disk(folder, MEGABYTE):
            return None
    except (OSError, subprocess.CalledProcessError) as refused:
        return f"a small disk cannot be mounted: {refused}"


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A file system in memory of so many bytes."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def free(folder: Path) -> int:
    known = os.statvfs(folder)
    return known.f_bavail * known.f_frsize


def fill(folder: Path, leave: int) -> Path:
    """Take the room of the disk, but for so many bytes."""
    ballast = folder / "ballast"
    with ballast.open("ab") as sink:
        os.posix_fallocate(sink.fileno(), 0, ballast.stat().st_size + max(1, free(folder) - leave))
    return ballast


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("full")
    if sys.platform != "linux":
        pytest.skip("the runner uses prctl, /proc and flock of Linux")
    if reason := not_mountable(folder / "probe"):
        pytest.skip(reason)
    with small_disk(folder / "disk", DISK) as disk:
        served = Served(disk / "data", POSTFIT_MAX_ENGINE_LOSSES="2")
        try:
            eventually(served.ready)
            yield served
        finally:
            assert served.stop() == 0


@pytest.fixture
def disk(served: Served) -> Iterator[Path]:
    """The disk, which has room again afterwards."""
    folder = served.log.parent
    try:
        yield folder
    finally:
        (folder / "ballast").unlink(missing_ok=True)


def objects(disk: Path) -> set[str]:
    """Everything below the stores, finished or not."""
    roots = [disk / "data" / name for name in ("objects", "cache")]
    return {str(path) for root in roots for path in root.rglob("*") if path.is_file()}


def wide(rows: int, columns: int) -> str:
    """A CSV of normal numbers, whose model is large for its table."""
    values = np.random.default_rng(3).normal(size=(rows, columns)).round(5).tolist()
    head = ",".join([*(f"x{j}" for j in range(columns - 1)), "y"])
    return "\n".join([head, *(",".join(map(str, row)) for row in values)])


def healthy(served: Served) -> None:
    eventually(served.ready)
    small = served.upload(table(30), "small")
    assert served.http.get(f"/v1/datasets/{small}/rows").json()["total"] == 30
    job = served.ended(served.fit("quadratic_discriminant_analysis", small)["job"])
    assert job["state"] == "succeeded", job
    assert served.http.delete(f"/v1/datasets/{small}").status_code == 204


def test_an_upload_larger_than_the_disk_is_refused_whole(served: Served, disk: Path) -> None:
    """What does not fit as it comes, and what fits as it comes but not as a table."""
    line = ",".join(f"0.{j}234567" for j in range(10)) + "\n"
    before, listed = objects(disk), served.http.get("/v1/datasets").json()
    ballast = fill(disk, DISK // 4)
    for size in (DISK // 2, DISK // 5):
        answer = served.http.post("/v1/datasets", content=(line * (size // len(line))).encode())
        assert answer.status_code == 507, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["type"] == "/problems/storage-full"
        assert objects(disk) == before
        assert served.http.get("/v1/datasets").json() == listed
    assert served.http.get("/v1/health/live").status_code == 200
    ballast.unlink()
    healthy(served)


def test_a_model_that_does_not_fit_fails_its_job_with_the_cause(served: Served, disk: Path) -> None:
    name = served.upload(wide(320, 300), "wide")
    before = objects(disk)
    ballast = fill(disk, MEGABYTE)
    model = served.fit("linear_regression", name)  # of 1.5 MB
    job = served.ended(model["job"])
    assert (job["state"], job["error"]["code"]) == ("failed", "engine_lost"), job
    assert "disk is full" in job["error"]["detail"]
    assert job["attempts"] <= 1, "a loss of the store is no crash"
    assert served.http.get(f"/v1/models/{model['id']}").json()["state"] == "failed"
    assert objects(disk) == before
    ballast.unlink()
    job = served.ended(served.fit("linear_regression", name)["job"])
    assert job["state"] == "succeeded", job
    healthy(served)


def test_a_database_that_cannot_grow_refuses_writes_and_answers_reads(served: Served, disk: Path) -> None:
    name = served.upload(table(30), "kept")
    here, said = f"/v1/datasets/{name}", ""
    ballast = fill(disk, MEGABYTE)
    for number in range(2000):
        text = f"{number} " + "x" * 9_000
        answer = served.http.patch(here, json={"description": text})
        if answer.status_code != 200:
            break
        said = text
    assert answer.status_code in (507, 503), answer.text
    assert answer.json()["type"] in ("/problems/storage-full", "/problems/not-ready")
    assert served.http.get(here).json()["description"] == said
    assert served.http.post("/v1/datasets", content=b"a,b\n1,2\n").status_code in (507, 503)
    ballast.unlink()
    assert served.http.patch(here, json={"description": "room"}).status_code == 200
    assert served.http.get(here).json()["description"] == "room"
    healthy(served)
