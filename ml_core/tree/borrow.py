"""Arrays without an owner inside compiled code.

Taking an array out of a tuple counts its references atomically, some 20 ns a time: more than a small node's work. The
caller of the entry point keeps every array alive, so inside nothing need be counted.
"""

from __future__ import annotations

from typing import Any

from numba.core.cgutils import get_null_value
from numba.extending import intrinsic
from numba.np.arrayobj import make_array


@intrinsic  # type: ignore[untyped-decorator]
def borrowed(typing_context: Any, array: Any) -> Any:
    """The same array with no owner to count; valid while the original is alive."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out = make_array(signature.return_type)(context, builder, arguments[0])
        out.meminfo = get_null_value(out.meminfo.type)
        out.parent = get_null_value(out.parent.type)
        return out._getvalue()

    return array(array), generate
