"""One signing key for all processes of a service: who comes first decides, and who differs does not start."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import delete

from service.adapters.database import Database, connect
from service.adapters.facts import facts
from service.adapters.signing import SigningKey, signed_with
from service.container import build
from service.errors import NotReady, WrongKey
from service.runner.child import verdict_of
from service.settings import Settings
from tests.faults.service import command

ONE, TWO = "01" * 32, "02" * 32


def url_of(db: Database) -> str:
    return db.engine.url.render_as_string(hide_password=False)


def test_the_fingerprint_is_the_start_of_the_keys_digest(tmp_path: Path) -> None:
    key = SigningKey(tmp_path / "key", ONE)
    assert key.fingerprint() == hashlib.sha256(bytes.fromhex(ONE)).hexdigest()[:16]
    assert SigningKey(tmp_path / "key", ONE.upper()).fingerprint() == key.fingerprint()
    assert not (tmp_path / "key").exists()


def test_a_key_is_made_in_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    key = SigningKey(tmp_path / "new" / "data" / "secret.key")
    assert len(key.fingerprint()) == 16
    assert key.exists()


def test_of_many_makers_of_a_file_one_key_is_everybodys(tmp_path: Path) -> None:
    makers = [SigningKey(tmp_path / "secret.key") for _ in range(16)]
    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(lambda key: key.fingerprint(), makers))) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["secret.key"]
    assert (tmp_path / "secret.key").stat().st_mode & 0o777 == 0o600
    assert len((tmp_path / "secret.key").read_bytes()) == 32


def test_of_many_first_processes_one_decides(db: Database, tmp_path: Path) -> None:
    """Half of them with one key and half with another: those of the winner go on, the others are told."""
    others = [connect(url_of(db)) for _ in range(8)]

    def start(number: int) -> bool:
        try:
            SigningKey(tmp_path / "key", (ONE, TWO)[number % 2]).agree(others[number])
        except WrongKey:
            return False
        return True

    assert signed_with(db) is None
    with ThreadPoolExecutor(8) as pool:
        went_on = list(pool.map(start, range(8)))
    winner = went_on[1]
    assert went_on == [(number % 2 == 1) is winner for number in range(8)]
    assert signed_with(db) == SigningKey(tmp_path / "key", TWO if winner else ONE).fingerprint()
    for other in others:
        other.close()


def test_a_database_of_before_gets_the_fact_at_the_first_start(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    use = build(settings)
    first = signed_with(use.db)
    with use.db.write() as c:
        c.execute(delete(facts))
    use.db.close()
    use = build(settings)
    assert signed_with(use.db) == first == SigningKey.of(settings).fingerprint()
    use.db.close()


def test_a_lost_file_is_not_replaced(db: Database, tmp_path: Path) -> None:
    key = SigningKey(tmp_path / "secret.key")
    key.agree(db)
    kept = key.file.rename(tmp_path / "kept")
    with pytest.raises(WrongKey, match="there is no file"):
        key.agree(db)
    assert not key.file.exists()
    kept.rename(key.file)
    key.agree(db)


def test_servers_and_runners_with_another_key_end_with_the_reason(db: Database, tmp_path: Path) -> None:
    SigningKey(tmp_path / "key", ONE).agree(db)
    shared = {"POSTFIT_DATABASE": url_of(db), "POSTFIT_SECRET": TWO}
    for name in ("serve", "runner"):
        done = command(
            "--data", str(tmp_path / name), *([name] if name == "runner" else [name, "--port", "0"]), **shared
        )
        assert done.returncode == 2, done.stderr
        assert f"signed with key {SigningKey(tmp_path, ONE).fingerprint()}" in done.stderr
        assert f"POSTFIT_SECRET is set here to key {SigningKey(tmp_path, TWO).fingerprint()}" in done.stderr
        assert "Traceback" not in done.stderr


def test_an_attempt_that_finds_another_key_is_tried_again() -> None:
    for fault in (WrongKey(), NotReady()):
        assert verdict_of(fault)["state"] == "queued"
