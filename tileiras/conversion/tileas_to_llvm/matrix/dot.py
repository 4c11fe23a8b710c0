"""dot on tensor cores: fragments from registers or shared memory, `mma.sync` by `mma.sync` along k.

    %d = nv_tileas.dot %a, %b, %c {atom = "mma.m16n8k16.row.col.f32.f32"}
         : !nv_tileas.buffer<f16, ...>, !nv_tileas.buffer<f16, ...>, tensor<64x64xf32, #c> -> tensor<64x64xf32, #c>
->  for each 16 of k: ldmatrix the warp's rows of A and columns of B, then one mma for each 16 x 8 of the warp's part

Operands are tensors in the atom's fragment layout (layout/atoms/) or buffers. Only one k step's fragments are
loaded ahead of the products that use them, so few registers beside the accumulators are live. Without an atom,
`fma.py` multiplies and adds.
"""
from __future__ import annotations

from typing import Protocol

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.analysis.layout_rules import next_elements_of
from tileiras.analysis.tensor_dots import umma_of
from tileiras.analysis.warpgroup_dots import wgmma_of
from tileiras.conversion.tileas_to_llvm.builder import F16, F32, F64, I32, I64
from tileiras.conversion.tileas_to_llvm.control import end_block
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, bits_of, lowers, storage_type
from tileiras.conversion.tileas_to_llvm.matrix.fma import multiply_add
from tileiras.conversion.tileas_to_llvm.registers import gather, plain_type
from tileiras.conversion.tileas_to_llvm.shared.accesses import Addresses, load_group
from tileiras.dialects.llvm import vec
from tileiras.dialects.location_text import location_text
from tileiras.dialects.nv_tileas import BufferType, layout_of
from tileiras.errors import CompileError
from tileiras.layout.atoms import COLUMNS, ROWS, MmaAtom, dot_layouts
from tileiras.layout.atoms.names import atom_named
from tileiras.layout.f2 import apply
from tileiras.layout.linear import LANE_BITS, LinearLayout, log2
from tileiras.layout.operands import LdMatrix, ldmatrix_plan
from tileiras.layout.shared import Access, access

_REGISTER_TYPES: dict[str, Attribute] = {
    "i32": I32, "float": F32, "double": F64, "<2 x half>": vec(2, F16)}
ELEMENTS_OF_BYTES = 4
"""Elements of a register that takes each in a byte; 4-bit floats lie one a byte in buffers and other registers."""
MAX_MATRICES_BITS = 2
"""log2 of how many 8 x 8 matrices one ldmatrix loads."""
MAX_BYTE_MATRICES_BITS = 1
"""log2 of how many matrices of 16 x 16 bytes one ldmatrix loads."""


class Operand(Protocol):
    """Where fragments of A or B come from."""

    def words(self, registers: int, count_bits: list[int]) -> list[SSAValue]:
        """The operand registers (each of one or several elements) whose element numbers are `registers` plus any
        combination of the element-number bits `count_bits`, in that order."""
        ...


class FromRegisters:
    """A tensor in the fragment's layout."""

    def __init__(self, low: Lowering, v: SSAValue, per_word: int, word: Attribute) -> None:
        self.low, self.v, self.per_word, self.word = low, low.vec(v), per_word, word

    def words(self, registers: int, count_bits: list[int]) -> list[SSAValue]:
        b = self.low.b
        out = []
        for i in range(1 << len(count_bits)):
            first = registers ^ apply(count_bits, i)
            if self.per_word == 1:
                out.append(b.cast("bitcast", b.extract(self.v, first), self.word))
            else:
                out.append(b.cast("bitcast", gather(b, self.v, range(first, first + self.per_word)), self.word))
        return out


class FromMatrices:
    """A buffer that `ldmatrix` reads."""

    def __init__(self, low: Lowering, base: SSAValue, plan: LdMatrix, elem_bytes: int, word: Attribute) -> None:
        self.low, self.base, self.plan, self.size, self.word = low, base, plan, elem_bytes, word
        self.addresses: dict[tuple[int, ...], Addresses] = {}
        self.pairs: dict[tuple[int, tuple[int, ...]], tuple[list[SSAValue], list[SSAValue]]] = {}

    def words(self, registers: int, count_bits: list[int]) -> list[SSAValue]:
        b = self.low.b
        if self.plan.beside:
            return self._turned(registers, count_bits)
        matrices = tuple(count_bits[:MAX_MATRICES_BITS])
        where = self.addresses.get(matrices)
        if where is None:
            # lane bits 0-2 choose the row, bits 3 and 4 the matrix whose row address the lane gives
            lane = [*self.plan.rows, *(apply(self.plan.reg, m) for m in matrices)]
            lane += [0] * (LANE_BITS - len(lane))
            pseudo = Access(1, (), tuple(lane), self.plan.warp, ())
            where = self.addresses[matrices] = Addresses(self.low, pseudo, self.base, self.size)
        count = 1 << len(matrices)
        name = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if self.plan.trans else ''}.b16"
        out: list[SSAValue] = []
        rest = count_bits[len(matrices):]
        for i in range(1 << len(rest)):
            p = where.at(apply(self.plan.reg, registers ^ apply(rest, i)))
            out += [b.cast("bitcast", x, self.word) for x in b.nvvm(name, [p])]
        return out

    def _turned(self, registers: int, count_bits: list[int]) -> list[SSAValue]:
        """The same of bytes that are transposed: each matrix fills the registers of two neighbouring atoms, or of two steps of k
        (tiles of 8 columns), of which the first read keeps the other's."""
        other = self.plan.beside
        if other in count_bits:
            return self._turned_pairs(registers, count_bits)
        key = registers & ~other, tuple(count_bits)
        if key not in self.pairs:
            words = self._turned_pairs(key[0], [*count_bits, other])
            half = len(words) // 2
            self.pairs[key] = words[:half], words[half:]
        return self.pairs[key][bool(registers & other)]

    def _turned_pairs(self, registers: int, count_bits: list[int]) -> list[SSAValue]:
        """Registers of whole matrices."""
        b = self.low.b
        two = count_bits.index(self.plan.beside)
        others = [i for i in range(len(count_bits)) if i != two]
        matrices, rest = others[:MAX_BYTE_MATRICES_BITS], others[MAX_BYTE_MATRICES_BITS:]
        key = tuple(count_bits[i] for i in matrices)
        where = self.addresses.get(key)
        if where is None:
            # lane bits 0-3 choose the row, bit 4 the matrix whose row address the lane gives
            lane = [*self.plan.rows, *(apply(self.plan.reg, m) for m in key)]
            lane += [0] * (LANE_BITS - len(lane))
            where = self.addresses[key] = Addresses(self.low, Access(1, (), tuple(lane), self.plan.warp, ()), self.base, self.size)
        name = f"ldmatrix.sync.aligned.m16n16.x{1 << len(matrices)}.trans.b8"
        out: dict[int, SSAValue] = {}
        for i in range(1 << len(rest)):
            first = apply([1 << at for at in rest], i)
            p = where.at(apply(self.plan.reg, registers ^ apply(count_bits, first)))
            for j, x in enumerate(b.nvvm(name, [p])):
                out[first | apply([1 << two, *(1 << at for at in matrices)], j)] = b.cast("bitcast", x, self.word)
        return [out[i] for i in range(1 << len(count_bits))]


class FromBuffer:
    """A buffer read by ordinary loads, each when the first of its elements is needed."""

    def __init__(self, low: Lowering, base: SSAValue, fragment: LinearLayout, buffer: BufferType, per_word: int,
                 word: Attribute, elem_bytes: int) -> None:
        self.low, self.per_word, self.word = low, per_word, word
        self.t = plain_type(storage_type(buffer.element_type))
        self.plan = access(fragment, buffer.layout.data, elem_bytes)
        self.where = Addresses(low, self.plan, base, elem_bytes)
        self.groups: dict[int, SSAValue] = {}

    def words(self, registers: int, count_bits: list[int]) -> list[SSAValue]:
        b = self.low.b
        width = self.plan.vec
        out = []
        for i in range(1 << len(count_bits)):
            first = registers ^ apply(count_bits, i)
            slots = [self.plan.slots[r] for r in range(first, first + self.per_word)]
            parts = [(self._group(s // width), s % width) for s in slots]
            if self.per_word == 1:
                out.append(b.cast("bitcast", b.extract(*parts[0]), self.word))
            elif all(g is parts[0][0] for g, _ in parts):
                out.append(b.cast("bitcast", gather(b, parts[0][0], [at for _, at in parts]), self.word))
            else:
                out.append(b.cast("bitcast", b.pack([b.extract(g, at) for g, at in parts]), self.word))
        return out

    def _group(self, number: int) -> SSAValue:
        found = self.groups.get(number)
        if found is None:
            offset = self.plan.groups[number][1]
            found = self.groups[number] = load_group(self.low, self.where, offset, self.t, self.plan.vec)
        return found


def _shape(v: SSAValue) -> tuple[int, ...]:
    t = v.type
    return t.layout.data.shape if isinstance(t, BufferType) else t.get_shape()  # type: ignore[attr-defined]


def _atom(op: Operation) -> MmaAtom | None:
    name = op.properties.get("atom")
    found = atom_named(name.data) if isinstance(name, StringAttr) and name.data else None
    return found if isinstance(found, MmaAtom) else None


def _layouts(op: Operation, atom: MmaAtom) -> tuple[int, list[LinearLayout]]:
    """(batch, layouts of A, B, C) of the op's tile product."""
    shapes = [_shape(v) for v in op.operands[:3]]
    (*batch, m, k), n = shapes[0], shapes[1][-1]
    placed = layout_of(op.results[0])
    for along in ("", ROWS, COLUMNS):
        layouts = dot_layouts(atom, m, n, k, placed.num_warps, batch[0] if batch else 0, along, next_elements_of(op))
        fragments = zip(op.operands[:3], layouts)
        if all(layout_of(v) == f.reshape(_shape(v)) for v, f in fragments if isinstance(v.type, TensorType)):
            return batch[0] if batch else 1, list(layouts)
    raise CompileError(f"the layouts of a product's tiles aren't those of {atom.intrinsic}", location_text(op))


def _operand(low: Lowering, op: Operation, index: int, fragment: LinearLayout, per_word: int,
             word: Attribute) -> Operand:
    v = op.operands[index]
    if isinstance(v.type, TensorType):
        return FromRegisters(low, v, per_word, word)
    assert isinstance(v.type, BufferType)
    size = max(1, bits_of(v.type.element_type) // 8)
    target = low.target
    plan = ldmatrix_plan(fragment, v.type.layout.data, size, target.has_ldmatrix_bytes) if target.has_ldmatrix else None
    if plan is not None and 1 << plan.word_bits == per_word:
        return FromMatrices(low, low.scalar(v), plan, size, word)
    return FromBuffer(low, low.scalar(v), fragment, v.type, per_word, word, size)


@lowers("nv_tileas.dot", "nv_tileas.dot_scaled")
def dot(low: Lowering, op: Operation) -> None:
    wgmma = wgmma_of(op)
    if wgmma is not None:
        from tileiras.conversion.tileas_to_llvm.matrix import wgmma as warpgroups
        warpgroups.dot(low, op, wgmma)
        return
    if umma_of(op) is not None:
        raise CompileError("a product has no accumulator in tensor memory: place-accumulators hasn't run", location_text(op))
    atom = _atom(op)
    if atom is None:
        multiply_add(low, op)
        return
    b = low.b
    batch, (a_layout, b_layout, c_layout) = _layouts(op, atom)
    word, c_word = _REGISTER_TYPES[atom.a_type], _REGISTER_TYPES[atom.c_type]
    per_word = atom.elements_per_reg
    packed = per_word > ELEMENTS_OF_BYTES
    if packed:
        word = I64
    lhs = _operand(low, op, 0, a_layout, per_word, word)
    rhs = _operand(low, op, 1, b_layout, per_word, word)

    # register numbers, lowest bits first: inside the atom; k (A, B) or n (C); m (A, C) or n (B); batch
    inside = [len(bases[0]) for bases in (atom.a_bases, atom.b_bases, atom.c_bases)]
    k_bits = log2(_shape(op.operands[0])[-1] // atom.k)
    batch_bits = sum(1 for basis in c_layout.reg if basis >= c_layout.size // batch) if batch > 1 else 0
    m_bits = len(a_layout.reg) - inside[0] - k_bits - batch_bits
    n_bits = len(b_layout.reg) - inside[1] - k_bits - batch_bits
    word_bits = log2(per_word)
    a_bits = [1 << i for i in range(word_bits, inside[0])]
    b_bits = [1 << i for i in range(word_bits, inside[1])]
    a_bits += [1 << inside[0] + k_bits + i for i in range(m_bits)]
    b_bits += [1 << inside[1] + k_bits + i for i in range(n_bits)]
    a_words, b_words = 1 << inside[0] - word_bits, 1 << inside[1] - word_bits

    scales = []
    if op.name == "nv_tileas.dot_scaled":
        from tileiras.conversion.tileas_to_llvm.matrix.block_scaled import Scales, pack_pairs
        scales = [Scales(low, v, atom, k_bits) for v in op.operands[3:]]  # type: ignore[arg-type]
    acc = _accumulators(low, op, c_layout, c_word)
    c_words = (1 << inside[2]) // (2 if atom.acc == "f16" else 1)
    steps = 1 << batch_bits + k_bits
    for z in range(1 << batch_bits):
        for step in range(1 << k_bits):
            a_all = lhs.words(step << inside[0] | z << inside[0] + k_bits + m_bits, a_bits)
            b_all = rhs.words(step << inside[1] | z << inside[1] + k_bits + n_bits, b_bits)
            if packed:
                a_all, b_all = ([pack_pairs(b, w) for w in words] for words in (a_all, b_all))
            if scales and scales[0].is_signed:
                a_all = [w for i in range(1 << m_bits) for w in scales[0].with_signs(
                    a_all[i * a_words:][:a_words], z << m_bits | i, step, of_a=True)]
                b_all = [w for j in range(1 << n_bits) for w in scales[1].with_signs(
                    b_all[j * b_words:][:b_words], z << n_bits | j, step, of_a=False)]
            for i in range(1 << m_bits):
                for j in range(1 << n_bits):
                    at = ((z << m_bits | i) << n_bits | j) * c_words
                    args = [*a_all[i * a_words:][:a_words], *b_all[j * b_words:][:b_words], *acc[at:at + c_words]]
                    if scales:
                        args += scales[0].operand(z << m_bits | i, step) + scales[1].operand(z << n_bits | j, step)
                    acc[at:at + c_words] = b.nvvm(atom.instruction, args)
            low.catch_up_behind(z << k_bits | step, steps)
    _finish(low, op, acc)
    if "ends_block" in op.properties:
        end_block(low)


def _accumulators(low: Lowering, op: Operation, c_layout: LinearLayout, word: Attribute) -> list[SSAValue]:
    """The accumulator's registers as the instruction takes them: f16 in pairs."""
    b = low.b
    v = low.vec(op.operands[2])
    if word == vec(2, F16):
        return [b.slice(v, i, 2) for i in range(0, c_layout.num_regs, 2)]
    return b.unpack(v)


def _finish(low: Lowering, op: Operation, acc: list[SSAValue]) -> None:
    b = low.b
    low.set(op.results[0], b.concat(acc) if acc[0].type == vec(2, F16) else acc)
