"""Latency kernels for the machine model, and a tensor map built on the device.

A latency kernel runs one block; thread 0 writes the cycles of `iterations` dependent repetitions to word 0 of its output.
Parameters: output, input (a buffer that the kernel may read; for `global_*` a chain of byte offsets).
"""
from __future__ import annotations

import dataclasses

from bench.hardware.matrix_probes import entry

SHARED = ".extern .shared .align 1024 .b8 buffer[];\n"


@dataclasses.dataclass(frozen=True)
class Latency:
    """`chain_bytes`: size of the pointer chain that the input must hold (0: any zeroed 64 KiB)."""

    name: str
    ptx: str
    iterations: int
    threads: int = 128
    chain_bytes: int = 0


def _timed(name: str, threads: int, iterations: int, setup: list[str], body: list[str], result: str = "",
           chain: int = 0) -> Latency:
    lines = ["  .reg .b64 %t<3>, %x<4>;", "  .reg .b32 %s<8>, %i;", "  .reg .f32 %d<128>;", "  .reg .b64 %da, %db;",
             "  mov.u32 %s0, buffer;", *("  " + line for line in setup), "  bar.sync 0;", "  mov.u32 %i, 0;",
             "  mov.u64 %t0, %clock64;", "LOOP:", *("  " + line for line in body), "  add.u32 %i, %i, 1;",
             f"  setp.lt.u32 %p0, %i, {iterations};", "  @%p0 bra LOOP;", "  mov.u64 %t1, %clock64;", "  sub.u64 %t1, %t1, %t0;",
             "  setp.ne.u32 %p1, %r0, 0;", "  @%p1 bra DONE;", "  st.global.u64 [%out], %t1;",
             *([f"  {result}"] if result else []), "DONE:"]
    return Latency(name, entry(threads, lines, 0, SHARED), iterations, threads, chain)


BARRIER = ["setp.ne.u32 %p2, %r0, 0;", "@!%p2 mbarrier.init.shared.b64 [%s0], 1;", "fence.proxy.async.shared::cta;",
           "mov.u32 %s1, 0;", "add.u32 %s2, %s0, 1024;"]
WAIT = ["WAIT:", "mbarrier.try_wait.parity.shared.b64 %p3, [%s0], %s1;", "@!%p3 bra WAIT;", "xor.b32 %s1, %s1, 1;"]


def _wgmma(n: int) -> Latency:
    outs = "{" + ", ".join(f"%d{i}" for i in range(n // 2)) + "}"
    desc = (1 << 62) | (64 << 32) | (1 << 16)
    setup = [f"mov.f32 %d{i}, 0f00000000;" for i in range(n // 2)]
    setup += ["shr.u32 %s3, %s0, 4;", "cvt.u64.u32 %da, %s3;", f"or.b64 %da, %da, {desc};", "add.u64 %db, %da, 1024;"]
    body = ["wgmma.fence.sync.aligned;", f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {outs}, %da, %db, 1, 1, 1, 0, 0;",
            "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    return _timed(f"wgmma_m64n{n}k16_wait", 128, 256, setup, body, "st.global.f32 [%out+16], %d0;")


def latencies() -> list[Latency]:
    """Every latency kernel."""
    out = []
    for name, chain in (("global_l2_hit", 4 << 20), ("global_l2_miss", 1 << 30)):
        out.append(_timed(name, 1, 2048, ["mov.u64 %x0, %in;"], ["ld.global.cg.u64 %x1, [%x0];", "add.u64 %x0, %in, %x1;"],
                          "st.global.u64 [%out+16], %x0;", chain))
    out.append(_timed("shared_load", 1, 1024, ["st.shared.u32 [%s0], 0;", "mov.u32 %s4, %s0;"],
                      ["ld.shared.u32 %s3, [%s4];", "add.u32 %s4, %s0, %s3;"], "st.global.u32 [%out+16], %s4;"))
    out.append(_timed("ldmatrix_x4", 32, 1024, ["mov.u32 %s5, 0;", "shl.b32 %s3, %r0, 4;", "add.u32 %s3, %s3, %s0;",
                                                "st.shared.v4.u32 [%s3], {%s5, %s5, %s5, %s5};"],
                      ["ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%s4, %s5, %s6, %s7}, [%s3];", "add.u32 %s3, %s3, %s4;"],
                      "st.global.u32 [%out+16], %s3;"))
    out.append(_timed("bar_sync_128", 128, 1024, [], ["bar.sync 0;"]))
    out.append(_timed("named_barrier_128", 128, 1024, [], ["bar.sync 1, 128;"]))
    out.append(_timed("mbarrier_round_trip", 32, 1024, BARRIER, ["@!%p2 mbarrier.arrive.shared.b64 _, [%s0];", *WAIT]))
    for kib in (16, 32):
        body = [f"@!%p2 mbarrier.arrive.expect_tx.shared.b64 _, [%s0], {kib * 1024};",
                "@!%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s2], [%in], "
                f"{kib * 1024}, [%s0];", *WAIT]
        out.append(_timed(f"bulk_load_{kib}k_l2_hit", 32, 256, BARRIER, body))
        out.append(_timed(f"bulk_store_{kib}k", 1, 256, ["add.u32 %s2, %s0, 1024;", "fence.proxy.async.shared::cta;"],
                          [f"cp.async.bulk.global.shared::cta.bulk_group [%in], [%s2], {kib * 1024};",
                           "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 0;"]))
    out.append(_timed("stmatrix_x4_bar", 128, 1024, ["shl.b32 %s3, %r0, 4;", "add.u32 %s3, %s3, %s0;", "mov.u32 %s4, 0;"],
                      ["stmatrix.sync.aligned.m8n8.x4.shared.b16 [%s3], {%s4, %s4, %s4, %s4};", "bar.sync 0;"]))
    out += [_wgmma(n) for n in (8, 64, 128, 256)]
    out.append(_timed("nothing", 32, 1024, [], []))
    return out


MAP_FIELDS = {"address": "global_address", "rank": "rank", "box": "box_dim", "dims": "global_dim", "strides": "global_stride",
              "steps": "element_stride", "type": "elemtype", "interleave": "interleave_layout", "swizzle": "swizzle_mode",
              "fill": "fill_mode"}


@dataclasses.dataclass(frozen=True)
class DeviceMap:
    """A tensor map for `tensormap.replace` and the same for the driver. `type` is PTX's number, `driver_type` CUDA's."""

    name: str
    type: int
    driver_type: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int

    @property
    def ptx(self) -> str:
        """out: 128 bytes of the map, then u64 cycles; in: the address to describe."""
        rank = len(self.dims)
        lines = ["  .reg .b64 %t<2>;", "  .reg .b32 %s;", "  mov.u32 %s, buffer;", "  setp.ne.u32 %p0, %r0, 0;"]
        lines += [f"  @!%p0 st.shared.u64 [%s+{i}], 0;" for i in range(0, 128, 8)]
        lines += ["  bar.sync 0;", "  mov.u64 %t0, %clock64;"]

        def put(field: str, ordinal: str, kind: str, value: str) -> None:
            lines.append(f"  @!%p0 tensormap.replace.tile.{field}.shared::cta.b1024.{kind} [%s], {ordinal}{value};")
        put("global_address", "", "b64", "%in")
        put("rank", "", "b32", str(rank - 1))
        for i in range(rank):
            put("box_dim", f"{i}, ", "b32", str(self.box[i]))
            put("global_dim", f"{i}, ", "b32", str(self.dims[i]))
            put("element_stride", f"{i}, ", "b32", "1")
        for i in range(rank - 1):
            put("global_stride", f"{i}, ", "b64", str(self.strides[i]))
        put("elemtype", "", "b32", str(self.type))
        put("interleave_layout", "", "b32", "0")
        put("swizzle_mode", "", "b32", str(self.swizzle))
        put("fill_mode", "", "b32", "0")
        lines += ["  mov.u64 %t1, %clock64;", "  sub.u64 %t1, %t1, %t0;", "  @%p0 bra DONE;"]
        for i in range(0, 128, 8):
            lines += [f"  ld.shared.u64 %at, [%s+{i}];", f"  st.global.u64 [%out+{i}], %at;"]
        return entry(32, [*lines, "  st.global.u64 [%out+128], %t1;", "DONE:"], 0,
                     SHARED.replace("extern .shared .align 1024 .b8 buffer[]", "shared .align 1024 .b8 buffer[128]"))


def device_maps() -> list[DeviceMap]:
    """Maps over types, ranks and swizzles."""
    out = []
    for name, ptx_type, driver_type, size in (("u8", 0, 0, 1), ("u16", 1, 1, 2), ("u32", 2, 2, 4), ("f16", 6, 6, 2),
                                              ("f32", 7, 7, 4), ("f64", 9, 8, 8), ("bf16", 10, 9, 2)):
        for rank in (1, 2, 3, 5):
            dims = (256, 48, 40, 12, 6)[:rank]
            strides, step = [], size
            for extent in dims[:-1]:
                step *= extent
                strides.append(step)
            for swizzle, inner in ((0, 32), (1, 32), (2, 64), (3, 128)):
                if swizzle and (rank != 2 or name not in ("f16", "f32")):
                    continue
                out.append(DeviceMap(f"{name}_rank{rank}_swizzle{swizzle}", ptx_type, driver_type, dims, tuple(strides),
                                     (inner // size, 8, 4, 2, 1)[:rank], swizzle))
    return out


def approximations() -> dict[str, str]:
    """PTX of elementwise kernels `probe(out, in)` over float32, 65536 values: one for each approximate instruction."""
    names = ("tanh.approx.f32", "ex2.approx.f32", "lg2.approx.f32", "rsqrt.approx.f32", "rcp.approx.f32", "sqrt.approx.f32",
             "sin.approx.f32", "cos.approx.f32", "ex2.approx.ftz.f32", "rsqrt.approx.ftz.f32")
    return {name: entry(256, ["  .reg .f32 %v;", "  mov.u32 %r1, %ctaid.x;", "  shl.b32 %r1, %r1, 8;", "  add.u32 %r1, %r1, %r0;",
                              "  mul.wide.u32 %at, %r1, 4;", "  add.u64 %in, %in, %at;", "  add.u64 %out, %out, %at;",
                              "  ld.global.f32 %v, [%in];", f"  {name} %v, %v;", "  st.global.f32 [%out], %v;"]) for name in names}
