"""What PTX text is parsed into: modules, functions, variables, instructions and their operands.

A leaf: the parser makes these, and what decodes, inlines and runs instructions reads them.
"""
from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Register:
    name: str


@dataclass(slots=True)
class Immediate:
    """An integer (Python int, possibly negative) or the bits of a float literal (`kind` "f32"/"f64")."""
    value: int
    kind: str = "int"


@dataclass(slots=True)
class Symbol:
    """A variable, function, label or special register, with a constant byte offset."""
    name: str
    offset: int = 0


@dataclass(slots=True)
class Vector:
    items: list


@dataclass(slots=True)
class Memory:
    """`[base + offset]`; `coordinates` for the tensor forms `[map, {x, y}]`."""
    base: Any
    offset: int = 0
    coordinates: list | None = None


@dataclass(slots=True)
class Negated:
    item: object


@dataclass(slots=True)
class Pair:
    """`d|p` of setp, shfl and the like; either may be the sink."""
    first: object
    second: object


@dataclass(slots=True)
class Sink:
    """The bit bucket `_`."""


@dataclass(slots=True)
class Instruction:
    opcode: str                       # as written, dots included
    parts: tuple[str, ...]            # opcode split at dots
    operands: list
    guard: str | None = None
    guard_negated: bool = False
    line: int = 0
    call: tuple | None = None         # (results, target, arguments) of `call`
    table: str = ""                   # the .calltargets or .callprototype of an indirect call


@dataclass(slots=True)
class Label:
    name: str


@dataclass
class Variable:
    """A module or function variable: state space, alignment and size in bytes, initial bytes."""
    name: str
    space: str
    size: int
    align: int
    type: str = "b8"
    data: bytes | None = None
    relocations: list[tuple[int, str, int]] = field(default_factory=list)   # (offset, symbol, addend)
    extern: bool = False
    pointer: bool = False
    kind: str = ""                    # "reg" for a register parameter
    hidden: bool = False              # a parameter that the driver fills


@dataclass
class Function:
    name: str
    entry: bool
    params: list[Variable] = field(default_factory=list)
    results: list[Variable] = field(default_factory=list)
    body: list = field(default_factory=list)            # Instruction and Label, in order
    registers: dict[str, str] = field(default_factory=dict)     # unique name -> type
    variables: dict[str, Variable] = field(default_factory=dict)
    tables: dict[str, list[str]] = field(default_factory=dict)  # .branchtargets
    directives: dict[str, list] = field(default_factory=dict)
    defined: bool = False
    line: int = 0


@dataclass
class Module:
    version: str = ""
    target: str = ""
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    locations: list[tuple[int, str]] = field(default_factory=list)   # (PTX line, "file:line"), sorted

    recipes: dict[str, str] = field(default_factory=dict)   # hidden parameter -> how a launch makes its tensor map

    def source_of(self, line: int) -> str | None:
        """The user's source position in force at a PTX line, or None."""
        i = bisect.bisect_right(self.locations, (line, chr(0x10FFFF))) - 1
        return self.locations[i][1] if i >= 0 else None


SIZES = {"pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4,
         "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16, "f32x2": 8,
         "texref": 8, "samplerref": 8, "surfref": 8, "tf32": 4, "e4m3": 1, "e5m2": 1}
