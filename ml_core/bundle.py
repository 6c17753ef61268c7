"""Portable bundle: a zip of `model.json` and `.npy` arrays. Data only, no code, readable by any later version.

Estimators are stored as spec + learned attributes; distributions, notices and solutions as tagged dataclasses; arrays
as npy without pickle. Reading builds only classes that are named in the tables below, sets only learned attributes, and
believes no size that the file states of itself.
"""

from __future__ import annotations

import io
import json
import math
import struct
import zipfile
import zlib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

import ml_core
from ml_core.base import Estimator
from ml_core.certificates import Notice
from ml_core.distributions.base import FAMILIES
from ml_core.errors import BadBundle
from ml_core.registry import algorithms, build, spec_of
from ml_core.solvers.base import Solution

FORMAT = 1
MAX_BYTES = 4 << 30
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
MALFORMED = (
    zipfile.BadZipFile, zlib.error, struct.error, OSError, EOFError, RuntimeError, LookupError, ValueError, TypeError,
    AttributeError, ArithmeticError, MemoryError,
)  # fmt: skip
_values: dict[str, type] = {}


def portable(cls: type) -> type:
    """Class decorator: this dataclass may stand in a bundle."""
    _values[cls.__name__] = cls
    return cls


def save_bundle(model: Any, target: Path | BinaryIO, extra: dict[str, Any] | None = None) -> None:
    """Write an estimator (or any portable value) to a path or binary stream; `extra` is JSON kept beside it."""
    arrays: list[np.ndarray] = []
    document = {
        "format": FORMAT, "ml_core": ml_core.__version__, "model": _encode(model, arrays), "extra": extra or {},
    }  # fmt: skip
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as z:
        z.writestr(_entry("model.json"), json.dumps(document, indent=1))
        for i, a in enumerate(arrays):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, a, allow_pickle=False)
            z.writestr(_entry(f"arrays/{i}.npy"), buffer.getvalue())


def _entry(name: str) -> zipfile.ZipInfo:
    """A zip entry with a fixed date, so that equal models give equal bytes."""
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def load_bundle(source: Path | BinaryIO) -> Any:
    """Read what `save_bundle` wrote; BadBundle says what is wrong. Nothing in the file is executed."""
    return load_with_extra(source)[0]


def load_with_extra(source: Path | BinaryIO) -> tuple[Any, dict[str, Any]]:
    """The stored value and the JSON beside it."""
    try:
        with zipfile.ZipFile(source) as z:
            if sum(i.file_size for i in z.infolist()) > MAX_BYTES:
                raise BadBundle(f"the bundle unpacks to more than {MAX_BYTES} bytes")
            document = json.loads(z.read("model.json"))
            if document.get("format", 0) > FORMAT:
                raise BadBundle(f"bundle format {document['format']} is newer than {FORMAT}; upgrade ml_core")
            n = sum(name.startswith("arrays/") for name in z.namelist())
            arrays = [_array(z.read(f"arrays/{i}.npy")) for i in range(n)]
        return _decode(document["model"], arrays), document.get("extra", {})
    except (FileNotFoundError, PermissionError, BadBundle):
        raise
    except MALFORMED as e:
        raise BadBundle(f"not a readable bundle: {type(e).__name__}: {e}") from e


def _array(data: bytes) -> np.ndarray:
    """An npy file whose header agrees with its length, so that no header makes us allocate more than was sent."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version not in HEADERS:
        raise BadBundle(f"npy version {version} is not readable")
    shape, _, dtype = HEADERS[version](stream)
    if dtype.hasobject or math.prod(shape) * max(dtype.itemsize, 1) != len(data) - stream.tell():
        raise BadBundle(f"an array of shape {shape} and type {dtype} does not fit its {len(data)} bytes")
    stream.seek(0)
    return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def _encode(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, Estimator):
        learned = {k: _encode(v, arrays) for k, v in vars(value).items() if _is_learned(k)}
        return {"$estimator": spec_of(value), "learned": learned}
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            return {"$objects": [_encode(v, arrays) for v in value.ravel()], "shape": list(value.shape)}
        arrays.append(value)
        return {"$array": len(arrays) - 1}
    if isinstance(value, np.generic):
        return _encode(value.item(), arrays)
    if isinstance(value, float) and not np.isfinite(value):
        return {"$float": repr(value)}
    if isinstance(value, (list, tuple)):
        parts = [_encode(v, arrays) for v in value]
        return {"$tuple": parts} if isinstance(value, tuple) else parts
    if isinstance(value, dict):
        return {"$dict": [[_encode(k, arrays), _encode(v, arrays)] for k, v in value.items()]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if is_dataclass(value) and type(value).__module__.startswith("ml_core."):
        inside = {f.name: _encode(getattr(value, f.name), arrays) for f in fields(value)}
        return {"$value": type(value).__name__, "fields": inside}
    raise BadBundle(f"a {type(value).__name__} cannot stand in a bundle")


def _decode(node: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(node, list):
        return [_decode(v, arrays) for v in node]
    if not isinstance(node, dict):
        return node
    if "$array" in node:
        return arrays[_index(node["$array"])]
    if "$objects" in node:
        out = np.empty(len(node["$objects"]), dtype=object)
        out[:] = [_decode(v, arrays) for v in node["$objects"]]
        return out.reshape(node["shape"])
    if "$float" in node:
        return float(node["$float"])
    if "$tuple" in node:
        return tuple(_decode(v, arrays) for v in node["$tuple"])
    if "$dict" in node:
        return {_decode(k, arrays): _decode(v, arrays) for k, v in node["$dict"]}
    if "$value" in node:
        return _known(node["$value"])(**{k: _decode(v, arrays) for k, v in node["fields"].items()})
    return _model(node, arrays)


def _model(node: dict[str, Any], arrays: list[np.ndarray]) -> Estimator:
    model = build(node["$estimator"])
    for name, value in node["learned"].items():
        if not _is_learned(name):
            raise BadBundle(f"{name!r} is not the name of a learned attribute")
        setattr(model, name, _decode(value, arrays))
    return model


def _index(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise BadBundle(f"{value!r} is not the number of an array")
    return value


def _is_learned(name: str) -> bool:
    return name.endswith("_") and not name.startswith("__")


def _known(name: str) -> type:
    """Dataclasses of the library by name, found among the portable ones and the distributions."""
    algorithms()
    known = {c.__name__: c for c in (*FAMILIES.values(), Notice, Solution)} | _values
    if name not in known:
        raise BadBundle(f"the bundle holds an unknown kind of value, {name!r}")
    return known[name]
