"""Corrections of column types after the upload: what fits is converted, what does not is refused or listed."""

import json
from datetime import date, datetime

import pytest

from service.errors import Invalid
from service.intake.findings import ReadOptions

NUMBERS = [float(i) for i in range(20)]


@pytest.fixture
def add(services, tmp_path):
    """Store a table that is written in this text."""

    def added(text, **options):
        path = tmp_path / "upload.csv"
        path.write_text(text)
        return services.datasets.add_file(path, ReadOptions(**options))

    return added


@pytest.fixture
def patch(services):
    """Correct one column; the record and the column's cells."""

    def patched(dataset, name, **change):
        record = services.datasets.patch(dataset["id"], {"columns": {name: change}})
        return record, services.datasets.table(dataset["id"]).column(name).to_pylist()

    return patched


def told(record, name):
    """The warnings of a column by code."""
    return {note["code"]: note for note in record["warnings"] if note.get("column") == name}


def test_misfits_are_refused_or_become_missing_and_stay_listed(add, patch):
    cells = ["1", "2.5", "oops", "?", "4", "late", "7"]
    made = add("x,y\n" + "".join(f"{cell},{i}\n" for i, cell in enumerate(cells)))
    assert told(made, "x")["mixed_column"]["count"] == 2
    with pytest.raises(Invalid) as caught:
        patch(made, "x", type="number")
    assert [issue.pointer for issue in caught.value.issues] == ["/rows/2/x", "/rows/5/x"]
    assert '"misfits": "missing"' in str(caught.value)
    done, values = patch(made, "x", type="number", misfits="missing")
    assert values == [1.0, 2.5, None, None, 4.0, None, 7.0]
    assert done["columns"][0]["missing"] == 3
    assert set(told(done, "x")) == {"set_missing", "null_words"}
    note = told(done, "x")["set_missing"]
    assert (note["count"], note["cells"]) == (2, [{"row": 3, "value": "oops"}, {"row": 6, "value": "late"}])
    assert "'?' 1 times" in told(done, "x")["null_words"]["message"]
    again, _ = patch(made, "x", role="feature")
    assert "set_missing" in told(again, "x")


def test_no_more_than_twenty_cells_are_shown(add, patch):
    made = add("x\n" + "".join(f"{i}\n" for i in range(100)) + "bad\n" * 60)
    done, values = patch(made, "x", type="integer", misfits="missing")
    assert values == [*range(100), *[None] * 60]
    note = told(done, "x")["set_missing"]
    assert (note["count"], len(note["cells"])) == (60, 20)


def test_ids_become_categories_and_numbers_again(add, patch):
    made = add("id,x\n" + "".join(f"{i},{i / 2}\n" for i in (9007199254740993, 7, 7)))
    done, values = patch(made, "id", type="category")
    assert values == ["9007199254740993", "7", "7"]
    assert done["columns"][0]["levels"][0] == {"value": "7", "count": 2}
    assert "big_integers" not in told(done, "id")
    back, values = patch(made, "id", type="integer")
    assert values == [9007199254740993, 7, 7]
    assert back["sha256"] == made["sha256"]
    with pytest.raises(Invalid) as caught:
        patch(made, "x", type="integer")
    assert caught.value.issues[0].pointer == "/rows/1/x"


@pytest.mark.parametrize(("cells", "text", "before"), [
    (["1.10", "1e5", ""], ["1.1", "100000", None], "number"),
    (["TRUE", "false", ""], ["true", "false", None], "boolean"),
    (["31/12/2024", "", "30/12/2024"], ["2024-12-31", None, "2024-12-30"], "date"),
    (["2024-01-01T10:00:00Z", "", "2024-01-01T10:00:00.5Z"],
     ["2024-01-01T10:00:00Z", None, "2024-01-01T10:00:00.500000Z"], "datetime"),
])  # fmt: skip
def test_text_of_values_is_told_from_text_of_the_file(add, patch, cells, text, before):
    made = add("x,y\n" + "".join(f"{cell},{i}\n" for i, cell in enumerate(cells)))
    assert made["columns"][0]["type"] == before
    done, values = patch(made, "x", type="text")
    assert values == text
    assert before in told(done, "x")["text_of_values"]["message"]
    again, _ = patch(made, "x", type="category")
    assert "text_of_values" in told(again, "x")
    whole, values = patch(made, "y", type="text")
    assert values == ["0", "1", "2"]
    assert not told(whole, "y")


def test_codes_lose_their_zeros_with_a_warning(add, patch):
    made = add("zip,x\n00501,1\n10115,2\n")
    done, values = patch(made, "zip", type="integer")
    assert values == [501, 10115]
    assert told(done, "zip")["leading_zeros_lost"]["cells"] == [{"row": 1, "value": "00501"}]
    assert "leading_zeros" not in told(done, "zip")


@pytest.mark.parametrize(
    ("cells", "change", "values"),
    [
        (["01/02/2020", "03/04/2020"], {"type": "date", "format": "%d/%m/%Y"}, [date(2020, 2, 1), date(2020, 4, 3)]),
        (["01/02/2020", "03/04/2020"], {"type": "date", "format": "%m/%d/%Y"}, [date(2020, 1, 2), date(2020, 3, 4)]),
        (["2020-1-5", "2020-12-31"], {"type": "date", "format": "%Y-%m-%d"}, [date(2020, 1, 5), date(2020, 12, 31)]),
        (
            ["5.1.2020 9:05", "31.12.2020 23:59"],
            {"type": "datetime", "format": "%d.%m.%Y %H:%M"},
            [datetime(2020, 1, 5, 9, 5), datetime(2020, 12, 31, 23, 59)],
        ),
        (
            ["20200131T235959", "20210228T000000"],
            {"type": "datetime", "format": "%Y%m%dT%H%M%S"},
            [datetime(2020, 1, 31, 23, 59, 59), datetime(2021, 2, 28)],
        ),
    ],
)
def test_dates_of_a_stated_format(add, patch, cells, change, values):
    made = add("d,x\n" + "".join(f"{cell},1\n" for cell in cells))
    assert patch(made, "d", **change)[1] == values


def test_days_that_do_not_exist_are_misfits(add, patch):
    made = add("d,x\n31/02/2020,1\n01/02/2020,2\n")
    with pytest.raises(Invalid) as caught:
        patch(made, "d", type="date", format="%d/%m/%Y")
    assert [issue.pointer for issue in caught.value.issues] == ["/rows/0/d"]


def test_the_decimal_mark_of_the_file_holds(add, patch):
    made = add("a;b\n1,5;1,5\nx;2,5\n1.234,5;3\n")
    assert patch(made, "a", type="number", misfits="missing")[1] == [1.5, None, 1234.5]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"type": "number", "misfits": "skip"}, "/columns/a/misfits"),
        ({"type": "number", "format": "%d/%m/%Y"}, "/columns/a/format"),
        ({"type": "date", "format": "%d/%m"}, "/columns/a/format"),
        ({"type": "date", "format": "%d/%m/%Y %q"}, "/columns/a/format"),
        ({"type": "date", "format": "%d/%m/%Y %"}, "/columns/a/format"),
        ({"type": "date", "format": "%d/%m/%Y %M"}, "/columns/a/format"),
        ({"type": "date", "format": 7}, "/columns/a/format"),
        ({"type": ["date"]}, "/columns/a/type"),
        ({"role": {}}, "/columns/a/role"),
        ({"type": "number", "misfits": {}}, "/columns/a/misfits"),
    ],
)
def test_corrections_that_mean_nothing(add, patch, change, pointer):
    made = add("a,b\n1,2\n")
    with pytest.raises(Invalid) as caught:
        patch(made, "a", **change)
    assert caught.value.issues[0].pointer == pointer


def test_over_http(client):
    text = "x,y\n" + "".join(f"{i},{i}\n" for i in NUMBERS) + "oops,3\n"
    query = {"types": '{"x": "number"}'}
    refused = client.post("/v1/datasets", content=text, params=query, headers={"content-type": "text/csv"})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/file/line/22/column/1"
    query["on_error"] = "missing"
    made = client.post("/v1/datasets", content=text, params=query, headers={"content-type": "text/csv"})
    assert made.status_code == 201, made.text
    note = next(note for note in made.json()["warnings"] if note["code"] == "set_missing")
    assert note["cells"] == [{"row": 21, "value": "oops"}]
    plain = client.post("/v1/datasets", content=text, headers={"content-type": "text/csv"}).json()
    here = f"/v1/datasets/{plain['id']}"
    change = {"columns": {"x": {"type": "number"}}}
    assert client.patch(here, json=change).status_code == 422
    change["columns"]["x"]["misfits"] = "missing"
    done = client.patch(here, json=change)
    assert done.status_code == 200, done.text
    assert done.json()["sha256"] == made.json()["sha256"]
    assert client.get(f"{here}/rows", params={"offset": 20}).json()["items"] == [{"x": None, "y": 3.0}]


@pytest.mark.parametrize("form", ["json", "csv"])
def test_rows_that_do_not_fit_are_left_out_in_every_format(client, form):
    rows = [{"x": "1", "y": 1}, {"x": "oops", "y": 2}, {"x": "3", "y": 3}]
    text = {"json": json.dumps(rows), "csv": "x,y\n" + "".join(f"{row['x']},{row['y']}\n" for row in rows)}[form]
    query = {"types": '{"x": "integer"}', "on_error": "skip"}
    made = client.post("/v1/datasets", content=text, params=query)
    assert made.status_code == 201, made.text
    assert [note["code"] for note in made.json()["warnings"]] == ["skipped_rows"]
    assert made.json()["warnings"][0]["count"] == 1
    rows = client.get(f"/v1/datasets/{made.json()['id']}/rows").json()["items"]
    assert rows == [{"x": 1, "y": 1}, {"x": 3, "y": 3}]
    nothing = client.post("/v1/datasets", content=text, params={"types": '{"x": "date"}', "on_error": "skip"})
    assert nothing.status_code == 422
    assert nothing.json()["errors"][0]["code"] == "no_rows"
