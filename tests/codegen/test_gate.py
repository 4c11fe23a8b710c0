"""What LLVM can't take is refused by name before it gets there; what it can is let through."""
from __future__ import annotations

import re

import pytest

from tests.codegen import programs
from tileiras.codegen import compile_llvm_to_ptx, operand_rules
from tileiras.codegen.compile import compile_llvm
from tileiras.codegen.gate import check, problems
from tileiras.errors import CompileError
from tileiras.machine.intrinsics import FEATURES
from tileiras.machine.targets import TARGETS, Target, find_target

SM75, SM80, SM90, SM100, SM103, SM110, SM120 = (find_target(f"sm_{n}") for n in (75, 80, 90, 100, 103, 110, 120))

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


def test_a_kernels_name_is_said_as_the_program_has_it() -> None:
    """LLVM's text writes a backslash by its number."""
    assert problems('define ptx_kernel void @"a\\5Cxe5"() {', SM90) == [
        r"a kernel called 'a\xe5': PTX names are of letters, digits, '_' and '$'"]


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


OPERANDS = ("ptr addrspace(6) %d, i64 %a, i64 %b, i32 %i, i1 %on",
            "ptr addrspace(6) %d, ptr addrspace(6) %d, i64 %b, i32 %i, i1 %on")
LANES = "<4 x i32> <i32 1, i32 1, i32 1, i32 1>"
COPY = "ptr addrspace(7) %c, ptr addrspace(3) %s, ptr %m, i32 %i, i16 0, i64 0, i1 0, i1 0"


def product(name: str, last: str, of_tensors: bool = False) -> str:
    return f"call void @llvm.nvvm.tcgen05.mma.{name}({OPERANDS[of_tensors]}, {last})"


SELECTION = [
    # (call, where it is refused, documented text, where it compiles)
    (product("shared", "i32 3, i32 1, i32 0"), SM103, operand_rules.INTEGERS, SM100),
    (product("sp.shared", "ptr addrspace(6) %d, i32 3, i32 1, i32 0"), SM103, operand_rules.INTEGERS, SM110),
    (product("ws.shared", "i32 3, i32 0, i32 0"), SM103, operand_rules.INTEGERS, SM100),
    (product("shared.disable_output_lane.cg1", f"{LANES}, i32 3, i32 0"), SM103, operand_rules.INTEGERS, SM100),
    (product("shared.scale_d", "i64 3, i32 0, i32 1, i32 0"), SM110, operand_rules.NO_SCALED_INPUT, SM100),
    (product("shared.scale_d", "i64 3, i32 2, i32 1, i32 0"), SM100, operand_rules.SCALED_INPUT_KINDS, None),
    (product("tensor.ashift", "i32 0, i32 1, i32 2", True), SM100, operand_rules.SHIFTED_COLLECTOR, None),
    (product("tensor.ashift", "i32 0, i32 1, i32 3", True), SM100, operand_rules.SHIFTED_COLLECTOR, None),
    (product("tensor.ashift", "i32 0, i32 1, i32 1", True), SM90, operand_rules.NO_TENSOR_CORE, SM100),
    (product("shared", "i32 9, i32 1, i32 0"), SM100, "there is no kind 9", None),
    (product("shared", "i32 0, i32 3, i32 0"), SM100, "there is no CTA group 3", None),
    (product("shared", "i32 0, i32 1, i32 4"), SM100, "there is no such use of a collector", None),
    (product("ws.shared", "i32 0, i32 4, i32 0"), SM100, "there is no such use of a collector", None),
    (product("shared", "i32 %i, i32 1, i32 0"), SM100, "takes numbers for its last 3 operands", None),
    ("call void @llvm.nvvm.tcgen05.relinq.alloc.permit.cg1()", SM120, operand_rules.NO_TENSOR_MEMORY, SM100),
    (f"call void @llvm.nvvm.cp.async.bulk.tensor.g2s.tile.1d({COPY}, i32 1)", SM90, operand_rules.TWO_CTAS, SM100),
    (f"call void @llvm.nvvm.cp.async.bulk.tensor.g2s.tile.1d({COPY}, i32 2)", SM120, operand_rules.TWO_CTAS, SM100),
    (f"call void @llvm.nvvm.cp.async.bulk.tensor.g2s.tile.1d({COPY}, i32 3)", SM100, "there is no CTA group 3", None),
    ("call void @llvm.nvvm.cp.async.bulk.tensor.g2s.tile.6d(i32 %i)", SM90, operand_rules.RANK, None),
    ("call void @llvm.nvvm.cp.async.bulk.tensor.g2s.im2col.2d(i32 %i)", SM90, operand_rules.IM2COL_RANK, None),
    (f"call void @llvm.nvvm.cp.async.bulk.tensor.g2s.im2col.w.3d({COPY.replace('i16 0', 'i32 %i, i32 %i, i16 0, i16 0, i16 0')}, "
     "i32 0)", SM90, operand_rules.WIDE_IM2COL, SM100),
    ("%r = call i32 @llvm.nvvm.ldmatrix.sync.aligned.m8n16.x1.trans.b8x16.b6x16_p32(ptr addrspace(3) %s)", SM100,
     operand_rules.TRANSPOSED, None),
    ("%r = call i32 @llvm.nvvm.ldmatrix.sync.aligned.m16n16.x4.trans.b8(ptr addrspace(3) %s)", SM100, operand_rules.WIDE_MATRICES,
     None),
    ("%r = call i16 @llvm.nvvm.ff.to.ue8m0x2.rz(float %x, float %x)", SM90, operand_rules.NO_SCALES, SM100),
    ("%r = call i16 @llvm.nvvm.ff.to.e2m1x2.rn.satfinite(float %x, float %x)", SM90, operand_rules.NO_SMALL_FLOATS, SM100),
    ('%r = atomicrmw fadd ptr addrspace(1) %p, <4 x float> %v syncscope("device") monotonic', SM80,
     "vector atomics not supported on this architecture!", SM90),
    ("%r = cmpxchg ptr addrspace(1) %p, i128 %w, i128 %w monotonic monotonic", SM80,
     "128b atomics not supported on this architecture!", SM90),
]


def kernel_with(call: str) -> str:
    """A kernel that makes a call, whose operands come as arguments."""
    declared = ""
    if "@" in call:
        head, _, arguments = call.partition("(")
        types = [re.sub(r" (%\w+|-?\d+|<i32 [^>]*>)$", "", a) for a in re.split(r", (?![^<]*>)", arguments[:-1]) if a]
        declared = f"declare {head.partition('call ')[2]}({', '.join(types)})\n"
    return (f'{declared}define ptx_kernel void @k(ptr addrspace(1) %p, ptr addrspace(6) %d, ptr addrspace(3) %s, '
            'ptr addrspace(7) %c, i64 %a, i64 %b, i32 %i, i1 %on, ptr %m, float %x, <4 x float> %v, i128 %w) '
            f'"nvvm.reqntid"="128" {{\n  {call}\n  ret void\n}}\n')


@pytest.mark.parametrize(("call", "without", "said", "having"), SELECTION)
def test_what_does_not_go_together_is_refused_in_the_documented_words(call: str, without: Target, said: str,
                                                                      having: Target | None) -> None:
    source = kernel_with(call)
    assert [text for text in problems(source, without) if said in text]
    if having is not None:
        assert problems(source, having) == []
        assert compile_llvm(source, having).cubin


def test_a_call_of_no_intrinsic() -> None:
    with pytest.raises(CompileError, match=r"LLVM has no intrinsic 'llvm\.nvvm\.frobnicate'"):
        compile_llvm(kernel_with("call void @llvm.nvvm.frobnicate(i32 %i)"), SM90)
