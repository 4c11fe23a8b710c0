"""Faults around tensor memory and the tcgen05 instructions: waits, fences, commits, allocation, addresses, descriptors."""
from __future__ import annotations

import numpy as np

from tests.sim import tcgen05kit as kit
from tests.sim.faults.harness import fault, program
from tests.sim.test_tcgen05_mma import k_major
from tileiras.sim import BarrierError, DataRace, Deadlock, UninitializedRead
from tileiras.sim.errors import DescriptorError, InFlight, InvalidInstruction, MissingProxyFence, TensorMemoryError

# ---- a pipeline: warp 0 copies tiles of A and B into two stages, warp 1 multiplies, warps 4 to 7 write the result

M, N, TILES, STAGE = 128, 64, 5, 24576
DESC = kit.descriptor(16, 1024, 2)
PIPELINE = f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in)
.reqntid 256
{{
.reg .b32 %r<32>, %t, %w, %s, %ph, %k, %full, %empty, %stage, %tm, %v<16>;
.reg .b64 %d<16>;
.reg .pred %p<12>;
.shared .align 1024 .b8 stages[{2 * STAGE}];
.shared .align 8 .b64 full[2];
.shared .align 8 .b64 empty[2];
.shared .align 8 .b64 done;
.shared .align 4 .b32 address;
mov.u32 %t, %tid.x;
shr.u32 %w, %t, 5;
mov.u32 %s, 0;
mov.u32 %ph, 0;
mov.u32 %k, 0;
mov.u32 %r1, address;
setp.ne.u32 %p0, %t, 0;
@%p0 bra INITIALIZED;
mbarrier.init.shared.b64 [full], 1;
mbarrier.init.shared.b64 [full+8], 1;
mbarrier.init.shared.b64 [empty], 1;
mbarrier.init.shared.b64 [empty+8], 1;
mbarrier.init.shared.b64 [done], 1;
fence.mbarrier_init.release.cluster;
INITIALIZED:
setp.ne.u32 %p1, %w, 2;
@%p1 bra ALLOCATED;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 64;
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
ALLOCATED:
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
ld.shared.u32 %tm, [address];
setp.ge.u32 %p2, %w, 4;
@%p2 bra EPILOGUE;
and.b32 %r2, %t, 31;
setp.ne.u32 %p3, %r2, 0;
@%p3 bra FINISH;
setp.eq.u32 %p4, %w, 1;
@%p4 bra MULTIPLY;
setp.ne.u32 %p4, %w, 0;
@%p4 bra FINISH;
ld.param.u64 %d1, [in];
COPY:
mov.u32 %full, full;
mad.lo.u32 %full, %s, 8, %full;
mov.u32 %empty, empty;
mad.lo.u32 %empty, %s, 8, %empty;
mov.u32 %stage, stages;
mad.lo.u32 %stage, %s, {STAGE}, %stage;
xor.b32 %r3, %ph, 1;
FREE:
mbarrier.try_wait.parity.shared.b64 %p5, [%empty], %r3;
@!%p5 bra FREE;
mbarrier.arrive.expect_tx.shared.b64 _, [%full], {STAGE};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%stage], [%d1], {STAGE}, [%full];
add.u64 %d1, %d1, {STAGE};
add.u32 %k, %k, 1;
xor.b32 %s, %s, 1;
setp.eq.u32 %p6, %s, 0;
@%p6 xor.b32 %ph, %ph, 1;
setp.lt.u32 %p7, %k, {TILES};
@%p7 bra COPY;
bra FINISH;
MULTIPLY:
mov.u32 %full, full;
mad.lo.u32 %full, %s, 8, %full;
mov.u32 %empty, empty;
mad.lo.u32 %empty, %s, 8, %empty;
mov.u32 %stage, stages;
mad.lo.u32 %stage, %s, {STAGE}, %stage;
LANDED:
mbarrier.try_wait.parity.shared.b64 %p5, [%full], %ph;
@!%p5 bra LANDED;
setp.ne.u32 %p8, %k, 0;
shr.u32 %r4, %stage, 4;
and.b32 %r4, %r4, 16383;
cvt.u64.u32 %d2, %r4;
or.b64 %d2, %d2, {DESC};
add.u64 %d3, %d2, {M * 128 >> 4};
mov.b32 %r5, {kit.instruction(M, N)};
tcgen05.mma.cta_group::1.kind::f16 [%tm], %d2, %d3, %r5, %p8;
add.u64 %d4, %d2, 2;
add.u64 %d5, %d3, 2;
setp.eq.u32 %p9, %t, %t;
tcgen05.mma.cta_group::1.kind::f16 [%tm], %d4, %d5, %r5, %p9;
add.u64 %d4, %d2, 4;
add.u64 %d5, %d3, 4;
tcgen05.mma.cta_group::1.kind::f16 [%tm], %d4, %d5, %r5, %p9;
add.u64 %d4, %d2, 6;
add.u64 %d5, %d3, 6;
tcgen05.mma.cta_group::1.kind::f16 [%tm], %d4, %d5, %r5, %p9;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%empty];
add.u32 %k, %k, 1;
xor.b32 %s, %s, 1;
setp.eq.u32 %p6, %s, 0;
@%p6 xor.b32 %ph, %ph, 1;
setp.lt.u32 %p7, %k, {TILES};
@%p7 bra MULTIPLY;
mov.u32 %r6, done;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r6];
bra FINISH;
EPILOGUE:
DONE:
mbarrier.try_wait.parity.shared.b64 %p5, [done], 0;
@!%p5 bra DONE;
tcgen05.fence::after_thread_sync;
sub.u32 %r7, %t, 128;
shr.u32 %r8, %r7, 5;
shl.b32 %r8, %r8, 21;
add.u32 %r8, %r8, %tm;
ld.param.u64 %d1, [out];
mad.wide.u32 %d1, %r7, {4 * N}, %d1;
mov.u32 %k, 0;
DRAIN:
tcgen05.ld.sync.aligned.32x32b.x8.b32 {{%v0, %v1, %v2, %v3, %v4, %v5, %v6, %v7}}, [%r8];
tcgen05.wait::ld.sync.aligned;
st.global.v4.b32 [%d1], {{%v0, %v1, %v2, %v3}};
st.global.v4.b32 [%d1+16], {{%v4, %v5, %v6, %v7}};
add.u32 %r8, %r8, 8;
add.u64 %d1, %d1, 32;
add.u32 %k, %k, 8;
setp.lt.u32 %p7, %k, {N};
@%p7 bra DRAIN;
FINISH:
tcgen05.fence::before_thread_sync;
barrier.sync 0;
@%p1 bra FREED;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tm, 64;
FREED:
ret;
}}
"""


def tiles() -> tuple[np.ndarray, np.ndarray]:
    """(the stages' bytes, tile after tile; the product)."""
    rng = np.random.default_rng(11)
    a = rng.integers(-3, 4, (M, 64 * TILES)).astype(np.float16)
    b = rng.integers(-3, 4, (N, 64 * TILES)).astype(np.float16)
    images = []
    for k in range(TILES):
        for x in (a, b):
            images.append(k_major(np.ascontiguousarray(x[:, 64 * k:64 * k + 64]).view(np.uint8), 2)[0])
    return np.concatenate(images), a.astype(np.float32) @ b.astype(np.float32).T


IMAGE, PRODUCT = tiles()


def equal(args):
    np.testing.assert_array_equal(args[0], PRODUCT)


pipeline = program("tensor pipeline", PIPELINE, lambda: [np.zeros((M, N), np.float32), IMAGE.copy()], check=equal)
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"
fault(pipeline, "the epilogue doesn't wait", ("@!%p5 bra DONE;", ""), InFlight)
fault(pipeline, "the epilogue waits for the wrong phase", ("[done], 0;", "[done], 1;"), InFlight)
fault(pipeline, "the last commit is missing", (f"{COMMIT} [%r6];", ""), Deadlock)
fault(pipeline, "the last commit goes to another barrier", ("mov.u32 %r6, done;", "mov.u32 %r6, empty;"), Deadlock, BarrierError)
fault(pipeline, "the stages' commit is missing", (f"{COMMIT} [%empty];", ""), Deadlock)
fault(pipeline, "stages are given back before the products",
      ((f"{COMMIT} [%empty];", ""), ("setp.ne.u32 %p8, %k, 0;", f"setp.ne.u32 %p8, %k, 0;\n{COMMIT} [%empty];")),
      InFlight, DataRace)
fault(pipeline, "stages are given back by an ordinary arrival",
      (f"{COMMIT} [%empty];", "mbarrier.arrive.shared.b64 _, [%empty];"), InFlight, DataRace)
fault(pipeline, "the producer doesn't wait", ("@!%p5 bra FREE;", ""), InFlight, DataRace, BarrierError)
fault(pipeline, "the product doesn't wait for its operands", ("@!%p5 bra LANDED;", ""), UninitializedRead, InFlight, DataRace)
fault(pipeline, "the first product adds to nothing", ("setp.ne.u32 %p8, %k, 0;", "setp.eq.u32 %p8, %k, %k;"), TensorMemoryError)
fault(pipeline, "loads aren't waited for", ("tcgen05.wait::ld.sync.aligned;", ""), InFlight)
fault(pipeline, "the tensor memory leaks", ("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tm, 64;", ""), TensorMemoryError)
fault(pipeline, "freed twice", ("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tm, 64;",
                                "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tm, 64;\n" * 2), TensorMemoryError)
fault(pipeline, "freed at another address", ("@%p1 bra FREED;", "@%p1 bra FREED;\nadd.u32 %tm, %tm, 32;"), TensorMemoryError)
fault(pipeline, "freed with another size", ("b32 %tm, 64;", "b32 %tm, 32;"), TensorMemoryError)
fault(pipeline, "freed before the epilogue has read", ("bra EPILOGUE;\nand", "bra EPILOGUE;\nbarrier.arrive 0, 256;\nand"),
      InFlight, BarrierError, Deadlock)
fault(pipeline, "too few columns", (("[%r1], 64;", "[%r1], 32;"), ("b32 %tm, 64;", "b32 %tm, 32;")), TensorMemoryError)
fault(pipeline, "columns that aren't a power of two", (("[%r1], 64;", "[%r1], 96;"), ("b32 %tm, 64;", "b32 %tm, 96;")),
      TensorMemoryError)
fault(pipeline, "allocated without the permit",
      ("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
       "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
       "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 64;"), TensorMemoryError)
fault(pipeline, "a second allocation that never fits",
      ("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
       "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 512;"), Deadlock, TensorMemoryError)
fault(pipeline, "another warp's quarter is loaded", ("sub.u32 %r7, %t, 128;", "xor.b32 %r7, %t, 160;"), TensorMemoryError)
fault(pipeline, "all of the warp issues products", ("@%p3 bra FINISH;\nsetp.eq.u32 %p4, %w, 1;\n@%p4 bra MULTIPLY;",
                                                     "setp.eq.u32 %p4, %w, 1;\n@%p4 bra MULTIPLY;\n@%p3 bra FINISH;"),
      BarrierError)
IDESC = kit.instruction(M, N)
SET = f"mov.b32 %r5, {IDESC};"
fault(pipeline, "a reserved bit of the instruction descriptor", (SET, f"mov.b32 %r5, {IDESC | 1 << 23};"), DescriptorError)
fault(pipeline, "the sparsity bit without metadata", (SET, f"mov.b32 %r5, {IDESC | 4};"), DescriptorError)
fault(pipeline, "M that doesn't exist", (SET, f"mov.b32 %r5, {kit.instruction(96, N)};"), DescriptorError)
fault(pipeline, "the matrix descriptor's version", (f"or.b64 %d2, %d2, {DESC};", f"or.b64 %d2, %d2, {DESC ^ 1 << 46};"),
      DescriptorError)
fault(pipeline, "a swizzling bit", (f"or.b64 %d2, %d2, {DESC};", f"or.b64 %d2, %d2, {DESC | 1 << 61};"), DescriptorError)
fault(pipeline, "the accumulator at a wrong lane", ("ld.shared.u32 %tm, [address];", "ld.shared.u32 %tm, [address];\n"
                                                    "add.u32 %tm, %tm, 1048576;"), DescriptorError, TensorMemoryError)
fault(pipeline, "the address isn't waited for", ("bar.sync 0;", ""), DataRace, UninitializedRead, BarrierError)

# ---- one block: operands and accumulator from ordinary stores, one product

PLAIN = kit.kernel(f"""{kit.matrix_at("%d0", 0, kit.descriptor(16, 1024, 2))}
{kit.matrix_at("%d1", M * 128, kit.descriptor(16, 1024, 2))}
mov.b32 %t5, {kit.instruction(M, N)};
tcgen05.mma.cta_group::1.kind::f16 [%tm], %d0, %d1, %t5, %go;""", columns=N, image=STAGE)
START = np.random.default_rng(12).integers(-5, 6, (M, N)).astype(np.float32)


def one_tile(args):
    a = k_major_values(IMAGE[:M * 128], M)
    b = k_major_values(IMAGE[M * 128:STAGE], N)
    np.testing.assert_array_equal(args[0].view(np.float32), START + a[:, :16] @ b[:, :16].T)


def k_major_values(image: np.ndarray, rows: int) -> np.ndarray:
    """The f16 rows of an image with 128-byte swizzling, as float32."""
    out = np.zeros((rows, 128), np.uint8)
    for r in range(rows):
        for c in range(8):
            at = r * 128 + 16 * (c ^ r % 8)
            out[r, 16 * c:16 * c + 16] = image[at:at + 16]
    return out.view(np.float16).astype(np.float32)


plain = program("one product", PLAIN, lambda: [START.view(np.uint32).copy(), IMAGE[:STAGE].copy()], check=one_tile)
fault(plain, "stores to tensor memory aren't waited for", ("tcgen05.wait::st.sync.aligned;", ""), InFlight)
fault(plain, "no fence before the barrier", ("tcgen05.fence::before_thread_sync;", ""), InFlight)
fault(plain, "no fence behind the barrier", ("bar.sync 0;\ntcgen05.fence::after_thread_sync;", "bar.sync 0;"), InFlight)
fault(plain, "no barrier between the stores and the product",
      ("bar.sync 0;\ntcgen05.fence::after_thread_sync;", "tcgen05.fence::after_thread_sync;"), InFlight)
fault(plain, "no proxy fence behind the stores to shared memory", ("fence.proxy.async.shared::cta;", ""), MissingProxyFence)
fault(plain, "an operand is overwritten in flight",
      ("issued:\n", "issued:\n@!%one st.shared.b32 [image+16], %v0;\n"), InFlight, DataRace)
fault(plain, "the accumulator is overwritten in flight",
      ("issued:\n", "issued:\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%mine], {%v0};\n"), InFlight)
fault(plain, "part of B was never written",
      (("image[24576];", "image[28672];"), ("add.u32 %t0, %image, 16384;", "add.u32 %t0, %image, 20480;")),
      UninitializedRead)

# ---- a pair of blocks: each has half of A's rows and half of B's columns; the even one issues

PAIR = kit.kernel(f"""{kit.matrix_at("%d0", 0, kit.descriptor(16, 1024, 2))}
{kit.matrix_at("%d1", M * 128, kit.descriptor(16, 1024, 2))}
mov.b32 %t5, {kit.instruction(2 * M, 2 * N)};
tcgen05.mma.cta_group::2.kind::f16 [%tm], %d0, %d1, %t5, %go;""", columns=2 * N, image=STAGE, group=2)
BOTH = np.random.default_rng(13).integers(-5, 6, (2, M, 2 * N)).astype(np.float32)


def two_tiles(args):
    images = [IMAGE[:STAGE], IMAGE[STAGE:2 * STAGE]]
    b = np.concatenate([k_major_values(i[M * 128:], N) for i in images])[:, :16]
    for r, image in enumerate(images):
        np.testing.assert_array_equal(args[0][r].view(np.float32), BOTH[r] + k_major_values(image[:M * 128], M)[:, :16] @ b.T)


pair = program("product of a pair", PAIR, lambda: [BOTH.view(np.uint32).copy(), IMAGE[:2 * STAGE].copy()], check=two_tiles, grid=2)
SYNC = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"
fault(pair, "the commit reaches one block only", ("mov.b16 %both, 3;", "mov.b16 %both, 1;"), Deadlock)
fault(pair, "the commit goes to a block that isn't there", ("mov.b16 %both, 3;", "mov.b16 %both, 7;"), InvalidInstruction)
fault(pair, "the other block's cells aren't waited for",
      (f"tcgen05.fence::before_thread_sync;\n{SYNC}\ntcgen05.fence::after_thread_sync;", "bar.sync 0;"), InFlight, DataRace,
      MissingProxyFence)
fault(pair, "no fence before the cluster's barrier", ("tcgen05.fence::before_thread_sync;", ""), InFlight)
fault(pair, "no proxy fence in either block", ("fence.proxy.async.shared::cta;", ""), MissingProxyFence)
fault(pair, "the blocks allocate different sizes",
      ("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%slot], 128;",
       "mov.u32 %t6, %cluster_ctarank;\nsetp.eq.u32 %p5, %t6, 0;\nselp.b32 %t6, 128, 256, %p5;\n"
       "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%slot], %t6;"), TensorMemoryError)
fault(pair, "the other block exits without freeing",
      ("tcgen05.dealloc.cta_group::2", "mov.u32 %t6, %cluster_ctarank;\nsetp.ne.u32 %p5, %t6, 0;\n@%p5 bra freed;\n"
       "tcgen05.dealloc.cta_group::2"), TensorMemoryError)
fault(pair, "one instruction for a single block", ("tcgen05.relinquish_alloc_permit.cta_group::2",
                                                   "tcgen05.relinquish_alloc_permit.cta_group::1"), InvalidInstruction)
fault(pair, "the wait is missing", ("@!%p2 bra waiting;", ""), InFlight)

# ---- scale factors that come by copies

SCALES = kit.descriptor(16, 128)
SCALED = kit.kernel(f"""{kit.matrix_at("%d0", 0, kit.descriptor(16, 256, 6))}
{kit.matrix_at("%d2", 4096, SCALES)}
{kit.matrix_at("%d3", 4608, SCALES)}
mov.b32 %t5, {kit.scaled_instruction(128, 128, a=1, b=1, scale=0)};
tcgen05.cp.cta_group::1.32x128b.warpx4 [%tm+128], %d2;
tcgen05.cp.cta_group::1.32x128b.warpx4 [%tm+132], %d3;
tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [%tm], %d0, %d0, %t5, [%tm+128], [%tm+132], %no;""",
                    columns=128, image=5120).replace("[%slot], 128;", "[%slot], 256;").replace("b32 %tm, 128;", "b32 %tm, 256;")
scaled = program("scaled product", SCALED, lambda: [np.zeros((128, 128), np.uint32), np.full(5120, 0x22, np.uint8)],
                 check=lambda args: np.testing.assert_array_equal(args[0].view(np.float32),
                                                                  64 * np.float32(scale_value()) ** 2))


def scale_value() -> float:
    """The factor with the code 0x22 (ue4m3); the elements with the code 2 are 1."""
    return (1 + 2 / 8) * 2.0 ** (4 - 7)


COPY = "tcgen05.cp.cta_group::1.32x128b.warpx4"
fault(scaled, "scale factors of A are missing", (f"{COPY} [%tm+128], %d2;", ""), TensorMemoryError)
fault(scaled, "scale factors of B go elsewhere", (f"{COPY} [%tm+132], %d3;", f"{COPY} [%tm+136], %d3;"), TensorMemoryError)
fault(scaled, "scale factors are copied after the product",
      ((f"{COPY} [%tm+132], %d3;", ""), ("[%tm+132], %no;", f"[%tm+132], %no;\n{COPY} [%tm+132], %d3;")), TensorMemoryError)
fault(scaled, "a scale factor id that doesn't exist",
      (str(kit.scaled_instruction(128, 128, a=1, b=1, scale=0)),
       str(kit.scaled_instruction(128, 128, a=1, b=1, scale=0, a_id=1))), DescriptorError)
fault(scaled, "scale factors of a type that doesn't fit", (".block_scale.block16", ".block_scale.block32"), DescriptorError)
fault(scaled, "copied over the accumulator by somebody else",
      ("issued:\n", f"issued:\n@%one bra over;\nsetp.ne.u32 %p5, %me, 64;\n@%p5 bra over;\n{kit.matrix_at('%d3', 4608, SCALES)}\n"
       f"{COPY} [%tm+8], %d3;\nover:\n"), InFlight)


# ---- what a strict launch finds besides: the ISA's rules that compilers don't keep

strict = program("strict tensor pipeline", PIPELINE, lambda: [np.zeros((M, N), np.float32), IMAGE.copy()], check=equal,
                 strict=True)
WAIT = "tcgen05.wait::ld.sync.aligned;"
NEXT = "add.u32 %r8, %r8, 8;"
fault(strict, "no fence behind the wait for the commit",
      ("@!%p5 bra DONE;\ntcgen05.fence::after_thread_sync;", "@!%p5 bra DONE;"), InFlight)
fault(strict, "registers are used before the wait", ((WAIT, ""), (NEXT, f"{WAIT}\n{NEXT}")), InFlight)
fault(strict, "registers are overwritten before the wait", (WAIT, f"mov.b32 %v3, 0;\n{WAIT}"), InFlight)
