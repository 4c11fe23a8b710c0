"""Which bytecode does a launch run? The frontend compiles the kernel for the arguments, as far as Tile IR.

The frontend's launcher asks the kernel for a cubin: `kernel._compile(signature, context, capability)`, a method that
subclasses may override. So does this file, with a stand-in for the step from bytecode to cubin: what that step is given is
noted, and the "cubin" it answers with is a ticket for it. In and out:

    kernel f, arguments (array, 64)  ->  Exported(bytecode, "f_Kt1_A1f32...", parameters, level 3, names)
"""
from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tileiras.sim.cutile.arguments import Flattened, flatten
from tileiras.sim.cutile.errors import ArgumentTypeError
from tileiras.sim.cutile.patches import Patches
from tileiras.sim.errors import LaunchError

VERSIONS = ("13.4", "13.3", "13.2", "13.1")
MAX_KEPT = 1024
TICKET = b"bytecode taken by the simulator: "


@dataclass(frozen=True)
class Exported:
    """A kernel specialized for one launch: bytecode, the entry's name, flat launch parameters, the kernel's level,
    and for each launch parameter which argument it is of."""
    bytecode: bytes
    symbol: str
    flat: list[Any]
    opt_level: int
    names: list[str]


@dataclass(frozen=True)
class Noted:
    """What the step from bytecode to cubin was asked for."""
    bytecode: bytes
    opt_level: int


def export(kernel: Any, args: Sequence[Any], gpu_name: str = "sm_90") -> Exported:
    """Bytecode and launch parameters of a cuTile kernel for the arguments of one launch.

    Raises LaunchError where an argument has no place in a kernel; the frontend's own errors pass through."""
    from cuda.tile._cext import TileDispatcher

    if not isinstance(kernel, TileDispatcher):
        raise ArgumentTypeError(f"a {type(kernel).__name__} is no cuTile kernel (a function under @ct.kernel) and no "
                                "bytecode (bytes)")
    arguments = flatten(kernel, args)
    noted, symbol = _specialize(kernel, _signature(kernel, arguments), gpu_name)
    return Exported(noted.bytecode, symbol, arguments.parameters, noted.opt_level, arguments.names)


def _signature(kernel: Any, arguments: Flattened) -> Any:
    from cuda.tile import compilation

    conventions = compilation.CallingConvention
    chosen = conventions.cutile_python_v2() if arguments.convention == 2 else conventions.cutile_python_v1()
    signature = compilation.KernelSignature(arguments.constraints, chosen)
    annotated = getattr(kernel, "_annotated_function", None)
    return signature.with_mangled_symbol(annotated.pyfunc.__name__ if annotated is not None else "kernel")


def capability(gpu_name: str) -> tuple[int, int]:
    """The compute capability of a GPU name: (9, 0) for sm_90."""
    digits = gpu_name.removeprefix("sm_").rstrip("af")
    return int(digits[:-1]), int(digits[-1])


_KEPT: dict[tuple, tuple[Any, Noted, str]] = {}     # by kernel (held, so that its id stays its own), signature, GPU
_LOCK = threading.RLock()


def _specialize(kernel: Any, signature: Any, gpu_name: str) -> tuple[Noted, str]:
    """What the kernel compiles to for a signature, and the name of its entry; the last MAX_KEPT are kept."""
    key = id(kernel), signature.symbol, gpu_name
    with _LOCK:
        if key not in _KEPT:
            with noting() as noted:
                cubin, symbol, *_ = kernel._compile(signature, _context(), capability(gpu_name))
            found = noted.get(cubin) or made_before(cubin)
            if found is None:
                raise LaunchError(f"{type(kernel).__name__}._compile gave a cubin that comes from no Tile IR seen here; the "
                                  "simulator runs what it compiled itself")
            if len(_KEPT) >= MAX_KEPT:
                _KEPT.pop(next(iter(_KEPT)))
            _KEPT[key] = kernel, found, symbol
        return _KEPT[key][1:]


@lru_cache(maxsize=1)
def _context() -> Any:
    """The frontend's default context without its cache on disk, which is for cubins that run on GPUs."""
    from cuda.tile._cext import TileContext, default_tile_context

    return TileContext(config=replace(default_tile_context.config, cache_dir=None))


def one_at_a_time() -> AbstractContextManager[Any]:
    """What is held while the frontend compiles under `noting`, which is there for all threads."""
    return _LOCK


@contextmanager
def noting() -> Iterator[dict[bytes, Noted]]:
    """While it lasts, the frontend's step from bytecode to cubin notes what it is given, by ticket, and compiles nothing."""
    from cuda.tile import _compile

    out: dict[bytes, Noted] = {}

    def note(fname_bytecode: str, compiler_options: Any, sm_arch: str, *_: Any, **__: Any) -> Path:
        """In place of the frontend's compile_cubin: a file with a ticket for what it would have compiled."""
        bytecode = Path(fname_bytecode).read_bytes()
        level = compiler_options.opt_level_for_target(sm_arch)
        noted = Noted(bytecode, 3 if level is None else level)
        ticket = TICKET + hashlib.sha256(bytecode + bytes([noted.opt_level])).hexdigest().encode()
        out[ticket] = noted
        path = Path(fname_bytecode).with_suffix(".cubin")
        path.write_bytes(ticket)
        Path(fname_bytecode).unlink(missing_ok=True)
        return path

    patches = Patches()
    try:
        patches.set(_compile, "compile_cubin", note)
        patches.set(_compile, "_get_max_supported_bytecode_version", newest_version)
        patches.set(_compile, "_get_compiler_version_string", lambda: None)         # no command is asked for anything
        yield out
    finally:
        patches.undo()


def newest_version(*_: Any, **__: Any) -> Any:
    """The newest bytecode version that both the frontend and this compiler know, without asking a command."""
    from cuda.tile._compile import _SUPPORTED_VERSIONS

    known = {f"{v.major()}.{v.minor()}": v for v in _SUPPORTED_VERSIONS}
    return known[next((v for v in VERSIONS if v in known), VERSIONS[-1])]


# ---- cubins that a program compiled itself, before a kernel gave them to a launch

_MADE: dict[bytes, Noted] = {}


def remembering(compile_cubin: Callable[..., Path]) -> Callable[..., Path]:
    """The frontend's step from bytecode to cubin; what it made can be launched in the simulator."""
    def remember(fname_bytecode: str, compiler_options: Any, sm_arch: str, *rest: Any, **named: Any) -> Path:
        path = compile_cubin(fname_bytecode, compiler_options, sm_arch, *rest, **named)
        level = compiler_options.opt_level_for_target(sm_arch)
        if len(_MADE) >= MAX_KEPT:
            _MADE.pop(next(iter(_MADE)))
        _MADE[hashlib.sha256(Path(path).read_bytes()).digest()] = Noted(Path(fname_bytecode).read_bytes(),
                                                                        3 if level is None else level)
        return path
    return remember


def made_before(cubin: bytes) -> Noted | None:
    """The bytecode of a cubin that was compiled under `remembering`."""
    return _MADE.get(hashlib.sha256(cubin).digest())
