"""Kernels of one warpgroup around wgmma instructions: operand tiles in shared memory, accumulators from and to arrays."""
from __future__ import annotations

import numpy as np

from tests.sim.test_descriptors import canonical
from tileiras.sim import simulate

HIGH = {0: 0, 128: 1, 64: 2, 32: 3}
TILE = 32768                            # bytes for each operand


def strides(major: str, swizzle: int, width: int, mn: int, k: int) -> tuple[int, int]:
    """(LBO, SBO) in bytes of a tile laid out without gaps."""
    span = max(swizzle, 16)
    if major == "k":
        rows = 8 * span                                         # bytes of eight rows
        return (16, rows) if swizzle else (-(-mn // 8) * 128, 128)
    columns = 8 * span                                          # bytes of eight columns of one span
    spans = -(-mn * width // (8 * span))
    return (columns * (k // 8), columns) if swizzle else (spans * columns, 128)


def descriptor(offset: int, major: str, swizzle: int, width: int, mn: int, k: int) -> int:
    """A wgmma descriptor's bits but for the address of shared memory, for a tile `offset` bytes into it."""
    lbo, sbo = strides(major, swizzle, width, mn, k)
    return HIGH[swizzle] << 62 | sbo >> 4 << 32 | lbo >> 4 << 16 | offset >> 4


def image(codes: np.ndarray, major: str, swizzle: int, width: int) -> np.ndarray:
    """The bytes of an operand tile [mn, k] of element codes, by the canonical layouts."""
    mn, k = codes.shape
    if width == 1:                                              # 32 elements a word
        codes = np.packbits(codes.astype(np.uint8), axis=1, bitorder="little").view(np.uint8)
        return image(codes, major, swizzle, 8)
    at = canonical(major, swizzle, 16, width, mn, k, *strides(major, swizzle, width, mn, k))
    out = np.zeros(TILE, np.uint8)
    data = np.ascontiguousarray(codes).view(np.uint8).reshape(mn, k, -1)
    for byte in range(data.shape[2]):
        out[at + byte] = data[:, :, byte]
    return out


FILL = """mov.u32 %r0, %tid.x; mov.u32 %r1, tile; mul.wide.u32 %d0, %r0, 16; shl.b32 %r2, %r0, 4; add.u32 %r2, %r2, %r1;
add.s64 %d1, %g0, %d0; mov.u32 %r3, 0; setp.gt.u32 %p0, %r0, 127; @%p0 bra FILLED;
COPY: ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d1]; st.shared.v4.u32 [%r2], {%r4, %r5, %r6, %r7};
add.s64 %d1, %d1, 2048; add.u32 %r2, %r2, 2048; add.u32 %r3, %r3, 2048; setp.lt.u32 %p0, %r3, BYTES; @%p0 bra COPY;
FILLED: fence.proxy.async; bar.sync 0;
cvt.u64.u32 %d2, %r1; shr.u64 %d2, %d2, 4;
"""


def kernel(body: str, accumulators: int, a_registers: int = 0, size: int = 2 * TILE, threads: int = 128,
           target: str = "sm_90a", extra: str = "") -> str:
    """A kernel k(image, accumulators in, accumulators out, A registers, metadata). `%c<i>`: accumulators; `%a<i>`: A;
    `%m`: metadata; `%d2`: shared memory's address in 16 bytes."""
    lines = [".version 9.0", f".target {target}", ".address_size 64",
             ".visible .entry k(.param .u64 a0, .param .u64 a1, .param .u64 a2, .param .u64 a3, .param .u64 a4)",
             f".reqntid {threads}", "{", f".reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %d<32>; .reg .b64 %g<5>; "
             f".reg .b32 %c<{max(accumulators, 1)}>; .reg .b32 %e<{max(accumulators, 1)}>; .reg .b32 %a<8>; .reg .b32 %m;",
             f".shared .align 1024 .b8 tile[{size}];", extra]
    lines += [f"ld.param.u64 %g{i}, [a{i}];" for i in range(5)]
    lines.append(FILL.replace("BYTES", str(size)))
    lines.append(f"mad.wide.u32 %d3, %r0, {4 * accumulators}, %g1; mad.wide.u32 %d4, %r0, {4 * accumulators}, %g2;"
                 "mad.wide.u32 %d5, %r0, 16, %g3; mad.wide.u32 %d6, %r0, 4, %g4;")
    lines += [f"ld.global.b32 %c{i}, [%d3+{4 * i}];" for i in range(accumulators)]
    lines += [f"ld.global.b32 %a{i}, [%d5+{4 * i}];" for i in range(a_registers)]
    lines.append("ld.global.b32 %m, [%d6];")
    lines.append(body)
    lines += [f"st.global.b32 [%d4+{4 * i}], %c{i};" for i in range(accumulators)]
    return "\n".join([*lines, "ret;", "}", ""])


def vector(name: str, count: int) -> str:
    return "{" + ", ".join(f"%{name}{i}" for i in range(count)) + "}"


def product(op: str, accumulators: int, a: str, b: int, tail: str) -> str:
    """A fence, one product and the wait for it. `a`: a vector of registers, or a descriptor's bits."""
    lines = []
    if not a.startswith("{"):
        lines.append(f"or.b64 %d10, %d2, {a}; add.s64 %d10, %d2, {a};")
        a = "%d10"
    lines.append(f"add.s64 %d11, %d2, {b};")
    lines.append(f"wgmma.fence.sync.aligned; wgmma.mma_async{op} {vector('c', accumulators)}, {a}, %d11{tail};")
    lines.append("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;")
    return "\n".join(lines)


def run(text: str, images: list[np.ndarray], before: np.ndarray, a: np.ndarray | None = None, meta: np.ndarray | None = None,
        **options):
    """(accumulators out, report). `before`: [128, count] uint32."""
    out = np.zeros_like(before)
    a = np.zeros((len(before), 4), np.uint32) if a is None else np.ascontiguousarray(a)
    meta = np.zeros(len(before), np.uint32) if meta is None else np.ascontiguousarray(meta)
    report = simulate(text, args=[np.concatenate(images), np.ascontiguousarray(before), out, a, meta], **options)
    return out, report


def place(lane: int, i: int) -> tuple[int, int]:
    """Row and column of accumulator i of a warpgroup's thread (PTX ISA, figures "register fragment layout for accumulator
    matrix D")."""
    return 16 * (lane // 32) + lane % 32 // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (lane % 4) + i % 2


def spread(matrix: np.ndarray) -> np.ndarray:
    """A 64 x n matrix as [128, n / 2] accumulators."""
    n = matrix.shape[1]
    out = np.empty((128, n // 2), matrix.dtype)
    for lane in range(128):
        for i in range(n // 2):
            out[lane, i] = matrix[place(lane, i)]
    return out


def words(values: np.ndarray) -> np.ndarray:
    """Values [threads, elements] of 8, 16 or 32 bits as registers [threads, words]."""
    return np.ascontiguousarray(values).view(np.uint32)
