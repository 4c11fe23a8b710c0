"""Which target has which of LLVM's intrinsics for NVIDIA's GPUs: families of names and the fields of the target they need."""
from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Feature(NamedTuple):
    """Intrinsics whose name after `llvm.nvvm.` begins with `prefix` and holds `contains` need a target's `feature`."""

    prefix: str
    feature: str
    contains: str = ""

    def applies(self, name: str) -> bool:
        return name.startswith(self.prefix) and self.contains in name


_F = Feature
# Every row that applies must hold. From the PTX ISA's target notes and from trying each on LLVM 22 and ptxas 13.5.
FEATURES: tuple[Feature, ...] = (
    # matrix instructions
    _F("wgmma.", "has_wgmma"),
    _F("tcgen05.", "has_tcgen05"),
    _F("stmatrix.", "has_stmatrix"),
    _F("stmatrix.", "has_cvt_fp4_fp6", ".m16n8."),
    _F("ldmatrix.", "has_ldmatrix_bytes", ".m16n16."),
    _F("ldmatrix.", "has_cvt_fp4_fp6", ".m8n16."),
    _F("mma.block.scale", "has_block_scaled_mma"),
    _F("mma.sp.ordered.metadata.block.scale", "has_block_scaled_mma"),
    _F("mma.sp.", "has_f16_mma_k16"),
    _F("mma.m16n8k16.", "has_f16_mma_k16"),
    _F("mma.", "has_bf16_mma", ".bf16"),
    _F("mma.", "has_tf32_mma", ".tf32"),
    _F("mma.m8n8k4.row.col.f64", "has_f64_mma"),
    _F("mma.m16n8k", "has_f64_mma_m16", ".f64"),
    _F("mma.m16n8k32.", "has_f16_mma_k16"),
    _F("mma.m16n8k64.", "has_f16_mma_k16"),
    *(_F("mma.", "has_fp8_mma", f".{t}") for t in ("e4m3", "e5m2")),
    *(_F("mma.", "has_block_scaled_mma", f".{t}") for t in ("e2m1", "e2m3", "e3m2")),
    # copies and synchronisation
    _F("cp.async.", "has_cp_async"),
    _F("cp.async.bulk", "has_tma"),
    _F("cp.async.bulk.tensor", "has_tcgen05", "gather4"),
    _F("cp.async.bulk.tensor", "has_tcgen05", "scatter4"),
    _F("cp.async.mbarrier", "has_mbarrier"),
    _F("tensormap.replace", "has_tma"),
    _F("prefetch.tensormap", "has_tma"),
    _F("mbarrier.", "has_mbarrier"),
    _F("mbarrier.", "has_clusters", "try.wait"),
    _F("mbarrier.", "has_clusters", ".scope."),
    _F("mbarrier.", "has_clusters", "expect.tx"),
    _F("mbarrier.", "has_clusters", "complete.tx"),
    _F("barrier.cluster", "has_clusters"),
    _F("mapa", "has_clusters"),
    _F("getctarank", "has_clusters"),
    _F("is_explicit_cluster", "has_clusters"),
    _F("read.ptx.sreg.", "has_clusters", "cluster"),
    _F("fence.sc.cluster", "has_clusters"),
    _F("fence.mbarrier_init", "has_clusters"),
    _F("fence.proxy.", "has_tma", "async"),
    _F("fence.proxy.", "has_tma", "tensormap"),
    _F("fence.", "has_clusters", "sync_restrict"),
    _F("elect.sync", "has_elect"),
    _F("setmaxnreg", "has_setmaxnreg"),
    _F("griddepcontrol", "has_griddepcontrol"),
    _F("clusterlaunchcontrol", "has_launch_control"),
    # arithmetic
    _F("redux.sync.", "has_redux"),
    _F("redux.sync.fm", "has_redux_f32"),
    _F("fma.", "has_bf16_fma", "bf16"),
    _F("fma.", "has_bf16_fma", "relu"),
    *(_F(op, "has_f16_minmax", t) for op in ("fmin.", "fmax.") for t in ("f16", "nan", "xorsign")),
    _F("neg.bf16", "has_bf16_fma"),
    # conversions
    _F("ff2bf16x2", "has_cvt_bf16"),
    _F("f2bf16", "has_cvt_bf16"),
    _F("ff2f16x2", "has_cvt_bf16"),
    _F("f2tf32", "has_cvt_tf32"),
    *(_F(f"ff.to.{t}", "has_cvt_fp8") for t in ("e4m3x2", "e5m2x2")),
    *(_F(f"f16x2.to.{t}", "has_cvt_fp8") for t in ("e4m3x2", "e5m2x2")),
    *(_F(t, "has_cvt_fp8") for t in ("e4m3x2.", "e5m2x2.")),
    *(_F(f"ff.to.{t}", "has_cvt_fp4_fp6") for t in ("e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2")),
    *(_F(t, "has_cvt_fp4_fp6") for t in ("e2m1x2.", "e2m3x2.", "e3m2x2.", "ue8m0x2.", "bf16x2.to.ue8m0x2", "f32x4")),
)


def features_of(name: str) -> Iterator[str]:
    """The fields of the target that an intrinsic (its name after `llvm.nvvm.`) needs."""
    return (f.feature for f in FEATURES if f.applies(name))
