"""What an encoding does with each column: the general policy, and for single columns what differs from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from ml_core.errors import Issue, pointer

ColumnType = Literal["number", "integer", "boolean", "category", "text", "date", "datetime"]
Missing = Literal["error", "drop_rows", "mean", "median", "most_frequent", "indicator"]
Categorical = Literal["one_hot", "reference", "ordinal", "error"]
INDICATED = ("one_hot", "reference")
UnknownLevel = Literal["error", "ignore"]
Scale = Literal["none", "standard", "min_max", "whiten"]
DateForm = Literal["epoch", "parts", "cyclic"]
LEVELLED = ("category", "text")
MOMENTS = ("date", "datetime")
UNFILLED = ("error", "drop_rows")


@dataclass(frozen=True)
class Encoding:
    """Policies: missing cells, categories, levels never seen in training, scales, forms of dates.

    `columns` overrides single fields for single columns. `lenient` is for training rows beside which others are held
    out: what only those have, a level or an empty cell, is then no error (the level is ignored, the cell filled).
    """

    missing: Missing = "error"
    categorical: Categorical = "one_hot"
    unknown_level: UnknownLevel = "error"
    scale: Scale = "none"
    date: tuple[DateForm, ...] = ("epoch",)
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    lenient: bool = False

    @classmethod
    def of(cls, document: Mapping[str, Any] | None) -> Self:
        """From JSON: null means not given, and one form of dates may stand without a list around it."""
        given = dict(document or {})
        columns = {name: _present(own) for name, own in (given.pop("columns", None) or {}).items()}
        return cls(**_present(given), columns=columns)

    def column(self, name: str) -> Encoding:
        """The policy of one column."""
        own = dict(self.columns.get(name, {}))
        if self.lenient:
            own["unknown_level"] = "ignore"
        return replace(self, columns={}, **own)

    def drops(self, names: Sequence[str]) -> list[str]:
        """Those of the columns whose empty cells drop their rows."""
        return [name for name in names if self.column(name).missing == "drop_rows"]

    def drops_all(self, names: Sequence[str] | str | None) -> bool:
        """Whether an empty cell in any of the columns drops its row."""
        each = [names] if isinstance(names, str) else list(names or ())
        return self.drops(each) == each

    def held_out(self) -> Encoding:
        """The same for training rows beside which others are held out."""
        return replace(self, lenient=True)

    def resolved(self, name: str, kind: str) -> dict[str, Any]:
        """Every field that means something for a column of this type, as it will be done."""
        own = self.column(name)
        levelled = kind in LEVELLED
        out: dict[str, Any] = {"missing": "most_frequent" if levelled and own.missing in _MEANS else own.missing}
        if levelled:
            out |= {"categorical": own.categorical, "unknown_level": own.unknown_level}
        if kind in MOMENTS:
            out["date"] = own.date[0] if len(own.date) == 1 else list(own.date)
        return out | {"scale": own.scale}

    def misfits(self, kinds: Mapping[str, str], features: Sequence[str], others: Sequence[str] = ()) -> list[Issue]:
        """What cannot be meant: names that no feature has, and fields without meaning for their column's type.

        `kinds` are the types of all columns of the table, `features` those that are learned from, `others` are target,
        weights and groups, whose rows may be dropped.
        """
        out: list[Issue] = []
        for name, own in self.columns.items():
            at = pointer("encoding", "columns", name)
            if name not in kinds:
                out.append(Issue(at, "unknown_column", f"there is no column {name!r}; features are {_some(features)}"))
            elif name in others:
                text = f"{name!r} is no feature; only missing = drop_rows or error means something for it"
                wrong = [k for k, v in own.items() if k != "missing" or v not in UNFILLED]
                out += [Issue(f"{at}/{k}", "not_applicable", text) for k in wrong]
            elif name not in features:
                out.append(Issue(at, "not_a_feature", f"{name!r} is not learned from; features are {_some(features)}"))
            else:
                why = {k: _meaningless(k, v, name, kinds[name]) for k, v in own.items()}
                out += [Issue(f"{at}/{k}", "not_applicable", text) for k, text in why.items() if text]
        return out


_MEANS = ("mean", "median")


def _present(given: Mapping[str, Any]) -> dict[str, Any]:
    out = {k: v for k, v in given.items() if v is not None}
    if "date" in out:
        out["date"] = (out["date"],) if isinstance(out["date"], str) else tuple(out["date"])
    return out


def _meaningless(name: str, value: Any, column: str, kind: str) -> str | None:
    """Why a field says nothing about a column of this type, and what to do."""
    this = f"{column!r} is {kind}"
    if name in ("categorical", "unknown_level") and kind not in LEVELLED:
        return f"{this} and has no levels; leave {name} out or correct the type of the column"
    if name == "date" and kind not in MOMENTS:
        return f"{this}, neither date nor datetime; leave date out or correct the type of the column"
    if name == "missing" and kind in LEVELLED and value in _MEANS:
        return f"{this} and has no {value}; choose most_frequent, indicator or drop_rows"
    return None


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:20])) + (" …" if len(names) > 20 else "")
