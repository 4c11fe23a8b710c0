"""Which unit executes a machine instruction, and for how long it is taken.

An SM has four sub-partitions, each with one issue slot a cycle and pipes of its own; a pipe may have two ports, and some
operations fit one of them only. Intervals are cycles that one warp instruction keeps a port. Sources: PX ptxas' own control
fields (`scheduled.py`), CPG the CUDA programming guide's throughput table where the hardware takes fewer than ptxas writes,
WP whitepapers for matrix rates, QR QuickRunCUDA on B300, SD hand-written probes (cicuvc/nvidia-sass-document).
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

PARTITIONS = 4
LANES = 32

FMA, ALU, FP16, XU, FP64, UNIFORM, LSU, TENSOR, CONTROL = range(9)
PIPE_NAMES = ("FMA", "ALU", "FP16", "XU", "FP64", "uniform", "LSU", "tensor", "control")


REQUEST_SHARED, REQUEST_GLOBAL = {75: 1.6, 90: 1.0, 100: 1.6}, 2.0
"""Cycles of an SM's load-store unit that an access takes however little it moves. QR: LDS of 32 bits reach 50 to 68 % of what LDS
of 128 bits do (on H100, 2026-11-27, STS of 8 to 32 bits go one a cycle); HU: one request to global memory in two cycles."""


@dataclass(frozen=True)
class Generation:
    """Ports and intervals of an SM. `fma_ports`, `alu_ports`: two halves, where an FFMA or a compare fits either."""

    sm: int
    fma_ports: int
    alu_ports: int
    fma_interval: int
    hfma_interval: int
    fp64_interval: int
    ex2_interval: int
    lsu_interval: int
    smem_bytes: int
    """A cycle through the shared-memory port of the SM."""
    mma_rate: dict[str, float]
    """FMA a cycle and SM of `mma.sync`, by operand type; accumulated in f32 or s32."""


def _rates(f16: float, tf32: float = 0, int8: float = 0, fp8: float = 0, fp4: float = 0, fp64: float = 0) -> dict[str, float]:
    return {"f16": f16, "tf32": tf32, "int8": int8, "fp8": fp8, "fp4": fp4, "f64": fp64}


GENERATIONS: dict[int, Generation] = {g.sm: g for g in (
    # FMA ports and intervals: PX. fp64: CPG. ex2: QR for 103. Matrix rates: WP; 90: SD and LUO (6 cycles a 16816).
    Generation(75, 1, 1, 2, 2, 64, 8, 4, 64, _rates(512, int8=1024)),
    Generation(80, 1, 1, 2, 2, 4, 8, 4, 128, _rates(1024, 512, 2048, fp64=64)),
    Generation(86, 2, 1, 2, 2, 64, 8, 4, 128, _rates(512, 256, 1024)),
    Generation(89, 2, 1, 2, 2, 64, 8, 4, 128, _rates(512, 256, 1024, 1024)),
    Generation(90, 2, 1, 2, 2, 2, 8, 4, 128, _rates(4096 * 2 / 6, 2048 * 2 / 6, 8192 * 2 / 6, 4096 * 2 / 6, fp64=128)),
    Generation(100, 2, 1, 2, 2, 2, 8, 4, 128, _rates(1024, 512, 2048, 1024, fp64=64)),
    Generation(103, 2, 1, 2, 2, 64, 4, 4, 128, _rates(1024, 512, 256, 1024)),
    Generation(120, 2, 2, 2, 2, 64, 8, 4, 128, _rates(512, 256, 1024, 1024, 2048)),
)}


def generation(sm: int) -> Generation:
    """The newest one that isn't newer."""
    return GENERATIONS[max((n for n in GENERATIONS if n <= sm), default=75)]


@dataclass(frozen=True)
class Use:
    """What an instruction takes. `port` -1: any port of the pipe."""

    pipe: int
    port: int
    interval: int


_ON_FMA = set("FFMA FADD FMUL FFMA2 FADD2 FMUL2 FFMA32I FADD32I FMUL32I FSWZADD".split())
_ON_FMA_HEAVY = set("IMAD IMUL IDP IMAD32I".split())
_ON_FP16 = set("HFMA2 HADD2 HMUL2 HFMA2_32I HADD2_32I HMUL2_32I".split())
_ON_XU = set("MUFU F2I I2F F2F FRND POPC FLO BREV REDUX CREDUX".split())
_ON_FP64 = set("DFMA DADD DMUL DSETP DMNMX".split())
_EITHER_ALU = set("FMNMX FMNMX3 FSETP ISETP SEL FSEL IADD3 IADD VIADD IMNMX VIMNMX VIMNMX3 FCHK FSET MOV PLOP3 P2R R2P VIADDMNMX "
                  "CS2R LEA".split())
_PACKING = set("I2FP F2FP F2IP I2IP".split())
_ON_LSU = set("LDS STS LDSM STSM LDG STG LD ST LDL STL ATOM ATOMG ATOMS RED REDG SHFL LDGSTS MATCH LDC STAS REDAS MEMBAR CCTL "
              "CCTLL MOVM LDTM STTM LDT STT S2R QSPC".split())
_ON_CONTROL = set("BRA BRX JMP JMX CALL RET EXIT BAR BSSY BSYNC WARPSYNC NOP YIELD DEPBAR ERRBAR BREAK BMOV NANOSLEEP LDGDEPBAR "
                  "WARPGROUP KILL BPT RPCMOV SYNCS ARRIVES VOTE ELECT UTMALDG UTMASTG UTMAREDG UTMAPF UBLKCP UBLKPF UBLKRED "
                  "UTMACMDFLUSH UTMACCTL FENCE USETMAXREG HGMMA IGMMA QGMMA BGMMA UTCHMMA UTCQMMA UTCIMMA UTCOMMA UTCBAR UTCCP "
                  "UTCSHIFT UTCATOMSWS UCGABAR_ARV UCGABAR_WAIT ACQBULK PREEXIT ENDCOLLECTIVE CGAERRBAR SETLMEMBASE VOTEU".split())
_ON_TENSOR = set("HMMA IMMA QMMA DMMA OMMA BMMA".split())
MATRIX = _ON_TENSOR | set("HGMMA IGMMA QGMMA BGMMA UTCHMMA UTCQMMA UTCIMMA UTCOMMA".split())
"""Operations of the tensor cores."""
_ON_UNIFORM = set("R2UR LDCU S2UR R2B".split())
_SHAPES = {"1684": (16, 8, 4), "1688": (16, 8, 8), "16816": (16, 8, 16), "16832": (16, 8, 32), "16864": (16, 8, 64),
           "8816": (8, 8, 16), "8832": (8, 8, 32), "884": (8, 8, 4), "168128": (16, 8, 128), "168256": (16, 8, 256)}
_NUMBER = re.compile(r"^\d{3,6}$")


def matrix_shape(opcode: str) -> tuple[int, int, int]:
    """m, n, k of HMMA.16816.F32 and its kin."""
    for part in opcode.split(".")[1:]:
        if _NUMBER.match(part) and part in _SHAPES:
            return _SHAPES[part]
    return 16, 8, 16


def matrix_interval(sm: int, opcode: str, tensor_half: bool = False) -> int:
    """Cycles between two matrix instructions of a sub-partition."""
    m, n, k = matrix_shape(opcode)
    parts = set(opcode.split("."))
    base = opcode.split(".")[0]
    rates = generation(sm).mma_rate
    if base == "DMMA":
        kind = "f64"
    elif base in ("IMMA", "BMMA"):
        kind = "int8"
    elif base == "OMMA" or any("E2M1" in p for p in parts):
        kind = "fp4"
    elif base == "QMMA" or any(p.startswith(("E4M3", "E5M2")) for p in parts):
        kind = "fp8"
    else:
        kind = "tf32" if "TF32" in parts else "f16"
    rate = rates[kind] or rates["f16"]
    if kind == "f64" and not rates["f64"]:
        return 16 * generation(sm).fp64_interval
    work = m * n * k * (0.5 if "SP" in parts else 1)
    if tensor_half and kind in ("f16", "fp8", "tf32") and "F16" not in parts:
        work *= 2
    return max(1, round(work / (rate / PARTITIONS)))


@cache
def use_of(sm: int, opcode: str, tensor_half: bool = False) -> Use:
    """The pipe, port and interval of an opcode as the listing writes it."""
    g = generation(sm)
    base, _, rest = opcode.partition(".")
    parts = rest.split(".")
    if base in _ON_FMA:
        if base.endswith("2"):
            return Use(FMA, 0 if g.fma_ports == 1 else -1, 2 * g.fma_interval)
        return Use(FMA, -1, g.fma_interval)
    if base in _ON_FMA_HEAVY:
        return Use(FMA, 0, 4 if "WIDE" in parts or "HI" in parts else 2)
    if base in _ON_FP16:
        # 80 and 90 have a second unit for these, at the tensor core's side.
        return Use(FP16, 1 if "MMA" in parts else 0, g.hfma_interval)
    if base in _PACKING:
        return Use(ALU, 0, 2)
    if base in _ON_XU:
        return Use(XU, -1, g.ex2_interval if opcode.startswith("MUFU.EX2") else 8)
    if base in _ON_FP64:
        return Use(FP64, -1, g.fp64_interval)
    if base in _ON_TENSOR:
        return Use(TENSOR, -1, matrix_interval(sm, opcode, tensor_half))
    if base in _ON_LSU:
        return Use(LSU, -1, g.lsu_interval)
    if base in _ON_CONTROL:
        return Use(CONTROL, -1, 2 if base == "VOTE" else 1)
    if base.startswith("U") or base in _ON_UNIFORM:
        return Use(UNIFORM, -1, 2)
    if base in _EITHER_ALU:
        return Use(ALU, -1, 2)
    return Use(ALU, 0, 2)


def ports(sm: int) -> tuple[int, ...]:
    """How many ports each pipe has in a sub-partition."""
    g = generation(sm)
    return (g.fma_ports, g.alu_ports, 2, 1, 1, 1, 1, 1, 1)
