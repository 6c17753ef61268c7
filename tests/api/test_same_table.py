"""One table in every format that can express it: the same content hash, profile and fitted model, bit for bit."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import math
from collections.abc import Callable

import httpx
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from tests.api.test_models import spec
from tests.corpus.columnar import arrow, parquet
from tests.corpus.xlsx import DAY, INSTANT, letters, line, workbook

N = 60
EPOCH = dt.datetime(1899, 12, 30)
AWKWARD = [0.1 + 0.2, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e23, 9007199254740993.0, 1 / 3, -2.5e-7,
           123456789.123456789, math.pi, -math.e, 4.35, 0.3, 1e-17]  # fmt: skip
WORDS = ["plain", "with, comma", 'with "quotes"', "two\nlines", "café ☕", "中文", "😀", "a\tb", "semi;colon", "#hash",
         "it's", "back\\slash", "per%cent", "=1+1", "x,y\n\"z\""]  # fmt: skip


def column(make: Callable[[int], object], gap: int) -> list[object]:
    """Values by row, every seventh missing from a different row on."""
    return [None if i % 7 == gap else make(i) for i in range(N)]


ZONE = [dt.timezone(dt.timedelta(hours=h)) for h in (0, 2, -5)]
TABLE: dict[str, list[object]] = {
    "target": [math.sin(i) * 10 for i in range(N)],
    "label": ["spam" if i % 5 < 2 else "ham" for i in range(N)],
    "x": column(lambda i: i / 7 - 3, 0),
    "awkward": column(lambda i: AWKWARD[i % len(AWKWARD)], 1),
    "count": column(lambda i: i * i - 100, 2),
    "identifier": column(lambda i: 2**53 + 1 + i, 3),
    "largest": column(lambda i: (-1) ** i * (2**63 - 1 - i), 6),
    "flag": column(lambda i: i % 3 == 0, 4),
    "class": column(lambda i: ("low", "mid", "high")[i % 3], 5),
    "a name, with \"all\" – ü": column(lambda i: f"{WORDS[i % len(WORDS)]} {i}", 6),
    "day": column(lambda i: dt.date(1999, 12, 28) + dt.timedelta(i), 0),
    "at": column(lambda i: dt.datetime(2024, 2, 28, 23, 59, 50) + dt.timedelta(seconds=i, microseconds=123_456 * i), 1),
    "zoned": column(lambda i: dt.datetime(2024, 3, 31, 0, 30, i, tzinfo=ZONE[0]), 2),
    "nothing": [None] * N,
}  # fmt: skip


def arrow_table() -> pa.Table:
    """The table with types; the category as a dictionary, the times in a zone of their own."""
    types = {"largest": pa.int64(), "zoned": pa.timestamp("us", "Europe/Berlin"), "nothing": pa.string()}
    arrays = {name: pa.array(cells, types.get(name)) for name, cells in TABLE.items()}
    return pa.table(arrays | {"class": pa.array(TABLE["class"]).dictionary_encode()})


def rows(text: Callable[[object], object]) -> list[list[object]]:
    """Rows with times as this text."""
    table = zip(*TABLE.values(), strict=True)
    return [[text(cell) if isinstance(cell, dt.date) else cell for cell in row] for row in table]


def iso(cell: object) -> str:
    """With a T; zoned times in the zone of their row."""
    assert isinstance(cell, dt.date)
    if isinstance(cell, dt.datetime) and cell.tzinfo:
        return cell.astimezone(ZONE[cell.second % 3]).isoformat()
    return cell.isoformat()


def records() -> list[dict[str, object]]:
    """Rows as JSON objects; what is missing is null or left out in turn."""
    found = [dict(zip(TABLE, row, strict=True)) for row in rows(iso)]
    return [found[0], *({k: v for k, v in row.items() if v is not None or i % 2} for i, row in enumerate(found[1:]))]


def as_csv(delimiter: str, decimal: str = ".") -> bytes:
    """As Python's csv module writes it."""
    sink = io.StringIO()
    writer = csv.writer(sink, delimiter=delimiter)
    writer.writerow(TABLE)
    for row in rows(str):
        writer.writerow([repr(c).replace(".", decimal) if isinstance(c, float) else c for c in row])
    return sink.getvalue().encode()


def as_workbook() -> bytes:
    """With serial numbers for times, except that a workbook has no zones."""
    lines = [line(1, *TABLE)]
    for i, row in enumerate(zip(*TABLE.values(), strict=True), 2):
        cells = [_cell(f"{letters(j)}{i}", cell) for j, cell in enumerate(row) if cell is not None]
        lines.append(f'<row r="{i}">{"".join(cells)}</row>')
    return workbook("".join(lines))


def _cell(at: str, cell: object) -> str:
    if isinstance(cell, dt.datetime) and cell.tzinfo is None:
        return f'<c r="{at}" s="{INSTANT}"><v>{(cell - EPOCH) / dt.timedelta(1)!r}</v></c>'
    if isinstance(cell, dt.date) and not isinstance(cell, dt.datetime):
        return f'<c r="{at}" s="{DAY}"><v>{(cell - EPOCH.date()).days}</v></c>'
    text = line(1, cell.isoformat() if isinstance(cell, dt.datetime) else cell)
    return text[text.index("<c ") : text.rindex("</row>")].replace('r="A1"', f'r="{at}"')


def as_feather() -> bytes:
    """As pyarrow writes it."""
    sink = io.BytesIO()
    feather.write_feather(arrow_table(), sink, compression="zstd")
    return sink.getvalue()


FORMS: dict[str, Callable[[], bytes]] = {
    "csv": lambda: as_csv(","), "semicolon": lambda: as_csv(";", ","), "tab": lambda: as_csv("\t"),
    "utf-16": lambda: as_csv(",").decode().encode("utf-16"),
    "ndjson": lambda: "".join(json.dumps(r) + "\n" for r in records()).encode(),
    "json-records": lambda: json.dumps(records(), ensure_ascii=False, indent=1).encode(),
    "json-columns": lambda: json.dumps(dict(zip(TABLE, zip(*rows(iso), strict=True), strict=True))).encode(),
    "xlsx": as_workbook, "parquet": lambda: parquet(arrow_table(), row_group_size=17),
    "arrow-stream": lambda: arrow(arrow_table(), rows=13), "arrow-file": lambda: arrow(arrow_table(), pa.ipc.new_file),
    "feather": as_feather,
}  # fmt: skip
FITS = (
    {"estimator": spec("ridge_regression", alpha=0.5), "target": "target", "features": ["x", "count", "flag", "class"]},
    {"estimator": spec("logistic_regression", alpha=1.0), "target": "label", "features": ["x", "identifier", "class"]},
)


def uploaded(client: httpx.Client, form: str) -> dict:
    """The dataset made of a form of the table."""
    answer = client.post("/v1/datasets", content=FORMS[form](), params={"name": "same"})
    assert answer.status_code == 201, (form, answer.text)
    return answer.json()


def fitted(client: httpx.Client, dataset: str, fit: dict) -> tuple[dict, bytes]:
    """What a model says of itself, and its predictions of its own rows."""
    body = fit | {"dataset": dataset, "encoding": {"missing": "mean", "categorical": "one_hot"}}
    answer = client.post("/v1/models", json=body, headers={"Prefer": "wait=60"})
    assert answer.status_code == 201, answer.text
    model = answer.json()
    said = client.post(f"/v1/models/{model['id']}/predict", json={"dataset": dataset})
    assert said.status_code == 200, said.text
    kept = {key: model[key] for key in ("metrics", "features", "encoding", "target", "artifact")}
    return kept, json.dumps(said.json()["predictions"]).encode()


def test_the_table_survives_the_formats_it_came_in(client):
    """Nothing of it is lost on the way in: the first upload gives back every value."""
    made = uploaded(client, "parquet")
    back = pq.read_table(io.BytesIO(client.get(made["links"]["content"]).content))
    for name, cells in TABLE.items():
        assert back[name].to_pylist() == cells, name


@pytest.fixture
def everywhere(client):
    return {form: uploaded(client, form) for form in FORMS}


def test_one_table_in_every_format_is_one_table(everywhere):
    first = everywhere["parquet"]
    types = {c["name"]: c["type"] for c in first["columns"]}
    assert types == {
        "target": "number", "label": "category", "x": "number", "awkward": "number", "count": "integer",
        "identifier": "integer", "largest": "integer", "flag": "boolean", "class": "category",
        "a name, with \"all\" – ü": "text", "day": "date", "at": "datetime", "zoned": "datetime", "nothing": "number",
    }  # fmt: skip
    for form, made in everywhere.items():
        assert made["columns"] == first["columns"], form
        assert (made["sha256"], made["rows"]) == (first["sha256"], N), form


@pytest.mark.parametrize("fit", FITS, ids=lambda fit: fit["estimator"]["algorithm"])
def test_one_table_in_every_format_gives_one_model(client, everywhere, fit):
    first = fitted(client, everywhere["parquet"]["id"], fit)
    for form in ("csv", "ndjson", "json-records", "json-columns", "xlsx", "arrow-stream"):
        assert fitted(client, everywhere[form]["id"], fit) == first, form
