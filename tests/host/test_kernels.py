"""Kernels with tensor maps: their host code follows their recipes, and launches are given nothing but ordinary arguments."""
from __future__ import annotations

import random

import numpy as np
import pytest

import tileiras
from tests.host import originals
from tests.host.hostcode import HostCode
from tests.kernels import runner
from tileiras.sim.timing.cubin import Cubin

MAPPED = ("matmul_float16_float32", "gemm_f16_f32_128x256x64", "attention_d64_f16",
          "gemm_a_permuted_f16", "gemm_bf16_f32_256x128x64")
MATMUL = MAPPED[0]


@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
@pytest.mark.parametrize("case", MAPPED)
def test_the_host_code_of_a_kernel_follows_its_recipes(case: str, gpu: str) -> None:
    pytest.importorskip("cuda.tile")
    module = runner.compile_case(case, gpu)
    [entry] = module.entries
    assert entry.maps and not any(p.hidden for p in entry.params) and module.ptx.count(".hidden .param") == len(entry.maps)
    code, rng = HostCode(Cubin(module.cubin).contents(".nv.host")), random.Random(case)
    for _ in range(20):
        params = [rng.getrandbits(8 * p.bytes) if rng.random() < 0.3 else
                  0x7F1000000000 + 256 * i if p.pointer else rng.randrange(5000) for i, p in enumerate(entry.params)]
        before = originals.buffer(list(entry.param_offsets), entry.param_bytes, [p.bytes for p in entry.params], params)
        after = code.fill(entry.name, before)
        for at, recipe in zip(entry.param_offsets[len(entry.params):], entry.maps):
            assert after[at:at + 64] == recipe.encode(params)[:64] and after[at + 64:at + 128] == before[at + 64:at + 128]
        assert after[:entry.param_offsets[len(entry.params)]] == before[:entry.param_offsets[len(entry.params)]]


@pytest.mark.parametrize("seed", range(3))
def test_a_launch_takes_ordinary_arguments(seed: int) -> None:
    pytest.importorskip("cuda.tile")
    case, launch = runner.case_of(MATMUL), runner.launch_of(MATMUL)
    bytecode = runner.export_case(case)
    assert tileiras.compile(bytecode, "sm_90").entries[0].maps
    tileiras.launch(bytecode, case.grid, launch.flat, gpu_name="sm_90", seed=seed)
    assert runner.judge(case, launch).ok


def test_a_launch_of_a_cutile_kernel_does() -> None:
    pytest.importorskip("cuda.tile")
    from tests.host.programs import product

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((200, 192), (192, 144)))
    c = np.zeros((200, 144), np.float32)
    report = tileiras.launch(product, (2, 2), (a, b, c), time="H100")
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    assert "mbarrier" in report.kinds and not report.prediction.is_estimate


def test_a_program_that_launches_one_runs_on_the_stand_in() -> None:
    ct = pytest.importorskip("cuda.tile")
    from tests.host.programs import product
    from tileiras.sim.cutile import standin

    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((130, 64), (64, 48)))
    c = np.zeros((130, 48), np.float32)
    standin.install("sm_90", torch=False)
    try:
        ct.launch(0, (2, 1, 1), product, (a, b, c))
        assert "mbarrier" in standin.reports[-1].kinds
    finally:
        standin.uninstall()
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
