"""What each op asks of its tensors' layouts, by layouts that keep the rule and layouts that break it."""
from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntAttr, IntegerAttr, ModuleOp, StringAttr, TensorType, f16, f32, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tests.conversion.tiles import tensor
from tileiras.analysis.layout_rules import check
from tileiras.dialects import arith, nv_tileas
from tileiras.errors import CompileError
from tileiras.layout.linear import LinearLayout, blocked
from tileiras.layout.shape_rules import cat_layout
from tileiras.pipeline import verify_after

ROWS = blocked((32, 64), 4, 4)
COLUMNS = blocked((32, 64), 4, 4, (0, 1))


def value(layout: LinearLayout, element: Attribute = f32) -> SSAValue:
    return arith.Constant.make([], [tensor(layout, element)], {"value": FloatAttr(0.0, f32)}).results[0]


def permutation(*dims: int) -> dict:
    return {"permutation": ArrayAttr([IntAttr(d) for d in dims])}


def body() -> Region:
    return Region(Block(arg_types=[f32, f32]))


def view(source: LinearLayout, result: LinearLayout) -> Operation:
    return nv_tileas.View.make([value(source)], [tensor(result, f32)])


def reduce(source: LinearLayout, result: LinearLayout) -> Operation:
    return nv_tileas.Reduce.make([[value(source)]], [[tensor(result, f32)]],
                                 {"dim": IntegerAttr(1, i32), "identities": ArrayAttr([])}, [body()])


KEPT = {
    "one layout": arith.Addf.make([value(ROWS), value(ROWS)], [tensor(ROWS, f32)]),
    "a view renames": view(ROWS, ROWS.reshape((2048,))),
    "a permutation moves bits": nv_tileas.Permute.make([value(ROWS)], [tensor(ROWS.permute((1, 0)), f32)], permutation(1, 0)),
    "a broadcast's operand is its result without the dimension": nv_tileas.Broadcast.make(
        [value(ROWS.project((32, 1)).compact_regs())], [tensor(ROWS, f32)]),
    # Four columns in a thread's registers and sixteen lanes: what is left of each row is one element in sixteen lanes.
    "a reduction leaves what stepped along other dimensions": reduce(
        ROWS, LinearLayout((32,), tuple(b // 64 for b in ROWS.reg if b >= 64), (0, 0, 0, 0, 1), (2, 4))),
    "cat's operands are halves of its result": nv_tileas.Cat.make(
        [value(h := LinearLayout((32, 64), (*ROWS.reg, 0), ROWS.lane, ROWS.warp)), value(h)],
        [tensor(cat_layout(ROWS, 0), f32)], {"dim": IntegerAttr(0, i32)}),
    "what is printed may lie as it likes": nv_tileas.Print.make([[value(ROWS), value(COLUMNS)], None], [None],
                                                               {"format": StringAttr("")}),
}
BROKEN = {
    "needs one layout": arith.Addf.make([value(ROWS), value(COLUMNS)], [tensor(ROWS, f32)]),
    "needs the layout <reg": view(ROWS, blocked((2048,), 4, 8)),
    "for its operand": nv_tileas.Broadcast.make([value(blocked((32, 1), 4, 1))], [tensor(ROWS, f32)]),
    "for its result": reduce(ROWS, blocked((32,), 4, 1)),
    # Lane bit 0 steps along both dimensions at once.
    "whose dimension it can walk": reduce(
        mixed := LinearLayout((32, 64), ROWS.reg, (4 | 64, *ROWS.lane[1:]), ROWS.warp), mixed.drop(1)),
}


@pytest.mark.parametrize("name", KEPT)
def test_rules_that_are_kept(name: str) -> None:
    assert check(KEPT[name]) is None


@pytest.mark.parametrize("message", BROKEN)
def test_rules_that_are_broken(message: str) -> None:
    said = check(BROKEN[message])
    assert said is not None and message in said


def dot(acc: LinearLayout, **attributes) -> Operation:
    operands = [value(blocked((32, 64), 4, 4), f16), value(blocked((64, 64), 4, 4), f16), value(acc)]
    return nv_tileas.Dot.make(operands, [tensor(acc, f32)], {"atom": StringAttr("mma.m16n8k16.row.col.f32.f32"), **attributes})


def test_a_dot_has_its_instruction_s_fragments_once_it_is_staged() -> None:
    """16 x 8 accumulators (PTX ISA, m16n8k16): lane / 4 is the row, lane % 4 * 2 the column; a register steps to the next
    column, the next to row + 8. A warp bit goes over rows (16), one over columns, of which each warp has half (32), registers
    over the rest."""
    acc = LinearLayout((32, 64), (1, 8 * 64, 8, 16), (2, 4, 64, 128, 256), (16 * 64, 32))
    assert "needs a layout" in str(check(dot(ROWS, k_slices=IntAttr(1))))
    assert check(dot(acc, k_slices=IntAttr(1))) is None
    assert check(dot(acc)) is not None, "its operands are no fragments"


def func(*ops: Operation) -> ModuleOp:
    attributes = {"sym_name": StringAttr("f"), "num_warps": IntAttr(4)}
    return ModuleOp([nv_tileas.Func.make([], [], attributes, [Region(Block([*ops, nv_tileas.Return.make()]))])])


def test_a_function_is_placed_as_a_whole_or_not_at_all() -> None:
    """Before layouts are assigned there is nothing to break; then every op is held to its rules, every tensor to a layout."""
    def constant(t: Attribute) -> Operation:
        return arith.Constant.make([], [t], {"value": FloatAttr(0.0, f32)})
    bare = TensorType(f32, (32, 64))
    verify_after(func(constant(bare)), "x")
    x = constant(tensor(ROWS, f32))
    with pytest.raises(CompileError, match="the pass 'x' left an invalid module: 'arith"):
        verify_after(func(x, arith.Negf.make([x.results[0]], [tensor(COLUMNS, f32)])), "x")
    with pytest.raises(CompileError, match="a tensor without a layout"):
        verify_after(func(constant(tensor(ROWS, f32)), constant(bare)), "x")
