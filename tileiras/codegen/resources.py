"""What a compiled kernel needs: its signature from the PTX, its resources from ptxas' report."""
from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tileiras.codegen.ptx_fixup import RECIPE
from tileiras.host.object import MAP_BYTES
from tileiras.machine.targets import target_of_ptx

if TYPE_CHECKING:
    from tileiras.host.recipe import HostMap

_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(?")
_PARAM = re.compile(r"^\s*(\.hidden\s+)?\.param\s+(.*?)\s*([\w$]+)(?:\[(\d+)\])?,?\s*$")
_HIDDEN = "\t.hidden"
_THREADS = re.compile(r"^\s*\.(?:reqntid|maxntid)\s+([\d, ]+)")
_PROPERTIES = re.compile(r"Function properties for ([\w$]+)")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_COMPILING = re.compile(r"Compiling entry function '([\w$]+)'")
_USED = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+) bytes smem")
_ALIGN = re.compile(r"\.align\s+(\d+)")
_TARGET = re.compile(r"^\.target\s+(\w+)", re.MULTILINE)
_MEMORY = ".minperctamemory "
_TYPE_BYTES = re.compile(r"\.[bsuf](\d+)\b")


@dataclass(frozen=True)
class Parameter:
    """One kernel parameter: its PTX type (".u64"), bytes, whether the launcher fills it ("hidden"), and its
    alignment (0: its size, at most 8)."""

    type: str
    bytes: int
    pointer: bool = False
    hidden: bool = False
    align: int = 0


@dataclass(frozen=True)
class Entry:
    """One kernel of a cubin. Sizes are bytes a thread (stack, spills) or a CTA (shared); parameters begin at
    `param_base` of the constant bank. `params` are the ordinary ones, which a launch gives; behind them lie `hidden` ones,
    which the driver fills: at their end one for each of `maps`, with the recipe of a tensor map. `built_maps`: how many others a
    block has memory for, which it builds itself; a hidden pointer before the maps is for drivers that give no such memory."""

    name: str
    params: tuple[Parameter, ...]
    threads: int
    shared_bytes: int = 0
    registers: int = 0
    stack_bytes: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    barriers: int = 0
    param_base: int = 0
    hidden: tuple[Parameter, ...] = ()
    maps: tuple[HostMap, ...] = ()
    built_maps: int = 0

    @property
    def spill_bytes(self) -> int:
        """Bytes that a thread stores to and loads from local memory for want of registers."""
        return self.spill_stores + self.spill_loads

    @property
    def param_offsets(self) -> tuple[int, ...]:
        """Where each parameter lies in the parameter buffer, hidden ones behind: aligned as it lies in the constant bank."""
        offsets = []
        end = self.param_base
        for param in (*self.params, *self.hidden):
            align = param.align or min(param.bytes, 8)
            start = -(-end // align) * align
            offsets.append(start - self.param_base)
            end = start + param.bytes
        return tuple(offsets)

    @property
    def param_bytes(self) -> int:
        """The parameter buffer's size."""
        return self.param_offsets[-1] + (self.hidden or self.params)[-1].bytes if self.params or self.hidden else 0


def _parameter(match: re.Match[str]) -> Parameter:
    hidden, kind, _, count = match.groups()
    size = _TYPE_BYTES.search(kind)
    element = int(size.group(1)) // 8 if size else 1
    total = max(1, element) * int(count or 1)
    declared = _ALIGN.search(kind) if ".ptr" not in kind else None  # a pointer's .align speaks of what it points to
    align = int(declared.group(1)) if declared else max(1, element)
    return Parameter(size.group(0) if size else kind.split()[0], total, ".ptr" in kind, bool(hidden), align)


def _maps(recipes: list[str]) -> tuple[HostMap, ...]:
    if not recipes:
        return ()
    from tileiras.host.recipe import read_map
    return tuple(map(read_map, recipes))


def entries_of_ptx(ptx: str) -> list[Entry]:
    """The entries of a PTX text in order, without their resources."""
    entries: list[Entry] = []
    name: str | None = None
    params: list[Parameter] = []
    recipes: list[str] = []
    threads, built = 1, 0
    target = target_of_ptx(named.group(1)) if (named := _TARGET.search(ptx)) else None
    base = target.parameter_base if target is not None else 0
    for line in ptx.split("\n"):
        if name is None:
            match = _ENTRY.search(line) if ".entry" in line else None
            if match:
                name, params, threads, recipes, built = match.group(1), [], 1, [], 0
            continue
        if line.startswith("{"):
            ordinary, hidden = (tuple(p for p in params if p.hidden is kind) for kind in (False, True))
            entries.append(Entry(name, ordinary, threads, param_base=base, hidden=hidden, maps=_maps(recipes), built_maps=built))
            name = None
            continue
        line, _, recipe = line.partition(RECIPE) if line.startswith(_HIDDEN) else (line, "", "")
        if recipe:
            recipes.append(recipe)
        if match := _PARAM.match(line):
            params.append(_parameter(match))
        elif match := _THREADS.match(line):
            threads = 1
            for extent in match.group(1).split(","):
                threads *= int(extent)
        elif line.startswith(_MEMORY):
            built = int(line[len(_MEMORY):]) // MAP_BYTES
    return entries


def with_resources(entries: Sequence[Entry], report: str) -> tuple[Entry, ...]:
    """`entries` with what `ptxas -v` reported of each (its stderr)."""
    found: dict[str, dict[str, int]] = {}
    current = ""
    frame_of = ""
    for line in report.splitlines():
        if match := _COMPILING.search(line):
            current = match.group(1)
        elif match := _PROPERTIES.search(line):
            frame_of = match.group(1)
        elif match := _FRAME.search(line):
            stack, stores, loads = map(int, match.groups())
            found.setdefault(frame_of, {}).update(stack_bytes=stack, spill_stores=stores, spill_loads=loads)
        elif match := _USED.search(line):
            used = found.setdefault(current, {})
            used["registers"] = int(match.group(1))
            for key, pattern in (("barriers", _BARRIERS), ("shared_bytes", _SHARED)):
                if extra := pattern.search(line):
                    used[key] = int(extra.group(1))
    return tuple(replace(e, **found.get(e.name, {})) for e in entries)
