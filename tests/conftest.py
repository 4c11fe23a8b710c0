"""Fixtures that the whole test suite shares: cases of the kernel suite and their bytecode, exported once."""
from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import pytest

os.environ["TILEIRAS_STRICT"] = "1"     # a failure of asynchronous code is one of the test, here and in what tests start
os.environ["TILEIRAS_LINGER"] = "0"     # commands that tests start do their work themselves


@pytest.fixture(scope="session")
def kernel_bytecode() -> Callable[..., bytes]:
    """`kernel_bytecode(name, version=None)`: the bytecode of a case of the kernel suite, as the frontend writes it."""
    pytest.importorskip("cuda.tile")
    from tests.kernels.runner import export_case
    return export_case


@pytest.fixture(scope="session")
def kernel_file() -> Callable[..., pathlib.Path]:
    """`kernel_file(name, version=None)`: the same as a file, for tests of command lines. Read only."""
    pytest.importorskip("cuda.tile")
    from tests.kernels.runner import bytecode_path
    return bytecode_path
