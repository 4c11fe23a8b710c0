"""What ops of nv_tileas must keep besides their declarations: those of nv_tileaa with theirs, and shared memory's own."""
from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Block

from tileiras.analysis.agents import FEWEST_REGISTERS, MOST_REGISTERS, REGISTER_STEP, agents_of
from tileiras.analysis.async_copies import CHUNKS, copies_chunks, fills_with_zeros
from tileiras.analysis.layout_rules import accumulator_layout, dot_shape, layout_or_none
from tileiras.analysis.tensor_dots import TENSOR_DOT, is_told_by_dots, umma_of
from tileiras.analysis.tma import ROUNDED, map_element
from tileiras.analysis.warpgroup_dots import tile_of, wgmma_of
from tileiras.dialects.cuda_tile.verify_error import InvalidOp
from tileiras.dialects.cuda_tile.verify_memory import count_conversions
from tileiras.dialects.element import element_bytes
from tileiras.dialects.kinds import KINDS
from tileiras.dialects.nv_tileaa import int_values
from tileiras.dialects.nv_tileas import BufferType, LayoutAttr, TmemType
from tileiras.dialects.verify import Rule
from tileiras.dialects.verify_tileaa import TILE_RULES, kind, last_of, shape, view_access, written
from tileiras.layout.atoms.tensor_scaled import TensorScaledAtom, factor_columns, scale_buffer, widened
from tileiras.layout.atoms.umma import HALF_ROWS, IN_CELLS, IN_QUADS, UmmaAtom, place_of, shape_at
from tileiras.layout.atoms.warpgroup import WgmmaAtom, units
from tileiras.layout.f2 import independent

SIGNED_ORDERS = frozenset({"slt", "sle", "sgt", "sge"})
MAX_WARPS = 32
"""Of a block."""
MAX_AGENTS = 15
"""As many named barriers as a block has besides its own."""


def _func(op: Any) -> None:
    args = op.body.block.args
    maps = len(op.tensor_maps.data) if op.tensor_maps is not None else 0
    for i, arg in enumerate(args):
        wanted = "tensormap" if i >= len(args) - maps else "scalar"
        if not KINDS[wanted].holds(arg.type):
            raise InvalidOp(op, f"parameter {i} must be {KINDS[wanted].words}, but is '{arg.type}'")
    for text in op.tensor_maps.data if op.tensor_maps is not None else ():
        _recipe(op, text.data, len(args) - maps)
    last_of(op, op.body.block, "return")


def _recipe(op: Any, text: str, parameters: int) -> None:
    from tileiras.host.recipe import RecipeError, read_map
    try:
        read = read_map(text).parameters()
    except RecipeError as error:
        raise InvalidOp(op, str(error)) from None
    for parameter in read:
        if parameter.index >= parameters:
            raise InvalidOp(op, f"a tensor map is made from parameter {parameter.index} of {parameters}")


def _build_tma_desc(op: Any) -> None:
    _recipe(op, op.recipe.data, len(op.sources))


def _convert_layout(op: Any) -> None:
    if kind(op.source) != kind(op.result) or shape(op.source) != shape(op.result):
        raise InvalidOp(op, f"must keep shape and elements, but goes from '{op.source.type}' to '{op.result.type}'")


def _mask_runs(op: Any) -> None:
    extents, dim, predicates = shape(op.result), op.dim.value.data, [p.data for p in op.predicates.data]
    if dim >= len(extents):
        raise InvalidOp(op, f"dim {dim} must be one of {len(extents)} dimensions")
    if not predicates or not set(predicates) <= SIGNED_ORDERS:
        raise InvalidOp(op, f"predicates must be some of {', '.join(sorted(SIGNED_ORDERS))}, but are {', '.join(predicates)}")
    if len(op.terms) != 2 * len(predicates):
        raise InvalidOp(op, f"must have an offset and a limit for each of {len(predicates)} predicates, but has {len(op.terms)} "
                            "terms")
    for v in op.terms:
        if kind(v) != i32:
            raise InvalidOp(op, f"terms must be of 'i32', but one is of '{kind(v)}'")
        if isinstance(v.type, TensorType):
            own = shape(v)
            if len(own) != len(extents) or own[dim] != 1 or any(n not in (1, m) for n, m in zip(own, extents)):
                raise InvalidOp(op, f"a term of {written(own)} isn't the same along dimension {dim} of {written(extents)}")


def _in_buffer(op: Any, value: Any) -> None:
    """A tile of the buffer's elements, as large as the buffer or a slice of it; a scalar is a slice of one."""
    extents, room = shape(value), shape(op.buffer)
    if kind(op.buffer) != kind(value):
        raise InvalidOp(op, f"the buffer must be of '{kind(value)}', but is of '{kind(op.buffer)}'")
    if not isinstance(value.type, TensorType):
        return
    if len(extents) != len(room) or any(n > m for n, m in zip(extents, room)):
        raise InvalidOp(op, f"the buffer must be {written(extents)} or larger, but is {written(room)}")
    if extents != room and op.rounds is None:
        raise InvalidOp(op, f"a slice {written(extents)} of a buffer {written(room)} needs 'rounds'")


def _rounds(op: Any) -> None:
    bases = op.buffer.type.layout.data.bases
    if op.rounds is None and len(independent(bases)) != len(bases):
        raise InvalidOp(op, "two elements have one offset, and no 'rounds' tell them apart")
    if op.rounds is None:
        if op.round is not None or op.number is not None:
            raise InvalidOp(op, "a round needs 'rounds' that number it")
        return
    if op.round is None:
        raise InvalidOp(op, "'rounds' need a 'round'")
    size = prod(shape(op.buffer))
    if any(not 0 < mask < size for mask in int_values(op.rounds)):
        raise InvalidOp(op, f"rounds {list(int_values(op.rounds))} must be masks over the index of {written(shape(op.buffer))}")
    if op.round.data >> len(int_values(op.rounds)):
        raise InvalidOp(op, f"round {op.round.data} isn't one of {1 << len(int_values(op.rounds))}")


def _store_shared(op: Any) -> None:
    _rounds(op)
    if op.part is not None:
        _part(op)
        return
    if op.turned is not None:
        _turned(op)
    if op.slice is None:
        _in_buffer(op, op.source)
        return
    extents = shape(op.source)
    values = int_values(op.slice)
    if len(values) != 3 or not 0 <= values[0] < len(extents) or not 0 <= values[1] < values[2] or \
            extents[values[0]] % values[2]:
        raise InvalidOp(op, f"slice {list(values)} must be a dimension of {written(extents)}, which part, of how many")
    dim, _, count = values
    extents = tuple(n // count if d == dim else n for d, n in enumerate(extents))
    if kind(op.buffer) != kind(op.source) or shape(op.buffer) != extents:
        raise InvalidOp(op, f"the buffer must be {written(extents)} of '{kind(op.source)}', but is {written(shape(op.buffer))} of "
                            f"'{kind(op.buffer)}'")


def _part(op: Any) -> None:
    if not {"slice", "rounds", "owners", "turned"}.isdisjoint(op.properties):
        raise InvalidOp(op, "a part of a buffer is written whole, at once")
    extents, room = shape(op.source), shape(op.buffer)
    if kind(op.buffer) != kind(op.source) or len(extents) != len(room) or any(n > m or m % n for n, m in zip(extents, room)):
        raise InvalidOp(op, f"the buffer must have parts {written(extents)} of '{kind(op.source)}', but is {written(room)} of "
                            f"'{kind(op.buffer)}'")
    if op.part.data >= prod(room) // prod(extents):
        raise InvalidOp(op, f"'part' must be below {prod(room) // prod(extents)}, but is {op.part.data}")


def _turned(op: Any) -> None:
    from tileiras.layout.turned_bytes import NO_LANE, is_turned  # few kernels have such
    dim, *lanes = int_values(op.turned)
    layout = layout_or_none(op.source)
    if layout is None or not is_turned(layout, op.buffer.type.layout.data, element_bytes(kind(op.source)), dim):
        raise InvalidOp(op, "no words of four bytes along its dimension are made of four of the other one")
    if len(lanes) != 2 or any(not 0 <= bit <= NO_LANE for bit in lanes) or lanes[0] == lanes[1] < NO_LANE:
        raise InvalidOp(op, f"{lanes} must be two lane bits, or {NO_LANE} for none")


def _load_shared(op: Any) -> None:
    _rounds(op)
    _in_buffer(op, op.result)
    if op.into is not None and op.into.type != op.result.type:
        raise InvalidOp(op, f"must go into a tile like its result '{op.result.type}', but goes into '{op.into.type}'")
    if op.matrices is not None and (op.into is not None or op.rounds is not None or op.peer is not None):
        raise InvalidOp(op, "'matrices' are read whole, at once, from the CTA's own buffer")


def _owners(op: Any) -> None:
    """A value that only its owners have goes to a buffer, from where all have it."""
    if "owners" not in op.properties:
        return
    for use in op.results[0].uses:
        if use.operation.name != "nv_tileas.store_shared" or "owners" not in use.operation.properties:
            raise InvalidOp(op, f"only owners have its result, but '{use.operation.name}' uses it")


def _alloca(op: Any) -> None:
    TILE_RULES["alloca"](op)
    _owners(op)


def _extract_slice(op: Any) -> None:
    """A stage may be named by other indices: reshaped, or its dimensions in another order."""
    made, stage = op.buffer.type, op.ring.type.buffer
    if made.element_type != stage.element_type or sorted(made.layout.data.bases) != sorted(stage.layout.data.bases):
        raise InvalidOp(op, f"a stage of '{op.ring.type}' is '{stage}', or that by other names, not '{made}'")


def _create_pipeline(op: Any) -> None:
    kind_of_pipe = op.pipe.type.kind.data
    counted = ("tma", "cp_async", "mbarrier")     # by arrivals of threads; of the tensor core's there is one
    for name, kinds in (("bytes", ("tma",)), ("producers", counted[1:]), ("consumers", counted)):
        if kind_of_pipe == "umma" and name == "consumers":
            continue        # where stages are given back
        if (name in op.properties) != (kind_of_pipe in kinds):
            raise InvalidOp(op, f"a pipe of kind '{kind_of_pipe}' {'needs' if kind_of_pipe in kinds else 'has no'} '{name}'")
    for name in ("producers", "consumers", "bytes"):
        value = op.properties.get(name)
        if value is not None and value.data >= 1 << 20:
            raise InvalidOp(op, f"'{name}' must be below {1 << 20}, as barriers count, but is {value.data}")


def _consumer_wait(op: Any) -> None:
    is_group = op.pipe.type.kind.data == "group"
    if is_group != ("pending" in op.properties):
        raise InvalidOp(op, f"waiting on a pipe of kind '{op.pipe.type.kind.data}' {'needs' if is_group else 'has no'} 'pending'")
    if len(op.storage) and op.pipe.type.kind.data != "umma":
        raise InvalidOp(op, f"a pipe of kind '{op.pipe.type.kind.data}' tells of no products")
    _handed_to_dots(op)


def _consumer_release(op: Any) -> None:
    made = op.pipe.owner
    if op.pipe.type.kind.data == "umma" and "consumers" not in getattr(made, "properties", {}):
        raise InvalidOp(op, "products that are done aren't given back")
    if op.by_dots is not None and op.with_dots is not None:
        raise InvalidOp(op, "'by_dots' says that products alone read the stage, 'with_dots' that threads do, too")
    _handed_to_dots(op)


def _handed_to_dots(op: Any) -> None:
    if is_told_by_dots(op) and op.pipe.type.kind.data in ("group", "umma"):
        raise InvalidOp(op, f"products have no part in a pipe of kind '{op.pipe.type.kind.data}'")


def _agent_switch(op: Any) -> None:
    warps = int_values(op.warps)
    if not op.regions or len(warps) != len(op.regions):
        raise InvalidOp(op, f"{len(op.regions)} agents need as many numbers of warps, but there are {len(warps)}")
    if any(n < 1 or n & (n - 1) for n in warps):
        raise InvalidOp(op, f"an agent has a power of two of warps, but {list(warps)} are given")
    if op.registers is not None:
        registers = int_values(op.registers)
        if len(registers) != len(warps) or any(
                not FEWEST_REGISTERS <= n <= MOST_REGISTERS or n % REGISTER_STEP for n in registers):
            raise InvalidOp(op, f"registers must be a multiple of {REGISTER_STEP} from {FEWEST_REGISTERS} to {MOST_REGISTERS} for "
                                f"each agent, but are {list(registers)}")
    last = agents_of(op)[-1]
    if last.first_warp + last.span > MAX_WARPS or len(warps) > MAX_AGENTS:
        raise InvalidOp(op, f"a block has at most {MAX_WARPS} warps and {MAX_AGENTS} agents")
    parent = op.parent_op()
    if parent is None or parent.name != "nv_tileas.func" or sum(o.name == op.name for o in parent.walk()) > 1:
        raise InvalidOp(op, "must be the one switch of a function, in its body's block")
    for region in op.regions:
        if region.block.args:
            raise InvalidOp(op, "regions must have no arguments")
        last_of(op, region.block, "return")
        inside = set(region.walk())
        for inner in inside:
            for v in inner.operands:
                if isinstance(v.type, TensorType) and v.owner not in inside and not isinstance(v.owner, Block):
                    raise InvalidOp(inner, "uses a tensor of other threads, from above the agents")


def _tiled_copy(op: Any) -> None:
    view_access(op, op.buffer)
    _known_access(op, len(op.view.type.tile_shape.data))
    if op.atom.data.removeprefix("cp.async.").isdigit():
        _copied_by_threads(op)
        if not fills_with_zeros(op):
            raise InvalidOp(op, "what is out of bounds is zero, and the view's padding isn't")


def _copy(op: Any) -> None:
    _known_access(op, len(shape(op.buffer)))
    _copied_by_threads(op)
    for v in (op.ptr, op.mask):
        if v is not None and (not isinstance(v.type, TensorType) or v.type.encoding != op.properties["threads"]):
            raise InvalidOp(op, "pointers and mask must be tensors in the layout 'threads'")


def _copied_by_threads(op: Any) -> None:
    name, threads = op.atom.data, op.threads
    by_threads = name.removeprefix("cp.async.")
    if not by_threads.isdigit():
        raise InvalidOp(op, f"'{name}' is no instruction by which threads copy")
    size = element_bytes(op.buffer.type.element_type)
    if int(by_threads) not in CHUNKS or threads is None or op.contiguous is None:
        raise InvalidOp(op, f"the instruction '{name}' must be of {', '.join(map(str, CHUNKS))} bytes, and needs 'threads' and "
                            "'contiguous'")
    if tuple(threads.data.shape) != shape(op.buffer):
        raise InvalidOp(op, f"'threads' must be a layout of {written(shape(op.buffer))}, but is of {written(threads.data.shape)}")
    if not copies_chunks(threads.data, op.buffer.type.layout.data, size, int(by_threads), op.contiguous.data):
        raise InvalidOp(op, f"no thread holds {by_threads} bytes that are side by side in the buffer and along dimension "
                            f"{op.contiguous.data}")


def _make_tiled_tma_desc(op: Any) -> None:
    t, view = op.map.type, op.view.type
    mapped, walked = int_values(t.shape), int_values(view.tile_shape)
    if mapped != walked:
        raise InvalidOp(op, f"a map of tiles {written(mapped)} for a view of tiles {written(walked)}")
    own, named = map_element(view.memref.element_type), t.element.data
    if named != own and ROUNDED.get((own or "", named)) != named:
        raise InvalidOp(op, f"a map of '{t.element.data}' for elements of type '{view.memref.element_type}'")
    if int_values(view.memref.strides)[int_values(view.dim_map)[t.major.data]] != 1:
        raise InvalidOp(op, f"dimension {t.major.data} of the view's tile doesn't run along memory")


def _tma_load(op: Any) -> None:
    _moves(op)
    if op.pipe.type.kind.data != "tma":
        raise InvalidOp(op, f"a pipe of kind '{op.pipe.type.kind.data}' counts no bytes")


def _cancel_next_program_id(op: Any) -> None:
    _answer(op)
    if op.pipe.type.kind.data != "tma":
        raise InvalidOp(op, f"a pipe of kind '{op.pipe.type.kind.data}' counts no bytes")


ANSWER_BYTES = 16
"""Of clusterlaunchcontrol.try_cancel (PTX ISA)."""


def _answer(op: Any) -> None:
    found = element_bytes(op.slot.type.element_type) * op.slot.type.layout.data.extent
    if found != ANSWER_BYTES:
        raise InvalidOp(op, f"an answer has {ANSWER_BYTES} bytes, not {found}")


def _moves(op: Any) -> None:
    """A tile goes by a map between a tensor and a buffer."""
    t = op.map.type
    if len(op.coords) != len(t.shape.data):
        raise InvalidOp(op, f"needs {len(t.shape.data)} coordinates, but got {len(op.coords)}")
    tile, layout = t.tile, op.slot.type.layout.data
    parts = op.cta_copies.data.bit_count() if op.name == "nv_tileas.tma_load" and op.cta_copies is not None else 0
    bases = sorted(filter(None, layout.bases))      # 0: what a tile is repeated along, which lies there once
    if 8 * element_bytes(op.slot.type.element_type) != tile.bits or bases[:len(bases) - parts] != sorted(tile.layout.bases):
        raise InvalidOp(op, f"a tile of '{t}' doesn't lie in a buffer '{op.slot.type}' as the map says")


def _print(op: Any) -> None:
    expected = count_conversions(op.format.data)
    if expected is None:
        raise InvalidOp(op, "the format has a conversion without an end")
    given = len(op.args) - ("in_turn" in op.properties)
    if expected != given:
        raise InvalidOp(op, f"the format takes {expected} values, but got {given}")
    if "in_turn" in op.properties and not isinstance(op.args[-1].type, BufferType):
        raise InvalidOp(op, "tiles printed in turn need a buffer as the last argument")


def _access(mnemonic: str) -> Rule:
    """What is known of an access goes with the dimensions of its tile."""
    def check(op: Any) -> None:
        TILE_RULES[mnemonic](op)
        rank = len(shape(op.ptr)) if ACCESSES[mnemonic] == "ptr" else len(op.view.type.tile_shape.data)
        _known_access(op, rank)
        _owners(op)
    return check


def _known_access(op: Any, rank: int) -> None:
    if op.runs is not None and (len(op.runs.data) != rank or any(n < 1 for n in int_values(op.runs))):
        raise InvalidOp(op, f"attribute 'runs' must have {rank} positive numbers, but is {list(int_values(op.runs))}")
    if op.contiguous is not None and op.contiguous.data >= rank:
        raise InvalidOp(op, f"contiguous {op.contiguous.data} must be one of {rank} dimensions")
    if op.neighbours is not None and (op.neighbours.data >= rank or op.contiguous is not None):
        raise InvalidOp(op, f"neighbours {op.neighbours.data} must be one of {rank} dimensions, where none is contiguous")
    if op.apart is not None and op.neighbours is None:
        raise InvalidOp(op, "attribute 'apart' must go with neighbours")
    for name in ("stretch", "inside", "narrow"):
        if op.properties.get(name) is not None and op.contiguous is None:
            raise InvalidOp(op, f"attribute '{name}' must go with a contiguous dimension")


ACCESSES: dict[str, str] = {"load": "ptr", "store": "ptr", "atomic_rmw": "ptr", "atomic_cas": "ptr", "tiled_load": "view",
                            "tiled_store": "view", "tiled_atomic_rmw": "view"}
"""What says where an access goes."""

def _dot(op: Any) -> None:
    TILE_RULES["dot"](op)
    atom = _atom(op) or _tensor_atom(op)
    if atom is not None and op.k_slices is None:
        _by_descriptors(op, atom)


def _dot_scaled(op: Any) -> None:
    TILE_RULES["dot_scaled"](op)
    atom = _tensor_atom(op)
    if atom is not None and op.k_slices is None:
        _by_descriptors(op, atom)


def _atom(op: Any) -> WgmmaAtom | None:
    try:
        return wgmma_of(op)
    except KeyError:
        raise InvalidOp(op, f"no instruction is called '{op.properties['atom'].data}'") from None


def _tensor_atom(op: Any) -> UmmaAtom | TensorScaledAtom | None:
    try:
        return umma_of(op)
    except KeyError:
        raise InvalidOp(op, f"no instruction is called '{op.properties['atom'].data}'") from None


def _by_descriptors(op: Any, atom: WgmmaAtom | UmmaAtom | TensorScaledAtom) -> None:
    """B, and A where the instruction's name says so, are buffers that matrix descriptors name."""
    for i, (v, in_shared) in enumerate(((op.lhs, atom.a_in_shared), (op.rhs, True))):
        which = "AB"[i]
        elsewhere = TmemType if op.name == TENSOR_DOT else TensorType
        if not isinstance(v.type, BufferType if in_shared else elsewhere):
            place = "a buffer" if in_shared else "a tensor" if elsewhere is TensorType else "in tensor memory"
            raise InvalidOp(op, f"{which} must be {place} for '{atom.intrinsic}', but is '{v.type}'")
        if not in_shared:
            continue
        try:
            tile = tile_of(v)
        except ValueError as error:
            raise InvalidOp(op, f"{which}: {error}") from None
        if tile.major != len(tile.shape) - 1 - i and not atom.contiguous(of_a=i == 0):
            raise InvalidOp(op, f"{which} of '{atom.intrinsic}' must lie with k contiguous")
        if tile.run != (0 if i else atom.run):
            raise InvalidOp(op, f"{which} of '{atom.intrinsic}' must lie with{'out' if tile.run else ''} room between its rows")


def _flies_once(op: Any, flights: Any) -> None:
    for v in flights:
        if not v.has_one_use():
            raise InvalidOp(op, "a product in flight has several uses")


def _begin_flight(op: Any) -> None:
    if op.flight.type.tensor != op.source.type:
        raise InvalidOp(op, f"must begin with a tensor of '{op.flight.type.tensor}', but got '{op.source.type}'")


def _async_dot(op: Any) -> None:
    atom = _atom(op)
    if atom is None:
        raise InvalidOp(op, "must have the name of a wgmma as its atom")
    _by_descriptors(op, atom)
    made = op.flight.type
    if op.acc is not None:
        _flies_once(op, [op.acc])
        if op.acc.type != made:
            raise InvalidOp(op, f"goes on from '{op.acc.type}', but gives '{made}'")
    if isinstance(made.tensor.encoding, LayoutAttr):
        layout = made.tensor.encoding.data
        batch, m, n, _ = dot_shape(op)
        needed = prod(units(atom, m, n, layout.num_warps, batch))
        if made.parts.data != needed:
            raise InvalidOp(op, f"takes the accumulators of {needed} instructions, not of {made.parts.data}")
        if layout != accumulator_layout(op, layout.num_warps):
            raise InvalidOp(op, f"doesn't give its result in the layout <{layout}>")


def _dot_wait(op: Any) -> None:
    _flies_once(op, op.flights)
    if [v.type.tensor for v in op.flights] != [v.type for v in op.outs]:
        raise InvalidOp(op, "must give a tensor for each product in flight")


def _tensor_dot(op: Any) -> None:
    atom = _tensor_atom(op)
    if atom is None:
        raise InvalidOp(op, "must have the name of a tcgen05.mma as its atom")
    _by_descriptors(op, atom)
    t = op.acc.type
    *batch, m, n = shape_at(atom, int_values(t.shape))
    lhs, rhs = shape(op.lhs), shape(op.rhs)
    if lhs[:-1] != (*batch, m) or rhs[:-2] != tuple(batch) or atom.ctas * rhs[-1] != n or lhs[-1] != rhs[-2]:
        raise InvalidOp(op, f"multiplies {written(lhs)} by {written(rhs)} into {written((*batch, m, n))}")
    k = lhs[-1] if isinstance(atom, UmmaAtom) else lhs[-1] * atom.elements
    if not atom.a_in_shared and (op.lhs.type.rows.data, op.lhs.type.packed.data) != (atom.rows, IN_CELLS.get(atom.a)):
        raise InvalidOp(op, f"A of '{atom.intrinsic}' doesn't lie as '{op.lhs.type}' does")
    if (int_values(t.shape), t.rows.data) != place_of(atom, (*batch, m, n)) or n % atom.n or k % atom.k:
        raise InvalidOp(op, f"'{atom.intrinsic}' doesn't fit '{t}' and k of {k}")
    if isinstance(atom, UmmaAtom):
        if (op.lhs_scale, op.rhs_scale, op.factors) != (None, None, None):
            raise InvalidOp(op, f"'{atom.intrinsic}' has no scales")
    else:
        _scales(op, atom, (m, n), k, len(batch))


def _scales(op: Any, atom: TensorScaledAtom, extents: tuple[int, int], k: int, batch: int) -> None:
    """Scale factors lie as the tensor core copies them, to columns that suffice."""
    if None in (op.lhs_scale, op.rhs_scale, op.factors):
        raise InvalidOp(op, f"'{atom.intrinsic}' needs scales and columns for them")
    for i, (v, rows) in enumerate(zip((op.lhs_scale, op.rhs_scale), extents)):
        wanted = widened(rows, k // atom.block)
        where = (*shape(op.lhs)[:batch], *(reversed(wanted) if i else wanted))
        if v.type.layout.data != scale_buffer(where, batch + 1 - i, 0 if i else atom.run):
            raise InvalidOp(op, f"scales of {'AB'[i]} don't lie as tcgen05.cp takes them")
    if op.factors.type.columns < factor_columns(shape(op.lhs_scale), shape(op.rhs_scale)):
        raise InvalidOp(op, f"{op.factors.type.columns} columns don't hold the scale factors")


def _moves_accumulator(op: Any) -> None:
    """Between a tensor and tensor memory."""
    t, tensor = op.buffer.type, (op.results or op.operands)[0].type
    wanted, first = int_values(t.shape), op.properties.get("first")
    if first is not None and first.data + tensor.get_shape()[-1] <= wanted[-1]:
        wanted = (*wanted[:-1], tensor.get_shape()[-1])
    if tensor.element_type != t.element_type or tuple(tensor.get_shape()) != wanted:
        raise InvalidOp(op, f"moves '{tensor}' where '{t}' is")
    if "quads" in op.properties and (first is not None or t.rows.data != HALF_ROWS or t.packed.data not in IN_QUADS):
        raise InvalidOp(op, f"threads have no quads of '{t}'")


def _add_tmem(op: Any) -> None:
    _moves_accumulator(op)
    if op.added.type != op.buffer.type or op.added is op.buffer:
        raise InvalidOp(op, f"adds '{op.added.type}' to '{op.buffer.type}'")


def _tmem_stage(op: Any) -> None:
    whole, stage = op.buffer.type, op.result.type
    if (whole.element_type, whole.rows, whole.packed) != (stage.element_type, stage.rows, stage.packed) or \
            int_values(whole.shape)[-2:] != int_values(stage.shape)[-2:] or whole.columns % stage.columns:
        raise InvalidOp(op, f"'{stage}' isn't one of several in '{whole}'")


OP_RULES: dict[str, Rule] = {
    **{f"nv_tileas.{mnemonic}": rule for mnemonic, rule in TILE_RULES.items()},
    **{f"nv_tileas.{mnemonic}": _access(mnemonic) for mnemonic in ACCESSES},
    "nv_tileas.func": _func, "nv_tileas.convert_layout": _convert_layout,
    "nv_tileas.mask_runs": _mask_runs, "nv_tileas.store_shared": _store_shared,
    "nv_tileas.tiled_copy": _tiled_copy, "nv_tileas.async_copy": _copy,
    "nv_tileas.extract_slice": _extract_slice, "nv_tileas.create_pipeline": _create_pipeline,
    "nv_tileas.make_tiled_tma_desc": _make_tiled_tma_desc, "nv_tileas.build_tma_desc": _build_tma_desc,
    "nv_tileas.tma_load": _tma_load,
    "nv_tileas.tma_store": _moves,
    "nv_tileas.cancel_next_program_id": _cancel_next_program_id, "nv_tileas.is_valid_program_id": _answer,
    "nv_tileas.consumer_wait": _consumer_wait, "nv_tileas.agent_switch": _agent_switch,
    "nv_tileas.dot": _dot, "nv_tileas.dot_scaled": _dot_scaled, "nv_tileas.begin_flight": _begin_flight,
    "nv_tileas.async_dot": _async_dot,
    "nv_tileas.tensor_dot": _tensor_dot, "nv_tileas.load_tmem": _moves_accumulator, "nv_tileas.store_tmem": _moves_accumulator,
    "nv_tileas.scale_tmem": _moves_accumulator, "nv_tileas.add_tmem": _add_tmem, "nv_tileas.tmem_stage": _tmem_stage,
    "nv_tileas.consumer_release": _consumer_release, "nv_tileas.dot_wait": _dot_wait,
    "nv_tileas.load_shared": _load_shared, "nv_tileas.print": _print,
    "nv_tileas.alloca": _alloca,
}
