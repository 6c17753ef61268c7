"""The application: routes, error handlers, OpenAPI document; services and worker on its state."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

import ml_core
from ml_core.errors import MLError, pointer
from service.api.drain import Drain
from service.api.gate import Gate
from service.api.hot import HotPath
from service.api.methods import Methods, allowed
from service.api.metrics import Requests
from service.api.middleware import AccessLog, Envelope
from service.api.problems import FieldProblem, Problem, document, response_of, simple
from service.api.routes import algorithms, aliases, changes, datasets, jobs, metrics, models, operations, predict
from service.api.row_schemas import MEMBERS
from service.api.schemas import PosteriorRequest, PredictRequest, TransformRequest
from service.api.spec_schemas import link, spec_schemas
from service.container import Services
from service.errors import Conflict, Malformed, NotAcceptable, ServiceError, TooLarge, UnknownMediaType
from service.loopback import beyond_loopback
from service.ports import Json
from service.runner.embedded import Embedded

log = logging.getLogger("postfit")
FUNCTION_THREADS = max(2, os.cpu_count() or 1)
TAGS = ("Datasets", "Algorithms", "Models", "Prediction", "Jobs", "Functions", "Operations")
ABOUT = """POST a table and any classical learning algorithm; get back predictions, posteriors and diagnostics.

Start: **POST /v1/models** with its example, then **POST /v1/models/{model_id}/predict** with the id you got."""


def create_app(services: Services, runner: Embedded | None = None, drain: Drain | None = None) -> FastAPI:
    """The FastAPI application on these services; `runner` is started and stopped with it; waits end with `drain`."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if runner is not None:
            runner.start()
        yield
        if runner is not None:
            runner.stop()
        services.db.close()

    app = FastAPI(title="postfit", version=ml_core.__version__, description=ABOUT, docs_url=None, redoc_url=None,
                  lifespan=lifespan)  # fmt: skip
    app.state.services = services
    app.state.runner = runner
    app.state.drain = drain or Drain()
    app.state.requests = Requests()
    app.state.engine = metrics.Engine(services)
    app.state.functions = CapacityLimiter(FUNCTION_THREADS)
    modules = (algorithms, datasets, aliases, models, changes, jobs, metrics, operations)
    for router in (*(module.router for module in modules), *predict.routers):
        app.include_router(router)
    app.mount("/assets", StaticFiles(directory=Path(__file__).parent.parent / "ui" / "assets"))
    _handle_errors(app)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def create_asgi(services: Services, runner: Embedded | None = None, drain: Drain | None = None) -> ASGIApp:
    """The whole server: hot path, envelope, application."""
    settings, fresh = services.settings, services.freshness
    gate = Gate(services.keys, settings.require_keys, not beyond_loopback(settings.host))
    fresh.listen(gate.forget)
    app = create_app(services, runner, drain)
    access = AccessLog(app.state.requests)
    inner = Envelope(Methods(app, app.routes), gate, access, fresh)
    return HotPath(inner, services.inference, gate, access, fresh)


def _handle_errors(app: FastAPI) -> None:
    async def known(request: Request, error: Exception) -> Response:
        response = response_of(error, request.url.path)
        if isinstance(error, UnknownMediaType):
            response.headers["Accept-Post"] = ", ".join(error.read)
        if response.status_code >= 500:
            ours = response.status_code == 500  # else a part is away or full: the fact is news, the trace is not
            log.log(logging.ERROR if ours else logging.WARNING, "%s: %s request_id=%s", type(error).__name__, error,
                    _rid(request), exc_info=error if ours else None)  # fmt: skip
        return response

    async def unknown(request: Request, error: Exception) -> Response:
        log.error("unhandled error request_id=%s", _rid(request), exc_info=error)
        return response_of(error, request.url.path)

    async def validation(request: Request, error: Exception) -> Response:
        errors = [_field(e) for e in error.errors()]  # type: ignore[attr-defined]
        detail = "; ".join(f"{e['pointer']}: {e['detail']}" for e in errors[:5])
        return simple(422, "Invalid request", detail, request.url.path, errors[:50])

    async def http(request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 500)
        cause = error.__cause__
        if isinstance(cause, (ServiceError, MLError)):
            return await known(request, cause)
        detail = str(getattr(error, "detail", ""))
        response = simple(status, detail, detail, request.url.path)
        response.headers.update(getattr(error, "headers", None) or {})
        if status == 405:
            response.headers["Allow"] = ", ".join(allowed(app.routes, request.scope))
        return response

    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(ServiceError, known)
    app.add_exception_handler(MLError, known)
    app.add_exception_handler(RequestValidationError, validation)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unknown)


async def _gone(request: Request, error: Exception) -> Response:
    return response_of(Malformed("the client went away before all of the body came"), request.url.path)


def _rid(request: Request) -> Any:
    return request.scope.get("state", {}).get("request_id")


def _field(error: Any) -> Json:
    """One entry of pydantic's list as the contract writes it."""
    where, *path = error["loc"] or ("body",)
    prefix = "" if where == "body" else f"/{where}"
    if path and path[0] in ("rows", "where", "validation"):
        path = [part for part in path if part not in MEMBERS]
    given = "" if error["type"] == "missing" else f" (got {error.get('input')!r:.80})"
    return {"pointer": prefix + pointer(*path), "code": error["type"], "detail": error["msg"] + given}


def _openapi(app: FastAPI) -> Json:
    """FastAPI's document with the union of estimator specs, the problem schemas, and no dangling shapes."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes,
                           license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
                           tags=[{"name": t} for t in TAGS])  # fmt: skip
        parts = made.setdefault("components", {}).setdefault("schemas", {})
        parts |= spec_schemas()
        field = FieldProblem.model_json_schema()
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        problem.pop("$defs", None)
        parts |= {"FieldProblem": field, "Problem": problem}
        parts |= {m.__name__: m.model_json_schema() for m in (PredictRequest, PosteriorRequest, TransformRequest)}
        parts.pop("HTTPValidationError", None)
        parts.pop("ValidationError", None)
        made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{}, {"key": []}]
        _refusals(made)
        link(made)
        _problems(made)
        app.openapi_schema = made
    return app.openapi_schema


def _refusals(made: Json) -> None:
    """What every operation may answer to its Accept header, and each with a body to that body."""
    for operation in (o for methods in made["paths"].values() for o in methods.values()):
        body = operation.get("requestBody", {}).get("content", {})
        kinds: list[type[Exception]] = [NotAcceptable, *((TooLarge, Malformed) if body else ())]
        kinds += [UnknownMediaType] if set(body) == {"application/json"} else []
        kinds += [Conflict] if "Idempotency-Key" in str(operation.get("parameters")) else []
        for status, answer in document(*kinds).items():
            operation["responses"].setdefault(str(status), answer)


def _problems(node: Any) -> None:
    """Replace FastAPI's own 422 by a problem."""
    if isinstance(node, list):
        for value in node:
            _problems(value)
    if isinstance(node, dict):
        if node.get("$ref") == "#/components/schemas/HTTPValidationError":
            node["$ref"] = "#/components/schemas/Problem"
        for value in node.values():
            _problems(value)
