"""Every setting of the service, read from a mapping once and frozen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

PREFIX = "POSTFIT_"


class Settings(BaseModel):
    """Configuration of one service process; each field is the variable POSTFIT_<NAME> in capitals."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    data: Annotated[Path, Field(description="Folder of the database, tables and models.")] = Path("postfit-data")
    host: Annotated[str, Field(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="Port to listen on.")] = 8000
    database: Annotated[str | None, Field(description="SQLAlchemy URL; empty means SQLite in the data folder.")] = None
    objects: Annotated[
        str | None, Field(pattern=r"^s3://", description="s3://bucket/prefix; empty means files in the data folder.")
    ] = None
    secret: Annotated[
        str | None,
        Field(pattern=r"^([0-9a-fA-F]{2}){32,}$", repr=False, description="Hex key that signs models on every host."),
    ] = None
    cache_bytes: Annotated[int, Field(gt=0, description="Local copies of stored objects kept by one host.")] = 32 << 30
    runner: Annotated[
        Literal["embedded", "none"], Field(description="Whether `serve` runs jobs itself or leaves them to runners.")
    ] = "embedded"
    dask: Annotated[str | None, Field(description="Address of the Dask scheduler that spread fits use.")] = None
    engine_wait_seconds: Annotated[
        float, Field(gt=0, description="A spread fit waits so long for its engine, then runs on local cores.")
    ] = 60.0
    max_engine_losses: Annotated[int, Field(ge=1, description="Losses of the engine before a job fails.")] = 5
    grace_seconds: Annotated[
        float, Field(ge=0, description="Running jobs may end within this at SIGTERM, then they are handed back.")
    ] = 20.0
    retention_days: Annotated[
        float, Field(gt=0, description="Ended jobs whose product is gone are kept for so long.")
    ] = 30.0
    orphan_hours: Annotated[
        float, Field(gt=0, description="Stored objects that nothing names are removed after this.")
    ] = 24.0
    slots: Annotated[int, Field(ge=1, description="Long jobs that one runner works on at once.")] = max(
        1, (os.cpu_count() or 2) // 2
    )
    cores: Annotated[int, Field(ge=1, description="Cores that one job may use.")] = os.cpu_count() or 1
    lease_seconds: Annotated[float, Field(gt=0, description="A runner silent for longer loses its jobs.")] = 30.0
    max_attempts: Annotated[int, Field(ge=1, description="Attempts before a crashing job fails.")] = 3
    max_queued: Annotated[int, Field(ge=1, description="Queued jobs beyond which submissions answer 429.")] = 10_000
    max_queued_per_key: Annotated[int, Field(ge=1, description="The same for the jobs of one API key.")] = 5_000
    wall_seconds: Annotated[float, Field(gt=0, description="Default wall-clock limit of a job.")] = 3600.0
    memory_bytes: Annotated[int, Field(gt=0, description="Default memory limit of a job.")] = 8 << 30
    upload_bytes: Annotated[int, Field(gt=0, description="Largest upload, decoded.")] = 4 << 30
    body_bytes: Annotated[int, Field(gt=0, description="Largest JSON body, decoded.")] = 64 << 20
    instant_seconds: Annotated[float, Field(gt=0, description="Fits estimated below this are waited for.")] = 2.0
    parent: Annotated[int | None, Field(gt=0, description="Process whose death ends this one.")] = None
    require_keys: Annotated[bool, Field(description="Ask for an API key even on loopback.")] = False

    @classmethod
    def from_env(cls, environ: Mapping[str, str], **overrides: Any) -> Settings:
        """Read POSTFIT_* variables; an unknown one is an error, as is a value of the wrong type."""
        given = {k.removeprefix(PREFIX).lower(): v for k, v in environ.items() if k.startswith(PREFIX)}
        return cls(**{**given, **{k: v for k, v in overrides.items() if v is not None}})

    def to_env(self, **overrides: Any) -> dict[str, str]:
        """Give the POSTFIT_* variables from which another process reads these same settings."""
        values = {**self.model_dump(mode="json"), **overrides, "data": str(self.data.absolute())}
        return {PREFIX + name.upper(): str(value) for name, value in values.items() if value is not None}

    @property
    def database_url(self) -> str:
        """URL of the metadata database."""
        return self.database or f"sqlite:///{(self.data / 'service.db').absolute()}"


def refused(wrong: ValidationError) -> str:
    """What is wrong with which variables, without their values: one of them is a secret."""
    return "; ".join(f"{PREFIX}{'_'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in wrong.errors())
