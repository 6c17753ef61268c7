"""A table with every type of column, and its rows in every format that the prediction routes read."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from tests.api.test_models import fit, spec

CSV, NDJSON = "text/csv", "application/x-ndjson"
STREAM, FILE, PARQUET = (
    "application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.file", "application/vnd.apache.parquet"
)  # fmt: skip
FEATURES = ["amount", "serial", "code", "colour", "paid", "day", "moment"]
TYPES = {"code": "category", "colour": "category", "serial": "integer"}


def mixed(rows=160, seed=3, gaps=True):
    """Decimals, integers beyond 2^53, codes with leading zeros, words, booleans, dates and times, with empty cells."""
    r = np.random.default_rng(seed)
    days = np.datetime64("1950-01-01") + r.integers(0, 40_000, rows)
    moments = np.datetime64("1969-12-31T00:00:00", "us") + r.integers(0, 10**15, rows)
    columns = {
        "amount": pa.array(r.normal(10.0, 3.0, rows) / 3.0),
        "serial": pa.array(2**53 + r.integers(1, 10**9, rows)),
        "code": pa.array([f"{v:02d}" for v in r.integers(1, 12, rows)]),
        "colour": pa.array(r.choice(["red", "green", "NA", "b,l\"ue"], rows).tolist()),
        "paid": pa.array(r.random(rows) < 0.4),
        "day": pa.array(days, pa.date32()),
        "moment": pa.array(moments, pa.timestamp("us", "UTC")),
        "kind": pa.array(np.where(r.random(rows) < 0.5, "yes", "no").tolist()),
        "y": pa.array(r.normal(size=rows)),
    }  # fmt: skip
    if gaps:
        for name in FEATURES:
            keep = pa.array(r.random(rows) < 0.92)
            columns[name] = pa.compute.if_else(keep, columns[name], pa.scalar(None, columns[name].type))
    return pa.table(columns)


def records(table):
    """The rows as JSON values."""
    return [{k: _plain(v) for k, v in row.items()} for row in table.to_pylist()]


def _plain(value):
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return value.isoformat() if hasattr(value, "isoformat") else value


def arrow(table, new=pa.ipc.new_stream, **options):
    sink = io.BytesIO()
    with new(sink, table.schema, **options) as writer:
        for batch in table.to_batches(max_chunksize=50):
            writer.write_batch(batch)
    return sink.getvalue()


def parquet(table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def csv(table):
    """Text quoted, empty cells bare, times as ISO text: what `pyarrow` writes, times apart."""
    moments = [None if v is None else v.isoformat() for v in table.column("moment").to_pylist()]
    at = table.column_names.index("moment")
    sink = io.BytesIO()
    pacsv.write_csv(table.set_column(at, "moment", pa.array(moments, pa.string())), sink)
    return sink.getvalue()


def ndjson(table):
    return "\n".join(json.dumps(r) for r in records(table)).encode()


def bodies(table):
    """Name → (media type, body) of the same rows in every format that is not JSON."""
    coded = table.set_column(
        table.column_names.index("colour"), "colour", table.column("colour").dictionary_encode()
    )
    return {
        "csv": (CSV, csv(table)), "ndjson": (NDJSON, ndjson(table)), "arrow": (STREAM, arrow(table)),
        "arrow file": (FILE, arrow(table, pa.ipc.new_file)), "arrow, coded": (STREAM, arrow(coded)),
        "arrow, packed": (STREAM, arrow(table, options=pa.ipc.IpcWriteOptions(compression="zstd"))),
        "parquet": (PARQUET, parquet(table)), "parquet, coded": (PARQUET, parquet(coded, row_group_size=33)),
    }  # fmt: skip


def upload(client, table, **params):
    answer = client.post("/v1/datasets", content=parquet(table), params=params)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def ask(client, model, body, media, what="predict", accept="application/json", **params):
    headers = {"content-type": media, "accept": accept}
    return client.post(f"/v1/models/{model}/{what}", content=body, headers=headers, params=params)


def fitted(client, algorithm, dataset, target=None, **more):
    """Id of a model of every column, empty cells filled, columns scaled."""
    encoding = {"missing": "indicator", "scale": "standard"}
    return fit(client, **{"estimator": algorithm, "dataset": dataset, "target": target, "features": FEATURES,
                          "encoding": encoding} | more)["id"]  # fmt: skip


def small(client, *, missing="error", **columns):
    """Id of a regression on `columns`, its target being the row number."""
    rows = len(next(iter(columns.values())))
    data = upload(client, pa.table(columns | {"y": pa.array(np.arange(rows) * 1.0)}))
    return fit(client, estimator=spec("ridge_regression"), dataset=data, target="y", features=list(columns),
               encoding={"missing": missing})["id"]  # fmt: skip


DAY = timedelta(days=1)
