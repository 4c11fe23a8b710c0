"""What layouts cost, in issue slots of one warp: accesses to global memory, conversions, reductions, staging of operands.

A slot is one instruction of one warp on one of an SM's four schedulers. What the four share is dearer: shared memory and
shuffles take one warp's instruction a cycle (four slots) a pass, a sector of global memory what its bytes take of the SM's
share of bandwidth. The figures rank layouts; they predict no time.
"""
from __future__ import annotations

from functools import lru_cache

from tileiras.layout.convert import BARRIER_SLOTS, PASS_SLOTS, SHUFFLE_SLOTS, WARP_SLOTS, estimate, register_permutation
from tileiras.layout.f2 import Span
from tileiras.layout.linear import LinearLayout, dim_bits, log2
from tileiras.layout.operands import described_buffer, ldmatrix_plan, multiply_add_buffer, operand_buffer
from tileiras.layout.reduction import steps_of as reduction_steps
from tileiras.layout.scanning import Exchange
from tileiras.layout.scanning import steps_of as scan_steps
from tileiras.layout.shared import Access, access

SECTOR_BYTES = 32
LINE_BYTES = 128
FETCH_SLOTS = 6
"""A sector that a warp touches, once: 32 bytes at some 14 bytes a cycle and SM (H100: 3.35 TB/s over 132 SMs at 1.76 GHz) are
two cycles and more of four schedulers, where it isn't in a cache."""
LINE_SLOTS = PASS_SLOTS
"""A line of the L1 cache that an access touches: it goes through the same port as a pass of shared memory."""
LEAST_LINES = 2
"""An access takes the port for no less time than so many lines (machine/units.py, REQUEST_GLOBAL)."""
ACCESS_SLOTS = 4
"""An access's own instruction and its address."""
CHECK_SLOTS = 5
"""Comparisons with bounds, the predicate, and what stands where it is false."""
WORD_BITS = 32
MOST_HELD = 128
"""Registers that a thread can hold of a tile, in one layout and by and by in another, whatever else it holds."""
SPILL_SLOTS = 6 * PASS_SLOTS
"""Of each that it can't: stored to local memory and loaded, in both layouts, and more beside it (sums of 128 x 256 with factors of
rows and columns, B200: 66.6 us where half of this leaves them to threads, 64.1)."""
LOOP_WEIGHT = 8
"""How often a loop's body runs, where its bounds aren't constants."""
MOST_WEIGHT = 64
"""The same where they are, at most (f16 columns of 4096x4096 summed by 32 blocks, B200, predicted: 24.3 us by a weight of 8, which
has rows in a thread's registers and their sum for nothing, 19.6 by accesses of 16 bytes and an exchange behind the loop)."""


@lru_cache(maxsize=4096)
def conversion(src: LinearLayout, dst: LinearLayout, elem_bits: int, repeated: bool = False) -> float:
    """Slots of a change of layout. `repeated`: in a loop, where what one iteration hands to the next waits for shuffles, too
    (attention: the maxima of rows)."""
    if src == dst:
        return 0
    cost, held = estimate(src, dst, elem_bits), max(0, src.num_regs * elem_bits // WORD_BITS - MOST_HELD)
    if (repeated or held) and register_permutation(src, dst) is None:
        cost += (WARP_SLOTS if repeated else 0) + SPILL_SLOTS * held
    return cost


@lru_cache(maxsize=4096)
def global_access(layout: LinearLayout, width: int, contiguous: int | None, elem_bytes: int, writes: bool,
                  checked: bool) -> float:
    """Slots of reading or writing a tile once by accesses of `width` elements along dimension `contiguous`. What several
    threads hold is read by each of them and written by one. A sector that several accesses read comes from the L1 cache after
    the first; what they write goes out each time."""
    registers = 1 << len(Span(layout.reg))
    accesses = max(1, registers // width)
    lines = 1 << _distinct(layout, layout.lane, contiguous, LINE_BYTES // elem_bytes)
    if writes:
        inside = layout.reg[:log2(width)]
        sectors = accesses << _distinct(layout, (*inside, *layout.lane), contiguous, SECTOR_BYTES // elem_bytes)
    else:
        sectors = 1 << _distinct(layout, (*layout.reg, *layout.lane), contiguous, SECTOR_BYTES // elem_bytes)
    each = ACCESS_SLOTS + LINE_SLOTS * max(lines, LEAST_LINES) + (CHECK_SLOTS if checked else 0)
    cost = accesses * each + FETCH_SLOTS * sectors
    if writes:
        own = len(Span(layout.bases)) - len(Span((*layout.reg, *layout.lane)))
        cost /= 1 << len(layout.warp) - own
    return cost


def _distinct(layout: LinearLayout, bases: tuple[int, ...], contiguous: int | None, together: int) -> int:
    """log2 of how many groups of `together` neighbours along dimension `contiguous` the bases lead to."""
    inside = 0
    if contiguous is not None:
        low, bits = dim_bits(layout.shape)[contiguous]
        inside = (1 << min(bits, log2(together))) - 1 << low
    return len(Span(b & ~inside for b in bases))


@lru_cache(maxsize=2048)
def reduction(layout: LinearLayout, dim: int, elem_bits: int, operands: int = 1, body: float = 1) -> float:
    """Slots of a reduction along `dim`: steps in registers, shuffles, an exchange between warps. `body`: of combining two numbers,
    for each operand."""
    steps = reduction_steps(layout, dim)
    words = max(1, elem_bits // 32)
    kept = 1 << len(steps.kept)
    cost = conversion(layout, steps.layout, elem_bits) + body * ((kept << len(steps.regs)) - kept)
    cost += len(steps.lanes) * kept * (SHUFFLE_SLOTS * words + body)
    if steps.warps:
        parts = kept << len(steps.warps)
        cost += 2 * BARRIER_SLOTS + (kept + parts) * (PASS_SLOTS + 1) * words + body * parts
    return operands * cost


@lru_cache(maxsize=2048)
def scan(layout: LinearLayout, dim: int, elem_bits: int, operands: int = 1, body: float = 1) -> float:
    """Slots of a scan along `dim`, and of the conversions to and from a layout that it can walk. `body`: as of a reduction."""
    steps = scan_steps(layout, dim)
    words = max(1, elem_bits // 32)
    totals = registers = 1 << len(steps.layout.reg)
    cost = 2 * conversion(layout, steps.layout, elem_bits) + registers
    for step in steps.walk:
        if step == "reg":
            totals //= 2
            cost += body * (registers // 2)
        elif isinstance(step, Exchange):
            parts = totals << len(step.warps)
            cost += 2 * BARRIER_SLOTS + (totals + parts) * (PASS_SLOTS + 1) * words + body * parts
        else:
            cost += totals * (SHUFFLE_SLOTS * words + 2 + body)
    return operands * cost


@lru_cache(maxsize=1024)
def staging(writer: LinearLayout, fragment: LinearLayout, k_dim: int, elem_bytes: int, atom_k: int,
            turns_bytes: bool = False) -> float:
    """Slots of a dot's operand on its way through shared memory: the tile's stores, the fragment's loads."""
    shared = operand_buffer(writer.shape, elem_bytes, k_dim, writer, fragment, atom_k, turns_bytes)
    cost = shared_access(access(writer, shared, elem_bytes), elem_bytes)
    plan = ldmatrix_plan(fragment, shared, elem_bytes, turns_bytes)
    if plan is None:
        return cost + shared_access(access(fragment, shared, elem_bytes), elem_bytes)
    words = (1 << len(fragment.reg)) * elem_bytes // 4
    return cost + words * PASS_SLOTS + words / 4


@lru_cache(maxsize=1024)
def multiply_add_staging(writer: LinearLayout, reader: LinearLayout, k_dim: int, elem_bytes: int, steps: int) -> float:
    """Slots of a multiply-add dot's operand on its way through shared memory, read in so many steps along k."""
    shared = multiply_add_buffer(writer.shape, elem_bytes, k_dim, writer, reader, steps)
    return sum(many * shared_access(access(side, shared, elem_bytes), elem_bytes) for many, side in ((1, writer), (steps, reader)))


@lru_cache(maxsize=1024)
def described_staging(writer: LinearLayout, k_dim: int, elem_bytes: int, columns: int) -> float:
    """Slots of an operand on its way to a buffer from which the tensor cores take it themselves."""
    shared = described_buffer(writer.shape, elem_bytes, k_dim, writer, columns).layout
    if elem_bytes == 1:
        from tileiras.layout.turned_bytes import stored, turns  # few kernels have such

        way = turns(writer, shared, elem_bytes, k_dim)
        writer = writer if way is None else stored(writer, k_dim, way)
    return shared_access(access(writer, shared, elem_bytes), elem_bytes)


def described_reading(layout: LinearLayout, elem_bytes: int) -> float:
    """A warp's share of the slots in which the tensor cores read such a buffer once, by the threads' port."""
    return PASS_SLOTS * layout.size * elem_bytes / LINE_BYTES / layout.num_warps


BESIDE_TENSOR_CORE = 1.25
"""What an access to shared memory counts while the tensor core reads operands there."""


@lru_cache(maxsize=1024)
def scale_staging(writer: LinearLayout, k_dim: int, elem_bytes: int, run: int) -> float:
    """Slots of a block-scaled product's scales on their way to where the tensor core copies them from; the port that they go by is
    the tensor core's, too."""
    from tileiras.layout.atoms.tensor_scaled import scale_buffer
    return BESIDE_TENSOR_CORE * shared_access(access(writer, scale_buffer(writer.shape, k_dim, run), elem_bytes), elem_bytes)


def shared_access(plan: Access, elem_bytes: int) -> float:
    """Slots of one side's accesses to shared memory."""
    return len(plan.groups) * (PASS_SLOTS * plan.passes(elem_bytes) + 1)
