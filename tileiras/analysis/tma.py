"""`analyse-tma`: which accesses through views may go by the tensor copy engine, and of the others, why not.

An access may if there can be a tensor map of its view: the base and all strides but the innermost, which is 1, are known
multiples of 16 bytes; address, sizes and strides are functions of the kernel's parameters (host_values.py), or a loop goes through
the view's tiles, so that the kernel may build the map before it; a tile's row has at least 16 bytes; the engine has elements of
this width and this padding; and nothing orders the access but program and tokens. Facts only: whether the engine *is* used is
decided where the tile goes (transforms/lower_tma_load_store_to_async.py).
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from tileiras.analysis.access import contiguous_of
from tileiras.analysis.apart import maker_of
from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.exits import COUNTED
from tileiras.analysis.host_values import host_value
from tileiras.analysis.layout_rules import MOVES
from tileiras.analysis.program_slice import loop_around
from tileiras.dialects.arith import BOUNDS
from tileiras.dialects.cuda_tile.types import Float8E5M3FNUType
from tileiras.dialects.element import element_bytes, element_name
from tileiras.dialects.nv_tileaa import DYNAMIC, MemTokenType, TiledViewType, int_values
from tileiras.layout.descriptors import boxes
from tileiras.layout.shared import (
    CHUNK_BYTES,
    COPY_ALIGNMENT,
    GROUP_ROWS,
    SPANS,
    SWIZZLES,
    WHOLE_ROWS,
    WIDE_ATOMS,
    CanonicalTile,
    canonical,
)
from tileiras.layout.tensormap import MAX_RANK

ALIGNMENT = 16
"""Bytes that address and strides of a tensor map are multiples of (cuTensorMapEncodeTiled), and the place along memory where a box
begins (another one is an illegal instruction to an H100)."""
MOST_COPIES = 32
"""Boxes a tile: one thread issues them one after the other."""
COORDINATE_BITS = 32
MAX_SIZE = 1 << 31
"""Elements a dimension that coordinates of 32 bits reach."""
ELEMENTS: dict[type, str] = {
    Float16Type: "f16", BFloat16Type: "bf16", Float32Type: "f32", FloatTF32Type: "f32", Float64Type: "f64", Float8E4M3FNType: "u8",
    Float8E5M2Type: "u8", Float8E8M0FNUType: "u8", Float8E5M3FNUType: "u8"}
"""Element type -> what the map calls it; integers by their width."""
WHOLE_BITS = (8, 16, 32, 64)
WIDE_BITS = 32
"""Of elements that products may want in the form WIDE_ATOMS."""
REPEATS = "nv_tileas.broadcast"
ROUNDED = {("f32", "tf32"): "tf32"}
"""Elements of memory and of the tile that is wanted, rounded to the nearest, ties to even -> what a map that does so calls them."""
REDUCTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "add": ("add", {"u32": "u32", "u64": "u64"}), "addf": ("add", {"f16": "f16", "bf16": "bf16"}),
    "max": ("max", {"u32": "s32", "u64": "s64"}), "min": ("min", {"u32": "s32", "u64": "s64"}),
    "umax": ("max", {"u32": "u32", "u64": "u64"}), "umin": ("min", {"u32": "u32", "u64": "u64"}),
    **{mode: (mode, {"u32": "u32", "u64": "u64"}) for mode in ("and", "or", "xor")}}
"""Mode of an atomic on a view -> what the copy engine calls it, and of the maps' elements those that it reduces, under the name
that says how. It adds f32 only with subnormal numbers flushed (PTX ISA, cp.reduce.async.bulk), which atomics don't do."""
READERS = ("tiled_load", "load", "join_mem_token", "create_mem_token")
"""What makes a token that stands for no write."""
LEAVES = ("break", "continue", "return")
MAX_TOKENS = 256
"""Tokens looked at, at most, to find whether one stands for a write."""


@dataclass(frozen=True)
class Refusal:
    """Why a view has no map. `value`: the one that `reason` speaks of where it says {name}; `needs`: what it isn't known to be a
    multiple of."""

    reason: str
    value: SSAValue | None = None
    needs: int = 0


FORBIDDEN = "the hint allow_tma = false"
"""A refusal that the program asked for."""


@dataclass(frozen=True)
class MapFacts:
    """What the map of a view is made of besides its memref. `element`: a name of layout.tensormap.ELEMENTS; `tile`: how the view's
    tile lies in shared memory, the first of `forms_of`; `nan`: what lies outside reads as NaN, not zero."""

    element: str
    tile: CanonicalTile
    nan: bool = False


def map_element(t: Attribute) -> str | None:
    """What a tensor map calls elements of this type; None for those that it doesn't have."""
    if isinstance(t, IntegerType):
        return f"u{t.width.data}" if t.width.data in WHOLE_BITS else None
    return ELEMENTS.get(type(t))


def map_facts(op: Operation, axis: AxisAnalysis, filled: bool = False, contiguous: int | None = None) -> MapFacts | list[Refusal]:
    """The facts of an access through a view (tiled_load, tiled_store, tiled_atomic_rmw), or all that stands against a map.
    `filled`: whoever reads the tile sees to what lies outside of the array. `contiguous`: the tile's dimension that runs along
    memory, where the access doesn't say it yet."""
    view: SSAValue = op.view  # type: ignore[attr-defined]
    t = view.type
    assert isinstance(t, TiledViewType)
    major = contiguous_of(op) if contiguous is None else contiguous
    out = [*_access(op, t, filled), *_memref(op, view, t, axis, major)]
    element = map_element(t.memref.element_type)
    if element is None:
        out.append(Refusal(f"the copy engine has no elements of type {element_name(t.memref.element_type)}"))
    elif major is not None:
        row, step = (int_values(numbers)[major] * element_bytes(t.memref.element_type) for numbers in (t.tile_shape, t.steps))
        if row < CHUNK_BYTES:
            out.append(Refusal(f"a row of the tile has {row} bytes, copies have {CHUNK_BYTES} at least; use a wider tile"))
        elif step % ALIGNMENT:
            out.append(Refusal(f"tiles lie {step} bytes apart along memory, and boxes begin at multiples of {ALIGNMENT}"))
    if out or element is None or major is None:
        return out
    if op.name.endswith("tiled_atomic_rmw"):
        mode: str = op.properties["rmw_mode"].data  # type: ignore[attr-defined]
        reduced = REDUCTIONS.get(mode, ("", {}))[1].get(element)
        if reduced is None:
            return [Refusal(f"the copy engine has no '{mode}' of {element_name(t.memref.element_type)}")]
        element = reduced
    tile = next(forms_of(tile_of(t, major)), None)
    if tile is None:
        return [Refusal(f"boxes begin at multiples of {COPY_ALIGNMENT} bytes, a tile has {MOST_COPIES} at most; use more rows")]
    return MapFacts(element, tile, t.padding.data == "nan" and is_filled(t))


def forms_of(tile: CanonicalTile) -> Iterator[CanonicalTile]:
    """The forms in which copies may put a tile: with every swizzle that it is wide enough for, the widest first, and in whole rows;
    these first where rows are few and long, since they take fewer boxes."""
    row = tile.shape[tile.major] * tile.bits // 8
    swizzles = sorted((s for s in SWIZZLES if s <= row), reverse=True)
    for swizzle in (WHOLE_ROWS, *swizzles) if tile.rows < GROUP_ROWS else (*swizzles, WHOLE_ROWS):
        form = canonical(tile.shape, tile.bits, tile.major, swizzle)
        if is_copied(form):
            yield form


def in_forms(facts: MapFacts) -> Iterator[MapFacts]:
    """The same facts with each form."""
    for form in forms_of(facts.tile):
        yield replace(facts, tile=form)


def for_products(facts: MapFacts) -> Iterator[MapFacts]:
    """The same facts with each form that a product may read."""
    yield from in_forms(facts)
    tile = facts.tile
    if tile.bits == WIDE_BITS and tile.shape[tile.major] * tile.bits // 8 >= SPANS[WIDE_ATOMS]:
        form = canonical(tile.shape, tile.bits, tile.major, WIDE_ATOMS)
        if is_copied(form):
            yield replace(facts, tile=form)


def rounded_by(op: Operation) -> str:
    """What a map calls the elements that a load gives where it rounds as this op does; "" where none does."""
    if op.name != "arith.convertf":
        return ""
    rounding: Any = op.properties.get("rounding")
    kinds = tuple(element_name(v.type.element_type) for v in (*op.operands, *op.results) if isinstance(v.type, TensorType))
    return ROUNDED.get(kinds, "") if rounding is not None and rounding.data == "nearest_even" else ""  # type: ignore[call-overload]


def is_brought(op: Operation) -> bool:
    """Whether an op may lie between a load and the buffer that the engine fills: it gives the same elements, repeats them (they lie
    there once), or rounds them as a map does."""
    return op.name in MOVES or op.name == REPEATS or bool(rounded_by(op))


def is_copied(tile: CanonicalTile) -> bool:
    """Whether boxes that lie in shared memory like this, not too many, are the whole tile."""
    if tile.num_bytes < COPY_ALIGNMENT or (tile.panels > 1 and tile.panel_bytes % COPY_ALIGNMENT):
        return False
    plan = boxes(tile)
    return len(plan.copies) <= MOST_COPIES and all(copy.byte % COPY_ALIGNMENT == 0 for copy in plan.copies)


def tile_of(t: TiledViewType, major: int, swizzle: int | None = None) -> CanonicalTile:
    """How a view's tile lies in shared memory, contiguous along its dimension `major`."""
    return canonical(int_values(t.tile_shape), 8 * element_bytes(t.memref.element_type), major, swizzle)


def is_filled(t: TiledViewType) -> bool:
    """Whether the engine itself fills what lies outside of the array as the view says: with zeros, or with NaN."""
    floating = not isinstance(t.memref.element_type, IntegerType)
    return t.padding.data in ("", "zero") or (
        t.padding.data == "nan" and floating and element_bytes(t.memref.element_type) > 1)


def needs_fill(load: Operation, by_engine: bool = True) -> bool:
    """Whether a tile that the engine (or `cp.async`) brings lacks its padding: both fill with zeros, the engine also with NaN."""
    check: Any = load.properties.get("check")
    t: TiledViewType = load.view.type  # type: ignore[attr-defined]
    brought = is_filled(t) if by_engine else t.padding.data in ("", "zero")
    return not brought and (check is None or any(int_values(check)))


def _access(op: Operation, t: TiledViewType, filled: bool) -> list[Refusal]:
    """What the access itself says against it."""
    out = []
    semantic: Any = op.properties.get("mem_semantic")
    if op.name.endswith(("tiled_load", "tiled_store")) and semantic is not None and semantic.data != "weak":
        out.append(Refusal(f"the copy engine knows no {semantic.data} accesses"))
    scope: Any = op.properties.get("mem_scope")
    if op.name.endswith("tiled_atomic_rmw") and (semantic is None or semantic.data != "relaxed" or
                                                 (scope is not None and scope.data == "sys")):
        out.append(Refusal("the copy engine's reductions are relaxed, and for one device"))
    allow: Any = op.properties.get("allow_tma")
    if allow is not None and not allow.value.data:
        out.append(Refusal(FORBIDDEN))
    if t.kind.data == "gather_scatter":
        out.append(Refusal("rows that are gathered have no box"))
    rank = len(t.memref.shape.data)
    if not 1 <= rank <= MAX_RANK or len(t.tile_shape.data) != rank:
        out.append(Refusal(f"tensor maps have 1 to {MAX_RANK} dimensions"))
    if op.name.endswith("tiled_load") and not (is_filled(t) or filled or "filled" in op.properties):
        out.append(Refusal(f"the copy engine pads with zero, not with {t.padding.data}; select behind the load"))
    return out


def _memref(op: Any, view: SSAValue, t: TiledViewType, axis: AxisAnalysis, major: int | None) -> list[Refusal]:
    """What base, sizes, strides and coordinates say against it."""
    maker = maker_of(view)
    if maker is None:
        return [Refusal("its view is chosen at run time")]
    size = element_bytes(t.memref.element_type)
    facts = axis.memref(view)
    out = []
    if major is None:
        out.append(Refusal("no dimension of the tile is known to have stride 1"))
    if facts.base_alignment % ALIGNMENT:
        out.append(Refusal(f"the base {{name}} isn't known to be aligned to {ALIGNMENT} bytes", maker.base, ALIGNMENT))
    inner = int_values(t.dim_map)[major] if major is not None else -1
    dynamic = iter(maker.strides)
    for d, n in enumerate(int_values(t.memref.strides)):
        value = next(dynamic) if n == DYNAMIC else None
        if major is not None and d != inner and facts.stride_divisors[d] * size % ALIGNMENT:
            needs = ALIGNMENT // size
            what = f"a multiple of {needs} elements ({ALIGNMENT} bytes)"
            if value is None:
                out.append(Refusal(f"stride {n} of dimension {d} isn't {what}"))
            else:
                out.append(Refusal(f"stride {{name}} of dimension {d} isn't known to be {what}", value, needs))
    is_worth_building = is_for_many(op, maker) or is_behind_loop(op, maker)
    if not is_worth_building and any(host_value(v) is None for v in (maker.base, *maker.sizes, *maker.strides)):
        out.append(Refusal("address, sizes or strides are computed in the kernel, not functions of its parameters, and the map "
                           "would serve one tile"))
    wide = [v for v in (*maker.sizes, *op.coords) if isinstance(v.type, IntegerType) and v.type.width.data > COORDINATE_BITS]
    if wide or any(n > MAX_SIZE for n in int_values(t.memref.shape)):
        out.append(Refusal(f"sizes or indices have more than {COORDINATE_BITS} bits"))
    return out


def is_for_many(access: Operation, maker: Operation) -> bool:
    """Whether a loop goes through tiles of a memref that is made before it: a map that the kernel builds is worth its fences."""
    loop = loop_around(access)
    around = maker.parent_op()
    while around is not None and around is not loop:
        around = around.parent_op()
    return loop is not None and around is None


def is_behind_loop(access: Operation, maker: Operation) -> bool:
    """Whether a store comes behind a loop that its memref is made before: what the kernel builds its map for is hidden by it."""
    assert maker.parent is not None
    holder = maker.parent.find_ancestor_op_in_block(access)
    if holder is None or not access.name.endswith("tiled_store"):
        return False
    op = maker.next_op
    while op is not None and op is not holder:
        if op.name == COUNTED:
            return True
        op = op.next_op
    return False


def is_unwritten(access: Operation) -> bool:
    """Whether no token says that a write comes before the access."""
    return _all_known((v for v in access.operands if isinstance(v.type, MemTokenType)), _sources)


def _all_known(tokens: Iterable[SSAValue], following: Callable[[SSAValue], Sequence[SSAValue] | None]) -> bool:
    """Whether `following` knows of these tokens, and of all that it leads to, where they lead; None where it doesn't."""
    pending = list(tokens)
    seen = set(pending)
    while pending:
        found = following(pending.pop())
        if found is None:
            return False
        pending += [v for v in found if v not in seen]
        seen.update(found)
        if len(seen) > MAX_TOKENS:
            return False
    return True


def _sources(token: SSAValue) -> list[SSAValue] | None:
    """The tokens of which one is made; None where it may stand for a write."""
    if isinstance(token, BlockArgument):
        loop: Any = token.owner.parent_op()
        if loop.name != COUNTED or any(op.name.endswith(".continue") for op in loop.walk()):
            return None
        return loop.carried_from(token.index - 1)
    owner: Any = token.owner
    if owner.name == COUNTED:
        return None if any(op.name.partition(".")[2] in LEAVES for op in owner.walk()) else owner.carried_from(token.index)    # type: ignore
    if owner.name.partition(".")[2] in READERS:
        return [v for v in owner.operands if isinstance(v.type, MemTokenType)]
    return None


def orders_itself(access: Operation) -> bool:
    """Whether tokens order a store only behind what it stored in earlier iterations of loops: nothing else takes the token that
    it gives, or gives the one that it takes."""
    tokens = [v for v in (*access.operands, *access.results) if isinstance(v.type, MemTokenType)]
    return _all_known(tokens, lambda token: _joined(access, token))


def _joined(access: Operation, token: Any) -> list[SSAValue] | None:
    """The tokens that one comes of or leads to by way of loops and branches; None where another op than the access takes it or
    gives it."""
    owner: Any = token.owner
    out: list[SSAValue] = []
    if isinstance(token, BlockArgument):
        loop: Any = token.owner.parent_op()
        if loop.name != COUNTED:
            return None
        out += _carried(loop, token.index - 1)
    elif owner.name == COUNTED:
        out += _carried(owner, token.index)
    elif owner.name == "scf.if":
        out += [region.block.last_op.operands[token.index] for region in owner.regions]
    elif owner.name.endswith(".create_mem_token"):
        return []               # it stands for nothing
    elif owner is not access:
        return None
    for use in token.uses:
        op: Any = use.operation
        if op.name == COUNTED:
            out += _carried(op, use.index - BOUNDS)
        elif op.name == "scf.yield":
            holder = op.parent_op()
            out += _carried(holder, use.index) if holder.name == COUNTED else [holder.results[use.index]]
        elif op is not access:
            return None
    loops = [v.owner for v in out if isinstance(v, BlockArgument)]
    return None if any(op.name.partition(".")[2] in LEAVES for body in loops for op in body.walk()) else out


def _carried(loop: Any, number: int) -> list[SSAValue]:
    """All that a counted loop carries under a number: what iterations are given, what it is in one, and what it gives."""
    return [*loop.carried_from(number), loop.regions[0].block.args[1 + number], loop.results[number]]
