"""Remarks tell a kernel's resources, to whom asks."""
from __future__ import annotations

import pytest

from tileiras.codegen.resources import Entry, Parameter
from tileiras.driver.command_line import parse
from tileiras.driver.remarks import as_text, as_yaml, remarks_of, wanted

ENTRY = Entry("k", (Parameter(".u64", 8, True),), threads=128, shared_bytes=512, registers=40)
SPILLS = Entry("k", (), threads=128, registers=255, spill_stores=12, spill_loads=20)

YAML = """--- !Missed
Pass:            Memory
Name:            RegisterSpills
Function:        k
Args:
  - Remark:      'Not all values fit into registers'
  - SpillStoreBytes: '12'
  - SpillLoadBytes: '20'
...
"""


def test_forms() -> None:
    [resources] = remarks_of([ENTRY])
    assert as_text([resources]) == ("remark: k: Resources of the kernel: Threads 128, Registers 40, SharedBytes 512, "
                                    "StackBytes 0, Barriers 0, ParameterBytes 8\n")
    assert as_yaml(remarks_of([SPILLS])[1:]) == YAML


@pytest.mark.parametrize("line, names", [
    ("", []),
    ("--remarks=none", []),
    ("--remarks=all", ["KernelResources", "RegisterSpills"]),
    ("--remarks=memory", ["RegisterSpills"]),
    ("--remarks-missed=all", ["RegisterSpills"]),
    ("--remarks-analysis=all", ["KernelResources"]),
    ("--remarks-passed=all", []),
])
def test_categories(line: str, names: list[str]) -> None:
    read = parse(line.split(), "tileiras")
    assert [r.name for r in remarks_of([SPILLS]) if wanted(read, r)] == names
