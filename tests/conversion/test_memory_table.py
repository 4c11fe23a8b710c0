"""The table (op, type, semantics, scope, space) -> PTX, row by row: one kernel a (op, type, space) holds all orderings and scopes.

Space: through a pointer of a kernel with an `alloca` accesses are generic, in all others they are global. `tl_blk` is PTX's
.cta, `device` .gpu, `sys` .sys; a weak access names neither. What isn't used of a read-modify-write is a reduction, unless
it acquires.
"""
from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

import tileiras
from tests.conversion.test_memory_order import ROWS, SCOPES, semantics
from tests.interp.build import ARRAYS, TOKEN, WEAK, Kernel, pointer, tile
from tileiras.bytecode import write
from tileiras.dialects.cuda_tile import attrs, ops, types
from tileiras.machine.targets import TARGETS
from tileiras.sim import simulate

LOADS = [("weak", None), *itertools.product(("relaxed", "acquire"), SCOPES)]
STORES = [("weak", None), *itertools.product(("relaxed", "release"), SCOPES)]
ATOMICS = list(itertools.product(("relaxed", "acquire", "release", "acq_rel"), SCOPES))
BITS = {"i8": 8, "f8E4M3FN": 8, "i16": 16, "f16": 16, "bf16": 16, "i32": 32, "f32": 32, "i64": 64, "f64": 64}
SPACES = (".global", "")
REDUCTIONS = [row for row in ROWS if row[0] != "xchg"]


def qualified(ordering: str, scope: str | None) -> str:
    return "" if scope is None else f".{ordering}.{SCOPES[scope]}"


def kernel(space: str, *parameters: Any) -> Kernel:
    """A kernel whose pointers are global, or (with an alloca in it) generic."""
    k = Kernel(*parameters)
    if not space:
        made = k.add(ops.Alloca.make([], [pointer("i32")], {"num_elem": IntegerAttr(1, 64), "alignment": IntegerAttr(4, 64)}))
        k.add(ops.StorePtrTko.make([made, k.constant("i32", 1), None, None], [TOKEN], {"memory_ordering_semantics": WEAK}))
    return k


def one(k: Kernel, argument: int, element: str, index: int) -> SSAValue:
    """A pointer to one element; each access of a kernel has its own place."""
    return k.add(ops.Offset.make([k.args[argument], k.constant("i32", index)], [pointer(element)]))


def spelled(k: Kernel, gpu: str = "sm_90") -> Counter[str]:
    """How often each memory instruction stands in the kernel's PTX."""
    module: Any = k.module()
    ptx = tileiras.compile(write(module, "13.4"), gpu_name=gpu).ptx
    return Counter(re.findall(r"(?<![\w.])((?:ld|st|atom|red)\.[\w.:]+)", ptx))


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("element", BITS)
def test_loads_and_stores(element: str, space: str) -> None:
    k = kernel(space, pointer(element), pointer(element))
    for i, (ordering, scope) in enumerate(LOADS):
        x = k.add(ops.LoadPtrTko.make([one(k, 0, element, i), None, None, None], [tile(element), TOKEN],
                                      semantics(ordering, scope)))[0]
        k.add(ops.StorePtrTko.make([one(k, 1, element, i), x, None, None], [TOKEN], semantics(*STORES[i])))
    found = spelled(k)
    for ordering, scope in [*LOADS, *STORES]:
        width = ".v2.b32" if ordering == "weak" and BITS[element] == 64 else f".b{BITS[element]}"
        if ordering != "release":
            assert found[f"ld{qualified(ordering, scope)}{space}{width}"] == 1, (ordering, scope, found)
        if ordering != "acquire":
            assert found[f"st{qualified(ordering, scope)}{space}{width}"] >= 1, (ordering, scope, found)


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("element", ["i8", "bf16", "f32", "i64"])
def test_ordered_accesses_of_tiles_move_whole_elements(element: str, opt_level: int) -> None:
    """Wide accesses are vectors of words of the element's width: a narrower or wider word would race with other accesses."""
    k = Kernel(pointer(element), pointer(element))
    n = 2048
    views = []
    for base in k.args:
        view_type = types.TensorViewType(tile(element).element_type, (n,), (1,))
        aligned = k.add(ops.Assume.make([base], [base.type], {"predicate": attrs.DivByAttr(16)}))
        view = k.add(ops.MakeTensorView.make([aligned, [], []], [view_type]))
        views.append(k.add(ops.MakePartitionView.make([view], [types.PartitionViewType((n,), view_type, (0,))])))
    zero = k.constant("i32", 0)
    x = k.add(ops.LoadViewTko.make([views[0], [zero], None], [tile(element, n), TOKEN], semantics("acquire", "device")))[0]
    k.add(ops.StoreViewTko.make([x, views[1], [zero], None], [TOKEN], semantics("release", "device")))
    module: Any = k.module()
    ptx = tileiras.compile(write(module, "13.4"), gpu_name="sm_80", opt_level=opt_level).ptx
    widths = set(re.findall(r"(?:ld\.acquire|st\.release)\.gpu\.global(?:\.v\d)?\.b(\d+)", ptx))
    assert widths == {str(BITS[element])}
    given = np.arange(n).astype(ARRAYS[element])
    out = np.zeros(n, ARRAYS[element])
    simulate(ptx, args=[given, out])
    assert out.tobytes() == given.tobytes()


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("mode, element, operation", ROWS)
def test_read_modify_writes(mode: str, element: str, operation: str, space: str) -> None:
    k = kernel(space, *[pointer(element)] * 3)
    x = k.load(k.args[0], element, ())
    for i, (ordering, scope) in enumerate(ATOMICS):
        how = {**semantics(ordering, scope), "mode": attrs.AtomicRMWModeAttr(mode)}
        k.add(ops.AtomicRMWTko.make([one(k, 1, element, i), x, None, None], [tile(element), TOKEN], how))
        old = k.add(ops.AtomicRMWTko.make([one(k, 1, element, i + 20), x, None, None], [tile(element), TOKEN], how))[0]
        k.add(ops.StorePtrTko.make([one(k, 2, element, i), old, None, None], [TOKEN], {"memory_ordering_semantics": WEAK}))
    expected: Counter[str] = Counter()
    for ordering, scope in ATOMICS:
        reduction = ordering in ("relaxed", "release") and mode != "xchg"
        expected[f"atom{qualified(ordering, scope)}{space}.{operation}"] += 1
        expected[f"{'red' if reduction else 'atom'}{qualified(ordering, scope)}{space}.{operation}"] += 1
    found = spelled(k)
    assert {name: n for name, n in found.items() if name.startswith(("atom", "red"))} == dict(expected)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("element", ["i32", "i64", "f32", "f64"])
def test_compare_and_swap(element: str, space: str) -> None:
    k = kernel(space, *[pointer(element)] * 2)
    x, y = (k.load(arg, element, ()) for arg in k.args)
    for i, (ordering, scope) in enumerate(ATOMICS):
        k.add(ops.AtomicCASTko.make([one(k, 1, element, i), x, y, None, None], [tile(element), TOKEN], semantics(ordering, scope)))
    found = spelled(k)
    assert {name: n for name, n in found.items() if name.startswith("atom")} == {
        f"atom{qualified(ordering, scope)}{space}.cas.b{BITS[element]}": 1 for ordering, scope in ATOMICS}


def reducing(modes: list[tuple[str, str, str]], scope: str) -> Kernel:
    """One atomic_red_view_tko a row, into an array of its own."""
    k = Kernel(*[pointer(element) for _, element, _ in modes])
    zero = k.constant("i32", 0)
    for base, (mode, element, _) in zip(k.args, modes):
        x = k.load(base, element, (32,))
        view_type = types.TensorViewType(x.type.element_type, (32,), (1,))  # type: ignore[attr-defined]
        view = k.add(ops.MakeTensorView.make([base, [], []], [view_type]))
        tiles = k.add(ops.MakePartitionView.make([view], [types.PartitionViewType((32,), view_type, (0,))]))
        k.add(ops.AtomicRedViewTko.make([tiles, [zero], x, None], [TOKEN],
                                        {**semantics("relaxed", scope), "mode": attrs.AtomicRMWModeAttr(mode)}))
    return k


@pytest.mark.parametrize("scope", ["tl_blk", "device"])
def test_reductions_through_views(scope: str) -> None:
    found = spelled(reducing(REDUCTIONS, scope))
    for _, _, operation in REDUCTIONS:
        assert found[f"red.relaxed.{SCOPES[scope]}.global.{operation}"] == 1


@pytest.mark.parametrize("gpu", [t.name for t in TARGETS])
def test_every_operation_and_type_compiles_everywhere(gpu: str) -> None:
    """Through ptxas: all rows of the read-modify-writes and reductions, and the compare-and-swaps."""
    k = reducing(REDUCTIONS, "device")
    for i, (mode, element, _) in enumerate(REDUCTIONS):
        x = k.load(k.args[i], element, (32,))
        how = {**semantics("acq_rel", "sys"), "mode": attrs.AtomicRMWModeAttr(mode)}
        k.add(ops.AtomicRMWTko.make([k.pointers(k.args[i], element, 32), x, None, None], [tile(element, 32), TOKEN], how))
        if BITS[element] >= 32:
            k.add(ops.AtomicCASTko.make([k.pointers(k.args[i], element, 32), x, x, None, None], [tile(element, 32), TOKEN],
                                        semantics("relaxed", "device")))
    module: Any = k.module()
    assert tileiras.compile(write(module, "13.4"), gpu_name=gpu).cubin


VECTORS = [("f32", "sm_80", "add.f32"), ("f32", "sm_90", "add.v4.f32"), ("f16", "sm_75", "add.noftz.f16x2"),
           ("f16", "sm_90", "add.noftz.v4.f16x2"), ("bf16", "sm_120", "add.noftz.v4.bf16x2"), ("i32", "sm_90", "add.u32"),
           ("f64", "sm_90", "add.f64")]


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("element, gpu, operation", VECTORS)
def test_neighbours_go_in_one_reduction(element: str, gpu: str, operation: str, opt_level: int) -> None:
    """As many as the target's instruction takes, through pointers and through a view of fewer elements than the tile has."""
    n, inside = 1024, 1000
    k = Kernel(*[pointer(element)] * 3)
    x = k.load(k.args[0], element, (n,))
    to, array = (k.add(ops.Assume.make([base], [base.type], {"predicate": attrs.DivByAttr(16)})) for base in k.args[1:])
    how = {**semantics("relaxed", "device"), "mode": attrs.AtomicRMWModeAttr("add" if element == "i32" else "addf")}
    k.add(ops.AtomicRMWTko.make([k.pointers(to, element, n), x, None, None], [tile(element, n), TOKEN], how))
    view_type = types.TensorViewType(tile(element).element_type, (inside,), (1,))
    view = k.add(ops.MakeTensorView.make([array, [], []], [view_type]))
    tiles = k.add(ops.MakePartitionView.make([view], [types.PartitionViewType((n,), view_type, (0,))]))
    k.add(ops.AtomicRedViewTko.make([tiles, [k.constant("i32", 0)], x, None], [TOKEN], how))
    module: Any = k.module()
    ptx = tileiras.compile(write(module, "13.4"), gpu_name=gpu, opt_level=opt_level).ptx
    assert set(re.findall(r"(?<![\w.])red\.relaxed\.gpu\.global\.(\S+)", ptx)) == {operation}
    given = np.random.default_rng(0).integers(0, 100, n).astype(ARRAYS[element])
    outs = [np.arange(n).astype(ARRAYS[element]) for _ in range(2)]
    expected = [outs[0] + given, np.concatenate([(outs[1] + given)[:inside], outs[1][inside:]])]
    simulate(ptx, args=[given, *outs])
    assert [out.tolist() for out in outs] == [out.tolist() for out in expected]
