"""The table of SMs says what ptxas accepts."""
from __future__ import annotations

import subprocess

import pytest

from tileiras.codegen import toolchain
from tileiras.errors import ConfigError
from tileiras.machine.targets import TARGETS, Target, find_target

REGISTERS = (".reg .pred p; .reg .b16 h<8>; .reg .b32 r<16>; .reg .b64 q<8>; .reg .f32 f<8>; .reg .f64 d<8>; "
             ".reg .b128 w; .shared .align 128 .b8 s[1024];")
F4, R4 = "{f0,f1,f2,f3}", "{r0,r1,r2,r3}"
# What the instruction that a feature stands for looks like (PTX ISA).
PROBES = {
    "has_ldmatrix": f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {R4},[s];",
    "has_ldmatrix_bytes": f"ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {R4},[s];",
    "has_stmatrix": f"stmatrix.sync.aligned.m8n8.x4.shared.b16 [s],{R4};",
    "has_movmatrix": "movmatrix.sync.aligned.m8n8.trans.b16 r0,r1;",
    "has_f16_mma_k16": f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {F4},{R4},{{r4,r5}},{F4};",
    "has_bf16_mma": f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {F4},{R4},{{r4,r5}},{F4};",
    "has_tf32_mma": f"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {F4},{R4},{{r4,r5}},{F4};",
    "has_f64_mma": "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {d0,d1},{d2},{d3},{d0,d1};",
    "has_f64_mma_m16": "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {d0,d1,d4,d5},{d2,d6},{d3},{d0,d1,d4,d5};",
    "has_fp8_mma": f"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {F4},{R4},{{r4,r5}},{F4};",
    "has_block_scaled_mma": "mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e4m3"
                            f".f32.ue8m0 {F4},{R4},{{r4,r5}},{F4},r6,{{0,0}},r7,{{0,0}};",
    "has_wgmma": "wgmma.fence.sync.aligned;",
    "has_tcgen05": "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
    "has_tcgen05_i8": "tcgen05.mma.cta_group::1.kind::i8 [r0],q0,q1,r1,p;",
    "has_tcgen05_scale_d": "tcgen05.mma.cta_group::1.kind::f16 [r0],q0,q1,r1,p,3;",
    "has_cp_async": "cp.async.cg.shared.global [s],[q0],16;",
    "has_mbarrier": "mbarrier.init.shared.b64 [s],1;",
    "has_clusters": "mov.u32 r0,%clusterid.x;",
    "has_tma": "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [s],[q0,{r0}],[s];",
    "has_elect": "elect.sync _|p, r0;",
    "has_setmaxnreg": "setmaxnreg.dec.sync.aligned.u32 32;",
    "has_griddepcontrol": "griddepcontrol.wait;",
    "has_launch_control": "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [s],[s];",
    "has_wide_global_access": "ld.global.v8.b32 {r0,r1,r2,r3,r4,r5,r6,r7},[q0];",
    "has_redux": "redux.sync.add.s32 r0,r1,-1;",
    "has_redux_f32": "redux.sync.max.f32 f0,f1,-1;",
    "has_bf16_fma": "fma.rn.bf16x2 r0,r1,r2,r3;",
    "has_bf16_arith": "add.rn.bf16x2 r0,r1,r2;",
    "has_f16_minmax": "max.f16x2 r0,r1,r2;",
    "has_ex2_f16": "ex2.approx.f16x2 r0,r1;",
    "has_ex2_bf16": "ex2.approx.ftz.bf16x2 r0,r1;",
    "has_tanh_bf16": "tanh.approx.bf16x2 r0,r1;",
    "has_tanh_approx": "tanh.approx.f32 f0,f1;",
    "has_f32x2_arith": "fma.rn.f32x2 q0,q1,q2,q3;",
    "has_minmax3": "max.f32 f0,f1,f2,f3;",
    "has_cvt_bf16": "cvt.rn.bf16x2.f32 r0,f0,f1;",
    "has_cvt_tf32": "cvt.rna.tf32.f32 r0,f0;",
    "has_cvt_tf32_rn": "cvt.rn.tf32.f32 r0,f0;",
    "has_cvt_int_bf16": "cvt.rn.bf16.s32 h0,r0;",
    "has_cvt_bf16_directed": "cvt.rm.bf16.f32 h0,f0;",
    "has_cvt_fp8": "cvt.rn.satfinite.e4m3x2.f32 h0,f0,f1; cvt.rn.f16x2.e5m2x2 r0,h0;",
    "has_cvt_fp4_fp6": "cvt.rn.satfinite.e2m3x2.f32 h0,f0,f1;",
    "has_cvt_e5m3": "cvt.rn.satfinite.ue5m3x2.f32 h0,f0,f1; cvt.rn.bf16x2.ue5m3x2 r0,h0;",
    "has_atom_bf16": "atom.global.add.noftz.bf16x2 r0,[q0],r1;",
    "has_atom_vector_f32": f"atom.global.add.v4.f32 {F4},[q0],{F4};",
    "has_atom_b128": "mov.b128 w,{q0,q1}; atom.global.exch.b128 w,[q0],w;",
}


def refused_lines(target: Target, instructions: list[str]) -> set[int]:
    """The line numbers that ptxas objects to, of one instruction a line from line 5 on."""
    text = "\n".join([f".version {max(target.ptx_version, '9.3')}", f".target {target.ptx}", ".address_size 64",
                      f".visible .entry k() {{ {REGISTERS}", *instructions, "ret; }\n"])
    done = subprocess.run([str(toolchain.find_tool("ptxas")), f"-arch={target.ptx}", "-O0", "-o", "/dev/null", "-"],
                          input=text, capture_output=True, text=True, timeout=60)
    lines = {int(line.split("line ")[1].split(";")[0]) for line in done.stderr.splitlines() if ", line " in line}
    assert lines or done.returncode == 0, done.stderr
    return lines


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_features_are_what_ptxas_takes(target: Target) -> None:
    refused = refused_lines(target, list(PROBES.values()))
    accepted = {name for line, name in enumerate(PROBES, 5) if line not in refused}
    assert accepted == {name for name in PROBES if getattr(target, name)}


def test_every_feature_has_a_probe() -> None:
    assert {name for name in Target.__dataclass_fields__ if name.startswith("has_")} == set(PROBES)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_integer_mma_shapes_are_what_ptxas_takes(target: Target) -> None:
    shapes = {(8, 8, 16): "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {r0,r1},{r2},{r3},{r0,r1};",
              (16, 8, 16): f"mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {R4},{{r4,r5}},{{r6}},{R4};",
              (16, 8, 32): f"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {R4},{{r4,r5,r6,r7}},{{r8,r9}},{R4};"}
    refused = refused_lines(target, list(shapes.values()))
    assert target.int8_mma_shapes == tuple(s for line, s in enumerate(shapes, 5) if line not in refused)


def test_names_and_special_registers() -> None:
    assert [t.name for t in TARGETS] == [f"sm_{n}" for n in (75, 80, 86, 87, 88, 89, 90, 100, 103, 107, 110, 120, 121)]
    assert find_target("sm_89").ptx == "sm_89" and find_target("sm_90").ptx == "sm_90a"


@pytest.mark.parametrize("name", ["sm_90a", "sm_70", "90", ""])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="unsupported GPU target"):
        find_target(name)
