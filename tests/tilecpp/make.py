"""Make kernels.tilebc of kernels.cu, or see whether it is up to date.

    python -m tests.tilecpp.make [--check] [NVCC]

`nvcc -tilebc` is of CUDA 13.3 or newer; from the package index: nvidia-cuda-nvcc, nvidia-nvvm, nvidia-cuda-crt,
nvidia-cuda-runtime, nvidia-cuda-cccl. It also needs a C++ compiler.
"""
from __future__ import annotations

import hashlib
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
SOURCE, BYTECODE, DIGEST = HERE / "kernels.cu", HERE / "kernels.tilebc", HERE / "kernels.sha256"


def digest() -> str:
    """Of the source."""
    return hashlib.sha256(SOURCE.read_bytes()).hexdigest()


def main(argv: list[str]) -> int:
    if "--check" in argv:
        return int(DIGEST.read_text().strip() != digest())
    nvcc = argv[0] if argv else "nvcc"
    with tempfile.TemporaryDirectory() as folder:       # the bytecode names the folders of sources, the toolkit's as well
        shutil.copy(SOURCE, folder)
        subprocess.run([nvcc, "-tilebc", "-arch=sm_90", "-std=c++20", "--tile-only", "-o", BYTECODE, SOURCE.name], check=True,
                       cwd=folder)
    DIGEST.write_text(digest() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
