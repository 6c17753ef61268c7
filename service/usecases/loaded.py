"""Models in memory, and the names by which they were asked for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from ml_core.preprocessing.table import TabularModel
from service.errors import Conflict
from service.ports import Json

MAX_NAMES = 10_000


@dataclass(frozen=True)
class Loaded:
    """A model in memory: its record, and the fitted object whose large arrays are mapped from disk."""

    id: str
    record: Json
    fitted: TabularModel


class LoadedModels:
    """Loads models once. A model is immutable: only its deletion, or a name that moves, can make a copy wrong."""

    def __init__(self, models: Any, artifacts: Any, keep: int) -> None:
        self.models = models
        self.artifacts = artifacts
        self.keep = keep
        self.hits = self.misses = 0
        self._loaded: OrderedDict[str, Loaded] = OrderedDict()
        self._names: dict[str, str] = {}  # aliases and name@version → id
        self._round = 0  # grows at every recheck: what was read before it is not kept after it
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._loaded)

    def cached(self, key: str) -> Loaded | None:
        """The model of this id, alias or name@version if it is in memory; no I/O."""
        with self._lock:
            found = self._loaded.get(self._names.get(key, key))
            if found is not None:
                self.hits += 1
                self._loaded.move_to_end(found.id)
            return found

    def load(self, key: str) -> Loaded:
        """The model by id, alias, name or name@version; Conflict while it is not ready."""
        found = self.cached(key)
        if found is not None:
            return found
        begun = self._round
        record = self.models.get(key)
        found = self._again(key, record, begun)
        if found is not None:
            return found
        ready(record)
        loaded = Loaded(record["id"], record, self.artifacts.load(record["result"]["artifact"]))
        with self._lock:
            self.misses += 1
            if begun == self._round:
                self._loaded[loaded.id] = loaded
                self._name(key, record)
            while len(self._loaded) > self.keep:
                self._loaded.popitem(last=False)
        return loaded

    def _again(self, key: str, record: Json, begun: int) -> Loaded | None:
        """The model of a record, in memory under another name."""
        with self._lock:
            found = self._loaded.get(record["id"])
            if found is not None and begun == self._round:
                self.hits += 1
                self._name(key, record)
            return found

    def _name(self, key: str, record: Json) -> None:
        if record["lasting"] and key != record["id"]:
            if len(self._names) >= MAX_NAMES:
                self._names.clear()
            self._names[key] = record["id"]

    def forget(self, model_id: str) -> None:
        """Drop a model from memory."""
        with self._lock:
            self._round += 1
            self._loaded.pop(model_id, None)

    def recheck(self) -> None:
        """Drop every name, and the models that are no more: some process changed the catalogue."""
        with self._lock:
            self._round += 1
            self._names.clear()
            held = set(self._loaded)
        gone = held - self.models.present(held)
        with self._lock:
            for model_id in gone:
                self._loaded.pop(model_id, None)


def ready(record: Json) -> None:
    """Conflict unless the model can be used."""
    if record["state"] != "ready":
        raise Conflict(f"model {record['id']} is {record['state']}, not ready; see job {record['job']}")
