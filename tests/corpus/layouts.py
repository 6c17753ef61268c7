"""Delimited text in odd encodings, with odd line ends, names and layouts; and files with a seam in an odd place."""

from __future__ import annotations

import codecs
from typing import Any

from tests.corpus.case import Case, bad, good

MARK = codecs.BOM_UTF8
BLOCKS = (1 << 20, 8 << 20)
ODD_CODECS = ("idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "base64", "rot13", "klingon")


def cases() -> list[Case]:
    """All of these."""
    return [*encodings(), *no_encodings(), *line_ends(), *seams(), *names(), *shapes(), *comments(), *delimiters()]


def encodings() -> list[Case]:
    """What the bytes are, told or not."""
    people = "имя,город\n" + "Иван,Москва\n" * 50
    read = {"имя": ["Иван"] * 50, "город": ["Москва"] * 50}
    return [
        good("encoding/two-marks", MARK + MARK + b"a,b\n1,x\n", {"a": [1], "b": ["x"]}),
        good("encoding/mark-before-quote", MARK + b'"a","b"\n1,x\n', {"a": [1], "b": ["x"]}),
        good("encoding/mark-before-values", MARK + b"1,2\n3,4\n", {"column_1": [1, 3], "column_2": [2, 4]}, "",
             "no_header"),
        *(good(f"encoding/cyrillic-{code}", people.encode(code), read) for code in ("utf-16-le", "utf-16-be")),
        good("encoding/euro", "a,b\n€ 5 – “x”,1\n".encode("cp1252"), {"a": ["€ 5 – “x”"], "b": [1]}, "", "encoding"),
        good("encoding/gb18030", "a,b\n表格,1\n".encode("gb18030"), {"a": ["表格"], "b": [1]}, encoding="gb18030"),
        good("encoding/utf-7", "a,b\n+AOk-,1\n", {"a": ["é"], "b": [1]}, encoding="utf-7"),
        good("encoding/mark-in-a-cell", "a,b\n\ufeffx,1\n", {"a": ["\ufeffx"], "b": [1]}),
        good("encoding/blanks-of-unicode", "a,b\n\u00a01,1\n2\u00a0,2\n", {"a": [1, 2], "b": [1, 2]}),
        good("encoding/digits-of-others", "a,b\n１２,٣\n３,٤\n", {"a": ["１２", "３"], "b": ["٣", "٤"]}),
        good("encoding/unlike-names", "\u00e9,e\u0301\n1,2\n", {"\u00e9": [1], "e\u0301": [2]}),
        good("encoding/odd-separators", "a,b\nx\u2028y,1\nz\u0085w,2\n", {"a": ["x\u2028y", "z\u0085w"], "b": [1, 2]}),
    ]  # fmt: skip


def no_encodings() -> list[Case]:
    """What cannot be text, or is not what was told."""
    return [
        bad("encoding/mark-of-another", MARK + "a,b\n1,2\n".encode("utf-16-le"), "nul_byte"),
        bad("encoding/half-a-character", "a,b\n1,2\n".encode("utf-16") + b"\0", "encoding"),
        bad("encoding/no-ascii", "a,b\né,1\n", "encoding", "Line 2", encoding="ascii"),
        bad("encoding/surrogates", b"a,b\n\xed\xa0\xbd\xed\xb8\x80,1\n", ""),
        bad("encoding/cyrillic", ("имя,город\n" + "Иван,Москва\n" * 20).encode("cp1251"), "encoding"),
        *(bad(f"encoding/{name}", "a,b\n1,2\n", "unknown_encoding", encoding=name) for name in ODD_CODECS),
        bad("encoding/one-nul", b"a,b\n1,x\0\n", "nul_byte", "Line 2"),
        bad("encoding/only-nul", b"\0" * 100, ""),
    ]


def line_ends() -> list[Case]:
    """Of several kinds in one file, and none that matter."""
    want: dict[str, list[Any]] = {"a": [1, 2], "b": ["x", "y"]}
    return [
        good("lines/crlf-then-lf", "a,b\r\n1,x\n2,y\n", want), good("lines/three-kinds", "a,b\r1,x\n2,y\r\n", want),
        good("lines/ctrl-z", "a,b\n1,x\n2,y\n\x1a", want), good("lines/blank", "\n\na,b\n1,x\n\n2,y\n\n  \n\t\n", want),
        good("lines/quoted-crlf", 'a,b\r\n1,"x\r\ny"\r\n', {"a": [1], "b": ["x\r\ny"]}),
        good("lines/quoted-cr", 'a,b\n1,"x\ry"\n', {"a": [1], "b": ["x\ry"]}),
        good("lines/quoted-blank", 'a,b\n1,"x\n\n\ny"\n', {"a": [1], "b": ["x\n\n\ny"]}),
        good("lines/name-of-two-lines", '"a\nb",c\n1,2\n', {"a b": [1], "c": [2]}),
        good("lines/form-feed", "a,b\n1,x\x0by\n2,z\x0cw\n", {"a": [1, 2], "b": ["x\x0by", "z\x0cw"]}),
        good("lines/only-commas", "a,b\n1,x\n,\n2,y\n", {"a": [1, None, 2], "b": ["x", None, "y"]}),
    ]  # fmt: skip


def seams() -> list[Case]:
    """A quoted field with quotes, delimiters and line ends across the border of a block of any reader."""
    made = [_seam(block, before) for block, before in zip((*BLOCKS, *BLOCKS), (0, 1, 2, 3), strict=True)]
    wide = "y" * (BLOCKS[0] - 7)
    return [
        *made,
        good("seam/letter", f"a,b\n1,{wide}é\n2,q\n", {"a": [1, 2], "b": [f"{wide}é", "q"]}),
        good("seam/line-end", f"a,b\r\n1,{wide}\r\n2,q\r\n", {"a": [1, 2], "b": [wide, "q"]}),
        bad("seam/late-ragged", "a,b\n" + "1,2\n" * 120_000 + "1,2,3\n", "ragged_row", "120002"),
        bad("seam/late-ragged-behind-quotes", "a,b\n" + '1,"x\ny"\n' * 60_000 + "1,2,3\n", "ragged_row", "120002"),
        bad("seam/late-nul", b"a,b\n" + b"1,x\n" * 120_000 + b"2,\0\n", "nul_byte", "120002"),
        *(_late(f"seam/late-{name}", cell, first, last) for name, cell, first, last in (
            ("text", "oops", "1", "oops"), ("zeros", "007", "1", "007"), ("decimal", "1.5", 1.0, 1.5),
            ("huge", f"{2**64 + 1}", "1", f"{2**64 + 1}"), ("big", f"{2**53 + 1}", 1, 2**53 + 1),
            ("unknown", "?", 1, None), ("plus", "+7", 1, 7), ("word", "true", "1", "true"), ("quoted", '"7"', 1, 7),
        )),
    ]  # fmt: skip


def _seam(block: int, before: int) -> Case:
    row, count = "1,xxxxxxxxxx\n", (block - 200) // 13
    text = "a,b\n" + row * count
    cell = "y" * (block - len(text) - 3 - before) + 'q"\n,\r\n' + "z" * 20
    text += '2,"' + cell.replace('"', '""') + '"\n' + row * 10
    values = ["xxxxxxxxxx"] * count + [cell] + ["xxxxxxxxxx"] * 10
    return good(f"seam/{block}-{before}", text, {"a": [1] * count + [2] + [1] * 10, "b": values})


def _late(name: str, cell: str, first: Any, last: Any) -> Case:
    count = 120_000
    want = {"a": [first] * count + [last], "b": [2] * count + [3]}
    return good(name, "a,b\n" + "1,2\n" * count + f"{cell},3\n", want)


def names() -> list[Case]:
    """Names that programs trip over."""
    odd = ["a.b", "c/d", 'e"f', "g~h", "i~1j", "__proto__", "<b>", "a; DROP TABLE x--", "rows", "columns", "x" * 5000]
    quoted = ",".join('"' + name.replace('"', '""') + '"' for name in odd)
    return [
        good("names/odd", quoted + "\n" + ",".join(map(str, range(len(odd)))) + "\n",
             {name: [i] for i, name in enumerate(odd)}),
        good("names/repeated", "a,a,a_2\n1,2,3\n", {"a": [1], "a_3": [2], "a_2": [3]}, "", "renamed_columns"),
        good("names/repeated-but-for-blanks", "a, a\n1,2\n", {"a": [1], "a_2": [2]}, "", "renamed_columns"),
        good("names/years", "2019,2020,2021\n1.5,2.5,3.5\n", {"2019": [1.5], "2020": [2.5], "2021": [3.5]}),
        good("names/capitals", "A,a\n1,2\n", {"A": [1], "a": [2]}),
    ]  # fmt: skip


def shapes() -> list[Case]:
    """Small, narrow and wide."""
    wide = [f"c{i}" for i in range(3000)]
    return [
        good("shape/wide", ",".join(wide) + "\n" + ",".join(map(str, range(3000))) + "\n",
             {name: [i] for i, name in enumerate(wide)}),
        good("shape/one-cell", "a\n1", {"a": [1]}), good("shape/one-value", "1", {"column_1": [1]}, header=False),
        good("shape/one-column-with-gap", "a\n1\n\n2\n", {"a": [1, None, 2]}),
        good("shape/values-only", "1,2,3\n", {"column_1": [1], "column_2": [2], "column_3": [3]}, header=False),
        *(bad(f"shape/nothing-{i}", text, "") for i, text in enumerate((" \n\n", "\n", '"', "a,b", MARK))),
        bad("shape/all-short", "a,b\n1\n2\n3\n", "ragged_row"), bad("shape/no-width", "a,b\n1,2,3\n4,5,6,7\n", ""),
    ]  # fmt: skip


def comments() -> list[Case]:
    """Lines that are no rows, and rows that look like comments."""
    want = {"a": [1, 3], "b": [2, 4]}
    return [
        bad("comments/only", "# a\n# b\n", "only_comments", "'#'"), bad("comments/percent", "% a\n", "only_comments"),
        good("comments/between", "#c\na,b\n1,2\n#c\n3,4\n", want),
        good("comments/last", "a,b\n1,2\n3,4\n# end\n", want),
        good("comments/none", "a,b\n#x,1\n#y,2\n", {"a": ["#x", "#y"], "b": [1, 2]}),
        good("comments/all-rows", "#a,b\n#x,1\n", {"#a": ["#x"], "b": [1]}),
        good("comments/total", "a,b\nx,1\nTotal,3\n", {"a": ["x", "Total"], "b": [1, 3]}),
    ]  # fmt: skip


def delimiters() -> list[Case]:
    """Marks between fields, and what looks like them."""
    want = {"a": [1, 3], "b": [2, 4]}
    return [
        good("delimiter/told-by-the-file", "sep=;\na;b\n1;2\n3;4\n", want),
        *(good(f"delimiter/{ord(mark)}", f"a{mark}b\n1{mark}2\n3{mark}4\n", want) for mark in ("|", "^", "\x1f", "~")),
        good("delimiter/commas-in-quotes", 'a;b\n"x,y";1\n"z,w,v";2\n', {"a": ["x,y", "z,w,v"], "b": [1, 2]}),
        good("delimiter/quote-inside", 'a,b\nx"y,1\n6" pipe,2\n', {"a": ['x"y', '6" pipe'], "b": [1, 2]}),
        bad("delimiter/single-quotes", "a,b\n'x,y',1\n'z,w',2\n", "ragged_row"),
        bad("delimiter/backslash", 'a,b\n"x\\"y",1\n"z",2\n', "unbalanced_quote"),
        good("delimiter/european", "a;b\n1.234.567,89;x\n0,5;y\n", {"a": [1234567.89, 0.5], "b": ["x", "y"]}, "",
             "thousands_separators"),
        good("delimiter/decimal-told", 'a,b\n"1,5",x\n"2,25",y\n', {"a": [1.5, 2.25], "b": ["x", "y"]}, decimal=","),
    ]  # fmt: skip
