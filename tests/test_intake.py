"""Delimited text: dialects, typing, refusals. Oracles: Python's float and the files' own facts."""

import codecs
import math
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pytest

from tests.intake import SAMPLES, codes, kinds, refusal, take


def test_penguins_by_their_own_facts():
    got = take((SAMPLES / "penguins.csv").read_bytes())
    assert got.table.shape == (344, 8)
    assert sum(column.null_count for column in got.table.columns) == 19
    assert kinds(got) == {
        "species": "category", "island": "category", "bill_length_mm": "number", "bill_depth_mm": "number",
        "flipper_length_mm": "integer", "body_mass_g": "integer", "sex": "category", "year": "integer",
    }  # fmt: skip


def test_european_file_equals_the_clean_one():
    clean, european = (take((SAMPLES / name).read_bytes()) for name in ("iris.csv", "iris_eu.csv"))
    assert european.source["delimiter"] == ";"
    assert european.source["decimal"] == ","
    assert clean.types == european.types
    assert clean.table.to_pydict()["species"] == european.table.to_pydict()["species"]
    assert clean.table.column(0).to_pylist() == european.table.column(0).to_pylist()


def test_gzip_and_parquet_samples():
    digits = take((SAMPLES / "digits.csv.gz").read_bytes())
    assert digits.table.shape == (1797, 65)
    assert set(digits.types) == {"integer"}
    assert digits.source["compression"] == "gzip"
    cancer = take((SAMPLES / "breast_cancer.parquet").read_bytes())
    assert cancer.table.shape == (569, 31)
    assert kinds(cancer)["diagnosis"] == "category"


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_delimiters_are_found(mark):
    text = "\n".join(mark.join(row) for row in (["a", "b", "c"], ["1", "x y", "2.5"], ["2", '"q"', "3.5"]))
    got = take(text)
    assert got.source["delimiter"] == mark
    assert got.table.to_pydict() == {"a": [1, 2], "b": ["x y", "q"], "c": [2.5, 3.5]}


def test_any_single_character_delimiter_when_told():
    assert take("a~b\n1~2\n", delimiter="~").table.to_pydict() == {"a": [1], "b": [2]}


def test_runs_of_blanks_under_a_header_of_tabs_and_spaces():
    text = "mpg\tcyl\tpower weight\tname\n"
    text += '18.0   8   130.0      3504.  "chevrolet malibu"\n15.0   4   ?  3693.\t"a ""b"""\n'
    got = take(text)
    assert got.source["delimiter"] == "whitespace"
    assert got.source["null_values"][-1] == "?"
    assert got.table.to_pydict() == {
        "mpg": [18.0, 15.0], "cyl": [8, 4], "power": [130.0, None], "weight": [3504.0, 3693.0],
        "name": ["chevrolet malibu", 'a "b"'],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("encoding", "start", "found"),
    [
        ("utf-8", codecs.BOM_UTF8, "utf-8"), ("utf-16-le", codecs.BOM_UTF16_LE, "utf-16"),
        ("utf-16-be", codecs.BOM_UTF16_BE, "utf-16"), ("utf-16-le", b"", "utf-16-le"), ("utf-16-be", b"", "utf-16-be"),
        ("cp1252", b"", "cp1252"),
    ],
)  # fmt: skip
def test_encodings(encoding, start, found):
    got = take(start + "name,x\nMünchen,1\nKöln,2\n".encode(encoding))
    assert got.source["encoding"] == found
    assert got.table.to_pydict() == {"name": ["München", "Köln"], "x": [1, 2]}
    assert ("encoding" in codes(got)) == (found == "cp1252")


def test_cp1252_byte_far_beyond_the_sample():
    text = "a,b\n" + "1,x\n" * 200_000 + "2,é\n"
    got = take(text.encode("cp1252"))
    assert got.table.column("b")[-1].as_py() == "é"
    assert got.table.num_rows == 200_001


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends(end):
    assert take(f"a,b{end}1,x{end}2,y{end}").table.to_pydict() == {"a": [1, 2], "b": ["x", "y"]}


def test_late_decimals_are_exact():
    got = take("x\n" + "4\n" * 60_000 + "3.5\n")
    assert got.types == ("number",)
    assert got.table.column(0)[-1].as_py() == 3.5
    lines = '{"x": 4}\n' * 60_000 + '{"x": 3.5}\n'
    assert take(lines).table.column(0)[-1].as_py() == 3.5


def test_decimals_are_the_nearest_doubles():
    rng = np.random.default_rng(0)
    words = [f"{m}.{f}e{e}" for m, f, e in rng.integers(0, (10**9, 10**15, 290), size=(2000, 3))]
    words += [
        "-6.860120914",
        "0.1",
        ".11019",
        "5e-324",
        "2.2250738585072011e-308",
        "9007199254740993.0",
        "1e23",
        "8.5e-5",
    ]
    got = take("x,y\n" + "".join(f"{word},a\n" for word in words))
    assert got.table.column("x").to_pylist() == [float(word) for word in words]


def test_integers_keep_every_digit():
    got = take("a,b\n9007199254740993,123456789012345678901234567890\n-9223372036854775808,1\n")
    assert got.table.to_pydict() == {
        "a": [9007199254740993, -(2**63)], "b": ["123456789012345678901234567890", "1"],
    }  # fmt: skip
    assert {"big_integers", "huge_integers"} <= codes(got)


def test_codes_with_leading_zeros_stay_text():
    got = take("zip,x,y,h\n00123,0,0.5,0x10\n10115,10,-0.25,0x11\n")
    assert kinds(got) == {"zip": "category", "x": "integer", "y": "number", "h": "category"}
    assert got.table.column("zip").to_pylist() == ["00123", "10115"]
    assert "leading_zeros" in codes(got)
    assert take("zip\n00123\n7\n", types={"zip": "integer"}).table.to_pydict() == {"zip": [123, 7]}


def test_words_for_missing():
    words = ["", "NA", "N/A", "#N/A", "null", "NULL", "NaN", "nan", "None"]
    got = take("x,s,k\n" + "".join(f"{word},{word},1\n" for word in words) + "1,b,1\n")
    assert got.table.column("x").null_count == got.table.column("s").null_count == 9
    assert kinds(got)["x"] == "integer"


def test_question_mark_and_dash_are_missing_among_numbers_only():
    got = take("x,y,s\n1,1.5,a\n?,-,?\n2,?,-\n")
    assert got.table.to_pydict() == {"x": [1, None, 2], "y": [1.5, None, None], "s": ["a", "?", "-"]}
    assert got.source["null_values"][-2:] == ["?", "-"]
    own = take("x,y\n1,NA\n-99,b\n", null_values=("-99",))
    assert own.table.to_pydict() == {"x": [1, None], "y": ["NA", "b"]}


def test_quoted_word_for_missing_is_text_among_text():
    assert take('land,x\n"NA",1\nDE,2\nNA,3\n').table.column("land").to_pylist() == ["NA", "DE", None]
    assert take('n\n"NA"\n"1.5"\n').table.column("n").to_pylist() == [None, 1.5]


def test_single_quotes_around_every_name():
    assert take("'a b'|'c'\n1|2\n").table.column_names == ["a b", "c"]


def test_names_become_unique():
    got = take("a,,a,a_2\n1,2,3,4\n")
    assert got.table.column_names == ["a", "column_2", "a_3", "a_2"]
    assert "renamed_columns" in codes(got)


def test_header_or_none():
    assert take("1,2.5,x\n3,4.5,y\n").table.column_names == ["column_1", "column_2", "column_3"]
    assert "no_header" in codes(take("1,2\n3,4\n"))
    assert take("Country,1960,1961,1962\nA,1.5,2.5,\nB,3.5,4.5,1.25\n").table.column_names[1] == "1960"
    assert take("a,b\nx,y\n").table.num_rows == 1
    assert take("a,b\nx,y\n", header=False).table.num_rows == 2
    assert take("1,2\n3,4\n", header=True).table.column_names == ["1", "2"]


def test_preamble_and_row_names():
    got = take("# made by hand\n# twice\na,b\n1,2\n")
    assert got.table.to_pydict() == {"a": [1], "b": [2]}
    assert got.source["skipped_lines"] == 2
    assert take("sep=;\na;b\n1;2\n").table.to_pydict() == {"a": [1], "b": [2]}
    assert refusal("v\n1,000\n2,000\n").issues[0].code == "ragged_row"
    assert refusal("a,b\n1,2,3\n").issues[0].code == "ragged_row"
    assert take("#a,b\n1,2\n").table.column_names == ["#a", "b"]
    assert take('"x","y"\n"r1",1,2.5\n"r2",3,4.5\n').table.to_pydict() == {
        "row": ["r1", "r2"],
        "x": [1, 3],
        "y": [2.5, 4.5],
    }


def test_booleans_dates_and_times():
    got = take(
        "b,d,e,t,z,f,n\n"
        "true,2020-02-29,2012/01/01,2020-01-01T10:00:00,2020-01-01T10:00:00+02:00,2020-01-01 10:00:00.123456,yes\n"
        "FALSE,1850-01-01,2012/01/02,2020-01-01 10:00,2020-01-01T10:00:00Z,,no\n"
    )
    assert got.types == ("boolean", "date", "date", "datetime", "datetime", "datetime", "category")
    row = got.table.slice(0, 1).to_pylist()[0]
    assert row["d"] == date(2020, 2, 29)
    assert row["z"] == datetime(2020, 1, 1, 8, tzinfo=UTC)
    assert row["f"] == datetime(2020, 1, 1, 10, 0, 0, 123456)
    assert got.table.schema.field("t").type == pa.timestamp("us")
    assert got.table.schema.field("z").type == pa.timestamp("us", "UTC")


def test_impossible_dates_and_mixed_zones_stay_text():
    got = take("d,t\n2020-13-45,2020-01-01T10:00:00\n2020-01-01,2020-01-01T10:00:00Z\n")
    assert set(got.types) == {"category"}


def test_column_of_numbers_but_for_some_cells():
    got = take("x,y\n1,1\n2,2\noops,3\n4,4\n")
    assert got.types == ("category", "integer")
    note = next(note for note in got.warnings if note["code"] == "mixed_column")
    assert "row 3" in note["message"]
    assert "'oops'" in note["message"]
    assert note["column"] == "x"


def test_overflowing_decimals_stay_text():
    got = take("x\n1e400\n2.5\n")
    assert got.table.column(0).to_pylist() == ["1e400", "2.5"]
    assert "out_of_range" in codes(got)
    inf = take("x\ninf\n2.5\n")
    assert inf.table.column(0).to_pylist() == [math.inf, 2.5]
    assert "infinite" in codes(inf)


def test_category_rule():
    rows = 1000
    text = "few,half,id,pair\n" + "".join(f"l{i % 50},h{i % 51},u{i},{'ab'[i % 2]}\n" for i in range(rows))
    assert take(text).types == ("category", "text", "text", "category")


def test_padded_cells():
    assert take("x, y, s\n1, 2.5, a\n2, NA, b\n").table.to_pydict() == {"x": [1, 2], "y": [2.5, None], "s": ["a", "b"]}


def test_signs():
    got = take("x,y\n+1,+0.5\n-2,-1\n")
    assert got.types == ("integer", "number")
    assert got.table.to_pydict() == {"x": [1, -2], "y": [0.5, -1.0]}


def test_rows_that_are_too_long():
    wide = "x" * (9 << 20)
    assert refusal(f"a,b\n{wide},{wide}\n").issues[0].code == "row_too_long"


def test_stated_types():
    got = take(
        "a,b,c,d\n1,19580329,yes,01\n2,19580405,no,02\n",
        types={"a": "category", "b": "date", "c": "boolean", "d": "text"},
    )
    assert got.table.to_pydict() == {
        "a": ["1", "2"], "b": [date(1958, 3, 29), date(1958, 4, 5)], "c": [True, False], "d": ["01", "02"],
    }  # fmt: skip
    error = refusal("a,b\n1,x\n\n2.5,y\nz,w\n", types={"a": "integer"})
    assert [issue.pointer for issue in error.issues] == ["/file/line/4/column/1", "/file/line/5/column/1"]
    skipped = take("a,b\n1,x\n2.5,y\nz,w\n", types={"a": "integer"}, on_error="skip")
    assert skipped.table.to_pydict() == {"a": [1], "b": ["x"]}
    assert skipped.source["skipped_rows"] == 2
    assert refusal("a\n1\n", types={"q": "text"}).issues[0].code == "unknown_column"


def test_ragged_rows_name_line_reason_and_content():
    text = 'a,b\n"1\n2",x\n3\n4,y,z\n5,w\n'
    error = refusal(text)
    assert [(i.pointer, i.code) for i in error.issues] == [
        ("/file/line/4", "ragged_row"),
        ("/file/line/5", "ragged_row"),
    ]
    assert "'4,y,z'" in error.issues[1].detail
    got = take(text, on_error="skip")
    assert got.table.num_rows == 2
    assert got.source["skipped_rows"] == 2
    many = refusal("a,b\n1,2\n" * 50 + "3\n" * 40)
    assert len(many.issues) == 20


def test_blank_lines_are_no_rows():
    assert take("a,b\n\n1,2\n   \n3,4\n\n").table.to_pydict() == {"a": [1, 3], "b": [2, 4]}
    assert take("a\n1\n\n3\n\n\n").table.to_pydict() == {"a": [1, None, 3]}


@pytest.mark.parametrize("text", ['a,b\n1,"x\n2,y\n', 'a,b\n1,"x\n2,y"z\n3,"w"\n'])
def test_unbalanced_quotes_are_refused(text):
    error = refusal(text)
    assert (error.issues[0].code, error.issues[0].pointer) == ("unbalanced_quote", "/file/line/2")


def test_quote_inside_a_field_is_a_character():
    assert take('a,b\n1,6" pipe\n2,x\n').table.column("b").to_pylist() == ['6" pipe', "x"]
    assert take('a,b\n1,"x\ny"\n').table.column("b").to_pylist() == ["x\ny"]
