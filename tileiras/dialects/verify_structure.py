"""What no op below cuda_tile can see alone: where ops may stand, that values are defined before they are used, symbols,
which levels mix, that nv_tileaa has no layouts, and nv_tileas none or all of them for the block's warps.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.analysis.agents import agent_of
from tileiras.dialects import nv_tileas
from tileiras.dialects.base import TileOp
from tileiras.dialects.cuda_tile.verify_error import InvalidOp

FUNCTIONS = ("nv_tileaa.func", "nv_tileas.func", "llvm.func")
TOP_LEVEL = (*FUNCTIONS, "nv_tileaa.global", "nv_tileas.global", "llvm.mlir.global")
INSIDE: dict[str, tuple[str, ...]] = {
    "nv_tileaa.func": ("arith", "math", "scf", "nv_tileaa"), "nv_tileas.func": ("arith", "math", "scf", "nv_tileas"),
    "llvm.func": ("llvm", "nvvm"),
}
"""The dialects whose ops a function may hold; those of other dialects than these are left to their own verifiers."""

BRANCHES = ("llvm.br", "llvm.cond_br")
LEVELS = frozenset(dialect for dialects in INSIDE.values() for dialect in dialects)


def check_structure(module: Operation) -> None:
    """Raise InvalidOp for what is wrong with a module as a whole. Its ops have their regions as declared."""
    if module.name != "builtin.module":
        return
    if len(module.regions) != 1 or len(module.regions[0].blocks) > 1 or any(b.args for b in module.regions[0].blocks):
        raise InvalidOp(module, "must have one region of one block without arguments")
    names: dict[str, Operation] = {}
    for op in module.regions[0].block.ops if module.regions[0].blocks else ():
        if op.name.partition(".")[0] not in LEVELS and isinstance(op, TileOp):
            continue
        if op.name not in TOP_LEVEL:
            raise InvalidOp(op, "must be inside a function")
        name: Any = op.properties["sym_name"]
        if name.data in names:
            raise InvalidOp(op, f"redefinition of symbol named '{name.data}'")
        names[name.data] = op
    for op in names.values():
        if op.name in FUNCTIONS:
            _check_function(op, names)


def _check_function(func: Operation, names: dict[str, Operation]) -> None:
    dialects = INSIDE[func.name]
    warps: Any = func.properties.get("num_warps")
    placed = func.name == "nv_tileas.func" and _has_layouts(func)
    for op in func.walk():
        dialect = op.name.partition(".")[0]
        if op is not func and (op.name in TOP_LEVEL or not isinstance(op, TileOp) or dialect in LEVELS.difference(dialects)):
            raise InvalidOp(op, f"has no place in '{func.name}'")
        if op.successors and op.name not in BRANCHES:
            raise InvalidOp(op, "goes to no other block")
        if op.name.endswith(".get_global"):
            _check_symbol(op, names)
        for value in op.results:
            _check_level(op, func, value, warps, placed)
        for region in op.regions:
            for block in region.blocks:
                for value in block.args:
                    _check_level(op, func, value, warps, placed)
                _check_terminator(op, block)
    _check_dominance(func)
    if func.name == "nv_tileas.func":
        _check_layouts(func)


def _check_layouts(func: Operation) -> None:
    """Layouts of operands and results go together."""
    from tileiras.analysis.layout_rules import check

    for op in func.walk():
        problem = check(op)
        if problem is not None:
            raise InvalidOp(op, problem)


def _check_symbol(op: Operation, names: dict[str, Operation]) -> None:
    symbol: Any = op.properties["symbol"]
    target = names.get(symbol.string_value())
    if target is None or not target.name.endswith(".global"):
        raise InvalidOp(op, f"'{symbol.string_value()}' does not name a global")


def _has_layouts(func: Operation) -> bool:
    """Whether a function's tensors have layouts: all get them by one pass."""
    return any(isinstance(r.type, TensorType) and isinstance(r.type.encoding, nv_tileas.LayoutAttr)
               for op in func.walk() for r in op.results)


def _check_level(op: Operation, func: Operation, value: SSAValue, warps: Any, placed: bool) -> None:
    t = value.type
    if isinstance(t, (nv_tileas.BufferType, nv_tileas.RingType, nv_tileas.PipeType)) and func.name == "nv_tileaa.func":
        raise InvalidOp(op, f"has a buffer ('{t}'), which 'nv_tileaa.func' has none of")
    if not isinstance(t, TensorType):
        return
    if func.name == "nv_tileaa.func" and not isinstance(t.encoding, NoneAttr):
        raise InvalidOp(op, f"has a tensor with a layout ('{t}'), which 'nv_tileaa.func' has none of")
    if placed:
        if not isinstance(t.encoding, nv_tileas.LayoutAttr):
            raise InvalidOp(op, f"has a tensor without a layout ('{t}'), though others have one")
        if warps is not None and t.encoding.data.num_warps != _team(op, warps.data):
            raise InvalidOp(op, f"has a layout of {t.encoding.data.num_warps} warps in a block of {_team(op, warps.data)} ('{t}')")


def _team(op: Operation, warps: int) -> int:
    """The warps that do an op: those of its agent, if it is in one, or of the block."""
    found = agent_of(op)
    if found is not None:
        given: Any = found[0].properties["warps"]
        return given.data[found[1]].data
    return warps


def _check_terminator(op: Operation, block: Block) -> None:
    """A block ends in a terminator and has none before."""
    last = block.last_op
    if last is None:
        raise InvalidOp(op, "has a block without ops")
    for inner in block.ops:
        if not isinstance(inner, TileOp):
            continue
        if inner is last and not inner.TERMINATOR:
            raise InvalidOp(inner, "is the last op of its block, but no terminator")
        if inner is not last and inner.TERMINATOR:
            raise InvalidOp(inner, "must be the last op of its block")


# --- dominance -------------------------------------------------------------------------------------------------------

def _check_dominance(func: Operation) -> None:
    order: dict[Operation, int] = {}
    dominators: dict[Block, set[Block]] = {}
    for number, op in enumerate(func.walk()):
        order[op] = number
        for region in op.regions:
            if len(region.blocks) > 1:
                dominators.update(_dominators(region))
    for op in order:
        for i, value in enumerate(op.operands):
            if not _dominates(value, op, order, dominators):
                raise InvalidOp(op, f"operand #{i} does not dominate this use")


def _dominates(value: SSAValue, user: Operation, order: dict[Operation, int], dominators: dict[Block, set[Block]]) -> bool:
    owner = value.owner
    home = owner if isinstance(owner, Block) else owner.parent
    if home is None or (isinstance(owner, Operation) and owner not in order):
        return False
    for block, op in _enclosing(user):
        if block is home:
            return isinstance(owner, Block) or order[owner] < order[op]
        if block.parent is home.parent:
            return home in dominators.get(block, ())
    return False


def _enclosing(op: Operation) -> Iterator[tuple[Block, Operation]]:
    """The blocks around an op, inside out, each with the op of it that the op is or is in."""
    current: Operation | None = op
    while current is not None and current.parent is not None:
        yield current.parent, current
        current = current.parent_op()


def _dominators(region: Region) -> dict[Block, set[Block]]:
    """For each reachable block those that every path to it goes through; an unreachable one is dominated by all."""
    blocks = list(region.blocks)
    before: dict[Block, list[Block]] = {block: [] for block in blocks}
    for block in blocks:
        last = block.last_op
        for following in last.successors if last is not None else ():
            before[following].append(block)
    everything = set(blocks)
    found = dict.fromkeys(blocks, everything)
    found[blocks[0]] = {blocks[0]}
    changed = True
    while changed:
        changed = False
        for block in blocks[1:]:
            above = [found[b] for b in before[block]]
            new = set.intersection(*above) | {block} if above else everything
            if new != found[block]:
                found[block] = new
                changed = True
    return found
