"""`canonicalize`: what every function goes through before decisions are made about it.

    simplify, cse, hoist-invariants, simplify, dce        O1 and up
    dce                                                   O0

The second `simplify` sees operands that `cse` made equal.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from tileiras.transforms import cse, dce, hoist_invariants, simplify

DEFAULT_LEVEL = 3


def run(top: Operation, options: Any = None) -> None:
    """Canonicalize a module or function in place. options: may have `.opt_level` (0 to 3)."""
    if getattr(options, "opt_level", DEFAULT_LEVEL) > 0:
        simplify.run(top, options)
        cse.run(top, options)
        hoist_invariants.run(top, options)
        simplify.run(top, options)
    dce.run(top, options)
