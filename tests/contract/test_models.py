"""Records of models on both databases: made with their job, deleted only when nothing needs them, whoever is faster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from service.adapters import ledger as ledger_module
from service.adapters.aliases import SqlAliases
from service.adapters.database import Database, connect
from service.adapters.datasets import SqlDatasets
from service.adapters.ledger import SqlLedger
from service.adapters.models import SqlModels
from service.errors import Conflict, NotFound, Stale
from service.ports import NewJob, NewModel
from service.settings import Settings
from tests.contract.ledgers import NEW, claim

RECORD = {"estimator": {"algorithm": "ridge"}, "dataset": "ds_1", "labels": {"team": "a"}}


def fit(model: str, name: str = "m", *needs: str) -> NewJob:
    return replace(NEW, resource=model, needs=needs, model=NewModel(name, RECORD))


@pytest.fixture
def ledger(db: Database) -> SqlLedger:
    return SqlLedger(db, Settings())


@pytest.fixture
def elsewhere(db: Database) -> Iterator[Database]:
    other = connect(db.engine.url.render_as_string(hide_password=False))
    yield other
    other.close()


def ready(ledger: SqlLedger, model: str) -> None:
    ledger.put(fit(model))
    assert ledger.finish(claim(ledger), "succeeded", result={"artifact": {"key": "k"}})


def failure(call: Callable[[], object]) -> type[BaseException] | None:
    try:
        call()
    except (Conflict, NotFound, Stale) as told:
        return type(told)
    return None


def test_a_job_and_its_model_are_stored_together_or_not_at_all(
    db: Database, ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ledger.put(fit("mdl_1"))
    row = SqlModels(db).get("mdl_1")
    assert (row["job"], row["version"], row["labels"], row["state"]) == (job.id, 1, {"team": "a"}, "queued")
    with pytest.raises(NotFound, match="ds_9, ds_gone was deleted"):
        ledger.put(fit("mdl_2", "m", "ds_gone", "ds_9"), once=True)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger_module, "add_model", die)
    with pytest.raises(KeyboardInterrupt):
        ledger.put(fit("mdl_3"))
    assert [j.id for j in ledger.page(limit=9, cursor=None).items] == [job.id]
    assert [m["id"] for m in SqlModels(db).page(limit=9, cursor=None).items] == ["mdl_1"]


def test_a_repetition_finds_its_job_and_makes_no_second_model(db: Database, ledger: SqlLedger) -> None:
    first = ledger.put(fit("mdl_1"), once=True)
    assert ledger.put(fit("mdl_1"), once=True).id == first.id
    assert SqlModels(db).get("mdl_1")["version"] == 1


def test_models_of_one_name_have_every_version_once(db: Database) -> None:
    def put(n: int) -> None:
        other = connect(db.engine.url.render_as_string(hide_password=False))
        SqlLedger(other, Settings()).put(fit(f"mdl_{n}", f"name {n % 2}"))
        other.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(16)))
    found = sorted((m["name"], m["version"]) for m in SqlModels(db).page(limit=99, cursor=None).items)
    assert found == [(f"name {k}", v) for k in range(2) for v in range(1, 9)]


def test_only_a_model_that_nothing_needs_goes_and_its_job_forgets_the_product(db: Database, ledger: SqlLedger) -> None:
    models, aliases = SqlModels(db), SqlAliases(db)
    ledger.put(fit("mdl_1"))
    with pytest.raises(Conflict, match="is queued; cancel job job_"):
        models.remove("mdl_1")
    held = claim(ledger)
    with pytest.raises(Conflict, match="is running"):
        models.remove("mdl_1")
    ledger.finish(held, "succeeded", result={"artifact": {"key": "k"}})
    aliases.put("prod", "mdl_1")
    with pytest.raises(Conflict, match="alias prod points at"):
        models.remove("mdl_1")
    aliases.remove("prod")
    update = ledger.put(fit("mdl_2", "m", "mdl_1"))
    with pytest.raises(Conflict, match="job needs model mdl_1"):
        models.remove("mdl_1")
    ledger.cancel(update.id)

    def refuse(row: Any) -> None:
        raise Stale(row["state"])

    with pytest.raises(Stale, match="ready"):
        models.remove("mdl_1", refuse)
    assert models.remove("mdl_1")["result"] == {"artifact": {"key": "k"}}
    assert (ledger.get(held.job.id).state, ledger.get(held.job.id).result) == ("succeeded", None)
    with pytest.raises(NotFound):
        models.remove("mdl_1")


@pytest.mark.parametrize("what", ["mdl_0", "ds_0"])
def test_what_a_submission_names_is_not_deleted_meanwhile(
    db: Database, ledger: SqlLedger, elsewhere: Database, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The submission has looked that it is there and is about to commit: the deletion waits, then sees the job."""
    told: list[object] = []
    ready(ledger, "mdl_0")
    SqlDatasets(db).add({"id": "ds_0", "name": "d", "sha256": "aa"})
    store: Any = SqlModels(elsewhere) if what == "mdl_0" else SqlDatasets(elsewhere)
    rival = threading.Thread(target=lambda: told.append(failure(lambda: store.remove(what))))
    add = ledger_module.add_model

    def slow(*given: Any) -> None:
        add(*given)
        rival.start()
        rival.join(0.2)

    monkeypatch.setattr(ledger_module, "add_model", slow)
    ledger.put(fit("mdl_1", "m", what), once=True)
    rival.join(30)
    assert told == [Conflict]
    assert ledger.needed(what)


def test_a_submission_that_names_what_is_being_deleted_is_refused(
    db: Database, ledger: SqlLedger, elsewhere: Database
) -> None:
    ready(ledger, "mdl_0")
    told: list[object] = []
    other = SqlLedger(elsewhere, Settings())
    new = fit("mdl_1", "m", "mdl_0")
    rival = threading.Thread(target=lambda: told.append(failure(lambda: other.put(new, once=True))))

    def allowed(row: object) -> None:
        rival.start()
        rival.join(0.2)

    SqlModels(db).remove("mdl_0", allowed)
    rival.join(30)
    assert told == [NotFound]
    assert failure(lambda: ledger.of_resource("mdl_1")) is NotFound
