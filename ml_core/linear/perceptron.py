"""The perceptron."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from ml_core import parallel
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Classifier, Cost
from ml_core.capabilities import Scores, Updates, Weighted
from ml_core.certificates import Diagnostics
from ml_core.class_weights import ClassWeight, class_weights
from ml_core.errors import InvalidParameter, Issue
from ml_core.linear import perceptron_report
from ml_core.params import Intercept, MaxIter, RealMatrix, Seed
from ml_core.registry import algorithm
from ml_core.solvers.perceptron import Mode, Rows, Run, perceptron


@algorithm("perceptron")
class Perceptron(Updates, Weighted, Scores, Classifier):
    """Corrects a linear boundary by the rows on its wrong side.

    From w = 0 or `start`: where tᵢ(w·xᵢ + b) ≤ 0 (t = ±1), w ← w + eta sᵢtᵢxᵢ and b ← b + eta sᵢtᵢ, which descends the
    risk Σ sᵢ[-tᵢ f(xᵢ)]₊. `cyclic` visits the rows in the order given, until that comes back to earlier weights and
    would only repeat itself: then rows are drawn. `stochastic` draws them (so a random wrong row corrects), `batch`
    takes one step by all wrong rows together; O(n d) an epoch. Two classes: the second where f ≥ 0. More: one boundary
    of each class against the rest, the largest score decides, of equal ones the first; their scales are not comparable
    beyond that. w is a combination of the rows; `eta` only scales it from w = 0.

    It ends exactly when the classes are separable: from w = 0 after at most R²/γ² corrections (weights 1), R the
    longest (x, 1) and γ the widest margin of a boundary in that space; with weights that bounds (Σs)²/Σs² over the
    corrections. Otherwise it would go on for ever: `max_epochs` stops it, a notice says whether the classes are
    separable, and of the epochs the weights with the fewest wrong rows are answered (`pocket`), or the `last`. There
    are no probabilities.

    `update` makes one pass over new rows from the last weights, in their order (a batch step in mode batch), and then
    answers by the last weights: unlike a fit to all rows it depends on what came when.

    References
    ----------
    Rosenblatt (1958), The perceptron, Psychological Review 65.
    Novikoff (1962), On convergence proofs on perceptrons, Symposium on the Mathematical Theory of Automata 12.
    Gallant (1990), Perceptron-based learning algorithms, IEEE Transactions on Neural Networks 1(2).
    """

    complexity = "O(n d) per epoch"
    tags = ("parametric", "direct", "low_capacity", "linear", "online")
    largest = SQUARES

    coef_: Annotated[Matrix, "(1, d) of two classes, else (K, d): slopes of the scores"]
    intercept_: Annotated[Vector, "(1,) or (K,) scores at x = 0"]
    last_: Annotated[Matrix, "(1, d + 1) or (K, d + 1) weights at the end, the bias last"]
    before_: Annotated[Matrix, "the weights before the last update; empty without one"]
    class_weight_: Annotated[Vector, "(K,) factor on the weight of each class's rows"]
    mistakes_: Annotated[Codes, "corrections of each boundary"]
    epochs_: Annotated[Codes, "epochs of each boundary"]
    converged_: Annotated[np.ndarray, "whether no training row is on the wrong side of the boundary"]
    errors_: Annotated[Vector, "weighted share of the training rows on the wrong side of each boundary as answered"]
    effective_: Annotated[Vector, "(Σs)²/Σs² over the corrections: their number where weights are equal"]
    traces_: Annotated[list[Vector], "share of wrong rows before and after each epoch, of each boundary"]
    n_iter_: Annotated[int, "epochs of the slowest boundary"]

    def __init__(
        self,
        *,
        mode: Annotated[Mode, Field(description="Which wrong rows correct w, and in what order.")] = "cyclic",
        eta: Annotated[float, Field(ge=1e-90, le=1e90, description="Length of a correction in rows.")] = 1.0,
        max_epochs: Annotated[MaxIter, Field(description="Passes over the rows after which it stops.")] = 1000,
        fit_intercept: Intercept = True,
        answer: Annotated[
            Literal["pocket", "last"], Field(description="Of classes that stay mixed: the best weights, or the last.")
        ] = "pocket",
        start: Annotated[
            RealMatrix | None,
            Field(description="Weights to start from, (1, d + 1) or (K, d + 1), the bias last; null: zeros."),
        ] = None,
        class_weight: ClassWeight = None,
        random_state: Seed = 0,
    ) -> None:
        self.mode = mode
        self.eta = eta
        self.max_epochs = max_epochs
        self.fit_intercept = fit_intercept
        self.answer = answer
        self.start = start
        self.class_weight = class_weight
        self.random_state = random_state

    def _fit(self, X: Matrix, y: Codes, s: Vector) -> None:
        shares = np.bincount(y, s, len(self.classes_)).astype(np.float64)
        self.class_weight_ = class_weights(self.class_weight, self.classes_, shares, float(s.sum()))
        W = self._start(X.shape[1])
        X, y, s = self._counted(X, y, s)
        signs = [2.0 * (y == k) - 1.0 for k in self._positive()]

        def run(q: int) -> Run:
            return perceptron(self._rows(X, signs[q], s), W[q], max_epochs=int(self.max_epochs),
                              seed=int(self.random_state), path=q)  # fmt: skip

        runs = list(parallel.ordered_map(run, range(len(W))))
        self._keep(runs)
        perceptron_report.remark(self, runs, X, signs)

    def _counted(self, X: Matrix, y: Codes, s: Vector) -> tuple[Matrix, Codes, Vector]:
        """The rows with class weights; those that weigh nothing are left out."""
        s = s * self.class_weight_[y]
        kept = s > 0
        if kept.all():
            return X, y, s
        if not kept.any():
            message = "class_weight is 0 for every class that has rows"
            raise InvalidParameter(message, [Issue("/params/class_weight", "all_zero", message)])
        return X[kept], y[kept], s[kept]

    def _rows(self, X: Matrix, t: Vector, s: Vector) -> Rows:
        """Rows of a boundary, t = ±1."""
        return Rows(X, t, s, self.mode, float(self.fit_intercept), float(self.eta))

    def _positive(self) -> list[int]:
        """The class on the positive side of each boundary."""
        K = len(self.classes_)
        return [1] if K == 2 else list(range(K))

    def _start(self, d: int) -> Matrix:
        shape = (len(self._positive()), d + 1)
        if self.start is None:
            return np.zeros(shape)
        W = np.array(self.start, dtype=np.float64)
        if W.shape != shape or np.abs(W).max() > SQUARES or (not self.fit_intercept and W[:, -1].any()):
            text = f"start must be {shape}, one row of slopes and bias for each boundary (bias 0 without an intercept)"
            raise InvalidParameter(f"{text}; got {W.shape}", [Issue("/params/start", "shape", text)])
        return W

    def _keep(self, runs: list[Run]) -> None:
        self.last_, self.before_ = np.stack([r.last for r in runs]), np.empty((0, 0))
        answered = self.last_ if self.answer == "last" else np.stack([r.pocket for r in runs])
        self._present(answered)
        self.mistakes_ = np.array([r.mistakes for r in runs], dtype=np.int64)
        self.epochs_ = np.array([r.epochs for r in runs], dtype=np.int64)
        self.converged_ = np.array([r.converged for r in runs])
        self.errors_ = np.array([r.errors[-1] if self.answer == "last" else r.error for r in runs])
        self.effective_ = np.array([r.moved**2 / r.squares if r.squares > 0 else 0.0 for r in runs])
        self.traces_ = [np.array(r.errors) for r in runs]
        self.n_iter_ = max(1, int(self.epochs_.max()))

    def _present(self, W: Matrix) -> None:
        self.coef_ = np.ascontiguousarray(W[:, :-1])
        self.intercept_ = W[:, -1] * float(self.fit_intercept)

    def _update(self, X: Matrix, y: Codes, s: Vector) -> None:
        X, y, s = self._counted(X, y, s)
        W, made = self.last_.copy(), self.mistakes_.copy()
        for q, k in enumerate(self._positive()):
            made[q] += self._rows(X, 2.0 * (y == k) - 1.0, s).epochs(W[q], W[q].copy(), 1, 0.0).mistakes
        self.before_, self.last_, self.mistakes_ = self.last_, W, made
        self._present(W)
        self.notices_ = [n for n in self.notices_ if n.code not in ("updated", "not_separable", "not_converged")]
        self._note("updated", "one pass over the new rows from the last weights, which now answer; earlier rows may be "
                   "on the wrong side again", "fit all rows together where they are at hand")  # fmt: skip

    def _linear(self, X: Matrix) -> Matrix:
        return np.asarray(X @ self.coef_.T + self.intercept_)

    def _scores(self, X: Matrix) -> Vector | Matrix:
        f = self._linear(X)
        return f[:, 0] if f.shape[1] == 1 else f

    def _diagnose(self, X: Matrix, y: Codes, s: Vector) -> Diagnostics:
        return perceptron_report.report(self, X, y, s)

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """Epochs as if a tenth of them were needed, of each boundary."""
        boundaries = 1 if k <= 2 else k
        return Cost(flops=0.4 * self.max_epochs * n * d * boundaries, memory_bytes=8.0 * n * (4 + boundaries))
