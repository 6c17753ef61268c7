"""Random forest of classifiers: out-of-bag account, determinism, quality beside scikit-learn's, hostile input."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.ensemble import RandomForestClassifier as Peer
from sklearn.metrics import log_loss

from ml_core import progress
from ml_core.bundle import load_bundle, save_bundle
from ml_core.ensemble.forest_report import wilson
from ml_core.ensemble.random_forest import RandomForestClassifier
from ml_core.errors import Cancelled, InvalidData, InvalidParameter
from ml_core.parallel import use_threads
from ml_core.registry import build, spec_of
from ml_core.tree.structure import walk


def cells(n, d=8, K=3, seed=0):
    """Labels from noisy axis-parallel cells; half of the columns say nothing."""
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, d))
    score = np.stack([np.sin(2 * X[:, k % d]) + (X[:, (k + 1) % d] > 0) + 0.4 * r.normal(size=n) for k in range(K)])
    return X, score.argmax(axis=0)


def digest(model, X):
    return hashlib.sha256(model.predict_proba(X).tobytes()).hexdigest()


def test_rows_that_every_tree_saw_have_no_out_of_bag_answer():
    X, y = np.arange(10.0)[:, None], np.arange(10) % 2
    model = RandomForestClassifier(n_estimators=1).fit(X, y)
    lost = np.isnan(model.oob_decision_function_).all(axis=1)
    assert 0 < lost.sum() < 10
    assert model.oob_coverage_ == pytest.approx(1 - lost.mean(), abs=1e-15)
    found = model.oob_decision_function_[~lost].argmax(axis=1)
    assert model.oob_error_ == pytest.approx(np.mean(found != y[~lost]), abs=1e-15)
    assert [n.code for n in model.notices_] == ["oob_uncovered"]
    report = model.diagnostics(X, y).to_json()
    assert json.dumps(report, allow_nan=False)
    assert report["summary"]["oob_rows"] == (~lost).sum()


def test_out_of_bag_is_the_vote_of_the_absent_trees():
    X, y = cells(120)
    s = np.random.default_rng(1).integers(1, 4, 120).astype(float)
    model = RandomForestClassifier(n_estimators=70, max_samples=60).fit(X, y, sample_weight=s)
    plan = model._plan(120)
    total, seen = np.zeros((120, 3)), np.zeros(120)
    for t, root in enumerate(model.roots_):
        out = plan.counts(t) == 0
        assert plan.counts(t).sum() == 60
        total[out] += model.values_[model.nodes_["left"][walk(model.nodes_, root, X[out])]]
        seen += out
        covered = seen > 0
        wrong = covered & (total.argmax(axis=1) != y)
        assert model.oob_curve_[t] == pytest.approx(s[wrong].sum() / s[covered].sum(), abs=1e-13)
        assert model.coverage_curve_[t] == pytest.approx(s[covered].sum() / s.sum(), abs=1e-13)
    assert np.allclose(model.oob_decision_function_, total / seen[:, None], rtol=0, atol=1e-13)


def test_out_of_bag_error_foretells_the_error_on_new_rows():
    X, y = cells(3000)
    model = RandomForestClassifier(n_estimators=60).fit(X[:1500], y[:1500])
    error = 1 - model.score(X[1500:], y[1500:])
    assert abs(model.oob_error_ - error) < 4 * np.sqrt(2 * error * (1 - error) / 1500)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_the_number_of_threads_changes_no_bit(threads):
    X, y = cells(3000, d=10)
    with use_threads(4):
        want = RandomForestClassifier(n_estimators=30).fit(X, y)
    with use_threads(threads):
        model = RandomForestClassifier(n_estimators=30).fit(X, y)
        assert digest(model, X) == digest(want, X)
    assert np.array_equal(model.oob_decision_function_, want.oob_decision_function_)
    assert np.array_equal(model.feature_importances_, want.feature_importances_)
    assert model.oob_error_ == want.oob_error_


def test_a_fresh_process_gives_the_same_bits():
    X, y = cells(200)
    here = digest(RandomForestClassifier(n_estimators=12, random_state=5).fit(X, y), X)
    code = (
        "from tests.test_random_forest import *; X, y = cells(200);"
        "sys.stdout.write(digest(RandomForestClassifier(n_estimators=12, random_state=5).fit(X, y), X))"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert here == there
    assert here != digest(RandomForestClassifier(n_estimators=12, random_state=6).fit(X, y), X)


@pytest.mark.parametrize("splits", ["exact", "histogram"])
@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_quality_is_that_of_the_peer(splits, criterion):
    X, y = cells(6000, d=12, K=4)
    ours = RandomForestClassifier(n_estimators=60, splits=splits, criterion=criterion).fit(X[:3000], y[:3000])
    peer = Peer(60, criterion=criterion, random_state=0, n_jobs=1).fit(X[:3000], y[:3000])
    A, t = X[3000:], y[3000:]
    assert ours.score(A, t) > peer.score(A, t) - 0.015
    floor = 1e-3
    losses = [log_loss(t, np.maximum(m.predict_proba(A), floor) / np.maximum(m.predict_proba(A), floor).sum(1)[:, None])
              for m in (ours, peer)]  # fmt: skip
    assert losses[0] < losses[1] + 0.03
    assert ours.scheme_ == splits


def test_trees_to_purity_make_no_error_on_distinct_rows():
    X, y = cells(400)
    model = RandomForestClassifier(n_estimators=5, bootstrap=False).fit(X, y)
    assert model.score(X, y) == 1.0
    assert model.oob_error_ is None
    assert model.oob_decision_function_ is None


def test_all_rows_and_all_features_give_one_tree_many_times():
    X, y = cells(300)
    model = RandomForestClassifier(n_estimators=4, bootstrap=False, max_features="all").fit(X, y)
    parts = [model.nodes_["threshold"][a:b] for a, b in pairwise([*model.roots_, len(model.nodes_)])]
    assert all(np.array_equal(p, parts[0]) for p in parts)


def test_vote_counts_trees():
    X, y = cells(300)
    model = RandomForestClassifier(n_estimators=20, aggregation="vote", min_samples_leaf=20).fit(X, y)
    mean = RandomForestClassifier(n_estimators=20, min_samples_leaf=20).fit(X, y)
    P = model.predict_proba(X)
    assert np.allclose(20 * P, np.rint(20 * P), rtol=0, atol=1e-12)
    votes = [mean.values_[mean.nodes_["left"][walk(mean.nodes_, root, X)]].argmax(axis=1) for root in mean.roots_]
    assert np.allclose(P, np.mean(np.eye(3)[np.array(votes)], axis=0), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("value", "d", "want"),
    [("sqrt", 20, 4), ("sqrt", 1, 1), ("log2", 20, 4), ("log2", 1, 1), ("all", 7, 7), (3, 7, 3), (0.5, 7, 3),
     (1.0, 7, 7), (0.01, 7, 1)],
)  # fmt: skip
def test_features_per_node(value, d, want):
    X, y = np.random.default_rng(2).normal(size=(20, d)), np.arange(20) % 2
    assert RandomForestClassifier(n_estimators=1, max_features=value).fit(X, y).max_features_ == want


def test_stopping_parameters_bound_the_trees():
    X, y = cells(500)
    assert RandomForestClassifier(n_estimators=5, max_depth=3).fit(X, y).depth_.max() == 3
    few = RandomForestClassifier(n_estimators=5, min_samples_leaf=50, bootstrap=False).fit(X, y)
    at = [np.unique(walk(few.nodes_, root, X), return_counts=True)[1].min() for root in few.roots_]
    assert min(at) >= 50
    assert RandomForestClassifier(n_estimators=5, min_gain=2.0).fit(X, y).leaves_.tolist() == [1] * 5


def test_importances_find_the_columns_that_matter():
    r = np.random.default_rng(3)
    X = r.normal(size=(800, 6))
    model = RandomForestClassifier(n_estimators=40).fit(X, (X[:, 2] + 0.5 * X[:, 4] > 0).astype(int))
    assert model.feature_importances_.sum() == pytest.approx(1, abs=1e-12)
    assert np.argsort(-model.feature_importances_)[:2].tolist() == [2, 4]
    table = model.diagnostics(X, (X[:, 2] + 0.5 * X[:, 4] > 0).astype(int)).tables["importances"]
    assert table.rows[0][0] == 2
    assert table.rows[0][3] > 0.2
    assert sum(row[2] for row in table.rows) == (model.nodes_["feature"] >= 0).sum()


def test_a_column_without_values_to_split_is_never_used():
    X, y = cells(200)
    X[:, 3] = 7.0
    model = RandomForestClassifier(n_estimators=20).fit(X, y)
    assert model.used_features_[3] == 0
    assert model.feature_importances_[3] == 0


@pytest.mark.parametrize("factor", [0.5, 0.01, 1e6])
def test_the_scale_of_the_weights_means_nothing(factor):
    X, y = cells(200)
    X = np.round(X, 1)
    s = np.random.default_rng(4).integers(1, 4, 200).astype(float)
    a = RandomForestClassifier(n_estimators=15).fit(X, y, sample_weight=s)
    b = RandomForestClassifier(n_estimators=15).fit(X, y, sample_weight=factor * s)
    assert np.array_equal(a.nodes_, b.nodes_)
    assert np.allclose(a.values_, b.values_, rtol=1e-12)


def test_rows_of_weight_zero_are_absent():
    X, y = cells(200)
    s = (np.arange(200) % 3 > 0).astype(float)
    a = RandomForestClassifier(n_estimators=10).fit(X, y, sample_weight=s)
    b = RandomForestClassifier(n_estimators=10).fit(X[s > 0], y[s > 0])
    assert digest(a, X) == digest(b, X)


def test_progress_counts_trees_and_a_listener_cancels():
    X, y = cells(200)
    steps = []
    with progress.listen(lambda t: steps.append((t.step, t.total, t.unit))):
        RandomForestClassifier(n_estimators=9).fit(X, y)
    assert steps == [(i, 9, "trees") for i in range(1, 10)]

    def stop(tick):
        if tick.step == 3:
            raise Cancelled

    with progress.listen(stop), pytest.raises(Cancelled):
        RandomForestClassifier(n_estimators=500).fit(X, y)


def test_a_large_tree_can_be_cancelled_within(monkeypatch):
    monkeypatch.setattr("ml_core.tree.grow.CHUNK", 1000)
    X, y = cells(500)
    plain = digest(RandomForestClassifier(n_estimators=2).fit(X, y), X)
    steps = []
    with progress.listen(lambda t: steps.append(t.step)):
        assert digest(RandomForestClassifier(n_estimators=2).fit(X, y), X) == plain
    assert steps.count(0) > 3
    assert steps == sorted(steps)


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 100])
def test_batches_give_each_row_its_own_bits(rows):
    X, y = cells(300)
    model = RandomForestClassifier(n_estimators=33).fit(X, y)
    assert np.array_equal(model.predict_proba(X[:rows]), model.predict_proba(X)[:rows])


def test_bundle_and_spec_give_the_model_back():
    X, y = cells(200)
    model = build(spec_of(RandomForestClassifier(n_estimators=10, max_features=0.5, max_samples=150))).fit(X, y)
    file = io.BytesIO()
    save_bundle(model, file)
    again = load_bundle(file)
    assert digest(again, X) == digest(model, X)
    assert again.diagnostics(X, y).to_json() == model.diagnostics(X, y).to_json()


def test_certificates_hold_and_notice_a_changed_model():
    X, y = cells(600)
    model = RandomForestClassifier(n_estimators=50).fit(X, y)
    report = model.diagnostics(X, y)
    assert {c.name for c in report.certificates} == {
        "largest_row_sum_error", "largest_path_error", "oob_error_difference", "late_oob_spread", "oob_coverage",
    }  # fmt: skip
    assert all(c.holds for c in report.certificates)
    assert len(report.curves["oob_error"]["y"]) == 50
    other = model.diagnostics(X[:100], y[:100])
    assert "oob_error" not in other.summary
    model.oob_error_ += 0.01
    assert not {c.name: c.holds for c in model.diagnostics(X, y).certificates}["oob_error_difference"]


def test_wilson_interval():
    for wrong, n in [(0, 10), (3, 40), (250, 1000)]:
        want = binomtest(wrong, n).proportion_ci(0.95, method="wilson")
        assert wilson(wrong / n, n) == pytest.approx((want.low, want.high), abs=1e-12)


@pytest.mark.parametrize(
    "wrong",
    [{"n_estimators": 0}, {"max_features": 9}, {"max_features": 0.0}, {"max_features": "half"}, {"max_samples": 0},
     {"max_samples": 10, "bootstrap": False}, {"criterion": "mse"}, {"purity": 0.0}, {"min_samples_split": 1},
     {"min_gain": -1.0},
     {"max_depth": 0}, {"splits": "fast"}, {"aggregation": "max"}, {"random_state": -1}],
)  # fmt: skip
def test_wrong_parameters_are_named(wrong):
    X, y = cells(30)
    with pytest.raises(InvalidParameter, match=next(iter(wrong))):
        RandomForestClassifier(**{"n_estimators": 2} | wrong).fit(X, y)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_missing_values_are_refused(bad):
    X, y = cells(30)
    X[4, 2] = bad
    with pytest.raises(InvalidData, match="row 4, column 2"):
        RandomForestClassifier(n_estimators=2).fit(X, y)


def test_poor_choices_are_noted():
    X, y = cells(100)
    codes = [n.code for n in RandomForestClassifier(n_estimators=40, criterion="misclassification").fit(X, y).notices_]
    assert codes == ["poor_cost"]
    deep = RandomForestClassifier(n_estimators=1, bootstrap=False).fit(np.arange(4000.0)[:, None], np.arange(4000) % 2)
    assert [n.code for n in deep.notices_] == ["deep_tree"]


def test_cost_grows_with_the_work():
    a, b = RandomForestClassifier(n_estimators=10), RandomForestClassifier(n_estimators=100)
    assert b.cost(1000, 20).flops > 5 * a.cost(1000, 20).flops
    assert a.cost(100_000, 20).memory_bytes > 50 * a.cost(1000, 20).memory_bytes
