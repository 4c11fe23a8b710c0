"""Print the llvm dialect as LLVM IR text: one pass over the ops, block arguments become phis.

Constants, poison and addresses of globals print inline where they are used; every other result gets a number.
Vector constants are splats (`splat (i32 7)`), floats print as bit patterns, so nothing is rounded on the way.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tileiras.dialects import llvm

if TYPE_CHECKING:
    from tileiras.codegen.debug_info import DebugInfo

_FLOATS: dict[type, str] = {Float16Type: "half", BFloat16Type: "bfloat", Float32Type: "float", Float64Type: "double"}


@lru_cache(maxsize=None)
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
        self.names: dict[SSAValue, str] = {}
        self.labels: dict[Block, str] = {}
        self.declarations: dict[str, str] = {}
        self.count = 0

    def value(self, v: SSAValue) -> str:
        found = self.names.get(v)
        if found is None:
            found = self.names[v] = self._inline(v)
        return found

    def typed(self, v: SSAValue) -> str:
        return f"{type_text(v.type)} {self.value(v)}"

    def _inline(self, v: SSAValue) -> str:
        owner = v.owner
        if isinstance(owner, llvm.Constant):
            return constant_text(v.type, owner.properties["bits"].data)  # type: ignore[attr-defined]
        if isinstance(owner, llvm.Poison):
            return "poison"
        if isinstance(owner, llvm.AddressOf):
            return "@" + _symbol(owner.properties["symbol"].data)  # type: ignore[attr-defined]
        self.count += 1
        return f"%v{self.count}"

    # --- functions --------------------------------------------------------------------------------------------------

    def function(self, func: llvm.Func) -> None:
        props = func.properties
        region = func.regions[0]
        entry = region.blocks[0]
        given = props.get("arg_attrs")
        arg_attrs = [a.data for a in given.data] if given is not None else [""] * len(entry.args)  # type: ignore[attr-defined]
        params = []
        for arg, attrs in zip(entry.args, arg_attrs):
            params.append(f"{type_text(arg.type)}{' ' + attrs if attrs else ''} {self.value(arg)}")
        launch = props.get("launch")
        text = "".join(f' "{k}"="{v.data}"' for k, v in launch.data.items()) if launch is not None else ""  # type: ignore[attr-defined]
        debug = self.debug
        scope = "" if debug is None else debug.kernel(props["sym_name"].data, func.location)  # type: ignore[attr-defined]
        subprogram = f" !dbg {scope}" if scope else ""
        kind = "ptx_kernel " if "kernel" in props else "internal "
        self.lines.append(f"define {kind}void @{_symbol(props['sym_name'].data)}({', '.join(params)}) nounwind{text}{subprogram} {{")  # type: ignore[attr-defined]
        blocks = list(region.blocks)
        edges: dict[Block, list[tuple[Block, list[SSAValue]]]] = {b: [] for b in blocks}
        for i, block in enumerate(blocks):
            self.labels[block] = f"b{i}"
            last = block.last_op
            if isinstance(last, llvm.Br):
                edges[last.successors[0]].append((block, list(last.operands)))
            elif isinstance(last, llvm.CondBr):
                n = last.properties["operandSegmentSizes"].get_values()[1]  # type: ignore[attr-defined]
                edges[last.successors[0]].append((block, list(last.operands[1:1 + n])))
                edges[last.successors[1]].append((block, list(last.operands[1 + n:])))
        for i, block in enumerate(blocks):
            if i and not edges[block]:
                continue
            self.lines.append(f"{self.labels[block]}:")
            if i:
                for n, arg in enumerate(block.args):
                    sources = ", ".join(f"[ {self.value(values[n])}, %{self.labels[source]} ]" for source, values in edges[block])
                    self.lines.append(f"  {self.value(arg)} = phi {type_text(arg.type)} {sources}")
            if not scope:
                for op in block.ops:
                    PRINTERS[op.name](self, op)
                continue
            for op in block.ops:
                before = len(self.lines)
                PRINTERS[op.name](self, op)
                if len(self.lines) > before:
                    known = debug.location(op.location, scope)  # type: ignore[union-attr]
                    # A call to a function that might be inlined must have a location.
                    self.lines[-1] += f", !dbg {known or debug.location(func.location, scope)}"  # type: ignore[union-attr]
        self.lines.append("}")

    def globals(self, op: llvm.Global) -> None:
        props = op.properties
        size, align, space = (props[k].data for k in ("size", "alignment", "space"))  # type: ignore[attr-defined]
        linkage = props["linkage"].data  # type: ignore[attr-defined]
        init = props.get("init")
        text = "undef" if init is None else 'c"' + "".join("\\" + init.data[i:i + 2] for i in range(0, len(init.data), 2)) + '"'  # type: ignore[attr-defined]
        where = f"addrspace({space}) " if space else ""
        kind = "constant" if "constant" in props else "global"
        self.lines.append(f"@{_symbol(props['sym_name'].data)} = {linkage + ' ' if linkage else ''}{where}{kind} "  # type: ignore[attr-defined]
                          f"[{size} x i8] {text}, align {align}")

    def text(self) -> str:
        metadata = self.debug.lines() if self.debug is not None else []
        return "\n".join([*self.lines, "", *self.declarations.values(), *metadata]) + "\n"


def _symbol(name: str) -> str:
    return name if all(c.isalnum() or c in "._$-" for c in name) else '"' + "".join(
        c if c.isprintable() and c not in '"\\' and ord(c) < 128 else "".join(f"\\{b:02X}" for b in c.encode()) for c in name) + '"'


def _prop(op: Operation, name: str) -> str:
    p = op.properties.get(name)
    return p.data if p is not None else ""  # type: ignore[attr-defined]


def _binary(p: Printer, op: Operation) -> None:
    flags = _prop(op, "flags")
    x, y = op.operands
    p.lines.append(f"  {p.value(op.results[0])} = {op.name[5:]} {flags + ' ' if flags else ''}{p.typed(x)}, {p.value(y)}")


def _cast(p: Printer, op: Operation) -> None:
    p.lines.append(f"  {p.value(op.results[0])} = {op.name[5:]} {p.typed(op.operands[0])} to {type_text(op.results[0].type)}")


def _compare(p: Printer, op: Operation) -> None:
    x, y = op.operands
    p.lines.append(f"  {p.value(op.results[0])} = {op.name[5:]} {_prop(op, 'predicate')} {p.typed(x)}, {p.value(y)}")


def _operands(p: Printer, op: Operation) -> None:
    p.lines.append(f"  {p.value(op.results[0])} = {op.name[5:]} {', '.join(p.typed(v) for v in op.operands)}")


def _gep(p: Printer, op: Operation) -> None:
    base, index = op.operands
    p.lines.append(f"  {p.value(op.results[0])} = getelementptr {type_text(op.properties['elem_type'])}, {p.typed(base)}, {p.typed(index)}")


def _load(p: Printer, op: Operation) -> None:
    flags = _prop(op, "flags")
    volatile = "volatile " if flags == "volatile" else ""
    extra = ", !invariant.load !0" if flags == "invariant" else ""
    if extra:
        p.declarations.setdefault("!0", "!0 = !{}")
    p.lines.append(f"  {p.value(op.results[0])} = load {volatile}{type_text(op.results[0].type)}, {p.typed(op.operands[0])}, "
                   f"align {op.properties['alignment'].data}{extra}")  # type: ignore[attr-defined]


def _store(p: Printer, op: Operation) -> None:
    volatile = "volatile " if _prop(op, "flags") == "volatile" else ""
    value, where = op.operands
    p.lines.append(f"  store {volatile}{p.typed(value)}, {p.typed(where)}, align {op.properties['alignment'].data}")  # type: ignore[attr-defined]


def _shuffle(p: Printer, op: Operation) -> None:
    x, y = op.operands
    mask = [m.data for m in op.properties["mask"].data]  # type: ignore[attr-defined]
    if not any(m > 0 for m in mask) and all(m == 0 for m in mask):
        text = "zeroinitializer"
    else:
        text = "<" + ", ".join("i32 poison" if m < 0 else f"i32 {m}" for m in mask) + ">"
    p.lines.append(f"  {p.value(op.results[0])} = shufflevector {p.typed(x)}, {p.typed(y)}, <{len(mask)} x i32> {text}")


def _extractvalue(p: Printer, op: Operation) -> None:
    p.lines.append(f"  {p.value(op.results[0])} = extractvalue {p.typed(op.operands[0])}, {op.properties['position'].data}")  # type: ignore[attr-defined]


def _call(p: Printer, op: Operation) -> None:
    callee = _prop(op, "callee")
    result = op.results[0].type
    types = ", ".join(type_text(v.type) for v in op.operands)
    variadic = callee == "vprintf"
    if callee not in p.declarations:
        convergent = " convergent" if "convergent" in op.properties else ""
        p.declarations[callee] = f"declare {type_text(result)} @{callee}({types}){convergent} nounwind" if not variadic else \
            "declare i32 @vprintf(ptr, ...) nounwind"
    fastmath = _prop(op, "fastmath")
    lhs = "" if isinstance(result, llvm.VoidType) else f"{p.value(op.results[0])} = "
    kind = f"{type_text(result)} (ptr, ...)" if variadic else type_text(result)
    p.lines.append(f"  {lhs}call {fastmath + ' ' if fastmath else ''}{kind} @{callee}({', '.join(p.typed(v) for v in op.operands)})"
                   f"{' convergent' if 'convergent' in op.properties else ''}")


def _asm(p: Printer, op: Operation) -> None:
    result = op.results[0].type
    lhs = "" if isinstance(result, llvm.VoidType) else f"{p.value(op.results[0])} = "
    body = _prop(op, "asm").replace("\\", "\\5C").replace('"', "\\22").replace("\n", "\\0A").replace("\t", "\\09")
    p.lines.append(f"  {lhs}call {type_text(result)} asm {'sideeffect ' if 'sideeffect' in op.properties else ''}"
                   f"\"{body}\", \"{_prop(op, 'constraints')}\"({', '.join(p.typed(v) for v in op.operands)})"
                   f"{' convergent' if 'convergent' in op.properties else ''} nounwind")


def _cmpxchg(p: Printer, op: Operation) -> None:
    where, compare, value = op.operands
    scope = _prop(op, "syncscope")
    p.lines.append(f"  {p.value(op.results[0])} = cmpxchg {p.typed(where)}, {p.typed(compare)}, {p.typed(value)} "
                   f"{f'syncscope({chr(34)}{scope}{chr(34)}) ' if scope else ''}{_prop(op, 'success')} {_prop(op, 'failure')}, "
                   f"align {op.properties['alignment'].data}")  # type: ignore[attr-defined]


def _fence(p: Printer, op: Operation) -> None:
    scope = _prop(op, "syncscope")
    p.lines.append(f"  fence {f'syncscope({chr(34)}{scope}{chr(34)}) ' if scope else ''}{_prop(op, 'ordering')}")


def _br(p: Printer, op: Operation) -> None:
    p.lines.append(f"  br label %{p.labels[op.successors[0]]}")


def _cond_br(p: Printer, op: Operation) -> None:
    then, other = op.successors
    p.lines.append(f"  br {p.typed(op.operands[0])}, label %{p.labels[then]}, label %{p.labels[other]}")


def _nothing(p: Printer, op: Operation) -> None:
    pass


PRINTERS: dict[str, Callable[[Printer, Operation], None]] = {
    **{c.name: _binary for c in llvm.BINARY.values()}, **{c.name: _cast for c in llvm.CASTS.values()},
    "llvm.icmp": _compare, "llvm.fcmp": _compare, "llvm.select": _operands, "llvm.fneg": _operands,
    "llvm.extractelement": _operands, "llvm.insertelement": lambda p, op: p.lines.append(
        f"  {p.value(op.results[0])} = insertelement {p.typed(op.operands[1])}, {p.typed(op.operands[0])}, {p.typed(op.operands[2])}"),
    "llvm.getelementptr": _gep, "llvm.load": _load, "llvm.store": _store, "llvm.shufflevector": _shuffle,
    "llvm.extractvalue": _extractvalue, "llvm.call": _call, "llvm.inline_asm": _asm, "llvm.cmpxchg": _cmpxchg,
    "llvm.fence": _fence, "llvm.br": _br, "llvm.cond_br": _cond_br,
    "llvm.return": lambda p, op: p.lines.append("  ret void"),
    "llvm.unreachable": lambda p, op: p.lines.append("  unreachable"),
    "llvm.mlir.constant": _nothing, "llvm.mlir.poison": _nothing, "llvm.mlir.addressof": _nothing,
}


def print_module(module: Operation, *, lines: bool = False, debug: bool = False, optimized: bool = True) -> str:
    """LLVM IR text of a builtin module of llvm.mlir.global and llvm.func ops.

    `lines` keeps source locations for line directives, `debug` for debug sections; `optimized` is what those say.
    """
    info: DebugInfo | None = None
    if lines or debug:
        from tileiras.codegen.debug_info import DebugInfo
        info = DebugInfo(full=debug, optimized=optimized)
    p = Printer(info)
    for op in module.regions[0].block.ops:
        if isinstance(op, llvm.Global):
            p.globals(op)
        elif isinstance(op, llvm.Func):
            p.function(op)
    return p.text()
