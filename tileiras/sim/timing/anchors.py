"""By which lines is machine code recognized in a PTX trace? Those whose operation ptxas neither drops nor multiplies.

A load becomes a load, a barrier a barrier: whoever executes the machine instruction has executed the PTX line, and nearly
always the other way round. Arithmetic says little, since ptxas folds, repeats and removes it.
"""
from __future__ import annotations

import re

_OPCODE = re.compile(r"\s*(?:\{\s*)?(?:[$%\w]+:\s*)?(?:@!?\s*[%\w]+\s+)?([a-z][\w.:]*)")

# PTX operations by their first words, and the machine operations that carry them out. The first row that fits counts.
_ROWS = [
    (r"ld\.(volatile\.|relaxed\.\w+\.|acquire\.\w+\.|weak\.)?shared", "LDS LD"),
    (r"ld\S*\.shared", "LDS LD LDSM"),
    (r"ld\S*\.local", "LDL LD"),
    (r"ld\S*\.(param|const)", ""),
    (r"(ld|ldu)\.", "LDG LD LDG_BYPASS"),
    (r"st\S*\.async", "STAS ST"),
    (r"st\S*\.shared", "STS ST STAS"),
    (r"st\S*\.local", "STL ST"),
    (r"st\S*\.param", ""),
    (r"st\.bulk", "ST STS UBLKCP"),
    (r"st\.", "STG ST"),
    (r"(atom|red)\S*\.shared", "ATOMS ATOM RED REDAS REDS ATOMG"),
    (r"(atom|red)\S*", "ATOM ATOMG RED REDG"),
    (r"(mma|wmma\.mma)\S*", "HMMA IMMA DMMA QMMA OMMA BMMA MOVM"),
    (r"wmma\.load", "LDSM LDS LDG LD"),
    (r"wmma\.store", "STS STG ST"),
    (r"wgmma\.mma_async", "HGMMA IGMMA QGMMA BGMMA"),
    (r"wgmma\.wait_group", "WARPGROUP"),
    (r"wgmma\.", ""),
    (r"ldmatrix", "LDSM"),
    (r"stmatrix", "STSM"),
    (r"cp\.async\.(ca|cg)", "LDGSTS"),
    (r"cp\.async\.commit_group", "LDGDEPBAR"),
    (r"cp\.async\.wait", "DEPBAR"),
    (r"cp\.async\.mbarrier", "ARRIVES"),
    (r"cp\.async\.bulk\.(commit|wait)_group", "UTMACMDFLUSH DEPBAR"),
    (r"cp\.async\.bulk\.prefetch", "UTMAPF UBLKPF"),
    (r"cp\.reduce\.async\.bulk", "UTMAREDG UBLKRED"),
    (r"cp\.async\.bulk", "UTMALDG UTMASTG UBLKCP UTMAREDG UBLKRED UTMAPF"),
    (r"mbarrier\.(init|inval|arrive|expect_tx|complete_tx|try_wait|test_wait)", "SYNCS ATOMS UCGABAR"),
    (r"(bar|barrier)\.cluster", "UCGABAR_ARV UCGABAR_WAIT UCGABAR"),
    (r"bar\.warp", ""),
    (r"(bar|barrier)\.", "BAR"),
    (r"shfl", "SHFL"),
    (r"redux", "REDUX CREDUX"),
    (r"match", "MATCH"),
    (r"tcgen05\.mma", "UTCHMMA UTCIMMA UTCQMMA UTCOMMA UTCMMA"),
    (r"tcgen05\.ld", "LDTM"),
    (r"tcgen05\.st", "STTM"),
    (r"tcgen05\.cp", "UTCCP"),
    (r"tcgen05\.shift", "UTCSHIFT"),
    (r"tcgen05\.commit", "UTCBAR"),
    (r"clusterlaunchcontrol\.try_cancel", "UGETNEXTWORKID"),
    (r"bra(\.uni)?$", "BRA BRX"),
    (r"(ret|exit)$", "EXIT"),
]
_TABLE = [(re.compile(pattern), frozenset(bases.split())) for pattern, bases in _ROWS]
_WAIT = re.compile(r"mbarrier\.(try|test)_wait")


def operation(text: str) -> str:
    """The opcode of a PTX line, with its modifiers; "" for lines without one."""
    found = _OPCODE.match(text)
    return found[1] if found and not text.lstrip().startswith((".", "//")) else ""


def is_guarded(text: str) -> bool:
    return text.lstrip().startswith("@")


def is_wait(opcode: str) -> bool:
    """Whether a PTX operation is a try at an mbarrier."""
    return bool(_WAIT.match(opcode))


def machine_operations(opcode: str) -> frozenset[str]:
    """Machine operations that carry out a PTX operation for certain; empty where the line is no anchor."""
    for pattern, bases in _TABLE:
        if pattern.match(opcode):
            return bases
    return frozenset()


_ONE_INSTRUCTION = re.compile(r"(add|sub|mul|fma|min|max)\.\S*f(32|16x2)$|setp\.\S*[fsu]32$|(and|or|xor|selp|mad\.lo)\.\S*32$|"
                              r"(ex2|lg2|rcp|rsqrt)\.approx\.ftz\.f32$")


def is_one_instruction(opcode: str) -> bool:
    """Whether arithmetic that isn't folded away is one machine instruction: as many stand there as times it is repeated."""
    return bool(_ONE_INSTRUCTION.match(opcode))


_BITS = re.compile(r"\.[a-z]+?(\d+)(?:x2)?$")
_VECTOR = re.compile(r"\.v(\d)\b")
_ACCESS = frozenset("LD LDG LDS LDL ST STG STS STL".split())
_SHAPE = re.compile(r"\.m(\d+)n(\d+)k(\d+)")
_MACHINE_SHAPE = re.compile(r"MMA(?:\.SP)?\.(16816|1688|1684|884|8816|8832|16832|16864|168128|168256|168512)\b")
_MACHINE_SHAPES = {"16816": 16 * 8 * 16, "1688": 16 * 8 * 8, "1684": 16 * 8 * 4, "884": 8 * 8 * 4, "8816": 8 * 8 * 16,
                   "8832": 8 * 8 * 32, "16832": 16 * 8 * 32, "16864": 16 * 8 * 64, "168128": 16 * 8 * 128,
                   "168256": 16 * 8 * 256, "168512": 16 * 8 * 512}
_SINGLE = ("bar", "shfl", "redux", "ldmatrix", "stmatrix", "cp.async", "red", "atom")
_TENSOR_MOVES = ("tcgen05.ld.", "tcgen05.st.")
_TWO_HALVES = ".16x32bx2"       # lanes 0 to 15 by one instruction, 16 to 31 by another; all other shapes by one
_WORD = 4
_WIDTH = re.compile(r"\.(U8|S8|U16|S16|64|128|256|ENL2\.256)\b")
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32, "ENL2.256": 32}


def pieces(operation_: str, opcode: str, base: str) -> int:
    """How many machine instructions `opcode` carry out one execution of a PTX operation; 0 where that isn't known."""
    if base in _ACCESS:
        asked = _asked(operation_)
        return max(asked // _width(opcode), 1) if asked else 0
    if operation_.startswith("mma"):
        shape, machine = _SHAPE.search(operation_), _MACHINE_SHAPE.search(opcode)
        if shape is None or machine is None:
            return 0
        m, n, k = (int(x) for x in shape.groups())
        return max(m * n * k // _MACHINE_SHAPES[machine[1]], 1)
    if operation_.startswith(_TENSOR_MOVES):
        return 2 if _TWO_HALVES in operation_ else 1
    return 1 if operation_.startswith(_SINGLE) and "mbarrier" not in operation_ else 0


def is_merged(operation_: str, opcode: str, base: str) -> bool:
    """Whether a machine instruction moves more bytes than the PTX operation whose line it carries: those of others, too."""
    asked = _asked(operation_) if base in _ACCESS else 0
    return 0 < asked < _width(opcode) and asked >= _WORD


def _asked(operation_: str) -> int:
    """Bytes that a PTX access moves for a lane; 0 where its text doesn't say."""
    element, vector = _BITS.search(operation_), _VECTOR.search(operation_)
    return int(element[1]) // 8 * (int(vector[1]) if vector else 1) if element is not None else 0


def _width(opcode: str) -> int:
    """Bytes that a machine access moves for a lane."""
    width = _WIDTH.search(opcode)
    return _WIDTHS[width[1]] if width else _WORD
