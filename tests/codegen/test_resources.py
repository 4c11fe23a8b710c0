"""Entries are read from PTX, resources from ptxas' report."""
from __future__ import annotations

from tests.codegen.test_ptx_fixup import EXPECTED
from tileiras.codegen.resources import count_sass_instructions, entries_of_ptx, with_resources

REPORT = """ptxas info    : 64 bytes gmem
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 4 registers, used 0 barriers
ptxas info    : Compile time = 3.040 ms
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 255 registers, used 2 barriers, 16 bytes cumulative stack size, 49152 bytes smem
"""


def test_entries_and_their_resources() -> None:
    k, second = with_resources(entries_of_ptx(EXPECTED), REPORT)
    assert (k.name, k.threads, k.registers, k.shared_bytes, k.barriers) == ("k", 128, 255, 49152, 2)
    assert (k.stack_bytes, k.spill_stores, k.spill_loads) == (16, 12, 20)
    assert [(p.type, p.bytes, p.pointer, p.hidden) for p in k.params] == [
        (".u64", 8, True, False), (".b8", 128, False, True)]
    assert k.param_bytes == 192  # the tensor map is aligned to 64
    assert (second.name, second.threads, second.registers, second.params) == ("second", 64, 4, ())


SASS = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 BRA `(.L_x_0) ;
        /*0020*/             @!UP1 UIADD3 UR4, UR4, 0x1, URZ ;
.L_x_0:
        /*0030*/                   EXIT ;
        /*0040*/                   NOP;
        /*0050*/                   NOP;
"""


def test_padding_is_not_counted() -> None:
    assert count_sass_instructions(SASS) == 4
    assert count_sass_instructions(SASS, include_padding=True) == 6
