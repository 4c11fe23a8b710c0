"""Layouts and access widths of real kernels, the barriers between their accesses, and the placement of shared memory."""
from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import TensorType

from tileiras.analysis.access import access_width
from tileiras.bytecode import read
from tileiras.conversion.tileas_to_llvm import handlers
from tileiras.conversion.tileas_to_llvm.shared.shared_memory import plan_shared_memory
from tileiras.dialects import nv_tileas
from tileiras.dialects.element import element_bytes
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.pipeline import run


@pytest.fixture(scope="module")
def placed(kernel_bytecode) -> Callable:
    """`placed(case, sm)`: the case's nv_tileas function."""
    def lower(name: str, sm: str = "sm_90"):
        module = run(read(kernel_bytecode(name)), CompileOptions(find_target(sm)), stop_at="nv_tileas")
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
    accesses = ops(placed("vector_add_ragged"), "nv_tileas.tiled_load", "nv_tileas.tiled_store")
    assert [vector(op) for op in accesses] == [1] * 3
    assert all(c.data for op in accesses for c in op.properties["check"].data)


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


def test_independent_accesses_need_no_barrier(placed):
    assert not ops(placed("vector_add_float32"), "nv_tileas.barrier")
    assert not ops(placed("matmul_float16_float16"), "nv_tileas.barrier")


def test_dot_operands_lie_in_disjoint_buffers(placed):
    func = placed("matmul_float16_float16")
    target = find_target("sm_80")
    handlers.load([op.name for op in func.walk()])
    plan = plan_shared_memory(func, target)
    buffers = ops(func, "nv_tileas.alloc_tensor")
    assert len(buffers) == 2
    spans = []
    for op in buffers:
        t = op.results[0].type
        spans.append((plan.offsets[op], plan.offsets[op] + t.layout.data.extent * element_bytes(t.element_type)))
    (a, b), (c, d) = sorted(spans)
    assert a >= 0 and b <= c and d <= plan.size
    assert plan.size == 128 * 64 * 2 * 2        # A and B tiles of f16, nothing wasted
