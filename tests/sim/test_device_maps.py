"""Tensor maps that a kernel builds itself, in memory that the driver gives every CTA, or, if it is old, every SM."""
from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

from tests.sim import reference
from tileiras.sim import MissingProxyFence, OutOfBounds, PointerTable, simulate
from tileiras.sim.errors import LaunchError
from tileiras.sim.timing.cubin import Cubin

COLUMNS, ROWS = 32, 8               # of a box
PTX = """.version 9.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 arrays, .param .u64 out, .param .u64 maps, .hidden .param .u64 .ptr .global .align 1 memory)
.reqntid 32
MEMORY
{
 .reg .b32 %r<16>; .reg .b64 %rd<20>; .reg .pred %p<8>;
 .shared .align 1024 .b8 buf[1024]; .shared .align 128 .b8 made[128]; .shared .align 8 .b64 bar;
 ld.param.u64 %rd1, [arrays]; ld.param.u64 %rd2, [out]; ld.param.u64 %rd3, [maps]; ld.param.u64 %rd4, [memory];
 mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r0, 0;
 mul.wide.u32 %rd5, %r1, 8; add.u64 %rd5, %rd5, %rd1; ld.global.b64 %rd6, [%rd5];       // the CTA's array
 setp.gt.u32 %p2, %r0, 7; @%p2 bra BUILT;
 mul.wide.u32 %rd7, %r0, 8; add.u64 %rd8, %rd7, %rd3; ld.global.b64 %rd9, [%rd8];       // the map's word, but for its address
 setp.eq.u32 %p3, %r0, 0; selp.b64 %rd9, %rd6, %rd9, %p3;
 mov.u32 %r2, made; shl.b32 %r3, %r0, 3; add.u32 %r2, %r2, %r3; st.shared.b64 [%r2], %rd9;
BUILT: @%p1 bra READY;
 mbarrier.init.shared::cta.b64 [bar], 1; fence.mbarrier_init.release.cluster;
READY: bar.warp.sync -1;
 mov.u64 %rd10, %perctamemoryoffset; setp.ne.b64 %p4, %rd10, 0; @%p4 bra PLACED;
 mov.u32 %r4, %smid; mov.u32 %r5, %warpid; mul.wide.u32 %rd11, %r4, 8192; mul.wide.u32 %rd12, %r5, 128;
 add.u64 %rd10, %rd4, %rd11; add.u64 %rd10, %rd10, %rd12;
PLACED: mov.u32 %r2, made;
 tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd10], [%r2], 128;
 ACQUIRE
 bar.warp.sync -1;
 @%p1 bra WAIT;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [buf], [%rd10, {0, 0}], [bar];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p5, [bar], 0; @!%p5 bra WAIT;
 mul.wide.u32 %rd13, %r1, 1024; add.u64 %rd13, %rd13, %rd2; mov.u32 %r6, buf;
LOOP: mul.wide.u32 %rd14, %r0, 4; add.u64 %rd14, %rd14, %rd13; shl.b32 %r7, %r0, 2; add.u32 %r7, %r7, %r6;
 ld.shared.b32 %r8, [%r7]; st.global.b32 [%rd14], %r8;
 add.u32 %r0, %r0, 32; setp.lt.u32 %p6, %r0, 256; @%p6 bra LOOP;
 ret;
}
"""
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%rd10], 128;"
MEMORY = ".minperctamemory 128"


def run(text: str, grid: int = 5, **options):
    """Each CTA copies the first box of an array of its own; the report."""
    arrays = [np.arange(1000 * i, 1000 * i + ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS) for i in range(grid)]
    # f32 is type 7, rank 2, version 1; rows of 128 bytes; 32 x 8 elements and as large a box
    words = np.array([0, 1 << 1 | 1 << 4 | 7 << 7 | 2 << 17 | 8 << 32, 0, 0, 31 | 7 << 32, 0, 31 << 56, 7], np.uint64)
    out = np.zeros((grid, ROWS, COLUMNS), np.float32)
    report = simulate(text, "k", grid, [PointerTable(arrays), out, words], **options)
    assert np.array_equal(out, arrays)
    return report


@pytest.mark.parametrize("cta_memory", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_every_cta_has_a_map_of_its_own(cta_memory: bool, seed: int) -> None:
    text = PTX.replace("ACQUIRE", ACQUIRE).replace("MEMORY", MEMORY)
    assert not run(text, cta_memory=cta_memory, seed=seed).findings


@pytest.mark.parametrize("cta_memory", [True, False])
def test_a_map_must_be_acquired(cta_memory: bool) -> None:
    text = PTX.replace("ACQUIRE", "").replace("MEMORY", MEMORY)
    [finding] = run(text, cta_memory=cta_memory).findings
    assert isinstance(finding, MissingProxyFence) and "acquire" in str(finding)


def test_memory_that_nobody_asked_for_is_not_there() -> None:
    with pytest.raises(OutOfBounds):
        run(PTX.replace("ACQUIRE", ACQUIRE).replace("MEMORY", ""))


def test_too_much_memory_is_refused() -> None:
    with pytest.raises(LaunchError, match="minperctamemory 1073741824 for 5 CTAs"):
        run(PTX.replace("ACQUIRE", ACQUIRE).replace("MEMORY", ".minperctamemory 1073741824"))


# ---- what the original makes of a list of arrays

LIST = """cuda_tile.module @m {
  entry @k(%p: tile<ptr<i64>>, %q: tile<ptr<f32>>, %n0: tile<i32>, %n1: tile<i32>, %s0: tile<i32>) {
    %tok = make_token : token
    %x, %y, %zz = get_tile_block_id : tile<i32>
    %z = constant <i32: 0> : tile<i32>
    %at = offset %p, %x : tile<ptr<i64>>, tile<i32> -> tile<ptr<i64>>
    %word, %wt = load_ptr_tko weak %at token=%tok : tile<ptr<i64>> -> tile<i64>, token
    %pi = int_to_ptr %word : tile<i64> -> tile<ptr<f32>>
    %pa = assume div_by<16>, %pi : tile<ptr<f32>>
    %sa = assume bounded<0, ?>, %s0 : tile<i32>
    %sb = assume div_by<4>, %sa : tile<i32>
    %m0 = assume bounded<0, ?>, %n0 : tile<i32>
    %m1 = assume bounded<0, ?>, %n1 : tile<i32>
    %v = make_tensor_view %pa, shape = [%m0, %m1], strides = [%sb, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %a = make_partition_view %v : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>
    %t, %k = load_view_tko weak %a[%z, %z] token = %tok : partition_view<tile=(64x64), padding_value = zero,
                 tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> tile<64x64xf32>, token
    %r = reduce %t dim=1 identities=[0.0 : f32] : tile<64x64xf32> -> tile<64xf32> (%e: tile<f32>, %f: tile<f32>) {
      %g = addf %e, %f : tile<f32>
      yield %g : tile<f32>
    }
    %s = reduce %r dim=0 identities=[0.0 : f32] : tile<64xf32> -> tile<f32> (%e: tile<f32>, %f: tile<f32>) {
      %g = addf %e, %f : tile<f32>
      yield %g : tile<f32>
    }
    %to = offset %q, %x : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
    %o = store_ptr_tko weak %to, %s token=%tok : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}
"""


@pytest.mark.skipif(reference.original() is None, reason="the original isn't installed")
@pytest.mark.parametrize("sm", ["sm_90", "sm_100", "sm_120"])
def test_a_list_of_arrays_as_the_original_compiles_it(sm: str, tmp_path) -> None:
    """Its maps are built on the device; both kinds of drivers give the sums of the arrays."""
    from tileiras.tools.tileiras_translate import main as translate

    source, code, out = (str(tmp_path / name) for name in ("k.mlir", "k.tileirbc", "k.cubin"))
    (tmp_path / "k.mlir").write_text(LIST)
    assert translate(["--mlir-to-cudatilebc", "--bytecode-version=13.1", source, "-o", code]) == 0
    subprocess.run([str(reference.original()), code, "-o", out, "--gpu-name", sm, "-O3", "--lineinfo"], check=True, timeout=120)
    ptx = Cubin((tmp_path / "k.cubin").read_bytes()).ptx
    assert "cp_fenceproxy" in ptx and re.search(r"\.minperctamemory\s+128", ptx)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-8, 8, (50, 60)).astype(np.float32) for _ in range(3)]
    sizes = np.int32(50), np.int32(60), np.int32(60)
    for cta_memory in (True, False):
        sums = np.zeros(3, np.float32)
        report = simulate(ptx, "k", 3, [PointerTable(arrays), sums, *sizes], cta_memory=cta_memory)
        assert not report.findings and list(sums) == [a.sum() for a in arrays]
