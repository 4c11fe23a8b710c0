"""What each machine is: counts, clocks, sizes and bandwidths. A row is a fact, with where it is from.

Sources by their short names: WP NVIDIA's whitepapers, datasheets and deviceQuery; CPG the CUDA programming guide's tables;
RRZE the gpu-benches of RRZE-HPC; LUO Luo et al. (IPDPS'24, arXiv 2501.12084); JM Johnsonms' repeat on H100; QR QuickRunCUDA on
B300; SA SemiAnalysis on B200; XLA the tables of XLA's GPU cost model; CC chips and cheese; JIA Jia et al. on T4 (2019);
GN gau-nernst/learn-cuda on B200; FI flashinfer's pull request 2899; HB hbarclay/gemm-model.
A `?` behind a source marks a figure that is carried over from a sister machine or estimated.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

KIB, MIB = 1024, 1024 * 1024
GHZ = 1e9


@dataclass(frozen=True)
class Machine:
    """Rates that follow from the SM alone stand in `units.py` and `latencies.py`, under `generation`."""

    name: str
    sm: int
    """Compute capability times ten, as in sm_90."""
    sms: int
    clock: float
    """Hz at boost."""
    light: float
    """Share of that clock held by kernels that leave the tensor cores alone."""
    sustained: float
    """Share of that clock held under load of the tensor cores."""
    power: float
    """What the board's power allows: the tensor cores' share of their peak times the square of the clock in GHz. 0: isn't known,
    `sustained` says all."""
    smem_per_sm: int
    smem_per_cta: int
    smem_reserved: int
    """Bytes that the system takes of each CTA's shared memory."""
    l1: int
    """Bytes of L1 and shared memory together."""
    l2: int
    dram: float
    """Bytes a second at the pins."""
    dram_reached: float
    """Bytes a second that streaming kernels get."""
    l2_rate: float
    """Bytes a second read from L2 by all SMs together, each its own."""
    l2_shared: float
    """The same where SMs read what others read at about the same time, as the panels of a product."""
    l2_write: float
    """Bytes a second that L2 takes in."""
    l2_requests: float
    """Requests a second that L2 takes in, of up to a line of 128 bytes each."""
    ingress: float
    """Bytes a cycle that one SM can take from L2."""
    egress: float
    """Bytes a cycle that one SM can send to L2."""
    warps: int
    ctas: int
    tensor_half: bool
    """GeForce: products of 16 and 8-bit floats that accumulate in f32 go at half the rate."""

    @property
    def sustained_clock(self) -> float:
        return self.clock * self.sustained

    def working(self, tensor: bool) -> Machine:
        """The same machine at the clock that it holds for a kernel that uses the tensor cores, or doesn't."""
        return self if tensor or self.light == self.sustained else replace(self, sustained=self.light)

    def clocked(self, tensor: float) -> Machine:
        """The same machine at the clock that it holds while its tensor cores are at this share of their peak."""
        if not self.power or tensor * (self.sustained_clock / GHZ) ** 2 <= self.power:
            return self
        return replace(self, sustained=sqrt(self.power / tensor) * GHZ / self.clock)

    @property
    def dram_per_cycle(self) -> float:
        """Bytes from DRAM in a cycle, for all SMs together, at the sustained clock."""
        return self.dram_reached / self.sustained_clock

    @property
    def l2_per_cycle(self) -> float:
        return self.l2_rate / self.sustained_clock

    @property
    def l2_requests_per_cycle(self) -> float:
        return self.l2_requests / self.sustained_clock


NAMES = ("T4", "A100", "A6000", "L40S", "RTX 4090", "H100", "H200", "B200", "B300", "RTX 5080", "RTX 5090", "PRO 6000")

ROWS: tuple[tuple[str, str, tuple], ...] = (
    # field          source                   T4     A100   A6000  L40S   4090   H100   H200   B200   B300   5080   5090   PRO 6000
    ("sm",           "WP",                   (75,    80,    86,    89,    89,    90,    90,    100,   103,   120,   120,   120)),
    ("sms",          "WP",                   (40,    108,   84,    142,   128,   132,   132,   148,   148,   84,    170,   188)),
    ("clock",        "WP, GHz",              (1.59,  1.41,  1.80,  2.52,  2.52,  1.98,  1.98,  1.965, 2.03,  2.617, 2.41,  2.617)),
    # H100 2026-11-27: 1.97 to 1.99 GHz in all kernels without the tensor cores, 1.79 to 1.85 in those with them.
    ("light",        "H100; others as under load", (.95, .97, .95, .95,   .97,   1.0,   1.0,   .934,  .946,  .97,   .97,   .95)),
    ("sustained",    "XLA 90, 100; QR 103; ?", (.95, .97,   .95,   .95,   .97,   .92,   .92,   .934,  .946,  .97,   .97,   .95)),
    # GN's steps on random data: 914 to 1359 TFLOP/s of 4096, 1414 of 8192. FI and HB agree: 1.58 GHz at 65 % of the peak, and a
    # clock locked at 1.3 GHz that is held at 85 %. Runs on zeros or of a few milliseconds stay above it (1763 TFLOP/s of 4096).
    # H100 2026-11-27: products of f16 of 4096 and 8192 at 1.60 and 1.48 GHz, the tensor cores busy 75 % and 87 % of the time.
    ("power",        "GN; H100; H200 ?",     (0,     0,     0,     0,     0,     2.0,   2.0,   1.5,   0,     0,     0,     0)),
    ("smem_per_sm",  "CPG, KiB",             (64,    164,   100,   100,   100,   228,   228,   228,   228,   100,   100,   100)),
    ("smem_per_cta", "CPG, KiB",             (64,    163,   99,    99,    99,    227,   227,   227,   227,   99,    99,    99)),
    ("smem_reserved", "CPG, KiB",            (0,     1,     1,     1,     1,     1,     1,     1,     1,     1,     1,     1)),
    ("l1",           "CPG, KiB",             (96,    192,   128,   128,   128,   256,   256,   256,   256,   128,   128,   128)),
    ("l2",           "WP, MiB",              (4,     40,    6,     96,    72,    50,    60,    126,   126,   64,    96,    128)),
    ("dram",         "WP, GB/s",             (320,   2039,  768,   864,   1008,  3350,  4800,  8000,  8000,  960,   1792,  1792)),
    # The 5090 is estimated at 0.89 of its pins, as its sisters are; microbenchmarks published 1290 to 1330 GB/s for it.
    ("dram_reached", "RRZE, JM, QR, SA; T4, 4090, 120 ?",
                                             (270,   1730,  740,   797,   930,   3010,  4200,  7100,  7300,  860,   1600,  1600)),
    ("l2_rate",      "RRZE, CC, QR; H100; T4 JIA; 86, 89, 120 ?, TB/s",
                                             (1.2,   5.4,   3.0,   5.2,   5.0,   7.5,   9.0,   19.0,  18.5,  5.5,   9.5,   11.0)),
    # H100 2026-11-27: all SMs at once get 28.7 bytes a cycle each of their own, 45.6 of panels that 11 or 12 read, and write 16.
    # H200 2026-11-28: six fifths of that, as of L2, to within a percent in products that L2 bounds; 4.1 TB/s in vector additions.
    ("l2_shared",    "H100; others as l2_rate",
                                             (1.2,   5.4,   3.0,   5.2,   5.0,   10.5,  12.6,  19.0,  18.5,  5.5,   9.5,   11.0)),
    ("l2_write",     "H100; others as l2_rate",
                                             (1.2,   5.4,   3.0,   5.2,   5.0,   4.2,   5.0,   19.0,  18.5,  5.5,   9.5,   11.0)),
    # H100 2026-11-27: 80 slices of 1.70 GHz take a request a cycle each; gathers of sectors anywhere keep 96 % of that.
    # A100: its 80 at 1.41 GHz. Others: one for each 64 bytes that they can give.
    ("l2_requests",  "H100; others ?, G/s",  (19,    108,   47,    81,    78,    130,   156,   297,   289,   86,    148,   172)),
    # H100 2026-11-27: 16 KiB more of a bulk load take 152 cycles, of a bulk store 512.
    ("ingress",      "QR, LUO, H100; B/cycle", (64,  64,    64,    64,    64,    107,   107,   81,    81,    64,    64,    64)),
    ("egress",       "H100; others ?; B/cycle", (64, 64,    64,    64,    64,    32,    32,    81,    81,    64,    64,    64)),
    ("warps",        "CPG",                  (32,    64,    48,    48,    48,    64,    64,    64,    64,    48,    48,    48)),
    ("ctas",         "CPG",                  (16,    32,    16,    24,    24,    32,    32,    32,    32,    24,    24,    24)),
    ("tensor_half",  "WP",                   (False, False, False, False, True,  False, False, False, False, True,  True,  False)),
)
_SCALES = {"clock": 1e9, "smem_per_sm": KIB, "smem_per_cta": KIB, "smem_reserved": KIB, "l1": KIB, "l2": MIB, "dram": 1e9,
           "dram_reached": 1e9, "l2_rate": 1e12, "l2_shared": 1e12, "l2_write": 1e12, "l2_requests": 1e9}
DEFAULT = {75: "T4", 80: "A100", 86: "A6000", 87: "A100", 88: "A6000", 89: "L40S", 90: "H100", 100: "B200", 103: "B300",
           110: "B200", 120: "RTX 5090", 121: "RTX 5090"}
"""The machine that stands for an SM where none is named."""


def _machines() -> dict[str, Machine]:
    found = {}
    for i, name in enumerate(NAMES):
        values = {field: row[i] * _SCALES[field] if field in _SCALES else row[i] for field, _, row in ROWS}
        found[name] = Machine(name=name, **values)
    return found


MACHINES = _machines()


def machine_of(name: str | int) -> Machine:
    """By name ("H100", "RTX 5090", also "5090" or "rtx5090"), or the one that stands for an SM (90, "sm_90", "sm_90a").
    Raises LookupError with the names that exist."""
    if isinstance(name, int):
        return MACHINES[DEFAULT[max((n for n in DEFAULT if n <= name), default=75)]]
    wanted = name.lower().replace(" ", "").replace("_", "").replace("-", "")
    if wanted.startswith("sm") and wanted[2:].rstrip("af").isdecimal():
        return machine_of(int(wanted[2:].rstrip("af")))
    for machine in MACHINES.values():
        own = machine.name.lower().replace(" ", "")
        if wanted in (own, own.removeprefix("rtx"), own.removeprefix("pro")) or wanted == "rtx" + own:
            return machine
    raise LookupError(f"no machine '{name}'; there are {', '.join(MACHINES)}")
