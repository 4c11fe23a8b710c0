"""Kernels around one tensor copy, and what such a copy does by its definition, element by element."""
from __future__ import annotations

import itertools

import numpy as np

from tileiras.layout.tensormap import TensorMap
from tileiras.sim import simulate
from tileiras.sim.copy.tensormap import MapArgument

HEAD = """.version 8.7
.target sm_100a
.address_size 64
"""
LOAD = HEAD + """.visible .entry k(.param .align 64 .b8 m[128], .param .u64 out, .param .u32 words, .param .u32 tx, .param .u32 at,
 .param .u32 c0, .param .u32 c1, .param .u32 c2, .param .u32 c3, .param .u32 c4)
.reqntid 32
{
 .reg .b32 %r<16>; .reg .b64 %rd<9>; .reg .pred %p<4>; .reg .b16 %h<4>;
 .shared .align 1024 .b8 buf[BYTES]; .shared .align 8 .b64 bar;
 ld.param.u32 %r0, [c0]; ld.param.u32 %r1, [c1]; ld.param.u32 %r2, [c2]; ld.param.u32 %r3, [c3]; ld.param.u32 %r4, [c4];
 ld.param.u32 %r5, [words]; ld.param.u32 %r6, [tx]; ld.param.u64 %rd2, [out]; ld.param.u32 %r11, [at];
 mov.u32 %r7, %tid.x; setp.ne.u32 %p1, %r7, 0; mov.u32 %r12, buf; add.u32 %r12, %r12, %r11;
 @%p1 bra READY;
 mbarrier.init.shared::cta.b64 [bar], 1;
 fence.mbarrier_init.release.cluster;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], %r6;
 mov.b64 %rd1, m;
 cvta.param.u64 %rd1, %rd1;
 INSTRUCTION
READY: bar.sync 0;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra WAIT;
LOOP: setp.ge.u32 %p3, %r7, %r5; @%p3 ret;
 shl.b32 %r8, %r7, 2; cvt.u64.u32 %rd3, %r8; add.u64 %rd3, %rd3, %rd2;
 add.u32 %r9, %r12, %r8; ld.shared.b32 %r10, [%r9]; st.global.b32 [%rd3], %r10;
 add.u32 %r7, %r7, 32; bra LOOP;
}
"""
STORE = HEAD + """.visible .entry k(.param .align 64 .b8 m[128], .param .u64 in, .param .u32 words,
 .param .u32 c0, .param .u32 c1, .param .u32 c2, .param .u32 c3, .param .u32 c4)
.reqntid 32
{
 .reg .b32 %r<16>; .reg .b64 %rd<9>; .reg .pred %p<4>;
 .shared .align 1024 .b8 buf[BYTES];
 ld.param.u32 %r0, [c0]; ld.param.u32 %r1, [c1]; ld.param.u32 %r2, [c2]; ld.param.u32 %r3, [c3]; ld.param.u32 %r4, [c4];
 ld.param.u32 %r5, [words]; ld.param.u64 %rd2, [in]; mov.u32 %r12, buf;
 mov.u32 %r7, %tid.x;
LOOP: setp.ge.u32 %p3, %r7, %r5; @%p3 bra DONE;
 shl.b32 %r8, %r7, 2; cvt.u64.u32 %rd3, %r8; add.u64 %rd3, %rd3, %rd2;
 add.u32 %r9, %r12, %r8; ld.global.b32 %r10, [%rd3]; st.shared.b32 [%r9], %r10;
 add.u32 %r7, %r7, 32; bra LOOP;
DONE: fence.proxy.async.shared::cta;
 bar.sync 0;
 mov.u32 %r7, %tid.x; setp.ne.u32 %p1, %r7, 0;
 @%p1 ret;
 mov.b64 %rd1, m;
 cvta.param.u64 %rd1, %rd1;
 INSTRUCTION
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group 0;
 ret;
}
"""


def argument(array: np.ndarray, m: TensorMap) -> MapArgument:
    """A map of `array`; the map's address counts from the array's."""
    def encode(address: int) -> bytes:
        return TensorMap(**{**m.__dict__, "address": m.address + address}).encode()
    return MapArgument(array, encode)


def load(array: np.ndarray, m: TensorMap, coords: tuple[int, ...], size: int, mode: str = "tile", extra: str = "",
         space: str = "shared::cluster", tx: int | None = None, at: int = 0, hint: str = "", **options) -> np.ndarray:
    """What a load puts into the `size` bytes of shared memory behind offset `at`. `extra`: im2col operands."""
    names = ", ".join(f"%r{i}" for i in range(len(coords)))
    ins = (f"cp.async.bulk.tensor.{m.rank}d.{space}.global.{mode}.mbarrier::complete_tx::bytes{hint} [%r12], "
           f"[%rd1, {{{names}}}], [bar]{extra};")
    out = np.zeros(size, np.uint8)
    padded = [*coords, 0, 0, 0, 0][:5]
    text = LOAD.replace("INSTRUCTION", ins).replace("BYTES", str(max(size + at, 1024) + 1024))
    report = simulate(text, args=[argument(array, m), out, np.uint32(size // 4), np.uint32(m.box_bytes() if tx is None else tx),
                                  np.uint32(at), *(np.int32(c) for c in padded)], **options)
    assert not report.findings, report.findings[0]
    return out


def store(array: np.ndarray, m: TensorMap, coords: tuple[int, ...], data: np.ndarray, mode: str = "tile", op: str = "",
          **options) -> None:
    """Store (or reduce by `op`) the bytes of `data`, which are what shared memory holds, into `array`."""
    names = ", ".join(f"%r{i}" for i in range(len(coords)))
    ins = f"cp{'.reduce' if op else ''}.async.bulk.tensor.{m.rank}d.global.shared::cta{'.' + op if op else ''}.{mode}.bulk_group " \
          f"[%rd1, {{{names}}}], [%r12];"
    raw = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
    padded = [*coords, 0, 0, 0, 0][:5]
    text = STORE.replace("INSTRUCTION", ins).replace("BYTES", str(max(len(raw), 1024) + 1024))
    report = simulate(text, args=[argument(array, m), raw.copy(), np.uint32(len(raw) // 4), *(np.int32(c) for c in padded)],
                      **options)
    assert not report.findings, report.findings[0]


def swizzle(address: int, width: int, atomicity: str = "16B") -> int:
    """Where a byte goes: the pattern tables of PTX ISA 5.5.7, in pieces of 16 bytes of lines of 128 bytes."""
    line, piece, byte = address // 128, address % 128 // 16, address % 16
    if width in (32, 96):
        piece ^= line % 2
    elif width == 64:
        piece ^= line % 4
    elif width == 128:
        if atomicity == "16B":
            piece ^= line % 8
        elif atomicity == "64B":
            piece ^= 4 * (line % 2)
        else:
            piece ^= 2 * (line % 4)
            if atomicity == "32B+8B flip" and line % 2:
                byte ^= 8
    return line * 128 + piece * 16 + byte


def by_definition(array: np.ndarray, m: TensorMap, coords: tuple[int, ...], fill: bytes) -> dict[int, bytes]:
    """{byte offset in shared memory: element} of a tile load; `array` is the tensor, last axis dimension 0."""
    size = array.dtype.itemsize
    counts = [(b + s - 1) // s for b, s in zip(m.box, m.steps or (1,) * m.rank)]
    out: dict[int, bytes] = {}
    pitch = max(counts[0] * size, m.swizzle)
    for k, index in enumerate(itertools.product(*(range(c) for c in counts[:0:-1]))):
        for i in range(counts[0]):
            at = [c + s * j for c, s, j in zip(coords, m.steps or (1,) * m.rank, (i, *index[::-1]))]
            inside = all(0 <= x < n for x, n in zip(at, m.sizes))
            value = array[tuple(at[::-1])].tobytes() if inside else fill
            out[k * pitch + i * size] = value
    return out


def placed(elements: dict[int, bytes], start: int, m: TensorMap, size: int) -> np.ndarray:
    """The bytes of shared memory [size] behind `start`, which the swizzle's pattern counts from address 0."""
    out = np.zeros(size, np.uint8)
    for off, value in elements.items():
        for j, b in enumerate(value):
            out[swizzle(start + off + j, m.swizzle, m.atomicity) - start] = b
    return out
