"""What ops of nv_tileaa must keep besides their declarations: shapes, element types, regions, facts.

The rules are those of both tile levels: `TILE_RULES` has them by mnemonic, and verify_tileas.py reads it too.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, IntegerType, NoneAttr, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import nv_tileaa, nv_tileas
from tileiras.dialects.base import TileOp
from tileiras.dialects.cuda_tile.types import element_bits
from tileiras.dialects.cuda_tile.verify_error import InvalidOp
from tileiras.dialects.cuda_tile.verify_memory import count_conversions
from tileiras.dialects.element import element_name
from tileiras.dialects.kinds import KINDS, is_number
from tileiras.dialects.nv_tileaa import DYNAMIC, int_values
from tileiras.dialects.verify import Rule
from tileiras.dialects.verify_arith import EXITS, LOOPS, check_elements, check_values, element, last_of
from tileiras.dialects.verify_types import check_extents
from tileiras.layout.atoms.tensor_scaled import widened

MAX_DIMENSIONS_OF_DOT = (2, 3)


def shape(value: SSAValue) -> tuple[int, ...]:
    """The extents of a tensor or a buffer; none for a scalar."""
    t = value.type
    if isinstance(t, nv_tileas.BufferType):
        return tuple(t.layout.data.shape)
    if isinstance(t, nv_tileas.TmemType):
        return int_values(t.shape)
    return tuple(t.get_shape()) if isinstance(t, TensorType) else ()


def kind(value: SSAValue) -> Any:
    """The element type of a tensor or a buffer; a scalar's own type."""
    return value.type.element_type if isinstance(value.type, nv_tileas.BufferType) else element(value)


def written(extents: Sequence[int]) -> str:
    """Extents as messages show them: `2x4`."""
    return "x".join(map(str, extents)) or "a scalar"


def same_elements(op: Operation, a: SSAValue, b: SSAValue) -> None:
    if kind(a) != kind(b):
        raise InvalidOp(op, f"source and result must have the same element type, but have '{a.type}' and '{b.type}'")


# --- functions and early exits ---------------------------------------------------------------------------------------

def _func(op: Any) -> None:
    for i, arg in enumerate(op.body.block.args):
        if not KINDS["carried"].holds(arg.type):
            raise InvalidOp(op, f"parameter {i} must be {KINDS['carried'].words}, but is '{arg.type}'")
    last_of(op, op.body.block, "return")


def _loop(op: Any) -> None:
    check_values(op, op.inits, op.body.block.args, "initial values")
    last_of(op, op.body.block, *EXITS)


def enclosing_loop(op: Operation) -> Any:
    """The loop that an early exit is in; only ifs may stand between."""
    parent = op.parent_op()
    while parent is not None and parent.name == "scf.if":
        parent = parent.parent_op()
    if parent is None or parent.name not in LOOPS:
        raise InvalidOp(op, "must be inside a loop, with only scf.if between")
    return parent


def _break(op: Any) -> None:
    loop = enclosing_loop(op)
    if loop.name == "scf.for":
        raise InvalidOp(op, "does not leave scf.for")
    check_values(op, op.values, loop.results, "operands")


def _continue(op: Any) -> None:
    loop = enclosing_loop(op)
    check_values(op, op.values, loop.carried_args(), "operands")


def _return(op: Any) -> None:
    parent = op.parent_op()
    while parent is not None and (parent.name == "scf.if" or parent.name in LOOPS):
        parent = parent.parent_op()
    if parent is None or not parent.name.endswith((".func", ".agent_switch")):
        raise InvalidOp(op, "must be inside a function, with only loops and scf.if between")


# --- shapes ----------------------------------------------------------------------------------------------------------

def _splat(op: Any) -> None:
    same_elements(op, op.source, op.result)


def _make_range(op: Any) -> None:
    if len(shape(op.result)) != 1:
        raise InvalidOp(op, f"result must have one dimension, but is '{op.result.type}'")


def _view(op: Any) -> None:
    same_elements(op, op.source, op.result)
    if prod(shape(op.source)) != prod(shape(op.result)):
        raise InvalidOp(op, f"must keep the number of elements, but goes from {written(shape(op.source))} to "
                            f"{written(shape(op.result))}")


def same_rank(op: Operation, a: SSAValue, b: SSAValue) -> None:
    if len(shape(a)) != len(shape(b)):
        raise InvalidOp(op, f"operands and result must have the same number of dimensions, but have '{a.type}' and "
                            f"'{b.type}'")


def _broadcast(op: Any) -> None:
    same_elements(op, op.source, op.result)
    same_rank(op, op.source, op.result)
    for d, (a, b) in enumerate(zip(shape(op.source), shape(op.result))):
        if a not in (1, b):
            raise InvalidOp(op, f"dimension {d} must be 1 or {b}, but is {a}")


def _permute(op: Any) -> None:
    same_elements(op, op.source, op.result)
    source, order = shape(op.source), int_values(op.permutation)
    if sorted(order) != list(range(len(source))):
        raise InvalidOp(op, f"permutation {list(order)} must name each of {len(source)} dimensions once")
    if tuple(source[p] for p in order) != shape(op.result):
        raise InvalidOp(op, f"result must be of shape {written([source[p] for p in order])}, but is '{op.result.type}'")


def _part(op: Any, whole: SSAValue, part: SSAValue) -> None:
    same_elements(op, whole, part)
    same_rank(op, whole, part)
    if len(op.indices) != len(shape(whole)):
        raise InvalidOp(op, f"must have {len(shape(whole))} indices, one a dimension, but has {len(op.indices)}")
    for d, (a, b) in enumerate(zip(shape(whole), shape(part))):
        if a % b:
            raise InvalidOp(op, f"extent {b} of dimension {d} must divide {a}")


def _extract(op: Any) -> None:
    _part(op, op.source, op.result)


def _insert(op: Any) -> None:
    _part(op, op.dest, op.source)
    same_elements(op, op.dest, op.result)
    if shape(op.dest) != shape(op.result):
        raise InvalidOp(op, f"result must have the destination's shape, but they are '{op.result.type}' and '{op.dest.type}'")


def dimension(op: Operation, rank: int) -> int:
    """The attribute `dim`, which must be one of the dimensions."""
    attr: Any = op.properties["dim"]
    if attr.value.data >= rank:
        raise InvalidOp(op, f"dim {attr.value.data} must be one of {rank} dimensions")
    return attr.value.data


def _cat(op: Any) -> None:
    for value in (op.lhs, op.rhs):
        same_elements(op, value, op.result)
        same_rank(op, value, op.result)
    dim = dimension(op, len(shape(op.result)))
    lhs, rhs, result = shape(op.lhs), shape(op.rhs), shape(op.result)
    expected = tuple(a + b if d == dim else a for d, (a, b) in enumerate(zip(lhs, rhs)))
    if expected != result or any(a != b for d, (a, b) in enumerate(zip(lhs, rhs)) if d != dim):
        raise InvalidOp(op, f"{written(lhs)} and {written(rhs)} along dimension {dim} don't make {written(result)}")


def _bits(value: SSAValue) -> int:
    """Bits of all elements side by side, as bytes hold them."""
    t = kind(value)
    width = t.width.data if isinstance(t, IntegerType) else element_bits(t)
    return width * prod(shape(value))


def _pack(op: Any) -> None:
    packed = op.result if op.name.endswith(".pack") else op.source
    if len(shape(op.source)) != 1 or len(shape(op.result)) != 1:
        raise InvalidOp(op, f"source and result must have one dimension, but are '{op.source.type}' and '{op.result.type}'")
    if kind(packed) != IntegerType(8):
        raise InvalidOp(op, f"bytes must be i8, but are '{kind(packed)}'")
    if _bits(op.source) != _bits(op.result):
        raise InvalidOp(op, f"must keep the number of bits, but goes from {_bits(op.source)} to {_bits(op.result)}")


# --- pointers, views -------------------------------------------------------------------------------------------------

def _make_memref(op: Any) -> None:
    t = op.result.type
    if op.base.type.pointee != t.element_type:
        raise InvalidOp(op, f"base must point to '{t.element_type}', but is '{op.base.type}'")
    for what, values, extents in (("sizes", op.sizes, t.shape), ("strides", op.strides, t.strides)):
        dynamic = int_values(extents).count(DYNAMIC)
        if len(values) != dynamic:
            raise InvalidOp(op, f"must have {dynamic} {what}, one a dynamic dimension, but has {len(values)}")


def _block_tile(op: Any) -> None:
    if op.view.type.memref != op.memref.type:
        raise InvalidOp(op, f"the view must be one of '{op.memref.type}', but is one of '{op.view.type.memref}'")


def _ordering(op: Any) -> None:
    """Weak accesses have no scope, all others have one."""
    if (op.mem_semantic.data == "weak") != (op.mem_scope is None):
        raise InvalidOp(op, "must have a scope" if op.mem_scope is None else "is weak and must have no scope")


def view_access(op: Any, tile: SSAValue) -> None:
    """An access through a view: its tile, one coordinate a dimension, flags of as many."""
    view = op.view.type
    expected, elements = int_values(view.tile_shape), view.memref.element_type
    if shape(tile) != expected or kind(tile) != elements:
        raise InvalidOp(op, f"the tile must be {written(expected)} of '{elements}', but is '{tile.type}'")
    if len(op.coords) != len(expected):
        raise InvalidOp(op, f"must have {len(expected)} coordinates, one a dimension, but has {len(op.coords)}")
    sparse = view.sparse_dim.data
    for i, coord in enumerate(op.coords):
        if i == sparse and shape(coord) != (expected[i],):
            raise InvalidOp(op, f"coordinate {i} must be a tensor of {expected[i]} indices, but is '{coord.type}'")
        if i != sparse and shape(coord):
            raise InvalidOp(op, f"coordinate {i} must be an integer, but is '{coord.type}'")
    for name in ("inbounds", "check"):
        flags = op.properties.get(name)
        if isinstance(flags, ArrayAttr) and len(flags.data) != len(expected):
            raise InvalidOp(op, f"attribute '{name}' must have {len(expected)} flags, but has {len(flags.data)}")


def _tiled_load(op: Any) -> None:
    view_access(op, op.result)
    _ordering(op)


def _tiled_store(op: Any) -> None:
    view_access(op, op.source)
    _ordering(op)


INTEGER_MODES = ("and", "or", "xor", "add", "max", "min", "umax", "umin")
ATOMIC_INTEGERS = ("i32", "i64")
ATOMIC_FLOATS = ("f16", "bf16", "f32", "f64")
EXCHANGED_BITS = (32, 64)


def _rmw_mode(op: Any) -> None:
    mode, t = op.rmw_mode.data, kind(op.source)
    allowed = ATOMIC_INTEGERS if mode in INTEGER_MODES else ATOMIC_FLOATS if mode == "addf" else None
    if allowed is not None and element_name(t) not in allowed:
        raise InvalidOp(op, f"'{mode}' takes {', '.join(allowed)}, but got '{t}'")
    if allowed is None and _bits(op.source) // prod(shape(op.source)) not in EXCHANGED_BITS:
        raise InvalidOp(op, f"'{mode}' takes elements of 32 or 64 bits, but got '{t}'")


def _tiled_atomic(op: Any) -> None:
    view_access(op, op.source)
    _rmw_mode(op)
    if op.rmw_mode.data == "xchg":
        raise InvalidOp(op, "has no result, and so no exchange")


def _pointee(op: Any, value: SSAValue) -> None:
    pointee = kind(op.ptr).pointee
    if pointee != kind(value):
        raise InvalidOp(op, f"pointers must be to '{kind(value)}', but are to '{pointee}'")


def _load(op: Any) -> None:
    _pointee(op, op.result)
    _ordering(op)


def _store(op: Any) -> None:
    _pointee(op, op.source)
    _ordering(op)


def _atomic_rmw(op: Any) -> None:
    _pointee(op, op.source)
    _rmw_mode(op)


def _atomic_cas(op: Any) -> None:
    _pointee(op, op.source)
    if _bits(op.source) // prod(shape(op.source)) not in EXCHANGED_BITS:
        raise InvalidOp(op, f"takes elements of 32 or 64 bits, but got '{kind(op.source)}'")


def _join(op: Any) -> None:
    if not op.tokens:
        raise InvalidOp(op, "must have a token to join")


def _global(op: Any) -> None:
    t: Any = op.type
    if not isinstance(t, TensorType) or len(t.get_shape()) != 1 or not isinstance(t.encoding, NoneAttr):
        raise InvalidOp(op, f"attribute 'type' must be a tensor of one dimension, but is {t}")
    if (problem := check_extents(t.get_shape())) is not None:
        raise InvalidOp(op, f"attribute 'type' is invalid: {problem}")
    if not is_number(t.element_type):
        raise InvalidOp(op, f"attribute 'type' must have numbers for elements, but is {t}")
    check_elements(op, op.value, t.get_shape()[0], t.element_type)
    _alignment(op)


def _alignment(op: Any) -> None:
    alignment = op.properties.get("alignment")
    if alignment is not None and alignment.value.data & alignment.value.data - 1:
        raise InvalidOp(op, f"alignment {alignment.value.data} must be a power of two")


# --- collectives -----------------------------------------------------------------------------------------------------

FLOAT_ACCUMULATORS: dict[str, tuple[str, ...]] = {
    "f4E2M1FN": ("f16", "f32"), "f8E4M3FN": ("f16", "f32"), "f8E5M2": ("f16", "f32"), "f16": ("f16", "f32"),
    "bf16": ("f32",), "tf32": ("f32",), "f32": ("f32",), "f64": ("f64",), "i8": ("i32",),
}
"""By the operands' element type, the accumulator's."""


def _product(op: Any) -> int:
    """Check a product's shapes, [B x] M x K times [B x] K x N; where its rows are."""
    lhs, rhs, acc = shape(op.lhs), shape(op.rhs), shape(op.acc)
    if not len(lhs) == len(rhs) == len(acc) or len(acc) not in MAX_DIMENSIONS_OF_DOT:
        raise InvalidOp(op, f"operands must all have 2 or all have 3 dimensions, but are {written(lhs)}, {written(rhs)}, "
                            f"{written(acc)}")
    *batch, m, k = lhs
    halves = 2 if "pair" in op.properties else 1
    if (*batch, k) != rhs[:-1] or (*batch, m, halves * rhs[-1]) != acc:
        raise InvalidOp(op, f"{written(lhs)} times {written(rhs)} does not make {written(acc)}")
    return len(batch)


def _dot(op: Any) -> None:
    _product(op)
    lhs, rhs, acc = (element_name(kind(v)) for v in (op.lhs, op.rhs, op.acc))
    if lhs != rhs:
        raise InvalidOp(op, f"lhs and rhs must have the same element type, but have '{lhs}' and '{rhs}'")
    if acc not in FLOAT_ACCUMULATORS.get(lhs, ()):
        raise InvalidOp(op, f"elements '{lhs}' can't be summed up in '{acc}'")
    signed = [name for name in ("signedness_lhs", "signedness_rhs") if name in op.properties]
    if (lhs == "i8") != (len(signed) == 2) and signed:
        raise InvalidOp(op, "both operands of integers have a signedness, none of floats")


SCALED: dict[tuple[str, str], tuple[int, ...]] = {
    ("f8E4M3FN", "f8E8M0FNU"): (32,), ("f8E5M2", "f8E8M0FNU"): (32,), ("f4E2M1FN", "f8E4M3FN"): (16,),
    ("f4E2M1FN", "f8E8M0FNU"): (16, 32), ("f4E2M1FN", "fnv8E5M3FNU"): (16, 32),
}
"""By element and scale, how many elements along k share a scale."""


def _dot_scaled(op: Any) -> None:
    if "block" in op.properties:
        _prepared_dot_scaled(op)
        return
    batch = _product(op)
    lhs, rhs, scales = shape(op.lhs), shape(op.rhs), (shape(op.lhs_scale), shape(op.rhs_scale))
    names = element_name(kind(op.lhs)), element_name(kind(op.lhs_scale))
    if kind(op.lhs) != kind(op.rhs) or kind(op.lhs_scale) != kind(op.rhs_scale) or names not in SCALED:
        raise InvalidOp(op, f"no product of '{kind(op.lhs)}' scaled by '{kind(op.lhs_scale)}' and '{kind(op.rhs)}' scaled by "
                            f"'{kind(op.rhs_scale)}'")
    k = lhs[-1]
    n = shape(op.acc)[-1]
    allowed = [((*lhs[:-1], k // block), (*rhs[:batch], k // block, n)) for block in SCALED[names] if k % block == 0]
    if scales not in allowed:
        raise InvalidOp(op, f"scales must be one for {' or '.join(map(str, SCALED[names]))} elements, but are of shapes "
                            f"{written(scales[0])} and {written(scales[1])}")


def _prepared_dot_scaled(op: Any) -> None:
    """As prepare-dot-scaled leaves it, and what stage-operands makes of its scales: whole pieces."""
    batch = _product(op)
    packed, block = "packed" in op.properties, op.properties["block"].data
    names = "f4E2M1FN" if packed else element_name(kind(op.lhs)), element_name(kind(op.lhs_scale))
    if kind(op.lhs) != kind(op.rhs) or kind(op.lhs_scale) != kind(op.rhs_scale) or block not in SCALED.get(names, ()) or \
            (packed and kind(op.lhs) != IntegerType(8)):
        raise InvalidOp(op, f"no product of {'packed ' if packed else ''}'{kind(op.lhs)}' has a scale of '{kind(op.lhs_scale)}' "
                            f"for {block} elements")
    lhs, rhs = shape(op.lhs), shape(op.rhs)
    factors = lhs[-1] * (2 if packed else 1) // block
    for v, lead, rows in ((op.lhs_scale, lhs[:batch], lhs[-2]), (op.rhs_scale, rhs[:batch], shape(op.acc)[-1])):
        wanted = (rows, factors) if isinstance(v.type, TensorType) else widened(rows, factors)
        if shape(v) != (*lead, *(wanted if v is op.lhs_scale else reversed(wanted))):
            raise InvalidOp(op, f"scales of shape {written(shape(v))} aren't {wanted[1]} for each of {wanted[0]} rows")


def _identities(op: Any, sources: Sequence[SSAValue]) -> None:
    values = op.identities.data
    if len(values) != len(sources):
        raise InvalidOp(op, f"must have {len(sources)} identities, one a source, but has {len(values)}")
    for i, (value, source) in enumerate(zip(values, sources)):
        wanted = IntegerAttr if isinstance(kind(source), IntegerType) else FloatAttr
        if value.type != kind(source) or not isinstance(value, wanted):
            raise InvalidOp(op, f"identity {i} must be of '{kind(source)}', but is {value}")


def _collective(op: Any, sources: Sequence[SSAValue], expected: tuple[int, ...]) -> None:
    if not sources:
        raise InvalidOp(op, "must have a source")
    if len(op.outs) != len(sources):
        raise InvalidOp(op, f"must have {len(sources)} results, one a source, but has {len(op.outs)}")
    for i, (source, out) in enumerate(zip(sources, op.outs)):
        if shape(source) != shape(sources[0]):
            raise InvalidOp(op, f"sources must have the same shape, but have '{sources[0].type}' and '{source.type}'")
        if shape(out) != expected or kind(out) != kind(source):
            raise InvalidOp(op, f"result #{i} must be {written(expected)} of '{kind(source)}', but is '{out.type}'")
    _identities(op, sources)
    wanted = [kind(s) for s in sources for _ in range(2)]
    have = [a.type for a in op.body.block.args]
    if have != wanted:
        raise InvalidOp(op, f"the body must have arguments ({', '.join(map(str, wanted))}), but has "
                            f"({', '.join(map(str, have))})")
    last_of(op, op.body.block, "yield")
    for inner in op.body.block.walk():
        if not isinstance(inner, TileOp) or not (inner.PURE or inner.name == "scf.yield") or inner.regions:
            raise InvalidOp(inner, f"has no place in the body of '{op.name}', which takes ops without effects only")


def sources_of(op: Any) -> Sequence[SSAValue]:
    """What is reduced or scanned, without the buffers that a placed scan has beside it."""
    return [v for v in op.sources if isinstance(v.type, TensorType)]


def _reduce(op: Any) -> None:
    sources = sources_of(op)
    extents = shape(sources[0]) if sources else ()
    dim = dimension(op, len(extents)) if sources else 0
    kept = extents[:dim] + extents[dim + 1:]
    parts = shape(op.outs[0])[:1] if "parts" in op.properties and op.outs else ()
    _collective(op, sources, (*parts, *kept))


def _scan(op: Any) -> None:
    sources = sources_of(op)
    extents = shape(sources[0]) if sources else ()
    if sources:
        dimension(op, len(extents))
    _collective(op, sources, extents)


# --- facts, side effects ---------------------------------------------------------------------------------------------

def _assume(op: Any) -> None:
    fact, extents = op.fact, shape(op.source)
    values = [getattr(v, "data", None) for v in fact.values.data]
    t = kind(op.source)
    what = fact.kind.data
    if what == "div_by":
        _div_by(op, values, extents)
    elif what == "bounded":
        low, high = values if len(values) == 2 else (None, None)
        if len(values) != 2 or (low is not None and high is not None and low > high):
            raise InvalidOp(op, "a bounded fact must have a lower and an upper bound, in this order")
        if not isinstance(t, IntegerType):
            raise InvalidOp(op, f"only integers are bounded, not '{t}'")
    elif what == "same_elements":
        if len(values) != len(extents) or any(n is None or n < 1 for n in values):
            raise InvalidOp(op, f"a same_elements fact must have {len(extents)} sizes of groups, one a dimension")
    else:
        raise InvalidOp(op, f"unknown fact '{what}'")


def _div_by(op: Any, values: list[Any], extents: tuple[int, ...]) -> None:
    if len(values) != 3 or any(v is None for v in values) or values[0] < 1:
        raise InvalidOp(op, "a div_by fact must have a divisor of at least 1")
    _, every, along = values
    if (every == DYNAMIC) != (along == DYNAMIC) or (every != DYNAMIC and (every < 1 or not 0 <= along < len(extents))):
        raise InvalidOp(op, f"'every' and 'along' must stand together, and along one of {len(extents)} dimensions")
    if isinstance(kind(op.source), IntegerType) or isinstance(kind(op.source), nv_tileaa.PtrType):
        return
    raise InvalidOp(op, f"only integers and pointers are divisible, not '{kind(op.source)}'")


def _print(op: Any) -> None:
    expected = count_conversions(op.format.data)
    if expected is None:
        raise InvalidOp(op, "the format has a conversion without an end")
    if expected != len(op.args):
        raise InvalidOp(op, f"the format takes {expected} values, but got {len(op.args)}")


TILE_RULES: dict[str, Rule] = {
    "func": _func, "loop": _loop, "break": _break, "continue": _continue, "return": _return, "splat": _splat,
    "make_range": _make_range, "view": _view, "broadcast": _broadcast, "permute": _permute, "extract": _extract,
    "insert": _insert, "cat": _cat, "pack": _pack, "unpack": _pack, "make_memref": _make_memref, "block_tile": _block_tile,
    "tiled_load": _tiled_load, "tiled_store": _tiled_store, "tiled_atomic_rmw": _tiled_atomic, "load": _load,
    "store": _store, "atomic_rmw": _atomic_rmw, "atomic_cas": _atomic_cas, "join_mem_token": _join, "global": _global,
    "alloca": _alignment, "dot": _dot, "dot_scaled": _dot_scaled, "reduce": _reduce, "scan": _scan, "assume": _assume,
    "print": _print,
}
"""By mnemonic, for both tile levels."""

OP_RULES: dict[str, Rule] = {f"nv_tileaa.{mnemonic}": rule for mnemonic, rule in TILE_RULES.items()}
