"""Opaque identifiers that sort by creation: a prefix, then UUIDv7 bits in base 32."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_lock = threading.Lock()
_last = 0


def new_id(prefix: str) -> str:
    """`prefix_` + 26 characters: 48 bits of milliseconds, 12 of sequence, 70 random; strictly increasing here."""
    global _last  # noqa: PLW0603 - the sequence is one per process by its nature
    with _lock:
        _last = max(_last + 1, time.time_ns() // 1_000_000 << 12)
        stamp = _last
    return _written(prefix, stamp << 70 | secrets.randbits(70))


def fixed_id(prefix: str, *content: str) -> str:
    """The same id wherever it is made of the same content; it sorts before all that were made by time."""
    digest = hashlib.sha256("\0".join(content).encode()).digest()
    return _written(prefix, int.from_bytes(digest) & (1 << 80) - 1)


def _written(prefix: str, n: int) -> str:
    return f"{prefix}_" + "".join(ALPHABET[n >> shift & 31] for shift in range(125, -1, -5))
