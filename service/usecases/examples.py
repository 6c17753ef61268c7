"""A fit request for each algorithm that works on a bundled sample, derived from what the algorithm asks of its rows."""

from __future__ import annotations

from typing import Any

from ml_core.registry import Algorithm, build
from service.ports import Json

MEASURES = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
BY_TASK: dict[str, Json] = {
    "regression": {"dataset": "penguins", "target": "body_mass_g", "features": MEASURES[:3]},
    "classification": {"dataset": "penguins", "target": "species", "features": MEASURES},
}
BY_DOMAIN: dict[str, Json] = {"binary": {"dataset": "votes", "features": ["vote"]}}


def fit_example(entry: Algorithm) -> Json:
    """The request; rows with empty cells are dropped because penguins has some."""
    spec = entry.example()
    estimator: Any = build(spec)
    data = (
        BY_DOMAIN.get(estimator.accepts) or BY_TASK.get(estimator.task) or {"dataset": "penguins", "features": MEASURES}
    )
    return {"estimator": spec, **data, "encoding": {"missing": "drop_rows"}}
