"""Pieces on threads: their order, what waits for the caller, and what an error leaves running."""

from __future__ import annotations

import threading

import pytest

from ml_core import progress
from ml_core.parallel import AHEAD, ordered_map, threads, use_threads


@pytest.mark.parametrize("n", [1, 2, 3, 8])
@pytest.mark.parametrize("pieces", [0, 1, 2, 5, 40])
def test_results_come_in_order(n: int, pieces: int) -> None:
    with use_threads(n):
        assert list(ordered_map(lambda i: i * i, range(pieces))) == [i * i for i in range(pieces)]


def test_the_caller_is_one_of_the_threads() -> None:
    met, names = threading.Barrier(3), []

    def piece(_: int) -> None:
        met.wait(timeout=60)
        names.append(threading.get_ident())

    with use_threads(3):
        list(ordered_map(piece, range(3)))
    assert threading.get_ident() in names
    assert len(set(names)) == 3


def test_few_results_wait_for_the_caller() -> None:
    begun = []
    with use_threads(2):
        for k, _ in enumerate(ordered_map(begun.append, range(50))):
            assert len(begun) <= k + 2 * AHEAD
    assert sorted(begun) == list(range(50))


@pytest.mark.parametrize("bad", [0, 7, 19])
def test_an_error_comes_in_its_place_and_nothing_goes_on(bad: int) -> None:
    begun, got = [], []

    def piece(i: int) -> int:
        begun.append(i)
        if i == bad:
            raise ZeroDivisionError
        return i

    before = threading.active_count()
    with use_threads(2), pytest.raises(ZeroDivisionError):
        got.extend(ordered_map(piece, range(20)))
    assert got == list(range(bad))
    assert len(begun) <= bad + 2 * AHEAD
    assert threading.active_count() == before


def test_leaving_early_ends_the_helpers() -> None:
    before = threading.active_count()
    with use_threads(4):
        assert next(ordered_map(lambda i: i, range(1000))) == 0
    assert threading.active_count() == before


def test_pieces_share_threads_and_tell_the_caller_but_not_each_other() -> None:
    heard, own = [], []

    def piece(i: int) -> None:
        own.append(threads())
        progress.tick(i)

    with use_threads(4), progress.listen(lambda t: heard.append(t.step)):
        list(ordered_map(piece, range(2)))
    assert own == [2, 2]
    assert sorted(heard) == [0, 1]
