"""Bodies on their way to disk: slow ones, those that break off, several at once, and what is read of them meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from service.errors import Invalid, StorageFull, TooLarge
from service.intake import regular
from service.intake.findings import ReadOptions
from service.usecases import spooling

BODY = b"a,b,c\n" + b"".join(b"%d,%d.25,w%d\n" % (i, i % 9, i % 3) for i in range(4000))
TOLD = ("sha256", "columns", "source", "warnings", "rows", "bytes")


@pytest.fixture(autouse=True)
def early(monkeypatch):
    """Reading ahead begins with the first bytes."""
    monkeypatch.setattr(spooling, "WRITE", 1000)
    monkeypatch.setattr(spooling, "LEAST_BYTES", 0)
    monkeypatch.setattr(regular, "LEAST_BYTES", 0)
    monkeypatch.setattr(regular, "BLOCK", 4096)
    monkeypatch.setattr(regular, "HEAD", 2048)


def gone(services):
    """Nothing half-made is left, and whoever comes next may read ahead."""
    spool = services.datasets.spool
    return list(services.objects.scratch().iterdir()) == [] and spool._free._value == spooling.AT_ONCE


async def slowly(body, step=997, end=None):
    for start in range(0, len(body), step):
        yield body[start : start + step]
        await asyncio.sleep(0)
    if end is not None:
        raise end


def upload(services, body, **options):
    return asyncio.run(services.datasets.upload(body, ReadOptions(**options)))


@pytest.mark.parametrize("body", [
    BODY, BODY.replace(b"w1", "wé".encode()), BODY.replace(b",", b";"), BODY + b"1,x,2\n",
    BODY.replace(b"w2", b'"w\n2"'), BODY.replace(b"w1", b"w\xe9"),
])  # fmt: skip
@pytest.mark.parametrize("step", [100, 997, 1 << 20])
def test_a_slow_body_becomes_the_dataset_that_its_file_does(services, tmp_path, body, step):
    path = tmp_path / "table.csv"
    path.write_bytes(body)
    plain = services.datasets.add_file(path)
    slow = upload(services, slowly(body, step))
    assert [slow[key] for key in TOLD] == [plain[key] for key in TOLD]
    assert gone(services)


def test_what_arrives_is_read_ahead(services):
    async def drafts():
        async with services.datasets.spool.receive(slowly(BODY), ReadOptions(), len(BODY)) as sent:
            return await asyncio.to_thread(sent.draft)

    draft = asyncio.run(drafts())
    assert draft.regular is not None
    assert draft.regular.table.num_rows == 4000
    assert gone(services)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_a_body_that_breaks_off_leaves_nothing(services, share):
    part = BODY[: int(share * len(BODY))]
    with pytest.raises(ConnectionError):
        upload(services, slowly(part, end=ConnectionError()))
    assert gone(services)
    assert services.datasets.page().items == []
    assert upload(services, slowly(BODY))["rows"] == 4000


def test_a_cancelled_upload_leaves_nothing(services):
    async def stalled():
        async for chunk in slowly(BODY[:50_000]):
            yield chunk
        await asyncio.sleep(600)

    async def cancelled():
        task = asyncio.create_task(services.datasets.upload(stalled(), ReadOptions()))
        while services.datasets.spool._free._value == spooling.AT_ONCE:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert gone(services)
    assert services.datasets.page().items == []


def test_more_uploads_than_are_read_ahead_come_to_the_same(services):
    async def many():
        uploads = (services.datasets.upload(slowly(BODY, 500), ReadOptions(name=f"n{i}")) for i in range(5))
        return await asyncio.gather(*uploads)

    assert len({record["sha256"] for record in asyncio.run(many())}) == 1
    assert gone(services)


def test_a_body_beyond_the_limit_is_refused_while_it_is_read(services, monkeypatch):
    monkeypatch.setattr(services.datasets.spool, "_cap", len(BODY) - 1)
    with pytest.raises(TooLarge, match="limit"):
        upload(services, slowly(BODY))
    assert gone(services)


def test_a_refused_body_is_refused_in_the_same_words(services, tmp_path):
    bad, path = BODY + b"1,2\n", tmp_path / "bad.csv"
    path.write_bytes(bad)
    with pytest.raises(Invalid) as plain:
        services.datasets.add_file(path)
    with pytest.raises(Invalid) as slow:
        upload(services, slowly(bad))
    assert (str(slow.value), slow.value.issues) == (str(plain.value), plain.value.issues)
    assert gone(services)
    assert services.datasets.page().items == []


def test_a_disk_that_is_full_while_it_is_read_ahead_is_told(services, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(regular.Store, "add", full)
    with pytest.raises(StorageFull):
        upload(services, slowly(BODY))
    assert gone(services)
    assert services.datasets.page().items == []
