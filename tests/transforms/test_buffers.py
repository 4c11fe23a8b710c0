"""`share-buffers`: repeated buffers become one. `hoist-buffers`: buffers of loop-invariant tiles are made once, before the loop;
both only as far as shared memory has room. `hoist-conversions`: so are conversions."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import FloatAttr, ModuleOp, StringAttr, f32, i32
from xdsl.ir import Block, Operation, Region

from tests.conversion.tiles import tensor
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.nv_tileas import (
    AllocTensor,
    BufferType,
    ConvertLayout,
    LoadShared,
    SharedLayoutAttr,
    StoreShared,
)
from tileiras.layout.linear import blocked
from tileiras.layout.shared import SharedLayout
from tileiras.machine.targets import find_target
from tileiras.transforms import hoist_buffers, hoist_conversions, share_buffers


@dataclass
class Options:
    target: Any


def loop_with_buffer(shape: tuple[int, int], invariant: bool) -> tuple[ModuleOp, Operation]:
    """for ...: %b = alloc; store %x, %b; load %b, where %x is the function's tile or one made in the loop."""
    t = tensor(blocked(shape, 4, 4), f32)
    other = tensor(blocked(shape, 4, 4, (0, 1)), f32)
    outer = Block(arg_types=[i32, i32, i32, t])
    body = Block(arg_types=[i32])
    x = outer.args[3]
    if not invariant:
        body.add_op(double := arith.Addf.make([x, x], [t]))
        x = double.results[0]
    alloc = AllocTensor.make([], [BufferType(f32, SharedLayoutAttr(SharedLayout.row_major(shape)))])
    for op in (alloc, StoreShared.make([x, alloc.results[0]]), LoadShared.make([alloc.results[0]], [t]),
               ConvertLayout.make([x], [other]), arith.Yield.make([[]])):
        body.add_op(op)
    loop = arith.For.make([outer.args[0], outer.args[1], outer.args[2], []], [[]], {}, [Region(body)])
    outer.add_op(loop)
    outer.add_op(nv_tileas.Return.make())  # type: ignore[attr-defined]
    func = nv_tileas.Func.make([], [], {"sym_name": StringAttr("f")}, [Region(outer)])  # type: ignore[attr-defined]
    return ModuleOp([func]), loop


def names(block: Block) -> list[str]:
    return [op.name.removeprefix("nv_tileas.") for op in block.ops]


def test_what_does_not_change_is_done_before_the_loop() -> None:
    module, loop = loop_with_buffer((32, 32), invariant=True)
    hoist_conversions.run(module)
    hoist_buffers.run(module, Options(find_target("sm_80")))
    assert names(loop.regions[0].block) == ["load_shared", "scf.yield"]
    assert names(loop.parent) == ["convert_layout", "alloc_tensor", "store_shared", "scf.for", "return"]  # type: ignore[arg-type]


def test_what_changes_stays() -> None:
    module, loop = loop_with_buffer((32, 32), invariant=False)
    before = names(loop.regions[0].block)
    assert before == ["arith.addf", "alloc_tensor", "store_shared", "load_shared", "convert_layout", "scf.yield"]
    hoist_conversions.run(module)
    hoist_buffers.run(module, Options(find_target("sm_80")))
    assert names(loop.regions[0].block) == before


def test_a_buffer_that_does_not_fit_stays_where_it_is() -> None:
    """64 x 256 f32 is 64 KiB: with what is kept back more than sm_75's, less than sm_80's 163 and sm_90's 227. Four times as much
    is more than any."""
    for name, rows, moves in (("sm_75", 64, False), ("sm_80", 64, True), ("sm_80", 256, False), ("sm_90", 64, True),
                              ("sm_90", 256, False)):
        module, loop = loop_with_buffer((rows, 256), invariant=True)
        hoist_buffers.run(module, Options(find_target(name)))
        left = ["load_shared", "convert_layout", "scf.yield"]
        assert names(loop.regions[0].block) == (left if moves else ["alloc_tensor", "store_shared", *left])


def test_the_same_tile_is_written_once_if_the_buffer_can_live_longer() -> None:
    """Two buffers of 16 KiB with nothing between them, with 32 KiB (just fits), with 64 KiB (nothing fits sm_80's 48)."""
    for between, shared in ((None, True), ((64, 128), True), ((64, 256), False)):
        shape = (64, 64)
        t = tensor(blocked(shape, 4, 4), f32)
        outer = Block(arg_types=[t])
        x = outer.args[0]

        def read_back(source, shape=shape, t=t, outer=outer):
            alloc = AllocTensor.make([], [BufferType(f32, SharedLayoutAttr(SharedLayout.row_major(shape)))])
            for op in (alloc, StoreShared.make([source, alloc.results[0]]), LoadShared.make([alloc.results[0]], [t])):
                outer.add_op(op)
        read_back(x)
        if between is not None:
            big = tensor(blocked(between, 4, 4), f32)
            splat = arith.Constant.make([], [big], {"value": FloatAttr(0.0, f32)})
            outer.add_op(splat)
            read_back(splat.results[0], between, big)
        read_back(x)
        outer.add_op(nv_tileas.Return.make())
        module = ModuleOp([nv_tileas.Func.make([], [], {"sym_name": StringAttr("f")}, [Region(outer)])])
        share_buffers.run(module, Options(find_target("sm_80")))
        assert names(outer).count("alloc_tensor") == (1 if shared else 2) + (between is not None)
