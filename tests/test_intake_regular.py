"""Regular text is read by compiled loops; what comes out is what Arrow's reader and the inference from text give."""

from __future__ import annotations

import math
import struct

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from service.errors import Invalid
from service.intake import regular
from tests.intake import take

MESSY = (
    "", "NA", "nan", "null", "?", "-", "na", "0", "-0", "-0.0", "007", "-01", "0x1F", "+1", "1.", ".5", "1e5", "1E-3",
    "1e400", "1e-400", "5e-324", "2.2250738585072014e-308", "inf", "-Infinity", "9007199254740993",
    "-9007199254740992", "9223372036854775807", "9223372036854775808", "99999999999999999999", "0.1234567890123456789",
    "1,5", "1.5.2", "1.234", " 1", "1 ", " ", "true", "False", "2024-01-01", "a", "é", '"', 'x"y', '"1"', '"2.5"',
    '""', '"NA"', '"a,b"', '"l\nm"', '"l\r\nm"', '"q""r"', '"1"2', "#", "1e", "1e+", "--1", "1-2", "\x00",
    "12345678901234.25", "$3", "50%",
)  # fmt: skip
NUMBERS = (
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e6, 1e6).map(lambda x: repr(round(x, 4))),
    st.integers(-(10**18), 10**18).map(str),
    st.integers(-99, 99).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
)


@st.composite
def texts(draw):
    """Delimited text of some columns of numbers, which a few other cells may disturb."""
    width, rows = draw(st.integers(2, 4)), draw(st.integers(1, 40))
    feed, mark = draw(st.sampled_from(["\n", "\n", "\r\n", "\r"])), draw(st.sampled_from([",", ",", ";", "\t", "|"]))
    kinds = [draw(st.sampled_from(NUMBERS)) for _ in range(width)]
    cells = [[draw(kind) for kind in kinds] for _ in range(rows)]
    for _ in range(draw(st.integers(0, 3))):
        cells[draw(st.integers(0, rows - 1))][draw(st.integers(0, width - 1))] = draw(st.sampled_from(MESSY))
    if draw(st.booleans()):
        at = draw(st.integers(0, width - 1))
        for row in cells:
            row[at] = draw(st.sampled_from([*MESSY[:4], f'"{row[at]}"', row[at], "x"]))
    lines = [mark.join(row) for row in cells]
    for _ in range(draw(st.integers(0, 1))):
        lines.insert(
            draw(st.integers(0, len(lines))), draw(st.sampled_from(["", " ", "# note", "1", mark, "1,2,3,4,5"]))
        )
    head = [mark.join(f"c{i}" for i in range(width))] if draw(st.booleans()) else []
    return draw(st.sampled_from(["", "\ufeff"])) + feed.join(head + lines) + draw(st.sampled_from(["", feed, feed * 2]))


def outcome(raw, options, monkeypatch, least, block=1 << 22):
    """What a reading comes to: values bit for bit, types, source, warnings; or the refusal."""
    monkeypatch.setattr(regular, "LEAST_BYTES", least)
    monkeypatch.setattr(regular, "BLOCK", block)
    try:
        got = take(raw, **options)
    except Invalid as refusal:
        return str(refusal), refusal.issues
    columns = [
        [struct.pack("<d", v) if isinstance(v, float) else v for v in column.to_pylist()]
        for column in got.table.columns
    ]
    return got.table.schema.types, got.table.column_names, columns, got.types, got.source, got.warnings


@given(texts(), st.sampled_from([{}, {"on_error": "skip"}, {"null_values": ("", "-99", "0")}]),
       st.sampled_from([7, 64, 1 << 22]))  # fmt: skip
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example("a,b\n1,2\n3,x\n", {}, 7)
@example("a,b\n1,2.5\n3,12345678901234567\n", {}, 1 << 22)
@example('a"b,c\n1,2\n3,"4\n5"\n', {}, 1 << 22)
def test_what_the_loops_read_is_what_the_text_says(monkeypatch, text, options, block):
    raw = text.encode()
    assert outcome(raw, options, monkeypatch, 0, block) == outcome(raw, options, monkeypatch, math.inf)
