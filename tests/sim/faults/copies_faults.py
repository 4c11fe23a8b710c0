"""Faults around bulk and tensor copies, their mbarriers, groups, fences and maps."""
from __future__ import annotations

import numpy as np

from tests.sim.asynckit import kernel
from tests.sim.faults.harness import fault, program
from tests.sim.tmakit import argument
from tileiras.layout.tensormap import tiled
from tileiras.sim import BarrierError, DataRace, Deadlock, Misaligned, OutOfBounds, UninitializedRead
from tileiras.sim.errors import DescriptorError, InFlight, InvalidInstruction, MissingProxyFence, TransactionMismatch, UseAfterExit

TILES = 8


def words(n):
    return np.arange(1, n + 1, dtype=np.uint32)


def same(args):
    np.testing.assert_array_equal(args[1], args[0])


# ---- a ring of two stages, filled by bulk copies of one thread, emptied by a warp

RING = kernel(f"""
 setp.ne.u32 %p1, %t, 0; @%p1 bra READY;
 mbarrier.init.shared::cta.b64 [full], 1; mbarrier.init.shared::cta.b64 [full + 8], 1;
 mbarrier.init.shared::cta.b64 [empty], 32; mbarrier.init.shared::cta.b64 [empty + 8], 32;
 fence.mbarrier_init.release.cluster;
READY:
 bar.sync 0;
 mov.u32 %r9, 0; mov.u32 %r10, 0; mov.u32 %r11, 0;
 setp.eq.u32 %p1, %w, 1; @%p1 bra CONSUME;
 setp.ne.u32 %p1, %t, 0; @%p1 bra DONE;
PRODUCE:
 mov.u32 %r13, full; mad.lo.u32 %r13, %r9, 8, %r13; mov.u32 %r14, empty; mad.lo.u32 %r14, %r9, 8, %r14;
 xor.b32 %r15, %r10, 1;
PW: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r14], %r15;
 @!%p2 bra PW;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r13], 256;
 mov.u32 %r16, s; mad.lo.u32 %r16, %r9, 256, %r16;
 mul.wide.u32 %d1, %r11, 256; add.u64 %d1, %d1, %g0;
 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r16], [%d1], 256, [%r13];
 add.u32 %r11, %r11, 1; xor.b32 %r9, %r9, 1; setp.eq.u32 %p3, %r9, 0; @%p3 xor.b32 %r10, %r10, 1;
 setp.lt.u32 %p4, %r11, {TILES}; @%p4 bra PRODUCE;
 bra DONE;
CONSUME:
 mov.u32 %r13, full; mad.lo.u32 %r13, %r9, 8, %r13; mov.u32 %r14, empty; mad.lo.u32 %r14, %r9, 8, %r14;
 mov.u32 %r16, s; mad.lo.u32 %r16, %r9, 256, %r16; mad.lo.u32 %r16, %lane, 8, %r16;
CW: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r13], %r10;
 @!%p2 bra CW;
 ld.shared.v2.u32 {{%r1, %r2}}, [%r16];
 fence.proxy.async.shared::cta;
 mbarrier.arrive.shared::cta.b64 _, [%r14];
 mul.wide.u32 %d1, %r11, 256; add.u64 %d1, %d1, %g1; mul.wide.u32 %d2, %lane, 8; add.u64 %d1, %d1, %d2;
 st.global.v2.u32 [%d1], {{%r1, %r2}};
 add.u32 %r11, %r11, 1; xor.b32 %r9, %r9, 1; setp.eq.u32 %p3, %r9, 0; @%p3 xor.b32 %r10, %r10, 1;
 setp.lt.u32 %p4, %r11, {TILES}; @%p4 bra CONSUME;
DONE:
""", ".shared .align 128 .b8 s[512]; .shared .align 8 .b64 full[2]; .shared .align 8 .b64 empty[2];", threads=64)

ring = program("bulk ring", RING, lambda: [words(64 * TILES), np.zeros(64 * TILES, np.uint32)], check=same)
fault(ring, "a target without bulk copies", (".target sm_100a", ".target sm_80"), InvalidInstruction)
fault(ring, "the consumer doesn't wait",
      ("CW: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r13], %r10;\n @!%p2 bra CW;", ""),
      InFlight, UninitializedRead, DataRace)
fault(ring, "the producer doesn't wait",
      ("PW: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r14], %r15;\n @!%p2 bra PW;", ""), InFlight, DataRace, BarrierError)
fault(ring, "16 bytes too many expected", ("_, [%r13], 256;", "_, [%r13], 272;"), TransactionMismatch)
fault(ring, "16 bytes too few expected", ("_, [%r13], 256;", "_, [%r13], 240;"), TransactionMismatch)
fault(ring, "half a tile copied", ("[%d1], 256, [%r13];", "[%d1], 128, [%r13];"), TransactionMismatch)
fault(ring, "one arrival too few", ("[empty], 32;", "[empty], 33;"), Deadlock)
fault(ring, "one arrival too many", ("[empty], 32;", "[empty], 31;"), BarrierError)
fault(ring, "the consumer's parity is wrong", ("[%r13], %r10;", "[%r13], %r15;"), InFlight, UninitializedRead, DataRace)
fault(ring, "the consumer starts in the wrong phase", ("@%p1 bra CONSUME;", "@%p1 mov.u32 %r10, 1; @%p1 bra CONSUME;"),
      InFlight, UninitializedRead, DataRace, Deadlock)
fault(ring, "the producer's parity is wrong", ("xor.b32 %r15, %r10, 1;", "mov.u32 %r15, %r10;"), Deadlock)
fault(ring, "no fence behind the initialisation", ("fence.mbarrier_init.release.cluster;", ""), MissingProxyFence)
fault(ring, "no fence between the loads and the copy that overwrites them", ("fence.proxy.async.shared::cta;", ""),
      MissingProxyFence)
fault(ring, "no barrier behind the initialisation", ("READY:\n bar.sync 0;", "READY:"), DataRace, BarrierError)
fault(ring, "the consumer never gives a stage back", ("mbarrier.arrive.shared::cta.b64 _, [%r14];", ""), Deadlock)
fault(ring, "a stage is given back before it is read",
      (("ld.shared.v2.u32 {%r1, %r2}, [%r16];", "mbarrier.arrive.shared::cta.b64 _, [%r14];//"),
       ("mbarrier.arrive.shared::cta.b64 _, [%r14];\n mul", "ld.shared.v2.u32 {%r1, %r2}, [%r16];\n mul")), InFlight, DataRace)
fault(ring, "the arrival that gives a stage back is relaxed",
      ("mbarrier.arrive.shared::cta.b64 _, [%r14];", "mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%r14];"), DataRace, InFlight)
fault(ring, "the wait for a stage is relaxed",
      ("mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r13]", "mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p2, [%r13]"),
      DataRace, InFlight)
fault(ring, "the copy signals the wrong barrier", ("256, [%r13];\n add", "256, [%r14];\n add"), TransactionMismatch)
fault(ring, "both stages in one place",
      ("mad.lo.u32 %r16, %r9, 256, %r16;\n mul", "//\n mul"), InFlight, DataRace, UninitializedRead)
fault(ring, "barriers initialized twice", ("mbarrier.init.shared::cta.b64 [full + 8], 1;",
                                           "mbarrier.init.shared::cta.b64 [full], 1; mbarrier.init.shared::cta.b64 [full + 8], 1;"),
      BarrierError)
fault(ring, "a barrier that nobody initialized", ("mbarrier.init.shared::cta.b64 [full + 8], 1;", ""), BarrierError)
fault(ring, "a barrier invalidated too early", ("@!%p2 bra CW;", "@!%p2 bra CW; mbarrier.inval.shared::cta.b64 [%r13];"),
      BarrierError)
fault(ring, "the source isn't aligned", ("add.u64 %d1, %d1, %g0;", "add.u64 %d1, %d1, %g0; add.u64 %d1, %d1, 8;"), Misaligned)
fault(ring, "the destination isn't aligned", ("complete_tx::bytes [%r16]", "complete_tx::bytes [%r16 + 8]"), Misaligned)
fault(ring, "one tile too many", (f"setp.lt.u32 %p4, %r11, {TILES};", f"setp.le.u32 %p4, %r11, {TILES};", 2), OutOfBounds)
fault(ring, "the kernel ends before the last tile", ("setp.lt.u32 %p4, %r11, 8; @%p4 bra CONSUME;",
                                                    "setp.lt.u32 %p4, %r11, 7; @%p4 bra CONSUME;"), UseAfterExit, BarrierError)
fault(ring, "a store over a live barrier", ("bar.sync 0;", "bar.sync 0; mov.u32 %r1, empty; st.shared.u32 [%r1], 0;"), BarrierError)
fault(ring, "a load of a live barrier", ("bar.sync 0;", "bar.sync 0; mov.u32 %r1, empty; ld.shared.u32 %r1, [%r1];"),
      BarrierError, UninitializedRead)


# ---- tiles through shared memory: a load, work in place, a store, three times in one buffer

INOUT = kernel("""
 setp.ne.u32 %p1, %t, 0; @%p1 bra READY;
 mbarrier.init.shared::cta.b64 [bar], 1;
 fence.mbarrier_init.release.cluster;
READY:
 bar.sync 0;
 mov.u32 %r9, 0; mov.u32 %r16, s; mad.lo.u32 %r16, %t, 8, %r16;
LOOP:
 mul.wide.u32 %d1, %r9, 512; add.u64 %d2, %d1, %g1; add.u64 %d1, %d1, %g0;
 setp.ne.u32 %p1, %t, 0;
 @%p1 bra WAIT;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [%d1], 512, [bar];
WAIT: and.b32 %r10, %r9, 1;
TRY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r10;
 @!%p2 bra TRY;
 ld.shared.v2.u32 {%r1, %r2}, [%r16]; add.u32 %r1, %r1, 1; add.u32 %r2, %r2, 1;
 st.shared.v2.u32 [%r16], {%r1, %r2};
 fence.proxy.async.shared::cta;
 bar.sync 0;
 @%p1 bra NEXT;
 cp.async.bulk.global.shared::cta.bulk_group [%d2], [s], 512;
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group.read 0;
NEXT:
 bar.sync 0;
 add.u32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, 3; @%p3 bra LOOP;
 @%p1 bra END;
 cp.async.bulk.wait_group 0;
END:
""", ".shared .align 128 .b8 s[512]; .shared .align 8 .b64 bar;", threads=64)


def incremented(args):
    np.testing.assert_array_equal(args[1], args[0] + 1)


inout = program("tiles in place", INOUT, lambda: [words(384), np.zeros(384, np.uint32)], check=incremented)
fault(inout, "no fence between the stores and the copy", ("fence.proxy.async.shared::cta;", ""), MissingProxyFence)
fault(inout, "the fence is behind the barrier, in other threads", ("fence.proxy.async.shared::cta;\n bar.sync 0;",
       "bar.sync 0;\n setp.eq.u32 %p5, %w, 1; @%p5 fence.proxy.async.shared::cta;"),
      MissingProxyFence)
fault(inout, "no barrier between the stores and the copy", ("shared::cta;\n bar.sync 0;\n @%p1", "shared::cta;\n @%p1"),
      DataRace, MissingProxyFence)
fault(inout, "the copy's group isn't committed", ("cp.async.bulk.commit_group;", ""), InFlight, DataRace, UseAfterExit)
fault(inout, "nobody waits for the copy to read", ("cp.async.bulk.wait_group.read 0;", ""), InFlight, DataRace)
fault(inout, "one group may still be reading", ("cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group.read 1;"),
      InFlight, DataRace)
fault(inout, "the phase isn't counted", ("and.b32 %r10, %r9, 1;", "mov.u32 %r10, 0;"), InFlight, UninitializedRead, DataRace,
      Deadlock)
fault(inout, "the tile is read without a wait",
      ("TRY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r10;\n @!%p2 bra TRY;", ""), InFlight, UninitializedRead)
fault(inout, "every thread of a warp copies", ("setp.ne.u32 %p1, %t, 0;\n @%p1 bra WAIT;",
                                              "setp.gt.u32 %p1, %t, 1;\n @%p1 bra WAIT;"),
      BarrierError, TransactionMismatch, DataRace, InFlight)


# ---- a map made by the kernel, a swizzled tensor load by it

def replacements():
    fields = [("global_address", "b64", "%g0"), ("rank", "b32", "1"), ("box_dim", "b32", "0, 32"), ("box_dim", "b32", "1, 8"),
              ("global_dim", "b32", "0, 64"), ("global_dim", "b32", "1, 16"), ("global_stride", "b64", "0, 128"),
              ("element_stride", "b32", "0, 1"), ("element_stride", "b32", "1, 1"), ("elemtype", "b32", "1"),
              ("interleave_layout", "b32", "0"), ("swizzle_mode", "b32", "2"), ("fill_mode", "b32", "0")]
    return "".join(f" tensormap.replace.tile.{f}.shared::cta.b1024.{t} [map], {v};\n" for f, t, v in fields)


MADE = kernel("""
 setp.lt.u32 %p1, %t, 32; @!%p1 bra READY;
 mov.u32 %r1, map; mad.lo.u32 %r1, %t, 4, %r1;
 st.shared.u32 [%r1], 0;
 bar.warp.sync -1;
 setp.ne.u32 %p1, %t, 0; @%p1 bra COPY;
""" + replacements() + """
COPY:
 bar.warp.sync -1;
 tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%g2], [map], 128;
 setp.ne.u32 %p1, %t, 0; @%p1 bra READY;
 fence.proxy.tensormap::generic.acquire.gpu [%g2], 128;
 mbarrier.init.shared::cta.b64 [bar], 1;
 fence.mbarrier_init.release.cluster;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
 mov.u32 %r2, 16; mov.u32 %r3, 4;
 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [s], [%g2, {%r2, %r3}], [bar];
READY:
 bar.sync 0;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
 @!%p2 bra WAIT;
 mul.lo.u32 %r4, %t, 8; shr.u32 %r5, %r4, 3; and.b32 %r5, %r5, 0x30; xor.b32 %r5, %r5, %r4; mov.u32 %r6, s;
 add.u32 %r5, %r5, %r6;
 ld.shared.v2.u32 {%r1, %r2}, [%r5];
 mul.wide.u32 %d1, %t, 8; add.u64 %d1, %d1, %g1;
 st.global.v2.u32 [%d1], {%r1, %r2};
""", ".shared .align 128 .b8 map[128]; .shared .align 1024 .b8 s[1024]; .shared .align 8 .b64 bar;", pointers=3, threads=64)


def window(args):
    np.testing.assert_array_equal(args[1].reshape(8, 32), args[0].reshape(16, 64)[4:12, 16:48])


made = program("a map made by the kernel", MADE,
               lambda: [np.arange(1024, dtype=np.uint16), np.zeros(256, np.uint16), np.zeros(128, np.uint8)], check=window)
LOADED = "expect_tx.shared::cta.b64 _, [bar], 512;"
fault(made, "the map isn't acquired", ("fence.proxy.tensormap::generic.acquire.gpu [%g2], 128;", ""), MissingProxyFence)
fault(made, "the map is copied by ordinary stores",
      (" tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%g2], [map], 128;",
       " mov.u32 %r1, map; mad.lo.u32 %r1, %t, 4, %r1; ld.shared.u32 %r2, [%r1]; mul.wide.u32 %d1, %t, 4;\n"
       " add.u64 %d1, %d1, %g2; st.global.u32 [%d1], %r2; bar.warp.sync -1;"), MissingProxyFence)
fault(made, "the map is changed behind its release",
      ("mbarrier.init.shared::cta.b64 [bar], 1;",
       "tensormap.replace.tile.global_dim.global.b1024.b32 [%g2], 0, 64; mbarrier.init.shared::cta.b64 [bar], 1;"),
      MissingProxyFence)
fault(made, "the swizzle is narrower than the box", ("swizzle_mode.shared::cta.b1024.b32 [map], 2;",
                                                     "swizzle_mode.shared::cta.b1024.b32 [map], 1;"), DescriptorError)
fault(made, "the map has one dimension more", ("rank.shared::cta.b1024.b32 [map], 1;", "rank.shared::cta.b1024.b32 [map], 2;"),
      DescriptorError)
fault(made, "the box is larger than expected", ("box_dim.shared::cta.b1024.b32 [map], 1, 8;",
                                                "box_dim.shared::cta.b1024.b32 [map], 1, 9;"), TransactionMismatch)
fault(made, "the tensor is larger than its memory", (("[map], 1, 16;", "[map], 1, 64;"), ("mov.u32 %r3, 4;", "mov.u32 %r3, 40;")),
      OutOfBounds)
fault(made, "a box row of 24 bytes",
      ("box_dim.shared::cta.b1024.b32 [map], 0, 32;", "box_dim.shared::cta.b1024.b32 [map], 0, 12;"),
      DescriptorError)
fault(made, "an element stride without interleave", ("element_stride.shared::cta.b1024.b32 [map], 0, 1;",
                                                     "element_stride.shared::cta.b1024.b32 [map], 0, 2;"), DescriptorError)
fault(made, "interleave with two dimensions", ("interleave_layout.shared::cta.b1024.b32 [map], 0;",
                                               "interleave_layout.shared::cta.b1024.b32 [map], 1;"), DescriptorError)
fault(made, "atomicity without the 128-byte swizzle",
      ("fill_mode.shared::cta.b1024.b32 [map], 0;",
       "fill_mode.shared::cta.b1024.b32 [map], 0; tensormap.replace.tile.swizzle_atomicity.shared::cta.b1024.b32 [map], 1;"),
      DescriptorError)
fault(made, "reserved bits of the map are set",
      ("bar.warp.sync -1;\n tensormap", "st.shared.u32 [map + 60], 7; bar.warp.sync -1;\n tensormap"),
      DescriptorError)
fault(made, "the box isn't at 128 bytes", ("bytes [s], [%g2", "bytes [s + 64], [%g2"), Misaligned)
fault(made, "three coordinates for two dimensions", ("[%g2, {%r2, %r3}]", "[%g2, {%r2, %r3, %r3}]"), InvalidInstruction)
fault(made, "the map is read in shared memory", ("[%g2, {%r2, %r3}]", "[%d5, {%r2, %r3}]"), OutOfBounds, UninitializedRead)
fault(made, "the map is half cleared", ("setp.lt.u32 %p1, %t, 32;", "setp.lt.u32 %p1, %t, 32; setp.lt.u32 %p1, %t, 16;"),
      UninitializedRead, Deadlock)


COPIED = MADE.replace(
    " tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%g2], [map], 128;",
    " mov.u32 %r1, map; mad.lo.u32 %r1, %t, 4, %r1; ld.shared.u32 %r2, [%r1]; mul.wide.u32 %d1, %t, 4;\n"
    " add.u64 %d1, %d1, %g2; st.global.u32 [%d1], %r2;\n fence.proxy.tensormap::generic.release.gpu;\n bar.warp.sync -1;")
stores = program("a map copied by stores", COPIED,
                 lambda: [np.arange(1024, dtype=np.uint16), np.zeros(256, np.uint16), np.zeros(128, np.uint8)], check=window)
fault(stores, "no release", ("fence.proxy.tensormap::generic.release.gpu;", ""), MissingProxyFence)
fault(stores, "no acquire", ("fence.proxy.tensormap::generic.acquire.gpu [%g2], 128;", ""), MissingProxyFence)
fault(stores, "the acquire comes before the stores",
      (("fence.proxy.tensormap::generic.acquire.gpu [%g2], 128;", ""),
       (" mov.u32 %r1, map; mad.lo.u32 %r1, %t, 4, %r1; ld.shared",
        " fence.proxy.tensormap::generic.acquire.gpu [%g2], 128; mov.u32 %r1, map; mad.lo.u32 %r1, %t, 4, %r1; ld.shared")),
      MissingProxyFence)


# ---- a tensor store of what a warp computed

STORED = kernel("""
 mov.u32 %r1, s; mad.lo.u32 %r1, %t, 16, %r1;
 st.shared.v4.u32 [%r1], {%t, %t, %t, %t};
 fence.proxy.async.shared::cta;
 bar.sync 0;
 setp.ne.u32 %p1, %t, 0; @%p1 bra DONE;
 mov.u32 %r2, 8; mov.u32 %r3, 2; mov.b64 %d1, m; cvta.param.u64 %d1, %d1;
 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d1, {%r2, %r3}], [s];
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group 0;
DONE:
 bar.sync 0;
 mul.wide.u32 %d2, %t, 4; add.u64 %d3, %d2, %g0; add.u64 %d2, %d2, %g1;
 ld.global.u32 %r4, [%d3 + 288];
 st.global.u32 [%d2], %r4;
""", ".shared .align 128 .b8 s[512];").replace(".entry k(", ".entry k(.param .align 64 .b8 m[128], ")


def arguments():
    target = np.zeros((8, 32), np.uint32)
    return [argument(target, tiled(0, "u32", (32, 8), (32, 4))), target, np.zeros(32, np.uint32)]


def stored(args):
    expected = np.zeros((8, 32), np.uint32)
    expected[2:6, 8:] = np.repeat(np.arange(32), 4).reshape(4, 32)[:, :24]
    np.testing.assert_array_equal(args[1], expected)


store = program("a tensor store", STORED, arguments, check=stored)
fault(store, "no fence between the stores and the copy", ("fence.proxy.async.shared::cta;", ""), MissingProxyFence)
fault(store, "the result is read when only the source was", ("wait_group 0;", "wait_group.read 0;"), DataRace, InFlight)
fault(store, "the group isn't committed", ("cp.async.bulk.commit_group;", ""), UseAfterExit)
fault(store, "nobody waits", ("cp.async.bulk.wait_group 0;", ""), DataRace, InFlight)
fault(store, "a negative coordinate", ("mov.u32 %r2, 8;", "mov.u32 %r2, -8;"), OutOfBounds)
fault(store, "the source is partly unwritten", ("st.shared.v4.u32 [%r1]", "@%p5 st.shared.v4.u32 [%r1]"), UninitializedRead)


# ---- cp.async with an mbarrier

ASYNC = kernel("""
 setp.ne.u32 %p1, %t, 0; @%p1 bra READY;
 mbarrier.init.shared::cta.b64 [bar], 64;
READY:
 bar.sync 0;
 mov.u32 %r1, s; mad.lo.u32 %r2, %t, 4, %r1; mul.wide.u32 %d1, %t, 4; add.u64 %d2, %d1, %g0; add.u64 %d1, %d1, %g1;
 cp.async.ca.shared.global [%r2], [%d2], 4;
 cp.async.mbarrier.arrive.noinc.shared.b64 [bar];
WAIT: mbarrier.test_wait.parity.shared::cta.b64 %p2, [bar], 0;
 @!%p2 bra WAIT;
 xor.b32 %r3, %t, 63; mad.lo.u32 %r3, %r3, 4, %r1; ld.shared.u32 %r4, [%r3];
 st.global.u32 [%d1], %r4;
""", ".shared .align 128 .b8 s[256]; .shared .align 8 .b64 bar;", threads=64)


def turned(args):
    np.testing.assert_array_equal(args[1], args[0][::-1])


copied = program("cp.async and an mbarrier", ASYNC, lambda: [words(64), np.zeros(64, np.uint32)], check=turned)
fault(copied, "nobody waits",
      ("WAIT: mbarrier.test_wait.parity.shared::cta.b64 %p2, [bar], 0;\n @!%p2 bra WAIT;", ""),
      UninitializedRead, InFlight, DataRace)
fault(copied, "arrivals that raise the count themselves", (".noinc", ""), Deadlock)
fault(copied, "the count forgets a warp", ("[bar], 64;", "[bar], 32;"), BarrierError, UninitializedRead)
fault(copied, "only a plain arrival", ("cp.async.mbarrier.arrive.noinc.shared.b64 [bar];", "mbarrier.arrive.shared.b64 _, [bar];"),
      UninitializedRead)
fault(copied, "a group waits for too little",
      ("cp.async.mbarrier.arrive.noinc.shared.b64 [bar];",
       "cp.async.commit_group; cp.async.wait_group 1; mbarrier.arrive.shared.b64 _, [bar];"),
      UninitializedRead)
