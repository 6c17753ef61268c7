"""Bundles: every registered algorithm goes in and comes out the same; nothing hostile gets through."""

from __future__ import annotations

import io
import json
import pickle
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ml_core.base import Estimator
from ml_core.bayes.beta_bernoulli import BetaBernoulli
from ml_core.bundle import load_bundle, load_with_extra, save_bundle
from ml_core.certificates import Notice
from ml_core.errors import BadBundle
from ml_core.kernels import RBFKernel
from ml_core.preprocessing.standard_scaler import StandardScaler
from ml_core.registry import build, spec_of
from ml_core.solvers.base import Solution
from ml_core.statistics import Moments
from tests.rows import Row, all_rows

X = np.random.default_rng(0).normal(size=(20, 3))


def saved(value: Any, **extra: Any) -> bytes:
    buffer = io.BytesIO()
    save_bundle(value, buffer, extra or None)
    return buffer.getvalue()


def opened(data: bytes) -> Any:
    return load_bundle(io.BytesIO(data))


def edited(document: bytes, change: Any) -> bytes:
    value = json.loads(document)
    change(value)
    return json.dumps(value).encode()


def rewritten(data: bytes, **entries: Any) -> bytes:
    """The bundle with entries replaced (bytes), edited (a function of the JSON document) or removed (None)."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        content = {n: old.read(n) for n in old.namelist()}
        for name, change in entries.items():
            at = {"model": "model.json", "array": "arrays/0.npy"}.get(name, name)
            content[at] = edited(content[at], change) if callable(change) else change
        for name, value in content.items():
            if value is not None:
                new.writestr(name, value)
    return out.getvalue()


@pytest.mark.parametrize("row", all_rows(), ids=lambda r: r.name)
def test_every_algorithm_comes_back_as_it_was(row: Row) -> None:
    A, y = row.data()
    model = build({"algorithm": row.name, "params": row.params}).fit(A, y)
    data = saved(model)
    again = opened(data)
    assert type(again) is type(model)
    assert spec_of(again) == spec_of(model)
    assert learned(again).keys() == learned(model).keys()
    assert saved(again) == data, "storing what was read gives other bytes"
    assert again.diagnostics(A, y).to_json() == model.diagnostics(A, y).to_json()


def learned(model: Estimator) -> dict[str, Any]:
    return {k: v for k, v in vars(model).items() if k.endswith("_")}


def test_equal_models_give_equal_bytes_and_extra_is_kept() -> None:
    data = saved(StandardScaler().fit(X), features=["a", "b"], n=3)
    assert data == saved(StandardScaler().fit(X), features=["a", "b"], n=3)
    model, extra = load_with_extra(io.BytesIO(data))
    assert extra == {"features": ["a", "b"], "n": 3}
    np.testing.assert_array_equal(model.transform(X), StandardScaler().fit(X).transform(X))


def test_paths_work_and_a_missing_file_says_so(tmp_path: Path) -> None:
    save_bundle(StandardScaler().fit(X), tmp_path / "m.zip")
    assert isinstance(load_bundle(tmp_path / "m.zip"), StandardScaler)
    with pytest.raises(FileNotFoundError):
        load_bundle(tmp_path / "none.zip")


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, 2.5, float("inf"), float("-inf"), "text", (1, (2, "x")), [1, [2]], {"a": 1, 2: (3,)},
        {(1, 2): "t"}, Notice("code", "message", "advice"), RBFKernel((1.0, 2.0)),
    ],
    ids=repr,
)  # fmt: skip
def test_plain_values_come_back_with_their_types(value: Any) -> None:
    again = opened(saved(value))
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(3), np.float32([[1.5, np.nan]]), np.array(["a", "bcd"]), np.array([True, False]), np.zeros((0, 3)),
        np.array(2.5), np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([(1, 2.0)], dtype=[("i", "<i4"), ("x", "<f8")]), np.array(["2020-01-01"], dtype="datetime64[D]"),
    ],
    ids=lambda a: str(a.dtype),
)  # fmt: skip
def test_arrays_come_back_with_dtype_and_shape(array: np.ndarray) -> None:
    again = opened(saved(array))
    assert again.dtype == array.dtype
    np.testing.assert_array_equal(again, array)


def test_objects_in_arrays_nan_and_solutions() -> None:
    labels = np.array([["a", 1], [None, 2.5]], dtype=object)
    again = opened(saved(labels))
    assert again.dtype == object
    assert (again == labels).all()
    assert np.isnan(opened(saved(float("nan"))))
    s = opened(saved(Solution(np.ones(2), 3, True, "gradient", [1.0, 0.5])))
    assert (s.n_iter, s.reason, s.trace) == (3, "gradient", [1.0, 0.5])


@pytest.mark.parametrize("value", [object(), lambda: 0, {1, 2}, 1j, print, np.array([object()], dtype=object)],
                         ids=["object", "lambda", "set", "complex", "function", "objects"])  # fmt: skip
def test_what_is_no_data_cannot_be_stored(value: Any) -> None:
    with pytest.raises(BadBundle, match="cannot stand"):
        saved(value)


GOOD = saved(StandardScaler().fit(X))


def header(shape: str, descr: str = "'<f8'", body: bytes = b"") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


def with_model(model: Any) -> bytes:
    return rewritten(GOOD, model=lambda d: d.update(model=model))


def spec(name: str = "standard_scaler", **params: Any) -> dict[str, Any]:
    return {"algorithm": name, "params": params}


HOSTILE: dict[str, bytes] = {
    "nothing": b"",
    "no zip": b"PK\x03\x04 not really",
    "pickle": pickle.dumps(StandardScaler()),
    "cut short": GOOD[: len(GOOD) // 2],
    "no document": rewritten(GOOD, model=None),
    "document is no JSON": rewritten(GOOD, model=b"{"),
    "document is a list": rewritten(GOOD, model=b"[]"),
    "document is not UTF-8": rewritten(GOOD, model=b"\xff\xfe\xfd"),
    "bottomless nesting": rewritten(GOOD, model=b"[" * 200_000),
    "later format": rewritten(GOOD, model=lambda d: d.update(format=99)),
    "format is text": rewritten(GOOD, model=lambda d: d.update(format="1")),
    "array missing": rewritten(GOOD, array=None),
    "array cut": rewritten(GOOD, array=b"\x93NUMPY\x01"),
    "array of objects": rewritten(GOOD, array=header("(1,)", "'|O'", pickle.dumps(print))),
    "array that claims terabytes": rewritten(GOOD, array=header("(10000000000000,)")),
    "array that claims a negative size": rewritten(GOOD, array=header("(-3,)", body=b"\0" * 24)),
    "array header that calls": rewritten(GOOD, array=header("(__import__('os').system('true'),)")),
    "array of an unknown version": rewritten(GOOD, array=b"\x93NUMPY\x09\x00" + b"\0" * 80),
    "array index out of range": with_model({"$array": 99}),
    "array index negative": with_model({"$array": -1}),
    "array index no number": with_model({"$array": True}),
    "unknown algorithm": with_model({"$estimator": spec("os.system"), "learned": {}}),
    "unknown value": with_model({"$value": "Popen", "fields": {"args": "true"}}),
    "value with wrong fields": with_model({"$value": "Notice", "fields": {"x": 1}}),
    "kernel out of range": with_model({"$value": "RBFKernel", "fields": {"length_scale": -1.0}}),
    "parameter out of range": with_model({"$estimator": spec(ddof=7), "learned": {}}),
    "parameter unknown": with_model({"$estimator": spec(nope=7), "learned": {}}),
    "learned method": with_model({"$estimator": spec(), "learned": {"transform": 1}}),
    "learned class": with_model({"$estimator": spec(), "learned": {"__class__": 1}}),
    "learned parameter": with_model({"$estimator": spec(), "learned": {"with_mean": False}}),
    "learned is a list": with_model({"$estimator": spec(), "learned": []}),
    "no learned": with_model({"$estimator": spec()}),
    "empty node": with_model({}),
    "objects of another shape": with_model({"$objects": [1, 2], "shape": [3]}),
    "unhashable key": with_model({"$dict": [[[], 1]]}),
    "float that is none": with_model({"$float": "many"}),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_bundles_are_refused(data: bytes) -> None:
    with pytest.raises(BadBundle):
        opened(data)


def test_flipped_bytes_never_raise_anything_else() -> None:
    r = np.random.default_rng(0)
    outcomes = {"same": 0, "refused": 0}
    for _ in range(300):
        data = bytearray(GOOD)
        for at in r.integers(len(data), size=3):
            data[at] ^= int(r.integers(1, 256))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # zipfile and numpy warn of odd names and headers
                opened(bytes(data))
            outcomes["same"] += 1
        except BadBundle:
            outcomes["refused"] += 1
    assert outcomes["refused"] > 200


def test_unpacked_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ml_core.bundle.MAX_BYTES", 10_000)
    bomb = rewritten(GOOD, **{"arrays/9.npy": b"\0" * 20_000})
    with pytest.raises(BadBundle, match="unpacks"):
        opened(bomb)


def test_distribution_is_read_before_anything_else_was_imported() -> None:
    model = BetaBernoulli().fit((X > 0).astype(float))
    again = opened(saved(model.parameter_posterior()))
    np.testing.assert_array_equal(again["p"].alpha, model.alpha_)


def test_linear_scores_of_earlier_versions_stay() -> None:
    """They were stored with the score at 0, without a centre."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=60), [-0.5, 0.5])
    for name, params in (("softmax_regression", {"alpha": 1.0}), ("crammer_singer_svm", {}),
                         ("empirical_risk_minimizer", {"function": "logistic", "loss": "squared"})):  # fmt: skip
        model = build({"algorithm": name, "params": params})
        model.fit(X, (y > 0).astype(float) if name.startswith("empirical") else y)
        method = "predict" if name.startswith("empirical") else "decision_function"
        now = getattr(model, method)(X)
        del vars(model)["offset_"]
        np.testing.assert_allclose(getattr(model, method)(X), now, rtol=1e-9, atol=1e-9)


def test_bayesian_sums_of_earlier_versions_learn_and_forget() -> None:
    """They were stored as means and scatter."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3)) + 5.0
    y = X @ [1.0, -2.0, 0.5] + rng.normal(size=80)
    old, whole = (build({"algorithm": "bayesian_linear_regression"}) for _ in range(2))
    old.fit(X[:60], y[:60])
    first = old.coef_.copy()
    old.sums_ = Moments.of(np.column_stack([X, y])[:60])
    old.update(X[60:], y[60:])
    np.testing.assert_allclose(old.coef_, whole.fit(X, y).coef_, rtol=1e-9)
    old.forget(X[60:], y[60:])
    np.testing.assert_allclose(old.coef_, first, rtol=1e-9)
    again = build({"algorithm": "bayesian_linear_regression"}).fit(X, y)
    again.sums_ = Moments.of(np.column_stack([X, y]))
    np.testing.assert_allclose(again.forget(X[60:], y[60:]).coef_, first, rtol=1e-9)
