"""What can be fitted and computed: the catalogue."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Body, Query, Request
from starlette.responses import Response

from ml_core.capabilities import capabilities
from ml_core.errors import OverBudget
from ml_core.registry import Algorithm, Function, algorithms, find, functions
from service.api.bodies import StrictRoute
from service.api.deps import AlgorithmName, FunctionName, Use, json_response
from service.api.problems import document
from service.api.schemas import Listing, Open
from service.errors import Invalid, Malformed, NotFound
from service.ports import Json
from service.usecases.examples import fit_example

router = APIRouter(prefix="/v1", route_class=StrictRoute)


def _line(entry: Algorithm) -> Json:
    return {
        "name": entry.name, "title": entry.title, "family": entry.family, "task": entry.cls.task,
        "capabilities": capabilities(entry.cls), "queue": entry.cls.queue, "tags": list(entry.cls.tags),
        "summary": entry.summary,
    }  # fmt: skip


def _entry(name: str) -> Algorithm:
    try:
        return find(name)
    except LookupError as e:
        raise NotFound(str(e)) from e


@router.get("/algorithms", operation_id="list_algorithms", tags=["Algorithms"], summary="List the algorithms",
            response_model=Listing, responses=document())  # fmt: skip
def list_algorithms(
    family: Annotated[str | None, Query(description="Folder of the method.", examples=["linear"])] = None,
    task: Annotated[str | None, Query(description="What it is for.", examples=["classification"])] = None,
    capability: Annotated[str | None, Query(description="What it can do.", examples=["predictive_posterior"])] = None,
    tag: Annotated[
        list[str] | None, Query(description="Tags that it has, all of those given.", examples=[["discriminative"]])
    ] = None,
    q: Annotated[str | None, Query(description="Words in the name or summary.")] = None,
) -> Response:
    """Every algorithm that can be fitted, filtered by family, task, capability, tags or words."""
    items = [_line(a) for a in algorithms().values()]
    for field, wanted in (("family", family), ("task", task)):
        items = [i for i in items if wanted is None or i[field] == wanted]
    items = [i for i in items if capability is None or capability in i["capabilities"]]
    items = [i for i in items if set(tag or ()) <= set(i["tags"])]
    items = [i for i in items if q is None or q.lower() in f"{i['name']} {i['title']} {i['summary']}".lower()]
    return json_response({"items": items, "next_cursor": None})


@router.get("/algorithms/{name}", operation_id="get_algorithm", tags=["Algorithms"], summary="One algorithm",
            response_model=Open, responses=document(NotFound))  # fmt: skip
def get_algorithm(name: AlgorithmName) -> Response:
    """What it optimises, its parameters as JSON Schema, defaults, complexity, references, and a request that works."""
    entry = _entry(name)
    return json_response(_line(entry) | {
        "description": entry.description, "params_schema": entry.params_schema(),
        "default_params": entry.default_params(), "complexity": entry.cls.complexity,
        "references": list(entry.references), "example": fit_example(entry),
    })  # fmt: skip


def _function_line(f: Function) -> Json:
    return {"name": f.name, "family": f.family, "summary": f.summary}


def _function(name: str) -> Function:
    known = functions()
    if name not in known:
        raise NotFound(f"there is no function {name!r}; there are {', '.join(known)}")
    return known[name]


@router.get("/functions", operation_id="list_functions", tags=["Functions"], summary="List the functions",
            response_model=Listing, responses=document())  # fmt: skip
def list_functions() -> Response:
    """Everything that is computed without fitting a model."""
    return json_response({"items": [_function_line(f) for f in functions().values()], "next_cursor": None})


@router.get("/functions/{name}", operation_id="get_function", tags=["Functions"], summary="One function",
            response_model=Open, responses=document(NotFound))  # fmt: skip
def get_function(name: FunctionName) -> Response:
    """Formula, input and output as JSON Schema, and an input that works."""
    f = _function(name)
    return json_response(_function_line(f) | {
        "description": f.description, "input_schema": f.input_schema(), "output_schema": f.output_schema(),
        "references": list(f.references), "example": f.example,
    })  # fmt: skip


@router.post("/functions/{name}", operation_id="call_function", tags=["Functions"], summary="Compute a function",
             response_model=Open, responses=document(NotFound, Malformed, Invalid, OverBudget))  # fmt: skip
async def call_function(name: FunctionName, request: Request, use: Use, body: Annotated[dict[str, Any], Body(
    examples=[{"y": [1, 1, 0, 1, 0, 0], "scores": [0.9, 0.8, 0.7, 0.6, 0.4, 0.2]}])]) -> Response:  # fmt: skip
    """The result with its certificates. The input is described by `input_schema` of the function."""
    function = _function(name)
    return await to_thread.run_sync(
        lambda: json_response(function(body)), limiter=request.app.state.functions
    )  # slow ones wait for each other, and everybody else finds a thread
