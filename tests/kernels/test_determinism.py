"""The same bytecode and options give the same bytes, in one process and across processes."""
from __future__ import annotations

import hashlib
import os
import pathlib
import subprocess
import sys

import pytest

from tests.kernels import runner

KERNELS = ("vector_add_float32", "softmax_1x1024_f32_ragged", "matmul_float16_float32")


def cubin_of_a_process(path: pathlib.Path, out: pathlib.Path, hash_seed: str) -> bytes:
    """The cubin that the command writes in a fresh process whose sets and dicts hash by another seed."""
    done = subprocess.run([sys.executable, "-m", "tileiras.driver.main", str(path), "-o", str(out), "--gpu-name",
                           "sm_90"], capture_output=True, text=True, timeout=120, cwd=runner.ROOT,
                          env={**os.environ, "PYTHONHASHSEED": hash_seed})
    assert done.returncode == 0, done.stderr
    return out.read_bytes()


@pytest.mark.parametrize("name", KERNELS)
def test_two_processes_write_the_same_cubin(name: str, tmp_path: pathlib.Path) -> None:
    path = runner.bytecode_path(name)
    first = cubin_of_a_process(path, tmp_path / "first.cubin", "1")
    second = cubin_of_a_process(path, tmp_path / "second.cubin", "2")
    assert hashlib.sha256(first).hexdigest() == hashlib.sha256(second).hexdigest()


@pytest.mark.parametrize("opt_level", [0, 3])
def test_two_compilations_in_one_process_agree(opt_level: int) -> None:
    name = KERNELS[1]
    first = runner.compile_case(name, "sm_80", opt_level)
    other = runner.compile_case(KERNELS[0], "sm_80", opt_level)
    second = runner.compile_case(name, "sm_80", opt_level)
    assert first.ptx == second.ptx and first.cubin == second.cubin
    assert other.ptx != first.ptx
