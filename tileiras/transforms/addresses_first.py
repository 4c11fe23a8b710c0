"""`addresses-first`: where loads stand behind one another, places that need further parameters are computed before the first one.

    %p = getelementptr %a ; %x = ld.global %p        %p = getelementptr %a ; %q = getelementptr %b
    %y = fpext %x                               ->   %x = ld.global %p ; %y = fpext %x
    %q = getelementptr %b ; %z = ld.global %q        %z = ld.global %q

From sm_100 on parameters come from constant memory by loads of their own, which are counted by the same six counters a warp as
those from global memory: a parameter that is asked for in front of one load, and used behind it, waits for that load, and the next
load's address with it. Each array's latency is then exposed behind the other's (the gradient of SwiGLU in TileGym, a row a block,
B200: 0.97 us, 0.58 so; `_dyt_bwd_kernel` 0.98 and 0.64). Shuffles between loads don't part them (a causal convolution, B200: 2.56,
2.21; each side of the shuffles for itself 3.20). What needs no parameter but those of the first load stays where it is: ptxas then
places uses of what is loaded otherwise, for better or worse (a running sum of 64-bit integers 0.97, 1.42). Not for many loads:
their addresses would take registers that nobody frees before the last.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from tileiras.transforms.structure import insert_in_front

MOST = 24
"""Loads behind one another."""
PLACES = frozenset("llvm." + name for name in (
    "add sub mul sext zext trunc icmp and or xor shl lshr ashr getelementptr ptrtoint inttoptr select mlir.constant "
    "mlir.poison freeze bitcast extractelement insertelement shufflevector").split())
"""What computes addresses and bounds, and has no effect wherever it stands."""
BETWEEN = PLACES | frozenset("llvm." + name for name in (
    "fadd fsub fmul fdiv fneg fcmp fpext fptrunc sitofp uitofp fptosi fptoui sdiv udiv srem urem").split())
"""What computes between loads of one run."""


def run(module: Operation, context: Any = None) -> None:
    """Move what places are computed by, in place."""
    for func in module.regions[0].block.ops:
        known: dict[Operation, frozenset[SSAValue]] = {}
        for region in func.regions:
            for block in region.blocks:
                for stretch in _runs(block):
                    _move(stretch, known)


def _is_load(op: Operation) -> bool:
    """Whether an op reads global memory, and orders nothing."""
    return op.name == "llvm.load" or _instruction(op).startswith("ld.global")


def _instruction(op: Operation) -> str:
    """The machine's instruction that an op stands for, "" where it is LLVM's own."""
    instruction: Any = op.properties.get("instruction")
    return instruction.data if instruction is not None else ""


def _is_between(op: Operation) -> bool:
    """Whether an op may stand between the loads of a run: it computes, or threads of a warp give something to one another."""
    return op.name in BETWEEN or _instruction(op).startswith("shfl.")


def _runs(block: Block) -> list[list[Operation]]:
    """Stretches of a block from a load to the last one behind it with nothing between but computing and shuffles; of few loads."""
    found: list[list[Operation]] = []
    stretch: list[Operation] = []
    for op in block.ops:
        if _is_load(op) or (stretch and _is_between(op)):
            stretch.append(op)
        elif stretch:
            found.append(stretch)
            stretch = []
    return [s for s in (*found, stretch) if 2 <= sum(map(_is_load, s)) <= MOST]


def _move(stretch: list[Operation], known: dict[Operation, frozenset[SSAValue]]) -> None:
    """Put what leads to the places of a stretch's loads, needs none of them, and waits for parameters that the first one doesn't,
    in front of the first: of a place that follows from a load, too, so that not all of it can move (which is why
    `structure.needed_of` isn't asked). `known`: of which parameters ops are."""
    inside = set(stretch)
    wanted: set[Operation] = set()
    pending = [v for op in stretch[1:] if _is_load(op) for v in op.operands]
    while pending:
        maker = pending.pop().owner
        if isinstance(maker, Operation) and maker in inside and maker not in wanted and maker.name in PLACES:
            wanted.add(maker)
            pending += maker.operands
    movable: dict[Operation, None] = {}
    for op in stretch[1:]:
        if op in wanted and all(v.owner not in inside or v.owner in movable for v in op.operands):
            movable[op] = None
    first = {p for v in stretch[0].operands for p in _parameters(v, known)}
    moved: set[Operation] = set()
    waiting: list[Any] = [op for op in movable if any(not first.issuperset(_parameters(v, known)) for v in op.operands)]
    while waiting:
        op = waiting.pop()
        if op not in moved:
            moved.add(op)
            waiting += [v.owner for v in op.operands if v.owner in movable]
    for op in movable:
        if op in moved:
            op.detach()
            insert_in_front(stretch[0], op)


def _parameters(v: SSAValue, known: dict[Operation, frozenset[SSAValue]]) -> frozenset[SSAValue]:
    """The kernel's parameters that a value is computed from, as far as it isn't carried by a loop. `known`: those of ops."""
    def of(x: SSAValue) -> frozenset[SSAValue]:
        if isinstance(x.owner, Operation):
            return known[x.owner]
        return frozenset({x}) if x.owner.parent is not None and x.owner is x.owner.parent.first_block else frozenset()
    pending = [v.owner] if isinstance(v.owner, Operation) else []
    while pending:
        op = pending[-1]
        missing = [x.owner for x in op.operands if isinstance(x.owner, Operation) and x.owner not in known]
        if op in known or not missing:
            pending.pop()
            if op not in known:
                known[op] = frozenset().union(*map(of, op.operands))
        else:
            pending += missing
    return of(v)
