"""The kernel perceptron."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.base import SQUARES, Classifier, Cost
from ml_core.capabilities import Scores
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.gp.expansion import Expansion, ask_for, chosen
from ml_core.gp.options import Similarity
from ml_core.gp.perceptron_pass import perceptron_pass
from ml_core.kernels import Kernel
from ml_core.kernels.precomputed import needs_all_rows
from ml_core.params import MaxIter, Seed
from ml_core.registry import algorithm
from ml_core.rng import generator
from ml_core.solvers.base import spent

ROUNDING = 1e-9


@algorithm("kernel_perceptron")
class KernelPerceptron(Scores, Classifier):
    """Rosenblatt's perceptron in the feature space of a kernel: a hyperplane found by correcting one error at a time.

    f(z) = Σᵢ aᵢ (k(xᵢ, z) + bias). From a = 0: while some yᵢ f(xᵢ) ≤ 0 (y = ±1), aᵢ += eta yᵢ. Where the classes can be
    separated with margin γ within radius R, it stops after at most (R/γ)² corrections, whatever eta; a Gaussian kernel
    separates any distinct rows. Where they cannot, it stops after `max_epochs` and keeps the weights that made the
    fewest errors (the pocket); an order that comes back to earlier scores would repeat them, so orders are random from
    then on. More than two classes: one against the rest each. O(n) per correction, 8n² bytes.

    References
    ----------
    Aizerman, Braverman, Rozonoer (1964), Theoretical foundations of the potential function method.
    Gallant (1990), Perceptron-based learning algorithms (the pocket), IEEE Trans. Neural Networks 1(2).
    """

    queue = "long"
    largest = SQUARES
    complexity = "O(n² d + n · corrections)"
    tags = ("non_parametric", "direct", "high_capacity", "kernel", "online")
    example_params = {"max_epochs": 50}  # noqa: RUF012 - annotated ClassVar in the base

    expansion_: Annotated[Expansion, "scores: rows with a weight, and their weights"]
    dual_coef_: Annotated[Matrix, "(n, 1) or (n, K) weights a of all rows"]
    kernel_: Annotated[Kernel, "kernel in use"]
    corrections_: Annotated[list[int], "per class score"]
    errors_: Annotated[list[int], "training errors per class score"]
    n_iter_: Annotated[int, "passes, of the class that took most"]

    def __init__(
        self,
        *,
        kernel: Similarity = None,
        eta: Annotated[float, Field(gt=0, le=1e90, description="Size of a correction; scales the scores alone.")] = 1.0,
        bias: Annotated[float, Field(ge=0, le=1e90, description="Added to the kernel: a feature √bias.")] = 1.0,
        max_epochs: Annotated[MaxIter, Field(description="Most passes over the rows.")] = 1000,
        shuffle: Annotated[bool, Field(description="A new random order each pass; else the order given.")] = False,
        random_state: Seed = 0,
    ) -> None:
        self.kernel = kernel
        self.eta = eta
        self.bias = bias
        self.max_epochs = max_epochs
        self.shuffle = shuffle
        self.random_state = random_state

    def cost(self, n: int, d: int, k: int = 1) -> Cost:
        """The kernel matrix, and ten passes in which every row is corrected."""
        scores = 1 if k <= 2 else k
        return Cost(flops=20.0 * n * n * (d + scores), memory_bytes=3.0 * 8.0 * n * n + 1e6)

    def _fit(self, X: Matrix, y: Codes) -> None:
        ask_for(len(X), 3.0, "the kernel perceptron")
        self.kernel_ = chosen(self.kernel, X)
        K = np.ascontiguousarray(self.kernel_(X) + self.bias)
        classes = len(self.classes_)
        self.corrections_, self.errors_, self.n_iter_ = [], [], 0
        columns = [self._learn(K, np.where(y == c, 1.0, -1.0)) for c in (range(classes) if classes > 2 else [1])]
        self.dual_coef_ = np.column_stack(columns)
        used = (self.dual_coef_ != 0).any(axis=1) | needs_all_rows(self.kernel_)
        a = np.ascontiguousarray(self.dual_coef_[used])
        self.expansion_ = Expansion(self.kernel_, X[used], a, self.bias * a.sum(axis=0))
        self._note_findings(len(X))

    def _learn(self, K: Matrix, y: Vector) -> Vector:
        """(n,) weights of one score."""
        n = len(y)
        a, f, best = np.zeros(n), np.zeros(n), np.zeros(n)
        step, order, rng = np.full(n, float(self.eta)), np.arange(n), generator(self.random_state)
        least, corrections, mark, again, repeats = n + 1, 0, f.copy(), 1, bool(self.shuffle)
        for epoch in range(1, self.max_epochs + 1):
            if repeats:
                order = rng.permutation(n)
            updates, least = perceptron_pass(K, y, step, order, a, f, best, least)
            corrections += updates
            self.n_iter_ = max(self.n_iter_, epoch)
            progress.tick(epoch, self.max_epochs, "epochs", errors=float(least), corrections=float(corrections))
            if updates == 0:
                best, least = a, 0
                break
            if spent(epoch, self.max_epochs):
                break
            repeats = repeats or bool((f == mark).all())
            if epoch == again:
                mark, again = f.copy(), 2 * again
        self.corrections_.append(corrections)
        self.errors_.append(int(least))
        return best

    def _note_findings(self, n: int) -> None:
        if any(self.errors_):
            text = (f"after {self.n_iter_} passes {sum(self.errors_)} of {n * len(self.errors_)} scores are on the "
                    "wrong side: the classes overlap under this kernel, or the margin is small; kept are the weights "
                    "of the fewest errors")  # fmt: skip
            self._note("not_separated", text, "raise max_epochs, or take a kernel of shorter length")

    def _scores(self, X: Matrix) -> Matrix | Vector:
        f = self.expansion_.at(X)
        return f[:, 0] if f.shape[1] == 1 else f

    def _diagnose(self, X: Matrix, y: Codes) -> Diagnostics:
        f, K = self.expansion_.at(X), self.kernel_(X) + self.bias
        classes = [1] if f.shape[1] == 1 else list(range(f.shape[1]))
        radius2, rows, wrong, excess = float(K.diagonal().max()), [], 0, 0.0
        for j, c in enumerate(classes):
            a, t = self.dual_coef_[:, j], np.where(y == c, 1.0, -1.0) * f[:, j]
            norm, near = max(float(a @ K @ a), 0.0) ** 0.5, ROUNDING * np.abs(t).max()
            wrong = max(wrong, int((t < -near).sum()) - self.errors_[j], self.errors_[j] - int((t <= near).sum()))
            margin = float(t.min()) / norm if norm > 0 else 0.0
            most = radius2 / margin**2 if margin > 0 else None
            excess = max(excess, 0.0 if most is None else self.corrections_[j] / most)
            rows.append([str(self.classes_[c]), self.corrections_[j], self.errors_[j], margin, most])
        out = Diagnostics(summary={
            "rows": len(X), "passes": self.n_iter_, "corrections": sum(self.corrections_),
            "support_rows": int((self.dual_coef_ != 0).any(axis=1).sum()), "radius": radius2**0.5,
            "training_errors": int((self._decide(X) != y).sum()),
        })  # fmt: skip
        out.tables["scores"] = Table(("class", "corrections", "errors", "margin", "bound_on_corrections"), rows)
        off = np.abs(K @ self.dual_coef_ - f).max() / max(float((np.abs(K) @ np.abs(self.dual_coef_)).max()), 1e-300)
        out.certificates = [
            Certificate("expansion_error", float(off), 1e-12, "stored scores against Σ aᵢ(k(xᵢ, ·) + bias), relative"),
            Certificate("errors_recounted", float(wrong), 0, "training errors differ from those counted by at most"),
            Certificate("share_of_bound", excess, 1 + ROUNDING, "corrections over (radius / margin reached)²"),
        ]  # fmt: skip
        return out
