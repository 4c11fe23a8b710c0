"""Where the control fields stand in a machine instruction of sm_75 to sm_121, 128 bits wide.

Bits 105 to 125, read here from ptxas' own output; the assemblers maxas, CuAssembler and turingas and Huerta et al. (MICRO'25)
say the same. The hardware doesn't check latencies that are fixed: the stall count is the dependence.
"""
from __future__ import annotations

from typing import NamedTuple

FIRST_BIT = 105
INSTRUCTION_BYTES = 16
SCOREBOARDS = 6
NO_SCOREBOARD = 7


class Control(NamedTuple):
    """`stall`: cycles before the warp's next instruction. `yields`: the scheduler may switch to another warp (the bit is 0
    then). `write`: the scoreboard held until results are written, `read` until operands are read; None: none. `wait`: a bit
    for each scoreboard that must be free first. `reuse`: a bit for each operand that stays in its reuse cache."""

    stall: int
    yields: bool
    write: int | None
    read: int | None
    wait: int
    reuse: int


def decode(high: int) -> Control:
    """The control fields of an instruction, from its upper 64 bits."""
    bits = high >> (FIRST_BIT - 64)
    write, read = bits >> 5 & 7, bits >> 8 & 7
    return Control(bits & 15, not bits >> 4 & 1, None if write == NO_SCOREBOARD else write, None if read == NO_SCOREBOARD else read,
                   bits >> 11 & 63, bits >> 17 & 15)


def encode(control: Control) -> int:
    """The upper 64 bits of an instruction that has these control fields and nothing else."""
    write = NO_SCOREBOARD if control.write is None else control.write
    read = NO_SCOREBOARD if control.read is None else control.read
    bits = control.stall | (not control.yields) << 4 | write << 5 | read << 8 | control.wait << 11 | control.reuse << 17
    return bits << (FIRST_BIT - 64)
