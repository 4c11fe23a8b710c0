"""Every row of nvvm is an instruction: LLVM and ptxas take it on the targets that have it; and waits hold what waits."""
from __future__ import annotations

import re

import pytest
from xdsl.dialects.builtin import DictionaryAttr, IntAttr, ModuleOp, StringAttr, UnitAttr, VectorType
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from tileiras.analysis import in_flight
from tileiras.codegen import compile_llvm_to_ptx
from tileiras.codegen.compile import compile_llvm
from tileiras.codegen.llvm_text import print_module
from tileiras.conversion.tileas_to_llvm.builder import F16, F32, I1, I16, I32, I64, Builder
from tileiras.dialects import llvm, nvvm
from tileiras.dialects.llvm import ptr, vec
from tileiras.layout.atoms import ATOMS
from tileiras.layout.atoms.block_scaled import BLOCK_SCALED
from tileiras.machine.targets import TARGETS, Target, find_target


class Kernel:
    """A kernel `k(global pointer)` under construction."""

    def __init__(self, threads: int = 128) -> None:
        self.entry = Block(arg_types=[ptr(llvm.GLOBAL)])
        launch = DictionaryAttr({"nvvm.reqntid": StringAttr(str(threads))})
        self.func = llvm.Func.make((), (), {"sym_name": StringAttr("k"), "kernel": UnitAttr(), "launch": launch},
                                   [Region(self.entry)])
        self.module = ModuleOp([self.func])
        self.b = Builder(self.entry)
        self.memory = self.entry.args[0]
        self.at = 0

    def value(self, word: str) -> SSAValue:
        """Something unknown of a row's type."""
        b = self.b
        t = nvvm.type_of(word)
        if isinstance(t, llvm.PtrType):
            if t.space.data == llvm.GLOBAL:
                return self.memory
            loaded = b.load(I32 if t.space.data in (llvm.SHARED, 6) else I64, self._place(), 16)
            return b.cast("inttoptr", loaded, t)
        if t == I1:
            return b.icmp("ne", b.load(I32, self._place(), 16), b.i32(0))
        return b.load(t, self._place(), 16)

    def _place(self) -> SSAValue:
        self.at += 1024
        return self.b.gep(self.memory, self.at)

    def keep(self, v: SSAValue) -> None:
        b = self.b
        if v.type == I1:
            v = b.cast("zext", v, I32)
        elif isinstance(v.type, llvm.PtrType):
            v = b.cast("ptrtoint", v, I64)
        b.store(v, self._place(), 4 if not isinstance(v.type, VectorType) else 16)

    def ptx(self, target: Target, opt: int = 3) -> str:
        return compile_llvm_to_ptx(print_module(self.module), target, opt)


IMMEDIATE = {
    # operands that PTX wants as numbers: row -> which, and the number
    "cp.async.wait.group": {0: 1}, "cp.async.bulk.wait.group": {0: 1}, "cp.async.bulk.wait.group.read": {0: 1},
    "setmaxnreg.inc.sync.aligned.u32": {0: 64}, "setmaxnreg.dec.sync.aligned.u32": {0: 64}, "bar.warp.sync": {0: -1},
    "tcgen05.mma.shared": {5: 0, 6: 1, 7: 0}, "tcgen05.mma.tensor": {5: 0, 6: 1, 7: 0},
    "fence.proxy.tensormap_generic.acquire.gpu": {1: 128},
}
BLOCKS_MEMORY = "mov.perctamemoryoffset"
"""The row for kernels only that say how much of such memory they need."""


def immediates(row: nvvm.Instruction) -> dict[int, int]:
    """Operands that must be numbers."""
    found = dict(IMMEDIATE.get(row.name, {}))
    if row.name.startswith("cp.async.bulk."):
        # the switches behind, and the CTA group of a load into a cluster
        found |= {i: 0 for i, w in enumerate(row.operands) if w == "i1"}
        if row.name.startswith("cp.async.bulk.tensor.g2s.tile"):
            found[len(row.operands) - 1] = 0
    if "block_scale" in row.name and row.name.startswith("tcgen05."):
        found |= {7: 1, 8: 0}
    if row.name.startswith(("tcgen05.ld", "tcgen05.st")):
        found |= {i: 0 for i, w in enumerate(row.operands) if w in ("i1", "i64")}
    return found


def use(kernel: Kernel, row: nvvm.Instruction) -> None:
    fixed = immediates(row)
    words = row.operands if not row.is_wait else ("v4f32", "v4i32", "f32", "v2f16")
    args = [kernel.b.bits(fixed[i], nvvm.type_of(w)) if i in fixed else kernel.value(w) for i, w in enumerate(words)]
    flying = kernel.b.nvvm(row.name, args)
    if row.flight == "wgmma":
        flying = kernel.b.nvvm("wgmma.wait_group.0", [*flying, *([args[1]] if row.operands[1].startswith("v") else [])])
    if row.flight == "tcgen05.ld":
        flying = kernel.b.nvvm("tcgen05.wait.ld", flying)
    for v in flying:
        kernel.keep(v)


def having(row: nvvm.Instruction) -> list[Target]:
    """The oldest and the newest target that has a row."""
    found = [t for t in TARGETS if not row.missing(t)]
    return [found[0], found[-1]] if len(found) > 1 else found


SAMPLES = [
    "wgmma.mma_async.m64n8k16.f32.f16.f16.ss", "wgmma.mma_async.m64n256k16.f32.bf16.bf16.ss.ta.tb",
    "wgmma.mma_async.m64n64k16.f16.f16.f16.rs.tb", "wgmma.mma_async.m64n128k8.f32.tf32.tf32.ss",
    "wgmma.mma_async.m64n96k32.f32.e4m3.e5m2.rs", "wgmma.mma_async.m64n64k16.f32.f16.f16.ss.tb.neg",
    "wgmma.mma_async.m64n32k32.s32.s8.u8.ss",
    "ld.relaxed.gpu.global.v4.b32.if", "st.release.sys.global.b64", "ld.shared.v2.b16.if", "st.shared.b8.if", "ld.global.b16",
]


@pytest.mark.parametrize("part", range(6))
def test_every_row_is_an_instruction(part: int) -> None:
    rows = [*nvvm.rows(), *(nvvm.find(name) for name in [*SAMPLES, *(a.intrinsic for a in (*ATOMS, *BLOCK_SCALED))])]
    # what works on pairs of CTAs can't stand in a kernel with what works on one
    by_target: dict[tuple[str, bool], list[nvvm.Instruction]] = {}
    for row in rows[part::6]:
        assert row is not None
        for target in having(row):
            by_target.setdefault((target.name, row.name.endswith(".cg2")), []).append(row)
    assert len(by_target) > 2
    for (name, _), some in by_target.items():
        kernel = Kernel()
        for row in some:
            use(kernel, row)
            if row.name == BLOCKS_MEMORY:
                kernel.func.properties["built_maps"] = IntAttr(1)
        kernel.b.ret()
        kernel.module.verify()
        in_flight.check(kernel.func)
        result = compile_llvm(print_module(kernel.module), find_target(name))
        assert result.cubin


@pytest.mark.parametrize("name", ["wgmma.mma_async.m64n12k16.f32.f16.f16.ss", "wgmma.mma_async.m64n264k16.f32.f16.f16.ss",
                                  "wgmma.mma_async.m64n16k16.f32.e4m3.e4m3.ss", "wgmma.mma_async.m64n16k32.f32.e4m3.e4m3.ss.tb",
                                  "wgmma.mma_async.m64n16k16.f32.f16.f16.rs.ta", "mma.m16n8k16.row.col.f64.f64", "shfl", "",
                                  "wgmma.mma_async.m64n16k32.f32.s8.s8.ss", "wgmma.mma_async.m64n16k32.s32.s8.s8.ss.neg",
                                  "ld.global.v3.b32"])
def test_instructions_that_do_not_exist(name: str) -> None:
    assert nvvm.find(name) is None


def test_operands_are_verified() -> None:
    kernel = Kernel()
    op = nvvm.Inst.make([[kernel.b.i32(1)]], [[I32]], {"instruction": StringAttr("shfl.sync.bfly.i32")})
    with pytest.raises(VerifyException, match=r"shfl.sync.bfly.i32 takes \(i32 i32 i32 i32\), not \(i32\)"):
        op.verify_()
    op = nvvm.Inst.make([[kernel.b.i32(1)]], [[I64]], {"instruction": StringAttr("wgmma.wait_group.0")})
    with pytest.raises(VerifyException, match="gives back what it takes"):
        op.verify_()
    op = nvvm.Inst.make([[]], [[]], {"instruction": StringAttr("halt")})
    with pytest.raises(VerifyException, match="knows no instruction"):
        op.verify_()


def test_what_a_target_lacks() -> None:
    for name, lacking in [("wgmma.fence", "sm_100"), ("mbarrier.wait.parity", "sm_89"), ("cp.async.commit.group", "sm_75"),
                          ("fence.proxy.async", "sm_80"), ("tcgen05.alloc.shared.cg1", "sm_120")]:
        row = nvvm.find(name)
        assert row is not None and row.missing(find_target(lacking)) and any(not row.missing(t) for t in TARGETS)


def product_loop(count_known: bool = False) -> Kernel:
    """acc = 0; for i < n (guarded against n == 0): acc += A * B; wait; store acc as f16."""
    kernel = Kernel()
    b = kernel.b
    t = vec(8, F32)
    n = kernel.value("i32")
    a, d = kernel.value("i64"), kernel.value("i64")
    loop, done = b.new_block([I32, t]), b.new_block([t])
    zero = b.bits(0, t)
    b.cond_br(b.icmp("sgt", n, b.i32(0)), loop, done, [b.i32(0), zero], [zero])
    b.at(loop)
    i, acc = loop.args
    b.nvvm("wgmma.fence")
    acc, = b.nvvm("wgmma.mma_async.m64n16k16.f32.f16.f16.ss", [acc, a, d, b.icmp("ne", i, b.i32(0))])
    b.nvvm("wgmma.commit_group.sync.aligned")
    following = b.add(i, b.i32(1))
    b.cond_br(b.icmp("slt", following, n), loop, done, [following, acc], [acc])
    b.at(done)
    result, = b.nvvm("wgmma.wait_group.0", [done.args[0]])
    b.store(b.cast("fptrunc", result, F16), kernel.memory, 16)
    b.ret()
    return kernel


@pytest.mark.parametrize("opt", [0, 3])
def test_a_truncation_stays_behind_the_wait(opt: int) -> None:
    kernel = product_loop()
    kernel.module.verify()
    in_flight.check(kernel.func)
    lines = kernel.ptx(find_target("sm_90"), opt).splitlines()
    wait = next(i for i, line in enumerate(lines) if "wgmma.wait_group" in line)
    conversions = [i for i, line in enumerate(lines) if re.search(r"cvt\.rn\.f16", line)]
    assert conversions and min(conversions) > wait
    product = next(i for i, line in enumerate(lines) if "wgmma.mma_async" in line)
    assert product < wait


def test_a_use_in_flight_is_refused() -> None:
    kernel = product_loop()
    last = list(kernel.func.regions[0].blocks)[-1]
    wait = next(op for op in last.ops if isinstance(op, nvvm.Inst))
    wait.results[0].replace_all_uses_with(wait.operands[0])
    with pytest.raises(VerifyException, match=r"'llvm.fptrunc' uses a value of a block argument in flight"):
        in_flight.check(kernel.func)


def test_a_wait_of_another_kind_does_not_help() -> None:
    kernel = Kernel()
    b = kernel.b
    loaded = b.nvvm("tcgen05.ld.32x32b.x4", [kernel.value("p6"), b.false()])
    passed = b.nvvm("wgmma.wait_group.0", loaded)
    kernel.keep(passed[0])
    b.ret()
    with pytest.raises(VerifyException, match=r"llvm\.store' uses a value of wgmma\.wait_group\.0 in flight"):
        in_flight.check(kernel.func)


def test_registers_of_a_must_reach_a_wait() -> None:
    kernel = Kernel()
    b = kernel.b
    a = kernel.value("v4i32")
    acc, = b.nvvm("wgmma.mma_async.m64n8k16.f32.f16.f16.rs", [kernel.value("v4f32"), a, kernel.value("i64"), b.true()])
    kernel.keep(b.nvvm("wgmma.wait_group.0", [acc])[0])
    b.ret()
    with pytest.raises(VerifyException, match="registers of A that no wait takes"):
        in_flight.check(kernel.func)


def test_a_wait_on_an_mbarrier_is_one_loop() -> None:
    kernel = Kernel()
    p = kernel.value("p3")
    for phase in (0, 1):
        kernel.b.nvvm("mbarrier.wait.parity", [p, kernel.b.i32(phase)])
    kernel.b.ret()
    ptx = kernel.ptx(find_target("sm_90"))
    assert ptx.count("mbarrier.try_wait.parity.shared::cta.b64") == 2 and ptx.count("WAIT:") == 2
    assert compile_llvm(print_module(kernel.module), find_target("sm_90")).cubin


def test_a_masked_load_keeps_what_it_is_given() -> None:
    kernel = Kernel()
    b = kernel.b
    p = kernel.memory
    on = kernel.value("i1")
    for v in b.nvvm("ld.global.v2.b32.if", [p, on, b.i32(7), b.i32(9)]):
        kernel.keep(v)
    b.nvvm("st.global.b16.if", [p, b.bits(3, I16), on])
    b.ret()
    ptx = kernel.ptx(find_target("sm_80"))
    load = re.search(r"@%p\d+ ld\.global\.v2\.b32 \{(%r\d+), (%r\d+)\}", ptx)
    assert load is not None
    for register, value in zip(load.groups(), (7, 9)):
        assert re.search(rf"mov\.b32\s+{re.escape(register)}, {value};", ptx)
    assert re.search(r"@%p\d+ st\.global\.b16", ptx)


def test_a_weak_load_only_reads() -> None:
    """One that nobody wants goes, two of the same place between which nothing is written are one; what is written between
    keeps them apart, and an ordered one stays."""
    kernel = Kernel()
    b = kernel.b
    on = kernel.value("i1")
    b.nvvm("ld.global.b32.if", [kernel.memory, on, b.i32(1)])
    b.nvvm("ld.relaxed.gpu.global.b32", [kernel.memory])
    first, second = (b.nvvm("ld.global.b16.if", [kernel.memory, on, b.bits(2, I16)])[0] for _ in range(2))
    kernel.keep(b.cast("zext", b.add(first, second), I32))
    before, _, after = (b.nvvm("ld.global.b64.if", [kernel.memory, on, b.i64(3)])[0], b.nvvm("st.global.b64.if", [
        kernel.memory, b.i64(4), on]), b.nvvm("ld.global.b64.if", [kernel.memory, on, b.i64(3)])[0])
    kernel.keep(b.add(before, after))
    b.ret()
    ptx = kernel.ptx(find_target("sm_80"))
    order = re.findall(r"@%p\d+ ((?:ld|st)\.global\.b64)", ptx)
    assert order == ["ld.global.b64", "st.global.b64", "ld.global.b64"]
    assert not re.search(r"@%p\d+ ld\.global\.b32", ptx)
    assert "ld.relaxed.gpu.global.b32" in ptx
    assert len(re.findall(r"@%p\d+ ld\.global\.b16", ptx)) == 1
