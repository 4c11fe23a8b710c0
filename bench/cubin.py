"""What a cubin says about its kernels: registers, stack, shared memory, instructions, local memory traffic.

Read with `cuobjdump -res-usage` and `nvdisasm -c`, so that any compiler's cubin is measured the same way.
"""
from __future__ import annotations

import dataclasses
import pathlib
import re
import subprocess
import tempfile

from tileiras.codegen.toolchain import find_tool


@dataclasses.dataclass(frozen=True)
class KernelFacts:
    """One kernel. Sizes in bytes; `instructions` counts SASS instructions without the padding after the last;
    `spills` counts its local loads and stores."""

    name: str
    registers: int
    stack: int
    shared: int
    instructions: int
    spills: int
    opcodes: dict[str, int]


def tool(name: str) -> str:
    """A tool of the CUDA toolkit, found as the compiler finds ptxas."""
    if found := find_tool(name):
        return found
    raise SystemExit(f"{name} isn't there: pip install nvidia-cuda-{name}")


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _instructions(text: str) -> dict[str, list[str]]:
    """Opcodes of each function, in order, from `nvdisasm -c`."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if match := re.match(r"\.text\.([\w$.]+):", line):
            current = found.setdefault(match[1], [])
        elif match := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+|@!?U?PT\s+)?([A-Z][\w.]*)", line):
            current.append(match[1])
    for name, ops in found.items():
        # The kernel ends in a branch to itself and NOPs up to the next 128 bytes.
        while ops and ops[-1] == "NOP":
            ops.pop()
        found[name] = ops
    return found


def inspect(cubin: bytes) -> dict[str, KernelFacts]:
    """The kernels of a cubin by name."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        usage = _run(tool("cuobjdump"), "-res-usage", str(path))
        code = _instructions(_run(tool("nvdisasm"), "-c", str(path)))
    facts = {}
    for match in re.finditer(r"Function ([\w$.]+):\s*\n\s*(.*)", usage):
        name = match[1]
        numbers = {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", match[2])}
        opcodes: dict[str, int] = {}
        for op in code.get(name, ()):
            base = op.split(".")[0]
            opcodes[base] = opcodes.get(base, 0) + 1
        facts[name] = KernelFacts(name, numbers.get("REG", 0), numbers.get("STACK", 0), numbers.get("SHARED", 0),
                                  sum(opcodes.values()), opcodes.get("LDL", 0) + opcodes.get("STL", 0), opcodes)
    return facts
