"""Calls through pointers: by a table of targets, by a prototype, with different functions in different threads."""
from __future__ import annotations

import numpy as np
import pytest

from tileiras.sim import OutOfBounds, simulate

TEXT = """.version 8.7
.target sm_90
.address_size 64
.func (.param .u32 out) twice(.param .u32 x) {
 .reg .b32 %a; ld.param.u32 %a, [x]; add.u32 %a, %a, %a; st.param.u32 [out], %a; ret; }
.func (.param .u32 out) square(.param .u32 x) {
 .reg .b32 %a; ld.param.u32 %a, [x]; mul.lo.u32 %a, %a, %a; st.param.u32 [out], %a; ret; }
.global .u64 table[2] = { twice, square };
.visible .entry k(.param .u64 to) .reqntid 32 {
 .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .pred %p<3>;
 ld.param.u64 %d1, [to]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; mul.wide.u32 %d2, %r2, 8; mov.u64 %d3, table;
 add.u64 %d3, %d3, %d2; ld.global.u64 %d4, [%d3];
 mov.u32 %r3, 7; setp.lt.u32 %p1, %r1, 20;
 { .param .u32 given; .param .u32 got;
 st.param.u32 [given], %r1;
 PROTOTYPE
 @%p1 call (got), %d4, (given), P;
 @%p1 ld.param.u32 %r3, [got]; }
 mul.wide.u32 %d5, %r1, 4; add.u64 %d5, %d5, %d1; st.global.u32 [%d5], %r3; ret; }
"""


@pytest.mark.parametrize("prototype", ["P: .calltargets twice, square;", "P: .callprototype (.param .u32 _) _ (.param .u32 _);"])
def test_functions_by_a_table_in_memory(prototype):
    out = np.zeros(32, np.uint32)
    simulate(TEXT.replace("PROTOTYPE", prototype), args=[out])
    assert out.tolist() == [(t * t if t % 2 else 2 * t) if t < 20 else 7 for t in range(32)]


def test_a_pointer_that_is_no_target():
    with pytest.raises(OutOfBounds, match="no function"):
        simulate(TEXT.replace("PROTOTYPE", "P: .calltargets twice;"), args=[np.zeros(32, np.uint32)])
