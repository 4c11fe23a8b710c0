"""wgmma: products of a warpgroup, B (and A, if it isn't in registers) read from shared memory by descriptor (sm_90).

D is m64nN in registers: warp w of the group holds rows 16 w .. 16 w + 15 of it, each warp as mma.sync's m16n8 atoms side by
side. K is 32 bytes. Rows are m64 by N = 8, 16, ..., 256 (for integers only 8, 16, 24, 32, 48 and then every 16).
"""
from __future__ import annotations

from functools import lru_cache

from tileiras.layout.atoms.atom import REGISTERS, SHARED, Atom, Cost, Operand, rows_and_columns
from tileiras.layout.atoms.mma_sync import BITS
from tileiras.layout.cute.algebra import Layout

M, MAX_N, K_BYTES, THREADS = 64, 256, 32, 128
FEATURE = "has_wgmma"
_FP8 = ("e4m3", "e5m2")
_INTEGERS = ("s8", "u8")
PRODUCTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("f16", "f16", ("f32", "f16")), ("bf16", "bf16", ("f32",)), ("tf32", "tf32", ("f32",)),
    *((a, b, ("f32", "f16")) for a in _FP8 for b in _FP8), *((a, b, ("s32",)) for a in _INTEGERS for b in _INTEGERS))
"""(A, B, accumulators)."""
TRANSPOSABLE = ("f16", "bf16")
"""Types whose tiles may have M or N contiguous; of others K is."""
_RATES = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "e4m3": "fp8", "e5m2": "fp8", "s8": "int8", "u8": "int8"}


def widths(integer: bool) -> tuple[int, ...]:
    """The values that N can have."""
    if integer:
        return (8, 16, 24, 32, *range(48, MAX_N + 1, 16))
    return tuple(range(8, MAX_N + 1, 8))


def accumulator(n: int) -> Layout:
    """Who holds what of D."""
    return Layout(((4, 8, 4), (2, 2, n // 8)), ((2 * M, 1, 16), (M, 8, 8 * M)))


def name(n: int, a: str, b: str, acc: str, a_in_shared: bool) -> str:
    return f"sm90.mma.m{M}n{n}k{K_BYTES * 8 // BITS[a]}.{acc}.{a}.{b}.{'ss' if a_in_shared else 'rs'}"


@lru_cache(maxsize=1)
def rows() -> tuple[Atom, ...]:
    out = []
    for a, b, accumulators in PRODUCTS:
        k = K_BYTES * 8 // BITS[a]
        in_registers = Operand("A", REGISTERS, a, (M, k), rows_and_columns(M, max(1, 32 // BITS[a]), 2, 4))
        in_shared = Operand("A", SHARED, a, (M, k), described="wgmma")
        for acc in accumulators:
            for n in widths(a in _INTEGERS):
                for from_shared in (True, False):
                    operands = (in_shared if from_shared else in_registers, Operand("B", SHARED, b, (k, n), described="wgmma"),
                                Operand("D", REGISTERS, acc, (M, n), accumulator(n)))
                    cost = Cost(4, M * n * k, _RATES[a], (M * from_shared + n) * K_BYTES)
                    out.append(Atom(name(n, a, b, acc, from_shared), "mma", operands, THREADS, FEATURE, "wgmma.mma_async", cost,
                                    (M, n, k)))
    return tuple(out)
