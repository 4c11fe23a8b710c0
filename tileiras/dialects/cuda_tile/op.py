"""What every cuda_tile op has besides its declaration: the verifier that `verify` holds for it, a source location."""
from __future__ import annotations

import sys
from typing import Any

from tileiras.dialects.base import TileOp
from tileiras.dialects.cuda_tile.debug import render_location

VERIFIER_MODULE = "tileiras.dialects.cuda_tile.verify"


def _verifiers() -> dict[str, Any]:
    """`VERIFIERS` of the verify module: op name -> function of the op that raises VerifyException."""
    module = sys.modules.get(VERIFIER_MODULE)
    if module is None:
        import importlib
        from importlib.util import find_spec

        if find_spec(VERIFIER_MODULE) is None:
            return {}
        module = importlib.import_module(VERIFIER_MODULE)
    return module.VERIFIERS


class CudaTileOp(TileOp):
    """The base of the dialect's ops. Reading doesn't import the verifiers; the first verification does."""

    def verify_op(self) -> None:
        check = _verifiers().get(self.name)
        if check is not None:
            check(self)

    @property
    def source_location(self) -> str | None:
        """`"file":line:col` for diagnostics, or None where the program doesn't say."""
        return render_location(self.location)
