"""Text that is read while it arrives is what it is when it is read from a file, however it was cut on its way."""

from __future__ import annotations

import struct
import threading
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from service.errors import Invalid
from service.intake import decoding, delimited, read, regular
from service.intake.arrival import Arrival, Broken
from service.intake.findings import ReadOptions
from tests.test_intake_regular import texts

CAP = 1 << 24
OPTIONS = [
    {}, {"on_error": "skip"}, {"null_values": ("", "-99", "0")}, {"decimal": ","}, {"header": False},
    {"encoding": "utf-8"}, {"format": "csv"}, {"types": {"c0": "text"}}, {"delimiter": ";"}, {"encoding": "cp1252"},
]  # fmt: skip


class Dripping(Arrival):
    """A file that comes in pieces, each only when somebody waits for it."""

    def __init__(self, path, pieces, expected=None):
        super().__init__(path, expected)
        self.left, self.there = list(pieces), 0
        path.write_bytes(b"")

    def upto(self, size):
        with self.path.open("ab", buffering=0) as sink:
            while self.there < size and self.left:
                self.there += sink.write(self.left.pop(0))
        self.grew(self.there)
        if not self.left:
            self.complete()
        return super().upto(size)


def told(call):
    """What a reading comes to: values bit for bit, types, source, warnings; or the refusal."""
    try:
        got = call()
    except Invalid as refusal:
        return str(refusal), refusal.issues
    columns = [
        [struct.pack("<d", v) if isinstance(v, float) else v for v in column.to_pylist()]
        for column in got.table.columns
    ]
    return got.table.schema.types, got.table.column_names, columns, got.types, got.source, got.warnings


def both(raw, pieces, options, expected=None):
    """What the text comes to from a file, what it comes to as it arrives, and what was read ahead."""
    with TemporaryDirectory() as folder:
        places = [Path(folder) / name for name in ("a", "b", "c")]
        for place in places:
            place.mkdir()
        path = places[0] / "body"
        text = Dripping(path, pieces, expected)
        ahead = read.read_ahead(text, ReadOptions(**options), places[0])
        text.upto(len(raw) + 1)
        assert path.read_bytes() == raw
        plain = told(lambda: read.read(path, ReadOptions(**options), places[1], CAP))
        early = told(lambda: read.read(path, ReadOptions(**options), places[2], CAP, ahead))
        return plain, early, ahead


@pytest.fixture
def small(monkeypatch):
    """Everything happens at few bytes."""
    monkeypatch.setattr(regular, "LEAST_BYTES", 0)
    monkeypatch.setattr(decoding, "SMALL", 200)
    monkeypatch.setattr(delimited, "SMALL", 200)
    monkeypatch.setattr(regular, "BLOCK", 100)
    monkeypatch.setattr(regular, "UNKNOWN", 10)
    for module in (decoding, delimited, read, regular):
        monkeypatch.setattr(module, "HEAD", 150)
    monkeypatch.setattr(decoding, "HEAD_LINES", 3)


def cut(raw, places):
    """The bytes in pieces, cut at these places."""
    ends = [0, *sorted({place % (len(raw) + 1) for place in places}), len(raw)]
    return [raw[a:b] for a, b in pairwise(ends)]


@st.composite
def longer(draw):
    """Texts that go on beyond their first blocks, some with letters of several bytes or bytes that are no UTF-8."""
    text = draw(texts())
    lines = text.splitlines(keepends=True)
    raw = (text + "".join(lines[1:]) * draw(st.integers(0, 8))).encode()
    if draw(st.booleans()):
        raw = raw.replace(b"x", draw(st.sampled_from(["é", "“ü”", "𝔘", "\u2028"])).encode())
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(raw)))
        raw = raw[:at] + draw(st.sampled_from([b"\xe9", b"\0", b"\xff\xfe", b'"', b"\xed\xa0\x80"])) + raw[at:]
    return raw


@pytest.mark.usefixtures("small")
@given(
    longer(), st.lists(st.integers(0, 1 << 16), max_size=30), st.sampled_from(OPTIONS), st.sampled_from([None, 1, 9999])
)
@example(b"a,b\r\n" + b'1,"x\r\n"\r\n' * 60, range(0, 600, 7), {}, None)
@example(b"a,b\n" + "é,1.5\n".encode() * 90, range(0, 900), {}, None)
@example(b"a,b\n" + b"1,2\n" * 90 + b"1,x\n" + b"3,4\n" * 90, range(0, 900, 3), {}, 1)
@example(b"a,b\n" + b"1,2\n" * 90 + b"1,2,3\n" + b"3,4\n" * 90, range(0, 900, 3), {}, 1)
@example(b"a,b\n" + b"1,2\n" * 90 + b'1,"2\n' + b"3,4\n" * 90, range(0, 900, 3), {}, 1)
@example(b"a,b\n" + b"1,\xe9\n" * 90, range(0, 500, 3), {}, 1)
@example(b"a,b\n" + b"1,x\n" * 90 + b"1,\xe9\n", range(0, 500, 3), {}, 1)
@example(b"a,b\n" + b"1,x\n" * 90 + b"1,\0\n", range(0, 500, 3), {}, 1)
@example(b"\xef\xbb\xbfa,b\n" + b"1,x\n" * 90, range(0, 500), {}, 1)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_same_comes_out_wherever_the_body_is_cut(raw, places, options, expected):
    plain, early, _ = both(raw, cut(raw, places), options, expected)
    assert early == plain


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("raw", [
    b"a,b\r\n" + b'1,"x\r\n"\r\n' * 60, b"a,b\n" + "é,1.5\n".encode() * 90, b"\xef\xbb\xbfa,b\n" + b"1,x\n" * 90,
    b"a,b\n" + b"1,2\n" * 90 + b"1,x\n" + b"3,4\n" * 90,
])  # fmt: skip
def test_regular_text_is_read_before_it_is_complete(raw):
    plain, early, ahead = both(raw, cut(raw, range(0, len(raw), 3)), {})
    assert early == plain
    assert ahead.regular is not None
    assert ahead.regular.quotes == raw.count(b'"')


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("raw", [
    b"", b"PK\x03\x04" + b"x" * 400, b'{"a": 1}\n' * 90, b"\x1f\x8b" + b"y" * 500, b"\0" * 99,
])  # fmt: skip
def test_what_is_no_delimited_text_is_left_to_the_whole_file(raw):
    plain, early, ahead = both(raw, cut(raw, range(0, len(raw), 50)), {})
    assert ahead is None
    assert early == plain


def test_columns_stay_whole_when_more_rows_come_than_was_told(tmp_path, monkeypatch):
    monkeypatch.setattr(regular, "LEAST_BYTES", 0)
    monkeypatch.setattr(regular, "BLOCK", 1 << 16)
    raw = b"a,b,c\n" + b"".join(b"%d,%d.5,\n" % (i, i % 7) if i % 5 else b",,z\n" for i in range(60_000))
    plain, early, ahead = both(raw, cut(raw, range(0, len(raw), 5000)), {}, expected=1000)
    assert ahead.regular is not None
    assert early == plain


def test_who_waits_for_a_broken_body_is_told(tmp_path):
    text, heard = Arrival(tmp_path / "body"), []
    text.grew(10)
    assert text.upto(10) == 10

    def wait():
        try:
            text.upto(11)
        except Broken:
            heard.append("broken")

    waiter = threading.Thread(target=wait)
    waiter.start()
    text.give_up()
    waiter.join(30)
    assert heard == ["broken"]
