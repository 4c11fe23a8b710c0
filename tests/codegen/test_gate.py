"""What LLVM can't take is refused by name before it gets there; what it can is let through."""
from __future__ import annotations

import pytest

from tests.codegen import programs
from tileiras.codegen import compile_llvm_to_ptx
from tileiras.codegen.gate import check, problems
from tileiras.errors import CompileError
from tileiras.machine.intrinsics import FEATURES
from tileiras.machine.targets import TARGETS, Target, find_target

SM75, SM80, SM90, SM100 = (find_target(f"sm_{n}") for n in (75, 80, 90, 100))

NEEDS = [
    # intrinsic, refused on, accepted on (PTX ISA target notes)
    ("llvm.nvvm.wgmma.fence.sync.aligned", SM100, SM90),
    ("llvm.nvvm.tcgen05.relinq.alloc.permit.cg1", SM90, SM100),
    ("llvm.nvvm.cp.async.commit.group", SM75, SM80),
    ("llvm.nvvm.mma.m16n8k16.row.col.bf16", SM75, SM80),
    ("llvm.nvvm.mma.m16n8k16.row.col.f16.f16", SM75, SM80),
    ("llvm.nvvm.mma.m16n8k32.row.col.f32.e4m3.e4m3.f32", SM80, SM90),
    ("llvm.nvvm.mma.m16n8k4.row.col.f64", SM80, SM90),
    ("llvm.nvvm.mma.block.scale.m16n8k32.row.col.mxf8f6f4.f32.e2m1.e2m1.f32.ue8m0", SM100, find_target("sm_120")),
    ("llvm.nvvm.stmatrix.sync.aligned.m8n8.x4.b16", SM80, SM90),
    ("llvm.nvvm.redux.sync.add", SM75, SM80),
    ("llvm.nvvm.redux.sync.fmax", SM90, SM100),
    ("llvm.nvvm.read.ptx.sreg.clusterid.x", SM80, SM90),
    ("llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta", SM80, SM90),
    ("llvm.nvvm.fma.rn.bf16x2", SM75, SM80),
    ("llvm.nvvm.ff.to.e4m3x2.rn", SM80, SM90),
    ("llvm.nvvm.ff.to.e2m1x2.rn.satfinite", SM90, SM100),
]


@pytest.mark.parametrize("name, without, having", NEEDS, ids=[n for n, _, _ in NEEDS])
def test_intrinsics_are_gated_by_target(name: str, without: Target, having: Target) -> None:
    text = f"  call void @{name}()\n"
    with pytest.raises(CompileError) as caught:
        check(text, without)
    assert name in caught.value.message and without.name in caught.value.message and having.name in caught.value.message
    check(text, having)


@pytest.mark.parametrize("call, refused", [
    ("%s = call float @llvm.sin.f32(float %x)", True),
    ("%s = call afn float @llvm.sin.f32(float %x)", False),
    ("%s = call float @llvm.exp.f32(float %x)", True),
    ("%s = call float @llvm.log2.f32(float %x)", True),
    ("%s = call afn float @llvm.log2.f32(float %x)", True),
    ("%s = call float @llvm.exp2.f32(float %x)", False),
    ("%s = call float @llvm.pow.f32(float %x, float %y)", True),
    ("%s = call float @llvm.tanh.f32(float %x)", True),
    ("%s = call afn float @llvm.tanh.f32(float %x)", False),
    ("%s = call float @llvm.sqrt.f32(float %x)", False),
    ("%s = call float @llvm.maximum.f32(float %x, float %y)", False),
    ("%s = frem float %x, %y", True),
    ("%s = atomicrmw fadd ptr addrspace(1) %pc, float %x syncscope(\"block\") acq_rel", True),
    ("%s = atomicrmw fadd ptr addrspace(1) %pc, float %x syncscope(\"device\") monotonic", False),
])
def test_what_the_gate_lets_through_compiles(call: str, refused: bool) -> None:
    source = programs.vector_op(SM90, call)
    assert bool(problems(source, SM90)) == refused
    if not refused:
        assert ".entry" in compile_llvm_to_ptx(source, SM90)


@pytest.mark.parametrize("line", [
    "%r = sitofp i128 %a to float",
    "%r = fptoui double %a to i128",
    "%r = fadd fp128 %a, %b",
    "%r = atomicrmw add ptr addrspace(1) %p, i128 %b syncscope(\"device\") monotonic",
])
def test_wide_types_are_refused_where_they_do_not_select(line: str) -> None:
    assert problems(line, SM90)


def test_128_bit_integers_are_fine_elsewhere() -> None:
    assert not problems("%r = mul i128 %a, %b\n%c = cmpxchg ptr addrspace(1) %p, i128 %a, i128 %b monotonic monotonic",
                        SM90)


def test_cluster_scope_needs_clusters() -> None:
    line = '%c = cmpxchg ptr addrspace(1) %p, i32 %a, i32 %b syncscope("cluster") acquire monotonic'
    assert problems(line, SM80) and not problems(line, SM90)


@pytest.mark.parametrize("name, fine", [
    ("k", True), ("_Z3addPf", True), ("a$b_9", True), ("a.b", False), ('"a b"', False), ('"\\C3\\A9"', False),
    ('""', False),
])
def test_kernel_names_are_ptx_names(name: str, fine: bool) -> None:
    assert bool(problems(programs.vector_op(SM90, name=name), SM90)) != fine


def test_rules_name_features_of_the_table() -> None:
    for rule in FEATURES:
        assert any(getattr(target, rule.feature) for target in TARGETS), rule


KERNEL = 'define ptx_kernel void @child(ptr addrspace(1) %p) "nvvm.reqntid"="128" {\n  ret void\n}\n'
HELPER = "define void @child(ptr addrspace(1) %p) {\n  ret void\n}\n"
LAUNCH = "define ptx_kernel void @k(ptr addrspace(1) %p) {{\n  %x = alloca i32\n" \
         "  %r = call i32 @cudaLaunchDevice(ptr @child, {})\n  ret void\n}}\n"
NOT_A_KERNEL = "a function that is not __global__ cannot be launched"
LOCAL = ("A pointer to local memory or memory in 'addrspace(0)' has been used as a launch argument. Dereferencing this within the "
         "launch is undefined")
NONE_AT_ALL = "kernels don't launch kernels: a cubin holds entries only, without the runtime that would do it"


@pytest.mark.parametrize(("child", "argument", "said"), [
    (KERNEL, "ptr addrspace(1) %p", [NONE_AT_ALL]), (HELPER, "ptr addrspace(1) %p", [NOT_A_KERNEL, NONE_AT_ALL]),
    (KERNEL, "ptr %x", [LOCAL, NONE_AT_ALL]), (HELPER, "ptr %x", [NOT_A_KERNEL, LOCAL, NONE_AT_ALL]),
])
def test_launches_in_kernels_are_refused(child: str, argument: str, said: list[str]) -> None:
    assert problems(child + LAUNCH.format(argument), SM90) == said


@pytest.mark.parametrize(("attributes", "target", "said"), [
    ('"nvvm.reqntid"="128" "nvvm.cluster_dim"="2" "nvvm.blocksareclusters"=""', SM90, []),
    ('"nvvm.reqntid"="128"', SM75, []), ('"nvvm.reqntid"="16,8,1"', SM75, []),
    ('"nvvm.reqntid"="1,2,3,4"', SM90, ["'nvvm.reqntid' must be one to three positive numbers, but is '1,2,3,4'"]),
    ('"nvvm.maxntid"="0"', SM90, ["'nvvm.maxntid' must be one to three positive numbers, but is '0'"]),
    ('"nvvm.minctasm"="few"', SM90, ["'nvvm.minctasm' must be a number, but is 'few'"]),
    ('"nvvm.reqntid"="128" "nvvm.blocksareclusters"=""', SM90,
     ["blocksareclusters directive requires both thread-block dimensions and a cluster dimension"]),
    ('"nvvm.reqntid"="128" "nvvm.cluster_dim"="2"', SM80, ["'nvvm.cluster_dim' needs one of "]),
])
def test_launch_attributes(attributes: str, target: Target, said: list[str]) -> None:
    found = problems(f"define ptx_kernel void @k() {attributes} {{\n  ret void\n}}\n", target)
    assert len(found) == len(said) and all(text.startswith(start) for text, start in zip(found, said))


@pytest.mark.parametrize(("instruction", "said"), [
    ('fence syncscope("warp") acquire', "unsupported NVPTX synchronization scope 'warp'"),
    ('fence syncscope("block") monotonic', "fence ordering must be acquire, release, acq_rel, or seq_cst"),
])
def test_fences(instruction: str, said: str) -> None:
    assert problems(f"  {instruction}\n", SM90) == [said]
    assert problems('  fence syncscope("block") acq_rel\n', SM90) == []
