"""Print the llvm dialect as LLVM IR text: one pass over the ops, block arguments become phis.

Constants, poison and addresses of globals print inline where they are used; every other result gets a number.
Vector constants are splats (`splat (i32 7)`), floats print as bit patterns, so nothing is rounded on the way.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tileiras.codegen.host_maps import HIDDEN_MAP, attributes_of
from tileiras.codegen.llvm_words import ASM_ESCAPES, type_text
from tileiras.codegen.nvvm_text import print_instruction
from tileiras.dialects import llvm

if TYPE_CHECKING:
    from tileiras.codegen.debug_info import DebugInfo


def constant_text(t: Attribute, bits: int) -> str:
    """A constant of a scalar or vector type from its bit pattern."""
    if isinstance(t, VectorType):
        e = t.element_type
        if bits == 0:
            return "zeroinitializer"
        return f"splat ({type_text(e)} {constant_text(e, bits)})"
    if isinstance(t, IntegerType):
        if t.width.data == 1:
            return "true" if bits else "false"
        half = 1 << t.width.data - 1
        return str(bits - 2 * half if bits >= half else bits)
    if isinstance(t, Float64Type):
        return f"0x{bits:016X}"
    if isinstance(t, Float32Type):
        import struct
        (value,) = struct.unpack("<f", struct.pack("<I", bits))
        if value != value:      # keep a NaN's payload: widen by hand
            wide = (bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
            return f"0x{wide:016X}"
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if isinstance(t, Float16Type):
        return f"0xH{bits:04X}"
    if isinstance(t, BFloat16Type):
        return f"0xR{bits:04X}"
    if isinstance(t, llvm.PtrType) and bits == 0:
        return "null"
    raise TypeError(f"no constant of type {t}")


class Printer:
    """Prints one module: globals, functions, then the declarations its calls need."""

    def __init__(self, debug: DebugInfo | None = None) -> None:
        self.debug = debug
        self.lines: list[str] = []
        self.names: dict[int, str] = {}         # by the value's identity; the module keeps values and types while it is printed
        self.types: dict[int, str] = {}
        self.labels: dict[Block, str] = {}
        self.declarations: dict[str, str] = {}
        self.count = 0

    def value(self, v: SSAValue) -> str:
        found = self.names.get(id(v))
        if found is None:
            found = self.names[id(v)] = self._inline(v)
        return found

    def type(self, t: Attribute) -> str:
        """The LLVM spelling of a type in the module. (Attributes hash all that is in them each time: identities don't.)"""
        found = self.types.get(id(t))
        if found is None:
            found = self.types[id(t)] = type_text(t)
        return found

    def typed(self, v: SSAValue) -> str:
        return f"{self.type(v.type)} {self.value(v)}"

    def _inline(self, v: SSAValue) -> str:
        owner = v.owner
        if isinstance(owner, llvm.Constant):
            return constant_text(v.type, _data(owner, "bits"))
        if isinstance(owner, llvm.Poison):
            return "poison"
        if isinstance(owner, llvm.AddressOf):
            return "@" + _symbol(_data(owner, "symbol"))
        self.count += 1
        return f"%v{self.count}"

    # --- functions --------------------------------------------------------------------------------------------------

    def function(self, func: llvm.Func) -> None:
        region = func.regions[0]
        entry = region.blocks[0]
        name = _data(func, "sym_name")
        attributes = [a.data for a in _data(func, "arg_attrs", ())] or [""] * len(entry.args)
        maps = [text.data for text in _data(func, "maps", ())]
        if maps:
            attributes[-len(maps):] = [HIDDEN_MAP] * len(maps)
        params = ", ".join(f"{type_text(arg.type)}{' ' + attrs if attrs else ''} {self.value(arg)}"
                           for arg, attrs in zip(entry.args, attributes, strict=True))
        launch = "".join(f' "{key}"="{value.data}"' for key, value in _data(func, "launch", {}).items()) + attributes_of(
            maps, getattr(func.properties.get("built_maps"), "data", 0))
        debug = self.debug
        scope = "" if debug is None else debug.kernel(name, func.location)
        kind = "ptx_kernel" if "kernel" in func.properties else "internal"
        self.lines.append(f"define {kind} void @{_symbol(name)}({params}) nounwind{launch}"
                          f"{f' !dbg {scope}' if scope else ''} {{")
        blocks = list(region.blocks)
        edges: dict[Block, list[tuple[Block, list[SSAValue]]]] = {b: [] for b in blocks}
        for i, block in enumerate(blocks):
            self.labels[block] = f"b{i}"
        for block in _reachable(blocks):
            last = block.last_op
            if isinstance(last, llvm.Br):
                edges[last.successors[0]].append((block, list(last.operands)))
            elif isinstance(last, llvm.CondBr):
                n = _segments(last)[1]
                edges[last.successors[0]].append((block, list(last.operands[1:1 + n])))
                edges[last.successors[1]].append((block, list(last.operands[1 + n:])))
        for i, block in enumerate(blocks):
            if i and not edges[block]:
                continue
            self.lines.append(f"{self.labels[block]}:")
            if i:
                for n, arg in enumerate(block.args):
                    sources = ", ".join(f"[ {self.value(values[n])}, %{self.labels[source]} ]"
                                        for source, values in edges[block])
                    self.lines.append(f"  {self.value(arg)} = phi {type_text(arg.type)} {sources}")
            if debug is not None and not i:
                self.lines += debug.parameters(scope, func.location, [(type_text(a.type), self.value(a)) for a in block.args])
            if debug is None or not scope:
                for op in block.ops:
                    PRINTERS[op.name](self, op)
                continue
            for op in block.ops:
                before = len(self.lines)
                PRINTERS[op.name](self, op)
                if len(self.lines) > before:
                    known = debug.location(op.location, scope)
                    # A call to a function that might be inlined must have a location.
                    for at in range(before, len(self.lines)):
                        self.lines[at] += f", !dbg {known or debug.location(func.location, scope)}"
        self.lines.append("}")

    def globals(self, op: llvm.Global) -> None:
        size, align, space = (_data(op, key) for key in ("size", "alignment", "space"))
        linkage, init = _data(op, "linkage"), _data(op, "init", None)
        text = "undef" if init is None else 'c"' + "".join(f"\\{init[i:i + 2]}" for i in range(0, len(init), 2)) + '"'
        where = f"addrspace({space}) " if space else ""
        kind = "constant" if "constant" in op.properties else "global"
        self.lines.append(f"@{_symbol(_data(op, 'sym_name'))} = {linkage + ' ' if linkage else ''}{where}{kind} "
                          f"[{size} x i8] {text}, align {align}")

    def text(self) -> str:
        metadata = self.debug.lines() if self.debug is not None else []
        return "\n".join([*self.lines, "", *self.declarations.values(), *metadata]) + "\n"


def _symbol(name: str) -> str:
    """A symbol as LLVM spells it: quoted, with escapes, unless it is an identifier."""
    if all(c.isalnum() or c in "._$-" for c in name):
        return name
    plain = (c if c.isprintable() and c not in '"\\' and ord(c) < 128 else "".join(
        f"\\{byte:02X}" for byte in c.encode()) for c in name)
    return f'"{"".join(plain)}"'


_REQUIRED = object()


def _data(op: Operation, name: str, default: Any = _REQUIRED) -> Any:
    """The data of an op's property; `default` where it has none."""
    if default is not _REQUIRED and name not in op.properties:
        return default
    found: Any = op.properties[name]
    return found.data


def _reachable(blocks: Sequence[Block]) -> list[Block]:
    """The blocks that control can get to from the first, in their order: a phi names no others."""
    seen = {blocks[0]}
    stack = [blocks[0]]
    while stack:
        last = stack.pop().last_op
        for successor in last.successors if last is not None else ():
            if successor not in seen:
                seen.add(successor)
                stack.append(successor)
    return [block for block in blocks if block in seen]


def _segments(op: Operation) -> Any:
    found: Any = op.properties["operandSegmentSizes"]
    return found.get_values()


def _text(op: Operation, name: str) -> str:
    """A text property, "" where there is none."""
    return _data(op, name, "")


def _word(text: str) -> str:
    return f"{text} " if text else ""


def _scope(op: Operation) -> str:
    scope = _text(op, "syncscope")
    return f'syncscope("{scope}") ' if scope else ""


def _convergent(op: Operation) -> str:
    return " convergent" if "convergent" in op.properties else ""


def _assign(p: Printer, op: Operation) -> str:
    """The left side of an instruction; empty for one without a value."""
    return "" if type(op.results[0].type) is llvm.VoidType else f"{p.value(op.results[0])} = "


def _binary(p: Printer, op: Operation) -> None:
    x, y = op.operands
    p.lines.append(f"  {_assign(p, op)}{op.name[5:]} {_word(_text(op, 'flags'))}{p.typed(x)}, {p.value(y)}")


def _cast(p: Printer, op: Operation) -> None:
    p.lines.append(f"  {_assign(p, op)}{op.name[5:]} {p.typed(op.operands[0])} to {p.type(op.results[0].type)}")


def _compare(p: Printer, op: Operation) -> None:
    x, y = op.operands
    p.lines.append(f"  {_assign(p, op)}{op.name[5:]} {_text(op, 'predicate')} {p.typed(x)}, {p.value(y)}")


def _operands(p: Printer, op: Operation) -> None:
    p.lines.append(f"  {_assign(p, op)}{op.name[5:]} {', '.join(p.typed(v) for v in op.operands)}")


def _insert(p: Printer, op: Operation) -> None:
    value, vector, index = op.operands
    p.lines.append(f"  {_assign(p, op)}insertelement {p.typed(vector)}, {p.typed(value)}, {p.typed(index)}")


def _gep(p: Printer, op: Operation) -> None:
    base, index = op.operands
    element = p.type(op.properties["elem_type"])
    p.lines.append(f"  {_assign(p, op)}getelementptr {element}, {p.typed(base)}, {p.typed(index)}")


def _alloca(p: Printer, op: Operation) -> None:
    p.lines.append(f"  {_assign(p, op)}alloca [{_data(op, 'count')} x {type_text(op.properties['elem_type'])}], "
                   f"align {_data(op, 'alignment')}")


def _load(p: Printer, op: Operation) -> None:
    flags = _text(op, "flags")
    volatile = "volatile " if flags == "volatile" else ""
    extra = ", !invariant.load !0" if flags == "invariant" else ""
    if extra:
        p.declarations.setdefault("!0", "!0 = !{}")
    p.lines.append(f"  {_assign(p, op)}load {volatile}{p.type(op.results[0].type)}, {p.typed(op.operands[0])}, "
                   f"align {_data(op, 'alignment')}{extra}")


def _store(p: Printer, op: Operation) -> None:
    volatile = "volatile " if _text(op, "flags") == "volatile" else ""
    value, where = op.operands
    p.lines.append(f"  store {volatile}{p.typed(value)}, {p.typed(where)}, align {_data(op, 'alignment')}")


def _shuffle(p: Printer, op: Operation) -> None:
    x, y = op.operands
    mask = [m.data for m in _data(op, "mask")]
    if not any(mask):
        text = "zeroinitializer"
    else:
        text = "<" + ", ".join("i32 poison" if m < 0 else f"i32 {m}" for m in mask) + ">"
    p.lines.append(f"  {_assign(p, op)}shufflevector {p.typed(x)}, {p.typed(y)}, <{len(mask)} x i32> {text}")


def _extractvalue(p: Printer, op: Operation) -> None:
    p.lines.append(f"  {_assign(p, op)}extractvalue {p.typed(op.operands[0])}, {_data(op, 'position')}")


VARIADIC = "vprintf"
"""Declared variadic, so that LLVM builds the buffer of its arguments."""


def _call(p: Printer, op: Operation) -> None:
    callee, result = _text(op, "callee"), p.type(op.results[0].type)
    arguments = ", ".join(p.typed(v) for v in op.operands)
    convergent = _convergent(op)
    if callee not in p.declarations:
        types = "ptr, ..." if callee == VARIADIC else ", ".join(p.type(v.type) for v in op.operands)
        p.declarations[callee] = f"declare {result} @{callee}({types}){convergent} nounwind"
    kind = f"{result} (ptr, ...)" if callee == VARIADIC else result
    p.lines.append(f"  {_assign(p, op)}call {_word(_text(op, 'fastmath'))}{kind} @{callee}({arguments}){convergent}")


def _asm(p: Printer, op: Operation) -> None:
    sideeffect = "sideeffect " if "sideeffect" in op.properties else ""
    body = _text(op, "asm").translate(ASM_ESCAPES)
    arguments = ", ".join(p.typed(v) for v in op.operands)
    p.lines.append(f"  {_assign(p, op)}call {p.type(op.results[0].type)} asm {sideeffect}\"{body}\", "
                   f"\"{_text(op, 'constraints')}\"({arguments}){_convergent(op)} nounwind")


def _cmpxchg(p: Printer, op: Operation) -> None:
    operands = ", ".join(p.typed(v) for v in op.operands)
    p.lines.append(f"  {_assign(p, op)}cmpxchg {operands} {_scope(op)}{_text(op, 'success')} {_text(op, 'failure')}, "
                   f"align {_data(op, 'alignment')}")


def _fence(p: Printer, op: Operation) -> None:
    p.lines.append(f"  fence {_scope(op)}{_text(op, 'ordering')}")


def _br(p: Printer, op: Operation) -> None:
    p.lines.append(f"  br label %{p.labels[op.successors[0]]}")


NO_UNROLL = 1 << 24
"""Number of the node that says so; those of loops are higher. Debug information numbers its own from 1 on."""


def _cond_br(p: Printer, op: Operation) -> None:
    then, other = op.successors
    extra = ""
    if "no_unroll" in op.properties:
        p.declarations.setdefault(f"!{NO_UNROLL}", f'!{NO_UNROLL} = !{{!"llvm.loop.unroll.disable"}}')
        loop = f"!{NO_UNROLL + len(p.declarations)}"
        p.declarations[loop] = f"{loop} = distinct !{{{loop}, !{NO_UNROLL}}}"
        extra = f", !llvm.loop {loop}"
    p.lines.append(f"  br {p.typed(op.operands[0])}, label %{p.labels[then]}, label %{p.labels[other]}{extra}")


def _nvvm(p: Printer, op: Operation) -> None:
    print_instruction(p, op)


def _nothing(p: Printer, op: Operation) -> None:
    pass


PRINTERS: dict[str, Callable[[Printer, Operation], None]] = {
    **{c.name: _binary for c in llvm.BINARY.values()}, **{c.name: _cast for c in llvm.CASTS.values()},
    "llvm.icmp": _compare, "llvm.fcmp": _compare, "llvm.select": _operands, "llvm.fneg": _operands, "llvm.freeze": _operands,
    "llvm.extractelement": _operands, "llvm.insertelement": _insert,
    "llvm.getelementptr": _gep, "llvm.alloca": _alloca, "llvm.load": _load, "llvm.store": _store, "llvm.shufflevector": _shuffle,
    "llvm.extractvalue": _extractvalue, "llvm.call": _call, "llvm.inline_asm": _asm, "llvm.cmpxchg": _cmpxchg,
    "llvm.fence": _fence, "llvm.br": _br, "llvm.cond_br": _cond_br,
    "nvvm.inst": _nvvm, "llvm.return": lambda p, op: p.lines.append("  ret void"),
    "llvm.unreachable": lambda p, op: p.lines.append("  unreachable"),
    "llvm.mlir.constant": _nothing, "llvm.mlir.poison": _nothing, "llvm.mlir.addressof": _nothing,
}


def print_module(module: Operation, *, lines: bool = False, debug: bool = False, optimized: bool = True,
                 program: str = "") -> str:
    """LLVM IR text of a builtin module of llvm.mlir.global and llvm.func ops.

    `lines` keeps source locations for line directives, `debug` for debug sections; `optimized` is what those say.
    `program` is the tile program as text, for the cubin to hold.
    """
    info: DebugInfo | None = None
    if lines or debug:
        from tileiras.codegen.debug_info import DebugInfo
        info = DebugInfo(full=debug, optimized=optimized, program=program)
    p = Printer(info)
    for op in module.regions[0].block.ops:
        if isinstance(op, llvm.Global):
            p.globals(op)
        elif isinstance(op, llvm.Func):
            p.function(op)
    return p.text()
