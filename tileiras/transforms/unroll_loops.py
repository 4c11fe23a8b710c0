"""`unroll-loops`: a loop of a few iterations that loads small tiles becomes its iterations, one behind the other.

    scf.for %i = 0 to 2 step 1 (%c) {             %x0 = load %p[0]
      %x = load %p[%i]                            %c0 = addf %c, %x0
      %c1 = addf %c, %x                  ->       %x1 = load %p[1]
      yield %c1                                   %c1 = addf %c0, %x1
    }

No load waits for an iteration then: ptxas asks for all of them at once, `cse` reads once what two such loops read (which may
be more than what one loop streams: a norm's rows, of which other blocks' would have taken the place in L2 meanwhile), and
`early-loads` moves loads in front of barriers. Counters are constants, which takes part of the addresses. Loops stay with products
in them, without loads, with tiles that take more than a few registers, and those that would get long; and those with loops in
them, unless an outer counter alone says how often these run (`for p in range(4): for q in range(p, 4)`): then all are unrolled.

A store to tiles that lie apart from iteration to iteration waits for none of the earlier ones: what comes behind waits for all.
Tiles lie apart where another index leads to other elements of a row: views may have steps shorter than their tiles, and strides
that only the launch knows may be shorter than rows.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.invariant_loads import LOADS
from tileiras.dialects import arith
from tileiras.dialects.element import elements_in, tile_bytes
from tileiras.dialects.nv_tileaa import DYNAMIC, MemTokenType, int_values
from tileiras.transforms.rules import build, int_constant, int_width
from tileiras.transforms.rules.control import PRODUCTS, trips, trips_between, unroll

MOST_TRIPS = 16
"""Iterations of a loop that is unrolled, of all runs of one in another, at most: what runs longer streams (`unroll-streams`)."""
MOST_BYTES = 32768
"""What all iterations load, at most: 64 registers a thread of four warps."""
MOST_AGAIN, LEAST_HELD = 65536, 4
"""The same where another loop of as many iterations reads that again, of elements of so many bytes at least: what is computed of
them is held as long. (A norm of groups of 64 KiB, f32, H100: 61.0 us by rings, 44.6 so.)"""
MOST_OPS = 512
"""Ops of all iterations, at most."""
MOST_RESULTS = 1 << 20
"""Bytes of what all of them compute, at most: 2048 registers of a thread of four warps, code that is fetched and compiled."""
STORE = "nv_tileaa.tiled_store"
LEFT = PRODUCTS | {"nv_tileaa.loop"}
"""Ops with which a loop stays."""


def run(module: Operation, context: Any = None) -> None:
    """Unroll such loops, in place; inner ones first."""
    loops = [op for op in module.walk() if isinstance(op, arith.For)]
    again = _read_again(loops)
    for loop in reversed(loops):
        times = trips(loop)
        if times is None or not 1 < times <= MOST_TRIPS:
            continue
        runs = _runs_inside(loop, times)
        if runs is not None and _is_small(loop, times, runs, loop in again):
            block = loop.parent
            assert block is not None
            outside = {*block.ops}
            unroll(loop, times, set() if runs else _apart(loop, times))
            for inner in [op for op in block.ops if isinstance(op, arith.For) and op not in outside]:
                _unroll_inner(inner)


def _read_again(loops: list[arith.For]) -> set[arith.For]:
    """The loops that read tiles of an array of which another one of as many iterations reads as many, beside it."""
    found: dict[tuple[Any, ...], list[arith.For]] = {}
    for loop in loops:
        times = trips(loop)
        for read in {(_array(op), op.results[0].type) for op in loop.regions[0].block.ops if op.name in LOADS}:
            found.setdefault((loop.parent, times, *read), []).append(loop)
    return {loop for same in found.values() if len(same) > 1 for loop in same}


def _array(load: Operation) -> SSAValue:
    """What a load's pointers or view are of."""
    v = load.operands[0]
    while isinstance(v.owner, Operation) and v.owner.operands:
        v = v.owner.operands[0]
    return v


def _is_small(loop: arith.For, times: int, runs: dict[arith.For, int], again: bool) -> bool:
    """Whether a loop has loads, and nothing that keeps it, and all iterations are few ops on few registers."""
    inside = list(_each_time(loop, times, runs))
    tiles = [(op.results[0], n) for op, n in inside if op.name in LOADS]
    loaded = sum(n * _bytes(tile) for tile, n in tiles)
    held = sum(n * max(_bytes(tile), LEAST_HELD * elements_in(tile.type)) for tile, n in tiles)
    computed = sum(n * _bytes(v) for op, n in inside for v in op.results)
    return 0 < loaded and (loaded <= MOST_BYTES or (again and held <= MOST_AGAIN)) and \
        sum(n for _, n in inside) <= MOST_OPS and computed <= MOST_RESULTS and \
        LEFT.isdisjoint(op.name for op, _ in inside)


def _each_time(loop: arith.For, times: int, runs: dict[arith.For, int]) -> Iterator[tuple[Operation, int]]:
    """The ops in a loop, each with how often it runs."""
    for op in loop.regions[0].block.ops:
        inner = runs[op] if isinstance(op, arith.For) else times
        for inside in op.walk():
            yield inside, times if inside is op else inner


# ---- loops in loops

def _runs_inside(loop: arith.For, times: int) -> dict[arith.For, int] | None:
    """The loops in a loop, with how many iterations each has in all of the outer's; None where the outer's counter doesn't tell,
    or where there are many."""
    found: dict[arith.For, int] = {}
    body = loop.regions[0].block
    for inner in (op for op in loop.walk() if isinstance(op, arith.For) and op is not loop):
        if inner.parent is not body:
            return None
        runs = [trips_between(inner, *(_at(v, loop, n) for v in inner.operands[:3])) for n in range(times)]
        total = sum(n or 0 for n in runs)
        if None in runs or total > MOST_TRIPS:
            return None
        found[inner] = total
    return found


def _at(value: SSAValue, loop: arith.For | None, n: int) -> int | None:
    """An integer in iteration `n` of a loop (without one: anywhere), where constants and the loop's counter tell."""
    if loop is not None and value is loop.regions[0].block.args[0]:
        lower, step = int_constant(loop.operands[0]), int_constant(loop.operands[2])
        return None if lower is None or step is None else lower + n * step
    owner: Any = value.owner
    if not isinstance(owner, arith.Addi | arith.Subi | arith.Muli):
        return int_constant(value)
    x, y = (_at(v, loop, n) for v in owner.operands)
    if x is None or y is None:
        return None
    half = 1 << int_width(value.type) - 1
    exact = x * y if isinstance(owner, arith.Muli) else x + y if isinstance(owner, arith.Addi) else x - y
    return (exact + half) % (2 * half) - half


def _unroll_inner(loop: arith.For) -> None:
    """Unroll a loop whose bounds have become constants."""
    for i, v in enumerate(loop.operands[:3]):
        known = _at(v, None, 0)
        if known is not None and int_constant(v) is None:
            loop.operands[i] = build(loop, arith.Constant, (), v.type, {"value": IntegerAttr(known, v.type)})  # type: ignore[arg-type]
    times = trips(loop)
    assert times is not None
    unroll(loop, times, _apart(loop, times) if times else set())


# ---- tokens

def _bytes(value: SSAValue) -> int:
    return tile_bytes(value.type) if isinstance(value.type, TensorType) else 1


def _apart(loop: arith.For, times: int) -> set[int]:
    """The numbers of carried tokens that order nothing but a store to a view behind the same one, of another tile, in earlier
    iterations."""
    last = loop.regions[0].block.last_op
    assert last is not None
    return {i for i, arg in enumerate(loop.carried_args()) if isinstance(arg.type, MemTokenType)
            and [use.operation for use in arg.uses] == [store := last.operands[i].owner] and isinstance(store, Operation)
            and store.name == STORE and store.parent is last.parent and len(list(store.results[0].uses)) == 1
            and _lies_apart(store, loop, times)}


def _lies_apart(store: Any, loop: arith.For, times: int) -> bool:
    """Whether each iteration stores a part of one row that no other one stores. Of tiles of several rows nobody knows: where the
    next row begins is the launch's."""
    view = store.view.type
    moving = [d for d, v in enumerate(store.coords) if _change(v, loop) != 0]
    if view.kind.data == "gather_scatter" or len(moving) != 1:
        return False
    along, shape = moving[0], int_values(view.tile_shape)
    stride = int_values(view.memref.strides)[int_values(view.dim_map)[along]]
    return all(n == 1 for d, n in enumerate(shape) if d != along) and int_values(view.steps)[along] >= shape[along] and \
        stride not in (DYNAMIC, 0) and _differs(store.coords[along], loop, times)


def _differs(value: SSAValue, loop: arith.For, times: int) -> bool:
    """Whether a value is another integer in each iteration."""
    step, bits = int_constant(loop.operands[2]), int_width(value.type)
    change = _change(value, loop)
    return change is not None and step is not None and all((n * step * change) % (1 << bits) for n in range(1, times))


def _change(value: SSAValue, loop: arith.For) -> int | None:
    """How many times as fast as the loop's counter an integer of its body grows; None where that isn't known."""
    body = loop.regions[0].block
    if value is body.args[0]:
        return 1
    owner: Any = value.owner
    if owner is body:
        return None
    if owner.parent is not body:
        return 0        # it's from outside: inner blocks' values aren't the body's own ops' operands
    sides = [_change(v, loop) for v in owner.operands]
    if isinstance(owner, arith.Addi | arith.Subi) and None not in sides:
        return sides[0] + (sides[1] if isinstance(owner, arith.Addi) else -sides[1])        # type: ignore[operator]
    if isinstance(owner, arith.Muli) and None not in sides:
        known = [int_constant(v) for v in owner.operands]
        for side, factor in zip(sides, reversed(known)):
            if factor is not None:
                return side * factor        # type: ignore[operator]
    return 0 if sides and not any(s != 0 for s in sides) and owner.PURE else None
