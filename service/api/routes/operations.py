"""Health, the documentation page and the list of problems."""

from __future__ import annotations

import html

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response

import ml_core
from service.api.deps import Use, json_response
from service.api.problems import TABLE, document, slug
from service.api.schemas import Open
from service.errors import EngineLost, NotReady

router = APIRouter()
OTHERS = (
    ("method-not-allowed", 405, "Method Not Allowed", "The path has other methods; see the header Allow."),
    ("job-failed", 500, "The job failed", "Its process died, hung or hit a limit; `code` says which."),
    ("internal-error", 500, "Internal error", "A fault of the service; the log has its trace under the request id."),
)
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>postfit API</title>
<link rel="icon" href="/assets/favicon-32x32.png">
<link rel="stylesheet" href="/assets/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/assets/swagger-ui-bundle.js"></script>
<script src="/assets/start.js"></script>
</body>
</html>
"""


@router.get("/v1/health/live", operation_id="live", tags=["Operations"], summary="Is the process alive?",
            response_model=Open,
            responses=document())  # fmt: skip
async def live() -> Response:
    """200 while the server answers at all."""
    return json_response({"status": "live", "version": ml_core.__version__})


@router.get("/v1/health/ready", operation_id="ready", tags=["Operations"], summary="Can it work?", response_model=Open,
            responses=document(NotReady))  # fmt: skip
async def ready(request: Request, use: Use) -> Response:
    """200 when database and store answer, the data folder can be written and a runner works; else 503 with the reason.

    The runner is the server's own (`POSTFIT_RUNNER=embedded`), or any that reported within one lease.
    """
    faults = await run_in_threadpool(_faults, request, use)
    if faults:
        raise NotReady("; ".join(faults))
    return json_response({"status": "ready", "version": ml_core.__version__})


def _faults(request: Request, use: Use) -> list[str]:
    found = (_database(request, use), _folder(use), _store(use))
    return [fault for fault in found if fault]


def _database(request: Request, use: Use) -> str:
    """Why no job can be queued, or worked on by anybody; empty when all is well."""
    try:
        use.ledger.page(limit=1, cursor=None)
        if use.settings.runner == "none":
            alive = use.runners.alive()
            unwell = "; ".join(f"runner {r.owner}: {r.state}" for r in alive if r.state != "well")
            well = any(r.state == "well" for r in alive)
            return "" if well else unwell or "no runner is alive; start one with `python -m service runner`"
    except NotReady as e:
        return f"database: {e}"
    runner = request.app.state.runner
    return (runner.fault() or "") if runner is not None else ""


def _folder(use: Use) -> str:
    try:
        probe = use.objects.scratch() / ".probe"
        probe.write_bytes(b"ok")
        probe.unlink(missing_ok=True)  # another request may look at the same moment
    except OSError as e:
        return f"data folder: {e}"
    return ""


def _store(use: Use) -> str:
    if use.settings.objects is None:
        return ""
    try:
        next(iter(use.objects.keys("probe/")), None)
    except EngineLost as e:
        return f"object store: {e}"
    return ""


@router.get("/", include_in_schema=False)
async def root() -> Response:
    """The documentation, until there is a dashboard."""
    return RedirectResponse("/docs")


@router.get("/docs", include_in_schema=False)
async def docs() -> Response:
    """Swagger UI, every asset from this server."""
    policy = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'"
    return HTMLResponse(PAGE, headers={"Content-Security-Policy": policy})


@router.get("/problems", include_in_schema=False)
@router.get("/problems/{name}", include_in_schema=False)
async def problems(name: str | None = None) -> Response:
    """Every problem type on one page."""
    rows = "".join(
        f'<tr id="{slug(cls)}"><td><code>/problems/{slug(cls)}</code></td><td>{kind.status}</td>'
        f"<td>{html.escape(kind.title)}</td><td>{html.escape((cls.__doc__ or '').strip())}</td></tr>"
        for cls, kind in TABLE.items()
    ) + "".join(
        f'<tr id="{name}"><td><code>/problems/{name}</code></td><td>{status}</td><td>{title}</td><td>{text}</td></tr>'
        for name, status, title, text in OTHERS
    )
    head = "<tr><th>type</th><th>status</th><th>title</th><th>meaning</th></tr>"
    style = "<style>body{font:16px sans-serif;margin:2rem}td,th{padding:.3rem 1rem;text-align:left}</style>"
    return HTMLResponse(f'<!doctype html><html lang="en"><title>Problem types</title>{style}<h1>Problem types</h1>'
                        f"<table>{head}{rows}</table></html>")  # fmt: skip
