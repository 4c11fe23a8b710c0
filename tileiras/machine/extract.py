"""What ptxas schedules for: latency and issue interval of each operation on each SM, read from its own control fields.

    python -m tileiras.machine.extract            compare with the checked-in table, say what differs
    python -m tileiras.machine.extract --write    write tileiras/machine/scheduled.py anew

Chains of one operation (`chains.py`) are assembled at -O3 and disassembled; the stall counts between two instructions of a
chain, other instructions between them included, are its distance. The commonest distance is the latency in a dependent
chain, where no scoreboard holds it, and the issue interval in an independent one. Needs ptxas and nvdisasm, no GPU.
"""
from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from tileiras.codegen import toolchain
from tileiras.machine import chains, control
from tileiras.machine.targets import Target, find_target

TARGETS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scheduled.py")
TIMEOUT = 120.0
_LISTED = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*;\s*/\* 0x[0-9a-f]{16} \*/\s*$")
_UPPER = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/\s*$")
_SECTION = re.compile(r"^\s*\.section\s+\.text\.(\w+)")


class Listed(NamedTuple):
    """An instruction of a listing."""

    opcode: str
    text: str
    control: control.Control


class Scheduled(NamedTuple):
    """`opcode`: what the machine's instruction is called. `latency` None: variable, a scoreboard waits for it; of an operation
    that is two instructions (a compare and its selection) the round trip. `interval`: cycles between two independent ones of a
    warp."""

    opcode: str
    latency: int | None
    interval: int


class ToolMissing(Exception):
    """ptxas or nvdisasm isn't installed."""


def supported(operation: chains.Operation, target: Target) -> bool:
    return all(getattr(target, feature) for feature in operation.features)


def disassemble(ptx: str, target: Target) -> dict[str, list[Listed]]:
    """The instructions of each kernel of a text, as ptxas makes them at -O3."""
    ptxas, nvdisasm = toolchain.find_tool("ptxas"), toolchain.find_tool("nvdisasm")
    if ptxas is None or nvdisasm is None:
        raise ToolMissing("extraction needs ptxas and nvdisasm: pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm")
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = os.path.join(folder, "chains.ptx"), os.path.join(folder, "chains.cubin")
        with open(source, "w") as file:
            file.write(ptx)
        subprocess.run([ptxas, f"-arch={target.ptx}", "-O3", "-o", cubin, source], check=True, timeout=TIMEOUT)
        done = subprocess.run([nvdisasm, "-c", "-hex", cubin], check=True, timeout=TIMEOUT, capture_output=True, text=True)
    return parse_listing(done.stdout.splitlines())


def parse_listing(lines: Iterable[str]) -> dict[str, list[Listed]]:
    """Instructions by kernel, from `nvdisasm -c -hex`: a line with the text and the lower half, one with the upper half."""
    found: dict[str, list[Listed]] = {}
    current: list[Listed] = []
    text = ""
    for line in lines:
        if m := _SECTION.match(line):
            current = found.setdefault(m[1], [])
        elif m := _LISTED.match(line):
            text = m[2]
        elif text and (m := _UPPER.match(line)):
            words = text.split()
            opcode = words[1] if words[0].startswith("@") else words[0]
            current.append(Listed(opcode, text, control.decode(int(m[1], 16))))
            text = ""
    return found


def _is_called(opcode: str, names: tuple[str, ...]) -> bool:
    return any(opcode == name or opcode.startswith(name + ".") for name in names)


def distances(listed: list[Listed], names: tuple[str, ...]) -> tuple[str, list[int], bool]:
    """(opcode, stalls from each instruction of the chain to the next, whether a scoreboard holds the results)."""
    places = [i for i, instruction in enumerate(listed) if _is_called(instruction.opcode, names)]
    if len(places) < 3:
        raise LookupError(f"no chain of {' or '.join(names)} in {Counter(i.opcode for i in listed).most_common(8)}")
    steps = [sum(max(listed[k].control.stall, 1) for k in range(a, b)) for a, b in pairwise(places)]
    opcode = Counter(listed[i].opcode for i in places).most_common(1)[0][0]
    return opcode, steps, sum(listed[i].control.write is not None for i in places) > len(places) // 2


def _commonest(values: list[int]) -> int:
    """The most frequent, of equally frequent ones the least."""
    counts = Counter(values)
    return min(counts, key=lambda v: (-counts[v], v))


def extract(name: str, operations: Iterable[chains.Operation] = chains.OPERATIONS) -> dict[str, Scheduled]:
    """What ptxas schedules for on one SM, by operation."""
    target = find_target(name)
    wanted = [o for o in operations if supported(o, target)]
    text = [f".version 9.0\n.target {target.ptx}\n.address_size 64"]
    for operation in wanted:
        text += [chains.kernel(operation, dependent) for dependent in (True, False) if operation.chained or not dependent]
    kernels = disassemble("\n".join(text), target)
    result = {}
    for operation in wanted:
        opcode, steps, held = distances(kernels[chains.kernel_name(operation, False)], operation.sass)
        interval, latency = _commonest(steps), None
        if operation.chained:
            _, steps, chained_held = distances(kernels[chains.kernel_name(operation, True)], operation.sass)
            latency = None if held or chained_held else _commonest(steps)
        result[operation.name] = Scheduled(opcode, latency, interval)
    return result


def table_text(table: dict[str, dict[str, Scheduled]], version: str) -> str:
    """The checked-in module."""
    lines = ['"""What ptxas schedules for. Made by `python -m tileiras.machine.extract --write`; not to be edited.',
             "", "A row an operation and SM: the machine's opcode, the dependent latency in cycles (None: a scoreboard waits),",
             "and the issue interval of independent ones in a warp.", '"""', "from __future__ import annotations", "",
             f"PTXAS = {version!r}", "", "SCHEDULED: dict[str, dict[str, tuple[str, int | None, int]]] = {"]
    for name in (o.name for o in chains.OPERATIONS):
        rows = {sm: rows[name] for sm, rows in table.items() if name in rows}
        lines.append(f'    "{name}": {{')
        lines += [f'        "{sm}": ("{row.opcode}", {row.latency}, {row.interval}),' for sm, row in rows.items()]
        lines.append("    },")
    return "\n".join([*lines, "}", ""])


def ptxas_version() -> str:
    """As "13.5"."""
    ptxas = toolchain.find_tool("ptxas")
    if ptxas is None:
        raise ToolMissing("extraction needs ptxas: pip install nvidia-cuda-nvcc")
    found = re.search(r"release (\d+\.\d+)", subprocess.run([ptxas, "--version"], capture_output=True, text=True, timeout=TIMEOUT,
                                                            check=True).stdout)
    return found[1] if found else "?"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tileiras.machine.extract", description="what ptxas schedules for")
    parser.add_argument("--write", action="store_true", help="write the table anew")
    options = parser.parse_args(arguments)
    try:
        table = {name: extract(name) for name in TARGETS}
        version = ptxas_version()
    except ToolMissing as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if options.write:
        with open(TABLE, "w") as file:
            file.write(table_text(table, version))
        return 0
    from tileiras.machine.scheduled import PTXAS, SCHEDULED
    changed = 0
    for sm, rows in table.items():
        for name, row in rows.items():
            known = SCHEDULED.get(name, {}).get(sm)
            if known != tuple(row):
                changed += 1
                print(f"{name} on {sm}: {known} with ptxas {PTXAS}, {tuple(row)} with {version}")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
