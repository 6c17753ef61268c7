"""Kernels are frozen values: `k(A)`, `k(A, B)`, `k.diag(A)`, `k + j`, `k * j`, `2.0 * k`; JSON `{"kernel": …}`.

A family is a frozen dataclass whose fields are its parameters; ranges stand in the annotations; `kernel_of` reads JSON.
A length that is None is the median distance of the training rows: `resolved(X)` fills it in before the first use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from ml_core import params
from ml_core.arrays import Matrix, Vector
from ml_core.bundle import portable
from ml_core.errors import InvalidData, InvalidParameter, Issue, placed

KERNELS: dict[str, type[Kernel]] = {}
Pull = Callable[[Matrix], Vector]
"""W (n, m) → Σᵢⱼ Wᵢⱼ ∂Kᵢⱼ/∂log θ, one entry per hyperparameter in the order of `log_parameters`."""
ALIASES = {"gaussian": "rbf", "poly": "polynomial"}


class Kernel(ABC):
    """A symmetric positive semidefinite function of two rows.

    `stationary`: a function of x - z. `homogeneous`: a function of ‖x - z‖ alone (some call these radial). `learnable`
    names the fields (positive numbers, or tuples of them) that are hyperparameters. `bounded`: no value can overflow.
    """

    name: ClassVar[str]
    learnable: ClassVar[tuple[str, ...]] = ()
    stationary: bool = False
    homogeneous: bool = False
    bounded: bool = False

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            KERNELS[cls.name] = portable(cls)

    def __post_init__(self) -> None:
        given = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        for key, value in params.validate(type(self), given, pointer="").items():
            object.__setattr__(self, key, value)

    def __call__(self, A: Matrix, B: Matrix | None = None) -> Matrix:
        """(n, m) values k(aᵢ, bⱼ); with A alone the Gram matrix (n, n): exactly symmetric, diagonal `diag(A)`."""
        A = _rows(A)
        if B is not None:
            B = _rows(B)
            if A.shape[1] != B.shape[1]:
                raise InvalidData(f"kernel arguments have {A.shape[1]} and {B.shape[1]} columns")
            return self._finite(lambda: self._cross(A, B))
        return self._finite(lambda: self._diagonal(self._cross(A, A), A))

    def against(self, B: Matrix) -> Callable[[Matrix], Matrix]:
        """A ↦ `self(A, B)`, for many A: what depends on B alone is computed once."""
        return lambda A: self(A, B)

    def _diagonal(self, K: Matrix, A: Matrix) -> Matrix:
        """The Gram matrix K with the exact diagonal written into it."""
        np.fill_diagonal(K, self.diag(A))
        return K

    def _finite(self, values: Callable[[], Matrix]) -> Matrix:
        """What `values` gives; InvalidData where it overflows."""
        if self.bounded:
            return values()
        with np.errstate(over="ignore", invalid="ignore"):
            K = values()
        if not np.isfinite(K).all():
            raise InvalidData(f"values of the kernel {self.name!r} overflow; scale the inputs or the kernel down")
        return K

    @abstractmethod
    def _cross(self, A: Matrix, B: Matrix) -> Matrix:
        """(n, m) values; exactly symmetric when A and B are equal. The caller may write into the result."""

    @abstractmethod
    def diag(self, A: Matrix) -> Vector:
        """(n,) values k(aᵢ, aᵢ), O(n d)."""

    def squared_distances(self, A: Matrix, B: Matrix) -> Matrix:
        """(n, m) ‖φ(aᵢ) - φ(bⱼ)‖² = k(a,a) - 2 k(a,b) + k(b,b), at least 0; families override it where that cancels."""
        out = self(A, B)
        out *= -2.0
        out += self.diag(A)[:, None] + self.diag(B)
        return np.maximum(out, 0.0, out=out)

    def ranks(self, A: Matrix, B: Matrix) -> Matrix:
        """(n, m) numbers that grow with the distance of φ(aᵢ) and φ(bⱼ), also where distances round to one value."""
        return self.squared_distances(A, B)

    def distances_of(self, ranks: Matrix) -> Matrix:
        """The squared distances that have these ranks."""
        return ranks

    def traced(self, A: Matrix, B: Matrix | None = None) -> tuple[Matrix, Pull]:
        """The matrix that `self(A, B)` gives, and its derivatives as a `Pull`; the caller may not write into it.

        For the Gram matrix (B None) the pull takes symmetric W. O(values) plus, per pull, about the same again.
        """
        K, pull = self._trace(A, A if B is None else B, B is None)
        if B is None:
            np.fill_diagonal(K, self.diag(A))
        return K, pull

    def _trace(self, A: Matrix, B: Matrix, gram: bool) -> tuple[Matrix, Pull]:
        """Values and pull; this one is of kernels without hyperparameters."""
        return self._cross(A, B), lambda W: np.zeros(0)

    def resolved(self, X: Matrix) -> Self:
        """The kernel with each parameter that was left to the training rows X filled in, columns by number."""
        return self.located(X.shape[1])._filled(X)

    def located(self, width: int) -> Self:
        """The kernel with numbers in place of names of columns, of which there are `width`; InvalidParameter."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        found = {name: _located(value, width, f"/{name}") for name, value in given.items()}
        return self if all(found[k] is v for k, v in given.items()) else replace(self, **found)  # type: ignore[type-var]

    def _filled(self, X: Matrix) -> Self:
        """The kernel with each parameter that was left to the data filled in."""
        filled = {f.name: _filled(getattr(self, f.name), X) for f in fields(self)}  # type: ignore[arg-type]
        return replace(self, **filled)  # type: ignore[type-var]

    def __add__(self, other: Kernel) -> Kernel:
        return KERNELS["sum"](terms=_flat(self, "sum") + _flat(other, "sum"))  # type: ignore[call-arg]

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, (int, float)):
            return KERNELS["scale"](factor=other, term=self)  # type: ignore[call-arg]
        return KERNELS["product"](terms=_flat(self, "product") + _flat(other, "product"))  # type: ignore[call-arg]

    __rmul__ = __mul__

    def to_json(self) -> dict[str, Any]:
        """The tagged value that `kernel_of` reads."""
        return {"kernel": self.name} | {f.name: _plain(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]


def _rows(A: Any) -> Matrix:
    rows = np.asarray(A, dtype=np.float64)
    if rows.ndim != 2:
        raise InvalidData(f"a kernel takes rows (n, d), got an array of {rows.ndim} dimension(s)")
    return rows


def _flat(kernel: Kernel, name: str) -> tuple[Kernel, ...]:
    """Terms of a kernel of exactly that family; any other kernel is one term."""
    return tuple(kernel.terms) if type(kernel) is KERNELS[name] else (kernel,)  # type: ignore[attr-defined]


def _filled(value: Any, X: Matrix) -> Any:
    if isinstance(value, Kernel):
        return value._filled(X)
    return tuple(_filled(v, X) for v in value) if _of_kernels(value) else value


def _located(value: Any, width: int, pointer: str) -> Any:
    if isinstance(value, Kernel):
        with placed(pointer):
            return value.located(width)
    if not _of_kernels(value):
        return value
    found = tuple(_located(v, width, f"{pointer}/{i}") for i, v in enumerate(value))
    return value if all(a is b for a, b in zip(found, value, strict=True)) else found


def _of_kernels(value: Any) -> bool:
    return isinstance(value, tuple) and isinstance(value[0] if value else None, Kernel)


def _plain(value: Any) -> Any:
    if isinstance(value, Kernel):
        return value.to_json()
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def kernel_of(value: Any) -> Kernel:
    """Kernel or its JSON → kernel; InvalidParameter with pointers into the JSON."""
    if isinstance(value, Kernel):
        return value
    if not isinstance(value, dict) or not isinstance(value.get("kernel"), str):
        raise InvalidParameter(f"a kernel is an object with a string \"kernel\", one of {', '.join(sorted(KERNELS))}",
                               [Issue("/kernel", "missing", f"name one of {', '.join(sorted(KERNELS))}")])  # fmt: skip
    name = ALIASES.get(value["kernel"], value["kernel"])
    if name not in KERNELS:
        text = f"there is no kernel {name!r}; there are {', '.join(sorted(KERNELS))}"
        raise InvalidParameter(text, [Issue("/kernel", "unknown_name", text)])
    given = {k: v for k, v in value.items() if k != "kernel"}
    return KERNELS[name](**params.validate(KERNELS[name], given, pointer=""))


def kernel_schemas() -> dict[str, dict[str, Any]]:
    """JSON Schema of the parameters of each kernel, by name."""
    return {name: params.schema_of(cls) for name, cls in sorted(KERNELS.items())}


KernelSpec = Annotated[Any, *params.nested(kernel_of, "kernel")]
"""A kernel, or its JSON. `fit` may still see the JSON (constructors store verbatim): use `kernel_of(self.kernel)`."""
