"""Which `mma.sync` instructions exist, from which SM on, and which thread holds which element of their operands.

One row an instruction shape and type. Fragments follow one rule (PTX ISA, "Matrix Fragments for mma.m...n...k...",
every dense shape with .row.col): with g = lane / 4, t = lane % 4 and e the elements in one 32-bit register
(e = 1 for f64),

    A (m x k)   row g (+8 in the second half of m 16), column t*e + i (+4e, +8e for larger k); registers run over i,
                then the row half, then k
    B (k x n)   row t*e + i (+4e, +8e), column g; registers run over i, then k
    C (m x n)   row g (+8), column t*2 + i; registers run over i, then the row half

so an atom is its extents, its types and a name. `choose_atom` picks the row for a tile's types and extents;
`dot_layouts` spreads the atoms of a whole tile over warps and registers.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from tileiras.layout.linear import LinearLayout, log2

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "s32": 32}
"""Width of an element in a fragment's registers, in bits."""

TYPE_NAMES = {"f16": "f16", "bf16": "bf16", "tf32": "tf32", "f32": "f32", "f64": "f64", "f8E4M3FN": "e4m3",
              "f8E5M2": "e5m2"}
"""From the IR's name of a float type to PTX's."""

LEAST_USE = 16
"""An atom is used for a smaller tile if that is at least this part (one n-th) of its rows and columns: one row of 16."""


@dataclass(frozen=True)
class MmaAtom:
    """One instruction: D(m x n) = A(m x k) x B(k x n) + C, held by the 32 lanes of a warp.

    intrinsic: name after `llvm.nvvm.`; its operands are A's registers, B's, C's (`a_type` etc. give the LLVM type of
    one register, which holds several elements when it is narrower), its result a struct of as many as C. feature: the
    field of the target that says whether it is there ("": everywhere). widen: the IR type that A and B must be
    converted to first (exact), or ""."""

    m: int
    n: int
    k: int
    a: str
    b: str
    acc: str
    intrinsic: str
    feature: str
    widen: str = ""

    @property
    def elements(self) -> int:
        """How many elements are what k counts."""
        return 1

    @property
    def instruction(self) -> str:
        """The row of the nvvm dialect that emits it."""
        return self.intrinsic

    @cached_property
    def a_bases(self) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        """((row, column) of each register bit, of each lane bit) of A."""
        e = self.elements_per_reg
        reg = [(0, 1 << i) for i in range(log2(e))] + [(8, 0)] * (self.m == 16) + _steps(4 * e, self.k, column=True)
        return tuple(reg), ((0, e), (0, 2 * e), (1, 0), (2, 0), (4, 0))

    @cached_property
    def b_bases(self) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        """((row, column) of each register bit, of each lane bit) of B."""
        e = self.elements_per_reg
        reg = [(1 << i, 0) for i in range(log2(e))] + _steps(4 * e, self.k, column=False)
        return tuple(reg), ((e, 0), (2 * e, 0), (0, 1), (0, 2), (0, 4))

    @cached_property
    def c_bases(self) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        """((row, column) of each register bit, of each lane bit) of C and D."""
        return ((0, 1),) + ((8, 0),) * (self.m == 16), ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))

    @property
    def a_type(self) -> str:
        """LLVM type of one register of A or B."""
        return {"f16": "<2 x half>", "f64": "double"}.get(self.a, "i32")

    @property
    def c_type(self) -> str:
        """LLVM type of one register of C or D."""
        return {"f16": "<2 x half>", "f32": "float", "f64": "double", "s32": "i32"}[self.acc]

    @property
    def elements_per_reg(self) -> int:
        """Elements of A or B in one register of `a_type`."""
        return max(1, 32 // BITS[self.a])


def _steps(first: int, extent: int, column: bool) -> list[tuple[int, int]]:
    out = []
    while first < extent:
        out.append((0, first) if column else (first, 0))
        first *= 2
    return out


def _table() -> tuple[MmaAtom, ...]:
    """All atoms; for each type, the preferred (largest) shape first."""
    rows: list[MmaAtom] = []

    def add(feature: str, m: int, k: int, a: str, b: str, acc: str, suffix: str) -> None:
        rows.append(MmaAtom(m, 8, k, a, b, acc, f"mma.m{m}n8k{k}.row.col.{suffix}", feature))
    for acc in ("f32", "f16"):
        add("has_f16_mma_k16", 16, 16, "f16", "f16", acc, f"{acc}.{acc}")
        add("", 16, 8, "f16", "f16", acc, f"{acc}.{acc}")
    add("has_bf16_mma", 16, 16, "bf16", "bf16", "f32", "bf16")
    add("has_bf16_mma", 16, 8, "bf16", "bf16", "f32", "bf16")
    add("has_tf32_mma", 16, 8, "tf32", "tf32", "f32", "tf32")
    add("has_tf32_mma", 16, 4, "tf32", "tf32", "f32", "tf32")
    for k in (16, 8, 4):
        add("has_f64_mma_m16", 16, k, "f64", "f64", "f64", "f64")
    add("has_f64_mma", 8, 4, "f64", "f64", "f64", "f64")
    for a in ("s8", "u8"):
        for b in ("s8", "u8"):
            suffix = a if a == b else f"{a}.{b}"
            add("int8_mma_shapes", 16, 32, a, b, "s32", suffix)
            add("int8_mma_shapes", 16, 16, a, b, "s32", suffix)
            add("int8_mma_shapes", 8, 16, a, b, "s32", suffix)
    for acc in ("f32", "f16"):
        for a in ("e4m3", "e5m2"):
            for b in ("e4m3", "e5m2"):
                for k in (32, 16):
                    add("has_fp8_mma", 16, k, a, b, acc, f"{acc}.{a}.{b}.{acc}")
    return tuple(rows)


ATOMS: tuple[MmaAtom, ...] = _table()


BY_NAME = {atom.intrinsic: atom for atom in ATOMS}


def choose_atom(target: Any, a: str, b: str, acc: str, m: int, n: int, k: int,
                signed_a: bool = True, signed_b: bool = True, warps: int = 1) -> MmaAtom | None:
    """The instruction for a tile product (m x k) x (k x n), or None: multiply and add by ordinary arithmetic.

    target: what the SM can do (machine/targets.py). a, b, acc: element types as the IR prints them (f16, bf16, tf32, f32,
    f64, i8, f8E4M3FN, f8E5M2; acc also i32). None when no type fits on this target, k is smaller than every atom's or
    the tile is too small. A tile of fewer rows or columns than the atom has is held and computed in copies. 8-bit
    floats on an SM without their own instruction give the f16 atom with `widen` = "f16": the conversion loses
    nothing. warps: of those that compute the tile, how many are to have an own part of it, where the table has an atom
    so small (f64): its tensor core is slow, and copies of a part take as long as parts."""
    return _choose(target, a, b, acc, m, n, k, signed_a, signed_b, warps if a == "f64" else 1)


def has_atom(target: Any, atom: MmaAtom) -> bool:
    """Whether a target has the instruction."""
    if not atom.feature:
        return True
    answer = getattr(target, atom.feature)
    return answer if isinstance(answer, bool) else (atom.m, atom.n, atom.k) in answer


@lru_cache(maxsize=1024)
def _choose(target: Any, a: str, b: str, acc: str, m: int, n: int, k: int, signed_a: bool,
            signed_b: bool, warps: int = 1) -> MmaAtom | None:
    if a == b == "i8" and acc == "i32":
        ptx_a, ptx_b, ptx_acc = "s8" if signed_a else "u8", "s8" if signed_b else "u8", "s32"
    elif a in TYPE_NAMES and b in TYPE_NAMES and acc in TYPE_NAMES:
        ptx_a, ptx_b, ptx_acc = TYPE_NAMES[a], TYPE_NAMES[b], TYPE_NAMES[acc]
    else:
        return None
    fitting = [atom for atom in ATOMS if (atom.a, atom.b, atom.acc) == (ptx_a, ptx_b, ptx_acc)
               and atom.k <= k and has_atom(target, atom)]
    whole = [atom for atom in fitting if atom.m <= m and atom.n <= n]
    if whole:
        least = min(atom.m for atom in whole)
        return next(atom for atom in whole if (m // atom.m) * (n // atom.n) >= warps or atom.m == least)
    for atom in fitting:
        if min(m, atom.m) * min(n, atom.n) * LEAST_USE >= atom.m * atom.n:
            return atom
    if BITS[ptx_a] == BITS[ptx_b] == 8 and ptx_acc != "s32":
        wide = _choose(target, "f16", "f16", acc, m, n, k, True, True)
        if wide is not None:
            return MmaAtom(wide.m, wide.n, wide.k, wide.a, wide.b, wide.acc, wide.intrinsic, wide.feature, widen="f16")
    return None


ROWS, COLUMNS = "rows", "columns"


def split_warps(m: int, n: int, atom_m: int, atom_n: int, warp_bits: int) -> tuple[int, int]:
    """How many of `warp_bits` go to the m and n dimensions so that each warp's part is near square: it then reads
    the least of A and B. Bits that neither dimension has room for are left out (those warps repeat the work)."""
    wm = wn = 0
    for _ in range(warp_bits):
        rest_m, rest_n = m >> wm, n >> wn
        can_m, can_n = rest_m > atom_m, rest_n > atom_n
        if can_m and (rest_m >= rest_n or not can_n):
            wm += 1
        elif can_n:
            wn += 1
    return wm, wn


@lru_cache(maxsize=1024)
def dot_layouts(atom: MmaAtom, m: int, n: int, k: int, num_warps: int,
                batch: int = 0, along: str = "", next_elements: int = 0) -> tuple[LinearLayout, LinearLayout, LinearLayout]:
    """Layouts of A (m, k), B (k, n) and C (m, n) for a tile product by `atom`; with `batch` > 0, of (batch, ...) tiles.

    along: which dimension warps go over as far as it reaches. "rows": C is (or comes from) the A of another product; a warp's rows
    of C are the rows of A that it needs then, and the value never leaves its threads. "columns": threads compute B, each warp
    the columns that it multiplies.
    next_elements: C is the A of a product that has so many elements in a register (`elements_per_reg`); where C's columns are
    shared out otherwise, B's columns, and so C's, change places among the atoms: each thread then has the very elements that it
    multiplies next.

    Warps go over the batch first, then over m and n, each with a block of its own: it then has long pieces of rows for memory,
    which it can turn without the others, and columns side by side, of which one transposing `ldmatrix` loads two atoms' (elements
    of a byte). Registers run through an atom, then along n (C), k (A, B), then the other dimension, then the batch, so that atom
    number i of C is the i-th run of 4 (or 2) registers."""
    warp_bits = log2(num_warps)
    batch_bits = log2(batch) if batch else 0
    warp_batch = min(warp_bits, batch_bits)
    if along == ROWS:
        wm = min(warp_bits - warp_batch, log2(max(1, m // atom.m)))
        wn = min(warp_bits - warp_batch - wm, log2(max(1, n // atom.n)))
    elif along == COLUMNS:
        wn = min(warp_bits - warp_batch, log2(max(1, n // atom.n)))
        wm = min(warp_bits - warp_batch - wn, log2(max(1, m // atom.m)))
    else:
        wm, wn = split_warps(m, n, atom.m, atom.n, warp_bits - warp_batch)
    idle = warp_bits - warp_batch - wm - wn
    lead = () if not batch else (batch,)

    def layout(rows: int, cols: int, atom_bases, atom_rows: int, atom_cols: int, warp_rows: int | None,
               warp_cols: int | None, columns_first: bool, order: dict[int, int]) -> LinearLayout:
        def flat(pair: tuple[int, int]) -> int:
            # rows and columns beyond a tile smaller than the atom are copies
            return pair[0] % rows * cols + order.get(pair[1], pair[1]) % cols
        reg = [flat(p) for p in atom_bases[0]]
        lane = tuple(flat(p) for p in atom_bases[1])
        own_rows, own_cols = rows >> (warp_rows or 0), cols >> (warp_cols or 0)
        warp = [rows * cols << batch_bits - warp_batch + i for i in range(warp_batch)]
        # m's warp bits before n's; the operand without a dimension holds copies (base 0) over its warps
        for i in range(wm):
            warp.append(0 if warp_rows is None else (own_rows << i) * cols)
        for i in range(wn):
            warp.append(0 if warp_cols is None else own_cols << i)
        warp += [0] * idle
        along_cols = [order.get(1 << i, 1 << i) for i in range(log2(atom_cols), log2(own_cols))]
        along_rows = [cols << i for i in range(log2(atom_rows), log2(own_rows))]
        reg += along_cols + along_rows if columns_first else along_rows + along_cols
        reg += [rows * cols << i for i in range(batch_bits - warp_batch)]
        return LinearLayout((*lead, rows, cols), tuple(reg), lane, tuple(warp))

    turned = columns_for(atom, n >> wn, next_elements)
    return (layout(m, k, atom.a_bases, atom.m, atom.k, wm, None, True, {}),
            layout(k, n, atom.b_bases, atom.k, atom.n, None, wn, False, turned),
            layout(m, n, atom.c_bases, atom.m, atom.n, wm, wn, True, turned))


def columns_for(atom: MmaAtom, n: int, next_elements: int) -> dict[int, int]:
    """Where `n` columns of C go (a column whose number has one bit set -> its place) for threads to have of a row what a product
    with `next_elements` in a register takes as A; none where they have it, or where there are too few columns."""
    lanes = [column for _, column in atom.c_bases[1] if column]
    wanted = [next_elements << i for i in range(len(lanes))]
    if not next_elements or wanted == lanes or wanted[-1] >= n:
        return {}
    columns = [1 << i for i in range(log2(n))]
    free = iter(c for c in columns if c not in wanted)
    found = {c: wanted[lanes.index(c)] if c in lanes else next(free) for c in columns}
    return {c: place for c, place in found.items() if c != place}
