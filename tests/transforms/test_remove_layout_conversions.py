"""`remove-layout-conversions`: what is cheap is computed again, casts that widen come after the conversion, nothing twice."""
from __future__ import annotations

from xdsl.dialects.builtin import FloatAttr, IntAttr, IntegerAttr, ModuleOp, StringAttr, f16, f32, i32
from xdsl.ir import Block, Operation, Region, SSAValue

from tests.conversion.tiles import tensor
from tileiras.analysis.layout_rules import check
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.nv_tileas import layout_of
from tileiras.layout.linear import blocked
from tileiras.transforms import remove_layout_conversions

ROWS = blocked((64, 64), 4, 4)
COLUMNS = blocked((64, 64), 4, 4, (0, 1))
"""Between these two, elements change warps: only shared memory carries them."""


def convert(v: SSAValue, layout=COLUMNS) -> Operation:
    return nv_tileas.ConvertLayout.make([v], [tensor(layout, v.type.element_type)])  # type: ignore[attr-defined]


def after(block: Block) -> list[str]:
    """The names of the block's ops after the pass."""
    block.add_op(nv_tileas.Return.make())
    func = nv_tileas.Func.make([], [], {"sym_name": StringAttr("f"), "num_warps": IntAttr(4)}, [Region(block)])
    module = ModuleOp([func])
    remove_layout_conversions.run(module, None)
    assert not [op.name for op in module.walk() if check(op)]
    return [op.name.partition(".")[2] for op in block.ops][:-1]


def use(*values: SSAValue) -> Operation:
    return nv_tileas.Print.make([list(values), None], [None], {"format": StringAttr("")})


def test_a_few_ops_on_constants_are_computed_again() -> None:
    block = Block()
    zero = arith.Constant.make([], [tensor(ROWS, i32)], {"value": IntegerAttr(0, i32)})
    total = arith.Addi.make([zero.results[0], zero.results[0]], [tensor(ROWS, i32)])
    moved = convert(total.results[0])
    block.add_ops([zero, total, moved, use(moved.results[0])])
    assert after(block) == ["constant", "addi", "print"]
    assert all(layout_of(op.results[0]) == COLUMNS for op in list(block.ops)[:2])


def test_what_is_loaded_or_dear_is_converted() -> None:
    block = Block(arg_types=[tensor(ROWS, f32)])
    angle = block.args[0]
    moved = convert(angle)
    one = arith.Constant.make([], [tensor(ROWS, f32)], {"value": FloatAttr(1.0, f32)})
    sines = [arith.Sin.make([one.results[0]], [tensor(ROWS, f32)])]
    for _ in range(4):
        sines.append(arith.Sin.make([sines[-1].results[0]], [tensor(ROWS, f32)]))
    dear = convert(sines[-1].results[0])
    block.add_ops([one, *sines, moved, dear, use(moved.results[0], dear.results[0])])
    assert after(block) == ["constant", *["sin"] * 5, "convert_layout", "convert_layout", "print"]


def test_the_narrow_tile_moves_not_the_wide_one() -> None:
    block = Block(arg_types=[tensor(ROWS, f16)])
    wide = arith.Convertf.make([block.args[0]], [tensor(ROWS, f32)])
    moved = convert(wide.results[0])
    block.add_ops([wide, moved, use(moved.results[0])])
    assert after(block) == ["convert_layout", "convertf", "print"]
    narrow = next(iter(block.ops))
    assert narrow.results[0].type == tensor(COLUMNS, f16)


def test_a_tile_that_both_layouts_need_is_widened_once() -> None:
    block = Block(arg_types=[tensor(ROWS, f16)])
    wide = arith.Convertf.make([block.args[0]], [tensor(ROWS, f32)])
    moved = convert(wide.results[0])
    block.add_ops([wide, moved, use(wide.results[0], moved.results[0])])
    assert after(block) == ["convertf", "convert_layout", "print"]


def test_conversions_meet() -> None:
    """One there and back is none; two to the same layout are one."""
    block = Block(arg_types=[tensor(ROWS, f32)])
    x = block.args[0]
    there, again = convert(x), convert(x)
    back = convert(there.results[0], ROWS)
    block.add_ops([there, back, again, use(back.results[0], again.results[0])])
    assert after(block) == ["convert_layout", "print"]
    printed = list(block.ops)[1]
    assert printed.operands[0] is x
