"""Ops that make tiles and move their elements: constants, shapes, reductions and scans, the tile grid, assumptions."""
from __future__ import annotations

from tileiras.dialects.cuda_tile.op import CudaTileOp


class Assume(CudaTileOp):
    """`predicate` is a DivByAttr, SameElementsAttr or BoundedAttr."""

    name = "cuda_tile.assume"
    OPERANDS = "value"
    RESULTS = "result"
    ATTRS = "predicate"


class Broadcast(CudaTileOp):
    name = "cuda_tile.broadcast"
    OPERANDS = "source"
    RESULTS = "result"
    PURE = True


class Cat(CudaTileOp):
    """`dim` is an i64 IntegerAttr."""

    name = "cuda_tile.cat"
    OPERANDS = "lhs rhs"
    RESULTS = "result"
    ATTRS = "dim"
    PURE = True


class Constant(CudaTileOp):
    """`value` is a DenseElementsAttr of the result's type."""

    name = "cuda_tile.constant"
    RESULTS = "result"
    ATTRS = "value"
    PURE = True


class Extract(CudaTileOp):
    name = "cuda_tile.extract"
    OPERANDS = "source indices*"
    RESULTS = "result"
    PURE = True


class GetNumTileBlocks(CudaTileOp):
    name = "cuda_tile.get_num_tile_blocks"
    RESULTS = "gridSize_x gridSize_y gridSize_z"
    PURE = True


class GetTileBlockId(CudaTileOp):
    name = "cuda_tile.get_tile_block_id"
    RESULTS = "blockId_x blockId_y blockId_z"
    PURE = True


class Insert(CudaTileOp):
    """`destination` with the slice at `indices` replaced by `source`, since 13.4."""

    name = "cuda_tile.insert"
    OPERANDS = "source destination indices*"
    RESULTS = "result"
    PURE = True


class Iota(CudaTileOp):
    name = "cuda_tile.iota"
    RESULTS = "result"
    PURE = True


class Pack(CudaTileOp):
    """Since 13.3."""

    name = "cuda_tile.pack"
    OPERANDS = "source"
    RESULTS = "result"
    PURE = True


class Permute(CudaTileOp):
    """`permutation` is an i32 DenseArrayBase."""

    name = "cuda_tile.permute"
    OPERANDS = "source"
    RESULTS = "result"
    ATTRS = "permutation"
    PURE = True


class Reduce(CudaTileOp):
    """N operands and results; the body takes 2N scalar tiles, the two to combine of each operand in turn.

    `dim` is an i32 IntegerAttr, `identities` an ArrayAttr of N IntegerAttr or FloatAttr.
    """

    name = "cuda_tile.reduce"
    OPERANDS = "operands*"
    RESULTS = "results*"
    ATTRS = "dim identities"
    REGIONS = "body"


class Reshape(CudaTileOp):
    name = "cuda_tile.reshape"
    OPERANDS = "source"
    RESULTS = "result"
    PURE = True


class Scan(CudaTileOp):
    """As Reduce, keeping every partial result; `reverse` is an i1 IntegerAttr."""

    name = "cuda_tile.scan"
    OPERANDS = "operands*"
    RESULTS = "results*"
    ATTRS = "dim reverse identities"
    REGIONS = "body"


class Unpack(CudaTileOp):
    """Since 13.3."""

    name = "cuda_tile.unpack"
    OPERANDS = "source"
    RESULTS = "result"
    PURE = True


OPS: tuple[type[CudaTileOp], ...] = (
    Assume, Broadcast, Cat, Constant, Extract, GetNumTileBlocks, GetTileBlockId, Insert, Iota, Pack, Permute, Reduce,
    Reshape, Scan, Unpack,
)
