"""Suite kernels that multiply by warpgroups: ptxas doesn't serialize their products; without them they are right as well."""
from __future__ import annotations

import pytest

from tests.conversion.products import Product
from tests.kernels import runner
from tileiras.codegen.ptxas import arguments, assemble

LOSS = "Potential Performance Loss"
SOME = ("gemm_f16_f32_ragged_k", "gemm_e4m3_f32_128x128x64", "gemm_tf32_rounded_ragged", "attention_causal_ragged_bf16")


def products() -> list[str]:
    """Cases that multiply tiles."""
    return [name for name in runner.cases() if {"cuda_tile.mmaf", "cuda_tile.mmai"} & set(runner.ops_of(name))]


def losses(ptx: str) -> list[str]:
    """What ptxas says of products that it waits for one by one."""
    return [line for line in assemble(ptx, arguments("sm_90a", 3)).report.splitlines() if LOSS in line]


@pytest.mark.parametrize("every, least", [(5, 8), pytest.param(1, 40, marks=pytest.mark.slow)])
def test_no_product_is_serialized(every: int, least: int) -> None:
    told, count = {}, 0
    for name in products()[::every]:
        ptx = runner.compile_case(name, "sm_90", emit="ptx").ptx
        if "wgmma.mma_async" in ptx:
            count += 1
            if found := losses(ptx):
                told[name] = found
    assert not told
    assert count >= least


def test_ptxas_says_so_where_it_serializes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """An addition to an accumulator in flight, which the compiler never writes."""
    monkeypatch.setenv("TILEIRAS_WITHOUT", "pipelines,tma,agents")
    ptx = Product("f16", "f32", (64, 8, 16)).compiled(emit="ptx").ptx
    lines = ptx.splitlines()
    at = next(i for i, line in enumerate(lines) if "wgmma.commit_group" in line)
    product = next(line for line in lines if "wgmma.mma_async" in line)
    register = product.partition("{")[2].partition(",")[0].strip()
    lines.insert(at, f"add.f32 {register}, {register}, {register};")
    assert losses("\n".join(lines))


@pytest.mark.parametrize("name", SOME)
def test_turned_off(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIRAS_WITHOUT", "wgmma")
    compiled = runner.compile_case(name, "sm_90")
    assert "wgmma" not in compiled.ptx and "mma.sync" in compiled.ptx
    verdict = runner.simulate_case(name, compiled)
    assert verdict.ok, verdict.detail
