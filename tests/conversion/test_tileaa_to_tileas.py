"""Layouts and access widths of real kernels, the barriers between their accesses, and the placement of shared memory."""
from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import TensorType

from tileiras.analysis.access import access_width
from tileiras.analysis.shared_memory import buffer_bytes
from tileiras.bytecode import read
from tileiras.dialects import nv_tileas
from tileiras.driver.options import SWITCHES, CompileOptions
from tileiras.machine.targets import find_target
from tileiras.pipeline import run


@pytest.fixture(scope="module")
def placed(kernel_bytecode) -> Callable:
    """`placed(case, sm)`: the case's nv_tileas function; with `serial`, without asynchronous code."""
    def lower(name: str, sm: str = "sm_90", serial: bool = False):
        options = CompileOptions(find_target(sm))
        options.without |= frozenset(SWITCHES if serial else ())
        module = run(read(kernel_bytecode(name)), options, stop_at="nv_tileas")
        module.verify()
        return next(op for op in module.body.block.ops if op.name == "nv_tileas.func")
    return lower


def ops(func, *names: str) -> list:
    return [op for op in func.walk() if op.name in names]


def vector(op) -> int:
    return access_width(op, nv_tileas.layout_of(op.operands[0] if "store" in op.name else op.results[0]))


def test_aligned_arrays_move_16_bytes_at_a_time(placed):
    for name, elements in (("vector_add_float32", 4), ("vector_add_float16", 8), ("vector_add_int32", 4)):
        accesses = ops(placed(name), "nv_tileas.tiled_load", "nv_tileas.tiled_store")
        assert [vector(op) for op in accesses] == [elements] * 3


def test_arrays_without_promises_move_element_by_element(placed):
    accesses = ops(placed("vector_add_ragged", serial=True), "nv_tileas.tiled_load", "nv_tileas.tiled_store")
    assert [vector(op) for op in accesses] == [1] * 3
    assert all(c.data for op in accesses for c in op.properties["check"].data)


@pytest.mark.parametrize(("name", "elements"), [("matmul_float16_float16", 8), ("matmul_bfloat16_bfloat16", 8),
                                               ("matmul_float16_float32", 4)])
def test_a_product_of_16_bits_is_stored_16_bytes_at_a_time(placed, name, elements):
    """An accumulator's fragment has two neighbours, 4 bytes of f16 and 8 of f32: it changes its layout for the store."""
    store, = ops(placed(name, serial=True), "nv_tileas.tiled_store")
    assert vector(store) == elements


def test_elementwise_kernels_convert_no_layout(placed):
    for name in ("vector_add_float32", "saxpy_2d", "softmax_16x256_f16"):
        assert not ops(placed(name), "nv_tileas.convert_layout")


@pytest.mark.parametrize("name", ["vector_add_float32", "softmax_16x256_f16", "matmul_float16_float16", "transpose_2d_f32"])
def test_every_tensor_is_held_whole(placed, name):
    try:
        func = placed(name)
    except KeyError:
        pytest.skip("no such case")
    tensors = [r for op in func.walk() for r in op.results if isinstance(r.type, TensorType)]
    assert tensors
    for v in tensors:
        layout = nv_tileas.layout_of(v)
        assert layout.shape == v.type.get_shape()
        held = {layout.index(r, lane, w) for r in range(layout.num_regs) for lane in range(32) for w in range(layout.num_warps)}
        assert held == set(range(layout.size))


def test_accesses_that_no_token_joins_need_no_barrier(placed):
    """Two loads and a store of different arrays, nothing in shared memory: the function is ordered, and has no barrier."""
    func = placed("vector_add_float32")
    assert ops(func, "nv_tileas.tiled_load") and ops(func, "nv_tileas.tiled_store")
    assert not ops(func, "nv_tileas.alloc_tensor") and not ops(func, "nv_tileas.barrier")


def test_a_product_meets_twice_a_step(placed):
    """Behind the stores of both operands, and before the next step's overwrite what was read: nowhere else."""
    func = placed("matmul_float16_float32", serial=True)
    [loop] = ops(func, "scf.for")
    inside = [op.name.removeprefix("nv_tileas.") for op in loop.regions[0].block.ops]
    inside = [name for name in inside if name in ("store_shared", "barrier", "dot")]
    assert inside in (["barrier", "store_shared", "store_shared", "barrier", "dot"],
                      ["store_shared", "store_shared", "barrier", "dot", "barrier"])
    outside = list(func.regions[0].block.ops)
    assert "nv_tileas.barrier" not in [op.name for op in outside[:outside.index(loop)]]


def test_dot_operands_lie_in_disjoint_buffers(placed):
    func = placed("matmul_float16_float32", serial=True)
    dot, = ops(func, "nv_tileas.dot")
    read = [v.owner.operands[0].owner if v.owner.name == "nv_tileas.load_shared" else v.owner for v in dot.operands[:2]]
    buffers = [op for op in ops(func, "nv_tileas.alloc_tensor") if op in read]
    assert len(buffers) == 2
    spans = []
    for op in buffers:
        start = op.properties["offset"].data
        spans.append((start, start + buffer_bytes(op.results[0].type)))
    (a, b), (c, d) = sorted(spans)
    size = func.properties["shared_bytes"].data
    assert a >= 0 and b <= c and d <= size
    assert d - a == 128 * 64 * 2 * 2       # A and B tiles of f16, nothing wasted
