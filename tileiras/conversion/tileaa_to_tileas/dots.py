"""How a dot is computed: which instruction, in which layouts, and how its operands get there.

Tensor-core dots take A and B from shared-memory buffers, fragment by fragment, except an operand that sits in
registers already in (or one register permutation away from) the fragment's layout: the probabilities of an
attention kernel, straight from the first product's accumulators. Dots without an instruction multiply and add,
with both operands in buffers. Buffers larger than the target's shared memory are filled a slice of k at a time.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ArrayAttr, Float16Type, IntAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.element import element_bytes, element_name
from tileiras.dialects.nv_tileas import BufferType, LayoutAttr, SharedLayoutAttr
from tileiras.layout.atoms import MmaAtom, choose_atom, dot_layouts
from tileiras.layout.linear import LinearLayout, dim_bits, log2
from tileiras.layout.operands import operand_buffer

if TYPE_CHECKING:
    from tileiras.conversion.tileaa_to_tileas.placement import Placement

SHARED_RESERVE = 1024
"""Bytes of a block's shared memory left to scratch of other ops when a dot's buffers are sized."""


MAX_CHAIN = 256
"""Values looked at, at most, to find whether one dot feeds another."""


@dataclass(frozen=True)
class DotPlan:
    """`atom` None: multiply and add. `lhs`, `rhs`: fragment layouts (None without an atom). `k_slices`: parts of k that
    go through the buffers one after another."""

    atom: MmaAtom | None
    lhs: LinearLayout | None
    rhs: LinearLayout | None
    acc: LinearLayout
    k_slices: int
    widen: Attribute | None

    def emit(self, conv: Placement, op: Operation, lhs: SSAValue, rhs: SSAValue, acc: SSAValue) -> None:
        if self.widen is not None:
            lhs, rhs = (self._widened(conv, x) for x in (lhs, rhs))
        extra: dict[str, Attribute] = {}
        if self.atom is not None:
            from xdsl.dialects.builtin import StringAttr
            extra["atom"] = StringAttr(self.atom.intrinsic)
        operands = [(lhs, self.lhs, len(lhs.type.get_shape()) - 1),  # type: ignore[attr-defined]
                    (rhs, self.rhs, len(rhs.type.get_shape()) - 2)]  # type: ignore[attr-defined]
        from tileiras.conversion.tileaa_to_tileas.placement import placed, renamed
        for part in range(self.k_slices):
            given = []
            for x, fragment, k_dim in operands:
                if self.k_slices == 1 and fragment is not None and in_registers(x, fragment):
                    given.append(conv.to_layout(x, fragment))
                else:
                    given.append(self._buffer(conv, x, k_dim, part, fragment))
            new = renamed(op, [*given, acc], [placed(op.results[0].type, self.acc)], extra=extra)  # type: ignore[arg-type]
            if part + 1 == self.k_slices:
                conv.finish(op, new)
            else:
                acc = conv.add(new).results[0]

    def _widened(self, conv: Placement, x: SSAValue) -> SSAValue:
        t = x.type
        assert isinstance(t, TensorType) and self.widen is not None
        wide = TensorType(self.widen, t.shape, t.encoding)  # type: ignore[arg-type]
        return conv.add(arith.Convertf.make([x], [wide])).results[0]

    def _buffer(self, conv: Placement, x: SSAValue, k_dim: int, part: int,
                fragment: LinearLayout | None) -> SSAValue:
        t = x.type
        assert isinstance(t, TensorType)
        shape = tuple(n // self.k_slices if d == k_dim else n for d, n in enumerate(t.get_shape()))
        writer: LinearLayout = t.encoding.data  # type: ignore[attr-defined]
        atom_k = self.atom.k if self.atom is not None else 0
        layout = operand_buffer(shape, element_bytes(t.element_type), k_dim, writer, fragment, atom_k)
        buffer = conv.add(nv_tileas.AllocTensor.make([], [BufferType(t.element_type, SharedLayoutAttr(layout))])).results[0]
        slices = ArrayAttr([IntAttr(k_dim), IntAttr(part), IntAttr(self.k_slices)]) if self.k_slices > 1 else None
        conv.add(nv_tileas.StoreShared.make([x, buffer], [], {"slice": slices}))
        return buffer


def in_registers(x: SSAValue, fragment: LinearLayout) -> bool:
    """Whether a value's layout is the fragment's up to a permutation of each thread's own registers."""
    t = x.type
    if not isinstance(t, TensorType) or not isinstance(t.encoding, LayoutAttr):
        return False
    have = t.encoding.data
    return have.lane == fragment.lane and have.warp == fragment.warp and sorted(have.reg) == sorted(fragment.reg)


def plan_dot(op: Operation, target: Any, num_warps: int) -> DotPlan:
    """Choose instruction and layouts for a dot of nv_tileaa."""
    lhs, rhs, acc = (v.type for v in op.operands[:3])
    assert isinstance(lhs, TensorType) and isinstance(rhs, TensorType) and isinstance(acc, TensorType)
    *batch_dims, m, n = acc.get_shape()
    batch = batch_dims[0] if batch_dims else 1
    k = lhs.get_shape()[-1]
    signed = [_signed(op, name) for name in ("signedness_lhs", "signedness_rhs")]
    atom = choose_atom(target, element_name(lhs.element_type), element_name(rhs.element_type),
                       element_name(acc.element_type), m, n, k, *signed)
    widen = None
    size = element_bytes(lhs.element_type)
    if atom is not None:
        a, b, c = dot_layouts(atom, m, n, k, num_warps, batch, chained=is_chained(op))
        a, b, c = a.reshape(lhs.get_shape()), b.reshape(rhs.get_shape()), c.reshape(acc.get_shape())
        if atom.widen:
            widen, size = Float16Type(), 2
    else:
        a = b = None
        c = fma_layout(acc.get_shape(), num_warps)
    budget = target.max_static_smem - SHARED_RESERVE
    slices = 1
    least = atom.k if atom is not None else 1
    while batch * (m + n) * k // slices * size > budget and k // slices > least:
        slices *= 2
    return DotPlan(atom, a, b, c, slices, widen)


def is_chained(op: Operation) -> bool:
    """Whether elementwise ops lead from this dot's result to another dot's first operand, or the other way round: the
    scores of an attention kernel and the product that they weigh."""
    return _reaches(op, forward=True) or _reaches(op, forward=False)


def _reaches(op: Operation, forward: bool) -> bool:
    pending: list[SSAValue] = [op.results[0] if forward else op.operands[0]]
    seen: set[SSAValue] = set(pending)
    while pending and len(seen) < MAX_CHAIN:
        v = pending.pop()
        if forward:
            for use in v.uses:
                user = use.operation
                if user.name == "nv_tileaa.dot":
                    if use.index == 0:
                        return True
                elif isinstance(user, arith.Elementwise) and user.results[0] not in seen:
                    seen.add(user.results[0])
                    pending.append(user.results[0])
        elif isinstance(v.owner, Operation):
            if v.owner.name == "nv_tileaa.dot":
                return True
            if isinstance(v.owner, arith.Elementwise):
                for operand in v.owner.operands:
                    if isinstance(operand.type, TensorType) and operand not in seen:
                        seen.add(operand)
                        pending.append(operand)
    return False


def _signed(op: Operation, name: str) -> bool:
    attr = op.properties.get(name)
    return attr is None or getattr(attr, "data", "signed") == "signed"


def fma_layout(shape: tuple[int, ...], num_warps: int) -> LinearLayout:
    """The accumulators of a multiply-add dot: a thread owns a block of up to 4 x 4 neighbouring elements (then more, far
    apart), a warp 4 x 8 threads, so that each value read from shared memory serves several products."""
    rank = len(shape)
    fields = dim_bits(shape)
    n_bits = [1 << fields[rank - 1][0] + i for i in range(fields[rank - 1][1])]
    m_bits = [1 << fields[rank - 2][0] + i for i in range(fields[rank - 2][1])]
    outer = [1 << fields[d][0] + i for d in range(rank - 3, -1, -1) for i in range(fields[d][1])]
    total = len(n_bits) + len(m_bits) + len(outer)
    spare = max(0, total - 5 - log2(num_warps))         # bits that registers must hold
    reg_n = min(2, spare, len(n_bits))
    reg_m = min(2, spare - reg_n, len(m_bits))
    reg = n_bits[:reg_n] + m_bits[:reg_m]
    n_rest, m_rest = n_bits[reg_n:], m_bits[reg_m:]
    lane = n_rest[:3]
    n_rest = n_rest[3:]
    take = min(5 - len(lane), len(m_rest))
    lane += m_rest[:take]
    m_rest = m_rest[take:]
    rest = m_rest + n_rest + outer
    while len(lane) < 5 and rest:
        lane.append(rest.pop(0))
    warps = log2(num_warps)
    warp = rest[::-1][:warps]
    rest = [b for b in rest if b not in warp]
    reg += rest
    return LinearLayout(shape, tuple(reg), tuple(lane + [0] * (5 - len(lane))), tuple(warp + [0] * (warps - len(warp))))
