"""Losses as values: JSON `{"loss": "huber", "delta": 1.345}` ↔ frozen dataclass; its fields tell what is valid."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, ClassVar

from ml_core import params
from ml_core.errors import InvalidParameter, Issue

LOSSES: dict[str, type[Named]] = {}


class Named:
    """A loss with a name and parameters; `loss_of(loss.to_json())` equals it."""

    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            LOSSES[cls.name] = cls

    def __post_init__(self) -> None:
        given = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        for key, value in params.validate(type(self), given, pointer="").items():
            object.__setattr__(self, key, value)

    def to_json(self) -> dict[str, Any]:
        """The tagged value that `loss_of` reads."""
        return {"loss": self.name} | {f.name: _plain(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def loss_of(value: Any) -> Any:
    """Loss, its name or its JSON → loss; InvalidParameter with pointers into the JSON.

    Only losses whose modules are imported are known; importing `ml_core.losses.every` knows them all.
    """
    if isinstance(value, Named):
        return value
    if isinstance(value, str):
        value = {"loss": value}
    known = ", ".join(sorted(LOSSES))
    if not isinstance(value, dict) or not isinstance(value.get("loss"), str):
        raise InvalidParameter(f"a loss is a name or an object with a string \"loss\", one of {known}",
                               [Issue("/loss", "missing", f"name one of {known}")])  # fmt: skip
    if value["loss"] not in LOSSES:
        text = f"there is no loss {value['loss']!r}; there are {known}"
        raise InvalidParameter(text, [Issue("/loss", "unknown_name", text)])
    cls = LOSSES[value["loss"]]
    return cls(**params.validate(cls, {k: v for k, v in value.items() if k != "loss"}, pointer=""))


LossSpec = Annotated[Any, *params.nested(loss_of, "loss")]
"""A loss, or its JSON. `fit` may still see the JSON (constructors store verbatim): use `loss_of(self.loss)`."""
