"""doctor: what is broken on purpose is found and named, what is well is not blamed, and nothing is changed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from distributed import LocalCluster
from sqlalchemy import update

import ml_core
from service.__main__ import main
from service.adapters.database import Now
from service.adapters.job_tables import jobs
from service.adapters.runners import runners
from service.commands import checks
from service.commands.doctor import Finding, as_json, as_table, examine, well
from service.container import Services
from service.ports import RunnerFacts
from service.settings import Settings
from tests.contract.ledgers import postgres_schema, without_postgres
from tests.servers import free_ports, seaweed
from tests.test_commands import SECRET, fit, opened, ready, working

HEALTHY = RunnerFacts("r1", "host", 7, ml_core.__version__, slots=2, busy=1)
AWS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}


def found(data: Path, **environ: str) -> dict[str, Finding]:
    return {finding.check: finding for finding in examine(environ, data)}


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    """A service with a runner's row."""
    with opened(Settings(data=tmp_path / "data")) as made:
        made.runners.beat(HEALTHY)
        yield made


def bad(services: Services, **environ: str) -> dict[str, Finding]:
    """The checks that are not well; whether the kernels are compiled is the machine's affair."""
    every = found(services.settings.data, **environ)
    return {name: f for name, f in every.items() if f.status != "ok" and name != "kernels"}


def test_a_service_that_is_well(services: Services, tmp_path: Path) -> None:
    with working(services):
        fit(services, "mdl_1")
        ready(services, "mdl_1")
    before = {p: p.read_bytes() for p in sorted(services.settings.data.rglob("*.parquet"))}
    assert bad(services) == {}
    every = found(services.settings.data)
    assert list(every) == ["settings", "data folder", "kernels", "object store", "database", "clock", "schema",
                           "signing key", "runners", "queue", "leases", "models", "orphans"]  # fmt: skip
    assert every["models"].found == "the newest 1 verify"
    assert every["signing key"].found == f"key {services.artifacts.key.fingerprint()}"
    assert {p: p.read_bytes() for p in sorted(services.settings.data.rglob("*.parquet"))} == before
    assert list(services.objects.keys("doctor/")) == []


def test_an_empty_place_is_no_fault_and_stays_empty(tmp_path: Path) -> None:
    every = found(tmp_path / "absent")
    assert well(list(every.values()))
    assert every["database"].status == "warn"
    assert not (tmp_path / "absent").exists()


def test_wrong_settings(tmp_path: Path) -> None:
    (finding,) = examine({"POSTFIT_PORT": "many", "POSTFIT_COLOUR": "red"}, tmp_path)
    assert finding.status == "FAIL"
    assert "POSTFIT_PORT" in finding.found
    assert "POSTFIT_COLOUR" in finding.found


def test_a_dead_database_and_a_dead_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)
    database, store = free_ports(2)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{store}")
    every = found(tmp_path, POSTFIT_DATABASE=f"postgresql+psycopg://postgres@127.0.0.1:{database}/x",
                  POSTFIT_OBJECTS="s3://bucket/x", POSTFIT_SECRET=SECRET)  # fmt: skip
    assert {name for name, f in every.items() if f.status == "FAIL"} == {"object store", "database"}
    assert "refused" in every["database"].found
    assert "cannot be used now" in every["object store"].found
    assert "clock" not in every


def test_postgresql_and_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := without_postgres():
        pytest.skip(reason)
    with seaweed(tmp_path) as server, postgres_schema() as url:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        settings = Settings(data=tmp_path / "data", database=url, objects=server.url, secret=SECRET)
        with opened(settings) as services:
            services.runners.beat(HEALTHY)
            environ = {"POSTFIT_DATABASE": url, "POSTFIT_OBJECTS": server.url, "POSTFIT_SECRET": SECRET}
            assert bad(services, **environ) == {}
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
            assert "refuses the credentials" in bad(services, **environ)["object store"].found


def test_a_file_as_database_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "service.db").write_bytes(b"no database at all" * 100)
    assert found(tmp_path)["database"].status == "FAIL"


def test_another_key(services: Services) -> None:
    key = bad(services, POSTFIT_SECRET=SECRET)["signing key"]
    assert key.status == "FAIL"
    assert services.artifacts.key.fingerprint() in key.found


def test_a_damaged_and_a_lost_model(services: Services) -> None:
    with working(services):
        fit(services, "mdl_1")
        fit(services, "mdl_2")
        ready(services, "mdl_1", "mdl_2")
    one, two = (services.objects.path(services.models.get(m)["result"]["artifact"]["key"]) for m in ("mdl_1", "mdl_2"))
    one.chmod(0o600)
    one.write_bytes(one.read_bytes()[::-1])
    two.unlink()
    models = bad(services)["models"]
    assert models.status == "FAIL"
    assert "mdl_1: " in models.found
    assert "mdl_2: " in models.found


def test_objects_that_nothing_names(services: Services) -> None:
    for age in (0.0, 90_000.0):
        source = services.objects.scratch() / "x"
        source.write_bytes(b"x")
        key = f"models/mdl_gone/1/model-{age:.0f}.joblib"
        services.objects.put_file(key, source)
        then = time.time() - age
        os.utime(services.objects.path(key), (then, then))
    orphans = bad(services)["orphans"]
    assert orphans.status == "warn"
    assert orphans.found.startswith("2 objects that nothing names, 1 of them older")


def test_runners_that_are_absent_ill_or_old(services: Services) -> None:
    with services.db.write() as connection:
        connection.execute(update(runners).values(version="0.0.1"))
    assert "0.0.1" in bad(services)["runners"].found
    with services.db.write() as connection:
        connection.execute(update(runners).values(state="the disk is full"))
    assert bad(services)["runners"].status == "FAIL"
    assert "the disk is full" in bad(services)["runners"].found
    services.runners.leave("r1")
    assert bad(services)["runners"].status == "warn"


def test_a_queue_that_is_full_or_old_and_a_lease_that_expired(services: Services) -> None:
    fit(services, "mdl_1")
    fit(services, "mdl_2")
    assert "the limit" not in str(bad(services))
    assert bad(services, POSTFIT_MAX_QUEUED="2")["queue"].status == "FAIL"
    with services.db.write() as connection:
        connection.execute(update(jobs).values(submitted=Now() - 3600))
    assert bad(services)["queue"].found.startswith("2 queued, the oldest for 36")
    assert len(services.ledger.claim("silent", {"instant": 1})) == 1
    with services.db.write() as connection:
        connection.execute(update(jobs).where(jobs.c.state == "running").values(lease_until=Now() - 1))
    assert "1 running jobs" in bad(services)["leases"].found


def test_a_schema_of_another_version(services: Services) -> None:
    for revision, check, status in (("0001", "schema", "warn"), ("9999", "database", "FAIL")):
        with services.db.write() as connection:
            connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")
        every = found(services.settings.data)
        assert every[check].status == status
        assert "runners" not in every


def test_a_clock_that_is_off_and_a_disk_that_is_full(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "Now", lambda: Now() + 10)
    assert bad(services)["clock"].status == "warn"
    monkeypatch.setattr(checks, "Now", lambda: Now() - 1000)
    assert bad(services)["clock"].status == "FAIL"
    monkeypatch.setattr(checks, "FULL_BYTES", 1 << 80)
    monkeypatch.setattr(checks, "TIGHT_BYTES", 1 << 80)
    assert bad(services)["data folder"].status == "FAIL"


def test_a_dask_scheduler_that_is_away(services: Services) -> None:
    (port,) = free_ports(1)
    dask = bad(services, POSTFIT_DASK=f"tcp://127.0.0.1:{port}")["dask"]
    assert dask.status == "FAIL"
    assert str(port) in dask.found


NTH = count()


def never_the_same() -> dict[str, str]:
    """Versions that differ between any two who are asked."""
    return {"code": str(next(NTH))}


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dask_cluster(services: Services, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    """In this process, so that its members surely run this version."""
    with LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0"
    ) as cluster:
        address = cluster.scheduler_address
        dask = found(services.settings.data, POSTFIT_DASK=address)["dask"]
        assert (dask.status, dask.found[:9]) == (("ok", "2 workers") if workers else ("warn", "the sched"))
        monkeypatch.setattr(checks, "facts", never_the_same)
        apart = bad(services, POSTFIT_DASK=address)["dask"]
    assert (apart.status, apart.do) == ("FAIL", "install the same version everywhere")


def test_the_command(
    services: Services, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--data", str(services.settings.data), "doctor"]
    assert main(words) == 0
    assert "ok    schema" in capsys.readouterr().out
    monkeypatch.setenv("POSTFIT_SECRET", SECRET)
    assert main([*words, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert not document["well"]
    assert [c["check"] for c in document["checks"] if c["status"] == "FAIL"] == ["signing key"]


def test_a_finding_says_what_to_do() -> None:
    findings = [Finding("a", "ok", "fine"), Finding("longer", "FAIL", "broken", "mend it")]
    assert as_table(findings) == "ok    a       fine\nFAIL  longer  broken\n              → mend it"
    assert json.loads(as_json(findings))["checks"][1]["do"] == "mend it"
