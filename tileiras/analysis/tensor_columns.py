"""How many columns of tensor memory do products take at a time, before they have places there (`tensor_memory.py` gives them)?"""
from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation

from tileiras.analysis.program_slice import YIELD
from tileiras.analysis.tensor_dots import goes_on_from, umma_of
from tileiras.analysis.tensor_memory import ColumnsByLoop, rows_columns
from tileiras.layout.atoms import umma
from tileiras.layout.atoms.umma import UmmaAtom

DOT = "nv_tileas.dot"


def columns_at_once(func: Operation) -> int:
    """Of tensor memory, that the products of a function, or of a loop, take at a time. Products of one block whose results threads
    load before the next one begins have their columns in turn (attention's gradients), and there is room for what becomes of their
    rows; else as many take columns as are on their way at a time."""
    columns = ColumnsByLoop()
    blocks: dict[Block | None, list[Operation]] = {}
    for op in [op for op in func.walk() if isinstance(umma_of(op), UmmaAtom)]:
        if goes_on_from(op) is None:
            blocks.setdefault(op.parent, []).append(op)
    for block, dots in blocks.items():
        between = [op for op in dots if any(use.operation.name not in (YIELD, DOT) for use in op.results[0].uses)]
        assert block is not None
        place = {op: i for i, op in enumerate(block.ops)}
        in_turn = all(_is_loaded_before(op, following, place) for op, following in pairwise(between))
        for op in dots:
            if op not in between:
                columns.add(op, _accumulator(op))
        if not between:
            continue
        if in_turn:
            most = max(map(_with_rows, between))
            rows = [op for op in block.ops if op.name == DOT and isinstance(op.operands[0].type, TensorType)]
            columns.add(between[0], max(most, sum(map(rows_columns, rows))))
        else:
            columns.add(between[0], _most_at_once(between, place))
    return columns.most()


def _most_at_once(dots: list[Operation], place: Mapping[Operation, int]) -> int:
    """Columns that some products of a block take at a time, from where they begin to where their results are used last; the rows
    that they take from tensor memory as long."""
    block = dots[0].parent
    assert block is not None
    lives = [(place[dot], max(place[_holder(block, use.operation)] for use in dot.results[0].uses),
              _with_rows(dot)) for dot in dots]
    return max(sum(columns for begin, end, columns in lives if begin <= at <= end) for at, _, _ in lives)


def _with_rows(dot: Operation) -> int:
    """Of a product, with the rows that it takes from tensor memory."""
    return _accumulator(dot) + (rows_columns(dot) if isinstance(dot.operands[0].type, TensorType) else 0)


def _accumulator(dot: Operation) -> int:
    return umma.columns_of(*umma.place_of(umma_of(dot), dot.results[0].type.get_shape()))      # type: ignore[attr-defined]


def _is_loaded_before(dot: Operation, following: Operation, place: Mapping[Operation, int]) -> bool:
    """Whether all that threads do with a product's result itself stands in front of another op of the block, by their places."""
    block = dot.parent
    assert block is not None
    return all(place[_holder(block, use.operation)] < place[following] for use in dot.results[0].uses)


def _holder(block: Block, op: Operation) -> Operation:
    found = block.find_ancestor_op_in_block(op)
    assert found is not None
    return found
