"""The same bytecode and options give the same bytes: in one process and across processes, however sets and dicts hash, in
whatever order files are compiled, at every level."""
from __future__ import annotations

import hashlib
import os
import pathlib
import subprocess
import sys

import pytest

from tests.kernels import runner
from tests.kernels.cross_section import CROSS_SECTION

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


SAMPLE = (*CROSS_SECTION[::6], "matmul_float16_float32", "softmax_1x1024_f32_ragged")
PROGRAM = """
import hashlib, sys
import tileiras
paths = sys.argv[1:]
for path in paths:
    data = open(path, "rb").read()
    for level in range(4):
        gpu = ("sm_80", "sm_90", "sm_120", "sm_100")[level]
        ptx = tileiras.compile(data, gpu_name=gpu, opt_level=level, emit="ptx").ptx
        print(path, level, hashlib.sha256(ptx.encode()).hexdigest())
"""


def digests(paths: list[str], hash_seed: str) -> dict[str, str]:
    """The digests of what one process compiles of these files, at -O0 to -O3."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, *paths], capture_output=True, text=True, timeout=300,
                          cwd=runner.ROOT, env={**os.environ, "PYTHONHASHSEED": hash_seed})
    assert done.returncode == 0, done.stderr
    return {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in done.stdout.splitlines()}


def test_no_hash_seed_and_no_order_changes_the_code() -> None:
    paths = [str(runner.bytecode_path(name)) for name in dict.fromkeys(SAMPLE)]
    first = digests(paths, "0")
    assert len(first) == 4 * len(paths)
    assert digests(paths[::-1], "1") == first
    assert digests(paths[::2] + paths[1::2], "4294967295") == first


@pytest.mark.slow
def test_nothing_changes_the_code_of_any_case() -> None:
    paths = [str(runner.bytecode_path(name)) for name in runner.cases()]
    for start in range(0, len(paths), 60):
        chunk = paths[start:start + 60]
        assert digests(chunk, "7") == digests(chunk[::-1], "8")
