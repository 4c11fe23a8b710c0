"""Functions beside kernels: they are the module's own, inlined where the calling convention carries them badly, gone where nobody
calls them; libdevice's always are; none calls itself, and none stands somewhere else."""
from __future__ import annotations

import re

import pytest

from tileiras.codegen import compile_llvm_to_ptx
from tileiras.codegen.compile import compile_llvm, optimize_llvm
from tileiras.codegen.functions import prepared
from tileiras.codegen.gate import has_functions
from tileiras.errors import CompileError

GPU = "sm_90"
KERNEL = ('define ptx_kernel void @k(ptr addrspace(1) %p, float %x) "nvvm.reqntid"="128" {{\n'
          "  {}\n  store float %v, ptr addrspace(1) %p\n  ret void\n}}\n")
CALL = KERNEL.format("%v = call float @f(float %x)")
BODY = " {\n  %r = fmul float %x, 2.0\n  ret float %r\n}\n"
LINKAGES = ("", "internal ", "private ", "weak ", "weak_odr ", "linkonce ", "linkonce_odr ", "dso_local ", "hidden ")


def functions(ptx: str) -> list[str]:
    """How functions are declared and defined in PTX."""
    return re.findall(r"^((?:\.\w+ )*\.func)", ptx, re.MULTILINE)


@pytest.mark.parametrize("linkage", LINKAGES)
def test_a_function_that_is_inlined_everywhere_is_gone(linkage: str) -> None:
    ptx = compile_llvm_to_ptx(f"define {linkage}float @f(float %x){BODY}{CALL}", GPU)
    assert functions(ptx) == [] and "call" not in ptx and ptx.count(".entry") == 1


@pytest.mark.parametrize("linkage", LINKAGES)
def test_a_function_that_stays_is_nobody_elses(linkage: str) -> None:
    source = f"define {linkage}float @f(float %x) noinline{BODY}{CALL}"
    assert set(functions(compile_llvm_to_ptx(source, GPU))) == {".func"}
    assert compile_llvm(source, GPU).cubin


def test_a_function_that_nobody_calls_is_gone() -> None:
    ptx = compile_llvm_to_ptx(f"define float @f(float %x){BODY}" + KERNEL.format("%v = fadd float %x, 1.0"), GPU)
    assert functions(ptx) == []


def with_parameters(t: str, attributes: str = "") -> str:
    return f"define float @f({t} %x) {attributes} {{\n  %r = extractvalue {t} %x, 3\n  ret float %r\n}}\n"


def with_result(t: str, attributes: str = "") -> str:
    return f"define {t} @f(float %x) {attributes} {{\n  %r = insertvalue {t} zeroinitializer, float %x, 3\n  ret {t} %r\n}}\n"


def inlines(source: str) -> bool:
    return "alwaysinline" in prepared(source)


@pytest.mark.parametrize(("source", "inlined"), [
    # 384 bytes of parameters and 144 of a result may be called
    (with_parameters("[96 x float]"), False), (with_parameters("[97 x float]"), True),
    (with_result("[36 x float]"), False), (with_result("[37 x float]"), True),
    (with_parameters("[97 x float]", "noinline"), False), (with_result("[37 x float]", "noinline"), False),
    (with_parameters("[97 x float]", "#0") + "attributes #0 = { nounwind noinline }\n", False),
    (with_parameters("[97 x float]", "#0") + "attributes #0 = { nounwind }\n", True),
    (with_parameters("{ [40 x i64], float, float, [16 x i32] }"), True),      # 320 + 8 + 64 = 392
    (with_parameters("{ [40 x i64], float, float, float, i8, [12 x i32] }"), False),    # 320 + 12 + 4 + 48 = 384
    # every parameter takes 4 bytes at least, pointers into shared memory too
    (f"define float @f({', '.join(f'i8 %a{n}' for n in range(96))}, float %x){BODY}", True),
    (f"define float @f({', '.join(f'i8 %a{n}' for n in range(95))}, float %x){BODY}", False),
    (f"define float @f({', '.join(f'ptr addrspace(3) %a{n}' for n in range(95))}, float %x){BODY}", False),
    (f"define float @f({', '.join(f'ptr %a{n}' for n in range(48))}, float %x){BODY}", True),
    (f"define float @f(<4 x float> noundef %a, ptr byval([200 x float]) align 4 %b, float %x){BODY}", False),
])
def test_what_is_large_is_inlined(source: str, inlined: bool) -> None:
    assert inlines(source) == inlined


def test_large_parameters_leave_no_call() -> None:
    call = "%a = insertvalue [100 x float] zeroinitializer, float %x, 3\n  %v = call float @f([100 x float] %a)"
    ptx = compile_llvm_to_ptx(with_parameters("[100 x float]") + KERNEL.format(call), GPU)
    assert functions(ptx) == [] and "call" not in ptx


@pytest.mark.parametrize("mark", ["nvvm.kernel", "kernel", "nvvm.annotations_transplanted"])
def test_a_kernel_by_its_attribute_is_one(mark: str) -> None:
    source = KERNEL.format("%v = fadd float %x, 1.0").replace("define ptx_kernel", "define").replace(
        '"nvvm.reqntid"', f'"{mark}" "nvvm.reqntid"')
    assert [entry.name for entry in compile_llvm(source, GPU).entries] == ["k"]


def test_modules_of_kernels_only_are_left_alone() -> None:
    source = KERNEL.format("%v = fadd float %x, 1.0")
    assert not has_functions(source) and not has_functions(f'target triple = "nvptx64"\n{source}')
    assert has_functions(source + f"define float @f(float %x){BODY}") and has_functions(f"define float @f(float %x){BODY}")


def test_libdevice_is_inlined_and_leaves_nothing() -> None:
    source = "declare float @__nv_sinf(float)\n" + KERNEL.format("%v = call float @__nv_sinf(float %x)")
    for level in (0, 3):
        assert functions(compile_llvm_to_ptx(source, GPU, level)) == []
    optimized = optimize_llvm(source, GPU)
    assert re.findall(r"^(?:define|declare)[^\n]*@(__nv\w*)", optimized, re.MULTILINE) == []


@pytest.mark.parametrize(("declared", "said"), [
    ("declare float @__nv_nothing(float)\n", "libdevice has no function '__nv_nothing'"),
    ("declare float @f(float)\n", "Unresolved extern function 'f'"),
])
def test_what_stands_nowhere_is_refused(declared: str, said: str) -> None:
    name = declared.partition("@")[2].partition("(")[0]
    with pytest.raises(CompileError, match=re.escape(said)):
        compile_llvm(declared + KERNEL.format(f"%v = call float @{name}(float %x)"), GPU)


def recursive(name: str, callee: str, attributes: str = "") -> str:
    return (f"define internal float @{name}(float %x) {attributes} {{\n  %c = fcmp ogt float %x, 1.0\n"
            f"  br i1 %c, label %a, label %b\na:\n  %y = call float @{callee}(float %x)\n  ret float %y\nb:\n  ret float %x\n}}\n")


@pytest.mark.parametrize("source", [
    recursive("f", "f"), recursive("f", "f", "alwaysinline"), recursive("f", "g", "noinline") + recursive("g", "f", "noinline"),
    recursive("g", "h") + recursive("h", "i") + recursive("i", "h") + recursive("f", "g"),
])
def test_recursion_is_refused(source: str) -> None:
    with pytest.raises(CompileError, match="may call itself"):
        compile_llvm_to_ptx(source + CALL, GPU)


def test_calls_that_meet_are_no_recursion() -> None:
    source = recursive("f", "g") + recursive("g", "i") + recursive("h", "i") + f"define float @i(float %x){BODY}"
    assert ".entry" in compile_llvm_to_ptx(source + CALL, GPU)
