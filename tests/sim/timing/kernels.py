"""Hand-written PTX with its cubin, and suite kernels compiled by us and by the original, for the tests of the join."""
from __future__ import annotations

import functools
import subprocess

import pytest

from tests.kernels import runner
from tests.sim import reference
from tileiras.codegen.ptxas import assemble
from tileiras.codegen.toolchain import find_tool
from tileiras.sim.timing.cubin import Cubin
from tileiras.sim.timing.stream import KernelStreams
from tileiras.sim.timing.streams import streams_of

needs_disassembler = pytest.mark.skipif(find_tool("nvdisasm") is None, reason="nvdisasm isn't installed")
LOOP = """
.version 8.7
.target sm_90
.address_size 64
.shared .align 16 .b8 tile[8192];
.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 rounds, .param .u32 stride)
.reqntid 64
{
  .reg .pred %p<4>;
  .reg .b32 %r<20>;
  .reg .b64 %rd<10>;
  .reg .f32 %f<6>;
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  ld.param.u32 %r1, [rounds];
  ld.param.u32 %r2, [stride];
  mov.u32 %r3, %tid.x;
  mul.wide.u32 %rd3, %r3, 4;
  add.u64 %rd4, %rd1, %rd3;
  add.u64 %rd5, %rd2, %rd3;
  mul.lo.u32 %r4, %r3, %r2;
  mov.u32 %r5, tile;
  add.u32 %r6, %r5, %r4;
  mov.u32 %r7, 0;
  mov.f32 %f1, 0f00000000;
again:
  ld.global.f32 %f2, [%rd4];
  st.shared.f32 [%r6], %f2;
  bar.sync 0;
  ld.shared.f32 %f3, [%r6];
  add.f32 %f1, %f1, %f3;
  bar.sync 0;
  add.u64 %rd4, %rd4, 256;
  add.u32 %r7, %r7, 1;
  setp.lt.u32 %p1, %r7, %r1;
  @%p1 bra again;
  setp.lt.u32 %p2, %r3, 32;
  @%p2 st.global.f32 [%rd5], %f1;
  ret;
}
"""


@functools.cache
def assembled(ptx: str, target: str = "sm_90", lineinfo: bool = True) -> bytes:
    """The cubin of a text."""
    return assemble(ptx, [f"-arch={target}", "-O3", *(["-lineinfo"] if lineinfo else [])]).cubin


@functools.cache
def original_cubin(name: str, sm: str) -> bytes:
    """What the original makes of a case, with line information; empty where it doesn't compile it."""
    try:
        return reference.original_cubin(name, sm)
    except subprocess.CalledProcessError:
        return b""


def case_cubin(name: str, sm: str, original: bool) -> bytes:
    """A suite case's code with line information, ours or the original's; empty where it doesn't compile it."""
    return original_cubin(name, sm) if original else runner.compile_case(name, sm, 3, lineinfo=True).cubin


def suite_streams(name: str, sm: str, original: bool, most: int = 6) -> KernelStreams | None:
    """The streams of a suite case's first CTAs; None where the original has no code for it."""
    cubin = case_cubin(name, sm, original)
    return cubin_streams(name, sm, original, cubin, most) if cubin else None


def cubin_streams(name: str, sm: str, original: bool, cubin: bytes, most: int = 6) -> KernelStreams:
    """The same of a cubin."""
    case, launch = runner.case_of(name), runner.launch_of(name)
    args = reference.arguments(name, sm, launch.flat) if original else launch.flat
    ctas = range(min(case.grid[0] * case.grid[1] * case.grid[2], most))
    return streams_of(Cubin(cubin).ptx, cubin, name, case.grid, args, ctas=list(ctas))
