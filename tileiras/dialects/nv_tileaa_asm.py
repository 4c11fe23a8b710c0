"""How nv_tileaa's types and attributes are written.

    !nv_tileaa.memref<?x64xf16, strides = [?, 1]>
    !nv_tileaa.tiled_view<partition, tile = [64, 32], !nv_tileaa.memref<...>>
    !nv_tileaa.tiled_view<strided, tile = [4, 8], steps = [3, 5], dim_map = [1, 0], padding = zero,
                          !nv_tileaa.memref<...>>
    #nv_tileaa.fact<div_by 16>      #nv_tileaa.fact<div_by 4 every 8 along 0>      #nv_tileaa.fact<bounded [0, ?]>

What is the usual is left out: steps equal to the tile, dimensions in order, no padding, nothing gathered.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ArrayAttr, IntAttr, NoneAttr, StringAttr
from xdsl.ir import Attribute

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

UNKNOWN = -1
"""A dynamic extent or stride, and what a div_by fact leaves out; written "?" or not at all."""


def int_array(values: Iterable[int]) -> ArrayAttr[IntAttr]:
    """Numbers, or flags, as types and attributes hold them."""
    return ArrayAttr([IntAttr(int(v)) for v in values])


def _numbers(array: Any) -> list[int]:
    return [a.data for a in array.data]


def _list(values: Iterable[int | None], unknown: int | None = None) -> str:
    return "[" + ", ".join("?" if v == unknown else str(v) for v in values) + "]"


def _parse_list(parser: AttrParser, unknown: int | None = None) -> list[Any]:
    def entry() -> int | None:
        return unknown if parser.parse_optional_punctuation("?") is not None else parser.parse_integer()
    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, entry)


def print_memref(printer: Printer, element_type: Attribute, shape: Any, strides: Any) -> None:
    printer.print_string("<" + "".join(f"{'?' if n == UNKNOWN else n}x" for n in _numbers(shape)))
    printer.print_attribute(element_type)
    printer.print_string(f", strides = {_list(_numbers(strides), UNKNOWN)}>")


def parse_memref(parser: AttrParser) -> Sequence[Attribute]:
    """Element type, shape, strides."""
    with parser.in_angle_brackets():
        shape, element_type = parser.parse_ranked_shape()
        parser.parse_punctuation(",")
        parser.parse_keyword("strides")
        parser.parse_punctuation("=")
        return element_type, int_array(UNKNOWN if n < 0 else n for n in shape), int_array(_parse_list(parser, UNKNOWN))


def print_tiled_view(printer: Printer, view: Any) -> None:
    tile = _numbers(view.tile_shape)
    steps, dim_map = _numbers(view.steps), _numbers(view.dim_map)
    words = [view.kind.data, f"tile = {_list(tile)}"]
    if steps != tile:
        words.append(f"steps = {_list(steps)}")
    if dim_map != list(range(len(tile))):
        words.append(f"dim_map = {_list(dim_map)}")
    if view.padding.data:
        words.append(f"padding = {view.padding.data}")
    if view.sparse_dim.data != UNKNOWN:
        words.append(f"sparse_dim = {view.sparse_dim.data}")
    printer.print_string("<" + ", ".join(words) + ", ")
    printer.print_attribute(view.memref)
    printer.print_string(">")


def parse_tiled_view(parser: AttrParser) -> Sequence[Attribute]:
    """memref, kind, tile shape, dim_map, steps, padding, sparse_dim."""
    found: dict[str, Any] = {}
    with parser.in_angle_brackets():
        kind = parser.parse_identifier()
        while parser.parse_optional_punctuation(",") is not None:
            word = parser.parse_optional_keyword_in(("tile", "steps", "dim_map", "padding", "sparse_dim"))
            if word is None:
                found["memref"] = parser.parse_type()
                break
            parser.parse_punctuation("=")
            if word == "padding":
                found[word] = parser.parse_identifier()
            else:
                found[word] = parser.parse_integer() if word == "sparse_dim" else _parse_list(parser)
    if "memref" not in found or "tile" not in found:
        parser.raise_error("a tiled view needs a tile and a memref")
    tile = found["tile"]
    return (found["memref"], StringAttr(kind), int_array(tile), int_array(found.get("dim_map", range(len(tile)))),
            int_array(found.get("steps", tile)), StringAttr(found.get("padding", "")),
            IntAttr(found.get("sparse_dim", UNKNOWN)))


def print_fact(printer: Printer, kind: str, values: Any) -> None:
    numbers = [getattr(v, "data", None) for v in values.data]
    if kind == "div_by":
        divisor, every, along = numbers
        text = f"{divisor}" if every == UNKNOWN else f"{divisor} every {every} along {along}"
    else:
        text = _list(numbers)
    printer.print_string(f"<{kind} {text}>")


def parse_fact(parser: AttrParser) -> Sequence[Attribute]:
    """Kind and values."""
    with parser.in_angle_brackets():
        kind = parser.parse_keyword_in(("div_by", "bounded", "same_elements"))
        if kind == "div_by":
            numbers: list[Any] = [parser.parse_integer(), UNKNOWN, UNKNOWN]
            if parser.parse_optional_keyword("every") is not None:
                numbers[1] = parser.parse_integer()
                parser.parse_keyword("along")
                numbers[2] = parser.parse_integer()
        else:
            numbers = _parse_list(parser)
    return StringAttr(kind), ArrayAttr([NoneAttr() if n is None else IntAttr(n) for n in numbers])
