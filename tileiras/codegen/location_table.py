"""What line directives say beyond file, line and column: who called, and where the op stands in the program's text.

LLVM prints `.loc file line key` (see `codegen/debug_info.py`). `complete` makes of it what ptxas turns into the line
tables that debuggers and profilers read:

    .loc 3 678 9                                  .loc 1 28 8
                                                  .loc 3 678 15, function_name $L__tile_name0, inlined_at 1 28 8
                                      becomes     .loc_intermediate 4 31 4
    .file 1 "/src/softmax.py"                     .file 1 "/src/softmax.py"
    .file 3 "/src/helper.py"                      .file 3 "/src/helper.py"
                                                  .file 4 "./d41d8cd98f00b204e9800998ecf8427e"
                                                  .section .debug_str { $L__tile_name0: .b8 ... }
                                                  .nv_intermediate_source_section { ... the program's text ... }

ptxas keeps the text in the section `.nv.tileir.debug_txt.<name>` of the cubin, and `.nv.tileir.debug_line` says which
line of it an instruction comes from. Between debug_info and here the table is a block of comments behind the module.
Source: what ptxas 13.5 accepts; `.loc` with `inlined_at` is in the PTX ISA.
"""
from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

TEXT_VERSION = "9.4"
"""The first PTX ISA that has `.loc_intermediate`."""
_ENTRY = "; tile-location "
_TEXT = "; tile-program "
_CALLERS = "; tile-callers"
_STRING = re.compile(r'"([^"]*)"|(\d+)')
_HEX = re.compile(r"\\([0-9A-F]{2})")
_VERSION = re.compile(r"^\.version .*$", re.MULTILINE)
_FILE = re.compile(r'\t\.file\t(\d+) "(.*)"')
_ESCAPE = re.compile(r"\\([0-7]{3}|.)")
_CONTROLS = {"b": 8, "f": 12, "n": 10, "r": 13, "t": 9}
_FILLERS = "~^`@|+=_"
"""What stands for bytes that ptxas refuses in a file name; one for each such file, as long as there are some."""


StandIns = list[tuple[bytes, bytes]]
"""Names as PTX has them, and what they stand for."""


class Frame(NamedTuple):
    """A call: the callee's name, and the file, line and column of the call."""

    callee: str
    path: str
    line: int
    column: int


class Place(NamedTuple):
    """A location: file, line, column, the line and column in the program's text (0: none), the innermost call first."""

    path: str
    line: int
    column: int
    text_line: int
    text_column: int
    calls: tuple[Frame, ...]


def quote(text: str) -> str:
    """A string as LLVM IR writes it: `"` and what isn't printable ASCII as `\\XX`."""
    return '"' + "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else "".join(
        f"\\{byte:02X}" for byte in c.encode("utf-8", "surrogateescape")) for c in text) + '"'


def _unquote(text: str) -> str:
    if "\\" not in text:
        return text
    return _HEX.sub(lambda m: chr(int(m[1], 16)), text).encode("latin-1").decode("utf-8", "surrogateescape")


# --- the table in the LLVM module ---------------------------------------------------------------------------------


def table_lines(places: Iterable[tuple[Place, int]], program: str, callers: bool) -> list[str]:
    """The comments that hold places with their keys, and the program's text. `callers`: whether directives name who
    called; debug sections do so otherwise."""
    out = [_CALLERS] if callers else []
    for place, key in places:
        calls = "".join(f" {quote(f.callee)} {quote(f.path)} {f.line} {f.column}" for f in place.calls)
        out.append(f"{_ENTRY}{place.line} {key} {place.column} {place.text_line} {place.text_column} "
                   f"{quote(place.path)}{calls}")
    return out + [_TEXT + line for line in program.splitlines()]


class LocationTable(NamedTuple):
    """`places` by line and key; the program's text; whether directives name callers."""

    places: dict[tuple[int, int], Place]
    program: str
    callers: bool


def read_table(llvm_ir: str) -> LocationTable | None:
    """The table behind a module, or None."""
    start = llvm_ir.find("\n" + _ENTRY)
    if start < 0:
        return None
    callers = llvm_ir.rfind("\n" + _CALLERS, 0, start + 1) >= 0
    places: dict[tuple[int, int], Place] = {}
    program: list[str] = []
    for line in llvm_ir[start + 1:].split("\n"):
        if line.startswith(_TEXT):
            program.append(line[len(_TEXT):] + "\n")
        elif line.startswith(_ENTRY):
            row = [_unquote(m[1]) if m[2] is None else int(m[2]) for m in _STRING.finditer(line, len(_ENTRY))]
            number, key, column, text_line, text_column, path, *calls = row
            frames = tuple(Frame(*calls[i:i + 4]) for i in range(0, len(calls), 4))  # type: ignore[arg-type]
            places[number, key] = Place(path, number, column, text_line, text_column, frames)  # type: ignore[index,arg-type]
    return LocationTable(places, "".join(program), callers)


# --- the directives in PTX ----------------------------------------------------------------------------------------


class _Completion:
    """One PTX text being completed."""

    def __init__(self, ptx: str, table: LocationTable) -> None:
        self.table = table
        self.lines = ptx.split("\n")
        self.files: dict[str, int] = {}
        self.last_file = 0
        self.names: dict[str, str] = {}
        self.new_files: list[str] = []
        self.shown: set[str] = set()
        self.stand_ins: StandIns = []
        for line in self.lines:
            if line.startswith("\t.loc\t"):
                file, number, key = line[6:].split()[:3]
                place = table.places.get((int(number), int(key)))
                if place is not None:
                    self.files.setdefault(place.path, int(file))
            elif match := _FILE.match(line):
                self.last_file = max(self.last_file, int(match[1]))
        self.text_file = self.file("./" + _digest(table.program)) if table.program else 0

    def file(self, path: str) -> int:
        """The number of a file, which gets one if it has none."""
        found = self.files.get(path)
        if found is None:
            self.last_file += 1
            found = self.files[path] = self.last_file
            self.new_files.append(self.file_directive(found, path.encode("utf-8", "surrogateescape")))
        return found

    def file_directive(self, number: int, path: bytes) -> str:
        spelled = path
        if any(byte == 0x22 or not 0x20 <= byte < 0x7F for byte in path):
            filler = ord(_FILLERS[len(self.stand_ins) % len(_FILLERS)])
            spelled = bytes(byte if byte != 0x22 and 0x20 <= byte < 0x7F else filler for byte in path)
            for real, stand_in in zip(path.rpartition(b"/"), spelled.rpartition(b"/")):
                if real != stand_in:
                    self.stand_ins.append((stand_in, real.replace(b"\0", b"?")))
        return f'\t.file\t{number} "{spelled.decode()}"'

    def name(self, callee: str) -> str:
        return self.names.setdefault(callee, f"$L__tile_name{len(self.names)}")

    def directives(self, line: str) -> list[str]:
        """What a `.loc` of LLVM becomes."""
        number, key = line[6:].split()[1:3]
        place = self.table.places.get((int(number), int(key)))
        if place is None:
            return [line]
        chain: list[str] = []
        tail = ""
        if self.table.callers:
            for frame in reversed(place.calls):  # the caller of a call must have had a directive of its own
                spot = f"{self.file(frame.path)} {frame.line} {frame.column}"
                if spot + tail not in self.shown:
                    self.shown.add(spot + tail)
                    chain.append(f"\t.loc\t{spot}{tail}")
                tail = f", function_name {self.name(frame.callee)}, inlined_at {spot}"
        spot = f"{self.file(place.path)} {place.line} {place.column}{tail}"
        self.shown.add(spot)
        chain.append(f"\t.loc\t{spot}")
        if self.text_file and place.text_line:
            chain.append(f"\t.loc_intermediate\t{self.text_file} {place.text_line} {place.text_column}")
        return chain

    def run(self) -> str:
        out: list[str] = []
        last_file = -1
        for line in self.lines:
            if line.startswith("\t.loc\t"):
                out += self.directives(line)
                continue
            if line.startswith(".visible .entry") or line.startswith("\t// .globl"):
                self.shown.clear()
            elif match := _FILE.match(line):
                last_file = len(out)
                line = self.file_directive(int(match[1]), _unescape(match[2]))
            out.append(line)
        out[last_file + 1:last_file + 1] = self.new_files
        while out and not out[-1]:
            out.pop()
        if self.names:
            out += ["\t.section\t.debug_str", "\t{"]
            for name, label in self.names.items():
                out += [f"{label}:", *(f".b8 {byte}" for byte in [*name.encode("utf-8", "surrogateescape"), 0])]
            out.append("\t}")
        text = "\n".join(out) + "\n"
        if not self.text_file:
            return text
        return _VERSION.sub(f".version {TEXT_VERSION}", text, count=1) + _text_section(self.text_file, self.table.program)


def _digest(text: str) -> str:
    """32 hexadecimal digits that tell texts apart."""
    try:
        from _blake2 import blake2b  # hashlib would load OpenSSL too
    except ImportError:
        from hashlib import blake2b
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _unescape(text: str) -> bytes:
    """What LLVM printed as a string in quotes."""
    def one(match: re.Match[str]) -> str:
        body = match[1]
        return chr(int(body, 8)) if len(body) == 3 else chr(_CONTROLS[body]) if body in _CONTROLS else body
    return _ESCAPE.sub(one, text).encode("latin-1", errors="replace")


_SECTION_HEAD = ".nv_intermediate_source_section {\n"


def _text_section(file: int, program: str) -> str:
    return (f'{_SECTION_HEAD}  .code_block {{\n    .ir_name: "tile ir"\n    .sourceFileName: {file}\n    .source_begin\n'
            f"{program.replace('.source_end', '.source?end')}.source_end\n  }}\n}}\n")


def complete(ptx: str, table: LocationTable) -> tuple[str, StandIns]:
    """LLVM's PTX with whole line directives and the program's text behind it, and what `restore_names` needs."""
    completion = _Completion(ptx, table)
    return completion.run(), completion.stand_ins


def without_text(ptx: str, version: str) -> str:
    """PTX for a ptxas that knows PTX only up to `version`: the program's text and what points into it left out."""
    ptx = ptx[:ptx.index(_SECTION_HEAD)] if _SECTION_HEAD in ptx else ptx
    kept = "\n".join(line for line in ptx.split("\n") if not line.startswith("\t.loc_intermediate\t"))
    return _VERSION.sub(f".version {version}", kept, count=1)


# --- names that PTX can't hold ------------------------------------------------------------------------------------


def restore_names(cubin: bytes, stand_ins: StandIns) -> bytes:
    """The cubin with the real names of files in its line tables. A stand-in has its name's length, so nothing moves."""
    import struct

    data = bytearray(cubin)
    (table,), (size, count, names) = struct.unpack_from("<Q", data, 0x28), struct.unpack_from("<HHH", data, 0x3A)
    (strings,) = struct.unpack_from("<Q", data, table + names * size + 0x18)
    for section in range(table, table + count * size, size):
        (name,), (start, length) = struct.unpack_from("<I", data, section), struct.unpack_from("<QQ", data, section + 0x18)
        if bytes(data[strings + name:data.index(0, strings + name)]) in (b".debug_line", b".nv.tileir.debug_line"):
            part = bytes(data[start:start + length])
            for stand_in, real in stand_ins:  # the first folder stands behind the opcodes' lengths, which end in 1
                part = re.sub(rb"(?<=[\0\1])" + re.escape(stand_in) + rb"\0", lambda _, name=real: name + b"\0", part)
            data[start:start + length] = part
    return bytes(data)
