"""Which instructions a `.target` has: the PTX ISA's "Target ISA Notes", as one table.

A rule names an instruction by its first word and qualifiers that must be there, and says what the target needs: a least
SM, or membership of an architecture's own set (`sm_90a`, `sm_100f`, ...). Every rule that applies must hold.
"""
from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from tileiras.sim.errors import InvalidInstruction

_BLACKWELL = ("100a", "100f", "101a", "101f", "103a", "103f", "110a", "110f")
_CONSUMER = ("120a", "120f", "121a", "121f")


class Rule(NamedTuple):
    """Instructions that begin with `name` and have all of `parts` need SM `least`, or one of the targets `only`."""
    name: str
    parts: tuple[str, ...] = ()
    least: int = 0
    only: tuple[str, ...] = ()


_RULES = (
    Rule("cp", ("async",), 80), Rule("cp", ("bulk",), 90), Rule("cp", ("bulk", "cp_mask"), 100),
    Rule("cp", ("tile::gather4", "shared::cta"), 100), Rule("cp", ("tile::gather4", "shared::cluster"), only=_BLACKWELL),
    Rule("cp", ("tile::scatter4",), only=_BLACKWELL),
    Rule("cp", ("im2col::w", "shared::cta"), 100), Rule("cp", ("im2col::w", "shared::cluster"), only=_BLACKWELL),
    Rule("cp", ("im2col::w::128",), only=_BLACKWELL),
    Rule("cp", ("cta_group::1",), only=_BLACKWELL), Rule("cp", ("cta_group::2",), only=_BLACKWELL),
    Rule("mbarrier", (), 80), Rule("mbarrier", ("try_wait",), 90), Rule("mbarrier", ("expect_tx",), 90),
    Rule("mbarrier", ("complete_tx",), 90), Rule("mbarrier", ("cluster",), 90), Rule("mbarrier", ("shared::cluster",), 90),
    Rule("mbarrier", ("relaxed",), 90),
    Rule("fence", (), 70), Rule("fence", ("mbarrier_init",), 90), Rule("fence", ("proxy",), 70),
    Rule("fence", ("tensormap::generic",), 90), Rule("fence", ("async",), 90), Rule("fence", ("async::generic",), 90),
    Rule("fence", ("cluster",), 90),
    Rule("tensormap", (), 90), Rule("tensormap", ("replace",), only=("90a", *_BLACKWELL, *_CONSUMER)),
    Rule("tensormap", ("swizzle_atomicity",), only=(*_BLACKWELL, *_CONSUMER)),
    Rule("barrier", ("cluster",), 90), Rule("mapa", (), 90), Rule("getctarank", (), 90),
    Rule("st", ("async",), 90), Rule("red", ("async",), 90), Rule("elect", (), 90), Rule("griddepcontrol", (), 90),
    Rule("clusterlaunchcontrol", (), 100), Rule("stmatrix", (), 90), Rule("ldmatrix", (), 75), Rule("movmatrix", (), 75),
    Rule("redux", (), 80), Rule("multimem", (), 90), Rule("createpolicy", (), 80), Rule("wgmma", (), only=("90a",)),
    Rule("setmaxnreg", (), only=("90a", *_BLACKWELL, *_CONSUMER)), Rule("tcgen05", (), only=_BLACKWELL),
    Rule("mma", ("kind::mxf8f6f4",), only=_CONSUMER), Rule("mma", ("kind::f8f6f4",), only=_CONSUMER),
    Rule("mma", ("kind::mxf4",), only=_CONSUMER), Rule("mma", ("kind::mxf4nvf4",), only=_CONSUMER),
    Rule("st", ("bulk",), 100), Rule("nanosleep", (), 70), Rule("match", (), 70),
)
_BY_NAME: dict[str, list[Rule]] = {}
for _rule in _RULES:
    _BY_NAME.setdefault(_rule.name, []).append(_rule)


@lru_cache(maxsize=64)
def _split(target: str) -> tuple[int, str]:
    """(SM number, number with suffix) of a `.target`; (0, "") for one that isn't an SM."""
    found = re.match(r"sm_(\d+)([af]?)", target)
    return (int(found[1]), found[1] + found[2]) if found else (0, "")


def check(target: str, ins) -> None:
    """Raise InvalidInstruction where the module's target doesn't have the instruction."""
    rules = _BY_NAME.get(ins.parts[0])
    if not rules:
        return
    number, name = _split(target)
    if not number:
        return
    for rule in rules:
        if all(p in ins.parts for p in rule.parts) and (number < rule.least or (rule.only and name not in rule.only)):
            wanted = f"sm_{rule.least}" if rule.least else " or ".join(f"sm_{t}" for t in rule.only[:3])
            raise InvalidInstruction(f"{ins.opcode} needs {wanted}; the target is {target}")
