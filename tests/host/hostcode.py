"""Host objects under test: loaded into this process, called as the driver calls them, and looked at as ELF files."""
from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass

import llvmlite.binding as llvm

from tileiras.codegen.client import host_object
from tileiras.host.callbacks import HostKernel, module_of
from tileiras.host.object import DEFAULT_PLATFORM, PLATFORMS, VECTOR, VECTOR_WORDS

WORD = 8
ROW_WORDS, ROWS, COUNT, PRE_LOAD = 8, 5, 6, 8
NAME, ON_ARGUMENTS_CHANGE = 0, 5
_CHANGE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_LOAD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_long, ctypes.c_int, ctypes.c_void_p)
ATTRIBUTE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_long, ctypes.c_int, ctypes.POINTER(ctypes.c_int))


def words(address: int, count: int) -> list[int]:
    """64-bit words of this process."""
    return list((ctypes.c_uint64 * count).from_address(address))


def made(*kernels: HostKernel, platform: tuple[str, str] = DEFAULT_PLATFORM) -> bytes:
    """The host object of some kernels."""
    triple, model = PLATFORMS[platform]
    return host_object(module_of(kernels, triple), triple, model)


class HostCode:
    """A host object, loaded for good."""

    def __init__(self, data: bytes) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="large", jit=True)
        self.engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self.engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self.engine.finalize_object()
        self.vector = self.engine.get_global_value_address(VECTOR)
        assert self.vector

    def table(self) -> list[int]:
        return words(self.vector, VECTOR_WORDS)

    def rows(self) -> list[tuple[str, list[int]]]:
        """Name and words of each kernel's row."""
        table = self.table()
        found = [words(table[ROWS] + i * ROW_WORDS * WORD, ROW_WORDS) for i in range(table[COUNT])]
        return [(ctypes.string_at(row[NAME]).decode(), row) for row in found]

    def fill(self, kernel: str, parameters: bytes, memory: int = 0) -> bytes:
        """The parameters after the kernel's callback; what it isn't to read can't be read."""
        buffer = ctypes.create_string_buffer(bytes(parameters), len(parameters))
        runtime = (ctypes.c_uint64 * 2)(0, memory)
        change = _CHANGE(dict(self.rows())[kernel][ON_ARGUMENTS_CHANGE])
        assert change(None, ctypes.addressof(runtime), None, ctypes.addressof(buffer)) == 0
        return buffer.raw

    def load(self, version: int, attribute: object = None) -> tuple[int, list[int]]:
        """What ON_PRE_LOAD returns, and the vector that it hands out ([] where none)."""
        table = (ctypes.c_void_p * 7)(*[None] * 6, ctypes.cast(attribute, ctypes.c_void_p) if attribute else None)  # type: ignore[arg-type]
        out = ctypes.c_void_p(None)
        code = _LOAD(self.table()[PRE_LOAD])(ctypes.addressof(table), 0, version, ctypes.addressof(out))
        return code, words(out.value, VECTOR_WORDS) if out.value else []


@dataclass(frozen=True)
class Elf:
    """What a relocatable file has: machine, section names, (symbol, bytes, global), names of relocation types by number."""
    machine: int
    sections: tuple[str, ...]
    symbols: frozenset[tuple[str, int, bool]]
    undefined: frozenset[str]
    relocations: frozenset[int]


def read_elf(data: bytes) -> Elf:
    """A host object as an ELF file."""
    machine, = struct.unpack_from("<H", data, 18)
    table, = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * i) for i in range(count)]

    def text(section: int, at: int) -> str:
        start = heads[section][4] + at
        return data[start:data.index(b"\0", start)].decode()
    symbols, undefined, relocations = set(), set(), set()
    for _, kind, _, _, at, size, link, _, _, entry in heads:
        if kind == 2:
            for where in range(at + entry, at + size, entry):
                name, info, _, section, _, length = struct.unpack_from("<IBBHQQ", data, where)
                if section == 0:
                    undefined.add(text(link, name))
                elif info & 15 in (1, 2):
                    symbols.add((text(link, name), length if info & 15 == 1 else 0, info >> 4 == 1))
        elif kind == 4:
            relocations |= {struct.unpack_from("<Q", data, where + 8)[0] & 0xFFFFFFFF for where in range(at, at + size, entry)}
    return Elf(machine, tuple(text(names, head[0]) for head in heads), frozenset(symbols), frozenset(undefined),
               frozenset(relocations))
