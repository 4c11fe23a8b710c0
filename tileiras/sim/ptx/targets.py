"""Which `.target` and `.version` an instruction needs, by the PTX ISA's "Target ISA Notes".

The table below has one row for a form: the operation, words that the opcode must contain, the least SM, the families whose
`a` or `f` targets alone have the form, and the least PTX version. All rows that fit are asked.
"""
from __future__ import annotations

import re
from dataclasses import dataclass

from tileiras.sim.errors import InvalidInstruction

HOPPER = frozenset({90})
DATACENTER = frozenset({100, 101, 103, 107, 110})
RUBIN = frozenset({107})
CONSUMER = frozenset({120, 121})
BLACKWELL = DATACENTER | CONSUMER
TARGET_VERSIONS = {75: 63, 80: 70, 86: 71, 87: 74, 88: 90, 89: 78, 90: 78, 100: 86, 101: 86, 103: 88, 107: 94, 110: 90, 120: 87,
                   121: 88}


@dataclass(frozen=True)
class Row:
    """What a form needs. `first`: the operations; `words`: all of them are in the opcode; `any_of`: at least one is."""
    first: tuple[str, ...]
    words: frozenset[str]
    any_of: frozenset[str]
    sm: int = 0
    families: frozenset[int] = frozenset()
    version: int = 0


def _row(first: str, words: str = "", sm: int = 0, families: frozenset[int] = frozenset(), version: int = 0,
         any_of: str = "") -> Row:
    return Row(tuple(first.split()), frozenset(words.split()), frozenset(any_of.split()), sm, families, version)


_SMALL = "e2m1x2 e2m3x2 e3m2x2 ue8m0x2"
ROWS = (
    _row("cp", "async", 80, version=70),
    _row("cp", "bulk", 90, version=80),
    _row("cp", "async bulk", 100, DATACENTER, 86, any_of="cta_group::1 cta_group::2"),
    _row("cp", "shared::cta", 100, version=86, any_of="tile::gather4 im2col::w"),
    _row("cp", "shared::cluster", 100, DATACENTER, 86, any_of="tile::gather4 im2col::w"),
    _row("cp", "", 100, DATACENTER, 86, any_of="tile::scatter4 im2col::w::128"),
    _row("cp", "bulk cp_mask", 100, version=86),
    _row("mbarrier", "", 80, version=70),
    _row("mbarrier", "", 90, version=78, any_of="try_wait expect_tx complete_tx cluster"),
    _row("mbarrier", "relaxed", 90, version=80),
    _row("ld st atom red cp mbarrier isspacep mapa getctarank", "shared::cluster", 90, version=78),
    _row("barrier", "cluster", 90, version=78),
    _row("mapa getctarank", "", 90, version=78),
    _row("elect", "", 90, version=80),
    _row("griddepcontrol", "", 90, version=78),
    _row("clusterlaunchcontrol", "", 100, version=86),
    _row("clusterlaunchcontrol", "multicast::cluster::all", 100, BLACKWELL, 86),
    _row("setmaxnreg", "", 90, HOPPER | BLACKWELL, 80),
    _row("wgmma", "", 90, HOPPER, 80),
    _row("tcgen05", "", 100, DATACENTER, 86),
    _row("tcgen05", "kind::i8", 100, frozenset({100, 101, 110}), 86),
    _row("st red", "async", 90, version=81),
    _row("st", "bulk", 100, version=86),
    _row("multimem", "", 90, version=81),
    _row("fence", "", 70, version=60),
    _row("fence", "cluster", 90, version=78),
    _row("fence", "", 90, version=80, any_of="async async::generic mbarrier_init"),
    _row("fence", "tensormap::generic", 90, version=83),
    _row("tensormap", "", 90, version=83),
    _row("tensormap", "replace", 90, HOPPER | BLACKWELL, 83),
    _row("tensormap", "swizzle_atomicity", 100, BLACKWELL, 86),
    _row("redux", "", 80, version=70),
    _row("redux", "f32", 100, DATACENTER, 86),
    _row("match", "", 70, version=60),
    _row("nanosleep", "", 70, version=63),
    _row("bmsk szext", "", 70, version=76),
    _row("dp4a dp2a", "", 61, version=50),
    _row("mma", "", 70, version=64),
    _row("mma", "", 80, version=70, any_of="bf16 tf32 f64 m16n8k16 m16n8k32 m16n8k64 m16n8k128 m16n8k256 sp"),
    _row("mma", "", 89, version=84, any_of="e4m3 e5m2"),
    _row("mma", "", 120, CONSUMER, 87, any_of="kind::f8f6f4 kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4"),
    _row("ldmatrix", "", 75, version=65),
    _row("ldmatrix", "", 100, BLACKWELL, 86, any_of="m16n16 m8n16"),
    _row("stmatrix", "", 90, version=78),
    _row("stmatrix", "m16n8", 100, BLACKWELL, 86),
    _row("movmatrix", "", 75, version=78),
    _row("ld st", "v8", 100, version=88),
    _row("ld st", "b128", 70, version=83),
    _row("atom", "b128", 90, version=83),
    _row("atom red", "", 90, version=78, any_of="bf16 bf16x2"),
    _row("atom red", "f16", 70, version=63),
    _row("atom red", "", 90, version=81, any_of="v2 v4 v8"),
    _row("add sub mul fma", "f32x2", 100, version=86),
    _row("add sub mul", "", 90, version=78, any_of="bf16 bf16x2"),
    _row("fma min max neg abs", "", 80, version=70, any_of="bf16 bf16x2"),
    _row("min max", "", 80, version=70, any_of="f16 f16x2 NaN"),
    _row("min max", "xorsign", 86, version=72),
    _row("tanh", "", 75, version=70),
    _row("tanh ex2", "", 90, version=78, any_of="bf16 bf16x2"),
    _row("ex2", "", 75, version=70, any_of="f16 f16x2"),
    _row("cvt", "", 80, version=70, any_of="bf16 bf16x2 tf32"),
    _row("cvt", "", 89, version=78, any_of="e4m3x2 e5m2x2"),
    _row("cvt", "", 100, BLACKWELL, 86, any_of=_SMALL),
    _row("cvt", "ue5m3x2", 107, RUBIN, 94),
    _row("cvt", "rs", 100, frozenset({100, 103, 107}), 87),
    _row("createpolicy discard applypriority", "", 80, version=74),
)
_BY_NAME: dict[str, list[Row]] = {}
for _r in ROWS:
    for _name in _r.first:
        _BY_NAME.setdefault(_name, []).append(_r)


def parse_target(text: str) -> tuple[int, str] | None:
    """(number, suffix) of a `.target`, as (100, "a"); None for others than sm_N."""
    m = re.match(r"sm_(\d+)([af]?)$", text.split(",")[0].strip())
    return (int(m[1]), m[2]) if m else None


def missing(parts: tuple[str, ...], target: tuple[int, str], version: int) -> str:
    """Why a module of this target and PTX version (86 for 8.6; 0 for an unknown one) can't have an instruction; "" when it
    can."""
    number, suffix = target
    for row in _BY_NAME.get(parts[0], ()):
        words = set(parts[1:])
        if not row.words <= words or (row.any_of and not row.any_of & words):
            continue
        if row.families and (not suffix or number not in row.families):
            names = ", ".join(f"sm_{n}a" for n in sorted(row.families))
            return f"needs {names} (or their f variants); the target is sm_{number}{suffix}"
        if number < row.sm:
            return f"needs sm_{row.sm}; the target is sm_{number}{suffix}"
        if version and version < row.version:
            return f"needs PTX {row.version // 10}.{row.version % 10}; the module has {version // 10}.{version % 10}"
    return ""


class Checker:
    """Checks the instructions of one module, each opcode once."""

    def __init__(self, module) -> None:
        self.target = parse_target(module.target)
        m = re.match(r"(\d+)\.(\d+)", str(module.version or ""))
        self.version = int(m[1]) * 10 + int(m[2]) if m else 0
        self.known: dict[str, str] = {}
        if self.target and self.version and self.version < TARGET_VERSIONS.get(self.target[0], 0):
            least = TARGET_VERSIONS[self.target[0]]
            raise InvalidInstruction(f".target sm_{self.target[0]} needs PTX {least // 10}.{least % 10}, the module has "
                                     f"{self.version // 10}.{self.version % 10}")

    def __call__(self, ins) -> None:
        """Raise InvalidInstruction when the module can't have the instruction."""
        if self.target is None:
            return
        why = self.known.get(ins.opcode)
        if why is None:
            why = self.known[ins.opcode] = missing(ins.parts, self.target, self.version)
        if why:
            raise InvalidInstruction(f"{ins.opcode} {why}")
