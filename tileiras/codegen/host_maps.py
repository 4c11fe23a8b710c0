"""Which tensor maps does the host build for each kernel? Recipes travel with the kernel's LLVM IR and PTX, to the host object.

In LLVM IR a function says its maps in attributes, `"tileiras.map.0"="f16 p0 [u32(p1)] [] box [64]"`, one for each of its last
parameters (`host/recipe.py` has their language); in PTX a comment behind the parameter does. Kernels without maps need no
more of the host object than their names, so LLVM's process makes it while their PTX is still worked on.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tileiras.codegen import client
from tileiras.host.object import PLATFORMS, host_module

if TYPE_CHECKING:
    from tileiras.codegen.resources import Entry

MAP_ATTRIBUTE = "tileiras.map."
HIDDEN_MAP = 'byval([128 x i8]) align 64 "nvvm.grid_constant"'
"""The attributes of the parameter that holds a map: `ptx_fixup.py` knows by size and alignment what it is."""
_KERNEL = "define ptx_kernel void @"


def attributes_of(maps: Iterable[str]) -> str:
    """The attributes of a function with these maps, each with a space before it."""
    return "".join(f' "{MAP_ATTRIBUTE}{i}"="{text}"' for i, text in enumerate(maps))


def recipes_of(llvm_ir: str) -> dict[str, list[str]]:
    """The recipes of each kernel of a module that has some."""
    out: dict[str, list[str]] = {}
    for line in llvm_ir.split("\n") if MAP_ATTRIBUTE in llvm_ir else ():
        if line.startswith(_KERNEL) and MAP_ATTRIBUTE in line:
            out[line[len(_KERNEL):line.index("(")].strip('"')] = [part.split('"')[2] for part in line.split(MAP_ATTRIBUTE)[1:]]
    return out


def request_ahead(llvm_ir: str, host: tuple[str, str]) -> client.HostRequest | None:
    """What can be known of the host object before there is PTX; None where that isn't enough."""
    if MAP_ATTRIBUTE in llvm_ir:
        return None
    return _without_maps([part[:part.index("(")] for part in llvm_ir.split(_KERNEL)[1:]], host)


def host_object(entries: Sequence[Entry], host: tuple[str, str], ahead: client.HostRequest | None) -> bytes:
    """The object file for the module's kernels, nothing where there are none. `ahead` is what was asked for before."""
    if any(entry.maps for entry in entries):
        from tileiras.host.callbacks import HostKernel, module_of

        triple, model = PLATFORMS[host]
        kernels = [HostKernel(e.name, e.param_offsets, e.maps) for e in entries]
        return client.host_object(client.HostRequest(module_of(kernels, triple), triple, model))
    wanted = _without_maps([e.name for e in entries], host)
    if wanted is None:
        return b""
    return client.host_object(ahead if ahead is not None and ahead.arguments == wanted.arguments else wanted)


def _without_maps(names: list[str], host: tuple[str, str]) -> client.HostRequest | None:
    triple, model = PLATFORMS[host]
    return client.HostRequest(host_module([(name, ()) for name in names], triple), triple, model) if names else None
