"""Rate kernels for the machine model: how much an SM, or all of them together, does in a cycle of one kind of work.

Parameters: output, input (zeroed, of `bytes`). Thread 0 of each block writes the cycles of `iterations` repetitions to its 16
bytes of output; where a second kind of work runs beside the first, that one's cycles are the second word.
"""
from __future__ import annotations

import dataclasses

from bench.hardware.matrix_probes import HEADER

KIB, MIB = 1024, 1 << 20
CHAINS, UNROLL = 8, 4


@dataclasses.dataclass(frozen=True)
class Rate:
    """`work`: what a block does in an iteration, in `unit` (warp instructions, bytes, ...). `blocks`: 0 for all SMs' worth,
    `per_sm` each. `cold`: L2 is flushed before each launch."""

    name: str
    ptx: str
    threads: int
    iterations: int
    work: float
    unit: str = "instructions"
    blocks: int = 1
    per_sm: int = 1
    bytes: int = 64 * KIB
    shared: int = 64 * KIB
    cold: bool = False


REGISTERS = """  .reg .b64 %out, %in, %at, %t<4>, %x<12>, %da, %db;
  .reg .b32 %thr, %lane, %warp, %blk, %base, %i, %j, %k, %v<40>, %c<4>, %s<16>, %h;
  .reg .b16 %q<4>;
  .reg .f32 %d<128>;
  .reg .b32 %e<128>;
  .reg .b64 %w<8>;
  .reg .pred %p<8>;"""


def _kernel(threads: int, lines: list[str]) -> str:
    start = ["ld.param.u64 %out, [p_out];", "ld.param.u64 %in, [p_in];", "mov.u32 %thr, %tid.x;", "mov.u32 %blk, %ctaid.x;",
             "and.b32 %lane, %thr, 31;", "shr.u32 %warp, %thr, 5;", "mul.wide.u32 %at, %blk, 16;", "add.u64 %out, %out, %at;",
             "mov.u32 %base, buffer;"]
    return "\n".join([HEADER + ".extern .shared .align 1024 .b8 buffer[];",
                      ".visible .entry probe(.param .u64 p_out, .param .u64 p_in)", f".reqntid {threads}", "{", REGISTERS,
                      *("  " + line for line in [*start, *lines]), "  ret;", "}", ""])


def _loop(label: str, counter: str, iterations: int, body: list[str]) -> list[str]:
    return [f"mov.u32 {counter}, 0;", f"{label}:", *body, f"add.u32 {counter}, {counter}, 1;",
            f"setp.lt.u32 %p0, {counter}, {iterations};", f"@%p0 bra {label};"]


def _timed(name: str, threads: int, iterations: int, work: float, setup: list[str], body: list[str],
           after: tuple[str, ...] | list[str] = (), **more) -> Rate:
    """`body` is repeated, by all threads."""
    lines = [*setup, "bar.sync 0;", "mov.u64 %t0, %clock64;", *_loop("LOOP", "%i", iterations, body), *after,
             "mov.u64 %t1, %clock64;", "sub.u64 %t1, %t1, %t0;", "setp.ne.u32 %p1, %thr, 0;", "@%p1 bra DONE;",
             "st.global.u64 [%out], %t1;", "DONE:"]
    return Rate(name, _kernel(threads, lines), threads, iterations, work, **more)


def _keep(registers: list[str]) -> list[str]:
    """Values that the compiler must take for used."""
    return [*(f"xor.b32 %v0, %v0, {r};" for r in registers if r != "%v0"), "setp.eq.u32 %p2, %v0, 0x5a5a1234;",
            "@%p2 st.global.u32 [%out+8], %v0;"]


# ---- arithmetic

def _operations() -> dict[str, list[str]]:
    """By name, an operation on chain {a} and, where it needs one, the next chain {b}."""
    plain = {
        "ffma": "fma.rn.f32 {a}, {a}, %c0, %c1;", "fadd": "add.rn.f32 {a}, {a}, %c0;", "imad": "mad.lo.s32 {a}, {a}, %c0, %c1;",
        "iadd": "add.u32 {a}, {a}, {b};", "lop3": "lop3.b32 {a}, {a}, {b}, %c0, 0xe8;", "shf": "shf.l.wrap.b32 {a}, {a}, {b}, 7;",
        "prmt": "prmt.b32 {a}, {a}, {b}, %c2;", "fmnmx": "max.f32 {a}, {a}, {b};", "imnmx": "max.s32 {a}, {a}, {b};",
        "hfma2": "fma.rn.f16x2 {a}, {a}, %c0, %c1;", "hadd2": "add.rn.f16x2 {a}, {a}, %c0;",
        "ex2": "ex2.approx.ftz.f32 {a}, {a};", "lg2": "lg2.approx.ftz.f32 {a}, {a};", "rsqrt": "rsqrt.approx.ftz.f32 {a}, {a};",
        "tanh": "tanh.approx.f32 {a}, {a};", "f2f_pack": "cvt.rn.f16x2.f32 {a}, {a}, {b};",
        "i2f": "cvt.rn.f32.s32 {a}, {a};", "f2i": "cvt.rzi.s32.f32 {a}, {a};", "popc": "popc.b32 {a}, {a};",
        "flo": "bfind.u32 {a}, {a};", "redux": "redux.sync.add.s32 {a}, {a}, 0xffffffff;",
        "shfl": "shfl.sync.bfly.b32 {a}, {a}, 1, 31, 0xffffffff;", "brev": "brev.b32 {a}, {a};",
        "bfe": "bfe.u32 {a}, {a}, %c2, %c3;", "fmul": "mul.rn.f32 {a}, {a}, %c0;", "fmul_imm": "mul.rn.f32 {a}, {a}, 0f3F800001;",
        "mov": "mov.b32 {a}, %c0;"}
    several = {
        "unpack_e4m3": ["mov.b32 {{%q0, %q1}}, {a};", "cvt.rn.f16x2.e4m3x2 {a}, %q0;"],
        "pack_e4m3": ["cvt.rn.satfinite.e4m3x2.f32 %q0, {a}, {b};", "mov.b32 {a}, {{%q0, %q0}};"],
        "f16_to_f32": ["mov.b32 {{%q0, %q1}}, {a};", "cvt.f32.f16 {a}, %q1;"],
        "s8_to_f32": ["cvt.s32.s8 {a}, {a};", "cvt.rn.f32.s32 {a}, {a};"],
        "ffma_imad": ["fma.rn.f32 {a}, {a}, %c0, %c1;", "mad.lo.s32 {a}, {a}, %c0, %c1;"],
        "ffma_lop3": ["fma.rn.f32 {a}, {a}, %c0, %c1;", "lop3.b32 {a}, {a}, {b}, %c0, 0xe8;"],
        "imad_lop3": ["mad.lo.s32 {a}, {a}, %c0, %c1;", "lop3.b32 {a}, {a}, {b}, %c0, 0xe8;"],
        "ffma_ex2": ["fma.rn.f32 {a}, {a}, %c0, %c1;", "ex2.approx.ftz.f32 {a}, {a};"],
        "ffma4_ex2_pack": [*["fma.rn.f32 {a}, {a}, %c0, %c1;"] * 4, "ex2.approx.ftz.f32 {a}, {a};", "max.f32 {a}, {a}, {b};"]}
    return {**{name: [text] for name, text in plain.items()}, **several}


def _arithmetic_setup() -> list[str]:
    return ["cvt.u64.u32 %x0, %thr;", "shl.b64 %x0, %x0, 2;", "add.u64 %x0, %in, %x0;",
            *(f"ld.global.u32 %v{i}, [%x0+{4 * i}];" for i in range(CHAINS)),
            *(f"ld.global.u32 %c{i}, [%in+{16 * i}];" for i in range(4))]


def _arithmetic_body(texts: list[str]) -> list[str]:
    return [t.format(a=f"%v{i}", b=f"%v{(i + 1) % CHAINS}") for _ in range(UNROLL) for t in texts for i in range(CHAINS)]


def _arithmetic() -> list[Rate]:
    setup = _arithmetic_setup()
    out = []
    for name, texts in _operations().items():
        body = _arithmetic_body(texts)
        keep = _keep([f"%v{i}" for i in range(CHAINS)])
        for warps in (4, 16):
            out.append(_timed(f"{name}_{warps}w", 32 * warps, 256, CHAINS * UNROLL * len(texts) * warps, setup, body, keep))
    for name in ("ex2", "lg2", "shfl", "f2i", "redux", "tanh"):
        body = [t.format(a="%v0", b="%v1") for _ in range(16) for t in _operations()[name]]
        out.append(_timed(f"{name}_chain", 32, 256, 16, setup, body, _keep(["%v0"])))
    body = [f"fma.rn.f64 %w{i}, %w{i}, %w{i}, %w{i};" for _ in range(2) for i in range(8)]
    zero = [*setup, *(f"cvt.rn.f64.s32 %w{i}, %v{i};" for i in range(8))]
    keep = [*(f"cvt.rn.f32.f64 %v{i}, %w{i};" for i in range(8)), *_keep([f"%v{i}" for i in range(8)])]
    return [*out, _timed("dfma_16w", 512, 256, 16 * 16, zero, body, keep)]


# ---- matrix products

def _mma(name: str, shape: str, types: str, a: int, b: int, c: int) -> list[Rate]:
    setup = ["cvt.u64.u32 %x0, %thr;", "shl.b64 %x0, %x0, 2;", "add.u64 %x0, %in, %x0;",
             *(f"ld.global.u32 %s{i}, [%x0+{128 * i}];" for i in range(8)),
             *(f"ld.global.u32 %v{i}, [%x0+{128 * i}];" for i in range(32))]

    def one(chain: int) -> str:
        # Products of 8-bit floats are taken apart, and equal parts of them computed once.
        change = f"add.u32 %s{chain % a}, %s{chain % a}, 257;\n  " if name == "e4m3" else ""
        acc = "{" + ", ".join(f"%v{chain * c + i}" for i in range(c)) + "}"
        left = "{" + ", ".join(f"%s{i}" for i in range(a)) + "}"
        right = "{" + ", ".join(f"%s{4 + i}" for i in range(b)) + "}"
        return change + f"mma.sync.aligned.{shape}.row.col.{types} {acc}, {left}, {right}, {acc};"
    keep = _keep([f"%v{i}" for i in range(32)])
    chains = 32 // c
    out = [_timed(f"mma_{name}_{warps}w", 32 * warps, 128, 4 * chains * warps, setup, [one(i) for i in range(chains)] * 4, keep)
           for warps in (4, 8, 16)]
    return [*out, _timed(f"mma_{name}_chain", 32, 128, 16, setup, [one(0)] * 16, keep)]


def _mma_all() -> list[Rate]:
    return [r for row in (("f16", "m16n8k16", "f32.f16.f16.f32", 4, 2, 4), ("f16_f16", "m16n8k16", "f16.f16.f16.f16", 4, 2, 2),
                          ("bf16", "m16n8k16", "f32.bf16.bf16.f32", 4, 2, 4), ("tf32", "m16n8k8", "f32.tf32.tf32.f32", 4, 2, 4),
                          ("tf32_k4", "m16n8k4", "f32.tf32.tf32.f32", 2, 1, 4), ("s8", "m16n8k32", "s32.s8.s8.s32", 4, 2, 4),
                          ("u8", "m16n8k32", "s32.u8.s8.s32", 4, 2, 4), ("e4m3", "m16n8k32", "f32.e4m3.e4m3.f32", 4, 2, 4))
            for r in _mma(*row)]


WGMMA = {"f16": ("k16.f32.f16.f16", ", 1, 1, 0, 0"), "tf32": ("k8.f32.tf32.tf32", ", 1, 1"),
         "e4m3": ("k32.f32.e4m3.e4m3", ", 1, 1"), "s8": ("k32.s32.s8.s8", "")}


def _accumulator(kind: str) -> str:
    return "%e" if kind == "s8" else "%d"


def _product(kind: str, n: int, registers: bool) -> str:
    shape, flags = WGMMA[kind]
    outs = "{" + ", ".join(f"{_accumulator(kind)}{i}" for i in range(n // 2)) + "}"
    left = "{%s0, %s1, %s2, %s3}" if registers else "%da"
    if registers and flags.count(",") == 4:
        flags = flags[:-3]
    return f"wgmma.mma_async.sync.aligned.m64n{n}{shape} {outs}, {left}, %db, 1{flags};"


def _wgmma_setup(n: int, kind: str, random: bool = False) -> list[str]:
    """Descriptors of operands that don't overlap, 128 bytes swizzled; shared memory with small values of any bits or zeros."""
    desc = (1 << 62) | (64 << 32) | (1 << 16)
    mask = {"f16": 0xBFFFBFFF, "tf32": 0xBFFFFFFF, "e4m3": 0xBFBFBFBF, "s8": 0xFFFFFFFF}[kind] if random else 0
    lines = [f"mov.b32 {_accumulator(kind)}{i}, 0;" for i in range(n // 2)]
    lines += ["shl.b32 %s4, %thr, 2;", "add.u32 %s4, %base, %s4;", "mad.lo.u32 %s5, %thr, 0x9e3779b1, 12345;", "mov.u32 %j, 0;",
              "FILL:", "mad.lo.u32 %s5, %s5, 1664525, 1013904223;", "shr.u32 %s6, %s5, 13;", "xor.b32 %s6, %s6, %s5;",
              f"and.b32 %s6, %s6, {mask};", "st.shared.u32 [%s4], %s6;", "add.u32 %s4, %s4, 512;", "add.u32 %j, %j, 1;",
              "setp.lt.u32 %p4, %j, 96;", "@%p4 bra FILL;", "fence.proxy.async.shared::cta;"]
    lines += [f"mov.b32 %s{i}, %s6;" for i in range(4)]
    return [*lines, "shr.u32 %s7, %base, 4;", "cvt.u64.u32 %da, %s7;", f"or.b64 %da, %da, {desc};", "add.u64 %db, %da, 1024;"]


def _group(kind: str, n: int, registers: bool, count: int) -> list[str]:
    return ["wgmma.fence.sync.aligned;", *[_product(kind, n, registers)] * count, "wgmma.commit_group.sync.aligned;",
            "wgmma.wait_group.sync.aligned 0;"]


def _wgmma_all() -> list[Rate]:
    out = []
    for kind in WGMMA:
        for n in (64, 128, 256):
            for registers in (False, True):
                for warps in (4, 8):
                    if warps == 8 and n == 64:
                        continue
                    name = f"wgmma_{kind}_n{n}_{'rs' if registers else 'ss'}_{warps}w"
                    out.append(_timed(name, 32 * warps, 32, 32 * warps / 4, _wgmma_setup(n, kind), _group(kind, n, registers, 32),
                                      [f"st.global.b32 [%out+8], {_accumulator(kind)}0;"]))
        for n in (128, 256):    # at which clock, with bits that switch
            out.append(_timed(f"power_wgmma_{kind}_n{n}", 256, 4096, 64, _wgmma_setup(n, kind, True), _group(kind, n, False, 32),
                              [f"st.global.b32 [%out+8], {_accumulator(kind)}0;"], blocks=0))
    return out


# ---- shared memory

def _shared_operations() -> dict[str, tuple[list[str], float]]:
    """By name, the text of one access at [%s0 + {o}], and the stride of threads in bytes."""
    out = {}
    for width, kind in ((1, "u32"), (2, "v2.u32"), (4, "v4.u32")):
        regs = "{" + ", ".join(f"%v{i}" for i in range(width)) + "}" if width > 1 else "%v0"
        out[f"lds{32 * width}"] = ([f"ld.volatile.shared.{kind} {regs}, [%s0+{{o}}];"], 4 * width)
        out[f"sts{32 * width}"] = ([f"st.volatile.shared.{kind} [%s0+{{o}}], {regs};"], 4 * width)
    out["lds_u16"] = (["ld.volatile.shared.u16 %q0, [%s0+{o}];"], 2)
    out["sts_u16"] = (["st.volatile.shared.u16 [%s0+{o}], %q0;"], 2)
    out["sts_u8"] = (["st.volatile.shared.u8 [%s0+{o}], %v0;"], 1)
    out["lds32_2way"] = (["ld.volatile.shared.u32 %v0, [%s0+{o}];"], 8)
    out["sts32_4way"] = (["st.volatile.shared.u32 [%s0+{o}], %v0;"], 16)
    for count in (1, 2, 4):
        regs = "{" + ", ".join(f"%v{4 + i}" for i in range(count)) + "}"
        use = ["lop3.b32 %v0, %v4, %v5, %v0, 0x96;", "lop3.b32 %v0, %v6, %v7, %v0, 0x96;"][:max(count // 2, 1)]
        use = use if count > 1 else ["xor.b32 %v0, %v0, %v4;"]
        for trans in ("", ".trans") if count == 4 else ("",):
            name = f"x{count}{trans[1:6]}"
            out[f"ldsm_{name}"] = ([f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {regs}, [%s0+{{o}}];", *use], 16)
            out[f"stsm_{name}"] = ([f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%s0+{{o}}], {regs};"], 16)
    out["atoms_add"] = (["red.shared.add.u32 [%s0+{o}], %thr;"], 4)
    out["atoms_add_same"] = (["red.shared.add.u32 [%s0+{o}], %thr;"], 0)
    out["atoms_add_f32"] = (["red.shared.add.f32 [%s0+{o}], %v0;"], 4)
    out["sts128_lds128"] = (["st.volatile.shared.v4.u32 [%s0+{o}], {%v0, %v1, %v2, %v3};",
                             "ld.volatile.shared.v4.u32 {%v4, %v5, %v6, %v7}, [%s0+{o}];"], 16)
    return out


def _shared_body(name: str) -> tuple[list[str], list[str], int]:
    """(setup, body, accesses) of one kind of access: eight, 512 bytes apart where a warp has that many for itself."""
    texts, stride = _shared_operations()[name]
    count = 8
    setup = [f"mul.lo.u32 %s0, %lane, {int(stride)};", "shl.b32 %s1, %warp, 9;", "add.u32 %s0, %s0, %s1;",
             "add.u32 %s0, %s0, %base;", *(f"mov.u32 %v{i}, 0;" for i in range(8)), "mov.u16 %q0, 0;"]
    body = [text.replace("{o}", str(8192 * (i % 4))) for i in range(count) for text in texts]
    return setup, [*body, "xor.b32 %s0, %s0, 32768;"], count * sum("shared" in t for t in texts)


def _shared_all() -> list[Rate]:
    out = []
    for name in _shared_operations():
        setup, body, count = _shared_body(name)
        for warps in (4, 16):
            out.append(_timed(f"{name}_{warps}w", 32 * warps, 256, count * warps, setup, body, _keep(["%v0", "%v4"])))
    for warps in (8, 16, 32):
        out.append(_timed(f"bar_sync_{warps}w", 32 * warps, 1024, 1, [], ["bar.sync 0;"], unit="barriers"))
    return out


def _beside(name: str, products: tuple[str, int, bool], other: str) -> Rate:
    """A warpgroup multiplies, another one has eight accesses at a time to shared memory: cycles of each."""
    setup, body, count = _shared_body(other)
    return _two(f"{name}_beside_{other}", products, (setup, body, ["%v0", "%v4"]), (64, 512), f"{4 * count} accesses")


def _two(name: str, products: tuple[str, int, bool], other: tuple[list[str], list[str], list[str]], iterations: tuple[int, int],
         unit: str, others: int = 1) -> Rate:
    """A warpgroup multiplies, `others` more do something else (setup, body, what it leaves): cycles of each."""
    kind, n, registers = products
    setup, body, left = other
    lines = [*setup, *_wgmma_setup(n, kind), *setup, "bar.sync 0;", "mov.u64 %t0, %clock64;", "setp.ge.u32 %p5, %thr, 128;",
             "@%p5 bra OTHER;", *_loop("LOOP", "%i", iterations[0], _group(kind, n, registers, 32)), "mov.u64 %t1, %clock64;",
             "sub.u64 %t1, %t1, %t0;", "setp.ne.u32 %p1, %thr, 0;", "@%p1 bra DONE;", "st.global.u64 [%out], %t1;",
             "st.global.f32 [%out+8192], %d0;", "bra DONE;", "OTHER:", *_loop("ACCESS", "%j", iterations[1], body),
             "mov.u64 %t1, %clock64;", "sub.u64 %t1, %t1, %t0;", *_keep(left), "setp.ne.u32 %p1, %thr, 128;",
             "@%p1 bra DONE;", "st.global.u64 [%out+8], %t1;", "DONE:"]
    threads = 128 + 128 * others
    return Rate(name, _kernel(threads, lines), threads, iterations[0], 32, unit=f"products; {iterations[1]} iterations of {unit}")


def _beside_arithmetic() -> list[Rate]:
    """Products beside arithmetic of other warpgroups, which goes on longer than the products do."""
    out = []
    for kind, n, registers in (("f16", 64, False), ("f16", 128, False), ("f16", 128, True), ("f16", 256, False)):
        for name in ("ffma", "fmul", "fmul_imm", "fadd", "fmnmx", "lop3", "iadd", "imad", "ex2", "f2f_pack", "mov", "shfl",
                     "ffma4_ex2_pack"):
            texts = _operations()[name]
            body, many = _arithmetic_body(texts), 8192 if name not in ("ex2", "shfl", "ffma4_ex2_pack") else 2048
            other = _arithmetic_setup(), body, [f"%v{i}" for i in range(CHAINS)]
            out += [_two(f"wgmma_{kind}_n{n}_{'rs' if registers else 'ss'}_beside_{name}_{count}", (kind, n, registers), other,
                         (64, many), f"{4 * len(body)} instructions", count) for count in (1, 2)]
    return out


# ---- global memory

def _bulk_ring(size: int, stages: int, spread: int, mask: int, panels: bool = False) -> tuple[list[str], list[str]]:
    """(setup, body): one thread keeps `stages` copies of `size` bytes under way. A block reads round and round
    `mask` + 1 bytes that begin `spread` times its number on; with `panels` in turn those of its row and of its column."""
    setup = [f"mul.wide.u32 %x0, %blk, {spread};", "add.u64 %x0, %in, %x0;", "mov.u64 %x1, 0;", "mov.u32 %s1, 0;"]
    if panels:
        setup += ["rem.u32 %s8, %blk, 12;", "div.u32 %s9, %blk, 12;", f"mul.wide.u32 %x0, %s8, {mask + 1};",
                  "add.u64 %x0, %in, %x0;",
                  f"mul.wide.u32 %x4, %s9, {mask + 1};", "add.u64 %x4, %in, %x4;", f"add.u64 %x4, %x4, {16 * (mask + 1)};"]

    def issue(s: int) -> list[str]:
        source = ["add.u64 %x2, %x0, %x1;"] if not panels or s % 2 == 0 else ["add.u64 %x2, %x4, %x1;"]
        step = ["add.u64 %x1, %x1, %x3;", f"and.b64 %x1, %x1, {mask};"] if not panels or s % 2 else []
        return [*source, f"mbarrier.arrive.expect_tx.shared.b64 _, [%base+{8 * s}], {size};",
                f"add.u32 %s2, %base, {1024 + size * s};", f"add.u32 %s3, %base, {8 * s};",
                f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s2], [%x2], {size}, [%s3];", *step]
    setup += ["setp.ne.u32 %p6, %lane, 0;", "@%p6 bra DONE;", f"mov.u64 %x3, {size};",
              *(f"mbarrier.init.shared.b64 [%base+{8 * s}], 1;" for s in range(stages)), "fence.proxy.async.shared::cta;"]
    body = []
    for s in range(stages):
        body += [f"WAIT{s}:", f"mbarrier.try_wait.parity.shared.b64 %p3, [%base+{8 * s}], %s1;", f"@!%p3 bra WAIT{s};", *issue(s)]
    first = [line for s in range(stages) for line in issue(s)]
    return [*setup, "mov.u64 %t0, %clock64;", *first], [*body, "xor.b32 %s1, %s1, 1;"]


def _bulk(name: str, size: int, stages: int, iterations: int, spread: int, mask: int, *, panels: bool = False, **more) -> Rate:
    setup, body = _bulk_ring(size, stages, spread, mask, panels)
    last = []
    for s in range(stages):
        last += [f"LAST{s}:", f"mbarrier.try_wait.parity.shared.b64 %p3, [%base+{8 * s}], %s1;", f"@!%p3 bra LAST{s};"]
    lines = [*setup, *_loop("LOOP", "%i", iterations - 1, body), *last, "mov.u64 %t1, %clock64;", "sub.u64 %t1, %t1, %t0;",
             "st.global.u64 [%out], %t1;", "DONE:"]
    return Rate(name, _kernel(32, lines), 32, iterations, size * stages, "bytes", shared=size * stages + 1024, **more)


def _bulk_stores(name: str, size: int, iterations: int, mask: int, **more) -> Rate:
    """One thread stores round and round `mask` + 1 bytes of its block, four copies under way."""
    lines = [f"mul.wide.u32 %x0, %blk, {mask + 1};", "add.u64 %x0, %in, %x0;", "mov.u64 %x1, 0;", "setp.ne.u32 %p6, %lane, 0;",
             "@%p6 bra DONE;", "mov.u64 %t0, %clock64;"]
    body = ["add.u64 %x2, %x0, %x1;", f"cp.async.bulk.global.shared::cta.bulk_group [%x2], [%base], {size};",
            "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 3;", f"add.u64 %x1, %x1, {size};",
            f"and.b64 %x1, %x1, {mask};"]
    lines += [*_loop("LOOP", "%i", iterations, body * 4), "cp.async.bulk.wait_group 0;", "mov.u64 %t1, %clock64;",
              "sub.u64 %t1, %t1, %t0;", "st.global.u64 [%out], %t1;", "DONE:"]
    return Rate(name, _kernel(32, lines), 32, iterations, 4 * size, "bytes", **more)


def _accesses(name: str, text: str, width: int, warps: int, iterations: int, region: int, private: bool, **more) -> Rate:
    """Coalesced loads or stores, four under way: a block goes round and round `region` bytes."""
    step = 32 * warps * width
    setup = [f"mul.wide.u32 %x0, %blk, {region if private else 0};", "add.u64 %x0, %in, %x0;", f"mul.wide.u32 %x5, %thr, {width};",
             "mov.u64 %x1, 0;", *(f"mov.u32 %v{i}, 0;" for i in range(24))]
    body = []
    for i in range(4):
        body += ["add.u64 %x2, %x1, %x5;", "add.u64 %x2, %x2, %x0;", text.replace("{d}", _registers(4 + 4 * i, width)),
                 f"add.u64 %x1, %x1, {step};", f"and.b64 %x1, %x1, {region - 1};"]
    if text.startswith("ld"):
        body += [f"xor.b32 %v0, %v0, %v{4 + 4 * i + j};" for i in range(4) for j in range(width // 4)]
    return _timed(name, 32 * warps, iterations, 4 * step, setup, body, _keep(["%v0"]), unit="bytes", **more)


def _registers(first: int, width: int) -> str:
    return f"%v{first}" if width == 4 else "{" + ", ".join(f"%v{first + i}" for i in range(width // 4)) + "}"


def _scattered(name: str, text: str, region: int, warps: int, iterations: int, lanes_apart: int = 32, **more) -> Rate:
    """Accesses whose lanes, or groups of lanes, go to sectors of their own, any in the region."""
    setup = [f"mad.lo.u32 %s0, %blk, {32 * warps}, %thr;", f"shr.u32 %s1, %s0, {(32 // lanes_apart).bit_length() - 1};",
             "mul.lo.u32 %s1, %s1, 0x9e3779b1;", f"and.b32 %s2, %lane, {32 // lanes_apart - 1};", "shl.b32 %s2, %s2, 2;",
             *(f"mov.u32 %v{i}, 0;" for i in range(24)), "mov.u32 %v1, %thr;"]
    body = []
    for i in range(4):
        body += ["mad.lo.u32 %s1, %s1, 1664525, 1013904223;", "shr.u32 %s3, %s1, 2;", f"and.b32 %s3, %s3, {(region - 1) & ~31};",
                 "add.u32 %s3, %s3, %s2;", "cvt.u64.u32 %x2, %s3;", "add.u64 %x2, %x2, %in;",
                 text.replace("{d}", f"%v{4 + i}")]
    if "ld" in text or "atom" in text:
        body += [f"xor.b32 %v0, %v0, %v{4 + i};" for i in range(4)]
    return _timed(name, 32 * warps, iterations, 4 * warps, setup, body, _keep(["%v0"]), **{"bytes": region + 64 * KIB, **more})


def _atomics() -> list[Rate]:
    out = []
    forms = {"red_u32": "red.global.add.u32 [%x2], %v1;", "red_f32": "red.global.add.f32 [%x2], %v1;",
             "atom_u32": "atom.global.add.u32 {d}, [%x2], %v1;", "red_f16x2": "red.global.add.noftz.f16x2 [%x2], %v1;"}
    places = {"same": "mov.u32 %s3, 0;", "same_of_block": "shl.b32 %s3, %blk, 10;", "line": "shl.b32 %s3, %lane, 2;",
              "line_of_block": "shl.b32 %s3, %lane, 2; mad.lo.u32 %s3, %blk, 1024, %s3;",
              "line_of_warp": "shl.b32 %s3, %thr, 2; mad.lo.u32 %s3, %blk, 1024, %s3;"}
    for form, text in forms.items():
        for place, where in places.items():
            body = [text.replace("{d}", "%v4")] * 4
            setup = [where, "cvt.u64.u32 %x2, %s3;", "add.u64 %x2, %x2, %in;", "mov.u32 %v1, %thr;",
                     "mov.u32 %v0, 0;", "mov.u32 %v4, 0;"]
            for blocks in (1, 0):
                out.append(_timed(f"{form}_{place}_{'one' if blocks else 'all'}", 256, 16, 32, setup, body, _keep(["%v0", "%v4"]),
                                  blocks=blocks, bytes=2 * MIB))
    for region in (1 * KIB, 64 * KIB, 16 * MIB):
        for form in ("red_u32", "red_f32", "atom_u32"):
            out.append(_scattered(f"{form}_any_of_{region // KIB}k", forms[form], region, 8, 16, blocks=0))
    return out


def _memory() -> list[Rate]:
    out = []
    for blocks in (1, 16, 66, 0):
        out.append(_bulk(f"tma_l2_own_{blocks or 'all'}", 16 * KIB, 8, 32, 128 * KIB, 128 * KIB - 1, blocks=blocks, bytes=32 * MIB))
        out.append(_bulk(f"tma_l2_same_{blocks or 'all'}", 16 * KIB, 8, 32, 0, 4 * MIB - 1, blocks=blocks, bytes=32 * MIB))
        out.append(_accesses(f"ldg128_l2_own_{blocks or 'all'}", "ld.global.cg.v4.u32 {d}, [%x2];", 16, 16, 64, 128 * KIB, True,
                             blocks=blocks, bytes=32 * MIB))
        out.append(_accesses(f"stg128_l2_own_{blocks or 'all'}", "st.global.v4.u32 [%x2], {d};", 16, 16, 64, 128 * KIB, True,
                             blocks=blocks, bytes=32 * MIB))
    gather = "ld.global.cg.u32 {d}, [%x2];"
    out.append(_bulk("tma_l2_panels", 16 * KIB, 8, 64, 0, 512 * KIB - 1, panels=True, blocks=0, bytes=32 * MIB))
    for blocks in (1, 0):
        at = blocks or "all"
        for width, kind in ((4, "u32"), (8, "v2.u32")):
            for verb, text in (("ldg", f"ld.global.cg.{kind} {{d}}, [%x2];"), ("stg", f"st.global.{kind} [%x2], {{d}};")):
                out.append(_accesses(f"{verb}{8 * width}_l2_own_{at}", text, width, 16, 64, 128 * KIB, True, blocks=blocks,
                                     bytes=32 * MIB))
        out.append(_accesses(f"ldg128_l2_same_{at}", "ld.global.cg.v4.u32 {d}, [%x2];", 16, 16, 64, 4 * MIB, False, blocks=blocks,
                             bytes=32 * MIB))
        for apart in (32, 8, 4):
            out.append(_scattered(f"gather_{apart}_l2_{at}", gather, 16 * MIB, 16, 64, apart, blocks=blocks))
        out.append(_scattered(f"gather_32_l2_32w_{at}", gather, 16 * MIB, 32, 64, blocks=blocks))
        out.append(_bulk_stores(f"tma_store_l2_{at}", 16 * KIB, 32, 128 * KIB - 1, blocks=blocks, bytes=32 * MIB))
        out.append(_scattered(f"scatter_32_l2_{at}", "st.global.u32 [%x2], %v1;", 16 * MIB, 16, 64, blocks=blocks))
    for width, kind in ((4, "u32"), (8, "v2.u32"), (16, "v4.u32")):
        out.append(_accesses(f"ldg{8 * width}_l1", f"ld.global.nc.{kind} {{d}}, [%x2];", width, 16, 256, 32 * KIB, False))
    for apart in (32, 8):
        out.append(_scattered(f"gather_{apart}_l1", "ld.global.nc.u32 {d}, [%x2];", 32 * KIB, 16, 64, apart))
    out.append(_bulk_stores("tma_store_dram", 16 * KIB, 64, 4 * MIB - 1, blocks=0, bytes=640 * MIB, cold=True))
    out.append(_scattered("gather_32_dram", gather, 1 << 30, 16, 16, blocks=0, per_sm=4, cold=True))
    for kib in (4, 16):
        for flight in (8, 16, 32, 64, 128):
            if flight >= 2 * kib:
                stages = flight // kib
                out.append(_bulk(f"tma_dram_{kib}k_{flight}k", kib * KIB, stages, 4096 // flight, 4 * MIB, 4 * MIB - 1, blocks=0,
                                 bytes=640 * MIB, cold=True))
    return out


def _streams() -> list[Rate]:
    """Whole launches, of which the microseconds matter: nothing at all, and reading or copying so much from cold memory."""
    out = []
    for per_sm, threads in ((1, 128), (8, 128), (64, 128), (256, 128), (64, 1024)):
        for kib in (1, 100) if per_sm == 64 else (1,):
            out.append(_timed(f"nothing_{per_sm}x{threads}_{kib}k", threads, 1, 1, [], [], blocks=0, per_sm=per_sm,
                              shared=kib * KIB, unit="launches"))
    for mib in (1, 4, 16, 64, 256):
        for copies in (False, True):
            setup = ["mul.wide.u32 %x0, %blk, 16384;", "mul.wide.u32 %x1, %thr, 16;", "add.u64 %x0, %x0, %x1;",
                     "add.u64 %x0, %x0, %in;", f"add.u64 %x1, %x0, {256 * MIB};", "mov.u32 %v0, 0;"]
            body = [f"ld.global.v4.u32 {_registers(4 + 4 * i, 16)}, [%x0+{4096 * i}];" for i in range(4)]
            body += [f"xor.b32 %v0, %v0, %v{i};" for i in range(4, 20)] if not copies else [
                f"st.global.v4.u32 [%x1+{4096 * i}], {_registers(4 + 4 * i, 16)};" for i in range(4)]
            out.append(_timed(f"{'copy' if copies else 'read'}_{mib}m", 256, 1, 16384, setup, body, _keep(["%v0"]), unit="bytes",
                              blocks=64 * mib, bytes=512 * MIB, shared=1024, cold=True))
    return out


def rates() -> list[Rate]:
    """Every rate kernel."""
    pairs = [_beside(f"wgmma_{kind}_n{n}_{'rs' if rs else 'ss'}", (kind, n, rs), other)
             for kind, n, rs in (("f16", 128, False), ("f16", 256, False), ("f16", 128, True), ("f16", 64, False))
             for other in ("lds128", "sts128", "ldsm_x4", "stsm_x4", "lds32")]
    return [*_arithmetic(), *_mma_all(), *_wgmma_all(), *_shared_all(), *pairs, *_beside_arithmetic(), *_memory(), *_atomics(),
            *_streams()]
