"""A short fault campaign on one machine and on a small cluster; the long one is `python -m tests.campaign`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests.campaign.__main__ import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the runner uses prctl, /proc and flock of Linux"),
]


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_accepted_work_survives_what_dies(store: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="campaign-"))  # not pytest's: PostgreSQL's own user must reach it
    report = run(folder, store, jobs=20, seconds=15.0, seed=3, pause=(0.5, 2.0))
    assert not report["wrong"], report
    assert report["accepted"] == 20
    assert sum(report["broken"].values()) >= 5
    shutil.rmtree(folder)
