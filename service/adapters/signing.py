"""The key that signs models: one for all processes of a service, whose database knows its fingerprint."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from service.adapters.database import Database
from service.adapters.facts import ask, tell_once
from service.disk import full_disk, install_once
from service.errors import WrongKey
from service.settings import Settings

FACT = "signing_key"
KEY_BYTES, SHOWN_DIGITS = 32, 16


class SigningKey:
    """The key every host was given (hex), else the one in the data folder's file, made when absent."""

    def __init__(self, file: Path, given: str | None = None) -> None:
        self.file = file
        self._given = given

    @classmethod
    def of(cls, settings: Settings) -> SigningKey:
        """The key of a process with these settings."""
        return cls(settings.data / "secret.key", settings.secret)

    def exists(self) -> bool:
        """Whether there is a key, so that none has to be made."""
        return self._given is not None or self.file.exists()

    def sign(self, text: bytes) -> str:
        """HMAC-SHA256 in hex."""
        return hmac.new(self._bytes(), text, hashlib.sha256).hexdigest()

    def fingerprint(self) -> str:
        """The first 16 hex digits of the key's SHA-256, which may be shown."""
        return hashlib.sha256(self._bytes()).hexdigest()[:SHOWN_DIGITS]

    def agree(self, db: Database) -> None:
        """Go on only with the key of the service, which is the key of its very first process; WrongKey."""
        known = signed_with(db)
        if known is None:
            known = tell_once(db, FACT, self.fingerprint())
        if not self.exists() or self.fingerprint() != known:
            raise WrongKey(
                f"The models of this database are signed with key {known}, but {self._here()}. Give every process the "
                f"same POSTFIT_SECRET, or bring the data folder's secret.key back from a backup (as a setting it is "
                f"`xxd -p -c 64 secret.key`). Where that key is lost for good, remove the row {FACT!r} of table "
                f"facts; the models that exist must then be fitted again."
            )

    def _here(self) -> str:
        if self._given is not None:
            return f"POSTFIT_SECRET is set here to key {self.fingerprint()}"
        if not self.exists():
            return f"POSTFIT_SECRET is not set here and there is no file {self.file}"
        return f"POSTFIT_SECRET is not set here and {self.file} holds key {self.fingerprint()}"

    def _bytes(self) -> bytes:
        if self._given is not None:
            return bytes.fromhex(self._given)
        if not self.file.exists():
            self._make()
        return self.file.read_bytes()

    def _make(self) -> None:
        """Write a new key, whole before it has its name; of several makers the first one's stays."""
        part = self.file.with_name(f"{self.file.name}.{secrets.token_hex(8)}")
        try:
            with full_disk():
                part.parent.mkdir(parents=True, exist_ok=True)  # a runner may be the first in its data folder
                with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as sink:
                    sink.write(secrets.token_bytes(KEY_BYTES))
                install_once(part, self.file)
        finally:
            part.unlink(missing_ok=True)


def signed_with(db: Database) -> str | None:
    """The fingerprint of the service's key; None before its first process told it."""
    known = ask(db, FACT)
    return None if known is None else str(known)
