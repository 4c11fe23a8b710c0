"""Programs that were once compiled wrongly, each as small as it gets: compiled, simulated, compared with what they mean."""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tileiras
from tests.interp.build import ELEMENTS, TOKEN, WEAK, Kernel, pointer, tile
from tileiras.bytecode import write
from tileiras.dialects.cuda_tile import attrs, ops, types
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.sim import simulate


def compiled(module: Any, opt_level: int = 3, gpu: str = "sm_90") -> Any:
    return tileiras.compile(write(module, "13.4"), gpu_name=gpu, opt_level=opt_level)


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("static", [True, False])
def test_tiles_beyond_two_to_the_31_elements(static: bool, opt_level: int) -> None:
    """Index 2^26 + 1 of tiles of 64 starts at element 2^32 + 64: more than the i32 index has bits for."""
    index, extent, size = 2**26 + 1, 2**33, 64
    k = Kernel(pointer("i32"), pointer("i32"), tile("i64"), tile("i64"))
    base = k.add(ops.Offset.make([k.args[0], k.args[2]], [pointer("i32")]))
    view_type = types.TensorViewType(ELEMENTS["i32"], [extent if static else None], [1])
    whole = k.add(ops.Assume.make([k.args[3]], [tile("i64")], {"predicate": attrs.DivByAttr(size)}))
    view = k.add(ops.MakeTensorView.make([base, [] if static else [whole], []], [view_type]))
    tiles = k.add(ops.MakePartitionView.make([view], [types.PartitionViewType((size,), view_type, (0,))]))
    x = k.add(ops.LoadViewTko.make([tiles, [k.constant("i32", index)], None], [tile("i32", size), TOKEN],
                                   {"memory_ordering_semantics": WEAK}))[0]
    k.store(k.args[1], x)
    data, out = np.arange(5, 5 + size, dtype=np.int32), np.zeros(size, np.int32)
    arguments = [data, out, np.int64(-index * size), np.int64(extent)]
    simulate(compiled(k.module(), opt_level).ptx, kernel="kernel", grid=(1,), args=arguments)
    np.testing.assert_array_equal(out, data)


@pytest.mark.parametrize("opt_level", [0, 3])
def test_code_behind_branches_that_both_leave(opt_level: int) -> None:
    """What follows is never reached, nor is the next iteration; LLVM IR must not mention it."""
    k = Kernel(pointer("i32"))
    condition, zero = k.constant("i1", True), k.constant("i32", np.zeros(4))

    def body(x: Any) -> Any:
        leave = [k.region([], lambda: ops.Return.make([[]])) for _ in range(2)]
        k.add(ops.If.make([condition], [[]], {}, leave))
        return ops.Continue.make([[x]])
    result = k.add(ops.Loop.make([[zero]], [[tile("i32", 4)]], {}, [k.region([tile("i32", 4)], body)]))
    k.store(k.args[0], result)
    out = np.full(4, 7, np.int32)
    simulate(compiled(k.module(), opt_level).ptx, kernel="kernel", grid=(1,), args=[out])
    np.testing.assert_array_equal(out, 7)


def ordered_load(shape: tuple[int, ...], element: str = "i32", ordering: str = "acquire") -> Kernel:
    k = Kernel(pointer(element), pointer(element))
    pointers = k.pointers(k.args[0], element, shape[0]) if shape else k.args[0]
    order = {"memory_ordering_semantics": attrs.MemoryOrderingSemanticsAttr(ordering),
             "memory_scope": attrs.MemoryScopeAttr("device")}
    x = k.add(ops.LoadPtrTko.make([pointers, None, None, None], [tile(element, *shape), TOKEN], order))[0]
    k.store(k.args[1], x)
    k.store(k.args[1], k.constant(element, np.ones(512)))     # a tile that makes the block four warps
    k.store(k.args[1], x)
    return k


@pytest.mark.parametrize("ordering", ["relaxed", "acquire"])
@pytest.mark.parametrize("shape", [(), (1,), (4,)])
def test_ordered_loads_happen_once_an_element(shape: tuple[int, ...], ordering: str) -> None:
    """Memory may change between two loads: all threads must go on with one value, or branches on it wouldn't be uniform."""
    ptx = compiled(ordered_load(shape, ordering=ordering).module()).ptx
    loads = re.findall(rf".*\bld\.{ordering}\.gpu.*", ptx)
    assert loads and all("@" in line for line in loads)
    assert "ld.shared" in ptx


@pytest.mark.parametrize("element", ["i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "f8E4M3FN"])
@pytest.mark.parametrize("shape", [(), (4,)])
def test_ordered_loads_of_every_width(shape: tuple[int, ...], element: str) -> None:
    from tests.interp.build import ARRAYS
    k = ordered_load(shape, element)
    data = np.array([1, 0, 1, 1][:shape[0] if shape else 1]).astype(ARRAYS[element])
    out = np.zeros(512, ARRAYS[element])
    simulate(compiled(k.module()).ptx, kernel="kernel", grid=(1,), args=[data, out])
    assert (out[:len(data)] == data).all()


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("unsigned", [False, True])
def test_narrow_loops_end_where_the_next_index_would_wrap(unsigned: bool, opt_level: int) -> None:
    """0, 3, ..., 126 below 127 (or 255): the addition after the last overflows i8."""
    from xdsl.dialects.builtin import UnitAttr
    k = Kernel(pointer("i32"))
    low, high, step = k.constant("i8", 0), k.constant("i8", -1 if unsigned else 127), k.constant("i8", 3)
    zero, one = k.constant("i32", 0), k.constant("i32", 1)

    def body(i: Any, count: Any) -> Any:
        more = k.add(ops.AddI.make([count, one], [tile("i32")], {"overflow": attrs.OverflowAttr("none")}))
        return ops.Continue.make([[more]])
    properties: Any = {"unsignedCmp": UnitAttr()} if unsigned else {}
    count = k.add(ops.For.make([low, high, step, [zero]], [[tile("i32")]], properties,
                               [k.region([tile("i8"), tile("i32")], body)]))
    k.store(k.args[0], count)
    out = np.zeros(1, np.int32)
    simulate(compiled(k.module(), opt_level).ptx, kernel="kernel", grid=(1,), args=[out])
    assert out[0] == (255 // 3 if unsigned else 43)


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("element, low, high, step", [
    ("i32", 2**31 - 10, 2**31 - 1, 4), ("i32", -2**31, 2**31 - 1, 2**30), ("i64", 2**63 - 9, 2**63 - 1, 5), ("i32", 5, 5, 2)])
def test_a_for_whose_last_addition_wraps_ends(element: str, low: int, high: int, step: int, opt_level: int) -> None:
    """The bounds come from memory, so that nothing is known of them while compiling."""
    k = Kernel(pointer(element), pointer("i32"))
    given = k.load(k.args[0], element, (4,))
    bounds = [k.add(ops.Reshape.make([k.add(ops.Extract.make([given, [k.constant("i32", i)]], [tile(element, 1)]))],
                                     [tile(element)])) for i in range(3)]
    body = k.region([tile(element), tile("i32")], lambda i, n: ops.Continue.make([[k.add(ops.AddI.make(
        [n, k.constant("i32", 1)], [tile("i32")], {"overflow": attrs.OverflowAttr("none")}))]]))
    count = k.add(ops.For.make([*bounds, [k.constant("i32", 0)]], [[tile("i32")]], {}, [body]))
    k.store(k.args[1], k.add(ops.Reshape.make([count], [tile("i32", 1)])))
    out = np.zeros(1, np.int32)
    data = np.array([low, high, step, 0], np.int32 if element == "i32" else np.int64)
    simulate(compiled(k.module(), opt_level).ptx, args=[data, out], max_instructions=100_000)
    assert out[0] == len(range(low, high, step))


@pytest.mark.parametrize("opt_level", [0, 3])
def test_loops_that_take_one_slice_after_another_of_a_tile(opt_level: int) -> None:
    """The tile doesn't change, but which part of it goes to shared memory does: that can't be done before the loop."""
    text = """cuda_tile.module @m {
      entry @kernel(%in: tile<ptr<i32>>, %out: tile<ptr<i32>>) {
        %t = make_token : token
        %zero = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %four = constant <i32: 4> : tile<i32>
        %w = make_tensor_view %in, shape = [64], strides = [1] : tensor_view<64xi32, strides=[1]>
        %v = make_partition_view %w : partition_view<tile=(64), tensor_view<64xi32, strides=[1]>>
        %a, %u = load_view_tko weak %v[%zero] token = %t : partition_view<tile=(64), tensor_view<64xi32, strides=[1]>>, tile<i32>
            -> tile<64xi32>, token
        %x = make_tensor_view %out, shape = [64], strides = [1] : tensor_view<64xi32, strides=[1]>
        %y = make_partition_view %x : partition_view<tile=(16), tensor_view<64xi32, strides=[1]>>
        for %i in (%zero to %four, step %one) : tile<i32> {
          %s = extract %a[%i] : tile<64xi32> -> tile<16xi32>
          %d = addi %s, %s : tile<16xi32>
          %z = store_view_tko weak %d, %y[%i] token = %t : tile<16xi32>,
            partition_view<tile=(16), tensor_view<64xi32, strides=[1]>>, tile<i32> -> token
          continue
        }
        return
      }
    }"""
    data, out = np.arange(7, 71, dtype=np.int32), np.zeros(64, np.int32)
    simulate(compiled(parse_module(text), opt_level).ptx, kernel="kernel", grid=(1,), args=[data, out])
    np.testing.assert_array_equal(out, 2 * data)


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("element", ["f32", "f16"])
@pytest.mark.parametrize("ordering", ["relaxed", "acquire", "release", "acq_rel"])
def test_rows_are_added_in_any_order_of_memory(ordering: str, element: str, opt_level: int) -> None:
    """Reductions take several neighbours at a time; those that acquire, without fences around them (-O0), one."""
    text = f"""cuda_tile.module @m {{
      entry @kernel(%given: tile<ptr<{element}>>) {{
        %p = assume div_by<16>, %given : tile<ptr<{element}>>
        %i = iota : tile<256xi32>
        %r = reshape %p : tile<ptr<{element}>> -> tile<1xptr<{element}>>
        %b = broadcast %r : tile<1xptr<{element}>> -> tile<256xptr<{element}>>
        %at = offset %b, %i : tile<256xptr<{element}>>, tile<256xi32> -> tile<256xptr<{element}>>
        %x = itof %i signed : tile<256xi32> -> tile<256x{element}>
        %old, %t = atomic_rmw_tko {ordering} device %at, addf, %x : tile<256xptr<{element}>>, tile<256x{element}>
            -> tile<256x{element}>, token
        return
      }}
    }}"""
    out = np.full(256, 3, np.float32 if element == "f32" else np.float16)
    simulate(compiled(parse_module(text), opt_level).ptx, kernel="kernel", grid=(1,), args=[out])
    np.testing.assert_array_equal(out, 3 + np.arange(256))


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("bits", [16, 32])
def test_short_offsets_that_wrap_into_an_array(bits: int, opt_level: int) -> None:
    """Offsets that no op extends, and twice as much, which wraps: one lies in the array, the other outside, masked."""
    text = """cuda_tile.module @m { entry @kernel(%to: tile<ptr<i32>>, %x: tile<iB>) {
        %t = make_token : token
        %two = constant <iB: 2> : tile<iB>
        %y = muli %x, %two : tile<iB>
        %p = offset %to, %x : tile<ptr<i32>>, tile<iB> -> tile<ptr<i32>>
        %q = offset %to, %y : tile<ptr<i32>>, tile<iB> -> tile<ptr<i32>>
        %zero = constant <iB: 0> : tile<iB>
        %five = constant <i32: 5> : tile<i32>
        %seven = constant <i32: 7> : tile<i32>
        %inside = cmpi greater_than_or_equal %x, %zero, signed : tile<iB> -> tile<i1>
        %u = store_ptr_tko weak %p, %five, %inside token = %t : tile<ptr<i32>>, tile<i32>, tile<i1> -> token
        %v = store_ptr_tko weak %q, %seven token = %u : tile<ptr<i32>>, tile<i32> -> token
        return } }""".replace("iB", f"i{bits}")
    number: Any = np.dtype(f"int{bits}").type
    out = np.zeros(16, np.int32)
    simulate(compiled(parse_module(text), opt_level).ptx, kernel="kernel", grid=(1,),
             args=[out, number(np.iinfo(number).min + 3)])
    np.testing.assert_array_equal(out, [0] * 6 + [7] + [0] * 9)
