"""Parameters: one signature gives strict validation with pointers, and the schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
import pytest
from pydantic import Field, ValidationError

from ml_core import naming, params
from ml_core.errors import InvalidParameter, Issue
from ml_core.linear.generalized_linear_model import GeneralizedLinearModel
from ml_core.params import Alpha, Label, MaxIter, RealMatrix, RealStack, RealVector, Seed, Tol


def _even(value: Any) -> Any:
    if value != 2:
        raise InvalidParameter("odd", [Issue("/deep/x", "odd", "not two"), Issue("/deep/y", "odd", "nor four")])
    return value


class Everything:
    """One parameter of each kind."""

    def __init__(
        self,
        *,
        alpha: Alpha = 1.0,
        tol: Tol = 1e-4,
        max_iter: MaxIter = 10,
        random_state: Seed = 0,
        plain: Annotated[float, Field(description="Any number.")] = 0.0,
        flag: bool = True,
        word: Literal["a", "b"] = "a",
        maybe: Annotated[int | None, Field(ge=1)] = None,
        vector: RealVector | None = None,
        matrix: RealMatrix | None = None,
        stack: RealStack | None = None,
        label: Label = "x",
        names: list[str] | None = None,
        part: Annotated[Any, *params.nested(_even, "even")] = 2,
        parts: Annotated[Any, *params.nested(lambda v: v, "even", many=True)] = (),
    ) -> None:
        """Nothing is stored; only the signature matters."""


def refused(**values: Any) -> list[Issue]:
    with pytest.raises(InvalidParameter) as e:
        params.validate(Everything, values)
    return list(e.value.issues)


NUMBERS = ["alpha", "tol", "max_iter", "random_state", "plain", "maybe"]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", ["3", True, float("nan"), float("inf"), [1.0], {}, b"1", 1j, object()],
                         ids=lambda v: repr(v) if type(v) is not object else "object")  # fmt: skip
def test_numbers_are_numbers(name: str, value: Any) -> None:
    assert {i.pointer for i in refused(**{name: value})} == {f"/params/{name}"}


@pytest.mark.parametrize("name", ["max_iter", "random_state", "maybe"])
def test_whole_numbers_are_whole(name: str) -> None:
    assert [i.pointer for i in refused(**{name: 2.0})] == [f"/params/{name}"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("alpha", -0.1), ("tol", 0.0), ("max_iter", 0), ("random_state", -1), ("random_state", 2**63), ("maybe", 0),
        ("flag", 1), ("flag", "true"), ("flag", None), ("word", "c"), ("word", None), ("label", None), ("label", [1]),
        ("names", "abc"), ("names", ["a", 1]), ("alpha", None),
    ],
)  # fmt: skip
def test_values_out_of_range_or_of_another_type(name: str, value: Any) -> None:
    assert refused(**{name: value})[0].pointer.startswith(f"/params/{name}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("vector", ["1"]), ("vector", [True]), ("vector", [[1.0]]), ("vector", 3.0), ("vector", "12"),
        ("vector", [None]),
        ("vector", [float("nan")]), ("vector", np.array(["1"])), ("vector", {"a": 1}), ("vector", [1j]),
        ("matrix", [1.0]), ("matrix", [[1.0], [1.0, 2.0]]), ("matrix", [["1"]]), ("matrix", [[float("inf")]]),
        ("matrix", np.ones(3)), ("matrix", [[[1.0]]]), ("stack", [[1.0]]), ("stack", np.ones((2, 2))),
    ],
)  # fmt: skip
def test_arrays_hold_finite_numbers_of_their_dimension(name: str, value: Any) -> None:
    assert {i.pointer for i in refused(**{name: value})} == {f"/params/{name}"}


def test_rows_of_several_lengths_are_told_in_plain_words() -> None:
    assert refused(matrix=[[1.0], [1.0, 2.0]])[0].detail.startswith("expected lists of equal length (got")


def test_legal_values_pass_and_arrays_are_float64() -> None:
    got = params.validate(
        Everything,
        {"alpha": 2, "max_iter": np.int64(7), "plain": np.float32(0.5), "vector": [1, 2.5], "stack": [[[1.0]]],
         "matrix": np.eye(2, dtype=int), "label": False, "names": ["a"], "word": "b", "flag": np.bool_(False)},
    )  # fmt: skip
    assert (got["alpha"], got["max_iter"], got["plain"], got["flag"]) == (2.0, 7, 0.5, False)
    assert got["vector"].dtype == got["matrix"].dtype == got["stack"].dtype == np.float64
    assert got["stack"].shape == (1, 1, 1)
    assert got["label"] is False
    assert got["tol"] == 1e-4


def test_unknown_parameters_are_refused_and_all_issues_are_told() -> None:
    issues = refused(alpha=-1.0, tol="x", more=1)
    assert {(i.pointer, i.code) for i in issues} == {
        ("/params/alpha", "greater_than_equal"), ("/params/tol", "float_type"), ("/params/more", "extra_forbidden"),
    }  # fmt: skip
    assert all("got" in i.detail for i in issues)


def test_issues_of_a_nested_part_stand_beside_the_others() -> None:
    issues = refused(part=3, alpha="x")
    assert [i.pointer for i in issues] == ["/params/alpha", "/params/part/deep/x", "/params/part/deep/y"]
    assert [i.code for i in issues][1:] == ["odd", "odd"]


def test_message_names_class_parameter_and_value() -> None:
    with pytest.raises(InvalidParameter, match=r"Everything: alpha: .*greater than or equal to 0 \(got -3\)"):
        params.validate(Everything, {"alpha": -3})


def test_long_values_are_cut_in_messages() -> None:
    assert len(refused(alpha="9" * 10_000)[0].detail) < 250


def test_the_cause_is_kept() -> None:
    with pytest.raises(InvalidParameter) as e:
        params.validate(Everything, {"alpha": -3})
    assert isinstance(e.value.__cause__, ValidationError)


def test_schema_holds_ranges_defaults_descriptions_and_nested_marks() -> None:
    schema = params.schema_of(Everything)
    assert schema["additionalProperties"] is False
    p = schema["properties"]
    assert (p["alpha"]["minimum"], p["alpha"]["default"]) == (0, 1.0)
    assert p["tol"]["exclusiveMinimum"] == 0
    assert p["plain"]["description"] == "Any number."
    assert p["word"]["enum"] == ["a", "b"]
    assert p["part"]["x-spec"] == "even"
    assert (p["parts"]["type"], p["parts"]["items"]["x-spec"]) == ("array", "even")
    assert p["matrix"]["anyOf"][0]["items"]["items"] == {"type": "number"}


def test_pointer_is_the_callers() -> None:
    with pytest.raises(InvalidParameter) as e:
        params.validate(Everything, {"alpha": "x"}, pointer="")
    assert e.value.issues[0].pointer == "/alpha"


def test_functions_have_signatures_too() -> None:
    def area(*, width: Annotated[float, Field(gt=0)], height: float = 1.0) -> float:
        """Width times height."""
        return width * height

    assert list(params.signature(area)) == ["width", "height"]  # type: ignore[arg-type]
    assert params.validate(area, {"width": 2}) == {"width": 2.0, "height": 1.0}
    with pytest.raises(InvalidParameter) as e:
        params.validate(area, {})
    assert [(i.pointer, i.code) for i in e.value.issues] == [("/params/width", "missing")]


def test_a_model_of_before_names_has_the_number_itself():
    """Stored models without `places_`, and names that the columns do not have here."""
    X, y = np.array([[1.0, 2.0], [0.0, 3.0], [1.0, 4.0], [0.0, 9.0]]), np.array([1.0, 2.0, 3.0, 4.0])
    model = GeneralizedLinearModel(family="poisson", exposure=1).fit(X, y)
    known = model.predict(X)
    del model.places_
    np.testing.assert_array_equal(model.predict(X), known)
    named = GeneralizedLinearModel(family="poisson", exposure="time")
    with pytest.raises(InvalidParameter, match="no names here"):
        named.fit(X, y)
    with naming.use(["x", "time"]):
        np.testing.assert_array_equal(named.fit(X, y).predict(X), known)
    assert named.get_params()["exposure"] == "time"
    with naming.use(["time", "time"]), pytest.raises(InvalidParameter, match="all called 'time'"):
        named.fit(X, y)
