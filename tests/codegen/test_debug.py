"""Line tables: what a debugger, a disassembler or a profiler finds in a cubin about the source."""
from __future__ import annotations

import pathlib
import re
import struct
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects.builtin import DictionaryAttr

import tileiras
from tileiras.bytecode import read, write
from tileiras.codegen import toolchain
from tileiras.codegen.location_table import Frame, LocationTable, Place, complete, quote, read_table, table_lines, without_text
from tileiras.dialects.cuda_tile.attrs import OptimizationHintsAttr
from tileiras.dialects.cuda_tile.debug import (
    CallSiteLocAttr,
    DICompileUnitAttr,
    DIFileAttr,
    DILocAttr,
    DISubprogramAttr,
    source_position,
)
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.pipeline import run
from tileiras.tools.tileirdisasm import disassemble


def sections(cubin: bytes) -> dict[str, bytes]:
    """Name and contents of an ELF file's sections (those with contents)."""
    (table,), (size, count, names) = struct.unpack_from("<Q", cubin, 0x28), struct.unpack_from("<HHH", cubin, 0x3A)
    rows = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + i * size) for i in range(count)]
    strings = cubin[rows[names][4]:rows[names][4] + rows[names][5]]
    return {strings[r[0]:strings.index(b"\0", r[0])].decode(): cubin[r[4]:r[4] + r[5]] for r in rows if r[1] != 8}


def source_lines(cubin: bytes, folder: pathlib.Path, *options: str) -> list[tuple[str, ...]]:
    """(file name, line[, file name and line of the call]) as nvdisasm puts them before instructions."""
    nvdisasm = toolchain.find_tool("nvdisasm")
    if nvdisasm is None:
        pytest.skip("no nvdisasm")
    (folder / "k.cubin").write_bytes(cubin)
    text = subprocess.run([nvdisasm, *options, str(folder / "k.cubin")], capture_output=True, text=True, check=True,
                          timeout=60).stdout
    return [tuple(part.rpartition("/")[2] if i % 2 == 0 else part for i, part in enumerate(found))
            for line in text.splitlines() if (found := re.findall(r'"([^"]*)", line (\d+)', line)
                                              and sum(re.findall(r'"([^"]*)", line (\d+)', line), ()))]


def op_of(line: str) -> str:
    """The op on a line of a program's text."""
    found = re.match(r"\s*(?:%[^=]* = )?(\w+)", line)
    return found[1] if found else ""


def line_of(text: str, name: str = "k_activation.py") -> str:
    """The number of the first line of a file of the suite that holds a text."""
    lines = (pathlib.Path(__file__).parents[1] / "kernels" / name).read_text().split("\n")
    return str(next(i for i, line in enumerate(lines, 1) if text in line))


@pytest.mark.parametrize("gpu_name, opt_level, options", [
    ("sm_80", 3, {"lineinfo": True}), ("sm_90", 0, {"lineinfo": True}), ("sm_90", 3, {"lineinfo": True}),
    ("sm_90", 0, {"device_debug": True}), ("sm_120", 0, {"device_debug": True}), ("sm_120", 3, {"lineinfo": True}),
])
def test_machine_code_has_file_and_line(gpu_name: str, opt_level: int, options: dict[str, Any], tmp_path: pathlib.Path,
                                        kernel_bytecode: Callable[..., bytes]) -> None:
    compiled = tileiras.compile(kernel_bytecode("mish_f32"), gpu_name, opt_level, **options)
    found = source_lines(compiled.cubin, tmp_path, "-g")
    assert {("k_activation.py", line_of(text)) for text in ("x * ct.tanh(softplus_tile(x))", "ct.log(1.0 + ct.exp(")} <= set(found)


def test_helpers_say_who_called_them(tmp_path: pathlib.Path, kernel_bytecode: Callable[..., bytes]) -> None:
    """mish calls softplus, and the kernel calls mish: both calls show."""
    compiled = tileiras.compile(kernel_bytecode("mish_f32"), "sm_90", lineinfo=True)
    softplus, mish = line_of("ct.log(1.0 + ct.exp("), line_of("x * ct.tanh(softplus_tile(x))")
    found = source_lines(compiled.cubin, tmp_path, "-gi")
    assert ("k_activation.py", softplus, "k_activation.py", mish) in found
    assert any(entry[:2] == ("k_activation.py", mish) and len(entry) == 4 and entry[3] not in (softplus, mish) for entry in found)


@pytest.mark.parametrize("opt_level, options", [(3, {"lineinfo": True}), (0, {"device_debug": True})])
def test_the_cubin_holds_the_program(opt_level: int, options: dict[str, Any], kernel_bytecode: Callable[..., bytes]) -> None:
    bytecode = kernel_bytecode("mish_f32")
    held = sections(tileiras.compile(bytecode, "sm_90", opt_level, **options).cubin)
    [name] = [name for name in held if name.startswith(".nv.tileir.debug_txt.")]
    assert held[name].decode() + "\n" == disassemble(bytecode)
    assert name.encode() + b"\0" in held[".nv.tileir.debug_line"]
    assert b".visible .entry mish_f32(" in held[".nv_debug_ptx_txt"]


def test_nothing_is_held_unasked(kernel_bytecode: Callable[..., bytes]) -> None:
    held = sections(tileiras.compile(kernel_bytecode("mish_f32"), "sm_90").cubin)
    assert not [name for name in held if "debug" in name and name not in (".debug_frame", ".rela.debug_frame")]


@pytest.mark.parametrize("name", ["mish_f32", "matmul_float16_float16"])
def test_lines_cost_no_instruction(name: str, kernel_bytecode: Callable[..., bytes]) -> None:
    code = f".text.{name}"
    plain, lines = (sections(tileiras.compile(kernel_bytecode(name), "sm_90", lineinfo=on).cubin) for on in (False, True))
    assert plain[code] == lines[code]


def test_places_in_the_program(kernel_bytecode: Callable[..., bytes]) -> None:
    """Each directive points to a line of the text that holds an op written on the source line named before it."""
    bytecode = kernel_bytecode("mish_f32")
    text = disassemble(bytecode).split("\n")
    ptx = tileiras.compile(bytecode, "sm_90", lineinfo=True).ptx
    pairs = re.findall(r"\.loc\t\d+ (\d+) \d+(?:, [^\n]*)?\n\t\.loc_intermediate\t\d+ (\d+) (\d+)\n", ptx)
    shown = {(line, op_of(text[int(row) - 1])) for line, row, _ in pairs}
    assert {(line_of("x * ct.tanh(softplus_tile(x))"), "tanh"), (line_of("ct.log(1.0 + ct.exp("), "log")} <= shown
    assert {column for _, _, column in pairs} <= {"2", "4"}  # the entry, and what is directly in it


def test_parameters_are_variables(kernel_bytecode: Callable[..., bytes]) -> None:
    """A kernel of two arrays has six parameters: pointer, length and stride of each."""
    held = sections(tileiras.compile(kernel_bytecode("mish_f32"), "sm_90", 0, device_debug=True).cubin)[".debug_info"]
    assert [n for n in range(8) if b"arg%d\0" % n in held] == [0, 1, 2, 3, 4, 5]


# --- files that make trouble --------------------------------------------------------------------------------------


def moved(bytecode: bytes, path: str, line: int | None = None) -> bytes:
    """The program as if it had been written in another file, all on one line."""
    module = read(bytecode)
    file = DIFileAttr(path, "")

    def scope(old: DISubprogramAttr) -> DISubprogramAttr:
        return DISubprogramAttr(file, old.line if line is None else line, old.subprogram_name, old.linkage_name,
                                DICompileUnitAttr(file))

    def move(old: object) -> object:
        if isinstance(old, CallSiteLocAttr):
            return CallSiteLocAttr(move(old.callee), move(old.caller))  # type: ignore[arg-type]
        if isinstance(old, DILocAttr):
            assert isinstance(old.scope, DISubprogramAttr)
            return DILocAttr(path, old.line if line is None else line, old.column, scope(old.scope))
        return old

    for op in module.walk():
        op.location = move(op.location)  # type: ignore[assignment]
    return write(module)


@pytest.mark.parametrize("path, folder, name", [
    ("/home/josé/größe.py", "/home/josé", "größe.py"), ('/x/a"b.py', "/x", 'a"b.py'), ("/日本/k.py", "/日本", "k.py"),
    ("k.py", ".", "k.py"), ("/x/a\nb.py", "/x", "a\nb.py"), ("", ".", "<unknown>"), ("/", ".", "<unknown>"),
])
def test_any_file_name(path: str, folder: str, name: str, kernel_bytecode: Callable[..., bytes]) -> None:
    """Names that PTX can't hold stand in the line tables all the same."""
    held = sections(tileiras.compile(moved(kernel_bytecode("mish_f32"), path), "sm_90", lineinfo=True).cubin)
    for table in (".debug_line", ".nv.tileir.debug_line"):
        assert folder.encode() + b"\0" in held[table] and b"\0" + name.encode() + b"\0" in held[table]


@pytest.mark.parametrize("options", [{"lineinfo": True}, {"device_debug": True}])
def test_any_line(options: dict[str, Any], kernel_bytecode: Callable[..., bytes]) -> None:
    assert tileiras.compile(moved(kernel_bytecode("mish_f32"), "k.py", 1 << 40), "sm_90", 0, **options).cubin


# --- the table ----------------------------------------------------------------------------------------------------

PLACES = [(Place("/a b/k.py", 7, 3, 2, 4, ()), 1), (Place("ä\"\\.py", 7, 9, 0, 0, (Frame("f", "k.py", 1, 2),)), 2)]


def test_the_table_survives_its_text() -> None:
    text = "define void @k() {\n}\n" + "\n".join(table_lines(PLACES, "entry @k {\n}\n", callers=True)) + "\n"
    assert read_table(text) == LocationTable({(7, 1): PLACES[0][0], (7, 2): PLACES[1][0]}, "entry @k {\n}\n", True)
    assert read_table("define void @k() {\n}\n") is None
    assert quote("ä\n\"") == '"\\C3\\A4\\0A\\22"'


PTX = """.version 9.2
.visible .entry k()
{
	.loc	1 6 0
	.loc	1 7 1
	.loc	1 7 0
	.loc	3 7 2
	ret;
}
	.file	1 "/a b/k.py"
	.file	3 "\\303\\244\\"\\\\.py"
"""
COMPLETED = """.version 9.2
.visible .entry k()
{
	.loc	1 6 0
	.loc	1 7 3
	.loc	1 7 0
	.loc	4 1 2
	.loc	3 7 9, function_name $L__tile_name0, inlined_at 4 1 2
	ret;
}
	.file	1 "/a b/k.py"
	.file	3 "~~~\\.py"
	.file	4 "k.py"
	.section	.debug_str
	{
$L__tile_name0:
.b8 102
.b8 0
	}
"""


def test_directives() -> None:
    """Keys become columns and calls; the file that only a call is in gets a number; a key of 0 stays."""
    table = LocationTable({(7, 1): PLACES[0][0], (7, 2): PLACES[1][0]}, "", True)
    assert complete(PTX, table) == (COMPLETED, [(b"~~~\\.py", b'\xc3\xa4"\\.py')])


def test_an_older_ptxas_gets_no_text(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path,
                                     kernel_bytecode: Callable[..., bytes]) -> None:
    """PTX 9.4 came with CUDA 13.4; before, the cubin goes without the program's text."""
    fake = tmp_path / "ptxas"
    fake.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\ncat "$3" > "$2.ptx"\n'
                    'if grep -q "^.version 9.4" "$2.ptx"; then\n'
                    '  echo "ptxas -, line 5; fatal   : Unsupported .version 9.4; current version is \'9.2\'" >&2; exit 255\nfi\n'
                    'mv "$2.ptx" "$2"\n')
    fake.chmod(0o755)
    monkeypatch.setattr(toolchain, "find_tool", lambda name: str(fake))
    ptx = tileiras.compile(kernel_bytecode("mish_f32"), "sm_90", lineinfo=True).cubin.decode()
    assert ptx.startswith("//") and ".version 9.2\n" in ptx and "inlined_at" in ptx
    assert "intermediate" not in ptx and "tanh %" not in ptx


def test_text_is_left_out() -> None:
    ptx = ".version 9.4\n\t.loc\t1 2 3\n\t.loc_intermediate\t2 1 2\n\tret;\n.nv_intermediate_source_section {\nx\n}\n"
    assert without_text(ptx, "9.2") == ".version 9.2\n\t.loc\t1 2 3\n\tret;\n"


@pytest.mark.parametrize("name", ["matmul_float16_float16", "reduce_softmax_ragged", "mxfp8_e4m3_batched", "shape_transpose"])
def test_no_op_loses_its_place(name: str, kernel_bytecode: Callable[..., bytes]) -> None:
    """After every pass, each op that becomes instructions says where it comes from."""
    silent = {"builtin.module", "nv_tileaa.return", "nv_tileas.return", "llvm.mlir.constant", "llvm.mlir.poison",
              "llvm.mlir.addressof", "llvm.mlir.global"}
    lost: dict[tuple[str, str], int] = {}

    def after(passed: str, module: Any) -> None:
        for op in module.walk():
            if source_position(op.location) is None and op.name not in silent:
                lost[passed, op.name] = lost.get((passed, op.name), 0) + 1

    options = CompileOptions(find_target("sm_90"))
    run(read(kernel_bytecode(name)), options, after=after)
    assert not lost


def line_rows(section: bytes) -> tuple[list[str], list[tuple[int, int]]]:
    """The names of files, and (file number, line) of every row of a DWARF 2 or 3 line table (DWARF 3, section 6.2)."""
    def leb(at: int, signed: bool = False) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = section[at]
            at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
            if not byte & 0x80:
                return (value - (1 << shift) if signed and byte & 0x40 else value), at

    length, version, header = struct.unpack_from("<IHI", section)
    assert version in (2, 3) and section[10] == 1
    line_base, line_range, opcode_base = struct.unpack_from("<bBB", section, 12)
    lengths = section[15:14 + opcode_base]
    at = section.index(b"\0\0", 14 + opcode_base) + 2
    names = [""]
    while section[at]:
        names.append(section[at:section.index(b"\0", at)].decode())
        at = section.index(b"\0", at) + 1
        for _ in range(3):
            _, at = leb(at)
    at, end, file, line = 10 + header, 4 + length, 1, 1
    rows = []
    while at < end:
        opcode, at = section[at], at + 1
        if opcode >= opcode_base:
            line += line_base + (opcode - opcode_base) % line_range
            rows.append((file, line))
        elif opcode == 0:
            size, at = leb(at)
            if section[at] == 1:
                file, line = 1, 1
            at += size
        elif opcode == 1:
            rows.append((file, line))
        elif opcode == 3:
            change, at = leb(at, signed=True)
            line += change
        elif opcode == 4:
            file, at = leb(at)
        elif opcode == 9:
            at += 2
        else:
            for _ in range(lengths[opcode - 1]):
                _, at = leb(at)
    return names, rows


@pytest.mark.parametrize("gpu_name, opt_level", [("sm_80", 0), ("sm_90", 3), ("sm_120", 3)])
def test_machine_code_has_its_line_of_the_program(gpu_name: str, opt_level: int, kernel_bytecode: Callable[..., bytes]) -> None:
    bytecode = kernel_bytecode("mish_f32")
    held = sections(tileiras.compile(bytecode, gpu_name, opt_level, lineinfo=True).cubin)
    names, rows = line_rows(held[".nv.tileir.debug_line"])
    text = disassemble(bytecode).split("\n")
    shown = {op_of(text[line - 1]) for file, line in rows if names[file].startswith(".nv.tileir.")}
    assert {"tanh", "log", "exp", "load_view_tko", "store_view_tko"} <= shown
    names, rows = line_rows(held[".debug_line"])
    assert line_of("x * ct.tanh(softplus_tile(x))") in {str(line) for file, line in rows if names[file] == "k_activation.py"}


def test_several_kernels_share_the_text(kernel_bytecode: Callable[..., bytes]) -> None:
    first, second = (read(kernel_bytecode(name)) for name in ("mish_f32", "softmax_16x256_f16"))
    entry = second.body.block.first_op
    assert entry is not None
    entry.detach()
    first.body.block.add_op(entry)
    bytecode = write(first)
    for options in ({"lineinfo": True}, {"opt_level": 0, "device_debug": True}):
        held = sections(tileiras.compile(bytecode, "sm_90", **options).cubin)  # type: ignore[arg-type]
        [name] = [name for name in held if name.startswith(".nv.tileir.debug_txt.")]
        assert held[name].decode() + "\n" == disassemble(bytecode)
        names = line_rows(held[".debug_line"])[0]
        assert {"k_activation.py", "k_norm.py"} <= set(names)


@pytest.mark.parametrize("key", ["\0", "a\0b\0\1c", "\n.source_end\n}\n}\n", "ä", "\r", "}", "\0\1\0\2\0"])
def test_no_hint_breaks_the_text(key: str, kernel_bytecode: Callable[..., bytes]) -> None:
    """Keys of hints go into the text as they are, whatever they hold."""
    module = read(kernel_bytecode("mish_f32"))
    entry = module.body.block.first_op
    assert entry is not None
    entry.properties["optimization_hints"] = OptimizationHintsAttr({key: DictionaryAttr({})})
    held = sections(tileiras.compile(write(module), "sm_90", lineinfo=True).cubin)
    assert ".debug_line" in held and b"return" in next(
        (held[name] for name in held if name.startswith(".nv.tileir.debug_txt.")), b"return")
