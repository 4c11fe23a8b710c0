"""Atoms: one row an instruction that moves or multiplies tiles.

    atom            what a row says: operands and where they live, who issues it, who holds what, what it needs and costs
    mma_sync        products of a warp, operands in registers; how a tile product spreads over warps (sm_75 and newer)
    block_scaled    the same with scale factors (sm_120, sm_121)
    wgmma           products of a warpgroup from shared memory (sm_90)
    tcgen05         products, loads, stores and copies of tensor memory (sm_100 to sm_110)
    tensor_scaled   products into tensor memory with scale factors, and where those lie
    copies          ordinary accesses, ldmatrix, stmatrix, cp.async, bulk and tensor copies
    names           the row that a dot names
    registry        all rows: by name, by target

The compile path of synchronous code imports `mma_sync` (and `block_scaled` where a program has such products); the other
tables are made when somebody asks for them.
"""
from __future__ import annotations

from tileiras.layout.atoms.mma_sync import (
    ATOMS,
    BITS,
    COLUMNS,
    LEAST_USE,
    ROWS,
    TYPE_NAMES,
    MmaAtom,
    choose_atom,
    dot_layouts,
    has_atom,
    split_warps,
)

__all__ = ["ATOMS", "BITS", "COLUMNS", "LEAST_USE", "ROWS", "TYPE_NAMES", "MmaAtom", "choose_atom", "dot_layouts", "has_atom",
           "split_warps"]
