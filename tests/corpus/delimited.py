"""A dozen delimited texts; their own tests go further."""

from __future__ import annotations

import codecs

from tests.corpus.case import Case, bad, good, huge


def cases() -> list[Case]:
    """Dialects, encodings and damage."""
    return [
        good("csv/plain", "a,b\n1,x\n2,y\n", {"a": [1, 2], "b": ["x", "y"]}),
        good("csv/mark", codecs.BOM_UTF8 + b"a,b\n1,x\n", {"a": [1], "b": ["x"]}),
        good("csv/utf-16", "a,b\n1,ö\n2,x\n".encode("utf-16"), {"a": [1, 2], "b": ["ö", "x"]}),
        good("csv/latin-1", "a,b\n1,ö\n".encode("latin-1"), {"a": [1], "b": ["ö"]}, "", "encoding"),
        good("csv/decimal-comma", "a;b\n1,5;x\n2,5;y\n", {"a": [1.5, 2.5], "b": ["x", "y"]}),
        good("csv/quoted-newline", 'a,b\n1,"x\ny"\n2,"z"""\n', {"a": [1, 2], "b": ["x\ny", 'z"']}),
        good("csv/exact", "a,b\n9007199254740993,007\n1,012\n", {"a": [2**53 + 1, 1], "b": ["007", "012"]}),
        good("csv/empty-in-quotes", 'a,b\n1,""\n2,\n3,x\n', {"a": [1, 2, 3], "b": [None, None, "x"]}),
        good("csv/quoted-empty-number", '"a","b"\n"1","2024-02-29"\n"",""\n', None),
        bad("csv/ragged", "a,b\n1,x\n2,y,z\n", "ragged_row", "3"),
        bad("csv/unclosed-quote", 'a,b\n1,"x\n2,y\n', "unbalanced_quote"),
        bad("csv/empty", "", "empty_file"),
        bad("csv/header-only", "a,b\n", "no_rows"),
        huge("csv/wide", ",".join("x" * 20_001) + "\n" + ",".join("1" * 20_001) + "\n", "columns"),
    ]  # fmt: skip
