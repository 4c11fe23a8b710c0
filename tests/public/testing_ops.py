"""Ops that the public tests use and the language doesn't have."""
from __future__ import annotations

from tileiras.dialects.cuda_tile.op import CudaTileOp
from tileiras.dialects.cuda_tile.ops import Entry
from tileiras.dialects.cuda_tile.verify_error import single_block


class TestingFunction(Entry):
    """A function with results: `testing$func`."""

    __test__ = False
    name = "cuda_tile.testing$func"

    def CHECK(self) -> None:
        single_block(self, "body")


EXTRA_OPS: dict[str, type[CudaTileOp]] = {"testing$func": TestingFunction}
