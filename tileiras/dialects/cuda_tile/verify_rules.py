"""Rules of single ops on values: roundings, widths, shapes, matrix products, constants, assumptions.

Source: the op verifiers of public `CudaTile.cpp`, `SharedVerifiers.h`, `Attributes.cpp`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import Float32Type, IntegerAttr, IntegerType
from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile import edition
from tileiras.dialects.cuda_tile.asm_types import type_text
from tileiras.dialects.cuda_tile.attrs import BoundedAttr, DenseElementsAttr, DivByAttr, SameElementsAttr
from tileiras.dialects.cuda_tile.float_formats import float_format
from tileiras.dialects.cuda_tile.types import PointerType, TensorViewType, TileType, element_bits
from tileiras.dialects.cuda_tile.verify_error import InvalidOp, listed, shown, single_block

IEEE_MODES = ("nearest_even", "zero", "negative_inf", "positive_inf")
LARGEST_DIVISOR = 1 << 62

Rule = Callable[[Any], None]


def bits_of(type_: Any) -> int:
    """The width of an element type: 1 for i1, 19 bits of tf32 count as 32 in memory but as 19 here."""
    text = type_text(type_)
    return 1 if text == "i1" else 19 if text == "tf32" else element_bits(type_)


# Roundings and flush-to-zero.

def _flush(op: Any) -> None:
    element = op.result.type.element_type
    if op.flush_to_zero is not None and not isinstance(element, Float32Type):
        raise InvalidOp(op, "flush_to_zero modifier only supported for f32 data type, but got: " + shown(element))


def _modes(op: Any, modes: tuple[str, ...], attribute: str = "rounding_mode") -> str:
    mode = op.properties[attribute].value
    if mode not in modes:
        raise InvalidOp(op, f"invalid rounding mode specified, expect one of [{', '.join(modes)}]")
    return mode


def _f32_modifier(op: Any, mode: str) -> None:
    element = op.result.type.element_type
    if mode in ("approx", "full") and not isinstance(element, Float32Type):
        raise InvalidOp(op, f"{mode} modifier only supported for f32 data type, but got: " + shown(element))


def _ieee(op: Any) -> None:
    if op.rounding_mode.value != "nearest_even":
        _modes(op, IEEE_MODES)
    if op.flush_to_zero is not None:
        _flush(op)


def _divf(op: Any) -> None:
    mode = _modes(op, (*IEEE_MODES, "approx", "full"))
    _flush(op)
    _f32_modifier(op, mode)


def _sqrt(op: Any) -> None:
    mode = _modes(op, (*IEEE_MODES, "approx"))
    _flush(op)
    _f32_modifier(op, mode)


def _approx_or_full(op: Any) -> None:
    mode = _modes(op, ("approx", "full"))
    if mode == "approx":
        _f32_modifier(op, mode)


def _divi(op: Any) -> None:
    mode = _modes(op, ("zero", "negative_inf", "positive_inf"), "rounding")
    if mode == "negative_inf" and op.signedness.value == "unsigned":
        raise InvalidOp(op, "rounding mode 'negative_inf' is not allowed with 'unsigned' flag")


def _negi(op: Any) -> None:
    if op.overflow.value == "no_unsigned_wrap":
        raise InvalidOp(op, "'no_unsigned_wrap' overflow flag is not supported")


# Conversions.

def _bitcast(op: Any) -> None:
    source, result = op.source.type, op.result.type
    widths = bits_of(source.element_type), bits_of(result.element_type)
    if widths[0] != widths[1]:
        raise InvalidOp(op, f"types must be equal width, cannot convert {shown(source)} of width {widths[0]} to type "
                            f"{shown(result)} of width {widths[1]}")


def _exti(op: Any) -> None:
    if op.to.type.element_type.width.data <= op.from_.type.element_type.width.data:
        raise InvalidOp(op, "extending to smaller or identical integer")


def _trunci(op: Any) -> None:
    if op.to.type.element_type.width.data >= op.from_.type.element_type.width.data:
        raise InvalidOp(op, "truncating to larger or identical integer")


_LOW_PRECISION = ("f8E4M3FN", "f8E5M2", "f4E2M1FN", "fnv8E5M3FNU")


def _ftof_modes(source: Attribute, target: Attribute) -> tuple[tuple[str, ...], str]:
    """The roundings of a float conversion, and how a diagnostic goes on (13.4's rules, as the reference says them)."""
    names = type_text(source), type_text(target)
    if names[1] == "f8E8M0FNU":
        return ("zero", "positive_inf"), (" for conversion to f8E8M0FNU. Only 'zero' and 'positive_inf' are supported")
    if edition.is_before((13, 4)):
        return ("nearest_even",), ". Only 'nearest_even' is supported"
    if names[1] in _LOW_PRECISION:
        return ("nearest_even",), " for conversion to low-precision type. Only 'nearest_even' is supported"
    if names == ("f32", "tf32"):
        return (("nearest_even", "zero", "nearest_away"), " for conversion from f32 to tf32. Only 'nearest_even', "
                "'zero', and 'nearest_away' are supported")
    if names == ("f64", "f32"):
        return IEEE_MODES, (" for conversion from f64 to f32. Only 'nearest_even', 'zero', 'negative_inf', and "
                            "'positive_inf' are supported")
    if is_representable(source, target):
        return (*IEEE_MODES, "nearest_away"), (" for widening conversion. Only IEEE float rounding modes are supported: "
                                               "'nearest_even', 'zero', 'negative_inf', 'positive_inf', 'nearest_away'")
    return ("nearest_even", "zero"), (". Only 'nearest_even' and 'zero' are supported for narrowing conversions to "
                                      "standard types")


def is_representable(source: Attribute, target: Attribute) -> bool:
    """Whether every number of a format is one of another: by precision and range of exponents."""
    a, b = float_format(source), float_format(target)
    return (a.precision <= b.precision and a.least_exponent >= b.least_exponent
            and a.greatest_exponent <= b.greatest_exponent)


def _ftof(op: Any) -> None:
    if op.from_.type == op.to.type:
        raise InvalidOp(op, "converting tiles must not be a no-op")
    source, target = op.from_.type.element_type, op.to.type.element_type
    allowed, what = _ftof_modes(source, target)
    if op.rounding_mode.value not in allowed:
        raise InvalidOp(op, f"invalid rounding mode specified{what}")


def _ftoi(op: Any) -> None:
    if op.rounding_mode.value != "nearest_int_to_zero":
        raise InvalidOp(op, "invalid rounding mode specified. Only 'nearest_int_to_zero' is supported")


def _itof(op: Any) -> None:
    if type_text(op.to.type.element_type) == "f8E8M0FNU":
        raise InvalidOp(op, "integer to f8E8M0FNU conversion is not supported, please first convert to another float "
                            "type")
    if op.rounding_mode.value != "nearest_even":
        raise InvalidOp(op, "invalid rounding mode specified. Only 'nearest_even' is supported")


# Shapes.

def _broadcast(op: Any) -> None:
    source, result = op.source.type.shape, op.result.type.shape
    if any(a not in (b, 1) for a, b in zip(source, result)):
        raise InvalidOp(op, "expects the shape of source tile to be compatible with that of the result tile, but got: "
                            f"{listed(source)} and {listed(result)}")


def _reshape(op: Any) -> None:
    if op.source.type.num_elements != op.result.type.num_elements:
        raise InvalidOp(op, "expected source tile and result tile to have the same number of elements")


def _cat(op: Any) -> None:
    dim = op.dim.value.data
    lhs, rhs, result = op.lhs.type.shape, op.rhs.type.shape, op.result.type.shape
    if not 0 <= dim < len(lhs):
        raise InvalidOp(op, f"expect dim to be [0, {len(lhs)}), but got: {dim}")
    if lhs[dim] + rhs[dim] != result[dim]:
        raise InvalidOp(op, f"invalid concat at position {dim}, expected: {lhs[dim] + rhs[dim]} but got: {result[dim]}")
    for i in range(len(lhs)):
        for what, other in (("rhs", rhs), ("result", result)):
            if i != dim and lhs[i] != other[i]:
                raise InvalidOp(op, f"expect lhs and {what} shapes to match at non-concat position {i}, expected: "
                                    f"{lhs[i]} but got: {other[i]}")


def _extract(op: Any) -> None:
    _slices(op, op.source.type, op.result.type, "source", "result")


def _insert(op: Any) -> None:
    if op.source.type.rank != op.destination.type.rank:
        raise InvalidOp(op, "source and result must have the same rank")
    _slices(op, op.destination.type, op.source.type, "destination", "source")


def _slices(op: Any, whole: TileType, part: TileType, whole_name: str, part_name: str) -> None:
    """`part` cuts `whole` evenly, and there's an index for each dimension."""
    if whole.element_type != part.element_type:
        raise InvalidOp(op, f"{whole_name} and {part_name} element type do not match")
    for i, (extent, step) in enumerate(zip(whole.shape, part.shape)):
        if extent % step:
            raise InvalidOp(op, f"{whole_name} dimension {i} size ({extent}) must be evenly divisible by {part_name} "
                                f"dimension {i} size ({step})")
    if len(op.indices) != whole.rank:
        raise InvalidOp(op, f"expected {whole.rank} indices, but got {len(op.indices)}")


def _iota(op: Any) -> None:
    type_ = op.result.type
    if type_.rank != 1:
        raise InvalidOp(op, "expects result type to be 1-d tile")
    width = type_.element_type.width.data
    if width < 64 and type_.num_elements > 1 << width:
        raise InvalidOp(op, f"the number of elements {type_.num_elements} exceeds the maximum value of element type "
                            f"{shown(type_.element_type)}")


def _permute(op: Any) -> None:
    source, result = op.source.type.shape, op.result.type.shape
    permutation, rank = op.permutation.get_values(), len(source)
    if rank < 2:
        raise InvalidOp(op, f"expects at least rank 2, but got: {rank}")
    if len(permutation) != rank:
        raise InvalidOp(op, f"expect permutation size ({len(permutation)}) to equal the rank of the source ({rank})")
    if len(set(permutation)) != rank:
        raise InvalidOp(op, "expect permutation elements to be unique")
    for i, axis in enumerate(permutation):
        if not 0 <= axis < rank:
            raise InvalidOp(op, f"permutation element at index {i} ({axis}) is out of bound [0, {rank})")
    for i, axis in enumerate(permutation):
        if result[i] != source[axis]:
            raise InvalidOp(op, f"result shape invalid at index {i}, expected: {source[axis]}, but got: {result[i]}")


def _pack(op: Any) -> None:
    source, result = op.source.type, op.result.type
    if source.rank != 1:
        raise InvalidOp(op, "expects source and result to be rank-1 tiles")
    if bits_of(source.element_type) == bits_of(result.element_type):
        raise InvalidOp(op, "expects source and result to have different element type widths")
    sizes = []
    for what, type_ in (("source", source), ("result", result)):
        width = 32 if type_text(type_.element_type) == "tf32" else bits_of(type_.element_type)
        size = width * type_.num_elements
        if size % 8:
            raise InvalidOp(op, f"expects {what} tile to be byte-aligned")
        sizes.append(size // 8)
    if sizes[0] != sizes[1]:
        raise InvalidOp(op, "expects source and result to have the same size in bytes, but got source tile size "
                            f"{sizes[0]} bytes and result tile size {sizes[1]} bytes")


def _select(op: Any) -> None:
    if type_text(op.result.type.element_type) == "f4E2M1FN":
        raise InvalidOp(op, "cannot operate on sub-byte type F4E2M1FN")


# Matrix products.

def _must_match(op: Any, dims: tuple[int, int], names: tuple[str, str], gap: str = "") -> None:
    """Dimension dims[0] of operand names[0] equals dims[1] of names[1]."""
    (a, b), (first, second) = (getattr(op, name).type.shape for name in names), names
    if a[dims[0]] != b[dims[1]]:
        raise InvalidOp(op, f"{gap}shape error: dim {dims[0]} of {first} ({a[dims[0]]}) and dim {dims[1]} of {second} "
                            f"({b[dims[1]]}) must match, but got {first} shape ({listed(a)}) and {second} shape "
                            f"({listed(b)})")


def _mma_shapes(op: Any) -> int:
    """Checks the product's shapes; returns the row dimension (1 if batched)."""
    rank = op.lhs.type.rank
    if rank not in (2, 3):
        raise InvalidOp(op, "operands must be 2D or 3D tiles")
    row = rank - 2
    if row:
        _must_match(op, (0, 0), ("lhs", "rhs"))
        _must_match(op, (0, 0), ("lhs", "acc"))
    _must_match(op, (row + 1, row), ("lhs", "rhs"), " ")
    _must_match(op, (row, row), ("lhs", "acc"), " ")
    _must_match(op, (row + 1, row + 1), ("rhs", "acc"), " ")
    return row


_ACCUMULATORS: dict[str, tuple[str, ...]] = {
    "f4E2M1FN": ("f16", "f32"), "f8E4M3FN": ("f16", "f32"), "f8E5M2": ("f16", "f32"), "f16": ("f16", "f32"),
    "bf16": ("f32",), "tf32": ("f32",), "f32": ("f32",), "f64": ("f64",),
}
"""Which accumulators each input of mmaf has."""


def _mmaf(op: Any) -> None:
    _mma_shapes(op)
    element, accumulator = type_text(op.lhs.type.element_type), type_text(op.acc.type.element_type)
    allowed = _ACCUMULATORS[element]
    if accumulator not in allowed:
        types = ", ".join(f"'{name}'" for name in allowed)
        raise InvalidOp(op, f"unsupported combination of element types. Input type '{element}' expects accumulator/"
                            f"result type to be one of {{{types}}}, but got '{accumulator}'")


_SCALED: dict[str, tuple[str, ...]] = {
    "f8E4M3FN": ("f4E2M1FN",), "f8E8M0FNU": ("f8E4M3FN", "f8E5M2", "f4E2M1FN"), "fnv8E5M3FNU": ("f4E2M1FN",),
}
"""Which inputs of mmaf_scaled each scale type goes with."""

_BLOCKS: dict[tuple[str, str], tuple[int, ...]] = {
    ("f8E4M3FN", "f8E8M0FNU"): (32,), ("f8E5M2", "f8E8M0FNU"): (32,), ("f4E2M1FN", "f8E4M3FN"): (16,),
    ("f4E2M1FN", "f8E8M0FNU"): (16, 32), ("f4E2M1FN", "fnv8E5M3FNU"): (16, 32),
}
"""How many elements share a scale."""


def _mmaf_scaled(op: Any) -> None:
    row = _mma_shapes(op)
    if row:
        _must_match(op, (0, 0), ("lhs", "lhs_scale"))
        _must_match(op, (0, 0), ("rhs", "rhs_scale"))
    _must_match(op, (row, row), ("lhs", "lhs_scale"))
    _must_match(op, (row + 1, row + 1), ("rhs", "rhs_scale"))
    _must_match(op, (row + 1, row), ("lhs_scale", "rhs_scale"))
    element, scale = type_text(op.lhs.type.element_type), type_text(op.lhs_scale.type.element_type)
    allowed = _SCALED[scale]
    if element not in allowed:
        types = f"'{allowed[0]}'" if len(allowed) == 1 else f"one of {{{', '.join(f'{a!r}' for a in allowed)}}}"
        raise InvalidOp(op, f"unsupported combination of element types. Scale type '{scale}' expects lhs and rhs "
                            f"element types to be {types}, but got '{element}'")
    _scale_block(op, row + 1, element, scale)


def _scale_block(op: Any, inner: int, element: str, scale: str) -> None:
    lhs, lhs_scale = op.lhs.type.shape, op.lhs_scale.type.shape
    if lhs[inner] % lhs_scale[inner]:
        raise InvalidOp(op, f"shape error: dim {inner} of lhs_scale ({lhs_scale[inner]}) must be a divisor of dim "
                            f"{inner} of lhs ({lhs[inner]}), but got lhs_scale shape ({listed(lhs_scale)}) and lhs "
                            f"shape ({listed(lhs)})")
    block, allowed = lhs[inner] // lhs_scale[inner], _BLOCKS[element, scale]
    if block not in allowed:
        what = "f8 element type" if element != "f4E2M1FN" else f"f4E2M1FN element type with {scale} scales"
        raise InvalidOp(op, f"shape error: {what} requires block scale factor of lhs_scale and rhs_scale to be "
                            f"{' or '.join(map(str, allowed))}, but got {block}")


def _mmai(op: Any) -> None:
    _mma_shapes(op)


# Constants and assumptions.

def _constant(op: Any) -> None:
    value = op.properties["value"]
    if not isinstance(value, DenseElementsAttr) or value.type != op.result.type:
        raise InvalidOp(op, "failed to verify that all of {value, result} have same type")


def _is_tile_of(type_: Any, *elements: type) -> bool:
    return isinstance(type_, TileType) and isinstance(type_.element_type, elements)


def _assume(op: Any) -> None:
    predicate = op.predicate
    rule = _PREDICATES.get(type(predicate))
    if rule is None:
        raise InvalidOp(op, "attribute 'predicate' failed to satisfy constraint: assume predicate")
    rule(op, predicate, op.result.type)


def _div_by(op: Any, predicate: DivByAttr, type_: Any) -> None:
    name = "'cuda_tile.div_by'"
    divisor, every, along = predicate.divisor, predicate.every, predicate.along
    if divisor <= 0 or divisor & (divisor - 1):
        raise InvalidOp(op, f"{name} divisor must be a power of 2")
    if (every is None) != (along is None):
        raise InvalidOp(op, f"{name} 'every'/'along' must be used in combination")
    if divisor > LARGEST_DIVISOR:
        raise InvalidOp(op, f"{name} divisor is too large")
    if isinstance(type_, TensorViewType):
        if every is not None:
            raise InvalidOp(op, f"{name} 'every'/'along' cannot be used if the constrained value is a tensor_view")
        return
    if not isinstance(type_, TileType):
        raise InvalidOp(op, f"{name} is valid only for tile of integer/pointer or tensor_view values")
    if type_.rank == 0 and every is not None:
        raise InvalidOp(op, f"{name} 'every'/'along' cannot be used if the constrained value is a 0D tile")
    if not _is_tile_of(type_, IntegerType, PointerType):
        raise InvalidOp(op, f"{name} is valid only for tile of integer/pointer or tensor_view values")
    if every is None or along is None:
        return
    if not 0 <= along < type_.rank:
        raise InvalidOp(op, f"{name} every_dim ({along}) must be >= 0 and < tile rank ({type_.rank})")
    if not 0 <= every <= type_.shape[along]:
        raise InvalidOp(op, f"expected {name} every_dim to be within 0 and the size of the respective dimension "
                            f"({type_.shape[along]})")


def _same_elements(op: Any, predicate: SameElementsAttr, type_: Any) -> None:
    name = "'cuda_tile.same_elements'"
    if not _is_tile_of(type_, IntegerType, PointerType):
        raise InvalidOp(op, f"{name} is valid only for tile of integer/pointer values")
    if len(predicate.values) != type_.rank:
        raise InvalidOp(op, f"expected number of values in {name} ({len(predicate.values)}) to match rank of "
                            f"constrained tile ({type_.rank})")
    for i, (value, extent) in enumerate(zip(predicate.values, type_.shape)):
        if not 0 <= value <= extent:
            raise InvalidOp(op, f"expected {name} value {i} to be within 0 and the size of the respective dimension "
                                f"({extent})")


def _bounded(op: Any, predicate: BoundedAttr, type_: Any) -> None:
    name = "'cuda_tile.bounded'"
    if not _is_tile_of(type_, IntegerType):
        raise InvalidOp(op, f"{name} is valid only for tile of integer values")
    top = (1 << (type_.element_type.width.data - 1)) - 1
    for what, bound in (("lower", predicate.lb), ("upper", predicate.ub)):
        if bound is not None and not -top - 1 <= bound <= top:
            raise InvalidOp(op, f"{name} expects {what} bound to be within [{-top - 1}, {top}]")
    if predicate.lb is not None and predicate.ub is not None and predicate.lb > predicate.ub:
        raise InvalidOp(op, f"{name} expects lower bound to be less than or equal to upper bound")


_PREDICATES: dict[type, Callable[[Any, Any, Any], None]] = {
    DivByAttr: _div_by, SameElementsAttr: _same_elements, BoundedAttr: _bounded,
}


# Reductions and scans (their bodies: verify_flow).

def _dim_attribute(op: Any) -> None:
    dim = op.properties["dim"]
    if not isinstance(dim, IntegerAttr) or dim.value.data < 0:
        raise InvalidOp(op, "attribute 'dim' failed to satisfy constraint: 32-bit signless integer attribute whose "
                            "value is non-negative")


def _aggregate(op: Any) -> None:
    operands, results = op.operands, op.results
    single_block(op, "body")
    if not operands:
        raise InvalidOp(op, "expect at least 1 operand")
    if len(operands) != len(results):
        raise InvalidOp(op, "expect same number of operands and results")
    _identities(op, operands)
    dim, rank = op.dim.value.data, operands[0].type.rank
    if dim >= rank:
        raise InvalidOp(op, f"dimension ({dim}) is out of bound [0, {rank})")


def _identities(op: Any, operands: Sequence[Any]) -> None:
    identities = op.identities.data
    if len(identities) != len(operands):
        raise InvalidOp(op, f"expect identities to match the number of operands but got: {len(operands)} operands and "
                            f"{len(identities)} identities")
    for i, (operand, identity) in enumerate(zip(operands, identities)):
        element, given = operand.type.element_type, getattr(identity, "type", None)
        if given is not None and {type_text(element), type_text(given)} == {"f16", "bf16"}:
            continue
        if given != element:
            raise InvalidOp(op, f"expect same type for operand at index: {i} and identity at index: {i} but got: "
                                f"{shown(element)} and {'none' if given is None else shown(given)}")


def _reduce(op: Any) -> None:
    _aggregate(op)
    dim = op.dim.value.data
    inferred = []
    for operand in op.operands:
        shape = operand.type.shape
        inferred.append(TileType(shape[:dim] + shape[dim + 1:], operand.type.element_type))
    _inferred(op, inferred)


def _scan(op: Any) -> None:
    _aggregate(op)
    for i, (operand, result) in enumerate(zip(op.operands, op.results)):
        if operand.type != result.type:
            raise InvalidOp(op, f"expect same type for operand at index: {i} and result at index: {i}")


def _inferred(op: Any, types: Sequence[TileType]) -> None:
    given = [result.type for result in op.results]
    if given != list(types):
        raise InvalidOp(op, f"inferred type(s) {', '.join(map(shown, types))} are incompatible with return type(s) of "
                            f"operation {', '.join(map(shown, given))}", also=("failed to infer returned types",))


ATTRIBUTE_RULES: dict[str, Rule] = {"reduce": _dim_attribute, "scan": _dim_attribute}

OP_RULES: dict[str, Rule] = {
    "addf": _ieee, "subf": _ieee, "mulf": _ieee, "fma": _ieee, "divf": _divf, "sqrt": _sqrt, "exp": _approx_or_full,
    "tanh": _approx_or_full, "exp2": _flush, "rsqrt": _flush, "maxf": _flush, "minf": _flush, "divi": _divi,
    "negi": _negi, "bitcast": _bitcast, "exti": _exti, "trunci": _trunci, "ftof": _ftof, "ftoi": _ftoi, "itof": _itof,
    "broadcast": _broadcast, "reshape": _reshape, "cat": _cat, "extract": _extract, "insert": _insert, "iota": _iota,
    "permute": _permute, "pack": _pack, "unpack": _pack, "select": _select, "mmaf": _mmaf, "mmaf_scaled": _mmaf_scaled,
    "mmai": _mmai, "constant": _constant, "assume": _assume, "reduce": _reduce, "scan": _scan,
}
