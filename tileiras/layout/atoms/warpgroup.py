"""Which `wgmma` a tile product takes, and how the product spreads over warpgroups and registers.

The table of all shapes is `wgmma.py`; a compile asks for one instruction by its types and extents, so that a name is all that
is made:

    choose(target, "f16", "f16", "f32", m=128, n=128, k=64, num_warps=4)   ->  sm90.mma.m64n128k16.f32.f16.f16.ss

A warpgroup is four warps; each holds 16 of the instruction's 64 rows, as four `mma.sync` one above the other would. More
warpgroups take 64 rows each, then, where rows are too few, an instruction's columns each; what rows, columns and batches remain
are further instructions, one run of registers each: columns first, then rows, then the batch. B never is in registers.
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tileiras.layout.atoms.mma_sync import BITS, TYPE_NAMES
from tileiras.layout.linear import LinearLayout, log2

M, MIN_N, MAX_N, K_BYTES, GROUP_WARPS = 64, 8, 256, 32, 4
FEATURE = "has_wgmma"
PREFIX = "sm90.mma."
TRANSPOSABLE = frozenset({"f16", "bf16"})
"""Types whose tiles may have M or N contiguous in shared memory; of others K is."""
NARROW_SUMS = frozenset({"e4m3", "e5m2"})
"""Types whose products are summed in fewer bits than the accumulator has."""
_FP8 = ("e4m3", "e5m2")
_ACCUMULATORS: dict[tuple[str, str], tuple[str, ...]] = {
    ("f16", "f16"): ("f32", "f16"), ("bf16", "bf16"): ("f32",), ("tf32", "tf32"): ("f32",),
    **{(a, b): ("f32", "f16") for a in _FP8 for b in _FP8}, **{(a, b): ("s32",) for a in ("s8", "u8") for b in ("s8", "u8")}}
_NAME = re.compile(r"sm90\.mma\.m64n(\d+)k(\d+)\.(\w+)\.(\w+)\.(\w+)\.(ss|rs)")


@dataclass(frozen=True)
class WgmmaAtom:
    """D(64 x n) = A(64 x k) x B(k x n) + D by a warpgroup. `a_in_shared`: A is a tile in shared memory, else registers."""

    n: int
    a: str
    b: str
    acc: str
    a_in_shared: bool = True

    m = M
    widen = ""
    feature = FEATURE
    run = 0

    @property
    def k(self) -> int:
        return K_BYTES * 8 // BITS[self.a]

    @property
    def intrinsic(self) -> str:
        """The atom's name in the IR."""
        return f"{PREFIX}m{M}n{self.n}k{self.k}.{self.acc}.{self.a}.{self.b}.{'ss' if self.a_in_shared else 'rs'}"

    def contiguous(self, of_a: bool) -> int:
        """How many rows of A, or columns of B, may lie contiguous in shared memory, instead of K; 0: K must."""
        return (M if of_a else self.n) if self.a in TRANSPOSABLE else 0

    def instruction(self, a_transposed: bool, b_transposed: bool, negated: bool = False) -> str:
        """The row of the nvvm dialect, for tiles whose M (of A), N (of B) is contiguous or isn't. `negated`: of the product."""
        form = f"m{M}n{self.n}k{self.k}.{self.acc}.{self.a}.{self.b}.{'ss' if self.a_in_shared else 'rs'}"
        return f"wgmma.mma_async.{form}{'.ta' if a_transposed else ''}{'.tb' if b_transposed else ''}{'.neg' if negated else ''}"

    def with_a_in(self, shared: bool) -> WgmmaAtom:
        return WgmmaAtom(self.n, self.a, self.b, self.acc, shared)


@lru_cache(maxsize=256)
def named(name: str) -> WgmmaAtom:
    """The atom that IR calls `name`. Raises KeyError."""
    match = _NAME.fullmatch(name)
    if match is None or match[3] not in _ACCUMULATORS.get((match[4], match[5]), ()):
        raise KeyError(name)
    atom = WgmmaAtom(int(match[1]), match[4], match[5], match[3], match[6] == "ss")
    if atom.intrinsic != name or not MIN_N <= atom.n <= MAX_N or atom.n & atom.n - 1:
        raise KeyError(name)
    return atom


@lru_cache(maxsize=1024)
def choose(target: Any, a: str, b: str, acc: str, m: int, n: int, k: int, num_warps: int, signed_a: bool = True,
           signed_b: bool = True) -> WgmmaAtom | None:
    """The instruction for a tile product by all warps of the team, or None. Types are named as the IR prints them."""
    if not getattr(target, FEATURE):
        return None
    if a == b == "i8" and acc == "i32":
        types, held = ("s8" if signed_a else "u8", "s8" if signed_b else "u8"), "s32"
    else:
        types, held = (TYPE_NAMES.get(a, ""), TYPE_NAMES.get(b, "")), TYPE_NAMES.get(acc, "")
    if held not in _ACCUMULATORS.get(types, ()):
        return None
    if num_warps % GROUP_WARPS or m < M:
        return None
    atom = WgmmaAtom(min(n // split(m, num_warps)[1], MAX_N), *types, held)
    return atom if atom.n >= MIN_N and k >= atom.k else None


def split(m: int, num_warps: int) -> tuple[int, int]:
    """How many warpgroups share the rows of a tile of `m` rows, and how many its columns."""
    groups = num_warps // GROUP_WARPS
    rows = min(groups, m // M)
    return rows, groups // rows


def units(atom: WgmmaAtom, m: int, n: int, num_warps: int, batch: int = 0) -> tuple[int, int, int]:
    """How many instructions one warpgroup needs for a step of k: over the batch, its rows, its columns."""
    by_rows, by_columns = split(m, num_warps)
    return max(batch, 1), m // M // by_rows, n // atom.n // by_columns


@lru_cache(maxsize=256)
def layouts(atom: WgmmaAtom, m: int, n: int, k: int, num_warps: int, batch: int = 0) -> tuple[LinearLayout, LinearLayout]:
    """Layouts of A (m, k) in registers and of C (m, n); with `batch` > 0, of (batch, ...) tiles."""
    lead = (batch,) if batch else ()
    by_rows, by_columns = map(log2, split(m, num_warps))

    def layout(columns: int, each: int, inside: list[int], atom_columns: int, own: list[int]) -> LinearLayout:
        """`each`: neighbouring columns that a thread holds; `inside`: the instruction's further columns; behind them the
        tile's further columns, rows, batches. `own`: the columns that tell warpgroups apart (0: they hold the same)."""
        reg = [1 << i for i in range(log2(each))] + [8 * columns] + inside
        reg += [1 << i for i in range(log2(atom_columns), log2(columns)) if 1 << i not in own]
        reg += [columns << i for i in range(log2(M) + by_rows, log2(m))]
        reg += [m * columns << i for i in range(log2(batch) if batch else 0)]
        lane = (each, 2 * each, columns, 2 * columns, 4 * columns)
        warp = (16 * columns, 32 * columns, *(M * columns << i for i in range(by_rows)), *own)
        return LinearLayout((*lead, m, columns), tuple(reg), lane, warp)
    each = max(1, 32 // BITS[atom.a])
    return (layout(k, each, [4 * each], atom.k, [0] * by_columns),
            layout(n, 2, [1 << i for i in range(3, log2(atom.n))], atom.n, [atom.n << i for i in range(by_columns)]))
