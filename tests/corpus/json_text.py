"""JSON in all its shapes."""

from __future__ import annotations

import codecs
import datetime as dt
import json

from tests.corpus.case import Case, bad, good, huge

BIG = 2**53 + 1
DAY = dt.date(2024, 2, 29)


def cases() -> list[Case]:
    """Records, lines, columns, and what is none of these."""
    return [*read_right(), *refused(), *encodings(), *lines()]


def read_right() -> list[Case]:
    """Shapes and values that have one meaning."""
    nested = [{"id": 1, "at": {"x": 0.5, "place": {"city": "Köln"}}}, {"id": 2, "at": {"x": None, "place": None}}]
    by_label = {"a": {"0": 1, "1": 2}, "b": {"0": "x", "1": None}}
    return [
        good("json/nested", json.dumps(nested), {"id": [1, 2], "at.x": [0.5, None], "at.place.city": ["Köln", None]}),
        good("json/nested-lines", "".join(json.dumps(r) + "\n" for r in nested),
             {"id": [1, 2], "at.x": [0.5, None], "at.place.city": ["Köln", None]}),
        good("json/nested-then-scalar", '[{"a": {"b": 1}}, {"a": 5}]', {"a.b": [1, None], "a": [None, 5]}),
        good("json/empty-object", '[{"a": {}, "b": 1}, {"a": 2, "b": 1}]', {"a": [None, 2], "b": [1, 1]}),
        good("json/ragged", '[{"a": 1}, {"b": 2}, {}]', {"a": [1, None, None], "b": [None, 2, None]}),
        good("json/mixed", '[{"a": 1}, {"a": "x"}, {"a": true}]', {"a": ["1", "x", "true"]}, "category",
             "mixed_column"),
        good("json/late-decimal", json.dumps([{"a": i} for i in range(5000)] + [{"a": 3.5}]),
             {"a": [*map(float, range(5000)), 3.5]}, "number"),
        good("json/late-text", json.dumps([{"a": i} for i in range(50)] + [{"a": "n.b."}]),
             {"a": [*map(str, range(50)), "n.b."]}, "text", "mixed_column"),
        good("json/big-integers", f'[{{"a": {BIG}}}, {{"a": {-(2**63)}}}]', {"a": [BIG, -(2**63)]}, "integer",
             "big_integers"),
        good("json/huge-integers", f'[{{"a": {2**64}}}, {{"a": 1}}]', {"a": [str(2**64), "1"]}, "category",
             "huge_integers"),
        good("json/doubles", '[{"a": 0.1}, {"a": 5e-324}, {"a": 1.7976931348623157e308}, {"a": -0.0}]',
             {"a": [0.1, 5e-324, 1.7976931348623157e308, 0.0]}, "number"),
        good("json/numbers-as-text", '[{"a": "12"}, {"a": "007"}]', {"a": ["12", "007"]}, "category"),
        good("json/na-as-text", '[{"a": "NA"}, {"a": ""}, {"a": null}]', {"a": ["NA", "", None]}, "category"),
        good("json/booleans", '[{"a": true}, {"a": null}, {"a": false}]', {"a": [True, None, False]}, "boolean"),
        good("json/date", '[{"a": "2024-02-29"}, {"a": null}]', {"a": [DAY, None]}, "date"),
        good("json/no-date", '[{"a": "2024-02-30"}]', {"a": ["2024-02-30"]}, "category"),
        good("json/all-null", '[{"a": null, "b": 1}]', {"a": [None], "b": [1]}, "number integer", "empty_columns"),
        good("json/escapes", '[{"a": "\\ud83d\\ude00 \\u0000 \\"q\\" \\\\ \\n"}]', {"a": ['😀 \0 "q" \\ \n']}),
        good("json/columns", '{"a": [1, 2], "b": ["x", null]}', {"a": [1, 2], "b": ["x", None]}),
        good("json/columns-nested", '{"a": [{"x": 1}, {"x": 2}], "b": [3, 4]}', {"a.x": [1, 2], "b": [3, 4]}),
        good("json/columns-by-label", json.dumps(by_label), {"a": [1, 2], "b": ["x", None]}),
        good("json/one-record", '{"a": 1, "b": {"c": 2}}\n', {"a": [1], "b.c": [2]}),
        good("json/pretty", json.dumps([{"a": 1}, {"a": 2}], indent=4), {"a": [1, 2]}),
        good("json/odd-names", '[{"": 1, " a ": 2, "a": 3}]', {"column_1": [1], "a": [2], "a_2": [3]}, "",
             "renamed_columns"),
    ]  # fmt: skip


def refused() -> list[Case]:
    """Without one meaning, or without an end."""
    return [
        bad("json/scalar", "5", "bad_json", "array", format="json"),
        bad("json/text", '"abc"', "bad_json", "array", format="json"),
        bad("json/not-json", "a,b\n1,2\n", "bad_json", format="json"),
        bad("json/array-of-arrays", "[[1, 2], [3, 4]]", "bad_record", "not an object"),
        bad("json/array-of-numbers", "[1, 2]", "bad_record", "not an object", format="json"),
        bad("json/empty-array", "[]", "no_rows"),
        bad("json/empty-objects", "[{}, {}]", "no_rows"),
        bad("json/empty-object-alone", "{}", "no_rows"),
        bad("json/list-inside", '[{"a": 1}, {"a": [1, 2]}]', "bad_record", "'a' holds a list"),
        bad("json/list-deep-inside", '[{"a": {"b": [1]}}]', "bad_record", "'a.b' holds a list"),
        bad("json/repeated-key", '[{"a": 1, "a": 2}]', "bad_record", "repeated"),
        bad("json/repeated-by-dots", '[{"a.b": 1, "a": {"b": 2}}]', "bad_record", "'a.b'"),
        bad("json/nan", '[{"a": NaN}]', "bad_record", "write null"),
        bad("json/infinity", '[{"a": -Infinity}]', "bad_record", "write null"),
        bad("json/beyond-doubles", '[{"a": 1e999}]', "bad_record", "beyond the range"),
        bad("json/half-surrogate", '[{"a": "\\ud800"}]', "bad_record", "surrogate"),
        bad("json/half-surrogate-name", '[{"\\ud800": 1}]', "bad_record", "surrogate"),
        bad("json/many-digits", '[{"a": ' + "9" * 5000 + "}]", "bad_record"),
        bad("json/cut-off", '[{"a": 1}, {"a": ', "bad_record", "breaks off"),
        bad("json/comma-missing", '[{"a": 1} {"a": 2}]', "bad_record", "comma"),
        bad("json/comma-left", '[{"a": 1},]', "bad_record"),
        bad("json/more-behind", '[{"a": 1}] [{"a": 2}]', "trailing_text"),
        bad("json/deep-list", "[" * 200_000 + "]" * 200_000, "bad_record"),
        bad("json/deep-object", '[{"a":' + '{"a":' * 200_000 + "1" + "}" * 200_001 + "]", "bad_record", "deep"),
        bad("json/deep-columns", '{"a":' * 100_000 + "1" + "}" * 100_000, "bad_json", "deep"),
        bad("json/rather-deep", '[{"a":' + '{"a":' * 100 + "1" + "}" * 101 + "]", "bad_record", "deep"),
        bad("json/unequal-columns", '{"a": [1, 2], "b": [1]}', "bad_columns", "'b': 1"),
        bad("json/wrapped", '{"data": [{"a": 1}], "total": 1}', "bad_columns"),
        bad("json/split", '{"columns": ["a"], "index": [0, 1], "data": [[1], [2]]}', "bad_columns"),
        bad("json/by-row-label", '{"r1": {"a": 1}, "r2": {"a": 2}}', "bad_columns", "records"),
        bad("json/comments", '[{"a": 1} // one\n]', "bad_record"),
        bad("json/single-quotes", "[{'a': 1}]", "bad_record"),
        huge("json/too-many-fields", json.dumps([{f"c{i}": 1 for i in range(20_001)}]), "fields"),
    ]  # fmt: skip


def encodings() -> list[Case]:
    """The same record in other encodings."""
    text, want = '[{"ä": "ö€"}]', {"ä": ["ö€"]}
    return [
        good("json/utf-8-mark", codecs.BOM_UTF8 + text.encode(), want),
        *(good(f"json/{code}", text.encode(code), want) for code in ("utf-16", "utf-16-le", "utf-16-be", "utf-32")),
        good("json/cp1252", text.encode("cp1252"), want, "", "encoding"),
        good("json/cp1252-told", text.encode("cp1252"), want, encoding="cp1252"),
        bad("json/wrongly-told", text.encode("cp1252"), "encoding", encoding="utf-8"),
        good("ndjson/utf-16", '{"a": "ö"}\n{"a": "€"}\n'.encode("utf-16"), {"a": ["ö", "€"]}),
    ]


def lines() -> list[Case]:
    """Records on lines."""
    long = '{"a": "' + "x" * 300_000 + '"}\n{"a": "y"}\n'
    return [
        good("ndjson/blank-lines", '\n{"a": 1}\n\n  \n{"a": 2}\n\n', {"a": [1, 2]}),
        good("ndjson/no-end", '{"a": 1}\n{"a": 2}', {"a": [1, 2]}),
        good("ndjson/mark", codecs.BOM_UTF8 + b'{"a": 1}\n{"a": 2}\n', {"a": [1, 2]}),
        good("ndjson/crlf", '{"a": "x"}\r\n{"a": "y"}\r\n', {"a": ["x", "y"]}),
        good("ndjson/long-line", long, {"a": ["x" * 300_000, "y"]}),
        good("ndjson/line-separator", '{"a": "x\u2028y"}\n{"a": "z"}\n', {"a": ["x\u2028y", "z"]}),
        bad("ndjson/cut-off", '{"a": 1}\n{"a": 2}\n{"a": ', "bad_record", "Line 3"),
        bad("ndjson/one-bad-line", '{"a": 1}\n{"a": x}\n{"a": 2}\n', "bad_record", "Line 2"),
        good("ndjson/one-bad-line-left-out", '{"a": 1}\n{"a": x}\n{"a": 2}\n', {"a": [1, 2]}, "", "skipped_rows",
             on_error="skip"),
        bad("ndjson/scalar-line", '{"a": 1}\n5\n', "bad_record", "not an object", format="ndjson"),
        bad("ndjson/array-told-lines", '[{"a": 1}]\n', "bad_record", "not an object", format="ndjson"),
        bad("ndjson/deep", '{"a": 1}\n{"a": ' + "[" * 100_000 + "\n", "bad_record"),
    ]  # fmt: skip
