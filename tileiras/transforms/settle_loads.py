"""`settle-loads`: a loop that loads a tile for its next iteration begins when what the first one uses is there.

    %x0 = tiled_load %v[%a]                              %x0 = tiled_load %v[%a]
    scf.for ... (%x = %x0) {                             %s = settle %x0
      %next = tiled_load %v[%i + %s]           ->        scf.for ... (%x = %s) {
      ... %x ... ; yield %next }                           %next = tiled_load %v[%i + %s]
                                                           ... %x ... ; yield %next }

ptxas counts loads on their way by six counters a warp, and where a loop begins with one on its way, whatever uses its result in the
loop waits for that counter in each iteration: it stands for the next iteration's loads, too, which have just begun. A whole
latency is exposed each time, as if nothing ran ahead. `settle` is an instruction between the first load and the loop that ptxas
can't leave out (an OR with a zero that only the machine knows): the loop's uses then have nothing to wait for. The first iteration
waited anyway.

Only where a use stands behind the next iteration's loads; others wait for nothing else. For loops with products by tensor cores
(attention's gradient of keys and values, 32 keys by 16 queries of 128 features, A100: 75.0 us, 58.9; not by FMA, chunks of a
retention in f32, H100: 10.9 us, 12.8 so), and where pairs of floats are computed with at once for those that spread few numbers
over all threads (n-body by 64 blocks, B200: 175 us, 143, RTX 5090: 145, 112; of 1,024 blocks 121 and 118, 98 and 102), unless an
iteration waits for loads of its own. In shorter loops ptxas then copies what is carried, and the copy waits (distances of rows,
A100: 25.2 us, 36.2). It runs when loops stand, and is for elements of at most 32 bits, as `carry-as-loaded` is.
"""
from __future__ import annotations

from collections.abc import Collection
from typing import Any

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.agents import block_warps
from tileiras.analysis.ahead import slice_of
from tileiras.analysis.layout_rules import DOTS
from tileiras.dialects import nv_tileas
from tileiras.dialects.element import tile_bytes
from tileiras.dialects.nv_tileaa import int_values
from tileiras.transforms.carry_as_loaded import loaded_by
from tileiras.transforms.structure import holder_in


def run(module: Operation, context: Any) -> None:
    """Settle what loops begin with, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            for loop in [op for op in func.walk() if op.name == "scf.for" and "as_loaded" in op.properties]:
                found = _loaded_ahead(loop)
                if found and (any(op.name in DOTS and "atom" in op.properties for op in loop.walk()) or
                              (context.target.has_f32x2_arith and _is_slowed(func, loop, found))):
                    for number, nbytes in found.items():
                        _settle(loop, number, nbytes)


def _is_slowed(func: Operation, loop: Any, numbers: Collection[int]) -> bool:
    """Whether a loop without products would wait for each of its carried values."""
    return _are_spread(func, loop, numbers) and not _waits_for_own(loop, numbers)


def _loaded_ahead(loop: Any) -> dict[int, int]:
    """The carried values that are loaded for the next iteration in front of a use of this one's, and the bytes of the accesses."""
    body = loop.regions[0].block
    carried = zip(int_values(loop.properties["as_loaded"]), loop.carried_inits(), body.last_op.operands)
    return {number: nbytes for number, (nbytes, init, following) in enumerate(carried)
            if loaded_by(init) and loaded_by(following) and following.owner.parent is body and
            _is_used_behind(body, body.args[1 + number], following.owner)}


def _waits_for_own(loop: Any, numbers: Collection[int]) -> bool:
    """Whether an iteration begins loads that it needs itself, from places that it knows without these carried values: what waits
    for them waits for all."""
    body = loop.regions[0].block
    own = [op for op in body.ops if op.name in nv_tileas.LOADS and op.results[0] not in body.last_op.operands]
    slices = [slice_of(loop, op.operands, lambda maker: not maker.regions) for op in own]
    return any(found.obstacle is None and not set(numbers).intersection(found.carried) for found in slices)


def _are_spread(func: Operation, loop: Any, numbers: Collection[int]) -> bool:
    """Whether each number that these tiles have is held by many threads."""
    from tileiras.schedule.depth import registers_of  # few kernels need the machine's tables
    from tileiras.schedule.prefetch import is_spread

    tiles = [loop.results[number] for number in numbers]
    return is_spread(sum(map(registers_of, tiles)), block_warps(func), sum(tile_bytes(v.type) for v in tiles))


def _settle(loop: Any, number: int, nbytes: int) -> None:
    at = len(loop.operands) - len(loop.results) + number
    init = loop.operands[at]
    settled = nv_tileas.Settle.make([init], [init.type], {"bytes": IntAttr(nbytes)})
    settled.location = loop.location
    loop.parent.insert_op_before(settled, loop)
    loop.operands[at] = settled.results[0]


def _is_used_behind(body: Block, carried: SSAValue, load: Any) -> bool:
    """Whether a use of what is carried stands behind the load, or the branch that it stands in."""
    place = body.get_operation_index(load)
    users = {holder_in(body, use.operation) for use in carried.uses}
    return any(op is not body.last_op and body.get_operation_index(op) > place for op in users)
