"""What must be rewritten in LLVM's PTX so that a tile launcher can run it.

A frontend launches with block (1,1,1) and the tile grid; the driver recognises such kernels by marks that LLVM 22
doesn't print. Of this

    .version 9.0                            .version 9.2
    .target sm_90a                          .target sm_90a
    .address_size 64                        .address_size 64
                                            .visible .global .align 8 .b8 ___NV_TILE_LAUNCH_META_DATA___[64];
    .visible .entry k(          becomes     .visible .entry k(
        .param .u64 k_param_0,                  .param .u64 k_param_0,
        .param .align 64 .b8 k_param_1[128]     .hidden .param .align 64 .b8 k_param_1[128] // tensor map: f16 p0 ...
    )                                       )
    .reqntid 128                            .reqntid 128
    {                                       .minnctapersm 1
                                            .language 7
                                            {

A 64-byte-aligned 128-byte parameter is always a tensor map that the launcher builds, hence hidden. Its recipe
(`host/recipe.py`) stands behind it as a comment: whoever has the PTX can launch it. A kernel that builds maps itself says how much
memory each of its blocks needs for them (`.minperctamemory`, from PTX 9.4 on); the pointer before the maps is for drivers that
give none, and hidden, too.
"""
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tileiras.errors import CompileError
from tileiras.host.object import MAP_BYTES
from tileiras.machine.targets import Target

TILE_LANGUAGE = ".language 7"
LAUNCH_METADATA = ".visible .global .align 8 .b8 ___NV_TILE_LAUNCH_META_DATA___[64];"

RECIPE = " // tensor map: "
BUILDS_FROM = "9.4"
"""The first PTX version with memory of a block's own, `.minperctamemory`."""

_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_TENSOR_MAP = re.compile(r"^\s*\.param\s+\.align\s+64\s+\.b8\s+[\w$]+\[128\]")


def fix_ptx(ptx: str, target: Target, maps: Mapping[str, Sequence[str]] | None = None,
            built: Mapping[str, int] | None = None) -> str:
    """LLVM's PTX for `target` with the launch contract's header and entry directives. `maps`: recipes of each kernel's tensor
    maps, one for each parameter that is one. `built`: for how many maps that it builds itself a kernel has memory.

    Raises CompileError for an entry whose thread count isn't fixed by `.reqntid`, or that has other maps than recipes.
    """
    out: list[str] = []
    recipes: list[str] | None = None
    entry: str | None = None
    has_threads = has_minimum = False
    for line in ptx.split("\n"):
        if entry is None:
            if line.startswith(".version"):
                version = max(target.ptx_version, BUILDS_FROM if built else "", key=_number)
                line = f".version {version}"
            elif line.startswith(".target"):
                line = line.replace(target.llvm_cpu, target.ptx, 1)
            elif line.startswith(".address_size"):
                out += [line, "", LAUNCH_METADATA]
                continue
            elif ".entry" in line and not line.startswith("\t") and (match := _ENTRY.search(line)):
                entry, has_threads, has_minimum = match.group(1), False, False
                recipes = list(maps.get(match.group(1), ())) if maps else None
        elif line.startswith("{"):
            if not has_threads:
                raise CompileError(f"kernel '{entry}' has no fixed thread count")
            if recipes:
                raise CompileError(f"kernel '{entry}' has no parameter for a tensor map '{recipes[0]}'")
            if not has_minimum:
                out.append(".minnctapersm 1")
            if built and entry in built:
                _hide_pointer(out)
                out.append(f".minperctamemory {MAP_BYTES * built[entry]}")
            out.append(TILE_LANGUAGE)
            entry = None
        elif line.startswith(".reqntid"):
            has_threads = True
        elif line.startswith(".minnctapersm"):
            has_minimum = True
        elif _TENSOR_MAP.match(line):
            line = "\t.hidden " + line.lstrip()
            if recipes is not None:
                if not recipes:
                    raise CompileError(f"kernel '{entry}' has a parameter for a tensor map that nothing is said of")
                line += RECIPE + recipes.pop(0)
        out.append(line)
    return "\n".join(out)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part)


def _hide_pointer(lines: list[str]) -> None:
    """The last of an entry's parameters that isn't hidden yet is the pointer to an older driver's memory for maps."""
    for n in range(len(lines) - 1, -1, -1):
        if lines[n].lstrip().startswith(".param"):
            lines[n] = "\t.hidden " + lines[n].lstrip()
            return


def empty_ptx(target: Target) -> str:
    """The PTX of a module without kernels."""
    return f".version {target.ptx_version}\n.target {target.ptx}\n.address_size 64\n\n{LAUNCH_METADATA}\n"
