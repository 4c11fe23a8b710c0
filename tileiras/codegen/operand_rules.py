"""Which operands and modifiers of LLVM's intrinsics for matrix products and copies don't go together? The rules that instruction
selection has for them, in the texts documented for it.

LLVM answers what breaks them with "Cannot select", by ending its process, or with PTX that ptxas refuses. Numbers mean what they
mean to LLVM: the kinds of a tcgen05 product are f16, tf32, f8f6f4 and i8; a collector's uses discard, last use, fill and use.
"""
from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tileiras.machine.targets import Target

FAMILIES = ("llvm.nvvm.tcgen05.mma", "llvm.nvvm.cp.async.bulk.", "llvm.nvvm.ldmatrix.")
"""How the names begin of what has rules here."""

NO_TENSOR_CORE = "tcgen05.mma supported only on arch-conditional or family-conditional variants from SM100 onwards."
NO_TENSOR_MEMORY = "Not supported on this architecture"
NO_SMALL_FLOATS = "{fp6/fp4}x2 types in cvt_packfloat intrinsic supported only in arch-conditional variants from SM100 onwards."
NO_SCALES = ("ue8m0x2 type in cvt_packfloat intrinsic supported only in arch-conditional or family-conditional variants from SM100 "
             "onwards.")
_LACKING = (("tcgen05.mma", NO_TENSOR_CORE), ("tcgen05.", NO_TENSOR_MEMORY), ("ff.to.ue8m0x2", NO_SCALES),
            *((f"ff.to.{t}", NO_SMALL_FLOATS) for t in ("e2m1x2", "e2m3x2", "e3m2x2")))
"""What is said of a target without an intrinsic, by how its name goes on behind `llvm.nvvm.`: the first that fits."""

INTEGERS = "INT8 type is supported only on arch-conditional variants."
NO_SCALED_INPUT = "Scale input accumulator is not supported on this architecture."
SCALED_INPUT_KINDS = "Scale input accumulator can only be used with f16 and tf32 types"
SHIFTED_COLLECTOR = "Cannot use collector::a::use or colletor::a::fill with ashift"
RANK = "TMA rank must be in the range 1..5"
IM2COL_RANK = "im2col tensor copies require at least three dimensions"
WIDE_IM2COL = "wide im2col tensor copies are not supported on this architecture"
TWO_CTAS = "two-CTA TMA tensor copies are not supported on this architecture"
TRANSPOSED = "Transposed layout is not supported for m8n16 shape for nvvm.ldmatrix"
WIDE_MATRICES = "m16n16 ldmatrix requires num=1 or num=2"

KINDS, GROUPS, USES = range(4), (1, 2), range(4)
_I8 = 3
_SCALABLE = range(2)
_KEEPING = (2, 3)
_MOST_RANK = 5
_LEAST_IM2COL = 3
_CALL = re.compile(r"@(llvm\.nvvm\.[\w.]+)\((.*)\)")
_LAST_NUMBERS = re.compile(r"(?:, i32 [^\s,]+)+$")
_LAST_GROUP = re.compile(r", i1 (?:true|false|[01]), i32 (-?\w+)$")
_RANK = re.compile(r"\.(\d+)d\b")


def said_of_lacking(short: str) -> str:
    """What is documented for a target that lacks an intrinsic (its name behind `llvm.nvvm.`), "" if nothing is."""
    return next((text for begin, text in _LACKING if short.startswith(begin)), "")


def _product(name: str, arguments: str, target: Target) -> Iterator[str]:
    """A product by tcgen05. It ends in its kind and its CTA group, where the name doesn't say them, and its collector's use."""
    found = _LAST_NUMBERS.search(arguments)
    given = [word.rpartition(" ")[2] for word in found.group()[2:].split(", ")] if found else []
    says_kind, says_group, stationary = "block_scale" in name, "output_lane.cg" in name, ".mma.ws." in name
    wanted = 3 - says_kind - (says_group and not stationary)
    if len(given) < wanted or not all(word.isdecimal() for word in given[-wanted:]):
        yield f"'{name}' takes numbers for its last {wanted} operands"
        return
    numbers = [int(word) for word in given[-wanted:]]
    kind = None if says_kind else numbers[0]
    if kind is not None and kind not in KINDS:
        yield f"'{name}': there is no kind {kind}"
    if not says_group and not stationary and numbers[-2] not in GROUPS:
        yield f"'{name}': there is no CTA group {numbers[-2]}"
    use = numbers[-1]
    if use not in USES or (stationary and numbers[-2] not in USES):
        yield f"'{name}': there is no such use of a collector"
    if kind == _I8 and not target.has_tcgen05_i8:
        yield INTEGERS
    if ".scale_d" in name:
        if not target.has_tcgen05_scale_d:
            yield NO_SCALED_INPUT
        if kind not in _SCALABLE:
            yield SCALED_INPUT_KINDS
    if ".ashift" in name and use in _KEEPING:
        yield SHIFTED_COLLECTOR


def _copy(name: str, arguments: str, target: Target) -> Iterator[str]:
    rank = _RANK.search(name)
    if rank is not None and ".tensor." in name:
        dimensions = int(rank.group(1))
        if not 1 <= dimensions <= _MOST_RANK:
            yield RANK
        elif ".im2col" in name and dimensions < _LEAST_IM2COL:
            yield IM2COL_RANK
    if ".im2col.w." in name and not target.has_tcgen05:
        yield WIDE_IM2COL
    group = _LAST_GROUP.search(arguments) if ".g2s." in name else None
    if group is not None and group.group(1) != "0":
        if not target.has_tcgen05:
            yield TWO_CTAS
        elif not group.group(1).isdecimal() or int(group.group(1)) not in GROUPS:
            yield f"'{name}': there is no CTA group {group.group(1)}"


def _matrices(name: str) -> Iterator[str]:
    if ".m8n16." in name and ".trans" in name:
        yield TRANSPOSED
    if ".m16n16." in name and ".x4" in name:
        yield WIDE_MATRICES


def operand_problems(lines: Iterable[str], target: Target) -> Iterator[str]:
    """What is wrong with the calls in these lines."""
    for line in lines:
        call = _CALL.search(line)
        if call is None or line.startswith("declare "):
            continue
        name, arguments = call.groups()
        if name.startswith("llvm.nvvm.tcgen05.mma"):
            yield from _product(name, arguments, target)
        elif name.startswith("llvm.nvvm.cp.async.bulk."):
            yield from _copy(name, arguments, target)
        elif name.startswith("llvm.nvvm.ldmatrix."):
            yield from _matrices(name)
