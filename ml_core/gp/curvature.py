"""The covariance of all rows behind class labels: its curvature at the mode, and the evidence. O(C n³).

References
----------
Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, sections 3.4, 3.5 and 5.5.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ml_core.arrays import Matrix, Vector
from ml_core.gp.laplace import Labelled, mode
from ml_core.kernels import Kernel
from ml_core.numerics.positive import back, factor, half, half_logdet, invert, solve


@dataclass(frozen=True)
class Gram:
    """The kernel matrix K (n, n) as a prior: scores K a, a coefficient a row."""

    K: Matrix

    @property
    def size(self) -> int:
        """n."""
        return len(self.K)

    def scores(self, a: Matrix) -> Matrix:
        """K a."""
        return np.asarray(self.K @ a)

    def gather(self, V: Matrix) -> Matrix:
        """V itself: a = s(1_y - p) at the mode."""
        return V

    def norm(self, a: Matrix, f: Matrix) -> float:
        """Σ aᵀK a."""
        return float(np.vdot(a, f))

    def unit(self, weight: Vector) -> float:
        """The largest weight."""
        return float(weight.max())

    def curvature(self, rows: Labelled, f: Matrix) -> Curvature:
        """At scores f (n, C); O(C n³)."""
        return Curvature.of(rows, self.K, f)

    def step(self, curve: Curvature, g: Matrix) -> Matrix:
        """(I + W K)⁻¹ g."""
        return np.asarray(g - curve.apply(self.K @ g))

    def slack(self, rows: Labelled, f: Matrix) -> float:
        """0: nothing is left out."""
        return 0.0

    def dense(self) -> Matrix:
        """K."""
        return self.K


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
        prior = Gram(K)
        at = mode(rows, prior, start)
        self.last = at.f
        curve = Curvature.of(rows, K, at.f, keep=True)
        halves = [] if curve.inner is None else [half(curve.inner, E) for E in curve.blocks]
        v = _third(rows, rows.chances(at.f), curve, halves)
        u = prior.step(curve, v)
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
