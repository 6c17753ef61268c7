"""A hint to memory for compiled loops that read in random order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.core.cgutils import ir
from numba.extending import intrinsic


def _prefetch(typing: Any, array: Any, at: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        where = builder.gep(data, [arguments[1]])
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [where.type, number, number, number])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [where.type], kind)
        builder.call(hint, [where, number(0), number(3), number(1)])  # to read, keep near, data
        return context.get_dummy_value()

    return types.void(array, at), emit


prefetch: Callable[[np.ndarray, int], None] = intrinsic(_prefetch)
"""Ask for the line that holds array[at], of one dimension; waits for nothing and changes nothing."""
