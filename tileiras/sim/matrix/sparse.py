"""Structured sparsity of matrix A: metadata registers to the columns that the stored elements belong to.

Every chunk of 4 columns holds 2 elements (1 of 2 for tf32; 4 of 8 as two pairs for 4-bit elements), and 4 bits of
metadata say which. The metadata of a warp's 16 rows lies in a quad of threads (PTX ISA, "Matrix fragments for
multiply-accumulate operation with sparse matrix A"):

- 16 bits a row (m16n8k16 of 16 bits, m16n8k8 of tf32): thread `selector` has row `group` in its low half and row
  group + 8 in its high half;
- 32 bits a row, 16- and 32-bit elements: threads 2 * selector and + 1 have the row's first and second half, rows as
  above;
- 32 bits a row, smaller elements: thread 2 * selector has row group, the next one row group + 8;
- 64 bits a row: threads 0 and 1 have the first half of rows group and group + 8, threads 2 and 3 the second.
"""
from __future__ import annotations

import numpy as np

from tileiras.sim.errors import InvalidInstruction

_NARROW = ("s4", "u4")
_LANE = np.arange(32)


class Metadata:
    """How one shape's metadata is read. `rows` are 16; `k` counts logical columns; `packed`: two elements a byte of a
    block-scaled 4-bit kind; `ordered`: both indices of a chunk must ascend."""

    def __init__(self, kind: str, rows: int, k: int, selector: int, packed: bool = False, ordered: bool = False) -> None:
        self.kind, self.k, self.selector, self.ordered = kind, k, selector, ordered
        self.pairs = packed or kind in _NARROW
        self.chunk = 2 if kind == "tf32" else 8 if self.pairs else 4
        self.chunks = k // self.chunk
        bits = 4 * self.chunks
        halves = kind in ("f16", "bf16", "tf32")
        top = 3 if bits == 16 else 1 if bits == 32 else 0
        if not 0 <= selector <= top:
            raise InvalidInstruction(f"sparsity selector {selector}: this shape takes 0 to {top}")
        row, c = np.arange(rows)[:, None], np.arange(self.chunks)[None, :]
        group, high = row % 8, row // 8
        if bits == 16:
            thread, shift = np.full_like(row + c, selector), 16 * high + 4 * c
        elif bits == 32 and halves:
            thread, shift = 2 * selector + c // 4 + 0 * row, 16 * high + 4 * (c % 4)
        elif bits == 32:
            thread, shift = 2 * selector + high + 0 * c, 4 * c + 0 * row
        else:
            thread, shift = 2 * (c // 8) + high, 4 * (c % 8) + 0 * row
        self.lane, self.shift = 4 * group + thread, shift.astype(np.uint32)

    def columns(self, words: np.ndarray, st=None) -> np.ndarray:
        """Metadata registers [warps, 32] to the logical column of every stored element, [warps, 16, k / 2]. Raises
        InvalidInstruction for metadata the ISA leaves undefined."""
        field = (words[:, self.lane] >> self.shift) & np.uint32(15)          # [warps, rows, chunks]
        first, second = (field & 3).astype(np.int64), (field >> 2).astype(np.int64)
        base = np.arange(self.chunks) * self.chunk
        if self.kind == "tf32":
            bad = (field != 0b1110) & (field != 0b0100)
            out = base + first // 2
        else:
            bad = first >= second if self.ordered else first == second
            if self.pairs:
                out = np.stack([base + 2 * first, base + 2 * first + 1, base + 2 * second, base + 2 * second + 1], axis=-1)
            else:
                out = np.stack([base + first, base + second], axis=-1)
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            thread = None
            if st is not None:
                thread = int(st.lanes[32 * at[0] + int(self.lane[at[1], at[2]])])
            raise InvalidInstruction(f"sparsity metadata {int(field[at]):#06b} of row {at[1]}, chunk {at[2]} isn't one the "
                                     "ISA defines", thread=thread)
        return out.reshape(len(words), self.lane.shape[0], -1)


def expand(stored: np.ndarray, columns: np.ndarray, k: int) -> np.ndarray:
    """Stored elements [..., rows, k / 2] in their columns of [..., rows, k], zeros elsewhere."""
    out = np.zeros((*stored.shape[:-1], k), stored.dtype)
    np.put_along_axis(out, columns, stored, axis=-1)
    return out
