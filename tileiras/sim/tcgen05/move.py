"""Which cells of tensor memory tcgen05.ld, st, cp and shift touch, as arrays (PTX ISA, "Data Movement Shape")."""
from __future__ import annotations

from functools import cache

import numpy as np

from tileiras.sim.errors import InvalidInstruction

REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}     # of a thread, for .x1
COPIES = {"128x256b": (128, 2), "128x128b": (128, 1), "4x256b": (4, 2), "64x128b": (64, 1), "32x128b": (32, 1)}
_T = np.arange(32)[:, None]


@cache
def register_cells(shape: str, count: int, split: int = 0, packed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """(lanes, columns) from the base address, each [32 threads, registers, cells in one register].

    `count`: the repetition (.x1 to .x128); `split`: columns from the first to the second half of 16x32bx2. With
    `packed` a register holds the low halves of two neighbouring cells."""
    if shape not in REGISTERS or count not in (1, 2, 4, 8, 16, 32, 64, 128) or count * REGISTERS[shape] > 128:
        raise InvalidInstruction(f"tcgen05.ld and st have no shape .{shape}.x{count}")
    r = np.arange(count * REGISTERS[shape])[None, :]
    if shape == "32x32b":
        lane, word = _T + 0 * r, r + 0 * _T
    elif shape == "16x64b":
        lane, word = 8 * (_T & 1) + _T // 4 + 0 * r, 2 * r + (_T >> 1 & 1)
    elif shape == "16x128b":
        lane, word = _T // 4 + 8 * (r & 1), _T % 4 + 4 * (r >> 1)
    elif shape == "16x256b":
        lane, word = _T // 4 + 8 * (r >> 1 & 1), 2 * (_T % 4) + (r & 1) + 8 * (r >> 2)
    else:
        lane, word = _T % 16 + 0 * r, r + 0 * _T
    if packed:
        column = np.stack([2 * word, 2 * word + 1], axis=-1)
    else:
        column = word[..., None]
    if shape == "16x32bx2":
        column = column + split * (_T >= 16)[..., None]
    return np.broadcast_to(lane[..., None], column.shape), column


@cache
def copy_lanes(shape: str, multicast: str) -> np.ndarray:
    """[rows, repetitions]: the lanes, from the base address, that get each row of a tcgen05.cp's source matrix."""
    allowed = {"64x128b": ("warpx2::02_13", "warpx2::01_23"), "32x128b": ("warpx4",)}.get(shape, ("",))
    if shape not in COPIES or multicast not in allowed:
        raise InvalidInstruction(f"tcgen05.cp has no shape .{shape}{'.' + multicast if multicast else ''}")
    rows = np.arange(COPIES[shape][0])
    if shape == "4x256b":
        return 32 * rows[:, None]
    if multicast == "warpx4":
        return rows[:, None] + 32 * np.arange(4)
    if multicast == "warpx2::02_13":
        return rows[:, None] + 64 * np.arange(2)
    if multicast == "warpx2::01_23":
        return (rows // 32 * 64 + rows % 32)[:, None] + 32 * np.arange(2)
    return rows[:, None]
