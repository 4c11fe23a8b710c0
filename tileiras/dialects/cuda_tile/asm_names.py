"""Which SSA names a module's values get in text: `%cst_42_i32`, `%tview_3`, `%arg0`, `%7:2`.

MLIR's rules: a region's values are numbered before those of the regions inside it; names and counters of a region
are visible in the regions inside it and forgotten after; a name that is taken gets `_N` behind it. Ops suggest names.
"""
from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from tileiras.dialects.cuda_tile.asm_values import constant_hint
from tileiras.dialects.cuda_tile.attrs import DenseElementsAttr
from tileiras.dialects.cuda_tile.op import CudaTileOp
from tileiras.dialects.cuda_tile.ops import Assume, Constant, Continue, For, If, Loop, PrintTko, Reduce, Yield

MAX_ASSUME_HINT = 64
"""How many assumes in a row lengthen each other's names."""

_SINGLE_HINTS: dict[str, str] = {
    "cuda_tile.broadcast": "bcast", "cuda_tile.reshape": "reshape", "cuda_tile.make_tensor_view": "tview",
    "cuda_tile.make_partition_view": "pview", "cuda_tile.make_strided_view": "sview",
    "cuda_tile.make_gather_scatter_view": "gsview", "cuda_tile.reduce": "reduce", "cuda_tile.for": "for",
}
_NAMELESS_HINTS = frozenset(("cuda_tile.if", "cuda_tile.loop", "cuda_tile.scan"))
"""Ops that could suggest a name and don't: an assume behind them is called `assume_`."""

_UNNAMEABLE = re.compile(r"[^A-Za-z0-9$._-]")


def _assume_hint(op: Assume) -> str:
    """`assume`, or `assume_` and the name that the assumed value's producer suggests."""
    depth = 1
    value = op.value
    while isinstance(value.owner, Assume) and depth < MAX_ASSUME_HINT:
        depth += 1
        value = value.owner.value
    producer = value.owner
    if isinstance(producer, CudaTileOp) and not isinstance(producer, Assume):
        for result, hint in result_hints(producer):
            if result is value:
                return "assume_" * depth + hint
        if producer.name in _NAMELESS_HINTS or len(producer.result_fields) > 1 or producer.name in _SINGLE_HINTS:
            return "assume_" * depth
    return "_".join(["assume"] * depth)


def result_hints(op: Operation) -> Iterator[tuple[OpResult, str]]:
    """The names that an op suggests, for some of its results."""
    if not isinstance(op, CudaTileOp) or not op.results:
        return
    hint = _SINGLE_HINTS.get(op.name)
    if hint is not None:
        yield op.results[0], hint
    elif isinstance(op, Constant):
        value = op.properties.get("value")
        if isinstance(value, DenseElementsAttr):
            yield op.results[0], constant_hint(value)
    elif isinstance(op, Assume):
        yield op.results[0], _assume_hint(op)
    elif len(op.result_fields) > 1:
        for result, f in zip(op.results, op.result_fields):
            yield result, f.name


def argument_hints(block: Block) -> Sequence[str]:
    """The names that the enclosing op suggests for the arguments of its body."""
    parent = block.parent_op()
    if isinstance(parent, For):
        return ["loopIdx", *(f"iterArg{i}" for i in range(len(block.args) - 1))]
    if isinstance(parent, Reduce):
        several = len(block.args) > 2
        return [("reduce_rhs" if i % 2 else "reduce_lhs") + (str(i // 2) if several else "")
                for i in range(len(block.args))]
    return ()


_IMPLICIT_TERMINATORS: dict[type[Operation], type[Operation]] = {If: Yield, For: Continue, Loop: Continue}


def is_unwritten(op: Operation) -> bool:
    """Whether an op is a terminator that text leaves out: the usual one of its region, without operands."""
    if op.operands or not isinstance(op, (Yield, Continue)):
        return False
    expected = _IMPLICIT_TERMINATORS.get(type(op.parent_op()))  # type: ignore[arg-type]
    return expected is not None and isinstance(op, expected)


class NameTable:
    """Every value's name under one op, `%` included; a group of results has its first one's name with `#i` behind."""

    def __init__(self, root: Operation) -> None:
        self.names: dict[SSAValue, str] = {}
        self.groups: dict[Operation, list[tuple[str, int]]] = {}
        self._used: set[str] = set()
        self._value, self._argument, self._conflict = 0, 0, 0
        self._number_op(root)
        for region in root.regions:
            self._number_region(region)

    def of(self, value: SSAValue) -> str:
        """The name of a value as an operand."""
        return self.names.get(value, "%<<UNKNOWN SSA VALUE>>")

    def _number_region(self, region: Region) -> None:
        counters = self._value, self._argument, self._conflict
        added: list[str] = []
        for index, block in enumerate(region.blocks):
            self._number_arguments(block, index == 0, added)
            for op in block.ops:
                if op.results or isinstance(op, PrintTko):
                    self._number_op(op, added)
        inside = self._value, self._argument, self._conflict
        for block in region.blocks:
            for op in block.ops:
                for inner in op.regions:
                    self._value, self._argument, self._conflict = inside
                    self._number_region(inner)
        self._value, self._argument, self._conflict = counters
        self._used.difference_update(added)

    def _number_arguments(self, block: Block, entry: bool, added: list[str]) -> None:
        hints = argument_hints(block) if entry else ()
        for i, argument in enumerate(block.args):
            if i < len(hints):
                self.names[argument] = "%" + self._unique(hints[i], added)
            elif entry:
                self.names[argument] = "%" + self._unique(f"arg{self._argument}", added)
                self._argument += 1
            else:
                self.names[argument] = f"%{self._value}"
                self._value += 1

    def _number_op(self, op: Operation, added: list[str] | None = None) -> None:
        results = op.results
        if not results:
            if isinstance(op, PrintTko):  # 13.1's has no token; in text it has one, which nothing uses
                self.groups[op] = [(f"%{self._value}", 1)]
                self._value += 1
            return
        hints = dict(result_hints(op))
        starts: dict[int, str] = {}
        for i, result in enumerate(results):
            hint = hints.get(result)
            if hint is not None:
                starts[i] = self._unique(hint, added)
        if 0 not in starts:
            starts[0] = str(self._value)
            self._value += 1
        bounds = [*sorted(starts), len(results)]
        groups = self.groups[op] = []
        for start, end in pairwise(bounds):
            name = "%" + starts[start]
            groups.append((name, end - start))
            if end - start == 1:
                self.names[results[start]] = name
            else:
                for i in range(start, end):
                    self.names[results[i]] = f"{name}#{i - start}"

    def _unique(self, hint: str, added: list[str] | None) -> str:
        name = _UNNAMEABLE.sub("_", hint)
        if name in self._used:
            stem = name + "_"
            while True:
                name = stem + str(self._conflict)
                self._conflict += 1
                if name not in self._used:
                    break
        self._used.add(name)
        if added is not None:
            added.append(name)
        return name
