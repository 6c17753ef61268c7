"""What the runner asks of Linux."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from service.runner.process import children, descendants
from tests.faults.bench import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and calls madvise of Linux")
DROP = """
import numpy, scipy.linalg, scipy.special
from service.runner.process import drop_file_pages, status_bytes
a = numpy.arange(16.0).reshape(4, 4) + 9 * numpy.eye(4)
def answer():
    return scipy.linalg.solve(a, numpy.ones(4)).tolist(), float(scipy.special.gammaln(7.5))
before, held, own = answer(), status_bytes("self", "RssFile"), status_bytes("self", "RssAnon")
drop_file_pages()
print(status_bytes("self", "RssFile") / held, status_bytes("self", "RssAnon") >= own, answer() == before)
"""


def test_dropped_pages_of_libraries_come_back_and_written_ones_stay() -> None:
    done = subprocess.run([sys.executable, "-c", DROP], cwd=ROOT, check=True, capture_output=True, text=True)
    left, kept, same = done.stdout.split()
    assert float(left) < 0.6
    assert (kept, same) == ("True", "True")


def test_a_process_that_ends_while_its_children_are_looked_for_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a campaign found it: there at the first look, gone at the second."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    monkeypatch.setattr(psutil, "pid_exists", lambda pid: True)
    assert children(ended.pid) == []
    assert descendants(ended.pid) == []
