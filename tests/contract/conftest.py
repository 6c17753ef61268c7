"""Fixtures of the contract tests."""

from tests.contract.ledgers import db, make

__all__ = ["db", "make"]
