"""What memory ops become: orderings, scopes and state spaces in the PTX, row by row; barriers where tokens ask for them."""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr

import tileiras
from tests.interp.build import TOKEN, WEAK, Kernel, pointer, tile
from tileiras.bytecode import write
from tileiras.dialects.cuda_tile import attrs, ops
from tileiras.sim import simulate

SCOPES = {"tl_blk": "cta", "device": "gpu", "sys": "sys"}


def compiled(kernel: Kernel, gpu: str = "sm_90", opt_level: int = 3) -> Any:
    module: Any = kernel.module()
    return tileiras.compile(write(module, "13.4"), gpu_name=gpu, opt_level=opt_level)


def semantics(ordering: str, scope: str | None = None) -> dict[str, Any]:
    out: dict[str, Any] = {"memory_ordering_semantics": attrs.MemoryOrderingSemanticsAttr(ordering)}
    if scope is not None:
        out["memory_scope"] = attrs.MemoryScopeAttr(scope)
    return out


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("ordering", ["relaxed", "acquire"])
def test_loads_carry_ordering_and_scope(ordering: str, scope: str) -> None:
    k = Kernel(pointer("i32"), pointer("i32"))
    x = k.add(ops.LoadPtrTko.make([k.pointers(k.args[0], "i32", 32), None, None, None], [tile("i32", 32), TOKEN],
                                  semantics(ordering, scope)))[0]
    k.store(k.args[1], x)
    assert re.search(rf"\bld\.{ordering}\.{SCOPES[scope]}\.global\.b32\b", compiled(k).ptx)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("ordering", ["relaxed", "release"])
def test_stores_carry_ordering_and_scope(ordering: str, scope: str) -> None:
    k = Kernel(pointer("i32"), pointer("i32"))
    x = k.load(k.args[0], "i32", (32,))
    k.add(ops.StorePtrTko.make([k.pointers(k.args[1], "i32", 32), x, None, None], [TOKEN], semantics(ordering, scope)))
    assert re.search(rf"\bst\.{ordering}\.{SCOPES[scope]}\.global\.b32\b", compiled(k).ptx)


ROWS = [("add", "i32", "add.u32"), ("add", "i64", "add.u64"), ("addf", "f32", "add.f32"), ("addf", "f64", "add.f64"),
        ("addf", "f16", "add.noftz.f16"), ("addf", "bf16", "add.noftz.bf16"), ("and", "i32", "and.b32"), ("or", "i64", "or.b64"),
        ("xor", "i32", "xor.b32"), ("max", "i32", "max.s32"), ("min", "i64", "min.s64"), ("umax", "i64", "max.u64"),
        ("umin", "i32", "min.u32"), ("xchg", "i32", "exch.b32"), ("xchg", "f64", "exch.b64")]


@pytest.mark.parametrize("mode, element, spelled", ROWS)
def test_read_modify_writes(mode: str, element: str, spelled: str) -> None:
    """Every mode and type, each with another ordering and scope, with and without a use of the old value; as written, which
    without optimization every access of a tile is."""
    which = ROWS.index((mode, element, spelled))
    ordering = ["relaxed", "acquire", "release", "acq_rel"][which % 4]
    scope = list(SCOPES)[which % 3]
    for used in (True, False):
        k = Kernel(pointer(element), pointer(element), pointer(element))
        x = k.load(k.args[0], element, (32,))
        old = k.add(ops.AtomicRMWTko.make([k.pointers(k.args[1], element, 32), x, None, None], [tile(element, 32), TOKEN],
                                          {**semantics(ordering, scope), "mode": attrs.AtomicRMWModeAttr(mode)}))[0]
        k.store(k.args[2], old if used else x)
        reduction = not used and ordering in ("relaxed", "release") and mode != "xchg"
        assert f"{'red' if reduction else 'atom'}.{ordering}.{SCOPES[scope]}.global.{spelled}" in compiled(k, opt_level=0).ptx


@pytest.mark.parametrize("ordering", ["relaxed", "acquire", "release", "acq_rel"])
def test_compare_and_swap(ordering: str) -> None:
    k = Kernel(pointer("i64"), pointer("i64"))
    x = k.load(k.args[0], "i64", (32,))
    p = k.pointers(k.args[1], "i64", 32)
    k.add(ops.AtomicCASTko.make([p, x, x, None, None], [tile("i64", 32), TOKEN], semantics(ordering, "device")))
    assert f"atom.{ordering}.gpu.global.cas.b64" in compiled(k, opt_level=0).ptx


def ordered_atomics(ordering: str, n: int, used: str, mode: str = "add") -> str:
    """What touches memory in the PTX of a store, an atomic behind it on `n` elements by 32 threads, and a load behind that where
    `used` has "token"; with "old" the old values are stored."""
    k = Kernel(pointer("i32"), pointer("i32"), pointer("i32"))
    x = k.load(k.args[0], "i32", (n,))
    stored = k.add(ops.StorePtrTko.make([k.pointers(k.args[2], "i32", n), x, None, None], [TOKEN],
                                        {"memory_ordering_semantics": WEAK}))
    old, token = k.add(ops.AtomicRMWTko.make([k.pointers(k.args[1], "i32", n), x, None, stored], [tile("i32", n), TOKEN],
                                             {**semantics(ordering, "device"), "mode": attrs.AtomicRMWModeAttr(mode)}))
    if "token" in used:
        y = k.add(ops.LoadPtrTko.make([k.pointers(k.args[2], "i32", n), None, None, token], [tile("i32", n), TOKEN],
                                      {"memory_ordering_semantics": WEAK}))[0]
        k.store(k.args[0], y)
    if "old" in used:
        k.store(k.args[0], old)
    found = re.findall(r"\b(bar|fence|atom|red)\.(\S+)", compiled(k).ptx)
    return " ".join(kind if kind == "bar" else f"{kind}.{rest.split('.')[0]}" for kind, rest in found)


def test_ordered_atomics_of_a_tile_share_their_fences() -> None:
    """The barrier carries other threads' stores to the fence that releases them, and the fence that acquires to other threads'
    loads. Where nothing comes after, nothing is acquired."""
    two = "red.relaxed red.relaxed"
    assert ordered_atomics("acq_rel", 64, "token") == f"bar fence.acq_rel {two} fence.acq_rel bar"
    assert ordered_atomics("acq_rel", 64, "") == f"bar fence.acq_rel {two}"
    assert ordered_atomics("release", 64, "token") == f"bar fence.acq_rel {two} bar"
    assert ordered_atomics("acquire", 64, "token") == f"bar {two} fence.acq_rel bar"
    assert ordered_atomics("relaxed", 64, "token") == f"bar {two} bar"
    old = two.replace("red", "atom")
    assert ordered_atomics("acq_rel", 64, "old") == f"bar fence.acq_rel {old} fence.acq_rel"


def test_one_ordered_atomic_a_thread_keeps_its_ordering_where_the_old_value_is_wanted() -> None:
    assert ordered_atomics("acq_rel", 32, "old token") == "bar atom.acq_rel bar"
    assert ordered_atomics("acq_rel", 32, "token") == "bar fence.acq_rel red.relaxed fence.acq_rel bar"
    assert ordered_atomics("release", 32, "token") == "bar red.release bar"


def barriers(ptx: str) -> int:
    return len(re.findall(r"\bbar(?:rier)?(?:\.cta)?(?:\.warp)?\.sync", ptx))


def reversed_through_memory(joined: bool) -> Kernel:
    """Store 256 elements, load them in reverse, with or without a token between."""
    k = Kernel(pointer("i32"), pointer("i32"), pointer("i32"))
    x = k.load(k.args[0], "i32", (256,))
    p = k.pointers(k.args[1], "i32", 256)
    token = k.add(ops.StorePtrTko.make([p, x, None, None], [TOKEN], {"memory_ordering_semantics": WEAK}))
    last = k.add(ops.Offset.make([p, k.constant("i32", [255 - 2 * i for i in range(256)])], [pointer("i32", 256)]))
    y = k.add(ops.LoadPtrTko.make([last, None, None, token if joined else None], [tile("i32", 256), TOKEN],
                                  {"memory_ordering_semantics": WEAK}))[0]
    k.store(k.args[2], y)
    return k


def test_a_token_between_threads_is_a_barrier_and_no_token_is_none() -> None:
    assert barriers(compiled(reversed_through_memory(True)).ptx) == barriers(compiled(reversed_through_memory(False)).ptx) + 1


@pytest.mark.parametrize("opt_level", [0, 3])
def test_what_one_thread_stored_another_loads(opt_level: int) -> None:
    c = compiled(reversed_through_memory(True), "sm_80", opt_level)
    x, middle, out = np.arange(256, dtype=np.int32), np.zeros(256, np.int32), np.zeros(256, np.int32)
    simulate(c.ptx, args=[x, middle, out])
    assert out.tolist() == x[::-1].tolist() and middle.tolist() == x.tolist()


@pytest.mark.parametrize("opt_level", [0, 3])
def test_alloca_is_memory_of_the_block(opt_level: int) -> None:
    """Values go in at an allocated place and come out in reverse, in every block; the allocation keeps its alignment."""
    k = Kernel(pointer("i32"), pointer("i32"), pointer("i64"))
    space = k.add(ops.Alloca.make([], [pointer("i32")], {"num_elem": IntegerAttr(128, 64), "alignment": IntegerAttr(512, 64)}))
    p = k.pointers(space, "i32", 128)
    x = k.load(k.args[0], "i32", (128,))
    token = k.add(ops.StorePtrTko.make([p, x, None, None], [TOKEN], {"memory_ordering_semantics": WEAK}))
    last = k.add(ops.Offset.make([p, k.constant("i32", [127 - 2 * i for i in range(128)])], [pointer("i32", 128)]))
    y = k.add(ops.LoadPtrTko.make([last, None, None, token], [tile("i32", 128), TOKEN], {"memory_ordering_semantics": WEAK}))[0]
    k.store(k.args[1], y)
    k.store(k.args[2], k.add(ops.PtrToInt.make([space], [tile("i64")])))
    c = compiled(k, "sm_80", opt_level)
    given, out, where = np.arange(128, dtype=np.int32), np.zeros(128, np.int32), np.zeros(1, np.int64)
    simulate(c.ptx, grid=(3, 1, 1), args=[given, out, where])
    assert out.tolist() == given[::-1].tolist() and where[0] % 512 == 0


@pytest.mark.parametrize("gpu", ["sm_75", "sm_90"])
@pytest.mark.parametrize("opt_level", [0, 3])
def test_a_fence_between_aliases_stands_behind_the_store_and_before_the_barrier(gpu: str, opt_level: int) -> None:
    k = Kernel(pointer("i32"), pointer("i32"), pointer("i32"))
    x = k.load(k.args[0], "i32", (256,))
    p = k.pointers(k.args[1], "i32", 256)
    token = k.add(ops.StorePtrTko.make([p, x, None, None], [TOKEN], {"memory_ordering_semantics": WEAK}))
    token = k.add(ops.MemoryFenceAliasTko.make([token], [TOKEN]))
    last = k.add(ops.Offset.make([p, k.constant("i32", [255 - 2 * i for i in range(256)])], [pointer("i32", 256)]))
    k.store(k.args[2], k.add(ops.LoadPtrTko.make([last, None, None, token], [tile("i32", 256), TOKEN],
                                                 {"memory_ordering_semantics": WEAK}))[0])
    c = compiled(k, gpu, opt_level)
    order = [w[0] for w in re.findall(r"\bst\.global|fence\.proxy\.alias|\bbar(?:rier\.cta)?\.sync", c.ptx)]
    assert order.count("f") == 1 and "".join(order).replace("ss", "s") == "sfbs"
    given, middle, out = np.arange(256, dtype=np.int32), np.zeros(256, np.int32), np.zeros(256, np.int32)
    simulate(c.ptx, args=[given, middle, out])
    assert out.tolist() == given[::-1].tolist()
