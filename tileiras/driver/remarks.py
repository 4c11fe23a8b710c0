"""How `--remarks` shows what passes had to tell, with each kernel's resources added: text, or a YAML document a remark.

    in function: matmul:                                    --- !Passed
                                                            Pass:            Tensor-core
      category: Tensor-core                                 Name:            RemarkTensorCoreMMA
        remark[passed]: MMA operation ...                   DebugLoc:        { File: 'k.py', Line: 16, Column: 14 }
          --> "k.py":16:14                                  Function:        matmul
           |                                                Args:
           = name: RemarkTensorCoreMMA                        - RemarkId:    1
           = note: Instruction = Tensor-core SM80             - Remark:      MMA operation ...
                                                              - Instruction: Tensor-core SM80
                                                            ...
Both are the original's forms.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tileiras.remarks import ANALYSIS, FAILED, HINTS, MEMORY, MISSED, PASSED, RESOURCES, TENSOR_CORE, Remark

if TYPE_CHECKING:
    from tileiras.codegen.resources import Entry
    from tileiras.driver.command_line import CommandLine

DEFAULT_FILE = "tileir_remarks.yaml"
KINDS = {PASSED: "Passed", MISSED: "Missed", FAILED: "Failure", ANALYSIS: "Analysis"}
"""From a remark's kind to its YAML tag."""
CATEGORIES = (MEMORY, TENSOR_CORE, HINTS, RESOURCES)
_CHOICES = {MEMORY: "memory", TENSOR_CORE: "tensorcore"}
"""What selects a category on the command line; the others come with `all`."""


def wanted(line: CommandLine, remark: Remark) -> bool:
    """Does a command line ask for a remark?"""
    return any(line.text(option, "none") in ("all", _CHOICES.get(remark.category, "all"))
               for option in ("remarks", f"remarks-{remark.kind}"))


def resource_remarks(entries: Iterable[Entry], told: Iterable[Remark] = (), ptx: str = "") -> list[Remark]:
    """The remarks on compiled kernels, placed where the passes' remarks on their warps are; with their PTX, also what it is made
    of."""
    places = {remark.function: remark.place for remark in told if remark.name == "RemarkKernelWarps"}
    found = []
    for entry in entries:
        place = places.get(entry.name)
        found.append(Remark(ANALYSIS, RESOURCES, "RemarkKernelResources", entry.name, "Resources of the kernel", place, (
            ("Threads", entry.threads), ("Registers", entry.registers), ("SharedBytes", entry.shared_bytes),
            ("StackBytes", entry.stack_bytes), ("Barriers", entry.barriers), ("ParameterBytes", entry.param_bytes))))
        if ptx:
            from tileiras.codegen.kernel_info import kernel_info
            found.append(Remark(ANALYSIS, RESOURCES, "RemarkKernelInfo", entry.name, "What the kernel's code is made of", place,
                                tuple(kernel_info(ptx, entry).items())))
        if entry.spill_stores or entry.spill_loads:
            found.append(Remark(
                MISSED, MEMORY, "RemarkMemoryRegisterSpills", entry.name, "Not all values fit into registers", place,
                (("SpillStoreBytes", entry.spill_stores), ("SpillLoadBytes", entry.spill_loads)),
                ("smaller tiles, more warps (num_worker_warps_per_cta) or a lower occupancy leave a thread more room",)))
    return found


def arranged(remarks: Iterable[Remark]) -> list[Remark]:
    """Each remark once, by function (in the order they come), then category."""
    functions: dict[str, dict[Remark, None]] = {}
    for remark in remarks:
        functions.setdefault(remark.function, {})[remark] = None
    return [remark for of_function in functions.values()
            for remark in sorted(of_function, key=lambda r: CATEGORIES.index(r.category))]


# --- text ---------------------------------------------------------------------------------------------------------


def as_text(remarks: Iterable[Remark]) -> str:
    """The `command-line` form; empty without remarks."""
    out: list[str] = []
    function = category = None
    for remark in arranged(remarks):
        if remark.function != function:
            out += [f"in function: {remark.function}:", ""]
            category = None
        elif remark.category != category:
            out.append("")
        if remark.category != category:
            out.append(f"  category: {remark.category}")
        function, category = remark.function, remark.category
        out.append(f"    remark[{remark.kind}]: {remark.text}")
        if remark.place is not None:
            path, line, column = remark.place
            out += [f"      --> {_in_quotes(path)}:{line}:{column}", "       |"]
        out.append(f"       = name: {remark.name}")
        out += [f"       = note: {name} = {value}" for name, value in remark.notes]
        out += [f"       = reason: {reason}" for reason in remark.reasons]
        out.append("")
    return "".join(f"{line}\n" for line in out)


def _in_quotes(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


# --- YAML ---------------------------------------------------------------------------------------------------------

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-^., ")
_WORDS = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n", "~"))


def _scalar(value: str | int) -> str:
    """A YAML scalar on one line: plain where that is safe, else quoted."""
    if isinstance(value, int):
        return str(value)
    if any(not c.isprintable() for c in value):
        escaped = "".join(c if c.isprintable() and c not in '"\\' else _escape(c) for c in value)
        return f'"{escaped}"'
    if value and value[0].isalpha() and value[-1] != " " and _PLAIN.issuperset(value) and value.lower() not in _WORDS:
        return value
    return "'" + value.replace("'", "''") + "'"


def _escape(c: str) -> str:
    if c in '"\\':
        return "\\" + c
    code = ord(c)
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def as_yaml(remarks: Iterable[Remark]) -> str:
    """The `yaml` form: one document a remark, in LLVM's layout for optimization records."""
    out: list[str] = []
    for number, remark in enumerate(arranged(remarks), 1):
        out += [f"--- !{KINDS[remark.kind]}", f"Pass:            {remark.category}", f"Name:            {remark.name}"]
        if remark.place is not None:
            path, line, column = remark.place
            quoted = _scalar(path) if not path.isprintable() else "'" + path.replace("'", "''") + "'"
            out.append(f"DebugLoc:        {{ File: {quoted}, Line: {line}, Column: {column} }}")
        out += [f"Function:        {_scalar(remark.function)}", "Args:"]
        arguments: list[tuple[str, str | int]] = [("RemarkId", number), ("Remark", remark.text), *remark.notes,
                                                  *(("Reason", reason) for reason in remark.reasons)]
        out += [f"  - {f'{name}:':<12} {_scalar(value)}" for name, value in arguments]
        out.append("...")
    return "".join(f"{text}\n" for text in out)
