"""Eight bytes at once, and runs of decimal digits by them, for the compiled readers of text."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ml_core.numerics.jit import uncounted

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Int = Any  # of Python or of NumPy

ZERO = 48
WORD = 8
POWERS_OF_TEN = np.array([10**k for k in range(WORD + 1)], np.int64)


def _word(_: Any, data: Any, at: Any) -> Any:
    """The eight bytes data[at:at + 8] as one number, the first of them its lowest; without a check of bounds."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(array.data, [arguments[1]])
        return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(data, types.uintp), generate


def _put(_: Any, data: Any, at: Any, value: Any) -> Any:
    """Let data[at:at + 8] be the eight bytes of the number, its lowest first; without a check of bounds."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(array.data, [arguments[1]])
        builder.store(arguments[2], builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(data, types.uintp, types.uint64), generate


def _low_zeros(_: Any, bits: Any) -> Any:
    """How many bits below the lowest 1 are 0; of a number that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(bits), generate


word: Any = intrinsic(_word)
low_zeros: Any = intrinsic(_low_zeros)
put: Any = intrinsic(_put)


@uncounted
def equals(w: np.uint64, byte: Int) -> np.uint64:
    """The highest bit of each of the eight bytes that is this one, right up to the lowest of them."""
    ones = np.uint64(0x0101010101010101)
    others = w ^ (np.uint64(byte) * ones)
    return (others - ones) & ~others & (ones << np.uint64(7))


@uncounted
def few_digits(data: Bytes, at: Int, mantissa: Int) -> tuple[Int, Int]:
    """Where a run of digits ends, and the mantissa with them at its end; one at a time."""
    d = np.int64(data[np.uintp(at)]) - ZERO
    while 0 <= d <= 9:
        mantissa = mantissa * 10 + d
        at += 1
        d = np.int64(data[np.uintp(at)]) - ZERO
    return at, mantissa


@uncounted
def many_digits(data: Bytes, at: Int, mantissa: Int) -> tuple[Int, Int]:
    """The same by eight bytes at once: no branch depends on how many of them are digits."""
    tops = np.uint64(0x8080808080808080)
    while at + WORD <= data.size:
        w = word(data, np.uintp(at)) ^ np.uint64(0x3030303030303030)
        others = (((w & ~tops) + np.uint64(0x7676767676767676)) | w) & tops
        if others == np.uint64(0):
            mantissa, at = mantissa * 100000000 + _eight(w), at + WORD
            continue
        bits = low_zeros(others) & np.uint64(0x78)  # of the digits: 8 for each
        if bits == np.uint64(0):
            return at, mantissa
        count = np.int64(bits >> np.uint64(3))
        w <<= np.uint64(64) - bits
        return at + count, mantissa * POWERS_OF_TEN[np.uintp(count)] + _eight(w)
    return few_digits(data, at, mantissa)


@uncounted
def _eight(w: np.uint64) -> Int:
    """The number of eight digits, the first of them in the lowest byte."""
    pairs = w * np.uint64(10) + (w >> np.uint64(8))
    low = np.uint64(0x000000FF000000FF)
    upper = (pairs & low) * np.uint64(0x000F424000000064)
    lower = ((pairs >> np.uint64(16)) & low) * np.uint64(0x0000271000000001)
    return np.int64((upper + lower) >> np.uint64(32))
