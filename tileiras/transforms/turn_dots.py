"""`turn-dots`: a loop's product whose second operand threads make is computed with both operands turned, where that is faster.

    %t = permute (convertf %w)                      %t = permute %x
    %d = dot %x, %t, %acc                    ->     %d = dot (convertf %w), %t, %acc
                                                    ... behind the loop: permute %sum

The tensor core reads its first operand from its own memory, where rows that threads make go on their way from memory: scaled,
dequantized (`choose-atoms`). The second one it reads from shared memory, by the port that threads use, too: there what threads make
is written, read by each product, and waited for. The sums then are turned as well; they are named as the program has them behind
the loop, so that threads that have columns of them store these. And a tile of few rows and many columns (a decoding step's product
with weights) goes to the tensor core at all, whose instructions take 64 rows at least.

What the two ways cost is compared in cycles of an SM: what the tensor core (or warps) takes for a step, and in front of it, since
made tiles have one place, the port of shared memory for what threads read to make the tile and what they write of it. Rows of a
tile that lies along the other dimension in memory are read element by element.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.access import contiguous_of
from tileiras.analysis.dot_chains import LESS, MOST_LOOKED_AT, SUMS, is_chained, is_computed, is_made
from tileiras.analysis.layout_rules import dot_shape, permutation_of, shape_of, unmoved
from tileiras.analysis.program_slice import loop_around
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.element import elements_in, tile_bytes
from tileiras.dialects.nv_tileaa import DenseTileAttr, int_array
from tileiras.layout.atoms import MmaAtom, umma
from tileiras.layout.atoms.umma import UmmaAtom
from tileiras.machine.units import LANES
from tileiras.schedule.resources import Model, model_of, rate_of
from tileiras.transforms.choose_atoms import pays_by_columns, umma_for, warp_atom
from tileiras.transforms.structure import erase_unused, insert_in_front, replace

DOT, PERMUTE, VIEW, LOAD = "nv_tileas.dot", "nv_tileas.permute", "nv_tileas.view", "nv_tileas.tiled_load"
RHS = 1
SIGNS = ("signedness_lhs", "signedness_rhs")
MARGIN = 0.95
"""What the turned product may take of the other's time, at most: costs can't tell less apart, and turned sums take longer to
store."""


def run(module: Operation, context: Any) -> None:
    """Turn the products, in place."""
    if not (context.uses("tcgen05") and context.target.has_tcgen05):
        return
    for func in module.regions[0].block.ops:
        warps: Any = func.properties.get("num_warps")
        if func.name == "nv_tileas.func" and warps is not None and "cluster" not in func.properties:
            for op in [op for op in func.walk() if op.name == DOT]:
                if _may_be(op) and _pays(op, context.target, warps.data):
                    _turn(op)


def _may_be(op: Any) -> bool:
    """Whether threads make the second operand of a loop's product, and not the first one, and the loop carries its sums for nobody
    else."""
    loop = loop_around(op)
    if loop is None or loop.name != "scf.for" or op.parent is not loop.regions[0].block or dot_shape(op)[0]:
        return False
    if not is_made(op, unmoved(op.rhs, (PERMUTE,))) or is_made(op, op.lhs) or is_chained(op):
        return False
    if op.rhs.owner.name != PERMUTE and not op.rhs.has_one_use():
        return False
    body, arg, result = op.parent, op.operands[SUMS], op.results[0]
    if arg.owner is not body or not arg.has_one_use() or not result.has_one_use():
        return False
    use = result.first_use
    return use.operation is body.last_op and body.args[1 + use.index] is arg


# --- costs --------------------------------------------------------------------------------------------------------------


def _pays(op: Any, target: Any, warps: int) -> bool:
    """Whether the product of the turned operands goes to the tensor core, its first one to its memory, and takes less time."""
    from tileiras.machine.tensor import tensor_move_cycles  # few kernels have such products
    _, m, n, k = dot_shape(op)
    turned = umma_for(op, warps, target, turned=True)
    if not isinstance(turned, UmmaAtom) or turned.a not in umma.IN_CELLS:
        return False
    rows = umma.columns_of((n, k), turned.rows) // umma.IN_CELLS[turned.a]
    if umma.columns_of((n, m), turned.rows) + rows > umma.COLUMNS:
        return False
    model, read = model_of(target, warps), list(_tiles_of(op.rhs))
    port = model.generation.smem_bytes
    straight = umma_for(op, warps, target)
    before = sum(tile_bytes(tile.type) for tile, _ in read) / port
    before += _by_warps(op, model, target, warps) if isinstance(straight, str) else \
        tile_bytes(op.rhs.type) / port + _into_tensor_memory(straight, m, n, k)
    after = sum(tile_bytes(tile.type) / port if along_k else elements_in(tile.type) / LANES for tile, along_k in read)
    after += tensor_move_cycles(rows, store=True) + _into_tensor_memory(turned.with_a_in(shared=False), n, m, k)
    return after < MARGIN * before


def _into_tensor_memory(atom: UmmaAtom, m: int, n: int, k: int) -> float:
    """Cycles of the tensor core for a step."""
    from tileiras.machine.tensor import tcgen05_interval
    _, down, across = umma.units(atom, m, n)
    return down * across * (k // atom.k) * tcgen05_interval(atom.m, atom.n, atom.a_in_shared)


def _by_warps(op: Any, model: Model, target: Any, warps: int) -> float:
    """Cycles in which warps write what they make, read their fragments, about a square of them by rows and columns, and multiply.
    Where each makes columns of its own right in its registers, nobody waits for anything: none (GPTQ's weights, 16 x 128 x 64,
    B200: 27.1 us, 30.6 turned)."""
    _, m, n, k = dot_shape(op)
    atom = warp_atom(op, target, warps)
    if isinstance(atom, MmaAtom) and is_computed(op, RHS) and pays_by_columns(op, atom, warps):
        return 0
    rate = model.generation.mma_rate.get(rate_of(atom)) if atom is not None else None
    across = max(1, round(warps ** 0.5))
    passed = tile_bytes(op.lhs.type) * across + tile_bytes(op.rhs.type) * (1 + across)
    return passed / model.generation.smem_bytes + m * n * k / (rate or LANES * umma.GROUP_WARPS)


def _tiles_of(operand: SSAValue) -> Iterator[tuple[SSAValue, bool]]:
    """The tiles from memory of which threads make a second operand, but for those of few elements; of each, whether it lies along k
    there."""
    size = elements_in(operand.type)
    pending: list[tuple[SSAValue, int | None]] = [(operand, _rank(operand) - 2)]
    seen = {operand}
    while pending and len(seen) < MOST_LOOKED_AT:
        v, k_dim = pending.pop()
        op = v.owner
        if not isinstance(op, Operation) or op.name == LOAD or not op.operands:
            if not isinstance(op, arith.Constant):
                yield v, _lies_along(op, k_dim)
            continue
        if op.name == PERMUTE:
            k_dim = None if k_dim is None else permutation_of(op)[k_dim]
        elif op.name == VIEW:       # what is last stays last
            k_dim = _rank(op.operands[0]) - 1 if k_dim == _rank(v) - 1 else None
        elif not isinstance(op, arith.Elementwise) and op.name != "nv_tileas.broadcast":
            k_dim = None
        for x in op.operands:
            if x not in seen and isinstance(x.type, TensorType) and elements_in(x.type) * LESS >= size:
                seen.add(x)
                pending.append((x, k_dim))


def _rank(v: SSAValue) -> int:
    return len(shape_of(v) or ())


def _lies_along(maker: Any, dim: int | None) -> bool:
    return isinstance(maker, Operation) and maker.name == LOAD and dim is not None and contiguous_of(maker) == dim


# --- the rewrite --------------------------------------------------------------------------------------------------------


def _turn(op: Any) -> None:
    """The turned product in the place of a loop's, and a loop that carries turned sums."""
    loop: Any = loop_around(op)
    body, old = op.parent, op.operands[SUMS]
    number = old.index - 1
    inits = list(loop.carried_inits())
    inits[number] = _turned(inits[number], loop)
    sums = inits[number].type
    properties = {name: value for name, value in op.properties.items() if name not in SIGNS}
    properties |= {there: op.properties[here] for here, there in zip(SIGNS, reversed(SIGNS)) if here in op.properties}
    operands = [_turned(op.rhs, op), _turned(op.lhs, op), body.insert_arg(sums, old.index)]
    new = type(op).create(operands=operands, result_types=[sums], properties=properties, attributes=dict(op.attributes),
                          location=op.location)
    body.insert_op_before(new, op)
    made = [v.owner for v in (op.rhs, op.lhs) if isinstance(v.owner, Operation)]
    replace(op, new.results)
    erase_unused(made, _may_go)
    body.erase_arg(old)
    types = [sums if i == number else r.type for i, r in enumerate(loop.results)]
    again = type(loop).create(operands=[*loop.operands[:3], *inits], result_types=types, properties=dict(loop.properties),
                              attributes=dict(loop.attributes), regions=[loop.detach_region(loop.regions[0])],
                              location=loop.location)
    insert_in_front(loop, again)
    replace(loop, [_turned(r, loop) if i == number else r for i, r in enumerate(again.results)])


def _may_go(op: Operation) -> bool:
    """Whether an op that made an operand is removed when nobody uses it any more."""
    return isinstance(op, (arith.Elementwise, nv_tileas.Permute))


def _turned(v: SSAValue, before: Operation) -> SSAValue:
    """A tile with its rows as columns, made in front of an op: what threads compute of it for nobody else from turned tiles."""
    t: Any = v.type
    maker = v.owner
    if isinstance(maker, Operation) and maker.name == PERMUTE and permutation_of(maker) == [1, 0]:
        return maker.operands[0]
    turned = TensorType(t.element_type, tuple(reversed(t.get_shape())))
    new: Operation
    if isinstance(maker, arith.Elementwise) and maker.parent is before.parent and v.has_one_use():
        operands = [_turned(x, maker) if isinstance(x.type, TensorType) else x for x in maker.operands]
        new = type(maker).create(operands=operands, result_types=[turned], properties=dict(maker.properties),
                                 attributes=dict(maker.attributes))
    elif isinstance(maker, arith.Constant) and not isinstance(maker.properties["value"], DenseTileAttr):
        new = arith.Constant.make([], [turned], dict(maker.properties))
    else:
        new = nv_tileas.Permute.make([v], [turned], {"permutation": int_array((1, 0))})
    new.location = before.location
    insert_in_front(before, new)
    return new.results[0]
