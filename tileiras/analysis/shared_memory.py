"""Where buffers lie in the block's shared memory: what doesn't live at the same time may share its place.

Ops are numbered in program order. A buffer lives from its alloc to its last use (a use inside a loop that doesn't hold
the alloc extends to the loop's end). First fit by start: each piece gets the lowest offset at which nothing that lives
at the same time lies.
"""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.agents import SWITCH, agent_of
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileas import PipeType, RingType, TmemType
from tileiras.layout.shared import described_tile

ALIGNMENT = 128
"""A piece starts at a multiple of this many bytes, or of its size: ldmatrix rows and 16-byte accesses stay aligned, swizzles
whole."""
LEAST_ALIGNMENT = 16
SWIZZLE_ALIGNMENT = 1024
"""Bytes after which the widest swizzle of the copy engine repeats."""
BARRIERS_A_STAGE = 2
"""Of a pipe: full and empty."""
MBARRIER_BYTES = 8
MOST_SMALL = 1024
"""Bytes of a buffer that doesn't get the place of the one before: what warps exchange in reductions and scans."""
MOST_ALTERNATING = 16384
"""Bytes of a function's buffers up to which some more cost no block of an SM its room."""


@dataclass(frozen=True)
class SharedPlan:
    """`offsets`: byte offset of each alloc_tensor's and alloca's memory. `size`: bytes in all. `alignment`: what the whole
    must be aligned to."""

    offsets: dict[Operation, int]
    size: int
    alignment: int = ALIGNMENT


@dataclass(eq=False)
class Piece:
    """What needs a place: from number `start` to number `end`."""

    op: Operation
    start: float
    end: float
    size: int
    offset: int = 0
    alignment: int = ALIGNMENT


def blocks_of(nbytes: int, target: Any) -> int:
    """How many blocks of so many bytes each an SM's shared memory holds."""
    from tileiras.machine.machines import machine_of  # few kernels need the machine's tables
    return target.smem_per_sm // max(1, nbytes + machine_of(target.cc).smem_reserved)


def buffer_bytes(t: Any) -> int:
    """Bytes of a buffer, a ring, or a pipe's barriers."""
    if isinstance(t, RingType):
        return t.stages.data * stage_bytes(t)
    if isinstance(t, PipeType):
        return 0 if t.kind.data == "group" else BARRIERS_A_STAGE * MBARRIER_BYTES * t.stages.data
    return t.layout.data.extent * element_bytes(t.element_type)


def stage_bytes(t: RingType) -> int:
    """From a stage of a ring to the next: as much as its buffer, aligned as that is."""
    alignment = alignment_of(t)
    return -(-buffer_bytes(t.buffer) // alignment) * alignment


def alignment_of(t: Any) -> int:
    """Of what a buffer's (a ring's stages') place is a multiple: a form that the copy engine and the matrix descriptors know
    starts where its swizzle does. A ring's stages may have such a form even where the order of dimensions hides it."""
    smallest, whole = LEAST_ALIGNMENT, ALIGNMENT
    if isinstance(t, RingType):
        t, smallest, whole = t.buffer, ALIGNMENT, SWIZZLE_ALIGNMENT     # the engine fills nothing that starts elsewhere
    least = min(whole, max(smallest, 1 << (buffer_bytes(t) - 1).bit_length()))
    tile = described_tile(t.layout.data, 8 * element_bytes(t.element_type))
    return max(least, tile.alignment) if tile is not None and tile.swizzle else least


def plan_shared_memory(func: Operation) -> SharedPlan:
    """Offsets for all buffers of a function."""
    return _placed(_pieces(func)[0])


def bytes_unshared(func: Operation) -> int:
    """What a function's buffers need at most, wherever they come to live: each for itself."""
    return sum(-(-piece.size // piece.alignment) * piece.alignment for piece in _pieces(func)[0])


def idle_bytes(func: Operation, ops: list[Operation]) -> dict[Operation, int]:
    """For each op, how much shared memory the function has anyway: all that it needs, if nothing lives there while the op runs,
    else 0."""
    pieces, number = _pieces(func)
    size = _placed(pieces).size
    starts, ends = [], []       # of the stretches in which something lives, in order
    for p in pieces:
        if ends and p.start <= ends[-1]:
            ends[-1] = max(ends[-1], p.end)
        else:
            starts.append(p.start)
            ends.append(p.end)
    found = {}
    for op in ops:
        at = bisect_right(starts, number[op]) - 1
        found[op] = 0 if at >= 0 and number[op] <= ends[at] else size
    return found


def _pieces(func: Operation) -> tuple[list[Piece], dict[Operation, int]]:
    """What needs a place, and the numbers of all ops."""
    number, last_inside = number_ops(func)
    found = [piece for op in number if (piece := piece_of(op, func, number, last_inside)) is not None]
    return found, number


def piece_of(op: Operation, func: Operation, number: Mapping[Operation, float],
             last_inside: Mapping[Operation, float]) -> Piece | None:
    """What an op needs a place for, by the numbers of the function's ops; None where it needs none."""
    if op.name not in PLACED or isinstance(op.results[0].type if op.results else None, TmemType):
        return None
    if op.name == "nv_tileas.alloc_tensor":
        t: Any = op.results[0].type
        users = list(users_of(op.results[0]))
        end = max((reach(op, user, last_inside) for user in _last_users(users)), default=number[op])
        alignment = max(alignment_of(t), *(_alignment_for(user) for user in users), 0)
        start = 0 if any(_is_shared_copy(user) for user in users) else number[op]
        piece = Piece(op, start, end, buffer_bytes(t), alignment=alignment)
    elif op.name == "nv_tileas.create_pipeline":
        # its barriers are set up at the start, and hold until the end
        size = buffer_bytes(op.results[0].type)
        if not size:
            return None
        piece = Piece(op, 0, last_inside[func], size, alignment=LEAST_ALIGNMENT)
    elif op.name == "nv_tileas.tmem_alloc":
        piece = Piece(op, 0, last_inside[func], LEAST_ALIGNMENT, alignment=LEAST_ALIGNMENT)
    elif "global" in op.properties:
        return None
    else:
        piece = _alloca(op, last_inside[func])
    switch = _beside(op)
    if switch is not None:
        piece.start, piece.end = min(piece.start, number[switch]), max(piece.end, last_inside[switch])
    return piece


SLICE, WAIT, COMMIT = "nv_tileas.extract_slice", "nv_tileas.consumer_wait", "nv_tileas.producer_commit"
ACQUIRE, RELEASE = "nv_tileas.producer_acquire", "nv_tileas.consumer_release"
PLACED = frozenset("nv_tileas." + m for m in ("alloc_tensor", "create_pipeline", "tmem_alloc", "alloca"))
"""Ops that need a place in shared memory, for all or some of their types."""


def _beside(op: Operation) -> Operation | None:
    """The switch of which an op's agent isn't the first. Agents run at the same time: what the others have keeps its place for
    as long as any runs, and only the first uses a place again."""
    found = agent_of(op)
    return found[0] if found is not None and found[1] else None


def _is_shared_copy(user: Operation) -> bool:
    """Whether other CTAs fill what an op fills, maybe before this one comes to it."""
    return user.name == "nv_tileas.tma_load" and "cta_copies" in user.properties


def _alignment_for(user: Operation) -> int:
    """Of what a buffer's place must be a multiple because of this op: the engine's swizzle looks at addresses."""
    return user.map.type.tile.alignment if user.name == "nv_tileas.tma_store" else 0  # type: ignore[attr-defined]


def users_of(buffer: SSAValue) -> Iterator[Operation]:
    """The ops that touch a buffer, or a ring by way of its stages."""
    for use in buffer.uses:
        yield use.operation
        if use.operation.name == "nv_tileas.extract_slice":
            yield from (inner.operation for inner in use.operation.results[0].uses)


def _last_users(users: list[Operation]) -> list[Operation]:
    """The users that say how long a buffer lives. A ring of several agents lives as long as the first waits for it: then all is
    there that another has put there. It may read nothing of that, where nobody wants a product. Where products have an agent of
    their own, which alone reads the ring, the first waits for these."""
    readers = [user for user in users if _reads_for_another(user)]
    if readers:
        waits = [_waits_for_products(reader) for reader in readers]
        return [wait for found in waits for wait in found] if all(waits) else users
    first = [user for user in users if _is_first_agents(user)]
    return [*first, *_first_agent_waits(users)] if first else users


def _first_agent_waits(users: list[Operation]) -> Iterator[Operation]:
    """The waits of the first agent for the pipes that hand a ring's stages on."""
    numbers = [user.operands[1].owner for user in users if user.name == SLICE]
    pipes = dict.fromkeys(op.operands[0] for op in numbers if isinstance(op, Operation) and op.operands and
                          isinstance(op.operands[0].type, PipeType))
    for pipe in pipes:
        yield from _waits_of_first_agent(pipe)


def _waits_of_first_agent(pipe: SSAValue, name: str = WAIT) -> list[Operation]:
    return [use.operation for use in pipe.uses if use.operation.name == name and _is_first_agents(use.operation)]


def _waits_for_products(reader: Operation) -> list[Operation]:
    """Where products alone read a stage: the first agent's waits for what is committed behind them each time, or for the stage that
    it had filled for them and has back; else none."""
    number: Any = reader.operands[1].owner
    if "by_dots" not in number.properties:
        return []
    found = [_told_behind(use.operation) for use in reader.results[0].uses]
    return [wait for waits in found for wait in waits] if all(found) else []


def _told_behind(product: Operation) -> list[Operation]:
    """The first agent's waits for the next thing behind a product that tells it of that; none where nothing does."""
    holder: Operation | None = product
    while holder is not None and holder.name != SWITCH:
        op = holder.next_op
        while op is not None:
            if op.name == COMMIT and op.operands[0].type.kind.data == "umma":    # type: ignore[attr-defined]
                return _waits_of_first_agent(op.operands[0])
            if op.name == RELEASE and "by_dots" in op.properties and (filled := _waits_of_first_agent(op.operands[0], ACQUIRE)):
                return filled
            op = op.next_op
        holder = holder.parent_op()
    return []


def _is_first_agents(op: Operation) -> bool:
    found = agent_of(op)
    return found is not None and found[1] == 0


def _reads_for_another(user: Operation) -> bool:
    """Whether another agent than the first reads the stage of a ring that an op takes."""
    if user.name != SLICE or (found := agent_of(user)) is None or not found[1]:
        return False
    number = user.operands[1].owner
    return isinstance(number, Operation) and number.name == WAIT


def _placed(pieces: list[Piece]) -> SharedPlan:
    pieces.sort(key=lambda p: (p.start, -p.size))
    total = place(pieces)
    if total <= MOST_ALTERNATING:
        pieces = _alternating(pieces)
        total = place(pieces)
    return SharedPlan({p.op: p.offset for p in pieces}, total, max((p.alignment for p in pieces), default=ALIGNMENT))


def _alternating(pieces: list[Piece]) -> list[Piece]:
    """Pieces, which come by start, of which small buffers keep their places for so long that the next one, and those written with
    it (`meet-once`), don't get them: threads write these while others still read this one, and the barrier between their writes
    and reads serves those after, too."""
    small = [p for p in pieces if p.size <= MOST_SMALL and p.start and p.op.name == "nv_tileas.alloc_tensor" and
             not isinstance(p.op.results[0].type, RingType)]
    ends = {}
    for piece in small:
        following = bisect_right(small, piece.end, key=lambda p: p.start)
        if following < len(small):
            together = bisect_right(small, small[following].end, lo=following, key=lambda p: p.start)
            ends[piece.op] = small[together - 1].start
    return [replace(p, end=ends[p.op]) if p.op in ends else p for p in pieces]


def place(pieces: list[Piece], base: int = 0) -> int:
    """Write the offsets of pieces, which come by start and size, above `base`; where the last one ends."""
    alive: list[Piece] = []         # by offset
    ending = float("inf")           # when the first of them ends
    total = base
    for piece in pieces:        # by start: what has ended by now is over for all that follow
        if ending < piece.start:
            alive = [p for p in alive if p.end >= piece.start]
            ending = min((p.end for p in alive), default=ending)
        offset = -(-base // piece.alignment) * piece.alignment
        size, alignment = piece.size, piece.alignment
        at = 0
        for p in alive:
            if offset + size <= p.offset:
                break
            at += 1
            if p.offset + p.size > offset:
                offset = -(-(p.offset + p.size) // alignment) * alignment
        piece.offset = offset
        alive.insert(at, piece)
        ending = min(ending, piece.end)
        total = max(total, offset + size)
    return total


def alloca_bytes(op: Operation) -> int:
    """Bytes of an alloca's memory in shared memory."""
    pointee: Any = op.results[0].type
    properties: dict[str, Any] = op.properties
    return max(element_bytes(pointee.pointee) * properties["num_elem"].value.data, 1)


def _alloca(op: Operation, end: float) -> Piece:
    """An alloca's memory is the function's: nothing knows how long its pointers are used."""
    properties: dict[str, Any] = op.properties
    alignment = properties["alignment"].value.data if "alignment" in properties else 1
    return Piece(op, 0, end, alloca_bytes(op), alignment=max(alignment, ALIGNMENT))


def number_ops(func: Operation) -> tuple[dict[Operation, int], dict[Operation, int]]:
    """The numbers of all ops in program order, and of the last op inside of each."""
    number: dict[Operation, int] = {func: 0}
    last_inside: dict[Operation, int] = {}
    holders = [func]
    inside = [_ops_of(func)]
    count = 0
    while inside:
        for op in inside[-1]:
            count += 1
            number[op] = count
            if op.regions:
                holders.append(op)
                inside.append(_ops_of(op))
                break
            last_inside[op] = count
        else:
            inside.pop()
            last_inside[holders.pop()] = count
    return number, last_inside


def _ops_of(op: Operation) -> Iterator[Operation]:
    return (inner for region in op.regions for block in region.blocks for inner in block.ops)


def reach(alloc: Operation, user: Operation, last_inside: Mapping[Operation, float]) -> float:
    """The number until which a use keeps the buffer alive: the end of the outermost op around the user in the alloc's block."""
    while user.parent_block() is not alloc.parent_block():
        parent = user.parent_op()
        assert parent is not None
        if parent.name == SWITCH and user.parent_region() is parent.regions[0]:
            break       # the first agent uses places again that it is done with
        user = parent
    return last_inside[user]
