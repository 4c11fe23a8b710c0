"""`addresses-first`: where loads stand behind one another, all their places are computed before the first of them is made.

    %p = getelementptr %a ; %x = ld.global %p        %p = getelementptr %a ; %q = getelementptr %b
    %y = fpext %x                               ->   %x = ld.global %p ; %y = fpext %x
    %q = getelementptr %b ; %z = ld.global %q        %z = ld.global %q

From sm_100 on parameters come from constant memory by loads of their own, which are counted by the same six counters a warp as
those from global memory: a parameter that is asked for in front of one load, and used behind it, waits for that load, and the next
load's address with it. Each array's latency is then exposed behind the other's (the gradient of SwiGLU in TileGym, a row a block,
B200: 0.97 us, 0.58 so; `_dyt_bwd_kernel` 1.18 and 0.74; of the suite, 147 cases change by -3 to 3 %). Not for many loads: their
addresses would take registers that nobody frees before the last.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Block, Operation

from tileiras.transforms.structure import insert_in_front

MOST = 24
"""Loads behind one another."""
PLACES = frozenset("llvm." + name for name in (
    "add sub mul sext zext trunc icmp and or xor shl lshr ashr getelementptr ptrtoint inttoptr select mlir.constant "
    "mlir.poison freeze bitcast extractelement insertelement shufflevector").split())
"""What computes addresses and bounds, and has no effect wherever it stands."""
BETWEEN = PLACES | frozenset("llvm." + name for name in (
    "fadd fsub fmul fdiv fneg fcmp fpext fptrunc sitofp uitofp fptosi fptoui sdiv udiv srem urem").split())
"""What loads of one run may have between them."""


def run(module: Operation, context: Any = None) -> None:
    """Move what places are computed by, in place."""
    for func in module.regions[0].block.ops:
        for region in func.regions:
            for block in region.blocks:
                for stretch in _runs(block):
                    _move(stretch)


def _is_load(op: Operation) -> bool:
    """Whether an op reads global memory, and orders nothing."""
    if op.name == "llvm.load":
        return True
    instruction: Any = op.properties.get("instruction")
    return instruction is not None and instruction.data.startswith("ld.global")


def _runs(block: Block) -> list[list[Operation]]:
    """Stretches of a block from a load to the last one behind it without anything between but computing; of few loads."""
    found: list[list[Operation]] = []
    stretch: list[Operation] = []
    for op in block.ops:
        if _is_load(op) or (stretch and op.name in BETWEEN):
            stretch.append(op)
        elif stretch:
            found.append(stretch)
            stretch = []
    return [s for s in (*found, stretch) if 2 <= sum(map(_is_load, s)) <= MOST]


def _move(stretch: list[Operation]) -> None:
    """Put what leads to the places of a stretch's loads, and needs none of them, in front of the first: of a place that follows
    from a load, too, so that not all of it can move (which is why `structure.needed_of` isn't asked)."""
    inside = set(stretch)
    wanted: set[Operation] = set()
    pending = [v for op in stretch[1:] if _is_load(op) for v in op.operands]
    while pending:
        maker = pending.pop().owner
        if isinstance(maker, Operation) and maker in inside and maker not in wanted and maker.name in PLACES:
            wanted.add(maker)
            pending += maker.operands
    moved: set[Operation] = set()
    for op in stretch[1:]:
        if op in wanted and all(v.owner not in inside or v.owner in moved for v in op.operands):
            moved.add(op)
            op.detach()
            insert_in_front(stretch[0], op)
