"""What does a cubin hold? Its sections, functions, embedded PTX, and what a kernel needs of an SM."""
from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

from tileiras.sim.timing.errors import NotTimed

ELF = b"\x7fELF"
_HEADER = 64
_SECTION, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_RELOCATIONS = {4: 24, 9: 16}                   # SHT_RELA, SHT_REL: bytes of an entry; both begin with offset and symbol
_FUNCTION = 2                                   # STT_FUNC
_REGISTERS = 0x2F04                             # attribute EIATTR_REGCOUNT with a value of several bytes, in .nv.info
RESERVED_SHARED = 1024                          # bytes the system takes of a CTA's shared memory where it has .reserved


@dataclass(frozen=True, slots=True)
class Section:
    """`info`: for code, the registers and the symbol as the ELF header packs them; for relocations, their target."""
    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    kind: int
    section: int
    value: int
    size: int


class Cubin:
    """A cubin's ELF file. Raises NotTimed for what isn't one."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        if len(data) < _HEADER or data[:5] != ELF + b"\x02" or struct.unpack_from("<H", data, 18)[0] != 190:
            raise NotTimed("not a cubin")
        try:
            self.sections = self._sections()
            self.symbols = self._symbols()
        except (struct.error, ValueError, IndexError) as error:
            raise NotTimed(f"a damaged cubin: {error}") from error

    def _sections(self) -> list[Section]:
        table, = struct.unpack_from("<Q", self.data, 40)
        size, count, names = struct.unpack_from("<HHH", self.data, 58)
        if size != _SECTION.size:
            raise ValueError(f"section headers of {size} bytes")
        rows = [_SECTION.unpack_from(self.data, table + i * size) for i in range(count)]
        strings = rows[names][4]
        return [Section(self._text(strings + r[0]), r[1], r[4], r[5], r[6], r[7]) for r in rows]

    def _text(self, at: int) -> str:
        return self.data[at:self.data.index(b"\0", at)].decode("utf-8", "replace")

    def _symbols(self) -> list[Symbol]:
        table = self.section(".symtab")
        if table is None:
            return []
        strings = self.sections[table.link].offset
        out = []
        for at in range(table.offset, table.offset + table.size, _SYMBOL.size):
            name, info, _, section, value, size = _SYMBOL.unpack_from(self.data, at)
            out.append(Symbol(self._text(strings + name), info & 15, section, value, size))
        return out

    def section(self, name: str) -> Section | None:
        return next((s for s in self.sections if s.name == name), None)

    def contents(self, name: str) -> bytes:
        """A section's bytes; empty where there is none."""
        found = self.section(name)
        return b"" if found is None else self.data[found.offset:found.offset + found.size]

    def relocations(self, name: str) -> list[tuple[int, Symbol]]:
        """(offset, symbol) of the addresses that are to be filled into section `name`."""
        index = next((i for i, s in enumerate(self.sections) if s.name == name), -1)
        out = []
        for s in self.sections:
            if s.kind in _RELOCATIONS and s.info == index:
                for at in range(s.offset, s.offset + s.size, _RELOCATIONS[s.kind]):
                    offset, info = struct.unpack_from("<QQ", self.data, at)
                    out.append((offset, self.symbols[info >> 32]))
        return out

    @cached_property
    def ptx(self) -> str:
        """The PTX that ptxas embedded (with line information); empty where it didn't. Its lines end in NUL."""
        return self.contents(".nv_debug_ptx_txt").decode("utf-8", "replace").replace("\0", "\n")

    def functions_in(self, section: str) -> dict[int, str]:
        """Addresses of a code section's functions: the kernel, and subroutines that ptxas added."""
        index = next((i for i, s in enumerate(self.sections) if s.name == section), -1)
        return {s.value: s.name for s in self.symbols if s.kind == _FUNCTION and s.section == index}

    @property
    def kernels(self) -> list[str]:
        """Names of functions with a code section of their own."""
        return [s.name[len(".text."):] for s in self.sections if s.name.startswith(".text.")]

    def registers(self, kernel: str) -> int:
        """Registers a thread."""
        data, at = self.contents(".nv.info"), 0
        while at + 4 <= len(data):
            form, kind, size = struct.unpack_from("<BBH", data, at)
            if form == _REGISTERS & 0xFF:
                if kind == _REGISTERS >> 8 and size == 8:
                    symbol, count = struct.unpack_from("<II", data, at + 4)
                    if symbol < len(self.symbols) and self.symbols[symbol].name == kernel:
                        return count
                at += 4 + size
            else:
                at += 4
        raise NotTimed(f"the cubin doesn't say how many registers {kernel} needs")

    def shared_bytes(self, kernel: str) -> int:
        """Bytes of static shared memory a CTA, with what the system reserves (a kernel's section begins with that)."""
        static = self.section(f".nv.shared.{kernel}")
        if static is not None:
            return static.size
        return RESERVED_SHARED if self.section(".nv.shared.reserved.0") is not None else 0
