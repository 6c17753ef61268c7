"""Fixtures of the contract tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from service.adapters.s3_objects import S3Objects
from service.cache import HostCache
from tests.contract.ledgers import db, make
from tests.servers import BUCKET, Seaweed, seaweed

__all__ = ["db", "make"]


@pytest.fixture(scope="session")
def store_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    """One SeaweedFS for all tests."""
    with seaweed(tmp_path_factory.mktemp("seaweed")) as server:
        yield server


@pytest.fixture
def s3(store_server: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> S3Objects:
    """An empty store under a prefix of its own on the real server."""
    for name, value in store_server.env.items():
        monkeypatch.setenv(name, value)
    cache = HostCache(tmp_path / "cache", 1 << 30)
    return S3Objects(f"s3://{BUCKET}/{uuid4().hex}", cache, tmp_path / "scratch")
