"""The simulator runs code that others wrote: PTX that the original embeds in cubins of the kernel suite.

Needs the original: the environment that `make bench` makes, or the command named by TILEIRAS_ORIGINAL. Its PTX is made
here and nowhere kept.
"""
from __future__ import annotations

import os
import pathlib
import struct
import subprocess

import pytest

from tests.kernels import runner
from tileiras.sim import simulate

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = ("vector_add_ragged", "softmax_16x256_f16", "matmul_float16_float32", "gemm_bf16_f32_256x128x64",
         "gemm_f64_32x32x16", "gemm_i8_i32_128x64x64", "gemm_tf32_exact_inputs", "attention_d64_f16",
         "attention_causal_ragged_bf16", "layer_norm_f16_ragged", "reduce_argminmax_float32", "scan_cumsum_float32",
         "atomic_histogram", "atomic_spin_lock", "binary_pow_float32", "unary_trigonometric_float32", "fft_64_by_matrix_f32",
         "control_nested_break", "cast_from_float64", "moe_route_top6_of_64")


def original() -> str | None:
    """The original's command, or None."""
    found = os.environ.get("TILEIRAS_ORIGINAL")
    places = [pathlib.Path(found)] if found else sorted(
        ROOT.glob(".venv-reference/lib/python*/site-packages/nvidia/cu13/bin/tileiras"))
    return next((str(p) for p in places if p.is_file()), None)


def embedded_ptx(cubin: bytes) -> str:
    """The text of section .nv_debug_ptx_txt of an ELF file."""
    table, = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    strings, = struct.unpack_from("<Q", cubin, table + names * size + 24)
    for i in range(count):
        name, _, _, _, start, length = struct.unpack_from("<IIQQQQ", cubin, table + i * size)
        if cubin[strings + name:].startswith(b".nv_debug_ptx_txt\0"):
            return cubin[start:start + length].decode()
    raise AssertionError("no embedded PTX")


@pytest.mark.skipif(original() is None, reason="the original isn't installed")
@pytest.mark.parametrize("name", CASES)
def test_the_original_s_code_gives_the_reference_s_numbers(name, tmp_path):
    pytest.importorskip("cuda.tile")
    command = original()
    assert command is not None
    file = tmp_path / "k.cubin"
    subprocess.run([command, str(runner.bytecode_path(name, runner.case_of(name).versions[0])), "-o", str(file),
                    "--gpu-name", "sm_80", "-O3", "--lineinfo"], check=True, timeout=60)
    launch = runner.launch_of(name)
    report = simulate(embedded_ptx(file.read_bytes()), grid=runner.case_of(name).grid, args=launch.flat)
    verdict = runner.judge(name, launch)
    assert verdict.ok, verdict.detail
    assert not report.findings
