"""Aliases: stable names that move atomically from model to model."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from service.api.bodies import StrictRoute
from service.api.deps import Alias, Cursor, IfMatch, IfNoneMatch, Limit, Use, json_response, revision_of, unchanged
from service.api.documents import alias_document, alias_etag
from service.api.problems import document
from service.api.schemas import AliasOut, AliasPut, Listing
from service.errors import Conflict, Invalid, Malformed, NotFound, Stale

router = APIRouter(prefix="/v1/aliases", route_class=StrictRoute, tags=["Models"])
NEW = 0


def _revision(use: Use, alias: str, if_match: str | None, if_none_match: str | None) -> int | None:
    """The revision that the alias must be at; None for any, NEW for none at all. Stale."""
    if if_none_match is not None and if_none_match.strip() == "*":
        return NEW
    if if_match is None:
        return None
    try:
        row = use.aliases.get(alias)
    except NotFound as e:
        raise Stale(f"there is no alias {alias!r}, so it has no version that If-Match names") from e
    return revision_of(if_match, alias_etag(row), row["revision"])


@router.put("/{alias}", operation_id="put_alias", summary="Make or move an alias", response_model=AliasOut,
            responses={201: {"description": "Made", "model": AliasOut},
                       **document(Malformed, NotFound, Conflict, Stale, Invalid)})  # fmt: skip
def put_alias(
    use: Use, alias: Alias, body: AliasPut, if_match: IfMatch = None, if_none_match: IfNoneMatch = None
) -> Response:
    """Point the alias at a ready model; the next request of any server answers from it.

    `If-Match` moves it only from where you saw it, `If-None-Match: *` only makes it. An alias stands wherever a model's
    id stands, and comes before names: it may not be the name of a model, nor begin like an id.
    """
    row, new = use.aliases.put(alias, body.model, _revision(use, alias, if_match, if_none_match))
    headers = {"ETag": alias_etag(row), "Location": alias_document(row)["links"]["self"]}
    return json_response(alias_document(row), 201 if new else 200, headers)


@router.get("", operation_id="list_aliases", summary="List aliases", response_model=Listing,
            responses=document(NotFound, Invalid))  # fmt: skip
def list_aliases(
    use: Use, limit: Limit = 50, cursor: Cursor = None,
    model: Annotated[str | None, Query(description="Only those that point at this model.")] = None,
) -> Response:  # fmt: skip
    """Aliases, by name."""
    page = use.aliases.page(limit=limit, cursor=cursor, model=model)
    return json_response({"items": [alias_document(a) for a in page.items], "next_cursor": page.next_cursor})


@router.get("/{alias}", operation_id="get_alias", summary="One alias", response_model=AliasOut,
            responses=document(NotFound))  # fmt: skip
def get_alias(use: Use, alias: Alias, if_none_match: IfNoneMatch = None) -> Response:
    """Which model the alias points at."""
    row = use.aliases.get(alias)
    headers = {"ETag": alias_etag(row)}
    if unchanged(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return json_response(alias_document(row), headers=headers)


@router.delete("/{alias}", operation_id="delete_alias", summary="Delete an alias", status_code=204,
               responses=document(NotFound, Stale))  # fmt: skip
def delete_alias(use: Use, alias: Alias, if_match: IfMatch = None) -> Response:
    """Delete the alias; its model stays."""
    row = use.aliases.get(alias)
    use.aliases.remove(alias, revision_of(if_match, alias_etag(row), row["revision"]))
    return Response(status_code=204)
