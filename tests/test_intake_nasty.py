"""Nasty delimited files: each is read right, every change told in a warning, or refused with place and reason.

The expected values are written out by hand; nothing here is taken from a reader.
"""

import codecs
import math
from datetime import UTC, date, datetime

import pytest

from service.errors import TooLarge
from service.intake import delimited, regular
from tests.intake import codes, kinds, refusal, take

NBSP, THIN = "\u00a0", "\u202f"

# what is nasty | file | right values by column | codes of all warnings | what `source` says
RIGHT = [
    # quotes, delimiters, ends of lines
    ("newline in quotes", 'a,b\n1,"x\ny"\n2,z\n', {"a": [1, 2], "b": ["x\ny", "z"]}, (), {}),
    ("CRLF in quotes", 'a,b\r\n1,"x\r\ny"\r\n2,z\r\n', {"a": [1, 2], "b": ["x\r\ny", "z"]}, (), {}),
    ("doubled quotes", 'a,b\n1,"x ""y"""\n2,z\n', {"a": [1, 2], "b": ['x "y"', "z"]}, (), {}),
    ("delimiter in quotes", 'a,b\n"x,y",1\n"z",2\n', {"a": ["x,y", "z"], "b": [1, 2]}, (), {}),
    ("delimiter in a name", '"a,b",c\n1,2\n', {"a,b": [1], "c": [2]}, (), {}),
    ("newline in a name", '"a\nb",c\n1,2\n', {"a b": [1], "c": [2]}, (), {}),
    ("inch marks", 'a,b\n6" pipe,1\n8",2\n', {"a": ['6" pipe', '8"'], "b": [1, 2]}, (), {}),
    ("blanks before quotes", 'a, b\n1, "x, y"\n2, "z"\n', {"a": [1, 2], "b": ["x, y", "z"]}, (), {"delimiter": ","}),
    ("newline behind a blank and a quote", 'a, b\n1, "x\ny"\n2, "z"\n', {"a": [1, 2], "b": ["x\ny", "z"]}, (), {}),
    ("CR only", "a,b\r1,x\r2,y\r", {"a": [1, 2], "b": ["x", "y"]}, (), {}),
    ("mixed ends of lines", "a,b\n1,x\r\n2,y\r3,z", {"a": [1, 2, 3], "b": ["x", "y", "z"]}, (), {}),
    ("line separators of Unicode are no line ends", "a,b\n1,x\u2028y\n2,x\x0cy\n",
     {"a": [1, 2], "b": ["x\u2028y", "x\x0cy"]}, (), {}),
    ("end-of-file mark of DOS", b"a,b\r\n1,x\r\n2,y\r\n\x1a", {"a": [1, 2], "b": ["x", "y"]}, (), {}),
    ("sep= of Excel", "sep=;\na;b\n1,5;2\n", {"a": [1.5], "b": [2]}, (), {"delimiter": ";", "decimal": ","}),
    ("sep= with a mark", "\ufeffsep=;\r\na;b\r\n1,5;2\r\n", {"a": [1.5], "b": [2]}, (), {"delimiter": ";"}),
    ("sep= in quotes", '"sep=,"\na,b\n1,2\n', {"a": [1], "b": [2]}, (), {}),
    ("sep= tab", "sep=\t\na\tb\n1\t2\n", {"a": [1], "b": [2]}, (), {"delimiter": "\t"}),
    ("tilde", "a~b~c\n1~2~x\n4~5~y\n", {"a": [1, 4], "b": [2, 5], "c": ["x", "y"]}, (), {"delimiter": "~"}),
    ("caret", "a^b\n1^2\n3^4\n", {"a": [1, 3], "b": [2, 4]}, (), {"delimiter": "^"}),
    ("control character", "a\x01b\n1\x012\n", {"a": [1], "b": [2]}, (), {"delimiter": "\x01"}),
    ("colons of a password file", "root:x:0\nbin:x:1\nme:x:2\n",
     {"column_1": ["root", "bin", "me"], "column_2": ["x"] * 3, "column_3": [0, 1, 2]}, ("no_header",), {}),
    ("times are not cut at colons", "t\n10:00\n11:30\n", {"t": ["10:00", "11:30"]}, ("time_of_day",), {}),
    ("one column that may be two", "a:b\n1:2\n3:4\n", {"a:b": ["1:2", "3:4"]}, ("one_column",), {}),
    ("commas inside text of a semicolon file", "a;b\nx,y;z\nu,v;w\n", {"a": ["x,y", "u,v"], "b": ["z", "w"]}, (), {}),
    ("tabs and blanks mixed", "a b\tc\n1  2\t3\n4 5   6\n", {"a": [1, 4], "b": [2, 5], "c": [3, 6]}, (),
     {"delimiter": "whitespace"}),
    ("columns of fixed width", "  a   b \n  1   2 \n 10   3 \n", {"a": [1, 10], "b": [2, 3]}, (), {}),
    ("a delimiter at each end", "a,b,\n1,2,\n3,4,\n", {"a": [1, 3], "b": [2, 4]}, ("trailing_delimiter",), {}),
    ("a delimiter at each row's end only", "n,b\nx,2,\ny,4,\n", {"n": ["x", "y"], "b": [2, 4]},
     ("trailing_delimiter",), {}),
    ("an empty name over values", "a,\n1,\n2,5\n", {"a": [1, 2], "column_2": [None, 5]}, ("renamed_columns",), {}),
    # around the table
    ("comments above, between, below", "# c\na,b\n# mid\n1,2\n3,4\n# end, of it\n", {"a": [1, 3], "b": [2, 4]},
     ("comment_lines",), {"skipped_lines": 1}),
    ("comment below only", "a,b\n1,2\n# end\n", {"a": [1], "b": [2]}, ("comment_lines",), {}),
    ("comments with percent signs", "% c\n% d, e\na,b\n1,2\n%f\n", {"a": [1], "b": [2]}, ("comment_lines",), {}),
    ("a comment cut like the header", "# made, 2020\na,b\n1,2\n", {"a": [1], "b": [2]}, (), {"skipped_lines": 1}),
    ("a header in a comment", "# c\n#a,b\n1,2\n", {"#a": [1], "b": [2]}, (), {"skipped_lines": 1}),
    ("hashtags are no comments", "tag,x\n#a,1\n#b,2\nc,3\n", {"tag": ["#a", "#b", "c"], "x": [1, 2, 3]}, (), {}),
    ("hashtags from the first line on", "#tag,x\n#a,1\n#b,2\n", {"#tag": ["#a", "#b"], "x": [1, 2]}, (), {}),
    ("comments of a one-column file", "# c\na\n1\n# d\n2\n", {"a": [1, 2]}, ("comment_lines",), {}),
    ("a title and a date above", "Report of sales\nmade 2020\n\na,b,c\n1,2,3\n4,5,6\n",
     {"a": [1, 4], "b": [2, 5], "c": [3, 6]}, ("preamble",), {"skipped_lines": 3}),
    ("a title with the delimiter in it", "Report; of sales\n\na;b;c\n1,5;2;3\n4,5;5;6\n",
     {"a": [1.5, 4.5], "b": [2, 5], "c": [3, 6]}, ("preamble",), {"delimiter": ";"}),
    ("blank lines everywhere", "\n\na,b\n1,2\n  \n\t\n3,4\n\n\n", {"a": [1, 3], "b": [2, 4]}, (), {}),
    # encodings
    ("mark of UTF-8", "\ufeffid,x\n1,2\n", {"id": [1], "x": [2]}, (), {"encoding": "utf-8"}),
    ("mark and quotes", '\ufeff"id","x"\n1,2\n', {"id": [1], "x": [2]}, (), {}),
    ("UTF-16 LE", codecs.BOM_UTF16_LE + "nä,x\nö,1\n日,2\n".encode("utf-16-le"), {"nä": ["ö", "日"], "x": [1, 2]}, (),
     {"encoding": "utf-16"}),
    ("UTF-16 BE", codecs.BOM_UTF16_BE + "nä,x\nö,1\n".encode("utf-16-be"), {"nä": ["ö"], "x": [1]}, (), {}),
    ("UTF-16 LE without mark", "nä,x\nö,1\n".encode("utf-16-le"), {"nä": ["ö"], "x": [1]}, (),
     {"encoding": "utf-16-le"}),
    ("UTF-16 BE without mark", "nä,x\nö,1\n".encode("utf-16-be"), {"nä": ["ö"], "x": [1]}, (),
     {"encoding": "utf-16-be"}),
    ("UTF-32", codecs.BOM_UTF32_BE + "nä,x\nö,1\n".encode("utf-32-be"), {"nä": ["ö"], "x": [1]}, (), {}),
    ("Latin-1", "naïve,x\nä,1\nö,2\n".encode("latin-1"), {"naïve": ["ä", "ö"], "x": [1, 2]}, ("encoding",),
     {"encoding": "cp1252"}),
    ("euro and smart quotes", "p,x\n€5 a,1\n“q”,2\n".encode("cp1252"), {"p": ["€5 a", "“q”"], "x": [1, 2]},
     ("encoding",), {"encoding": "cp1252"}),
    ("emoji, right to left, combining", "😀,שלום,e\u0301\n1,2,3\n", {"😀": [1], "שלום": [2], "e\u0301": [3]}, (), {}),
    # names
    ("repeated and empty names", "a,,a,a_2\n1,2,3,4\n", {"a": [1], "column_2": [2], "a_3": [3], "a_2": [4]},
     ("renamed_columns",), {}),
    ("names alike but for blanks", "a,a \n1,2\n", {"a": [1], "a_2": [2]}, ("renamed_columns",), {}),
    ("names alike but for case", "a,A\n1,2\n", {"a": [1], "A": [2]}, (), {}),
    ("names in single quotes", "'a','b c'\n1,2\n", {"a": [1], "b c": [2]}, (), {}),
    ("names that mean something elsewhere", "__proto__,constructor,rows,columns,__class__\n1,2,3,4,5\n",
     {"__proto__": [1], "constructor": [2], "rows": [3], "columns": [4], "__class__": [5]}, (), {}),
    ("no header over numbers", "1,2\n3,4\n", {"column_1": [1, 3], "column_2": [2, 4]}, ("no_header",), {}),
    ("no header over dates", "2020-01-01,x\n2020-01-02,y\n",
     {"column_1": [date(2020, 1, 1), date(2020, 1, 2)], "column_2": ["x", "y"]}, ("no_header",), {}),
    ("a header over dates", "day,x\n2020-01-01,p\n2020-01-02,q\n",
     {"day": [date(2020, 1, 1), date(2020, 1, 2)], "x": ["p", "q"]}, (), {}),
    ("one cell", "5\n", {"column_1": [5]}, ("no_header",), {}),
    ("one row", "a,b\n1,x", {"a": [1], "b": ["x"]}, (), {}),
    ("one column of text", "a\nx\ny z\nw\n", {"a": ["x", "y z", "w"]}, (), {}),
    # numbers
    ("decimal comma", "a;b\n1,5;2,5\n3;4,25\n", {"a": [1.5, 3.0], "b": [2.5, 4.25]}, (), {"decimal": ","}),
    ("1,234.5", 'a,b\n"1,234.5",2\n"12,345",3\n7,4\n', {"a": [1234.5, 12345.0, 7.0], "b": [2, 3, 4]},
     ("thousands_separators",), {"thousands": [","]}),
    ("1,234,567 is whole", 'a,b\n"1,234,567",2\n-7,4\n', {"a": [1234567, -7], "b": [2, 4]}, ("thousands_separators",),
     {}),
    ("1.234,5", "a;b\n1.234,5;1\n12.345.678,75;2\n", {"a": [1234.5, 12345678.75], "b": [1, 2]},
     ("thousands_separators",), {"decimal": ",", "thousands": ["."]}),
    ("1 234,5", f"a;b\n1{NBSP}234,5;1\n22{THIN}345,75;2\n7 000,5;3\n",
     {"a": [1234.5, 22345.75, 7000.5], "b": [1, 2, 3]}, ("thousands_separators",), {}),
    ("1'234.5", "a,b\n1'234.5,1\n12’345,2\n", {"a": [1234.5, 12345.0], "b": [1, 2]}, ("thousands_separators",), {}),
    ("groups of one length may be codes", "a,b\n555 123,1\n555 987,2\n", {"a": ["555 123", "555 987"], "b": [1, 2]},
     ("digit_groups",), {}),
    ("1,234 between tabs", "a\tb\n1,234\t1\n12,345\t2\n", {"a": [1234, 12345], "b": [1, 2]},
     ("thousands_separators",), {"decimal": "."}),
    ("0,123 between tabs", "a\tb\n0,123\t1\n2,345\t2\n", {"a": [0.123, 2.345], "b": [1, 2]}, (), {"decimal": ","}),
    ("1.234.567 decides for its neighbours", "a;b\n1.234.567;1.234\n12.345;2.345\n",
     {"a": [1234567, 12345], "b": [1234, 2345]}, ("thousands_separators",), {"decimal": ","}),
    ("Indian groups", 'a,b\n"1,23,456",1\n"12,34,567.5",2\n', {"a": ["1,23,456", "12,34,567.5"], "b": [1, 2]},
     ("digit_groups",), {}),
    ("underscores", "a,b\n1_000,1\n2_000,2\n", {"a": ["1_000", "2_000"], "b": [1, 2]}, ("digit_groups",), {}),
    ("three digits after the only mark", "a;b\n1.234;1\n12.345;2\n", {"a": [1.234, 12.345], "b": [1, 2]},
     ("doubtful_decimal",), {}),
    ("decimal comma in a comma file", 'a,b\n"1,5",1\n"2,25",2\n', {"a": ["1,5", "2,25"], "b": [1, 2]},
     ("decimal_comma",), {}),
    ("both marks in one file", "a;b;c\n1,5;1.5;2,5\n2,5;2.5;3,5\n",
     {"a": [1.5, 2.5], "b": ["1.5", "2.5"], "c": [2.5, 3.5]}, ("decimal_point",), {}),
    ("late text", "x,y\n" + "1,2\n" * 60_000 + "oops,2\n", {"x": ["1"] * 60_000 + ["oops"], "y": [2] * 60_001},
     ("mixed_column",), {}),
    ("late decimal", "x\n" + "4\n" * 60_000 + "3.5\n", {"x": [4.0] * 60_000 + [3.5]}, (), {}),
    ("2^53 + 1", "x\n9007199254740993\n1\n", {"x": [2**53 + 1, 1]}, ("big_integers",), {}),
    ("2^53 + 1 among decimals", "x\n9007199254740993\n1.5\n", {"x": ["9007199254740993", "1.5"]}, ("huge_integers",),
     {}),
    ("large integers that are doubles", "x\n100000000000000000000\n1.5\n", {"x": [1e20, 1.5]}, (), {}),
    ("beyond 64 bits", "x\n9223372036854775808\n1\n", {"x": ["9223372036854775808", "1"]}, ("huge_integers",), {}),
    ("beyond doubles", "x\n1e400\n1\n", {"x": ["1e400", "1"]}, ("out_of_range",), {}),
    ("minus zero", "x\n-0.0\n0.5\n", {"x": [-0.0, 0.5]}, (), {}),
    ("hexadecimal", "x\n0x10\n0xFF\n", {"x": ["0x10", "0xFF"]}, ("leading_zeros",), {}),
    ("exponents", "x\n1e5\n2E7\n", {"x": [1e5, 2e7]}, ("exponents",), {}),
    ("codes with an e", "x\n1e5\n12a\n3e7\n", {"x": ["1e5", "12a", "3e7"]}, ("mixed_column",), {}),
    ("zip codes", "x\n00501\n10115\n", {"x": ["00501", "10115"]}, ("leading_zeros",), {}),
    ("phone numbers", "x\n+491701234567\n+491701234568\n", {"x": ["+491701234567", "+491701234568"]},
     ("leading_plus",), {}),
    ("+3, .5, 5.", "x,y,z\n+3,.5,5.\n-2,-.25,7.\n", {"x": [3, -2], "y": [0.5, -0.25], "z": [5.0, 7.0]}, (), {}),
    ("inf and nan", "x\ninf\n-nan\n-Infinity\n1.5\n", {"x": [math.inf, None, -math.inf, 1.5]}, ("infinite",),
     {"null_counts": {"-nan": 1}}),
    ("padding of no-break spaces", f"x,y\n{NBSP}1,1\n2{NBSP},2\n", {"x": [1, 2], "y": [1, 2]}, (), {}),
    ("digits of other scripts", "x,y\n١٢,1\n３,2\n", {"x": ["١٢", "３"], "y": [1, 2]}, (), {}),
    ("money", 'p,x\n"$1,200",1\n$5,2\n', {"p": ["$1,200", "$5"], "x": [1, 2]}, ("currency",), {}),
    ("percent", "p,x\n12%,1\n5.5%,2\n", {"p": ["12%", "5.5%"], "x": [1, 2]}, ("percent",), {}),
    ("formulas", "f,x\n=1+1,1\n@A1,2\n-1-1,3\n", {"f": ["=1+1", "@A1", "-1-1"], "x": [1, 2, 3]}, (), {}),
    # booleans and times
    ("true and false", "x,y\nTRUE, true\nfalse,false\nNA,?\n", {"x": [True, False, None], "y": [True, False, None]},
     (), {"null_counts": {"?": 1, "NA": 1}}),
    ("yes and no", "x,y,z\nyes,T,1\nno,F,true\n", {"x": ["yes", "no"], "y": ["T", "F"], "z": ["1", "true"]},
     ("mixed_column",), {}),
    ("day beyond 12", "d\n31/01/2020\n01/02/2020\n", {"d": [date(2020, 1, 31), date(2020, 2, 1)]}, ("date_order",), {}),
    ("month first", "d\n01/31/2020\n02/01/2020\n", {"d": [date(2020, 1, 31), date(2020, 2, 1)]}, ("date_order",), {}),
    ("days with points", "d\n1.2.2020\n03.04.2020\n", {"d": [date(2020, 2, 1), date(2020, 4, 3)]}, ("date_order",), {}),
    ("day or month", "d\n01/02/2020\n03/04/2020\n", {"d": ["01/02/2020", "03/04/2020"]}, ("ambiguous_date",), {}),
    ("both orders", "d\n31/01/2020\n01/31/2020\n", {"d": ["31/01/2020", "01/31/2020"]}, ("ambiguous_date",), {}),
    ("no such day", "d\n2021-02-29\n2020-02-29\n", {"d": ["2021-02-29", "2020-02-29"]}, ("date_like",), {}),
    ("year 0", "d\n0000-01-01\n2020-02-29\n", {"d": ["0000-01-01", "2020-02-29"]}, ("date_like",), {}),
    ("zones", "d\n2020-01-01T10:00:00+01:00\n2020-01-01T10:00:00Z\n-\n",
     {"d": [datetime(2020, 1, 1, 9, tzinfo=UTC), datetime(2020, 1, 1, 10, tzinfo=UTC), None]}, (), {}),
    ("zone or none", "d\n2020-01-01T10:00:00+01:00\n2020-01-01T10:00:00\n",
     {"d": ["2020-01-01T10:00:00+01:00", "2020-01-01T10:00:00"]}, ("date_like",), {}),
    ("times of day", "t,x\n10:00,1\n11:30:15,2\n", {"t": ["10:00", "11:30:15"], "x": [1, 2]}, ("time_of_day",), {}),
    # missing values
    ("words for missing", "x,s\n1.5,a\nNA,NA\nn/a,n/a\n#N/A,b\n<NA>,c\nnull,d\nNone,\nNULL,NULL\n",
     {"x": [1.5] + [None] * 7, "s": ["a", None, None, "b", "c", "d", None, None]}, (),
     {"null_counts": {"": 1, "#N/A": 1, "<NA>": 1, "NA": 2, "NULL": 2, "None": 1, "n/a": 2, "null": 1}}),
    ("words for missing among numbers", "x,y\n1.5,1\n?,2\n-,3\n.,4\nn.a.,5\nmissing,6\n#DIV/0!,7\n ,8\n2.5,9\n",
     {"x": [1.5] + [None] * 7 + [2.5], "y": list(range(1, 10))}, (),
     {"null_counts": {"": 1, "#DIV/0!": 1, "-": 1, ".": 1, "?": 1, "missing": 1, "n.a.": 1}}),
    ("the same words among text", "s,y\nab,1\n?,2\nn.a.,3\n", {"s": ["ab", "?", "n.a."], "y": [1, 2, 3]},
     ("like_null",), {}),
    ("a quoted word is itself", 's,y\n"NA",1\nDE,2\nNA,3\n', {"s": ["NA", "DE", None], "y": [1, 2, 3]}, ("like_null",),
     {"null_counts": {"NA": 1}}),
    ("quoted and bare empty cells", 's,x\n"",1\n,\nq,3\n', {"s": [None, None, "q"], "x": [1, None, 3]}, (), {}),
    ("rows of delimiters", "a,b\n1,2\n,\n3,4\n", {"a": [1, None, 3], "b": [2, None, 4]}, (), {}),
    ("a very long cell", "a,b\n" + "x" * 3_000_000 + ",1\ny,2\n", {"a": ["x" * 3_000_000, "y"], "b": [1, 2]}, (), {}),
]  # fmt: skip

# what is nasty | file | options | pointer of the first issue | its code | a word that the message must have
WRONG = [
    ("nothing", "", {}, "/file", "empty_file", "empty"),
    ("a mark only", "\ufeff", {}, "/file", "empty_file", "empty"),
    ("blanks only", "\n\n \n", {}, "/file", "empty_file", "empty"),
    ("a header only", "a,b\n", {}, "/file", "no_rows", "header=false"),
    ("a header in quotes only", '"a","b"\r\n', {}, "/file", "no_rows", "header=false"),
    ("a header and comments", "# c\na,b\n# d\n", {}, "/file", "no_rows", "header=false"),
    ("short row", "a,b\n1,2\n3\n", {}, "/file/line/3", "ragged_row", "on_error=skip"),
    ("long row", "a,b\n1,2\n3,4,5\n", {}, "/file/line/3", "ragged_row", "on_error=skip"),
    ("long row behind a newline in quotes", 'a,b\n"1\n",2\n3,4,5\n', {}, "/file/line/4", "ragged_row", "skip"),
    ("more fields than names in the end", "a,b\n1,2,\n3,4,5\n", {}, "/file/line/2", "ragged_row", "fields"),
    ("bare thousands", "v\n1,000\n2,000\n", {}, "/file/line/2", "ragged_row", "delimiter"),
    ("percent signs without comments above", "a,b\n1,2\n%f\n", {}, "/file/line/3", "ragged_row", "fields"),
    ("hashtag rows of another width", "tag,x\n#a,1\n#b\n", {}, "/file/line/3", "ragged_row", "fields"),
    ("quote that never closes", 'a,b\n1,"x\n2,y\n', {}, "/file/line/2", "unbalanced_quote", "closed"),
    ("quote that closes in a field", 'a,b\n1,"x"y\n2,z\n', {}, "/file/line/2", "unbalanced_quote", "Double"),
    ("quote escaped by a backslash", 'a,b\n1,z\n2,"x\\"y"\n', {}, "/file/line/3", "unbalanced_quote", "backslash"),
    ("NUL byte", b"a,b\n1,x\x00y\n2,z\n", {}, "/file/line/2", "nul_byte", "NUL"),
    ("padding of NUL bytes", b"a,b\n1,x\n2,y\n" + bytes(100), {}, "/file/line/4", "nul_byte", "damaged"),
    ("binary", bytes(range(256)) * 10, {}, "/file", "unread_format", "csv"),
    ("markup", "<html><body>x</body></html>", {}, "/file", "unread_format", "HTML"),
    ("stated UTF-8 that is none", "x,y\n1,a\n2,é\n".encode("latin-1"), {"encoding": "utf-8"}, "/file/line/3",
     "encoding", "cp1252"),
    ("a broken byte in UTF-8", "x,y\nä,ö\nü,".encode() + b"\xff\n", {}, "/file/line/3", "encoding", "Set encoding"),
    ("Japanese that is no UTF-8", "名前,値\n日本,1\n".encode("shift_jis"), {}, "/file/line/1", "encoding", "shift_jis"),
    ("Cyrillic that is no UTF-8", "имя,x\nИван,1\n".encode("cp1251"), {}, "/file/line/1", "encoding", "cp1251"),
    ("a byte that cp1252 lacks", b"p,x\n\x81a,1\nb,2\n", {}, "/file/line/2", "encoding", "81"),
    ("stated type", "a,b\n1,x\n\n2.5,y\nz,w\n", {"types": {"a": "integer"}}, "/file/line/4/column/1", "wrong_type",
     "on_error=missing"),
    ("stated type below a comment", "# c\na\n1\n# d\nz\n", {"types": {"a": "integer"}}, "/file/line/5/column/1",
     "wrong_type", "'z'"),
    ("stated date", "d\n01/02/2020\n03/04/2020\n", {"types": {"d": "date"}}, "/file/line/2/column/1", "wrong_type",
     "'01/02/2020'"),
    ("unknown way with errors", "a\n1\n", {"on_error": "ignore"}, "/on_error", "bad_on_error", "missing"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "columns", "told", "source"), [row[1:] for row in RIGHT],
                         ids=[row[0] for row in RIGHT])  # fmt: skip
def test_read_right(content, columns, told, source):
    got = take(content)
    values = got.table.to_pydict()
    assert values == columns
    for name, cells in columns.items():
        whole = [cell for cell in cells if cell is not None]
        assert {type(cell) for cell in values[name] if cell is not None} == {type(cell) for cell in whole}
    assert codes(got) == set(told)
    assert all(note["message"] for note in got.warnings)
    assert {key: got.source.get(key) for key in source} == source


@pytest.mark.parametrize(("content", "options", "pointer", "code", "word"), [row[1:] for row in WRONG],
                         ids=[row[0] for row in WRONG])  # fmt: skip
def test_refused_with_place_and_reason(content, options, pointer, code, word):
    error = refusal(content, **options)
    assert (error.issues[0].pointer, error.issues[0].code) == (pointer, code)
    assert word in f"{error} {error.issues[0].detail}"


def test_the_corpus_is_large():
    assert len({row[0] for row in RIGHT + WRONG}) == len(RIGHT + WRONG) >= 130


def test_widths():
    names = [f"c{i}" for i in range(5000)]
    wide = take(",".join(names) + "\n" + ",".join(["0." + "3" * 60] * 5000) + "\n")
    assert wide.table.column_names == names
    assert set(wide.table.to_pylist()[0].values()) == {float("0." + "3" * 60)}
    with pytest.raises(TooLarge, match="25000 columns"):
        take(",".join(f"c{i}" for i in range(25_000)) + "\n" + ",".join(["1"] * 25_000))


def test_minus_zero_keeps_its_sign():
    assert math.copysign(1.0, take("x\n-0.0\n0.5\n").table.column(0)[0].as_py()) == -1.0


def test_a_column_of_numbers_but_for_some_cells_counts_and_shows_them():
    rows = [str(i) for i in range(100)]
    for at in (3, 50, 99):
        rows[at] = f"bad {at}"
    got = take("x,y\n" + "".join(f"{cell},{i}\n" for i, cell in enumerate(rows)))
    note = next(note for note in got.warnings if note["code"] == "mixed_column")
    assert (note["column"], note["count"]) == ("x", 3)
    assert note["cells"] == [{"row": at + 1, "value": f"bad {at}"} for at in (3, 50, 99)]
    assert "on_error=missing" in note["advice"]
    assert got.table.column("x").to_pylist() == rows


def test_cells_of_a_stated_type_become_missing_on_request():
    text = "x,d,z\n" + "".join(f"{i},2020-01-01,007\n" for i in range(30)) + "oops,2020-13-01,008\n" * 25 + "?,NA,9\n"
    got = take(text, types={"x": "integer", "d": "date", "z": "integer"}, on_error="missing")
    assert kinds(got) == {"x": "integer", "d": "date", "z": "integer"}
    assert [got.table.column(name).null_count for name in "xdz"] == [26, 26, 0]
    set_missing = {note["column"]: note for note in got.warnings if note["code"] == "set_missing"}
    assert {name: note["count"] for name, note in set_missing.items()} == {"x": 25, "d": 25}
    assert set_missing["x"]["cells"] == [{"row": row, "value": "oops"} for row in range(31, 51)]
    lost = next(note for note in got.warnings if note["code"] == "leading_zeros_lost")
    assert (lost["column"], lost["count"], lost["cells"][0]) == ("z", 55, {"row": 1, "value": "007"})
    assert got.source["null_counts"] == {"?": 1, "NA": 1}


def test_missing_on_request_says_nothing_about_rows_that_cannot_be_cut():
    assert refusal("a,b\n1,2\n3\n", on_error="missing").issues[0].code == "ragged_row"
    assert refusal('{"a": 1}\n{"a": }\n', on_error="missing").issues


def test_stated_numbers_with_groups_and_other_marks():
    got = take('a,b\n"1,234.5",1\n7,2\n"1,5",3\n', types={"a": "number"}, on_error="missing")
    assert got.table.column("a").to_pylist() == [1234.5, 7.0, None]
    assert take("a;b\n1.234;1,5\n-;2,5\n", types={"a": "integer"}).table.to_pydict() == {
        "a": [1234, None], "b": [1.5, 2.5],
    }  # fmt: skip


def test_a_stated_list_of_words_replaces_the_usual_ones():
    got = take("x,s\n1,NA\n-99,b\n,-99\n", null_values=("-99",))
    assert got.table.to_pydict() == {"x": [1, None, None], "s": ["NA", "b", None]}
    assert got.source["null_counts"] == {"": 1, "-99": 2}


@pytest.mark.parametrize("options", [{}, {"encoding": "utf-8"}, {"encoding": "latin-1"}])
@pytest.mark.parametrize("rows", [100_000, 1_200_000])
def test_nul_bytes_far_behind_the_beginning(rows, options):
    error = refusal(b"a,b\n" + b"1,x\n" * rows + b"2,y\x00z\n", **options)
    assert (error.issues[0].pointer, error.issues[0].code) == (f"/file/line/{rows + 2}", "nul_byte")


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_dates_in_text_of_a_stated_type_are_read_where_their_order_is_certain(mark):
    text = f"d{mark}x\n31/12/2020{mark}1\n01/02/2020{mark}2\n"
    got = take(text, types={"d": "date"})
    assert got.table.column("d").to_pylist() == [date(2020, 12, 31), date(2020, 2, 1)]


@pytest.mark.parametrize("body", ['1,"x"y\n', '1,"x" "y"\n', '1,"x""y"z\n', '"1"2,x\n'])
@pytest.mark.parametrize("small", [1 << 30, 0])
def test_text_behind_a_closing_quote_is_refused_in_files_of_any_size(monkeypatch, body, small):
    monkeypatch.setattr(delimited, "SMALL", small)
    monkeypatch.setattr(regular, "LEAST_BYTES", small)
    text = "a,b\n" + "2,y\n" * 50 + body
    assert refusal(text).issues[0].pointer == "/file/line/52"
    assert take(text.replace(body, '1,"x ""y"\n' + '3,6" pipe\n')).table["b"].to_pylist()[50:] == ['x "y', '6" pipe']


@pytest.mark.parametrize("rows", [2, 3, 30])
def test_tables_as_r_writes_them_are_read_at_any_length(rows):
    text = '"x" "y z"\n' + "".join(f'"r{i}" {i} {i}.5\n' for i in range(rows))
    want = {"row": [f"r{i}" for i in range(rows)], "x": list(range(rows)), "y z": [i + 0.5 for i in range(rows)]}
    assert take(text).table.to_pydict() == want
    assert codes(take(text)) == {"row_names"}
