"""A random table, written in one format, uploaded, downloaded in another: the same values, types and missing cells."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from service.container import build
from service.settings import Settings
from tests.conftest import serving
from tests.corpus.columnar import arrow, parquet
from tests.corpus.xlsx import DAY, INSTANT, letters, line, workbook

EPOCH = dt.datetime(1899, 12, 30)
ACCEPT = {
    "parquet": "application/vnd.apache.parquet", "arrow": "application/vnd.apache.arrow.stream", "csv": "text/csv",
    "ndjson": "application/x-ndjson", "json": "application/json",
}  # fmt: skip
WRITTEN = ("parquet", "arrow", "csv", "ndjson", "json", "xlsx")
ARROW = {
    "number": pa.float64(), "integer": pa.int64(), "boolean": pa.bool_(), "text": pa.string(), "date": pa.date32(),
    "datetime": pa.timestamp("us"), "zoned": pa.timestamp("us", "UTC"),
}  # fmt: skip
ANY = st.characters(codec="utf-8", exclude_categories=("Cs",))
PRINTED = st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"), include_characters="\n\r\t")
NAMES = st.text("abcé ,;\"'#%.{", max_size=5).map(lambda s: f"n{s.strip()}")


def cells(kind: str, forms: set[str]) -> st.SearchStrategy[Any]:
    """Values of a type that all these formats can express; docs/formats.md says what they cannot."""
    untyped = forms & {"csv", "xlsx"}
    if kind == "number":
        finite = bool(forms & {"json", "ndjson", "xlsx"})
        return st.floats(allow_nan=False, allow_infinity=not finite)
    if kind == "integer":
        return st.integers(-(2**63), 2**63 - 1)
    if kind == "boolean":
        return st.booleans()
    if kind == "text":
        words = st.text(PRINTED if untyped else ANY, max_size=9)
        return words.map(lambda s: "x" + s) if untyped or forms & {"json", "ndjson"} else words
    early = dt.date(1900, 3, 1) if "xlsx" in forms else dt.date.min
    late = dt.date(2078, 12, 31) if "xlsx" in forms else dt.date.max
    if kind == "date":
        return st.dates(early, late)
    midnight = dt.time()
    zone = st.just(dt.UTC) if kind == "zoned" else st.none()
    return st.datetimes(dt.datetime.combine(early, midnight), dt.datetime.combine(late, midnight), timezones=zone)


@dataclass(frozen=True)
class Drawn:
    """A table, the type of each column, and the formats it goes through."""

    table: pa.Table
    kinds: tuple[str, ...]
    written: str
    downloaded: str


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    """Every column has a value, and a number one that is not whole: else text formats could not tell its type."""
    written, downloaded = draw(st.sampled_from(WRITTEN)), draw(st.sampled_from(sorted(ACCEPT)))
    names, rows = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)), draw(st.integers(1, 6))
    columns, kinds = [], []
    for _ in names:
        kind = draw(st.sampled_from(sorted(ARROW)))
        values = cells(kind, {written, downloaded})
        column = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        column[-1] = draw(values if kind != "number" else st.sampled_from([0.1, -2.5e-7, 5e-324, 1.7e-300]))
        columns.append(pa.array(column, ARROW[kind]))
        kinds.append(kind)
    return Drawn(pa.table(columns, names=names), tuple(kinds), written, downloaded)


def stated(value: object) -> object:
    """A value as JSON has it."""
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, dt.date) else value


def as_csv(table: pa.Table) -> bytes:
    """Everything but what is missing in quotes where it needs them."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\r\n")
    writer.writerow(table.column_names)
    for row in zip(*table.to_pydict().values(), strict=True):
        writer.writerow(["NA" if cell is None else repr(cell) if isinstance(cell, float) else cell for cell in row])
    return sink.getvalue().encode()


def as_workbook(table: pa.Table) -> bytes:
    """Times as serial numbers; zoned ones as text."""
    made = [line(1, *table.column_names)]
    for i, row in enumerate(zip(*table.to_pydict().values(), strict=True), 2):
        made.append(f'<row r="{i}">{"".join(_cell(f"{letters(j)}{i}", cell) for j, cell in enumerate(row))}</row>')
    return workbook("".join(made))


def _cell(at: str, cell: object) -> str:
    if cell is None:
        return ""
    style = 0
    if isinstance(cell, dt.datetime) and cell.tzinfo is None:
        cell, style = (cell - EPOCH) / dt.timedelta(1), INSTANT
    elif isinstance(cell, dt.datetime):
        cell = cell.isoformat()
    elif isinstance(cell, dt.date):
        cell, style = (cell - EPOCH.date()).days, DAY
    text = line(1, cell, style=style)
    return text[text.index("<c ") : text.rindex("</row>")].replace('r="A1"', f'r="{at}"')


def write(table: pa.Table, form: str) -> bytes:
    """The table in a format, by other means than the service's."""
    if form in {"parquet", "arrow"}:
        return parquet(table) if form == "parquet" else arrow(table, rows=2)
    if form in {"csv", "xlsx"}:
        return as_csv(table) if form == "csv" else as_workbook(table)
    records = [{name: stated(value) for name, value in row.items()} for row in table.to_pylist()]
    return json.dumps(records).encode() if form == "json" else "".join(json.dumps(r) + "\n" for r in records).encode()


def check_content(content: bytes, form: str, table: pa.Table) -> None:
    """The download, read by other means than the service's, has the values of the table and misses what it misses."""
    if form in {"parquet", "arrow"}:
        got = pq.read_table(io.BytesIO(content)) if form == "parquet" else pa.ipc.open_stream(content).read_all()
        assert got.schema.types == table.schema.types
        assert got.to_pylist() == table.to_pylist()
        return
    if form == "csv":
        head, *rows = csv.reader(io.StringIO(content.decode(), newline=""))
        assert head == table.column_names
        missing = "NA" if table.num_columns == 1 else ""
        got = pa.table({n: [None if r[i] == missing else r[i] for r in rows] for i, n in enumerate(head)})
        for name, column in table.to_pydict().items():
            assert [_read(text, value) for text, value in zip(got[name].to_pylist(), column, strict=True)] == column
        return
    rows = json.loads(content) if form == "json" else [json.loads(line) for line in content.decode().split("\n")[:-1]]
    assert rows == [{name: stated(value) for name, value in row.items()} for row in table.to_pylist()]


def _read(text: str | None, like: object) -> object:
    """A cell of CSV as a value of the type of another."""
    if text is None or isinstance(like, str):
        return text
    if isinstance(like, bool):
        return {"true": True, "false": False}[text]
    if isinstance(like, dt.datetime):
        return dt.datetime.fromisoformat(text)
    return dt.date.fromisoformat(text) if isinstance(like, dt.date) else type(like)(text)  # type: ignore[call-arg]


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    services = build(Settings(data=tmp_path_factory.mktemp("trips") / "data"))
    with serving(services) as client:
        yield client
    services.db.close()


def upload(http: httpx.Client, content: bytes, form: str) -> dict[str, Any]:
    """The dataset of a file; text is told that it has a header."""
    told = {"header": "true"} | ({"delimiter": ","} if form == "csv" else {}) if form in {"csv", "xlsx"} else {}
    answer = http.post("/v1/datasets", content=content, params=told)
    assert answer.status_code == 201, (form, answer.text, content)
    return answer.json()


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trip=drawn())
def test_a_table_survives_any_trip(http: httpx.Client, trip: Drawn):
    event(f"{trip.written} to {trip.downloaded}")
    made = upload(http, write(trip.table, trip.written), trip.written)
    names = {"zoned": "datetime", "category": "text"}
    wanted = [names.get(kind, kind) for kind in trip.kinds]
    assert [names.get(c["type"], c["type"]) for c in made["columns"]] == wanted
    assert [c["missing"] for c in made["columns"]] == [column.null_count for column in trip.table.columns]
    answer = http.get(made["links"]["content"], headers={"Accept": ACCEPT[trip.downloaded]})
    assert answer.headers["content-type"].startswith(ACCEPT[trip.downloaded])
    check_content(answer.content, trip.downloaded, trip.table)
    page = http.get(made["links"]["rows"], headers={"Accept": ACCEPT[trip.downloaded]})
    if trip.downloaded != "json":
        check_content(page.content, trip.downloaded, trip.table)
    again = upload(http, answer.content, trip.downloaded)
    assert (again["sha256"], again["columns"]) == (made["sha256"], made["columns"])


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson"])
def test_integers_beyond_doubles_are_text_on_request_in_whole_columns(http: httpx.Client, accept: str):
    rows = [{"i": 1, "k": 2}] * (1 << 16) + [{"i": 2**53 + 1, "k": 3}]
    made = upload(http, "".join(json.dumps(row) + "\n" for row in rows).encode(), "ndjson")
    for want, params in ((str, {"big_integers": "string"}), (int, {"big_integers": "number"})):
        got = http.get(made["links"]["content"], headers={"Accept": accept}, params=params).text
        found = json.loads(got) if accept == "application/json" else [json.loads(row) for row in got.splitlines()]
        assert found == [{"i": want(row["i"]), "k": row["k"]} for row in rows]
        page = http.get(made["links"]["rows"], params={"limit": 2} | params).json()
        assert page["items"] == [{"i": want(1), "k": 2}] * 2
    assert http.get(made["links"]["content"], params={"big_integers": "maybe"}).status_code == 422
