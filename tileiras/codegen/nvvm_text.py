"""Print nvvm's instructions as LLVM IR: a call of an intrinsic or of inline assembly for each.

    %d = "nvvm.inst"(%acc, %a, %b, %on) <{instruction = "wgmma.mma_async.m64n16k16.f32.f16.f16.ss"}> : vector<8xf32>
->  %v1 = extractelement <8 x float> %acc, i32 0   ...
    %v9 = call { float, ... } asm sideeffect "wgmma... {$0, ..., $7}, $16, $17, $18, 1, 1, 0, 0;",
              "=f,=f,...,0,1,...,7,l,l,b,~{memory}"(float %v1, ..., i64 %a, i64 %b, i1 %on) convergent nounwind
    %v10 = extractvalue { float, ... } %v9, 0 ; %v18 = insertelement <8 x float> poison, float %v10, i32 0   ...

Intrinsics take their vectors as they are. Assembly takes registers: a vector is one register an element.
"""
from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerType, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.codegen.llvm_words import ASM_ESCAPES, type_text
from tileiras.dialects import llvm
from tileiras.dialects.nvvm import READ, Instruction

if TYPE_CHECKING:
    from tileiras.codegen.llvm_text import Printer


def print_instruction(p: Printer, op: Any) -> None:
    """Append the lines of one `nvvm.inst` to the printer."""
    row: Instruction = op.row
    if row.intrinsic:
        _intrinsic(p, op, row)
    else:
        _assembly(p, op, row)


def _fresh(p: Printer) -> str:
    p.count += 1
    return f"%v{p.count}"


def _returned(members: list[str]) -> str:
    return "void" if not members else members[0] if len(members) == 1 else "{ " + ", ".join(members) + " }"


def _take_apart(p: Printer, call: str, result: str, names: list[str]) -> None:
    """Append a call whose results are to have these names."""
    if not names:
        p.lines.append(f"  {call}")
        return
    if len(names) == 1:
        p.lines.append(f"  {names[0]} = {call}")
        return
    whole = _fresh(p)
    p.lines.append(f"  {whole} = {call}")
    for i, name in enumerate(names):
        p.lines.append(f"  {name} = extractvalue {result} {whole}, {i}")


def _intrinsic(p: Printer, op: Operation, row: Instruction) -> None:
    name = f"llvm.nvvm.{row.intrinsic}"
    convergent = " convergent" if row.convergent else ""
    result = _returned([type_text(v.type) for v in op.results])
    if name not in p.declarations:
        types = ", ".join(type_text(v.type) for v in op.operands)
        p.declarations[name] = f"declare {result} @{name}({types}){convergent} nounwind"
    arguments = ", ".join(p.typed(v) for v in op.operands)
    _take_apart(p, f"call {result} @{name}({arguments}){convergent}", result, [p.value(v) for v in op.results])


_LETTERS: dict[type, str] = {VectorType: "r", Float32Type: "f", Float64Type: "d"}
_OF_INTEGERS = {1: "b", 16: "h", 32: "r", 64: "l"}


def _constraint(t: Any) -> str:
    """The letter of a register that holds a scalar (or a packed pair) of this type."""
    kind = type(t)
    if kind is IntegerType:
        return _OF_INTEGERS[t.width.data]
    if kind is llvm.PtrType:
        return "r" if t.space.data in (llvm.SHARED, llvm.LOCAL) else "l"
    return _LETTERS.get(kind, "h")


def _is_packed(t: Any) -> bool:
    """Whether a vector is one register: a pair of 16-bit floats."""
    return type(t) is VectorType and t.get_shape() == (2,) and _constraint(t.element_type) == "h"


@cache
def _escaped(text: str) -> str:
    """Assembly as LLVM IR writes it."""
    return text.translate(ASM_ESCAPES)


def _elements(t: Attribute) -> list[Attribute]:
    """The types of the registers that a value takes."""
    if type(t) is VectorType and not _is_packed(t):
        return [t.element_type] * t.get_shape()[0]
    return [t]


def _scalars(p: Printer, v: SSAValue) -> list[str]:
    """A value's registers, typed, taken out of its vector."""
    t = v.type
    if type(t) is not VectorType or _is_packed(t):
        return [p.typed(v)]
    out = []
    for i in range(t.get_shape()[0]):
        name = _fresh(p)
        p.lines.append(f"  {name} = extractelement {p.typed(v)}, i32 {i}")
        out.append(f"{type_text(t.element_type)} {name}")
    return out


def _assembly(p: Printer, op: Operation, row: Instruction) -> None:
    results = [t for v in op.results for t in _elements(v.type)]
    tied = len(op.operands) if row.is_wait else row.tied
    constraints = [f"={_constraint(t)}" for t in results]
    arguments: list[str] = []
    for i, v in enumerate(op.operands):
        registers = _scalars(p, v)
        constraints += [str(len(arguments) + n) for n in range(len(registers))] if i < tied else \
            [_constraint(t) for t in _elements(v.type)]
        arguments += registers
    if row.keeps:
        first = len(results)
        constraints[-first:] = [str(n) for n in range(first)]
    only_reads = row.effects == READ and not row.volatile
    if row.effects:     # without it, NVPTX's alias analysis takes an assembly that has no side effect to touch no memory
        constraints.append("~{memory}")
    result = _returned([type_text(t) for t in results])
    sideeffect = "sideeffect " if (row.effects or row.volatile) and not only_reads else ""
    # what only reads may go if nobody wants it, and may not be moved over a write
    promises = " memory(read) willreturn nounwind" if only_reads else " nounwind"
    call = (f"call {result} asm {sideeffect}\"{_escaped(row.asm)}\", \"{','.join(constraints)}\""
            f"({', '.join(arguments)}){' convergent' if row.convergent else ''}{promises}")
    whole = [(v, _elements(v.type)) for v in op.results]
    _take_apart(p, call, result, names := [p.value(v) if types == [v.type] else _fresh(p) for v, types in whole for _ in types])
    at = 0
    for v, types in whole:
        if types != [v.type]:
            before = "poison"
            for i, t in enumerate(types):
                name = p.value(v) if i + 1 == len(types) else _fresh(p)
                p.lines.append(f"  {name} = insertelement {type_text(v.type)} {before}, {type_text(t)} {names[at + i]}, i32 {i}")
                before = name
        at += len(types)
