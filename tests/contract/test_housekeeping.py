"""Housekeeping on both databases: what is named stays, whatever happens meanwhile; what nobody needs goes, once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import func, insert, select, update

from service.adapters.access import answers
from service.adapters.database import Database, Now, connect
from service.adapters.datasets import SqlDatasets
from service.adapters.facts import facts
from service.adapters.job_tables import job_attempts, jobs
from service.adapters.ledger import SqlLedger
from service.adapters.models import SqlModels
from service.adapters.runners import SqlRunners, runners
from service.adapters.upkeep import BATCH, Upkeep
from service.ports import Attempt, NewModel, Report, RunnerFacts
from service.settings import Settings
from service.usecases.housekeeping import Housekeeping
from tests.contract.ledgers import NEW, claim

RECORD = {"estimator": {"algorithm": "ridge"}, "dataset": "ds_1"}
HOUR = 3600.0


@dataclass
class Shelf:
    """Objects with forged ages, in seconds."""

    ages: dict[str, float] = field(default_factory=dict)
    before: Callable[[str], None] = lambda key: None

    def stale(self, prefix: str, older_than_seconds: float) -> Iterator[str]:
        return iter(sorted(k for k, age in self.ages.items() if k.startswith(prefix) and age > older_than_seconds))

    def delete(self, key: str) -> None:
        self.before(key)
        self.ages.pop(key, None)


@pytest.fixture
def world(db: Database) -> Any:
    settings = Settings(retention_days=30, orphan_hours=24, max_attempts=9)
    ledger, shelf = SqlLedger(db, settings), Shelf()
    upkeep = Upkeep(db, ledger, settings)
    return SimpleNamespace(
        db=db, ledger=ledger, shelf=shelf, upkeep=upkeep, models=SqlModels(db), datasets=SqlDatasets(db),
        sweep=lambda: Housekeeping(settings, shelf, upkeep).run(ledger, Report(lambda _: None, 1)),  # type: ignore
    )  # fmt: skip


def dataset(world: Any, name: str, sha: str) -> None:
    world.datasets.add({"id": name, "name": name, "sha256": sha})


def key_of(model: str, attempt: int = 1) -> str:
    return f"models/{model}/{attempt}/model.joblib"


def fitted(world: Any, model: str, attempt: int = 1, *, record: bool = True) -> str:
    """A model whose job succeeded, or one that was deleted then; the id of the job."""
    job = world.ledger.put(replace(NEW, resource=model, model=NewModel(model, RECORD)))
    held = claim(world.ledger)
    assert held.job.id == job.id
    world.ledger.finish(held, "succeeded", result={"artifact": {"key": key_of(model, attempt)}},
                        attempt=Attempt("h", 1, 0, 1, 1.0))  # fmt: skip
    if not record:
        world.models.remove(model)
    return str(job.id)


def aged(world: Any, job: str, days: float) -> None:
    with world.db.write() as c:
        c.execute(update(jobs).where(jobs.c.id == job).values(finished=Now() - days * 24 * HOUR))


def count(world: Any, table: Any) -> int:
    with world.db.read() as c:
        return int(c.execute(select(func.count()).select_from(table)).scalar_one())


def test_orphans_go_and_what_is_named_or_young_stays(world: Any) -> None:
    fitted(world, "mdl_a", 2)
    fitted(world, "mdl_gone", record=False)
    dataset(world, "ds_1", "aa")
    world.ledger.put(replace(NEW, resource="mdl_queued"))
    stays = {key_of("mdl_a", 2), key_of("mdl_queued", 1), "tables/aa.parquet", "models/x", "models/b.txt"}
    goes = {key_of("mdl_a", 1), key_of("mdl_gone"), key_of("mdl_never"), "tables/bb.parquet"}
    world.shelf.ages = dict.fromkeys(stays | goes, 25 * HOUR) | {"tables/young.parquet": 23 * HOUR, "other/x": 1e9}
    assert world.sweep()["objects"] == len(goes)
    assert set(world.shelf.ages) == stays | {"tables/young.parquet", "other/x"}
    assert world.sweep()["objects"] == 0


def test_what_the_result_of_a_succeeded_job_names_stays_though_its_record_is_missing(world: Any) -> None:
    """As servers left it that died between the two writes that earlier versions made."""
    world.ledger.put(replace(NEW, resource="mdl_bare"))
    world.ledger.finish(claim(world.ledger), "succeeded", result={"artifact": {"key": key_of("mdl_bare", 2)}})
    world.shelf.ages = dict.fromkeys([key_of("mdl_bare", 1), key_of("mdl_bare", 2)], 25 * HOUR)
    assert world.sweep()["objects"] == 1
    assert set(world.shelf.ages) == {key_of("mdl_bare", 2)}


def test_what_a_spread_fit_shares_goes_once_its_job_has_ended(world: Any) -> None:
    ended = f"spread/{fitted(world, 'mdl_1')}/1/ab.npy"
    waiting = f"spread/{world.ledger.put(replace(NEW, resource='mdl_2')).id}/1/ab.npy"
    world.shelf.ages = {
        ended: 25 * HOUR,
        waiting: 25 * HOUR,
        "spread/job_gone/2/cd.pickle": 25 * HOUR,
        "spread/odd": 1e9,
    }
    world.sweep()
    assert set(world.shelf.ages) == {waiting, "spread/odd"}


@pytest.mark.parametrize("seed", range(4))
def test_nothing_named_is_ever_removed(world: Any, seed: int) -> None:
    """Random histories against an oracle that knows what each step named."""
    random, named, ages = Random(seed), set(), {}
    for i in range(25):
        model, attempt = f"mdl_{i}", random.randint(1, 3)
        fate = random.choice(["ready", "deleted", "queued", "failed", "table", "orphan"])
        for a in range(1, attempt + 1):
            ages[key_of(model, a)] = random.choice([1.0, 30 * HOUR])
        if fate == "table":
            dataset(world, f"ds_{i}", f"{i % 7:02d}")
            ages[f"tables/{i % 7:02d}.parquet"] = 30 * HOUR
            named.add(f"tables/{i % 7:02d}.parquet")
        elif fate in ("ready", "deleted"):
            fitted(world, model, attempt)
            if fate == "deleted":
                world.models.remove(model)
            else:
                named.add(key_of(model, attempt))
        elif fate == "failed":
            world.ledger.put(replace(NEW, resource=model, model=NewModel(model, RECORD)))
            world.ledger.finish(claim(world.ledger), "failed", error={"code": "x"})
        elif fate == "queued":
            world.ledger.cancel(world.ledger.put(replace(NEW, resource=model, lane="instant")).id)
            world.ledger.put(replace(NEW, resource=model, lane="instant"))
            named |= {key_of(model, a) for a in range(1, attempt + 1)}
    ages |= {f"tables/{i:02d}.parquet": 30 * HOUR for i in range(9)}
    world.shelf.ages = dict(ages)
    world.sweep()
    young = {key for key, age in ages.items() if age < 24 * HOUR}
    assert set(world.shelf.ages) == (named & set(ages)) | young


def test_a_table_named_between_the_looks_stays(world: Any) -> None:
    world.shelf.ages = {"tables/aa.parquet": 30 * HOUR}
    assert world.upkeep.unnamed(["tables/aa.parquet"]) == ["tables/aa.parquet"]
    dataset(world, "ds_1", "aa")
    assert not world.upkeep.remove("tables/aa.parquet", world.shelf.delete)
    assert "tables/aa.parquet" in world.shelf.ages


def test_a_dataset_cannot_be_added_while_its_table_goes(world: Any) -> None:
    """It waits, and so finds the table gone when it looks again after its record is written."""
    seen: list[bool] = []

    def upload() -> None:
        dataset(world, "ds_1", "aa")
        seen.append("tables/aa.parquet" in world.shelf.ages)

    uploader = threading.Thread(target=upload)

    def removing(key: str) -> None:
        uploader.start()
        uploader.join(0.1)

    world.shelf.ages = {"tables/aa.parquet": 30 * HOUR}
    world.shelf.before = removing
    assert world.upkeep.remove("tables/aa.parquet", world.shelf.delete)
    uploader.join(30)
    assert seen == [False]


def test_ended_jobs_go_when_old_and_without_their_product(world: Any) -> None:
    kept, gone, young = fitted(world, "mdl_a"), fitted(world, "mdl_b", record=False), fitted(world, "mdl_c")
    world.models.remove("mdl_c")
    aged(world, kept, 400)
    aged(world, gone, 31)
    aged(world, young, 29)
    waiting = world.ledger.put(replace(NEW, resource="mdl_d")).id
    aged(world, waiting, 400)  # not a thing that happens: only ended jobs may go, whatever else the row says
    assert count(world, job_attempts) == 3
    assert world.sweep()["jobs"] == 1
    assert {job.id for job in world.ledger.page(limit=9, cursor=None).items} == {kept, young, waiting}
    assert count(world, job_attempts) == 2
    assert world.models.get("mdl_a")["state"] == "ready"


def test_many_old_jobs_go_in_parts(world: Any) -> None:
    made = world.ledger.put(NEW).id
    world.ledger.cancel(made)
    aged(world, made, 31)
    with world.db.write() as c:
        row = dict(c.execute(select(jobs)).mappings().one())
        c.execute(insert(jobs), [row | {"id": f"job_{i}"} for i in range(BATCH + 5)])
    assert world.upkeep.forget_jobs() == BATCH + 6
    assert count(world, jobs) == 0


def test_old_answers_and_silent_runners_go(world: Any) -> None:
    facts_of = RunnerFacts("A", "h", 1, "1", 1, 0)
    present = SqlRunners(world.db, Settings())
    present.beat(facts_of)
    present.beat(replace(facts_of, owner="B"))
    with world.db.write() as c:
        c.execute(update(runners).where(runners.c.owner == "A").values(beat=Now() - 3 * HOUR))
        for key, hours in (("old", 25), ("new", 23)):
            c.execute(insert(answers).values(key=key, digest="", resource="", created=Now() - hours * HOUR))
    done = world.sweep()
    assert (done["answers"], done["runners"]) == (1, 1)
    assert [r.owner for r in present.alive()] == ["B"]
    assert count(world, answers) == 1


def test_of_many_who_ask_one_queues_one_sweep_an_hour(world: Any) -> None:
    others = [connect(world.db.engine.url.render_as_string(hide_password=False)) for _ in range(6)]
    asked = [Upkeep(db, SqlLedger(db, Settings()), Settings()).ask for db in others]
    for round_ in (1, 2):
        with ThreadPoolExecutor(6) as pool:
            assert sum(pool.map(lambda ask: ask(), asked)) == 1
        assert len(world.ledger.page(limit=9, cursor=None, kind="sweep").items) == round_
        past(world)
        assert not world.upkeep.ask()  # one is still queued
        world.ledger.finish(claim(world.ledger), "succeeded", result={})
    for other in others:
        other.close()


def past(world: Any) -> None:
    """An hour goes by."""
    with world.db.write() as c:
        c.execute(update(facts).where(facts.c.name == "sweep").values(updated=facts.c.updated - HOUR - 1))


def test_a_full_queue_lets_the_next_one_ask(db: Database) -> None:
    settings = Settings(max_queued=1)
    ledger = SqlLedger(db, settings)
    upkeep = Upkeep(db, ledger, settings)
    job = ledger.put(NEW)
    assert not upkeep.ask()
    ledger.cancel(job.id)
    assert upkeep.ask()
    assert not upkeep.ask()


def test_a_sweep_is_a_job_like_any_other(tmp_path: Path) -> None:
    from service.container import build
    from service.work import run

    settings = Settings(data=tmp_path)
    use = build(settings)
    assert Upkeep(use.db, use.ledger, settings).ask()
    (held,) = use.ledger.claim("A", {"long": 1})
    result = run(settings, held.job, Report(lambda _: None, 1))
    assert result == {"objects": 0, "jobs": 0, "answers": 0, "runners": 0}
    use.db.close()
