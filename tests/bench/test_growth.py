"""Programs for measuring growth are what they are said to be."""
from __future__ import annotations

from bench import growth
from tileiras.compiler import read_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target


def test_programs_have_the_size_asked_for_and_compile() -> None:
    options = CompileOptions(find_target("sm_90"))
    for ops in (20, 200):
        module = read_module(growth.program(ops), options)
        names = [op.name for op in module.walk()]
        assert names.count("cuda_tile.reduce") == ops // growth.OPS_A_GROUP == names.count("cuda_tile.permute")
    spent = growth.seconds(growth.program(20), "sm_90", whole=False)
    assert {"assign-load-store-layouts", "convert-tileas-to-llvm"} <= spent.keys()
