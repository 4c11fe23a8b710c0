"""The sweep of `cuTensorMapEncodeTiled`: inputs from which the encoding of its 128 bytes can be read off.

Around one base case, each parameter alone takes many values, so that each field shows as the bits that change; then random
combinations, to test an encoding against. Invalid inputs stay in: the driver's error code is an answer too.
"""
from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

SIZES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 1, 1, 1)
"""Bytes of each CUtensorMapDataType; the last three are the packed 4- and 6-bit types."""
BASE: dict[str, Any] = {"type": 6, "address": 0x7F0000000000, "dims": [1024, 512], "strides": [2048], "box": [64, 64],
                        "steps": [1, 1], "interleave": 0, "swizzle": 0, "promotion": 0, "fill": 0}


def _contiguous(size: int, dims: list[int], pad: int = 0) -> list[int]:
    out, step = [], size
    for extent in dims[:-1]:
        step = (step * extent + 15) // 16 * 16 + pad
        out.append(step)
    return out


def inputs(count: int = 1500, seed: int = 1) -> Iterator[dict[str, Any]]:
    """The whole sweep; `count` random combinations at the end."""
    yield BASE
    for bit in range(4, 57):
        yield {**BASE, "address": 1 << bit}
        yield {**BASE, "address": BASE["address"] ^ (1 << bit)}
    for kind in range(16):
        for inner in (16, 128):
            yield {**BASE, "type": kind, "box": [max(inner // SIZES[kind], 1), 8], "strides": [1024 * SIZES[kind]]}
    for rank in range(1, 6):
        dims, box = [256, 48, 40, 12, 6][:rank], [64, 8, 4, 2, 1][:rank]
        base = {**BASE, "dims": dims, "strides": _contiguous(2, dims), "box": box, "steps": [1] * rank}
        yield base
        for axis in range(rank):
            for extent in [1, 2, 3, 255, 256, 257, *(1 << b for b in range(9, 33)), (1 << 32) - 1]:
                changed = [*dims]
                changed[axis] = extent
                yield {**base, "dims": changed}
            for extent in (1, 2, 3, 7, 8, 16, 32, 63, 128, 255, 256, 257):
                changed = [*box]
                changed[axis] = extent
                yield {**base, "box": changed}
            for step in range(1, 10):
                changed = [1] * rank
                changed[axis] = step
                yield {**base, "steps": changed}
        for axis in range(rank - 1):
            for stride in [16, 32, 48, 8, *(1 << b for b in range(6, 41))]:
                changed = _contiguous(2, dims)
                changed[axis] = stride
                yield {**base, "strides": changed}
        for interleave in range(3):
            for swizzle in range(7):
                for promotion in range(4):
                    for fill in range(2):
                        inner = {1: 16, 2: 32, 3: 64}.get(swizzle, 64) if not interleave else 16
                        yield {**base, "interleave": interleave, "swizzle": swizzle, "promotion": promotion, "fill": fill,
                               "box": [inner, *box[1:]], "dims": [256, *dims[1:]]}
    rng = random.Random(seed)
    for _ in range(count):
        rank, kind = rng.randint(1, 5), rng.randrange(13)
        dims = [rng.choice((rng.randint(1, 300), rng.randint(1, 1 << 20))) for _ in range(rank)]
        swizzle = rng.randrange(4)
        inner = {0: rng.choice((16, 32, 64, 128)), 1: 32, 2: 64, 3: 128}[swizzle]
        yield {"type": kind, "address": rng.randrange(1 << 47) & ~255, "dims": dims,
               "strides": _contiguous(SIZES[kind], dims, 16 * rng.randrange(4)),
               "box": [inner // SIZES[kind], *(rng.randint(1, 64) for _ in range(rank - 1))],
               "steps": [1, *(rng.randint(1, 8) for _ in range(rank - 1))], "interleave": 0, "swizzle": swizzle,
               "promotion": rng.randrange(4), "fill": rng.randrange(2) if kind >= 6 else 0}
