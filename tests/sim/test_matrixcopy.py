"""ldmatrix and stmatrix of 8-, 6- and 4-bit elements, by the figures of the PTX ISA written out element by element."""
from __future__ import annotations

import numpy as np
import pytest

from tests.sim.test_matrix import FILL, warp_kernel
from tileiras import sim
from tileiras.sim import simulate

RNG = np.random.default_rng(9)


def spread(row: np.ndarray, form: str) -> np.ndarray:
    """The 16 elements of a 16-byte row as bytes: 8 bits each, or 6 or 4 bits packed from its start."""
    number = int.from_bytes(row.tobytes(), "little")
    bits = {"b8": 8, "b8x16.b6x16_p32": 6, "b8x16.b4x16_p64": 4}[form]
    return np.array([number >> bits * i & (1 << bits) - 1 for i in range(16)], np.uint8)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("form", ["b8", "b8x16.b6x16_p32", "b8x16.b4x16_p64"])
def test_loads_of_16x16_matrices_transpose(count, form):
    x = RNG.integers(0, 256, (32, 16)).astype(np.uint8)
    y = np.zeros((32, 4), np.uint32)
    names = ", ".join(f"%r{10 + i}" for i in range(2 * count))
    body = FILL + f"""mov.u32 %r12, 0; mov.u32 %r13, 0;
    ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.{form} {{{names}}}, [%r3];
    mul.wide.u32 %d2, %r0, 16; add.s64 %d2, %g1, %d2; st.global.v4.u32 [%d2], {{%r10, %r11, %r12, %r13}};"""
    simulate(warp_kernel(body, 2), args=[x, y])
    got = y.view(np.uint8).reshape(32, 4, 4)
    for matrix in range(count):
        source = np.array([spread(row, form) for row in x[16 * matrix:16 * matrix + 16]]).T     # columns become rows
        for lane in range(32):
            for half in range(2):
                row, column = lane // 4 + 8 * half, 4 * (lane % 4)
                assert got[lane, 2 * matrix + half].tolist() == source[row, column:column + 4].tolist()


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("form", ["b8x16.b6x16_p32", "b8x16.b4x16_p64"])
def test_loads_of_8x16_matrices(count, form):
    x = RNG.integers(0, 256, (32, 16)).astype(np.uint8)
    y = np.zeros((32, 4), np.uint32)
    names = ", ".join(f"%r{10 + i}" for i in range(count))
    body = FILL + f"""mov.u32 %r11, 0; mov.u32 %r12, 0; mov.u32 %r13, 0;
    ldmatrix.sync.aligned.m8n16.x{count}.shared.{form} {{{names}}}, [%r3];
    mul.wide.u32 %d2, %r0, 16; add.s64 %d2, %g1, %d2; st.global.v4.u32 [%d2], {{%r10, %r11, %r12, %r13}};"""
    simulate(warp_kernel(body, 2), args=[x, y])
    got = y.view(np.uint8).reshape(32, 4, 4)
    for matrix in range(count):
        for lane in range(32):
            want = spread(x[8 * matrix + lane // 4], form)[4 * (lane % 4):][:4]
            assert got[lane, matrix].tolist() == want.tolist()


@pytest.mark.parametrize("count", [1, 2, 4])
def test_stores_of_16x8_matrices_transpose(count):
    """Element (row, column) of a thread's byte pair goes to the column's address, at byte `row`."""
    x = RNG.integers(0, 256, (32, 4, 4)).astype(np.uint8)
    z = np.zeros((32, 16), np.uint8)
    names = ", ".join(f"%r{4 + i}" for i in range(count))
    body = FILL + f"""stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [%r3+1024], {{{names}}};
    setp.lt.u32 %p1, %r0, {8 * count}; @!%p1 bra OUT;
    ld.shared.v4.u32 {{%r4, %r5, %r6, %r7}}, [%r3+1024]; mul.wide.u32 %d3, %r0, 16; add.s64 %d3, %g1, %d3;
    st.global.v4.u32 [%d3], {{%r4, %r5, %r6, %r7}};\nOUT:"""
    simulate(warp_kernel(body, 2), args=[x, z])
    for matrix in range(count):
        for lane in range(32):
            for i in range(4):
                row, column = lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2
                assert z[8 * matrix + column, row] == x[lane, matrix, i]


def test_a_register_without_a_value_reaches_shared_memory_as_undefined():
    y = np.zeros(32, np.uint32)
    body = """.shared .align 128 .b8 tile[512]; mov.u32 %r1, tile; shl.b32 %r2, %r0, 4; add.u32 %r3, %r1, %r2; mov.u32 %r4, 7;
    stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r3], {%r4, %r5}; bar.warp.sync -1; shl.b32 %r6, %r0, 2; add.u32 %r6, %r6, %r1;
    ld.shared.b32 %r7, [%r6]; mul.wide.u32 %d3, %r0, 4; add.s64 %d3, %g0, %d3; st.global.u32 [%d3], %r7;"""
    simulate(warp_kernel(body, 1), args=[y])
    assert (y == 7).all()
    with pytest.raises(sim.UninitializedRead):
        simulate(warp_kernel(body.replace("[%r6];", "[%r6+128];"), 1), args=[y])


@pytest.mark.parametrize("text", ["ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8 {%r4, %r5, %r6, %r7}, [%r3];",
                                  "ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%r4, %r5}, [%r3];",
                                  "ldmatrix.sync.aligned.m8n16.x1.shared.b16 {%r4}, [%r3];",
                                  "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r4}, [%r3];",
                                  "stmatrix.sync.aligned.m16n8.x1.shared.b8 [%r3], {%r4};",
                                  "stmatrix.sync.aligned.m8n8.x1.shared.b8 [%r3], {%r4};"])
def test_forms_the_isa_does_not_have(text):
    with pytest.raises(sim.SimulationError):
        simulate(warp_kernel(FILL + text, 1), args=[np.zeros(128, np.uint32)])
