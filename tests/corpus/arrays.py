"""NumPy files."""

from __future__ import annotations

import datetime as dt
import io
import zipfile

import numpy as np

from tests.corpus.case import Case, bad, good, huge


def npy(array: np.ndarray, **options: bool) -> bytes:
    """The array as a npy file."""
    sink = io.BytesIO()
    np.save(sink, array, **options)
    return sink.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    """The arrays as a npz file."""
    sink = io.BytesIO()
    np.savez_compressed(sink, **arrays)
    return sink.getvalue()


def zipped(**members: bytes) -> bytes:
    """A zip whose members end in `.npy`."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return sink.getvalue()


def cases() -> list[Case]:
    """Arrays that are tables, and others."""
    record = np.array([("ä", 1.5, 7), ("", np.nan, 8)], dtype=[("s", "U3"), ("f", "<f4"), ("i", ">i2")])
    nested = np.zeros(2, dtype=[("a", [("b", "f8")])])
    honest = npy(np.ones(10_000_000, np.int8))[:4096]
    objects = npy(np.array([{}, "x"], dtype=object), allow_pickle=True)
    return [
        good("npy/one-dimension", npy(np.array([1.5, np.nan])), {"x": [1.5, None]}, "number"),
        good("npy/fortran", npy(np.asfortranarray(np.arange(6).reshape(3, 2))), {"x0": [0, 2, 4], "x1": [1, 3, 5]},
             "integer integer"),
        good("npy/big-endian", npy(np.array([2**53 + 1, 2**63 - 1], ">i8")), {"x": [2**53 + 1, 2**63 - 1]}, "integer"),
        good("npy/unsigned", npy(np.array([2**64 - 1, 1], "u8")), {"x": [str(2**64 - 1), "1"]}, "", "huge_integers"),
        good("npy/half", npy(np.array([0.5, np.inf], "f2")), {"x": [0.5, np.inf]}, "number", "infinite"),
        good("npy/booleans", npy(np.array([True, False])), {"x": [True, False]}, "boolean"),
        good("npy/days", npy(np.array(["2024-02-29", "NaT"], "M8[D]")), {"x": [dt.date(2024, 2, 29), None]}, "date"),
        good("npy/instants", npy(np.array(["2024-02-29T12:00:01", "NaT"], "M8[ns]")),
             {"x": [dt.datetime(2024, 2, 29, 12, 0, 1), None]}, "datetime"),
        good("npy/hours", npy(np.array(["2024-02-29T12"], "M8[h]")), {"x": [dt.datetime(2024, 2, 29, 12)]}, "datetime"),
        good("npy/structured", npy(record), {"s": ["ä", ""], "f": [1.5, None], "i": [7, 8]}),
        good("npy/bytes", npy(np.array([b"ab", b"c"])), {"x": ["ab", "c"]}),
        good("npy/version-3", npy(np.zeros(1, dtype=[("ä" * 3, "f8")])), {"äää": [0.0]}),
        bad("npy/objects", objects, "damaged_file", "object"),
        bad("npy/three-dimensions", npy(np.ones((2, 2, 2))), "wrong_shape", "(2, 2, 2)"),
        bad("npy/scalar", npy(np.array(1.0)), "wrong_shape"),
        bad("npy/complex", npy(np.ones(3) + 1j), "unread_type", "complex"),
        bad("npy/long-double", npy(np.ones(3, np.longdouble)), "unread_type", "float128"),
        bad("npy/differences", npy(np.array([1], "m8[s]")), "unread_type"),
        bad("npy/picoseconds", npy(np.array([1], "M8[ps]")), "unread_type"),
        bad("npy/years-beyond", npy(np.array([10**7], "M8[Y]")), "out_of_range"),
        bad("npy/no-unit", npy(np.array(["NaT"], "M8")), "unread_type"),
        bad("npy/nested", npy(nested), "unread_type"),
        bad("npy/void", npy(np.zeros(2, "V3")), "unread_type"),
        bad("npy/no-utf-8", npy(np.array([b"\xff"])), "binary_column"),
        bad("npy/half-surrogate", npy(np.array(["a"])).replace(b"a\0\0\0", b"\0\xd8\0\0"), "unread_text"),
        bad("npy/beyond-unicode", npy(np.array(["a"])).replace(b"a\0\0\0", b"\0\0\xff\xff"), "unread_text"),
        bad("npy/no-rows", npy(np.ones((0, 2))), "no_rows"),
        bad("npy/no-columns", npy(np.ones((2, 0))), "no_rows"),
        bad("npy/lying-header", honest, "damaged_file"),
        bad("npy/absurd-header", npy(np.ones(1)).replace(b"(1,)", b"(9999999999999999,)"), "damaged_file"),
        bad("npy/negative-header", npy(np.ones(1)).replace(b"(1,), } ", b"(-1,), }"), "damaged_file"),
        bad("npy/broken-header", npy(np.ones(1)).replace(b"(1,)", b"(1x)"), "damaged_file"),
        bad("npy/unknown-type", npy(np.ones(1)).replace(b"<f8", b"<q9"), "damaged_file"),
        bad("npy/version-9", npy(np.ones(1)).replace(b"NUMPY\x01", b"NUMPY\x09"), "damaged_file"),
        bad("npy/magic-only", b"\x93NUMPY", "damaged_file"),
        huge("npy/wide", npy(np.zeros((1, 20_001), np.int8)), "columns"),
        good("npz/two-arrays", npz(X=np.ones((2, 2)), y=np.array([3, 4])), {"X0": [1.0] * 2, "X1": [1.0] * 2,
             "y": [3, 4]}),
        good("npz/colliding", npz(x0=np.array([1]), x=np.array([[2]])), {"x0": [1], "x0_2": [2]}, "",
             "renamed_columns"),
        bad("npz/ragged", npz(X=np.ones((2, 2)), y=np.array([3, 4, 5])), "ragged_arrays", "y has 3"),
        bad("npz/objects", zipped(a=objects), "damaged_file"),
        bad("npz/text-inside", zipped(a=b"hello"), "damaged_file"),
        bad("npz/cut-off", npz(X=np.arange(1000.0))[:-60], "damaged_archive"),
        huge("npz/zeros", npz(X=np.zeros(9_000_000)), "limit"),
    ]  # fmt: skip
