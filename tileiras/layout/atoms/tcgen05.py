"""tcgen05: products into tensor memory, and what moves tiles to and from it (sm_100, sm_103, sm_110).

Tensor memory has 128 lanes of 512 columns of 32 bits. One thread issues a product; the accumulator lies in tensor memory,
row r of it in lane r (M = 128). Loads and stores go warp by warp: warp w of four reaches lanes 32 w .. 32 w + 31. Their
fragments are (thread, register) -> lane + lanes * column:

    32x32b      thread t: lane t, register r: column r
    16x64b      lane 8 (t % 2) + t / 4; column 2 r + t / 2 % 2
    16x128b     lane t / 4 + 8 (r % 2); column t % 4 + 4 (r / 2)
    16x256b     lane t / 4 + 8 (r / 2 % 2); column 2 (t % 4) + r % 2 + 8 (r / 4): D of m16n8 atoms side by side
"""
from __future__ import annotations

from functools import lru_cache

from tileiras.layout.atoms.atom import REGISTERS, SHARED, TENSOR, Atom, Cost, Operand
from tileiras.layout.cute.algebra import Layout

FEATURE = "has_tcgen05"
LANES, COLUMNS, K_BYTES = 128, 512, 32
WARP = 32
_FLOATS = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
_INTEGERS = ("s8", "u8")
KINDS: dict[str, tuple[tuple[tuple[str, str], ...], tuple[str, ...], int, str]] = {
    "f16": ((("f16", "f16"), ("bf16", "bf16")), ("f32", "f16"), 16, "f16"),
    "tf32": ((("tf32", "tf32"),), ("f32",), 8, "tf32"),
    "f8f6f4": (tuple((a, b) for a in _FLOATS for b in _FLOATS), ("f32", "f16"), 32, "fp8"),
    "i8": (tuple((a, b) for a in _INTEGERS for b in _INTEGERS), ("s32",), 32, "int8"),
    "mxf8f6f4": (tuple((a, b) for a in _FLOATS for b in _FLOATS), ("f32",), 32, "fp8"),
    "mxf4": ((("e2m1", "e2m1"),), ("f32",), 64, "fp4"),
    "mxf4nvf4": ((("e2m1", "e2m1"),), ("f32",), 64, "fp4"),
}
"""Kind -> (types of A and B, accumulators, K, rate)."""
SCALES = {"mxf8f6f4": ((1, "ue8m0"),), "mxf4": ((2, "ue8m0"),), "mxf4nvf4": ((2, "ue8m0"), (4, "ue4m3"))}
"""Kind -> (scale factors a row of one instruction, their type)."""
REPETITIONS = (1, 2, 4, 8, 16, 32, 64, 128)
_MOVES: dict[str, tuple[int, int]] = {"32x32b": (32, 1), "16x64b": (16, 1), "16x128b": (16, 2), "16x256b": (16, 4)}
"""Shape -> (lanes, registers of a thread for .x1)."""
MAX_REGISTERS = 128
COPIES: dict[str, tuple[int, int, int]] = {
    "128x256b": (128, 256, 1), "128x128b": (128, 128, 1), "4x256b": (4, 256, 1), "64x128b.warpx2::02_13": (64, 128, 2),
    "64x128b.warpx2::01_23": (64, 128, 2), "32x128b.warpx4": (32, 128, 4)}
"""Shape of tcgen05.cp -> (rows, bits of a row, how many times it lands in tensor memory)."""


def shapes(kind: str, ctas: int) -> tuple[tuple[int, int], ...]:
    """(m, n) of the products of a kind, of one CTA or a pair."""
    if kind in SCALES:
        return tuple((m, n) for m in ((128,) if ctas == 1 else (128, 256)) for n in range(8 * ctas, 257, 8 * ctas))
    if ctas == 2:
        step = 32 if kind == "i8" else 16
        return tuple((m, n) for m in (128, 256) for n in range(step, 257, step))
    if kind == "i8":
        wide = (16, 32, *range(48, 257, 16))
        return (*((64, n) for n in (8, 24, *wide)), *((128, n) for n in wide))
    return (*((64, n) for n in range(8, 257, 8)), *((128, n) for n in range(16, 257, 16)))


def mma(kind: str, a: str, b: str, acc: str, m: int, n: int, ctas: int, a_in_shared: bool, vectors: int = 0,
        scale: str = "") -> Atom:
    """The row of one product."""
    k, rate = KINDS[kind][2:]
    operands = [Operand("A", SHARED if a_in_shared else TENSOR, a, (m, k), described="tcgen05" if a_in_shared else ""),
                Operand("B", SHARED, b, (k, n), described="tcgen05"), Operand("D", TENSOR, acc, (m, n))]
    if vectors:
        operands += [Operand("SFA", TENSOR, scale, (m, vectors)), Operand("SFB", TENSOR, scale, (n, vectors))]
    suffix = f".{vectors}x.{scale}" if vectors else ""
    shared = (m * a_in_shared + n) * K_BYTES
    return Atom(f"sm100.mma{'_bs' if vectors else ''}.{kind}.m{m}n{n}k{k}.{acc}.{a}.{b}{suffix}.cg{ctas}."
                f"{'ss' if a_in_shared else 'ts'}", "mma", tuple(operands), 1, FEATURE, "tcgen05.mma",
                Cost(1, m * n * k, rate, shared // ctas), (m, n, k))


def move_fragment(shape: str, count: int) -> Layout:
    """Who holds which 32-bit cell: (thread, register) -> lane + lanes * column."""
    if shape == "32x32b":
        return Layout((32, count), (1, 32))
    if shape == "16x64b":
        return Layout(((2, 2, 8), count), ((8, 16, 1), 2 * 16))
    if shape == "16x128b":
        return Layout(((4, 8), (2, count)), ((16, 1), (8, 4 * 16)))
    return Layout(((4, 8), (2, 2, count)), ((2 * 16, 1), (16, 8, 8 * 16)))


@lru_cache(maxsize=8)
def products(kind: str) -> tuple[Atom, ...]:
    """All products of a kind. Raises KeyError."""
    out = []
    pairs, accumulators, _, _ = KINDS[kind]
    for a, b in pairs:
        for acc in accumulators:
            if kind == "f16" and acc == "f16" and a != "f16":
                continue
            for ctas in (1, 2):
                for m, n in shapes(kind, ctas):
                    for from_shared in (True, False):
                        for vectors, scale in SCALES.get(kind, ((0, ""),)):
                            out.append(mma(kind, a, b, acc, m, n, ctas, from_shared, vectors, scale))
    return tuple(out)


@lru_cache(maxsize=1)
def rows() -> tuple[Atom, ...]:
    """Loads, stores and copies; the products, which are many, by `products`."""
    out = []
    for shape, (lanes, registers) in _MOVES.items():
        for count in REPETITIONS:
            if registers * count > MAX_REGISTERS:
                continue
            fragment = move_fragment(shape, count)
            columns = fragment.size // lanes
            held = Operand("registers", REGISTERS, "b32", (lanes, columns), fragment)
            cells = Operand("cells", TENSOR, "b32", (lanes, columns))
            out.append(Atom(f"atom.tmem_load.{shape}.x{count}", "tmem", (cells, held), WARP, FEATURE, "tcgen05.ld",
                            Cost(1, columns=columns)))
            out.append(Atom(f"atom.tmem_store.{shape}.x{count}", "tmem", (held, cells), WARP, FEATURE, "tcgen05.st",
                            Cost(1, columns=columns)))
    for shape, (lanes, bits, copies) in COPIES.items():
        source = Operand("source", SHARED, "b32", (lanes, bits // 32), described="tcgen05")
        target = Operand("target", TENSOR, "b32", (lanes * copies, bits // 32))
        out.append(Atom(f"atom.s2t_copy.{shape}", "tmem", (source, target), 1, FEATURE, "tcgen05.cp",
                        Cost(1, shared_bytes=lanes * bits // 8)))
    return tuple(out)
