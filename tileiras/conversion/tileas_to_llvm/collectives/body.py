"""The body of a reduction or scan, applied to whole vectors of registers at once.

    (%a: f32, %b: f32) { %s = arith.addf %a, %b ; yield %s }      with %a, %b as <16 x float>: one fadd

For that the body is copied with tensors of n elements in place of its scalars, all n in one thread. A body with
control flow, or with ops that aren't element-wise, is applied element by element.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tileiras.conversion.tileas_to_llvm.lowering import Lowering
from tileiras.dialects import arith
from tileiras.dialects.nv_tileas import LayoutAttr
from tileiras.layout.linear import LANE_BITS, LinearLayout, log2

COMMUTATIVE = frozenset((
    "arith.addi", "arith.addf", "arith.muli", "arith.mulf", "arith.andi", "arith.ori", "arith.xori", "arith.maxsi",
    "arith.maxui", "arith.minsi", "arith.minui", "arith.maxf", "arith.minf"))


class Body:
    """The region of a reduce or scan: N pairs of arguments in, N values out."""

    def __init__(self, low: Lowering, op: Operation) -> None:
        self.low = low
        self.block: Block = op.regions[0].block
        ops = list(self.block.ops)
        self.terminator = ops[-1]
        self.ops = ops[:-1]
        self.elementwise = all(isinstance(o, arith.Elementwise | arith.Constant) for o in self.ops)
        self._copies: dict[int, tuple[Block, list[SSAValue], list[SSAValue]]] = {}

    @property
    def is_commutative(self) -> bool:
        """Whether swapping the two sides surely gives the same bits: each result is one commutative op of its pair."""
        args = self.block.args
        for i, v in enumerate(self.terminator.operands):
            owner = v.owner
            if not isinstance(owner, Operation) or owner.name not in COMMUTATIVE:
                return False
            if {*owner.operands} != {args[2 * i], args[2 * i + 1]}:
                return False
        return True

    @property
    def only_op(self) -> str:
        """The name of the body's op if it has a single one and that commutes, else ""."""
        return self.ops[0].name if len(self.ops) == 1 and self.is_commutative else ""

    def __call__(self, first: Sequence[SSAValue], second: Sequence[SSAValue]) -> list[SSAValue]:
        """Combine vectors: argument 2i from `first[i]`, 2i+1 from `second[i]`."""
        low, b = self.low, self.low.b
        n = first[0].type.get_shape()[0]  # type: ignore[attr-defined]
        pairs = [v for pair in zip(first, second) for v in pair]
        if self.elementwise:
            block, captured, outs = self._copy(n)
            low.enter()
            for arg, v in zip(block.args, [*pairs, *[b.splat(low.scalar(c), n) for c in captured]]):
                low.set(arg, v)
            low.lower_block(block)
            out = [low.vec(v) for v in outs]
            low.leave()
            return out
        rows = []
        for i in range(n):
            low.enter()
            for arg, v in zip(self.block.args, pairs):
                low.set(arg, b.extract(v, i))
            for o in self.ops:
                low.lower_op(o)
            rows.append([low.scalar(v) for v in self.terminator.operands])
            low.leave()
        return [b.pack(column) for column in zip(*rows)]

    def _copy(self, n: int) -> tuple[Block, list[SSAValue], list[SSAValue]]:
        """The body on tensors of n: (block, values from outside that its last arguments stand for, results)."""
        found = self._copies.get(n)
        if found is not None:
            return found
        layout = LinearLayout((n,), tuple(1 << i for i in range(log2(n))), (0,) * LANE_BITS,
                              (0,) * log2(self.low.num_warps))

        def wide(t: Attribute) -> Attribute:
            return TensorType(t, [n], LayoutAttr.of(layout))  # type: ignore[arg-type]
        captured: list[SSAValue] = []
        inside = {r for o in self.ops for r in o.results} | set(self.block.args)
        for v in [v for o in [*self.ops, self.terminator] for v in o.operands]:
            if v not in inside and v not in captured:
                captured.append(v)
        block = Block(arg_types=[wide(v.type) for v in [*self.block.args, *captured]])
        values: dict[SSAValue, SSAValue] = dict(zip([*self.block.args, *captured], block.args))
        for o in self.ops:
            new: Any = type(o).create(operands=[values[v] for v in o.operands], properties=dict(o.properties), location=o.location,
                                      result_types=[wide(r.type) for r in o.results])
            block.add_op(new)
            values.update(zip(o.results, new.results))
        found = self._copies[n] = (block, captured, [values[v] for v in self.terminator.operands])
        return found
