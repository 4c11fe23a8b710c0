"""What the words behind the colons of op declarations stand for: `mask:bools?`, `dim:index`, `body:block`.

A word of a value is a predicate on its type, a word of an attribute one on the attribute. Names of tile values follow
one scheme: `int` is a scalar, `ints` a scalar or a tensor, `int_tensor` a tensor only; likewise bool, float, number, ptr.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    DenseArrayBase,
    DictionaryAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    VectorType,
)
from xdsl.ir import Attribute, TypeAttribute

from tileiras.dialects import llvm, nv_tileaa, nv_tileas
from tileiras.dialects.element import NAMES as FLOAT_NAMES

TILE_WIDTHS = (1, 4, 8, 16, 32, 64)
"""Bits of the integers that tiles have."""

Test = Callable[[Any], bool]


@dataclass(frozen=True)
class Kind:
    """`words` complete the sentence "must be ..."; `holds` says whether a type or an attribute is one."""

    words: str
    holds: Test


# --- types of tile values --------------------------------------------------------------------------------------------

def _is_int(t: Attribute) -> bool:
    return isinstance(t, IntegerType) and t.width.data in TILE_WIDTHS and t.signedness.data is Signedness.SIGNLESS


def _is_bool(t: Attribute) -> bool:
    return _is_int(t) and t.width.data == 1  # type: ignore[attr-defined]


def _is_float(t: Attribute) -> bool:
    return type(t) in FLOAT_NAMES


def is_number(t: Attribute) -> bool:
    """Whether a type is one of a tile's numbers: an integer or a float."""
    return _is_int(t) or _is_float(t)


def _is_ptr(t: Attribute) -> bool:
    return isinstance(t, nv_tileaa.PtrType)


def is_element(t: Attribute) -> bool:
    """Whether a type can be a scalar value or a tensor's element."""
    return is_number(t) or _is_ptr(t)


_ELEMENTS: dict[str, tuple[str, str, Test]] = {
    "int": ("an integer", "integers", _is_int), "bool": ("an i1", "i1", _is_bool), "float": ("a float", "floats", _is_float),
    "number": ("an integer or a float", "integers or floats", is_number), "ptr": ("a pointer", "pointers", _is_ptr),
    "scalar": ("a number or a pointer", "numbers or pointers", is_element),
}
"""By scheme name: one, several, what an element is."""

PLURAL = {"int": "ints", "bool": "bools", "float": "floats", "number": "numbers", "ptr": "ptrs", "scalar": "tile"}


def _tensor(test: Test) -> Test:
    return lambda t: isinstance(t, TensorType) and test(t.element_type)


def _either(first: Test, second: Test) -> Test:
    return lambda t: first(t) or second(t)


def _is_a(*classes: type) -> Test:
    return lambda t: isinstance(t, classes)


def _is_i32(t: Attribute) -> bool:
    return _is_int(t) and t.width.data == 32  # type: ignore[attr-defined]


def _tile_kinds() -> dict[str, Kind]:
    out: dict[str, Kind] = {}
    for name, (one, several, test) in _ELEMENTS.items():
        out[name] = Kind(one, test)
        out[PLURAL[name]] = Kind(f"{one} or a tensor of {several}", _either(test, _tensor(test)))
        out["tensor" if name == "scalar" else f"{name}_tensor"] = Kind(f"a tensor of {several}", _tensor(test))
    return out


def _is_carried(t: Attribute) -> bool:
    return KINDS["tile"].holds(t) or isinstance(t, (nv_tileaa.MemTokenType, nv_tileas.FlightType))


# --- types of the llvm dialect ---------------------------------------------------------------------------------------

LLVM_FLOATS = (Float16Type, BFloat16Type, Float32Type, Float64Type)


def _llvm_int(t: Attribute) -> bool:
    return isinstance(t, IntegerType) and t.width.data > 0 and t.signedness.data is Signedness.SIGNLESS


def _llvm_scalar(t: Attribute) -> bool:
    return _llvm_int(t) or isinstance(t, (*LLVM_FLOATS, llvm.PtrType))


def _vector(test: Test) -> Test:
    return lambda t: isinstance(t, VectorType) and len(t.get_shape()) == 1 and t.get_shape()[0] > 0 and test(t.element_type)


def _llvm_kinds() -> dict[str, Kind]:
    bools: Test = lambda t: _llvm_int(t) and t.width.data == 1  # noqa: E731
    floats, pointers = _is_a(*LLVM_FLOATS), _is_a(llvm.PtrType)
    value = _either(_llvm_scalar, _vector(_llvm_scalar))

    def of(words: str, test: Test) -> Kind:
        return Kind(f"{words} or a vector of such", _either(test, _vector(test)))

    def members(t: Attribute) -> bool:
        return isinstance(t, llvm.StructType) and all(value(m) for m in t.members.data)
    return {
        "llvm.ints": of("an integer", _llvm_int), "llvm.bools": of("an i1", bools), "llvm.floats": of("a float", floats),
        "llvm.ptrs": of("a pointer", pointers), "llvm.int": Kind("an integer", _llvm_int), "llvm.bool": Kind("an i1", bools),
        "llvm.ptr": Kind("a pointer", pointers), "llvm.scalar": Kind("an integer, a float or a pointer", _llvm_scalar),
        "llvm.vector": Kind("a vector of integers, floats or pointers", _vector(_llvm_scalar)),
        "llvm.value": of("an integer, a float, a pointer", _llvm_scalar),
        "llvm.struct": Kind("a struct of values", members),
        "llvm.result": Kind("a value, a struct of values or nothing",
                            lambda t: value(t) or members(t) or isinstance(t, llvm.VoidType)),
    }


KINDS: dict[str, Kind] = {
    **_tile_kinds(), **_llvm_kinds(), "i32": Kind("an i32", _is_i32),
    "carried": Kind("a tile or a memory token", _is_carried),
    "token": Kind("a memory token", _is_a(nv_tileaa.MemTokenType)),
    "memref": Kind("a memref", _is_a(nv_tileaa.MemRefType)), "view": Kind("a tiled view", _is_a(nv_tileaa.TiledViewType)),
    "buffer": Kind("a buffer", _is_a(nv_tileas.BufferType)), "ring": Kind("a ring of buffers", _is_a(nv_tileas.RingType)),
    "tmem": Kind("an accumulator in tensor memory", _is_a(nv_tileas.TmemType)),
    "factors": Kind("a buffer in shared or tensor memory", _is_a(nv_tileas.BufferType, nv_tileas.TmemType)),
    "place": Kind("a buffer, a ring of buffers or an accumulator in tensor memory",
                  _is_a(nv_tileas.BufferType, nv_tileas.RingType, nv_tileas.TmemType)),
    "storage": Kind("a buffer or a ring of buffers", _is_a(nv_tileas.BufferType, nv_tileas.RingType)),
    "pipe": Kind("a pipe", _is_a(nv_tileas.PipeType)), "tensormap": Kind("a tensor map", _is_a(nv_tileas.TensorMapType)),
    "flight": Kind("a product in flight", _is_a(nv_tileas.FlightType)),
    "factor": Kind("a tensor of integers or floats, or a buffer of them",
                   _either(_tensor(is_number), _is_a(nv_tileas.BufferType))),
    "printed": Kind("a number or a pointer, a tensor of such, or a buffer",
                    _either(_either(is_element, _tensor(is_element)), _is_a(nv_tileas.BufferType))),
}
"""By the word of a declaration, what a value's type may be."""


# --- attributes ------------------------------------------------------------------------------------------------------

def _words(*words: str) -> Kind:
    return Kind(f"one of {', '.join(words)}", lambda a: isinstance(a, StringAttr) and a.data in words)


def _number_at_least(least: int) -> Test:
    return lambda a: isinstance(a, IntAttr) and a.data >= least


def _integer_at_least(least: int) -> Test:
    return lambda a: isinstance(a, IntegerAttr) and a.value.data >= least


def _array_of(test: Test) -> Test:
    return lambda a: isinstance(a, ArrayAttr) and all(test(x) for x in a.data)


def _is_constant(a: Attribute) -> bool:
    return isinstance(a, (IntegerAttr, FloatAttr))


_flags = _array_of(lambda a: isinstance(a, IntAttr) and a.data in (0, 1))
_strings = _array_of(_is_a(StringAttr))

INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOAT_PREDICATES = tuple(order + word for order in "ou" for word in ("eq", "ne", "lt", "le", "gt", "ge"))
RMW_MODES = ("and", "or", "xor", "add", "addf", "max", "min", "umax", "umin", "xchg")

ATTRIBUTE_KINDS: dict[str, Kind] = {
    "string": Kind("a string", _is_a(StringAttr)),
    "name": Kind("a name that is not empty", lambda a: isinstance(a, StringAttr) and bool(a.data)),
    "unit": Kind("a unit", _is_a(UnitAttr)), "dict": Kind("a dictionary", _is_a(DictionaryAttr)),
    "strings": Kind("an array of strings", _strings),
    "string_dict": Kind("a dictionary of strings",
                        lambda a: isinstance(a, DictionaryAttr) and all(isinstance(v, StringAttr) for v in a.data.values())),
    "type": Kind("a type", _is_a(TypeAttribute)), "element": Kind("a number's or a pointer's type", _llvm_scalar),
    "symbol": Kind("a symbol", _is_a(SymbolRefAttr)),
    "count": Kind("a number of at least 0", _number_at_least(0)), "positive": Kind("a number of at least 1", _number_at_least(1)),
    "numbers": Kind("an array of numbers", _array_of(_is_a(IntAttr))), "flags": Kind("an array of zeros and ones", _flags),
    "power": Kind("a power of two", lambda a: isinstance(a, IntAttr) and a.data > 0 and not a.data & a.data - 1),
    "index": Kind("an integer of at least 0", _integer_at_least(0)),
    "size": Kind("an integer of at least 1", _integer_at_least(1)),
    "flag": Kind("an i1", lambda a: isinstance(a, IntegerAttr) and isinstance(a.type, IntegerType) and a.type.width.data == 1),
    "inbounds": Kind("a unit or an array of zeros and ones", lambda a: isinstance(a, UnitAttr) or _flags(a)),
    "identities": Kind("an array of numbers with types", _array_of(_is_constant)),
    "constant": Kind("a number with its type, or all elements",
                     lambda a: _is_constant(a) or isinstance(a, nv_tileaa.DenseTileAttr)),
    "elements": Kind("all elements", _is_a(nv_tileaa.DenseTileAttr)), "fact": Kind("a fact", _is_a(nv_tileaa.AssumeAttr)),
    "layout": Kind("a layout", _is_a(nv_tileas.LayoutAttr)),
    "segments": Kind("an array of i32", _is_a(DenseArrayBase)),
    "overflow": _words("none", "nsw", "nuw", "nsw_nuw"),
    "rounding": _words("nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full", "nearest_int_to_zero",
                       "nearest_away"),
    "integer_predicate": _words(*INTEGER_PREDICATES), "float_predicate": _words(*FLOAT_PREDICATES),
    "fcmp_predicate": _words(*FLOAT_PREDICATES, "ord", "uno"),
    "signedness": _words("signed", "unsigned"),
    "side": _words("lhs", "rhs"),
    "load_semantic": _words("weak", "relaxed", "acquire"), "store_semantic": _words("weak", "relaxed", "release"),
    "atomic_semantic": _words("relaxed", "acquire", "release", "acq_rel"),
    "scope": _words("tl_blk", "device", "sys"), "rmw_mode": _words(*RMW_MODES),
    "access_flags": _words("invariant", "volatile", "nontemporal"),
    "ordering": _words("unordered", "monotonic", "acquire", "release", "acq_rel", "seq_cst"),
}
"""By the word of a declaration, what an attribute may be."""
