"""Which tensor maps does the host build for each kernel? Recipes travel with the kernel's LLVM IR and PTX, to the host object.

In LLVM IR a function says its maps in attributes, `"tileiras.map.0"="f16 p0 [u32(p1)] [] box [64]"`, one for each of its last
parameters (`host/recipe.py` has their language); in PTX a comment behind the parameter does. Of maps that kernels build the host
knows the number only (`"tileiras.built_maps"="2"`, in PTX `.minperctamemory`). LLVM's process makes the object while the PTX is
still worked on: names, recipes and where parameters will lie can be told from LLVM IR.
"""
from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tileiras.codegen import client
from tileiras.host.object import MAP_BYTES, PLATFORMS, host_module

if TYPE_CHECKING:
    from tileiras.codegen.resources import Entry
    from tileiras.machine.targets import Target

MAP_ALIGNMENT = 64
MAP_ATTRIBUTE = "tileiras.map."
BUILT_ATTRIBUTE = "tileiras.built_maps"
HIDDEN_MAP = 'byval([128 x i8]) align 64 "nvvm.grid_constant"'
"""The attributes of the parameter that holds a map: `ptx_fixup.py` knows by size and alignment what it is."""
HostKernel: TypeAlias = "tuple[str, tuple[int, ...], tuple[str, ...], int]"
"""Name; where its parameters lie, if it has maps; recipes of its maps; how many maps it may build itself."""
_KERNEL = "define ptx_kernel void @"


def attributes_of(maps: Iterable[str], built: int = 0) -> str:
    """The attributes of a function with these maps, that builds so many others; each with a space before it."""
    told = "".join(f' "{MAP_ATTRIBUTE}{i}"="{text}"' for i, text in enumerate(maps))
    return f'{told} "{BUILT_ATTRIBUTE}"="{built}"' if built else told


def built_by(llvm_ir: str) -> dict[str, int]:
    """The kernels of a module that build maps: how many each, at most as many as any. All of them get memory for so many."""
    lines = [line for line in llvm_ir.split("\n") if line.startswith(_KERNEL) and BUILT_ATTRIBUTE in line] \
        if BUILT_ATTRIBUTE in llvm_ir else []
    most = max((int(line.partition(f'{BUILT_ATTRIBUTE}"="')[2].partition('"')[0]) for line in lines), default=0)
    return {_name(line): most for line in lines}


def _name(line: str) -> str:
    return line[len(_KERNEL):line.index("(")].strip('"')


def recipes_of(llvm_ir: str) -> dict[str, list[str]]:
    """The recipes of each kernel of a module that has some."""
    out: dict[str, list[str]] = {}
    for line in llvm_ir.split("\n") if MAP_ATTRIBUTE in llvm_ir else ():
        if line.startswith(_KERNEL) and MAP_ATTRIBUTE in line:
            out[_name(line)] = [part.split('"')[2] for part in line.split(MAP_ATTRIBUTE)[1:]]
    return out


def prepare(names: Sequence[str], host: tuple[str, str]) -> None:
    """Have the host object of kernels by these names made, while LLVM's process has nothing else to do, for kernels without
    maps: most have none."""
    if names:
        client.prepare_host_object(*_module([(name, (), (), 0) for name in names], host))


def prepare_with_maps(llvm_ir: str, target: Target, host: tuple[str, str]) -> None:
    """The same for a module in LLVM IR, which says what maps there are and where parameters will lie."""
    kernels = expected(llvm_ir, target)
    if any(map(_has_maps, kernels)):
        client.prepare_host_object(*_module(kernels, host))


def expected(llvm_ir: str, target: Target) -> list[HostKernel]:
    """A module's kernels as their PTX will have them."""
    maps, built = recipes_of(llvm_ir), built_by(llvm_ir)
    kernels = []
    for part in llvm_ir.split(_KERNEL)[1:] if maps or built else ():
        name, _, rest = part.partition("(")
        recipes, count = tuple(maps.get(name.strip('"'), ())), built.get(name.strip('"'), 0)
        kernels.append((name, _offsets(rest, target) if recipes or count else (), recipes, count))
    return kernels


def _has_maps(kernel: HostKernel) -> bool:
    return bool(kernel[2]) or kernel[3] > 0


_TYPES = re.compile(r"(?:^|, )(?:ptr (byval)|(ptr|half|bfloat|float|double)|i(\d+))\b")
_BITS = {"ptr": 64, "half": 16, "bfloat": 16, "float": 32, "double": 64}


def _offsets(signature: str, target: Target) -> tuple[int, ...]:
    """Where a kernel's parameters will lie, from its LLVM IR behind the first parenthesis."""
    from tileiras.codegen.resources import Entry, Parameter

    params = []
    for match in _TYPES.finditer(signature[:signature.find(" nounwind")]):
        hidden, word, bits = match.groups()
        size = MAP_BYTES if hidden else (_BITS[word] if word else int(bits) + 7) // 8
        params.append(Parameter("", size, align=MAP_ALIGNMENT if hidden else size))
    return Entry("", tuple(params), 1, param_base=target.parameter_base).param_offsets


def kernels_of(entries: Sequence[Entry]) -> list[HostKernel]:
    """The kernels of a module's entries."""
    return [(e.name, e.param_offsets if e.maps or e.built_maps else (), tuple(map(str, e.maps)), e.built_maps) for e in entries]


def host_object(entries: Sequence[Entry], host: tuple[str, str]) -> bytes:
    """The object file for the module's kernels, nothing where there are none."""
    return client.host_object(*_module(kernels_of(entries), host)) if entries else b""


def host_text(llvm_ir: str, target: Target, host: tuple[str, str]) -> str:
    """The host object of a module in LLVM IR, as LLVM IR."""
    known = {kernel[0]: kernel for kernel in expected(llvm_ir, target)}
    names = [_name(line) for line in llvm_ir.split("\n") if line.startswith(_KERNEL)]
    return _module([known.get(name, (name, (), (), 0)) for name in names], host)[0]


def _module(kernels: Sequence[HostKernel], host: tuple[str, str]) -> tuple[str, str, str]:
    """The LLVM module for some kernels, its triple and code model."""
    triple, model = PLATFORMS[host]
    if not any(map(_has_maps, kernels)):
        return host_module([(kernel[0], ()) for kernel in kernels], triple), triple, model
    from tileiras.host import callbacks
    from tileiras.host.recipe import read_map

    return callbacks.module_of([callbacks.HostKernel(name, offsets, tuple(map(read_map, recipes)), built)
                                for name, offsets, recipes, built in kernels], triple), triple, model
