"""The `llvm` dialect as this project emits it: LLVM IR's own operations on scalars, vectors and pointers.

One op a LLVM instruction, typed by xDSL's builtin integer, float and vector types, `!llvm.ptr<addrspace>` and
`!llvm.struct`. Constants are ops (`llvm.mlir.constant`, raw bits), deduplicated by the builder and printed inline by
codegen/llvm_text.py. Address spaces: 0 generic, 1 global, 3 shared, 4 constant, 5 local.
"""
from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerType, VectorType
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def

from tileiras.dialects.base import TileOp

if TYPE_CHECKING:
    from xdsl.printer import Printer

GENERIC, GLOBAL, SHARED, CONST, LOCAL = 0, 1, 3, 4, 5


@irdl_attr_definition
class PtrType(ParametrizedAttribute, TypeAttribute):
    """A pointer into an address space."""

    name = "llvm.ptr"
    space: IntAttr = param_def()

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.space.data}>")


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


def _op(mnemonic: str, operands: str, results: str = "result", attrs: str = "", terminator: bool = False) -> type[TileOp]:
    name = "".join(part.capitalize() for part in mnemonic.replace(".", "_").split("_"))
    return type(name, (TileOp,), {"name": f"llvm.{mnemonic}", "OPERANDS": operands, "RESULTS": results, "ATTRS": attrs,
                                  "TERMINATOR": terminator})


BINARY = {m: _op(m, "lhs rhs", attrs="flags?") for m in (
    "add sub mul udiv sdiv urem srem and or xor shl lshr ashr fadd fsub fmul fdiv frem").split()}
CASTS = {m: _op(m, "source") for m in (
    "zext sext trunc fptrunc fpext fptosi fptoui sitofp uitofp bitcast ptrtoint inttoptr addrspacecast").split()}
Fneg = _op("fneg", "source")
Icmp = _op("icmp", "lhs rhs", attrs="predicate")
Fcmp = _op("fcmp", "lhs rhs", attrs="predicate")
Select = _op("select", "condition true_value false_value")
Getelementptr = _op("getelementptr", "base index", attrs="elem_type")
Alloca = _op("alloca", "", attrs="count elem_type alignment")  # in the entry block only
Load = _op("load", "ptr", attrs="alignment flags?")          # flags: "invariant", "volatile", "nontemporal"
Store = _op("store", "value ptr", results="", attrs="alignment flags?")
Extractelement = _op("extractelement", "vector index")
Insertelement = _op("insertelement", "value vector index")
Shufflevector = _op("shufflevector", "lhs rhs", attrs="mask")
Extractvalue = _op("extractvalue", "container", attrs="position")
Call = _op("call", "args*", attrs="callee fastmath? convergent?")
InlineAsm = _op("inline_asm", "args*", attrs="asm constraints sideeffect? convergent?")
Cmpxchg = _op("cmpxchg", "ptr compare value", attrs="success failure syncscope alignment")
Fence = _op("fence", "", results="", attrs="ordering syncscope")
Br = _op("br", "args*", results="", terminator=True)
CondBr = _op("cond_br", "condition then_args* else_args*", results="", terminator=True)
Ret = _op("return", "", results="", terminator=True)
Unreachable = _op("unreachable", "", results="", terminator=True)
Constant = _op("mlir.constant", "", attrs="bits")            # the value's bits as an integer; a splat for vector types
Poison = _op("mlir.poison", "")
AddressOf = _op("mlir.addressof", "", attrs="symbol")


class Func(TileOp):
    """A kernel (`kernel` set) whose entry block's arguments are its parameters; `launch`: string attributes as
    `nvvm.reqntid`; `arg_attrs`: an array of strings, LLVM parameter attributes."""

    name = "llvm.func"
    ATTRS = "sym_name kernel? launch? arg_attrs?"
    REGIONS = "body"


class Global(TileOp):
    """A module-level variable: `value_type` and either `init` (hexadecimal bytes, little-endian) or nothing."""

    name = "llvm.mlir.global"
    ATTRS = "sym_name size alignment space init? constant? linkage"


OPS: dict[str, type[TileOp]] = {c.name: c for c in [
    *BINARY.values(), *CASTS.values(), Fneg, Icmp, Fcmp, Select, Getelementptr, Alloca, Load, Store, Extractelement, Insertelement,
    Shufflevector, Extractvalue, Call, InlineAsm, Cmpxchg, Fence, Br, CondBr, Ret, Unreachable, Constant, Poison, AddressOf,
    Func, Global]}
TYPES = (PtrType, StructType, VoidType)
