"""Nested tuples of integers: the coordinates, shapes and strides of CuTe, and how a coordinate becomes an index.

A shape is an integer or a tuple of shapes; its leaves, read from left to right, are the digits of a number whose first
digit counts fastest ("colexicographic"). So one place in a tile of shape ((2, 2), 4) has several names, and all mean
the same element: the integer 11, the pair (3, 2), the tree ((1, 1), 2).

    crd2idx(11, ((2, 2), 4), ((1, 8), 2))           13: digits (1, 1), 2 times strides (1, 8), 2
    idx2crd(11, ((2, 2), 4))                        ((1, 1), 2)
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product as cartesian
from typing import Any, Union

IntTuple = Union[int, tuple[Any, ...]]
"""An integer, or a tuple of IntTuples."""

MAX_DEPTH = 32
"""Nesting that text may have: bounds the parser's recursion."""


class LayoutError(ValueError):
    """A layout, coordinate or tiler that an operation isn't defined for; the message is the verifier's."""


def flatten(t: IntTuple) -> tuple[int, ...]:
    """The leaves from left to right."""
    if not isinstance(t, tuple):
        return (t,)
    return tuple(leaf for child in t for leaf in flatten(child))


def unflatten(leaves: tuple[int, ...], profile: IntTuple) -> IntTuple:
    """The tree of `profile` with these leaves in its leaves' places."""
    rest = iter(leaves)

    def build(p: IntTuple) -> IntTuple:
        return tuple(build(child) for child in p) if isinstance(p, tuple) else next(rest)
    return build(profile)


def size(t: IntTuple) -> int:
    """The product of the leaves."""
    n = 1
    for leaf in flatten(t):
        n *= leaf
    return n


def rank(t: IntTuple) -> int:
    """How many modes at the top: 1 for an integer."""
    return len(t) if isinstance(t, tuple) else 1


def depth(t: IntTuple) -> int:
    """Levels of nesting: 0 for an integer."""
    return 1 + max((depth(child) for child in t), default=0) if isinstance(t, tuple) else 0


def modes(t: IntTuple) -> tuple[IntTuple, ...]:
    """The children at the top; an integer is its own only mode."""
    return t if isinstance(t, tuple) else (t,)


def congruent(a: IntTuple, b: IntTuple) -> bool:
    """Whether two trees have the same profile."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(congruent, a, b))
    return not isinstance(a, tuple) and not isinstance(b, tuple)


def weakly_congruent(a: IntTuple, b: IntTuple) -> bool:
    """Whether a's profile can be had from b's by making leaves of subtrees: a coordinate `a` then fits a shape `b`."""
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(weakly_congruent, a, b))
    return True


def compatible(a: IntTuple, b: IntTuple) -> bool:
    """Whether every coordinate of shape a is one of shape b: b refines a's modes into ones of the same size."""
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(compatible, a, b))
    return a == size(b)


def map_leaves(f: Callable[[int], int], t: IntTuple) -> IntTuple:
    return tuple(map_leaves(f, child) for child in t) if isinstance(t, tuple) else f(t)


def compact_stride(shape: IntTuple, first: int = 1) -> IntTuple:
    """Strides that number the coordinates of `shape` from 0 without gaps, first leaf fastest."""
    out = []
    for leaf in flatten(shape):
        out.append(first)
        first *= leaf
    return unflatten(tuple(out), shape)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def shape_div(shape: IntTuple, divisor: int) -> tuple[IntTuple, int]:
    """(`shape` with its first `divisor` coordinates taken as one, what of the divisor is left). Raises LayoutError if
    a leaf neither divides the divisor nor is divided by it."""
    if isinstance(shape, tuple):
        out = []
        for child in shape:
            part, divisor = shape_div(child, divisor)
            out.append(part)
        return tuple(out), divisor
    if shape % divisor == 0:
        return shape // divisor, 1
    if divisor % shape == 0:
        return 1, divisor // shape
    raise LayoutError(f"failed to perform a valid division of {shape} by {divisor}")


def crd2idx(coord: IntTuple | None, shape: IntTuple, stride: IntTuple) -> int:
    """The index of a coordinate: digits times strides. None (an underscore) counts as 0.

    An integer where the shape has a tree is taken apart by the tree's extents; the last digit may be beyond its extent.
    Raises LayoutError for a coordinate with more structure than the shape."""
    if coord is None:
        return 0
    if isinstance(coord, tuple):
        if not isinstance(shape, tuple) or len(coord) != len(shape) or not isinstance(stride, tuple):
            raise LayoutError(f"expected a coordinate of rank {rank(shape)} but got {text(coord)}")
        return sum(map(crd2idx, coord, shape, stride))
    if not isinstance(shape, tuple):
        assert not isinstance(stride, tuple)
        return coord * stride
    leaves, steps = flatten(shape), flatten(stride)
    index = 0
    for i, (extent, step) in enumerate(zip(leaves, steps)):
        last = i + 1 == len(leaves)
        index += (coord if last else coord % extent) * step
        coord //= extent
    return index


def idx2crd(index: int, shape: IntTuple) -> IntTuple:
    """The natural coordinate (a tree as `shape`) of a one-dimensional coordinate."""
    digits = []
    for extent in flatten(shape):
        digits.append(index % extent)
        index //= extent
    return unflatten(tuple(digits), shape)


def coordinates(shape: IntTuple) -> Iterator[IntTuple]:
    """All natural coordinates, first leaf fastest."""
    for digits in cartesian(*(range(n) for n in reversed(flatten(shape)))):
        yield unflatten(tuple(reversed(digits)), shape)


def text(t: IntTuple | None) -> str:
    """As CuTe prints it: `((2,2),4)`, an underscore for None."""
    if t is None:
        return "_"
    return "(" + ",".join(map(text, t)) + ")" if isinstance(t, tuple) else str(t)


def parse(source: str, at: int = 0, level: int = 0) -> tuple[IntTuple, int]:
    """(the tree that begins at `at`, where it ends). Raises LayoutError."""
    if level > MAX_DEPTH:
        raise LayoutError("failed to parse layout descriptor: nested too deep")
    if source[at:at + 1] != "(":
        end = at
        while end < len(source) and "0" <= source[end] <= "9":
            end += 1
        if end == at or end - at > 18:
            raise LayoutError(f"failed to parse layout descriptor: expected a number at '{source[at:at + 8]}'")
        return int(source[at:end]), end
    out: list[IntTuple] = []
    at += 1
    if source[at:at + 1] == ")":
        return (), at + 1
    while True:
        child, at = parse(source, at, level + 1)
        out.append(child)
        separator = source[at:at + 1]
        at += 1
        if separator == ")":
            return tuple(out), at
        if separator != ",":
            raise LayoutError(f"failed to parse layout descriptor: expected ',' or ')' at '{source[at - 1:at + 7]}'")
