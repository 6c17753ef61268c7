"""What a model keeps of its training rows: learned in memory and in chunks, and after update and forget."""

from __future__ import annotations

import io

import numpy as np
import pytest

from ml_core.bundle import load_bundle
from ml_core.preprocessing.reference import POINTS
from service.usecases import chunked, chunked_reference
from tests.api.test_chunks import SMALL, body, table, upload
from tests.api.test_models import fit

WAIT = {"Prefer": "wait=60"}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks of a few hundred rows."""
    monkeypatch.setattr(chunked, "CHUNK_BYTES", 8192)


def reference(client, model):
    return load_bundle(io.BytesIO(client.get(f"/v1/models/{model['id']}/bundle").content)).reference


def column(known, name):
    return known.columns[known.names.index(name)]


def check_true(known, name, values):
    """The sketch's counts are those of the values, whose extremes it holds."""
    sketch, ordered = column(known, name), np.sort(values)
    for place, side in ((1, "left"), (2, "right")):
        np.testing.assert_array_equal(sketch.counts[:, place], np.searchsorted(ordered, sketch.counts[:, 0], side))
    assert sketch.range == (ordered[0], ordered[-1])
    assert len(sketch.counts) <= POINTS


@pytest.mark.parametrize("gaps", [False, True])
def test_in_memory_and_in_chunks_the_same_rows_are_described(client, gaps, monkeypatch):
    monkeypatch.setattr(chunked_reference, "KEPT", 600)
    data = table(gaps=gaps)
    asked = body(upload(client, data), encoding={"missing": "drop_rows"})
    whole, parts = (reference(client, fit(client, **asked, **more)) for more in ({}, {"limits": SMALL}))
    rows = data.to_pandas().dropna(subset=["a", "b", "whole", "k", "yes", "y"])
    assert whole.rows == parts.rows == len(rows)
    for known in (whole, parts):
        for name in ("a", "b", "whole"):
            check_true(known, name, rows[name].to_numpy(float))
        assert column(known, "whole").error_bound == 0
        assert column(known, "k").counts.tolist() == rows["k"].value_counts().sort_index().tolist()
        assert column(known, "yes").counts.tolist() == rows["yes"].astype(bool).value_counts().sort_index().tolist()
        assert {column(known, name).missing for name in known.names} == {0}
    assert column(whole, "a").error_bound <= 1 / (POINTS - 1)
    assert column(parts, "a").error_bound <= 3 / (POINTS - 1)


def test_empty_cells_are_counted_where_they_are_filled(client):
    data = table(gaps=True).drop_columns(["y"]).append_column("y", table()["y"])
    model = fit(client, **body(upload(client, data), encoding={"missing": "indicator"}))
    for name in ("a", "k", "yes"):
        known = column(reference(client, model), name)
        assert (known.missing, known.rows) == (data[name].null_count, len(data) - data[name].null_count)


@pytest.mark.parametrize("inline", [True, False])
def test_updates_and_their_undoing_are_followed(client, inline):
    data = table()
    start, more = data.slice(0, 2000), data.slice(2000, 60)
    names = ["a", "b", "whole", "k", "yes", "y"]
    model = fit(client, **body(upload(client, start), name="grows"))
    change = {"rows": more.select(names).to_pylist()} if inline else {"dataset": upload(client, more)}
    grown = client.post(f"/v1/models/{model['id']}/update", json=change, headers=WAIT)
    assert grown.status_code == 201, grown.text
    known, both = reference(client, grown.json()), data.slice(0, 2060).to_pandas()
    assert known.rows == 2060
    check_true(known, "a", both["a"].to_numpy())
    assert column(known, "yes").counts.tolist() == both["yes"].value_counts().sort_index().tolist()
    less = client.post(f"/v1/models/{grown.json()['id']}/forget", json=change, headers=WAIT)
    assert less.status_code == 201, less.text
    back, first = reference(client, less.json()), reference(client, model)
    assert back.rows == 2000
    assert column(back, "k").counts.tolist() == column(first, "k").counts.tolist()
    strange = [{**row, "whole": 77} for row in more.select(names).to_pylist()]
    refused = client.post(f"/v1/models/{grown.json()['id']}/forget", json={"rows": strange}, headers=WAIT)
    assert refused.status_code == 422
    assert "cannot have seen" in refused.json()["detail"]


def test_only_the_rows_that_conditions_choose_are_followed(client):
    data = table()
    model = fit(client, **body(upload(client, data), name="grows"))
    change = {"dataset": upload(client, data), "where": [{"column": "whole", "op": ">=", "value": 6}]}
    grown = client.post(f"/v1/models/{model['id']}/update", json=change, headers=WAIT)
    assert grown.status_code == 201, grown.text
    known, whole = reference(client, grown.json()), data["whole"].to_numpy()
    assert known.rows == grown.json()["rows"] == len(data) + int((whole >= 6).sum())
    check_true(known, "whole", np.concatenate([whole, whole[whole >= 6]]))
