"""Stored models: one key for all hosts, verified once, opened by an allow-list, references of earlier versions."""

import os
import platform
from pathlib import Path

import joblib
import numpy as np
import pytest
import scipy

import ml_core
from ml_core.linear.linear_regression import LinearRegression
from service.adapters import artifacts as module
from service.adapters.artifacts import Artifacts
from service.adapters.objects import LocalObjects
from service.adapters.signing import SigningKey
from service.errors import ArtifactRejected, StorageFull

KEY = "0123456789abcdef" * 4


@pytest.fixture
def model():
    X = np.arange(12.0).reshape(6, 2) ** 2
    return LinearRegression().fit(X, X @ [1.0, 2.0] + 3.0)


@pytest.fixture
def objects(tmp_path):
    return LocalObjects(tmp_path / "objects")


@pytest.fixture
def store(objects, tmp_path):
    return Artifacts(objects, SigningKey(tmp_path / "key"))


@pytest.fixture
def hashed(monkeypatch):
    """The sizes of the files that are hashed from now on."""
    sizes, digest = [], module._digest
    monkeypatch.setattr(
        module, "_digest", lambda file: (sizes.append(os.fstat(file.fileno()).st_size), digest(file))[1]
    )
    return sizes


def test_hosts_with_one_given_key_read_each_others_models(objects, model, tmp_path):
    ref = Artifacts(objects, SigningKey(tmp_path / "a.key", KEY)).save("models/m/1/model.joblib", model)
    other = Artifacts(objects, SigningKey(tmp_path / "b.key", KEY.upper()))
    assert np.array_equal(other.load(ref).coef_, model.coef_)
    assert not (tmp_path / "a.key").exists()
    with pytest.raises(ArtifactRejected, match="signature"):
        Artifacts(objects, SigningKey(tmp_path / "b.key")).load(ref)


def test_an_attempt_that_runs_again_under_its_number_keeps_its_own_file(objects, model, store):
    handed_back = store.save("models/m/1/model.joblib", {"unfinished": 1})
    finished = store.save("models/m/1/model.joblib", model)
    again = store.save("models/m/1/model.joblib", model)
    assert handed_back["key"] != finished["key"] == again["key"]
    assert store.load(handed_back) == {"unfinished": 1}
    assert np.array_equal(store.load(finished).coef_, model.coef_)
    assert list(objects.scratch().iterdir()) == []


def test_a_reference_of_the_first_release_still_verifies(objects, model, store):
    ref = store.save("models/m/1/model.joblib", model)
    old = {k: ref[k] for k in ("bytes", "sha256", "ml_core", "joblib")} | {"key": "models/m/1/model.joblib"}
    objects.put_file(old["key"], objects.path(ref["key"]))
    assert np.array_equal(store.load(old | {"signature": store._sign(old)}).coef_, model.coef_)


def test_the_manifest_says_what_wrote_the_file_and_from_what(model, store):
    ref = store.save("models/m/2/model.joblib", model, {"job": "job_1", "attempt": 2, "dataset_sha256": "ab"})
    versions = {"ml_core": ml_core, "numpy": np, "scipy": scipy, "joblib": joblib}
    assert {name: ref[name] for name in versions} == {name: known.__version__ for name, known in versions.items()}
    assert (ref["format"], ref["python"], ref["signing_key"]) == (1, platform.python_version(), store.key.fingerprint())
    assert (ref["job"], ref["attempt"], ref["dataset_sha256"]) == ("job_1", 2, "ab")
    for name in set(ref) - {"key", "signature"}:
        with pytest.raises(ArtifactRejected, match="signature"):
            store.load(ref | {name: "forged"})
        with pytest.raises(ArtifactRejected, match="signature"):
            store.load({k: v for k, v in ref.items() if k != name})


def test_a_file_of_a_later_version_is_not_opened(model, store):
    later = {k: v for k, v in store.save("k.joblib", model).items() if k != "signature"} | {"format": 2}
    with pytest.raises(ArtifactRejected, match="format 2"):
        store.load(later | {"signature": store._sign(later)})


def test_a_file_is_hashed_once_and_again_when_it_was_written_to(objects, model, store, hashed):
    ref = store.save("models/m/1/model.joblib", model)
    hashed.clear()
    for _ in range(3):
        store.load(ref)
        store.verified(ref)
    assert hashed == [ref["bytes"]]
    path = objects.path(ref["key"])
    path.chmod(0o600)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(ArtifactRejected, match="not the file"):
            store.load(ref)
    content[-1] ^= 1
    path.write_bytes(content[:-1])
    with pytest.raises(ArtifactRejected, match="not the file"):
        store.load(ref)
    path.write_bytes(content)
    assert np.array_equal(store.load(ref).coef_, model.coef_)


def test_a_reference_to_other_bytes_is_no_reference_to_a_verified_file(objects, model, store):
    ref = store.save("models/m/1/model.joblib", model)
    store.load(ref)
    other = {k: v for k, v in ref.items() if k != "signature"} | {"sha256": "0" * 64}
    with pytest.raises(ArtifactRejected, match="not the file"):
        store.load(other | {"signature": store._sign(other)})


def test_a_copy_of_a_stored_object_is_hashed_once(s3, model, tmp_path, hashed):
    """Using a host's copy marks it as used, which must not look like a write."""
    store = Artifacts(s3, SigningKey(tmp_path / "key"))
    ref = store.save("models/m/1/model.joblib", model)
    hashed.clear()
    for _ in range(3):
        store.load(ref)
    assert hashed == [ref["bytes"]]


def test_what_is_mapped_is_the_file_that_was_verified(objects, store, monkeypatch):
    """Somebody puts another file under the name between the check and the mapping."""
    good, bad = np.arange(300_000.0), np.full(300_000, -1.0)
    ref, evil = store.save("a.joblib", good), store.save("b.joblib", bad)
    verify = store._verify

    def then_replaced(ref, file):
        verify(ref, file)
        objects.path(evil["key"]).replace(objects.path(ref["key"]))

    monkeypatch.setattr(store, "_verify", then_replaced)
    loaded = store.load(ref)
    assert isinstance(loaded, np.memmap)
    assert not loaded.flags.writeable
    assert np.array_equal(loaded, good)
    monkeypatch.undo()
    with pytest.raises(ArtifactRejected, match="not the file"):
        store.load(ref)


class Shell:
    """Unpickling it runs a command."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


def hidden(shell):
    array = np.empty(1, dtype=object)
    array[0] = shell
    return array


@pytest.mark.parametrize("wrapped", [
    lambda s: s, lambda s: {"a": [s]}, hidden, lambda s: hidden(hidden(s)), lambda s: {"a": hidden({"b": hidden(s)})},
    lambda s: [np.zeros(200_000), hidden(s)],
], ids=["plain", "nested", "array", "array in array", "deep", "in a mapped file"])  # fmt: skip
def test_a_pickle_that_runs_code_is_refused_wherever_it_hides(store, tmp_path, wrapped):
    """joblib before 1.6 read object arrays with an unpickler of its own, which knew no allow-list."""
    mark = tmp_path / "ran"
    ref = store.save("models/m/1/model.joblib", wrapped(Shell(mark)))
    with pytest.raises(ArtifactRejected, match=r"asks for posix\.system"):
        store.load(ref)
    assert not mark.exists()
    joblib.load(store.objects.path(ref["key"]))
    assert mark.exists(), "the pickle would have run"


def test_a_disk_that_fills_up_keeps_no_half_made_model(objects, store, monkeypatch):
    def full(model, path, **_):
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(joblib, "dump", full)
    with pytest.raises(StorageFull):
        store.save("k.joblib", 1)
    assert list(objects.scratch().iterdir()) == []
