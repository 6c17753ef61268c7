"""Laplace's approximation of a Gaussian process behind class labels: the mode, its curvature, the evidence.

Two classes have one function f (n, 1) behind the logistic likelihood, K classes one each (n, K) behind the softmax; all
have the same kernel. W is minus the second derivative of the log likelihood: D = s p(1-p), or per row s(diag p - ppᵀ).

References
----------
Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, sections 3.4, 3.5 and 5.5.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.kernels import Kernel
from ml_core.numerics.positive import back, factor, half, half_logdet, invert, solve
from ml_core.numerics.stable import expit, log_expit, log_softmax, softmax

STEPS = 100
HALVINGS = 30
SETTLED = 1e-11
STALLED = 1e-7
QUICK, CLOSE = 0.3, 1e-6
EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Labelled:
    """Rows X (n, d), codes y (n,) of `classes` classes, weights (n,): a row of weight w is w such rows.

    Scores are functions f of prior mean 0 plus `offset` (C,), the prior mean of the scores.
    """

    X: Matrix
    y: Codes
    weight: Vector
    classes: int
    offset: Vector

    @property
    def functions(self) -> int:
        """How many functions there are."""
        return 1 if self.classes == 2 else self.classes

    def take(self, rows: np.ndarray) -> Labelled:
        """Of some rows."""
        return Labelled(self.X[rows], self.y[rows], self.weight[rows], self.classes, self.offset)

    def log_likelihood(self, f: Matrix) -> float:
        """Σ s log p(y | f)."""
        f = f + self.offset
        if self.classes == 2:
            return float(self.weight @ log_expit(np.where(self.y == 1, f[:, 0], -f[:, 0])))
        return float(self.weight @ log_softmax(f)[np.arange(len(f)), self.y])

    def residual(self, f: Matrix) -> Matrix:
        """s (1_y - p), the gradient of `log_likelihood`."""
        f, s = f + self.offset, self.weight[:, None]
        if self.classes == 2:
            return np.asarray(s * np.where(self.y[:, None] == 1, expit(-f), -expit(f)))
        out = -softmax(f)
        out[np.arange(len(f)), self.y] += 1.0
        return np.asarray(s * out)

    def chances(self, f: Matrix) -> Matrix:
        """p, of the second class or of each."""
        f = f + self.offset
        return np.asarray(expit(f) if self.classes == 2 else softmax(f))

    def curved(self, p: Matrix, v: Matrix) -> Matrix:
        """W v."""
        s = self.weight[:, None]
        if self.classes == 2:
            return np.asarray(s * p * (1.0 - p) * v)
        return np.asarray(s * p * (v - np.einsum("ij,ij->i", p, v)[:, None]))

    def widths(self, p: Matrix) -> Matrix:
        """√D, D the part of W that is diagonal in the functions."""
        return np.asarray(np.sqrt(self.weight[:, None] * (p * (1.0 - p) if self.classes == 2 else p)))


@dataclass
class Curvature:
    """(K + W⁻¹)⁻¹ as E - E R M⁻¹Rᵀ E: E_c = √D_c B_c⁻¹ √D_c, B_c = I + √D_c K √D_c = L Lᵀ, M = Σ E_c (K classes only).

    `widths` (n, C) holds √D, `roots` the C factors L, `inner` the factor of M.
    """

    widths: Matrix
    roots: list[Matrix]
    inner: Matrix | None
    half_logdet: float
    blocks: list[Matrix] = field(default_factory=list)

    @classmethod
    def of(cls, rows: Labelled, K: Matrix, f: Matrix, *, keep: bool = False) -> Curvature:
        """At scores f (n, C); O(C n³). With `keep` the C matrices E (n, n) stay in `blocks`."""
        widths = rows.widths(rows.chances(f))
        out = cls(widths, [], None, 0.0)
        M = np.zeros_like(K) if rows.functions > 1 else None
        for w in widths.T:
            B = K * w
            B *= w[:, None]
            B[np.diag_indices_from(B)] += 1.0
            factor(B)
            out.roots.append(B)
            out.half_logdet += half_logdet(B)
            if M is not None or keep:
                E = _inverse(B, w)
                M = M if M is None else np.add(M, E, out=M)
                out.blocks += [E] if keep else []
        if M is not None:
            factor(M)
            out.inner = M
            out.half_logdet += half_logdet(M) - 0.5 * float(np.log(rows.weight).sum())
        return out

    def apply(self, V: Matrix) -> Matrix:
        """(K + W⁻¹)⁻¹ V for V (n, C)."""
        each = self.own(V)
        if self.inner is None:
            return each
        return each - self.own(np.repeat(solve(self.inner, each.sum(axis=1)[:, None]), V.shape[1], axis=1))

    def own(self, V: Matrix) -> Matrix:
        """E V, function by function."""
        return np.column_stack([self.block(c, v[:, None]) for c, v in enumerate(V.T)])

    def block(self, c: int, B: Matrix) -> Matrix:
        """E_c B for B (n, m)."""
        w = self.widths[:, c, None]
        return np.asarray(w * solve(self.roots[c], w * B))

    def spread(self, K: Matrix, diagonal: Vector) -> np.ndarray:
        """(m, C, C) covariances of the functions at m rows: K (n, m) is the kernel with them, `diagonal` k(z, z)."""
        C = len(self.roots)
        out = np.zeros((len(diagonal), C, C))
        between = []
        for c, (L, w) in enumerate(zip(self.roots, self.widths.T, strict=True)):
            u = half(L, w[:, None] * K)
            out[:, c, c] = np.maximum(diagonal - np.einsum("ij,ij->j", u, u), 0.0)
            if self.inner is not None:
                between.append(half(self.inner, w[:, None] * back(L, u)))
        for c, u in enumerate(between):
            for e, v in enumerate(between[: c + 1]):
                more = np.einsum("ij,ij->j", u, v)
                out[:, c, e] += more
                if e < c:
                    out[:, e, c] += more
        return out


def _inverse(L: Matrix, w: Vector) -> Matrix:
    """√D B⁻¹ √D in full, from the factor of B."""
    E = L.copy()
    invert(E)
    E = np.tril(E)
    E += np.tril(E, -1).T
    E *= w
    E *= w[:, None]
    return E


@dataclass
class Mode:
    """The most probable functions f = K a (n, C), their log posterior up to a constant, and Newton's steps.

    `miss` is the largest |a - s(1_y - p)| over the largest weight.
    """

    a: Matrix
    f: Matrix
    value: float
    steps: int
    miss: float

    @property
    def converged(self) -> bool:
        """Whether the mode is stationary to rounding."""
        return self.miss <= STALLED


def mode(rows: Labelled, K: Matrix, start: Matrix | None = None) -> Mode:
    """Newton's method with halved steps over a, from 0 or from scores near the mode, `start` (n, C). There is one mode.

    A curvature costs O(C n³); it serves again, for O(C n²) a step, while each makes the gradient three times as small
    and leaves it above CLOSE: log|I + K W| depends on the mode to first order, so the last steps are Newton's own.
    """
    at, curve = _at(rows, K, np.zeros((len(K), rows.functions)), 0), None
    if start is not None:
        b = rows.curved(rows.chances(start), start) + rows.residual(start)
        curve = Curvature.of(rows, K, start)
        near = _at(rows, K, b - curve.apply(K @ b), 1)
        at = near if near.value > at.value else at
    for step in range(1, STEPS + 1):
        if at.miss <= SETTLED:
            break
        progress.tick(step, None, "newton", objective=at.value)
        fresh = curve is None
        curve = Curvature.of(rows, K, at.f) if curve is None else curve
        g = rows.residual(at.f) - at.a
        found = _shorter(rows, K, at, g - curve.apply(K @ g), step)
        stalled = found is None or (found.miss <= STALLED and found.miss > 0.5 * at.miss)
        if stalled and fresh:
            at = at if found is None or at.miss <= found.miss else found
            break
        if found is None or found.miss > QUICK * at.miss or found.miss <= CLOSE:
            curve = None
        at = at if found is None else found
    return at


def _shorter(rows: Labelled, K: Matrix, at: Mode, move: Matrix, step: int) -> Mode | None:
    """The first of the whole move, half of it … that does not lower the log posterior (up to its rounding).

    Close to the mode, where values differ by rounding alone, a gradient half as large tells as well.
    """
    t = 1.0
    for _ in range(HALVINGS):
        found = _at(rows, K, at.a + t * move, step)
        nearer = at.miss <= CLOSE and found.miss <= 0.5 * at.miss
        if nearer or found.value >= at.value - 64 * EPS * (1.0 + abs(at.value)):
            return found
        t /= 2
    return None


def _at(rows: Labelled, K: Matrix, a: Matrix, step: int) -> Mode:
    f = K @ a
    miss = float(np.abs(a - rows.residual(f)).max() / rows.weight.max())
    return Mode(a, f, rows.log_likelihood(f) - 0.5 * float(np.vdot(a, f)), step, miss)


class Evidence:
    """The approximate log marginal likelihood and its derivatives; each mode starts from the last one of equal rows."""

    def __init__(self) -> None:
        self.last: Matrix | None = None

    def __call__(self, rows: Labelled, kernel: Kernel, _: float = 0.0) -> tuple[float, Vector]:
        """log q = Ψ(f̂) - ½ log|I + K W| and its derivatives by the kernel's logs; O(C n³).

        With u = (I - (K + W⁻¹)⁻¹K)v and v = -½ diag(Σ)·∂W/∂f:  ½ Σ_c [a aᵀ + u aᵀ + a uᵀ - (K + W⁻¹)⁻¹] weighs ∂K.
        """
        K, pull = kernel.traced(rows.X)
        start = self.last if self.last is not None and self.last.shape == (len(K), rows.functions) else None
        at = mode(rows, K, start)
        self.last = at.f
        curve = Curvature.of(rows, K, at.f, keep=True)
        halves = [] if curve.inner is None else [half(curve.inner, E) for E in curve.blocks]
        v = _third(rows, rows.chances(at.f), curve, halves)
        u = v - curve.apply(K @ v)
        weights = (at.a + u) @ at.a.T
        weights += at.a @ u.T
        for E in curve.blocks:
            weights -= E
        for G in halves:
            weights += G.T @ G
        return at.value - curve.half_logdet, 0.5 * pull(0.5 * (weights + weights.T))


def _third(rows: Labelled, p: Matrix, curve: Curvature, halves: list[Matrix]) -> Matrix:
    """(n, C) -½ Σ over pairs of functions of their covariance Σ times ∂W/∂f, by D Σ with D the squared widths.

    Of one function D Σ has the diagonal 1 - B⁻¹ᵢᵢ. Of more, Σ_ce = δ_ce (D⁻¹ - D⁻¹E_c D⁻¹) + V_c V_eᵀ with V_c =
    (I - D_c⁻¹E_c) N⁻ᵀ, M = N Nᵀ and `halves` N⁻¹E_c.
    """
    D = curve.widths**2
    within = np.divide(1.0, D, out=np.zeros_like(D), where=D > 0.0)
    own = 1.0 - np.stack([E.diagonal() for E in curve.blocks], axis=1) * within
    own[D == 0.0] = 0.0
    if curve.inner is None:
        return np.asarray(-0.5 * own * (1.0 - 2.0 * p))
    whole = half(curve.inner, np.eye(len(p)))
    V = [whole - G * w for G, w in zip(halves, within.T, strict=True)]
    toward = sum(v * q for v, q in zip(V, p.T, strict=True))
    s = rows.weight[:, None]
    q = np.stack([np.einsum("ij,ij->j", v, v - 2.0 * toward) for v in V], axis=1)
    mine = own * (1.0 - 2.0 * p) + s * p * q
    return np.asarray(-0.5 * (mine - p * mine.sum(axis=1)[:, None]))
