"""Control flow, printing, assertions, launches, and blocks that wait for one another."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr, UnitAttr

from tests.interp.build import TOKEN, Kernel, pointer, tile
from tileiras.dialects.cuda_tile import attrs, ops
from tileiras.interp import AssertionFailed, InterpreterError, run

SIGNED = attrs.SignednessAttr("signed")
I32 = tile("i32")
ACQUIRE = {"memory_ordering_semantics": attrs.MemoryOrderingSemanticsAttr("acquire"),
           "memory_scope": attrs.MemoryScopeAttr("device")}
RELEASE = {**ACQUIRE, "memory_ordering_semantics": attrs.MemoryOrderingSemanticsAttr("release")}


def plus(kernel: Kernel, a: Any, b: Any) -> Any:
    return kernel.add(ops.AddI.make([a, b], [a.type], {"overflow": attrs.OverflowAttr("none")}))


def compare(kernel: Kernel, predicate: str, a: Any, b: Any) -> Any:
    return kernel.add(ops.CmpI.make([a, b], [tile("i1")], {
        "comparison_predicate": attrs.ComparisonPredicateAttr(predicate), "signedness": SIGNED}))


def branch(kernel: Kernel, condition: Any, then: Any, otherwise: Any = None, results: Any = ()) -> Any:
    from xdsl.ir import Region
    return kernel.add(ops.If.make([condition], [list(results)], {}, [
        kernel.region([], then), kernel.region([], otherwise) if otherwise else Region()]))


@pytest.mark.parametrize("element, low, high, step, unsigned", [
    ("i32", -5, 9, 3, False), ("i32", 4, 4, 1, False), ("i64", 2 ** 40, 2 ** 40 + 5, 2, False),
    ("i8", 100, -100, 20, True), ("i8", 100, -100, 20, False)])
def test_for_counts_in_its_type(element: str, low: int, high: int, step: int, unsigned: bool) -> None:
    """carried: the number of iterations and the sum of the induction variable."""
    kernel = Kernel(pointer(element), pointer(element))
    bounds = [kernel.constant(element, n) for n in (low, high, step)]
    zero, one = kernel.constant(element, 0), kernel.constant(element, 1)
    kind = tile(element)
    body = kernel.region([kind] * 3, lambda i, n, total: ops.Continue.make([[plus(kernel, n, one),
                                                                             plus(kernel, total, i)]]))
    count, total = kernel.add(ops.For.make([*bounds, [zero, zero]], [[kind, kind]],
                                           {"unsignedCmp": UnitAttr() if unsigned else None}, [body]))
    kernel.store(kernel.args[0], count)
    kernel.store(kernel.args[1], total)
    dtype = {"i8": np.int8, "i32": np.int32, "i64": np.int64}[element]
    outputs = np.zeros((2, 1), dtype)
    kernel.run(*outputs)
    steps = list(range(low % 256, high % 256, step)) if unsigned else list(range(low, high, step))
    assert outputs[:, 0].tolist() == [len(steps), np.array(sum(steps)).astype(dtype)]


def test_loop_ends_at_a_break_inside_an_if_and_skips_by_continue() -> None:
    """sum of the odd numbers below 10: continue for even ones, break at 10."""
    kernel = Kernel(pointer("i32"))
    zero, one, ten, two = (kernel.constant("i32", n) for n in (0, 1, 10, 2))

    def body(i: Any, total: Any) -> Any:
        branch(kernel, compare(kernel, "equal", i, ten), lambda: ops.Break.make([[i, total]]))
        after = plus(kernel, i, one)
        rest = kernel.add(ops.RemI.make([i, two], [I32], {"signedness": SIGNED}))
        branch(kernel, compare(kernel, "equal", rest, zero), lambda: ops.Continue.make([[after, total]]))
        return ops.Continue.make([[after, plus(kernel, total, i)]])
    _, total = kernel.add(ops.Loop.make([[zero, zero]], [[I32, I32]], {}, [kernel.region([I32, I32], body)]))
    kernel.store(kernel.args[0], total)
    out = np.zeros(1, np.int32)
    kernel.run(out)
    assert out[0] == 25


def test_if_yields_and_return_ends_the_block_even_inside_loops() -> None:
    kernel = Kernel(pointer("i32"))
    x, _, _ = kernel.add(ops.GetTileBlockId.make([], [I32] * 3))
    one, two = kernel.constant("i32", 1), kernel.constant("i32", 2)
    picked = branch(kernel, compare(kernel, "less_than", x, two), lambda: ops.Yield.make([[one]]),
                    lambda: ops.Yield.make([[two]]), [I32])

    def body() -> Any:
        branch(kernel, compare(kernel, "equal", x, one), lambda: ops.Return.make([[]]))
        return ops.Break.make([[]])
    kernel.add(ops.Loop.make([[]], [[]], {}, [kernel.region([], body)]))
    at = kernel.add(ops.Offset.make([kernel.args[0], x], [pointer("i32")]))
    kernel.add(ops.StorePtrTko.make([at, picked, None, None], [TOKEN],
                                    {"memory_ordering_semantics": attrs.MemoryOrderingSemanticsAttr("weak")}))
    out = np.zeros(4, np.int32)
    kernel.run(out, grid=(4,))
    assert out.tolist() == [1, 0, 2, 2]


def test_an_endless_loop_is_reported() -> None:
    kernel = Kernel()
    kernel.add(ops.Loop.make([[]], [[]], {}, [kernel.region([], lambda: ops.Continue.make([[]]))]))
    with pytest.raises(InterpreterError, match=r"cuda_tile.loop: too many loop iterations"):
        kernel.run(max_iterations=1000)


def test_a_step_must_be_positive() -> None:
    kernel = Kernel()
    bounds = [kernel.constant("i32", n) for n in (0, 4, 0)]
    kernel.add(ops.For.make([*bounds, []], [[]], {}, [kernel.region([I32], lambda i: ops.Continue.make([[]]))]))
    with pytest.raises(InterpreterError, match=r"cuda_tile.for: step 0 is not positive"):
        kernel.run()


def printed(text: str, *values: tuple[str, Any]) -> str:
    kernel = Kernel()
    args = [kernel.constant(name, v) for name, v in values]
    kernel.add(ops.PrintTko.make([args, None], [None], {"str": StringAttr(text)}))
    out: list[str] = []
    kernel.run(output=out.append)
    return "".join(out)


def test_print_formats_as_c_does() -> None:
    got = printed("n=%d, %5.2f|%-4d|%x%%\n", ("i32", -3), ("f32", 2.5), ("i8", 7), ("i16", -1))
    assert got == "n=-3,  2.50|7   |ffff%\n"
    assert printed("%lld %llu %hhd %+.1e", ("i64", -1), ("i64", -1), ("i8", -1), ("f64", 1500.0)) == (
        "-1 18446744073709551615 -1 +1.5e+03")
    assert printed("%i: %g", ("i32", [[1, 2], [3, 4]]), ("f16", [0.5, np.inf])) == "[[1, 2], [3, 4]]: [0.5, inf]"
    with pytest.raises(InterpreterError, match=r"cuda_tile.print_tko: 1 values for the format"):
        printed("nothing", ("i32", 1))


def test_assertions_name_the_elements() -> None:
    kernel = Kernel()
    kernel.add(ops.Assert.make([kernel.constant("i1", [True, False])], [], {"message": StringAttr("not so")}))
    with pytest.raises(AssertionFailed, match=r"in block \(0, 0, 0\) at \(1,\): not so"):
        kernel.run()


# --- blocks that meet ------------------------------------------------------------------------------------------------

ORDERS = ("forward", "backward", 0, 1, 2)


def locked_counter() -> Any:
    """Every block takes a spin lock, adds one to a counter by plain loads and stores, and frees the lock."""
    kernel = Kernel(pointer("i32"), pointer("i32"))
    lock, counter = kernel.args
    zero, one = kernel.constant("i32", 0), kernel.constant("i32", 1)

    def spin() -> Any:
        seen, _ = kernel.add(ops.AtomicCASTko.make([lock, zero, one, None, None], [I32, TOKEN], ACQUIRE))
        branch(kernel, compare(kernel, "equal", seen, zero), lambda: ops.Break.make([[]]))
        return ops.Continue.make([[]])
    kernel.add(ops.Loop.make([[]], [[]], {}, [kernel.region([], spin)]))
    kernel.store(counter, plus(kernel, kernel.load(counter, "i32", ()), one))
    kernel.add(ops.AtomicRMWTko.make([lock, zero, None, None], [I32, TOKEN],
                                     {**RELEASE, "mode": attrs.AtomicRMWModeAttr("xchg")}))
    return kernel.module()


@pytest.mark.parametrize("order", ORDERS)
def test_a_spin_lock_lets_every_block_in_once(order: Any) -> None:
    lock, counter = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(locked_counter(), None, (9,), [lock, counter], order=order)
    assert (lock[0], counter[0]) == (0, 9)


@pytest.mark.parametrize("order", ORDERS)
def test_a_chain_of_blocks_waits_for_its_predecessors(order: Any) -> None:
    """Block i spins on cell i and then writes cell i + 1: a decoupled prefix of i + 1."""
    kernel = Kernel(pointer("i32"))
    x, _, _ = kernel.add(ops.GetTileBlockId.make([], [I32] * 3))
    zero, one = kernel.constant("i32", 0), kernel.constant("i32", 1)
    mine = kernel.add(ops.Offset.make([kernel.args[0], x], [pointer("i32")]))
    following = kernel.add(ops.Offset.make([mine, one], [pointer("i32")]))

    def spin() -> Any:
        seen, _ = kernel.add(ops.LoadPtrTko.make([mine, None, None, None], [I32, TOKEN], ACQUIRE))
        branch(kernel, compare(kernel, "not_equal", seen, zero), lambda: ops.Break.make([[seen]]))
        return ops.Continue.make([[]])
    seen = kernel.add(ops.Loop.make([[]], [[I32]], {}, [kernel.region([], spin)]))
    kernel.add(ops.StorePtrTko.make([following, plus(kernel, seen, one), None, None], [TOKEN], RELEASE))
    cells = np.array([1] + [0] * 12, np.int32)
    kernel.run(cells, grid=(12,), order=order)
    assert cells.tolist() == list(range(1, 14))


def test_blocks_that_wait_for_ever_are_reported() -> None:
    lock, counter = np.ones(1, np.int32), np.zeros(1, np.int32)
    with pytest.raises(InterpreterError, match=r"2 blocks wait for each other: blocks \(0, 0, 0\), \(1, 0, 0\)"):
        run(locked_counter(), None, (2,), [lock, counter])


# --- launches --------------------------------------------------------------------------------------------------------

def test_scalars_reach_the_kernel_in_their_width() -> None:
    kernel = Kernel(tile("f16"), tile("i8"), tile("i1"), pointer("f16"), pointer("i8"), pointer("i1"))
    for value, out in zip(kernel.args[:3], kernel.args[3:]):
        kernel.store(out, value)
    outputs = [np.zeros(1, np.float16), np.zeros(1, np.int8), np.zeros(1, np.bool_)]
    kernel.run(np.float16(1.5), np.uint8(200), True, *outputs)
    assert [o[0] for o in outputs] == [1.5, -56, True]


def test_launches_that_do_not_fit() -> None:
    module = Kernel(pointer("i32"), I32).module()
    for args, grid, name, message in (
            ([np.zeros(1, np.int32)], (1,), None, "takes 2 parameters, not 1"),
            ([np.zeros(1, np.int32), np.zeros(3)], (1,), None, "parameter 1 is a scalar of i32"),
            ([None, 1], (0,), None, "one to three positive extents"),
            ([None, 1], (1,), "other", "no kernel named other")):
        with pytest.raises(InterpreterError, match=message):
            run(module, name, grid, args)
    with pytest.raises(InterpreterError, match="order 'sideways'"):
        run(module, None, (1,), [None, 1], order="sideways")
