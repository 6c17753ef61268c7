"""The encoding of a fit request: general policies, and what differs for single columns."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import ConfigDict, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from ml_core.preprocessing.policies import Categorical, DateForm, Missing, Scale, UnknownLevel
from service.api.strict import Strict

FORMS = (
    "Dates as numbers (UTC), one form or a list: epoch is days (date) or seconds (datetime) since 1970-01-01; parts "
    "are year, month, day, weekday (0 is Monday) and, of a datetime, hour with fractions; cyclic is sine and cosine of "
    "the day of the year, the weekday and the hour."
)

ONE: Any = {"type": "string", "enum": list(get_args(DateForm))}


def _forms(value: Any) -> Any:
    """The value, if it is a form of dates or a list of some without repetition."""
    each = [value] if isinstance(value, str) else value
    if not isinstance(each, list) or not each or any(form not in ONE["enum"] for form in each):
        raise PydanticCustomError("date_forms", "Input should be 'epoch', 'parts' or 'cyclic', or a list of some")
    if len({*each}) < len(each):
        raise PydanticCustomError("duplicate", "A form of dates is named twice; name it once")
    return value


Dates = Annotated[Any, PlainValidator(_forms), WithJsonSchema(
    {"anyOf": [ONE, {"type": "array", "items": ONE, "minItems": 1, "uniqueItems": True}]})]  # fmt: skip


class ColumnEncoding(Strict):
    """What differs for one column; null or absent is the general policy."""

    missing: Missing | None = Field(
        None, description="Its empty cells; mean and median only where the column holds numbers, dates or booleans."
    )
    categorical: Categorical | None = Field(None, description="Category and text columns only.")
    unknown_level: UnknownLevel | None = Field(None, description="Category and text columns only.")
    scale: Scale | None = Field(
        None, description="Scale of its matrix columns; all columns with whiten are whitened together."
    )
    date: Dates | None = Field(None, description="Date and datetime columns only: epoch, parts, cyclic, or a list.")


class Encoding(Strict):
    """How columns become numbers; learned from the training rows (of each fold anew) and stored with the model."""

    model_config = ConfigDict(json_schema_extra={"example": {
        "missing": "error", "scale": "standard", "columns": {"sepal_width": {"missing": "median", "scale": "none"}},
    }})  # fmt: skip

    missing: Missing = Field(
        "error",
        description="Empty cells: refuse (naming columns and counts), drop the row, or fill with what the training "
        "rows have: mean, median or most_frequent (of a category always that). indicator fills with the mean and adds "
        "a 0/1 column; a column that had no empty cell in training may have none later (error).",
    )
    categorical: Categorical = Field(
        "one_hot",
        description="Category and text columns: a 0/1 column per level (one for two levels; at most 1,000 levels), "
        "such columns of all levels but the first (reference: what unpenalised fits need for standard errors), "
        "ordinal codes in the order of the levels (at most 10,000), or refuse. Of forests, one_hot suits "
        "columns of few levels, ordinal may suit those of many (docs/encoding.md).",
    )
    unknown_level: UnknownLevel = Field(
        "error",
        description="A level never seen in training; ignored, it has no indicator (of two levels, or beside a "
        "reference, it is the first) and "
        "the ordinal code -1. In validation folds it is always ignored.",
    )
    scale: Scale = Field(
        "none",
        description="Scale of the encoded columns, indicators among them: mean 0 and standard deviation 1 (divisor n), "
        "the range [0, 1], or whiten: uncorrelated with variance 1, each column staying as close to itself as possible "
        "(ZCA of the correlations); a direction below 1.5e-8 of the largest depends on others and becomes 0.",
    )
    date: Dates = Field("epoch", description=FORMS)
    columns: dict[str, ColumnEncoding] = Field(
        default={},
        description="By column name: fields that override the general policies for this column. Of target, weights and "
        "groups only missing: drop_rows or error.",
    )
