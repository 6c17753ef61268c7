"""One real server takes every file of the corpus, and is as well after each as before."""

from __future__ import annotations

import datetime as dt
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.api.test_models import spec
from tests.corpus import cases
from tests.corpus.case import Case
from tests.faults.bench import eventually
from tests.faults.service import Served

CAP = 64 << 20
MOST = 10_000
GOLDEN = {"rows": [{"bill_length_mm": 40.0, "bill_depth_mm": 18.0, "flipper_length_mm": 190.0}]}
FEATURES = list(GOLDEN["rows"][0])


class Watched:
    """A server with one fitted model; `check` sees that nothing about it has changed but the datasets that it took."""

    def __init__(self, data: Path, served: Served) -> None:
        self.http, self.data, self.served = served.http, data, served
        body = {
            "estimator": spec("linear_regression"), "dataset": "penguins", "target": "body_mass_g",
            "features": FEATURES, "encoding": {"missing": "drop_rows"}, "name": "golden",
        }  # fmt: skip
        answer = self.http.post("/v1/models", json=body, headers={"Prefer": "wait=60"})
        assert answer.status_code == 201, answer.text
        self.golden = self.predicted()
        self.taken = 1

    def predicted(self) -> list[float]:
        """The golden prediction."""
        answer = self.http.post("/v1/models/golden/predict", json=GOLDEN)
        assert answer.status_code == 200, answer.text
        return list(answer.json()["predictions"])

    def datasets(self) -> int:
        """How many there are."""
        found, cursor = 0, None
        while True:
            page = self.http.get("/v1/datasets", params={"limit": 200} | ({"cursor": cursor} if cursor else {})).json()
            found, cursor = found + len(page["items"]), page["next_cursor"]
            if cursor is None:
                return found

    def check(self) -> None:
        """Alive, with the same answers, without leftovers."""
        assert self.http.get("/v1/health/live").status_code == 200
        assert self.predicted() == self.golden
        left = [p for p in self.data.rglob("*") if p.name.startswith(("upload-", "tmp")) or ".tmp" in p.name]
        assert left == []


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    data = tmp_path_factory.mktemp("corpus") / "data"
    served = Served(data, POSTFIT_UPLOAD_BYTES=str(CAP))
    try:
        yield Watched(data, served)
    finally:
        served.stop()
    said = served.log.read_text()
    assert "Traceback" not in said, said[-4000:]


def query(options: dict[str, Any]) -> dict[str, str]:
    """Options as a client states them."""
    told = {key: ",".join(value) if isinstance(value, tuple) else str(value) for key, value in options.items()}
    return {key: word.lower() if word in {"True", "False"} else word for key, word in told.items()}


def expect(answer: httpx.Response, case: Case) -> None:
    """The status, and a problem that says what is wrong where it is refused."""
    assert answer.status_code == case.status, answer.text[:2000]
    if case.status == 201:
        return
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert case.says in problem["detail"]
    assert "Traceback" not in answer.text
    assert case.code in {"", *(issue["code"] for issue in problem.get("errors", []))}, answer.text[:2000]
    assert all(issue["pointer"].startswith("/") and issue["detail"] for issue in problem.get("errors", []))


def stored(http: httpx.Client, made: dict[str, Any]) -> dict[str, list[Any]]:
    """Values by column, as the rows say; of many rows as Arrow says."""
    if made["rows"] > MOST:
        answer = http.get(made["links"]["content"], headers={"Accept": "application/vnd.apache.arrow.stream"})
        return dict(pa.ipc.open_stream(answer.content).read_all().to_pydict())
    items = http.get(made["links"]["rows"], params={"limit": MOST}).json()["items"]
    return {column["name"]: [row[column["name"]] for row in items] for column in made["columns"]}


def told(value: object) -> object:
    """A value as JSON has it: times are text, infinities null."""
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat()
        return text + "Z" if value.tzinfo else text
    if isinstance(value, dt.date):
        return value.isoformat()
    return None if value in {float("inf"), float("-inf")} else value


def test_every_file_is_taken_or_refused_and_the_server_is_as_well_as_before(watched: Watched):
    for case in cases():
        answer = watched.http.post("/v1/datasets", content=case.content, params=query(case.options))
        try:
            expect(answer, case)
            if answer.status_code == 201:
                watched.taken += 1
                made = answer.json()
                assert made["warnings"] == json.loads(json.dumps(made["warnings"], allow_nan=False))
                if case.want is not None:
                    wanted = {name: [told(value) for value in cells] for name, cells in case.want.items()}
                    assert stored(watched.http, made) == wanted
            watched.check()
        except AssertionError as failed:
            raise AssertionError(case.name) from failed
    assert watched.datasets() == watched.taken


def test_a_file_in_a_form_is_the_same_file(watched: Watched):
    some = {"xlsx/sheet-by-name", "xlsx/far-cell", "json/nested", "gzip/cut-off"}
    for case in [case for case in cases() if case.name in some]:
        form = {"file": ("odd name.bin", case.content)}
        answer = watched.http.post("/v1/datasets", files=form, data=query(case.options))
        expect(answer, case)
        watched.taken += answer.status_code == 201
        watched.check()
    assert watched.datasets() == watched.taken


BROKEN_OFF = (
    b"Content-Length: 100000\r\n\r\na,b\n1,2\n",
    b"Transfer-Encoding: chunked\r\n\r\n8\r\na,b\n1,2\n\r\n",
    b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 9000\r\n\r\n--x\r\n"
    b'Content-Disposition: form-data; name="file"; filename="a"\r\n\r\na,b\n1,2\n',
)


def test_uploads_that_break_off_leave_nothing(watched: Watched):
    host = watched.http.base_url.host
    for rest in BROKEN_OFF:
        with socket.create_connection((host, watched.http.base_url.port)) as connection:
            head = f"POST /v1/datasets HTTP/1.1\r\nHost: {host}\r\n".encode()
            connection.sendall(head + rest)
    eventually(lambda: watched.served.log.read_text().count("POST /v1/datasets 400") >= len(BROKEN_OFF), 30)
    watched.check()
    assert watched.datasets() == watched.taken
