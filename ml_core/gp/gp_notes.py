"""What the user of a Gaussian process should know of its fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ml_core.arrays import Vector
from ml_core.gp.search import Searched, Space, compared
from ml_core.gp.task import LOG_2PI, Task

if TYPE_CHECKING:
    from ml_core.gp.gaussian_process_classification import GaussianProcessClassification
    from ml_core.gp.gaussian_process_regression import GaussianProcessRegression

QUIET = 1e-6
FAR = 3.0
SMALL_GAIN = 2.0


def note(model: GaussianProcessRegression, space: Space, task: Task, flat: bool, y: Vector) -> None:
    """Record every finding."""
    _method(model, len(y))
    search_notes(model, space)
    _rows(model, task)
    gain = model.log_marginal_likelihood_ - _noise_alone(task)
    if not flat and gain < SMALL_GAIN:
        model._note("no_signal", f"the marginal likelihood is {gain:.3g} nats from that of noise without any function",
                    "the features tell little or nothing of the target under this kernel")  # fmt: skip
    if flat:
        model._note("constant_target", f"every target is {y[0]:g}: nothing tells the hyperparameters, so they stay at "
                    "their starts", "choose a target that varies")  # fmt: skip
    if model.jitter_ > 0:
        model._note("jitter", f"{model.jitter_:.3g} was added to the diagonal to factor it: the kernel matrix is "
                    "singular to rounding", "a larger noise_variance or shorter lengths make it needless")  # fmt: skip
    spread = float(np.std(y))
    if model.mean == "zero" and spread > 0 and abs(float(np.mean(y))) > FAR * spread:
        model._note("mean_far_from_zero", f"targets lie around {np.mean(y):.4g} and the prior mean is 0, to which "
                    "predictions far from the rows return", "set mean='constant'")  # fmt: skip


def _noise_alone(task: Task) -> float:
    """Log marginal likelihood of the prior mean and independent noise of the best variance.

    -inf with known noise, or of observations no more than the mean has coefficients.
    """
    n, p = task.weight.sum(), task.H.shape[1]
    root = np.sqrt(task.weight)[:, None]
    A = root * task.H
    r = root[:, 0] * task.y
    r -= A @ np.linalg.lstsq(A, r, rcond=None)[0]
    rss = float(r @ r)
    if task.extra.any() or rss == 0 or n <= p:
        return -np.inf
    logs = 0.5 * np.linalg.slogdet(A.T @ A)[1] if p else 0.0
    return float(-0.5 * (n - p) * (LOG_2PI + np.log(rss / (n - p)) + 1.0) - logs)


def _method(model: GaussianProcessRegression, n: int) -> None:
    if model.method_ == "sparse":
        sparse_note(model, n, "variances are approximate, and the marginal likelihood is a lower bound, "
                    f"{model.log_marginal_likelihood_:.6g} nats")  # fmt: skip


def sparse_note(model: GaussianProcessRegression | GaussianProcessClassification, n: int, what: str) -> None:
    """That inducing rows stand for all n, why, and what it costs."""
    m = len(model.surface_.rows)
    why = "as asked" if model.method == "sparse" else f"beyond exact_rows ({model.exact_rows}) or the memory granted"
    model._note("sparse", f"{m} inducing rows stand for {n} ({why}): {what}",
                "raise n_inducing until the marginal likelihood stops growing, or set method='exact'")  # fmt: skip


def search_notes(model: Searched, space: Space) -> None:
    """What the climbs tell: bounds, other maxima, hyperparameters that the rows do not tell apart."""
    if not model.runs_:
        return
    best = model.runs_[-1]
    hit = space.bounds_hit(best.end)
    if hit:
        model._note("at_bound", f"at the end of the range searched: {', '.join(hit)}; the rows do not tell the value",
                    "give and fix it, raise search_factor, or drop the column")  # fmt: skip
    lower, wide = compared(model.runs_, space)
    if lower:
        rows = lower[0].rows
        top = max(r.value for r in model.runs_ if r.rows == rows)
        model._note("multimodal", f"starts ended in different maxima on {rows} rows: the best is {top:.6g} nats, "
                    f"others {', '.join(f'{r.value:.6g}' for r in lower)}",
                    "compare the runs; raise n_restarts, or give hyperparameters that make sense")  # fmt: skip
    if wide:
        model._note("not_identified", f"starts ended equally well with different hyperparameters: {', '.join(wide)}",
                    "the rows do not tell these apart; fix some, or take more rows")  # fmt: skip
    if not best.converged:
        model._note_short(f"the search stopped after {model.n_iter_} steps ({model.solution_.reason})")


def _rows(model: GaussianProcessRegression, task: Task) -> None:
    """Rows with equal features and different targets, where the noise cannot explain them."""
    _, first, group = np.unique(task.X, axis=0, return_index=True, return_inverse=True)
    if len(first) == len(task.X):
        return
    group = group.ravel()
    counts = np.bincount(group)
    means = np.bincount(group, task.y) / counts
    within = float(((task.y - means[group]) ** 2).sum()) / max(len(task.X) - len(first), 1)
    if within > 0 and model.noise_variance_ < QUIET * within and not task.extra.any():
        text = (f"{len(task.X) - len(first)} rows repeat the features of others with different targets (variance "
                f"{within:.4g}), nearly impossible under a noise variance of {model.noise_variance_:.3g}")  # fmt: skip
        advice = "fit the noise: leave noise_variance out, with hyperparameters='maximise'"
        model._note("duplicate_rows", text, advice)
