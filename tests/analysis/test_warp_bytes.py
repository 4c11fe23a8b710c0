"""Whether two accesses of one buffer make warps touch each other's bytes, held to a count of the bytes."""
from __future__ import annotations

import random

import pytest
from xdsl.dialects.builtin import IntAttr, f16, f32
from xdsl.ir import Block

from tests.conversion.tiles import tensor
from tileiras.analysis.warp_bytes import WarpBytes, warp_bytes
from tileiras.dialects.nv_tileas import AllocTensor, BufferType, SharedLayoutAttr, StoreShared
from tileiras.layout.linear import LinearLayout, blocked
from tileiras.layout.shared import SharedLayout


def touched(bytes_: WarpBytes, warp: int) -> set[int]:
    """One by one: the bytes of a warp."""
    start = 0
    for bit, basis in enumerate(bytes_.warps):
        start ^= basis if warp >> bit & 1 else 0
    out = {start}
    for basis in bytes_.inside:
        out |= {x ^ basis for x in out}
    return out


def crosses(a: WarpBytes, b: WarpBytes) -> bool:
    warps = range(1 << len(a.warps))
    return any(v != w and touched(a, v) & touched(b, w) for v in warps for w in warps)


@pytest.mark.parametrize("seed", range(60))
def test_crossing_is_two_warps_that_share_a_byte(seed: int) -> None:
    draw = random.Random(seed)

    def one() -> WarpBytes:
        return WarpBytes(tuple(draw.randrange(64) for _ in range(draw.randrange(4))), tuple(draw.randrange(64) for _ in range(2)))
    a, b = one(), one()
    if seed % 2:        # most random pairs cross: one that moves warps alike often doesn't
        b = WarpBytes(b.inside, a.warps)
    assert a.crosses(b) == crosses(a, b)


def test_both_answers_come() -> None:
    own = WarpBytes((1, 2), (4, 8))
    assert not own.crosses(own)
    assert own.crosses(WarpBytes((1, 2), (8, 4)))       # warps 1 and 2 have changed places
    assert own.crosses(WarpBytes((1, 2, 4), (8, 16)))
    assert own.crosses(WarpBytes((1, 2), (4,)))         # another number of warps: nothing is known


def test_a_store_touches_what_its_layout_says() -> None:
    layout = blocked((16, 32), 4, 4)
    swizzled = SharedLayout.swizzled((16, 32), 2)
    block = Block(arg_types=[tensor(layout, f16), BufferType(f16, SharedLayoutAttr(swizzled))])
    found = warp_bytes(StoreShared.make([block.args[0], block.args[1]]))
    assert found is not None
    for warp in range(4):
        own = {2 * swizzled.offset(layout.index(register, lane, warp)) + byte
               for register in range(layout.num_regs) for lane in range(32) for byte in range(2)}
        assert touched(found, warp) == own


def test_what_all_warps_hold_every_warp_writes() -> None:
    copies = LinearLayout((32,), (), (1, 2, 4, 8, 16), (0, 0))
    buffer = BufferType(f32, SharedLayoutAttr(SharedLayout.row_major((32,))))
    alloc = AllocTensor.make([], [buffer], {"offset": IntAttr(0)})
    block = Block(arg_types=[tensor(copies, f32)])
    found = warp_bytes(StoreShared.make([block.args[0], alloc.results[0]]))
    assert found is not None and found.crosses(found)
