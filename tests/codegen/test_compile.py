"""LLVM IR becomes a cubin on every SM and level; LLVM's death is a diagnostic; nothing depends on chance."""
from __future__ import annotations

import os
import struct
import threading

import pytest

from tests.codegen import programs
from tileiras.codegen import client, compile_llvm, compile_llvm_to_ptx, ptxas
from tileiras.errors import CompileError
from tileiras.machine.targets import TARGETS, Target, find_target

EM_CUDA = 190
SM90 = find_target("sm_90")


def machine_of(elf: bytes) -> int:
    return struct.unpack_from("<H", elf, 18)[0]


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_every_sm_gets_a_cubin(target: Target) -> None:
    for level in (0, 3):
        result = compile_llvm(programs.vector_op(target, *programs.EXPONENTIAL), target, level)
        assert result.cubin[:4] == b"\x7fELF" and machine_of(result.cubin) == EM_CUDA
        assert f".target {target.ptx}\n" in result.ptx
        [entry] = result.entries
        assert (entry.name, entry.threads, entry.spill_stores, entry.spill_loads) == ("vadd", 128, 0, 0)
        assert [(p.bytes, p.pointer) for p in entry.params] == [(8, True)] * 3 + [(4, False)]
        assert entry.param_bytes == 28
        assert 0 < entry.registers <= 255


@pytest.mark.parametrize("level", range(4))
def test_every_level_inlines_libdevice(level: int) -> None:
    ptx = compile_llvm_to_ptx(programs.vector_op(SM90, *programs.EXPONENTIAL), "sm_90", level)
    assert "ex2.approx" in ptx
    assert ".func" not in ptx and "__nv_" not in ptx and "__nvvm_reflect" not in ptx


def test_square_roots_are_exact_and_keep_subnormals() -> None:
    ptx = compile_llvm_to_ptx(programs.vector_op(
        SM90, "%s = call float @__nv_sqrtf(float %x)", "declare float @__nv_sqrtf(float)"), "sm_90")
    assert "sqrt.rn.f32" in ptx and ".ftz" not in ptx


def test_an_unknown_library_function_is_named() -> None:
    with pytest.raises(CompileError, match="__nv_nosuchf"):
        compile_llvm(programs.vector_op(SM90, "%s = call float @__nv_nosuchf(float %x)",
                                        "declare float @__nv_nosuchf(float)"), "sm_90")


def test_shared_pointers_are_32_bits() -> None:
    ptx = compile_llvm_to_ptx("""
@smem = internal addrspace(3) global [512 x i8] undef, align 128
define ptx_kernel void @k(ptr addrspace(1) %p) #0 {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %q = getelementptr i32, ptr addrspace(3) @smem, i32 %t
  store i32 %t, ptr addrspace(3) %q
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %r = getelementptr i32, ptr addrspace(3) @smem, i32 3
  %v = load i32, ptr addrspace(3) %r
  store i32 %v, ptr addrspace(1) %p
  ret void
}
attributes #0 = { "nvvm.reqntid"="128" }
""", "sm_90")
    [store] = [line for line in ptx.splitlines() if "st.shared" in line]
    assert "[%r" in store and "[%rd" not in store
    result = compile_llvm(ptx_source_with_shared(512), "sm_90")
    assert result.entries[0].shared_bytes >= 512


def ptx_source_with_shared(size: int) -> str:
    return f"""
@smem = internal addrspace(3) global [{size} x i8] undef, align 128
define ptx_kernel void @k(ptr addrspace(1) %p, i32 %i) #0 {{
  %q = getelementptr i8, ptr addrspace(3) @smem, i32 %i
  store volatile i8 1, ptr addrspace(3) %q
  ret void
}}
attributes #0 = {{ "nvvm.reqntid"="128" }}
"""


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_static_shared_memory_ends_where_the_table_says(target: Target) -> None:
    result = compile_llvm(ptx_source_with_shared(target.most_static_smem), target)
    assert result.entries[0].shared_bytes == target.most_static_smem
    with pytest.raises(CompileError, match=r"smem|shared"):
        compile_llvm(ptx_source_with_shared(target.most_static_smem + 1), target)


@pytest.mark.parametrize("target", [t for t in TARGETS if t.extended_static_smem], ids=str)
def test_more_than_every_launch_may_have_is_asked_for(target: Target) -> None:
    """ptxas refuses it unasked."""
    source = ptx_source_with_shared(target.max_static_smem + 1)
    with pytest.raises(CompileError, match="too much shared data"):
        ptxas.assemble(compile_llvm_to_ptx(source, target), [f"-arch={target.ptx}"])
    assert compile_llvm(source, target).cubin


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("level", [0, 3])
def test_memcheck_instruments_every_access(target: Target, level: int) -> None:
    """ptxas puts a call of its checker before each access: the code grows."""
    source = programs.vector_op(target)
    plain, checked = (len(compile_llvm(source, target, level, sanitize=tool).cubin) for tool in (None, "memcheck"))
    assert checked > 1.2 * plain


def many_parameters(count: int) -> str:
    parameters = ", ".join(f"i32 %p{i}" for i in range(count))
    return f'define ptx_kernel void @k({parameters}) #0 {{\n  ret void\n}}\nattributes #0 = {{ "nvvm.reqntid"="32" }}\n'


@pytest.mark.parametrize("target", [TARGETS[0], SM90, TARGETS[-1]], ids=str)
def test_parameters_end_at_32764_bytes(target: Target) -> None:
    assert compile_llvm(many_parameters(32764 // 4), target).entries[0].param_bytes == 32764
    with pytest.raises(CompileError, match=r"\(32768 bytes required, max 32764 bytes allowed\) in function k"):
        compile_llvm(many_parameters(32768 // 4), target)


def test_a_module_without_kernels_is_a_cubin() -> None:
    result = compile_llvm("", "sm_120")
    assert machine_of(result.cubin) == EM_CUDA and result.entries == ()


def test_options_reach_the_assembler() -> None:
    source = programs.vector_op(SM90)
    plain = compile_llvm(source, "sm_90")
    checked = compile_llvm(source, "sm_90", sanitize="memcheck")
    assert len(checked.cubin) > len(plain.cubin)
    assert compile_llvm(source, "sm_90", lineinfo=True).cubin != plain.cubin
    assert compile_llvm(source, "sm_90", 0, device_debug=True).cubin


def test_two_runs_give_the_same_bytes() -> None:
    source = programs.vector_op(SM90, *programs.EXPONENTIAL)
    first = compile_llvm(source, "sm_90", lineinfo=True)
    client.stop()
    second = compile_llvm(source, "sm_90", lineinfo=True)
    assert (first.cubin, first.ptx) == (second.cubin, second.ptx)


def emit(source: str) -> str:
    """Straight to LLVM, past the gate."""
    return client.emit_ptx(source, cpu="sm_90a", features="+ptx90", opt_level=3, cc=90)[0]


def test_a_death_of_llvm_is_a_diagnostic_and_the_next_module_compiles() -> None:
    with pytest.raises(CompileError, match="flog2"):
        emit(programs.vector_op(SM90, programs.ABORTS))
    with pytest.raises(CompileError, match="Cannot select"):
        emit(programs.vector_op(SM90, "%s = call float @llvm.sin.f32(float %x)"))
    assert ".entry vadd" in emit(programs.vector_op(SM90))


def test_malformed_ir_is_a_diagnostic_and_the_worker_lives() -> None:
    emit(programs.vector_op(SM90))
    before = client.worker_pid()
    with pytest.raises(CompileError, match="undefined value"):
        emit(programs.vector_op(SM90, "%s = fadd float %x, %nothing"))
    assert client.worker_pid() == before is not None


def test_a_killed_worker_is_replaced() -> None:
    emit(programs.vector_op(SM90))
    pid = client.worker_pid()
    assert pid is not None
    os.kill(pid, 9)
    with pytest.raises(CompileError, match="SIGKILL"):
        emit(programs.vector_op(SM90))
    assert ".entry vadd" in emit(programs.vector_op(SM90))


def test_a_slow_module_is_given_up() -> None:
    with pytest.raises(CompileError, match="did not finish within"):
        client.emit_ptx(programs.vector_op(SM90), cpu="sm_90a", features="+ptx90", opt_level=3, cc=90, timeout=0)
    assert ".entry vadd" in emit(programs.vector_op(SM90))


def test_a_worker_retires(monkeypatch: pytest.MonkeyPatch) -> None:
    client.stop()
    monkeypatch.setattr(client, "MAX_REQUESTS", 2)
    pids = []
    for _ in range(4):
        assert ".entry vadd" in emit(programs.vector_op(SM90))
        pids.append(client.worker_pid())
    assert pids[0] != pids[1] == pids[2] != pids[3]


def test_threads_share_the_worker() -> None:
    results: list[str] = []
    threads = [threading.Thread(target=lambda i=i: results.append(emit(programs.vector_op(SM90, name=f"k{i}"))))
               for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(r.split(".entry ")[1][:2] for r in results) == [f"k{i}" for i in range(6)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_its_own_worker() -> None:
    emit(programs.vector_op(SM90))
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if client.worker_pid() is None and ".entry" in emit(programs.vector_op(SM90)) else 2
            client.stop()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert ".entry vadd" in emit(programs.vector_op(SM90))
