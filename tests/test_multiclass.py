"""Wrappers of two-class classifiers: scikit-learn, votes and coupling, members of every kind, weights, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis as PeerGaussian
from sklearn.linear_model import LogisticRegression as PeerLogistic
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier

from ml_core import progress
from ml_core.base import Classifier
from ml_core.bayes.bernoulli_naive_bayes import BernoulliNaiveBayes
from ml_core.bayes.gaussian_naive_bayes import GaussianNaiveBayes
from ml_core.capabilities import capabilities
from ml_core.discriminant.linear_discriminant_analysis import LinearDiscriminantAnalysis
from ml_core.ensemble.random_forest import RandomForestClassifier
from ml_core.errors import Cancelled, InvalidData, InvalidParameter
from ml_core.linear.linear_regression import LinearRegression
from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.linear.perceptron import Perceptron
from ml_core.multiclass.coupling import coupled, pairwise, slope_error
from ml_core.multiclass.one_vs_one import OneVsOne
from ml_core.multiclass.one_vs_rest import OneVsRest
from ml_core.preprocessing.pipeline import Pipeline
from ml_core.preprocessing.standard_scaler import StandardScaler
from ml_core.registry import build, spec_of

r = np.random.default_rng(0)
CODES = np.arange(120) % 4
X = r.normal(size=(120, 3)) + 1.5 * np.column_stack([CODES == 1, CODES == 2, CODES == 3])
Y = np.array(["a", "b", "c", "d"])[CODES]
WRAPPERS = pytest.mark.parametrize("wrapper", [OneVsRest, OneVsOne])


def peer(alpha):
    return PeerLogistic(C=1 / alpha, solver="newton-cholesky", tol=1e-12, max_iter=500)


@pytest.mark.parametrize("K", [2, 3, 4])
def test_one_vs_rest_equals_the_peer(K):
    at = CODES < K
    ours = OneVsRest(estimator=LogisticRegression(alpha=2.0)).fit(X[at], Y[at])
    theirs = OneVsRestClassifier(peer(2.0)).fit(X[at], Y[at])
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-8)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-8)
    assert (ours.predict(X) == theirs.predict(X)).all()
    assert len(ours.estimators_) == (1 if K == 2 else K)


@pytest.mark.parametrize("K", [2, 3, 4])
def test_one_vs_one_equals_the_peer(K):
    at = CODES < K
    for member, other in ((LogisticRegression(alpha=2.0), peer(2.0)), (LinearDiscriminantAnalysis(), PeerGaussian())):
        ours, theirs = OneVsOne(estimator=member).fit(X[at], Y[at]), OneVsOneClassifier(other).fit(X[at], Y[at])
        if K > 2:
            np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-7)
        else:
            np.testing.assert_array_equal(ours.decision_function(X), ours.estimators_[0].decision_function(X))
        assert (ours.predict(X) == theirs.predict(X)).all()
        assert len(ours.estimators_) == K * (K - 1) // 2
        assert (ours.votes(X).sum(axis=1) == K * (K - 1) // 2).all()


def test_k_minus_1_leaves_the_last_class_to_none_of_the_others():
    model = OneVsRest(estimator=LogisticRegression(alpha=2.0), k_minus_1=True).fit(X, Y)
    full = OneVsRest(estimator=LogisticRegression(alpha=2.0)).fit(X, Y)
    assert len(model.estimators_) == 3
    f = model.decision_function(X)
    np.testing.assert_allclose(f[:, :3], full.decision_function(X)[:, :3], atol=1e-10)
    assert ((model.predict(X) == "d") == (f[:, :3] < 0).all(axis=1)).all()
    p = 1 / (1 + np.exp(-f[:, :3]))
    raw = np.column_stack([p, np.prod(1 - p, axis=1)])
    np.testing.assert_allclose(model.predict_proba(X), raw / raw.sum(axis=1, keepdims=True), atol=1e-12)


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=6))
@settings(max_examples=60, deadline=None)
def test_pairs_that_agree_couple_to_their_probabilities(weights):
    p = np.array(weights) / sum(weights)
    K = len(p)
    pairs = [(i, j) for i in range(K) for j in range(i + 1, K)]
    R = pairwise(np.array([[p[j] / (p[i] + p[j]) for i, j in pairs]]), pairs, K)
    np.testing.assert_allclose(coupled(R)[0], p, atol=1e-9)


def test_pairs_that_disagree_couple_to_the_least_sum_of_squares():
    K, pairs = 4, [(i, j) for i in range(4) for j in range(i + 1, 4)]
    P = np.random.default_rng(3).uniform(0.05, 0.95, (5, 6))
    R = pairwise(P, pairs, K)
    found = coupled(R)
    assert slope_error(R, found) < 1e-12

    def loss(p, m):
        return sum((m[j, i] * p[i] - m[i, j] * p[j]) ** 2 for i in range(K) for j in range(K) if i != j)

    for m, p in zip(R, found, strict=True):
        best = minimize(loss, np.full(K, 0.25), (m,), method="SLSQP", bounds=[(0, 1)] * K, tol=1e-14,
                        constraints={"type": "eq", "fun": lambda p: p.sum() - 1})  # fmt: skip
        assert loss(p, m) <= best.fun + 1e-10
        np.testing.assert_allclose(p, best.x, atol=1e-4)


def test_certain_pairs_give_finite_probabilities():
    pairs = [(0, 1), (0, 2), (1, 2)]
    P = coupled(pairwise(np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]), pairs, 3))
    assert np.isfinite(P).all()
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert P[0].argmax() == 2
    np.testing.assert_allclose(P[2], 1 / 3, atol=1e-3)


@WRAPPERS
@pytest.mark.parametrize("member", [
    LinearDiscriminantAnalysis(), RandomForestClassifier(n_estimators=5), Perceptron(max_epochs=20),
    Pipeline(steps=[StandardScaler(), LogisticRegression(alpha=1.0)]), OneVsRest(), None,
], ids=lambda m: type(m).__name__)  # fmt: skip
def test_any_classifier_is_a_member(wrapper, member):
    model = wrapper(estimator=member).fit(X, Y)
    assert model.score(X, Y) > 0.55
    proba = member is None or hasattr(member, "predict_proba")
    assert hasattr(model, "predict_proba") == proba
    assert ("predict_proba" in capabilities(model)) == proba
    if proba:
        P = model.predict_proba(X)
        np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-12)
        labels, same = model.predict_with_proba(X)
        np.testing.assert_array_equal(P, same)
        assert (labels == model.predict(X)).all()
    report = model.diagnostics(X, Y)
    assert len(report.tables["members"].rows) == len(model.estimators_)
    assert spec_of(build(spec_of(model))) == spec_of(model)


class Mute(Classifier):
    """Says the second class where x₀ > 1, without scores."""

    def __init__(self):
        pass

    def _fit(self, A, codes):
        pass

    def _decide(self, A):
        return (A[:, 0] > 1).astype(np.int64)


@WRAPPERS
def test_members_without_scores_are_told_and_ties_go_to_the_first(wrapper):
    model = wrapper(estimator=Mute()).fit(X, Y)
    assert "no_scores" in [n.code for n in model.notices_]
    assert not hasattr(model, "predict_proba")
    assert model.predict([[0.0, 0, 0]])[0] == "a"
    if wrapper is OneVsRest:
        assert model.predict([[2.0, 0, 0]])[0] == "a"
    with pytest.raises(InvalidData, match="take no weights"):
        model.fit(X, Y, sample_weight=np.ones(120))
    with pytest.raises(InvalidParameter, match="take no weights"):
        wrapper(estimator=Mute(), class_weight="balanced").fit(X, Y)


def test_ambiguous_rows_are_counted():
    model = OneVsRest(estimator=LogisticRegression(alpha=2.0)).fit(X, Y)
    yes = (model.decision_function(X) >= 0).sum(axis=1)
    summary = model.diagnostics(X, Y).summary
    assert summary["rows_without_a_yes"] == (yes == 0).sum()
    assert summary["rows_with_several"] == (yes > 1).sum()
    assert (yes == 0).any()


@WRAPPERS
def test_weights_of_rows_and_classes_reach_the_members(wrapper):
    counts = np.random.default_rng(5).integers(0, 3, 120)
    member = LogisticRegression(alpha=1.0)
    one = wrapper(estimator=member).fit(X, Y, sample_weight=counts.astype(float))
    two = wrapper(estimator=member).fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts))
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-8)
    heavy = wrapper(estimator=member, class_weight={"a": 5.0}).fit(X, Y)
    same = wrapper(estimator=member).fit(X, Y, sample_weight=np.where(Y == "a", 5.0, 1.0))
    np.testing.assert_allclose(heavy.decision_function(X), same.decision_function(X), atol=1e-10)
    assert (heavy.predict(X) == "a").sum() > (wrapper(estimator=member).fit(X, Y).predict(X) == "a").sum()


@WRAPPERS
@pytest.mark.parametrize("labels", [[False, True], [3, 1, 2], ["10", "9", "x", "y"]])
def test_labels_of_any_kind(wrapper, labels):
    y = np.array(labels)[CODES % len(labels)]
    model = wrapper().fit(X, y)
    assert model.classes_.tolist() == sorted(labels)
    assert set(model.predict(X).tolist()) <= set(labels)
    assert all(c.holds for c in model.diagnostics(X, y).certificates)


@WRAPPERS
def test_what_is_no_classifier_is_refused_with_its_place(wrapper):
    name = {OneVsRest: "one_vs_rest", OneVsOne: "one_vs_one"}[wrapper]
    for member in ({"algorithm": "ridge_regression", "params": {}}, 3, "perceptron"):
        with pytest.raises(InvalidParameter, match="classifier") as caught:
            build({"algorithm": name, "params": {"estimator": member}})
        assert caught.value.issues[0].pointer == "/params/estimator"
    with pytest.raises(InvalidParameter) as caught:
        build({"algorithm": name, "params": {"estimator": {"algorithm": "perceptron", "params": {"eta": 0}}}})
    assert caught.value.issues[0].pointer.startswith("/params/estimator/params/eta")
    with pytest.raises(InvalidParameter):
        wrapper(estimator=LinearRegression()).fit(X, Y)


@WRAPPERS
def test_a_member_that_refuses_says_whose_it_was(wrapper):
    model = wrapper(estimator=BernoulliNaiveBayes())
    with pytest.raises(InvalidData, match="0 or 1"):
        model.fit(X, Y)
    with pytest.raises(InvalidData, match=r"'\w' against"):
        wrapper(estimator=LinearDiscriminantAnalysis()).fit(np.column_stack([X, X[:, 0]]), Y)


@WRAPPERS
def test_notices_of_members_come_once(wrapper):
    easy = np.column_stack([50.0 * CODES, r.normal(size=120)])
    model = wrapper(estimator=LogisticRegression(alpha=0.0)).fit(easy, Y)
    told = [n for n in model.notices_ if n.code == "separable"]
    assert len(told) == 1
    assert "against" in told[0].message


@WRAPPERS
def test_progress_counts_members_and_any_step_can_cancel(wrapper):
    heard = []
    with progress.listen(heard.append):
        wrapper(estimator=Perceptron(max_epochs=3)).fit(X, Y)
    done = [t for t in heard if t.unit == "members"]
    total = 4 if wrapper is OneVsRest else 6
    assert done[-1].step == done[-1].total == total
    assert not [t for t in heard if t.unit == "epochs"]
    assert len(heard) > total

    def stop(t):
        raise Cancelled

    with progress.listen(stop), pytest.raises(Cancelled):
        wrapper(estimator=Perceptron(max_epochs=3)).fit(X, Y)


def test_costs_grow_with_the_members():
    member = LogisticRegression(alpha=1.0)
    one = member.cost(1000, 10, 2).flops
    assert OneVsRest(estimator=member).cost(1000, 10, 5).flops == pytest.approx(5 * one)
    assert OneVsOne(estimator=member).cost(1000, 10, 5).flops == pytest.approx(10 * member.cost(400, 10, 2).flops)


@pytest.mark.parametrize("wrapper", [OneVsRest, OneVsOne])
def test_updates_and_undoings_are_those_of_the_members(wrapper):
    r = np.random.default_rng(8)
    X, y, s = r.normal(size=(120, 3)), r.integers(0, 4, 120), r.uniform(0.5, 2, 120)
    y[90:] = np.minimum(y[90:], 1)  # the batch has rows of two classes only
    m = wrapper(estimator=GaussianNaiveBayes())
    whole = wrapper(estimator=GaussianNaiveBayes()).fit(X, y, sample_weight=s)
    m.fit(X[:90], y[:90], sample_weight=s[:90])
    first = m.predict_proba(X)
    m.update(X[90:], y[90:], sample_weight=s[90:])
    np.testing.assert_allclose(m.predict_proba(X), whole.predict_proba(X), rtol=1e-9, atol=1e-13)
    m.forget(X[90:], y[90:], sample_weight=s[90:])
    np.testing.assert_allclose(m.predict_proba(X), first, rtol=1e-8, atol=1e-12)
    with pytest.raises(InvalidData, match="never seen"):
        m.update(X[:2], np.array([0, 9]))
    with pytest.raises(InvalidData, match="against"):
        m.forget(1e3 + X[:60], y[:60])
    np.testing.assert_allclose(m.predict_proba(X), first, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("wrapper", [OneVsRest, OneVsOne])
def test_wrappers_update_exactly_where_their_members_do(wrapper):
    assert not {"update", "forget"} & set(capabilities(wrapper(estimator=LogisticRegression())))
    assert "update" in capabilities(wrapper(estimator=Perceptron()))
    assert "forget" not in capabilities(wrapper(estimator=Perceptron()))
    assert {"update", "forget"} <= set(capabilities(wrapper(estimator=GaussianNaiveBayes())))
