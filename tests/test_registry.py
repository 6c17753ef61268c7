"""The catalogue: what is found, described, built and described again."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import Field

from ml_core import params, registry
from ml_core.base import Estimator, clone
from ml_core.capabilities import CAPABILITIES, Delegated, Follows, capabilities
from ml_core.certificates import Certificate, Notice
from ml_core.errors import InvalidParameter, UnknownName
from ml_core.kernels import RBFKernel
from ml_core.preprocessing.standard_scaler import StandardScaler
from ml_core.registry import Algorithm, Answer, Function, algorithms, build, find, functions, name_of, spec_of, to_json

each_algorithm = pytest.mark.parametrize("entry", algorithms().values(), ids=lambda a: a.name)
each_function = pytest.mark.parametrize("f", functions().values(), ids=lambda f: f.name)
TASKS = {
    "regression", "classification", "clustering", "dimension_reduction", "density", "graphical_model", "transformation",
    "decision",
}  # fmt: skip


@each_algorithm
def test_catalogue_entry_is_complete_json(entry: Algorithm) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", entry.name)
    assert entry.cls.task in TASKS
    assert entry.cls.queue in {"instant", "long"}
    assert set(capabilities(entry.cls)) <= set(CAPABILITIES)
    assert entry.summary.endswith(".")
    schema = entry.params_schema()
    assert schema["additionalProperties"] is False
    assert set(schema.get("properties", {})) == set(params.signature(entry.cls))
    json.dumps([schema, entry.default_params(), entry.example(), entry.title, entry.family], allow_nan=False)


@each_algorithm
def test_example_builds_and_its_spec_builds_the_same(entry: Algorithm) -> None:
    model = build(entry.example())
    assert type(model) is entry.cls
    spec = json.loads(json.dumps(spec_of(model), allow_nan=False))
    again = build(spec)
    assert spec_of(again) == spec
    assert spec_of(clone(model)) == spec
    assert set(spec["params"]) == set(params.signature(entry.cls))
    assert name_of(model) == entry.name


@each_algorithm
def test_defaults_are_legal_and_unknown_parameters_are_not(entry: Algorithm) -> None:
    required = {k for k, p in params.signature(entry.cls).items() if p.default is p.empty}
    if not required and entry.name != "pipeline":  # a pipeline of no steps is for discovery only
        build({"algorithm": entry.name, "params": entry.default_params()})
    with pytest.raises(InvalidParameter) as refused:
        build({"algorithm": entry.name, "params": entry.cls.example_params | {"no_such_parameter": 1}})
    assert "/params/no_such_parameter" in [i.pointer for i in refused.value.issues]


@each_algorithm
def test_cost_grows_with_the_rows(entry: Algorithm) -> None:
    model = build(entry.example())
    small, large = model.cost(100, 5, 2), model.cost(100_000, 5, 2)
    assert 0 < small.flops < large.flops < np.inf
    assert 0 <= small.memory_bytes <= large.memory_bytes < np.inf


@each_algorithm
def test_seed_reaches_every_choice_that_was_left_open(entry: Algorithm) -> None:
    model = build(entry.example(), seed=41)
    if "random_state" in params.signature(entry.cls):
        assert model.random_state == entry.cls.example_params.get("random_state", 41)


@each_function
def test_function_example_gives_finite_json_that_certifies_itself(f: Function) -> None:
    out = json.loads(json.dumps(f(f.example), allow_nan=False))
    assert set(out) == {"result", "certificates", "warnings"}
    assert all(c["holds"] for c in out["certificates"])
    assert f.summary
    json.dumps([f.input_schema(), f.output_schema(), f.family], allow_nan=False)
    estimate = f.estimate(f.example)
    assert estimate is None or estimate.flops >= 0


@each_function
def test_function_refuses_unknown_arguments(f: Function) -> None:
    with pytest.raises(InvalidParameter) as refused:
        f(f.example | {"no_such_argument": 1})
    assert "/no_such_argument" in [i.pointer for i in refused.value.issues]


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        (None, "/algorithm"),
        ("standard_scaler", "/algorithm"),
        ({}, "/algorithm"),
        ({"algorithm": 3}, "/algorithm"),
        ({"algorithm": "nope"}, "/algorithm"),
        ({"algorithm": "os.system"}, "/algorithm"),
        ({"algorithm": "standard_scaler", "params": []}, "/params"),
        ({"algorithm": "standard_scaler", "params": None}, "/params"),
        ({"algorithm": "standard_scaler", "Params": {}}, "/Params"),
        ({"algorithm": "standard_scaler", "params": {"with_mean": 1}}, "/params/with_mean"),
        ({"algorithm": "standard_scaler", "params": {"self": 1}}, "/params/self"),
        ({"algorithm": "standard_scaler", "params": {"__class__": 1}}, "/params/__class__"),
    ],
)
def test_wrong_specs_are_refused_at_their_place(spec: Any, pointer: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        build(spec)
    assert [i.pointer for i in refused.value.issues] == [pointer]


def test_several_issues_are_told_at_once_behind_the_callers_pointer() -> None:
    spec = {"algorithm": "pipeline", "params": {"steps": [
        {"algorithm": "standard_scaler", "params": {"ddof": 5, "with_mean": "yes"}}]}}  # fmt: skip
    with pytest.raises(InvalidParameter) as refused:
        build(spec, pointer="/estimator")
    at = "/estimator/params/steps/0/params/"
    assert {i.pointer for i in refused.value.issues} == {at + "ddof", at + "with_mean"}


def test_unknown_names_list_what_there_is() -> None:
    with pytest.raises(UnknownName, match="standard_scaler"):
        find("standard_scalar")

    class Stranger(Estimator):
        """Not registered."""

    with pytest.raises(UnknownName, match="Stranger"):
        name_of(Stranger())


def test_names_are_taken_once() -> None:
    algorithms()
    with pytest.raises(InvalidParameter, match="two algorithms"):
        registry.algorithm("standard_scaler")(StandardScaler)
    with pytest.raises(InvalidParameter, match="two functions"):
        registry.function("kernel_matrix_check", example={})(lambda: None)


@dataclass(frozen=True)
class Half:
    """A result."""

    value: float
    text: str | None


def halve(*, x: Annotated[float, Field(ge=0, description="Number.")]) -> Answer[Half]:
    """Half of x.

    x / 2.

    References
    ----------
    Euclid, Elements.
    """
    close = Certificate("twice", abs(2 * (x / 2) - x), 0.0, "twice the half is the whole")
    return Answer(Half(x / 2, None), (close,), (Notice("told", "so", "do"),))


def test_function_entry_is_read_off_the_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    functions()
    monkeypatch.setattr(registry, "_functions", {})
    registry.function("halve", example={"x": 3.0})(halve)
    f = registry._functions["halve"]
    assert (f.summary, f.description, f.references) == ("Half of x.", "x / 2.", ("Euclid, Elements.",))
    assert f({"x": 3}) == {
        "result": {"value": 1.5, "text": None},
        "certificates": [{"name": "twice", "value": 0.0, "tolerance": 0.0, "holds": True,
                          "meaning": "twice the half is the whole"}],
        "warnings": [{"code": "told", "message": "so", "advice": "do"}],
    }  # fmt: skip
    assert f.estimate({"x": 3}) is None
    assert f.output_schema()["properties"]["value"] == {"title": "Value", "type": "number"}
    for wrong in ({}, {"x": -1.0}, {"x": "3"}, {"x": True}, {"x": float("nan")}):
        with pytest.raises(InvalidParameter) as refused:
            f(wrong)
        assert [i.pointer for i in refused.value.issues] == ["/x"]


def test_parameter_values_become_json() -> None:
    value = {
        "a": np.arange(3), "b": np.float64(2.5), "c": (1, [np.int64(2)]), "k": RBFKernel(2.0), "e": StandardScaler(),
        "h": Half(1.0, "t"), "n": None,
    }  # fmt: skip
    assert json.loads(json.dumps(to_json(value))) == {
        "a": [0, 1, 2], "b": 2.5, "c": [1, [2]], "k": {"kernel": "rbf", "length_scale": 2.0},
        "e": spec_of(StandardScaler()), "h": {"value": 1.0, "text": "t"}, "n": None,
    }  # fmt: skip


def test_clone_copies_nested_parts_and_forgets_the_fit() -> None:
    fitted = StandardScaler(ddof=1).fit(np.eye(3))
    copy = clone(fitted)
    assert copy is not fitted
    assert copy.get_params() == fitted.get_params()
    assert not copy.__sklearn_is_fitted__()


class Part:
    """Has one method."""

    def greet(self) -> str:
        return "hello"


class Wrapper:
    """Passes two methods on."""

    greet = Delegated("part")
    leave = Delegated("part")
    shout = Delegated("part", lambda self: self.part.greet().upper())
    kind = Follows("any", lambda self: type(self.part).__name__)

    def __init__(self) -> None:
        self.part = Part()

    def _via(self, method: str) -> Any:
        return getattr(self.part, method)


def test_delegated_methods_exist_where_the_part_has_them() -> None:
    w = Wrapper()
    assert w.greet() == "hello"
    assert not hasattr(w, "leave")
    assert not hasattr(w, "shout")
    w.part.shout = None  # type: ignore[attr-defined]
    assert w.shout() == "HELLO"
    assert (Wrapper.kind, w.kind) == ("any", "Part")
    assert isinstance(Wrapper.leave, Delegated)
