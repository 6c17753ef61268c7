"""Delimited text of any shape: what Python's csv module writes is read back cell by cell, or refused; never a crash."""

import csv
import io
from datetime import date

from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.errors import Invalid, TooLarge
from service.intake.findings import NULLS
from service.intake.hints import LIKE_NULL
from service.intake.profile import profile
from tests.intake import take

LETTERS = st.sampled_from([*"abZé日 #%'\\-17.=~:,;\t|\"\n", "\r\n", "😀", "x y"])
CELL = st.one_of(
    st.lists(LETTERS, max_size=6).map("".join),
    st.integers(-(10**6), 10**6).map(str),
    st.floats(-1e6, 1e6).map(repr),
    st.sampled_from(["red", "green", *NULLS, *LIKE_NULL]),
)
MARKS = {",": ",", ";": ";", "\t": "tab", "|": "|"}
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be")


@st.composite
def tables(draw):
    """Names and rows of text cells; a row of one column is never empty, for it would be a blank line."""
    width = draw(st.integers(1, 5))
    row = st.lists(CELL, min_size=width, max_size=width)
    rows = draw(st.lists(row, min_size=2, max_size=8))
    return [f"näme {i}" for i in range(width)], [r if width > 1 else [r[0] or "x"] for r in rows]


def written(names, rows, mark, end, quoting):
    """The table as text."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=mark, lineterminator=end, quoting=quoting)
    writer.writerow(names)
    writer.writerows(rows)
    return text.getvalue()


@settings(max_examples=120, deadline=None)
@given(
    table=tables(), mark=st.sampled_from(sorted(MARKS)), end=st.sampled_from(["\n", "\r\n", "\r"]),
    everything=st.booleans(), encoding=st.sampled_from(ENCODINGS),
)  # fmt: skip
def test_text_is_read_back_cell_by_cell(table, mark, end, everything, encoding):
    names, rows = table
    quoting = csv.QUOTE_ALL if everything or end == "\r" else csv.QUOTE_MINIMAL
    text = written(names, rows, mark, end, quoting)
    got = take(
        text.encode(encoding), types=dict.fromkeys(names, "text"), delimiter=MARKS[mark], header=True,
        encoding=encoding, null_values=("",),
    )  # fmt: skip
    assert got.table.column_names == names
    cells = [[cell or None for cell in row.values()] for row in got.table.to_pylist()]
    assert cells == [[cell or None for cell in row] for row in rows]


AMOUNTS = st.lists(st.tuples(st.integers(1, 10**12 - 1), st.integers(0, 99), st.booleans()), min_size=1, max_size=20)
PIECES = (
    *'"",;\t\n\r#%|~:[{ =-+', "a", "b", "1", "2", "1,5", "NA", "1e999", "31/12/2020", "sep=;\n", "\ufeff", "0000-00-00",
    "9999-12-31T23:59-14:00", "\x00", "é", "inf", "true", "@relation x\n", "1 1:2",
)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(values=AMOUNTS, european=st.booleans())
@example(values=[(1234, 5, False), (1, 0, False)], european=True)
def test_numbers_with_groups_are_the_numbers(values, european):
    group, decimal, mark = (".", ",", ";") if european else (",", ".", ",")
    texts, numbers = [], []
    for whole, cents, negative in values:
        plain = f"{whole:,}.{cents:02d}"
        swapped = plain.replace(",", " ").replace(".", decimal).replace(" ", group)
        texts.append("-" * negative + swapped)
        numbers.append(float(f"{'-' * negative}{whole}.{cents:02d}"))
    got = take(written(["x", "y"], [[text, "a"] for text in texts], mark, "\n", csv.QUOTE_ALL))
    assert got.table.column("x").to_pylist() == numbers
    grouped = any(whole > 999 for whole, _, _ in values)
    assert ("thousands_separators" in {note["code"] for note in got.warnings}) == grouped


@settings(max_examples=60, deadline=None)
@given(days=st.lists(st.dates(date(1, 1, 2), date(9999, 12, 30)), min_size=1, max_size=10), first=st.sampled_from("dm"))
def test_dates_are_never_read_in_the_wrong_order(days, first):
    form = "{0.day:02d}/{0.month:02d}/{0.year:04d}" if first == "d" else "{0.month:02d}/{0.day:02d}/{0.year:04d}"
    texts = [form.format(day) for day in days]
    got = take("d,x\n" + "".join(f"{text},1\n" for text in texts))
    certain = any(day.day > 12 for day in days)
    assert got.table.column("d").to_pylist() == (days if certain else texts)
    assert {note["code"] for note in got.warnings} == {"date_order" if certain else "ambiguous_date"}


@settings(max_examples=200, deadline=None)
@given(
    parts=st.lists(st.sampled_from(PIECES), max_size=40),
    encoding=st.sampled_from(("utf-8", "latin-1", "utf-16")),
    on_error=st.sampled_from(("error", "skip", "missing")),
)
def test_any_text_is_a_table_or_a_refusal(parts, encoding, on_error):
    try:
        got = take("".join(parts).encode(encoding, errors="ignore"), on_error=on_error)
    except (Invalid, TooLarge) as refused:
        assert str(refused)
        return
    assert got.table.num_rows > 0
    assert len(set(got.table.column_names)) == got.table.num_columns == len(got.types)
    assert len(profile(got.table, got.types)) == got.table.num_columns
