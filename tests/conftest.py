"""Fixtures that the whole test suite shares: cases of the kernel suite and their bytecode, exported once."""
from __future__ import annotations

import os
import pathlib
import zlib
from collections.abc import Callable

import pytest

os.environ["TILEIRAS_STRICT"] = "1"     # a failure of asynchronous code is one of the test, here and in what tests start
os.environ["TILEIRAS_LINGER"] = "0"     # commands that tests start do their work themselves


THINNED = {**dict.fromkeys("""
    conversion/test_tcgen05_scaled.py conversion/test_attention_chains.py conversion/test_tcgen05_attention.py
    kernels/test_store_pieces.py kernels/test_twins.py""".split(), 5), **dict.fromkeys("""
    conversion/test_wgmma.py conversion/test_agents.py kernels/test_suite.py kernels/test_agents.py kernels/test_verified.py
    fuzz/test_products.py conversion/test_tcgen05.py conversion/test_tcgen05_pairs.py conversion/test_packed_products.py
    conversion/test_tensor_memory_loops.py sim/test_reference_ptx.py kernels/test_large_tiles.py kernels/test_split_tiles.py
    transforms/test_dynamic_persistent.py""".split(), 3), **dict.fromkeys("""
    conversion/test_tma.py conversion/test_scaled_pairs.py kernels/test_clusters.py kernels/test_block_scaled.py
    kernels/test_fragments_ahead.py fuzz/test_programs.py tilecpp/test_tilecpp.py""".split(), 2)}
"""Files whose tests of several sets of parameters take minutes: one set of so many is among the quick tests, and one at least; the
others are slow."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the sets of parameters that `make test` leaves to `make test-all`."""
    sets: dict[tuple[str, str], list[tuple[int, pytest.Item]]] = {}
    for item in items:
        file = "/".join(item.path.parts[-2:])
        if file in THINNED and not item.get_closest_marker("slow"):
            number = zlib.crc32(item.name.encode())     # a count would pick levels or SMs
            sets.setdefault((file, getattr(item, "originalname", item.name)), []).append((number, item))
    for (file, _), found in sets.items():
        every = THINNED[file]
        least = min(number % every for number, _ in found)
        for number, item in found:
            if number % every != least:
                item.add_marker("slow")


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
