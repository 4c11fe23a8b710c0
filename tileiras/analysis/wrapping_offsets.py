"""Which places must LLVM compute by themselves, since what it would compute them from lies elsewhere once numbers wrap?

    %y = muli %x, 2 : i32      %p = addptr %a, (extsi %x)      %q = addptr %a, (extsi %y)

LLVM 22.1 (`slsr`) takes %q to lie %x elements behind %p. It doesn't where 2 * %x has wrapped, to a place in the array, perhaps: %x
is a mark for nothing to be there, or one number of bits that indices of 8 and 16 bits soon run out of. Sums with constants, and
numbers of 64 bits, are computed as they should be.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.layout_rules import MOVES, constant_of, unmoved
from tileiras.dialects import arith

SHORT = 16
"""Bits of indices that programs let wrap."""
ALIKE = (*MOVES, "nv_tileas.broadcast", "nv_tileas.splat")
"""Ops that give elements to others."""
PLACES = (*ALIKE, "nv_tileas.assume", "nv_tileas.ptr_to_ptr")
ADDPTR = "nv_tileas.addptr"
MOST_DEPTH = 16
"""Of sums that are looked into."""
Form = dict[SSAValue, int]
"""Numbers that a sum is made of, and how often."""


@dataclass
class _Alike:
    """Places at one sum: the blocks that they are made in, and these with all around them."""

    form: Form
    blocks: set[Block] = field(default_factory=set)
    around: set[Block] = field(default_factory=set)


class Places:
    """Where the addptrs of a function lead, which is looked through once. `inside`: one of its ops."""

    def __init__(self, inside: Operation) -> None:
        self._forms: dict[tuple[SSAValue, int], Form] = {}
        # base, bits of the sum, a number that it is made of -> such sums
        self._by_number: dict[tuple[SSAValue, int, SSAValue], dict[Any, _Alike]] = {}
        func: Any = _blocks_around(inside)[-1].parent_op()
        for op in func.walk():
            narrow = _narrow(op.operands[1]) if op.name == ADDPTR else None
            if narrow is not None and (form := self._form(narrow)):
                around = _blocks_around(op)
                base, key = unmoved(op.operands[0], PLACES), frozenset(form.items())
                for v in form:
                    alike = self._by_number.setdefault((base, _width(narrow), v), {}).setdefault(key, _Alike(form))
                    alike.blocks.add(around[0])
                    alike.around.update(around)

    def may_wrap(self, op: Operation) -> bool:
        """Whether LLVM could compute where `op`, an addptr, leads from where another one does, in a block around this or inside,
        and be wrong: the two have something in common, and more than a constant between them."""
        narrow = _narrow(op.operands[1])
        if narrow is None:
            return False
        width = _width(narrow)
        if width <= SHORT:
            return True
        mine = self._form(narrow)
        if sorted(mine.values()) in ([], [1]):
            return False
        base, around = unmoved(op.operands[0], PLACES), _blocks_around(op)
        return any(other.form != mine and (not other.blocks.isdisjoint(around) or around[0] in other.around)
                   for v in mine for other in self._by_number.get((base, width, v), {}).values())

    def _form(self, v: SSAValue, depth: int = 0) -> Form:
        """A number as a sum of others, but for what is constant."""
        v = unmoved(v, ALIKE)
        found = self._forms.get((v, depth))
        if found is None:
            found = self._forms[v, depth] = self._sum_of(v, depth)
        return found

    def _sum_of(self, v: SSAValue, depth: int) -> Form:
        op, width = v.owner, _width(v)
        if constant_of(v, ALIKE) is not None:
            return {}
        if isinstance(op, Operation) and depth < MOST_DEPTH:
            if op.name in ("arith.addi", "arith.subi"):
                return _sum(self._form(op.operands[0], depth + 1), self._form(op.operands[1], depth + 1),
                            1 if op.name == "arith.addi" else -1, width)
            if op.name in ("arith.muli", "arith.shli"):
                for number, by in ((0, 1), (1, 0))[:2 if op.name == "arith.muli" else 1]:
                    times = constant_of(op.operands[by], ALIKE)
                    if times is not None:
                        return _sum({}, self._form(op.operands[number], depth + 1),
                                    times if op.name == "arith.muli" else 1 << (times % width), width)
        return {v: 1}


def _blocks_around(op: Operation) -> list[Block]:
    """The blocks in which an op is, innermost first, up to the function's."""
    found: list[Block] = []
    at: Any = op
    while at is not None and at.name != "nv_tileas.func" and at.parent is not None:
        found.append(at.parent)
        at = at.parent_op()
    return found


def _narrow(offset: SSAValue) -> SSAValue | None:
    """What an offset is before its sign is extended, by ops or by the addptr; None where it has 64 bits from the start."""
    v = unmoved(offset, ALIKE)
    while isinstance(v.owner, arith.Extsi):
        v = unmoved(v.owner.operands[0], ALIKE)
    return v if _width(v) < 64 else None


def _width(v: SSAValue) -> int:
    t: Any = getattr(v.type, "element_type", v.type)
    return t.width.data


def _sum(a: Form, b: Form, times: int, width: int) -> Form:
    out = {v: (a.get(v, 0) + times * b.get(v, 0)) % (1 << width) for v in (*a, *b)}
    return {v: n for v, n in out.items() if n}
