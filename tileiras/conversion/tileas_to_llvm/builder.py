"""Emit llvm-dialect ops at an insertion point, folding what is known while emitting.

Address arithmetic over constant registers is most of what a lowering writes; folding it here (x + 0, 3 * 4,
x xor 0, constants shared per function) keeps the IR, the text and LLVM's work small. Types follow operands:
integers of any width, floats, vectors of them (element by element), pointers.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    VectorType,
)
from xdsl.ir import Attribute, Block, SSAValue

from tileiras.dialects import llvm, nvvm
from tileiras.dialects.llvm import integer, ptr, struct, vec
from tileiras.errors import CompileError

I1, I8, I16, I32, I64 = (integer(n) for n in (1, 8, 16, 32, 64))
F16, BF16, F32, F64 = Float16Type(), BFloat16Type(), Float32Type(), Float64Type()
_UNIT = UnitAttr()
_STRINGS: dict[str, StringAttr] = {}


def string(text: str) -> StringAttr:
    """The StringAttr of a text, made once."""
    found = _STRINGS.get(text)
    if found is None:
        found = _STRINGS[text] = StringAttr(text)
    return found


def element_type(t: Attribute) -> Attribute:
    """A vector's element type; any other type itself."""
    return t.element_type if isinstance(t, VectorType) else t


def width_of(t: Attribute) -> int:
    """Bits of a scalar type (of the element for vectors); pointers: 64, or 32 in shared memory."""
    t = element_type(t)
    if isinstance(t, IntegerType):
        return t.width.data
    if isinstance(t, llvm.PtrType):
        return 32 if t.space.data in (3, 5) else 64
    return {Float16Type: 16, BFloat16Type: 16, Float32Type: 32, Float64Type: 64}[type(t)]


def float_bits(value: float, t: Attribute) -> int:
    """The bit pattern of a Python float in a type; the value must be exactly representable there or is rounded to even."""
    import struct as packer
    if isinstance(t, Float64Type):
        return packer.unpack("<Q", packer.pack("<d", value))[0]
    if isinstance(t, Float16Type):
        return packer.unpack("<H", packer.pack("<e", value))[0]
    single = packer.unpack("<I", packer.pack("<f", value))[0]
    if isinstance(t, BFloat16Type):
        low = single & 0xFFFF
        high = single >> 16
        if value == value and (low > 0x8000 or (low == 0x8000 and high & 1)):
            high += 1
        return high
    return single


class Builder:
    """Appends llvm-dialect ops to `block`, each with the source `location`. Constants go to the front of `entry`, once
    each."""

    def __init__(self, entry: Block) -> None:
        self.entry = entry
        self.block = entry
        self.location: Attribute | None = None
        self.target: Any = None
        self._zeros: dict[int, SSAValue] = {}
        self._constants: dict[tuple[Attribute, int], SSAValue] = {}
        self._known: dict[SSAValue, int] = {}
        self._poison: dict[Attribute, SSAValue] = {}
        self._local: Any = None
        self._splats: dict[SSAValue, SSAValue] = {}     # what all elements of a vector are
        self._repeats: dict[SSAValue, tuple[SSAValue, tuple[int, ...]]] = {}    # whose elements a vector repeats, and which
        self._parts: dict[SSAValue, tuple[SSAValue, int, int]] = {}     # of which word a scalar is a part, which, and of how many

    # --- blocks ---------------------------------------------------------------------------------------------------

    def new_block(self, arg_types: Sequence[Attribute] = ()) -> Block:
        """A block appended to the function; the insertion point stays."""
        block = Block(arg_types=arg_types)
        region = self.entry.parent
        assert region is not None
        region.add_block(block)
        return block

    def at(self, block: Block) -> None:
        """Emit at the end of `block` from now on."""
        self.block = block

    def emit(self, op: Any) -> Any:
        op.location = self.location
        self.block.add_op(op)
        return op

    def _one(self, cls: Any, operands: list[SSAValue], result: Attribute,
             properties: dict[str, Attribute] | None = None) -> SSAValue:
        op = cls.create(operands=operands, result_types=[result], properties=properties or {})
        op.location = self.location
        self.block.add_op(op)
        return op.results[0]

    # --- constants ------------------------------------------------------------------------------------------------

    def bits(self, value: int, t: Attribute) -> SSAValue:
        """A constant of type `t` from its bit pattern (for vectors: a splat of the element's pattern)."""
        value &= (1 << width_of(t)) - 1
        found = self._constants.get((t, value))
        if found is None:
            op = llvm.Constant.create(result_types=[t], properties={"bits": IntAttr(value)})
            first = self.entry.first_op
            if first is None:
                self.entry.add_op(op)
            else:
                self.entry.insert_op_before(op, first)
            found = self._constants[t, value] = op.results[0]
            self._known[found] = value
        return found

    def hidden_zero(self, width: int) -> SSAValue:
        """A zero of 16 or 32 bits that LLVM doesn't know to be one."""
        if width not in self._zeros:
            here, self.block = self.block, Block()
            self._zeros[width] = self.nvvm(f"zero.b{width}")[0]
            made, self.block = self.block, here
            first: Any = self.entry.first_op
            for op in list(made.ops):
                op.detach()
                self.entry.insert_op_before(op, first)
        return self._zeros[width]

    def const(self, value: int | float, t: Attribute) -> SSAValue:
        """A constant of an integer or float type (or vector: splat) from its value."""
        e = element_type(t)
        if isinstance(e, IntegerType | llvm.PtrType):
            return self.bits(int(value), t)
        return self.bits(float_bits(float(value), e), t)

    def i32(self, value: int) -> SSAValue:
        return self.bits(value, I32)

    def i64(self, value: int) -> SSAValue:
        return self.bits(value, I64)

    def true(self) -> SSAValue:
        return self.bits(1, I1)

    def false(self) -> SSAValue:
        return self.bits(0, I1)

    def poison(self, t: Attribute) -> SSAValue:
        found = self._poison.get(t)
        if found is None:
            op = llvm.Poison.create(result_types=[t])
            first = self.entry.first_op
            if first is None:
                self.entry.add_op(op)
            else:
                self.entry.insert_op_before(op, first)
            found = self._poison[t] = op.results[0]
        return found

    def known(self, value: SSAValue) -> int | None:
        """The (unsigned) bit pattern of a constant, else None."""
        return self._known.get(value)

    # --- arithmetic -----------------------------------------------------------------------------------------------

    def binary(self, mnemonic: str, x: SSAValue, y: SSAValue, flags: str = "") -> SSAValue:
        """Any LLVM binary instruction; integers fold when both sides, or a neutral side, are known."""
        t = x.type
        if mnemonic[0] != "f":
            folded = self._fold(mnemonic, x, y)
            if folded is not None:
                return folded
        return self._one(llvm.BINARY[mnemonic], [x, y], t, {"flags": string(flags)} if flags else None)

    def _fold(self, mnemonic: str, x: SSAValue, y: SSAValue) -> SSAValue | None:
        a, b = self._known.get(x), self._known.get(y)
        t = x.type
        if a is not None and b is not None:
            w = width_of(t)
            match mnemonic:
                case "add":
                    return self.bits(a + b, t)
                case "sub":
                    return self.bits(a - b, t)
                case "mul":
                    return self.bits(a * b, t)
                case "and":
                    return self.bits(a & b, t)
                case "or":
                    return self.bits(a | b, t)
                case "xor":
                    return self.bits(a ^ b, t)
                case "shl" if b < w:
                    return self.bits(a << b, t)
                case "lshr" if b < w:
                    return self.bits(a >> b, t)
                case "udiv" if b:
                    return self.bits(a // b, t)
                case "urem" if b:
                    return self.bits(a % b, t)
                case _:
                    return None
        if b == 0 and mnemonic in ("add", "sub", "or", "xor", "shl", "lshr", "ashr"):
            return x
        if a == 0 and mnemonic in ("add", "or", "xor"):
            return y
        if mnemonic == "mul":
            if b == 1:
                return x
            if a == 1:
                return y
            if a == 0 or b == 0:
                return self.bits(0, t)
        if mnemonic == "and":
            ones = (1 << width_of(t)) - 1
            if a == 0 or b == 0:
                return self.bits(0, t)
            if a == ones:
                return y
            if b == ones:
                return x
        if mnemonic == "or" and width_of(t) == 1 and (a == 1 or b == 1):
            return self.bits(1, t)
        return None

    def add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.binary("add", x, y)

    def sub(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.binary("sub", x, y)

    def mul(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.binary("mul", x, y)

    def and_(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.binary("and", x, y)

    def or_(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.binary("or", x, y)

    def xor(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.binary("xor", x, y)

    def shl(self, x: SSAValue, n: int | SSAValue) -> SSAValue:
        return self.binary("shl", x, self.bits(n, x.type) if isinstance(n, int) else n)

    def lshr(self, x: SSAValue, n: int | SSAValue) -> SSAValue:
        return self.binary("lshr", x, self.bits(n, x.type) if isinstance(n, int) else n)

    def ashr(self, x: SSAValue, n: int | SSAValue) -> SSAValue:
        return self.binary("ashr", x, self.bits(n, x.type) if isinstance(n, int) else n)

    def freeze(self, x: SSAValue) -> SSAValue:
        return self._one(llvm.Freeze, [x], x.type)

    def fneg(self, x: SSAValue) -> SSAValue:
        return self._one(llvm.Fneg, [x], x.type)

    def icmp(self, predicate: str, x: SSAValue, y: SSAValue) -> SSAValue:
        """`predicate`: eq ne slt sle sgt sge ult ule ugt uge."""
        return self._one(llvm.Icmp, [x, y], self._bool_like(x.type), {"predicate": string(predicate)})

    def fcmp(self, predicate: str, x: SSAValue, y: SSAValue) -> SSAValue:
        """`predicate`: oeq one olt ole ogt oge ord ueq une ult ule ugt uge uno."""
        return self._one(llvm.Fcmp, [x, y], self._bool_like(x.type), {"predicate": string(predicate)})

    @staticmethod
    def _bool_like(t: Attribute) -> Attribute:
        return vec(t.get_shape()[0], I1) if isinstance(t, VectorType) else I1

    def select(self, condition: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
        known = self._known.get(condition)
        if known is not None and not isinstance(condition.type, VectorType):
            return x if known else y
        return self._one(llvm.Select, [condition, x, y], x.type)

    def cast(self, mnemonic: str, x: SSAValue, t: Attribute) -> SSAValue:
        """zext sext trunc fptrunc fpext fptosi fptoui sitofp uitofp bitcast ptrtoint inttoptr addrspacecast.

        `t` may be the element type for a vector operand of the same length."""
        if isinstance(x.type, VectorType) and not isinstance(t, VectorType) and mnemonic != "bitcast":
            t = vec(x.type.get_shape()[0], t)
        if x.type == t:
            return x
        known = self._known.get(x)
        if known is not None and (mnemonic in ("zext", "trunc") or (mnemonic == "bitcast" and known == 0)):
            return self.bits(known, t)
        if known is not None and mnemonic == "sext":
            w = width_of(x.type)
            return self.bits(known - (1 << w) if known >> w - 1 else known, t)
        return self._one(llvm.CASTS[mnemonic], [x], t)

    # --- vectors --------------------------------------------------------------------------------------------------

    def extract(self, v: SSAValue, index: int | SSAValue) -> SSAValue:
        """Element `index` of a vector."""
        assert isinstance(v.type, VectorType)
        known = self._known.get(v)
        if known is not None:
            return self.bits(known, v.type.element_type)
        if v in self._splats:
            return self._splats[v]
        i = self.i32(index) if isinstance(index, int) else index
        return self._one(llvm.Extractelement, [v, i], v.type.element_type)

    def insert(self, v: SSAValue, x: SSAValue, index: int) -> SSAValue:
        return self._one(llvm.Insertelement, [x, v, self.i32(index)], v.type)

    def shuffle(self, x: SSAValue, y: SSAValue | None, mask: Sequence[int]) -> SSAValue:
        """`mask[i]` selects from x's then y's elements; -1 leaves poison."""
        assert isinstance(x.type, VectorType)
        n = x.type.get_shape()[0]
        if y is None and list(mask) == list(range(n)):
            return x
        t = vec(len(mask), x.type.element_type)
        if self._known.get(x) is not None and y is None:
            return self.bits(self._known[x], t)
        made = self._one(llvm.Shufflevector, [x, self.poison(x.type) if y is None else y], t,
                         {"mask": ArrayAttr([IntAttr(m) for m in mask])})
        if y is None and -1 not in mask and len(set(mask)) < len(mask):
            self._repeats[made] = x, tuple(mask)
        return made

    def pack(self, xs: Sequence[SSAValue]) -> SSAValue:
        """A vector of these scalars (all of one type)."""
        t = vec(len(xs), xs[0].type)
        first = self._known.get(xs[0])
        if first is not None and all(x is xs[0] for x in xs):
            return self.bits(first, t)
        if len(xs) > 2 and all(x is xs[0] for x in xs):
            return self.splat(xs[0], len(xs))
        if (words := self._whole_words(xs)) is not None:
            return self.cast("bitcast", words[0] if len(words) == 1 else self.pack(words), t)
        v = self.poison(t)
        for i, x in enumerate(xs):
            v = self.insert(v, x, i)
        return v

    def parts(self, words: Sequence[SSAValue], t: Attribute, count: int) -> list[SSAValue]:
        """`count` scalars of a type that words hold. Where they are narrower, `pack` makes these words of them again."""
        packed = self.pack(words) if len(words) > 1 else words[0]
        out = self.unpack(self.cast("bitcast", packed, vec(count, t)))
        each = count // len(words)
        if each > 1:
            self._parts.update((x, (words[i // each], i % each, each)) for i, x in enumerate(out))
        return out

    def _whole_words(self, xs: Sequence[SSAValue]) -> list[SSAValue] | None:
        """The words of which these scalars are all parts, in order; None where they aren't."""
        first = self._parts.get(xs[0])
        if first is None or len(xs) % first[2]:
            return None
        each, words = first[2], []
        for i in range(0, len(xs), each):
            word = self._parts.get(xs[i], first)[0]
            if any(self._parts.get(x) != (word, n, each) for n, x in enumerate(xs[i:i + each])):
                return None
            words.append(word)
        return words

    def unpack(self, v: SSAValue) -> list[SSAValue]:
        """The elements of a vector; what is known to be one is one value."""
        assert isinstance(v.type, VectorType)
        if (repeated := self.repeated(v)) is not None:
            source, mask = repeated
            once = {i: self.extract(source, i) for i in dict.fromkeys(mask)}
            return [once[i] for i in mask]
        return [self.extract(v, i) for i in range(v.type.get_shape()[0])]

    def repeated(self, v: SSAValue) -> tuple[SSAValue, tuple[int, ...]] | None:
        """The vector whose elements v repeats, and which it has in each place; None for others, and where all are one scalar."""
        return None if v in self._splats else self._repeats.get(v)

    def splat(self, x: SSAValue, n: int) -> SSAValue:
        """A vector of n copies."""
        t = vec(n, x.type)
        known = self._known.get(x)
        if known is not None:
            return self.bits(known, t)
        one = self.insert(self.poison(t), x, 0)
        made = one if n == 1 else self.shuffle(one, None, [0] * n)
        self._splats[made] = x
        return made

    def slice(self, v: SSAValue, start: int, n: int) -> SSAValue:
        """Elements start .. start+n-1 of a vector, as a vector."""
        return self.shuffle(v, None, range(start, start + n))

    def concat(self, parts: Sequence[SSAValue]) -> SSAValue:
        """One vector of equal-length, power-of-two-many vectors, in order."""
        parts = list(parts)
        while len(parts) > 1:
            n = parts[0].type.get_shape()[0]  # type: ignore[attr-defined]
            parts = [self.shuffle(a, b, range(2 * n)) for a, b in zip(parts[::2], parts[1::2])]
        return parts[0]

    # --- memory ---------------------------------------------------------------------------------------------------

    def gep(self, base: SSAValue, offset: SSAValue | int, elem: Attribute = I8) -> SSAValue:
        """`base` plus `offset` elements of `elem` (default: bytes). Vectors of pointers or offsets work as in LLVM."""
        if isinstance(offset, int):
            offset = self.bits(offset, I32 if width_of(base.type) == 32 else I64)
        if self._known.get(offset) == 0 and not isinstance(offset.type, VectorType):
            return base
        t = base.type
        if isinstance(offset.type, VectorType) and not isinstance(t, VectorType):
            t = vec(offset.type.get_shape()[0], t)
        return self._one(llvm.Getelementptr, [base, offset], t, {"elem_type": elem})

    def local_words(self, count: int) -> SSAValue:
        """A generic pointer to the thread's own scratch of at least `count` 64-bit words: one array a function, whose
        contents hold until the next use of this method."""
        if self._local is None:
            self._local = llvm.Alloca.create(result_types=[ptr(llvm.GENERIC)], properties={
                "count": IntAttr(0), "elem_type": I64, "alignment": IntAttr(16)})
            first = self.entry.first_op
            if first is None:
                self.entry.add_op(self._local)
            else:
                self.entry.insert_op_before(self._local, first)
        known: Any = self._local.properties["count"]
        self._local.properties["count"] = IntAttr(max(known.data, count))
        return self._local.results[0]

    def variable(self, t: Attribute, value: SSAValue) -> SSAValue:
        """A generic pointer to a variable of the thread's own, `value` from here on. LLVM keeps it in a register."""
        made = llvm.Alloca.create(result_types=[ptr(llvm.GENERIC)], properties={
            "count": IntAttr(1), "elem_type": t, "alignment": IntAttr(width_of(t) // 8)})
        if self.location is not None:
            made.location = self.location
        first = self.entry.first_op
        if first is None:
            self.entry.add_op(made)
        else:
            self.entry.insert_op_before(made, first)
        self.store(value, made.results[0], width_of(t) // 8)
        return made.results[0]

    def load(self, t: Attribute, p: SSAValue, align: int, flags: str = "") -> SSAValue:
        """flags: "" or "invariant" / "volatile"."""
        props: dict[str, Attribute] = {"alignment": IntAttr(align)}
        if flags:
            props["flags"] = string(flags)
        return self._one(llvm.Load, [p], t, props)

    def store(self, value: SSAValue, p: SSAValue, align: int, flags: str = "") -> None:
        props: dict[str, Attribute] = {"alignment": IntAttr(align)}
        if flags:
            props["flags"] = string(flags)
        self.emit(llvm.Store.create(operands=[value, p], properties=props))

    def address_of(self, symbol: str, space: int) -> SSAValue:
        return self._one(llvm.AddressOf, [], ptr(space), {"symbol": string(symbol)})

    # --- calls ----------------------------------------------------------------------------------------------------

    def call(self, callee: str, result: Attribute, args: Sequence[SSAValue], *, fastmath: str = "") -> SSAValue:
        """Call one of LLVM's own intrinsics or a libdevice function; a VOID result is not to be used."""
        props: dict[str, Attribute] = {"callee": string(callee)}
        if fastmath:
            props["fastmath"] = string(fastmath)
        return self._one(llvm.Call, list(args), result, props)

    def asm(self, text: str, constraints: str, results: Sequence[Attribute], args: Sequence[SSAValue], *,
            sideeffect: bool = True) -> list[SSAValue]:
        """Inline PTX of several instructions (one alone is a row of nvvm). Several results come back taken out of their struct."""
        props: dict[str, Attribute] = {"asm": string(text), "constraints": string(constraints)}
        if sideeffect:
            props["sideeffect"] = _UNIT
        t = llvm.VOID if not results else results[0] if len(results) == 1 else struct(*results)
        out = self._one(llvm.InlineAsm, list(args), t, props)
        if len(results) <= 1:
            return [out] if results else []
        return self.members(out)

    def known_as_register(self, p: SSAValue) -> SSAValue:
        """A pointer into shared memory, of which neither LLVM nor ptxas knows that a symbol is all it is: they would make it anew
        wherever it is wanted (S2UR of the CTA's window and an addition, in a loop, too)."""
        word = self.asm("mov.b32 $0, $1;", "=r,r", [I32], [self.cast("ptrtoint", p, I32)], sideeffect=False)[0]
        return self.cast("inttoptr", word, ptr(llvm.SHARED))

    def nvvm(self, name: str, args: Sequence[SSAValue] = ()) -> list[SSAValue]:
        """The machine instruction that dialects/nvvm.py has as `name`; its results. Raises CompileError if the target
        doesn't have it."""
        row = nvvm.find(name)
        assert row is not None, name
        if self.target is not None and (lacking := row.missing(self.target)):
            raise CompileError(f"'{name}' isn't available on {self.target.name} ({lacking})")
        types = [a.type for a in args] if row.is_wait else [nvvm.type_of(word) for word in row.results]
        op = nvvm.Inst.create(operands=list(args), result_types=types, properties={"instruction": string(name)})
        op.location = self.location
        self.block.add_op(op)
        return list(op.results)

    def members(self, value: SSAValue) -> list[SSAValue]:
        """The members of a struct value."""
        assert isinstance(value.type, llvm.StructType)
        return [self._one(llvm.Extractvalue, [value], t, {"position": IntAttr(i)})
                for i, t in enumerate(value.type.members.data)]

    # --- control flow ---------------------------------------------------------------------------------------------

    def br(self, target: Block, args: Sequence[SSAValue] = ()) -> None:
        self.emit(llvm.Br.create(operands=list(args), successors=[target]))

    def cond_br(self, condition: SSAValue, then: Block, other: Block, then_args: Sequence[SSAValue] = (),
                else_args: Sequence[SSAValue] = (), no_unroll: bool = False) -> None:
        """`no_unroll`: of the loop that this closes."""
        from xdsl.dialects.builtin import DenseArrayBase, UnitAttr, i32
        properties: dict[str, Attribute] = {
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [1, len(then_args), len(else_args)])}
        if no_unroll:
            properties["no_unroll"] = UnitAttr()
        self.emit(llvm.CondBr.create(operands=[condition, *then_args, *else_args], successors=[then, other],
                                     properties=properties))

    def ret(self) -> None:
        self.emit(llvm.Ret.create())
