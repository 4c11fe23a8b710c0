"""The command `tileiras`: read the command line, compile, write the output, say what went wrong.

Exit codes: 0 success; 1 a malformed command line, no input, or a text that standard output didn't take; 2 configuration;
3 not bytecode, or malformed; 4 a file that can't be read or written; 5 compilation. Killed by a signal it tidies up first
and then ends by that signal.
"""
from __future__ import annotations

import os
import sys

from tileiras.errors import BytecodeError, CompileError, ConfigError, InputError, TileirasError, UsageError
from tileiras.magic import MAGIC, NOT_BYTECODE, check_magic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.codegen.resources import Entry
    from tileiras.driver.command_line import CommandLine
    from tileiras.driver.options import CompileOptions
    from tileiras.driver.output import Reservation

PROGRAM = "tileiras"
BROKEN_PIPE = 141
"""What a shell shows for a program whose reader went away."""
DEFAULT_OUTPUT = "elf.o"
DEFAULT_OPT_LEVEL = 3
_UNKNOWN_VERSION = "unsupported Tile IR bytecode version"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit code. Never raises but for an interrupt."""
    given = sys.argv[1:] if arguments is None else arguments
    program = sys.argv[0] if arguments is None else PROGRAM
    try:
        from tileiras.driver.command_line import parse
        return _run(parse(given, program))
    except TileirasError as error:
        _report(error)
        return error.exit_code
    except BrokenPipeError:
        _silence_stdout()
        return BROKEN_PIPE
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
    """Entry of the console script: let a command that stayed behind answer, or start fast, run, and leave without tearing the
    interpreter down."""
    from tileiras.driver import linger

    try:
        answer = linger.ask(sys.argv)
    except KeyboardInterrupt:
        answer = linger.INTERRUPTED
    if answer is not None:
        os._exit(answer)

    import gc

    from tileiras.driver import shutdown, startup

    gc.disable()  # a short-lived process; its modules are small
    code = linger.INTERRUPTED
    ended_by = 0
    try:
        shutdown.hold_standard_files()
        shutdown.tidy_up_when_killed()
        startup.prepare()
        code = main()
        startup.remember()
        _stay_behind()
    except KeyboardInterrupt:
        pass
    except shutdown.Killed as killed:
        ended_by = killed.signal
    finally:
        shutdown.leave(code, ended_by)


def _stay_behind() -> None:
    """Leave a server for the next commands, if there are many and LLVM's process is there to be kept."""
    client = sys.modules.get("tileiras.codegen.client")
    if client is None or client.worker_pid() is None:
        return
    from tileiras.driver import linger

    if linger.stays():
        from tileiras.driver import server, shutdown
        shutdown.flush()
        server.stay_behind(main)


def _run(line: CommandLine) -> int:
    for message in line.errors:
        _say(message)
    if line.action:
        _print(_action_text(line.action))
        return 0
    if line.errors:
        return UsageError.exit_code
    if not line.input:
        from tileiras.driver.help import help_text
        from tileiras.driver.option_table import HELP_LIST
        _say("error: no input file provided")
        _print(help_text(HELP_LIST))
        return UsageError.exit_code
    return _compile(line)


def _action_text(action: str) -> str:
    from tileiras.driver.option_table import LIST_VERSIONS, VERSION

    if action == VERSION:
        from tileiras.driver.version_text import version_text
        return version_text()
    if action == LIST_VERSIONS:
        from tileiras.bytecode.version import SUPPORTED_VERSIONS
        return "".join(f"{version}\n" for version in SUPPORTED_VERSIONS)
    from tileiras.driver.help import help_text
    return help_text(action)


def _print(text: str) -> None:
    """What was asked for goes to standard output. Raises UsageError where it can't."""
    from tileiras.driver.output import write_text

    try:
        write_text(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        _silence_stdout()
        raise UsageError(f"unable to write to standard output: {error.strerror}") from None


def _compile(line: CommandLine) -> int:
    from tileiras.driver.output import STDOUT, read_input, write_output

    emit = line.text("emit", "cubin")
    gpu_name = line.text("gpu-name")
    _start_worker(emit, gpu_name, line.number("opt-level", DEFAULT_OPT_LEVEL))
    bytecode = read_input(line.input)
    check_magic(bytecode)
    _check_version(bytecode)
    if not gpu_name:
        raise ConfigError("no GPU target; use --gpu-name=sm_XX")
    options = _options(line)
    options.validate()
    _refuse_what_is_not_here(line, options, bytecode)
    output = line.text("output-file", DEFAULT_OUTPUT if emit == "cubin" else STDOUT)
    remarks_file = _reserve_remarks(line, options, bytecode)
    try:
        data, entries, ptx = _produce(bytecode, options, warn=not line.flag("w"))
        remarks = _remarks(line, options, entries, ptx)
        if remarks_file is not None:
            remarks_file.write(remarks.encode(errors="surrogateescape"))
        elif output != STDOUT and remarks:
            write_output(STDOUT, remarks.encode(errors="surrogateescape"))
        write_output(output, data)
        if remarks_file is None and output == STDOUT and remarks:
            _say(remarks.rstrip("\n"))
    finally:
        if remarks_file is not None:
            remarks_file.close()
    if options.timing is not None:
        _print_timings(options.timing)
    return 0


def _refuse_what_is_not_here(line: CommandLine, options: CompileOptions, bytecode: bytes) -> None:
    if line.text("apply-controls"):
        raise ConfigError("--apply-controls is not supported on this platform")
    if "l" in line.values:
        from tileiras.compiler import read_module
        read_module(bytecode, options)
        if not line.text("preview"):
            raise TileirasError("libraries require the 'simt' preview feature")
        raise TileirasError("tile libraries are not supported")


def _start_worker(emit: str, gpu_name: str, opt_level: int) -> None:
    """Start LLVM's process before the compiler itself is imported, so that both load side by side."""
    from tileiras.kept import cache_folder
    from tileiras.machine.targets import TARGETS

    target = next((t for t in TARGETS if t.name == gpu_name), None)
    if emit in ("cubin", "ptx") and target is not None and opt_level in (0, 1, 2, 3) and not cache_folder():
        from tileiras.codegen import client
        try:
            client.start(target.llvm_cpu, target.llvm_features, opt_level)
        except CompileError:
            pass  # said again where it matters


def _check_version(bytecode: bytes) -> None:
    """Raise BytecodeError for a version that isn't known: said before anything else about the file or the options."""
    from tileiras.bytecode.version import DEVELOPMENT_VERSIONS, SUPPORTED_VERSIONS

    version = bytecode[len(MAGIC):len(MAGIC) + 2]
    if len(version) == 2 and not any(known[:2] == tuple(version) for known in SUPPORTED_VERSIONS + DEVELOPMENT_VERSIONS):
        raise BytecodeError(f"{_UNKNOWN_VERSION}: {version[0]}.{version[1]}")


def _options(line: CommandLine) -> CompileOptions:
    from tileiras.driver.options import ALL_PASSES, CompileOptions
    from tileiras.host.object import DEFAULT_PLATFORM
    from tileiras.machine.targets import find_target

    print_after = tuple(name for name in line.text("print-ir-after").split(",") if name)
    if line.flag("print-ir-after-all"):
        print_after = (ALL_PASSES,)
    options = CompileOptions(
        target=find_target(line.text("gpu-name")), opt_level=line.number("opt-level", DEFAULT_OPT_LEVEL),
        lineinfo=line.flag("lineinfo") or line.flag("generate-line-info"), device_debug=line.flag("device-debug"),
        sanitize=line.text("sanitize") or None, emit=line.text("emit", "cubin"), print_after=print_after,
        verify_each=line.flag("verify-each"), ptxas_flags=_ptxas_flags(line),
        host_arch=line.text("host-arch", DEFAULT_PLATFORM[0]), host_os=line.text("host-os", DEFAULT_PLATFORM[1]),
        timing=[] if line.flag("pass-timing") else None, print_sink=_say, remarks=[] if _asks_for_remarks(line) else None)
    options.without |= frozenset(filter(None, line.text("without").split(",")))
    if line.flag("dynamic-persistent"):
        from tileiras.schedule.options import ScheduleOptions
        options.schedule = ScheduleOptions(persistent=True)
    return options


def _ptxas_flags(line: CommandLine) -> tuple[str, ...]:
    """Options that ptxas has too."""
    from tileiras.driver.option_table import PTXAS_FLAGS

    return tuple(flag.format(line.values[name]) for name, flags in PTXAS_FLAGS.items()
                 if name in line.values and line.values[name] is not False for flag in flags)


def _asks_for_remarks(line: CommandLine) -> bool:
    return any(name.startswith("remarks") and name != "remarks-output-file" and value != "none"
               for name, value in line.values.items())


def _produce(bytecode: bytes, options: CompileOptions, *, warn: bool) -> tuple[bytes, tuple[Entry, ...], str]:
    """What is written, and the compiled kernels with their PTX if it came to that."""
    from tileiras.compiler import compile_module, stage_text
    from tileiras.driver.options import DIALECT_STAGES

    if options.emit in DIALECT_STAGES:
        return stage_text(bytecode, options, options.emit).encode(errors="surrogateescape"), (), ""
    module = compile_module(bytecode, options)
    for warning in module.warnings if warn else ():
        _say(warning)
    if options.emit == "cubin":
        return module.cubin, module.entries, module.ptx
    return (module.ptx if options.emit == "ptx" else module.llvm).encode(errors="surrogateescape"), (), ""


def _reserve_remarks(line: CommandLine, options: CompileOptions, bytecode: bytes) -> Reservation | None:
    """The file of `--remark-format=yaml`, opened before compiling; None where remarks go to standard output.

    It is written even without remarks: frontends read it back. Raises InputError, unless the input is malformed: then
    that is said.
    """
    if options.remarks is None or line.text("remark-format") != "yaml":
        return None
    from tileiras.driver.output import Reservation
    from tileiras.driver.remarks import DEFAULT_FILE

    path = line.text("remarks-output-file") or DEFAULT_FILE
    try:
        return Reservation(path)
    except OSError as error:
        from tileiras.compiler import read_module
        read_module(bytecode, options)
        _say(f"Error opening remark output file '{path}': {error.strerror}")
        raise InputError("failed to enable optimization remarks") from None


def _remarks(line: CommandLine, options: CompileOptions, entries: tuple[Entry, ...], ptx: str) -> str:
    """The remarks asked for, as the text that is written."""
    if options.remarks is None:
        return ""
    from tileiras.driver.remarks import as_text, as_yaml, resource_remarks, wanted

    compiled = resource_remarks(entries, options.remarks, ptx)
    remarks = [remark for remark in [*options.remarks, *compiled] if wanted(line, remark)]
    return as_yaml(remarks) if line.text("remark-format") == "yaml" else as_text(remarks)


def _print_timings(timings: list[tuple[str, float]]) -> None:
    total = sum(seconds for _, seconds in timings)
    _say(f"{'phase':<44}{'ms':>9}{'%':>7}")
    for phase, seconds in timings:
        _say(f"{phase:<44}{seconds * 1000:>9.2f}{100 * seconds / total if total else 0:>7.1f}")
    _say(f"{'total':<44}{total * 1000:>9.2f}{100 if total else 0:>7.1f}")


def _report(error: TileirasError) -> None:
    _say(error.render())
    if isinstance(error, BytecodeError) and not error.message.startswith((NOT_BYTECODE, _UNKNOWN_VERSION)):
        _say(f"error: {NOT_BYTECODE}")
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
    if sys.stderr is None:
        return
    text = text if text.endswith("\n") else f"{text}\n"
    raw = getattr(sys.stderr, "buffer", None)
    try:
        if text.isascii() or raw is None:
            sys.stderr.write(text)
        else:  # names and texts as the bytes that they came as, whatever the locale can show
            sys.stderr.flush()
            raw.write(text.encode(errors="surrogateescape"))
            raw.flush()
    except (OSError, ValueError):
        pass  # nobody listens


def _silence_stdout() -> None:
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        pass


if __name__ == "__main__":
    command()
