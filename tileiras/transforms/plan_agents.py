"""`plan-agents`: how many warps compute a tile block whose products warpgroups do, before layouts say which thread holds what.

A warpgroup of four warps issues the products of its rows; an accumulator takes as many registers of its threads as it has
elements for each. Two warpgroups share the rows where one would pass MOST_ACCUMULATORS registers a thread, and more than two
only keep registers from each other: the products of 128 rows and 256 columns fit two.

    128 x 256 accumulators                    num_warps = 8:  128 registers a thread
    two of 128 x 128, carried by one loop     num_warps = 8:  128 registers a thread

So they do where a product's rows become another one's and both take as many together (attention of 128 rows, 64 keys a step and 64
columns, 2048 x 2048 x 32 heads, predicted for an H100: 133 us by one, 95 by two; 64 x 32 the same by both). Of 64 rows one
warpgroup has all, if its registers hold them: two would meet for each row's maximum, and exchange weights (64 keys and 256 columns:
296 us by one, 369 by two).

Where the tensor core reads accumulators from its own memory and threads widen and turn an operand for it (weights of 8 or 4
bits), two warpgroups share that work: it is what the loop waits for (B200, int8 weights 2048 x 4096 x 2048: 90.6 us by one, 68.2 by
two; 4-bit ones 78.4 and 69.6). Not where warps multiply, since there are fewer rows than the tensor core takes: each reads all
rows, and more blocks share an SM (attention of 16 queries and int8 keys, B200: 132 us by eight warps, 96 by four). Nor where they
gather it: what they look up in is in L1, which more warps don't make faster (89.9, 100.7).

Two compute an activation of sums that would be 128 registers a thread of one (bias and GELU of 128x128x64, 4096x4096 by 1024, B200:
51.1 us by one, 47.9 by two), or functions of an attention's scores (capped by a tanh, 128 rows and keys, B200: 34.1 and 23.1).

Sums that threads add each step's product to (scaled by itself: `acc += mma(a, b, zeros) * factors`) are in registers even where
accumulators aren't: two hold those that would fill one's (128x256x128 in e4m3, 4096x4096 by 2048, B200: 99 us by one, 31 by two),
or that one spills.

In tensor memory accumulators take no registers: where all that becomes of them is stored by the copy engine, threads hold a piece
at a time (`tmem_pieces.py`). Where threads work on a product before its rows go to the next one (attention), a thread has whole
rows of it: those count, not what is carried.

The warps that load come later (`materialize-schedule`), and change nothing here.
"""
from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import IntAttr, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.access_facts import view_facts
from tileiras.analysis.agents import WARP_THREADS, WARPGROUP
from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.entry_hints import hint, worker_warps
from tileiras.analysis.layout_rules import DOTS
from tileiras.analysis.reshapes import kept
from tileiras.analysis.tma import MapFacts, is_unwritten, map_facts, orders_itself
from tileiras.dialects import arith
from tileiras.dialects.element import REGISTER_BYTES, element_bytes, tile_bytes
from tileiras.layout.atoms.umma import HALF_ROWS

MOST_ACCUMULATORS = 128
"""Registers a thread: half of what a thread may have, for operands' addresses and what is done with the sums behind the loop."""
MOST_THAT_FIT = MOST_ACCUMULATORS * WARPGROUP * WARP_THREADS
"""Registers of a warpgroup's threads together."""
MORE_THAN_FIT = MOST_THAT_FIT + 1
MOST_WARPS = 2 * WARPGROUP
ROWS_OF_TWO = 128
"""Rows of two warpgroups' products."""
MOST_OF_ONE = 160 * WARPGROUP * WARP_THREADS
"""Registers of a warpgroup's threads together for a product's rows and the sums that take them."""
MUCH_TO_WIDEN = 8192
"""Elements of an operand, 32 a thread of two warpgroups. Less is better widened by one (B200, int8 weights, 64 x 64 a step: 185 us
by one, 283 by two)."""
MOST_IN_ONE = 4
"""Elements of two bits in a byte."""
MOST_LOOKED_AT = 64
"""Values between loads and a product."""
MOVES = frozenset({"nv_tileas.permute", "nv_tileas.view", "nv_tileas.cat", "nv_tileas.broadcast"})
"""Ops that only say where elements are."""


def run(module: Operation, context: Any) -> None:
    """Write `num_warps` on the functions, in place."""
    target = context.target
    if not context.multiplies_apart:
        return
    for func in module.regions[0].block.ops:
        if func.name != "nv_tileas.func" or worker_warps(func) is not None or "num_warps" not in func.properties:
            continue
        planned: Any = func.properties["num_warps"]
        if planned.data < WARPGROUP or not any(op.name in DOTS for op in func.walk()) or any(map(_wants_more, func.walk())):
            continue
        words = max((_carried_words(op) for op in func.walk() if op.name == "scf.for"), default=0)
        shared = "two warpgroups share the products' rows"
        into_memory = context.uses("tcgen05") and target.has_tcgen05
        between = _words_between(func) if into_memory else 0
        if not into_memory:
            # a second block's warpgroup, where one is asked for, has the registers that the first one lacks
            if (hint(func, "occupancy") or 1) == 1 and _words_of_chains(func, ROWS_OF_TWO) >= MOST_THAT_FIT:
                words = MORE_THAN_FIT       # too few are left for other work meanwhile
            if planned.data > WARPGROUP and 0 < _words_of_chains(func, 1) <= MOST_OF_ONE and _have_rows_of_one(func):
                func.properties["num_warps"] = IntAttr(WARPGROUP)
                if context.remarks is not None:
                    _report(func, context.remarks, WARPGROUP, "a warpgroup has a product's rows to itself")
                continue
        elif any(_widened_elements(op) > between for op in func.walk()):
            words, shared = MORE_THAN_FIT, "two warpgroups widen an operand of the products"
        elif between >= MOST_THAT_FIT and _have_functions(func):
            words, shared = MORE_THAN_FIT, "two warpgroups compute functions of a product's rows"
        elif between:
            words = between
        elif words >= MOST_THAT_FIT and _become_functions(func):
            words, shared = MORE_THAN_FIT, "two warpgroups compute functions of the products' rows"
        elif words >= MOST_THAT_FIT and _threads_add(func) and not (words == MOST_THAT_FIT and _fit_one(context)):
            words, shared = MORE_THAN_FIT, "two warpgroups hold the sums that products are added to"
        elif _are_stored_in_pieces(func, context):
            func.properties["num_warps"] = IntAttr(WARPGROUP)
            if planned.data > WARPGROUP and context.remarks is not None:
                _report(func, context.remarks, WARPGROUP, "the copy engine stores the products' rows, a part at a time")
            continue
        if words >= MORE_THAN_FIT or planned.data > MOST_WARPS:
            func.properties["num_warps"] = IntAttr(MOST_WARPS)
            if context.remarks is not None:
                _report(func, context.remarks, MOST_WARPS, shared)


def _have_functions(func: Operation) -> bool:
    """Whether functions other than exponentials, which each row's weights are, are computed of tiles as large."""
    from tileiras.analysis.dot_chains import FUNCTIONS
    others = {f"math.{name}" for name in FUNCTIONS - {"exp", "exp2"}}
    return any(op.name in others and isinstance(t := op.results[0].type, TensorType) and prod(t.get_shape()) >= MOST_THAT_FIT
               for op in func.walk())


def _become_functions(func: Operation) -> bool:
    """Whether sums that a loop carries go to functions of each."""
    from tileiras.analysis.dot_chains import become_functions
    return any(become_functions(r) for op in func.walk() if op.name == "scf.for" and _carried_words(op)
               for r in op.results if isinstance(r.type, TensorType))


def _wants_more(op: Any) -> bool:
    """Whether a block-scaled product is faster by the warps that its tile has anyway: with more than 128 rows of 8-bit elements it
    is (mxfp8, 256 x 128, B200: 68.8 us by 16 warps, 73.3 by 8; but 128 x 256 66.4 and 63.1, nvfp4 256 x 128 57.8 and 53.9)."""
    return op.name == "nv_tileas.dot_scaled" and "packed" not in op.properties and \
        op.results[0].type.get_shape()[-2] > WARPGROUP * WARP_THREADS


def _report(func: Operation, remarks: list[Any], warps: int, reason: str) -> None:
    """What was said of the function's warps before holds no longer."""
    from tileiras.remarks import ANALYSIS, RESOURCES, remark

    new = remark(func, func, ANALYSIS, RESOURCES, "KernelWarps", f"{warps} warps run a tile block", {"Warps": warps}, [reason])
    remarks[:] = [new if (old.name, old.function) == (new.name, new.function) else old for old in remarks]


def _widened_elements(dot: Any) -> int:
    """Of a large operand of a loop's product into tensor memory that threads compute from a narrower tile which the loop loads, and
    turn, gathering nothing; 0 where there is none. What they needn't turn the copy engine brings where two warpgroups compute, and
    that is slower (82.2 us for 62.6)."""
    if dot.name != "nv_tileas.dot" or dot.parent_op().name != "scf.for" or _rows(dot) < HALF_ROWS:
        return 0
    return max((prod(v.type.get_shape()) for v in (dot.lhs, dot.rhs) if _is_turned_and_wider(v)), default=0)


def _is_turned_and_wider(operand: Any) -> bool:
    turn = operand.owner
    if isinstance(turn, arith.Convertf):
        turn = turn.operands[0].owner
    return isinstance(turn, Operation) and turn.name == "nv_tileas.permute" and \
        prod(operand.type.get_shape()) >= MUCH_TO_WIDEN and _is_widened(operand)


def _is_widened(operand: Any) -> bool:
    pending, seen, is_widened = [operand], {operand}, False
    while pending:
        op: Any = pending.pop().owner
        if not isinstance(op, Operation):
            continue
        if op.name == "nv_tileas.tiled_load":
            is_widened |= _is_narrower(op.results[0].type, operand.type)
            continue
        if op.name == "nv_tileas.splat":
            continue
        if not isinstance(op, (arith.Elementwise, arith.Constant)) and op.name not in MOVES:
            return False
        new = {v for v in op.operands if isinstance(v.type, TensorType)} - seen
        seen |= new
        pending += new
        if len(seen) > MOST_LOOKED_AT:
            return False
    return is_widened


def _is_narrower(loaded: Any, made: Any) -> bool:
    """Whether a tile has what becomes of it in fewer bytes an element, several elements in one at most; not a row of scales."""
    return element_bytes(loaded.element_type) < element_bytes(made.element_type) and \
        MOST_IN_ONE * prod(loaded.get_shape()) >= prod(made.get_shape())


def _words_of_chains(func: Operation, rows: int) -> int:
    """Registers of all threads together that hold a product's rows and the sums of the product that takes them; 0 where no product
    of so many rows takes any."""
    from tileiras.analysis.dot_chains import takes_rows
    dots: list[Any] = [op for op in func.walk() if op.name == "nv_tileas.dot" and _rows(op) >= rows and takes_rows(op)]
    return max((prod(op.lhs.type.get_shape()) + prod(op.results[0].type.get_shape()) for op in dots), default=0)


def _have_rows_of_one(func: Operation) -> bool:
    """Whether no product has rows for two warpgroups."""
    return all(_rows(op) < ROWS_OF_TWO for op in func.walk() if op.name in DOTS)


def _rows(dot: Any) -> int:
    return dot.lhs.type.get_shape()[-2]


def _words_between(func: Operation) -> int:
    """Registers of all threads together that hold the largest first operand which another product's rows become; 0 where there is
    none."""
    from tileiras.analysis.dot_chains import takes_rows
    dots: list[Any] = [op for op in func.walk() if op.name == "nv_tileas.dot" and takes_rows(op)]
    return max((prod(op.lhs.type.get_shape()) for op in dots), default=0)


def _are_stored_in_pieces(func: Operation, context: Any) -> bool:
    """Whether what loops with products carry only goes to tiles that the copy engine stores, by ops element by element and
    reshapes that keep rows and columns. Where products are block-scaled four warps are slower than eight (nvfp4, 128 x 256, B200:
    65.6 us against 58.0)."""
    if not (context.uses("tma") and context.target.has_tma) or any(op.name == "nv_tileas.dot_scaled" for op in func.walk()):
        return False
    axis = AxisAnalysis(func)
    sums = [r for op in func.walk() if op.name == "scf.for" and _carried_words(op)
            for r in op.results if isinstance(r.type, TensorType)]
    return bool(sums) and all(_is_stored_by_engine(v, axis) for v in sums)


def _is_stored_by_engine(v: SSAValue, axis: AxisAnalysis) -> bool:
    while v.has_one_use():
        use = v.first_use
        assert use is not None
        op: Any = use.operation
        if op.name == "nv_tileas.tiled_store" and use.index == 0:
            along = view_facts(op, op.view, axis).contiguous
            return along == len(v.type.get_shape()) - 1 and isinstance(     # type: ignore[attr-defined]
                map_facts(op, axis, contiguous=along), MapFacts) and (orders_itself(op) or is_unwritten(op))
        if not isinstance(op, arith.Elementwise) and not kept(op):
            return False
        v = op.results[0]
    return False


def _fit_one(context: Any) -> bool:
    """Whether one warpgroup may try to hold as many registers as there are halves; by two if it spills."""
    context.has_large_parts = True
    return context.large_parts      # type: ignore[no-any-return]


def _threads_add(func: Operation) -> bool:
    """Whether a loop with products carries a large tile that none of them gives: threads add to it (each step's product scaled by
    itself; 128x256x128 in bf16, 4096x4096 by 2048, B200: 131 us by one warpgroup, 85 by two)."""
    return any(prod(r.type.get_shape()) >= MOST_THAT_FIT and not _is_given_by_product(r)        # type: ignore[attr-defined]
               for op in func.walk() if op.name == "scf.for" and _carried_words(op) for r in op.results
               if isinstance(r.type, TensorType))


def _is_given_by_product(v: SSAValue) -> bool:
    """Whether a product gives a value, or the last iteration of a loop's."""
    owner: Any = v.owner
    while isinstance(owner, Operation) and owner.name == "scf.for":
        v = owner.regions[0].block.last_op.operands[owner.results.index(v)]     # type: ignore[union-attr]
        owner = v.owner
    return isinstance(owner, Operation) and owner.name in DOTS


def _carried_words(loop: Operation) -> int:
    """Registers of all threads together that hold the tiles which a loop with products carries; sums and maxima of rows beside them
    are few."""
    if not any(op.name in DOTS for op in loop.regions[0].block.ops):
        return 0
    tensors: list[Any] = [r.type for r in loop.results if isinstance(r.type, TensorType) and r.type.get_shape()[-1:] != (1,)]
    return sum(tile_bytes(t) // REGISTER_BYTES for t in tensors)
