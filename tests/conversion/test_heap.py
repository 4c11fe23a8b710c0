"""`alloca ... global`: memory of the device heap, one allocation a run of its region, given back at each way out."""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, UnitAttr
from xdsl.ir import SSAValue

import tileiras
from tests.interp.build import TOKEN, WEAK, Kernel, pointer, tile
from tileiras.bytecode import write
from tileiras.dialects.cuda_tile import attrs, ops
from tileiras.machine.targets import TARGETS
from tileiras.sim import simulate

WEAKLY = {"memory_ordering_semantics": WEAK}
MALLOC, FREE = "call.uni (retval0), __cuda_syscall_aligned_malloc", "call.uni free"


def heap(k: Kernel, count: int, element: str = "i32", alignment: int = 64) -> SSAValue:
    return k.add(ops.Alloca.make([], [pointer(element)], {
        "num_elem": IntegerAttr(count, 64), "alignment": IntegerAttr(alignment, 64), "global": UnitAttr()}))


def reverse_through(k: Kernel, space: SSAValue, x: SSAValue, n: int) -> SSAValue:
    """Store a tile there, load it in reverse."""
    p = k.pointers(space, "i32", n)
    token = k.add(ops.StorePtrTko.make([p, x, None, None], [TOKEN], WEAKLY))
    last = k.add(ops.Offset.make([p, k.constant("i32", [n - 1 - 2 * i for i in range(n)])], [pointer("i32", n)]))
    return k.add(ops.LoadPtrTko.make([last, None, None, token], [tile("i32", n), TOKEN], WEAKLY))[0]


def compiled(k: Kernel, gpu: str = "sm_80", opt_level: int = 3) -> Any:
    module: Any = k.module()
    return tileiras.compile(write(module, "13.4"), gpu_name=gpu, opt_level=opt_level)


def straight() -> Kernel:
    """Two allocations; the second's address is stored too."""
    k = Kernel(pointer("i32"), pointer("i32"), pointer("i64"))
    first, second = heap(k, 256), heap(k, 256, alignment=4096)
    y = reverse_through(k, first, k.load(k.args[0], "i32", (256,)), 256)
    k.store(k.args[1], reverse_through(k, second, y, 256))
    k.store(k.args[2], k.add(ops.PtrToInt.make([second], [tile("i64")])))
    return k


@pytest.mark.parametrize("opt_level", [0, 3])
def test_memory_of_the_heap(opt_level: int) -> None:
    c = compiled(straight(), opt_level=opt_level)
    assert c.ptx.count(MALLOC) == 2 and c.ptx.count(FREE) == 2 and "trap;" in c.ptx
    x, out, where = np.arange(256, dtype=np.int32), np.zeros(256, np.int32), np.zeros(1, np.int64)
    simulate(c.ptx, grid=(3, 1, 1), args=[x, out, where])
    assert out.tolist() == x.tolist() and where[0] % 4096 == 0
    expected = np.zeros(256, np.int32)
    straight().run(x, expected, np.zeros(1, np.int64), grid=(3,))
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize("opt_level", [0, 3])
def test_each_iteration_gives_back_what_it_took(opt_level: int) -> None:
    """A loop of 100 turns, 1 MiB each; the heap has 8. Odd turns continue early, and turn 90 breaks."""
    k = Kernel(pointer("i32"), pointer("i32"))
    x = k.load(k.args[0], "i32", (128,))
    zero, one = k.constant("i32", 0), k.constant("i32", 1)

    def compare(predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        return k.add(ops.CmpI.make([a, b], [tile("i1")], {"comparison_predicate": attrs.ComparisonPredicateAttr(predicate),
                                                          "signedness": attrs.SignednessAttr("signed")}))

    def turn(i: SSAValue, total: SSAValue) -> Any:
        y = reverse_through(k, heap(k, 1 << 18), x, 128)
        wrapping = {"overflow": attrs.OverflowAttr("none")}
        more = k.add(ops.AddI.make([total, y], [total.type], wrapping))
        following = k.add(ops.AddI.make([i, one], [i.type], wrapping))
        stop = k.region([], lambda: ops.Break.make([[following, more]]))
        at_90 = compare("equal", i, k.constant("i32", 90))
        k.add(ops.If.make([at_90], [[]], {}, [stop, k.region([], lambda: ops.Yield.make([[]]))]))
        odd = k.add(ops.AndI.make([i, one], [tile("i32")]))
        early = k.region([], lambda: ops.Continue.make([[following, total]]))
        k.add(ops.If.make([compare("equal", odd, one)], [[]], {}, [early, k.region([], lambda: ops.Yield.make([[]]))]))
        return ops.Continue.make([[following, more]])
    body = k.region([tile("i32"), x.type], turn)
    _, total = k.add(ops.Loop.make([[zero, x]], [[tile("i32"), x.type]], {}, [body]))
    k.store(k.args[1], total)
    given, out = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    simulate(compiled(k, opt_level=opt_level).ptx, args=[given, out])
    assert out.tolist() == (given + 46 * given[::-1]).tolist()      # turns 0, 2, ..., 90


def test_accesses_are_global() -> None:
    """None of them is generic, as those to an `alloca` in shared memory are."""
    assert re.findall(r"\b(?:ld|st)\.b\d+", compiled(straight(), "sm_90").ptx) == []


@pytest.mark.parametrize("taken", [False, True])
def test_an_early_return_gives_back(taken: bool) -> None:
    """Two frees stand in the code, one on each way; the run takes one of them."""
    k = Kernel(pointer("i32"), pointer("i32"))
    x = k.load(k.args[0], "i32", (64,))
    y = reverse_through(k, heap(k, 64), x, 64)
    wanted = k.add(ops.CmpI.make([k.load(k.args[0], "i32", ()), k.constant("i32", 1)], [tile("i1")], {
        "comparison_predicate": attrs.ComparisonPredicateAttr("equal"), "signedness": attrs.SignednessAttr("signed")}))
    leave = k.region([], lambda: ops.Return.make([[]]))
    k.add(ops.If.make([wanted], [[]], {}, [leave, k.region([], lambda: ops.Yield.make([[]]))]))
    k.store(k.args[1], y)
    c = compiled(k, opt_level=0)
    assert c.ptx.count(MALLOC) == 1 and c.ptx.count(FREE) == 2
    given, out = np.arange(64, dtype=np.int32) + taken, np.zeros(64, np.int32)
    simulate(c.ptx, args=[given, out])
    assert out.tolist() == ([0] * 64 if taken else given[::-1].tolist())


@pytest.mark.parametrize("gpu", [t.name for t in TARGETS])
def test_every_sm(gpu: str) -> None:
    assert compiled(straight(), gpu).cubin and compiled(straight(), gpu, 0).cubin
