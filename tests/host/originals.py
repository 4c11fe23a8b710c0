"""Tensor maps as the original's own host code writes them, for many views: `python -m tests.host.originals > FILE`.

A line a view and launch: the SM it was compiled for; the recipe, of which box, swizzle and order of dimensions were read off
the original's maps; the values of the kernel's parameters; the map's words in hexadecimal. `original_maps.txt` was made by this.
"""
from __future__ import annotations

import itertools
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from tests.host.hostcode import HostCode
from tests.host.views import View, views
from tests.sim import reference
from tileiras.host.recipe import HostMap
from tileiras.layout.tensormap import ATOMICITIES
from tileiras.sim.run.launch import choose_entry, parse_cached
from tileiras.sim.timing.cubin import Cubin
from tileiras.tools.tileiras_translate import main as translate

TIMEOUT = 300
MAP_BYTES, WRITTEN = 128, 64
AT_ONCE = 60                # kernels of a module
DRAWN = (("sm_90", 200, 1), ("sm_100", 50, 2), ("sm_120", 30, 3))
"""SM, views and seed of the file."""
SWIZZLES = (0, 32, 64, 128)


def compiled(some: list[View], sm: str) -> bytes:
    """The original's cubin of a module with an entry a view, named k0, k1, ..."""
    command = reference.original()
    assert command is not None
    text = "cuda_tile.module @m {\n" + "".join(view.entry(f"k{i}") for i, view in enumerate(some)) + "}\n"
    with tempfile.TemporaryDirectory() as folder:
        source, code, out = (pathlib.Path(folder) / name for name in ("m.mlir", "m.tileirbc", "m.cubin"))
        source.write_text(text)
        assert translate(["--mlir-to-cudatilebc", "--bytecode-version=13.1", str(source), "-o", str(code)]) == 0
        subprocess.run([command, str(code), "-o", str(out), "--gpu-name", sm, "-O3", "--lineinfo"], check=True,
                       capture_output=True, timeout=TIMEOUT)
        return out.read_bytes()


def values(view: View, rng: random.Random) -> list[int]:
    """Parameters of a launch: ordinary ones mostly, and some that no program has."""
    def size() -> int:
        return rng.choice((0, 1, 16, rng.randrange(1, 5000), rng.randrange(1, 5000), rng.getrandbits(32)))
    address = rng.choice((0x7F1000000000 + 16 * rng.randrange(1 << 24), rng.getrandbits(64)))
    out = [address, 0x7E0000000000]
    for name in view.names:
        out.append(rng.choice((0, 1, 64, rng.randrange(2000), rng.getrandbits(32))) if name == "start" else
                   size() if name[0] == "n" else rng.choice((16 * size(), rng.getrandbits(32))) & 0xFFFFFFFF)
    return out


def buffer(offsets: list[int], total: int, widths: list[int], params: list[int]) -> bytes:
    """A launch's parameters, with junk where nothing is said."""
    data = bytearray([0xCD]) * total
    for at, width, value in zip(offsets, widths, params):
        data[at:at + width] = value.to_bytes(width, "little")
    return bytes(data)


def observed(some: list[View], sm: str, launches: int, seed: int) -> Iterator[tuple[HostMap, list[int], bytes]]:
    """Recipe, parameters, and the 64 bytes that the original writes; views that it builds no map for are left out."""
    cubin = compiled(some, sm)
    module, code = parse_cached(Cubin(cubin).ptx), HostCode(reference.section(cubin, b".nv.host"))
    for i, view in enumerate(some):
        entry = choose_entry(module, f"k{i}")
        places = reference.offsets(entry, sm)
        hidden = [p for p in entry.params if p.size == MAP_BYTES]
        if len(hidden) != 1:
            continue
        at = places[hidden[0].name]
        ordinary = entry.params[:2 + len(view.names)]
        rng = random.Random(f"{seed} {i}")
        written = []
        for _ in range(launches):
            params = values(view, rng)
            data = buffer([places[p.name] for p in ordinary], places[""], [p.size for p in ordinary], params)
            written.append((params, code.fill(entry.name, data)[at:at + WRITTEN]))
        made = recipe_of(view, written)
        yield from ((made, *launch) for launch in written)


def recipe_of(view: View, written: list[tuple[list[int], bytes]]) -> HostMap:
    """The view's recipe with what its maps show of the original's choices: box, swizzle, and in which order its axes stand."""
    words = struct.unpack("<16I", written[0][1])
    rank = (words[2] >> 4 & 7) + 1
    box = ((words[13] >> 24) + 1, *((words[14] >> 8 * d & 255) + 1 for d in range(rank - 1)))
    assert rank == view.rank, f"{view} has a map of {rank} dimensions"
    others = [axis for axis in reversed(range(rank)) if axis != view.unit]
    choices = [view.recipe((view.unit, *order), box, SWIZZLES[words[2] >> 13 & 3], ATOMICITIES[words[2] >> 19 & 3])
               for order in itertools.permutations(others)]
    fitting = (made for made in choices if all(made.encode(params)[:WRITTEN] == data for params, data in written))
    return next(fitting, choices[0])


def main() -> int:
    for sm, count, seed in DRAWN:
        drawn = list(views(count, seed))
        for first in range(0, count, AT_ONCE):
            for made, params, data in observed(drawn[first:first + AT_ONCE], sm, 2, seed + first):
                print(f"{sm} | {made} | {' '.join(f'{p:x}' for p in params)} | "
                      f"{' '.join(f'{w:x}' for w in struct.unpack('<16I', data))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
