"""What `--remarks` says of a compilation: every kernel's resources, and registers that had to be spilled.

Of the original's categories two apply: "memory" for spills, "all" for everything. The YAML form is the original's:
one document a remark, `--- !Analysis` or `--- !Missed`.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tileiras.codegen.resources import Entry
    from tileiras.driver.command_line import CommandLine

DEFAULT_FILE = "tileir_remarks.yaml"


class Remark(NamedTuple):
    """One remark: `kind` is "Analysis" or "Missed", `category` "kernel" or "memory", `facts` name and value."""

    kind: str
    category: str
    name: str
    function: str
    text: str
    facts: tuple[tuple[str, int], ...]


def remarks_of(entries: Iterable[Entry]) -> list[Remark]:
    """The remarks on compiled kernels, in their order."""
    found = []
    for entry in entries:
        found.append(Remark("Analysis", "kernel", "KernelResources", entry.name, "Resources of the kernel", (
            ("Threads", entry.threads), ("Registers", entry.registers), ("SharedBytes", entry.shared_bytes),
            ("StackBytes", entry.stack_bytes), ("Barriers", entry.barriers), ("ParameterBytes", entry.param_bytes))))
        if entry.spill_stores or entry.spill_loads:
            found.append(Remark("Missed", "memory", "RegisterSpills", entry.name, "Not all values fit into registers", (
                ("SpillStoreBytes", entry.spill_stores), ("SpillLoadBytes", entry.spill_loads))))
    return found


def wanted(line: CommandLine, remark: Remark) -> bool:
    """Does a command line ask for a remark?"""
    for option in ("remarks", f"remarks-{remark.kind.lower()}"):
        if line.text(option, "none") in ("all", remark.category):
            return True
    return False


def as_yaml(remarks: Iterable[Remark]) -> str:
    out = []
    for remark in remarks:
        out += [f"--- !{remark.kind}", f"Pass:            {remark.category.capitalize()}",
                f"Name:            {remark.name}", f"Function:        {remark.function}", "Args:",
                f"  - Remark:      '{remark.text}'"]
        out += [f"  - {name + ':':<12} '{value}'" for name, value in remark.facts]
        out.append("...")
    return "".join(f"{text}\n" for text in out)


def as_text(remarks: Iterable[Remark]) -> str:
    return "".join(f"remark: {r.function}: {r.text}: {', '.join(f'{name} {value}' for name, value in r.facts)}\n"
                   for r in remarks)
