"""Canonicalization: what single rules do, and that programs compute what they computed."""
from __future__ import annotations

import random
from typing import Any

import pytest
from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    f32,
    f64,
)
from xdsl.ir import Block, Region

from tests.integer_programs import Program, Undefined, evaluate
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.pipeline import PIPELINE
from tileiras.transforms import cse, dce, hoist_invariants, simplify

I1, I32, I64 = IntegerType(1), IntegerType(32), IntegerType(64)
PTR = aa.PtrType(f32)
TOKEN = aa.MemTokenType()
WEAK = {"mem_semantic": StringAttr("weak")}


def canonicalize(func, opt_level: int = 3) -> None:
    """What the pipeline does to a function between the two conversions."""
    for entry in PIPELINE:
        if entry.level == "nv_tileaa" and not entry.name.startswith("convert-") and entry.min_opt <= opt_level:
            entry.apply(func, CompileOptions(find_target("sm_80")))


class Builder:
    """A function whose `keep` marks results as used."""

    def __init__(self, *types) -> None:
        self.block = Block(arg_types=types)
        self.args = self.block.args
        self.func = aa.Func.make((), (), {"sym_name": StringAttr("f")}, [Region(self.block)])

    def __call__(self, cls, operands, t, attrs=None):
        op = cls.make(operands, [t], attrs)
        self.block.add_op(op)
        return op.results[0]

    def const(self, value, t: Any = I32):
        element = t.element_type if isinstance(t, TensorType) else t
        attr = FloatAttr(value, element) if isinstance(value, float) else IntegerAttr(value, element)
        return self(arith.Constant, [], t, {"value": attr})

    def keep(self, *values):
        self.kept = aa.Print.make([list(values), None], [None], {"format": StringAttr("%d" * len(values))})
        self.block.add_op(self.kept)

    def names(self):
        return [op.name for op in self.func.walk() if op is not self.func]


@pytest.mark.parametrize("seed", range(120))
def test_programs_compute_the_same(seed):
    program = Program(seed, 40)
    rng = random.Random(seed)
    runs = []
    for _ in range(3):
        arguments = program.arguments(rng)
        try:
            runs.append((arguments, evaluate(program.func, arguments)[1]))
        except Undefined:
            continue
    canonicalize(program.func)
    program.func.verify()
    for arguments, printed in runs:
        assert evaluate(program.func, arguments)[1] == printed


def test_float_identities_that_hold_for_every_value():
    """x - 0 and x * 1 are x; x + 0 isn't (-0), nor x * 1 where subnormals are flushed, nor x - 0 rounding down."""
    b = Builder(f32)
    x, zero, one = b.args[0], b.const(0.0, f32), b.const(1.0, f32)
    nearest, down = {"rounding": StringAttr("nearest_even")}, {"rounding": StringAttr("negative_inf")}
    b.keep(b(arith.Subf, [x, zero], f32, nearest), b(arith.Mulf, [x, one], f32, nearest),
           b(arith.Addf, [x, zero], f32, nearest), b(arith.Mulf, [x, one], f32, {**nearest, "ftz": UnitAttr()}),
           b(arith.Subf, [x, zero], f32, down), b(arith.Mulf, [x, zero], f32, nearest))
    canonicalize(b.func)
    assert [v is x for v in b.kept.operands] == [True, True, False, False, False, False]


def test_there_and_back_through_a_wider_float():
    b = Builder(f32, f64)
    back = b(arith.Convertf, [b(arith.Convertf, [b.args[0]], f64)], f32)
    lossy = b(arith.Convertf, [b(arith.Convertf, [b.args[1]], f32)], f64)
    b.keep(back, lossy)
    simplify.run(b.func)
    assert b.kept.operands[0] is b.args[0]
    assert b.kept.operands[1] is lossy


def test_division_that_is_undefined_is_not_folded():
    b = Builder()
    b.keep(b(arith.Divsi, [b.const(7), b.const(0)], I32), b(arith.Divsi, [b.const(-2**31), b.const(-1)], I32),
           b(arith.Shli, [b.const(1), b.const(32)], I32), b(arith.Divsi, [b.const(-7), b.const(2)], I32))
    simplify.run(b.func)
    assert [v.owner.name for v in b.kept.operands] == ["arith.divsi", "arith.divsi", "arith.shli", "arith.constant"]
    assert b.kept.operands[3].owner.properties["value"].value.data == -3


def test_splats_fold_through_shapes_and_arithmetic():
    """broadcast(view(splat(x) + splat(y))) is splat(x + y)."""
    b = Builder(I32, I32)
    small, line, full = TensorType(I32, [8]), TensorType(I32, [1, 8]), TensorType(I32, [4, 8])
    total = b(arith.Addi, [b(aa.Splat, [b.args[0]], small), b(aa.Splat, [b.args[1]], small)], small)
    b.keep(b(aa.Broadcast, [b(aa.View, [total], line)], full))
    canonicalize(b.func)
    assert b.names() == ["arith.addi", "nv_tileaa.splat", "nv_tileaa.print"]


def test_permutations_compose():
    """Result dim i is source dim p[i]: (1, 2, 0) after (1, 2, 0) is (2, 0, 1), and once more the identity."""
    b = Builder(TensorType(I32, [2, 4, 8]))
    order = ArrayAttr([IntAttr(p) for p in (1, 2, 0)])
    one = b(aa.Permute, [b.args[0]], TensorType(I32, [4, 8, 2]), {"permutation": order})
    two = b(aa.Permute, [one], TensorType(I32, [8, 2, 4]), {"permutation": order})
    three = b(aa.Permute, [two], TensorType(I32, [2, 4, 8]), {"permutation": order})
    b.keep(two, three)
    canonicalize(b.func)
    assert b.kept.operands[1] is b.args[0]
    assert [p.data for p in b.kept.operands[0].owner.properties["permutation"].data] == [2, 0, 1]


def test_cse_respects_regions():
    """An op before a loop stands for its copy inside; one inside a branch doesn't for one behind it."""
    b = Builder(I32, I1)
    x = b.args[0]
    first = b(arith.Muli, [x, x], I32)
    inner = Block()
    copy = arith.Muli.create(operands=[x, x], result_types=[I32])
    local = arith.Subi.create(operands=[x, first], result_types=[I32])
    inner.add_ops([copy, local, aa.Print.make([[copy.results[0], local.results[0]], None], [None],
                                              {"format": StringAttr("%d%d")}), arith.Yield.make([[]])])
    b.block.add_op(arith.If.make([b.args[1]], [[]], {}, [Region(inner), Region()]))
    b.keep(b(arith.Subi, [x, first], I32))
    cse.run(b.func)
    assert b.names().count("arith.muli") == 1
    assert b.names().count("arith.subi") == 2


def test_constant_branch_is_inlined():
    b = Builder(I32)
    then, other = Block(), Block()
    add = arith.Addi.create(operands=[b.args[0], b.args[0]], result_types=[I32])
    then.add_ops([add, arith.Yield.make([[add.results[0]]])])
    other.add_op(arith.Yield.make([[b.args[0]]]))
    branch = arith.If.make([b.const(1, I1)], [[I32]], {}, [Region(then), Region(other)])
    b.block.add_op(branch)
    b.keep(branch.results[0])
    canonicalize(b.func)
    assert b.names() == ["arith.addi", "nv_tileaa.print"]


def test_full_mask_goes_with_the_value_elsewhere():
    b = Builder(TensorType(PTR, [8]))
    mask, other = b.const(1, TensorType(I1, [8])), b.const(0.0, TensorType(f32, [8]))
    load = aa.Load.make([b.args[0], mask, other, None], [TensorType(f32, [8]), TOKEN], WEAK)
    b.block.add_op(load)
    b.keep(load.results[0])
    canonicalize(b.func)
    assert load.mask is None and load.other is None and len(load.operands) == 1
    load.verify()


def test_unused_weak_load_hands_on_its_token():
    b = Builder(TensorType(PTR, [8]), TensorType(f32, [8]))
    token = b(aa.CreateMemToken, [], TOKEN)
    load = aa.Load.make([b.args[0], None, None, token], [TensorType(f32, [8]), TOKEN], WEAK)
    strong = aa.Load.make([b.args[0], None, None, token], [TensorType(f32, [8]), TOKEN],
                          {"mem_semantic": StringAttr("acquire"), "mem_scope": StringAttr("device")})
    store = aa.Store.make([b.args[0], b.args[1], None, load.results[1]], [TOKEN], {"mem_semantic": StringAttr("weak")})
    b.block.add_ops([load, strong, store])
    dce.run(b.func)
    assert b.names() == ["nv_tileaa.create_mem_token", "nv_tileaa.load", "nv_tileaa.store"]
    assert store.token is token


def test_invariants_climb_out_of_nested_loops_but_divisions_and_tensors_stay():
    b = Builder(I32, I32)
    x, y = b.args
    zero, n, one = b.const(0), b.const(8), b.const(1)
    inner = Block(arg_types=[I32])
    product = arith.Muli.create(operands=[x, y], result_types=[I32])
    division = arith.Divsi.create(operands=[x, y], result_types=[I32])
    splat = aa.Splat.create(operands=[x], result_types=[TensorType(I32, [8])])
    use = aa.Print.make([[product.results[0], division.results[0], splat.results[0]], None], [None],
                        {"format": StringAttr("%d%d%d")})
    inner.add_ops([product, division, splat, use, arith.Yield.make([[]])])
    middle = Block(arg_types=[I32])
    middle.add_ops([arith.For.make([zero, n, one, []], [[]], {}, [Region(inner)]), arith.Yield.make([[]])])
    b.block.add_op(arith.For.make([zero, n, one, []], [[]], {}, [Region(middle)]))
    hoist_invariants.run(b.func)
    assert product.parent is b.block
    assert division.parent is inner and splat.parent is inner


def test_idle_loops_go_and_endless_ones_stay():
    b = Builder(I32)
    zero, n, one = b.const(0), b.const(8), b.const(1)
    body = Block(arg_types=[I32, I32])
    add = arith.Addi.create(operands=[body.args[1], body.args[0]], result_types=[I32])
    body.add_ops([add, arith.Yield.make([[add.results[0]]])])
    b.block.add_op(arith.For.make([zero, n, one, [b.args[0]]], [[I32]], {}, [Region(body)]))
    endless = Block()
    endless.add_op(aa.Continue.make([[]]))
    b.block.add_op(aa.Loop.make([[]], [[]], {}, [Region(endless)]))
    dce.run(b.func)
    assert b.names() == ["nv_tileaa.loop", "nv_tileaa.continue"]


def test_level_0_only_removes_dead_ops():
    b = Builder(I32)
    b(arith.Addi, [b.args[0], b.args[0]], I32)
    b.keep(b(arith.Muli, [b.args[0], b.const(1)], I32))
    canonicalize(b.func, opt_level=0)
    assert b.names() == ["arith.constant", "arith.muli", "nv_tileaa.print"]


def assumed(b, value, low, high):
    fact = aa.AssumeAttr(StringAttr("bounded"), ArrayAttr([IntAttr(n) if n is not None else NoneAttr()
                                                           for n in (low, high)]))
    return b(aa.Assume, [value], value.type, {"fact": fact})


def test_divisions_of_what_is_not_negative_become_shifts_and_masks():
    """pid // 8, pid % 8 and ceil(n / 64) of a bounded n need no division; x // 8 of any x shifts, x % 8 stays."""
    b = Builder(I32, I32)
    pid, n = assumed(b, b.args[0], 0, None), assumed(b, b.args[1], 0, 1 << 20)
    x = b.args[0]
    b.keep(b(arith.FloorDivsi, [pid, b.const(8)], I32), b(arith.Remsi, [pid, b.const(8)], I32),
           b(arith.CeilDivsi, [n, b.const(64)], I32), b(arith.FloorDivsi, [x, b.const(8)], I32),
           b(arith.Remsi, [x, b.const(8)], I32), b(arith.Divsi, [x, b.const(8)], I32),
           b(arith.FloorDivsi, [pid, n], I32))
    canonicalize(b.func)
    assert [v.owner.name for v in b.kept.operands] == [
        "arith.shrui", "arith.andi", "arith.shrui", "arith.shrsi", "arith.remsi", "arith.divsi", "arith.divui"]


def test_comparisons_and_extremes_that_bounds_decide():
    """0 <= i <= 99: i < 100 holds, max(i, 100) is 100, i % 128 is i."""
    b = Builder(I32)
    i = assumed(b, b.args[0], 0, 99)
    b.keep(b(arith.Cmpi, [i, b.const(100)], I1, {"predicate": StringAttr("slt")}),
           b(arith.Cmpi, [i, b.const(99)], I1, {"predicate": StringAttr("slt")}),
           b(arith.Maxsi, [i, b.const(100)], I32), b(arith.Remsi, [i, b.const(128)], I32))
    canonicalize(b.func)
    decided, open_, most, same = b.kept.operands
    assert decided.owner.properties["value"].value.data & 1 == 1
    assert open_.owner.name == "arith.cmpi"
    assert most.owner.properties["value"].value.data == 100
    assert same is i


def test_what_a_loop_or_branch_hands_through_is_not_its_result():
    """A carried value that no iteration changes, and a result that only one branch comes back with."""
    b = Builder(I32, I1, I32)
    x, c, n = b.args
    zero, one = b.const(0), b.const(1)
    body = Block(arg_types=[I32, I32, I32])
    skip, go_on = Block(), Block()
    skip.add_op(aa.Continue.make([[body.args[1], body.args[0]]]))
    go_on.add_op(arith.Yield.make([[]]))
    branch = arith.If.make([c], [[]], {}, [Region(skip), Region(go_on)])
    add = arith.Addi.create(operands=[body.args[2], body.args[1]], result_types=[I32])
    body.add_ops([branch, add, arith.Yield.make([[body.args[1], add.results[0]]])])
    loop = arith.For.make([zero, n, one, [x, x]], [[I32, I32]], {}, [Region(body)])
    b.block.add_op(loop)
    leave, stay = Block(), Block()
    leave.add_op(aa.Return.make())
    stay.add_op(arith.Yield.make([[n]]))
    choice = arith.If.make([c], [[I32]], {}, [Region(leave), Region(stay)])
    b.block.add_op(choice)
    b.keep(loop.results[0], loop.results[1], choice.results[0])
    canonicalize(b.func)
    assert list(b.kept.operands) == [x, loop.results[1], n]
    assert list(add.operands) == [body.args[2], x]
