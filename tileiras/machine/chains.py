"""Which PTX operations are timed by chains, and what such a chain looks like as a kernel.

A chain is one operation many times over. Dependent: each takes the result of the one before, so that two stand as far apart as
the operation's latency. Independent: WAYS chains side by side, two stand as far apart as the issue interval. `extract.py`
assembles the kernels and reads the distances off.
"""
from __future__ import annotations

from dataclasses import dataclass

LENGTH = 24
"""Operations in a dependent chain."""
WAYS = 8
"""Chains side by side in an independent one; what can't be chained stands WAYS times ROUNDS times."""
ROUNDS = 4
"""How often each of those goes on."""
CHANGING = 4
"""Different second operands, so that two operations on one value aren't folded into one."""


@dataclass(frozen=True)
class Operation:
    """`ptx`: {d} is the result, {x} what the chain carries, {a} and {b} other operands, {p} a predicate, {q} a 64-bit address,
    {n} a different number each time; {d4}, {a4}: four registers. `sass`: how the machine's instruction may be called.
    `width`: bits of the chain's registers; 128 is four of 32. `features`: what the target must have."""

    name: str
    ptx: str
    sass: tuple[str, ...]
    width: int = 32
    features: tuple[str, ...] = ()
    chained: bool = True
    """The result can be an operand."""
    writes: bool = True
    """There is a result."""


def _op(name: str, sass: str, ptx: str, width: int = 32, features: str = "", chained: bool = True,
        writes: bool = True) -> Operation:
    return Operation(name, ptx, tuple(sass.split()), width, tuple(features.split()), chained, writes)


def _mma(shape: str, types: str, sass: str, a: int, b: int, features: str = "") -> Operation:
    ptx = f"mma.sync.aligned.{shape}.row.col.{types} {{d4}}, {{a{a}}}, {{b{b}}}, {{d4}};"
    return _op(f"mma.{shape}.{types.split('.')[1]}", sass, ptx, 128, features)


OPERATIONS = (
    _op("fma.f32", "FFMA", "fma.rn.f32 {d}, {x}, {a}, {b};"),
    _op("add.f32", "FADD", "add.rn.f32 {d}, {x}, {a};"),
    _op("mul.f32", "FMUL", "mul.rn.f32 {d}, {x}, {a};"),
    _op("fma.f32x2", "FFMA2 FFMA", "fma.rn.f32x2 {d}, {x}, {a}, {b};", 64, "has_f32x2_arith"),
    _op("min.f32", "FMNMX FMNMX3", "min.f32 {d}, {x}, {a};"),
    _op("fma.f16x2", "HFMA2", "fma.rn.f16x2 {d}, {x}, {a}, {b};"),
    _op("add.f16x2", "HADD2 HFMA2", "add.rn.f16x2 {d}, {x}, {a};"),
    _op("mul.f16x2", "HMUL2 HFMA2", "mul.rn.f16x2 {d}, {x}, {a};"),
    _op("min.f16x2", "HMNMX2 VHMNMX", "min.f16x2 {d}, {x}, {a};", 32, "has_f16_minmax"),
    _op("fma.bf16x2", "HFMA2", "fma.rn.bf16x2 {d}, {x}, {a}, {b};", 32, "has_bf16_fma"),
    _op("fma.f64", "DFMA", "fma.rn.f64 {d}, {x}, {a}, {b};", 64),
    _op("add.f64", "DADD", "add.rn.f64 {d}, {x}, {a};", 64),
    _op("add.s32", "IADD3 IADD IMAD.IADD VIADD", "add.s32 {d}, {x}, {a};"),
    _op("mad.lo.s32", "IMAD", "mad.lo.s32 {d}, {x}, {a}, {b};"),
    _op("mad.wide.u32", "IMAD.WIDE", "mad.wide.u32 {d}, {a}, {b}, {x};", 64),
    _op("lop3", "LOP3", "lop3.b32 {d}, {x}, {a}, {b}, 0x96;"),
    _op("shf", "SHF", "shf.l.wrap.b32 {d}, {x}, {a}, {b};"),
    _op("prmt", "PRMT", "prmt.b32 {d}, {x}, {a}, {b};"),
    _op("min.s32", "IMNMX VIMNMX VIMNMX3", "min.s32 {d}, {x}, {a};"),
    _op("setp.s32", "ISETP", "setp.lt.s32 {p}, {x}, {a}; selp.b32 {d}, {b}, {x}, {p};"),
    _op("setp.f32", "FSETP", "setp.lt.f32 {p}, {x}, {a}; selp.b32 {d}, {b}, {x}, {p};"),
    _op("selp", "SEL", "setp.lt.s32 {p}, {x}, {a}; selp.b32 {d}, {b}, {x}, {p};"),
    _op("ex2.f32", "MUFU.EX2", "ex2.approx.ftz.f32 {d}, {x};"),
    _op("rcp.f32", "MUFU.RCP", "rcp.approx.ftz.f32 {d}, {x}; xor.b32 {d}, {d}, {a};"),
    _op("rsqrt.f32", "MUFU.RSQ", "rsqrt.approx.ftz.f32 {d}, {x};"),
    _op("lg2.f32", "MUFU.LG2", "lg2.approx.ftz.f32 {d}, {x};"),
    _op("tanh.f32", "MUFU.TANH", "tanh.approx.f32 {d}, {x};"),
    _op("cvt.f16x2.f32", "F2FP", "cvt.rn.f16x2.f32 {d}, {x}, {a};", 32, "has_cvt_bf16"),
    _op("cvt.s32.f32", "F2I", "cvt.rzi.s32.f32 {d}, {x};"),
    _op("cvt.f32.s32", "I2F I2FP", "cvt.rn.f32.s32 {d}, {x};"),
    _op("popc", "POPC", "popc.b32 {d}, {x};"),
    _op("bfind", "FLO", "bfind.u32 {d}, {x};"),
    _op("redux", "REDUX CREDUX", "redux.sync.add.s32 {d}, {x}, -1;", 32, "has_redux"),
    _op("shfl", "SHFL", "shfl.sync.bfly.b32 {d}, {x}, 1, 31, -1;"),
    _op("vote", "VOTE", "setp.ne.s32 {p}, {x}, {a}; vote.sync.ballot.b32 {d}, {p}, -1;"),
    _op("ld.shared.b32", "LDS", "ld.shared.b32 {d}, [{x}];"),
    _op("ld.shared.v4", "LDS.128 LDS.U.128", "ld.shared.v4.b32 {d4}, [{a}+{n}];", 128, chained=False),
    _op("st.shared.b32", "STS", "st.shared.b32 [{b}+{n}], {a};", chained=False, writes=False),
    _op("st.shared.v4", "STS.128", "st.shared.v4.b32 [{b}+{n}], {a4};", chained=False, writes=False),
    _op("ldmatrix.x4", "LDSM", "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {d4}, [{a}+{n}];", 128, "has_ldmatrix", chained=False),
    _op("stmatrix.x4", "STSM", "stmatrix.sync.aligned.m8n8.x4.shared.b16 [{b}+{n}], {a4};", 32, "has_stmatrix", chained=False,
        writes=False),
    _op("ld.global.b32", "LDG", "ld.global.b32 {d}, [{q}+{n}];", chained=False),
    _mma("m16n8k8", "f32.f16.f16.f32", "HMMA.1688", 2, 1),
    _mma("m16n8k16", "f32.f16.f16.f32", "HMMA.16816", 4, 2, "has_f16_mma_k16"),
    _mma("m16n8k16", "f32.bf16.bf16.f32", "HMMA.16816", 4, 2, "has_bf16_mma"),
    _mma("m16n8k8", "f32.tf32.tf32.f32", "HMMA.1688", 4, 2, "has_tf32_mma"),
    _mma("m16n8k32", "s32.s8.s8.s32", "IMMA", 4, 2, "has_f16_mma_k16"),
    _mma("m16n8k32", "f32.e4m3.e4m3.f32", "QMMA HMMA.16816", 4, 2, "has_fp8_mma"),
)


def kernel(operation: Operation, dependent: bool, times: int = 1) -> str:
    """A kernel, as PTX, that holds the operation's chain. Its name is made of the operation's and `dependent`. `times`: so many
    times as long."""
    ways, rounds = (1, LENGTH * times) if dependent else (WAYS, ROUNDS * times) if operation.chained else (WAYS * ROUNDS, 1)
    wide = 64 if operation.width == 64 else 32
    words = 4 if operation.width == 128 else 1
    name = kernel_name(operation, dependent)
    lines = [f".visible .entry {name}(.param .u64 base)", "{", f".reg .b{wide} %x<{ways * words}>;",
             f".reg .b32 %a<{CHANGING * 4}>, %b<{CHANGING * 4}>, %t;", f".reg .b64 %w<{CHANGING}>, %v<{CHANGING}>, %q;",
             ".reg .pred %p<8>;", "ld.param.u64 %q, [base];", "mov.u32 %t, %tid.x;", "mad.wide.u32 %q, %t, 8, %q;"]
    offset = 0
    for register in [f"%x{i}" for i in range(ways * words)] if operation.chained or not operation.writes else ():
        lines.append(f"ld.global.b{wide} {register}, [%q+{offset}];")
        offset += 4096
    for kind, bits, count in (("a", 32, CHANGING * 4), ("b", 32, CHANGING * 4), ("w", 64, CHANGING), ("v", 64, CHANGING)):
        for i in range(count):
            lines.append(f"ld.global.b{bits} %{kind}{i}, [%q+{offset}];")
            offset += 4096
    narrow = operation.width != 64 or "wide" in operation.name
    for step in range(ways * rounds):
        way, turn = step % ways, step % CHANGING
        group = [f"%x{way * words + i}" for i in range(words)]
        a, b = (f"%a{turn}", f"%b{turn}") if narrow else (f"%w{turn}", f"%v{turn}")
        four = [f"%a{turn * 4 + i}" for i in range(4)]
        pair = [f"%b{turn * 4 + i}" for i in range(4)]
        fields = {"d": group[0], "x": group[0], "a": a, "b": b, "p": f"%p{step % 8}", "q": "%q", "n": 16 * step,
                  "d4": _vector(group), "a4": _vector(four), "a2": _vector(four[:2]), "b2": _vector(pair[:2]),
                  "b1": _vector(pair[:1])}
        lines.append(operation.ptx.format(**fields))
    for i in range(ways * words) if operation.writes else ():
        lines.append(f"st.global.b{wide} [%q+{offset}], %x{i};")
        offset += 4096
    return "\n".join([*lines, "ret;", "}", ""])


def kernel_name(operation: Operation, dependent: bool) -> str:
    return operation.name.replace(".", "_") + ("_dependent" if dependent else "_independent")


def _vector(registers: list[str]) -> str:
    return "{" + ", ".join(registers) + "}"
