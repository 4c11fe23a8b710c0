"""What ops of cute, cute_nvgpu and cutlass must keep: layouts that follow from each other, atoms that fit their operands,
rings that can work. The algebra runs in the verifier, so a wrong layout is refused where it is written."""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute

from tileiras.dialects import cute, cute_nvgpu, cutlass, llvm
from tileiras.dialects.cuda_tile.verify_error import InvalidOp
from tileiras.dialects.cute import LayoutAttr, MemRefType
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileaa import int_values
from tileiras.dialects.verify import Rule
from tileiras.dialects.verify_llvm import bits
from tileiras.layout.atoms.atom import GLOBAL, REGISTERS, SHARED, Atom
from tileiras.layout.atoms.mma_sync import BITS
from tileiras.layout.cute.algebra import Layout, make_layout
from tileiras.layout.cute.f2 import to_shared
from tileiras.layout.cute.swizzle import AnyLayout, ComposedLayout
from tileiras.layout.cute.tiling import zipped_divide
from tileiras.layout.cute.tuples import LayoutError
from tileiras.layout.descriptors import MAX_BOX_EXTENT, matrix_descriptor
from tileiras.layout.shared import SWIZZLES, canonical_of

SPACE_OF = {"smem": llvm.SHARED, "gmem": llvm.GLOBAL, "tmem": llvm.TENSOR}
WARP = 32


def _ref(op: Any, name: str) -> MemRefType:
    t = getattr(op, name).type
    if not isinstance(t, MemRefType):
        raise InvalidOp(op, f"expected a view as an input but got '{t}'")
    if t.space.data not in cute.SPACES:
        raise InvalidOp(op, f"'{name}' lies in '{t.space.data}', which is none of {', '.join(cute.SPACES)}")
    return t


def _plain(layout: AnyLayout) -> Layout:
    return layout.layout if isinstance(layout, ComposedLayout) else layout


def _with_plain(layout: AnyLayout, plain: Layout) -> AnyLayout:
    return ComposedLayout(layout.swizzle, layout.offset, plain) if isinstance(layout, ComposedLayout) else plain


def _follows(op: Any, source: MemRefType, expected: AnyLayout) -> None:
    """The result has the source's elements in the layout that follows."""
    result = _ref(op, "result")
    if (result.element_type, result.space) != (source.element_type, source.space):
        raise InvalidOp(op, f"must keep elements and space, but goes from '{source}' to '{result}'")
    if result.layout.data != expected:
        raise InvalidOp(op, f"the result's layout must be {expected}, but is {result.layout.data}")


def _pointer(op: Any, name: str, space: str) -> None:
    t = getattr(op, name).type
    if not isinstance(t, llvm.PtrType) or SPACE_OF.get(space) not in (None, t.space.data):
        raise InvalidOp(op, f"'{name}' must be a pointer into {space}, but is '{t}'")


def _make_view(op: Any) -> None:
    _pointer(op, "iter", _ref(op, "result").space.data)


def _get_iter(op: Any) -> None:
    _pointer(op, "result", _ref(op, "source").space.data)


def _local_tile(op: Any) -> None:
    source, tiler = _ref(op, "source"), int_values(op.tiler)
    layout = source.layout.data
    try:
        tile, rest = zipped_divide(_plain(layout), tuple(tiler)).modes
    except LayoutError as error:
        raise InvalidOp(op, str(error)) from error
    if len(op.coords) != rest.rank:
        raise InvalidOp(op, f"expected a coordinate of rank {rest.rank} but got {len(op.coords)}")
    _follows(op, source, _with_plain(layout, tile))


def _slice(op: Any) -> None:
    source, kept = _ref(op, "source"), int_values(op.kept)
    plain = _plain(source.layout.data)
    if len(kept) != plain.rank or len(op.coords) != list(kept).count(0):
        raise InvalidOp(op, f"Failed to dice {plain} with {len(op.coords)} coordinates and kept = {list(kept)}")
    rest = make_layout(*(mode for mode, keep in zip(plain.modes, kept) if keep))
    _follows(op, source, _with_plain(source.layout.data, rest))


def _add_offset(op: Any) -> None:
    """An offset may pass a swizzle only if it is a multiple of what the swizzle permutes."""
    source = _ref(op, "source")
    layout, step = source.layout.data, op.divisible.data
    if isinstance(layout, ComposedLayout):
        s = layout.swizzle
        period = 1 << s.base + s.bits + abs(s.shift)
        if step % period:
            raise InvalidOp(op, f"an offset that is a multiple of {step} doesn't commute with {s}, which needs {period}")
    _follows(op, source, layout)


def _recast(op: Any) -> None:
    source, result = _ref(op, "source"), _ref(op, "result")
    old, new = (8 * element_bytes(t.element_type) for t in (source, result))
    try:
        if isinstance(source.layout.data, ComposedLayout):
            expected: AnyLayout = source.layout.data.recast(old, new)
        else:
            from tileiras.layout.cute.algebra import recast_layout
            expected = recast_layout(source.layout.data, old, new)
    except LayoutError as error:
        raise InvalidOp(op, str(error)) from error
    if result.space != source.space or result.layout.data != expected:
        raise InvalidOp(op, f"the result must be in {source.space.data} with layout {expected}, but is '{result}'")


def _coordinates(op: Any, layout: AnyLayout) -> None:
    if len(op.coords) not in (1, _plain(layout).rank):
        raise InvalidOp(op, f"expected a coordinate of rank {_plain(layout).rank} but got {len(op.coords)}")


def _crd2idx(op: Any) -> None:
    if not isinstance(op.layout, LayoutAttr):
        raise InvalidOp(op, f"expects an input of type layout or composed layout, but got {op.layout}")
    _coordinates(op, op.layout.data)


def _access(ref: str, value: str) -> Rule:
    def check(op: Any) -> None:
        t = _ref(op, ref)
        if getattr(op, value).type != t.element_type:
            raise InvalidOp(op, f"'{value}' must be of type '{t.element_type}', but is of '{getattr(op, value).type}'")
        _coordinates(op, t.layout.data)
    return check


# --- atoms ------------------------------------------------------------------------------------------------------------

_WIDTHS = {**BITS, "e2m1": 8, "e2m3": 8, "e3m2": 8, "ue8m0": 8, "ue4m3": 8, "b8": 8, "b16": 16, "b32": 32}


def _atom(op: Any) -> None:
    from tileiras.layout.atoms.registry import find
    name = op.atom.data
    if not name.startswith(cute_nvgpu.PREFIXES[op.name]):
        raise InvalidOp(op, f"takes atoms {' or '.join(p + '*' for p in cute_nvgpu.PREFIXES[op.name])}, not '{name}'")
    try:
        atom = find(name)
    except KeyError:
        raise InvalidOp(op, f"there is no atom '{name}'") from None
    values = [*op.operands, *op.results]
    for role, v in zip(cute_nvgpu.OPERANDS_OF[op.name], values):
        if role != "-":
            _role(op, atom, role, v.type)


def _role(op: Any, atom: Atom, role: str, t: Attribute) -> None:
    operand = atom.operand(role)
    if operand.residency == REGISTERS:
        if not isinstance(t, VectorType):
            raise InvalidOp(op, f"expects rmem for operand {role}, but got '{t}'")
        assert operand.fragment is not None
        wanted = operand.fragment.size // atom.threads * _WIDTHS[operand.element]
        if atom.name.startswith("SM120.mma_bs.mxf4") and role in ("A", "B"):
            wanted //= 2
        held = t.get_shape()[0] * bits(t)
        if held != wanted:
            raise InvalidOp(op, f"operand {role} of {atom.name} is {wanted} bits a thread, but '{t}' has {held}")
    elif operand.described in cute_nvgpu.FORMS:
        if t != llvm.integer(64):
            raise InvalidOp(op, f"expects memref/smem_desc_view for operand {role}, but gets '{t}'.")
    elif operand.described == "tensormap":
        if not isinstance(t, llvm.PtrType):
            raise InvalidOp(op, f"operand {role} must be a tensor map's address, but is '{t}'")
    elif isinstance(t, MemRefType) and t.space.data != operand.residency:
        raise InvalidOp(op, f"operand {role} of {atom.name} lies in {operand.residency}, not in {t.space.data}")


def _tma(op: Any) -> None:
    _atom(op)
    last = op.atom.data.rsplit(".", 1)[-1]
    if last.endswith("d") and len(op.coords) != int(last[0]):
        raise InvalidOp(op, f"{op.atom.data} takes {last[0]} coordinates, not {len(op.coords)}")


def _universal_copy(op: Any) -> None:
    _atom(op)
    spaces = _ref(op, "source").space.data, _ref(op, "target").space.data
    *_, source, target, _ = op.atom.data.split(".")
    if spaces != (source, target):
        raise InvalidOp(op, f"{op.atom.data} copies from {source} to {target}, not from {spaces[0]} to {spaces[1]}")


def _smem_desc_view(op: Any) -> None:
    source = _ref(op, "source")
    if source.space.data != SHARED or op.form.data not in cute_nvgpu.FORMS:
        raise InvalidOp(op, f"describes a tile in {SHARED} for {' or '.join(cute_nvgpu.FORMS)}, not '{source}' for "
                            f"'{op.form.data}'")
    try:
        tile = canonical_of(to_shared(source.layout.data), 8 * element_bytes(source.element_type))
        if tile is None or len(tile.shape) != 2 or op.k.data > 1:
            raise InvalidOp(op, f"Not a canonical GMMA layout: {source.layout.data}")
        matrix_descriptor(tile, op.k.data, op.form.data)
    except ValueError as error:
        raise InvalidOp(op, str(error)) from error


def _make_tma_desc(op: Any) -> None:
    box, rank = int_values(op.box), len(op.sizes)
    _pointer(op, "base", GLOBAL)
    if not 1 <= rank <= 5 or len(op.strides) != rank - 1 or len(box) != rank:
        raise InvalidOp(op, f"a tensor map of {rank} dimensions needs 1 to 5 of them, {rank - 1} strides and {rank} box extents")
    if any(not 1 <= n <= MAX_BOX_EXTENT for n in box) or op.swizzle.data not in SWIZZLES:
        raise InvalidOp(op, f"no box {list(box)} with a swizzle of {op.swizzle.data} bytes")


# --- pipelines --------------------------------------------------------------------------------------------------------

def _ring(op: Any) -> cutlass.PipelineType:
    t = op.pipeline.type
    if not isinstance(t, cutlass.PipelineType):
        raise InvalidOp(op, f"'pipeline' must be a pipeline, but is '{t}'")
    if t.stages.data < 1:
        raise InvalidOp(op, "cutlass.pipeline.init: invalid numStages", named=False)
    if t.kind.data not in cutlass.PRODUCER_KINDS:
        raise InvalidOp(op, f"no producer of kind '{t.kind.data}'; known: {', '.join(cutlass.PRODUCER_KINDS)}")
    if t.producers.data < 1 or t.consumers.data < 1:
        raise InvalidOp(op, "cutlass.pipeline.init: participants length mismatch", named=False)
    if (t.kind.data == "tma") != (t.bytes.data > 0):
        raise InvalidOp(op, f"a stage that '{t.kind.data}' fills doesn't receive {t.bytes.data} bytes")
    return t


def _init(op: Any) -> None:
    _ring(op)


def _create(op: Any) -> None:
    t = _ring(op)
    if (op.storage is None) != (t.kind.data == "group"):
        raise InvalidOp(op, "barriers in shared memory are what every pipeline but one of wait groups needs")
    if op.storage is not None:
        _pointer(op, "storage", SHARED)


def _stage(op: Any) -> None:
    _ring(op)
    for v in (op.state, *op.results):
        if not isinstance(v.type, cutlass.StateType):
            raise InvalidOp(op, f"'state' must be a pipeline's state, but is '{v.type}'")


def _named_barrier(op: Any) -> None:
    if not 1 <= op.id.data < cutlass.NAMED_BARRIERS or op.threads.data % WARP:
        raise InvalidOp(op, f"named barriers are 1 to {cutlass.NAMED_BARRIERS - 1} for whole warps, not {op.id.data} for "
                            f"{op.threads.data} threads")


OP_RULES: dict[str, Rule] = {
    "cute.make_view": _make_view, "cute.get_iter": _get_iter, "cute.local_tile": _local_tile, "cute.slice": _slice,
    "cute.add_offset": _add_offset, "cute.recast": _recast, "cute.crd2idx": _crd2idx,
    "cute.memref.load": _access("source", "result"), "cute.memref.store": _access("target", "value"),
    **dict.fromkeys(cute_nvgpu.PREFIXES, _atom),
    **{f"cute_nvgpu.arch.copy.SM90.tma_{m}": _tma for m in ("load", "store", "reduce")},
    "cute_nvgpu.universal_copy": _universal_copy, "cute_nvgpu.smem_desc_view": _smem_desc_view,
    "cute_nvgpu.make_tma_desc_tiled": _make_tma_desc,
    "cutlass.pipeline.create": _create, "cutlass.pipeline.init": _init,
    **{f"cutlass.pipeline.{m}": _stage for m in ("advance", "producer_acquire", "producer_commit", "consumer_wait",
                                                 "consumer_release", "producer_tail")},
    "cutlass.named_barrier.arrive": _named_barrier, "cutlass.named_barrier.arrive_and_wait": _named_barrier,
}
