"""Finds every algorithm and function by walking the package once; specs ↔ objects.

A spec is `{"algorithm": name, "params": {…}}`; parameters may again be specs, so any composition is one JSON value.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Generic, TypeVar, get_type_hints

import numpy as np
from pydantic import TypeAdapter

import ml_core
from ml_core import params
from ml_core.base import Cost, Estimator
from ml_core.certificates import REMEDY, Certificate, Notice, plain, with_failures
from ml_core.errors import InvalidParameter, Issue, UnknownName

C = TypeVar("C", bound=type[Estimator])
F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V")

_algorithms: dict[str, Algorithm] = {}
_functions: dict[str, Function] = {}


@dataclass(frozen=True)
class Algorithm:
    """A registered estimator: its class, its family (the folder), and its docstring taken apart."""

    name: str
    cls: type[Estimator]
    family: str
    summary: str
    description: str
    references: tuple[str, ...]

    @property
    def title(self) -> str:
        """The name as words."""
        return self.name.replace("_", " ").capitalize()

    def params_schema(self) -> dict[str, Any]:
        """JSON Schema of the parameters."""
        return params.schema_of(self.cls)

    def default_params(self) -> dict[str, Any]:
        """Parameters that have a default, as JSON."""
        sig = params.signature(self.cls)
        return {k: to_json(p.default) for k, p in sig.items() if p.default is not inspect.Parameter.empty}

    def example(self) -> dict[str, Any]:
        """A spec that fits."""
        return {"algorithm": self.name, "params": self.cls.example_params}


@dataclass(frozen=True)
class Answer(Generic[V]):
    """What a function returns: a frozen dataclass of results, certificates recomputed from it, and notices."""

    value: V
    certificates: tuple[Certificate, ...] = ()
    warnings: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class Function:
    """A registered function: typed keyword arguments → Answer of a dataclass. `example` is a call that works."""

    name: str
    call: Callable[..., Answer[Any]]
    result: type
    summary: str
    description: str
    references: tuple[str, ...]
    example: dict[str, Any]
    cost: Callable[..., Cost] | None = None
    """Estimate for the same arguments as `call`, where a call can be long."""

    @property
    def family(self) -> str:
        """The folder it lives in."""
        return self.call.__module__.split(".")[1]

    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        return params.schema_of(self.call)

    def output_schema(self) -> dict[str, Any]:
        """JSON Schema of the result."""
        return TypeAdapter(self.result).json_schema()

    def estimate(self, arguments: dict[str, Any]) -> Cost | None:
        """Estimated cost of a call with these JSON arguments; None for functions that are always quick."""
        return None if self.cost is None else self.cost(**params.validate(self.call, arguments, pointer=""))

    def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Validate JSON arguments, compute, and return `{"result", "certificates", "warnings"}` as JSON."""
        answer = self.call(**params.validate(self.call, arguments, pointer=""))
        warnings = with_failures(answer.warnings, answer.certificates, REMEDY)
        result = {f.name: plain(getattr(answer.value, f.name)) for f in fields(answer.value)}
        return {
            "result": result,
            "certificates": [c.to_json() for c in answer.certificates],
            "warnings": [{"code": w.code, "message": w.message, "advice": w.advice} for w in warnings],
        }


def _docs(target: Any) -> tuple[str, str, tuple[str, ...]]:
    """Summary line, body, and the lines under `References` of a docstring."""
    summary, _, body = inspect.getdoc(target).partition("\n")  # type: ignore[union-attr]
    body, _, tail = body.partition("References\n")
    lines = tail.lstrip("-\n").splitlines()
    return summary, body.strip(), tuple(line.strip() for line in lines if line.strip())


def algorithm(name: str) -> Callable[[C], C]:
    """Register an estimator under its id and write the Parameters section of its docstring from the signature."""

    def register(cls: C) -> C:
        if name in _algorithms:
            raise InvalidParameter(f"two algorithms are called {name}")
        summary, body, references = _docs(cls)
        _algorithms[name] = Algorithm(name, cls, cls.__module__.split(".")[1], summary, body, references)
        return cls

    return register


def function(name: str, *, example: dict[str, Any], cost: Callable[..., Cost] | None = None) -> Callable[[F], F]:
    """Register a function `(…) -> Answer[Result]` under its id, with arguments that work as its example."""

    def register(call: F) -> F:
        if name in _functions:
            raise InvalidParameter(f"two functions are called {name}")
        summary, body, references = _docs(call)
        result = get_type_hints(call)["return"].__args__[0]
        result.__pydantic_config__ = {"arbitrary_types_allowed": True}  # lets RealVector stand in it
        _functions[name] = Function(name, call, result, summary, body, references, example, cost)
        return call

    return register


@cache
def _walk() -> None:
    for module in pkgutil.walk_packages(ml_core.__path__, "ml_core."):
        if not module.name.startswith("ml_core.compat"):
            importlib.import_module(module.name)


def algorithms() -> dict[str, Algorithm]:
    """Every algorithm by name, sorted."""
    _walk()
    return dict(sorted(_algorithms.items()))


def functions() -> dict[str, Function]:
    """Every function by name, sorted."""
    _walk()
    return dict(sorted(_functions.items()))


def find(name: str) -> Algorithm:
    """The algorithm of that name; UnknownName lists what there is."""
    known = algorithms()
    if name not in known:
        raise UnknownName(f"there is no algorithm {name!r}; there are {', '.join(known)}")
    return known[name]


def build(spec: Any, *, seed: int | None = None, pointer: str = "") -> Estimator:
    """Spec → estimator, parameters validated strictly. `seed` becomes every `random_state` that the spec leaves out."""
    if not isinstance(spec, dict) or not isinstance(spec.get("algorithm"), str):
        raise InvalidParameter("an estimator spec is an object with a string \"algorithm\"",
                               [Issue(pointer + "/algorithm", "missing", "name an algorithm")])  # fmt: skip
    extra = set(spec) - {"algorithm", "params"}
    given = spec.get("params", {})
    if extra or not isinstance(given, dict):
        where = sorted(extra)[0] if extra else "params"
        issue = Issue(f"{pointer}/{where}", "extra_forbidden" if extra else "dict_type", "not expected")
        text = f"an estimator spec has \"algorithm\" and \"params\" (an object) only; {where!r} is wrong"
        raise InvalidParameter(text, [issue])
    try:
        cls = find(spec["algorithm"]).cls
    except UnknownName as e:
        raise InvalidParameter(str(e), [Issue(pointer + "/algorithm", "unknown_name", str(e))]) from e
    with params.deeper("estimator"):
        return cls(**_validated(cls, given, seed, pointer))


def _validated(cls: type[Estimator], given: dict[str, Any], seed: int | None, pointer: str) -> dict[str, Any]:
    values = {k: _build_parts(v, seed, f"{pointer}/params/{k}") for k, v in given.items()}
    if seed is not None and "random_state" in params.signature(cls) and "random_state" not in values:
        values["random_state"] = seed
    return params.validate(cls, values, pointer=f"{pointer}/params")


def _build_parts(value: Any, seed: int | None, pointer: str) -> Any:
    """Nested estimator specs → estimators; every other value is left to the parameter's own type."""
    if isinstance(value, dict) and "algorithm" in value:
        return build(value, seed=seed, pointer=pointer)
    if isinstance(value, list):
        return [_build_parts(v, seed, f"{pointer}/{i}") for i, v in enumerate(value)]
    return value


def name_of(estimator: Estimator) -> str:
    """The registered name of an estimator's class."""
    algorithms()
    for name, entry in _algorithms.items():
        if entry.cls is type(estimator):
            return name
    raise UnknownName(f"{type(estimator).__name__} is not registered")


def spec_of(estimator: Estimator) -> dict[str, Any]:
    """Estimator → spec with every parameter filled in; `build(spec_of(e))` equals e."""
    values = estimator.get_params(deep=False)
    return {"algorithm": name_of(estimator), "params": {k: to_json(v) for k, v in values.items()}}


def to_json(value: Any) -> Any:
    """A parameter value as JSON: estimators as specs, tagged values through their `to_json`, arrays as lists."""
    if isinstance(value, Estimator):
        return spec_of(value)
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [to_json(v) for v in value]
    if isinstance(value, dict):
        return {k: to_json(v) for k, v in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
    return value
