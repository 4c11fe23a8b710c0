"""What ops of nv_tileas must keep besides their declarations: those of nv_tileaa with theirs, and shared memory's own."""
from __future__ import annotations

from typing import Any

from tileiras.dialects.cuda_tile.verify_error import InvalidOp
from tileiras.dialects.kinds import KINDS
from tileiras.dialects.nv_tileaa import int_values
from tileiras.dialects.verify import Rule
from tileiras.dialects.verify_tileaa import TILE_RULES, kind, shape, written


def _func(op: Any) -> None:
    TILE_RULES["func"](op)
    for i, arg in enumerate(op.body.block.args):
        if not KINDS["scalar"].holds(arg.type):
            raise InvalidOp(op, f"parameter {i} must be a number or a pointer, but is '{arg.type}'")


def _convert_layout(op: Any) -> None:
    if kind(op.source) != kind(op.result) or shape(op.source) != shape(op.result):
        raise InvalidOp(op, f"must keep shape and elements, but goes from '{op.source.type}' to '{op.result.type}'")


def _buffer_of(op: Any, elements: Any, extents: tuple[int, ...]) -> None:
    if kind(op.buffer) != elements or shape(op.buffer) != extents:
        raise InvalidOp(op, f"the buffer must be {written(extents)} of '{elements}', but is {written(shape(op.buffer))} of "
                            f"'{kind(op.buffer)}'")


def _store_shared(op: Any) -> None:
    extents = shape(op.source)
    if op.slice is not None:
        values = int_values(op.slice)
        if len(values) != 3 or not 0 <= values[0] < len(extents) or not 0 <= values[1] < values[2] or \
                extents[values[0]] % values[2]:
            raise InvalidOp(op, f"slice {list(values)} must be a dimension of {written(extents)}, which part, of how many")
        dim, _, count = values
        extents = tuple(n // count if d == dim else n for d, n in enumerate(extents))
    _buffer_of(op, kind(op.source), extents)


def _load_shared(op: Any) -> None:
    _buffer_of(op, kind(op.result), shape(op.result))


OP_RULES: dict[str, Rule] = {
    **{f"nv_tileas.{mnemonic}": rule for mnemonic, rule in TILE_RULES.items()},
    "nv_tileas.func": _func, "nv_tileas.convert_layout": _convert_layout, "nv_tileas.store_shared": _store_shared,
    "nv_tileas.load_shared": _load_shared,
}
