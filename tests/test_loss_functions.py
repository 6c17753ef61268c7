"""Losses, costs and penalties as functions: known values, other libraries' figures, slopes by differences, refusals."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import special
from sklearn import metrics as sk

from ml_core.errors import InvalidParameter
from ml_core.penalties import Penalty
from ml_core.registry import functions

CALL = functions()
R = np.random.default_rng(0)
RESIDUAL = ["squared_error", "absolute_error", "huber_loss", "tukey_loss", "epsilon_insensitive_loss"]
NORMS = ["l1_norm_loss", "l2_norm_loss", "p_norm_loss"]
MARGIN = ["hinge_loss", "exponential_loss", "perceptron_loss"]
ERRORS = ["mean_squared_error", "mean_absolute_error", "root_mean_squared_error", "residual_sum_of_squares",
          "sum_of_squared_errors"]  # fmt: skip
CATALOGUE = {
    *RESIDUAL, *NORMS, *MARGIN, *ERRORS, "logistic_loss", "categorical_cross_entropy", "zero_one_loss",
    "asymmetric_loss_matrix", "probability_rmse", "mean_cost", "max_cost", "weighted_sum_cost", "l1_penalty",
    "l2_penalty", "diagonal_penalty",
}  # fmt: skip


def result(name: str, **arguments: Any) -> Any:
    out = CALL[name](json.loads(json.dumps(arguments)))
    assert all(c["holds"] for c in out["certificates"]), out["certificates"]
    json.dumps(out, allow_nan=False)
    return out["result"]


def refused(name: str, **arguments: Any) -> str:
    with pytest.raises(InvalidParameter) as e:
        CALL[name](arguments)
    assert e.value.issues
    return e.value.issues[0].pointer


def test_every_name_is_registered_with_its_source():
    assert set(CALL) >= CATALOGUE
    assert all(CALL[n].references and CALL[n].family == "losses" for n in CATALOGUE)


def test_known_values():
    assert result("tukey_loss", prediction=[2.0, 9.0], y=[0.0, 0.0], c=4.685)["value"] == pytest.approx(
        [1.6576631, 3.6582042], abs=5e-8)  # fmt: skip
    assert result("huber_loss", prediction=[2.0], y=[0.0])["value"] == pytest.approx([1.7854875])
    out = result("logistic_loss", scores=[0.8, 0.3, 0.6], y=[1, 0, 1], given="probabilities")
    assert out["mean"] == pytest.approx(0.3635480, abs=5e-8)
    assert out["gradient"] == pytest.approx([-1 / 0.8, 1 / 0.7, -1 / 0.6])
    assert result("probability_rmse", prediction=[0.8, 0.3, 0.6], y=[1, 0, 1])["value"] == pytest.approx(
        0.3109126, abs=5e-8)  # fmt: skip
    assert result("l2_norm_loss", prediction=[[3.0, 4.0]], y=[[0.0, 0.0]])["gradient"] == [[0.6, 0.8]]
    assert result("p_norm_loss", prediction=[[3.0, -4.0]], y=[[0.0, 0.0]], p="inf")["gradient"] == [[0.0, -1.0]]
    assert result("squared_error", prediction=[[3.0, 4.0]], y=[[0.0, 0.0]]) | {"loss": 0} == {
        "value": [25.0], "gradient": [[6.0, 8.0]], "curvature": None, "kinks": [], "total": 25.0, "mean": 25.0,
        "best_constant": [0.0, 0.0], "best_constant_mean": 0.0, "convex": True, "smooth": True, "loss": 0}  # fmt: skip


@pytest.mark.parametrize("weighted", [False, True])
def test_figures_are_those_of_other_libraries(weighted):
    z, y = R.normal(size=50), R.normal(size=50)
    s = R.random(50) if weighted else None
    given = {"prediction": z.tolist(), "y": y.tolist()} | ({"sample_weight": s.tolist()} if weighted else {})
    for name, want in (("mean_squared_error", sk.mean_squared_error), ("mean_absolute_error", sk.mean_absolute_error),
                       ("root_mean_squared_error", sk.root_mean_squared_error)):  # fmt: skip
        assert result(name, **given)["value"] == pytest.approx(want(y, z, sample_weight=s))
    assert result("huber_loss", **given, delta=0.7)["value"] == pytest.approx(special.huber(0.7, z - y))
    labels, p = (y > 0).astype(int), special.expit(z)
    extra = {"sample_weight": s.tolist()} if weighted else {}
    args = {"y": labels.tolist()} | extra
    want = sk.log_loss(labels, p, sample_weight=s)
    assert result("logistic_loss", scores=z.tolist(), **args)["mean"] == pytest.approx(want)
    assert result("logistic_loss", scores=p.tolist(), given="probabilities", **args)["mean"] == pytest.approx(want)
    m = z * (2 * labels - 1)
    assert result("logistic_loss", scores=m.tolist(), given="margins", **extra)["mean"] == pytest.approx(want)
    assert result("hinge_loss", scores=z.tolist(), **args)["mean"] == pytest.approx(
        sk.hinge_loss(labels, z, sample_weight=s))  # fmt: skip
    assert result("zero_one_loss", prediction=(z > 0).astype(int).tolist(), **args)["mean"] == pytest.approx(
        sk.zero_one_loss(labels, z > 0, sample_weight=s))  # fmt: skip
    assert result("probability_rmse", prediction=p.tolist(), **args)["value"] ** 2 == pytest.approx(
        sk.brier_score_loss(labels, p, sample_weight=s))  # fmt: skip
    rows = np.where(np.ones(50) if s is None else s, (z - y) ** 2, 0) * (1 if s is None else s)
    assert result("residual_sum_of_squares", **given)["value"] == pytest.approx(rows.sum())
    assert result("sum_of_squared_errors", **given)["value"] == pytest.approx(rows.sum() / 2)


def test_cross_entropy_of_three_classes():
    u = R.normal(size=(20, 3))
    p = special.softmax(u, axis=1)
    y = R.integers(0, 3, 20).tolist()
    want = sk.log_loss(y, p, labels=[0, 1, 2])
    for scores, given in ((u, "logits"), (p, "probabilities")):
        out = result("categorical_cross_entropy", scores=scores.tolist(), y=y, given=given)
        assert out["mean"] == pytest.approx(want)
    shares = np.eye(3)[y]
    assert result("categorical_cross_entropy", scores=u.tolist(), targets=shares.tolist(), given="logits")[
        "gradient"] == pytest.approx(p - shares)  # fmt: skip
    names = ["a", "b", "c"]
    out = result("categorical_cross_entropy", scores=p.tolist(), y=[names[k] for k in y], classes=names)
    assert out["best_constant"] == pytest.approx(shares.mean(axis=0))
    assert out["best_constant_mean"] == pytest.approx(special.entr(shares.mean(axis=0)).sum())
    two = result("categorical_cross_entropy", scores=[[0.3, 0.7]], y=[1])
    assert two["total"] == pytest.approx(result("logistic_loss", scores=[0.7], y=[1], given="probabilities")["total"])


def test_confident_logits_keep_their_small_losses():
    small = result("categorical_cross_entropy", scores=[[0.0, 60.0]], y=[1], given="logits")["total"]
    assert small == pytest.approx(np.exp(-60.0))
    assert result("logistic_loss", scores=[60.0], y=[1])["total"] == pytest.approx(np.exp(-60.0))


def test_clipped_probabilities_are_named():
    out = CALL["logistic_loss"]({"scores": [1.0, 0.5], "y": [0, 1], "given": "probabilities"})
    assert [w["code"] for w in out["warnings"]] == ["clipped"]
    assert out["result"]["value"][0] == pytest.approx(-np.log(1e-15))
    out = CALL["categorical_cross_entropy"]({"scores": [[1.0, 0.0]], "y": [1]})
    assert out["result"]["value"] == pytest.approx([-np.log(1e-15)])
    assert [w["code"] for w in out["warnings"]] == ["clipped"]


def test_losses_above_the_zero_one_loss():
    t = np.linspace(-3, 3, 25)
    for sign in (-1, 1):
        y = [sign] * 25
        wrong = np.array(result("zero_one_loss", prediction=np.where(t >= 0, 1, -1).tolist(), y=y)["value"])
        for name in ("hinge_loss", "exponential_loss"):
            assert (np.array(result(name, scores=t.tolist(), y=y, positive=1)["value"]) >= wrong).all()
        log_loss = result("logistic_loss", scores=(sign * t).tolist(), given="margins")["value"]
        assert (np.array(log_loss) / np.log(2) >= wrong - 1e-12).all()


def test_labels_of_any_kind_and_one_kind_alone():
    scores = [0.5, -2.0, 0.1]
    want = result("hinge_loss", scores=scores, y=[1, -1, -1])
    assert result("hinge_loss", scores=scores, y=["yes", "no", "no"]) == want
    assert result("hinge_loss", scores=scores, y=[True, False, False]) == want
    flipped = result("hinge_loss", scores=[-t for t in scores], y=["a", "b", "b"], positive="b")
    assert flipped["value"] == want["value"]
    alone = result("hinge_loss", scores=[0.5], y=[-1])
    assert alone["value"] == [1.5]
    assert alone["best_constant"] == [-1.0]
    out = CALL["exponential_loss"]({"scores": [1.0, -800.0], "y": [1, 1]})
    assert [w["code"] for w in out["warnings"]] == ["overflow", "no_best_constant"]
    assert out["result"]["value"][1] is None
    assert out["result"]["best_constant"] == [None]


def test_decisions_and_their_losses():
    L = [[0.0, 10.0], [1.0, 0.0], [0.4, 0.4]]
    out = result("asymmetric_loss_matrix", prediction=["ok", "ill", "ask"], y=["ill", "ok", "ok"], matrix=L,
                 decisions=["ok", "ill", "ask"], classes=["ok", "ill"], sample_weight=[1.0, 2.0, 1.0])  # fmt: skip
    assert out["value"] == [10.0, 1.0, 0.4]
    assert out["total"] == pytest.approx(12.4)
    assert out["best_constant"] == "ask"
    assert out["best_constant_mean"] == pytest.approx(0.4)
    assert out["table"] == [[0.0, 1.0], [2.0, 0.0], [1.0, 0.0]]
    plain = result("asymmetric_loss_matrix", prediction=[0, 1, 1], y=[0, 0, 1], matrix=[[0.0, 1.0], [1.0, 0.0]])
    assert plain["value"] == result("zero_one_loss", prediction=[0, 1, 1], y=[0, 0, 1])["value"]


@pytest.mark.parametrize("name", [*ERRORS, "probability_rmse"])
@pytest.mark.parametrize("shape", [(6,), (6, 3)])
def test_slopes_of_figures_by_differences(name, shape):
    r = np.random.default_rng(7)
    z, y, s = r.random(shape), (r.random(shape) > 0.5).astype(float), r.random(6) + 0.1
    fixed = {"y": y.tolist(), "sample_weight": s.tolist()}
    g = np.array(result(name, prediction=z.tolist(), **fixed)["gradient"])
    for at in np.ndindex(shape):
        h = np.zeros(shape)
        h[at] = 1e-6
        up, down = (result(name, prediction=(z + k * h).tolist(), **fixed)["value"] for k in (1, -1))
        assert g[at] == pytest.approx((up - down) / 2e-6, abs=1e-8)


@pytest.mark.parametrize("name", ["mean_cost", "max_cost", "weighted_sum_cost"])
@pytest.mark.parametrize("loss", ["squared", {"loss": "huber", "delta": 0.5}, {"loss": "norm", "width": 2}, "logistic"])
def test_slopes_of_costs_by_differences(name, loss):
    r = np.random.default_rng(8)
    wide = isinstance(loss, dict) and "width" in loss
    z, y = (r.normal(size=(5, 2)), r.normal(size=(5, 2))) if wide else (r.normal(size=5), r.random(5))
    fixed = {"loss": loss, "y": y.tolist()} | ({"weights": [1, 2, 3, 0.5, 1]} if name == "weighted_sum_cost" else {})
    out = result(name, prediction=z.tolist(), **fixed)
    assert out["convex"]
    for at in np.ndindex(z.shape):
        h = np.zeros(z.shape)
        h[at] = 1e-6
        up, down = (result(name, prediction=(z + k * h).tolist(), **fixed)["value"] for k in (1, -1))
        assert np.array(out["gradient"])[at] == pytest.approx((up - down) / 2e-6, abs=1e-8)


def test_costs_of_losses_as_numbers():
    assert result("mean_cost", losses=[1.0, 3.0])["value"] == 2.0
    out = result("max_cost", losses=[3.0, 1.0, 3.0])
    assert (out["value"], out["shares"], out["largest"]) == (3.0, [1.0, 0.0, 0.0], [0, 2])
    assert result("weighted_sum_cost", losses=[1.0, 3.0], weights=[2.0, 0.5])["value"] == 3.5
    assert result("max_cost", loss="zero_one", prediction=[0.3], y=[-1.0])["gradient"] is None


def test_costs_agree_with_the_figures():
    given = {"prediction": [2.0, 0.5, -1.0], "y": [1.0, 1.0, 1.0]}
    assert 2 * result("mean_cost", loss="squared", **given)["value"] == result("mean_squared_error", **given)["value"]
    mean = result("mean_cost", loss="absolute", **given)
    assert mean["gradient"] == result("mean_absolute_error", **given)["gradient"]


def test_weights_are_repetitions():
    z, y = [0.2, 1.0, -2.0], [0.0, 3.0, 1.0]
    many = [z[0], z[1], z[1], z[1], z[2], z[2]], [y[0], y[1], y[1], y[1], y[2], y[2]]
    for name in (*RESIDUAL, *ERRORS):
        one = result(name, prediction=z, y=y, sample_weight=[1, 3, 2])
        repeated = result(name, prediction=many[0], y=many[1])
        keys = ("value",) if name in ERRORS else ("total", "mean", "best_constant_mean")
        for k in keys:
            assert one[k] == pytest.approx(repeated[k], rel=1e-9), (name, k)


def test_figures_survive_extreme_units():
    for unit in (1e-160, 1e99):
        given = {"prediction": [3 * unit, 0.0], "y": [0.0, 4 * unit]}
        value = CALL["root_mean_squared_error"](given)["result"]["value"]
        assert value == pytest.approx(np.sqrt(12.5) * unit, rel=1e-12)


def test_a_perfect_fit_has_no_slope():
    for name in ERRORS:
        out = result(name, prediction=[1.0, 2.0], y=[1.0, 2.0])
        assert out["value"] == 0.0
        assert out["gradient"] == [0.0, 0.0]


def test_kinks_are_named():
    assert result("absolute_error", prediction=[1.0, 2.0], y=[1.0, 3.0])["kinks"] == [0]
    assert result("epsilon_insensitive_loss", prediction=[0.5, 0.2], y=[0.0, 0.0], epsilon=0.5)["kinks"] == [0]
    assert result("hinge_loss", scores=[1.0, 0.0], y=[1, -1])["kinks"] == [0]
    assert result("l2_norm_loss", prediction=[[1.0, 1.0], [0.0, 1.0]], y=[[1.0, 1.0], [0.0, 0.0]])["kinks"] == [0]
    assert result("huber_loss", prediction=[1.345], y=[0.0])["kinks"] == []


@pytest.mark.parametrize(
    ("name", "arguments", "pointer"),
    [
        ("squared_error", {"prediction": [1.0], "y": [1.0, 2.0]}, "/y"),
        ("squared_error", {"prediction": [], "y": []}, "/y"),
        ("squared_error", {"prediction": [1.0], "y": [1.0], "sample_weight": [-1.0]}, "/sample_weight"),
        ("squared_error", {"prediction": [1.0], "y": [1.0], "sample_weight": [0.0]}, "/sample_weight"),
        ("squared_error", {"prediction": [1e300], "y": [1.0]}, "/prediction"),
        ("hinge_loss", {"scores": [1e300], "y": [1]}, "/scores"),
        ("mean_cost", {"loss": "absolute", "prediction": [], "y": [1.0]}, "/prediction"),
        ("mean_cost", {"losses": [1e300]}, "/losses"),
        ("l2_penalty", {"w": [1e300]}, "/w"),
        ("huber_loss", {"prediction": [1.0], "y": [1.0], "delta": 0.0}, "/delta"),
        ("tukey_loss", {"prediction": [1.0], "y": [1.0], "c": "x"}, "/c"),
        ("p_norm_loss", {"prediction": [[1.0]], "y": [[1.0]], "p": 0.5}, "/p"),
        ("absolute_error", {"prediction": [float("nan")], "y": [1.0]}, "/prediction"),
        ("hinge_loss", {"scores": [1.0, 2.0], "y": ["a", "a"]}, "/positive"),
        ("hinge_loss", {"scores": [1.0, 2.0, 3.0], "y": ["a", "b", "c"]}, "/y"),
        ("hinge_loss", {"scores": [1.0, 2.0, 3.0], "y": ["a", 1, True]}, "/y"),
        ("hinge_loss", {"scores": [1.0], "y": [1, -1]}, "/y"),
        ("logistic_loss", {"scores": [1.0]}, "/y"),
        ("logistic_loss", {"scores": [1.0], "y": [1], "given": "margins"}, "/y"),
        ("logistic_loss", {"scores": [1.5], "y": [1], "given": "probabilities"}, "/scores"),
        ("categorical_cross_entropy", {"scores": [[0.5, 0.6]], "y": [0]}, "/scores"),
        ("categorical_cross_entropy", {"scores": [[0.5, 0.5]], "y": [2]}, "/y"),
        ("categorical_cross_entropy", {"scores": [[0.5, 0.5]]}, "/y"),
        ("categorical_cross_entropy", {"scores": [[0.5, 0.5]], "targets": [[1.0, 1.0]]}, "/targets"),
        ("categorical_cross_entropy", {"scores": [[0.5, 0.5]], "y": [0], "classes": [0]}, "/classes"),
        ("asymmetric_loss_matrix", {"prediction": [2], "y": [0], "matrix": [[0.0, 1.0], [1.0, 0.0]]}, "/prediction"),
        ("asymmetric_loss_matrix", {"prediction": [0], "y": [0], "matrix": [[0.0]], "classes": [0, 1]}, "/classes"),
        ("zero_one_loss", {"prediction": [0, 1], "y": [0]}, "/y"),
        ("zero_one_loss", {"prediction": [0], "y": [[0]]}, "/y"),
        ("probability_rmse", {"prediction": [1.2], "y": [1]}, "/prediction"),
        ("mean_cost", {"prediction": [1.0], "y": [1.0]}, "/loss"),
        ("mean_cost", {"losses": [1.0], "y": [1.0]}, "/losses"),
        ("mean_cost", {"loss": "hinge", "prediction": [1.0], "y": [0.5]}, "/y"),
        ("mean_cost", {"loss": {"loss": "softmax", "classes": 3}, "prediction": [1.0], "y": [0.0]}, "/prediction"),
        ("mean_cost", {"loss": {"loss": "hubber"}, "prediction": [1.0], "y": [0.0]}, "/loss"),
        ("weighted_sum_cost", {"losses": [1.0, 2.0], "weights": [1.0]}, "/sample_weight"),
        ("l2_penalty", {"w": [1.0], "intercept": 1}, "/intercept"),
        ("l1_penalty", {"w": [1.0], "strength": -1.0}, "/strength"),
        ("diagonal_penalty", {"w": [1.0], "diagonal": [-1.0]}, "/diagonal"),
    ],
)  # fmt: skip
def test_refusals_say_where(name, arguments, pointer):
    assert refused(name, **arguments).startswith(pointer)


def test_penalties_leave_the_intercept_out():
    assert result("l1_penalty", w=[1e16, -2.0])["value"] == 1e16 + 2
    w = [1.0, -2.0, 50.0]
    assert result("l2_penalty", w=w, intercept=2)["value"] == 5.0
    assert result("l2_penalty", w=w, intercept=2)["gradient"] == [2.0, -4.0, 0.0]
    lasso = result("l1_penalty", w=w, strength=2.0, intercept=2)
    assert (lasso["value"], lasso["gradient"], lasso["prox"]) == (6.0, [2.0, -2.0, 0.0], [0.0, 0.0, 50.0])
    out = result("diagonal_penalty", w=w, diagonal=[1.0, 0.5, 2.0])
    assert out["value"] == pytest.approx(1 + 2 + 5000)
    assert result("diagonal_penalty", w=w, diagonal=[1.0] * 3)["value"] == result("l2_penalty", w=w)["value"]


@pytest.mark.parametrize("seed", range(6))
def test_the_prox_of_a_penalty_minimises(seed):
    r = np.random.default_rng(seed)
    p = Penalty(r.random(4) * (r.random(4) > 0.3), r.random(4) * (r.random(4) > 0.3), -r.random(4), r.random(4) * 2)
    v, step = 3 * r.normal(size=4), 0.1 + r.random()

    def f(w: np.ndarray) -> float:
        return step * p.value(w) + 0.5 * float((w - v) @ (w - v))

    best = p.prox(v, step)
    rivals = [np.clip(best + scale * r.normal(size=4), p.low, p.high) for scale in (1e-4, 0.1, 1.0) for _ in range(300)]
    assert f(best) <= min(map(f, rivals)) + 1e-12
    np.testing.assert_allclose(p.distance(best, (best - v) / step), 0, atol=1e-12)
    assert p.distance(best + np.where(best < p.high - 0.01, 0.005, -0.005), (best - v) / step + 1).max() > 1e-3


@pytest.mark.parametrize("seed", range(6))
def test_the_conjugate_of_a_penalty_is_a_supremum(seed):
    r = np.random.default_rng(seed)
    p = Penalty(r.random(3), r.random(3) * (seed % 2), -r.random(3), r.random(3))
    u = 3 * r.normal(size=3)
    grid = [np.linspace(a, b, 401) for a, b in zip(p.low, p.high, strict=True)]
    want = sum((u[j] * g - p.l1[j] * abs(g) - 0.5 * p.l2[j] * g * g).max() for j, g in enumerate(grid))
    assert p.conjugate(u) >= want - 1e-12
    assert p.conjugate(u) == pytest.approx(want, abs=1e-3)
    assert np.isinf(Penalty.of(2, l1=1.0).conjugate(np.array([1.5, 0.0])))
    assert Penalty.of(2, l1=1.0).conjugate(np.array([1.0, -1.0])) == 0.0
    assert np.isinf(p.value(p.high + 1.0))
