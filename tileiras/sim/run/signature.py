"""What a launch of a cuTile kernel compiles and passes: bytecode for the signature of its arguments, and flat parameters.

The frontend's launcher derives a kernel's signature from its arguments and flattens them into launch parameters, with
help of a CUDA driver. This file does both by the same public rules: what the compiler may assume of an array (unit and
16-byte strides, lengths that 16 divides, an aligned base) is what holds for this one.
"""
from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileiras.sim.errors import LaunchError
from tileiras.sim.run.launch import PointerTable

ASSUMED_RANK = 5                  # strides and lengths of arrays with more dimensions aren't specialized
DIVISOR = 16                      # bytes of strides and base addresses, elements of lengths
VERSIONS = ("13.4", "13.3", "13.2", "13.1")
DEFAULT_GPU = "sm_90"


@dataclass(frozen=True)
class Exported:
    """A kernel specialized for one launch: bytecode, the entry's name, flat launch parameters, the kernel's level,
    and for each launch parameter which argument it is of."""
    bytecode: bytes
    symbol: str
    flat: list[Any]
    opt_level: int
    names: list[str]


def export(kernel: Any, args: Sequence[Any], gpu_name: str = DEFAULT_GPU) -> Exported:
    """Bytecode and launch parameters of a cuTile kernel for the arguments of one launch.

    Raises LaunchError where an argument has no place in a kernel; the frontend's own errors pass through."""
    from cuda.tile import compilation

    annotated = getattr(kernel, "_annotated_function", None)
    if annotated is None:
        raise LaunchError(f"a {type(kernel).__name__} is no cuTile kernel (a function under @ct.kernel) and no bytecode (bytes)")
    nodes = annotated.parameter_annotations
    if len(nodes) != len(args):
        raise LaunchError(f"kernel {annotated.pyfunc.__name__} takes {len(nodes)} arguments, {len(args)} were given")
    flat: list[Any] = []
    names = list(annotated.pysig.parameters)
    convention = _Convention()
    called: list[str] = []
    constraints = []
    for node, value, name in zip(nodes, args, names):
        constraints.append(_argument(node, value, f"argument '{name}'", flat, convention))
        called += [f"argument '{name}'"] * (len(flat) - len(called))
    conventions = compilation.CallingConvention
    chosen = conventions.cutile_python_v2() if convention.version == 2 else conventions.cutile_python_v1()
    signature = compilation.KernelSignature(constraints, chosen).with_mangled_symbol(annotated.pyfunc.__name__)
    level = kernel._compiler_options.opt_level_for_target(gpu_name)
    assert signature.symbol is not None
    return Exported(_bytecode(kernel, signature, gpu_name), signature.symbol, flat, 3 if level is None else level, called)


_KEPT: dict[tuple, tuple[Any, bytes]] = {}        # bytecode by kernel (held, so that its id stays its own), signature, GPU
MAX_KEPT = 256


def _bytecode(kernel: Any, signature: Any, gpu_name: str) -> bytes:
    key = id(kernel), signature.symbol, gpu_name
    if key not in _KEPT:
        import io

        from cuda.tile import compilation
        from cuda.tile._compile import _SUPPORTED_VERSIONS
        known = {f"{v.major()}.{v.minor()}" for v in _SUPPORTED_VERSIONS}
        version = next((v for v in VERSIONS if v in known), VERSIONS[-1])
        out = io.BytesIO()
        compilation.export_kernel(kernel, [signature], out, gpu_code=gpu_name, output_format="tileir_bytecode",
                                  bytecode_version=version)
        if len(_KEPT) >= MAX_KEPT:
            _KEPT.pop(next(iter(_KEPT)))
        _KEPT[key] = kernel, out.getvalue()
    return _KEPT[key][1]


class _Convention:
    """The oldest calling convention that the arguments fit."""
    version = 1


def _argument(node: Any, value: Any, where: str, flat: list[Any], convention: _Convention) -> Any:
    """The frontend's constraint for one argument; its launch parameters are appended to `flat`."""
    from cuda.tile import compilation

    kind = node.KIND
    if type(value) is tuple:
        convention.version = 2
        items = getattr(node, "items", None)
        if items is not None and len(items) != len(value):
            raise LaunchError(f"{where} is a tuple of {len(value)}, its annotation has {len(items)}")
        of = items if items is not None else [getattr(node, "each", node)] * len(value)
        return compilation.TupleConstraint([_argument(n, v, f"{where}[{i}]", flat, convention)
                                            for i, (n, v) in enumerate(zip(of, value))])
    if kind != "leaf":
        raise LaunchError(f"{where} is annotated as a tuple, a {type(value).__name__} was given")
    if node.constant:
        try:
            return compilation.ConstantConstraint(value)
        except TypeError:
            hint = f"; pass {type(value.item()).__name__}(...)" if isinstance(value, np.generic) else ""
            raise LaunchError(f"{where} is a ct.Constant, and a {type(value).__name__} is no constant{hint}") from None
    if isinstance(value, bool | int | float):
        return _scalar(node, value, where, flat)
    if isinstance(value, list):
        return _list(node, value, where, flat, convention)
    array = as_array(value, where)
    flat += [array, *_index_words(array, node.array, where)]
    return _array_constraint([array], node.array, where, convention)


def _scalar(node: Any, value: bool | int | float, where: str, flat: list[Any]) -> Any:
    import cuda.tile as ct
    from cuda.tile import compilation

    if isinstance(value, bool):
        flat.append(np.uint8(value))
        return compilation.ScalarConstraint(ct.bool_)
    if isinstance(value, float):
        flat.append(np.float32(value))
        return compilation.ScalarConstraint(ct.float32)
    dtype = node.scalar.dtype if node.scalar is not None else ct.int32
    flat.append(_integer(value, dtype, where))
    return compilation.ScalarConstraint(dtype)


def _integer(value: int, dtype: Any, where: str) -> np.signedinteger:
    """A scalar, length or stride in the integer type that the kernel takes it in."""
    kind = np.int64 if dtype.name == "int64" else np.int32
    try:
        return kind(value)
    except OverflowError:
        raise LaunchError(f"{where}: {value} doesn't fit {kind.__name__}") from None


def _list(node: Any, arrays: list[Any], where: str, flat: list[Any], convention: _Convention) -> Any:
    """A list of arrays: a table in memory, for each array its address, lengths and strides in 64-bit words."""
    from cuda.tile import compilation

    annotation = node.list.element if node.list is not None else None
    items = [as_array(a, f"{where}[{i}]") for i, a in enumerate(arrays)]
    if not items:
        raise LaunchError(f"{where} is an empty list")
    words: list[Any] = []
    for i, a in enumerate(items):
        if a.dtype != items[0].dtype or a.ndim != items[0].ndim:
            raise LaunchError(f"{where}[{i}] is {a.dtype} with {a.ndim} dimensions, the first is {items[0].dtype} with "
                              f"{items[0].ndim}")
        words += [a, *(int(w) for w in _index_words(a, annotation, f"{where}[{i}]"))]
    flat += [PointerTable(words), np.int32(len(items))]
    element = _array_constraint(items, annotation, where, convention)
    return compilation.ListConstraint(element, alias_groups=(), elements_may_alias=True)


def as_array(value: Any, where: str = "an argument") -> np.ndarray:
    """A NumPy array that shares the memory of an array or CPU tensor. Raises LaunchError."""
    if isinstance(value, np.ndarray):
        return value
    if type(value).__module__.partition(".")[0] == "torch":
        return _of_torch(value, where)
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise LaunchError(f"{where} isn't in the memory of the CPU, or of no type NumPy has: {error}") from error
    if isinstance(value, np.generic):
        raise LaunchError(f"{where} is a NumPy {type(value).__name__}; pass {type(value.item()).__name__}(...)")
    raise LaunchError(f"{where} is a {type(value).__name__}; a kernel takes arrays, lists of them, numbers and tuples")


def _of_torch(tensor: Any, where: str) -> np.ndarray:
    """The memory of a CPU tensor, also of the types that NumPy doesn't know by itself."""
    if tensor.device.type != "cpu":
        raise LaunchError(f"{where} is on {tensor.device}; the simulator takes tensors on the CPU")
    tensor = tensor.detach()
    name = str(tensor.dtype).removeprefix("torch.")
    try:
        return tensor.numpy()
    except (TypeError, RuntimeError):
        pass
    import ml_dtypes

    torch = sys.modules["torch"]
    kind = getattr(ml_dtypes, name, None)
    carrier = {1: torch.uint8, 2: torch.int16}.get(tensor.element_size())
    if kind is None or carrier is None:
        raise LaunchError(f"{where} is a tensor of {tensor.dtype}")
    return tensor.view(carrier).numpy().view(kind)


def _dtype(array: np.ndarray, where: str) -> Any:
    import cuda.tile as ct

    if not array.dtype.isnative:
        raise LaunchError(f"{where} is an array of {array.dtype}, not in this machine's byte order")
    name = str(array.dtype.name)
    dtype = getattr(ct, "bool_" if name == "bool" else name, None)
    if not isinstance(dtype, ct.DType):
        raise LaunchError(f"{where} is an array of {array.dtype}, which tile kernels don't have")
    return dtype


def _strides(array: np.ndarray, where: str) -> list[int]:
    """Strides in elements, as array libraries give them for axes of any length."""
    out = []
    for bytes_ in array.strides:
        if bytes_ % array.itemsize:
            raise LaunchError(f"{where} has a stride of {bytes_} bytes, not a multiple of its elements")
        out.append(bytes_ // array.itemsize)
    return out


def _index_words(array: np.ndarray, annotation: Any, where: str) -> list[np.signedinteger]:
    import cuda.tile as ct

    dtype = annotation.index_dtype if annotation is not None else ct.int32
    return [_integer(n, dtype, where) for n in (*array.shape, *_strides(array, where))]


def _disjoint(array: np.ndarray, strides: list[int]) -> bool:
    """Whether different indices surely are different places."""
    size = 1
    for stride, length in sorted(zip(strides, array.shape)):
        if stride <= 0 or stride < size:
            return False
        size = stride * length
    return True


def _array_constraint(arrays: list[np.ndarray], annotation: Any, where: str, convention: _Convention) -> Any:
    """What the compiler may assume of the arrays: what holds for all of them."""
    import cuda.tile as ct
    from cuda.tile import compilation

    first = arrays[0]
    ndim, bits = first.ndim, first.itemsize * 8
    annotation = annotation if annotation is not None else ct.ArrayAnnotation()
    strides = [_strides(a, where) for a in arrays]
    if any(n < 0 for s in strides for n in s):
        raise LaunchError(f"{where} has a negative stride, which tile kernels don't have; pass a copy")
    assumed = range(ndim) if ndim <= ASSUMED_RANK else range(0)
    stride_constant: list[int | None] = [None] * ndim
    shape_constant: list[int | None] = [None] * ndim
    stride_divisible, shape_divisible = [1] * ndim, [1] * ndim
    for i in assumed:
        if all(s[i] * bits // 8 % DIVISOR == 0 for s in strides):
            stride_divisible[i] = DIVISOR * 8 // bits if DIVISOR * 8 % bits == 0 else 1
        if all(a.shape[i] % DIVISOR == 0 for a in arrays):
            shape_divisible[i] = DIVISOR
        if not annotation.static_stride_dims and all(s[i] == 1 for s in strides):
            stride_constant[i] = 1
        if not annotation.static_shape_dims and all(a.shape[i] == 1 for a in arrays):
            shape_constant[i] = 1
    for static, constant, values, what in (
            (annotation.static_shape_dims, shape_constant, [list(a.shape) for a in arrays], "length"),
            (annotation.static_stride_dims, stride_constant, strides, "stride")):
        for axis in static:
            if not -ndim <= axis < ndim:
                raise LaunchError(f"{where} has no axis {axis}, which its annotation fixes")
            if any(v[axis] != values[0][axis] for v in values):
                raise LaunchError(f"{where}: arrays with different {what}s on axis {axis}, which their annotation fixes")
            constant[axis % ndim] = values[0][axis]
    for constant, divisible in ((stride_constant, stride_divisible), (shape_constant, shape_divisible)):
        for i, value in enumerate(constant):
            if value is not None:
                divisible[i] = 1
    if any(n is not None for n in shape_constant):
        convention.version = 2
    return compilation.ArrayConstraint(
        _dtype(first, where), ndim, index_dtype=annotation.index_dtype, stride_lower_bound_incl=0, alias_groups=(),
        may_alias_internally=not all(_disjoint(a, s) for a, s in zip(arrays, strides)), stride_constant=stride_constant,
        shape_constant=shape_constant if any(n is not None for n in shape_constant) else None,
        stride_divisible_by=stride_divisible, shape_divisible_by=shape_divisible,
        base_addr_divisible_by=DIVISOR if all(a.ctypes.data % DIVISOR == 0 for a in arrays) else 1)
