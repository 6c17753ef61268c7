"""The sparse text format of LIBSVM: `label [qid:k] index:value …`; what is not listed is 0."""

from __future__ import annotations

import math
from array import array
from pathlib import Path

import numpy as np
import pyarrow as pa

from service.errors import Invalid, Issue, TooLarge
from service.intake.canonical import canonical
from service.intake.decoding import as_utf8
from service.intake.findings import MAX_COLUMNS, MAX_REJECTS, ReadOptions, Shelf, Typed

EXACT = 2.0**53
DIGITS = 15
Entries = tuple["array[int]", "array[int]", "array[float]"]


def read_libsvm(path: Path, options: ReadOptions, shelf: Shelf, cap: int) -> tuple[list[str], list[Typed], int]:
    """Columns `label`, `qid` where given, `x1` … `xd` by index (`x0` too when an index is 0), and rows left out."""
    labels, groups, issues, rows = array("d"), array("q"), [], 0
    entries: Entries = (array("q"), array("q"), array("d"))
    plain, _, _ = as_utf8(path, options.encoding, shelf.folder)
    with plain.open(encoding="utf-8-sig") as source:
        for number, line in enumerate(source, start=1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            reason = _take(words, rows, labels, groups, entries)
            if reason is None:
                rows += 1
                continue
            issues.append(Issue(f"/file/line/{number}", "bad_row", f"Line {number}: {reason}: {line.strip()[:200]}"))
            if len(issues) >= MAX_REJECTS and options.on_error != "skip":
                break
    if issues and options.on_error != "skip":
        raise Invalid(issues[0].detail, issues=tuple(issues))
    names, columns = _columns(labels, groups, entries, cap)
    typed = [canonical(name, pa.array(column)) for name, column in zip(names, columns, strict=True)]
    return names, [Typed(shelf.keep(t.array), t.type, t.warnings, t.explicit) for t in typed], len(issues)


def _take(words: list[str], row: int, labels: array[float], groups: array[int], entries: Entries) -> str | None:
    """Append one row; why it cannot be read, in which case nothing of it is kept."""
    try:
        label, pairs = _number(words[0]), [word.split(":", 1) for word in words[1:]]
        group = [_whole(value) for name, value in pairs if name == "qid"]
        places = [(_whole(name), _number(value)) for name, value in pairs if name != "qid"]
    except ValueError:
        return "it is not `label index:value …` in finite numbers"
    indices = [place for place, _ in places]
    if any(not 0 <= place < MAX_COLUMNS for place in indices):
        return f"an index is not within 0 and {MAX_COLUMNS - 1}"
    if len(set(indices)) < len(indices):
        return "an index stands twice"
    if len(group) > 1 or any(not 0 <= number < 2**63 for number in group):
        return "it has no single qid from 0 to 2^63 - 1"
    if row and bool(group) != (groups[0] >= 0):
        return "either all rows have a qid or none"
    if any(map(_rounded, (words[0], *(value for name, value in pairs if name != "qid")))):
        return "a whole number has more digits than a double holds; CSV keeps them"
    labels.append(label)
    groups.append(group[0] if group else -1)
    entries[0].extend([row] * len(places))
    entries[1].extend(indices)
    entries[2].extend([value for _, value in places])
    return None


def _number(word: str) -> float:
    """A finite decimal number; ValueError for what Python reads beyond that."""
    value = float(word)
    if not (math.isfinite(value) and word.isascii()) or "_" in word:
        raise ValueError(word)
    return value


def _rounded(word: str) -> bool:
    """Whether it is a whole number that is no double."""
    return len(word) > DIGITS and word.lstrip("+-").isdecimal() and int(word) != int(float(word))


def _whole(word: str) -> int:
    if not (word.isascii() and word.isdecimal()):
        raise ValueError(word)
    return int(word[:20])


def _columns(
    labels: array[float], groups: array[int], entries: Entries, cap: int
) -> tuple[list[str], list[np.ndarray]]:
    rows, places, values = (np.asarray(part) for part in entries)
    n, first, last = len(labels), int((places == 0).any()) ^ 1, int(places.max(initial=0))
    if 8 * n * (last + 1) > cap:
        raise TooLarge(f"{n} rows of {last} columns are {8 * n * last} bytes as a table; the limit is {cap}.")
    target = np.asarray(labels)
    whole = n > 0 and bool(np.all((target == np.rint(target)) & (np.abs(target) < EXACT)))
    names, columns = ["label"], [target.astype(np.int64) if whole else target]
    if any(g != -1 for g in groups):
        names, columns = [*names, "qid"], [*columns, np.asarray(groups)]
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], np.arange(first, last + 2))
    for j in range(first, last + 1):
        of_column = order[ends[j - first] : ends[j - first + 1]]
        column = np.zeros(n)
        column[rows[of_column]] = values[of_column]
        names.append(f"x{j}")
        columns.append(column)
    return names, columns
