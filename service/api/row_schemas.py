"""Request models of which rows are learned from, and which are held out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, WithJsonSchema
from pydantic_core import PydanticCustomError

from service.api.strict import Strict

MAX_DEPTH, MAX_CONDITIONS, MAX_VALUES, MAX_TEXT = 16, 1000, 10_000, 10_000
FORMS = ("and", "or", "not")
OPS = {
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), "<comparison>"),
    **dict.fromkeys(("in", "not_in"), "<membership>"),
    "between": "<between>",
    **dict.fromkeys(("is_null", "not_null"), "<emptiness>"),
}
METHODS = ("none", "holdout", "k_fold", "leave_one_out", "split_column")
MEMBERS = frozenset([f"<{w}>" for w in (*FORMS, *METHODS)] + list(OPS.values()))
"""Names of the members of unions, which pydantic writes into the places of errors and a JSON pointer leaves out."""


def _scalar(value: Any) -> Any:
    """A number, text or boolean as it stands in the JSON text."""
    if value is None:
        raise PydanticCustomError("null_not_allowed", "no cell equals null; the operations is_null and not_null ask "
                                                      "for empty cells")  # fmt: skip
    if not isinstance(value, (bool, int, float, str)):
        raise PydanticCustomError("scalar_type", "expected a number, a text, true or false")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise PydanticCustomError("too_large", "whole numbers have at most 64 bits; write 1e30, say")
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise PydanticCustomError("too_long", f"a text to compare with has at most {MAX_TEXT} characters")
    return value


Scalar = Annotated[
    Any, BeforeValidator(_scalar), WithJsonSchema({"anyOf": [{"type": t} for t in ("number", "string", "boolean")]})
]


def _operation(op: Any) -> Any:
    if not isinstance(op, str) or op not in OPS:
        raise PydanticCustomError("unknown_operation", f"there are the operations {', '.join(OPS)}")
    return op


class _OnColumn(Strict):
    column: str = Field(description="Name of a column of the dataset, whether it is a feature or not.")


class Comparison(_OnColumn):
    """A cell against a value; unknown, and so not selected, where the cell is empty."""

    model_config = ConfigDict(json_schema_extra={"example": {"column": "age", "op": ">=", "value": 30}})
    op: Annotated[Literal["==", "!=", "<", "<=", ">", ">="], BeforeValidator(_operation)] = Field(
        description="Text is ordered by Unicode code points; booleans have == and != only."
    )
    value: Scalar = Field(
        description="Of the column's type: a number, text, a boolean, a date `2024-02-29`, a time as in RFC 3339 (UTC "
        "where it has no zone). Whole numbers beyond 2^53 may be written as text."
    )


class Membership(_OnColumn):
    """A cell among values; unknown, and so not selected, where the cell is empty."""

    model_config = ConfigDict(json_schema_extra={"example": {"column": "island", "op": "in", "value": ["Dream"]}})
    op: Literal["in", "not_in"] = Field(description="Whether it is one of them, or none of them.")
    value: list[Scalar] = Field(min_length=1, max_length=MAX_VALUES, description="Values of the column's type.")


class Between(_OnColumn):
    """A cell between two values, which belong to the interval; unknown where the cell is empty."""

    model_config = ConfigDict(json_schema_extra={"example": {"column": "age", "op": "between", "value": [18, 65]}})
    op: Literal["between"] = Field(description="low ≤ cell ≤ high.")
    value: list[Scalar] = Field(min_length=2, max_length=2, description="[low, high], both of the column's type.")


class Emptiness(_OnColumn):
    """Whether a cell is empty; never unknown."""

    model_config = ConfigDict(json_schema_extra={"example": {"column": "sex", "op": "not_null"}})
    op: Literal["is_null", "not_null"] = Field(description="Whether it is empty, or is not.")


class And(Strict):
    """All conditions hold."""

    and_: list[Condition] = Field(alias="and", min_length=1, description="False where one is false.")


class Or(Strict):
    """One of the conditions holds at least."""

    or_: list[Condition] = Field(alias="or", min_length=1, description="True where one is true.")


class Not(Strict):
    """The condition does not hold; unknown where it is, as of a comparison with an empty cell."""

    not_: Condition = Field(alias="not", description="The condition that must not hold.")


def _form(value: Any) -> str | None:
    """Which kind of condition this is."""
    if not isinstance(value, dict):
        return f"<{type(value).__name__.lower()}>" if isinstance(value, Strict) else None
    word = next((w for w in FORMS if w in value), None)
    op = value.get("op")
    return f"<{word}>" if word else OPS.get(op, "<comparison>") if isinstance(op, str) else "<comparison>"


SHAPES = 'a condition is {"column": …, "op": …, "value": …}, {"and": […]}, {"or": […]} or {"not": {…}}'
Condition = Annotated[
    Annotated[Comparison, Tag("<comparison>")] | Annotated[Membership, Tag("<membership>")]
    | Annotated[Between, Tag("<between>")] | Annotated[Emptiness, Tag("<emptiness>")]
    | Annotated[And, Tag("<and>")] | Annotated[Or, Tag("<or>")] | Annotated[Not, Tag("<not>")],
    Discriminator(_form, custom_error_type="condition_type", custom_error_message=SHAPES),
]  # fmt: skip


def _bounded(where: Any) -> Any:
    """The list of conditions, unless they are too many or nested too deeply to be read."""
    todo, seen = [(one, 1) for one in where] if isinstance(where, list) else [], 0
    while todo:
        one, depth = todo.pop()
        seen += 1
        if depth > MAX_DEPTH:
            raise PydanticCustomError("too_deep", f"conditions are nested at most {MAX_DEPTH} deep")
        if seen > MAX_CONDITIONS:
            raise PydanticCustomError("too_many", f"there are at most {MAX_CONDITIONS} conditions; `in` takes lists")
        if isinstance(one, dict):
            below = [one["not"]] if "not" in one else []
            todo += [(p, depth + 1) for w in ("and", "or") if isinstance(one.get(w), list) for p in one[w]]
            todo += [(p, depth + 1) for p in below]
    return where


Where = Annotated[list[Condition], BeforeValidator(_bounded)]
WHERE_EXAMPLE: Any = [
    {"column": "body_mass_g", "op": "between", "value": [2500, 6500]},
    {"or": [{"column": "island", "op": "in", "value": ["Dream", "Biscoe"]},
            {"not": {"column": "sex", "op": "is_null"}}]},
]  # fmt: skip


CONDITIONS = (
    "Conditions on columns of the dataset that all must hold. A comparison with an empty cell is unknown, so is its "
    f"`not` (as in SQL). At most {MAX_CONDITIONS}, {MAX_DEPTH} deep."
)


class RowChoice(Strict):
    """Which rows of the dataset are used; target classes, levels and scales are those of these rows."""

    model_config = ConfigDict(json_schema_extra={"example": {"where": WHERE_EXAMPLE, "sample": 100}})
    where: Where | None = Field(
        None,
        description=f"{CONDITIONS} Rows are used where they are true.",
    )
    sample: int | None = Field(
        None, ge=1, description="A seeded sample of this many of these rows, without replacement, in table order."
    )


def _method(name: Any) -> Any:
    if not isinstance(name, str) or name not in METHODS:
        raise PydanticCustomError("unknown_method", f"there are the methods {', '.join(METHODS)}")
    return name


class NoValidation(Strict):
    """No rows are held out."""

    method: Annotated[Literal["none"], BeforeValidator(_method)] = Field("none", description="No held-out scores.")


class _Drawn(Strict):
    repeats: int = Field(1, ge=1, le=1000, description="How often, each time with other splits; scores are averaged.")
    stratify: bool = Field(True, description="Spread the classes of a classification evenly over the parts.")
    shuffle: bool = Field(
        True, description="Split at random by the seed; false: in table order, the last rows (of each class) held out."
    )


class Holdout(_Drawn):
    """A share of the rows is held out, at random."""

    method: Literal["holdout"] = Field(description="One split, and one fit more than the model's.")
    fraction: float = Field(0.2, gt=0, lt=1, description="Share of rows (of groups, where given) held out.")


class KFold(_Drawn):
    """Each row is held out once, a fold at a time."""

    model_config = ConfigDict(json_schema_extra={"example": {"method": "k_fold", "k": 5}})
    method: Literal["k_fold"] = Field(description="As many fits more as there are folds.")
    k: int = Field(5, ge=2, le=1000, description="Number of folds.")
    column: str | None = Field(
        None,
        description="Column whose equal values are a fold, instead of drawing k of them. By default it is no feature.",
    )


class LeaveOneOut(Strict):
    """Each row (each group, where given) is held out alone; the scores are those of all these predictions together."""

    method: Literal["leave_one_out"] = Field(
        description="As many fits more as there are rows, at most 1000; no limit where one least-squares fit tells."
    )


class SplitColumn(Strict):
    """Rows are held out by a column; the model is learned from all others and never sees them."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"method": "split_column", "column": "split", "validation": ["test"]}}
    )
    method: Literal["split_column"] = Field(description="No fit more than the model's.")
    column: str = Field(description="Column that tells the parts apart. By default it is no feature.")
    validation: list[Scalar] = Field(
        min_length=1, max_length=MAX_VALUES, description="Its values in rows to score on; each must occur."
    )


def _by_method(value: Any) -> str | None:
    """Which way of validation this is."""
    if isinstance(value, Strict):
        return f"<{getattr(value, 'method', 'none')}>"
    if not isinstance(value, dict):
        return None
    method = value.get("method", "none")
    return f"<{method}>" if isinstance(method, str) and method in METHODS else "<none>"


Validation = Annotated[
    Annotated[NoValidation, Tag("<none>")] | Annotated[Holdout, Tag("<holdout>")] | Annotated[KFold, Tag("<k_fold>")]
    | Annotated[LeaveOneOut, Tag("<leave_one_out>")] | Annotated[SplitColumn, Tag("<split_column>")],
    Discriminator(_by_method, custom_error_type="validation_type",
                  custom_error_message='validation is {"method": …} with the fields of that method'),
]  # fmt: skip
