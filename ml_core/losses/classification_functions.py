"""The losses of scores for two labels, and of probabilities, as functions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ml_core.arrays import Matrix, Vector
from ml_core.certificates import Notice
from ml_core.labels import distinct
from ml_core.losses.arguments import (
    Marks,
    Positive,
    Scores,
    Signs,
    Weight,
    bounded,
    codes_of,
    signs_of,
    weights_of,
    wrong,
)
from ml_core.losses.exponential import Exponential
from ml_core.losses.hinge import Hinge
from ml_core.losses.logistic import Logistic
from ml_core.losses.perceptron import Perceptron
from ml_core.losses.probability import CLIP, LogProbability, LogScores
from ml_core.losses.report import LossReport, report
from ml_core.params import RealMatrix, RealVector
from ml_core.registry import Answer, function

MARGINS = {"scores": [2.0, 0.3, -1.0, 0.2], "y": [1, 1, 1, -1]}
NEAR = 1e-5
SUM = 1e-6


def _of(loss: Any, scores: Vector, y: list[Any], positive: Any, sample_weight: Any) -> Answer[LossReport]:
    bounded(scores=scores)
    signs = signs_of(y, positive, len(scores))
    return report(loss, scores[:, None], signs, weights_of(sample_weight, len(scores)))


@function("hinge_loss", example=MARGINS)
def hinge_loss(
    *, scores: Scores, y: Signs, positive: Positive = None, sample_weight: Weight = None
) -> Answer[LossReport]:
    """max(0, 1 - m) with the margin m = ± score; slope -(± 1) below the margin 1, 0 from 1 on.

    The loss of support vector machines; convex, above the zero-one loss.

    References
    ----------
    Cortes, Vapnik (1995), Support-vector networks, Machine Learning 20.
    """
    return _of(Hinge(), scores, y, positive, sample_weight)


@function("exponential_loss", example=MARGINS)
def exponential_loss(
    *, scores: Scores, y: Signs, positive: Positive = None, sample_weight: Weight = None
) -> Answer[LossReport]:
    """e^-m with the margin m = ± score; slope -(± 1) e^-m.

    What AdaBoost minimises; convex, above the zero-one loss. The best constant is half the log-odds.

    References
    ----------
    Friedman, Hastie, Tibshirani (2000), Additive logistic regression, Annals of Statistics 28.
    """
    return _of(Exponential(), scores, y, positive, sample_weight)


@function("perceptron_loss", example=MARGINS)
def perceptron_loss(
    *, scores: Scores, y: Signs, positive: Positive = None, sample_weight: Weight = None
) -> Answer[LossReport]:
    """max(0, -m) with the margin m = ± score; slope -(± 1) on the wrong side and on the boundary, else 0.

    Convex; the score 0 costs nothing for either label, so it is no bound of the zero-one loss.

    References
    ----------
    Rosenblatt (1958), The perceptron, Psychological Review 65.
    """
    return _of(Perceptron(), scores, y, positive, sample_weight)


@function("logistic_loss", example={"scores": [0.8, 0.3, 0.6], "y": [1, 0, 1], "given": "probabilities"})
def logistic_loss(
    *,
    scores: Annotated[RealVector, Field(description="(n,) log-odds, probabilities of the positive label, or margins.")],
    y: Annotated[Marks | None, Field(description="Labels, or shares in [0, 1]; none with margins.")] = None,
    given: Annotated[
        Literal["logits", "probabilities", "margins"], Field(description="What `scores` are.")
    ] = "logits",
    positive: Positive = None,
    sample_weight: Weight = None,
) -> Answer[LossReport]:
    """-y log p - (1 - y) log(1 - p): of log-odds log(1 + e^η) - y η, of margins log(1 + e^-m).

    Minus the log-likelihood of a Bernoulli target. Slope σ(η) - y in log-odds, (p - y)/(p (1 - p)) in probabilities,
    -σ(-m) in margins. Probabilities are kept within [1e-15, 1 - 1e-15], and rows that this changes are named.

    References
    ----------
    McCullagh, Nelder (1989), Generalized Linear Models, chapter 4.
    """
    bounded(scores=scores)
    s = weights_of(sample_weight, len(scores))
    if (given == "margins") != (y is None):
        raise wrong("y", "one_of", "margins already hold the labels: give y with logits and probabilities only")
    t = np.ones(len(scores)) if y is None else _shares(y, positive, len(scores))
    if given != "probabilities":
        return report(Logistic(), scores[:, None], t, s)
    return _probabilities(LogProbability(2, single=True), scores[:, None], t, s)


def _shares(y: list[Any], positive: Any, n: int) -> Vector:
    """Numbers in [0, 1] as they are unless a positive label is named; labels as 0 and 1."""
    numbers = all(isinstance(v, (bool, int, float)) and 0 <= v <= 1 for v in y)
    if positive is None and numbers and len(y) == n:
        return np.array(y, dtype=np.float64)
    return 0.5 + 0.5 * signs_of(y, positive, n)


def _probabilities(loss: LogProbability, p: Matrix, T: np.ndarray, s: Vector) -> Answer[LossReport]:
    outside = np.flatnonzero(((p < 0) | (p > 1)).any(axis=1))
    if len(outside):
        raise wrong("scores", "range", f"scores[{outside[0]}] is no probability: they lie between 0 and 1")
    limit = p if not loss.single else np.hstack([p, 1.0 - p])
    clipped = np.flatnonzero((limit < CLIP).any(axis=1)).tolist()
    near = np.flatnonzero((limit < NEAR).any(axis=1)).tolist()
    notes: tuple[Notice, ...] = ()
    if clipped:
        notes = (Notice("clipped", f"probabilities of rows {clipped[:20]} were raised to {CLIP:g}",
                        "give logits, which lose nothing"),)  # fmt: skip
    answer = report(loss, p, T, s, unchecked=near)
    return Answer(answer.value, answer.certificates, answer.warnings + notes)


@function(
    "categorical_cross_entropy",
    example={"scores": [[0.7, 0.2, 0.1], [0.1, 0.5, 0.4]], "y": ["a", "c"], "classes": ["a", "b", "c"]},
)
def categorical_cross_entropy(
    *,
    scores: Annotated[RealMatrix, Field(description="(n, K) probabilities, or logits: one score a class.")],
    y: Annotated[Marks | None, Field(description="(n,) labels.")] = None,
    targets: Annotated[RealMatrix | None, Field(description="(n, K) target distributions, in the place of y.")] = None,
    classes: Annotated[Marks | None, Field(description="K labels; default 0 … K-1.")] = None,
    given: Annotated[Literal["logits", "probabilities"], Field(description="What `scores` are.")] = "probabilities",
    sample_weight: Weight = None,
) -> Answer[LossReport]:
    """-Σⱼ Tⱼ log pⱼ; slope -T/p in probabilities, p - T in logits (softmax inside).

    Minus the log-likelihood of a categorical target. Rows of probabilities must sum to 1; those below 1e-15 are raised
    to it, and rows that this changes are named. With logits nothing is clipped.

    References
    ----------
    Bishop (2006), Pattern Recognition and Machine Learning, section 4.3.4.
    """
    n, K = scores.shape
    if not n or K < 2:
        raise wrong("scores", "shape", f"scores needs a row and two columns, got {n} × {K}")
    bounded(scores=scores)
    T = _distributions(y, targets, classes, n, K)
    s = weights_of(sample_weight, n)
    if given == "logits":
        return report(LogScores(K), scores, T, s)
    off = np.flatnonzero(np.abs(scores.sum(axis=1) - 1.0) > SUM)
    if len(off):
        raise wrong("scores", "sum", f"the probabilities of row {off[0]} sum to {scores[off[0]].sum():.6g}, not to 1; "
                    "say given = \"logits\" if they are scores")  # fmt: skip
    return _probabilities(LogProbability(K), scores, T, s)


def _distributions(y: Any, targets: Any, classes: Any, n: int, K: int) -> Matrix:
    if (y is None) == (targets is None):
        raise wrong("y", "one_of", "give exactly one of y and targets")
    if targets is not None:
        if targets.shape != (n, K) or (targets < 0).any() or (np.abs(targets.sum(axis=1) - 1.0) > SUM).any():
            raise wrong("targets", "distribution", f"targets needs {n} rows of {K} non-negative numbers of sum 1")
        return np.asarray(targets)
    names = list(range(K)) if classes is None else classes
    if len(names) != K or len(distinct(names)) != K:
        raise wrong("classes", "length", f"classes needs {K} different labels, one for each column of scores")
    if len(y) != n:
        raise wrong("y", "length", f"there are {n} rows of scores and {len(y)} labels; give one label for each")
    return np.eye(K)[codes_of(y, names, "y")]
