"""What a model answers for rows. The common case of `predict` is served by `api/hot.py` with the same function."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from ml_core.errors import InvalidData
from service.api.bodies import StrictRoute
from service.api.deps import BayesianId, DensityId, ModelId, TransformId, Use, json_response
from service.api.problems import document
from service.api.schemas import (
    DatasetRef,
    InverseRequest,
    Open,
    PosteriorRequest,
    Prediction,
    PredictRequest,
    SampleRequest,
    TransformRequest,
)  # fmt: skip
from service.errors import Conflict, Invalid, Malformed, NotFound, TooLarge, Unsupported

router = APIRouter(prefix="/v1/models/{model_id}", route_class=StrictRoute, tags=["Prediction"])
REFUSALS: dict[int | str, dict[str, Any]] = document(
    Malformed, NotFound, Conflict, Unsupported, TooLarge, Invalid, InvalidData
)


@router.post("/predict", operation_id="predict", summary="Predict rows", response_model=Prediction, responses=REFUSALS)
def predict(use: Use, model_id: ModelId, body: PredictRequest) -> Response:
    """One prediction per row, matched by column name, with probabilities and intervals where the model has them."""
    return json_response(use.inference.predict(model_id, body.model_dump()))


@router.post(
    "/posterior", operation_id="posterior", summary="Predictive distributions", response_model=Open, responses=REFUSALS
)
def posterior(use: Use, model_id: BayesianId, body: PosteriorRequest) -> Response:
    """A distribution for each row; with `joint` their joint distribution, with `samples` draws."""
    return json_response(use.inference.posterior(model_id, body.model_dump()))


@router.get("/posterior", operation_id="parameter_posterior", summary="Posterior over the parameters",
            response_model=Open,
            responses=document(NotFound, Conflict))  # fmt: skip
def parameter_posterior(
    use: Use, model_id: BayesianId,
    level: Annotated[float, Query(gt=0, lt=1, description="Level of the equal-tailed intervals.")] = 0.9,
) -> Response:  # fmt: skip
    """The posterior of each parameter block, where the algorithm keeps one; 409 with the reason otherwise."""
    return json_response(use.inference.parameter_posterior(model_id, level))


@router.post("/transform", operation_id="transform", summary="Transform rows", response_model=Open, responses=REFUSALS)
def transform(use: Use, model_id: TransformId, body: TransformRequest) -> Response:
    """Projections, scaled columns, distances to centres: whatever the transform gives, with names."""
    return json_response(use.inference.transform(model_id, body.model_dump()))


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
    """The usual figures on rows of another dataset."""
    return json_response(use.inference.score(model_id, body.dataset))
