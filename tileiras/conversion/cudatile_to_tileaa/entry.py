"""The boundary from cuda_tile to nv_tileaa: one linear walk, one family of ops a file.

    cuda_tile.module @m { entry @k(%p: tile<ptr<f32>>) { ... } }
      ->  builtin.module { nv_tileaa.func @k ^(%p: !nv_tileaa.ptr<f32>) { ... nv_tileaa.return } }

Legal afterwards: builtin.module, arith, math, scf and nv_tileaa ops; nothing of cuda_tile is left; queries of
shapes and index spaces have become arithmetic. Argument i of a func is parameter i of the entry.
Attributes of the new ops: `dim`, `latency`, `num_elem`, `alignment` are IntegerAttr, `permutation` an
ArrayAttr of IntAttr, `reverse` an i1 IntegerAttr, enumerations StringAttr, `identities` an ArrayAttr of scalars,
`symbol` a SymbolRefAttr. Source: notes on parts 03 and 04 of the specification; public `Ops.td` for what an op means.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region

from tileiras.conversion.cudatile_to_tileaa import (  # noqa: F401  (each fills the registry)
    collectives,
    constants,
    control,
    elementwise,
    memory,
    shapes,
    views,
)
from tileiras.conversion.cudatile_to_tileaa.converter import CudaTileConverter


def run(module: Any, context: Any) -> ModuleOp:
    """A cuda_tile module as a builtin module of nv_tileaa globals and funcs.

    module: a verified `cuda_tile.module`; it is read only. `context.target.name` ("sm_90") picks the optimization hints.
    Raises CompileError, with the op's source location, for what no kernel can be made of."""
    block = Block()
    converter = CudaTileConverter(context.target.name)
    converter.enter(module.regions[0].block, block)
    converter.run()
    return ModuleOp(Region(block))
