"""`canonicalize`: the canonical form of cuda_tile, as the public definition has it.

    select %c, %false, %true           ->  xori %c, %true
    if %c { yield %a } else { yield %b }   ->  select %c, %a, %b        where %a and %b come from outside
    if %c { A } if %c { B }            ->  if %c { A B }
    if %c { if %d { A } }              ->  if (andi %c, %d) { A }
    if %c { A return } else { B return } C  ->  if %c { A return } B return
    addf %x, (mulf ...)                ->  addf (mulf ...), %x

Constants move to the front of their entry, one of a kind; ops without use or effect go. Walks until nothing changes, at
most `MAX_WALKS` times. The compiler's own pipeline simplifies one level lower (`transforms/simplify.py`): with this pass
before, the kernel suite's code and compile time stay as they are, so it is for tools that want the public form.
Source: public `CudaTile.cpp`, `OpsCanonicalization.td`.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Block, Operation

from tileiras.dialects.cuda_tile.op import CudaTileOp
from tileiras.dialects.cuda_tile.ops import Constant, Entry, If, Yield
from tileiras.transforms.canonicalize.branches import BRANCH_RULES
from tileiras.transforms.canonicalize.rewriting import erase
from tileiras.transforms.canonicalize.values import VALUE_RULES

MAX_WALKS = 10
"""As many walks as MLIR's greedy rewriting makes by default."""

RULES: dict[str, tuple[Any, ...]] = {**VALUE_RULES, "cuda_tile.if": BRANCH_RULES}
"""By op name; a rule changes the program around an op and says whether it did."""


def run(top: Operation, options: Any = None) -> None:
    """Bring every entry under `top` into canonical form, in place."""
    for entry in [op for op in top.walk() if isinstance(op, Entry)]:
        for _ in range(MAX_WALKS):
            collect_constants(entry.body.block)
            if not _walk(entry):
                break
        collect_constants(entry.body.block)


def collect_constants(block: Block) -> None:
    """Put every constant under an entry's block at its front; of equal ones the first stays."""
    known: dict[Any, Constant] = {}
    front = True
    for op in [op for outer in list(block.ops) for op in outer.walk()]:
        if not isinstance(op, Constant):
            front = False
            continue
        first = known.setdefault(op.properties["value"], op)
        if first is not op:
            op.results[0].replace_all_uses_with(first.results[0])
            erase(op)
        elif not front:
            op.detach()
            block.insert_op_before(op, block.first_op)  # type: ignore[arg-type]


def _walk(entry: Entry) -> bool:
    """Try every rule once at every op; whether one changed something."""
    changed = False
    for op in list(entry.walk()):
        if op is entry or not entry.is_ancestor(op):    # the list is from before this walk's changes
            continue
        if is_dead(op):
            erase(op)
            changed = True
            continue
        for rule in RULES.get(op.name, ()):
            if rule(op):
                changed = True
                break
    return changed


def is_dead(op: Operation) -> bool:
    """Whether nobody uses an op's results and it does nothing else. Loops stay: one may not end."""
    if any(result.first_use is not None for result in op.results):
        return False
    if isinstance(op, If):
        return all(isinstance(inner, (If, Yield)) or getattr(inner, "PURE", False)
                   for region in op.regions for block in region.blocks for outer in block.ops for inner in outer.walk())
    return isinstance(op, CudaTileOp) and op.PURE and bool(op.results)
