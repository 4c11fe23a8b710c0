"""Kernels around a few tcgen05 instructions: a block fills tensor memory and shared memory from arrays, one thread issues
what a test wants, and when that has completed the block writes all of tensor memory back."""
from __future__ import annotations

import functools
import shutil
import subprocess

import numpy as np

from tileiras.sim import simulate

LANES = 128


def descriptor(leading: int = 0, stride: int = 0, swizzle: int = 0, base: int = 0) -> int:
    """Bits 16 and up of a shared-memory matrix descriptor: distances in bytes, `swizzle` as coded (0, 1, 2, 4, 6)."""
    return leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | base << 49 | swizzle << 61


def instruction(m: int, n: int, *, d: int = 1, a: int = 0, b: int = 0, negate: tuple = (0, 0), transpose: tuple = (0, 0),
                sparse: int = 0, selector: int = 0, saturate: int = 0) -> int:
    """An instruction descriptor for kinds without block scaling."""
    return selector | sparse << 2 | saturate << 3 | d << 4 | a << 7 | b << 10 | negate[0] << 13 | negate[1] << 14 | \
        transpose[0] << 15 | transpose[1] << 16 | n >> 3 << 17 | m >> 4 << 24


def scaled_instruction(m: int, n: int, *, a: int = 0, b: int = 0, scale: int = 1, a_id: int = 0, b_id: int = 0,
                       sparse: int = 0, transpose: tuple = (0, 0), k96: int = 0) -> int:
    """An instruction descriptor for the kinds with block scaling."""
    return sparse << 2 | b_id << 4 | a << 7 | b << 10 | transpose[0] << 15 | transpose[1] << 16 | n >> 3 << 17 | \
        scale << 23 | m >> 7 << 27 | a_id << 29 | k96 << 31


def matrix_at(name: str, offset: int, bits: int) -> str:
    """PTX that puts the descriptor of a matrix `offset` bytes into the image into register `name`."""
    return (f"add.u32 %t0, %image, {offset};\nshr.u32 %t0, %t0, 4;\nand.b32 %t0, %t0, 16383;\ncvt.u64.u32 {name}, %t0;\n"
            f"or.b64 {name}, {name}, {bits};")


def kernel(body: str, *, columns: int, image: int, group: int = 1, target: str = "sm_100a", wait: str = "",
           after: str = "", store: str = "st.shared.v4.u32 [%t3], {%v0, %v1, %v2, %v3};") -> str:
    """A kernel of 128 threads. `body` is run by thread 0 (of the pair's first block); %tm is the tensor memory's address,
    %image that of `image` bytes of shared memory, %go is true. `after`: run by everyone before writing back. `store`: puts the
    image's 16 bytes number %t2 / 16 into shared memory."""
    room = max(32, 1 << (columns - 1).bit_length())
    pair = ".reqnctapercluster 2\n" if group == 2 else ""
    fill = []
    for c in range(0, columns, 8):
        regs = ", ".join(f"%v{i}" for i in range(8))
        fill += [f"ld.global.v4.u32 {{%v0, %v1, %v2, %v3}}, [%from + {4 * c}];",
                 f"ld.global.v4.u32 {{%v4, %v5, %v6, %v7}}, [%from + {4 * c + 16}];",
                 f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%mine + {c}], {{{regs}}};"]
    drain = []
    for c in range(0, columns, 8):
        regs = ", ".join(f"%v{i}" for i in range(8))
        drain += [f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {{{regs}}}, [%mine + {c}];", "tcgen05.wait::ld.sync.aligned;",
                  f"st.global.v4.u32 [%from + {4 * c}], {{%v0, %v1, %v2, %v3}};",
                  f"st.global.v4.u32 [%from + {4 * c + 16}], {{%v4, %v5, %v6, %v7}};"]
    cluster_sync = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" if group == 2 else "bar.sync 0;"
    commit = f"tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster.b64 [%bar];" if group == 1 else \
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%bar], %both;"
    first = "mov.u32 %t1, %cluster_ctarank;\nsetp.eq.and.u32 %one, %t1, 0, %one;" if group == 2 else ""
    return f"""
.version 8.8
.target {target}
.address_size 64
.visible .entry k(.param .u64 cells, .param .u64 bytes)
.reqntid 128
{pair}{{
.reg .b32 %v<8>, %t<32>, %tm, %image, %me, %bar, %mine, %slot;
.reg .b64 %from, %bytes, %off, %d<16>, %wide;
.reg .b16 %both;
.reg .pred %one, %go, %no, %p<8>;
.shared .align 1024 .b8 image[{max(image, 16)}];
.shared .align 8 .b64 done;
.shared .align 4 .b32 address;
mov.u32 %me, %tid.x;
mov.u32 %image, image;
mov.u32 %bar, done;
mov.u32 %slot, address;
mov.b16 %both, 3;
setp.eq.u32 %one, %me, 0;
setp.eq.u32 %go, %bar, %bar;
not.pred %no, %go;
@%one mbarrier.init.shared.b64 [%bar], 1;
@%one fence.mbarrier_init.release.cluster;
setp.lt.u32 %p0, %me, 32;
@!%p0 bra allocated;
tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%slot], {room};
tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;
allocated:
mov.u32 %t0, %ctaid.x;
ld.param.u64 %from, [cells];
mad.lo.u32 %t1, %t0, 128, %me;
mad.wide.u32 %from, %t1, {4 * columns}, %from;
ld.param.u64 %bytes, [bytes];
mad.lo.u32 %t1, %t0, {image}, 0;
mad.lo.u32 %t1, %me, 16, %t1;
cvt.u64.u32 %off, %t1;
add.u64 %bytes, %bytes, %off;
mul.lo.u32 %t2, %me, 16;
add.u32 %t3, %image, %t2;
copy:
setp.ge.u32 %p1, %t2, {image};
@%p1 bra copied;
ld.global.v4.u32 {{%v0, %v1, %v2, %v3}}, [%bytes];
{store}
add.u64 %bytes, %bytes, 2048;
add.u32 %t3, %t3, 2048;
add.u32 %t2, %t2, 2048;
bra copy;
copied:
fence.proxy.async.shared::cta;
bar.sync 0;
ld.shared.u32 %tm, [%slot];
shr.u32 %t4, %me, 5;
shl.b32 %t4, %t4, 21;
add.u32 %mine, %tm, %t4;
{chr(10).join(fill)}
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync;
{cluster_sync}
tcgen05.fence::after_thread_sync;
{first}
@!%one bra issued;
{body}
{commit}
issued:
waiting:
mbarrier.try_wait.parity.shared.b64 %p2, [%bar], 0;
@!%p2 bra waiting;
tcgen05.fence::after_thread_sync;
{after}
{chr(10).join(drain)}
{cluster_sync}
@!%p0 bra freed;
tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %tm, {room};
freed:
ret;
}}
"""


@functools.cache
def assembled(text: str, target: str) -> str:
    """What ptxas says against a text; nothing when it takes it or there is no ptxas."""
    command = shutil.which("ptxas")
    if command is None:
        return ""
    done = subprocess.run([command, f"-arch={target}", "-o", "/dev/null", "-"], input=text, text=True, capture_output=True,
                          timeout=60)
    return done.stderr if done.returncode else ""


def run(body: str, cells: np.ndarray, image: np.ndarray | None = None, *, group: int = 1, target: str = "sm_100a",
        assemble: bool = True, after: str = "", store: str = "", **options):
    """Run a kernel; returns (tensor memory afterwards, report). `cells`: [128, columns] words (for a pair [2, 128, columns]);
    `image`: bytes of shared memory (for a pair [2, size])."""
    image = np.zeros(group * 16, np.uint8) if image is None else np.ascontiguousarray(image)
    out = np.array(cells, np.uint32)
    how = {"store": store} if store else {}
    text = kernel(body, columns=cells.shape[-1], image=image.size // group, group=group, target=target, after=after, **how)
    if assemble:
        complaint = assembled(text, target)
        assert not complaint, complaint
    report = simulate(text, grid=group, args=[out, image.reshape(-1)], **options)
    return out, report
