"""Entries are read from PTX, resources from ptxas' report."""
from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from tests.codegen.test_ptx_fixup import EXPECTED
from tileiras.codegen import ptxas
from tileiras.codegen.resources import entries_of_ptx, with_resources
from tileiras.machine.targets import TARGETS, Target

REPORT = """ptxas info    : 64 bytes gmem
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 4 registers, used 0 barriers
ptxas info    : Compile time = 3.040 ms
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 255 registers, used 2 barriers, 16 bytes cumulative stack size, 49152 bytes smem
"""


def test_entries_and_their_resources() -> None:
    k, second = with_resources(entries_of_ptx(EXPECTED), REPORT)
    assert (k.name, k.threads, k.registers, k.shared_bytes, k.barriers) == ("k", 128, 255, 49152, 2)
    assert (k.stack_bytes, k.spill_stores, k.spill_loads) == (16, 12, 20)
    assert [(p.type, p.bytes, p.pointer) for p in k.params] == [(".u64", 8, True)]
    assert [(p.type, p.bytes, p.hidden) for p in k.hidden] == [(".b8", 128, True)] and k.param_offsets == (0, 48)
    assert k.param_bytes == 176  # sm_90: the tensor map is at 0x240, parameters begin at 0x210
    assert (second.name, second.threads, second.registers, second.params) == ("second", 64, 4, ())


SIGNATURES = [
    # parameters of a kernel
    ".param .u64 a",
    ".param .u8 a, .param .u64 b, .param .u16 c, .param .u32 d",
    ".param .u64 a, .hidden .param .align 64 .b8 m[128]",
    ".param .u64 a, .param .u32 b, .param .u64 c, .param .u32 d, .param .u16 e, .hidden .param .align 64 .b8 m[128]",
    ".param .u64 .ptr .global .align 128 a, .param .u8 b, .hidden .param .u64 .ptr .global .align 1 h, "
    ".hidden .param .align 64 .b8 m[128], .hidden .param .align 64 .b8 n[128]",
    ".param .align 16 .b8 a[24], .param .u32 b",
    ".param .u8 x[72], .hidden .param .align 64 .b8 m[128]",
]
_INFO_SECTION, _WITH_SIZE, _PARAM_CBANK = 0x70000000, 4, 0x0A


def attributes(cubin: bytes, wanted: int) -> Iterator[bytes]:
    """The contents of an attribute in the `.nv.info.<kernel>` sections."""
    table, = struct.unpack_from("<Q", cubin, 40)
    count, = struct.unpack_from("<H", cubin, 60)
    for i in range(count):
        _, kind, _, _, at, size, _, info, _, _ = struct.unpack_from("<IIQQQQIIQQ", cubin, table + 64 * i)
        if kind != _INFO_SECTION or not info:
            continue
        end = at + size
        while at < end:
            form, attribute, length = struct.unpack_from("<BBH", cubin, at)
            at += 4
            if form == _WITH_SIZE:
                if attribute == wanted:
                    yield cubin[at:at + length]
                at += length


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_parameters_lie_where_ptxas_puts_them(target: Target) -> None:
    """The cubin says where in the constant bank the parameters begin and how long they are."""
    kernels = "".join(f".visible .entry k{i}(\n{signature.replace(', ', f',{chr(10)}')}\n)\n.reqntid 32\n{{\nret;\n}}\n"
                      for i, signature in enumerate(SIGNATURES))
    ptx = f".version {target.ptx_version}\n.target {target.ptx}\n.address_size 64\n{kernels}"
    places = [struct.unpack("<IHH", data)[1:] for data in attributes(
        ptxas.assemble(ptx, [f"-arch={target.ptx}"]).cubin, _PARAM_CBANK)]
    assert sorted(places) == sorted((e.param_base, e.param_bytes) for e in entries_of_ptx(ptx)) and len(places) == len(SIGNATURES)
