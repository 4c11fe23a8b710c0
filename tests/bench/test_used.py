"""What engines code uses is counted from its instructions; the page lists what the original alone has at work."""
from __future__ import annotations

from bench import used

THEIRS = """
.visible .entry k(
	.hidden .param .align 64 .b8 k_param_3[128],
	.hidden .param .align 64 .b8 k_param_4[128]
)
.reqntid 384
{
	mbarrier.init.shared.b64 [%r1], %r2;
	@%p1 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r3], [%rd1, {%r4, %r5}], [%r1];
	wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1}, %rd2, %rd3, 1, 1, 1, 0, 0;
	fence.proxy.async.shared::cta;
	bar.sync 1, 128;
	cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd4, {%r6, %r7}], [%r8];
}
"""
OURS = THEIRS.replace("wgmma.mma_async", "// wgmma.mma_async").replace("fence.proxy", "mma.sync.aligned.m16n8k8 {%r1}; //")


def test_instructions_are_counted_and_comments_are_not() -> None:
    found = used.engines(THEIRS)
    assert found == {"wgmma": 1, "tcgen05": 0, "TMA loads": 1, "TMA stores": 1, "mma.sync": 0, "cp.async": 0, "barriers": 1,
                     "mbarriers": 1, "proxy fences": 1, "maps": 2, "threads": 384}
    assert used.engines(OURS)["wgmma"] == used.engines(OURS)["proxy fences"] == 0
    assert used.engines(OURS)["mma.sync"] == 1


def test_the_page_lists_what_the_original_alone_has_at_work() -> None:
    ours, theirs = used.engines(OURS), used.engines(THEIRS)
    found = {"lacking": {"ours": ours, "theirs": theirs, "lacks": ["wgmma"], "beats": [], "reasons": ["64 rows | it needs"]},
             "equal": {"ours": theirs, "theirs": theirs, "lacks": [], "beats": [], "reasons": []},
             "strange": {"refused": "a type"}}
    text = used.page(found, "sm_90", 5)
    copies = "TMA loads, TMA stores"
    assert f"| lacking | wgmma | {copies}, mma.sync, 2 maps | wgmma, {copies}, 2 maps | 64 rows \\| it" in text
    assert "| equal |" not in text
    assert "1 kernels of 2." in text and "refuses 1: strange" in text and "3 of 5" in text
    assert "`python -m bench.used --write`" in text
    assert "`python -m bench.used --loop-free --gpu-name sm_100 --write`" in used.page(found, "sm_100", 5, loop_free=True)


def test_each_sm_has_its_page() -> None:
    assert (used.page_of("sm_90").name, used.page_of("sm_100").name) == ("used.md", "used-sm_100.md")


def test_kernels_that_loop_or_multiply_are_looked_at_each_before_its_twin() -> None:
    names = list(used.chosen())
    assert names.index("gemm_f64_32x32x16") + 1 == names.index("gemm_f64_32x32x16_twin")
    assert "vector_add_float32" not in names
