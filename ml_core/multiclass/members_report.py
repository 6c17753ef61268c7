"""What a wrapper of two-class classifiers reports: its decisions, and each member by its own certificates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ml_core import parallel
from ml_core.arrays import Codes, Matrix, Vector
from ml_core.certificates import Certificate, Diagnostics, Table
from ml_core.linear.linear_decisions import confusion
from ml_core.multiclass.members import Problem, margin_of

MEANING = "certificates of members that do not hold on the rows given, each recomputed; the table says whose"


def outline(m: Any, X: Matrix, y: Codes, s: Vector | None, problems: Sequence[Problem]) -> Diagnostics:
    """Error rate, confusion, the members, and the certificate that all of theirs hold."""
    K, names = len(m.classes_), m.classes_.tolist()
    weight = np.ones(len(y)) if s is None else s
    table = confusion(y, m._decide(X), weight, K)
    out = Diagnostics(summary={
        "rows": len(X), "columns": X.shape[1], "classes": K, "members": len(problems),
        "error_rate": 1.0 - float(np.trace(table)) / float(table.sum()),
    })  # fmt: skip
    out.tables["confusion"] = Table(("true_class", *map(str, names)),
                                    [[c, *r] for c, r in zip(names, table.tolist(), strict=True)])  # fmt: skip
    own = None if s is None else s * m.class_weight_[y]
    found = list(parallel.ordered_map(lambda i: examined(m, i, X, y, own, problems[i]), range(len(problems))))
    out.tables["members"] = Table(
        ("positive_class", "negative_class", "rows", "positive_rows", "error_rate", "certificates", "broken"), found
    )
    broken = sum(int(r[-1]) for r in found)
    out.certificates = [Certificate("broken_member_certificates", float(broken), 0.0, MEANING)]
    return out


def examined(m: Any, i: int, X: Matrix, y: Codes, s: Vector | None, p: Problem) -> list[Any]:
    """One row of the table of members; a member whose class is absent from the rows given has no certificates."""
    at, names, one = p.rows(y), m.classes_.tolist(), m.estimators_[i]
    A, target = X[at], (y[at] == p.positive).astype(np.int64)
    weight = np.ones(len(target)) if s is None else s[at]
    rest = None if p.negative is None else names[p.negative]
    if not weight.any():
        return [names[p.positive], rest, len(A), int(target.sum()), None, 0, 0]
    wrong = float(weight @ ((margin_of(one, A) >= 0) != (target == 1)) / weight.sum())
    given = {} if s is None else {"sample_weight": weight}
    held = [c.holds for c in one.diagnostics(A, target, **given).certificates]
    return [names[p.positive], rest, len(A), int(target.sum()), wrong, len(held), held.count(False)]
