"""How much do a block's tiles ask of its warps: about how many issue slots would a single warp take for all of them?

What every warp does for itself, however small its part of a tile is (addresses, scalars), isn't counted.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import StringAttr, TensorType, f64
from xdsl.ir import Block, Operation

from tileiras.analysis.agents import WARP_THREADS
from tileiras.analysis.invariant_loads import NEUTRAL
from tileiras.analysis.layout_choice import slots_of
from tileiras.dialects.arith import Elementwise
from tileiras.dialects.element import REGISTER_BYTES, element_bytes
from tileiras.dialects.nv_tileaa import MemTokenType
from tileiras.machine.targets import Target

WHILE = "loop"
"""The loop that ends by a break only."""
ACCESS_SLOTS = 2
"""Issue slots of an access to one number a lane: it and its predicate or address."""
ATOMIC_SLOTS = 8
"""An atomic operation takes the load-store unit's time for each number, too."""
SWAP_SLOTS = 512
"""An atomic operation that the machine has not is a loop of compare-and-swap, and waits for memory for each number."""
SLOW_F64 = 16
"""How many times as long as elsewhere an op on 64-bit floats takes where an SM's threads share two units for them."""
LONG_SLOTS = {"math.powf": 96, "math.sqrt": 32, "arith.remf": 160}
"""Functions that each number takes a subroutine or a loop for, one after the other; a square root where it is rounded exactly."""
APPROXIMATE = "approx"
ATOMICS = frozenset({"tiled_atomic_rmw", "atomic_rmw", "atomic_cas"})
ACCESSES = {**dict.fromkeys(("tiled_load", "load", "tiled_store", "store"), ACCESS_SLOTS), **dict.fromkeys(ATOMICS, ATOMIC_SLOTS)}
EXCHANGES = frozenset({"reduce", "scan", "permute", "dot", "dot_scaled", "cat", "extract", "insert", "pack", "unpack"})
"""Ops that bring numbers of several threads together, and through shared memory those of several warps."""


@dataclass(frozen=True)
class TileWork:
    """slots: issue slots of a single warp for all tiles; of a loop, for one iteration. waiting: of them, those of loops whose end
    shows only in what they compute, so that nothing of a later iteration can begin. swaps: those of compare-and-swap. exchanges:
    whether threads' numbers come together. ordered: memory accesses that come after another one."""

    slots: float
    waiting: float
    swaps: float
    exchanges: bool
    ordered: int


def tile_work(func: Operation, target: Target) -> TileWork:
    """Of an nv_tileaa function."""
    slots, waiting, swaps, exchanges, ordered = 0.0, 0.0, 0.0, False, 0

    def block(b: Block, waits: bool) -> None:
        nonlocal slots, waiting, swaps, exchanges, ordered
        for op in b.ops:
            tiles = [v.type for v in (*op.results, *op.operands) if isinstance(v.type, TensorType)]
            lanes = max((_lanes(t) for t in tiles), default=0)
            mnemonic = op.name.removeprefix("nv_tileaa.")
            exchanges |= mnemonic in EXCHANGES and lanes > 0
            each = _slots(op, mnemonic, target)
            own = lanes * each
            slots += own
            waiting += own if waits else 0
            swaps += own if each == SWAP_SLOTS else 0
            ordered += mnemonic in ACCESSES and _is_ordered(op)
            if mnemonic not in EXCHANGES:
                for region in op.regions:
                    for child in region.blocks:
                        block(child, waits or mnemonic == WHILE)

    for b in func.regions[0].blocks:
        block(b, False)
    return TileWork(slots, waiting, swaps, exchanges, ordered)


def _slots(op: Operation, mnemonic: str, target: Target) -> float:
    if isinstance(op, Elementwise):
        if target.slow_f64 and any(isinstance(v.type, TensorType) and v.type.element_type == f64
                                   for v in (*op.operands, *op.results)):
            return SLOW_F64 * slots_of(op)
        rounding = op.properties.get("rounding")
        is_long = op.name in LONG_SLOTS and not (isinstance(rounding, StringAttr) and rounding.data == APPROXIMATE)
        return LONG_SLOTS[op.name] if is_long else slots_of(op)
    if mnemonic in ATOMICS and any(isinstance(v.type, TensorType) and element_bytes(v.type.element_type) < REGISTER_BYTES
                                   for v in op.operands if v is not getattr(op, "mask", None)):
        return SWAP_SLOTS
    return ACCESSES.get(mnemonic, 1 if mnemonic in EXCHANGES else 0)


def _is_ordered(op: Operation) -> bool:
    """Whether an access's token is another access's, or may be."""
    pending = [v for v in op.operands if isinstance(v.type, MemTokenType)]
    seen = set(pending)
    while pending:
        owner = pending.pop().owner
        if not isinstance(owner, Operation) or owner.name not in NEUTRAL:
            return True
        pending += [v for v in owner.operands if v not in seen]
        seen.update(owner.operands)
    return False


def _lanes(t: TensorType) -> float:
    """Numbers of a tensor that one lane of a single warp has."""
    return prod(t.get_shape()) / WARP_THREADS
