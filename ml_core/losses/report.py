"""A loss evaluated on rows: values and slopes, the best constant, and what can be checked about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Certificate, Notice, finite
from ml_core.losses.arguments import Numbers, Rows, wrong
from ml_core.losses.base import Conjugable, Smooth, Subdifferentiable, TwiceSmooth
from ml_core.registry import Answer

STEP = 1e-6


@dataclass(frozen=True)
class LossReport:
    """Per row: loss, slope in the prediction (at a kink one of its subgradients), curvature if there is one.

    `kinks` are the rows where the slope is one of several. `total` and `mean` are weighted. `best_constant` is the
    constant prediction of least total loss, null where it is infinite. `loss` has every parameter filled in.
    """

    value: Numbers
    gradient: Rows
    curvature: Numbers | None
    kinks: list[int]
    total: float
    mean: float
    best_constant: list[float | None]
    best_constant_mean: float | None
    convex: bool
    smooth: bool
    loss: dict[str, Any]


def report(
    loss: Subdifferentiable, eta: Matrix, y: np.ndarray, s: Vector, *, factor: float = 1.0,
    unchecked: Iterable[int] = (),
) -> Answer[LossReport]:  # fmt: skip
    """The report of `factor` times a loss at predictions eta (n, q); slopes of `unchecked` rows are not differenced."""
    if not np.all(loss.domain.contains(y)):
        bad = int(np.flatnonzero(~loss.domain.contains(y).reshape(len(eta), -1).all(axis=1))[0])
        kind = " whole numbers" if loss.domain.whole else ""
        raise wrong("y", "domain", f"y[{bad}] = {y[bad]} is no target of this loss, which takes{kind} from "
                    f"{loss.domain.low:g} to {loss.domain.high:g}")  # fmt: skip
    with np.errstate(over="ignore"):
        value, g = factor * loss.value(eta, y), factor * loss.gradient(eta, y)
        C = factor * loss.curvature(eta, y)[:, 0, 0] if isinstance(loss, TwiceSmooth) and loss.width == 1 else None
        total = float(s @ value)
    kinks = [] if isinstance(loss, Smooth) else np.flatnonzero(_kinked(loss, eta, y)).tolist()
    start = loss.start(y, s)
    constant = None
    if np.isfinite(start).all():
        constant = finite(factor * float(s @ loss.value(np.tile(start, (len(eta), 1)), y) / s.sum()))
    report = LossReport(
        value, g[:, 0] if loss.width == 1 else g, C, kinks, total, total / float(s.sum()),
        [finite(c) for c in start], constant, loss.convex, isinstance(loss, Smooth), _spec(loss),
    )  # fmt: skip
    return Answer(report, _checks(loss, eta, y, value, g, factor, [*kinks, *unchecked]), _notices(value, start))


def _spec(loss: Any) -> dict[str, Any]:
    return dict(loss.to_json())


def _notices(value: Vector, start: Vector) -> tuple[Notice, ...]:
    out = []
    over = np.flatnonzero(~np.isfinite(value)).tolist()
    if over:
        out.append(Notice("overflow", f"the loss of rows {over[:20]} is beyond the largest number",
                          "scale the predictions"))  # fmt: skip
    if not np.isfinite(start).all():
        out.append(Notice("no_best_constant", "every row has the same label: the loss falls for ever as the constant "
                          "grows", "give rows of both labels"))  # fmt: skip
    return tuple(out)


def _steps(eta: Matrix) -> Matrix:
    """A small step in every prediction, of alternating sign and different size within a row."""
    q = eta.shape[1]
    return STEP * (1.0 + np.abs(eta)) * (1.0 + np.arange(q)) / q * (-1.0) ** np.arange(q)


def _kinked(loss: Subdifferentiable, eta: Matrix, y: np.ndarray) -> np.ndarray:
    h = _steps(eta)
    return np.asarray(np.abs(loss.gradient(eta + h, y) - loss.gradient(eta - h, y)).max(axis=1) > 1e-3)


def _checks(
    loss: Subdifferentiable, eta: Matrix, y: np.ndarray, value: Vector, g: Matrix, factor: float, kinks: list[int]
) -> tuple[Certificate, ...]:
    """The slope against differences of the value; the Fenchel-Young equality where there is a conjugate."""
    h = _steps(eta)
    with np.errstate(over="ignore", invalid="ignore"):
        change = factor * (loss.value(eta + h, y) - loss.value(eta - h, y))
        error = np.abs(change - 2.0 * (g * h).sum(axis=1))
        size = 2.0 * np.abs(h).max(axis=1) * np.maximum(np.maximum(1.0, np.abs(g).max(axis=1)), np.abs(value))
        use = np.isfinite(error / size)
    use[kinks] = False
    out = [Certificate("slope_error", float((error / size)[use].max(initial=0.0)), 1e-5,
                       "the slope against differences of the loss at smooth rows, relative")]  # fmt: skip
    if isinstance(loss, Conjugable):
        with np.errstate(over="ignore", invalid="ignore"):
            product = (g * eta).sum(axis=1)
            gap = value + factor * loss.conjugate(g / factor, y) - product
            gap /= 1.0 + np.abs(value) + np.abs(product)
        worst = float(np.abs(gap[np.isfinite(value)]).max(initial=0.0))
        out.append(Certificate("fenchel_young_gap", worst, 1e-9,
                               "loss + conjugate of the slope - slope · prediction is 0 exactly when the slope is a "
                               "subgradient (relative)"))  # fmt: skip
    return tuple(out)
