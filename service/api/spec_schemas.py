"""Components of the OpenAPI document for specs: estimators, kernels and losses, each as a union of its names."""

from __future__ import annotations

from typing import Any

from ml_core.kernels import kernel_schemas
from ml_core.losses.every import LOSSES
from ml_core.params import schema_of
from ml_core.registry import algorithms

Json = dict[str, Any]


def spec_schemas() -> dict[str, Json]:
    """`EstimatorSpec`, `KernelSpec` and `LossSpec` with their members."""
    kernels, losses = kernel_schemas(), {name: schema_of(cls) for name, cls in sorted(LOSSES.items())}
    named = {"anyOf": [{"type": "string", "enum": list(losses)}, {"$ref": "#/components/schemas/LossWithParameters"}]}
    return {
        **_estimators(), **_parts("kernel", "KernelSpec", kernels),
        **_parts("loss", "LossWithParameters", losses), "LossSpec": named,
    }  # fmt: skip


def link(node: Any) -> None:
    """Replace each `x-spec: what` by a reference to the union of that name."""
    if isinstance(node, list):
        for value in node:
            link(value)
    if not isinstance(node, dict):
        return
    if what := node.get("x-spec"):
        kept = {k: node[k] for k in ("description",) if k in node}
        node.clear()
        node.update({"$ref": f"#/components/schemas/{what.capitalize()}Spec", **kept})
    for value in node.values():
        link(value)


def _estimators() -> dict[str, Json]:
    members: dict[str, Json] = {}
    for name, entry in algorithms().items():
        params = entry.params_schema() | {"description": entry.summary}
        members[name] = {
            "type": "object", "additionalProperties": False, "required": ["algorithm"], "description": entry.summary,
            "properties": {"algorithm": {"type": "string", "const": name}, "params": params},
        }  # fmt: skip
    return _union("algorithm", "EstimatorSpec", "Spec", members)


def _parts(key: str, union: str, schemas: dict[str, Json]) -> dict[str, Json]:
    """A part is an object with its name under `key` and its parameters beside it."""
    members = {
        name: schema | {
            "properties": {key: {"type": "string", "const": name}, **schema.get("properties", {})},
            "required": [key, *schema.get("required", [])],
        }
        for name, schema in schemas.items()
    }  # fmt: skip
    return _union(key, union, key.capitalize(), members)


def _union(key: str, name: str, suffix: str, members: dict[str, Json]) -> dict[str, Json]:
    titles = {member: "".join(word.capitalize() for word in member.split("_")) + suffix for member in members}
    mapping = {member: f"#/components/schemas/{title}" for member, title in titles.items()}
    union = {"oneOf": [{"$ref": ref} for ref in mapping.values()],
             "discriminator": {"propertyName": key, "mapping": mapping}}  # fmt: skip
    return {titles[m]: schema | {"title": titles[m]} for m, schema in members.items()} | {name: union}
