"""What a model says of encoded rows as distributions: of each, of all together, and as draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ml_core.certificates import plain
from ml_core.rng import generator
from service.errors import TooLarge, Unsupported
from service.ports import Json
from service.usecases.loaded import Loaded

MAX_JOINT = 2_000
MAX_DRAWS = 10_000_000


def distributions(model: Loaded, estimator: Any, X: np.ndarray, notes: list[str], body: Mapping[str, Any]) -> Json:
    """The posterior document for encoded rows; Unsupported, TooLarge."""
    batch = estimator.posterior(X)
    out: Json = {"model": model.id, "distributions": batch.to_json(body.get("level", 0.9)), "warnings": notes}
    joint = batch
    if body.get("joint"):
        if not hasattr(estimator, "joint_posterior"):
            raise Unsupported(f"{model.record['algorithm']} has no joint predictive distribution; leave joint out")
        if len(X) > MAX_JOINT:
            raise TooLarge(f"a joint covariance of {len(X)} rows; at most {MAX_JOINT}")
        joint = estimator.joint_posterior(X)
        out["joint"] = joint.to_json(body.get("level", 0.9))[0]
    if body.get("samples"):
        bounded(body["samples"] * len(X))
        draws = joint.sample(body["samples"], generator(body.get("seed", 0)))
        out["samples"] = plain(draws[:, 0] if body.get("joint") else draws)
    return out


def bounded(numbers: int) -> None:
    """TooLarge beyond so many numbers to draw."""
    if numbers > MAX_DRAWS:
        raise TooLarge(f"{numbers} numbers would be drawn; a request takes at most {MAX_DRAWS}")
