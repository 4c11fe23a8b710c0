"""`bound-blocks`: an SM gets few blocks at a time where loops read again what loops before them have read.

What an SM's blocks read again is in the cache if that holds a row of each: 170 SMs of ten blocks, each about a row of 64 KiB, are
more than any L2. Where an SM's share of memory's bandwidth is so small that few blocks keep it busy, through latencies and the
turns from loop to loop as well, no more than these are to be there (`most_blocks`, which `allocate-buffers` sees to). Softmax of
16,384 f32 by tiles of 1,024, RTX 5090: 306.4 us, by three blocks an SM 189.3; by tiles of 4,096 213.4, 171.3 by two; rows of two
tiles take as long as before.

An A100's or H100's SMs have twice to six times as much of the bandwidth: short rows would wait for their blocks' latencies (f16
rows of 4,096 by 2,048, A100: 88.8 us, 131.7 by two blocks). A hint `occupancy` stands.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation

from tileiras.analysis.entry_hints import hint
from tileiras.analysis.read_again import readings
from tileiras.dialects import nv_tileaa as aa

ROUNDS = 6
"""Times the bytes in flight that keep memory busy, which blocks are to have between them."""
TILES = 2
"""Of a row, at least: what a block asks for before it turns to the next loop."""
MOST_BYTES = 32768
"""That an SM's blocks are to have, at most: more asks for as many blocks as there are."""
LEAST_BLOCKS = 2
LEAST_ROW = 65536
"""Bytes of L2 for each block's row; where there are fewer, rows of several tiles don't stay there with few blocks either."""


def run(module: Operation, context: Any) -> None:
    """Write the bound on the functions, in place."""
    for func in module.regions[0].block.ops:
        if isinstance(func, aa.Func) and "cluster" not in func.properties and hint(func, "occupancy") is None:
            again = min((chain.tile_bytes for chain in readings(func)), default=0)
            blocks = _blocks(again, context.target) if again else None
            if blocks is not None:
                func.properties["most_blocks"] = IntAttr(blocks)
                if context.remarks is not None:
                    from tileiras.remarks import MEMORY, PASSED, remark
                    context.remarks.append(remark(func, func, PASSED, MEMORY, "FewBlocks", "Few blocks share an SM at a time, so "
                                                  "that what loops read again is still in the cache", {"Blocks": blocks}))


def _blocks(again: int, target: Any) -> int | None:
    """How many blocks keep memory busy, each of which reads so many bytes again in an iteration."""
    from tileiras.machine.machines import machine_of  # few kernels need the machine's tables
    from tileiras.schedule.prefetch import streaming_bytes
    wanted = ROUNDS * streaming_bytes(target)
    blocks = max(LEAST_BLOCKS, -(-wanted // (TILES * again)))
    machine = machine_of(target.cc)
    fits = wanted <= MOST_BYTES and machine.l2 >= LEAST_ROW * machine.sms * blocks
    return int(blocks) if fits else None
