"""The hyperparameters of a kernel expression as a vector of logarithms, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np

from ml_core.arrays import Vector
from ml_core.errors import InvalidParameter
from ml_core.kernels.base import Kernel


def log_parameters(kernel: Kernel) -> tuple[list[str], Vector]:
    """Names (JSON pointers into the kernel, `/term/length_scale/0`) and logarithms of its positive hyperparameters.

    Numbers that are 0 (an absent coefficient) have no logarithm and stay; lengths must be filled in (`resolved`).
    """
    found = list(_walk(kernel, ""))
    return [name for name, _ in found], np.log([value for _, value in found]) if found else np.zeros(0)


def with_log_parameters(kernel: Kernel, logs: Vector) -> Kernel:
    """The kernel with exp(logs) for its hyperparameters, in the order of `log_parameters`."""
    return with_parameters(kernel, np.exp(logs))


def with_parameters(kernel: Kernel, values: Vector) -> Kernel:
    """The kernel with these positive hyperparameters, in the order of `log_parameters`."""
    out: Kernel = _filled(kernel, iter(values.tolist()))
    return out


def parameters(kernel: Kernel) -> Vector:
    """The positive hyperparameters of a kernel, in the order of `log_parameters`."""
    return np.array([value for _, value in _walk(kernel, "")])


def _walk(kernel: Kernel, at: str) -> Iterator[tuple[str, float]]:
    for f in fields(kernel):  # type: ignore[arg-type]
        value, name = getattr(kernel, f.name), f"{at}/{f.name}"
        if f.name in kernel.learnable:
            if value is None:
                raise InvalidParameter(f"{name} of the kernel is left to the data: call resolved(X) first")
            several = isinstance(value, tuple)
            each = enumerate(value) if several else [(0, value)]
            yield from ((f"{name}/{i}" if several else name, float(v)) for i, v in each if v > 0)
        elif isinstance(value, Kernel):
            yield from _walk(value, name)
        elif isinstance(value, tuple):
            for i, part in enumerate(value):
                if isinstance(part, Kernel):
                    yield from _walk(part, f"{name}/{i}")


def _filled(kernel: Kernel, values: Iterator[float]) -> Any:
    new: dict[str, Any] = {}
    for f in fields(kernel):  # type: ignore[arg-type]
        value = getattr(kernel, f.name)
        if f.name in kernel.learnable:
            several = isinstance(value, tuple)
            each = [next(values) if v > 0 else v for v in (value if several else (value,))]
            new[f.name] = tuple(each) if several else each[0]
        elif isinstance(value, Kernel):
            new[f.name] = _filled(value, values)
        elif isinstance(value, tuple) and any(isinstance(v, Kernel) for v in value):
            new[f.name] = tuple(_filled(v, values) for v in value)
    return replace(kernel, **new) if new else kernel  # type: ignore[type-var]
