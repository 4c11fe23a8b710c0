"""The `llvm` dialect as this project emits it: LLVM IR's own operations on scalars, vectors and pointers.

One op a LLVM instruction, typed by xDSL's builtin integer, float and vector types, `!llvm.ptr<addrspace>` and
`!llvm.struct`. Constants are ops (`llvm.mlir.constant`, raw bits), deduplicated by the builder and printed inline by
codegen/llvm_text.py. Address spaces: 0 generic, 1 global, 3 shared, 4 constant, 5 local,
6 tensor memory, 7 shared memory of the cluster.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerType, VectorType
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def

from tileiras.dialects.base import TileOp

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

GENERIC, GLOBAL, SHARED, CONST, LOCAL, TENSOR, CLUSTER = 0, 1, 3, 4, 5, 6, 7


@irdl_attr_definition
class PtrType(ParametrizedAttribute, TypeAttribute):
    """A pointer into an address space."""

    name = "llvm.ptr"
    space: IntAttr = param_def()

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.space.data}>")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return (IntAttr(parser.parse_integer(allow_boolean=False, allow_negative=False)),)


@irdl_attr_definition
class StructType(ParametrizedAttribute, TypeAttribute):
    """A literal struct: what intrinsics and inline assembly with several results return."""

    name = "llvm.struct"
    members: ArrayAttr[Attribute] = param_def()


@irdl_attr_definition
class VoidType(ParametrizedAttribute, TypeAttribute):
    """The result of a call that gives nothing."""

    name = "llvm.void"


VOID = VoidType()


@cache
def ptr(space: int) -> PtrType:
    return PtrType(IntAttr(space))


@cache
def vec(n: int, element: Attribute) -> VectorType:
    """`vector<n x element>`; made once per (n, element)."""
    return VectorType(element, [n])


@cache
def struct(*members: Attribute) -> StructType:
    return StructType(ArrayAttr(members))


@cache
def integer(width: int) -> IntegerType:
    return IntegerType(width)


def _op(mnemonic: str, operands: str, results: str = "result:llvm.value", attrs: str = "", same: str = "",
        terminator: bool = False) -> type[TileOp]:
    name = "".join(part.capitalize() for part in mnemonic.replace(".", "_").split("_"))
    return type(name, (TileOp,), {"name": f"llvm.{mnemonic}", "OPERANDS": operands, "RESULTS": results, "ATTRS": attrs,
                                  "SAME": same, "TERMINATOR": terminator})


def _binary(mnemonic: str, kind: str) -> type[TileOp]:
    return _op(mnemonic, f"lhs:{kind} rhs:{kind}", f"result:{kind}", "flags:string?", "lhs rhs result")


def _cast(mnemonic: str, source: str, result: str) -> type[TileOp]:
    return _op(mnemonic, f"source:{source}", f"result:{result}")


_INTS, _FLOATS, _PTRS = "llvm.ints", "llvm.floats", "llvm.ptrs"
BINARY = {**{m: _binary(m, _INTS) for m in "add sub mul udiv sdiv urem srem and or xor shl lshr ashr".split()},
          **{m: _binary(m, _FLOATS) for m in "fadd fsub fmul fdiv frem".split()}}
CASTS = {
    "zext": _cast("zext", _INTS, _INTS), "sext": _cast("sext", _INTS, _INTS), "trunc": _cast("trunc", _INTS, _INTS),
    "fptrunc": _cast("fptrunc", _FLOATS, _FLOATS), "fpext": _cast("fpext", _FLOATS, _FLOATS),
    "fptosi": _cast("fptosi", _FLOATS, _INTS), "fptoui": _cast("fptoui", _FLOATS, _INTS),
    "sitofp": _cast("sitofp", _INTS, _FLOATS), "uitofp": _cast("uitofp", _INTS, _FLOATS),
    "bitcast": _cast("bitcast", "llvm.value", "llvm.value"), "ptrtoint": _cast("ptrtoint", _PTRS, _INTS),
    "inttoptr": _cast("inttoptr", _INTS, _PTRS), "addrspacecast": _cast("addrspacecast", _PTRS, _PTRS)}
Freeze = _op("freeze", "source:llvm.value", "result:llvm.value", same="source result")
Fneg = _op("fneg", "source:llvm.floats", "result:llvm.floats", same="source result")
Icmp = _op("icmp", "lhs:llvm.value rhs:llvm.value", "result:llvm.bools", "predicate:integer_predicate", "lhs rhs")
Fcmp = _op("fcmp", "lhs:llvm.floats rhs:llvm.floats", "result:llvm.bools", "predicate:fcmp_predicate", "lhs rhs")
Select = _op("select", "condition:llvm.bools true_value:llvm.value false_value:llvm.value",
             same="true_value false_value result")
Getelementptr = _op("getelementptr", "base:llvm.ptrs index:llvm.ints", "result:llvm.ptrs", "elem_type:element")
Alloca = _op("alloca", "", "result:llvm.ptr", "count:count elem_type:element alignment:power")  # in the entry block only
Load = _op("load", "ptr:llvm.ptr", attrs="alignment:power flags:access_flags?")
Store = _op("store", "value:llvm.value ptr:llvm.ptr", "", "alignment:power flags:access_flags?")
Extractelement = _op("extractelement", "vector:llvm.vector index:llvm.int", "result:llvm.scalar")
Insertelement = _op("insertelement", "value:llvm.scalar vector:llvm.vector index:llvm.int", "result:llvm.vector",
                    same="vector result")
Shufflevector = _op("shufflevector", "lhs:llvm.vector rhs:llvm.vector", "result:llvm.vector", "mask:numbers", "lhs rhs")
Extractvalue = _op("extractvalue", "container:llvm.struct", attrs="position:count")
Call = _op("call", "args:llvm.value*", "result:llvm.result", "callee:name fastmath:string? convergent:unit?")
InlineAsm = _op("inline_asm", "args:llvm.value*", "result:llvm.result",
                "asm:string constraints:string sideeffect:unit? convergent:unit?")
Cmpxchg = _op("cmpxchg", "ptr:llvm.ptr compare:llvm.scalar value:llvm.scalar", "result:llvm.struct",
              "success:ordering failure:ordering syncscope:string alignment:power", "compare value")
Fence = _op("fence", "", "", "ordering:ordering syncscope:string")
Br = _op("br", "args:llvm.value*", "", terminator=True)
CondBr = _op("cond_br", "condition:llvm.bool then_args:llvm.value* else_args:llvm.value*", "", "no_unroll:unit?", terminator=True)
Ret = _op("return", "", "", terminator=True)
Unreachable = _op("unreachable", "", "", terminator=True)
Constant = _op("mlir.constant", "", attrs="bits:count")      # the value's bits as an integer; a splat for vector types
Poison = _op("mlir.poison", "")
AddressOf = _op("mlir.addressof", "", "result:llvm.ptr", "symbol:name")


class Func(TileOp):
    """A kernel (`kernel` set) whose entry block's arguments are its parameters; `launch`: string attributes as
    `nvvm.reqntid`; `arg_attrs`: an array of strings, LLVM parameter attributes. `maps`: recipes (`host/recipe.py`) of the
    tensor maps that the host builds; the last parameters, generic pointers, are the addresses of as many hidden maps.
    `built_maps`: how many the kernel builds itself, in memory that older drivers give by the hidden pointer before these."""

    name = "llvm.func"
    ATTRS = "sym_name:name kernel:unit? launch:string_dict? arg_attrs:strings? maps:strings? built_maps:positive?"
    REGIONS = "body:blocks"


class Global(TileOp):
    """A module-level variable: `value_type` and either `init` (hexadecimal bytes, little-endian) or nothing."""

    name = "llvm.mlir.global"
    ATTRS = "sym_name:name size:count alignment:power space:count init:string? constant:unit? linkage:string"


OPS: dict[str, type[TileOp]] = {c.name: c for c in [
    *BINARY.values(), *CASTS.values(), Freeze, Fneg, Icmp, Fcmp, Select, Getelementptr, Alloca, Load, Store, Extractelement,
    Insertelement, Shufflevector, Extractvalue, Call, InlineAsm, Cmpxchg, Fence, Br, CondBr, Ret, Unreachable, Constant, Poison,
    AddressOf, Func, Global]}
TYPES = (PtrType, StructType, VoidType)
