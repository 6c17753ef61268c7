"""From a file of any format that is read to one canonical table, or a refusal that says why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ml_core.errors import pointer
from service.errors import Invalid, Issue, TooLarge
from service.intake import arff, misfits
from service.intake.arrays import read_npy, read_npz
from service.intake.arrival import Arrival
from service.intake.columnar import read_arrow, read_parquet
from service.intake.convert import convert, parse
from service.intake.delimited import Cells, Draft, draft, read_cells
from service.intake.encoding import guess_encoding
from service.intake.findings import (
    Json,
    Reading,
    ReadOptions,
    Shelf,
    Type,
    Typed,
    about_column,
    one_chunk,
    refuse,
    warning,
)
from service.intake.jsontext import read_json
from service.intake.libsvm import read_libsvm
from service.intake.nulls import COUNTED, null_counts
from service.intake.sniff import HEAD, binary_format, text_format
from service.intake.types import ODD_NULLS, Rules, big_integers, infer
from service.intake.unpack import archive_format, packing, unpack
from service.intake.workbook import as_text

THREADS = 2
MAX_NAMED = 20
KEPT = {"null_values", "null_counts", "thousands", "skipped_rows"}  # of formats that become text on the way
INVISIBLE = "\ufeff\u200b\u2060"  # marks without width that would make a name one that nobody can type


def read(path: Path, options: ReadOptions, scratch: Path, cap: int, ahead: Draft | None = None) -> Reading:
    """Read a file completely. `scratch` is an empty folder; `cap` bounds the decoded bytes; Invalid, TooLarge.

    `ahead` is what `read_ahead` read of the same file with the same options.
    """
    options.check()
    if not path.stat().st_size:
        raise refuse("/file", "empty_file", "The file is empty.")
    plain, packed = unpack(path, scratch, cap)
    form = options.format or find_format(plain, options)
    source: Json = {"format": form, "compression": packed, "bytes": path.stat().st_size}
    shelf = Shelf(scratch)
    if form in {"xlsx", "arff"}:
        found = as_text(plain, options, scratch, cap) if form == "xlsx" else arff.as_text(plain, options, scratch)
        plain, options, how, notes = found
        return _of_text(plain, options, shelf, source, how, notes)
    if form in {"csv", "tsv"}:
        return _of_text(plain, options, shelf, source, ahead=ahead)
    if form in {"json", "ndjson"}:
        return _of_json(plain, form, options, shelf, source)
    names, columns, notes = _arrays(form, plain, options, shelf, scratch, cap)
    return _assemble(names, columns, options, source, notes)


def read_ahead(text: Arrival, options: ReadOptions, folder: Path) -> Draft | None:
    """Read an upload while it arrives, with files in `folder`; None for what is read when it is there. Broken.

    A draft is all that such a file comes to if it ends as it began: `read` takes it or does without, with one result.
    """
    head = text.part(0, min(HEAD, text.upto(HEAD))).tobytes()
    try:
        if not head or packing(head) or (options.format or find_format(text.path, options)) not in {"csv", "tsv"}:
            return None
        return draft(text, options, folder)
    except (Invalid, TooLarge):
        return None  # which `read` finds again, and says


def _arrays(
    form: str, path: Path, options: ReadOptions, shelf: Shelf, scratch: Path, cap: int
) -> tuple[list[str], list[Typed], list[Json]]:
    """Formats whose columns have types of their own."""
    if form == "libsvm":
        names, columns, skipped = read_libsvm(path, options, shelf, cap)
        text = f"{skipped} rows could not be read and were left out."
        return names, columns, [warning("skipped_rows", text)] if skipped else []
    if form == "npz":
        return *read_npz(path, shelf, cap, scratch), []
    return *{"parquet": read_parquet, "arrow": read_arrow, "npy": read_npy}[form](path, shelf, cap), []


def find_format(path: Path, options: ReadOptions) -> str:
    """By magic bytes, then by the first text; Invalid when it is a format that is not read."""
    with path.open("rb") as file:
        head = file.read(HEAD)
    if not head:
        raise refuse("/file", "empty_file", "The file is empty.")
    found = archive_format(path) if head.startswith(b"PK") else binary_format(head)
    if found:
        return found
    return text_format(head.decode(options.encoding or guess_encoding(head), errors="ignore"))


def _of_text(
    path: Path, options: ReadOptions, shelf: Shelf, source: Json, how: Json | None = None, seen: Sequence[Json] = (),
    ahead: Draft | None = None,
) -> Reading:  # fmt: skip
    cells = read_cells(path, options, shelf, ahead)
    names, notes = tidy_names(cells.names)
    notes = [*seen, *notes]
    rules = Rules(cells.dialect.decimal, options.nulls, options.null_values is None, cells.doubtful(options))
    wanted = _wanted(options, names)
    masks: list[pa.Array] = []

    def column(i: int) -> Typed:
        text = one_chunk(cells.table.column(i))
        if not pa.types.is_string(text.type) and not pa.types.is_large_string(text.type):
            kind: Type = "integer" if pa.types.is_integer(text.type) else "number"
            return Typed(text, kind, big_integers(text) if kind == "integer" else ())
        if names[i] not in wanted:
            typed = infer(text, rules)
        else:
            typed, bad = _stated(text, wanted[names[i]], rules, options)
            if bad is not None and options.on_error == "error":
                raise misfits.refused(names[i], i, wanted[names[i]], text, bad, cells.path, cells.dialect)
            masks.extend([] if bad is None else [bad])
        return replace(typed, array=shelf.keep(typed.array))

    with ThreadPoolExecutor(THREADS) as pool:
        columns = list(pool.map(column, range(len(names))))
    _told(cells, columns, options)
    if masks:
        columns, skipped = _without_rows(columns, masks)
        cells.source["skipped_rows"] = cells.source.get("skipped_rows", 0) + skipped["count"]
        cells.warnings.append(skipped)
    told = cells.source if how is None else {k: v for k, v in cells.source.items() if k in KEPT} | how
    found = _assemble(names, columns, options, source | told, notes + cells.warnings, done=True)
    return replace(found, laid=cells.laid)


def _stated(text: pa.Array, kind: Type, rules: Rules, options: ReadOptions) -> tuple[Typed, pa.Array | None]:
    """The column as the stated type; and the mask of cells that do not fit, unless they are missing on request."""
    values, bad = parse(text, kind, rules)
    notes, odd = misfits.zeros_note(kind, text), misfits.words(text, values, bad)
    notes += misfits.loss_note(kind, text, values)
    misfit = pc.any(bad).as_py()
    if misfit and options.on_error == "missing":
        notes += (misfits.set_missing(kind, text, bad),)
    typed = Typed(values, kind, notes, explicit=True, odd_nulls=odd)
    return typed, bad if misfit and options.on_error != "missing" else None


def _told(cells: Cells, columns: list[Typed], options: ReadOptions) -> None:
    """Say in `source` which words were missing values (counted in files of moderate size) and what parts thousands."""
    odd = {word for column in columns for word, _ in column.odd_nulls}
    cells.source["null_values"] += sorted(odd - set(options.nulls), key=_place)
    if cells.path.stat().st_size <= COUNTED:
        counts = null_counts(cells.path, cells.dialect, cells.table, options.nulls, columns)
        cells.source["null_counts"] = counts
    marks = sorted({note["mark"] for column in columns for note in column.warnings if "mark" in note})
    if marks:
        cells.source["thousands"] = marks


def _place(word: str) -> int:
    return ODD_NULLS.index(word) if word in ODD_NULLS else len(ODD_NULLS)


def _without_rows(columns: list[Typed], masks: list[pa.Array]) -> tuple[list[Typed], Json]:
    """The columns without the rows in which a cell does not fit its stated type, and the warning that counts them."""
    bad = masks[0]
    for mask in masks[1:]:
        bad = pc.or_(bad, mask)
    count = pc.sum(bad).as_py()
    text = f"{count} rows have cells that do not fit the stated types and were left out."
    kept = [replace(column, array=column.array.filter(pc.invert(bad))) for column in columns]
    return kept, warning("skipped_rows", text) | {"count": count}


def _of_json(path: Path, form: str, options: ReadOptions, shelf: Shelf, source: Json) -> Reading:
    builder, how, skipped = read_json(path, form, options, shelf)
    notes = []
    if options.encoding is None and how["encoding"] == "cp1252":
        notes.append(warning("encoding", "The file is not UTF-8; it was read as cp1252.", "Set encoding if not so."))
    if skipped:
        how["skipped_rows"] = skipped
        notes.append(warning("skipped_rows", f"{skipped} records could not be read and were left out."))
    if not builder.rows or not builder.columns:
        raise refuse("/file", "no_rows", "The file has no records.")
    rules = Rules(nulls=options.nulls, odd_nulls=options.null_values is None)
    columns = []
    for name in builder.names():
        typed = builder.typed(name, rules)
        columns.append(replace(typed, array=shelf.keep(typed.array)))
    return _assemble(builder.names(), columns, options, source | how, notes)


def _wanted(options: ReadOptions, names: Sequence[str]) -> dict[str, Type]:
    unknown = [name for name in options.types if name not in names]
    if unknown:
        shown = ", ".join(map(repr, names[:MAX_NAMED]))
        issues = tuple(
            Issue(pointer("types", n), "unknown_column", f"There is no column {n!r}; there are {shown}.")
            for n in unknown
        )
        raise Invalid(issues[0].detail, issues=issues)
    return dict(options.types)  # type: ignore[arg-type]


def _as_stated(names: Sequence[str], columns: list[Typed], options: ReadOptions) -> tuple[list[Typed], list[Json]]:
    """Columns that have types already as the stated types; cells that do not fit are handled as the options say."""
    wanted, masks = _wanted(options, names), []
    rules = Rules(nulls=options.nulls, odd_nulls=options.null_values is None)
    found = list(columns)
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        if name not in wanted:
            continue
        if options.on_error == "skip":
            masks.append(convert(column, wanted[name], rules)[1])
        lenient = options.on_error != "error"
        found[i] = misfits.converted(name, column, wanted[name], rules, missing=lenient, advice=misfits.ADVICE)
    if not any(pc.any(mask).as_py() for mask in masks):
        return found, []
    found, note = _without_rows(found, masks)
    return [replace(c, warnings=tuple(n for n in c.warnings if n["code"] != "set_missing")) for c in found], [note]


def _assemble(
    names: Sequence[str],
    columns: list[Typed],
    options: ReadOptions,
    source: Json,
    notes: list[Json],
    *,
    done: bool = False,
) -> Reading:
    """Check names and stated types, collect the warnings of the columns, make the table."""
    if not columns or not len(columns[0].array):
        raise refuse("/file", "no_rows", "The file has no rows.")
    if not done:
        names, renamed = tidy_names(names)
        notes = renamed + notes
        columns, skipped = _as_stated(names, columns, options)
        notes = notes + skipped
        if not len(columns[0].array):
            raise refuse("/file", "no_rows", "No row has cells that fit the stated types.")
    for name, column in zip(names, columns, strict=True):
        notes += [about_column(name, note) for note in column.warnings]
    empty = [n for n, c in zip(names, columns, strict=True) if c.array.null_count == len(c.array)]
    if empty:
        shown = ", ".join(map(repr, empty[:MAX_NAMED]))
        notes.append(
            warning(
                "empty_columns",
                f"{len(empty)} columns have no value at all: {shown}.",
                "Leave them out of the features.",
            )
        )
    table = pa.table([c.array for c in columns], names=list(names))
    return Reading(table, tuple(c.type for c in columns), source, tuple(notes))


def tidy_names(names: Sequence[str]) -> tuple[list[str], list[Json]]:
    """Names without blanks around them or quotes around all of them; empty and repeated ones are made unique."""
    bare = [re.sub(r"[\x00-\x1f]+", " ", name).strip().strip(INVISIBLE).strip() for name in names]
    notes = []
    if bare and all(len(name) > 2 and name[0] == name[-1] == "'" for name in bare):
        bare = [name[1:-1].strip() for name in bare]
    taken, result, changed = set(bare), [], []
    seen: set[str] = set()
    tried: dict[str, int] = {}
    for i, name in enumerate(bare):
        fresh = name or f"column_{i + 1}"
        if fresh in seen or (not name and fresh in taken):
            k = tried.get(fresh, 2)
            while f"{fresh}_{k}" in taken or f"{fresh}_{k}" in seen:
                k += 1
            tried[fresh] = k
            fresh = f"{fresh}_{k}"
        if fresh != name:
            changed.append(f"column {i + 1} is now {fresh!r}")
        seen.add(fresh)
        result.append(fresh)
    if changed:
        notes.append(warning("renamed_columns", f"Names were empty or repeated: {', '.join(changed[:MAX_NAMED])}."))
    return result, notes
