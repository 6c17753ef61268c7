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
    told = batch.to_json(body.get("level", 0.9))
    out: Json = {"model": model.id, "distributions": told, "warnings": [*notes, *undefined(told)]}
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


def undefined(told: list[Json]) -> list[str]:
    """Why figures of some distributions are null, in one sentence, where there are such."""
    lacking = [[name for name, v in one.items() if _null(v)] for one in told]
    names = dict.fromkeys(name for row in lacking for name in row)
    if not names:
        return []
    return [f"{', '.join(names)}: null in {sum(map(bool, lacking))} of {len(told)} distributions, because the scale is "
            "infinite or there is no such moment: no degrees of freedom are left, or the training rows do not "
            "determine this row"]  # fmt: skip


def _null(value: Any) -> bool:
    """Whether a null stands in a JSON value."""
    return value is None or (isinstance(value, list) and any(map(_null, value)))


def bounded(numbers: int) -> None:
    """TooLarge beyond so many numbers to draw."""
    if numbers > MAX_DRAWS:
        raise TooLarge(f"{numbers} numbers would be drawn; a request takes at most {MAX_DRAWS}")
