"""What is wanted of an accumulator in pieces, piece by piece, is loaded from tensor memory so (`place-accumulators`).

    %sum = load_tmem %d                       %s0 = load_tmem %d {first = 0}
    %h = convertf %sum                        %h0 = convertf %s0
    %h0 = extract %h[0, 0]            ->      ... %h0 ...
    ... %h0 ...                               %s1 = load_tmem %d {first = 64}
    %h1 = extract %h[0, 1]                    %h1 = convertf %s1
    ... %h1 ...                               ... %h1 ...

A thread then holds the registers of a piece, not of a tile, and the first piece is on its way while the others are still in tensor
memory. Elementwise ops between an accumulator and its pieces are done a piece at a time.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntAttr, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.slices import static_number
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.nv_tileas import TmemType, layout_of, with_layout
from tileiras.layout.atoms.umma import LANES
from tileiras.transforms.tma_common import before, erase

EXTRACT, LOAD = "nv_tileas.extract", "nv_tileas.load_tmem"
MATRIX = 2


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
