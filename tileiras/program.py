"""One program as a handle: created, compiled, asked for its output, released.

    with tileiras.Program(bytecode, "sm_90") as program:
        program.compile()
        open("kernel.cubin", "wb").write(program.output)
        for diagnostic in program.diagnostics: ...

States and their errors are those of the driver's program handle: what a state doesn't have is a ProgramError (exit code 4).
`tileiras.compile` is this in one call.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

from tileiras.compiler import CompiledModule, compile_module
from tileiras.driver.options import CompileOptions
from tileiras.errors import CompileError, ConfigError, ProgramError, TileirasError
from tileiras.host.object import DEFAULT_PLATFORM
from tileiras.machine.targets import find_target
from tileiras.magic import check_magic

State = Literal["created", "compiled", "failed", "released"]
ERROR, WARNING, REMARK = "error", "warning", "remark"
FAILED = "failed to compile Tile IR program"


@dataclass(frozen=True)
class Diagnostic:
    """What was said of a program: how bad it is, where in the source ("" where nobody knows), the text, the pass that said it."""

    severity: str
    location: str
    text: str
    pass_name: str = ""

    def __str__(self) -> str:
        return f"{f'loc({self.location}): ' if self.location else ''}{self.severity}: {self.text}"


class Program:
    """A program, from checked arguments to its output.

    Arguments are checked in the driver's order: there is bytecode (ConfigError), it begins as Tile IR bytecode does
    (BytecodeError), then target, level, debugging and host (ConfigError). `remarks` collects what passes have to tell.
    """

    def __init__(self, bytecode: bytes | bytearray | memoryview, gpu_name: str = "sm_90", opt_level: int = 3, *,
                 lineinfo: bool = False, device_debug: bool = False, sanitize: str | None = None, emit: str = "cubin",
                 verify_each: bool = False, host_arch: str = DEFAULT_PLATFORM[0], host_os: str = DEFAULT_PLATFORM[1],
                 hints: Mapping[str, int] | None = None, remarks: bool = False) -> None:
        if bytecode is None:
            raise ConfigError("input buffer is null")
        data = bytes(bytecode)
        check_magic(data)
        options = CompileOptions(find_target(gpu_name), opt_level, lineinfo, device_debug, sanitize, emit, verify_each=verify_each,
                                 host_arch=host_arch, host_os=host_os, hints=dict(hints or {}), remarks=[] if remarks else None)
        options.validate()
        self._bytecode, self._options = data, options
        self._module: CompiledModule | None = None
        self._diagnostics: list[Diagnostic] = []
        self._state: State = "created"

    @property
    def state(self) -> State:
        return self._state

    def compile(self) -> CompiledModule:
        """Compile it, once: what was compiled already is given again. Raises BytecodeError, CompileError; `diagnostics` then
        has what they say as well."""
        self._check_held()
        if self._module is not None:
            return self._module
        self._diagnostics.clear()
        try:
            self._module = compile_module(self._bytecode, self._options)
        except TileirasError as error:
            self._state = "failed"
            by = self._options.running if isinstance(error, CompileError) else ""
            self._diagnostics += [Diagnostic(ERROR, error.loc or "", error.message, by), Diagnostic(ERROR, "", FAILED)]
            raise
        self._state = "compiled"
        self._diagnostics += [Diagnostic(WARNING, "", text.removeprefix("warning: ")) for text in self._module.warnings]
        self._diagnostics += [Diagnostic(REMARK, "{}:{}:{}".format(*remark.place) if remark.place else "",
                                         f"{remark.name}: {remark.text}", remark.category)
                              for remark in self._options.remarks or ()]
        return self._module

    @property
    def output(self) -> bytes:
        """The cubin, or the text that was asked for instead. Raises ProgramError before there is one."""
        module = self.module
        text = {"ptx": module.ptx, "llvm": module.llvm}.get(self._options.emit)
        return module.cubin if text is None else text.encode(errors="surrogateescape")

    @property
    def module(self) -> CompiledModule:
        """The compiled program with all that is known of it. Raises ProgramError before there is one."""
        self._check_held()
        if self._module is None:
            raise ProgramError("program has not been compiled")
        return self._module

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Errors, warnings and, where asked for, remarks of the last `compile`."""
        self._check_held()
        return tuple(self._diagnostics)

    def release(self) -> None:
        """Let go of bytecode and output; the program can't be used any more. Raises ProgramError if it was released before."""
        self._check_held()
        self._bytecode, self._module, self._state = b"", None, "released"
        self._diagnostics.clear()

    def _check_held(self) -> None:
        if self._state == "released":
            raise ProgramError("program is null")

    def __enter__(self) -> Program:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._state != "released":
            self.release()
