"""Faults around wgmma and mma: waits, fences, commits, descriptors, registers in flight, sparsity and scale selectors."""
from __future__ import annotations

import numpy as np

from tests.sim import wgmmakit as kit
from tests.sim.faults.harness import fault, program
from tileiras.sim import BarrierError, DataRace, Deadlock, InvalidInstruction, Misaligned, OutOfBounds, UninitializedRead
from tileiras.sim.errors import DescriptorError, InFlight, MissingFence, MissingProxyFence, TransactionMismatch, UseAfterExit

RNG = np.random.default_rng(5)
A = RNG.integers(-4, 5, (4, 64, 16)).astype(np.float16)
B = RNG.integers(-4, 5, (4, 8, 16)).astype(np.float16)
DA, DB = kit.descriptor(0, "k", 0, 16, 64, 16), kit.descriptor(2048, "k", 0, 16, 8, 16)
HEAD = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a0, .param .u64 a1, .param .u64 a2)
.reqntid 128
{ .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %d<32>; .reg .b64 %g<3>; .reg .f32 %c<4>; .reg .f32 %z; .reg .b32 %a<4>;
.shared .align 1024 .b8 tile[8192];
ld.param.u64 %g0, [a0]; ld.param.u64 %g1, [a1]; ld.param.u64 %g2, [a2];
mov.u32 %r0, %tid.x; mov.u32 %r1, tile; mul.wide.u32 %d0, %r0, 16; shl.b32 %r2, %r0, 4; add.s64 %d8, %g2, %d0;
setp.lt.u32 %p1, %r0, 16; mov.u32 %r9, 0; mov.f32 %z, 0f00000000;
mov.f32 %c0, %z; mov.f32 %c1, %z; mov.f32 %c2, %z; mov.f32 %c3, %z;
"""
TAIL = """st.global.v4.f32 [%d8], {%c0, %c1, %c2, %c3};
ret; }
"""
MMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%c0, %c1, %c2, %c3}"


def images(of, size):
    return np.concatenate([kit.image(x.view(np.uint16), "k", 0, 16)[:size] for x in of])


def arguments():
    return [images(A, 2048), images(B, 256), np.zeros((128, 4), np.float32)]


def products(args):
    np.testing.assert_array_equal(args[2], kit.spread(np.einsum("kmi,kni->mn", A.astype(np.float32), B.astype(np.float32))))


# ---- four products, two stages of shared memory, one group in flight

RING = HEAD + f"""
LOOP:
 and.b32 %r3, %r9, 1; shl.b32 %r3, %r3, 12; add.u32 %r4, %r1, %r3; add.u32 %r5, %r4, %r2;
 wgmma.wait_group.sync.aligned 1; // free
 bar.sync 0;
 mad.wide.u32 %d1, %r9, 2048, %g0; add.s64 %d1, %d1, %d0; ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%d1];
 st.shared.v4.b32 [%r5], {{%r10, %r11, %r12, %r13}};
 @!%p1 bra FULL;
 mad.wide.u32 %d1, %r9, 256, %g1; add.s64 %d1, %d1, %d0; ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%d1];
 st.shared.v4.b32 [%r5 + 2048], {{%r10, %r11, %r12, %r13}};
FULL:
 fence.proxy.async.shared::cta;
 bar.sync 0; // full
 cvt.u64.u32 %d2, %r4; shr.u64 %d2, %d2, 4; add.s64 %d3, %d2, {DA}; add.s64 %d4, %d2, {DB};
 wgmma.fence.sync.aligned;
 {MMA}, %d3, %d4, 1, 1, 1, 0, 0;
 wgmma.commit_group.sync.aligned;
 add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 4; @%p2 bra LOOP;
 wgmma.wait_group.sync.aligned 0; // last
""" + TAIL
ring = program("a ring of products", RING, arguments, check=products)
FREE, LAST = "wgmma.wait_group.sync.aligned 1; // free", "wgmma.wait_group.sync.aligned 0; // last"
COMMIT = "wgmma.commit_group.sync.aligned;"
fault(ring, "a stage is filled again without a wait", (FREE, ""), InFlight)
fault(ring, "the wait for a stage leaves one group too many", (FREE, FREE.replace("1;", "2;")), InFlight)
fault(ring, "no wait at the end", (LAST, ""), InFlight)
fault(ring, "the last wait leaves a group in flight", (LAST, LAST.replace("0;", "1;")), InFlight)
fault(ring, "nothing is committed", (COMMIT, ""), InFlight)
fault(ring, "the last product isn't committed", (COMMIT, f"setp.eq.u32 %p3, %r9, 3; @%p3 bra S;\n {COMMIT}\nS:"), InFlight)
fault(ring, "no fence for the registers", ("wgmma.fence.sync.aligned;", ""), MissingFence)
fault(ring, "no fence between the proxies", (" fence.proxy.async.shared::cta;", ""), MissingProxyFence)
fault(ring, "no barrier behind the stores", ("bar.sync 0; // full", ""), DataRace, MissingProxyFence)
fault(ring, "the accumulator is read in flight", (COMMIT, f"{COMMIT} add.f32 %z, %c1, %c1;"), InFlight)
fault(ring, "the accumulator is cleared in flight", (COMMIT, f"{COMMIT} mov.f32 %c2, 0f00000000;"), InFlight)
fault(ring, "the accumulator is stored too early", (f"{LAST}\n{TAIL}", f"{TAIL.splitlines()[0]}\n{LAST}\nret; }}\n"), InFlight)
fault(ring, "a product of another shape into the accumulator in flight",
      (COMMIT, f"{MMA.replace('k16.f32.f16.f16', 'k8.f32.tf32.tf32')}, %d3, %d4, 1, 1, 1; {COMMIT}"), InFlight)
fault(ring, "reserved bits of a descriptor", (f"add.s64 %d4, %d2, {DB};", f"add.s64 %d4, %d2, {DB | 1 << 52};"), DescriptorError)
fault(ring, "a base offset without swizzling", (f"add.s64 %d4, %d2, {DB};", f"add.s64 %d4, %d2, {DB | 1 << 49};"), DescriptorError)
fault(ring, "a swizzle bit set", (f"add.s64 %d4, %d2, {DB};", f"or.b64 %d4, %d2, {DB | 1 << 62};"), UninitializedRead)
fault(ring, "the leading offset twice as large",
      (f"add.s64 %d3, %d2, {DA};", f"add.s64 %d3, %d2, {DA + (DA >> 16 & 0x3FFF) * 65536};"), UninitializedRead)
fault(ring, "the tile leaves shared memory", (f"add.s64 %d3, %d2, {DA};", f"add.s64 %d3, %d2, {DA + (7 << 8)};"), OutOfBounds)
fault(ring, "the descriptor without its shift", ("shr.u64 %d2, %d2, 4;", ""), DescriptorError, OutOfBounds)
fault(ring, "half of B isn't written", ("%p1, %r0, 16;", "%p1, %r0, 8;"), UninitializedRead)
fault(ring, "descriptors that differ between threads",
      ("cvt.u64.u32 %d2, %r4;", "and.b32 %r6, %r0, 64; add.u32 %r6, %r6, %r4; cvt.u64.u32 %d2, %r6;"),
      InvalidInstruction)
fault(ring, "an accumulator without a value", ("mov.f32 %c3, %z;", ""), UninitializedRead)
fault(ring, "a warp leaves the loop early",
      ("setp.lt.u32 %p2, %r9, 4;",
       "shr.u32 %r7, %r0, 5; setp.eq.u32 %p4, %r7, 3; selp.u32 %r8, 3, 4, %p4; setp.lt.u32 %p2, %r9, %r8;"),
      InvalidInstruction, Deadlock)
fault(ring, "only three warps multiply", ((" wgmma.fence.sync", " setp.ge.u32 %p4, %r0, 96; @%p4 bra OUT;\n wgmma.fence.sync"),
                                       (LAST, f"OUT: {LAST}")), Deadlock, InvalidInstruction)
fault(ring, "a target without wgmma", (".target sm_90a", ".target sm_90"), InvalidInstruction)


# ---- a warp that copies ahead, a warpgroup that multiplies: two stages with full and empty barriers

FED = HEAD.replace(".reqntid 128", ".reqntid 160").replace("tile[8192];", "tile[8192]; .shared .align 8 .b64 bars[4];") + f"""
 mov.u32 %r20, bars; setp.ne.u32 %p5, %r0, 0; @%p5 bra READY;
 mbarrier.init.shared::cta.b64 [bars], 1; mbarrier.init.shared::cta.b64 [bars + 8], 1;
 mbarrier.init.shared::cta.b64 [bars + 16], 128; mbarrier.init.shared::cta.b64 [bars + 24], 128;
 fence.mbarrier_init.release.cluster;
READY:
 bar.sync 0;
 setp.lt.u32 %p5, %r0, 128; @%p5 bra LOOP;
 setp.ne.u32 %p5, %r0, 128; @%p5 bra END;
COPY:
 and.b32 %r3, %r9, 1; shr.u32 %r7, %r9, 1; xor.b32 %r7, %r7, 1; mad.lo.u32 %r4, %r3, 4096, %r1; mad.lo.u32 %r21, %r3, 8, %r20;
EMPTY: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r21 + 16], %r7; // empty
 @!%p3 bra EMPTY;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r21], 2304;
 mad.wide.u32 %d1, %r9, 2048, %g0; mad.wide.u32 %d5, %r9, 256, %g1; add.u32 %r5, %r4, 2048;
 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r4], [%d1], 2048, [%r21];
 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r5], [%d5], 256, [%r21];
 add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 4; @%p2 bra COPY;
 bra END;
LOOP:
 and.b32 %r3, %r9, 1; shr.u32 %r7, %r9, 1; mad.lo.u32 %r4, %r3, 4096, %r1; mad.lo.u32 %r21, %r3, 8, %r20;
FULL: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r21], %r7; // full
 @!%p3 bra FULL;
 cvt.u64.u32 %d2, %r4; shr.u64 %d2, %d2, 4; add.s64 %d3, %d2, {DA}; add.s64 %d4, %d2, {DB};
 wgmma.fence.sync.aligned;
 {MMA}, %d3, %d4, 1, 1, 1, 0, 0;
 wgmma.commit_group.sync.aligned;
 wgmma.wait_group.sync.aligned 0; // done
 mbarrier.arrive.shared::cta.b64 _, [%r21 + 16];
 add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 4; @%p2 bra LOOP;
""" + TAIL.replace("ret;", "END: ret;")
fed = program("copies feed products", FED, arguments, check=products)
DONE, FREED = "wgmma.wait_group.sync.aligned 0; // done", "mbarrier.arrive.shared::cta.b64 _, [%r21 + 16];"
fault(fed, "a stage is given back before its product is waited for", ((DONE, ""), (FREED, f"{FREED} {DONE}")), InFlight)
fault(fed, "the wait leaves the newest product in flight",
      ((DONE, DONE.replace("0;", "1;")), (TAIL.splitlines()[0], f"{LAST} {TAIL.splitlines()[0]}")), InFlight)
fault(fed, "the copies don't wait for an empty stage", (" @!%p3 bra EMPTY;", ""), InFlight, BarrierError)
fault(fed, "the products don't wait for a full stage", (" @!%p3 bra FULL;", ""), InFlight, UninitializedRead)
fault(fed, "the bytes of B aren't expected", ("_, [%r21], 2304;", "_, [%r21], 2048;"), TransactionMismatch, InFlight,
      UninitializedRead)
fault(fed, "one thread too few gives a stage back",
      (("[bars + 16], 128;", "[bars + 16], 127;"), ("[bars + 24], 128;", "[bars + 24], 127;")), BarrierError, InFlight)
fault(fed, "a product reads the other stage",
      ("cvt.u64.u32 %d2, %r4;", "sub.u32 %r8, %r4, %r1; xor.b32 %r8, %r8, 4096; add.u32 %r8, %r8, %r1; cvt.u64.u32 %d2, %r8;"),
      InFlight, UninitializedRead)
fault(fed, "the copies of a stage tell the other stage's barrier",
      ("[%r5], [%d5], 256, [%r21];", "[%r5], [%d5], 256, [bars + 8];"), TransactionMismatch, InFlight)


# ---- A from registers, changed between two products

HELD = HEAD + f"""
 ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%g1]; add.u32 %r5, %r1, %r2; add.s64 %d1, %g1, %d0;
 @!%p1 bra FULL;
 ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%d1]; st.shared.v4.b32 [%r5], {{%r10, %r11, %r12, %r13}};
FULL:
 fence.proxy.async.shared::cta; bar.sync 0;
 mul.wide.u32 %d5, %r0, 16; add.s64 %d5, %d5, %g0; ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%d5];
 cvt.u64.u32 %d2, %r1; shr.u64 %d2, %d2, 4; add.s64 %d4, %d2, {DB - 128};
 wgmma.fence.sync.aligned;
 {MMA}, {{%a0, %a1, %a2, %a3}}, %d4, 1, 1, 1, 0;
 wgmma.commit_group.sync.aligned;
 wgmma.wait_group.sync.aligned 0; // first
 ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%d5 + 2048];
 add.f32 %c0, %c0, 0f3F800000;
 wgmma.fence.sync.aligned; // again
 {MMA}, {{%a0, %a1, %a2, %a3}}, %d4, 1, 1, 1, 0;
 wgmma.commit_group.sync.aligned;
 wgmma.wait_group.sync.aligned 0; // last
""" + TAIL


def fragments():
    out = np.empty((2, 128, 8), np.float16)
    for lane in range(128):
        for i in range(8):
            row, column = kit.place(lane, i % 4 // 2 * 2)[0], lane % 4 * 2 + i % 2 + i // 4 * 8
            out[:, lane, i] = A[:2, row, column]
    return [out.view(np.uint32).reshape(2, 128, 4), images(B[:1], 256), np.zeros((128, 4), np.float32)]


def sums(args):
    want = kit.spread(np.einsum("kmi,ni->mn", A[:2].astype(np.float32), B[0].astype(np.float32)))
    want[:, 0] += 1
    np.testing.assert_array_equal(args[2], want)


held = program("A in registers", HELD, fragments, check=sums)
FIRST, AGAIN = "wgmma.wait_group.sync.aligned 0; // first", "wgmma.fence.sync.aligned; // again"
fault(held, "A's registers are loaded again in flight", (FIRST, ""), InFlight)
fault(held, "no fence behind the loads", (AGAIN, ""), MissingFence)
fault(held, "the fence before the loads", ((AGAIN, ""), (FIRST, f"{FIRST} {AGAIN}")), MissingFence)
fault(held, "an arithmetic change of A behind the commit", ((FIRST, f"xor.b32 %a1, %a1, 0; {FIRST}"),), InFlight)
fault(held, "one register of A isn't loaded", ("{%a0, %a1, %a2, %a3}, [%d5];", "{%a0, %a1, %a2, %r14}, [%d5];"), UninitializedRead)
fault(held, "the kernel ends with a product in flight", ((LAST, ""), (TAIL.splitlines()[0], "")), InFlight, UseAfterExit)
fault(held, "the kernel ends with a product that nobody committed",
      ((COMMIT, "", 2), (FIRST, ""), (LAST, ""), (TAIL.splitlines()[0], ""), ("add.f32 %c0, %c0, 0f3F800000;", ""),
       (" ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%d5 + 2048];\n", "")), InFlight, UseAfterExit)


# ---- mma.sync, ldmatrix, sparsity, block scales

WARP = """.version 9.0
.target sm_120a
.address_size 64
.visible .entry k(.param .u64 a0, .param .u64 a1)
.reqntid 32
{ .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b16 %h<4>; .reg .b64 %d<32>; .reg .b64 %g<2>; .reg .f32 %c<4>;
.shared .align 128 .b8 tile[1024];
ld.param.u64 %g0, [a0]; ld.param.u64 %g1, [a1];
mov.u32 %r0, %tid.x; mov.u32 %r1, tile; shl.b32 %r2, %r0, 4; add.u32 %r3, %r1, %r2; mul.wide.u32 %d0, %r0, 16;
add.s64 %d1, %g0, %d0; ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%d1]; st.shared.v4.b32 [%r3], {%r4, %r5, %r6, %r7};
bar.warp.sync -1;
mov.f32 %c0, 0f00000000;
BODY
add.s64 %d2, %g1, %d0; st.global.v4.f32 [%d2], {%c0, %c1, %c2, %c3};
ret; }
"""


def tile():
    return [np.resize(np.array([1, 0, 2, 1], np.float16), 256), np.zeros((32, 4), np.float32)]


LOADED = WARP.replace("BODY", """
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r3];
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%c0, %c1, %c2, %c3}, {%r10, %r11, %r12, %r13}, {%r10, %r12},
 {%c0, %c0, %c0, %c0};
""")
loaded = program("ldmatrix and mma", LOADED, tile)
fault(loaded, "a row that isn't 16-byte aligned", ("[%r3];\nmma", "[%r3 + 8];\nmma"), Misaligned)
fault(loaded, "rows behind the end of shared memory", ("[%r3];\nmma", "[%r3 + 528];\nmma"), OutOfBounds)
fault(loaded, "half the rows aren't written",
      ("st.shared.v4.b32", "setp.lt.u32 %p1, %r0, 16; @%p1 st.shared.v4.b32"), UninitializedRead)
fault(loaded, "half a warp multiplies", (("mma.sync", "setp.lt.u32 %p1, %r0, 16; @!%p1 bra OUT;\nmma.sync"),
                                         ("add.s64 %d2", "OUT: bar.warp.sync -1; add.s64 %d2")), Deadlock, InvalidInstruction)
fault(loaded, "a shape that isn't there", ("m16n8k16", "m16n8k32"), InvalidInstruction)
fault(loaded, "an accumulator without a value", ("{%c0, %c0, %c0, %c0}", "{%c0, %c0, %c0, %c3}"), UninitializedRead)

SPARSE = WARP.replace("BODY", """
mov.b32 %r8, 0x44444444;
mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%c0, %c1, %c2, %c3}, {%r4, %r5}, {%r6, %r7},
 {%c0, %c0, %c0, %c0}, %r8, 0;
""")
sparse = program("mma.sp", SPARSE, tile)
fault(sparse, "one column twice", ("0x44444444", "0x44445444"), InvalidInstruction)
fault(sparse, "columns in falling order", ("0x44444444", "0x14444444"), InvalidInstruction)
fault(sparse, "a selector that the shape doesn't have", ("%r8, 0;", "%r8, 4;"), InvalidInstruction)
fault(sparse, "metadata without a value", ("mov.b32 %r8, 0x44444444;", ""), UninitializedRead)

SCALED = WARP.replace("BODY", """
mov.b32 %r8, 0x7F7F7F7F; mov.b16 %h0, 2; mov.b16 %h1, 1;
mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0 {%c0, %c1, %c2, %c3},
 {%r4, %r5, %r6, %r7}, {%r4, %r5}, {%c0, %c0, %c0, %c0}, %r8, {%h0, %h1}, %r8, {0, 3};
""")
scaled = program("mma with block scales", SCALED, tile)
fault(scaled, "a byte selector between two pairs", ("mov.b16 %h0, 2;", "mov.b16 %h0, 1;"), InvalidInstruction)
fault(scaled, "a thread pair that isn't there", ("mov.b16 %h1, 1;", "mov.b16 %h1, 2;"), InvalidInstruction)
fault(scaled, "the wrong type of scale factors", ("ue8m0", "ue4m3"), InvalidInstruction)
fault(scaled, "scale factors without a value", ("mov.b32 %r8, 0x7F7F7F7F;", ""), UninitializedRead)
