"""How each op lies in bytecode: opcode, since-version, attributes in wire order. Reader and writer follow this table.

An op's record is

    opcode, result types, flags, attributes, operands, regions

and mostly follows from its declaration (dialects/cuda_tile): where any operand or result group is variadic, the
result types are preceded by their count; where the op has operand segments, each variadic group is preceded by its
count and an optional operand is announced by a flag, and otherwise one count precedes all operands of an op with a
variable group. What a declaration doesn't say stands here:

    0x3D LoadPtrTko 13.1  memory_ordering_semantics:memory_ordering memory_scope?:memory_scope optimization_hints?:hints

reads `name:kind`; `?` is announced by a flag, as is every `unit` attribute, which is nothing but its flag. Flag bits
count optional attributes, then optional operands, in order. `@13.3` is the version a field came with; `=full` is what
it means in older files. The flags stand in a version only if some flagged field exists in it.

Sources: public `BytecodeOpcodes.td` and `Ops.td` (13.1 to 13.3), cuTile Python `_bytecode/encodings.py` (13.4, 13.5).
"""
from __future__ import annotations

from functools import cache
from typing import NamedTuple

from tileiras.bytecode.version import V13_1, Version
from tileiras.dialects.cuda_tile import ops
from tileiras.dialects.cuda_tile.op import CudaTileOp

_TABLE = """
0x00 AbsF 13.1
0x01 AbsI 13.1
0x02 AddF 13.1 rounding_mode:rounding flush_to_zero:unit
0x03 AddI 13.1 overflow:overflow
0x04 AndI 13.1
0x05 Assert 13.1 message:string
0x06 Assume 13.1 predicate:assume
0x07 AtomicCASTko 13.1 memory_ordering_semantics:memory_ordering memory_scope:memory_scope
0x08 AtomicRMWTko 13.1 memory_ordering_semantics:memory_ordering memory_scope:memory_scope mode:rmw_mode
0x09 Bitcast 13.1
0x0A Break 13.1
0x0B Broadcast 13.1
0x0C Cat 13.1 dim:i64
0x0D Ceil 13.1
0x0E CmpF 13.1 comparison_predicate:predicate comparison_ordering:ordering
0x0F CmpI 13.1 comparison_predicate:predicate signedness:signedness
0x10 Constant 13.1 value:dense
0x11 Continue 13.1
0x12 Cos 13.1
0x13 CosH 13.1
0x14 DivF 13.1 rounding_mode:rounding flush_to_zero:unit
0x15 DivI 13.1 signedness:signedness rounding:rounding
0x16 Entry 13.1 sym_name:string function_type:type arg_attrs?:array res_attrs?:array optimization_hints?:hints
0x17 Exp 13.1 rounding_mode:rounding@13.3=full
0x18 Exp2 13.1 flush_to_zero:unit
0x25 ExtI 13.1 signedness:signedness
0x26 Extract 13.1
0x27 Floor 13.1
0x28 Fma 13.1 rounding_mode:rounding flush_to_zero:unit
0x29 For 13.1 unsignedCmp:unit@13.2
0x2A FToF 13.1 rounding_mode:rounding
0x2B FToI 13.1 saturating:unit@13.4 signedness:signedness rounding_mode:rounding
0x2C GetGlobal 13.1 name:symbol
0x2D GetIndexSpaceShape 13.1
0x2E GetNumTileBlocks 13.1
0x2F GetTensorShape 13.1
0x30 GetTileBlockId 13.1
0x31 Global 13.1 sym_name:string value:dense alignment:i64 constant:unit@13.3 symbol_visibility:visibility@13.3=public
0x32 If 13.1
0x33 IntToPtr 13.1
0x3A Iota 13.1
0x3B IToF 13.1 signedness:signedness rounding_mode:rounding
0x3C JoinTokens 13.1
0x3D LoadPtrTko 13.1 memory_ordering_semantics:memory_ordering memory_scope?:memory_scope optimization_hints?:hints
0x3E LoadViewTko 13.1 memory_ordering_semantics:memory_ordering memory_scope?:memory_scope
    optimization_hints?:hints inbounds:bools@13.4
0x3F Log 13.1
0x40 Log2 13.1
0x41 Loop 13.1
0x42 MakePartitionView 13.1
0x43 MakeTensorView 13.1
0x44 MakeToken 13.1
0x45 MaxF 13.1 propagate_nan:unit flush_to_zero:unit
0x46 MaxI 13.1 signedness:signedness
0x47 MinF 13.1 propagate_nan:unit flush_to_zero:unit
0x48 MinI 13.1 signedness:signedness
0x49 MmaF 13.1 fast_acc:unit@13.3
0x4A MmaI 13.1 signedness_lhs:signedness signedness_rhs:signedness
0x4B Module 13.1 sym_name:string producer?:string@13.3
0x4C MulF 13.1 rounding_mode:rounding flush_to_zero:unit
0x4D MulhiI 13.1
0x4E MulI 13.1 overflow:overflow
0x4F NegF 13.1
0x50 NegI 13.1 overflow:overflow@13.2=none
0x51 Offset 13.1
0x52 OrI 13.1
0x53 Permute 13.1 permutation:i32s
0x54 Pow 13.1
0x55 PrintTko 13.1 str:string
0x56 PtrToInt 13.1
0x57 PtrToPtr 13.1
0x58 Reduce 13.1 dim:i32 identities:array
0x59 RemF 13.1
0x5A RemI 13.1 signedness:signedness
0x5B Reshape 13.1
0x5C Return 13.1
0x5D Rsqrt 13.1 flush_to_zero:unit
0x5E Scan 13.1 dim:i32 reverse:bool identities:array
0x5F Select 13.1
0x60 ShLI 13.1 overflow:overflow
0x61 ShRI 13.1 signedness:signedness
0x62 Sin 13.1
0x63 SinH 13.1
0x64 Sqrt 13.1 rounding_mode:rounding flush_to_zero:unit
0x65 StorePtrTko 13.1 memory_ordering_semantics:memory_ordering memory_scope?:memory_scope optimization_hints?:hints
0x66 StoreViewTko 13.1 memory_ordering_semantics:memory_ordering memory_scope?:memory_scope
    optimization_hints?:hints inbounds:bools@13.4
0x67 SubF 13.1 rounding_mode:rounding flush_to_zero:unit
0x68 SubI 13.1 overflow:overflow
0x69 Tan 13.1
0x6A TanH 13.1 rounding_mode:rounding@13.2=full
0x6B TruncI 13.1 overflow:overflow
0x6C XOrI 13.1
0x6D Yield 13.1
0x6E Atan2 13.2
0x6F Pack 13.3
0x70 Unpack 13.3
0x71 Alloca 13.3 num_elem:i64 alignment:i64 global:unit
0x72 MmaFScaled 13.3
0x73 MakeGatherScatterView 13.3
0x74 MakeStridedView 13.3
0x75 AtomicRedViewTko 13.3 memory_ordering_semantics:memory_ordering memory_scope:memory_scope mode:rmw_mode
    inbounds:bools@13.5
0x76 Insert 13.4
0x77 GdcLaunchDependentsTko 13.4
0x78 GdcWaitTko 13.4
0x79 FPowI 13.4
0x7A MemoryFenceAliasTko 13.4
0x7B MultimemLoadReduceViewTko 13.5 memory_ordering_semantics:memory_ordering memory_scope?:memory_scope
    reduction:multimem inbounds:bools
0x7C MultimemReduceViewTko 13.5 memory_ordering_semantics:memory_ordering memory_scope:memory_scope
    reduction:multimem inbounds:bools
0x7D MultimemStoreViewTko 13.5 memory_ordering_semantics:memory_ordering memory_scope?:memory_scope inbounds:bools
"""

_LATER_VALUES = {("PrintTko", "token"): Version(13, 2), ("PrintTko", "result_token"): Version(13, 2)}
"""Operands and results that came after their op."""


class WireAttr(NamedTuple):
    """One attribute on the wire; `flag` is its bit, or None where it is always there."""

    name: str
    kind: str
    since: Version
    default: str | None
    flag: int | None


class WireOperand(NamedTuple):
    """One operand group; `many` is "", "?" or "*" as in the declaration, `flag` the bit of an optional one."""

    name: str
    many: str
    since: Version
    flag: int | None


class OpRow(NamedTuple):
    """One op of the table, resolved against its declaration."""

    opcode: int
    op: type[CudaTileOp]
    since: Version
    attrs: tuple[WireAttr, ...]
    operands: tuple[WireOperand, ...]
    results: tuple[WireOperand, ...]
    counted_results: bool
    counted_operands: bool
    segmented: bool
    regions: int

    def flags(self, version: Version) -> int:
        """The flag bits that the version knows; where there are none the flags don't stand in the file."""
        return sum(1 << f.flag for f in (*self.attrs, *self.operands) if f.flag is not None and f.since <= version)


def _later(op: str, field: str) -> Version:
    return _LATER_VALUES.get((op, field), V13_1)


def _resolve(line: str) -> OpRow:
    code, name, since, *specs = line.split()
    op: type[CudaTileOp] = getattr(ops, name)
    bit = 0
    attrs = []
    for spec in specs:
        field, _, kind = spec.partition(":")
        kind, _, default = kind.partition("=")
        kind, _, version = kind.partition("@")
        flagged = field.endswith("?") or kind == "unit"
        attrs.append(WireAttr(field.rstrip("?"), kind, Version.parse(version or since), default or None,
                              bit if flagged else None))
        bit += flagged
    variable = [f for f in op.operand_fields if f.many]
    segmented = len(variable) > 1
    operands = []
    for f in op.operand_fields:
        flagged = segmented and f.many == "?"
        operands.append(WireOperand(f.name, f.many, _later(name, f.name), bit if flagged else None))
        bit += flagged
    results = tuple(WireOperand(f.name, f.many, _later(name, f.name), None) for f in op.result_fields)
    variadic = any(f.many == "*" for f in (*op.operand_fields, *op.result_fields))
    return OpRow(int(code, 16), op, Version.parse(since), tuple(attrs), tuple(operands), results,
                 counted_results=variadic, counted_operands=len(variable) == 1, segmented=segmented,
                 regions=len(op.region_fields))


_LINES: dict[int, str] = {int(line[:4], 16): line for line in _TABLE.replace("\n    ", " ").split("\n") if line}


@cache
def row_of(opcode: int) -> OpRow | None:
    """The row of an opcode, resolved at its first use; None where no op has it."""
    line = _LINES.get(opcode)
    return None if line is None else _resolve(line)


def all_rows() -> tuple[OpRow, ...]:
    return tuple(_resolve(line) for line in _LINES.values())


@cache
def rows_by_name() -> dict[str, OpRow]:
    """Every op's row by its `cuda_tile.` name, for the writer."""
    return {row.op.name: row for row in all_rows()}
