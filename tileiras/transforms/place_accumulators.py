"""`place-accumulators`: what tcgen05 adds to lies in tensor memory.

    %sum = scf.for %i = %a to %b iter_args(%acc = zeros) {          %d = alloc_tensor : tmem<f32, 128x128>
      %z = dot %x, %y, %acc {atom = "sm100..."}                     scf.for %i = %a to %b {
      yield %z                                               ->       tensor_dot %x, %y, %d, %i != %a
    }                                                               }
    ... %sum ...                                                    if not %a < %b { store_tmem zeros, %d }
                                                                    %sum = load_tmem %d ; ... %sum ...

An accumulator that a loop carries stays where it is over all iterations, and the loop carries it no longer: the value that a
product gives is the next iteration's. What else an iteration wants of it (to add to it, say) is loaded before the product and
stored again; `scale_tmem` does that for a product with a tensor. Where a product begins with zeros nothing is stored: the first one
doesn't add. Products one behind the other into one accumulator stay there, too, and so do loops of them (a layer's two inputs, each
with its weights): one that may follow on none adds from its first product on if the other has run, and where neither does zeros are
stored behind both. Everything else starts by storing its accumulator and ends by loading the result.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, Float32Type, IntAttr, IntegerAttr, IntegerType, StringAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue, Use

from tileiras.analysis.layout_rules import dot_shape
from tileiras.analysis.tensor_dots import goes_on_from, umma_of
from tileiras.analysis.warpgroup_dots import is_zero
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.nv_tileaa import int_array, int_values
from tileiras.dialects.nv_tileas import EXITS, TmemType, with_layout
from tileiras.layout.atoms.umma import IN_CELLS, PAIR, UmmaAtom, place_of
from tileiras.layout.linear import LinearLayout
from tileiras.transforms.overlap_dots import number_of
from tileiras.transforms.places import keep_places
from tileiras.transforms.rules.floats import plain
from tileiras.transforms.structure import carry_no_longer
from tileiras.transforms.tmem_pieces import load_in_pieces, read_late, rows_by_piece, rows_in_pieces, store_in_pieces

PRODUCTS = ("nv_tileas.dot", "nv_tileas.dot_scaled")
BOOL = IntegerType(1)
LARGE = 128 * 128 * 64
"""Multiplications of a product that takes as long as the trip from the tensor core to a thread that waits and back."""


def run(module: Operation, context: Any) -> None:
    """Move the accumulators, in place."""
    if not context.uses("tcgen05"):
        return
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func" and any(_is_product(op) for op in func.walk()):
            unless_run: dict[SSAValue, Zeroed] = {}
            while any(_loop(loop, unless_run) for loop in [op for op in func.walk() if op.name == "scf.for"]):
                pass        # each time a loop carries less
            for op in [op for op in func.walk() if _is_product(op)]:
                if op.parent is not None:
                    _alone(op)
            load_in_pieces(func)
            rows_by_piece(func)
            read_late(func)
            rows_in_pieces(func)
            store_in_pieces(func, context.target)
            keep_places(func)


def _is_product(op: Operation) -> bool:
    return op.name in PRODUCTS and umma_of(op) is not None


# --- accumulators that loops carry --------------------------------------------------------------------------------------


@dataclass
class Zeroed:
    """The `branch` behind loops in which zeros go to their accumulator, where none of them has run."""

    branch: Any
    zeros: SSAValue


def _loop(loop: Any, unless_run: dict[SSAValue, Zeroed]) -> bool:
    """Move what a loop carries that its products give; whether there was any. Outer loops come first: they take along what inner
    ones carry of it. `unless_run`: of which accumulators that is so."""
    if any(op.name in EXITS for op in loop.walk()):
        return False
    numbers = _numbers(loop)
    if not numbers:
        return False
    inits = [loop.operands[3 + number].owner for number in numbers]
    for number in numbers:
        _move(loop, number, unless_run)
    carry_no_longer(loop, numbers)
    for load in inits:
        _drop(load)
    return True


def _numbers(loop: Any) -> list[int]:
    """What a loop carries that its products give, each product's once: by the number that it adds to, if it is one of several."""
    found: dict[Operation, int] = {}
    for number in range(len(loop.results)):
        maker = _maker(loop, number)
        if maker is not None and (maker not in found or _chain(maker)[0].operands[2] is loop.regions[0].block.args[1 + number]):
            found[maker] = number
    return sorted(found.values())


def _maker(loop: Any, number: int) -> Operation | None:
    """The product of the loop's body, or of a loop inside that takes and gives the whole of it, which makes the value that the loop
    carries under this number."""
    body = loop.regions[0].block
    v = body.last_op.operands[number]
    if not isinstance(v, OpResult) or v.owner.parent is not body:
        return None
    if _is_product(v.owner):
        return v.owner
    inner: Any = v.owner
    if inner.name == "scf.for" and inner.operands[3 + v.index] is body.args[1 + number] and v.has_one_use() and \
            body.args[1 + number].has_one_use() and not any(op.name in EXITS for op in inner.walk()):
        return _maker(inner, v.index)
    return None


def _move(loop: Any, number: int, unless_run: dict[SSAValue, Zeroed]) -> None:
    """The loop's products of this number into a home of their own, or where an earlier loop has left what they add to; behind the
    loop it is loaded. What the loop carried isn't used any more."""
    maker = _maker(loop, number)
    assert maker is not None
    init = loop.operands[3 + number]
    left = _left_there(init, maker, loop)
    home = left or _home(maker, loop)
    body = loop.regions[0].block
    chain = _chain(maker)
    first_alone = maker.parent is body and chain[0].operands[2] is body.args[1 + number] and body.args[1 + number].has_one_use()
    before = unless_run.pop(home, None) if first_alone else None
    skips = first_alone and (is_zero(init) or before is not None)
    if not skips and left is None:
        _stored(init, home, loop, loop)
    zeros, nothing, ran = init, None, None
    if before is not None:
        zeros, nothing = before.zeros, before.branch.operands[0]
        ran = _before(loop, arith.Xori.make([nothing, _truth(loop, True)], [BOOL]), loop)
        _erase([before.branch])
    _inside(loop, number, chain, home, skips, ran)
    result = loop.results[number]
    after: Any = loop.next_op
    if skips and not _runs(loop):
        unless_run[home] = Zeroed(_zeros_where_nothing_runs(loop, zeros, home, after, nothing), zeros)
    if result.first_use is not None:
        result.replace_all_uses_with(_loaded(home, result.type, after, loop))


def _left_there(v: SSAValue, product: Operation, before: Operation) -> SSAValue | None:
    """The accumulator that holds a value already, which nobody else wants, where a product's would be of the same kind."""
    load = v.owner
    if not isinstance(load, nv_tileas.LoadTmem) or not v.has_one_use() or load.parent is not before.parent or load.properties:
        return None
    home: SSAValue = load.operands[0]
    return home if home.type == _home_type(product) else None


def _drop(load: Any) -> None:
    """What is loaded from an accumulator isn't wanted any more."""
    if isinstance(load, nv_tileas.LoadTmem) and load.parent is not None and load.results[0].first_use is None:
        _erase([load])


def _inside(loop: Any, number: int, chain: list[Operation], home: SSAValue, skips: bool, ran: SSAValue | None = None) -> None:
    """Products of a loop's body, or of a loop in it, go on in the home. `ran`: whether there is something there already."""
    body = loop.regions[0].block
    arg, last = body.args[1 + number], body.last_op
    yielded = last.operands[number]
    if chain[0].parent is not body:
        inner: Any = yielded.owner
        _inside(inner, yielded.index, chain, home, False)
        last.operands[number] = arg
        inner.operands[3 + yielded.index] = loop.operands[3 + number]       # anything from outside: it goes with the number
        carry_no_longer(inner, [yielded.index])
        return
    first = chain[0]
    rescaled = not skips and first.operands[2] is not arg and _scaled(first, arg, home)
    if any(use.operation is not first or use.index != 2 for use in arg.uses):
        # What the iteration before has left there, before this one writes over it.
        loaded = _loaded(home, arg.type, _first_user(arg, body, first), loop)
        arg.replace_uses_with_if(loaded, lambda use: not (use.operation is first and use.index == 2))
    if skips:
        add = _before(first, arith.Cmpi.make([body.args[0], loop.operands[0]], [BOOL], {"predicate": StringAttr("ne")}), first)
        if ran is not None:
            add = _before(first, arith.Ori.make([add, ran], [BOOL]), first)
    elif rescaled or first.operands[2] is arg:
        add = _truth(first, True)
    else:
        add = _begin(first, home)
    end = _products(chain, home, add)

    def is_other(use: Use) -> bool:
        return use.operation is not last or use.index != number
    if any(map(is_other, yielded.uses)):
        loaded = _loaded(home, yielded.type, end.next_op, end)      # type: ignore[arg-type]
        yielded.replace_uses_with_if(loaded, is_other)
    last.operands[number] = arg
    _erase(chain)


def _scaled(first: Operation, arg: SSAValue, home: SSAValue) -> bool:
    """Where a product adds to what an iteration has rescaled, and nothing else wants that, it is rescaled at home."""
    scale: Any = first.operands[2].owner
    if not isinstance(scale, arith.Mulf) or not plain(scale) or not (scale.results[0].has_one_use() and arg.has_one_use()):
        return False
    t: Any = arg.type
    if arg not in scale.operands or not isinstance(t.element_type, Float32Type):
        return False
    factor = scale.operands[1 - list(scale.operands).index(arg)]
    _before(scale, nv_tileas.ScaleTmem.make([factor, home]), scale)
    first.operands[2] = arg
    scale.detach()
    scale.erase()
    return True


def _first_user(v: SSAValue, block: Block, product: Operation) -> Operation:
    """The first op of a block that uses a value, itself or in its regions, or this product, if that comes before."""
    users = {use.operation for use in v.uses}
    return next(op for op in block.ops if op is product or any(inner in users for inner in op.walk()))


def _zeros_where_nothing_runs(loop: Any, zeros: SSAValue, home: SSAValue, before: Operation, nothing: SSAValue | None) -> Any:
    """The branch in which they are stored. `nothing`: whether no loop in front of this one has run, if there is one."""
    unsigned = "unsigned_cmp" in loop.properties
    none = _before(before, arith.Cmpi.make(list(loop.operands[:2]), [BOOL], {
        "predicate": StringAttr("uge" if unsigned else "sge")}), loop)
    if nothing is not None:
        none = _before(before, arith.Andi.make([none, nothing], [BOOL]), loop)
    then, other = Block(), Block()
    for block in (then, other):
        block.add_op(arith.Yield.make([[]]))
    assert then.last_op is not None
    _stored(zeros, home, then.last_op, loop)
    branch = arith.If.make([none], [[]], regions=[Region(then), Region(other)])
    _before(before, branch, loop)
    return branch


def _runs(loop: Any) -> bool:
    """Whether an iteration is sure."""
    lower, upper = map(number_of, loop.operands[:2])
    return lower is not None and upper is not None and lower < upper and (lower >= 0 or "unsigned_cmp" not in loop.properties)


# --- products ---------------------------------------------------------------------------------------------------------------


def _alone(op: Operation) -> None:
    """A product whose accumulator no loop carries, and those that go on from it."""
    last = op
    while (following := _follower(last)) is not None:
        last = following
    chain = _chain(last)
    first, start = chain[0], chain[0].operands[2]
    left = _left_there(start, first, first)
    home = left or _home(first, first)
    end = _products(chain, home, _begin(first, home) if left is None else _truth(first, True))
    result = last.results[0]
    if result.first_use is not None:
        result.replace_all_uses_with(_loaded(home, result.type, _load_place(last, end), end, _quads(first, "quads")))
    _erase(chain)
    _drop(start.owner)


def _load_place(product: Operation, end: Operation) -> Operation:
    """Where a product's result is loaded, which waits for it: behind it, but a small one's in front of its first user."""
    users = {use.operation for use in product.results[0].uses}
    batch, m, n, k = dot_shape(product)
    at: Any = end.next_op
    if max(batch, 1) * m * n * k < LARGE:
        while not any(inner in users for inner in at.walk()):
            at = at.next_op
    return at   # type: ignore[no-any-return]


def _follower(op: Operation) -> Operation | None:
    """The product of the same block that goes on in an op's accumulator, which nobody else wants."""
    result = op.results[0]
    use = result.first_use if result.has_one_use() else None
    if use is None or use.index != 2 or not _is_product(use.operation) or use.operation.parent is not op.parent:
        return None
    return use.operation


def _chain(last: Operation) -> list[Operation]:
    """The products that lead to this one in one accumulator, in order."""
    out = [last]
    while (before := goes_on_from(out[0])) is not None:
        out.insert(0, before)
    return out


def _home(op: Operation, before: Operation) -> SSAValue:
    """An accumulator in tensor memory for a product's."""
    return _before(before, nv_tileas.AllocTensor.make([], [_home_type(op)]), op)     # type: ignore[no-any-return]


def _home_type(op: Operation) -> TmemType:
    atom, t = umma_of(op), op.results[0].type
    assert atom is not None and isinstance(t, TensorType)
    shape, rows = place_of(atom, t.get_shape())
    return TmemType(t.element_type, int_array(shape), IntAttr(rows), IntAttr(1))


def _quads(op: Operation, name: str) -> dict[str, Attribute]:
    """What a load or a store says of who has which element, where a product says so by this name."""
    return {"quads": UnitAttr()} if name in op.properties else {}


def _loaded(home: SSAValue, t: Any, before: Operation, like: Operation, properties: dict[str, Attribute] | None = None) -> SSAValue:
    """What an accumulator holds, loaded before an op as a tensor of this type."""
    place = _folded(home, t)
    if place is None:
        return _before(before, nv_tileas.LoadTmem.make([home], [t], properties), like)      # type: ignore[no-any-return]
    v = _before(before, nv_tileas.LoadTmem.make([home], [place[0]]), like)
    v = _before(before, nv_tileas.View.make([v], [place[1]]), like)
    v = _before(before, nv_tileas.Permute.make([v], [place[2]], {"permutation": int_array((1, 0, 2))}), like)
    return _before(before, nv_tileas.View.make([v], [t]), like)     # type: ignore[no-any-return]


def _stored(v: SSAValue, home: SSAValue, before: Operation, like: Operation) -> None:
    """A tensor goes to an accumulator, before an op."""
    place = _folded(home, v.type)
    if place is not None:
        v = _before(before, nv_tileas.View.make([v], [place[2]]), like)
        v = _before(before, nv_tileas.Permute.make([v], [place[1]], {"permutation": int_array((1, 0, 2))}), like)
        v = _before(before, nv_tileas.View.make([v], [place[0]]), like)
    _before(before, nv_tileas.StoreTmem.make([v, home]), like)


def _folded(home: SSAValue, t: Any) -> tuple[TensorType, TensorType, TensorType] | None:
    """The types of a folded accumulator's tensor as it lies, and its halves one behind the other and side by side; None where it
    lies as it is."""
    place: Any = home.type
    shape = int_values(place.shape)
    if shape == tuple(t.get_shape()):
        return None
    m, n = shape
    side_by_side = t.encoding.data.reshape((m // PAIR, PAIR, n))
    behind = side_by_side.permute((1, 0, 2))

    def of(layout: LinearLayout) -> TensorType:
        return with_layout(TensorType(t.element_type, layout.shape), layout)
    return of(behind.reshape((m, n))), of(behind), of(side_by_side)


def _begin(op: Operation, home: SSAValue) -> SSAValue:
    """What a product starts with goes to its home; whether it adds to that."""
    if is_zero(op.operands[2]):
        return _truth(op, False)
    _stored(op.operands[2], home, op, op)
    return _truth(op, True)


def _truth(before: Operation, value: bool) -> SSAValue:
    return _before(before, arith.Constant.make([], [BOOL], {"value": IntegerAttr(int(value), BOOL)}), before)


def _products(chain: list[Operation], home: SSAValue, add: SSAValue) -> Operation:
    """The products into the home, each where it stood; the last one."""
    made: Any = None
    for op in chain:
        if made is not None:
            add = _truth(op, True)
        made = nv_tileas.TensorDot.make([_rows(op), op.operands[1], home, add, *_scales(op, home)], [],
                                        nv_tileas.instruction_of(op))
        made.attributes.update(op.attributes)
        _before(op, made, op)
    return made


def _rows(op: Operation) -> SSAValue:
    """What a product reads as A: the rows that registers hold go to tensor memory."""
    rows, atom = op.operands[0], umma_of(op)
    if not isinstance(rows.type, TensorType) or not isinstance(atom, UmmaAtom):
        return rows
    maker = rows.owner
    early = maker.next_op if isinstance(maker, Operation) and maker.parent is op.parent else None
    before = early or op        # their registers are free then
    place = _before(before, nv_tileas.AllocTensor.make([], [TmemType.of(rows.type, atom.rows, IN_CELLS[atom.a])]), op)
    _before(before, nv_tileas.StoreTmem.make([rows, place], [], _quads(op, "quad_rows")), op)
    return place


def _scales(op: Operation, home: SSAValue) -> list[SSAValue | None]:
    """The scales of a block-scaled product, and columns for them in tensor memory, as long as its accumulator has any."""
    if op.name != "nv_tileas.dot_scaled":
        return [None, None, None]
    from tileiras.layout.atoms.tensor_scaled import M, factor_columns
    scales = list(op.operands[3:])
    columns = factor_columns(*(v.type.layout.data.shape for v in scales))  # type: ignore[attr-defined]
    t = TmemType(IntegerType(32), ArrayAttr([IntAttr(M), IntAttr(columns)]), IntAttr(M), IntAttr(1))
    assert isinstance(home.owner, Operation)
    return [*scales, _before(home.owner, nv_tileas.AllocTensor.make([], [t]), op)]


def _erase(ops: list[Operation]) -> None:
    for op in reversed(ops):
        for r in op.results:
            assert r.first_use is None
        op.detach()
        op.erase()


def _before(before: Operation, new: Any, like: Operation) -> Any:
    new.location = like.location
    assert before.parent is not None
    before.parent.insert_op_before(new, before)
    return new.results[0] if new.results else None
