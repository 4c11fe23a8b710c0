"""The command `tileirdisasm`: print a Tile IR bytecode file as text.

    tileirdisasm [-g] [-o FILE] FILE

Exit codes: 0 success; 1 a malformed command line; 2 no input or a file that can't be read; 3 not bytecode, or
malformed; 4 output that can't be written.
"""
from __future__ import annotations

import argparse
import sys

from tileiras.errors import BytecodeError, TileirasError
from tileiras.tools.support import PROGRAM_ERRORS, Arguments, ShowVersion, read_bytes, report, write_text

UNREADABLE = 2


def _arguments() -> argparse.ArgumentParser:
    parser = Arguments(prog="tileirdisasm", description="tileirdisasm: open CUDA Tile IR disassembler")
    parser.add_argument("input", nargs="?", metavar="<tile bytecode file>")
    parser.add_argument("-g", "--g", "--print-debug-info", "-print-debug-info", action="store_true", dest="locations",
                        help="annotate disassembly with debugging information, if present")
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="show the version and exit")
    parser.add_argument("-o", "--output-file", default="-", metavar="FILE", help="where to write (default: stdout)")
    return parser


def disassemble(bytecode: bytes, locations: bool = False) -> str:
    """The text of a bytecode file's globals and entries. Raises BytecodeError, also for an invalid program."""
    from tileiras.bytecode import read
    from tileiras.dialects.cuda_tile.asm_print import print_contents
    from tileiras.dialects.cuda_tile.verify import verify_program

    module = read(bytecode)
    verify_program(module)
    return print_contents(module, locations)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit code."""
    parser = _arguments()
    given = parser.parse_args(arguments)
    if given.input is None:
        parser.print_help(sys.stderr)
        print("error: no input file provided", file=sys.stderr)
        return UNREADABLE
    try:
        try:
            bytecode = read_bytes(given.input)
        except TileirasError as error:
            report(error)
            return UNREADABLE
        from tileiras.magic import check_magic

        try:
            check_magic(bytecode)
        except TileirasError as error:
            return report(error)
        from tileiras.nesting import with_room

        write_text(given.output_file, with_room(lambda: disassemble(bytecode, given.locations), len(bytecode)))
    except BytecodeError as error:
        report(error)
        print("error: failed to read provided Tile IR bytecode", file=sys.stderr)
        return error.exit_code
    except PROGRAM_ERRORS as error:
        return report(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
