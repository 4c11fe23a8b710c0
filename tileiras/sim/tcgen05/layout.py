"""Where tcgen05.mma has its matrices in tensor memory: data paths of accumulators, scale factors, sparsity metadata.

The 128 lanes are the data paths; the one of lane l computes with the row of A that it holds and writes that row's
products to its own cells. `DataPath` says which row and which columns of B belong to each lane (PTX ISA, "Data Path
Layout Organization"; letters as there). Scale factors and metadata are repeated in every partition of 32 lanes, and
each partition reads its own copy.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from tileiras.sim.errors import DescriptorError

LANES, COLUMNS = 128, 512


@dataclass(frozen=True, eq=False)
class DataPath:
    """The lanes of one CTA. `rows`: [128] the CTA's row of A and D in each lane, -1 for lanes that are left alone;
    `first`: [128] the column of D in a lane's first cell; `columns`: cells that every lane holds."""
    letter: str
    rows: np.ndarray
    first: np.ndarray
    columns: int


def letter_of(m: int, group: int, ws: bool, sparse: bool) -> str:
    """The layout's letter in the PTX ISA."""
    if group == 2:
        return "A" if m == 256 else "C" if sparse else "B"
    if m == 128:
        return "D"
    if m == 64:
        return "E" if ws else "F"
    return "G"


@cache
def data_path(m: int, n: int, group: int, ws: bool, sparse: bool, lane: int) -> DataPath:
    """The data path of a product whose accumulator starts at `lane`. Raises DescriptorError for a lane it can't."""
    letter = letter_of(m, group, ws, sparse)
    half = letter in "FC"
    if lane not in ((0, 16) if half else (0,)):
        raise DescriptorError(f"an accumulator of layout {letter} (M={m}) can't start at lane {lane} of tensor memory")
    lanes = np.arange(LANES)
    rows, first, columns = lanes.copy(), np.zeros(LANES, np.int64), n
    if half:
        inside = lanes % 32 - lane
        rows = np.where((inside >= 0) & (inside < 16), lanes // 32 * 16 + inside, -1)
    elif letter in "BEG":
        parts = 4 if letter == "G" else 2
        if n % parts:
            raise DescriptorError(f"layout {letter} divides N={n} in {parts}")
        columns = n // parts
        rows, first = lanes % (LANES // parts), lanes // (LANES // parts) * columns
    return DataPath(letter, rows, first, columns)


def scale_cells(path: DataPath, partition: int, of_b: bool) -> tuple[np.ndarray, np.ndarray]:
    """(lanes, columns from the base) of the words that hold scale factors, for one partition of 32 lanes.

    For A: one word for each of the partition's rows; for B: one for each column of D that its lanes hold. The scale
    factors of row (or column) i of the matrix are in lane i % 32 of the partition and word column i // 32."""
    if of_b:
        i = np.arange(path.columns)
    else:
        i = path.rows[32 * partition:32 * partition + 32]
        i = i[i >= 0]
    return 32 * partition + i % 32, i // 32


def metadata_cells(kind: str, path: DataPath, partition: int, k: int, selector: int):
    """(lanes, columns from the base, bit offsets), each [rows, chunks]: where a partition's rows have their sparsity
    metadata. A chunk is 4 bits: for four elements of K (two for tf32, eight for the packed 4-bit kinds).

    16- and 32-bit elements: groups of 16 lanes hold 16 rows; word bits 0-15 of lane l are for row l % 8, bits 16-31 for
    row 8 + l % 8, the lane's bit 3 selects the half of K; the selector counts word columns. Others: a lane holds its
    own row, 32 bits a column."""
    lanes = np.arange(32 * partition, 32 * partition + 32)
    lanes = lanes[path.rows[lanes] >= 0]
    per_chunk = {"tf32": 2, "mxf4": 8, "mxf4nvf4": 8}.get(kind, 4)
    chunk = np.arange(k // per_chunk)
    if kind in ("f16", "tf32"):
        base, row = lanes // 16 * 16, lanes % 16
        half = len(chunk) // 2
        lane = base[:, None] + row[:, None] % 8 + 8 * (chunk >= half)
        bit = 16 * (row[:, None] // 8) + 4 * (chunk % half)
        column = np.full(lane.shape, selector)
    else:
        lane = np.broadcast_to(lanes[:, None], (len(lanes), len(chunk)))
        bit = np.broadcast_to(4 * (chunk % 8), lane.shape)
        column = np.broadcast_to(chunk // 8, lane.shape)
    return lane, column, bit
