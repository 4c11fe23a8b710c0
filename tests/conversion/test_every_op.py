"""Every element-wise op in every type that the language allows compiles on every SM, leaving no call behind."""
from __future__ import annotations

import re

import pytest

from tests.conversion.harness import OPS, Case, build
from tileiras.codegen import compile_llvm, compile_llvm_to_ptx
from tileiras.conversion.tileas_to_llvm.lowering import HANDLERS

INTS = ("i1", "i8", "i16", "i32", "i64")
FLOATS = ("f16", "bf16", "f32", "f64")
STORED = ("tf32", "e4m3", "e5m2", "e8m0", "e2m1")
MODES = ("nearest_even", "zero", "negative_inf", "positive_inf")
INT_BINARY = ("addi subi muli mulhiui divsi divui floordivsi ceildivsi ceildivui remsi remui andi ori xori shli shrsi "
              "shrui maxsi maxui minsi minui").split()
PREDICATES = ("eq ne slt sle sgt sge ult ule ugt uge".split(),
              "oeq one olt ole ogt oge ueq une ult ule ugt uge".split())
MATHS = "exp exp2 log log2 rsqrt sin cos tan sinh cosh tanh ceil floor absf".split()


def integer_cases() -> list[Case]:
    out = []
    for t in INTS:
        out += [Case(f"arith.{op}", (t, t), t) for op in INT_BINARY]
        out += [Case("arith.negi", (t,), t), Case("math.absi", (t,), t), Case("arith.select", ("i1", t, t), t)]
        out += [Case("arith.cmpi", (t, t), "i1", {"predicate": p}) for p in PREDICATES[0]]
        for u in INTS:
            w, v = int(t[1:]), int(u[1:])
            if v > w:
                out += [Case("arith.extsi", (t,), u), Case("arith.extui", (t,), u)]
            elif v < w:
                out.append(Case("arith.trunci", (t,), u))
    return out


def float_cases() -> list[Case]:
    out = []
    for t in FLOATS:
        for mode in MODES:
            for ftz in ({}, {"ftz": True}) if t == "f32" else ({},):
                flags = {"rounding": mode, **ftz}
                out += [Case(f"arith.{op}", (t, t), t, flags) for op in ("addf", "subf", "mulf", "divf")]
                out += [Case("math.fma", (t, t, t), t, flags), Case("math.sqrt", (t,), t, flags)]
        out += [Case(f"arith.{op}", (t, t), t, nan) for op in ("maxf", "minf") for nan in ({}, {"nan": True})]
        out += [Case("arith.cmpf", (t, t), "i1", {"predicate": p}) for p in PREDICATES[1]]
        out += [Case(f"math.{op}", (t,), t) for op in MATHS]
        out += [Case("arith.remf", (t, t), t), Case("math.powf", (t, t), t), Case("math.atan2", (t, t), t),
                Case("arith.negf", (t,), t), Case("arith.select", ("i1", t, t), t), Case("arith.bitcast", (t,), {
                    "f16": "i16", "bf16": "i16", "f32": "i32", "f64": "i64"}[t])]
        out += [Case("math.fpowi", (t, i), t) for i in ("i8", "i16", "i32")]
    for rounding in ("approx", "full"):
        for ftz in ({}, {"ftz": True}):
            out.append(Case("arith.divf", ("f32", "f32"), "f32", {"rounding": rounding, **ftz}))
    out += [Case(f"math.{op}", ("f32",), "f32", {"rounding": "approx"}) for op in ("sqrt", "tanh", "exp")]
    out += [Case(f"math.{op}", ("f32",), "f32", {"ftz": True}) for op in ("exp2", "rsqrt")]
    return out


def conversion_cases() -> list[Case]:
    out = []
    every = (*FLOATS, *STORED)
    for t in every:
        for u in every:
            if t != u:
                out += [Case("arith.convertf", (t,), u, {"rounding": m}) for m in (MODES if u in FLOATS else MODES[:2])]
        for i in INTS:
            for s in "su":
                out += [Case(f"arith.fpto{s}i", (t,), i), Case(f"arith.fpto{s}i", (t,), i, {"saturating": True}),
                        Case(f"arith.{s}itofp", (i,), t)]
    return out


GROUPS = {"integer": integer_cases, "float": float_cases, "conversion": conversion_cases}


def test_cases_name_every_op() -> None:
    named = {case.op for cases in GROUPS.values() for case in cases()}
    assert set(OPS) - named == {"arith.constant"}
    assert set(OPS) <= set(HANDLERS)


@pytest.mark.parametrize("gpu", ("sm_75", "sm_80", "sm_89", "sm_90", "sm_120"))
@pytest.mark.parametrize("group", GROUPS)
def test_compiles(group: str, gpu: str) -> None:
    cases = GROUPS[group]()
    for start in range(0, len(cases), 100):
        ptx = compile_llvm_to_ptx(build(cases[start:start + 100], gpu, 2), gpu)
        assert not re.search(r"\bcall\b|\.extern", ptx), f"{gpu}: a function is called"


@pytest.mark.parametrize("gpu", ("sm_75", "sm_86", "sm_100"))
def test_assembles(gpu: str) -> None:
    """ptxas takes a cross-section: every seventh case of each group."""
    for cases in GROUPS.values():
        assert compile_llvm(build(cases()[::7], gpu, 1), gpu).cubin


def test_arithmetic_is_never_contracted() -> None:
    """A product and a sum stay two roundings: both say `.rn`, which keeps ptxas from fusing them."""
    cases = [Case(f"arith.{op}", ("f32", "f32"), "f32") for op in ("mulf", "addf")]
    ptx = compile_llvm_to_ptx(build(cases, "sm_90"), "sm_90")
    assert "mul.rn.f32" in ptx and "add.rn.f32" in ptx and "fma" not in ptx
