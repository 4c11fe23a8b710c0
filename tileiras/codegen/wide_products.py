"""64-bit products of numbers that were 32 bits wide are one instruction, wherever LLVM extended these.

    cvt.s64.s32 %rd1, %r1;                 cvt.s64.s32 %rd1, %r1;
    $L__BB0_2:                             $L__BB0_2:
    cvt.s64.s32 %rd2, %r2;                 cvt.s64.s32 %rd2, %r2;
    mul.lo.s64 %rd3, %rd2, %rd1;     ->    mul.wide.s32 %rd3, %r2, %r1;

LLVM selects instructions a block at a time and moves what a loop doesn't change (a stride, made wide) to the block before it: then
it doesn't see there that the product's upper halves are signs, and ptxas multiplies all four pairs of halves: four or five
instructions for one, for each row that is gathered.

A register that is written at one place has the same value at the product as it had where it was extended, if it is written right
before that in the same block, or is a parameter. Others stay as they are.
"""
from __future__ import annotations

import re
from typing import NamedTuple

PRODUCT = ".lo.s64"
_FUNCTION = re.compile(r"^(?=(?:\.\w+ )*\.(?:entry|func)\b)", re.MULTILINE)
_PRODUCT = re.compile(r"\t(mul|mad)\.lo\.s64 \t(%rd\d+), (%rd\d+), (%rd\d+)(.*)")
_EXTENSION = re.compile(r"\tcvt\.s64\.s32 \t(%rd\d+), (%r\d+);")
_PARAMETER = re.compile(r"\tld\.param\.b32 \t(%r\d+), \[\w+_param_\d+\]")
_WRITES = re.compile(r"[\s{]*(?:@!?%?\w+\s+)?[a-z][\w.:]*\s+(\{[^}]*\}|[^,\[]+)")
"""A statement, and the operand that it may write."""
_REGISTER = re.compile(r"%r\w*")
_ENDS = re.compile(r"\s*\$?\w+:|\s*(?:@!?%?\w+\s+)?(?:bra|brx|ret|exit|call)\b")
"""Where a block ends."""


class _Extension(NamedTuple):
    at: int
    block: int
    source: str


def wide_products(ptx: str) -> str:
    """The PTX with such products."""
    return "".join(_of_function(part) if PRODUCT in part else part for part in _FUNCTION.split(ptx))


def _of_function(text: str) -> str:
    lines = text.split("\n")
    written: dict[str, list[tuple[int, int]]] = {}      # where each register may be written: line and block
    extensions: dict[str, _Extension] = {}
    parameters: set[str] = set()
    block = 0
    for at, line in enumerate(lines):
        for statement in line.split(";"):
            if (match := _WRITES.match(statement)) is not None:
                for register in _REGISTER.findall(match[1]):
                    written.setdefault(register, []).append((at, block))
        if (match := _EXTENSION.match(line)) is not None:
            extensions[match[1]] = _Extension(at, block, match[2])
        elif (match := _PARAMETER.match(line)) is not None:
            parameters.add(match[1])
        if _ENDS.match(line):
            block += 1

    def narrow(register: str, at: int) -> str | None:
        """What `register` is the extension of, if that is still the same in line `at`."""
        found = extensions.get(register)
        if found is None or len(written[register]) != 1 or len(written.get(found.source, ())) != 1:
            return None
        (first, its_block), = written[found.source]
        is_fresh = its_block == found.block and first < found.at and not first < at < found.at
        return found.source if is_fresh or found.source in parameters else None

    for at, line in enumerate(lines):
        if PRODUCT in line and (match := _PRODUCT.match(line)) is not None:
            x, y = narrow(match[3], at), narrow(match[4], at)
            if x is not None and y is not None:
                lines[at] = f"\t{match[1]}.wide.s32 \t{match[2]}, {x}, {y}{match[5]}"
    return "\n".join(lines)
