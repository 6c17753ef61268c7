"""Excel workbooks."""

from __future__ import annotations

import datetime as dt
import io
import zipfile

from tests.corpus import xlsx
from tests.corpus.case import Case, bad, good, huge
from tests.corpus.xlsx import line, workbook

HEAD = line(1, "a", "b")
DATE, SECOND = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 23, 59, 59)


def cases() -> list[Case]:
    """Cells of every kind, sheets, and attacks."""
    return [*cells(), *times(), *sheets(), *layouts(), *refused(), *attacks()]


def cell(at: str, inner: str, attributes: str = "") -> str:
    """A cell of the second row."""
    return f'<c r="{at}" {attributes}>{inner}</c>'


def below(*made: str) -> bytes:
    """A workbook with the header a, b and one more row."""
    return workbook(HEAD + f'<row r="2">{"".join(made)}</row>')


def cells() -> list[Case]:
    """Values of one cell."""
    rich = "<si><r><t>bo</t></r><r><rPr><b/></rPr><t>ld</t></r><rPh><t>x</t></rPh></si><si><t> é </t></si>"
    errors = HEAD + line(2, 1, "x") + '<row r="3"><c r="A3" t="e"><v>#DIV/0!</v></c></row>' + line(4, 3)
    formula = "<f>1+1</f><v>2</v>"
    return [
        good("xlsx/numbers", workbook(HEAD + line(2, 1, 0.1) + line(3, None, -2.5e-7) + line(4, 3, 1e21)),
             {"a": [1, None, 3], "b": [0.1, -2.5e-7, 1e21]}, "integer number"),
        good("xlsx/big-integers", workbook(HEAD + line(2, 2**53 + 1, 1) + line(3, -(2**63), 2)),
             {"a": [2**53 + 1, -(2**63)], "b": [1, 2]}, "integer integer", "big_integers"),
        good("xlsx/booleans", workbook(HEAD + line(2, True, 1) + line(3, False, 2)),
             {"a": [True, False], "b": [1, 2]}, "boolean integer"),
        good("xlsx/numbers-as-text", workbook(HEAD + line(2, "12", "007") + line(3, 13, "012")),
             {"a": [12, 13], "b": ["007", "012"]}, "integer category"),
        good("xlsx/percent", workbook(HEAD + line(2, 0.5, 1, style=xlsx.PERCENT)), {"a": [0.5], "b": [1]}),
        good("xlsx/format-with-a-letter", workbook(HEAD + line(2, 40, 1, style=xlsx.PLAIN)), {"a": [40], "b": [1]}),
        good("xlsx/error-cells", workbook(errors), {"a": [1, None, 3], "b": ["x", None, None]}),
        good("xlsx/error-cells-as-text", workbook(errors), {"a": ["1", "#DIV/0!", "3"], "b": ["x", None, None]}, "",
             "mixed_column", null_values=("", "NA")),
        good("xlsx/formula", below(cell("A2", formula), cell("B2", "<f>x</f><v>hey</v>", 't="str"')),
             {"a": [2], "b": ["hey"]}),
        good("xlsx/formula-of-nothing", below(cell("A2", formula), cell("B2", "<f>x</f><v></v>", 't="str"')),
             {"a": [2], "b": [None]}),
        bad("xlsx/formula-without-value", below(cell("A2", "<f>1+1</f><v></v>")), "no_value", "A2"),
        bad("xlsx/formula-without-value-cell", below(cell("B2", "<f>1+1</f>")), "no_value", "B2"),
        good("xlsx/rich-text", workbook(HEAD + '<row r="2"><c r="A2" t="s"><v>0</v></c><c r="B2" t="s"><v>1</v></c>'
             "</row>", shared=rich), {"a": ["bold"], "b": ["é"]}),
        bad("xlsx/text-out-of-range", below(cell("A2", "<v>7</v>", 't="s"')), "damaged_file"),
        bad("xlsx/number-of-letters", below(cell("A2", "<v>12abc</v>")), "damaged_file", "A2"),
        good("xlsx/escapes", workbook(HEAD + line(2, 'a\r\n"b",\t_x', "l\u2028é😀")),
             {"a": ['a\r\n"b",\t_x'], "b": ["l\u2028é😀"]}),
        good("xlsx/no-references", workbook("<row><c t='inlineStr'><is><t>a</t></is></c></row><row><c><v>1</v></c>"
             "</row>"), {"a": [1]}),
    ]  # fmt: skip


def times() -> list[Case]:
    """Dates and times are numbers with a format."""
    serial = 45351
    last = serial + 86399 / 86400
    return [
        good("xlsx/dates", workbook(HEAD + line(2, serial, 1, style=xlsx.DAY) + line(3, serial + 1, style=xlsx.DAY)),
             {"a": [DATE, DATE + dt.timedelta(1)], "b": [dt.date(1900, 1, 1), None]}, "date date"),
        good("xlsx/instants", workbook(HEAD + line(2, last, "x", style=xlsx.INSTANT)
             + line(3, serial, style=xlsx.INSTANT)), {"a": [SECOND, dt.datetime(2024, 2, 29)], "b": ["x", None]},
             "datetime category"),
        good("xlsx/dates-and-instants", workbook(line(1, "a") + line(2, serial, style=xlsx.DAY)
             + line(3, last, style=xlsx.INSTANT)), {"a": [dt.datetime(2024, 2, 29), SECOND]}, "datetime"),
        good("xlsx/microseconds", workbook(line(1, "a") + line(2, serial + 3_723_123_456 / 86.4e9, style=xlsx.INSTANT)),
             {"a": [dt.datetime(2024, 2, 29, 1, 2, 3, 123_456)]}, "datetime"),
        good("xlsx/fifteen-digits", workbook(line(1, "a") + line(2, 45351.4305555556, style=xlsx.INSTANT)),
             {"a": [dt.datetime(2024, 2, 29, 10, 20)]}, "datetime"),
        good("xlsx/own-date-format", workbook(line(1, "a") + line(2, serial, style=xlsx.YEAR)), {"a": [DATE]}, "date"),
        good("xlsx/from-1904", workbook(line(1, "a") + line(2, serial - 1462, style=xlsx.DAY), date1904=True),
             {"a": [DATE]}, "date"),
        good("xlsx/early-1900", workbook(line(1, "a") + line(2, 59, style=xlsx.DAY) + line(3, 61, style=xlsx.DAY)),
             {"a": [dt.date(1900, 2, 28), dt.date(1900, 3, 1)]}, "date"),
        bad("xlsx/day-that-never-was", workbook(line(1, "a") + line(2, 60, style=xlsx.DAY)), "no_date", "A2"),
        bad("xlsx/negative-date", workbook(line(1, "a") + line(2, -5, style=xlsx.DAY)), "no_date", "A2"),
        bad("xlsx/date-beyond-9999", workbook(line(1, "a") + line(2, 1e300, style=xlsx.DAY)), "no_date", "A2"),
        good("xlsx/time-of-day", workbook(line(1, "a") + line(2, 0.75, style=xlsx.CLOCK)), {"a": ["18:00:00"]}),
        good("xlsx/elapsed", workbook(line(1, "a") + line(2, 1.5, style=xlsx.ELAPSED)), {"a": ["36:00:00"]}),
        good("xlsx/iso-date", below(cell("A2", "<v>2024-02-29T23:59:59</v>", 't="d"')), {"a": [SECOND], "b": [None]},
             "datetime number"),
    ]  # fmt: skip


def sheets() -> list[Case]:
    """Which sheet is meant."""
    book = workbook(HEAD + line(2, 1, 2))
    return [
        good("xlsx/sheet-by-name", book, {"a": [1], "b": [2]}, sheet="first & best"),
        good("xlsx/sheet-by-number", book, {"a": [1], "b": [2]}, sheet="1"),
        bad("xlsx/sheet-unknown", book, "unknown_sheet", "first & best", sheet="Tabelle1"),
        bad("xlsx/sheet-of-a-header", book, "no_rows", sheet="7"),
        bad("xlsx/empty-sheet", workbook(""), "no_rows"),
        bad("xlsx/empty-cells", workbook('<row r="3"><c r="B3" s="1"/></row>'), "no_rows"),
    ]


def layouts() -> list[Case]:
    """Where the table stands on the sheet."""
    hidden = line(1, "a") + line(2, 1) + line(3, 2).replace("<row ", '<row hidden="1" ') + line(4, 3)
    merged = '<mergeCells><mergeCell ref="A1:B1"/></mergeCells>'
    late = "".join(line(i, *cells) for i, cells in ((4, ("a", "b")), (5, (1, 2)), (7, (3, 4))))
    styled = '<row r="3"><c r="A3" s="1"/><c r="F3" s="1"/></row>'
    return [
        good("xlsx/leading-blank-rows", workbook(late), {"a": [1, None, 3], "b": [2, None, 4]}),
        good("xlsx/leading-blank-columns", workbook(line(1, None, None, "a") + line(2, None, None, 5)), {"a": [5]}),
        good("xlsx/title-above", workbook(line(1, "Report of 2024") + line(3, "a", "b") + line(4, 1, 2)),
             {"a": [1], "b": [2]}, "", "skipped_lines"),
        good("xlsx/styled-cells-behind", workbook(HEAD + line(2, 1, 2) + styled), {"a": [1], "b": [2]}),
        good("xlsx/hidden-rows", workbook(hidden), {"a": [1, 2, 3]}, "", "hidden_rows"),
        bad("xlsx/merged-header", workbook(HEAD + line(2, 1, 2), extra=merged), "merged_header", "A1:B1"),
        good("xlsx/merged-below", workbook(HEAD + line(2, 1, 2) + line(3, 3) + line(4, 5), extra=merged.replace(
             "1", "4")), {"a": [1, 3, 5], "b": [2, None, None]}),
        good("xlsx/lying-dimension", workbook(HEAD + line(2, 1, 2), before='<dimension ref="A1:XFD1048576"/>'),
             {"a": [1], "b": [2]}),
        good("xlsx/wide", workbook(line(1, *(f"c{i}" for i in range(800))) + line(2, *range(800))),
             {f"c{i}": [i] for i in range(800)}),
    ]  # fmt: skip


def refused() -> list[Case]:
    """Other Office files and broken ones."""
    book = workbook(HEAD + line(2, 1, 2))
    return [
        bad("xlsx/cut-off", book[:-200], "damaged_archive"),
        bad("xlsx/broken-xml", workbook(HEAD + "<row"), "damaged_file"),
        bad("xlsx/no-such-part", workbook(HEAD, parts={f"xl/_rels/{xlsx.BOOK}.xml.rels": "<a/>"}), "damaged_file"),
        bad("xlsx/overwritten", book[:300] + b"\0" * 200 + book[500:], "damaged_file"),
        bad("xls/old", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "unread_format", "password"),
        bad("xlsb/binary", packed("[Content_Types].xml", "xl/workbook.bin"), "unread_format", "XLSB"),
        bad("ods/calc", packed("mimetype", "content.xml", "META-INF/manifest.xml"), "unread_format", "ODS"),
        bad("docx/word", packed("[Content_Types].xml", "word/document.xml"), "unread_format", "Office document"),
    ]


def packed(*names: str) -> bytes:
    """A zip of such files."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name in names:
            archive.writestr(name, "application/vnd.oasis.opendocument.spreadsheet" if name == "mimetype" else "<x/>")
    return sink.getvalue()


ROOT = "worksheet"


def attacks() -> list[Case]:
    """Small files that want much memory."""
    laughs = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10 if i else "lol"}">' for i in range(10))
    bomb = f"<?xml version='1.0'?><!DOCTYPE x [{laughs}]><{ROOT} {xlsx.NAMESPACE}><sheetData><row r='1'>"
    bomb += f"<c r='A1' t='inlineStr'><is><t>&l9;</t></is></c></row></sheetData></{ROOT}>"
    outer = bomb.replace(laughs, '<!ENTITY l9 SYSTEM "file:///etc/passwd">')
    far = HEAD + line(2, 1, 2) + '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    words = f"<si><t>{'w' * 32_000}</t></si>"
    many = HEAD + "".join(f'<row r="{i}"><c r="A{i}" t="s"><v>0</v></c></row>' for i in range(2, 2_200))
    return [
        bad("xlsx/billion-laughs", workbook("", parts={"xl/worksheets/one.xml": bomb}), "xml_entities"),
        bad("xlsx/entity-of-a-file", workbook("", parts={"xl/worksheets/one.xml": outer}), "xml_entities"),
        bad("xlsx/entities-in-the-book", workbook(HEAD, prolog='<!DOCTYPE x [<!ENTITY a "a">]>'), "xml_entities"),
        huge("xlsx/far-cell", workbook(far), "limit"),
        huge("xlsx/one-text-many-times", workbook(many, shared=words), "limit"),
        huge("xlsx/zip-bomb", workbook(HEAD + line(2, 1, 2), extra=" " * (70 << 20)), "limit"),
        bad("xlsx/row-beyond", workbook(HEAD + '<row r="99999999"><c><v>1</v></c></row>'), "damaged_file"),
        bad("xlsx/column-beyond", workbook(HEAD + '<row r="2"><c r="ZZZZ2"><v>1</v></c></row>'), "damaged_file"),
    ]
