"""The check of kernel matrices against numpy and hand-made matrices."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ml_core.errors import InvalidData, InvalidParameter, OverBudget
from ml_core.kernels import RBFKernel
from ml_core.kernels.kernel_matrix_check import MAX_BYTES, kernel_matrix_check
from ml_core.registry import functions

POINTS = np.random.default_rng(0).normal(size=(12, 3))


def codes(answer: Any) -> set[str]:
    return {w.code for w in answer.warnings}


def test_registered_example_works_and_is_json() -> None:
    f = functions()["kernel_matrix_check"]
    out = json.loads(json.dumps(f(f.example), allow_nan=False))
    assert out["result"]["kernel_matrix"] is True
    assert out["result"]["homogeneous"] is True
    assert all(c["holds"] for c in out["certificates"])
    assert f.estimate(f.example).flops > 0
    json.dumps([f.input_schema(), f.output_schema()])


def test_squared_distance_is_no_kernel() -> None:
    x = np.arange(1.0, 5.0)
    answer = kernel_matrix_check(matrix=(x[:, None] - x) ** 2)
    found = answer.value
    np.testing.assert_allclose(found.least_eigenvalue, -10.0, rtol=1e-13)
    assert found.symmetric
    assert not found.positive_semidefinite
    assert not found.kernel_matrix
    v = found.witness
    assert v is not None
    assert v @ found.matrix @ v < 0
    assert codes(answer) == {"not_positive_semidefinite", "certificate_fails"}
    assert "not the computation" in answer.warnings[-1].advice
    assert [c.name for c in answer.certificates if not c.holds] == ["least_eigenvalue_ratio"]


def test_spectrum_rank_and_condition_are_numpys() -> None:
    found = kernel_matrix_check(kernel=RBFKernel(1.0), points=POINTS).value
    np.testing.assert_allclose(found.eigenvalues, np.linalg.eigvalsh(found.matrix), atol=1e-13)
    np.testing.assert_allclose(found.condition, np.linalg.cond(found.matrix), rtol=1e-8)
    assert found.rank == np.linalg.matrix_rank(found.matrix) == 12


def test_semidefinite_is_enough_and_singularity_is_told() -> None:
    answer = kernel_matrix_check(matrix=POINTS @ POINTS.T)
    assert answer.value.kernel_matrix
    assert answer.value.rank == 3
    assert answer.value.condition is None
    assert codes(answer) == {"singular"}
    zero = kernel_matrix_check(matrix=np.zeros((3, 3)))
    assert zero.value.kernel_matrix
    assert zero.value.rank == 0
    assert all(c.holds for c in zero.certificates)


def test_negative_definite_matrix_is_refuted() -> None:
    answer = kernel_matrix_check(matrix=-np.eye(3))
    assert not answer.value.positive_semidefinite
    assert not answer.certificates[0].holds


def test_asymmetry_is_measured() -> None:
    answer = kernel_matrix_check(matrix=np.array([[2.0, 1.0], [0.5, 2.0]]))
    np.testing.assert_allclose(answer.value.symmetry_error, 0.25)
    assert answer.value.positive_semidefinite
    assert not answer.value.kernel_matrix
    assert codes(answer) == {"not_symmetric"}


def test_ill_conditioning_is_told() -> None:
    answer = kernel_matrix_check(matrix=np.diag([1.0, 1e-14]))
    assert codes(answer) == {"ill_conditioned"}


def test_centred_matrix_is_the_gram_matrix_of_centred_rows() -> None:
    found = kernel_matrix_check(matrix=POINTS @ POINTS.T).value
    C = POINTS - POINTS.mean(axis=0)
    np.testing.assert_allclose(found.centred, C @ C.T, atol=1e-13)


def test_normalised_matrix_has_unit_diagonal_where_it_exists() -> None:
    K = POINTS @ POINTS.T
    found = kernel_matrix_check(matrix=K, normalise=True).value
    assert found.normalised is not None
    np.testing.assert_array_equal(np.diag(found.normalised), 1.0)
    np.testing.assert_allclose(found.normalised, K / np.sqrt(np.outer(np.diag(K), np.diag(K))), rtol=1e-13)
    none = kernel_matrix_check(matrix=np.zeros((2, 2)), normalise=True)
    assert none.value.normalised is None
    assert "no_normalised_form" in codes(none)


def test_length_left_to_the_data_is_filled_in() -> None:
    auto = kernel_matrix_check(kernel={"kernel": "rbf", "length_scale": None}, points=POINTS).value
    assert 0.05 < np.median(auto.matrix) < 0.95


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"kernel": RBFKernel()},
        {"points": POINTS},
        {"matrix": np.eye(2), "points": POINTS},
        {"matrix": np.ones((2, 3))},
        {"matrix": np.ones((0, 0))},
    ],
)
def test_incomplete_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidData):
        kernel_matrix_check(**arguments)


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [
        ({"matrix": [["1"]]}, "/matrix"),
        ({"matrix": [[True]]}, "/matrix"),
        ({"matrix": [[float("nan")]]}, "/matrix"),
        ({"matrix": [[1.0], [1.0, 2.0]]}, "/matrix"),
        ({"matrix": [[1.0]], "normalise": 1}, "/normalise"),
        ({"kernel": {"kernel": "sum", "terms": [{"kernel": "no"}]}, "points": [[1.0]]}, "/kernel/terms/0/kernel"),
        ({"matrix": [[1.0]], "more": 1}, "/more"),
    ],
)
def test_ill_typed_json_is_refused_at_its_place(arguments: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        functions()["kernel_matrix_check"](arguments)
    assert [i.pointer for i in refused.value.issues] == [pointer]


def test_size_is_refused_before_memory_is_taken() -> None:
    n = int(np.sqrt(MAX_BYTES / 64)) + 1
    with pytest.raises(OverBudget, match="GB"):
        kernel_matrix_check(kernel=RBFKernel(), points=np.zeros((n, 1)))
