"""The bundled tables, their licence and what to learn from them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from service.errors import NotFound
from service.ids import fixed_id
from service.ports import Json

FOLDER = Path(__file__).parent.parent / "samples"


def entries() -> list[Json]:
    """Name, title, description, licence, source, task, target, features and file of each."""
    listed: list[Json] = json.loads((FOLDER / "index.json").read_text("utf-8"))["samples"]
    return listed


def entry(name: str) -> Json:
    """The entry of this name; NotFound."""
    listed = entries()
    found = next((entry for entry in listed if entry["name"] == name), None)
    if found is None:
        raise NotFound(f"There is no sample {name!r}; there are {', '.join(e['name'] for e in listed)}.")
    return found


def dataset_id(name: str, number: int) -> str:
    """The id of the `number`-th dataset that first uses made of the sample: the same for all who use it at once."""
    content = hashlib.sha256((FOLDER / entry(name)["file"]).read_bytes()).hexdigest()
    return fixed_id("ds", name, content, str(number))
