"""Stored models: one key for all hosts, one file per content, and references of earlier versions."""

import numpy as np
import pytest

from ml_core.linear.linear_regression import LinearRegression
from service.adapters.artifacts import Artifacts
from service.adapters.objects import LocalObjects
from service.errors import ArtifactRejected

KEY = "0123456789abcdef" * 4


@pytest.fixture
def model():
    X = np.arange(12.0).reshape(6, 2) ** 2
    return LinearRegression().fit(X, X @ [1.0, 2.0] + 3.0)


@pytest.fixture
def objects(tmp_path):
    return LocalObjects(tmp_path / "objects")


def test_hosts_with_one_given_key_read_each_others_models(objects, model, tmp_path):
    ref = Artifacts(objects, tmp_path / "a.key", KEY).save("models/m/1/model.joblib", model)
    other = Artifacts(objects, tmp_path / "b.key", KEY.upper())
    assert np.array_equal(other.load(ref).coef_, model.coef_)
    assert not (tmp_path / "a.key").exists()
    with pytest.raises(ArtifactRejected, match="signature"):
        Artifacts(objects, tmp_path / "b.key").load(ref)


def test_an_attempt_that_runs_again_under_its_number_keeps_its_own_file(objects, model, tmp_path):
    artifacts = Artifacts(objects, tmp_path / "key")
    handed_back = artifacts.save("models/m/1/model.joblib", {"unfinished": 1})
    finished = artifacts.save("models/m/1/model.joblib", model)
    again = artifacts.save("models/m/1/model.joblib", model)
    assert handed_back["key"] != finished["key"] == again["key"]
    assert artifacts.load(handed_back) == {"unfinished": 1}
    assert np.array_equal(artifacts.load(finished).coef_, model.coef_)
    assert list(objects.scratch().iterdir()) == []


def test_a_reference_without_the_digest_in_its_key_still_verifies(objects, model, tmp_path):
    artifacts = Artifacts(objects, tmp_path / "key")
    ref = artifacts.save("models/m/1/model.joblib", model)
    old = {k: v for k, v in ref.items() if k != "signature"} | {"key": "models/m/1/model.joblib"}
    objects.put_file(old["key"], objects.path(ref["key"]))
    assert np.array_equal(artifacts.load(old | {"signature": artifacts._sign(old)}).coef_, model.coef_)
