"""How LLVM IR spells types and the text of inline assembly."""
from __future__ import annotations

from functools import cache

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IntegerType, VectorType
from xdsl.ir import Attribute

from tileiras.dialects import llvm

_FLOATS: dict[type, str] = {Float16Type: "half", BFloat16Type: "bfloat", Float32Type: "float", Float64Type: "double"}

ASM_ESCAPES = str.maketrans({"\\": "\\5C", '"': "\\22", "\n": "\\0A", "\t": "\\09"})


@cache
def type_text(t: Attribute) -> str:
    """The LLVM spelling of a type."""
    if isinstance(t, IntegerType):
        return f"i{t.width.data}"
    if type(t) in _FLOATS:
        return _FLOATS[type(t)]
    if isinstance(t, llvm.PtrType):
        return f"ptr addrspace({t.space.data})" if t.space.data else "ptr"
    if isinstance(t, VectorType):
        return f"<{t.get_shape()[0]} x {type_text(t.element_type)}>"
    if isinstance(t, llvm.StructType):
        return "{ " + ", ".join(type_text(m) for m in t.members.data) + " }"
    if isinstance(t, llvm.VoidType):
        return "void"
    raise TypeError(f"{t} has no LLVM spelling")
