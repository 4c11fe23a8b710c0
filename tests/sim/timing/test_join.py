"""The machine code's way explains the functional run: over the kernel suite, ours and the original's."""
from __future__ import annotations

import pytest

from tests.kernels import runner
from tests.sim import reference
from tests.sim.timing.kernels import needs_disassembler, suite_streams
from tests.sim.timing.suite_join import KEPT, SMS, WHO, rows, verdict
from tileiras.sim.timing.streams import TOLERATED

pytestmark = needs_disassembler
CROSS_SECTION = ["vector_add_ragged", "reduce_softmax_ragged", "matmul_float16_float32", "gemm_f16_f32_ragged_k",
                 "conv2d_stride2_bf16", "scan_cumsum_float32", "atomic_histogram", "control_nested_break",
                 "layer_norm_f16_ragged", "binary_pow_float32"]
ONE_SM_EACH = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"]
ORIGINAL_SM_EACH = ["sm_80", "sm_90", "sm_100", "sm_120"]
EXPLAINED = 0.95


@pytest.mark.parametrize(("k", "name"), list(enumerate(CROSS_SECTION)))
def test_our_code_is_explained(k, name):
    streams = suite_streams(name, ONE_SM_EACH[k % len(ONE_SM_EACH)], original=False)
    assert streams is not None and streams.is_joined, streams
    assert streams.joined.residual <= TOLERATED and all(w.steps for c in streams.ctas for w in c.warps)


@pytest.mark.skipif(reference.original() is None, reason="the original isn't installed")
@pytest.mark.parametrize(("k", "name"), list(enumerate(CROSS_SECTION)))
def test_the_original_s_code_is_explained(k, name):
    streams = suite_streams(name, ORIGINAL_SM_EACH[k % len(ORIGINAL_SM_EACH)], original=True)
    if streams is None:
        pytest.skip("the original has no code for this")
    assert streams.is_joined, streams
    assert streams.joined.residual <= TOLERATED and all(w.steps for c in streams.ctas for w in c.warps)


@pytest.mark.slow
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("sm", SMS)
def test_nearly_all_of_the_suite_is_explained(sm, who):
    """Rows of code that was joined before are kept, so that a run that was cut off goes on."""
    found = list(rows(runner.cases(), [sm], [who], KEPT))
    if not found:
        pytest.skip("the original isn't installed or has no such target")
    left = [row for row in found if verdict(row) != "good"]
    assert len(left) <= (1 - EXPLAINED) * len(found), left
