"""Workbooks, NumPy files, ARFF and libsvm: read as the same table in text would be, or refused with the reason."""

from __future__ import annotations

import datetime as dt
import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from service.errors import Invalid, ServiceError, TooLarge
from service.intake.canonical import content_hash
from service.intake.findings import Reading, ReadOptions
from service.intake.read import read

SHARED = Path(__file__).parent / "data"
CAP = 1 << 24
NAMESPACE = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
BOOK, SHEETS = "workbook", "worksheets"
KIND = LINKS + "/" + SHEETS.removesuffix("s")
PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def take(tmp_path: Path, content: bytes | str, cap: int = CAP, **options: object) -> Reading:
    """Read bytes as an upload."""
    path = tmp_path / "upload"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    for old in scratch.iterdir():
        old.unlink()
    return read(path, ReadOptions(**options), scratch, cap)  # type: ignore[arg-type]


def saved(array: np.ndarray) -> bytes:
    sink = io.BytesIO()
    np.save(sink, array)
    return sink.getvalue()


def workbook(rows: str, *, extra: str = "", prolog: str = "") -> bytes:
    """A workbook of two sheets, the first with these rows; style 1 is a date."""
    sink = io.BytesIO()
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="xml" '
        'ContentType="application/xml"/><Default Extension="rels" ContentType='
        '"application/vnd.openxmlformats-package.relationships+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{LINKS}/officeDocument" Target="xl/{BOOK}.xml"/></Relationships>',
        f"xl/{BOOK}.xml": f'{prolog}<workbook {NAMESPACE} xmlns:r="{LINKS}"><sheets><sheet name="first &amp; best" '
        f'sheetId="1" r:id="a"/><sheet name="7" sheetId="2" r:id="b"/></sheets></{BOOK}>',
        f"xl/_rels/{BOOK}.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">'
        f'<Relationship Id="a" Type="{KIND}" Target="{SHEETS}/one.xml"/>'
        f'<Relationship Id="b" Type="{KIND}" Target="/xl/{SHEETS}/two.xml"/>'
        f'<Relationship Id="s" Type="{LINKS}/styles" Target="styles.xml"/></Relationships>',
        "xl/styles.xml": f'<styleSheet {NAMESPACE}><cellXfs count="3"><xf numFmtId="0"/><xf numFmtId="14"/>'
        '<xf numFmtId="22"/></cellXfs></styleSheet>',
        f"xl/{SHEETS}/one.xml": f"<worksheet {NAMESPACE}><sheetData>{rows}</sheetData>{extra}</{SHEETS[:-1]}>",
        f"xl/{SHEETS}/two.xml": f"<worksheet {NAMESPACE}><sheetData>{line(1, 'z')}</sheetData></{SHEETS[:-1]}>",
    }
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return sink.getvalue()


def line(row: int, *cells: object, style: int = 0) -> str:
    """One row; None leaves a cell out, floats and ints are numbers."""
    out = []
    for j, cell in enumerate(cells):
        at = f'r="{chr(65 + j)}{row}"'
        if isinstance(cell, str):
            out.append(f'<c {at} t="inlineStr"><is><t>{cell}</t></is></c>')
        elif cell is not None:
            out.append(f'<c {at} s="{style}"><v>{cell!r}</v></c>')
    return f'<row r="{row}">{"".join(out)}</row>'


def test_a_sheet_is_read_as_the_same_text(tmp_path):
    rows = line(1, "a", "b", "code") + line(2, 1, 0.1, "007") + line(3, None, -2.5e-7, "012") + line(4, 3, 1e21, "100")
    sheet = take(tmp_path, workbook(rows))
    text = take(tmp_path, "a,b,code\n1,0.1,007\n,-2.5e-7,012\n3,1e21,100\n")
    assert sheet.types == text.types == ("integer", "number", "category")
    assert content_hash(sheet.table) == content_hash(text.table)
    assert sheet.source["sheet"] == "first & best"


def test_dates_and_times_of_a_sheet(tmp_path):
    rows = line(1, "day") + line(2, 45292, style=1) + line(3, 45293, style=1)
    assert take(tmp_path, workbook(rows)).table["day"].to_pylist() == [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]
    rows = line(1, "at") + line(2, 45292.5, style=2) + line(3, 45293, style=2)
    read_back = take(tmp_path, workbook(rows)).table["at"].to_pylist()
    assert read_back == [dt.datetime(2024, 1, 1, 12), dt.datetime(2024, 1, 2)]


@pytest.mark.parametrize("sheet", ["first & best", "1"])
def test_a_sheet_is_chosen_by_name_or_number(tmp_path, sheet):
    assert take(tmp_path, workbook(line(1, "a") + line(2, 1)), sheet=sheet).source["sheet"] == "first & best"


@pytest.mark.parametrize("sheet", ["7", "2"])
def test_a_name_that_looks_like_a_number_is_a_name(tmp_path, sheet):
    with pytest.raises(Invalid, match="no rows"):
        take(tmp_path, workbook(line(1, "a") + line(2, 1)), sheet=sheet)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (workbook(""), "no_rows"),
        (workbook(line(1, "a", "b") + line(2, 1, 2), extra='<mergeCells><mergeCell ref="A1:B1"/></mergeCells>'),
         "merged_header"),
        (workbook(line(1, "a"), prolog='<!DOCTYPE x [<!ENTITY a "aaaa">]>'), "xml_entities"),
        (workbook(line(1, "a") + line(2, 1))[:-200], "damaged_file"),
    ],
)  # fmt: skip
def test_workbooks_that_are_refused(tmp_path, content, code):
    with pytest.raises(Invalid) as refused:
        take(tmp_path, content)
    assert refused.value.issues[0].code in {code, "damaged_archive"}


def test_rows_merged_below_the_header_are_data(tmp_path):
    rows = line(1, "a", "b") + line(2, 1, 2) + line(3, 3, None)
    extra = '<mergeCells><mergeCell ref="A3:B3"/></mergeCells>'
    assert take(tmp_path, workbook(rows, extra=extra)).table["b"].to_pylist() == [2, None]


def test_a_workbook_bomb_is_refused_before_it_is_read(tmp_path):
    bomb = workbook(line(1, "a") + line(2, 1), extra=" " * (CAP + 1))
    assert len(bomb) < CAP / 100
    with pytest.raises(TooLarge):
        take(tmp_path, bomb)


def test_unknown_sheets_name_those_there_are(tmp_path):
    with pytest.raises(Invalid, match="first & best"):
        take(tmp_path, workbook(line(1, "a") + line(2, 1)), sheet="3")


def test_arrays_become_columns(tmp_path):
    X = np.arange(6.0).reshape(3, 2)[:, ::-1] + 0.5
    found = take(tmp_path, saved(X))
    assert found.table.to_pydict() == {"x0": X[:, 0].tolist(), "x1": X[:, 1].tolist()}
    assert take(tmp_path, saved(np.array([True, False]))).types == ("boolean",)
    big = take(tmp_path, saved(np.array([2**63 - 1, 2**53 + 1], dtype=">i8")))
    assert big.table["x"].to_pylist() == [2**63 - 1, 2**53 + 1]
    record = np.array([("ä", 1.5), ("b", np.nan)], dtype=[("s", "U3"), ("f", "<f4")])
    assert take(tmp_path, saved(record)).table.to_pydict() == {"s": ["ä", "b"], "f": [1.5, None]}
    days = np.array(["2024-01-01", "NaT"], dtype="datetime64[D]")
    assert take(tmp_path, saved(days)).table["x"].to_pylist() == [dt.date(2024, 1, 1), None]


def test_archives_of_arrays_are_tables_of_one_length(tmp_path):
    sink = io.BytesIO()
    np.savez_compressed(sink, X=np.ones((2, 2)), y=np.array([3, 4]))
    assert take(tmp_path, sink.getvalue()).table.column_names == ["X0", "X1", "y"]
    sink = io.BytesIO()
    np.savez(sink, X=np.ones((2, 2)), y=np.array([3, 4, 5]))
    with pytest.raises(Invalid, match="y has 3"):
        take(tmp_path, sink.getvalue())


@pytest.mark.parametrize(
    "content",
    [saved(np.array([{}], dtype=object)), saved(np.ones((2, 2, 2))), saved(np.array(1.0)), saved(np.ones(9))[:-8],
     saved(np.ones(3) + 1j), saved(np.ones(1)).replace(b"(1,)", b"(1x)")],
)  # fmt: skip
def test_arrays_that_are_no_tables_are_refused(tmp_path, content):
    with pytest.raises(ServiceError):
        take(tmp_path, content)


def test_a_header_that_lies_costs_nothing(tmp_path):
    honest = saved(np.ones(10_000_000, np.int8))[:4096]
    with pytest.raises(Invalid, match="no array"):
        take(tmp_path, honest)


ARFF = """% a comment
@RELATION r
@attribute 'my x' NUMERIC
@attribute cl {1, 2, 'a b'}
@ATTRIBUTE s string
@attribute d date "yyyy-MM-dd"
@data
1.5,1,'it\\'s, ok',2020-01-02
?,'a b',"NA",2021-01-02
3,2,?,?
"""


def test_arff_keeps_declared_types_and_words(tmp_path):
    found = take(tmp_path, ARFF)
    assert found.types == ("number", "category", "text", "date")
    assert found.table.to_pydict() == {
        "my x": [1.5, None, 3.0], "cl": ["1", "a b", "2"], "s": ["it's, ok", "NA", None],
        "d": [dt.date(2020, 1, 2), dt.date(2021, 1, 2), None],
    }  # fmt: skip


def test_sparse_arff_rows_have_zeros_and_first_levels(tmp_path):
    text = "@relation r\n@attribute a numeric\n@attribute b {x, 'y z'}\n@data\n{0 3, 1 'y z'}\n{ }\n"
    assert take(tmp_path, text).table.to_pydict() == {"a": [3, 0], "b": ["y z", "x"]}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("@relation r\n@attribute a numeric\n@data\n1\n1,2\n", "line/5"),
        ("@relation r\n@attribute a relational\n@data\n1\n", "line/2"),
        ("@relation r\n@attribute\n@data\n1\n", "line/2"),
        ("@relation r\n@attribute a numeric\n", "/file"),
        ("@relation r\n@attribute a numeric\n@data\n{5 1}\n", "line/4"),
    ],
)
def test_arff_refusals_name_the_line(tmp_path, text, where):
    with pytest.raises(Invalid) as refused:
        take(tmp_path, text)
    assert where in refused.value.issues[0].pointer


def test_libsvm_rows_are_filled_with_zeros(tmp_path):
    found = take(tmp_path, "+1 qid:3 1:0.5 3:2e3 # text\n\n-1 qid:4 2:1\n")
    assert found.table.to_pydict() == {
        "label": [1.0, -1.0], "qid": [3, 4], "x1": [0.5, 0.0], "x2": [0.0, 1.0], "x3": [2000.0, 0.0],
    }  # fmt: skip


@pytest.mark.parametrize("bad", ["1 3:x", "1 2:1 2:3", "1 -1:2", "1 99999999:1", "x 1:1"])
def test_libsvm_refusals_name_the_line(tmp_path, bad):
    text = f"1 1:0.5\n{bad}\n0 1:1\n"
    with pytest.raises(Invalid) as refused:
        take(tmp_path, text, format="libsvm")
    assert refused.value.issues[0].pointer == "/file/line/2"
    kept = take(tmp_path, text, format="libsvm", on_error="skip")
    assert kept.table.num_rows == 2
    assert kept.warnings[0]["code"] == "skipped_rows"


def test_libsvm_that_would_explode_is_refused(tmp_path):
    with pytest.raises(TooLarge):
        take(tmp_path, "".join(f"1 {i}:1\n" for i in range(1, 19_000)), format="libsvm")


def test_values_survive_random_round_trips(tmp_path):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 3)) * 10.0 ** rng.integers(-12, 12, (40, 3))
    X[rng.random((40, 3)) < 0.3] = 0.0
    text = "".join(
        f"{i % 2} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row.tolist()) if v or j == 2) + "\n"
        for i, row in enumerate(X)
    )
    table = take(tmp_path, text, format="libsvm").table.drop_columns(["label"])
    assert np.array_equal(np.column_stack([c.to_numpy() for c in table.columns]), X)
    rows = line(1, "a", "b", "c") + "".join(line(i + 2, *row.tolist()) for i, row in enumerate(X))
    sheet = take(tmp_path, workbook(rows)).table
    assert np.array_equal(np.column_stack([c.to_numpy() for c in sheet.cast(pa.schema(
        [(n, pa.float64()) for n in "abc"])).columns]), X)  # fmt: skip
