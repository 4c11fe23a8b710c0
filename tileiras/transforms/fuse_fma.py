"""`fuse-fma` on cuda_tile: a product that only one sum uses becomes part of it.

    %p = mulf %a, %b ; addf %p, %c   ->   fma %a, %b, %c
    %p = mulf %a, %b ; subf %p, %c   ->   fma %a, %b, (negf %c)

Where both round alike and flush alike. The result is rounded once instead of twice, so it isn't the same number: the
compiler's pipeline doesn't do this, `tileiras-opt --passes=fuse-fma` does, as the public definition's optimizer.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from tileiras.dialects.cuda_tile.ops import AddF, Fma, MulF, NegF, SubF
from tileiras.transforms.canonicalize.rewriting import erase, make
from tileiras.transforms.canonicalize.values import product_first
from tileiras.transforms.structure import replace

_MODES = ("rounding_mode", "flush_to_zero")


def run(top: Operation, context: Any = None) -> None:
    """Fuse under `top`, in place."""
    for op in [op for op in top.walk() if isinstance(op, (AddF, SubF))]:
        if isinstance(op, AddF):
            product_first(op)
        product, other = op.operands[0].owner, op.operands[1]
        if not isinstance(product, MulF) or not product.results[0].has_one_use():
            continue
        if any(op.properties.get(mode) != product.properties.get(mode) for mode in _MODES):
            continue
        type_ = op.results[0].type
        if isinstance(op, SubF):
            other = make(op, NegF, (other,), (type_,)).results[0]
        fused = make(op, Fma, (*product.operands, other), (type_,), dict(op.properties))
        replace(op, fused.results)
        erase(product)
