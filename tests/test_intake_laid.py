"""An Arrow file made around columns that lie in it: read back by Arrow, as a file and as a stream."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from service.intake.findings import ReadOptions, one_chunk
from service.intake.laid import room_for
from service.intake.read import read
from service.intake.store import Store
from service.usecases.tablefiles import write_mapped

ROWS = 3000


def stored(folder, columns, missing=0.0, waste=0):
    """A file with columns of numbers, in two blocks."""
    r = np.random.default_rng(columns)
    numbers = r.integers(-(2**62), 2**62, (columns, ROWS))
    marks = (r.random((columns, ROWS)) >= missing).astype(np.uint8)
    store = Store(folder / "laid.numbers", room_for([f"column {j}" for j in range(columns + 6)]), ROWS + waste)
    with store.of(columns):
        store.add(numbers, marks, 1001)
        store.add(numbers[:, 1001:], marks[:, 1001:], ROWS - 1001)
        arrays = [store.column(j, pa.int64() if j % 2 else pa.float64()) for j in range(columns)]
    return arrays, store.laid()


def others():
    """Columns that lie elsewhere, of every type that tables have."""
    some = np.arange(ROWS) % 3 == 0
    return {
        "text": pa.array([f"é{i}" for i in range(ROWS)], mask=some),
        "long": pa.array([f"z{i}" for i in range(ROWS)], pa.large_string()),
        "flag": pa.array(np.arange(ROWS) % 2 == 0, mask=some),
        "day": pa.array(np.arange(ROWS, dtype="int32"), pa.date32()),
        "time": pa.array(np.arange(ROWS), pa.timestamp("us", "UTC"), mask=some),
        "none": pa.nulls(ROWS, pa.float64()),
    }


@pytest.mark.parametrize("missing", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("columns", [30, 41])
def test_arrow_reads_the_file_and_the_stream(tmp_path, columns, missing):
    arrays, laid = stored(tmp_path, columns, missing)
    table = pa.table({f"column {j}": array for j, array in enumerate(arrays)} | others())
    wanted = pa.table({name: pa.array(table[name].to_pylist(), table[name].type) for name in table.column_names})
    inode, target = laid.path.stat().st_ino, tmp_path / "table.arrow"
    write_mapped(table, target, laid)
    assert target.stat().st_ino == inode
    assert not laid.path.exists()
    back = pa.ipc.open_file(pa.memory_map(str(target))).read_all()
    back.validate(full=True)
    assert back.schema.equals(table.schema)
    assert all(column.num_chunks == 1 for column in back.columns)
    for name in table.column_names:
        bits = [one_chunk(t[name]) for t in (wanted, back, table)]
        assert bits[0].null_count == bits[1].null_count
        assert _same_bits(*bits[:2])
        assert all(buffer is None or buffer.address % 64 == 0 for buffer in bits[1].buffers())
    with target.open("rb") as file:
        file.seek(8)  # behind the mark of files
        streamed = pa.ipc.open_stream(file).read_all()
    assert all(_same_bits(one_chunk(a), one_chunk(b)) for a, b in zip(streamed.columns, back.columns, strict=True))


def _same_bits(a, b):
    """Equal as their bytes are: random bits may be NaN."""
    if not pa.types.is_floating(a.type):
        return a.equals(b)
    valid = np.asarray(a.is_valid())
    views = [np.frombuffer(x.buffers()[1], np.int64)[: len(x)] for x in (a, b)]
    return np.array_equal(valid, np.asarray(b.is_valid())) and np.array_equal(views[0][valid], views[1][valid])


@pytest.mark.parametrize("case", ["few columns", "slices", "gone", "long names", "unused rows"])
def test_a_file_that_does_not_suit_is_left_and_the_table_copied(tmp_path, case):
    arrays, laid = stored(tmp_path, 20, 0.1, waste=2 * ROWS if case == "unused rows" else 0)
    names = [f"column {j}" * (5000 if case == "long names" else 1) for j in range(20)]
    table = pa.table(dict(zip(names, arrays, strict=True)))
    table = table.select(names[:5]) if case == "few columns" else table.slice(1) if case == "slices" else table
    wanted = table.to_pydict()
    if case == "gone":
        laid.path.unlink()
    target = tmp_path / "table.arrow"
    write_mapped(table, target, laid)
    back = pa.ipc.open_file(str(target)).read_all()
    assert repr(back.to_pydict()) == repr(wanted)
    assert laid.path.exists() == (case != "gone")


def test_a_large_upload_lies_in_its_file_already(tmp_path):
    r = np.random.default_rng(0)
    lines = [f"{a!r},{b!r},{i},t{i % 9}" for i, (a, b) in enumerate(r.normal(size=(130_000, 2)).round(15).tolist())]
    (tmp_path / "t.csv").write_text("a,b,c,d\n" + "\n".join(lines) + "\n")
    work = tmp_path / "work"
    work.mkdir()
    got = read(tmp_path / "t.csv", ReadOptions(), work, 1 << 30)
    assert got.laid is not None
    wanted = got.table.to_pydict()
    inode = got.laid.path.stat().st_ino
    write_mapped(got.table, tmp_path / "t.arrow", got.laid)
    assert (tmp_path / "t.arrow").stat().st_ino == inode
    back = pa.ipc.open_file(pa.memory_map(str(tmp_path / "t.arrow"))).read_all()
    back.validate(full=True)
    assert back.to_pydict() == wanted
    assert back.schema.equals(got.table.schema)
