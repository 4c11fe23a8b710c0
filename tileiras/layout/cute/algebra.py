"""Layouts as functions from coordinates to indices, and the operations that make new ones of them.

    A = Layout((6, 2), (8, 2))              A(i, j) = 8 i + 2 j; as a function of one number, i + 6 j -> 8 i + 2 j
    A(9) == A(3, 1) == 26

Every operation is defined by what it does to that function, and only the answer's spelling is a choice:

    coalesce(A)             the same function with the fewest modes
    composition(A, B)       c -> A(B(c)), with B's modes: choosing and ordering elements of A
    complement(A, n)        the repetition that covers 0 .. n-1 when A is put at each of its indices; ordered, disjoint
    right_inverse(A)        R with A(R(i)) = i, as far as A's image is 0, 1, 2, ...
    left_inverse(A)         L with L(A(c)) = c

`composition` isn't always a layout: stepping through (4, 2):(1, 10) by threes doesn't have equal steps. It then raises
LayoutError; with powers of two whose sums don't carry that never happens. Strides aren't negative.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Union

from tileiras.layout.cute.tuples import (
    IntTuple,
    LayoutError,
    ceil_div,
    compact_stride,
    congruent,
    crd2idx,
    flatten,
    idx2crd,
    modes,
    parse,
    rank,
    size,
    text,
    unflatten,
)


@dataclass(frozen=True)
class Layout:
    """`shape` and `stride`, trees of the same profile. Without strides: compact, first mode fastest."""

    shape: IntTuple
    stride: IntTuple = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.stride is None:
            object.__setattr__(self, "stride", compact_stride(self.shape))
        elif not congruent(self.shape, self.stride):
            raise LayoutError(f"shape {text(self.shape)} and stride {text(self.stride)} must be congruent")
        if any(n < 1 for n in flatten(self.shape)) or any(d < 0 for d in flatten(self.stride)):
            raise LayoutError(f"input type [{self}] has invalid values.")

    def __call__(self, *coord: Any) -> int:
        """The index at a coordinate: one number, one a mode, or a tree."""
        return crd2idx(coord[0] if len(coord) == 1 else coord, self.shape, self.stride)

    def __getitem__(self, mode: int) -> Layout:
        return self.modes[mode]

    @cached_property
    def modes(self) -> tuple[Layout, ...]:
        return tuple(Layout(s, d) for s, d in zip(modes(self.shape), modes(self.stride)))

    @property
    def rank(self) -> int:
        return rank(self.shape)

    @cached_property
    def leaves(self) -> tuple[tuple[int, int], ...]:
        """(extent, stride) of each leaf, from left to right."""
        return tuple(zip(flatten(self.shape), flatten(self.stride)))

    @cached_property
    def size(self) -> int:
        """How many coordinates."""
        return size(self.shape)

    @cached_property
    def cosize(self) -> int:
        """One more than the greatest index."""
        return 1 + sum((n - 1) * d for n, d in self.leaves)

    def natural(self, index: int) -> IntTuple:
        """The tree of digits of a one-dimensional coordinate."""
        return idx2crd(index, self.shape)

    def image(self) -> list[int]:
        """The function's values at 0 .. size - 1."""
        return [self(i) for i in range(self.size)]

    def __str__(self) -> str:
        return f"{text(self.shape)}:{text(self.stride)}"


Tiler = Union[Layout, IntTuple]
"""What tiles a layout: a Layout over all of its elements, or a tuple of Tilers, one a mode; n stands for n:1."""


def parse_layout(source: str) -> Layout:
    """A layout as it prints: `((2,2),4):((1,8),2)`, blanks allowed. Raises LayoutError."""
    compact = source.replace(" ", "").replace("\t", "")
    shape, at = parse(compact)
    if at == len(compact):
        return Layout(shape)
    if compact[at] != ":":
        raise LayoutError("failed to parse layout descriptor: expected ':' between shape and stride")
    stride, at = parse(compact, at + 1)
    if at != len(compact):
        raise LayoutError("unexpected trailing layout text")
    return Layout(shape, stride)


def make_layout(*layouts: Layout) -> Layout:
    """The layout with these as its modes."""
    return Layout(tuple(x.shape for x in layouts), tuple(x.stride for x in layouts))


def make_ordered_layout(shape: IntTuple, order: IntTuple) -> Layout:
    """Compact strides in the order of the leaves' ranks in `order`, the least fastest. Equal ranks count from the left."""
    if rank(shape) != rank(order):
        raise LayoutError(f"expects target shape and order operands have same rank, but got {text(shape)} and {text(order)}")
    ranks: list[int] = []
    for part, of in zip(modes(shape), modes(order)):
        ranks += flatten(of) if congruent(part, of) else [flatten(of)[0]] * len(flatten(part))
    extents = flatten(shape)
    strides = [0] * len(extents)
    step = 1
    for i in sorted(range(len(extents)), key=lambda i: (ranks[i], i)):
        strides[i] = step
        step *= extents[i]
    return Layout(shape, unflatten(tuple(strides), shape))


def _of_leaves(leaves: Sequence[tuple[int, int]]) -> Layout:
    """A layout of these modes: of rank 1 and depth 0 when there is one, 1:0 when there is none."""
    if not leaves:
        return Layout(1, 0)
    if len(leaves) == 1:
        return Layout(*leaves[0])
    return Layout(tuple(n for n, _ in leaves), tuple(d for _, d in leaves))


def coalesce(layout: Layout, profile: IntTuple | None = None) -> Layout:
    """The same function of one number with the fewest modes; with a `profile`, so in each of its leaves' modes."""
    if isinstance(profile, tuple):
        if len(profile) > layout.rank:
            raise LayoutError(f"unable to coalesce input of type {layout}")
        done = [coalesce(mode, p) for mode, p in zip(layout.modes, profile)]
        return make_layout(*done, *layout.modes[len(profile):])
    out: list[tuple[int, int]] = []
    for n, d in layout.leaves:
        if n == 1:
            continue
        if out and d == out[-1][0] * out[-1][1]:
            out[-1] = out[-1][0] * n, out[-1][1]
        else:
            out.append((n, d))
    return _of_leaves(out)


def filter_zeros(layout: Layout) -> Layout:
    """Modes that don't move (stride 0) become of extent 1; the profile stays."""
    shape = tuple(1 if d == 0 else n for n, d in layout.leaves)
    return Layout(unflatten(shape, layout.shape), layout.stride)


def filtered(layout: Layout) -> Layout:
    """The layout of the distinct indices: coalesced, without modes that don't move."""
    return coalesce(filter_zeros(layout))


def composition(a: Layout, b: Tiler | None) -> Layout:
    """c -> a(b(c)) with modes that refine b's. A tuple is applied mode by mode, None leaves a mode as it is.

    Indices of b beyond a's size go on in a's last mode. Raises LayoutError where the function isn't a layout."""
    if b is None:
        return a
    if isinstance(b, tuple):
        if len(b) > a.rank:
            raise LayoutError(f"expects rank(tiler) <= rank(input), but got input={a.rank} and tiler={len(b)}")
        return make_layout(*map(composition, a.modes, b), *a.modes[len(b):])
    if isinstance(b, int):
        b = Layout(b, 1)
    flat = coalesce(a)
    used = [0] * len(flat.leaves)

    def build(shape: IntTuple, stride: IntTuple) -> Layout:
        if isinstance(shape, tuple):
            assert isinstance(stride, tuple)
            return make_layout(*map(build, shape, stride))
        assert not isinstance(stride, tuple)
        leaves = []
        for mode, n, step in _step_through(flat, shape, stride):
            used[mode] += (n - 1) * step
            leaves.append((n, step * flat.leaves[mode][1]))
        return _of_leaves(leaves)
    found = build(b.shape, b.stride)
    # each of b's modes steps through a's digits by itself; together they must not carry from one digit to the next
    if any(last >= n for last, (n, _) in zip(used, flat.leaves[:-1])):
        raise LayoutError(f"failed to perform a valid division of {a} by {b}: its modes' sums aren't sums of {a}'s")
    return found


def _step_through(a: Layout, n: int, step: int) -> Iterator[tuple[int, int, int]]:
    """(mode of a, extent, step in that mode) of the n elements 0, step, 2 * step, ... of a flat layout."""
    last = len(a.leaves) - 1
    if step == 0 or n == 1:
        yield last, n, 0
        return
    wanted = f"failed to perform a valid division of {a} by {n}:{step}"
    for i, (extent, _) in enumerate(a.leaves):
        if i == last or (n - 1) * step < extent:
            # all the rest runs inside this mode
            yield i, n, step
            return
        if step % extent == 0:
            step //= extent
            continue
        if extent % step:
            raise LayoutError(f"{wanted}: {step} and {extent} don't divide")
        part = min(extent // step, n)
        if n % part:
            raise LayoutError(f"{wanted}: {part} doesn't divide {n}")
        yield i, part, step
        n //= part
        step = 1
        if n == 1:
            return


def complement(layout: Layout, cotarget: IntTuple = 1) -> Layout:
    """The ordered layout whose indices, added to those of `layout`, give distinct ones from 0 past size(cotarget) - 1.

    Between modes that aren't multiples of each other the rest of the gap stays open. Raises LayoutError if
    `layout` itself maps two coordinates to one index (modes that don't move apart)."""
    found: list[tuple[int, int]] = []
    reached = 1
    for d, n in sorted((d, n) for n, d in filtered(layout).leaves if n > 1):
        if d < reached:
            raise LayoutError(f"the complement of {layout} doesn't exist: it isn't injective")
        found.append((d // reached, reached))
        reached = d * n
    found.append((ceil_div(size(cotarget), reached), reached))
    return coalesce(_of_leaves(found))


def right_inverse(layout: Layout) -> Layout:
    """R with layout(R(i)) = i for all its i, as long as modes that continue one another allow."""
    before = 1
    by_stride = []
    for n, d in layout.leaves:
        by_stride.append((d, n, before))
        before *= n
    out: list[tuple[int, int]] = []
    reached = 1
    for d, n, at in sorted(by_stride):
        if n == 1 or d < reached:
            continue
        if d != reached:
            break
        out.append((n, at))
        reached = d * n
    return coalesce(_of_leaves(out))


def left_inverse(layout: Layout) -> Layout:
    """L with L(layout(c)) = c for every one-dimensional c; what `layout` doesn't reach goes to a multiple of its size.

    Raises LayoutError if `layout` isn't injective, or if a gap between its modes isn't whole copies of what lies below."""
    rest = complement(layout)
    full = make_layout(layout, rest)
    inverse = right_inverse(full)
    if inverse.size < layout.cosize:
        raise LayoutError(f"unable to compute a left inverse for input {layout}")
    return inverse


def max_common_layout(a: Layout, b: Layout) -> Layout:
    """The longest n:1-like prefix I with a(I(i)) = b(I(i)) = i: the run that both place alike from index 0 on."""
    inverse = right_inverse(b)
    common = coalesce(composition(a, inverse))
    n, d = common.leaves[0]
    return composition(inverse, Layout(n, 1)) if d == 1 else Layout(1, 0)


def max_common_vector(a: Layout, b: Layout) -> int:
    """How many elements at the front lie contiguously, and alike, in both: how wide a copy may be."""
    return max_common_layout(a, b).size


def upcast(layout: Layout, count: int) -> Layout:
    """The layout of elements `count` times as wide: `count` neighbours become one. Raises LayoutError where a stride
    and the count don't divide."""
    out = []
    for n, d in layout.leaves:
        if d == 0:
            out.append((n, d))
            continue
        run = ceil_div(count, d)
        if (d % count and count % d) or (n % run and run % n):
            raise LayoutError(f"unable to recast layout {layout}")
        out.append((ceil_div(n, run), ceil_div(d, count)))
    return Layout(unflatten(tuple(n for n, _ in out), layout.shape), unflatten(tuple(d for _, d in out), layout.stride))


def downcast(layout: Layout, count: int) -> Layout:
    """The layout of elements one `count`-th as wide: each becomes `count` neighbours, in the mode of stride 1.

    Raises LayoutError where there is no such mode."""
    unit = max((n, i) for i, (n, d) in enumerate(layout.leaves) if d == 1)[1] if any(d == 1 for _, d in layout.leaves) else None
    if unit is None:
        raise LayoutError(f"unable to recast layout {layout}")
    out = [(n * count, d) if i == unit else (n, d * count) for i, (n, d) in enumerate(layout.leaves)]
    return Layout(unflatten(tuple(n for n, _ in out), layout.shape), unflatten(tuple(d for _, d in out), layout.stride))


def recast_layout(layout: Layout, old_bits: int, new_bits: int) -> Layout:
    """The layout of the same bytes as elements of another width."""
    if new_bits >= old_bits and new_bits % old_bits == 0:
        return upcast(layout, new_bits // old_bits)
    if old_bits % new_bits == 0:
        return downcast(layout, old_bits // new_bits)
    raise LayoutError(f"unable to recast layout {layout}")
