"""What one thread of a team does alone: ptxas has to know of it, or it writes a loop over lanes around each copy and product."""
from __future__ import annotations

import re

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile")

import tileiras  # noqa: E402
from tests.conversion.products import Product  # noqa: E402
from tileiras.codegen import toolchain  # noqa: E402
from tileiras.sim.cutile import export  # noqa: E402
from tileiras.sim.timing.sass import disassemble  # noqa: E402

NEEDED = pytest.mark.skipif(toolchain.find_tool("nvdisasm") is None or toolchain.find_tool("ptxas") is None,
                            reason="needs ptxas and nvdisasm")
OVER_LANES = "BRA.U.ANY"
AGENTS_FIRST = re.compile(r"setp\.(?:eq|ne)\.b32 \t%p\d+, %r\d+, 128;")
"""A comparison of the block's thread number with that of the load agent's first."""


def opcodes(cubin: bytes) -> list[str]:
    return [op["opcode"] for function in disassemble(cubin) for op in function["sass-instructions"]]


@ct.kernel
def biased(a, b, bias, out):        # type: ignore[no-untyped-def]
    acc = ct.zeros((64, 64), ct.float32)
    for k in range(ct.num_tiles(a, 1, (64, 64))):
        acc = ct.mma(ct.load(a, (ct.bid(0), k), (64, 64)), ct.load(b, (k, ct.bid(1)), (64, 64)), acc)
    ct.store(out, (ct.bid(0), ct.bid(1)), (acc + ct.load(bias, (ct.bid(1),), (64,))[None, :].astype(ct.float32)).astype(ct.float16))


@NEEDED
@pytest.mark.parametrize("gpu", ["sm_90", "sm_100", "sm_120"])
def test_copies_in_a_loop_and_behind_it(gpu: str) -> None:
    arrays = [np.zeros(s, np.float16) for s in ((256, 256), (256, 256), 256, (256, 256))]
    module = tileiras.compile(export(biased, arrays, gpu).bytecode, gpu_name=gpu)
    assert module.ptx.count("cp.async.bulk.tensor") >= 3 and AGENTS_FIRST.search(module.ptx)
    found = opcodes(module.cubin)
    assert any(op.startswith("UTMALDG") for op in found) and OVER_LANES not in found


@NEEDED
def test_products_of_a_pair() -> None:
    module = Product("f16", "f32", (256, 128, 64), steps=3, ctas=2).compiled("sm_100")
    found = opcodes(module.cubin)
    assert any(op.startswith("UTCHMMA.2CTA") for op in found) and OVER_LANES not in found
