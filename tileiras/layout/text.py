"""Reading layouts from IR text, as their attributes print them.

    <shape = [4x8], reg = [[0, 1], [0, 2]], lane = [[0, 4], [1, 0], [2, 0], [0, 0], [0, 0]], warp = []>
    <shape = [4x8], offset = [1, 2, 4, 8, 16]>
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.layout.linear import LANE_BITS, LinearLayout, dim_bits, log2
from tileiras.layout.shared import SharedLayout

if TYPE_CHECKING:
    from xdsl.parser import AttrParser

MAX_BITS = 40
"""More bits than any tile has: bounds what text can ask for."""


def _numbers(parser: AttrParser) -> list[int]:
    return parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False, allow_negative=False))


def _shape(parser: AttrParser) -> tuple[int, ...]:
    """`shape = [4x8]`; extents are powers of two."""
    parser.parse_keyword("shape")
    parser.parse_punctuation("=")
    parser.parse_punctuation("[")
    shape: list[int] = []
    if parser.parse_optional_punctuation("]") is None:
        shape.append(parser.parse_shape_dimension(allow_dynamic=False))
        while parser.parse_optional_punctuation("]") is None:
            parser.parse_shape_delimiter()
            shape.append(parser.parse_shape_dimension(allow_dynamic=False))
    try:
        bits = sum(log2(n) for n in shape)
    except ValueError:
        parser.raise_error("the extents of a layout's shape must be powers of two")
    if bits > MAX_BITS:
        parser.raise_error("the shape of a layout is too large")
    return tuple(shape)


def parse_linear(parser: AttrParser) -> LinearLayout:
    """A `LinearLayout` between angle brackets. Raises the parser's error on anything else."""
    with parser.in_angle_brackets():
        shape = _shape(parser)
        fields = dim_bits(shape)

        def rows(name: str) -> tuple[int, ...]:
            parser.parse_punctuation(",")
            parser.parse_keyword(name)
            parser.parse_punctuation("=")
            out = []
            for row in parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _numbers(parser)):
                if len(row) != len(shape) or any(x >= n for x, n in zip(row, shape)):
                    parser.raise_error(f"each basis of '{name}' must be an index into the shape")
                out.append(sum(x << low for x, (low, _) in zip(row, fields)))
            if len(out) > MAX_BITS:
                parser.raise_error(f"'{name}' has too many bases")
            return tuple(out)
        reg, lane, warp = rows("reg"), rows("lane"), rows("warp")
    if len(lane) != LANE_BITS:
        parser.raise_error(f"'lane' must have {LANE_BITS} bases")
    return LinearLayout(shape, reg, lane, warp)


def parse_shared(parser: AttrParser) -> SharedLayout:
    """A `SharedLayout` between angle brackets. Raises the parser's error on anything else."""
    with parser.in_angle_brackets():
        shape = _shape(parser)
        parser.parse_punctuation(",")
        parser.parse_keyword("offset")
        parser.parse_punctuation("=")
        bases = _numbers(parser)
    if len(bases) != sum(bits for _, bits in dim_bits(shape)):
        parser.raise_error("'offset' must have one number for each bit of the index")
    if any(b >= 1 << MAX_BITS for b in bases):
        parser.raise_error("an offset is too large")
    return SharedLayout(shape, tuple(bases))
