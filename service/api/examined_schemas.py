"""What `handling=lenient` and `novelty` add to a prediction, as the OpenAPI document tells it, with examples."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from service.api.problems import Problem
from service.ports import Json


class RowProblem(BaseModel):
    """Why a row could not be answered."""

    row: int = Field(description="Place of the row, from 0; its prediction, probabilities and interval are null.")
    problem: Problem = Field(description="The problem with which the row would be refused alone.")


class Told(BaseModel):
    """A part of a report; absent fields have no meaning for the column's type."""

    model_config = ConfigDict(extra="allow")


class TwoSampleTest(Told):
    """Whether two samples of independent rows come from one distribution."""

    name: str = Field(description="kolmogorov_smirnov (numbers, moments), chi_squared or fisher_exact (levels, gaps).")
    statistic: float = Field(description="Largest distance of the distribution functions, χ², or difference of shares.")
    p_value: float = Field(description="Never too small: ties, sketches and small counts only make it larger.")
    p_adjusted: float = Field(description="Adjusted by Holm's method for all tests of the request.")
    method: str = Field(description="exact, asymptotic, or permutation (9,999 seeded tables with the same margins).")
    error_bound: float | None = Field(
        None, description="The distance to the full training sample is larger by at most this."
    )


class Gaps(Told):
    """Empty cells."""

    count: int = Field(description="Empty cells in these rows, without unreadable ones.")
    share: float | None = Field(description="Their share.")
    training_share: float | None = Field(description="Their share in the training rows; null where these dropped out.")
    test: TwoSampleTest | None = Field(description="Fisher's exact test of the two shares.")


class NoveltyColumn(Told):
    """How far the cells of one column lie from those of training."""

    name: str = Field(description="Input column.")
    type: str = Field(description="Its type.")
    unreadable: int = Field(description="Cells that are absent or ill-typed (with handling=lenient), left out.")
    missing: Gaps = Field(description="Empty cells here and in training.")
    range: Json | None = Field(
        None, description="Numbers, moments: training [least, largest], cells below and above it, share."
    )
    unseen: Json | None = Field(
        None, description="Levels: cells whose level training never had, and the 20 most frequent."
    )
    test: TwoSampleTest | None = Field(
        description="Cells with a value against those of training; null for one row."
    )
    position: Json | None = Field(
        None,
        description="One row only: shares of training cells below and up to its cell, each as [least, most] possible; "
        "of a level its training_share.",
    )


class NoveltyOverall(Told):
    """All tests together."""

    method: str = Field(description="holm.")
    level: float = Field(
        description="Probability of naming any column if all rows come from one distribution, at most."
    )
    tests: int = Field(description="How many p-values were adjusted.")
    differ: list[str] = Field(description="Columns whose values or gaps differ at that level.")
    smallest_p_adjusted: float | None = Field(description="The least adjusted p-value.")
    statement: str = Field(description="The same in words.")


class Novelty(Told):
    """How far the rows of a request lie from the rows that the model learned from."""

    rows: int = Field(description="Rows of the request.")
    training_rows: int = Field(description="Rows the model learned from, updates included; weights do not count.")
    overall: NoveltyOverall = Field(description="All columns together.")
    columns: list[NoveltyColumn] = Field(description="Each input column.")


GOOD: Json = {"sepal_length": 5.1, "sepal_width": 3.5, "petal_length": 1.4, "petal_width": 0.2}
BAD: Json = GOOD | {"petal_width": "0.2"}
PREFER = (
    "`handling=lenient`: bad rows carry their problem in `errors` instead of refusing the request. Of a dataset: "
    "`respond-async`, and `wait=N` (seconds, at most 60)."
)
REQUESTS: dict[str, Any] = {
    "rows": {"summary": "Rows", "value": {"rows": [GOOD]}},
    "lenient": {"summary": "A bad row among good ones, with Prefer: handling=lenient", "value": {"rows": [GOOD, BAD]}},
    "novelty": {"summary": "How far the rows lie from training", "value": {"rows": [GOOD, GOOD | {"petal_length": 9.0}],
                                                                           "novelty": True}},
}  # fmt: skip
PROBLEM: Json = {
    "type": "/problems/invalid-data", "title": "Invalid data", "status": 422,
    "detail": "/rows/1/petal_width: expected number, got '0.2'", "instance": "/v1/models/iris-species/predict",
    "errors": [{"pointer": "/rows/1/petal_width", "code": "wrong_type", "detail": "expected number, got '0.2'"}],
}  # fmt: skip
LENIENT_ANSWER: Json = {
    "model": "mdl_01h2xcejqtf2nbrexx3vqjhp41", "predictions": ["setosa", None],
    "probabilities": {"classes": ["setosa", "versicolor", "virginica"], "values": [[0.98, 0.02, 0.0], None]},
    "warnings": [], "errors": [{"row": 1, "problem": PROBLEM}],
}  # fmt: skip


def documented(body: Json) -> Json:
    """The OpenAPI description of a body with the examples of predictions."""
    body["requestBody"]["content"]["application/json"]["examples"] = REQUESTS
    return body


def answers(tables: Json) -> Json:
    """The OpenAPI description of the answer: tables, and the JSON answer with its example."""
    shown = {"lenient": {"summary": "With Prefer: handling=lenient", "value": LENIENT_ANSWER}}
    applied = {"description": "handling=lenient where it was asked for.", "schema": {"type": "string"}}
    return {"content": {"application/json": {"examples": shown}, **tables["content"]},
            "headers": {"Preference-Applied": applied, **tables["headers"]}}  # fmt: skip
