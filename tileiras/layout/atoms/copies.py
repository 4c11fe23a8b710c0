"""Copies: ordinary accesses, 8 x 8 matrices, cp.async, and what the copy engine does.

Fragments of ldmatrix and stmatrix are (thread, value) -> row + 8 * column + 64 * matrix: thread t has two neighbouring
elements of row t / 4 (transposed: of column t / 4) of each matrix; thread t gives the address of row t % 8 of matrix t / 8.
"""
from __future__ import annotations

from functools import lru_cache

from tileiras.layout.atoms.atom import GLOBAL, REGISTERS, SHARED, Atom, Cost, Operand
from tileiras.layout.cute.algebra import Layout

WARP = 32
ASYNC_BYTES = {4: ("ca",), 8: ("ca",), 16: ("ca", "cg")}
"""Bytes of a cp.async -> caches it can go through (PTX ISA, cp.async)."""
WIDEST_BITS = 128
MAX_RANK = 5
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def matrix_fragment(count: int, trans: bool) -> Layout:
    """Who holds what of `count` matrices of 8 x 8 elements of 16 bits."""
    step = ((2, 8), 1) if trans else ((16, 1), 8)
    if count == 1:
        return Layout(((4, 8), 2), step)
    return Layout(((4, 8), (2, count)), (step[0], (step[1], 64)))


def _universal() -> list[Atom]:
    out = []
    for space in (GLOBAL, SHARED):
        for bits in (8, 16, 32, 64, 128, 256):
            if bits > WIDEST_BITS and space == SHARED:
                continue
            feature = "has_wide_global_access" if bits > WIDEST_BITS else ""
            memory, held = Operand("memory", space, f"b{bits}"), Operand("registers", REGISTERS, f"b{bits}")
            nbytes = WARP * bits // 8
            cost = Cost(1, shared_bytes=nbytes) if space == SHARED else Cost(1, global_bytes=nbytes)
            out.append(Atom(f"atom.universal_copy.{space}.rmem.b{bits}", "copy", (memory, held), WARP, feature, "ld", cost))
            out.append(Atom(f"atom.universal_copy.rmem.{space}.b{bits}", "copy", (held, memory), WARP, feature, "st", cost))
    return out


def _matrices() -> list[Atom]:
    out = []
    for count in (1, 2, 4):
        for trans in (False, True):
            suffix = f"m8n8.x{count}{'.trans' if trans else ''}"
            memory = Operand("memory", SHARED, "b16", (8, 8, count))
            held = Operand("registers", REGISTERS, "b16", (8, 8, count), matrix_fragment(count, trans))
            cost = Cost(1, shared_bytes=128 * count)
            out.append(Atom(f"atom.ldsm.{suffix}", "copy", (memory, held), WARP, "has_ldmatrix", f"ldmatrix.{suffix}.b16", cost))
            out.append(Atom(f"atom.stsm.{suffix}", "copy", (held, memory), WARP, "has_stmatrix", f"stmatrix.{suffix}.b16", cost))
    return out


def _engine() -> list[Atom]:
    out = []
    for nbytes, caches in ASYNC_BYTES.items():
        for cache in caches:
            source, target = Operand("source", GLOBAL, f"b{8 * nbytes}"), Operand("target", SHARED, f"b{8 * nbytes}")
            out.append(Atom(f"atom.simt_async_copy.{cache}.b{8 * nbytes}", "copy", (source, target), WARP, "has_cp_async",
                            f"cp.async.{cache}.{nbytes}", Cost(1, shared_bytes=WARP * nbytes, global_bytes=WARP * nbytes)))
    memory = {GLOBAL: Operand("global", GLOBAL, "b128"), SHARED: Operand("shared", SHARED, "b128")}
    out.append(Atom("atom.bulk_load", "tma", (memory[GLOBAL], memory[SHARED]), 1, "has_tma", "cp.async.bulk.g2s"))
    out.append(Atom("atom.bulk_store", "tma", (memory[SHARED], memory[GLOBAL]), 1, "has_tma", "cp.async.bulk.s2g"))
    for rank in range(1, MAX_RANK + 1):
        tile = Operand("shared", SHARED, "b8", (0,) * rank)
        tensor = Operand("global", GLOBAL, "b8", (0,) * rank, described="tensormap")
        forms = [("tile", "has_tma"), *([("im2col", "has_tma")] if rank >= 3 else [])]
        for form, feature in forms:
            out.append(Atom(f"atom.tma_load.{form}.{rank}d", "tma", (tensor, tile), 1, feature,
                            f"cp.async.bulk.tensor.g2s.{form}.{rank}d"))
            out.append(Atom(f"atom.tma_store.{form}.{rank}d", "tma", (tile, tensor), 1, feature,
                            f"cp.async.bulk.tensor.s2g.{form}.{rank}d"))
        out.append(Atom(f"atom.tma_load.multicast.{rank}d", "tma", (tensor, tile), 1, "has_tma",
                        f"cp.async.bulk.tensor.g2s.multicast.{rank}d"))
        for op in REDUCTIONS:
            out.append(Atom(f"atom.tma_reduce.{op}.{rank}d", "tma", (tile, tensor), 1, "has_tma",
                            f"cp.async.bulk.tensor.reduce.{op}.{rank}d"))
    for form in ("gather4", "scatter4"):
        tile, tensor = Operand("shared", SHARED, "b8", (4, 0)), Operand("global", GLOBAL, "b8", (0, 0), described="tensormap")
        pair = (tensor, tile) if form == "gather4" else (tile, tensor)
        kind = "load" if form == "gather4" else "store"
        out.append(Atom(f"atom.tma_{kind}.{form}", "tma", pair, 1, "has_tcgen05",
                        f"cp.async.bulk.tensor.{'g2s' if form == 'gather4' else 's2g'}.{form}"))
    return out


@lru_cache(maxsize=1)
def rows() -> tuple[Atom, ...]:
    return (*_universal(), *_matrices(), *_engine())
