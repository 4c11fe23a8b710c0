"""The command `tileiras`: read the command line, compile, write the output, say what went wrong.

Exit codes: 0 success; 1 a malformed command line or no input; 2 configuration; 3 not bytecode, or malformed;
4 a file that can't be read or written; 5 compilation.
"""
from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from tileiras.errors import BytecodeError, CompileError, ConfigError, InputError, TileirasError, UsageError

if TYPE_CHECKING:
    from tileiras.codegen.resources import Entry
    from tileiras.driver.command_line import CommandLine
    from tileiras.driver.options import CompileOptions

PROGRAM = "tileiras"
INTERRUPTED = 130
DEFAULT_OUTPUT = "elf.o"
DEFAULT_OPT_LEVEL = 3
BYTECODE_MAGIC = b"\x7fTileIR\x00"
MLIR_MAGIC = b"ML\xefR"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit code. Never raises but for an interrupt."""
    given = sys.argv[1:] if arguments is None else arguments
    program = sys.argv[0] if arguments is None else PROGRAM
    try:
        from tileiras.driver.command_line import parse
        return _run(parse(given, program), program)
    except TileirasError as error:
        _report(error)
        return error.exit_code
    except BrokenPipeError:
        _silence_stdout()
        return InputError.exit_code
    except RecursionError:
        _say("error: the input is nested too deeply")
        return CompileError.exit_code
    except MemoryError:
        _say("error: out of memory")
        return CompileError.exit_code
    except Exception as error:
        _report_internal(error)
        return CompileError.exit_code


def command() -> None:
    """Entry of the console script: start fast, run, leave without tearing the interpreter down."""
    import gc

    from tileiras.driver import startup

    gc.disable()  # a short-lived process; its modules are small
    code = INTERRUPTED
    try:
        startup.prepare()
        code = main()
        startup.remember()
    except KeyboardInterrupt:
        pass
    finally:
        from tileiras.driver.shutdown import leave
        leave(code)


def _run(line: CommandLine, program: str) -> int:
    from tileiras.driver.command_line import help_text

    if line.flag("help"):
        sys.stdout.write(help_text())
        return 0
    if line.flag("version"):
        from tileiras.driver.version_text import version_text
        sys.stdout.write(version_text())
        return 0
    if line.errors:
        for message in line.errors:
            _say(f"{os.path.basename(program)}: {message}")
        return UsageError.exit_code
    if line.flag("list-versions"):
        from tileiras.bytecode.version import SUPPORTED_VERSIONS
        sys.stdout.write("".join(f"{version}\n" for version in SUPPORTED_VERSIONS))
        return 0
    if line.input is None:
        sys.stdout.write(help_text())
        raise UsageError("no input file provided")
    return _compile(line)


def _compile(line: CommandLine) -> int:
    from tileiras.driver.output import STDOUT, read_input, write_output

    emit = line.text("emit", "cubin")
    gpu_name, opt_level = line.text("gpu-name"), line.values.get("opt-level", DEFAULT_OPT_LEVEL)
    _start_worker(emit, gpu_name, opt_level)
    bytecode = read_input(line.input or "")
    check_magic(bytecode)
    if not gpu_name:
        raise ConfigError("no GPU target; use --gpu-name=sm_XX")
    options = _options(line)
    options.validate()
    output = line.text("output-file", DEFAULT_OUTPUT if emit == "cubin" else STDOUT)
    data, entries = _produce(bytecode, options)
    write_output(output, data)
    if options.remarks is not None:
        _write_remarks(line, options, entries, output)
    if options.timing is not None:
        _print_timings(options.timing)
    return 0


def _start_worker(emit: str, gpu_name: str, opt_level: object) -> None:
    """Start LLVM's process before the compiler itself is imported, so that both load side by side."""
    from tileiras.machine.targets import TARGETS

    target = next((t for t in TARGETS if t.name == gpu_name), None)
    if emit in ("cubin", "ptx") and target is not None and opt_level in (0, 1, 2, 3):
        from tileiras.codegen import client
        try:
            client.start(target.llvm_cpu, target.llvm_features, int(str(opt_level)))
        except CompileError:
            pass  # said again where it matters


def check_magic(bytecode: bytes) -> None:
    """Raise BytecodeError for what can't be a Tile IR bytecode file, without importing the reader."""
    if not bytecode.startswith(BYTECODE_MAGIC):
        hint = " (it looks like MLIR bytecode instead)" if bytecode.startswith(MLIR_MAGIC) else ""
        raise BytecodeError(f"input does not correspond to Tile IR bytecode{hint}")


def _options(line: CommandLine) -> CompileOptions:
    from tileiras.driver.options import ALL_PASSES, CompileOptions
    from tileiras.machine.targets import find_target

    print_after = tuple(name for name in line.text("print-ir-after").split(",") if name)
    if line.flag("print-ir-after-all"):
        print_after = (ALL_PASSES,)
    level = line.values.get("opt-level", DEFAULT_OPT_LEVEL)
    return CompileOptions(
        target=find_target(line.text("gpu-name")), opt_level=level if isinstance(level, int) else DEFAULT_OPT_LEVEL,
        lineinfo=line.flag("lineinfo"), device_debug=line.flag("device-debug"),
        sanitize=line.text("sanitize") or None, emit=line.text("emit", "cubin"), print_after=print_after,
        verify_each=line.flag("verify-each"),
        timing=[] if line.flag("pass-timing") else None, print_sink=_say, remarks=[] if _asks_for_remarks(line) else None)


def _asks_for_remarks(line: CommandLine) -> bool:
    return any(name.startswith("remarks") and name != "remarks-output-file" and value != "none"
               for name, value in line.values.items())


def _produce(bytecode: bytes, options: CompileOptions) -> tuple[bytes, tuple[Entry, ...]]:
    """What is written, and the compiled kernels if it came to that."""
    from tileiras.compiler import compile_module, stage_text
    from tileiras.driver.options import DIALECT_STAGES

    if options.emit in DIALECT_STAGES:
        return stage_text(bytecode, options, options.emit).encode(), ()
    module = compile_module(bytecode, options)
    for warning in module.warnings:
        _say(warning)
    if options.emit == "cubin":
        return module.cubin, module.entries
    return (module.ptx if options.emit == "ptx" else module.llvm).encode(), ()


def _write_remarks(line: CommandLine, options: CompileOptions, entries: tuple[Entry, ...], output: str) -> None:
    """The remarks asked for: in a YAML file (written even without remarks: frontends read it back), or on standard
    output, unless that is where the cubin goes."""
    from tileiras.driver.output import STDOUT, write_output
    from tileiras.driver.remarks import DEFAULT_FILE, as_text, as_yaml, resource_remarks, wanted

    told = options.remarks or []
    remarks = [remark for remark in [*told, *resource_remarks(entries, told)] if wanted(line, remark)]
    if line.text("remark-format") == "yaml":
        write_output(line.text("remarks-output-file", DEFAULT_FILE), as_yaml(remarks).encode(errors="surrogateescape"))
    else:
        text = as_text(remarks)
        if output != STDOUT:
            write_output(STDOUT, text.encode(errors="surrogateescape"))
        elif text:
            _say(text.rstrip("\n"))


def _print_timings(timings: list[tuple[str, float]]) -> None:
    total = sum(seconds for _, seconds in timings)
    _say(f"{'phase':<44}{'ms':>9}{'%':>7}")
    for phase, seconds in timings:
        _say(f"{phase:<44}{seconds * 1000:>9.2f}{100 * seconds / total if total else 0:>7.1f}")
    _say(f"{'total':<44}{total * 1000:>9.2f}{100 if total else 0:>7.1f}")


def _report(error: TileirasError) -> None:
    _say(error.render())
    if isinstance(error, CompileError):
        _say("error: failed to compile Tile IR program")


def _report_internal(error: Exception) -> None:
    """A bug of this program, in one line; TILEIRAS_TRACEBACK=1 shows where."""
    _say(f"error: internal error: {type(error).__name__}: {error}".rstrip(": "))
    _say("note: please report this with the input file; TILEIRAS_TRACEBACK=1 prints where it happened")
    if os.environ.get("TILEIRAS_TRACEBACK") == "1":
        import traceback
        traceback.print_exception(type(error), error, error.__traceback__)
    _say("error: failed to compile Tile IR program")


def _say(text: str) -> None:
    try:
        sys.stderr.write(text if text.endswith("\n") else f"{text}\n")
    except UnicodeEncodeError:
        sys.stderr.write(text.encode("ascii", "backslashreplace").decode() + "\n")
    except (OSError, ValueError):
        pass  # nobody listens


def _silence_stdout() -> None:
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        pass


if __name__ == "__main__":
    command()
