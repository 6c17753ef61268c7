"""Columns of numbers, near numbers, booleans and words for nothing, as text."""

from __future__ import annotations

from math import inf

from tests.corpus.case import Case, good

COLUMNS = (
    ("2^53+1", ["9007199254740993", "1"], [2**53 + 1, 1], "big_integers"),
    ("2^63-1", ["9223372036854775807", "-9223372036854775808"], [2**63 - 1, -(2**63)], ""),
    ("2^63", ["9223372036854775808", "1"], None, "huge_integers"),
    ("1e400", ["1e400", "1"], None, ""),
    ("-1e400", ["-1e400", "1.5"], None, ""),
    ("1e-400", ["1e-400", "1"], [0.0, 1.0], ""),
    ("denormal", ["5e-324", "2.2250738585072011e-308"], [5e-324, 2.2250738585072011e-308], ""),
    ("halfway", ["9007199254740993.0", "0.1"], [float("9007199254740993.0"), 0.1], ""),
    ("long-digits", ["0.1000000000000000055511151231257827021181583404541015625", "2.5"], [0.1, 2.5], ""),
    ("50digits", ["3.14159265358979323846264338327950288419716939937510", "1"], [3.141592653589793, 1.0], ""),
    ("-0.0", ["-0.0", "1.5"], [-0.0, 1.5], ""),
    ("-0", ["-0", "1"], [0, 1], ""),
    ("hex", ["0x1F", "0x2A"], None, ""),
    ("hexfloat", ["0x1p3", "1.0"], None, ""),
    ("octal", ["0o17", "1"], None, ""),
    ("bin", ["0b11", "1"], None, ""),
    ("underscore", ["1_000", "2"], None, ""),
    ("thousands-dec", ["1,234.5", "2.25"], [1234.5, 2.25], "thousands_separators"),
    ("thousands-mixed", ["1,234", "567", "1,234,567"], [1234, 567, 1234567], "thousands_separators"),
    ("bad-groups", ["1,23", "456"], None, ""),
    ("bad-groups2", ["12,34,567", "1"], None, ""),
    ("leading-group0", ["0,123", "1"], None, ""),
    ("percent", ["5%", "10%"], None, "percent"),
    ("dollar", ["$5.00", "$1,234.50"], None, "currency"),
    ("euro", ["5 €", "10 €"], None, "currency"),
    ("paren-neg", ["(5)", "10"], None, ""),
    ("trailing-minus", ["5-", "10"], None, ""),
    ("thin-space", ["1\u2009234", "12\u2009345"], [1234, 12345], "thousands_separators"),
    ("nnbsp", ["1\u202f234\u202f567", "12\u202f345"], [1234567, 12345], "thousands_separators"),
    ("apostrophe", ["1'234", "12'345"], [1234, 12345], "thousands_separators"),
    ("leading-zeros", ["007", "012"], None, "leading_zeros"),
    ("leading-zero-dec", ["00.5", "1.5"], [0.5, 1.5], ""),
    ("zero-alone", ["0", "00"], None, "leading_zeros"),
    ("+5", ["+5", "-3"], [5, -3], ""),
    ("++5", ["++5", "1"], None, ""),
    ("+-5", ["+-5", "1"], None, ""),
    (".5", [".5", "-.25"], [0.5, -0.25], ""),
    ("5.", ["5.", "1"], [5.0, 1.0], ""),
    ("dot-alone", [".", "1"], [None, 1], ""),
    ("1e5-int", ["1e5", "3"], [100000.0, 3.0], ""),
    ("1E5", ["1E5", "2E+3"], [100000.0, 2000.0], ""),
    ("1d5", ["1d5", "1"], None, ""),
    ("e-alone", ["e5", "1"], None, ""),
    ("1e", ["1e", "1"], None, ""),
    ("inf-words", ["inf", "-Infinity", "1"], [inf, -inf, 1.0], "infinite"),
    ("nan-word", ["nan", "1.5"], [None, 1.5], ""),
    ("-nan", ["-nan", "1.5"], [None, 1.5], ""),
    ("fraction", ["1/2", "3/4"], None, ""),
    ("version", ["1.2.3", "1.2.4"], None, ""),
    ("ip", ["10.0.0.1", "10.0.0.2"], None, ""),
    ("phone", ["+4915112345678", "+4915112345679"], None, "leading_plus"),
    ("isbn", ["0-306-40615-2", "1"], None, ""),
    ("zip-codes", ["02139", "10001"], None, ""),
    ("gene-e", ["2E10", "3E11"], [2e10, 3e11], "exponents"),
    ("minus-space", ["- 5", "1"], None, ""),
    ("inner-space", ["1 5", "1"], None, ""),
    ("very-long-int", ["1" * 400, "1"], None, ""),
    ("very-long-dec", ["1" * 400 + ".5", "1"], None, ""),
    ("tab-padded", ["\t5", "6\t"], [5, 6], ""),
    ("semi-num", ["5;", "6"], None, ""),
    ("unit", ["5 kg", "6 kg"], None, ""),
    ("sci-space", ["1 e5", "2"], None, ""),
    ("roman", ["Ⅷ", "1"], None, ""),
    ("superscript", ["5²", "1"], None, ""),
    ("bool-yes", ["yes", "no"], None, ""),
    ("bool-01", ["0", "1"], [0, 1], ""),
    ("bool-TF", ["T", "F"], None, ""),
    ("bool-TrueFALSE", ["True", "FALSE", "true"], [True, False, True], ""),
    ("bool-mixed", ["true", "1", "false"], None, ""),
    ("bool-null", ["true", "", "NA"], [True, None, None], ""),
    ("null-per-col", ["NA", "1"], [None, 1], ""),
    ("null-text", ["NA", "x"], [None, "x"], ""),
    ("null-quoted", ['"NA"', "x"], ["NA", "x"], ""),
    ("null-?-text", ["?", "x"], None, "like_null"),
    ("null---", ["--", "1"], [None, 1], ""),
    ("null--999", ["-999", "1"], [-999, 1], ""),
    ("null-all", ["NA", "NA"], [None, None], "empty_columns"),
)
"""Name, cells as they stand in the file, values of the column (None: the same text), a warning that must be there."""


def cases() -> list[Case]:
    """Each column beside one of words."""
    made = []
    for name, cells, values, notes in COLUMNS:
        lines = [f'r{i},"{cell}"' if "," in cell else f"r{i},{cell}" for i, cell in enumerate(cells)]
        want = {"id": [f"r{i}" for i in range(len(cells))], "v": list(values or cells)}
        made.append(good(f"number/{name}", "id,v\n" + "\n".join(lines) + "\n", want, "", notes))
    return made
