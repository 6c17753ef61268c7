"""Interior-point method for the program of support vector machines when the kernel matrix is Z Zᵀ of few columns.

min over β of  ½ ‖Zᵀβ‖² + cᵀβ,  lo ≤ β ≤ hi,  Σ β = const within each group. O(n r²) for each of about 20 steps,
whatever the units of the columns of Z: where pairs or coordinates creep, this does not. The active set it points to is
then solved exactly by the linear system of the free variables.

Source: Fine, Scheinberg (2001), Efficient SVM training using low-rank kernel representations, JMLR 2; Mehrotra (1992),
On the implementation of a primal-dual interior point method, SIAM J. Optim. 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, lstsq
from scipy.linalg.lapack import dgesv, dpotrf, dpotrs

from ml_core import progress
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.solvers.box_dual import BoxDual, dual_value, gap, levels, multipliers
from ml_core.solvers.box_solution import BoxSolution, Plane
from ml_core.solvers.central_path import aim, room
from ml_core.solvers.free_set import Free, LowRank, newton_on_free

STEPS = 100
CLOSE = 1e-11
STAY = 0.995
SAME = 1e-11
LEVEL = 1e-12
MOST_FREE = 3000
TIES = (1.0, 1e-3, 1e3)


def solve_low_rank(dual: BoxDual, Z: Matrix, *, tol: float, unit: float = 1.0) -> BoxSolution:
    """Solve to m - M ≤ tol · unit where rounding allows; the answer states its violation.

    Σβ must be 0 over all groups together: then columns may be centred, which moves v and b by the same number.
    """
    mean = Z.mean(axis=0)
    state = _State.of(dual, Z - mean)
    gaps, trace = [], []
    most = float(np.abs(dual.c).max() * (dual.hi - dual.lo).sum()) or np.inf
    for step in range(STEPS):
        trace.append(-(0.5 * float(state.w @ state.w) + float(state.c @ state.beta)))
        gaps.append(float(state.s @ state.low + state.t @ state.high))
        progress.tick(step, STEPS, "interior point steps", dual_objective=trace[-1], duality_gap=gaps[-1])
        scale = min(1.0 + abs(trace[-1]), most)
        feasible = np.abs(state.infeasible()).max() <= 1e-10 * np.abs(state.beta).sum()
        stuck = step > 5 and feasible and min(gaps[:-3]) <= gaps[-1]
        if (gaps[-1] <= CLOSE * scale and feasible) or stuck or (step and progress.late()):
            break
        try:
            state.advance()
        except LinAlgError:  # the columns are dependent to rounding in the metric of this step
            break
    sides = {at.tobytes(): at for at in map(state.sides, TIES)}.values()
    beta, w, v, worst = min(map(state.settled, sides), key=lambda found: found[3])
    b, free = multipliers(dual, beta, v)
    trace.append(dual_value(dual, beta, v))
    gaps.append(gap(dual, beta, v, b))
    slack, moved = levels(dual, beta, v).violation, float(w @ mean)
    return BoxSolution(beta, v - moved, b - moved, free, slack, len(trace), worst <= tol * unit, 0, trace, gaps,
                       Plane(w, mean, float(b[0])))  # fmt: skip


@dataclass
class _State:
    """β with its distances s, t to the bounds, their multipliers, b per group, and w = Zᵀβ; flat over the copies.

    w is moved by its own equation: in large columns Zᵀβ has lost the digits that the scores Z w need.
    """

    dual: BoxDual
    Z: Matrix
    copies: int
    c: Vector
    ones: Matrix
    const: Vector
    beta: Vector
    b: Vector
    s: Vector
    t: Vector
    low: Vector
    high: Vector
    w: Vector

    @classmethod
    def of(cls, dual: BoxDual, Z: Matrix) -> _State:
        """In the middle of the box, multipliers of the size of the linear term."""
        group = dual.group.ravel()
        ones = (group[:, None] == np.arange(dual.groups)).astype(np.float64)
        half = 0.5 * (dual.hi - dual.lo).ravel()
        beta = dual.lo.ravel() + half
        slope = Z @ (beta.reshape(len(dual.c), -1).sum(axis=0) @ Z)
        size = np.full(len(half), float(np.abs(dual.c).max()) or float(np.abs(slope).max()) or 1.0)
        state = cls(dual, Z, len(dual.c), dual.c.ravel(), ones, ones.T @ dual.start.ravel(), beta,
                    np.zeros(dual.groups), half.copy(), half.copy(), size.copy(), size.copy(),
                    np.zeros(Z.shape[1]))  # fmt: skip
        state.w = state._down(beta)
        return state

    def _down(self, x: Vector) -> Vector:
        """Zᵀ of the folded x."""
        return np.asarray(x.reshape(self.copies, -1).sum(axis=0) @ self.Z)

    def _up(self, u: Vector) -> Vector:
        """Z u, once per copy."""
        once = self.Z @ u
        return np.asarray(once if self.copies == 1 else np.tile(once, self.copies))

    def infeasible(self) -> Vector:
        """Σβ less what it must be, per group."""
        return np.asarray(self.ones.T @ self.beta - self.const)

    def advance(self) -> None:
        """One predictor and corrector step."""
        D = 1.0 / (self.low / self.s + self.high / self.t)
        M = (self.Z * D.reshape(self.copies, -1).sum(axis=0)[:, None]).T @ self.Z
        M.flat[:: len(M) + 1] += 1.0
        root = 1.0 / np.sqrt(np.diag(M))
        factor, broken = dpotrf(M * np.outer(root, root), lower=1, overwrite_a=1)
        if broken:
            raise LinAlgError

        def solve(r: Vector, off: Vector | float) -> tuple[Vector, Vector]:
            """x and u with x / D + Z u = r, u = Zᵀx - off."""
            x = D * r
            u = np.asarray(root * dpotrs(factor, root * (self._down(x) - off), lower=1)[0])
            return np.asarray(x - D * self._up(u)), u

        pairs = [solve(a, 0.0) for a in self.ones.T]
        columns, slopes = np.column_stack([x for x, _ in pairs]), np.column_stack([u for _, u in pairs])
        inner = self.ones.T @ columns
        mean = (self.s @ self.low + self.t @ self.high) / (2 * len(self.s))
        rd = self._up(self.w) + self.c + self.ones @ self.b - self.low + self.high
        rp, rw = self.infeasible(), self.w - self._down(self.beta)

        def step(cs: Vector, ct: Vector) -> tuple[Vector, Vector, Vector, Vector, Vector]:
            x, u = solve(-rd + cs / self.s - ct / self.t, rw)
            *_, db, broken = dgesv(inner, self.ones.T @ x + rp)
            if broken:
                raise LinAlgError
            dx = np.asarray(x - columns @ db)
            return dx, db, (cs - self.low * dx) / self.s, (ct + self.high * dx) / self.t, u - slopes @ db

        dx, _, dl, dh, _ = step(-self.s * self.low, -self.t * self.high)
        a = self._length(dx, dl, dh)
        after = ((self.s + a * dx) @ (self.low + a * dl) + (self.t - a * dx) @ (self.high + a * dh)) / (2 * len(dx))
        goal = aim(float(mean), float(after))
        dx, db, dl, dh, dw = step(goal - self.s * self.low - dx * dl, goal - self.t * self.high + dx * dh)
        a = min(1.0, STAY * self._length(dx, dl, dh, 1.0 / STAY))
        self.beta, self.b, self.low, self.high = (
            self.beta + a * dx, self.b + a * db, self.low + a * dl, self.high + a * dh)  # fmt: skip
        self.s, self.t = self.s + a * dx, self.t - a * dx
        self.w = self.w + a * dw

    def _length(self, dx: Vector, dl: Vector, dh: Vector, most: float = 1.0) -> float:
        """Largest step up to `most` that leaves everything non-negative."""
        return min(most, room((self.s, dx), (self.t, -dx), (self.low, dl), (self.high, dh)))

    def sides(self, tie: float) -> Codes:
        """1 where β leans on its upper bound, else -1 on its lower one, 0 on none; flat."""
        width = (self.dual.hi - self.dual.lo).ravel()
        unit = float(np.abs(self.c).max()) or float(np.abs(self._up(self.w)).max()) or 1.0
        at_lo, at_hi = self.s * unit < tie * self.low * width, self.t * unit < tie * self.high * width
        return np.where(at_hi, 1, np.where(at_lo, -1, 0))

    def settled(self, at: Codes) -> tuple[Matrix, Vector, Matrix, float]:
        """β put on the bounds that `at` says and the rest solved exactly; w, v, and the violation."""
        d, shape = self.dual, self.dual.c.shape
        lo, hi = d.lo.ravel(), d.hi.ravel()
        beta = np.where(at > 0, hi, np.where(at < 0, lo, self.beta))
        free = np.flatnonzero(at == 0)
        off = self.ones.T @ beta - self.const
        count = np.maximum(self.ones[free].sum(axis=0), 1.0)
        beta[free] = np.clip(beta[free] - self.ones[free] @ (off / count), lo[free], hi[free])
        w = self._down(beta)
        v = -self._up(w) - self.c
        if 2 <= len(free) <= MOST_FREE:
            rows = self.Z[free % self.Z.shape[0]]
            f = Free(LowRank(rows), v[free], beta[free], lo[free], hi[free], d.group.ravel()[free])
            newton_on_free(f, int(np.clip(1e9 / len(free) ** 3, 3, 100)))
            beta[free] = f.beta
            w = self._down(beta)
            v = -self._up(w) - self.c
        whole = beta.reshape(shape)
        astray = float(np.abs(self.ones.T @ beta - self.const).max())

        def violation(at: Vector) -> float:
            return max(levels(d, whole, at.reshape(shape)).violation, 0.0) + astray

        found = whole, w, v.reshape(shape), violation(v)
        for start in (w, self.w) if found[3] > LEVEL else ():
            own = self._level(start, free)
            u = -self._up(own) - self.c
            if self._same(beta, w, own) and (other := violation(u)) < found[3]:
                found = whole, own, u.reshape(shape), other
        return found

    def _level(self, w: Vector, free: Codes) -> Vector:
        """w moved by combinations of the free rows so that these have one v: rounding of Σ βz plays no part."""
        rows = self.Z[free % len(self.Z)]
        if self.dual.groups > 1 or not 2 <= len(free) <= MOST_FREE:
            return w
        rows = rows - rows.mean(axis=0)
        unit = np.maximum(np.abs(rows).max(), 1e-300)
        for _ in range(2):
            v = -self._up(w)[free] - self.c[free]
            w = w + lstsq(rows / unit, (v - v.mean()) / unit, check_finite=False)[0]
        return w

    def _same(self, beta: Vector, w: Vector, own: Vector) -> bool:
        """Whether `own` is w of these β up to rounding of the sum."""
        size = np.abs(beta).reshape(self.copies, -1).sum(axis=0) @ np.abs(self.Z)
        return bool((np.abs(w - own) <= SAME * size).all())
