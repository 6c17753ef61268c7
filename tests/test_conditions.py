"""Conditions against plain Python over the rows: random tables with empty cells, random trees, exact bounds."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ml_core.selection.sampling import SmallestKeys, row_keys
from service.errors import Invalid
from service.usecases import selection
from service.usecases.condition_reading import conditions, membership
from service.usecases.conditions import physical
from service.usecases.selection import Choice, choice_of, described

BIG = 2**53
TYPES = {"i": pa.int64(), "x": pa.float64(), "t": pa.string(), "c": pa.large_string(), "b": pa.bool_(),
         "d": pa.date32(), "m": pa.timestamp("us", "UTC"), "naive": pa.timestamp("us")}  # fmt: skip
KINDS = {"i": "integer", "x": "number", "t": "text", "c": "category", "b": "boolean", "d": "date", "m": "datetime",
         "naive": "datetime"}  # fmt: skip
INTEGERS = st.one_of(st.integers(-3, 3), st.integers(BIG - 2, BIG + 2), st.sampled_from([-(2**63), 2**63 - 1]))
NUMBERS = st.one_of(st.sampled_from([0.0, -0.0, 0.5, 1.0, 5e-324, 1e300, float(BIG)]), st.floats(-2, 2))
TEXTS = st.sampled_from(["", "a", "b", "ä", "A", "aa", "𝄞", "zz"])
DAYS = st.sampled_from([date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31)])
MOMENTS = st.sampled_from([datetime(2024, 2, 29, h, 0, 0, us, UTC) for h in (0, 1, 12) for us in (0, 1, 500_000)])
ZONES = st.sampled_from([UTC, timezone(timedelta(hours=2)), timezone(-timedelta(hours=5, minutes=30))])
CELLS = {"i": INTEGERS, "x": st.one_of(NUMBERS, st.sampled_from([np.inf, -np.inf])), "t": TEXTS, "c": TEXTS,
         "b": st.booleans(), "d": DAYS, "m": MOMENTS, "naive": MOMENTS}  # fmt: skip


def written(column: str) -> st.SearchStrategy[Any]:
    """Values to compare a column with, as JSON has them."""
    if column == "i":
        return st.one_of(INTEGERS, NUMBERS, st.integers(BIG + 1, 2**70).map(str))
    if column == "x":
        return st.one_of(NUMBERS, st.integers(-2, 2), st.integers(BIG - 3, BIG + 3), st.just(2**64 - 1))
    if column == "d":
        return DAYS.map(date.isoformat)
    if column in ("m", "naive"):
        zoned = st.tuples(MOMENTS, ZONES).map(lambda p: p[0].astimezone(p[1]).isoformat())
        return st.one_of(zoned, MOMENTS.map(lambda m: m.replace(tzinfo=None).isoformat(sep=" ")), DAYS.map(str))
    return CELLS[column]


@st.composite
def leaves(draw: st.DrawFn) -> dict[str, Any]:
    column = draw(st.sampled_from(list(TYPES)))
    order = [] if column == "b" else ["<", "<=", ">", ">=", "between"]
    op = draw(st.sampled_from(["==", "!=", "in", "not_in", "is_null", "not_null", *order]))
    if op in ("is_null", "not_null"):
        return {"column": column, "op": op}
    values = written(column)
    size = {"between": (2, 2), "in": (1, 3), "not_in": (1, 3)}.get(op)
    value = draw(values if size is None else st.lists(values, min_size=size[0], max_size=size[1]))
    return {"column": column, "op": op, "value": value}


TREES = st.recursive(leaves(), lambda inner: st.one_of(
    st.lists(inner, min_size=1, max_size=3).map(lambda p: {"and": p}),
    st.lists(inner, min_size=1, max_size=3).map(lambda p: {"or": p}),
    inner.map(lambda p: {"not": p})), max_leaves=8)  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    n = draw(st.integers(0, 6))
    cells = {c: draw(st.lists(st.one_of(st.none(), s), min_size=n, max_size=n)) for c, s in CELLS.items()}
    cells["naive"] = [None if m is None else m.replace(tzinfo=None) for m in cells["naive"]]
    return pa.table({c: pa.array(v, TYPES[c]) for c, v in cells.items()})


def plain(column: str, value: Any) -> Any:
    """What a written value means, in Python."""
    if column == "i" and isinstance(value, str):
        return int(value)
    if column == "d":
        return date.fromisoformat(value)
    if column in ("m", "naive"):
        found = datetime.fromisoformat(value)
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    return value


def oracle(tree: dict[str, Any], row: dict[str, Any]) -> bool | None:
    """True, False or None (unknown), as SQL has it."""
    if "not" in tree:
        inner = oracle(tree["not"], row)
        return None if inner is None else not inner
    for word, settles in (("and", False), ("or", True)):
        if word in tree:
            parts = [oracle(p, row) for p in tree[word]]
            return settles if settles in parts else None if None in parts else not settles
    cell, op = row[tree["column"]], tree["op"]
    if op in ("is_null", "not_null"):
        return (cell is None) == (op == "is_null")
    if cell is None:
        return None
    if tree["column"] == "naive":
        cell = cell.replace(tzinfo=UTC)
    many = isinstance(tree["value"], list)
    v = [plain(tree["column"], one) for one in (tree["value"] if many else [tree["value"]])]
    return {"==": lambda: cell == v[0], "!=": lambda: cell != v[0], "<": lambda: cell < v[0],
            "<=": lambda: cell <= v[0], ">": lambda: cell > v[0], ">=": lambda: cell >= v[0],
            "between": lambda: v[0] <= cell <= v[-1], "in": lambda: cell in v, "not_in": lambda: cell not in v}[op]()


@settings(max_examples=150, deadline=None)
@given(tables(), st.lists(TREES, max_size=3))
def test_conditions_hold_where_python_says_so(table: pa.Table, where: list[dict[str, Any]]) -> None:
    read = conditions(where, KINDS)
    want = [all(oracle(tree, row) is True for tree in where) for row in table.to_pylist()]
    assert Choice(pickle.loads(pickle.dumps(read))).mask(table).to_pylist() == want
    assert Choice(read).take(table).equals(table.filter(pa.array(want, pa.bool_())))


@pytest.mark.parametrize("values", [[0.0, 2.5], [-0.0, 2.5], [0, 2.5], [0], [-0.0], [1.5, 2.5]])
def test_zeros_of_both_signs_are_equal_in_lists_too(values: list[float]) -> None:
    table = pa.table({"x": [0.0, -0.0, 2.5, None, 3.0]})
    for op, found in (("in", lambda x: x in values), ("not_in", lambda x: x not in values)):
        read = conditions([{"column": "x", "op": op, "value": values}], {"x": "number"})
        assert Choice(read).mask(table).to_pylist() == [x is not None and found(x) for x in table["x"].to_pylist()]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(INTEGERS, st.integers(-(2**63), 2**63 - 1)), min_size=1), st.data())
def test_whole_numbers_and_doubles_compare_exactly(cells: list[int], data: st.DataObject) -> None:
    table = pa.table({"i": pa.array(cells, pa.int64()), "x": pa.array([float(c) for c in cells])})
    near = data.draw(st.sampled_from(cells)) + data.draw(st.integers(-1, 1))
    bound = data.draw(st.sampled_from([near, float(near), max(near, -(2**63)) / 3]))
    for op in ("==", "<", "<=", ">", ">="):
        for name in table.column_names:
            got = conditions([{"column": name, "op": op, "value": bound}], KINDS).mask(table).to_pylist()
            row = table[name].to_pylist()
            assert got == [oracle({"column": name, "op": op, "value": bound}, {name: v}) for v in row]


def test_times_of_any_zone_and_of_finer_fractions_are_put_in_order() -> None:
    moments = [datetime(2024, 2, 29, 12, 0, 0, us, UTC) for us in (0, 1, 2)]
    table = pa.table({"m": pa.array(moments, TYPES["m"]), "d": [m.date() for m in moments]})

    def asked(op: str, value: str) -> list[bool]:
        return conditions([{"column": "m", "op": op, "value": value}], KINDS).mask(table).to_pylist()

    assert asked("==", "2024-02-29T14:00:00.000001+02:00") == [False, True, False]
    assert asked(">", "2024-02-29T12:00:00.0000005Z") == [False, True, True]
    assert asked("<=", "2024-02-29t12:00:00.0000019999z") == [True, True, False]
    assert asked("==", "2024-02-29T12:00:00.0000019999Z") == [False, False, False]
    assert asked(">=", "2024-02-29") == [True, True, True]
    assert physical(table["d"], "date").to_pylist() == [Fraction(moments[0].timestamp()) // 86400] * 3


@pytest.mark.parametrize(("one", "place", "code"), [
    ({"column": "nope", "op": "==", "value": 1}, "/0/column", "unknown_column"),
    ({"column": "nope", "op": "is_null"}, "/0/column", "unknown_column"),
    ({"column": "i", "op": "==", "value": "3"}, "/0/value", "wrong_type"),
    ({"column": "i", "op": "==", "value": "9007199254740993.0"}, "/0/value", "wrong_type"),
    ({"column": "i", "op": "==", "value": True}, "/0/value", "wrong_type"),
    ({"column": "x", "op": "<", "value": "1.5"}, "/0/value", "wrong_type"),
    ({"column": "x", "op": "in", "value": [1, False]}, "/0/value/1", "wrong_type"),
    ({"column": "t", "op": "==", "value": 3}, "/0/value", "wrong_type"),
    ({"column": "c", "op": "between", "value": ["a", 3]}, "/0/value/1", "wrong_type"),
    ({"column": "b", "op": "==", "value": 1}, "/0/value", "wrong_type"),
    ({"column": "b", "op": "==", "value": "true"}, "/0/value", "wrong_type"),
    ({"column": "b", "op": "<", "value": True}, "/0/op", "not_ordered"),
    ({"column": "d", "op": "==", "value": "2024-02-30"}, "/0/value", "wrong_type"),
    ({"column": "d", "op": "==", "value": "2024-2-3"}, "/0/value", "wrong_type"),
    ({"column": "d", "op": "==", "value": "2024-02-03T00:00:00Z"}, "/0/value", "wrong_type"),
    ({"column": "m", "op": "==", "value": "yesterday"}, "/0/value", "wrong_type"),
    ({"column": "m", "op": "==", "value": "2024-02-03T25:00:00Z"}, "/0/value", "wrong_type"),
    ({"column": "m", "op": "==", "value": "0001-01-01T00:00:00+25:00"}, "/0/value", "wrong_type"),
    ({"or": [{"column": "i", "op": "is_null"}, {"not": {"column": "t", "op": "<", "value": 1}}]},
     "/0/or/1/not/value", "wrong_type"),
])  # fmt: skip
def test_what_misfits_a_column_is_pointed_at(one: dict[str, Any], place: str, code: str) -> None:
    with pytest.raises(Invalid) as caught:
        conditions([one], KINDS)
    assert [(i.pointer, i.code) for i in caught.value.issues] == [("/rows/where" + place, code)]


def test_every_misfit_is_named_and_values_that_no_cell_can_have_are_refused_as_parts() -> None:
    with pytest.raises(Invalid) as caught:
        conditions([{"column": "i", "op": "==", "value": "x"}, {"column": "t", "op": "==", "value": 1}], KINDS)
    assert [i.pointer for i in caught.value.issues] == ["/rows/where/0/value", "/rows/where/1/value"]
    with pytest.raises(Invalid) as caught:
        membership("i", [1, 1.5], KINDS, ("/a", "/b"))
    assert caught.value.issues[0].pointer == "/b/1"


def asking(table: pa.Table, **rows: Any) -> Choice:
    return choice_of(table, {"rows": rows, "seed": rows.pop("seed", 0)}, KINDS)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 200), st.integers(0, 2**62), st.data())
def test_a_sample_is_the_same_in_blocks_and_pieces(n: int, seed: int, data: st.DataObject) -> None:
    size, block = data.draw(st.integers(1, n)), data.draw(st.integers(1, 64))
    table = pa.table({"i": np.arange(n)})
    whole = asking(table, sample=size, seed=seed)
    kept = whole.take(table)["i"].to_pylist()
    assert len(kept) == size == whole.count(table)
    assert kept == sorted(kept)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "BLOCK", block)
        assert asking(table, sample=size, seed=seed) == whole
        assert whole.take(table)["i"].to_pylist() == kept
    pieces = [whole.take(table.slice(at, block), at)["i"].to_pylist() for at in range(0, n, block)]
    assert [i for piece in pieces for i in piece] == kept


def test_a_sample_comes_after_the_conditions_and_is_fixed_for_good() -> None:
    table = pa.table({"i": np.arange(1000)})
    odd = [{"column": "i", "op": "in", "value": list(range(1, 1000, 2))}]
    kept = asking(table, sample=3, where=odd, seed=7).take(table)["i"].to_pylist()
    assert kept == sorted(np.arange(1000)[1::2][np.argsort(row_keys(7, 0, 1000)[1::2])[:3]].tolist())
    assert asking(table, sample=5).take(table)["i"].to_pylist() == [254, 366, 410, 503, 821]


def mixed(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def test_keys_are_those_of_splitmix64() -> None:
    assert row_keys(0, 0, 3).tolist() == [16294208416658607535, 7960286522194355700, 487617019471545679]
    for seed in (1, 2**62, 2**63 - 1):
        want = [mixed((mixed(seed) + i * 0x9E3779B97F4A7C15) % 2**64) for i in range(8, 13)]
        assert row_keys(seed, 7, 12).tolist() == want


def test_every_row_is_as_likely_as_any_other() -> None:
    n, size, tries = 40, 10, 4000
    counts = np.zeros(n)
    both = np.zeros((n, n))
    for seed in range(tries):
        chosen = row_keys(seed, 0, n) <= np.uint64(_limit(row_keys(seed, 0, n), size))
        counts += chosen
        both += np.outer(chosen, chosen)
    spread = np.sqrt(tries * size / n * (1 - size / n))
    assert np.abs(counts - tries * size / n).max() < 4.5 * spread
    pairs = tries * size * (size - 1) / (n * (n - 1))
    assert np.abs(both[np.triu_indices(n, 1)] - pairs).max() < 5 * np.sqrt(pairs)


def _limit(keys: np.ndarray, size: int) -> int:
    smallest = SmallestKeys(size)
    smallest.add(keys)
    return smallest.limit


def test_too_few_rows_are_refused_with_the_counts() -> None:
    table = pa.table({"i": [1, 2, None]})
    for rows, place, words in (
        ({"where": [{"column": "i", "op": ">", "value": 9}]}, "/rows/where", "0 of the 3"),
        ({"where": [{"not": {"column": "i", "op": "in", "value": [1, 2]}}]}, "/rows/where", "0 of the 3"),
        ({"sample": 4}, "/rows/sample", "from the 3 rows"),
        ({"sample": 2, "where": [{"column": "i", "op": "<", "value": 2}]}, "/rows/sample", "from the 1 rows .* of 3"),
    ):  # fmt: skip
        with pytest.raises(Invalid, match=words) as caught:
            asking(table, **rows)
        assert caught.value.issues[0].pointer == place


def test_the_record_of_chosen_rows_is_that_of_their_table() -> None:
    table = pa.table({"i": [1, 2, None, 4], "t": ["a", "a", "b", None]})
    columns = [{"name": "i", "type": "integer", "missing": 1, "distinct": 3},
               {"name": "t", "type": "text", "missing": 1, "distinct": 2}]  # fmt: skip
    choice = asking(table, where=[{"column": "i", "op": "!=", "value": 2}])
    found = described({"rows": 4, "columns": columns}, table, choice)
    assert (found["rows"], found["in_table"]) == (2, 4)
    assert [(c["missing"], c["distinct"]) for c in found["columns"]] == [(0, 2), (1, 1)]
