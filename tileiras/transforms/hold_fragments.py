"""`hold-fragments`: what a loop's products read anew in each iteration, though it doesn't change, waits in registers, if few do,
the block has an SM to itself, or the loop reads little else.

    store_shared %q, %b                            store_shared %q, %b
    scf.for ... {                                  %f = load_shared %b : tensor<64x64xf16, #fragment>
      dot %b, %k ... }                       ->    scf.for ... {
                                                     dot %f, %k ... }

The queries of an attention kernel with few rows: shared memory's port is what such loops wait for. Only for instructions that
warps take their operands from registers for anyway.
"""
from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.entry_hints import hint
from tileiras.analysis.layout_rules import operand_fragments
from tileiras.analysis.live_registers import most_alive
from tileiras.analysis.tensor_dots import is_of_warps
from tileiras.dialects import nv_tileas
from tileiras.dialects.element import REGISTER_BYTES, element_bytes
from tileiras.dialects.nv_tileas import BufferType, layout_of, with_layout
from tileiras.layout.linear import LinearLayout
from tileiras.schedule.depth import registers_of, shared_budget
from tileiras.schedule.names import LEAST_STAGES
from tileiras.transforms.hoist_conversions import loops_of
from tileiras.transforms.structure import only_store

MOST_REGISTERS = 16
"""A thread, for all such operands of a loop: a sixteenth of what it may have. A block that has an SM to itself has more: what its
tiles leave of a thread's."""
MUCH = 7
"""What doesn't change is much of what a loop reads from one part in so many on (a third, the gradients of 64 queries and keys in
steps of 32, 128 wide, A100: 179 us, 145 with it in registers; a ninth, forward by 64 x 64: no gain)."""
BESIDE_TILES = 40
"""Registers of a thread for addresses and fragments on their way (MLA's prefill, 64 x 64, A100: 150 for tiles, 48 for queries, no
spills; attention's gradients of 32 keys by 16 queries, 128 wide, B200: 95 of 168 for tiles, 32 for keys)."""


def run(module: Operation, context: Any) -> None:
    """Load the fragments before their loops, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            for loop in loops_of(func):
                _loop(loop, _registers_to_hold(func, loop, context.target))


def _registers_to_hold(func: Operation, loop: Operation, target: Any) -> int:
    """Registers a thread for what stays in them throughout a loop. Two blocks on an SM fill each other's waits for shared memory
    (linear biases, 64 x 64 of 128, A100: 283.6 us, 287.8 with the queries in registers), if its port isn't what they wait for;
    one alone has nothing else to do."""
    inside = set(loop.walk())
    unchanged = _words_read(loop, inside)
    if unchanged <= MOST_REGISTERS:
        return MOST_REGISTERS       # without a look at the whole function for each of its loops
    buffers = {dot.operands[i] for dot, i, _ in _reads(loop)}
    taken = sum(_buffer_bytes(v) * (1 if _is_unchanged(v, inside) else LEAST_STAGES) for v in buffers)
    blocks = hint(func, "occupancy") or (2 if taken <= shared_budget(target, 2) else 1)
    if blocks > 1 and MUCH * unchanged < _words_read(loop, None):
        return MOST_REGISTERS
    planned: Any = func.properties["num_warps"]
    most = min(target.max_registers_per_thread, target.registers_for(blocks * (planned.data + target.has_tma)))     # a warp loads
    return max(MOST_REGISTERS, most - most_alive(func.regions[0], registers_of, {loop}) - BESIDE_TILES)


def _reads(loop: Operation) -> Iterator[tuple[Operation, int, LinearLayout]]:
    """What a loop's products read from buffers to registers: (product, operand's number, who has which element)."""
    for dot in loop.regions[0].block.ops:
        if dot.name == "nv_tileas.dot" and is_of_warps(dot):
            for i, fragment in enumerate(operand_fragments(dot, layout_of(dot.results[0]).num_warps)):
                if fragment is not None and isinstance(dot.operands[i].type, BufferType):
                    yield dot, i, fragment


def _words_read(loop: Operation, inside: set[Operation] | None) -> int:
    """Words that a thread reads from shared memory for a loop's products in an iteration; of what isn't changed `inside`."""
    return sum(_words(dot.operands[i], fragment) for dot, i, fragment in _reads(loop)
               if inside is None or _is_unchanged(dot.operands[i], inside))


def _words(buffer: SSAValue, fragment: LinearLayout) -> int:
    t = buffer.type
    assert isinstance(t, BufferType)
    return fragment.num_regs * element_bytes(t.element_type) // REGISTER_BYTES


def _buffer_bytes(buffer: SSAValue) -> int:
    t = buffer.type
    assert isinstance(t, BufferType)
    return prod(t.layout.data.shape) * element_bytes(t.element_type)


def _loop(loop: Operation, left: int) -> None:
    """`left`: registers a thread for what is held."""
    inside = set(loop.walk())
    held: dict[tuple[SSAValue, Any], SSAValue] = {}
    for dot, i, fragment in _reads(loop):
        buffer = dot.operands[i]
        t: Any = buffer.type
        if not _is_unchanged(buffer, inside) or fragment.shape != t.layout.data.shape:
            continue
        found = held.get((buffer, fragment))
        if found is None:
            registers = _words(buffer, fragment)
            if registers > left:
                continue
            left -= registers
            load = nv_tileas.LoadShared.make([buffer, None, None],
                                             [with_layout(TensorType(t.element_type, fragment.shape), fragment)])
            load.location = dot.location
            assert loop.parent is not None
            loop.parent.insert_op_before(load, loop)
            found = held[buffer, fragment] = load.results[0]
        dot.operands[i] = found


def _is_unchanged(buffer: SSAValue, inside: set[Operation]) -> bool:
    """Whether a buffer is made and written before the loop."""
    alloc = buffer.owner
    if not isinstance(alloc, nv_tileas.AllocTensor) or alloc in inside:
        return False
    store = only_store(alloc)
    return store is not None and store not in inside
