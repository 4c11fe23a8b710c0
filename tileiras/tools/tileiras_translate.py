"""The command `tileiras-translate`: Tile IR bytecode to text and back.

    tileiras-translate --cudatilebc-to-mlir kernel.tileirbc -o kernel.mlir
    tileiras-translate --mlir-to-cudatilebc --bytecode-version=13.1 kernel.mlir -o kernel.tileirbc
    tileiras-translate --test-cudatile-roundtrip kernel.mlir

Text in is verified before it is written as bytecode. Exit codes: 0 success; 1 a malformed command line; 3 an invalid
program; 4 a file that can't be read or written.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tileiras.errors import BytecodeError, UsageError
from tileiras.tools.support import PROGRAM_ERRORS, Arguments, ShowVersion, add_language, read_bytes, report, write_bytes


def _arguments() -> argparse.ArgumentParser:
    parser = Arguments(prog="tileiras-translate", description="tileiras-translate: Tile IR bytecode to text and back")
    parser.add_argument("input", nargs="?", default="-", metavar="FILE", help="what to read (default: stdin)")
    kind = parser.add_mutually_exclusive_group(required=True)
    for name, text in (("cudatilebc-to-mlir", "bytecode to text"), ("mlir-to-cudatilebc", "text to bytecode"),
                       ("test-cudatile-roundtrip", "text to bytecode to text"),
                       ("list-versions", "print the versions of bytecode that can be read and written")):
        kind.add_argument(f"--{name}", f"-{name}", dest="kind", action="store_const", const=name, help=text)
    parser.add_argument("--bytecode-version", "-bytecode-version", metavar="V", help="the version to write (13.1 ...)")
    parser.add_argument("--mlir-print-debuginfo", "-mlir-print-debuginfo", action="store_true",
                        help="print locations")
    parser.add_argument("--verify-diagnostics", "-verify-diagnostics", action="store_true",
                        help="compare errors with `// expected-error` comments")
    for name in ("no-implicit-module", "allow-unregistered-dialect", "Wunsupported-hints", "Werr-hints"):
        parser.add_argument(f"--{name}", f"-{name}", action="store_true", help="accepted for compatibility")
    parser.add_argument("--split-input-file", "-split-input-file", action="store_true",
                        help="treat parts between lines `// -----` as files of their own")
    add_language(parser)
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="show the version and exit")
    parser.add_argument("-o", "--output-file", default="-", metavar="FILE", help="where to write (default: stdout)")
    return parser


def to_text(bytecode: bytes, locations: bool = False) -> str:
    """The text of a bytecode file, `cuda_tile.module` around it. Raises BytecodeError."""
    from tileiras.bytecode import read
    from tileiras.dialects.cuda_tile.asm_print import print_module
    from tileiras.dialects.cuda_tile.verify import verify_program
    from tileiras.nesting import with_room

    def text() -> str:
        module = read(bytecode)
        verify_program(module)
        return print_module(module, locations)

    return with_room(text, len(bytecode))


def to_bytecode(text: str, file_name: str = "-", version: Any = None,
                extra_ops: Mapping[str, Any] | None = None) -> bytes:
    """The bytecode of a text's module, of the newest version unless one is given. Raises BytecodeError."""
    from tileiras.dialects.cuda_tile.asm_parse import parse_module
    from tileiras.dialects.cuda_tile.verify import verify_program

    module = parse_module(text, file_name, extra_ops=extra_ops)
    verify_program(module)
    return _write(module, version)


def _write(module: Any, version: Any) -> bytes:
    """A module that was read from text as bytecode."""
    from tileiras.bytecode import write
    from tileiras.bytecode.version import CURRENT_VERSION

    return write(module, version or CURRENT_VERSION)


def parse_version(text: str | None) -> Any:
    """A supported version, or None. Raises UsageError."""
    from tileiras.bytecode.version import Version, spoken_versions, supported_range

    if text is None:
        return None
    try:
        version = Version.parse(text)
    except (TypeError, ValueError):
        version = None
    if version not in spoken_versions():
        raise UsageError(f"Invalid argument '{text}': the supported versions are {supported_range()}")
    return version


def _translate(given: argparse.Namespace, data: bytes, extra_ops: Mapping[str, Any] | None) -> bytes:
    if given.kind == "cudatilebc-to-mlir":
        return to_text(data, given.mlir_print_debuginfo).encode("utf-8", "backslashreplace")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BytecodeError(f"the input is no UTF-8 text: {error.reason} at byte {error.start}") from error
    bytecode = to_bytecode(text, given.input, parse_version(given.bytecode_version), extra_ops)
    if given.kind == "mlir-to-cudatilebc":
        return bytecode
    return to_text(bytecode, given.mlir_print_debuginfo).encode("utf-8", "backslashreplace")


def writer(version_text: str | None) -> Callable[[list[Any]], None]:
    """A function that writes modules as bytecode of a version and forgets it: for what the writer complains about."""
    version = parse_version(version_text)

    def translate(ops: list[Any]) -> None:
        for op in ops:
            _write(op, version)

    return translate


def main(arguments: list[str] | None = None, extra_ops: Mapping[str, Any] | None = None) -> int:
    """Run the command; its exit code. `extra_ops`: more ops than the dialect's, by their name without `cuda_tile.`."""
    from tileiras.dialects.cuda_tile import edition

    given = _arguments().parse_args(arguments)
    with edition.speaking(given.language):
        return _run(given, extra_ops)


def _run(given: argparse.Namespace, extra_ops: Mapping[str, Any] | None) -> int:
    code = 0
    try:
        if given.kind == "list-versions":
            from tileiras.bytecode.version import spoken_versions

            write_bytes(given.output_file, "".join(f"{version}\n" for version in spoken_versions()).encode())
            return 0
        data = read_bytes(given.input)
        parts = [data]
        if given.kind != "cudatilebc-to-mlir":
            if given.verify_diagnostics:
                from tileiras.tools.diagnostics import Settings, say

                return say(data.decode(), given.input, Settings(extra_ops or {}, then=writer(given.bytecode_version)))
            if given.split_input_file:
                from tileiras.tools.diagnostics import split

                parts = [part.encode() for _, part in split(data.decode())]
        out = []
        for part in parts:
            try:
                out.append(_translate(given, part, extra_ops))
            except PROGRAM_ERRORS as error:
                code = report(error)
        write_bytes(given.output_file, b"// -----\n".join(out) if len(parts) > 1 else b"".join(out)) if out else None
    except UnicodeDecodeError as error:
        return report(BytecodeError(f"the input is no UTF-8 text: byte {error.start}"))
    except PROGRAM_ERRORS as error:
        return report(error)
    return code


if __name__ == "__main__":
    sys.exit(main())
