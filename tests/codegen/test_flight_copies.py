"""Copies of registers in flight stand behind the wait for them, and no other line moves."""
import pytest

from tileiras.codegen.flight_copies import copies_behind_waits

PRODUCT = "\twgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1, %r2}, %rd1, %rd2, p, 1, 1, 0, 0;"
WAIT = """\t// begin inline asm
\twgmma.wait_group.sync.aligned 0;
\t// end inline asm"""


def lines(*parts):
    return "\n".join(part if part.startswith(("\t", "$")) else f"\t{part}" for part in parts)


def test_copies_of_accumulators_go_behind_the_wait():
    begun = lines(PRODUCT, "wgmma.commit_group.sync.aligned;")
    copies, use = lines("mov.b32 \t%r7, %r1;", "mov.b32 \t%r8, %r2;"), "add.f32 \t%r9, %r7, %r8;"
    assert copies_behind_waits(lines(begun, copies, WAIT, use)) == lines(begun, WAIT, copies, use)


def test_copies_of_copies_keep_their_order():
    before = lines(PRODUCT, "mov.b32 \t%r7, %r1;", "mov.b32 \t%r8, %r7;", "add.f32 \t%r9, %r3, %r4;", WAIT)
    assert copies_behind_waits(before) == lines(
        PRODUCT, "add.f32 \t%r9, %r3, %r4;", WAIT, "mov.b32 \t%r7, %r1;", "mov.b32 \t%r8, %r7;")


def test_tensor_memory_s_loads_are_in_flight_too():
    load = "\ttcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r3];"
    wait = "\t// begin inline asm\n\ttcgen05.wait::ld.sync.aligned;\n\t// end inline asm"
    assert copies_behind_waits(lines(load, "mov.b32 \t%r7, %r1;", wait)) == lines(load, wait, "mov.b32 \t%r7, %r1;")


@pytest.mark.parametrize("between", [
    ["mov.b32 \t%r7, %r3;"],                                               # not in flight
    ["mov.b32 \t%r7, %r1;", "add.f32 \t%r9, %r7, %r4;"],                   # used before the wait
    ["mov.b32 \t%r7, %r1;", "add.f32 \t%r1, %r3, %r4;"],                   # written before the wait
    ["mov.b32 \t%r7, %r1;", "$L__BB0_1:"],                                 # another block
    ["mov.b32 \t%r7, %r1;", "@%p1 bra \t$L__BB0_2;"],
])
def test_what_must_stay_stays(between):
    text = lines(PRODUCT, *between, WAIT)
    assert copies_behind_waits(text) == text
