"""`doctor`: looks at every part that the service needs, changes nothing, and says of each fault what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
from pydantic import ValidationError

from service.commands.backup import opened
from service.errors import NotFound, ServiceError
from service.settings import Settings, refused

Status = Literal["ok", "warn", "FAIL"]


@dataclass(frozen=True)
class Finding:
    """What one check found, and what to do when it is not well."""

    check: str
    status: Status
    found: str
    do: str = ""


Found = tuple[Status, str] | tuple[Status, str, str]
Check = Callable[[], Found]


def examine(environ: Mapping[str, str], data: Path | None = None) -> list[Finding]:
    """All findings; an error of any kind is one of them."""
    try:
        settings = Settings.from_env(environ, data=data)
    except ValidationError as wrong:
        return [Finding("settings", "FAIL", refused(wrong), "correct or remove these variables")]
    where = f"data in {settings.data.absolute()}, {'S3' if settings.objects else 'local files'}"
    return [Finding("settings", "ok", where), *_parts(settings)]


def well(findings: list[Finding]) -> bool:
    """Whether nothing failed."""
    return all(finding.status != "FAIL" for finding in findings)


def as_table(findings: list[Finding]) -> str:
    """The findings for a person."""
    width = max(len(finding.check) for finding in findings)
    lines = (
        f"{f.status:<4}  {f.check:<{width}}  {f.found}" + (f"\n{'':<{width + 8}}→ {f.do}" if f.do else "")
        for f in findings
    )
    return "\n".join(lines)


def as_json(findings: list[Finding]) -> str:
    """The findings for a program."""
    document = {"well": well(findings), "checks": [asdict(finding) for finding in findings]}
    return msgspec.json.format(msgspec.json.encode(document)).decode()


def _parts(settings: Settings) -> Iterator[Finding]:
    from service.commands import checks  # noqa: PLC0415 - with wrong settings none of the parts is loaded

    host = checks.Host(settings)
    yield _run("data folder", host.folder)
    yield _run("kernels", host.kernels)
    yield _run("object store", host.objects)
    try:
        revision, db = opened(settings)
    except NotFound as absent:
        yield Finding("database", "warn", absent.detail, "the first `serve`, `runner` or `migrate` makes it")
    except Exception as dead:
        yield _failed("database", dead)
    else:
        try:
            yield from _of_database(checks.Stored(settings, db, revision))
        finally:
            db.close()
    if settings.dask is not None:
        yield _run("dask", host.dask)


def _of_database(stored: Any) -> Iterator[Finding]:
    yield _run("database", stored.database)
    yield _run("clock", stored.clock)
    yield (schema := _run("schema", stored.schema))
    if schema.status == "ok":
        for name in ("signing_key", "runners", "queue", "leases", "models", "orphans"):
            yield _run(name.replace("_", " "), getattr(stored, name))


def _run(name: str, check: Check) -> Finding:
    try:
        return Finding(name, *check())
    except Exception as broken:
        return _failed(name, broken)


def _failed(name: str, error: BaseException) -> Finding:
    """An error as a finding: the service's own errors say what to do themselves."""
    said = " ".join(str(error).split())
    if isinstance(error, ServiceError):
        return Finding(name, "FAIL", said, "see the message; the service cannot work before this is mended")
    return Finding(name, "FAIL", f"{type(error).__name__}: {said}", "mend what the message names")
