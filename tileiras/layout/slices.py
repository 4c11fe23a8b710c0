"""How a slice gets out of a tile, or into one: by registers and shuffles, or through a buffer in shared memory."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tileiras.layout.convert import Noop, RegisterPermute, ThroughShared, plan_conversion
from tileiras.layout.f2 import solve
from tileiras.layout.linear import LinearLayout, dim_bits
from tileiras.layout.shape_rules import embed, slice_bits
from tileiras.layout.shared import SharedLayout, between
from tileiras.layout.shuffle import WarpShuffle


def single(whole: LinearLayout) -> LinearLayout:
    """The layout of a slice of one element, which all threads hold."""
    return LinearLayout((1,) * len(whole.shape), (), (0,) * len(whole.lane), (0,) * len(whole.warp))


def direct_slice(whole: LinearLayout, part: LinearLayout, number: int | None,
                 elem_bits: int) -> tuple[int, Noop | RegisterPermute | WarpShuffle] | None:
    """How slice `number` gets out without shared memory: (registers to XOR, plan of the rest); None if it can't, or if the
    number is known at run time only."""
    if number is None:
        return None
    flat = sum(bit for i, bit in enumerate(slice_bits(whole.shape, part.shape)) if number >> i & 1)
    start = solve(whole.reg, [flat])[0]
    if start is None:
        return None
    plan = plan_conversion(whole, embed(part, whole.shape), elem_bits)
    return None if isinstance(plan, ThroughShared) else (start, plan)


def part_in_registers(whole: LinearLayout, dim: int, extent: int) -> LinearLayout | None:
    """The layout of a tile's part of so many elements along a dimension, if threads hold each part in registers of its own; else
    None."""
    part = tuple(extent if d == dim else n for d, n in enumerate(whole.shape))
    outside = set(slice_bits(whole.shape, part))
    kept = [index for index in whole.reg if index not in outside]
    others = (*kept, *whole.lane, *whole.warp)
    if len(whole.reg) - len(kept) != len(outside) or any(index & bit for index in others for bit in outside):
        return None

    def inside(indices: Iterable[int]) -> tuple[int, ...]:
        return tuple(sum(x << low for x, (low, _) in zip(whole.coords(index), dim_bits(part))) for index in indices)
    return LinearLayout(part, inside(kept), inside(whole.lane), inside(whole.warp))


def of_parts(part: LinearLayout, whole: Sequence[int]) -> LinearLayout:
    """The layout of a tile of which threads hold such parts in registers one behind the other, in their number's order."""
    inside = embed(part, whole)
    return LinearLayout(tuple(whole), (*inside.reg, *slice_bits(whole, part.shape)), inside.lane, inside.warp)


@dataclass(frozen=True)
class SliceBuffer:
    """A buffer for one slice of a tile, over the tile's index. rounds: masks over that index, first those that number the
    slices (`slices` many), then those that number the rounds in which a large slice goes."""

    shared: SharedLayout
    slices: int
    rounds: tuple[int, ...]

    @property
    def num_rounds(self) -> int:
        return 1 << len(self.rounds) - self.slices


def slice_buffer(whole: LinearLayout, part: LinearLayout, elem_bytes: int, writer_is_whole: bool, budget: int) -> SliceBuffer:
    """The buffer by which a slice leaves a tile (`writer_is_whole`) or enters it, of at most `budget` bytes."""
    inner = embed(part, whole.shape)
    slices = slice_bits(whole.shape, part.shape)
    inside = [1 << low + i for (low, _), (_, bits) in zip(dim_bits(whole.shape), dim_bits(part.shape))
              for i in reversed(range(bits))]
    halvings = 0
    while part.size * elem_bytes >> halvings > budget:
        halvings += 1
    rounds = (*slices, *inside[:halvings])
    writer, reader = (whole, inner) if writer_is_whole else (inner, whole)
    return SliceBuffer(between(writer, reader, elem_bytes, rounds), len(slices), rounds)
