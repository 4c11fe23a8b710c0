"""Functions of nv_tileaa become functions of nv_tileas: the same ops under the other name, tensors without layouts yet, and
what is known of each memory access as attributes.

    %x = nv_tileaa.tiled_load %view[%i] : tensor<1024xf32>
->  %x = nv_tileas.tiled_load %view[%i] {contiguous = 0, runs = [4], check = [0]} : tensor<1024xf32>
"""
from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import IntAttr, TensorType, UnitAttr, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.analysis.access_facts import access_facts
from tileiras.analysis.agents import words_of
from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.entry_hints import hint, worker_warps
from tileiras.analysis.invariant_loads import NO_LOADS, loads_by_order
from tileiras.analysis.tile_work import tile_work
from tileiras.dialects import nv_tileas
from tileiras.dialects.arith import Elementwise
from tileiras.dialects.element import REGISTER_BYTES, element_bytes, tile_bytes

if TYPE_CHECKING:
    from tileiras.machine.targets import Target

FETCHED_BYTES, FETCHED_PRODUCTS = (64 + 32) * 2 * 8, 8 * 64 * 32
"""What 8 warps read of shared memory for a step along k, and the products that they make of it: parts of 64 x 32, of 16 bits."""

PART = 16 * 32
"""Elements of a product that a warp has in its registers at least, of eight: two instructions' left operand, four's right one."""

LOADS = ("nv_tileaa.tiled_load", "nv_tileaa.load")
"""Of what they load, each truth value takes a register; those that are computed stay predicates, or are computed again."""

DOTS = ("nv_tileaa.dot", "nv_tileaa.dot_scaled")
TURNED = ("nv_tileaa.permute", "nv_tileaa.view")

BESIDE_TILES = 16
"""Registers of a thread, beside loops' tiles at once, that addresses and fragments on their way take at least: kernels with
large parts on sm_80 that had fewer left spilled, few of the others did."""
CHAIN_ROWS = 64
CHAIN_REGISTERS = 160
"""Of a thread, for the scores, the sums and the queries: what is left suffices for fragments and addresses."""

LONG_WORK = {1: 96, 2: 1280}
"""Issue slots of a single warp for all tiles from which on twice as many warps as these are better. At full load schedulers have
enough to choose from either way, and what each warp does besides (addresses, masks) is lost then: of 256 numbers a block on a B200,
four warps instead of two took gelu 1.12 to 1.5 times as long, powers no longer."""
SCAN = "nv_tileaa.scan"
"""Narrow numbers have a register each there, and are combined one by one."""
MEETING_SLOTS = 16
"""What several warps lose where an access has to come after another one: all of them wait at a barrier."""


def choose_num_warps(func: Operation, context: Any) -> int:
    """Warps of a block: the entry's hint, else enough that a thread holds a few elements of the largest tile and has no long
    work to do for its part of the tiles, 4 at most, and 8 and 16 when a thread would otherwise hold 64 registers (an
    accumulator: more than 128; 128 where a warpgroup multiplies) or more of one tile. Beside products, tiles that only say where
    memory is accessed don't count. Few warps with large parts of an accumulator read less of the operands from shared memory:
    where its port is what products wait for (not memory: rings bring operands), each warp of an attention kernel has 32 rows of
    the scores, not 16, and one of eight 64 x 64 sums of 128 x 256 (4096 cubed, A100, predicted: 688 us, 716 by sixteen)."""
    target: Target = context.target
    wanted = worker_warps(func)
    if wanted is not None:
        return wanted
    if context.opt_level and context.large_parts and context.uses("pipelines") and _is_busy_at_the_port(target) and \
            _has_short_chain(func):
        context.has_large_parts = True
        return 2
    largest, cross = 1, any(op.name in DOTS for op in func.walk())
    addresses: set[SSAValue] = set()
    if cross:
        from tileiras.analysis.address_tiles import address_tiles
        addresses = address_tiles(func)
    for op in func.walk():
        for r in op.results:
            if isinstance(r.type, TensorType) and r not in addresses:
                is_single = op.name == SCAN or (op.name in LOADS and r.type.element_type == i1)
                taken = prod(r.type.get_shape()) if is_single else tile_bytes(r.type) // REGISTER_BYTES
                largest = max(largest, taken)
    if largest >= 32 * 8 * 128:
        if largest > 32 * 8 * 128:
            return 16
        if _has_scaled_products(func, context):
            return 8
        if cross and context.large_parts and target.has_cp_async and _is_busy_at_the_port(target) and \
                not _is_crowded(func, 8, target, addresses):
            context.has_large_parts = True
            return 8
        return 16
    small = target.has_wgmma or _has_patient_port(target)
    if largest >= 32 * 4 * (64 if not cross or not context.large_parts else 128 if small else 129):
        return 8
    if cross and _is_alone(func) and _has_patient_port(target) and not (target.has_wgmma or target.has_tcgen05) and \
            _has_parts_for(func, 8):
        return 8
    if largest >= 32 * 4 * 64:
        if cross and _is_crowded(func, 4, target, addresses):
            return 8
        context.has_large_parts = True
    warps = 1
    while warps < 4 and largest > 32 * warps * 4:
        warps *= 2
    return 4 if cross else _for_long_work(func, warps, target) if context.opt_level else warps


def _is_crowded(func: Operation, warps: int, target: Target, addresses: Collection[SSAValue]) -> bool:
    """Whether the tiles that are alive at once in a loop with products, but for `addresses`, leave a thread of so many warps too
    few registers for what it needs besides. Tensor memory takes the sums where there is some; warpgroups read what they multiply
    from shared memory, and one computes its instruction's rows, however full it is, where a program asks for several blocks."""
    if target.has_tcgen05:
        return False
    from tileiras.analysis.live_registers import most_alive

    by_memory = target.has_wgmma
    if by_memory and (hint(func, "occupancy") or 1) > 1:
        from tileiras.layout.atoms.warpgroup import M
        if all(op.results[0].type.get_shape()[-2] <= M for op in func.walk() if op.name in DOTS):     # type: ignore[attr-defined]
            return False

    def held(value: SSAValue) -> int:
        return 0 if value in addresses or (by_memory and _is_only_multiplied(value)) else words_of(
            value.type, warps)      # type: ignore[arg-type]
    loops = {op for op in func.walk() if op.regions and op is not func and any(inner.name in DOTS for inner in op.walk())}
    return most_alive(func.regions[0], held, loops) + BESIDE_TILES > target.max_registers_per_thread


def _is_only_multiplied(value: SSAValue) -> bool:
    """Whether a tile is loaded for products alone."""
    return isinstance(value.owner, Operation) and value.owner.name in (*LOADS, *TURNED) and all(
        use.operation.name in DOTS or (use.operation.name in TURNED and _is_only_multiplied(use.operation.results[0]))
        for use in value.uses)


def _is_alone(func: Operation) -> bool:
    """Whether a kernel is launched with a block an SM, which shares out its tiles over these: each of the SM's four schedulers has
    one of four warps then, and whatever that does between two products its tensor core waits for (persistent product of 64 x 64
    by 32, RTX 5090: 1035 us by four warps, 917 by eight)."""
    from tileiras.analysis.program_slice import strides_by_blocks
    return (hint(func, "occupancy") or 1) == 1 and any(op.name == "scf.for" and strides_by_blocks(op) for op in func.walk())


def _has_parts_for(func: Operation, warps: int) -> bool:
    """Whether each of so many warps has a part of every product as large as it multiplies between two fetches."""
    return all(prod(op.results[0].type.get_shape()) >= warps * PART     # type: ignore[attr-defined]
               for op in func.walk() if op.name in DOTS)


def _has_scaled_products(func: Operation, context: Any) -> bool:
    """Whether warps compute block-scaled products whose load agent can lend them registers: eight with 128 sums a thread then need
    not spill, and sixteen have too few registers beside a warp that loads (RTX 5090, 256 x 128: mxfp4 219 us by 16, 172 by 8)."""
    return context.opt_level > 0 and context.target.has_block_scaled_mma and context.uses("agents") and context.uses("tma") and \
        any(op.name == "nv_tileaa.dot_scaled" for op in func.walk())


def _for_long_work(func: Operation, warps: int, target: Target) -> int:
    """At least `warps`, 4 at most, so that no thread does very much for its part of the tiles. Where threads' numbers come
    together, the exchange between warps costs more than they save, unless iterations or a compare-and-swap wait for each other."""
    work = tile_work(func, target)
    if work.exchanges and work.waiting > LONG_WORK[1]:
        warps = max(warps, 2)
    slots = work.swaps if work.exchanges else work.slots - MEETING_SLOTS * work.ordered
    while warps in LONG_WORK and slots > LONG_WORK[warps]:
        warps *= 2
    return warps


def _is_busy_at_the_port(target: Target) -> bool:
    """Whether warps multiply by instructions of their own, faster than shared memory feeds them."""
    return not (target.has_wgmma or target.has_tcgen05 or _has_patient_port(target))


def _has_short_chain(func: Operation) -> bool:
    """Whether a function's products are two of 64 rows, the first one's result on its way to be the second one's left operand, and
    a thread of two warps has registers for both, and for what the first one multiplies."""
    dots: list[Any] = [op for op in func.walk() if op.name == "nv_tileaa.dot"]
    if len(dots) != 2 or not _leads_to(dots[0], dots[1]):
        return False
    shapes = [[n for n in v.type.get_shape() if n > 1][-2:] for v in (dots[0].results[0], dots[1].results[0], dots[0].operands[0])]
    if any(len(shape) < 2 or shape[0] != CHAIN_ROWS for shape in shapes):
        return False
    sizes = [element_bytes(v.type.element_type) for v in (dots[0].results[0], dots[1].results[0], dots[0].operands[0])]
    registers = sum(m * n * size for (m, n), size in zip(shapes, sizes)) // (4 * 2 * 32)
    return registers <= CHAIN_REGISTERS


def _leads_to(first: Operation, second: Operation) -> bool:
    """Whether elementwise ops lead from a product's result to the left operand of another."""
    pending, seen = [first.results[0]], set()
    while pending:
        for use in pending.pop().uses:
            user = use.operation
            if user is second and use.index == 0:
                return True
            if isinstance(user, Elementwise) and user not in seen:
                seen.add(user)
                pending.append(user.results[0])
    return False


def _has_patient_port(target: Target) -> bool:
    """Whether shared memory keeps up with the tensor cores by far, even if each warp has half as large a part of a product."""
    from tileiras.machine.machines import machine_of
    from tileiras.machine.units import generation

    found = generation(target.cc)
    rate = found.mma_rate["f16"] / (2 if machine_of(target.cc).tensor_half else 1)
    return FETCHED_BYTES * rate < found.smem_bytes * FETCHED_PRODUCTS // 2


def renamed_function(func: Operation, context: Any) -> Operation:
    """The nv_tileas function."""
    values: dict[SSAValue, SSAValue] = {}
    axis = AxisAnalysis(func)
    loads = loads_by_order(func) if context.opt_level else NO_LOADS

    def block(old: Block) -> Block:
        new = Block(arg_types=[a.type for a in old.args])
        values.update(zip(old.args, new.args))
        for op in old.ops:
            regions = [Region([block(b) for b in region.blocks]) for region in op.regions]
            copy = renamed(op, [values[v] for v in op.operands], regions, access_facts(op, axis, context.target))
            if op in loads.invariant:
                copy.properties["invariant"] = UnitAttr()
            elif op in loads.first:
                copy.properties["first"] = UnitAttr()
            values.update(zip(op.results, copy.results))
            new.add_op(copy)
        return new
    body = Region([block(b) for b in func.regions[0].blocks])
    return renamed(func, [], [body], {"num_warps": IntAttr(choose_num_warps(func, context))})


def renamed(op: Operation, operands: list[SSAValue], regions: list[Region],
            extra: dict[str, Attribute] | None = None) -> Operation:
    """The nv_tileas op of the same name; arith, math and scf ops stay what they are."""
    cls: Any = nv_tileas.OPS["nv_tileas." + op.name[10:]] if op.name.startswith("nv_tileaa.") else type(op)
    properties = {**op.properties, **extra} if extra else dict(op.properties)
    new = cls.create(operands=operands, result_types=[r.type for r in op.results], properties=properties, regions=regions)
    new.location = op.location
    return new
