"""Faults around barriers of a block, shared and global memory, and memory shared with other blocks of a cluster or grid."""
from __future__ import annotations

import numpy as np

from tests.sim.asynckit import kernel
from tests.sim.faults.harness import fault, program
from tileiras.sim import (
    BarrierError,
    BudgetExceeded,
    DataRace,
    Deadlock,
    InvalidInstruction,
    Misaligned,
    OutOfBounds,
    Trap,
    UninitializedRead,
)
from tileiras.sim.errors import InFlight, MissingProxyFence, TransactionMismatch, UseAfterExit


def words(n):
    return np.arange(1, n + 1, dtype=np.uint32)


# ---- neighbours' sums, four rounds in one buffer

ROUNDS = kernel("""
 mov.u32 %r9, s; mad.lo.u32 %r10, %t, 4, %r9; add.u32 %r11, %t, 33; and.b32 %r11, %r11, 127; mad.lo.u32 %r11, %r11, 4, %r9;
 mul.wide.u32 %d1, %t, 4; add.u64 %d2, %d1, %g1; add.u64 %d1, %d1, %g0;
 ld.global.u32 %r1, [%d1];
 mov.u32 %r8, 0;
LOOP:
 st.shared.u32 [%r10], %r1;
 bar.sync 0;
 ld.shared.u32 %r2, [%r11];
 bar.sync 0; // again
 add.u32 %r1, %r1, %r2;
 add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, 4; @%p1 bra LOOP;
 st.global.u32 [%d2], %r1;
""", ".shared .align 16 .b8 s[528];", threads=128)


def summed(args):
    x = args[0].copy()
    for _ in range(4):
        x = x + np.roll(x, -33)
    np.testing.assert_array_equal(args[1], x)


rounds = program("sums of neighbours", ROUNDS, lambda: [words(128), np.zeros(128, np.uint32)], check=summed,
                 max_instructions=5000)
fault(rounds, "the loop never ends", ("@%p1 bra LOOP;", "bra LOOP;"), BudgetExceeded)
fault(rounds, "no barrier between write and read", (" bar.sync 0;\n ld", " ld"), DataRace, UninitializedRead)
fault(rounds, "no barrier between read and write", ("bar.sync 0; // again", ""), DataRace)
fault(rounds, "one warp waits at another barrier",
      ("bar.sync 0; // again", "setp.eq.u32 %p2, %w, 2; @%p2 bra B; bar.sync 0; bra C;\n"
                                                   "B: bar.sync 1;\nC:"), Deadlock)
fault(rounds, "the barrier counts two warps", ("bar.sync 0; // again", "bar.sync 0, 64;"), DataRace, BarrierError)
fault(rounds, "the barrier counts a warp too many", ("bar.sync 0; // again", "barrier.sync 0, 160;"), Deadlock, BarrierError)
fault(rounds, "the count is no number of warps", ("bar.sync 0; // again", "bar.sync 0, 100;"), BarrierError)
fault(rounds, "there is no barrier 17", ("bar.sync 0; // again", "bar.sync 17;"), BarrierError)
fault(rounds, "different counts at one barrier",
      ("bar.sync 0; // again", "mov.u32 %r3, 128; setp.eq.u32 %p2, %w, 1; @%p2 mov.u32 %r3, 96; bar.sync 0, %r3;"), BarrierError)
fault(rounds, "a warp leaves early", ("bar.sync 0; // again", "setp.eq.u32 %p2, %w, 3; @%p2 ret; bar.sync 0, 128;"), Deadlock,
      DataRace, UninitializedRead)
fault(rounds, "the neighbour's address is unwrapped", ("and.b32 %r11, %r11, 127;", ""), OutOfBounds)
fault(rounds, "an address off by one", ("ld.shared.u32 %r2, [%r11];", "ld.shared.u32 %r2, [%r11 + 1];"), Misaligned)
fault(rounds, "half the threads don't write",
      ("st.shared.u32 [%r10], %r1;", "setp.lt.u32 %p3, %t, 64; @%p3 st.shared.u32 [%r10], %r1;"),
      UninitializedRead)
fault(rounds, "the input is read behind its end", ("ld.global.u32 %r1, [%d1];", "ld.global.u32 %r1, [%d1 + 4];"), OutOfBounds)
fault(rounds, "the output is written behind its end", ("st.global.u32 [%d2], %r1;", "st.global.u32 [%d2 + 512], %r1;"), OutOfBounds)
fault(rounds, "every warp writes the first words", ("add.u64 %d2, %d1, %g1;", "mul.wide.u32 %d2, %lane, 4; add.u64 %d2, %d2, %g1;"),
      DataRace)
fault(rounds, "a register that was never written", ("add.u32 %r1, %r1, %r2;", "add.u32 %r1, %r1, %r20;"), UninitializedRead)
fault(rounds, "an assertion fails",
      ("st.global.u32 [%d2], %r1;", "setp.gt.u32 %p4, %r1, 100; @%p4 trap; st.global.u32 [%d2], %r1;"),
      Trap)


# ---- two pairs of named barriers: one warp fills a buffer, another empties it

NAMED = kernel("""
 mov.u32 %r9, s; mad.lo.u32 %r10, %lane, 4, %r9; mov.u32 %r8, 0; mul.wide.u32 %d1, %lane, 4; add.u64 %d2, %d1, %g1;
 add.u64 %d1, %d1, %g0;
 setp.eq.u32 %p1, %w, 1; @%p1 bra TAKE;
GIVE:
 bar.sync 2, 64;
 ld.global.u32 %r1, [%d1]; st.shared.u32 [%r10], %r1;
 bar.arrive 1, 64;
 add.u64 %d1, %d1, 128; add.u32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, 4; @%p2 bra GIVE;
 bra END;
TAKE:
 bar.arrive 2, 64;
AGAIN:
 bar.sync 1, 64;
 xor.b32 %r11, %lane, 31; mad.lo.u32 %r11, %r11, 4, %r9; ld.shared.u32 %r2, [%r11];
 setp.eq.u32 %p3, %r8, 3; @%p3 bra STORE;
 bar.arrive 2, 64; // free
STORE:
 st.global.u32 [%d2], %r2;
 add.u64 %d2, %d2, 128; add.u32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, 4; @%p2 bra AGAIN;
END:
""", ".shared .align 16 .b8 s[128];", threads=64)


def turned(args):
    np.testing.assert_array_equal(args[1].reshape(4, 32), args[0].reshape(4, 32)[:, ::-1])


named = program("named barriers", NAMED, lambda: [words(128), np.zeros(128, np.uint32)], check=turned)
fault(named, "one number for both barriers",
      ("bar.sync 2, 64;", "bar.sync 1, 64;"), UninitializedRead, DataRace, Deadlock, BarrierError)
fault(named, "the buffer is never given back", ("bar.arrive 2, 64; // free", ""), Deadlock)
fault(named, "nobody waits for the buffer to be full", ("bar.sync 1, 64;", ""), DataRace, UninitializedRead, Deadlock)
fault(named, "nobody waits for the buffer to be free", (("bar.sync 2, 64;", ""), ("bar.arrive 2, 64; // free", ""),
                                                       ("bar.arrive 2, 64;\nAGAIN", "AGAIN")), DataRace, BarrierError, Deadlock)
fault(named, "it is given back before it is read",
      (("xor.b32 %r11", "setp.ne.u32 %p4, %r8, 3; @%p4 bra F; bra G;\nF: bar.arrive 2, 64;\nG: xor.b32 %r11"),
                                                    ("bar.arrive 2, 64; // free", "")), DataRace)
fault(named, "the arrival counts one warp", ("bar.arrive 1, 64;", "bar.arrive 1, 32;"), BarrierError, Deadlock, DataRace)
fault(named, "an arrival without a count", ("bar.arrive 1, 64;", "bar.arrive 1;"), InvalidInstruction)


# ---- the last block of a grid adds up what the others left in global memory

LAST = kernel("""
 .reg .b32 %c;
 mov.u32 %c, %ctaid.x; mad.lo.u32 %r1, %c, 32, %t; mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %d1, %g1; add.u64 %d1, %d1, %g0;
 ld.global.u32 %r2, [%d1]; mul.lo.u32 %r2, %r2, 3; st.global.u32 [%d2], %r2;
 fence.acq_rel.gpu;
 bar.sync 0;
 setp.ne.u32 %p1, %t, 0; @%p1 bra LOOK;
 atom.global.relaxed.gpu.add.u32 %r3, [%g2], 1;
 mov.u32 %r9, flag; st.shared.u32 [%r9], %r3;
 fence.acq_rel.gpu; // after
LOOK:
 bar.sync 0;
 mov.u32 %r9, flag; ld.shared.u32 %r3, [%r9]; setp.ne.u32 %p2, %r3, 3; @%p2 ret;
 mul.wide.u32 %d3, %t, 4; add.u64 %d4, %d3, %g1;
 ld.global.u32 %r4, [%d4]; ld.global.u32 %r5, [%d4 + 128]; ld.global.u32 %r6, [%d4 + 256]; ld.global.u32 %r7, [%d4 + 384];
 add.u32 %r4, %r4, %r5; add.u32 %r4, %r4, %r6; add.u32 %r4, %r4, %r7;
 add.u64 %d4, %d3, %g3; st.global.u32 [%d4], %r4;
""", ".shared .align 4 .b32 flag;", pointers=4)


def total(args):
    np.testing.assert_array_equal(args[3], 3 * args[0].reshape(4, 32).sum(axis=0))


last = program("the last block adds up", LAST,
               lambda: [words(128), np.zeros(128, np.uint32), np.zeros(1, np.uint32), np.zeros(32, np.uint32)], check=total, grid=4)
fault(last, "no fence before the counter", (" fence.acq_rel.gpu;\n bar", " bar"), DataRace)
fault(last, "no fence behind the counter", ("fence.acq_rel.gpu; // after", ""), DataRace)
fault(last, "the block's fence reaches only the block", ("fence.acq_rel.gpu;\n bar", "fence.acq_rel.cta;\n bar"), DataRace)
fault(last, "everybody adds up", ("@%p2 ret;", ""), DataRace)
fault(last, "two blocks write one place",
      ("st.global.u32 [%d2], %r2;", "st.global.u32 [%d2], %r2; st.global.u32 [%g1], %r2;"), DataRace)
fault(last, "the counter is no atomic", ("atom.global.relaxed.gpu.add.u32 %r3, [%g2], 1;",
                                        "ld.global.u32 %r3, [%g2]; add.u32 %r3, %r3, 1; st.global.u32 [%g2], %r3;"), DataRace)


# ---- shared memory of the other block of a pair

SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
PAIR = kernel(f"""
 mov.u32 %r1, s; mad.lo.u32 %r1, %t, 4, %r1; mad.lo.u32 %r2, %rank, 100, %t; st.shared.u32 [%r1], %r2;
 {SYNC} // first
 xor.b32 %r3, %rank, 1; mapa.shared::cluster.u32 %r4, %r1, %r3; ld.shared::cluster.u32 %r5, [%r4];
 {SYNC} // last
 mad.lo.u32 %r6, %rank, 32, %t; mul.wide.u32 %d1, %r6, 4; add.u64 %d1, %d1, %g0; st.global.u32 [%d1], %r5;
""", ".shared .align 16 .b8 s[128];", pointers=1, cluster=2)


def crossed(args):
    np.testing.assert_array_equal(args[0], np.concatenate([np.arange(100, 132), np.arange(32)]))


pair = program("a pair of blocks", PAIR, lambda: [np.zeros(64, np.uint32)], check=crossed, grid=2)
fault(pair, "the neighbour's memory is read before it is written", (f"{SYNC} // first", ""), DataRace, UninitializedRead)
fault(pair, "the arrival is relaxed", (f"{SYNC} // first", SYNC.replace("arrive", "arrive.relaxed")), DataRace)
fault(pair, "an arrival without its wait",
      (f"{SYNC} // first", "barrier.cluster.arrive.aligned;"), DataRace, BarrierError, UninitializedRead)
fault(pair, "a wait without its arrival", (f"{SYNC} // first", "barrier.cluster.wait.aligned;"), BarrierError, Deadlock, DataRace)
fault(pair, "a block ends while its neighbour reads", (f"{SYNC} // last", ""), UseAfterExit)
fault(pair, "a block that the cluster doesn't have", ("xor.b32 %r3, %rank, 1;", "add.u32 %r3, %rank, 1;"), OutOfBounds)
fault(pair, "its own memory by the neighbour's address", ("ld.shared::cluster.u32 %r5", "ld.shared::cta.u32 %r5"), OutOfBounds)


# ---- a multicast to a pair of blocks, and arrivals between them

CAST = kernel(f"""
 setp.ne.u32 %p1, %t, 0; @%p1 bra READY;
 mbarrier.init.shared::cta.b64 [full], 1; mbarrier.init.shared::cta.b64 [empty], 64;
 fence.mbarrier_init.release.cluster;
READY:
 {SYNC} // first
 mov.u32 %r9, 0;
LOOP:
 mov.u32 %r2, full; mov.u32 %r3, empty; xor.b32 %r8, %r9, 1; and.b32 %r8, %r8, 1; and.b32 %r12, %r9, 1;
 @%p1 bra WAIT;
TRY: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r3], %r8;
 @!%p2 bra TRY;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 256;
 mov.u32 %r4, s; mad.lo.u32 %r4, %rank, 128, %r4; shl.b32 %r5, %r9, 1; add.u32 %r5, %r5, %rank;
 mul.wide.u32 %d1, %r5, 128; add.u64 %d1, %d1, %g0; mov.u16 %h1, 3;
 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r4], [%d1], 128, [%r2], %h1;
WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r2], %r12;
 @!%p2 bra WAIT;
 mov.u32 %r4, s; mad.lo.u32 %r4, %t, 8, %r4; ld.shared.v2.u32 {{%r6, %r7}}, [%r4];
 mapa.shared::cluster.u32 %r10, %r3, 0; mapa.shared::cluster.u32 %r11, %r3, 1;
 fence.proxy.async.shared::cta;
 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r10];
 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r11];
 mad.lo.u32 %r5, %r9, 2, %rank; mul.wide.u32 %d1, %r5, 256; mul.wide.u32 %d2, %t, 8; add.u64 %d1, %d1, %d2; add.u64 %d1, %d1, %g1;
 st.global.v2.u32 [%d1], {{%r6, %r7}};
 add.u32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, 3; @%p3 bra LOOP;
 {SYNC} // last
""", ".shared .align 128 .b8 s[256]; .shared .align 8 .b64 full; .shared .align 8 .b64 empty;", cluster=2)


def cast_all(args):
    np.testing.assert_array_equal(args[1].reshape(3, 2, 64), np.repeat(args[0].reshape(3, 1, 64), 2, axis=1))


cast = program("multicast in a pair", CAST, lambda: [words(192), np.zeros(384, np.uint32)], check=cast_all, grid=2)
fault(cast, "only the block's own half is expected", ("_, [%r2], 256;", "_, [%r2], 128;"), TransactionMismatch, InFlight)
fault(cast, "the mask has one block", ("mov.u16 %h1, 3;", "mov.u16 %h1, 1;"), TransactionMismatch)
fault(cast, "the mask has a block too many", ("mov.u16 %h1, 3;", "mov.u16 %h1, 7;"), OutOfBounds)
fault(cast, "no barrier between initialisation and the neighbour's use",
      (f"{SYNC} // first", "bar.sync 0;"), DataRace, BarrierError)
fault(cast, "no fence behind the initialisation", (("fence.mbarrier_init.release.cluster;", ""),
                                                  (f"{SYNC} // first", SYNC.replace("arrive", "arrive.relaxed"))),
      MissingProxyFence, DataRace)
fault(cast, "the neighbour isn't told that its half was read",
      ("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r11];", ""), Deadlock, TransactionMismatch)
fault(cast, "only the own block's readers are counted", ("[empty], 64;", "[empty], 32;"), BarrierError, InFlight)
fault(cast, "the arrival at the neighbour is relaxed", ("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r10];",
       "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r10];"),
      DataRace, InFlight)
fault(cast, "a block ends while its neighbour still signals", (f"{SYNC} // last", ""), UseAfterExit)
fault(cast, "a wait on the neighbour's barrier", ("acquire.cluster.shared::cta.b64 %p2, [%r2], %r12;",
                                                "acquire.cluster.shared::cta.b64 %p2, [%r2 + 16777216], %r12;"), OutOfBounds)
