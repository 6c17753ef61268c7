"""Parameters that name columns: each fit finds their places among its columns, before it learns anything."""

from __future__ import annotations

from copy import copy
from typing import Any

from ml_core import naming, params
from ml_core.errors import placed


class Located:
    """Finds the columns that an estimator's parameters, kernels and nested estimators name."""

    places_: dict[str, int]

    def _locate(self, values: dict[str, Any], width: int) -> None:
        """`places_` of the parameters that are columns; InvalidParameter where a part names one that is not there.

        `values` are those of the parameters. Columns that are parameters are no features: kernels do not see them.
        """
        found: dict[str, int] = {}
        owner: Any = type(self)
        for name in params.column_parameters(owner):
            if values[name] is not None:
                with placed(f"/params/{name}"):
                    found[name] = naming.place(values[name], width, name)
                    naming.check_units(found[name], name)
        vars(self).pop("places_", None)
        if found:
            self.places_ = found
        parts = {k: v for k, v in values.items() if isinstance(v, Located) or hasattr(v, "located")}
        if not parts:
            return
        with naming.use(self._names_beside(width)):
            for name, value in parts.items():
                with placed(f"/params/{name}"):
                    look(value, width - len(found))

    def _names_beside(self, width: int) -> naming.Names | None:
        """The names of the columns that are features: those that are parameters are none."""
        taken = vars(self).get("places_", {}).values()
        return naming.only(j for j in range(width) if j not in taken)

    def _column_of(self, parameter: str) -> int | None:
        """The column of a parameter; models of earlier versions have the number itself."""
        place: int | None = vars(self).get("places_", {}).get(parameter, getattr(self, parameter))
        return place


def look(value: Any, width: int) -> None:
    """Refuse a kernel or an estimator that names columns which are not among `width`."""
    if isinstance(value, Located):
        copy(value)._locate(value.get_params(deep=False), width)  # type: ignore[attr-defined]
    elif hasattr(value, "located"):
        value.located(width)
