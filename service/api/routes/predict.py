"""What a model answers for rows. The common case of `predict` is served by `api/hot.py` with the same function."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from ml_core.errors import InvalidData
from service.api import rows
from service.api.bodies import StrictRoute
from service.api.deps import (
    BayesianId,
    DensityId,
    Ending,
    IdempotencyKey,
    ModelId,
    Tenant,
    TransformId,
    Use,
    json_response,
)  # fmt: skip
from service.api.examined_schemas import PREFER, answers, documented
from service.api.lenient import examined, preferred, sifted
from service.api.preferences import handling
from service.api.problems import document
from service.api.results import predicted_dataset
from service.api.rows import Charset, Decimal, Delimiter, NullValues, RowsRoute, TableRoute, answered, asked, reading
from service.api.schemas import (
    DatasetRef,
    InverseRequest,
    JobOut,
    Open,
    PosteriorRequest,
    Prediction,
    PredictRequest,
    SampleRequest,
    TransformRequest,
)  # fmt: skip
from service.errors import (
    Conflict,
    Invalid,
    Malformed,
    NotAcceptable,
    NotFound,
    QueueFull,
    TooLarge,
    UnknownMediaType,
    Unsupported,
)  # fmt: skip
from service.usecases.lenient_rows import posteriors, transform_table, transforms

LENIENT = "`handling=lenient`: bad rows are null, with their problem in `errors`, instead of refusing the request."
router, in_rows, in_tables = routers = [
    APIRouter(prefix="/v1/models/{model_id}", route_class=kind, tags=["Prediction"])
    for kind in (StrictRoute, RowsRoute, TableRoute)
]
REFUSALS: dict[int | str, dict[str, Any]] = document(
    Malformed, NotFound, Conflict, Unsupported, TooLarge, Invalid, InvalidData
)
OF_ROWS = REFUSALS | document(UnknownMediaType, NotAcceptable)
EXAMPLE = "sepal_length,sepal_width,petal_length,petal_width\n5.1,3.5,1.4,0.2\n"


@in_tables.post("/predict", operation_id="predict", summary="Predict rows", response_model=Prediction,
                openapi_extra=documented(rows.content("PredictRequest", EXAMPLE)),
                responses={200: answers(rows.tables()), 201: {"description": "It is there", "model": JobOut},
                           202: {"description": "Queued; follow the job", "model": JobOut},
                           **OF_ROWS, **document(QueueFull)})  # fmt: skip
async def predict(
    request: Request, use: Use, ends: Ending, tenant: Tenant, model_id: ModelId,
    proba: Annotated[bool | None, Query(description="Rows alone: class probabilities, true by default.")] = None,
    scores: Annotated[bool | None, Query(description="Rows alone: also the scores that decide.")] = None,
    interval: Annotated[float | None, Query(description="Rows alone: level of a prediction interval.")] = None,
    novelty: Annotated[bool | None, Query(description="Rows alone: how far they lie from the training rows.")] = None,
    delimiter: Delimiter = None, decimal: Decimal = None, encoding: Charset = None, null_values: NullValues = None,
    idempotency_key: IdempotencyKey = None, prefer: Annotated[str | None, Header(description=PREFER)] = None,
) -> Response:  # fmt: skip
    """One prediction per row, matched by column name, with probabilities and intervals where the model has them.

    The body is JSON, or the rows alone as CSV, NDJSON, Arrow or Parquet; the answer is JSON, CSV, Arrow or Parquet by
    `Accept`. A table has the columns prediction, probability_<class>, score, lower and upper; warnings stand in
    `X-Postfit-Warnings` as a JSON list. With `output: dataset` (or `Prefer: respond-async`) a job predicts a dataset.
    """
    text = reading(delimiter, decimal, encoding, null_values)
    options = {"proba": proba, "scores": scores, "interval": interval, "novelty": novelty}
    body = await asked(request, PredictRequest, options, text)
    body = preferred(request, body)
    queued = await predicted_dataset(request, use, ends, tenant, model_id, body, idempotency_key, prefer)
    careful = queued or await examined(request, use, model_id, body)
    return careful or await answered(request, use.inference.predict, use.inference.predict_table, model_id, body)


@in_rows.post("/posterior", operation_id="posterior", summary="Predictive distributions", response_model=Open,
              openapi_extra=rows.content("PosteriorRequest"), responses=OF_ROWS)  # fmt: skip
async def posterior(
    request: Request, use: Use, model_id: BayesianId,
    level: Annotated[float | None, Query(description="Rows alone: level of the intervals, 0.9 by default.")] = None,
    joint: Annotated[bool | None, Query(description="Rows alone: also the joint distribution.")] = None,
    samples: Annotated[int | None, Query(description="Rows alone: number of draws.")] = None,
    seed: Annotated[int | None, Query(description="Rows alone: seed of the draws.")] = None,
    delimiter: Delimiter = None, decimal: Decimal = None, encoding: Charset = None, null_values: NullValues = None,
    prefer: Annotated[str | None, Header(description=LENIENT)] = None,
) -> Response:  # fmt: skip
    """A distribution for each row; with `joint` their joint distribution, with `samples` draws."""
    options = {"level": level, "joint": joint, "samples": samples, "seed": seed}
    body = await asked(request, PosteriorRequest, options, reading(delimiter, decimal, encoding, null_values))
    if handling(request) == "lenient":
        return await sifted(request, posteriors, None, use, model_id, body)
    return json_response(await run_in_threadpool(use.inference.posterior, model_id, body))


@in_tables.post("/transform", operation_id="transform", summary="Transform rows", response_model=Open,
                openapi_extra=rows.content("TransformRequest", EXAMPLE),
                responses={200: rows.tables(), **OF_ROWS})  # fmt: skip
async def transform(
    request: Request, use: Use, model_id: TransformId,
    delimiter: Delimiter = None, decimal: Decimal = None, encoding: Charset = None, null_values: NullValues = None,
    prefer: Annotated[str | None, Header(description=LENIENT)] = None,
) -> Response:  # fmt: skip
    """Projections, scaled columns, distances to centres: whatever the transform gives, with names."""
    body = await asked(request, TransformRequest, {}, reading(delimiter, decimal, encoding, null_values))
    if handling(request) == "lenient":
        return await sifted(request, transforms, transform_table, use, model_id, body)
    return await answered(request, use.inference.transform, use.inference.transform_table, model_id, body)


@router.get("/posterior", operation_id="parameter_posterior", summary="Posterior over the parameters",
            response_model=Open,
            responses=document(NotFound, Conflict))  # fmt: skip
def parameter_posterior(
    use: Use, model_id: BayesianId,
    level: Annotated[float, Query(gt=0, lt=1, description="Level of the equal-tailed intervals.")] = 0.9,
) -> Response:  # fmt: skip
    """The posterior of each parameter block, where the algorithm keeps one; 409 with the reason otherwise."""
    return json_response(use.inference.parameter_posterior(model_id, level))


@router.post("/inverse_transform", operation_id="inverse_transform", summary="Undo a transform", response_model=Open,
             responses=REFUSALS)  # fmt: skip
def inverse_transform(use: Use, model_id: TransformId, body: InverseRequest) -> Response:
    """Rows in the output space back to the columns of the input."""
    return json_response(use.inference.inverse_transform(model_id, body.values))


@router.post("/sample", operation_id="sample", summary="Draw rows", response_model=Open, responses=REFUSALS)
def sample(use: Use, model_id: DensityId, body: SampleRequest) -> Response:
    """Draws from a generative model; equal seeds give equal rows."""
    return json_response(use.inference.sample(model_id, body.n, body.seed))


@router.post(
    "/score", operation_id="score", summary="Score on another dataset", response_model=Open, responses=REFUSALS
)
def score(use: Use, model_id: ModelId, body: DatasetRef) -> Response:
    """The usual figures on the rows of another dataset, or on those of them where conditions hold."""
    where = body.model_dump(by_alias=True)["where"]
    return json_response(use.inference.choosing(where).score(model_id, body.dataset))
