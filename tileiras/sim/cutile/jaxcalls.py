"""How do kernels that JAX calls (`cuda.tile.jax.cutile_call`) run on the simulator?

The frontend lowers its primitive to a call of XLA's foreign function `cutile_launch`, with the cubin and the grid as
attributes, for the platform "cuda". Here the same lowering serves "cpu": the "cubin" is a parcel of bytecode and of what a launch
has to know, and the function (`_launch`, called by XLA through its C interface) opens the parcel and simulates.

    cutile_call(grid, kernel, (x, OutputPlaceholder(...), 3))
->  stablehlo.custom_call @cutile_launch(%x) {cubin_code = parcel, function_name, grid_x, buffer_ids, scalar_packed, ...}
->  simulate(bytecode, function_name, grid, [x, *shape, *strides, y, *shape, *strides, 3])

So graphs are traced, jitted, sharded and exported as for a GPU; an exported one runs wherever the stand-in is.
"""
from __future__ import annotations

import ctypes
import io
import json
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tileiras.sim.cutile import specialize
from tileiras.sim.cutile.imports import After
from tileiras.sim.cutile.patches import Patches
from tileiras.sim.errors import LaunchError

MODULE = "cuda.tile.jax"
TARGET = "cutile_launch"
MAGIC = b"kernel for the simulator: "
INTERNAL = 13                       # XLA_FFI_Error_Code_INTERNAL
METADATA = 1                        # XLA_FFI_Extension_Metadata
SCALAR_FORMATS = {"float32": "<f", "float64": "<d", "float16": "<e"}
"""How the bits of a scalar parameter are read; all others are whole numbers."""

Run = Callable[[bytes, str, int, str, tuple[int, ...], list[Any]], None]
"""`run(bytecode, SM, level, entry, grid, launch parameters)`."""
_run: Run | None = None
_kept: list[Any] = []               # what XLA holds pointers to, for as long as the process lasts

# ---- XLA's C interface (xla/ffi/api/c_api.h), as far as it is used

_HEAD = [("struct_size", ctypes.c_size_t), ("extension", ctypes.c_void_p)]


def _structure(name: str, *fields: tuple[str, Any], head: bool = True) -> type[ctypes.Structure]:
    return type(name, (ctypes.Structure,), {"_fields_": [*(_HEAD if head else ()), *fields]})


_Version = _structure("Version", ("major", ctypes.c_int), ("minor", ctypes.c_int))
_Api = _structure("Api", ("version", _Version), ("internal", ctypes.c_void_p), ("create_error", ctypes.c_void_p))
_Buffer = _structure("Buffer", ("dtype", ctypes.c_int), ("data", ctypes.c_void_p), ("rank", ctypes.c_int64),
                     ("dims", ctypes.POINTER(ctypes.c_int64)))
_Values = _structure("Values", ("size", ctypes.c_int64), ("types", ctypes.POINTER(ctypes.c_int)),
                     ("values", ctypes.POINTER(ctypes.c_void_p)))
_Span = _structure("Span", ("data", ctypes.c_void_p), ("size", ctypes.c_size_t), head=False)
_Scalar = _structure("Scalar", ("dtype", ctypes.c_int), ("value", ctypes.POINTER(ctypes.c_int32)), head=False)
_Array = _structure("Array", ("dtype", ctypes.c_int), ("size", ctypes.c_size_t), ("data", ctypes.c_void_p), head=False)
_Attributes = _structure("Attributes", ("size", ctypes.c_int64), ("types", ctypes.POINTER(ctypes.c_int)),
                         ("names", ctypes.POINTER(ctypes.POINTER(_Span))), ("values", ctypes.POINTER(ctypes.c_void_p)))
_Frame = _structure("Frame", ("api", ctypes.POINTER(_Api)), ("context", ctypes.c_void_p), ("stage", ctypes.c_int),
                    ("arguments", _Values), ("results", _Values), ("attributes", _Attributes))
_NewError = _structure("NewError", ("message", ctypes.c_char_p), ("code", ctypes.c_int))
_Extension = _structure("Extension", ("struct_size", ctypes.c_size_t), ("type", ctypes.c_int), ("next", ctypes.c_void_p),
                        ("metadata", ctypes.c_void_p), head=False)
_Metadata = _structure("Metadata", ("struct_size", ctypes.c_size_t), ("version", _Version), head=False)
_HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Frame))
_CREATE_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_NewError))
_ARRAY, _SCALAR, _STRING = 1, 3, 4
_TYPES: dict[int, Any] = {
    1: np.bool_, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 6: np.uint8, 7: np.uint16, 8: np.uint32, 9: np.uint64,
    10: np.float16, 11: np.float32, 12: np.float64, 16: np.uint16, **dict.fromkeys((19, 20, 23, 24, 25, 28, 29, 33), np.uint8)}
"""XLA's element types as NumPy's of the same size: kernels know by themselves what they read."""


def _attributes(frame: Any) -> dict[str, Any]:
    """The attributes of a call: strings as bytes, arrays of i32, u8 and u64 as NumPy's, scalars (all i32) as numbers."""
    found: dict[str, Any] = {}
    held = frame.attributes
    for i in range(held.size):
        name, at, kind = held.names[i].contents, held.values[i], held.types[i]
        key = ctypes.string_at(name.data, name.size).decode()
        if kind == _STRING:
            span = ctypes.cast(at, ctypes.POINTER(_Span)).contents
            found[key] = ctypes.string_at(span.data, span.size)
        elif kind == _SCALAR:
            found[key] = ctypes.cast(at, ctypes.POINTER(_Scalar)).contents.value[0]
        elif kind == _ARRAY:
            array = ctypes.cast(at, ctypes.POINTER(_Array)).contents
            dtype = np.dtype(_TYPES[array.dtype])
            found[key] = np.frombuffer(ctypes.string_at(array.data, array.size * dtype.itemsize), dtype)
    return found


def _buffers(held: Any) -> Iterator[list[Any]]:
    """For each buffer its launch parameters: its memory, its lengths, its strides."""
    for i in range(held.size):
        buffer = ctypes.cast(held.values[i], ctypes.POINTER(_Buffer)).contents
        if buffer.dtype not in _TYPES:
            raise LaunchError(f"XLA's element type {buffer.dtype} isn't one of whole bytes")
        shape, dtype = [buffer.dims[axis] for axis in range(buffer.rank)], np.dtype(_TYPES[buffer.dtype])
        strides = [int(np.prod(shape[axis + 1:], dtype=np.int64)) for axis in range(buffer.rank)]
        count = int(np.prod(shape, dtype=np.int64))
        memory: Any = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(buffer.data) if count else b""
        yield [np.frombuffer(memory, dtype), *shape, *strides]


def _scalar(packed: int, dtype: str) -> Any:
    """A scalar parameter of 64 packed bits."""
    if dtype in SCALAR_FORMATS:
        layout = SCALAR_FORMATS[dtype]
        return struct.unpack(layout, int(packed).to_bytes(8, "little")[:struct.calcsize(layout)])[0]
    return int(np.uint64(packed).astype(np.int64))


def _answer(frame: Any) -> None:
    """Run a call. Raises whatever a launch raises."""
    if _run is None:
        raise LaunchError("the simulator doesn't stand in for the GPU any more")
    given = _attributes(frame)
    parcel = given["cubin_code"]
    if not parcel.startswith(MAGIC):
        raise LaunchError("this graph holds code for a GPU; the simulator runs what was traced while it stood in")
    header, _, bytecode = parcel[len(MAGIC):].partition(b"\n")
    about = json.loads(header)
    every = [*_buffers(frame.arguments), *_buffers(frame.results)]
    every += [[_scalar(bits, dtype)] for bits, dtype in zip(given["scalar_packed"].tolist(), about["scalars"])]
    flat = [word for number in given["buffer_ids"].tolist() for word in every[number]]
    grid = given["grid_x"], given["grid_y"], given["grid_z"]
    _run(bytecode, about["gpu"], about["level"], given["function_name"].decode(), grid, flat)


def _launch(pointer: Any) -> int | None:
    """XLA's foreign function: None, or a pointer to an error of XLA's making."""
    frame = pointer.contents
    if frame.extension:
        extension = ctypes.cast(frame.extension, ctypes.POINTER(_Extension)).contents
        if extension.type == METADATA:
            told = ctypes.cast(extension.metadata, ctypes.POINTER(_Metadata)).contents.version
            told.struct_size, told.extension = ctypes.sizeof(_Version), None
            told.major, told.minor = frame.api.contents.version.major, frame.api.contents.version.minor
            return None
    try:
        _answer(frame)
    except BaseException as error:      # an exception can't go through XLA: its words do
        text = f"{type(error).__name__}: {error}".encode()
        new = _NewError(ctypes.sizeof(_NewError), None, text, INTERNAL)
        return _CREATE_ERROR(frame.api.contents.create_error)(ctypes.byref(new))
    return None


# ---- what the frontend's wrapper is given in place of a cubin

def _scalars(constraints: Sequence[Any]) -> Iterator[str]:
    """The types of runtime scalars, in the order of the arguments."""
    from cuda.tile import compilation

    for constraint in constraints:
        if isinstance(constraint, compilation.TupleConstraint):
            yield from _scalars(constraint.items)
        elif isinstance(constraint, compilation.ScalarConstraint):
            yield str(constraint.dtype)


def _parceling(gpu_name: str, convention_for: Callable[[Any], Any]) -> Callable[[Any, Sequence[Any]], tuple[str, bytes]]:
    """In place of the wrapper's `compile_kernel`: the entry's name and a parcel."""
    def parcel(kernel: Any, constraints: Sequence[Any]) -> tuple[str, bytes]:
        from cuda.tile import compilation

        signature = compilation.KernelSignature(constraints, convention_for(constraints)).with_mangled_symbol(
            kernel._annotated_function.pyfunc.__name__)
        out = io.BytesIO()
        with specialize.one_at_a_time(), specialize.noting() as noted:
            compilation.export_kernel(kernel, signatures=[signature], output_file=out, gpu_code=gpu_name, output_format="cubin")
        found = noted[out.getvalue()]
        about = json.dumps({"gpu": gpu_name, "level": found.opt_level, "scalars": list(_scalars(constraints))})
        return str(signature.symbol), MAGIC + about.encode() + b"\n" + found.bytecode
    return parcel


def install(patches: Patches, gpu_name: str, run: Run) -> None:
    """Let the wrapper's calls go to `run`, once the wrapper is imported, until the patches are undone."""
    global _run
    _run = run
    patches.at_end(_forget)
    if MODULE in sys.modules:
        _put_in(patches, gpu_name)
    else:
        patches.at_end(After({MODULE: lambda: _put_in(patches, gpu_name)}).remove)


def _forget() -> None:
    global _run
    _run = None


def _put_in(patches: Patches, gpu_name: str) -> None:
    from cuda.tile.jax import _jax as wrapper
    if not wrapper.HAS_JAX:
        return
    import jax  # pyright: ignore[reportMissingImports]
    from jax._src.interpreters import mlir  # pyright: ignore[reportMissingImports]

    if not _kept:
        handler = _HANDLER(_launch)
        _kept.append(handler)
        jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(handler), platform="cpu")
    primitive = wrapper.cutile_call_ffi_p
    patches.set(wrapper, "compile_kernel", _parceling(gpu_name, wrapper._calling_convention_for))
    mlir.register_lowering(primitive, wrapper._cutile_call_ffi_p_lower, platform="cpu")
    wrapper._COMPILE_CACHE.clear()

    def give_back() -> None:
        mlir._platform_specific_lowerings["cpu"].pop(primitive, None)
        wrapper._COMPILE_CACHE.clear()
        jax.clear_caches()              # graphs that were compiled meanwhile hold parcels
    patches.at_end(give_back)
