"""The encoding of a fit request: checked against the table, completed, and told in the model's answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ml_core.certificates import Notice
from ml_core.preprocessing.moments import moment_names
from ml_core.preprocessing.policies import LEVELLED, MOMENTS, Encoding
from ml_core.preprocessing.table import TableEncoder
from ml_core.preprocessing.table_fit import MAX_LEVELS
from service.errors import Invalid, Issue
from service.ports import Json


def completed(asked: Json | None, record: Json, features: Sequence[str]) -> Json:
    """The encoding with every default filled in, also for each column named in it; Invalid points at what misfits."""
    encoding = Encoding.of(asked)
    kinds = {c["name"]: c["type"] for c in record["columns"]}
    issues = [Issue(i.pointer, i.code, i.detail) for i in encoding.misfits(kinds, features)]
    if issues:
        raise Invalid("; ".join(f"{i.pointer}: {i.detail}" for i in issues[:3]), issues=tuple(issues))
    return {
        "missing": encoding.missing, "categorical": encoding.categorical, "unknown_level": encoding.unknown_level,
        "scale": encoding.scale, "date": _form(encoding.date),
        "columns": {name: encoding.resolved(name, kinds[name]) for name in encoding.columns},
    }  # fmt: skip


def _form(date: Sequence[str]) -> Any:
    return date[0] if len(date) == 1 else list(date)


def width(asked: Json | None, record: Json, features: Sequence[str]) -> int:
    """About how many matrix columns the features become."""
    encoding, columns = Encoding.of(asked), {c["name"]: c for c in record["columns"]}
    out = 0
    for name in features:
        kind, policy = columns[name]["type"], encoding.column(name)
        if kind in LEVELLED and policy.categorical == "one_hot":
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
        out |= {"categorical": "one_hot" if f.one_hot else "ordinal",
                "unknown_level": f.unknown_level or encoder.unknown_level}  # fmt: skip
    if f.type in MOMENTS:
        out["date"] = _form(f.date)
    return out | {"scale": f.scale}


def notices(encoder: TableEncoder) -> list[Json]:
    """Facts about the fitted encoding for the model's warnings."""
    w = encoder.whitening
    if w is None or w.rank == len(w.places):
        return []
    return [asdict(Notice(
        "whitened_rank_deficient",
        f"the {len(w.places)} whitened columns have rank {w.rank}: a direction that varies less than 1.5e-8 of the "
        "largest depends on the others and is 0 after whitening",
        "drop a column that follows from others, such as one indicator of each category",
    ))]  # fmt: skip


def left_out(record: Json, request: Json, features: Sequence[str]) -> list[Json]:
    """Which columns were not learned from although nobody said so, and why."""
    if request.get("features"):
        return []
    target = request.get("target")
    taken = {*features, *([target] if isinstance(target, str) else target or []), request.get("weights"),
             request.get("groups"), (request.get("validation") or {}).get("column"),
             *(request.get("exclude") or [])}  # fmt: skip
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
