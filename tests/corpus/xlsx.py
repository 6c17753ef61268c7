"""Workbooks made by hand, so that each part can be as odd as it likes."""

from __future__ import annotations

import io
import zipfile
from xml.sax.saxutils import escape

NAMESPACE = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
BOOK, SHEETS = "workbook", "worksheets"
KIND = LINKS + "/" + SHEETS.removesuffix("s")
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
FORMATS = ("General", "14", "22", "9", "21", "46", '"day" yyyy', "[$-409]h:mm AM/PM;@", '0.0" d"')
DAY, INSTANT, PERCENT, TIME, ELAPSED, YEAR, CLOCK, PLAIN = range(1, 9)  # places in FORMATS


def workbook(
    rows: str, *, extra: str = "", prolog: str = "", before: str = "", shared: str = "", date1904: bool = False,
    parts: dict[str, str] | None = None,
) -> bytes:  # fmt: skip
    """A workbook of two sheets, the first with these rows; cells have styles by place in FORMATS."""
    own = [(164 + i, code) for i, code in enumerate(FORMATS) if not code.isdecimal()]
    ids = {code: number for number, code in own}
    xfs = "".join(f'<xf numFmtId="{ids.get(code, code)}"/>' for code in FORMATS)
    fmts = "".join(f'<numFmt numFmtId="{n}" formatCode="{escape(c, {chr(34): "&quot;"})}"/>' for n, c in own)
    made = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="xml" '
        'ContentType="application/xml"/><Default Extension="rels" ContentType='
        '"application/vnd.openxmlformats-package.relationships+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{LINKS}/officeDocument" Target="xl/{BOOK}.xml"/></Relationships>',
        f"xl/{BOOK}.xml": f'{prolog}<workbook {NAMESPACE} xmlns:r="{LINKS}"><workbookPr date1904="{int(date1904)}"/>'
        '<sheets><sheet name="first &amp; best" sheetId="1" r:id="a"/><sheet name="7" sheetId="2" r:id="b"/></sheets>'
        f"</{BOOK}>",
        f"xl/_rels/{BOOK}.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">'
        f'<Relationship Id="a" Type="{KIND}" Target="{SHEETS}/one.xml"/>'
        f'<Relationship Id="b" Type="{KIND}" Target="/xl/{SHEETS}/two.xml"/>'
        f'<Relationship Id="t" Type="{LINKS}/sharedStrings" Target="sharedStrings.xml"/>'
        f'<Relationship Id="s" Type="{LINKS}/styles" Target="styles.xml"/></Relationships>',
        "xl/styles.xml": f"<styleSheet {NAMESPACE}><numFmts>{fmts}</numFmts><cellXfs>{xfs}</cellXfs></styleSheet>",
        "xl/sharedStrings.xml": f"<sst {NAMESPACE}>{shared}</sst>",
        f"xl/{SHEETS}/one.xml":
            f"<worksheet {NAMESPACE}>{before}<sheetData>{rows}</sheetData>{extra}</{SHEETS[:-1]}>",
        f"xl/{SHEETS}/two.xml": f"<worksheet {NAMESPACE}><sheetData>{line(1, 'z')}</sheetData></{SHEETS[:-1]}>",
    }  # fmt: skip
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in (made | (parts or {})).items():
            archive.writestr(name, text)
    return sink.getvalue()


def letters(column: int) -> str:
    """`A`, `B`, … `AA` of the columns 0, 1, … ."""
    found = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        found = chr(65 + rest) + found
    return found


def line(row: int, *cells: object, style: int = 0) -> str:
    """One row; None leaves a cell out, floats and ints are numbers, the rest is text."""
    out = []
    for j, cell in enumerate(cells):
        at = f'r="{letters(j)}{row}"'
        if isinstance(cell, bool):
            out.append(f'<c {at} t="b"><v>{int(cell)}</v></c>')
        elif isinstance(cell, str):
            out.append(f'<c {at} t="inlineStr"><is><t xml:space="preserve">{_text(cell)}</t></is></c>')
        elif cell is not None:
            out.append(f'<c {at} s="{style}"><v>{cell!r}</v></c>')
    return f'<row r="{row}">{"".join(out)}</row>'


def _text(cell: str) -> str:
    """Text as Excel writes it: what XML cannot hold is _xHHHH_."""
    kept = cell.replace("_x", "_x005F_x")
    return escape("".join(f"_x{ord(c):04X}_" if c < " " and c not in "\t\n" else c for c in kept))
