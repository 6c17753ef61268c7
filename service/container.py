"""The one wiring place: settings → services. Nothing else names an adapter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from service.adapters.access import Idempotency, Keys
from service.adapters.aliases import SqlAliases
from service.adapters.artifacts import Artifacts
from service.adapters.dask_spread import DaskSpread
from service.adapters.database import Database, connect
from service.adapters.datasets import SqlDatasets
from service.adapters.figures import SqlFigures
from service.adapters.ledger import SqlLedger
from service.adapters.migrations import migrate
from service.adapters.models import SqlModels
from service.adapters.objects import LocalObjects
from service.adapters.runners import SqlRunners
from service.adapters.signing import SigningKey
from service.adapters.upkeep import Upkeep
from service.cache import HostCache
from service.ports import Ledger, Objects, Runners
from service.settings import Settings
from service.usecases.aliases import Aliases
from service.usecases.bulk import Bulk
from service.usecases.chunked import Host
from service.usecases.datasets import DatasetService
from service.usecases.freshness import Freshness
from service.usecases.housekeeping import Housekeeping
from service.usecases.inference import Inference
from service.usecases.training import Training
from service.usecases.updates import Updates


@dataclass(frozen=True)
class Services:
    """Everything a transport or worker may call."""

    settings: Settings
    db: Database
    objects: Objects
    ledger: Ledger
    runners: Runners
    figures: SqlFigures
    freshness: Freshness
    models: SqlModels
    aliases: Aliases
    keys: Keys
    idempotency: Idempotency
    artifacts: Artifacts
    datasets: DatasetService
    training: Training
    updates: Updates
    inference: Inference
    bulk: Bulk
    housekeeping: Housekeeping


def open_objects(settings: Settings) -> Objects:
    """The store of tables, models and what spread fits share."""
    if settings.objects is None:
        return LocalObjects(settings.data / "objects")
    from service.adapters.s3_objects import S3Objects  # noqa: PLC0415 - only who uses S3 needs the extra [s3]

    cache = HostCache(settings.data / "cache", settings.cache_bytes)
    return S3Objects(settings.objects, cache, settings.data / "scratch")


def build_worker(settings: Settings) -> Objects:
    """What a worker of an engine needs: the store, and tables by content hash. It never speaks to the database."""
    absent: Any = None
    objects = open_objects(settings)
    Host.tables = DatasetService(settings, absent, objects, absent).table_of
    return objects


def build(settings: Settings) -> Services:
    """Open the stores under the data folder (making them when absent) and connect the use cases to them."""
    settings.data.mkdir(parents=True, exist_ok=True)
    db = connect(settings.database_url)
    migrate(db)
    key = SigningKey.of(settings)
    key.agree(db)
    objects = open_objects(settings)
    ledger = SqlLedger(db, settings)
    models = SqlModels(db)
    artifacts = Artifacts(objects, key)
    records = SqlDatasets(db)
    datasets = DatasetService(settings, records, objects, ledger)
    Host.tables = datasets.table_of
    inference = Inference(datasets, models, artifacts)
    fresh = Freshness(db.version, models.epoch)
    fresh.listen(inference.memory.recheck)
    return Services(
        settings, db, objects, ledger, SqlRunners(db, settings), SqlFigures(db), fresh, models,
        Aliases(models, SqlAliases(db)), Keys(db), Idempotency(db), artifacts, datasets,
        Training(settings, datasets, models, ledger, artifacts, DaskSpread(settings, objects)),
        Updates(datasets, models, ledger, artifacts, inference), inference,
        Bulk(settings, datasets, ledger, inference, records.add_made),
        Housekeeping(settings, objects, Upkeep(db, ledger, settings)),
    )  # fmt: skip
