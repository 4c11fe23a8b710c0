"""What the original compiler makes of the kernel suite: the PTX that its cubins embed, and the tensor maps of its launches.

A kernel that uses the tensor copy engine has hidden parameters: 128 bytes a map, which the driver has the cubin's own host
code fill in before each launch. That code is an object file for x86-64 in section `.nv.host`; here it is loaded and called.
It takes the buffer of the kernel's parameters, laid out as in the constant bank, reads the ordinary ones and writes the
hidden ones.

    ptx = original_ptx("matmul_float16_float32", "sm_90")
    args = arguments("matmul_float16_float32", "sm_90", launch.flat)     # with the maps for hidden parameters
"""
from __future__ import annotations

import ctypes
import functools
import os
import pathlib
import re
import struct
import subprocess
import tempfile
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from tests.kernels import runner
from tileiras.sim.copy.tensormap import MAP_BYTES, MapArgument
from tileiras.sim.ptx import module as ptx
from tileiras.sim.run.launch import PointerTable, choose_entry, parse_cached

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORD = 8
ROW_WORDS, ROWS, COUNT = 8, 5, 6                # of a kernel's row; in the vector of callbacks: its rows, how many
NAME, ON_ARGUMENTS_CHANGE = 0, 5                # in a row
JUNK = 0xCD                                     # what the driver's buffer may hold where the host code writes nothing
APART = 40                                      # pretended base addresses are multiples of 2**APART


def original() -> str | None:
    """The original's command: named by TILEIRAS_ORIGINAL, or in the environment that `make bench` makes; else None."""
    found = os.environ.get("TILEIRAS_ORIGINAL")
    places = [pathlib.Path(found)] if found else sorted(
        ROOT.glob(".venv-reference/lib/python*/site-packages/nvidia/cu13/bin/tileiras"))
    return next((str(p) for p in places if p.is_file()), None)


def section(cubin: bytes, wanted: bytes) -> bytes:
    """The contents of an ELF file's section."""
    table, = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    strings, = struct.unpack_from("<Q", cubin, table + names * size + 24)
    for i in range(count):
        name, _, _, _, start, length = struct.unpack_from("<IIQQQQ", cubin, table + i * size)
        if cubin[strings + name:].startswith(wanted + b"\0"):
            return cubin[start:start + length]
    raise AssertionError(f"no section {wanted.decode()}")


@functools.cache
def original_cubin(name: str, sm: str) -> bytes:
    """What the original makes of a case for an SM."""
    command = original()
    assert command is not None
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "k.cubin"
        subprocess.run([command, str(runner.bytecode_path(name, runner.case_of(name).versions[0])), "-o", str(file),
                        "--gpu-name", sm, "-O3", "--lineinfo"], check=True, timeout=120, capture_output=True)
        return file.read_bytes()


@functools.cache
def original_ptx(name: str, sm: str) -> str:
    """The PTX in it. Its lines end in NUL."""
    return section(original_cubin(name, sm), b".nv_debug_ptx_txt").decode().replace("\0", "\n")


def has_maps(text: str) -> bool:
    """Whether a kernel takes tensor maps in hidden parameters."""
    return HIDDEN_MAP.search(text) is not None


HIDDEN_MAP = re.compile(r"\.hidden\s+\.param\s+\.align 64 \.b8 (\w+)\[128\]")
HIDDEN_POINTER = re.compile(r"\.hidden\s+\.param\s+\.u64\s+(?:\.ptr\s+\.global\s+\.align 1\s+)?(\w+)")


# ---- the host code

class HostCode:
    """The host code of one cubin, loaded for good."""

    def __init__(self, cubin: bytes) -> None:
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        engine.add_object_file(llvm.ObjectFileRef.from_data(section(cubin, b".nv.host")))
        engine.finalize_object()
        self.engine = engine
        vector = engine.get_global_value_address("__CUDA_TILEIR_CALLBACKS")
        assert vector
        rows, count = _words(vector, COUNT + 1)[ROWS:]
        self.callbacks = {}
        for i in range(count):
            row = _words(rows + i * ROW_WORDS * WORD, ROW_WORDS)
            self.callbacks[ctypes.string_at(row[NAME]).decode()] = row[ON_ARGUMENTS_CHANGE]

    def fill(self, kernel: str, parameters: bytearray, device_memory: int) -> bytes:
        """The parameters with the hidden ones as the host code writes them."""
        buffer = ctypes.create_string_buffer(bytes(parameters), len(parameters))
        runtime = (ctypes.c_uint64 * 2)(0, device_memory)
        change = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        assert change(self.callbacks[kernel])(None, ctypes.addressof(runtime), None, ctypes.addressof(buffer)) == 0
        return buffer.raw


def _words(address: int, count: int) -> list[int]:
    return list((ctypes.c_uint64 * count).from_address(address))


def _machine() -> llvm.TargetMachine:
    """A machine for one engine, which takes it over."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="large", jit=True)


# ---- the parameters

def constant_bank(sm: str) -> int:
    """Where a kernel's parameters begin in the constant bank, whose addresses their alignment counts from."""
    number = int(sm.removeprefix("sm_").rstrip("af"))
    return next(base for first, base in ((100, 0x380), (90, 0x210), (0, 0x160)) if number >= first)


def offsets(entry: ptx.Function, sm: str) -> dict[str, int]:
    """Offset of each parameter in the launch's buffer; "" names the end."""
    base, end, out = constant_bank(sm), 0, {}
    for p in entry.params:
        align = max(p.align, 1)
        end = (base + end + align - 1) // align * align - base
        out[p.name] = end
        end += p.size
    out[""] = end
    return out


def arguments(name: str, sm: str, flat: list) -> list:
    """All launch arguments of a case: its own, then the tensor maps, and null for buffers of the older drivers."""
    return arguments_of(original_ptx(name, sm), original_cubin(name, sm), sm, flat)


def arguments_of(text: str, cubin: bytes, sm: str, flat: list) -> list:
    """The same of any kernel that the original compiled."""
    entry = choose_entry(parse_cached(text), None)
    places = offsets(entry, sm)
    hidden = HIDDEN_MAP.findall(text)
    if not hidden:
        return [*flat, *[None] * (len(entry.params) - len(flat))]
    code = HostCode(cubin)
    pointers = [i for i, value in enumerate(flat) if isinstance(value, np.ndarray | PointerTable)]
    parameters = bytearray([JUNK]) * places[""]
    for i, (p, value) in enumerate(zip(entry.params, flat)):
        at = places[p.name]
        data = ((i + 1) << APART).to_bytes(WORD, "little") if i in pointers else np.asarray(value).tobytes()
        parameters[at:at + p.size] = data[:p.size]
    filled = code.fill(entry.name, parameters, 0)
    out: list[Any] = list(flat)
    for p in entry.params[len(flat):]:
        if p.name not in hidden:
            out.append(None)
            continue
        at = places[p.name]
        owner = (int.from_bytes(filled[at:at + WORD], "little") >> APART) - 1
        assert owner in pointers and isinstance(flat[owner], np.ndarray)

        def encode(address: int, at: int = at, owner: int = owner) -> bytes:
            known = bytearray(parameters)
            where = places[entry.params[owner].name]
            known[where:where + WORD] = address.to_bytes(WORD, "little")
            return code.fill(entry.name, known, 0)[at:at + MAP_BYTES]
        out.append(MapArgument(flat[owner], encode))
    return out
