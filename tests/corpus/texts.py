"""ARFF and LIBSVM."""

from __future__ import annotations

import datetime as dt

from tests.corpus.case import Case, bad, good, huge

HEAD = "@relation r\n@attribute a numeric\n@attribute b {x, 'y z', \"q\"}\n@data\n"


def arff(*lines: str, head: str = HEAD) -> str:
    """A file with these rows."""
    return head + "".join(line + "\n" for line in lines)


def cases() -> list[Case]:
    """Both formats."""
    return [*read_arff(), *bad_arff(), *libsvm()]


def read_arff() -> list[Case]:
    """Declarations of every kind."""
    dates = "@relation r\n@attribute d date 'dd.MM.yyyy'\n@attribute t date \"yyyy-MM-dd'T'HH:mm:ss\"\n@data\n"
    quoted = "@relation 'two words'\n@attribute 'it\\'s' string\n@attribute \"n %\" real\n@data\n"
    kinds = "@relation r\n@attribute i integer\n@attribute r real\n@attribute s string\n@data\n"
    return [
        good("arff/nominal", arff("1.5,x", "?,'y z'", "2,?", "3,q"), {"a": [1.5, None, 2.0, 3.0],
             "b": ["x", "y z", None, "q"]}, "number category"),
        good("arff/comments", "% hello\n" * 80 + arff("% in between", "", "1,x", "%2,x"), {"a": [1], "b": ["x"]}),
        good("arff/sparse", arff("{0 3, 1 'y z'}", "{ }", "{1 q}"), {"a": [3, 0, 0], "b": ["y z", "x", "q"]}),
        good("arff/sparse-missing", arff("{0 ?}"), {"a": [None], "b": ["x"]}),
        good("arff/dates", arff("29.02.2024,2024-02-29T12:00:01", "?,?", head=dates),
             {"d": [dt.date(2024, 2, 29), None], "t": [dt.datetime(2024, 2, 29, 12, 0, 1), None]}, "date datetime"),
        good("arff/quotes", arff("'a, \\'b\\' \\\\ \\n',1.0", '"?", 2', "'',3", "?,?", head=quoted),
             {"it's": ["a, 'b' \\ \n", "?", "", None], "n %": [1.0, 2.0, 3.0, None]}, "text number"),
        good("arff/declared-kinds", arff("1,2,3", "9007199254740993,0.5,NA", head=kinds),
             {"i": [1, 2**53 + 1], "r": [2.0, 0.5], "s": ["3", "NA"]}, "integer number text"),
        good("arff/whole-reals", arff("1,2,x", head=kinds), {"i": [1], "r": [2.0], "s": ["x"]}, "integer number text"),
        good("arff/capitals", arff("1,x").upper().replace("X", "x").replace("Y Z", "y z").replace("Q", "q"),
             {"A": [1], "B": ["x"]}),
        good("arff/tabs", arff("1\tx", "2\tq"), {"a": [1, 2], "b": ["x", "q"]}),
        good("arff/crlf", arff("1,x").replace("\n", "\r\n"), {"a": [1], "b": ["x"]}),
        good("arff/utf-16", arff("1,x").encode("utf-16"), {"a": [1], "b": ["x"]}),
        good("arff/latin-1", "@relation r\n@attribute s string\n@data\nKöln\n".encode("latin-1"), {"s": ["Köln"]}, "",
             "encoding"),
        good("arff/skip", arff("1,x", "2,w", "3,q"), {"a": [1, 3], "b": ["x", "q"]}, "", "skipped_rows",
             on_error="skip"),
    ]  # fmt: skip


def bad_arff() -> list[Case]:
    """What the declarations do not allow."""
    def declared(kind: str, *rows: str) -> str:
        return f"@relation r\n@attribute a {kind}\n@data\n" + "".join(r + "\n" for r in rows)

    return [
        bad("arff/no-level", arff("1,x", "2,w"), "unknown_level", "Line 6"),
        bad("arff/no-number", arff("1,x", "zwei,x"), "wrong_type", "Line 6"),
        bad("arff/no-integer", declared("integer", "1", "1.5"), "wrong_type", "Line 5"),
        bad("arff/no-date", declared('date "yyyy-MM-dd"', "29.02.2024"), "wrong_type", "Line 4"),
        bad("arff/unread-date", declared('date "EEE, d MMM"', "x"), "unread_type", "EEE"),
        bad("arff/ragged", arff("1,x", "1,x,3"), "ragged_row", "Line 6"),
        bad("arff/unclosed-quote", arff("1,'y z"), "ragged_row", "Line 5"),
        bad("arff/relational", declared("relational", "1"), "unread_type", "relational"),
        bad("arff/no-type", declared("", "1"), "bad_attribute", "Line 2"),
        bad("arff/unclosed-levels", declared("{x, y", "x"), "bad_attribute", "Line 2"),
        bad("arff/no-data", "@relation r\n@attribute a numeric\n", "no_rows"),
        bad("arff/no-rows", arff(), "no_rows"),
        bad("arff/no-attributes", "@relation r\n@data\n1\n", "no_columns"),
        bad("arff/sparse-beyond", arff("{7 1}"), "ragged_row", "Line 5"),
        bad("arff/sparse-open", arff("{0 1"), "ragged_row", "Line 5"),
        bad("arff/sparse-twice", arff("{0 1, 0 2}"), "ragged_row", "Line 5"),
    ]


def libsvm() -> list[Case]:
    """Sparse rows."""
    def told(name: str, row: str, says: str = "") -> Case:
        return bad(f"libsvm/{name}", f"1 1:0.5\n{row}\n", "bad_row", says, format="libsvm")

    return [
        good("libsvm/plain", "+1 1:0.5 3:2e3 # text\n\n-1 2:1\n", {"label": [1, -1], "x1": [0.5, 0.0], "x2": [0.0, 1.0],
             "x3": [2000.0, 0.0]}, "integer number number number"),
        good("libsvm/regression", "1.5 1:1\n-2e-3 1:2\n", {"label": [1.5, -2e-3], "x1": [1.0, 2.0]}, "number number"),
        good("libsvm/qid", "1 qid:3 1:1\n0 qid:9007199254740993 1:2\n", {"label": [1, 0], "qid": [3, 2**53 + 1],
             "x1": [1.0, 2.0]}),
        good("libsvm/unsorted", "1 3:3 1:1\n0 2:2\n", {"label": [1, 0], "x1": [1.0, 0.0], "x2": [0.0, 2.0],
             "x3": [3.0, 0.0]}),
        good("libsvm/from-zero", "1 0:5 1:1\n0 0:6\n", {"label": [1, 0], "x0": [5.0, 6.0], "x1": [1.0, 0.0]}),
        good("libsvm/rows-of-zeros", "1 1:1\n0\n0 2:1\n", {"label": [1, 0, 0], "x1": [1.0, 0.0, 0.0],
             "x2": [0.0, 0.0, 1.0]}, format="libsvm"),
        told("index-twice", "1 2:1 2:3", "twice"), told("negative-index", "1 -1:2"), told("huge-index", "1 99999999:1"),
        told("vast-index", f"1 {10**30}:1"), told("no-value", "1 3:"), told("word", "1 3:x"), told("no-label", "x 1:1"),
        told("many-labels", "1,2 1:1"), told("nan", "1 1:nan", "finite"), told("infinite", "1 1:1e999", "finite"),
        told("underscore", "1 1:1_0"), told("other-digits", "1 1:١"), told("vast-qid", f"1 qid:{10**30} 1:1"),
        told("two-qids", "1 qid:1 qid:2 1:1"), told("some-qids", "1 qid:1 1:1", "qid"),
        good("libsvm/skip", "1 1:1\nx\n0 1:2\n", {"label": [1, 0], "x1": [1.0, 2.0]}, "", "skipped_rows",
             on_error="skip", format="libsvm"),
        bad("libsvm/nothing", "# only a comment\n", "no_rows", format="libsvm"),
        huge("libsvm/sparse", "".join(f"1 {i}:1\n" for i in range(1, 19_000)), "limit", format="libsvm"),
    ]  # fmt: skip
