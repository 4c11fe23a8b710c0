"""What is wanted of an accumulator in pieces, piece by piece, is loaded from tensor memory so (`place-accumulators`).

    %sum = load_tmem %d                       %s0 = load_tmem %d {first = 0}
    %h = convertf %sum                        %h0 = convertf %s0
    %h0 = extract %h[0, 0]            ->      ... %h0 ...
    ... %h0 ...                               %s1 = load_tmem %d {first = 64}
    %h1 = extract %h[0, 1]                    %h1 = convertf %s1
    ... %h1 ...                               ... %h1 ...

A thread then holds the registers of a piece, not of a tile, and the first piece is on its way while the others are still in tensor
memory. Elementwise ops between an accumulator and its pieces are done a piece at a time.

    %x = load_tmem %d                         %x0 = load_tmem %d {first = 0}
    %y = mulf %x, %p                          %h0 = convertf (mulf %x0, extract %p[0, 0])
    %h = convertf %y                  ->      %x1 = load_tmem %d {first = 32}
    store_tmem %h, %rows                      ...
                                              store_tmem %h0, %rows {first = 0}
                                              store_tmem %h1, %rows {first = 32}
                                              ...

So do rows that go to the next product, where they meet another tile that threads hold (attention's gradients, with the weights):
two tiles of 128 columns are all registers that a thread may have. A row that is the same for all rows of the tile is read from its
ring for each part. They are stored when all are loaded: what is loaded from and stored to may have the same columns. Any such row
is read late, and its stage given back later still.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.dialects.builtin import IntAttr, IntegerAttr, TensorType, i32
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.agent_parts import is_weak
from tileiras.analysis.agents import block_warps, switch_of
from tileiras.analysis.slices import static_number
from tileiras.analysis.stage_numbers import pipe_of
from tileiras.analysis.tma import is_unwritten
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.nv_tileas import EXITS, TmemType, layout_of, with_layout
from tileiras.layout.atoms.umma import LANES
from tileiras.layout.slices import part_in_registers
from tileiras.transforms.tma_common import before, erase

EXTRACT, LOAD = "nv_tileas.extract", "nv_tileas.load_tmem"
MEMORY_LOAD = "nv_tileas.tiled_load"
STORE, SHARED = "nv_tileas.store_tmem", "nv_tileas.store_shared"
MATRIX = 2
PIECE, STORED = 32, 64
"""Columns that are loaded at a time of rows that go to the next product, and to a buffer."""
ENOUGH_BLOCKS = 2
BESIDE = 32
"""Registers of a thread besides an accumulator's row."""
MOST_HELD = 192
"""Registers of a thread that an accumulator's rows may take together with a tile that they meet."""
LONG_ROW = 64
"""Registers of a thread for a row that all threads read."""
WAITS_OR_BEGINS = frozenset({"nv_tileas.consumer_wait", "nv_tileas.tensor_dot", "nv_tileas.producer_acquire",
                             "nv_tileas.producer_commit", "nv_tileas.barrier", "scf.for", "nv_tileas.loop"})
CONVERT = "nv_tileas.convert_layout"
MOVES = frozenset({"nv_tileas.view", CONVERT})
SPREAD = frozenset({"nv_tileas.broadcast", "nv_tileas.splat", "arith.constant"})
"""Ops whose results take few registers."""


def _only_users(op: Operation) -> Iterator[Any]:
    """The one user of an op's result, the one user of that one's, and so on, as far as they are in one block."""
    at: Operation | None = op
    while at is not None and at.results and at.results[0].has_one_use():
        use = at.results[0].first_use
        at = use.operation if use is not None and use.operation.parent is op.parent else None
        if at is not None:
            yield at


def load_in_pieces(func: Operation) -> None:
    """Move extracts up to the accumulators that they are of, in place."""
    pending = [op.results[0] for op in func.walk() if op.name == LOAD]
    for loaded in pending:
        wanted = _wanted(loaded)
        if wanted is not None and _is_still_there(loaded, wanted[-1]):
            for v in reversed(wanted):
                _by_piece(v)


def _wanted(loaded: SSAValue) -> list[SSAValue] | None:
    """What a loaded accumulator becomes before pieces are taken of it, itself first, all in one block; None where something
    else wants it, or it can't be loaded in such pieces."""
    buffer: Any = loaded.owner.operands[0].type     # type: ignore[union-attr]
    assert isinstance(buffer, TmemType)
    if (buffer.rows.data, buffer.packed.data) != (LANES, 1) or len(buffer.shape.data) != MATRIX:
        return None
    chain = [loaded]
    while True:
        users = list(dict.fromkeys(use.operation for use in chain[-1].uses))
        block = loaded.owner.parent         # type: ignore[union-attr]
        if not users or any(op.parent is not block for op in users):
            return None
        if all(_takes_columns(op, buffer) for op in users):
            return chain
        op = users[0]
        if len(users) > 1 or not isinstance(op, arith.Elementwise) or len(op.results) != 1 or not isinstance(
                op.results[0].type, TensorType) or op.results[0].type.get_shape() != loaded.type.get_shape():    # type: ignore
            return None
        chain.append(op.results[0])


def _takes_columns(op: Operation, buffer: Any) -> bool:
    """Whether an op takes some columns of all rows, of a tile as large as an accumulator."""
    if op.name != EXTRACT or not isinstance(op.results[0].type, TensorType):
        return False
    whole, part = layout_of(op.operands[0]), layout_of(op.results[0])
    return part.shape[0] == buffer.shape.data[0].data and static_number(op, 1, whole.shape, part.shape) is not None


def _is_still_there(loaded: SSAValue, last: SSAValue) -> bool:
    """Whether nothing is done to an accumulator between where it is loaded and where the last piece is taken."""
    load: Any = loaded.owner
    ends = [use.operation for use in last.uses]
    op = load
    while ends:
        op = op.next_op
        if op is None:
            return False
        if op in ends:
            ends = [end for end in ends if end is not op]
        elif any(v is load.buffer for inner in op.walk() for v in inner.operands):
            return False
    return True


def _by_piece(v: SSAValue) -> None:
    """Let pieces be made each for itself, where only pieces of a value are wanted."""
    maker: Any = v.owner
    for extract in list(dict.fromkeys(use.operation for use in v.uses)):
        part = layout_of(extract.results[0])
        t: Any = extract.results[0].type
        if maker.name == LOAD:
            number = static_number(extract, 1, layout_of(v).shape, part.shape)
            assert number is not None
            made: Any = nv_tileas.LoadTmem.make([maker.buffer], [t], {"first": IntAttr(number * part.shape[-1])})
        else:
            operands = [_part_of(extract, operand, part) if isinstance(operand.type, TensorType) else operand
                        for operand in maker.operands]
            made = type(maker).create(operands=operands, result_types=[t], properties=dict(maker.properties),
                                      attributes=dict(maker.attributes))
        before(extract, made, maker)
        extract.results[0].replace_all_uses_with(made.results[0])
        erase(extract)
    erase(maker)


def _part_of(extract: Operation, v: SSAValue, part: Any) -> SSAValue:
    t: Any = v.type
    made = nv_tileas.Extract.make([v, list(extract.operands[1:])], [with_layout(TensorType(t.element_type, part.shape), part)])
    return before(extract, made, extract).results[0]


# --- rows that all threads read -----------------------------------------------------------------------------------------


def read_late(func: Operation) -> None:
    """Read a row that is the same for all rows of a tile, of which each thread has the whole, where it first meets the tile, and
    give its ring's stage back where the threads next wait or begin a product, in place: nothing stands between the reads and what
    needs them, so that a thread needn't hold the row beside the tile."""
    for read in [op for op in func.walk() if op.name == "nv_tileas.load_shared" and len(op.operands) == 1]:
        release = _release_behind(read) if is_long_row(read.results[0]) else None
        chain = _to_tile(read)
        if release is None or chain is None:
            continue
        *moved, meets = chain
        assert meets.parent is not None
        if moved[-1].next_op is not meets:
            for op in moved:
                op.detach()
                meets.parent.insert_op_before(op, meets)
        if release.is_before_in_block(meets):
            place = meets.next_op
            while place.name not in WAITS_OR_BEGINS and place is not meets.parent.last_op:
                place = place.next_op
            release.detach()
            meets.parent.insert_op_before(release, place)


def rows_by_piece(func: Operation) -> None:
    """Read a row that is the same for all rows of a tile, of which only pieces are wanted, for each piece anew, in place: 256
    numbers of a row are all registers that a thread may have. Its ring's stage is given back behind the last piece. What of the row
    a piece doesn't want LLVM leaves out. A row of which each thread reads a part, to get the others' by shuffles, each reads
    whole. So is a row that comes from memory, if nothing in the kernel writes there."""
    for read in [op for op in func.walk()
                 if op.name == MEMORY_LOAD or (op.name == "nv_tileas.load_shared" and len(op.operands) == 1)]:
        chain = _to_pieces(read)
        if chain is None or read.parent is None or not is_long_row(chain[-1].operands[0]):
            continue
        pieces = sorted(dict.fromkeys(use.operation for use in chain[-1].results[0].uses), key=read.parent.get_operation_index)
        release = None
        if read.name != MEMORY_LOAD:
            release = _release_behind(read)
            if release is None or not _may_be_held(read.operands[0], release, pieces[-1]):
                continue
        elif not may_be_read_again(read):
            continue
        chain = _read_whole(chain)
        for piece in pieces:
            made: dict[SSAValue, SSAValue] = {}
            for op in chain:
                before(piece, op.clone(made), op)
            piece.operands[0] = made[chain[-1].results[0]]
        erase(*reversed(chain))
        if release is not None and release.is_before_in_block(pieces[-1]):
            release.detach()
            after_last: Any = pieces[-1].next_op
            after_last.parent.insert_op_before(release, after_last)


def may_be_read_again(op: Operation) -> bool:
    """Whether it is a load from memory that may as well be made twice."""
    return op.name == MEMORY_LOAD and is_weak(op) and is_unwritten(op) and not any(r.uses for r in op.results[1:])


def _to_pieces(read: Operation) -> list[Any] | None:
    """The read and what is made of it alone, up to what only pieces are taken of, all in one block."""
    chain: list[Any] = [read]
    for op in _only_users(read):
        if len(op.results) != 1 or len(op.operands) != 1 or \
                not (op.name in MOVES or isinstance(op, (arith.Elementwise, nv_tileas.Broadcast))):
            return None
        chain.append(op)
    users = {use.operation for use in chain[-1].results[0].uses}
    spread = isinstance(chain[-1], nv_tileas.Broadcast)
    return chain if spread and len(users) > 1 and all(op.name == EXTRACT and op.parent is read.parent for op in users) else None


def _read_whole(chain: list[Any]) -> list[Any]:
    """The chain without conversions of its row's layout: as it is wanted the row is read and computed."""
    layout = layout_of(chain[-1].operands[0])
    kept = [op for op in chain if op.name != CONVERT]
    for op in reversed(kept[:-1]):
        t = op.results[0].type
        layout = layout.reshape(t.get_shape())
        op.results[0]._type = with_layout(t, layout)
    for op in chain:
        if op.name == CONVERT:
            op.results[0].replace_all_uses_with(op.operands[0])
            erase(op)
    return kept


def _may_be_held(slot: SSAValue, release: Operation, last: Operation) -> bool:
    """Whether nothing between a stage's release and an op behind it waits for a stage of the same ring, or leaves."""
    pipe = pipe_of(slot)
    op = release.next_op
    while op is not None and op is not last:
        if any(inner.name in EXITS or (inner.name == "nv_tileas.consumer_wait" and inner.operands[0] is pipe)
               for inner in op.walk()):
            return False
        op = op.next_op
    return True


def is_long_row(v: SSAValue, least: int = LONG_ROW) -> bool:
    """Whether every thread has the same, and at least so many registers of it."""
    if not isinstance(v.type, TensorType):      # an answer that all threads read, of an atomic, say
        return False
    layout = layout_of(v)
    return layout.num_regs >= least and not any(layout.lane) and not any(layout.warp)


def _release_behind(read: Operation) -> Operation | None:
    pipe = pipe_of(read.operands[0])
    op = read.next_op
    while pipe is not None and op is not None:
        if op.name == "nv_tileas.consumer_release" and op.operands[0] is pipe:
            return op
        op = op.next_op
    return None


def _to_tile(read: Operation) -> list[Any] | None:
    """The read, what follows from it alone, and the op that has it meet another tile, all in one block."""
    chain: list[Any] = [read]
    for op in _only_users(read):
        if len(op.results) != 1 or not isinstance(op, (arith.Elementwise, nv_tileas.Broadcast)):
            return None
        chain.append(op)
        if sum(isinstance(v.type, TensorType) for v in op.operands) > 1:
            return chain
    return None


# --- rows that go to the next product -----------------------------------------------------------------------------------


def rows_in_pieces(func: Operation) -> None:
    """Compute rows for the next product by parts, where they meet a tile that threads hold, in place. Of two products' rows that
    meet those of the last one: what is loaded of the first one stays where it is, so that both may have the same columns in turn
    (attention's dQ, 128x128 tiles of 64, B200: 45.7 us by one block with 320 columns, 26.9 by two with 256)."""
    for load in reversed([op for op in func.walk() if op.name == LOAD and "first" not in op.properties]):
        chain = _to_rows(load)
        if chain is not None and _meets_another(load, chain) and _is_still_there(load.results[0], chain[-2].results[0]):
            _store_when_all_are_loaded(load, chain[:-1], chain[-1])


def store_in_pieces(func: Operation, target: Any) -> None:
    """Load, compute and store a part at a time what of an accumulator's rows goes to a buffer, where a thread that holds it all
    takes more registers than two blocks' threads have, in place: threads read it from there by rows of the tile, to store it to
    memory or to go on with it. (A mixture of experts whose threads gather, 128x128x64, B200: 29.3 us by one block of 146
    registers, 21.5 by two of 128. Two blocks of five warps have registers enough: what is loaded at once takes up to 4
    hundredths less time.)"""
    switch = switch_of(func)
    if switch is not None and "registers" in switch.properties:
        return      # those of the threads that compute are reckoned with it
    there = target.registers_for(ENOUGH_BLOCKS * block_warps(func))
    for load in [op for op in func.walk() if op.name == LOAD and "first" not in op.properties]:
        chain = _to_rows(load, SHARED)
        if chain is not None and layout_of(load.results[0]).num_regs + BESIDE > there and \
                _is_still_there(load.results[0], chain[-1].operands[0]):
            *made, store = chain
            for number, piece in enumerate(_parts(load, made, store, STORED)):
                before(store, nv_tileas.StoreShared.make([piece, store.buffer, None], [], {"part": IntAttr(number)}), store)
            erase(store, *reversed(made), load)


def _to_rows(load: Operation, end: str = STORE) -> list[Any] | None:
    """The elementwise ops, one behind the other and all of one block, that make of an accumulator's rows what is stored for the
    next product, or in a buffer (`end`), and the store; None where something else is done with them."""
    buffer: Any = load.operands[0].type
    layout = layout_of(load.results[0])
    columns = layout.shape[-1]
    if (buffer.rows.data, buffer.packed.data) != (LANES, 1) or len(layout.shape) != MATRIX or columns <= PIECE or \
            layout.reg != tuple(1 << i for i in range(columns.bit_length() - 1)):
        return None
    chain: list[Any] = []
    for op in _only_users(load):
        if op.name == end:
            return [*chain, op] if (chain or end == SHARED) and not op.properties else None
        if not isinstance(op, arith.Elementwise) or len(op.results) != 1 or layout_of(op.results[0]) != layout or \
                any(isinstance(operand.type, TensorType) and layout_of(operand) != layout for operand in op.operands):
            return None
        chain.append(op)
    return None


def _meets_another(load: Operation, chain: list[Any]) -> bool:
    """Whether a thread would hold more than MOST_HELD registers of the rows and of another tile."""
    made = {load, *chain}
    columns = layout_of(load.results[0]).num_regs

    def is_held(v: SSAValue) -> bool:
        own = isinstance(v.owner, Operation) and (v.owner in made or v.owner.name in SPREAD)
        return isinstance(v.type, TensorType) and not own and columns + layout_of(v).num_regs > MOST_HELD
    return any(is_held(v) for op in chain[:-1] for v in op.operands)


def _parts(load: Any, chain: list[Any], store: Any, width: int) -> Iterator[SSAValue]:
    """What is to be stored, so many columns at a time, each loaded and computed in front of the store when it is asked for."""
    whole = layout_of(load.results[0])
    count = whole.shape[-1] // width
    part = part_in_registers(whole, MATRIX - 1, width)
    assert part is not None

    def of(v: Any) -> Any:
        return with_layout(TensorType(v.type.element_type, part.shape), part)

    def number(n: int) -> SSAValue:
        return before(store, arith.Constant.make([], [i32], {"value": IntegerAttr(n, i32)}), store).results[0]
    zero = number(0)
    for piece in range(count):
        at = [zero, number(piece)]
        first = {"first": IntAttr(piece * width)}
        loaded = before(store, nv_tileas.LoadTmem.make([load.buffer], [of(load.results[0])], first), load)
        made: dict[SSAValue, SSAValue] = {load.results[0]: loaded.results[0]}
        for op in chain:
            operands = [made[v] if v in made else
                        before(store, nv_tileas.Extract.make([_read_again(v, store), at], [of(v)]), op).results[0]
                        if isinstance(v.type, TensorType) else v for v in op.operands]
            new = type(op).create(operands=operands, result_types=[of(op.results[0])], properties=dict(op.properties))
            made[op.results[0]] = before(store, new, op).results[0]
        yield made[chain[-1].results[0] if chain else load.results[0]]


def _store_when_all_are_loaded(load: Any, chain: list[Any], store: Any) -> None:
    """Rows for the next product: what is loaded from and stored to may have the same columns."""
    pieces = list(_parts(load, chain, store, PIECE))
    rows = store.buffer.owner
    if rows.parent is store.parent and all(use.operation is store or not use.operation.is_before_in_block(store)
                                           for use in rows.results[0].uses if use.operation.parent is store.parent):
        rows.detach()
        before(store, rows, rows)
    for piece, v in enumerate(pieces):
        before(store, nv_tileas.StoreTmem.make([v, store.buffer], [], {"first": IntAttr(piece * PIECE)}), store)
    erase(store, *reversed(chain), load)


def _read_again(v: SSAValue, place: Operation) -> SSAValue:
    """A broadcast row, read once more from its ring's stage, where that is still there; else what was read before. What of it the
    part doesn't want LLVM leaves out."""
    spread: Any = v.owner
    read: Any = spread.operands[0].owner if isinstance(spread, nv_tileas.Broadcast) else None
    if not isinstance(read, nv_tileas.LoadShared) or read.parent is not place.parent or len(read.operands) != 1:
        return v
    pipe = pipe_of(read.operands[0])
    op = read.next_op
    while pipe is not None and op is not None and op is not place:
        if any(inner.name == "nv_tileas.consumer_release" and inner.operands[0] is pipe for inner in op.walk()):
            return v
        op = op.next_op
    if pipe is None or op is None:
        return v
    again = before(place, read.clone(), read)
    return before(place, spread.clone({read.results[0]: again.results[0]}), spread).results[0]
