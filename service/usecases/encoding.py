"""The encoding of a fit request: checked against the table, completed, and told in the model's answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ml_core.certificates import Notice
from ml_core.preprocessing.moments import moment_names
from ml_core.preprocessing.policies import INDICATED, LEVELLED, MOMENTS, Encoding
from ml_core.preprocessing.table import TableEncoder
from ml_core.preprocessing.table_fit import MAX_LEVELS
from service.errors import Invalid, Issue
from service.ports import Json
from service.usecases import tabular


def completed(request: Json, record: Json) -> Json:
    """The encoding of a request whose columns are chosen, with every default filled in, also for each column named.

    Invalid points at what misfits.
    """
    encoding, kinds, others = Encoding.of(request.get("encoding")), tabular.kinds(record), _others(request)
    issues = [Issue(i.pointer, i.code, i.detail) for i in encoding.misfits(kinds, request["features"], others)]
    if issues:
        raise Invalid("; ".join(f"{i.pointer}: {i.detail}" for i in issues[:3]), issues=tuple(issues))
    return {
        "missing": encoding.missing, "categorical": encoding.categorical, "unknown_level": encoding.unknown_level,
        "scale": encoding.scale, "date": _form(encoding.date),
        "columns": {name: dict(own) if name in others else encoding.resolved(name, kinds[name])
                    for name, own in encoding.columns.items()},
    }  # fmt: skip


def _form(date: Sequence[str]) -> Any:
    return date[0] if len(date) == 1 else list(date)


def width(asked: Json | None, record: Json, features: Sequence[str]) -> int:
    """About how many matrix columns the features become."""
    encoding, columns = Encoding.of(asked), {c["name"]: c for c in record["columns"]}
    out = 0
    for name in features:
        kind, policy = columns[name]["type"], encoding.column(name)
        if kind in LEVELLED and policy.categorical in INDICATED:
            out += min(columns[name]["distinct"], MAX_LEVELS)
        else:
            out += len(moment_names(name, kind, policy.date)) if kind in MOMENTS else 1
        out += policy.missing == "indicator" and columns[name]["missing"] > 0
    return out


def schema(encoder: TableEncoder) -> list[Json]:
    """What the model takes, column by column: type, levels, what is done with it, and its matrix columns."""
    return [{"name": f.name, "type": f.type, **({"levels": list(f.levels)} if f.levels else {}),
             "encoding": _done(encoder, f), "columns": f.names} for f in encoder.features]  # fmt: skip


def _done(encoder: TableEncoder, f: Any) -> Json:
    out: Json = {"missing": encoder.missing_of(f), "fill": f.fill}
    if f.type in LEVELLED:
        out |= {"categorical": "reference" if f.reference else "one_hot" if f.one_hot else "ordinal",
                "unknown_level": f.unknown_level or encoder.unknown_level}  # fmt: skip
    if f.type in MOMENTS:
        out["date"] = _form(f.date)
    return out | {"scale": f.scale}


def notices(encoder: TableEncoder, rows: int) -> list[Json]:
    """Facts about an encoding fitted on so many rows for the model's warnings."""
    many = [f"{f.name!r} ({len(f.levels)})" for f in encoder.features if f.one_hot and 2 * len(f.levels) > rows > 4]
    out = [Notice(
        "many_levels",
        f"columns with more levels than half of the {rows} rows: {', '.join(many[:20])}; most of their indicators are "
        "learned from a row or two",
        "exclude them, group rare levels, or take encoding.columns.NAME.categorical = ordinal",
    )] if many else []  # fmt: skip
    w = encoder.whitening
    if w is not None and w.rank < len(w.places):
        out.append(Notice(
            "whitened_rank_deficient",
            f"the {len(w.places)} whitened columns have rank {w.rank}: a direction that varies less than 1.5e-8 of the "
            "largest depends on the others and is 0 after whitening",
            "drop a column that follows from others, such as one indicator of each category",
        ))  # fmt: skip
    return [asdict(notice) for notice in out]


def _others(request: Json) -> list[str]:
    """The columns that a request needs beside its features: target, weights, groups, and the one that splits rows."""
    target, split = request.get("target"), (request.get("validation") or {}).get("column")
    names = [*([target] if isinstance(target, str) else target or []), request.get("weights"), request.get("groups")]
    return [name for name in (*names, split) if name]


def left_out(request: Json, record: Json, asked: Sequence[str] | None) -> list[Json]:
    """Which columns are not learned from although nobody said so, and why; `asked` are features named by the caller."""
    if asked:
        return []
    taken = {*request["features"], *_others(request), *(request.get("exclude") or [])}
    rest = [c for c in record["columns"] if c["name"] not in taken]
    why = [f"{c['name']!r} ({_reason(c, record['rows'])})" for c in rest if c.get("role") != "weights"]
    if not why:
        return []
    return [asdict(Notice("columns_left_out", f"not learned from: {', '.join(why[:20])}"
                          f"{f' and {len(why) - 20} more' if len(why) > 20 else ''}",
                          "name columns in features to learn from them all the same"))]  # fmt: skip


def _reason(column: Json, rows: int) -> str:
    if column.get("role") in ("identifier", "ignore"):
        return f"its role is {column['role']}"
    if column["missing"] == rows:
        return "it has no value"
    return f"all of its {column['distinct']} values differ: an identifier"
