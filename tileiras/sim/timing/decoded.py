"""What does the engine need to know of a machine instruction? Decided once an instruction, for all its executions."""
from __future__ import annotations

import re
from enum import IntEnum

from tileiras.machine import units
from tileiras.machine.latencies import QUEUE_LSU, QUEUE_XU, Latencies
from tileiras.machine.machines import Machine
from tileiras.sim.timing.stream import AsyncGroup, Instruction, Mma, Payload, SharedAccess, TensorAccess


class Reason(IntEnum):
    """Why a warp didn't issue."""

    FIXED = 0
    GLOBAL = 1
    SHARED = 2
    MATH = 3
    TENSOR = 4
    PIPE = 5
    SLOT = 6
    BARRIER = 7
    MBARRIER = 8
    GROUP = 9
    CLUSTER = 10
    OTHER = 11


REASON_NAMES = ("fixed latency", "global memory", "shared memory", "math result", "tensor result", "pipe busy", "not selected",
                "barrier", "mbarrier", "copy group", "cluster barrier", "other result")


class Kind(IntEnum):
    """What executing an instruction does, beyond taking a pipe for a while."""

    PLAIN = 0
    VARIABLE = 1
    EVENT = 2


FP64_LATENCY, UNIFORM_LATENCY, OTHER_LATENCY = 10, 12, 20
LOCAL_BYTES = re.compile(r"\.(64|128|256)\b")
_LOCAL_PLACE = re.compile(r"^\[(?:([A-Z]+\d*)(?:\+(?:0x([0-9a-f]+))?)?|0x([0-9a-f]+))\]")
_SPECIAL = {"S2R", "S2UR", "CS2R"}
_CONSTANT = {"LDC", "ULDC", "LDCU"}
_COUNTED = re.compile(r"^SB(\d)$")
_WGMMA = re.compile(r"^(?:HGMMA|IGMMA|QGMMA|BGMMA)\.(\d+)x(\d+)x(\d+)")
_EVENTS = set("LDL STL EXIT DEPBAR LDGDEPBAR WARPGROUP UTMACMDFLUSH MEMBAR FENCE USETMAXREG SHFL NANOSLEEP HGMMA IGMMA QGMMA BGMMA "
              "LDTM STTM ERRBAR".split())
_SHARED_BASES = {"LDS", "STS", "LDSM", "STSM"}


class Decoded:
    """An instruction as the engine sees it, with what it has counted there."""

    __slots__ = ("instruction", "kind", "base", "stall", "waits", "write", "read", "pipe", "port", "turns", "interval", "slack",
                 "latency", "why", "cached", "reads", "count", "offset", "left", "scoreboard", "commits", "default", "issued",
                 "lost")

    def __init__(self, instruction: Instruction, machine: Machine, latency: Latencies) -> None:
        use = units.use_of(machine.sm, instruction.opcode, machine.tensor_half)
        parts = instruction.opcode.split(".")
        self.instruction, self.base = instruction, instruction.base
        self.stall = max(instruction.stall, 1)
        self.waits = tuple(i for i in range(6) if instruction.wait_mask >> i & 1)
        self.write, self.read = instruction.write_sb, instruction.read_sb
        self.pipe = -1 if use.pipe == units.CONTROL else use.pipe
        self.port, self.interval = use.port, use.interval
        self.turns = use.port < 0 and use.pipe == units.FMA and units.ports(machine.sm)[units.FMA] > 1
        self.slack = {units.XU: QUEUE_XU * use.interval, units.LSU: QUEUE_LSU * use.interval}.get(use.pipe, 0)
        self.latency, self.why = _latency(self.base, use.pipe, latency)
        self.cached = not ("STRONG" in parts or "BYPASS" in parts)
        held = self.write is not None or self.read is not None
        self.kind = int(Kind.EVENT if self.base in _EVENTS else Kind.VARIABLE if held else Kind.PLAIN)
        self.reads = use.pipe in (units.FMA, units.ALU, units.FP16) and sum(r[0] == "R" for r in set(instruction.src)) > 1
        self.count = _local_words(instruction.opcode)
        self.offset = _local_offset(instruction) if self.base in ("LDL", "STL") else 0
        self.scoreboard, self.left = _counted(instruction)
        self.commits = any(o == "gsb0" for o in instruction.operands)
        self.default = _default(instruction)
        if self.default is not None:
            self.kind = int(Kind.EVENT)
        self.issued = 0
        self.lost: dict[int, float] = {}

    def lose(self, reason: int, cycles: float) -> None:
        """Warps waited here."""
        self.lost[reason] = self.lost.get(reason, 0.0) + cycles


def _latency(base: str, pipe: int, latency: Latencies) -> tuple[int, int]:
    """(cycles, the reason that whoever waits for the result gives)."""
    cycles, why = _variable(base, pipe, latency)
    return cycles, int(why)


def _variable(base: str, pipe: int, latency: Latencies) -> tuple[int, Reason]:
    if pipe == units.XU:
        return latency.xu, Reason.MATH
    if base in _SPECIAL:
        return latency.special_register, Reason.OTHER
    if base in _CONSTANT:
        return latency.constant, Reason.OTHER
    if pipe == units.FP64:
        return FP64_LATENCY, Reason.MATH
    if pipe == units.TENSOR:
        return latency.matrix, Reason.TENSOR
    if base == "SHFL":
        return latency.shuffle, Reason.SHARED
    if base in _SHARED_BASES or base in ("ATOMS", "MATCH", "MOVM"):
        return latency.shared, Reason.SHARED
    if pipe == units.LSU:
        return latency.l1, Reason.GLOBAL
    if pipe == units.UNIFORM:
        return UNIFORM_LATENCY, Reason.OTHER
    return OTHER_LATENCY, Reason.OTHER


def _local_words(opcode: str) -> int:
    found = LOCAL_BYTES.search(opcode)
    return int(found[1]) // 32 if found else 1


def _local_offset(instruction: Instruction) -> int:
    """Where a local access lies: bytes from its base register, and somewhere else for each of those."""
    for operand in instruction.operands:
        if found := _LOCAL_PLACE.match(operand):
            base = sum(map(ord, found[1] or "")) * 4099 if found[1] not in (None, "R1") else 0
            return base + int(found[2] or found[3] or "0", 16)
    return 0


def _counted(instruction: Instruction) -> tuple[int, int]:
    """(scoreboard, how many may be left) of a DEPBAR; (-1, 0) of others, and the count alone of WARPGROUP.DEPBAR."""
    if "DEPBAR" not in instruction.opcode or instruction.base == "LDGDEPBAR":
        return -1, 0
    board, left = -1, 0
    for operand in instruction.operands:
        if m := _COUNTED.match(operand):
            board = int(m[1])
        elif operand.startswith("0x"):
            left = int(operand, 16)
    return board, left


def _default(instruction: Instruction) -> Payload:
    """What an instruction does where the run says nothing: streams that weren't joined to one."""
    if m := _WGMMA.match(instruction.opcode):
        from_registers = len(instruction.operands) > 1 and not instruction.operands[1].startswith("gdesc")
        bits = 256 // int(m[3])
        return Mma("wgmma", (int(m[1]), int(m[2]), int(m[3])), bits, "registers" if from_registers else "shared")
    if instruction.base in _SHARED_BASES:
        words = _local_words(instruction.opcode)
        if instruction.base in ("LDSM", "STSM"):
            words = int(instruction.opcode.rsplit(".", 1)[-1]) if instruction.opcode[-1] in "124" else 1
        return SharedAccess(words, 128 * words, instruction.base.startswith("ST"))
    if instruction.base in ("LDTM", "STTM"):
        found = re.search(r"\.x(\d+)", instruction.opcode)
        return TensorAccess("ld" if instruction.base == "LDTM" else "st", int(found[1]) if found else 1)
    if instruction.base == "LDGDEPBAR":
        return AsyncGroup("cp.async", "commit")
    return None
