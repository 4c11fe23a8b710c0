"""What does the compiler know of a launch's arguments, and which launch parameters do they become?

The frontend's launcher derives a kernel's signature from its arguments and flattens them into launch parameters, with
help of a CUDA driver. This file does both by the same public rules: what the compiler may assume of an array (unit and
16-byte strides, lengths that 16 divides, an aligned base) is what holds for this one. In and out:

    kernel f(x, n: int, pair, TILE: ct.Constant[int])      args (array, 3, (4, array), 64)
    constraints   ArrayConstraint, ScalarConstraint(int32), TupleConstraint(...), ConstantConstraint(64)
    parameters    address, lengths, strides of x; 3; 4; address, lengths, strides of pair[1]
"""
from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tileiras.sim.cutile.errors import ArgumentOverflowError, ArgumentTypeError, ArgumentValueError
from tileiras.sim.cutile.interface import has_interface, of_interface, refuse_negative
from tileiras.sim.errors import LaunchError
from tileiras.sim.run.launch import PointerTable

ASSUMED_RANK = 5                  # strides and lengths of arrays with more dimensions aren't specialized
DIVISOR = 16                      # bytes of strides and base addresses, elements of lengths


@dataclass
class Flattened:
    """The arguments of one launch. `constraints`: what the compiler may assume, one an argument; `parameters`: the
    launch's; `names`: for each parameter which argument it is of; `convention`: the oldest version of the calling
    convention that the arguments fit."""
    constraints: list[Any] = field(default_factory=list)
    parameters: list[Any] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    convention: int = 1


@dataclass(frozen=True)
class Held:
    """An array argument: its memory as NumPy sees it, and its strides in elements as its own library gives them."""
    array: np.ndarray
    strides: tuple[int, ...]


def flatten(kernel: Any, args: Sequence[Any], *, shapes: bool = True) -> Flattened:
    """The arguments of a launch of a kernel (any tile dispatcher). `shapes`: whether lengths of 1 may be constants, which
    takes version 2 of the calling convention. Raises a LaunchError where an argument has no place in a kernel."""
    annotated = getattr(kernel, "_annotated_function", None)
    if annotated is not None:
        nodes, names = annotated.parameter_annotations, list(annotated.pysig.parameters)
    else:                                    # a dispatcher of somebody's own, whose annotations nobody can read
        from cuda.tile._annotated_function import LeafAnnotationNode
        nodes, names = [LeafAnnotationNode(constant=False)] * len(args), [str(i) for i in range(len(args))]
    if len(nodes) != len(args):
        raise ArgumentTypeError(f"Kernel expects {len(nodes)} argument{'s' * (len(nodes) != 1)} but {len(args)} "
                                f"{'was' if len(args) == 1 else 'were'} given")
    out = Flattened()
    convention = _Convention(shapes=shapes)
    for number, (node, value, name) in enumerate(zip(nodes, args, names)):
        where = Place(number, name)
        out.constraints.append(_argument(node, value, where, out.parameters, convention))
        out.names += [str(where)] * (len(out.parameters) - len(out.names))
    out.convention = convention.version
    return out


@dataclass(frozen=True)
class Place:
    """Where in the arguments something stands: argument number `number`, called `name`, and items within items of it."""
    number: int
    name: str
    items: tuple[int, ...] = ()

    def item(self, i: int) -> Place:
        return Place(self.number, self.name, (*self.items, i))

    def __str__(self) -> str:
        return f"argument '{self.name}'" + "".join(f"[{i}]" for i in self.items)

    @property
    def invalid(self) -> str:
        """How the frontend begins to complain about it."""
        return "Invalid " + "".join(f"item #{i} of " for i in reversed(self.items)) + f"kernel argument #{self.number}"


@dataclass
class _Convention:
    """The oldest calling convention that the arguments fit; `shapes`: whether lengths may become constants unasked."""
    version: int = 1
    shapes: bool = True


def _argument(node: Any, value: Any, where: Place, flat: list[Any], convention: _Convention) -> Any:
    """The frontend's constraint for one argument; its launch parameters are appended to `flat`."""
    from cuda.tile import compilation

    kind = node.KIND
    if type(value) is tuple:
        convention.version = 2
        items = getattr(node, "items", None)
        if items is not None and len(items) != len(value):
            raise ArgumentTypeError(f"Received a tuple of length {len(value)} for a parameter annotated as a tuple of "
                                    f"length {len(items)}: {where}")
        of = items if items is not None else [getattr(node, "each", node)] * len(value)
        return compilation.TupleConstraint([_argument(n, v, where.item(i), flat, convention)
                                            for i, (n, v) in enumerate(zip(of, value))])
    if kind != "leaf":
        raise ArgumentTypeError(f"Received a non-tuple argument for a parameter annotated as a tuple: {where} is a "
                                f"{type(value).__name__}")
    if isinstance(value, tuple):
        raise ArgumentTypeError(f"{where.invalid}: '{type(value).__name__}' is a subclass of 'tuple'. Only plain tuples are "
                                f"accepted. ({where})")
    if node.constant:
        try:
            return compilation.ConstantConstraint(value)
        except TypeError:
            hint = f"; pass {type(value.item()).__name__}(...)" if isinstance(value, np.generic) else ""
            raise ArgumentTypeError(f"{where.invalid}: Could not interpret object of type '{type(value).__name__}' as a "
                                    f"constant. {where} is a ct.Constant{hint}") from None
    if isinstance(value, bool | int | float):
        return _scalar(node, value, where, flat)
    if isinstance(value, list):
        return _list(node, value, where, flat, convention)
    held = hold(value, str(where))
    flat += [held.array, *_index_words(held, node.array, where)]
    return _array_constraint([held], node.array, where, convention)


def _scalar(node: Any, value: bool | int | float, where: Place, flat: list[Any]) -> Any:
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


def _integer(value: int, dtype: Any, where: Place) -> np.signedinteger:
    """A scalar, length or stride in the integer type that the kernel takes it in."""
    kind = np.int64 if dtype.name == "int64" else np.int32
    try:
        return kind(value)
    except OverflowError:
        raise ArgumentOverflowError(f"{where}: {value} doesn't fit {kind.__name__}") from None


def _list(node: Any, arrays: list[Any], where: Place, flat: list[Any], convention: _Convention) -> Any:
    """A list of arrays: a table in memory, for each array its address, lengths and strides in 64-bit words."""
    from cuda.tile import compilation

    annotation = node.list.element if node.list is not None else None
    if not arrays:
        raise ArgumentTypeError(f"{where} is an empty list; kernels take lists of at least one array")
    items = [hold(a, str(where.item(i))) for i, a in enumerate(arrays)]
    words: list[Any] = []
    for i, held in enumerate(items):
        for what, one, first in (("data type", held.array.dtype, items[0].array.dtype),
                                 ("rank", held.array.ndim, items[0].array.ndim)):
            if one != first:
                raise ArgumentTypeError(f"Arrays in list vary in {what}: {where.item(i)} has {one}, the first {first}")
        words += [held.array, *(int(w) for w in _index_words(held, annotation, where.item(i)))]
    flat += [PointerTable(words), np.int32(len(items))]
    element = _array_constraint(items, annotation, where, convention)
    return compilation.ListConstraint(element, alias_groups=(), elements_may_alias=True)


def as_array(value: Any, where: str = "an argument") -> np.ndarray:
    """A NumPy array that shares the memory of an array or CPU tensor. Raises LaunchError."""
    return hold(value, where).array


def hold(value: Any, where: str) -> Held:
    """The memory and strides of an array or CPU tensor. Raises LaunchError."""
    if isinstance(value, np.ndarray):
        return Held(value, _strides(value, where))
    if any(c.__module__.partition(".")[0] == "torch" for c in type(value).__mro__):
        return _of_torch(value, where)
    if hasattr(value, "__dlpack__"):
        try:
            array = np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise ArgumentValueError(f"{where} isn't in the memory of the CPU, or of no type NumPy has: {error}") from error
        return Held(array, _strides(array, where))
    if has_interface(value):
        return hold(of_interface(value, where), where)
    if isinstance(value, np.generic):
        raise ArgumentTypeError(f"{where} is a NumPy {type(value).__name__}; pass {type(value.item()).__name__}(...)")
    raise ArgumentTypeError(f"{where} is a {type(value).__name__}; a kernel takes arrays, lists of them, numbers and tuples")


def _of_torch(tensor: Any, where: str) -> Held:
    """The memory of a CPU tensor, also of the types that NumPy doesn't know by itself."""
    if tensor.device.type != "cpu":
        raise ArgumentValueError(f"{where} is on {tensor.device}; the simulator takes tensors on the CPU")
    tensor = tensor.detach()
    strides = tuple(tensor.stride())
    name = str(tensor.dtype).removeprefix("torch.")
    try:
        return Held(tensor.numpy(), strides)
    except (TypeError, RuntimeError):
        pass
    import ml_dtypes

    torch = sys.modules["torch"]
    kind = getattr(ml_dtypes, name, None)
    carrier = {1: torch.uint8, 2: torch.int16}.get(tensor.element_size())
    if kind is None or carrier is None:
        raise ArgumentTypeError(f"{where} is a tensor of {tensor.dtype}")
    return Held(tensor.view(carrier).numpy().view(kind), strides)


def _dtype(array: np.ndarray, where: Place) -> Any:
    import cuda.tile as ct

    if not array.dtype.isnative:
        raise LaunchError(f"{where} is an array of {array.dtype}, not in this machine's byte order")
    name = str(array.dtype.name)
    dtype = getattr(ct, "bool_" if name == "bool" else name, None)
    if not isinstance(dtype, ct.DType):
        raise ArgumentTypeError(f"{where} is an array of {array.dtype}, which tile kernels don't have")
    return dtype


def _strides(array: np.ndarray, where: str) -> tuple[int, ...]:
    """Strides in elements, as array libraries give them for axes of any length."""
    out = []
    for bytes_ in array.strides:
        if bytes_ % array.itemsize:
            raise LaunchError(f"{where} has a stride of {bytes_} bytes, not a multiple of its elements")
        out.append(bytes_ // array.itemsize)
    return tuple(out)


def _index_words(held: Held, annotation: Any, where: Place) -> list[np.signedinteger]:
    import cuda.tile as ct

    dtype = annotation.index_dtype if annotation is not None else ct.int32
    return [_integer(n, dtype, where) for n in (*held.array.shape, *held.strides)]


def _disjoint(held: Held) -> bool:
    """Whether different indices surely are different places."""
    size = 1
    for stride, length in sorted(zip(held.strides, held.array.shape)):
        if stride <= 0 or stride < size:
            return False
        size = stride * length
    return True


def _array_constraint(items: list[Held], annotation: Any, where: Place, convention: _Convention) -> Any:
    """What the compiler may assume of the arrays: what holds for all of them."""
    import cuda.tile as ct
    from cuda.tile import compilation

    first = items[0].array
    ndim, bits = first.ndim, first.itemsize * 8
    annotation = annotation if annotation is not None else ct.ArrayAnnotation()
    strides = [list(h.strides) for h in items]
    shapes = [list(h.array.shape) for h in items]
    for s in strides:
        refuse_negative(s, str(where))
    assumed = range(ndim) if ndim <= ASSUMED_RANK else range(0)
    stride_constant: list[int | None] = [None] * ndim
    shape_constant: list[int | None] = [None] * ndim
    stride_divisible, shape_divisible = [1] * ndim, [1] * ndim
    for i in assumed:
        if all(s[i] * bits // 8 % DIVISOR == 0 for s in strides):
            stride_divisible[i] = DIVISOR * 8 // bits if DIVISOR * 8 % bits == 0 else 1
        if all(s[i] % DIVISOR == 0 for s in shapes):
            shape_divisible[i] = DIVISOR
        if not annotation.static_stride_dims and all(s[i] == 1 for s in strides):
            stride_constant[i] = 1
        if convention.shapes and not annotation.static_shape_dims and all(s[i] == 1 for s in shapes):
            shape_constant[i] = 1
    for what, axes, constant, values in (("shape", annotation.static_shape_dims, shape_constant, shapes),
                                         ("stride", annotation.static_stride_dims, stride_constant, strides)):
        _fix(what, axes, constant, values, where)
    for constant, divisible in ((stride_constant, stride_divisible), (shape_constant, shape_divisible)):
        for i, value in enumerate(constant):
            if value is not None:
                divisible[i] = 1
    if any(n is not None for n in shape_constant):
        convention.version = 2
    return compilation.ArrayConstraint(
        _dtype(first, where), ndim, index_dtype=annotation.index_dtype, stride_lower_bound_incl=0, alias_groups=(),
        may_alias_internally=not all(_disjoint(h) for h in items), stride_constant=stride_constant,
        shape_constant=shape_constant if any(n is not None for n in shape_constant) else None,
        stride_divisible_by=stride_divisible, shape_divisible_by=shape_divisible,
        base_addr_divisible_by=DIVISOR if all(h.array.ctypes.data % DIVISOR == 0 for h in items) else 1)


def _fix(what: str, axes: Sequence[int], constant: list[int | None], values: list[list[int]], where: Place) -> None:
    """Make the lengths or strides that an annotation names constants: those of all arrays of the argument."""
    ndim = len(constant)
    for axis in axes:
        if not -ndim <= axis < ndim:
            raise ArgumentValueError(f"static_{what}_dims contains axis {axis} but array rank is {ndim}: {where}")
        at = axis % ndim
        if [a % ndim for a in axes].count(at) > 1:
            raise ArgumentValueError(f"static_{what}_dims contains duplicate axis {axis}: {where}")
        different = [v[at] for v in values if v[at] != values[0][at]]
        if different:
            raise ArgumentValueError(f"Arrays in list vary in static {what} at axis {at} ({values[0][at]} vs "
                                     f"{different[0]}): {where}")
        constant[at] = values[0][at]
