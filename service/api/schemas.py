"""Request and response models. The union of estimator specs is built from the registry here and nowhere else."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from service.api.encoding_schema import Encoding
from service.api.examined_schemas import Novelty, RowProblem
from service.api.row_schemas import CONDITIONS, NoValidation, RowChoice, Validation, Where
from service.api.strict import Strict
from service.ports import Json

DEEPEST = 150


def _not_too_deep(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec, of which no value stands deeper than `DEEPEST`."""
    level: list[Any] = [spec]
    for _ in range(DEEPEST):
        inside = [v for part in level for v in (part.values() if isinstance(part, dict) else part)]
        level = [v for v in inside if isinstance(v, (dict, list))]
        if not level:
            return spec
    raise ValueError(f"nested more than {DEEPEST} levels deep")


Spec = Annotated[
    dict[str, Any], AfterValidator(_not_too_deep), WithJsonSchema({"type": "object", "x-spec": "estimator"})
]


class JobLimits(Strict):
    """What the fit may use."""

    wall_seconds: float | None = Field(None, gt=0, le=1e9, description=(
        "Wall-clock limit, seconds. Iterative fits end before it with their best answer and the notice `time_budget`: "
        "a tenth of the time, at least 10 s but no more than half, is left for certificates, scores and saving. What "
        "cannot stop early fails with `timed_out`."))  # fmt: skip
    memory_bytes: int | None = Field(None, gt=0, le=2**53, description="Memory limit, bytes.")
    cores: int | None = Field(None, ge=1, description="Cores; the result does not depend on it.")


LENGTHS = ["sepal_length", "sepal_width", "petal_length", "petal_width"]


def _fit(summary: str, name: str, algorithm: str, **more: Any) -> Any:
    """A named example of a fit on the sample `iris`, whose model the examples of other operations ask."""
    body = {"estimator": {"algorithm": algorithm, "params": {}}, "dataset": "iris", "features": LENGTHS, "name": name}
    return {"summary": summary, "value": body | more}


FIT_EXAMPLES: dict[str, Any] = {
    "classes": _fit("Classes: softmax regression", "iris-species", "logistic_regression", target="species",
                    estimator={"algorithm": "logistic_regression", "params": {"alpha": 1.0}}),
    "posterior": _fit("A posterior: Bayesian linear regression", "iris-width", "bayesian_linear_regression",
                      features=LENGTHS[:3], target="petal_width"),
    "transform": _fit("A transform: principal components", "iris-axes", "principal_component_analysis"),
    "some_rows": _fit("Some rows: conditions, and scores on a fifth of them", "iris-two-species", "logistic_regression",
                      target="species", rows={"where": [
                          {"column": "species", "op": "in", "value": ["versicolor", "virginica"]},
                          {"not": {"column": "petal_width", "op": ">", "value": 2.4}}]},
                      validation={"method": "holdout", "fraction": 0.2},
                      estimator={"algorithm": "logistic_regression", "params": {"alpha": 1.0}}),
    "density": _fit("A density to draw from: Gaussian mixture", "iris-groups", "gaussian_mixture"),
}  # fmt: skip


class FitRequest(Strict):
    """A fit: which algorithm, on which table, to predict what."""

    model_config = ConfigDict(json_schema_extra={"example": FIT_EXAMPLES["classes"]["value"]})
    estimator: Spec = Field(description='Estimator spec: {"algorithm": name, "params": {…}}, nested at will.')
    dataset: str = Field(description="Id or name of a dataset, or the name of a bundled sample.")
    rows: RowChoice | None = Field(None, description="Which rows; all by default.")
    target: str | list[str] | None = Field(
        None, description="Column to predict, several, or none for unsupervised work."
    )
    features: list[str] | None = Field(None, description="Columns to learn from; default: all that are usable.")
    exclude: list[str] | None = Field(None, description="Columns to leave out.")
    weights: str | None = Field(None, description="Column of sample weights.")
    groups: str | None = Field(None, description="Column whose equal values stay together in splits.")
    encoding: Encoding = Field(default_factory=Encoding, description="How columns become numbers.")
    validation: Validation = Field(default_factory=NoValidation, description="Scores on held-out rows.")
    seed: int = Field(0, ge=0, lt=2**63, description="The same request and seed give the same model, bit for bit.")
    name: str | None = Field(
        None, min_length=1, max_length=200, pattern=r"^[^@/\x00-\x1f\x7f]+$", description="Name; versions count up."
    )
    labels: dict[str, str] = Field(default={}, description="Your own key–value labels.")
    limits: JobLimits = Field(default_factory=JobLimits, description="What the fit may use.")
    spread: bool = Field(False, description="Over the Dask cluster, where one is configured; the model is the same.")
    priority: int = Field(0, ge=-10, le=10, description="Higher runs earlier.")

    def request(self) -> Json:
        """The body as plain JSON values."""
        return self.model_dump(mode="json", by_alias=True)


class Rows(Strict):
    """Rows to answer for: exactly one of rows, columns, dataset."""

    rows: list[dict[str, Any]] | None = Field(None, description="One object per row, by column name.")
    columns: dict[str, list[Any]] | None = Field(None, description="One list per column.")
    dataset: str | None = Field(None, description="Id of a dataset, or its name.")


ROW_EXAMPLE: Any = dict(zip(LENGTHS, [5.1, 3.5, 1.4, 0.2], strict=True))


class PredictRequest(Rows):
    """Rows to predict."""

    model_config = ConfigDict(json_schema_extra={"example": {"rows": [ROW_EXAMPLE]}})
    proba: bool = Field(True, description="Class probabilities where the model has them.")
    scores: bool = Field(False, description="Also the scores that decide, also where there are no probabilities.")
    interval: float | None = Field(None, gt=0, lt=1, description="Level of a prediction interval.")
    novelty: bool = Field(False, description="Also tell how far the rows lie from the training rows, column by column.")
    output: Literal["answer", "dataset"] = Field(
        "answer", description="`dataset`: a job predicts the dataset, of any size, and stores the result as a dataset."
    )
    keep: list[str] | None = Field(None, description="Output dataset: columns of the source that stand before.")
    name: str | None = Field(None, min_length=1, max_length=200, description="Output dataset: its name.")


class PosteriorRequest(Rows):
    """Rows whose predictive distribution is wanted."""

    model_config = ConfigDict(json_schema_extra={"example": {"rows": [ROW_EXAMPLE], "level": 0.9}})
    level: float = Field(0.9, gt=0, lt=1, description="Level of the equal-tailed intervals.")
    joint: bool = Field(False, description="Also the joint distribution of all rows.")
    samples: int | None = Field(None, ge=1, le=10_000, description="Number of draws.")
    seed: int = Field(0, ge=0, description="Seed of the draws.")


class TransformRequest(Rows):
    """Rows to transform."""

    model_config = ConfigDict(json_schema_extra={"example": {"rows": [ROW_EXAMPLE]}})


class InverseRequest(Strict):
    """Rows in the output space of a transform."""

    model_config = ConfigDict(json_schema_extra={"example": {"values": [[0.1, -0.2, 0.3, 0.4]]}})
    values: list[list[float]] = Field(min_length=1, description="Rows in the output space.")


class SampleRequest(Strict):
    """How many draws."""

    model_config = ConfigDict(json_schema_extra={"example": {"n": 5, "seed": 0}})
    n: int = Field(1, ge=1, le=100_000, description="Number of rows to draw.")
    seed: int = Field(0, ge=0, description="Seed of the draws.")


class DatasetRef(Strict):
    """A dataset to score on, or some of its rows."""

    model_config = ConfigDict(json_schema_extra={"example": {
        "dataset": "iris", "where": [{"column": "petal_length", "op": ">", "value": 1.5}]}})  # fmt: skip
    dataset: str = Field(description="Id or name of a dataset with the model's columns and target.")
    where: Where | None = Field(None, description=f"{CONDITIONS} Figures are of those rows; all by default.")


class ModelPatch(Strict):
    """Fields of a model that may change."""

    model_config = ConfigDict(json_schema_extra={"example": {"labels": {"stage": "trial"}}})
    labels: dict[str, str] = Field(description="Replaces the labels.")


class AliasPut(Strict):
    """Where an alias points."""

    model_config = ConfigDict(json_schema_extra={"example": {"model": "iris-species"}})
    model: str = Field(min_length=1, description="Id, name, name@version or another alias of a model that is ready.")


class DatasetPatch(Strict):
    """Fields of a dataset that may change; columns by name."""

    model_config = ConfigDict(json_schema_extra={"example": {"description": "Fisher's iris"}})
    name: str | None = Field(None, min_length=1, max_length=200, description="New name.")
    description: str | None = Field(None, max_length=10_000, description="New description.")
    labels: dict[str, str] | None = Field(None, description="Replaces the labels.")
    columns: dict[str, dict[str, Any]] | None = Field(
        None, description=(
            "Corrections by column name: `role`, `type`, `levels` (the order), `misfits` (`error` or `missing`: cells "
            "that do not fit the type), `format` (of dates, such as `%d/%m/%Y`)."
        )
    )


class Open(BaseModel):
    """A response model: fields documented here, more may come in later versions."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())


class ModelOut(Open):
    """A model."""

    id: str = Field(description="Identifier.", examples=["mdl_01h2xcejqtf2nbrexx3vqjhp41"])
    name: str = Field(description="Name; equal to the id when none was given.")
    version: int = Field(description="1, 2, … within a name.")
    state: str = Field(description="queued, running, ready, failed or cancelled.")
    job: str | None = Field(description="The job that fits it.")
    algorithm: str = Field(description="Name of the algorithm.")
    estimator: Json = Field(description="The spec with every default filled in.")
    dataset: str = Field(description="The dataset it learned from.")
    target: Json | None = Field(description="Name, type and classes of the target.")
    features: list[Any] = Field(
        description="Input schema: name, type, levels; `encoding`: what is done with it; `columns`: its matrix columns."
    )
    encoding: Json = Field(description="The encoding that was asked for, every default filled in.")
    selection: Json | None = Field(
        None, description="`where` and `sample` as asked, `rows_in_table` and `rows_selected`; null after an update."
    )
    metrics: Json | None = Field(
        description="Figures on training and held-out rows, never mixed, and a `verdict` on their difference: code and "
        "message, or null with the `verdict_reason`."
    )
    warnings: list[Any] = Field(description="Facts about the fit: code, message, advice.")
    capabilities: list[str] = Field(description="What the model can do.")
    tags: list[str] = Field(description="How textbooks classify it; a composition by what it is composed of.")
    fit_seconds: float | None = Field(description="Wall-clock seconds of the fit.")
    artifact: Json | None = Field(description="Bytes and SHA-256 of the joblib file.")
    created_at: str = Field(description="RFC 3339, UTC.")
    error: Json | None = Field(description="Why it failed.")
    links: dict[str, str] = Field(description="Related addresses.")


class JobOut(Open):
    """A job."""

    id: str = Field(description="Identifier.")
    kind: str = Field(description="fit, update, forget, predict or sweep.")
    state: str = Field(description="queued, running, succeeded, failed or cancelled.")
    resource: str = Field(description="What it makes.")
    progress: Json | None = Field(description="fraction, step, total, unit, message, metrics.")
    attempts: int = Field(description="Attempts so far.")
    attempt_records: list[Any] | None = Field(
        None, description="One job only: attempt, host, exit_code, peak_rss_bytes, cpu_seconds, error (a code),"
        " finished_at of each ended attempt."
    )
    log_tail: str | None = Field(None, description="One job only: the end of what the work printed.")
    queue_position: int | None = Field(description="Jobs before it, while queued.")
    worker: str | None = Field(description="Who works on it.")
    submitted_at: str = Field(description="RFC 3339, UTC.")
    started_at: str | None = Field(description="RFC 3339, UTC.")
    finished_at: str | None = Field(description="RFC 3339, UTC.")
    error: Json | None = Field(description="Why it failed: a problem with a `code`.")


class AliasOut(Open):
    """An alias."""

    alias: str = Field(description="The stable name.")
    model: str = Field(description="Id of the model it points at.")
    updated_at: str = Field(description="When it last moved; RFC 3339, UTC.")
    links: dict[str, str] = Field(description="Related addresses.")


class Prediction(Open):
    """Predictions, in the order of the rows."""

    model: str = Field(description="Id of the model that answered.")
    predictions: list[Any] = Field(description="One value per row.")
    probabilities: Json | None = Field(None, description="classes and values (rows × classes).")
    scores: Json | None = Field(None, description="classes and values (rows × classes; of two one, ≥ 0 is the second).")
    intervals: list[Any] | None = Field(None, description="[low, high] per row.")
    errors: list[RowProblem] | None = Field(None, description="With handling=lenient: the rows that are null, and why.")
    novelty: Novelty | None = Field(None, description="With novelty: how far the rows lie from the training rows.")
    warnings: list[str] = Field(description="Columns that were not used, and the like.")


class Listing(Open):
    """One page of a collection, newest first."""

    items: list[Any] = Field(description="The page.")
    next_cursor: str | None = Field(description="Pass as `cursor` for the next page; null at the end.")


class Certified(Open):
    """Diagnostics of a fit."""

    summary: Json = Field(description="Figures by name; null where one has no meaning.")
    certificates: list[Any] = Field(description="name, value, tolerance, holds, meaning; recomputed from the answer.")
    tables: Json = Field(description="columns and rows by name.")
    traces: Json = Field(description="Lists of numbers by name.")
    curves: Json = Field(description="x, y and more by name.")
    matrices: Json = Field(description="Matrices by name.")
    warnings: list[Any] = Field(description="code, message, advice.")

