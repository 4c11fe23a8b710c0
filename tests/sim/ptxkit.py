"""Small PTX kernels around a few instructions, and exact rational rounding to compare them with."""
from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tileiras.sim import simulate

LOAD = {"u8": "u8", "s8": "s8", "u16": "u16", "s16": "s16", "u32": "u32", "s32": "s32", "u64": "u64", "s64": "s64",
        "b8": "u8", "b16": "b16", "b32": "b32", "b64": "b64", "f32": "f32", "f64": "f64", "f16": "b16", "bf16": "b16",
        "f16x2": "b32", "bf16x2": "b32", "f32x2": "b64"}
WIDTH = {"u8": 1, "s8": 1, "b8": 1, "u16": 2, "s16": 2, "b16": 2, "f16": 2, "bf16": 2, "u32": 4, "s32": 4, "b32": 4,
         "f32": 4, "f16x2": 4, "bf16x2": 4, "u64": 8, "s64": 8, "b64": 8, "f64": 8, "f32x2": 8}
REGISTER = {1: "b16", 2: "b16", 4: "b32", 8: "b64"}


def kernel(body: str, inputs: list[str], outputs: list[str], threads: int = 32, extra: str = "",
           target: str = "sm_120a") -> str:
    """A kernel whose thread i loads element i of every input into %x0, %x1, ..., runs `body`, and stores %y0, ..."""
    params = [f".param .u64 in{i}" for i in range(len(inputs))] + [f".param .u64 out{i}" for i in range(len(outputs))]
    lines = [".version 9.0", f".target {target}", ".address_size 64", extra, f".visible .entry k({', '.join(params)})",
             f".reqntid {threads}", "{", ".reg .pred %p<16>;", ".reg .b16 %h<16>;", ".reg .b32 %r<64>;",
             ".reg .b64 %rd<64>;", ".reg .b64 %at<32>;", ".reg .b32 %gid, %cta, %ntid;"]
    for name, types in (("x", inputs), ("y", outputs)):
        lines += [f".reg .{REGISTER[WIDTH[t]]} %{name}{i};" for i, t in enumerate(types)]
    lines += ["mov.u32 %gid, %tid.x;", "mov.u32 %cta, %ctaid.x;", "mov.u32 %ntid, %ntid.x;",
              "mad.lo.u32 %gid, %cta, %ntid, %gid;"]
    for i, t in enumerate(inputs):
        lines += [f"ld.param.u64 %at{i}, [in{i}];", f"mad.wide.u32 %at{i}, %gid, {WIDTH[t]}, %at{i};",
                  f"ld.global.{LOAD[t]} %x{i}, [%at{i}];"]
    lines.append(body)
    for i, t in enumerate(outputs):
        k = len(inputs) + i
        lines += [f"ld.param.u64 %at{k}, [out{i}];", f"mad.wide.u32 %at{k}, %gid, {WIDTH[t]}, %at{k};",
                  f"st.global.{LOAD[t]} [%at{k}], %y{i};"]
    return "\n".join(lines + ["ret;", "}", ""])


def evaluate(body: str, inputs: Sequence[tuple[str, np.ndarray]], outputs: Sequence[tuple[str, Any]],
             target: str = "sm_120a", **options) -> Any:
    """Run `body` for every element of the inputs; returns the output array, or a list of them."""
    n = len(inputs[0][1]) if inputs else 32
    text = kernel(body, [t for t, _ in inputs], [t for t, _ in outputs], 32, target=target)
    padded = (n + 31) // 32 * 32
    given = [np.resize(np.asarray(a), padded) for _, a in inputs]
    results = [np.zeros(padded, d) for _, d in outputs]
    simulate(text, grid=padded // 32, args=[*given, *results], **options)
    out = [r[:n] for r in results]
    return out[0] if len(out) == 1 else out


FORMATS = {"f16": (11, -14, 65504), "bf16": (8, -126, Fraction(255, 128) * 2**127),
           "f32": (24, -126, (2 - Fraction(1, 2**23)) * 2**127), "f64": (53, -1022, (2 - Fraction(1, 2**52)) * 2**1023)}


def rounded(x: Fraction, fmt: str, mode: str) -> float:
    """A rational number rounded to a format (rn, rz, rm, rp, rna), by the definition of rounding."""
    precision, least, greatest = FORMATS[fmt]
    if x == 0:
        return 0.0
    a = abs(x)
    e = a.numerator.bit_length() - a.denominator.bit_length()
    while Fraction(2) ** e > a:
        e -= 1
    while Fraction(2) ** (e + 1) <= a:
        e += 1
    quantum = Fraction(2) ** (max(e, least) - precision + 1)
    q, rest = divmod(a, quantum)
    q = int(q)
    twice = 2 * rest
    up = {"rn": twice > quantum or (twice == quantum and q & 1), "rna": twice >= quantum, "rz": False,
          "rm": x < 0 and rest > 0, "rp": x > 0 and rest > 0}[mode]
    y = (q + bool(up)) * quantum
    if y > greatest:
        away = mode in ("rn", "rna") or (mode == "rp" and x > 0) or (mode == "rm" and x < 0)
        if away:
            return float("inf") if x > 0 else float("-inf")
        y = Fraction(greatest)
    return float(y) if x > 0 else -float(y)
