"""What the runner asks of Linux: die with the parent, adopt orphans, measure and kill process trees."""

from __future__ import annotations

import ctypes
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil

_SET_PDEATHSIG, _SET_CHILD_SUBREAPER, _MADV_DONTNEED = 1, 36, 4
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int, with_signal: int = signal.SIGKILL) -> None:
    """Ask for a signal when the thread that made this process ends; exit if the parent has gone already."""
    _prctl(_SET_PDEATHSIG, with_signal)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that they can be reaped here."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def drop_file_pages() -> None:
    """Unmap what was read in of libraries on the way: machine code and constants come back from the file when needed.

    Only mappings that cannot be written and have no page of their own (relocations do) are named, so that nothing can
    be lost. A fork server that has loaded its kernels never runs the compiler again, whose code is most of this.
    """
    for field, own in _mappings():
        if field[1] in ("r-xp", "r--p") and len(field) == 6 and field[5].startswith("/") and not own:
            start, end = (int(x, 16) for x in field[0].split("-"))
            _libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED)


def _mappings() -> Iterator[tuple[list[str], int]]:
    """The mappings of this process as `maps` has them, with the kB of each that are no longer those of its file."""
    for block in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(), flags=re.MULTILINE)[1:]:
        own = re.findall(r"^(?:Anonymous|Swap):\s+(\d+) kB", block, flags=re.MULTILINE)
        yield block.partition("\n")[0].split(maxsplit=5), sum(map(int, own))


def status_bytes(pid: int | str, *fields: str) -> int:
    """The sum of fields of /proc/<pid>/status that are given in kB, as bytes; 0 when the process is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    rows = (line.split() for line in text.splitlines())
    return sum(int(row[1]) * 1024 for row in rows if row[0].removesuffix(":") in fields)


def descendants(pid: int) -> list[int]:
    """Every process below pid."""
    found: list[int] = []
    todo = [pid]
    while todo:
        below = children(todo.pop())
        found += below
        todo += below
    return found


def children(pid: int) -> list[int]:
    """The processes whose parent is pid."""
    threads = Path(f"/proc/{pid}/task")
    try:
        texts = [(thread / "children").read_text() for thread in threads.iterdir()]
    except (FileNotFoundError, ProcessLookupError):  # ended meanwhile, or a kernel without this file
        try:
            return [p.pid for p in psutil.Process(pid).children()]
        except psutil.NoSuchProcess:
            return []
    return [int(number) for text in texts for number in text.split()]


def anonymous_bytes(pid: int) -> int:
    """Memory of the tree that cannot be dropped: anonymous and shared-memory pages. Mapped files do not count."""
    return sum(status_bytes(p, "RssAnon", "RssShmem") for p in (pid, *descendants(pid)))


def kill_tree(pid: int) -> None:
    """SIGKILL the process group of pid and what it started outside of the group."""
    _kill(-pid, pid, *descendants(pid))


def kill_group(pid: int) -> None:
    """SIGKILL what is left of the process group of a leader that has been reaped, whose own number may be reused."""
    _kill(-pid)


def _kill(*targets: int) -> None:
    for target in targets:
        try:
            os.kill(target, signal.SIGKILL)
        except ProcessLookupError:
            continue


def kernel_kills() -> int:
    """How often the kernel killed a process of this control group for lack of memory."""
    for file in (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control")):
        if file.exists():
            counts = dict(line.split() for line in file.read_text().splitlines())
            return int(counts.get("oom_kill", 0))
    return 0
