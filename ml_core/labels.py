"""Labels of classes are JSON scalars: which of them are the same, their order, and how an object's key spells them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np


def key(label: Any) -> tuple[int, Any]:
    """What tells labels apart and orders them: null, then booleans, numbers, texts; true is not 1, but 1.0 is."""
    value = label.item() if isinstance(label, np.generic) else label
    if value is None:
        return 0, 0
    if isinstance(value, bool):
        return 1, value
    return (3, value) if isinstance(value, str) else (2, value)


def distinct(labels: Iterable[Any]) -> list[Any]:
    """The different labels in order, each as it stood first."""
    found: dict[tuple[int, Any], Any] = {}
    for label in labels:
        found.setdefault(key(label), label)
    return [found[k] for k in sorted(found)]


def spellings(label: Any) -> set[str]:
    """The texts that stand for a label as the key of a JSON object: true is "true", 2.0 is "2" too."""
    value = label.item() if isinstance(label, np.generic) else label
    if isinstance(value, str):
        return {value}
    whole = isinstance(value, float) and value.is_integer()
    return {str(value), json.dumps(value), *([str(int(value))] if whole else [])}
