"""Pipelines: equal to the steps by hand, as capable as their last step, stored and described as one value."""

from __future__ import annotations

import inspect
import io
import json
import pickle
from typing import Annotated, Any

import joblib
import numpy as np
import pytest
import sklearn.base
import sklearn.linear_model
import sklearn.pipeline
import sklearn.preprocessing

from ml_core import progress
from ml_core.base import Clusterer, Density, Transformer, clone
from ml_core.bayes.beta_bernoulli import BetaBernoulli
from ml_core.bundle import load_bundle, save_bundle
from ml_core.capabilities import Samples, capabilities
from ml_core.errors import InvalidData, InvalidParameter, NotFittedError
from ml_core.linear.linear_regression import LinearRegression
from ml_core.linear.logistic_regression import LogisticRegression
from ml_core.preprocessing.pipeline import Pipeline
from ml_core.preprocessing.standard_scaler import StandardScaler
from ml_core.registry import build, find, spec_of

R = np.random.default_rng(0)
X = R.normal([5.0, -3.0, 100.0], [2.0, 0.1, 30.0], size=(60, 3))
Y = X @ [1.0, -2.0, 0.03] + 0.1 * R.normal(size=60)
LABELS = np.where(np.greater(Y, np.median(Y)), "high", "low")


class Doubler(Transformer):
    """Each column twice: not weighted, not invertible, notes what it saw, widens the rows."""

    def _fit(self, X: np.ndarray) -> None:
        self.rows_ = len(X)
        self.n_features_out_ = 2 * X.shape[1]
        self._note("seen", f"{len(X)} rows")

    def _transform(self, X: np.ndarray) -> np.ndarray:
        return np.hstack([X, X])

    def _names(self, inputs: list[str]) -> list[str]:
        return [*inputs, *(f"{i} again" for i in inputs)]

    def _width(self, d: int) -> int:
        return 2 * d


class Halves(Clusterer):
    """Above or below the mean of the first column."""

    def _fit(self, X: np.ndarray) -> None:
        self.cut_ = float(X[:, 0].mean())

    def _decide(self, X: np.ndarray) -> np.ndarray:
        return (X[:, 0] > self.cut_).astype(np.int64)


class Points(Samples, Density):
    """The training rows themselves."""

    queue = "long"

    def __init__(self, *, spare: Annotated[int, "unused"] = 0) -> None:
        self.spare = spare

    def _fit(self, X: np.ndarray) -> None:
        self.rows_ = X

    def _log_density(self, X: np.ndarray) -> np.ndarray:
        return np.zeros(len(X))

    def _sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, None]:
        return self.rows_[rng.integers(len(self.rows_), size=n)], None


def regression() -> Pipeline:
    return Pipeline(steps=[StandardScaler(), LinearRegression()])


def test_answers_are_those_of_scikit_learns_pipeline() -> None:
    peer = sklearn.pipeline.make_pipeline(
        sklearn.preprocessing.StandardScaler(), sklearn.linear_model.LinearRegression()
    ).fit(X, Y)
    ours = regression().fit(X, Y)
    np.testing.assert_allclose(ours.predict(X), peer.predict(X), rtol=1e-11)
    np.testing.assert_allclose(ours.score(X, Y), peer.score(X, Y), rtol=1e-12)


def test_is_the_steps_one_after_the_other() -> None:
    pipe = Pipeline(steps=[StandardScaler(), Doubler(), LinearRegression()]).fit(X, Y)
    scaler = StandardScaler().fit(X)
    doubler = Doubler().fit(scaler.transform(X))
    last = LinearRegression().fit(doubler.transform(scaler.transform(X)), Y)
    np.testing.assert_array_equal(pipe.predict(X), last.predict(doubler.transform(scaler.transform(X))))
    assert pipe.n_features_in_ == 3
    assert pipe.steps_[2].n_features_in_ == 6


@pytest.mark.parametrize(
    ("last", "has", "lacks"),
    [
        (LinearRegression(), {"predict", "score"}, {"predict_proba", "transform", "sample", "classes_"}),
        (LogisticRegression(), {"predict", "predict_proba", "score"}, {"transform", "sample"}),
        (StandardScaler(), {"transform", "inverse_transform", "fit_transform", "update"}, {"predict", "score"}),
        (BetaBernoulli(), {"posterior", "parameter_posterior", "update", "sample", "score_samples"}, {"predict"}),
        (Halves(), {"predict", "fit_predict"}, {"score", "transform", "update"}),
    ],
)
def test_can_do_what_its_last_step_can_do(last: Any, has: set[str], lacks: set[str]) -> None:
    pipe = Pipeline(steps=[StandardScaler(), last])
    assert {m for m in has if hasattr(pipe, m)} == has
    assert not {m for m in lacks if hasattr(pipe, m)}
    assert capabilities(pipe) == capabilities(last)
    assert pipe.task == last.task
    assert pipe.supervised == last.supervised
    assert pipe.weighted == last.weighted
    assert pipe._estimator_type == getattr(last, "_estimator_type", None)


def test_class_has_defaults_for_the_catalogue() -> None:
    entry = find("pipeline")
    assert (entry.cls.task, entry.cls.accepts, entry.cls.queue) == ("regression", "real", "instant")
    assert entry.cls.supervised is True
    assert {"predict", "transform", "update"} <= set(capabilities(entry.cls))
    assert entry.params_schema()["properties"]["steps"]["items"]["x-spec"] == "estimator"
    build(entry.example()).fit(X, Y)
    json.dumps([entry.params_schema(), entry.default_params(), entry.example()])


def test_first_step_decides_the_domain_and_the_slowest_the_queue() -> None:
    assert Pipeline(steps=[BetaBernoulli()]).accepts == "binary"
    assert Pipeline(steps=[StandardScaler(), BetaBernoulli()]).accepts == "real"
    assert Pipeline(steps=[StandardScaler(), Points()]).queue == "long"
    assert regression().queue == "instant"
    with pytest.raises(InvalidData, match="0 or 1"):
        Pipeline(steps=[BetaBernoulli()]).fit(X)


def test_labels_and_classes_are_the_last_steps() -> None:
    pipe = Pipeline(steps=[StandardScaler(), LogisticRegression()]).fit(X, LABELS)
    assert pipe.classes_.tolist() == ["high", "low"]
    assert (pipe.predict(X) == LABELS).mean() > 0.9
    assert pipe.predict_proba(X).shape == (60, 2)


@pytest.mark.parametrize(
    ("steps", "pointer", "code"),
    [
        ((), "/params/steps", "empty_steps"),
        ([], "/params/steps", "empty_steps"),
        ("scaler", "/params/steps", "empty_steps"),
        ([StandardScaler(), 3], "/params/steps/1", "estimator_type"),
        ([LinearRegression(), StandardScaler()], "/params/steps/0", "not_a_transformer"),
        ([StandardScaler(), StandardScaler(ddof=7)], None, None),  # type: ignore[arg-type]
    ],
)
def test_wrong_steps_are_refused_at_fit(steps: Any, pointer: str | None, code: str | None) -> None:
    with pytest.raises(InvalidParameter) as refused:
        Pipeline(steps=steps).fit(X, Y)
    if pointer is not None:
        assert [(i.pointer, i.code) for i in refused.value.issues] == [(pointer, code)]


@pytest.mark.parametrize(
    ("params", "pointer"),
    [
        ({}, "/params/steps"),
        ({"steps": []}, "/params/steps"),
        ({"steps": [{"algorithm": "standard_scaler", "params": {"ddof": 2}}]}, "/params/steps/0/params/ddof"),
        ({"steps": [{"algorithm": "nope"}]}, "/params/steps/0/algorithm"),
        ({"steps": [{"algorithm": "standard_scaler", "extra": 1}]}, "/params/steps/0/extra"),
        (
            {"steps": [{"algorithm": "pipeline", "params": {"steps": [{"algorithm": "x"}]}}]},
            "/params/steps/0/params/steps/0/algorithm",
        ),
    ],
)
def test_wrong_specs_are_refused_at_their_place(params: Any, pointer: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        build({"algorithm": "pipeline", "params": params})
    assert [i.pointer for i in refused.value.issues] == [pointer]


def test_parameters_are_reached_by_place() -> None:
    pipe = Pipeline(steps=[StandardScaler(), Pipeline(steps=[Doubler(), LinearRegression()])])
    assert pipe.get_params()["steps__0__with_mean"] is True
    pipe.set_params(steps__0__with_mean=False, steps__1__steps__1__fit_intercept=False)
    assert pipe.get_params()["steps__0__with_mean"] is False
    assert pipe.steps[1].steps[1].fit_intercept is False
    with pytest.raises(InvalidParameter):
        pipe.set_params(steps__7__with_mean=True)
    with pytest.raises(InvalidParameter):
        pipe.set_params(steps__0__nope=True)


def test_spec_round_trip_holds_every_default() -> None:
    pipe = Pipeline(steps=[StandardScaler(ddof=1), LinearRegression()])
    spec = json.loads(json.dumps(spec_of(pipe)))
    assert spec["params"]["steps"][0] == {
        "algorithm": "standard_scaler", "params": {"with_mean": True, "with_std": True, "ddof": 1},
    }  # fmt: skip
    assert spec_of(build(spec)) == spec
    assert repr(build(spec)) == repr(pipe)


def test_fit_leaves_the_given_steps_alone_and_copies_are_unfitted() -> None:
    pipe = regression().fit(X, Y)
    assert not any(s.__sklearn_is_fitted__() for s in pipe.steps)
    for copy in (clone(pipe), sklearn.base.clone(pipe)):
        assert spec_of(copy) == spec_of(pipe)
        assert copy.steps[0] is not pipe.steps[0]
        assert not copy.__sklearn_is_fitted__()
        np.testing.assert_array_equal(copy.fit(X, Y).predict(X), pipe.predict(X))


def test_storage_keeps_the_answers(tmp_path: Any) -> None:
    pipe = regression().fit(X, Y)
    joblib.dump(pipe, tmp_path / "pipe")
    buffer = io.BytesIO()
    save_bundle(pipe, buffer)
    for again in (pickle.loads(pickle.dumps(pipe)), joblib.load(tmp_path / "pipe", mmap_mode="r"), load_bundle(buffer)):
        np.testing.assert_array_equal(again.predict(X), pipe.predict(X))
        assert spec_of(again) == spec_of(pipe)
        assert again.diagnostics(X, Y).to_json() == pipe.diagnostics(X, Y).to_json()


def test_weights_reach_scaler_and_last_step() -> None:
    s = np.random.default_rng(1).integers(0, 4, size=60).astype(float)
    rows = np.repeat(np.arange(60), s.astype(int))
    weighted = regression().fit(X, Y, sample_weight=s)
    repeated = regression().fit(X[rows], Y[rows])
    np.testing.assert_allclose(weighted.steps_[0].mean_, repeated.steps_[0].mean_, rtol=1e-13)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-10)


def test_step_without_weights_is_named_and_last_step_without_weights_refuses() -> None:
    s = np.arange(60.0)
    pipe = Pipeline(steps=[Doubler(), LinearRegression()]).fit(X, Y, sample_weight=s)
    assert pipe.steps_[0].rows_ == 59  # the row of weight 0 reaches no step
    assert "weights_not_used" in [n.code for n in pipe.notices_]
    assert "weights_not_used" not in [n.code for n in pipe.fit(X, Y).notices_]
    with pytest.raises(InvalidData, match="takes no sample_weight"):
        Pipeline(steps=[StandardScaler(), Points()]).fit(X, sample_weight=s)


def test_diagnostics_are_the_last_steps_with_every_notice_and_its_step() -> None:
    pipe = Pipeline(steps=[StandardScaler(), Doubler(), LinearRegression()])
    Z = np.column_stack([X, np.full(60, 7.0)])
    report = pipe.fit(Z, Y).diagnostics(Z, Y)
    told = {n.code: n.message for n in report.warnings}
    assert told["constant_column"].startswith("step 0 (StandardScaler): columns 3")
    assert told["seen"] == "step 1 (Doubler): 60 rows"
    assert report.tables["steps"].rows == [
        [0, "StandardScaler", 4, 4], [1, "Doubler", 4, 8], [2, "LinearRegression", 8, None],
    ]  # fmt: skip
    own = pipe.steps_[-1].diagnostics(pipe.steps_[1].transform(pipe.steps_[0].transform(Z)), Y)
    assert report.summary == own.summary
    assert [c.to_json() for c in report.certificates] == [c.to_json() for c in own.certificates]


def test_update_changes_the_last_step_and_keeps_the_transformers() -> None:
    pipe = Pipeline(steps=[StandardScaler(), BetaBernoulli(binarize=0.0)])
    pipe.fit(X[:40])
    scale = pipe.steps_[0].scale_.copy()
    assert pipe.update(X[40:]).update(X[:5], sample_weight=np.full(5, 2.0)) is pipe
    np.testing.assert_array_equal(pipe.steps_[0].scale_, scale)
    assert pipe.steps_[1].heads_[0] + pipe.steps_[1].tails_[0] == 70
    assert [n.code for n in pipe.notices_] == ["transformers_fixed"]
    assert "transformers_fixed" in [n.code for n in pipe.diagnostics(X).warnings]
    assert set(pipe.parameter_posterior()) == {"p"}
    assert pipe.forget(X[:5], sample_weight=np.full(5, 2.0)) is pipe
    assert pipe.steps_[1].heads_[0] + pipe.steps_[1].tails_[0] == 60


def test_sample_and_inverse_transform_return_to_the_units_of_the_input() -> None:
    pipe = Pipeline(steps=[StandardScaler(), Points()]).fit(X)
    rows, labels = pipe.sample(200, random_state=3)
    assert labels is None
    assert np.abs(rows[:, None] - X).max(axis=2).min(axis=1).max() < 1e-12
    two = Pipeline(steps=[StandardScaler(), StandardScaler(with_mean=False)]).fit(X)
    np.testing.assert_allclose(two.inverse_transform(two.transform(X)), X, rtol=1e-13)
    assert not hasattr(Pipeline(steps=[Doubler(), Points()]), "sample")
    assert not hasattr(Pipeline(steps=[Doubler(), StandardScaler()]), "inverse_transform")


def test_clusters_cover_every_given_row() -> None:
    pipe = Pipeline(steps=[StandardScaler(), Halves()])
    np.testing.assert_array_equal(pipe.fit_predict(X), (X[:, 0] > X[:, 0].mean()).astype(int))
    np.testing.assert_array_equal(pipe.labels_, pipe.predict(X))


def test_names_follow_the_steps() -> None:
    pipe = Pipeline(steps=[StandardScaler(), Doubler()]).fit(X)
    assert pipe.get_feature_names_out(["a", "b", "c"]).tolist() == ["a", "b", "c", "a again", "b again", "c again"]
    assert pipe.get_feature_names_out().tolist()[:3] == ["x0", "x1", "x2"]
    assert pipe.n_features_out_ == 6


def test_cost_is_the_sum_over_the_widths() -> None:
    pipe = Pipeline(steps=[Doubler(), Doubler(), LinearRegression()])
    want = Doubler().cost(50, 3).flops + Doubler().cost(50, 6).flops + LinearRegression().cost(50, 12).flops
    assert pipe.cost(50, 3).flops == want
    assert pipe.cost(50, 3).memory_bytes >= LinearRegression().cost(50, 12).memory_bytes
    assert Pipeline(steps=[pipe.steps[0], Pipeline(steps=[Doubler(), LinearRegression()])]).cost(50, 3).flops == want


def test_refit_forgets_the_earlier_steps() -> None:
    pipe = Pipeline(steps=[BetaBernoulli()]).fit((X > 0).astype(float))
    pipe.set_params(steps=[StandardScaler(), LinearRegression()]).fit(X, Y)
    np.testing.assert_array_equal(pipe.predict(X), regression().fit(X, Y).predict(X))


def test_failed_fit_leaves_no_model_that_answers() -> None:
    pipe = regression().fit(X, Y)
    with pytest.raises(InvalidData):
        pipe.fit(X, Y[:-1])
    with pytest.raises(NotFittedError):
        pipe.predict(X)


def test_query_before_fit_and_of_wrong_width_is_refused() -> None:
    with pytest.raises(NotFittedError):
        regression().predict(X)
    with pytest.raises(InvalidData, match="expecting 3"):
        regression().fit(X, Y).predict(X[:, :2])
    with pytest.raises(InvalidData, match="requires y"):
        regression().fit(X)


def test_signature_and_documentation_are_those_of_the_last_step() -> None:
    assert list(inspect.signature(regression().score).parameters) == ["X", "y", "sample_weight"]
    assert regression().predict.__doc__ == LinearRegression().predict.__doc__


def test_each_step_is_announced() -> None:
    seen: list[tuple[int, int | None]] = []
    with progress.listen(lambda t: seen.append((t.step, t.total)) if t.unit == "steps" else None):
        regression().fit(X, Y)
    assert seen == [(0, 2), (1, 2)]
