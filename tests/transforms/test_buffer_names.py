"""A buffer in shared memory has one name, and a stage of a ring is a slice of it: no pass hands buffers through loops, branches or
selects, which is why there is no `remove-buffer-alias` (docs/deviations.md), and why offsets can be given by name."""
from __future__ import annotations

import pytest

from tests.kernels import runner
from tileiras import bytecode, pipeline
from tileiras.dialects.nv_tileas import BufferType, RingType
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target

MAKERS = {"nv_tileas.alloc_tensor", "nv_tileas.extract_slice"}
KERNELS = ("matmul_float16_float16", "attention_causal_d64_bf16", "gemm_persistent_bf16_ragged", "softmax_streamed_bf16_ragged",
           "state_space_scan_f32_ragged", "dequant_gemm_int8_f16_ragged")


@pytest.mark.parametrize("gpu", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_buffers_are_made_by_allocation_or_are_slices(kernel: str, gpu: str) -> None:
    module = pipeline.run(bytecode.read(runner.export_case(kernel)), CompileOptions(find_target(gpu)), stop_at="nv_tileas")
    buffers = 0
    for op in module.walk():
        made = [r for r in op.results if isinstance(r.type, (BufferType, RingType))]
        buffers += len(made)
        assert not made or op.name in MAKERS
        for block in (b for region in op.regions for b in region.blocks):
            assert not any(isinstance(a.type, (BufferType, RingType)) for a in block.args)
    assert buffers or kernel.startswith(("softmax", "state"))
