"""Pointers, views, globals, allocas and atomics; what leaves memory is an error that names the op and its place."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, SymbolRefAttr, UnitAttr, i1

from tests.interp.build import ARRAYS, ELEMENTS, TOKEN, WEAK, Kernel, dense, name_of, pointer, tile
from tileiras.dialects.cuda_tile import attrs, ops, types
from tileiras.interp import InterpreterError

RELAXED = {"memory_ordering_semantics": attrs.MemoryOrderingSemanticsAttr("relaxed"),
           "memory_scope": attrs.MemoryScopeAttr("device")}
ORDER = {"memory_ordering_semantics": WEAK}
GARBAGE = np.frombuffer(b"\xdb" * 4, np.int32)[0]


def view_kernel(source: np.ndarray, make_type: Any, dynamic: bool = False) -> tuple[Kernel, Any]:
    """A kernel of (source, destination) and a view of the source, whose shape and strides are dynamic or static."""
    name = name_of(source)
    sizes = list(source.shape) + [s // source.itemsize for s in source.strides]
    scalars = [tile("i64")] * len(sizes) if dynamic else []
    kernel = Kernel(pointer(name), pointer(name), *scalars)
    rank = source.ndim
    shape, strides = ([None] * rank, [None] * rank) if dynamic else (sizes[:rank], sizes[rank:])
    tensor = types.TensorViewType(ELEMENTS[name], shape, strides)
    extra = list(kernel.args[2:])
    made = kernel.add(ops.MakeTensorView.make([kernel.args[0], extra[:rank], extra[rank:]], [tensor]))
    view = make_type(tensor)
    op = {types.PartitionViewType: ops.MakePartitionView, types.StridedViewType: ops.MakeStridedView,
          types.GatherScatterViewType: ops.MakeGatherScatterView}[type(view)]
    return kernel, kernel.add(op.make([made], [view]))


def loaded(source: np.ndarray, make_type: Any, *index: Any, dynamic: bool = False, **attributes: Any) -> np.ndarray:
    kernel, view = view_kernel(source, make_type, dynamic)
    at = [kernel.constant("i32", i) for i in index]
    got, _ = kernel.add(ops.LoadViewTko.make([view, at, None], [view.type.tile_type, TOKEN], {**ORDER, **attributes}))
    kernel.store(kernel.args[1], got)
    out = np.zeros(view.type.tile_shape, source.dtype)
    sizes = [*source.shape, *(s // source.itemsize for s in source.strides)]
    kernel.run(source, out, *([np.int64(n) for n in sizes] if dynamic else []))
    return out


def stored(target: np.ndarray, make_type: Any, value: np.ndarray, *index: Any, **attributes: Any) -> None:
    kernel, view = view_kernel(target, make_type)
    at = [kernel.constant("i32", i) for i in index]
    given = kernel.load(kernel.args[1], name_of(value), value.shape)
    kernel.add(ops.StoreViewTko.make([given, view, at, None], [TOKEN], {**ORDER, **attributes}))
    kernel.run(target, value)


TABLE = np.arange(70, dtype=np.int32).reshape(7, 10)


def partition(tile_shape: Any, padding: str | None = None, dim_map: Any = None) -> Any:
    value = None if padding is None else attrs.PaddingValueAttr(padding)
    return lambda tensor: types.PartitionViewType(tile_shape, tensor, dim_map, value)


@pytest.mark.parametrize("dynamic", (False, True))
def test_partition_view_pads_outside(dynamic: bool) -> None:
    padded = np.zeros((8, 12), np.int32)
    padded[:7, :10] = TABLE
    for i in range(2):
        for j in range(3):
            got = loaded(TABLE, partition((4, 4), "zero"), i, j, dynamic=dynamic)
            assert got.tolist() == padded[4 * i:4 * i + 4, 4 * j:4 * j + 4].tolist()
    assert loaded(TABLE, partition((4, 4)), 1, 2).ravel()[-1] == GARBAGE
    assert (loaded(TABLE, partition((4, 4), "zero"), 9, 0) == 0).all()


@pytest.mark.parametrize("padding, want", [("zero", 0.0), ("neg_zero", -0.0), ("nan", np.nan), ("pos_inf", np.inf),
                                           ("neg_inf", -np.inf)])
@pytest.mark.parametrize("dtype", (np.float16, ml_dtypes.bfloat16, np.float32, np.float64))
def test_padding_values(padding: str, want: float, dtype: Any) -> None:
    got = loaded(np.ones((3, 1), dtype), partition((4, 2), padding), 0, 0)
    assert got[:3, 0].tolist() == [1, 1, 1]
    assert got[3].tobytes() == np.array([want, want]).astype(dtype).tobytes()


def test_dim_map_permutes_tile_and_index() -> None:
    got = loaded(TABLE, partition((8, 2), "zero", (1, 0)), 1, 3)       # columns 8.., row 6, 7
    want = np.zeros((8, 2), np.int32)
    want[:2, 0] = TABLE[6, 8:]
    assert got.tolist() == want.tolist()


def test_views_of_strided_arrays() -> None:
    turned = np.ascontiguousarray(TABLE.T).T
    assert loaded(turned, partition((2, 4)), 1, 1).tolist() == TABLE[2:4, 4:8].tolist()
    assert loaded(TABLE[::2, ::3], partition((2, 2)), 1, 1).tolist() == TABLE[4:7:2, 6:10:3].tolist()


def test_strided_views_overlap_or_leave_gaps() -> None:
    def window(tensor: Any) -> Any:
        return types.StridedViewType((2, 4), (1, 3), tensor, None, attrs.PaddingValueAttr("zero"))
    assert loaded(TABLE, window, 2, 1).tolist() == TABLE[2:4, 3:7].tolist()
    want = np.zeros((2, 4), np.int32)
    want[0, :1] = TABLE[6, 9:]
    assert loaded(TABLE, window, 6, 3).tolist() == want.tolist()


def test_gather_view_picks_rows() -> None:
    def rows(tensor: Any) -> Any:
        return types.GatherScatterViewType((4, 4), tensor, 0, attrs.PaddingValueAttr("zero"))
    got = loaded(TABLE, rows, [5, 0, 99, 5], 7)
    want = np.zeros((4, 4), np.int32)
    want[[0, 1, 3], :3] = TABLE[[5, 0, 5], 7:]
    assert got.tolist() == want.tolist()
    out = TABLE.copy()
    stored(out, rows, np.arange(16, dtype=np.int32).reshape(4, 4), [1, 3, 7, 2], 8)
    want = TABLE.copy()
    want[[1, 3, 2], 8:] = [[0, 1], [4, 5], [12, 13]]
    assert out.tolist() == want.tolist()


def test_stores_outside_are_masked() -> None:
    out = np.zeros((7, 10), np.int32)
    stored(out, partition((4, 8)), np.arange(32, dtype=np.int32).reshape(4, 8) + 1, 1, 1)
    want = np.zeros((7, 10), np.int32)
    want[4:, 8:] = (np.arange(32).reshape(4, 8) + 1)[:3, :2]
    assert out.tolist() == want.tolist()


def test_inbounds_is_a_promise() -> None:
    flags = DenseArrayBase.from_list(i1, [True, False])
    assert loaded(TABLE, partition((4, 4), "zero"), 0, 2, inbounds=flags).tolist()[0] == [8, 9, 0, 0]
    with pytest.raises(InterpreterError, match=r"cuda_tile.load_view_tko: the tile leaves .* along dimension 0"):
        loaded(TABLE, partition((4, 4), "zero"), 1, 0, inbounds=flags)
    with pytest.raises(InterpreterError, match=r"cuda_tile.store_view_tko: .*inbounds"):
        stored(TABLE.copy(), partition((4, 4)), np.zeros((4, 4), np.int32), 1, 0, inbounds=flags)


def test_a_view_larger_than_its_array_is_caught() -> None:
    small = np.zeros((4, 4), np.int32)
    kernel = Kernel(pointer("i32"))
    tensor = types.TensorViewType(ELEMENTS["i32"], (8, 4), (4, 1))
    made = kernel.add(ops.MakeTensorView.make([kernel.args[0], [], []], [tensor]))
    view = kernel.add(ops.MakePartitionView.make([made], [types.PartitionViewType((8, 4), tensor)]))
    at = [kernel.constant("i32", 0)] * 2
    kernel.add(ops.LoadViewTko.make([view, at, None], [tile("i32", 8, 4), TOKEN], ORDER))
    with pytest.raises(InterpreterError, match=r"leaves every allocation .*argument 0, which has 64"):
        kernel.run(small)


def test_shapes_of_views() -> None:
    kernel, view = view_kernel(TABLE, partition((4, 4)), dynamic=True)
    tensor = view.owner.operands[0]
    for i, value in enumerate((*kernel.add(ops.GetTensorShape.make([tensor], [[tile("i32")] * 2])),
                               *kernel.add(ops.GetIndexSpaceShape.make([view], [[tile("i32")] * 2])))):
        at = kernel.add(ops.Offset.make([kernel.args[1], kernel.constant("i32", i)], [pointer("i32")]))
        kernel.add(ops.StorePtrTko.make([at, value, None, None], [TOKEN], ORDER))
    out = np.zeros(4, np.int32)
    kernel.run(TABLE, out, *(np.int64(n) for n in (7, 10, 10, 1)))
    assert out.tolist() == [7, 10, 2, 3]


# --- pointers --------------------------------------------------------------------------------------------------------

def test_masked_loads_and_stores() -> None:
    x, mask = np.arange(8, dtype=np.int32), np.array([True, False] * 4)
    kernel = Kernel(pointer("i32"), pointer("i1"), pointer("i32"), pointer("i32"), pointer("i32"))
    a, m, out, raw, some = kernel.args
    wanted = kernel.load(m, "i1", (8,))
    lanes = kernel.constant("i32", [0, 10 ** 6] * 4)
    ptrs = kernel.add(ops.Offset.make([kernel.pointers(a, "i32", 8), lanes], [pointer("i32", 8)]))
    padding = kernel.constant("i32", [-1] * 8)
    for base, extra in ((out, padding), (raw, None)):
        got, _ = kernel.add(ops.LoadPtrTko.make([ptrs, wanted, extra, None], [tile("i32", 8), TOKEN], ORDER))
        kernel.store(base, got)
    kernel.add(ops.StorePtrTko.make([kernel.pointers(some, "i32", 8), padding, wanted, None], [TOKEN], ORDER))
    outputs = np.zeros((3, 8), np.int32)
    kernel.run(x, mask, *outputs)
    assert outputs[0].tolist() == [0, -1, 2, -1, 4, -1, 6, -1]
    assert outputs[1].tolist() == [0, GARBAGE, 2, GARBAGE, 4, GARBAGE, 6, GARBAGE]
    assert outputs[2].tolist() == [-1, 0] * 4


@pytest.mark.parametrize("where, message", [
    (8, "access to .* leaves every allocation .32 bytes from the start of argument"), (-1, "leaves every allocation")])
def test_unmasked_accesses_outside_are_errors(where: int, message: str) -> None:
    for store in (False, True):
        kernel = Kernel(pointer("i32"))
        at = kernel.add(ops.Offset.make([kernel.args[0], kernel.constant("i64", where)], [pointer("i32")]))
        if store:
            kernel.add(ops.StorePtrTko.make([at, kernel.constant("i32", 0), None, None], [TOKEN], ORDER))
        else:
            kernel.add(ops.LoadPtrTko.make([at, None, None, None], [tile("i32"), TOKEN], ORDER))
        with pytest.raises(InterpreterError, match=message) as caught:
            kernel.run(np.zeros(8, np.int32))
        assert caught.value.op_name == ("cuda_tile.store_ptr_tko" if store else "cuda_tile.load_ptr_tko")


def test_misaligned_access_is_an_error() -> None:
    kernel = Kernel(pointer("i8"))
    one = kernel.add(ops.Offset.make([kernel.args[0], kernel.constant("i64", 1)], [pointer("i8")]))
    at = kernel.add(ops.PtrToPtr.make([one], [pointer("i32")]))
    kernel.add(ops.LoadPtrTko.make([at, None, None, None], [tile("i32"), TOKEN], ORDER))
    with pytest.raises(InterpreterError, match="misaligned"):
        kernel.run(np.zeros(8, np.int8))


def test_bytes_of_booleans_count_as_true_unless_zero() -> None:
    kernel = Kernel(pointer("i1"), pointer("i1"))
    kernel.store(kernel.args[1], kernel.load(kernel.args[0], "i1", (4,)))
    out = np.full(4, 9, np.uint8)
    kernel.run(np.array([0, 1, 2, 255], np.uint8), out)
    assert out.tolist() == [0, 1, 1, 1]


def test_arrays_that_overlap_keep_their_distance() -> None:
    whole = np.arange(12, dtype=np.int32)
    kernel = Kernel(pointer("i32"), pointer("i32"))
    kernel.store(kernel.args[1], kernel.load(kernel.args[0], "i32", (4,)))
    kernel.run(whole[:8], whole[4:])
    assert whole.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 8, 9, 10, 11]


def test_read_only_arrays_can_be_read() -> None:
    source = np.arange(4, dtype=np.int32)
    source.flags.writeable = False
    kernel = Kernel(pointer("i32"), pointer("i32"))
    kernel.store(kernel.args[1], kernel.load(kernel.args[0], "i32", (4,)))
    module, out = kernel.module(), np.zeros(4, np.int32)
    from tileiras.interp import run
    run(module, None, [1], [source, out])
    assert out.tolist() == [0, 1, 2, 3]
    with pytest.raises(InterpreterError, match="read-only"):
        run(module, None, [1], [out, source])


def a_global(name: str, values: Any, constant: bool = False) -> Any:
    value = dense("i32", values)
    return ops.Global.make([], [], {"sym_name": StringAttr(name), "value": value, "alignment": IntegerAttr(512, 64),
                                    "constant": UnitAttr() if constant else None})


def test_globals_hold_their_values() -> None:
    kernel = Kernel(pointer("i32"))
    base = kernel.add(ops.GetGlobal.make([], [pointer("i32")], {"name": SymbolRefAttr("table")}))
    kernel.store(kernel.args[0], kernel.load(base, "i32", (4,)))
    out = np.zeros(4, np.int32)
    kernel.run(out, items=[a_global("table", [3, 1, 4, 1])])
    assert out.tolist() == [3, 1, 4, 1]


def test_constant_globals_and_missing_ones() -> None:
    kernel = Kernel(pointer("i32"))
    base = kernel.add(ops.GetGlobal.make([], [pointer("i32")], {"name": SymbolRefAttr("table")}))
    kernel.store(base, kernel.load(kernel.args[0], "i32", (4,)))
    module = kernel.module([a_global("table", [0] * 4, constant=True)])
    from tileiras.interp import run
    with pytest.raises(InterpreterError, match="read-only memory of global table"):
        run(module, None, [1], [np.zeros(4, np.int32)])
    other = Kernel()
    other.add(ops.GetGlobal.make([], [pointer("i32")], {"name": SymbolRefAttr("nowhere")}))
    with pytest.raises(InterpreterError, match="no global named nowhere"):
        other.run()


def test_alloca_is_private_memory_of_a_block() -> None:
    kernel = Kernel(pointer("i32"), pointer("i64"))
    space = kernel.add(ops.Alloca.make([], [pointer("i32")], {"num_elem": IntegerAttr(4, 64),
                                                              "alignment": IntegerAttr(1024, 64)}))
    kernel.store(space, kernel.load(kernel.args[0], "i32", (4,)))
    number = kernel.add(ops.PtrToInt.make([space], [tile("i64")]))
    kernel.store(kernel.args[0], kernel.load(space, "i32", (4,)))
    kernel.store(kernel.args[1], number)
    x, where = np.arange(4, dtype=np.int32), np.zeros(1, np.int64)
    kernel.run(x, where, grid=(3,))
    assert x.tolist() == [0, 1, 2, 3] and where[0] % 1024 == 0


# --- atomics ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("mode, name, function", [
    ("add", "i32", np.add), ("add", "i64", np.add), ("and", "i32", np.bitwise_and), ("or", "i64", np.bitwise_or),
    ("xor", "i32", np.bitwise_xor), ("max", "i32", np.maximum), ("min", "i64", np.minimum), ("addf", "f32", np.add),
    ("addf", "f16", np.add), ("addf", "f64", np.add), ("addf", "bf16", np.add), ("xchg", "f32", lambda old, new: new)])
def test_atomic_updates_follow_one_another(mode: str, name: str, function: Any) -> None:
    """Eight elements onto three cells: each sees what the one before it left."""
    cells = np.array([5, -7, 1]).astype(ARRAYS[name])
    x = np.array([3, 9, -2, 4, 11, -6, 8, 1]).astype(ARRAYS[name])
    where = np.array([0, 1, 0, 2, 2, 0, 1, 2], np.int32)
    kernel = Kernel(pointer(name), pointer(name), pointer("i32"), pointer(name))
    base, given, at, old = kernel.args
    one = kernel.add(ops.Reshape.make([base], [pointer(name, 1)]))
    many = kernel.add(ops.Broadcast.make([one], [pointer(name, 8)]))
    ptrs = kernel.add(ops.Offset.make([many, kernel.load(at, "i32", (8,))], [pointer(name, 8)]))
    before, _ = kernel.add(ops.AtomicRMWTko.make(
        [ptrs, kernel.load(given, name, (8,)), None, None], [tile(name, 8), TOKEN],
        {**RELAXED, "mode": attrs.AtomicRMWModeAttr(mode)}))
    kernel.store(old, before)
    want, seen = cells.copy(), []
    for i, v in zip(where, x):
        seen.append(want[i])
        want[i] = function(want[i], v)
    out = np.zeros(8, ARRAYS[name])
    kernel.run(cells, x, where, out)
    assert cells.tolist() == want.tolist() and out.tolist() == [v.item() for v in seen]


def test_unsigned_extrema_and_masks() -> None:
    cells = np.array([-1, 5, 7, 7], np.int32)
    for mode, want in (("umax", [-1, 9, 7, 7]), ("umin", [4, 9, 7, 7])):
        kernel = Kernel(pointer("i32"))
        mask = kernel.constant("i1", [True, True, False, True])
        given = kernel.constant("i32", [4, 9, 100, 7])
        kernel.add(ops.AtomicRMWTko.make([kernel.pointers(kernel.args[0], "i32", 4), given, mask, None],
                                         [tile("i32", 4), TOKEN], {**RELAXED, "mode": attrs.AtomicRMWModeAttr(mode)}))
        kernel.run(cells)
        assert cells.tolist() == want, mode


def test_compare_and_swap_compares_bits() -> None:
    cells = np.array([0.0, -0.0, np.nan, 1.0], np.float32)
    kernel = Kernel(pointer("f32"), pointer("f32"))
    compare = kernel.constant("f32", [0.0, 0.0, np.nan, 1.0])
    mask = kernel.constant("i1", [True, True, True, False])
    got, _ = kernel.add(ops.AtomicCASTko.make(
        [kernel.pointers(kernel.args[0], "f32", 4), compare, kernel.constant("f32", [7, 7, 7, 7]), mask, None],
        [tile("f32", 4), TOKEN], RELAXED))
    kernel.store(kernel.args[1], got)
    old = np.zeros(4, np.float32)
    kernel.run(cells, old)
    assert cells.tolist() == [7, -0.0, 7, 1] and np.signbit(cells[1])
    assert old[[0, 1, 3]].tolist() == [0, -0.0, 1] and np.isnan(old[2])


def test_reduction_through_a_view_skips_what_lies_outside() -> None:
    out = np.ones((3, 5), np.int32)
    kernel, view = view_kernel(out, partition((2, 4)))
    given = kernel.load(kernel.args[1], "i32", (2, 4))
    kernel.add(ops.AtomicRedViewTko.make([view, [kernel.constant("i32", 1)] * 2, given, None], [TOKEN],
                                         {**RELAXED, "mode": attrs.AtomicRMWModeAttr("add")}))
    kernel.run(out, np.arange(8, dtype=np.int32).reshape(2, 4) + 10, grid=(2,))
    want = np.ones((3, 5), np.int32)
    want[2, 4] += 20
    assert out.tolist() == want.tolist()


@pytest.mark.parametrize("mode, name", [("add", "i8"), ("addf", "i32"), ("and", "f32"), ("max", "f64"),
                                        ("xchg", "f16")])
def test_atomics_that_do_not_exist(mode: str, name: str) -> None:
    kernel = Kernel(pointer(name))
    kernel.add(ops.AtomicRMWTko.make([kernel.args[0], kernel.constant(name, 1), None, None], [tile(name), TOKEN],
                                     {**RELAXED, "mode": attrs.AtomicRMWModeAttr(mode)}))
    with pytest.raises(InterpreterError, match=f"atomic {mode} doesn't exist on {name}"):
        kernel.run(np.zeros(1, ARRAYS[name]))


def test_tokens_and_grid_dependencies_pass() -> None:
    kernel = Kernel()
    first = kernel.add(ops.MakeToken.make([], [TOKEN]))
    second = kernel.add(ops.GdcWaitTko.make([first], [TOKEN]))
    third = kernel.add(ops.GdcLaunchDependentsTko.make([second], [TOKEN]))
    fence = kernel.add(ops.MemoryFenceAliasTko.make([third], [TOKEN]))
    kernel.add(ops.JoinTokens.make([[first, fence]], [TOKEN]))
    kernel.run()


@pytest.mark.parametrize("seed", range(40))
def test_views_agree_with_their_definition_element_by_element(seed: int) -> None:
    """Random arrays, tiles, steps and dimension maps; loads and stores against a loop over positions."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    source = rng.integers(0, 1000, [int(n) for n in rng.integers(1, 9, rank)]).astype(np.int32)
    dim_map = [int(d) for d in rng.permutation(rank)]
    tile_shape = [int(2 ** k) for k in rng.integers(0, 3, rank)]
    steps = [int(n) for n in rng.integers(1, 5, rank)] if seed % 2 else tile_shape
    index = [int(rng.integers(0, -(-source.shape[d] // s))) for d, s in zip(dim_map, steps)]

    def view(tensor: Any) -> Any:
        zero = attrs.PaddingValueAttr("zero")
        if seed % 2:
            return types.StridedViewType(tile_shape, steps, tensor, dim_map, zero)
        return types.PartitionViewType(tile_shape, tensor, dim_map, zero)

    want, target = np.zeros(tile_shape, np.int32), source.copy()
    value = rng.integers(0, 1000, tile_shape).astype(np.int32)
    for at in np.ndindex(*tile_shape):
        position = [0] * rank
        for t, d in enumerate(dim_map):
            position[d] = index[t] * steps[t] + at[t]
        if all(p < n for p, n in zip(position, source.shape)):
            want[at] = source[tuple(position)]
            target[tuple(position)] = value[at]
    assert loaded(source, view, *index).tolist() == want.tolist()
    stored(source, view, value, *index)
    assert source.tolist() == target.tolist()
