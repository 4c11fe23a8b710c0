"""The nineteen figures of a kernel, counted by hand in a few lines of PTX."""
from __future__ import annotations

from tests.kernels import runner
from tileiras.codegen.kernel_info import METRICS, kernel_info
from tileiras.codegen.resources import Entry

PTX = """.version 9.2
.target sm_100a
.address_size 64
.visible .entry other()
{
	ret;
}
.visible .entry k(
	.param .u64 k_param_0
)
.reqntid 128
{
	.reg .pred 	%p<3>;
	ld.param.b64 	%rd1, [k_param_0];
	mov.u32 	%r1, %tid.x;
	ld.global.v4.b32 	{%r2, %r3, %r4, %r5}, [%rd1];
	add.rn.f32 	%r6, %r2, %r3;
	fma.rn.f32x2 	%rd2, %rd3, %rd4, %rd5;
	add.s32 	%r7, %r1, 1;
	setp.eq.s32 	%p1, %r7, 0;
	@%p1 bra 	$L1;
	bra.uni 	$L2;
$L1:
	@!%p1 st.shared.b32 	[%r1], %r6;
	// begin inline asm
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1, %r2, %r3, %r4}, {%r1, %r2, %r3, %r4}, {%r1, %r2}, {%r1, %r2, %r3, %r4};
	// end inline asm
	tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1];
	cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r1, %r2}], [%r3];
$L2:
	ret;
}
"""
KERNEL = Entry("k", (), 128, shared_bytes=64, registers=40, stack_bytes=16, spill_stores=8, spill_loads=12, barriers=2,
               param_base=896)


def test_every_figure() -> None:
    assert kernel_info(PTX, KERNEL) == {
        "regs": 40, "smem": 64, "cmem": 896, "tex": 0, "params": 0, "local": 20, "stack": 16, "barriers": 2,
        "loads": 1, "stores": 1, "branches": 2, "fp_ops": 2, "int_ops": 2, "divergence": 1, "predicated": 1,
        "vector_ops": 2, "mma_ops": 1, "tcgen05_ops": 1, "tma_ops": 1}


def test_the_order_is_the_documented_one() -> None:
    assert list(kernel_info(PTX, KERNEL)) == list(METRICS) and len(METRICS) == 19


def test_a_product_of_the_suite() -> None:
    """Its copies are tensor copies, its products those of a warpgroup, on sm_90."""
    made = runner.compile_case("matmul_float16_float16_twin", "sm_90")
    found = kernel_info(made.ptx, made.entries[0])
    assert found["mma_ops"] > 0 and found["tma_ops"] > 0 and found["tcgen05_ops"] == 0
    assert found["regs"] == made.entries[0].registers and found["int_ops"] > 0
