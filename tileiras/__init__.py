"""tileiras: an open optimizing assembler for CUDA Tile IR. Tile IR bytecode in, a CUDA cubin out.

    import tileiras
    module = tileiras.compile(bytecode, gpu_name="sm_90")
    module.cubin, module.ptx, module.entries
    print(module.ir("nv_tileas"))
    tileiras.launch(kernel, grid, (a, b, c))        # compile and run in the simulator, on NumPy arrays
"""
from __future__ import annotations

from tileiras.errors import BytecodeError, CompileError, ConfigError, InputError, ProgramError, TileirasError, UsageError
from tileiras.version import __version__

TYPE_CHECKING = False  # `typing` isn't imported: code generation's process starts faster without
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tileiras.codegen.resources import Entry, Parameter
    from tileiras.compiler import CompiledModule
    from tileiras.launcher import launch
    from tileiras.many import Result, compile_many
    from tileiras.program import Diagnostic, Program

__all__ = [
    "BytecodeError", "CompileError", "CompiledModule", "ConfigError", "Diagnostic", "Entry", "InputError", "Parameter",
    "Program", "ProgramError", "Result", "TileirasError", "UsageError", "__version__", "compile", "compile_many", "launch",
]

_HOMES = {"CompiledModule": "tileiras.compiler", "Entry": "tileiras.codegen.resources",
          "Parameter": "tileiras.codegen.resources", "launch": "tileiras.launcher",
          "Result": "tileiras.many", "compile_many": "tileiras.many", "Diagnostic": "tileiras.program",
          "Program": "tileiras.program"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def compile(bytecode: bytes | bytearray | memoryview, gpu_name: str = "sm_90", opt_level: int = 3, *,
            lineinfo: bool = False, device_debug: bool = False, sanitize: str | None = None, emit: str = "cubin",
            verify_each: bool = False, hints: Mapping[str, int] | None = None) -> CompiledModule:
    """Compile Tile IR bytecode for one GPU ("sm_75" to "sm_121").

    `opt_level` is 0 to 3; `lineinfo` keeps source lines; `device_debug` keeps full debug information and needs
    level 0; `sanitize` is None or "memcheck"; `emit` is "cubin", "ptx" or "llvm" (where to stop); `verify_each`
    verifies the module after every pass; `hints` are optimization hints for every kernel, over the program's own:
    `{"num_cta_in_cga": 2}`.

    Raises ConfigError (a target, level or option that doesn't exist), BytecodeError (not Tile IR bytecode, or
    malformed), CompileError (can't be compiled); all are TileirasError.
    """
    from tileiras.kept import cache_folder
    from tileiras.program import Program

    program = Program(bytecode, gpu_name, opt_level, lineinfo=lineinfo, device_debug=device_debug, sanitize=sanitize, emit=emit,
                      verify_each=verify_each, hints=hints)
    if emit in ("cubin", "ptx") and not cache_folder():
        from tileiras.codegen import client
        from tileiras.machine.targets import find_target
        target = find_target(gpu_name)
        client.start(target.llvm_cpu, target.llvm_features, opt_level)
    return program.compile()
