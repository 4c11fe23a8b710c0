"""The state of one function's lowering from nv_tileas to the llvm dialect, and the walk that drives it.

A tile value becomes one LLVM vector holding the thread's registers in layout order. Lowerings ask for the form
that suits them, and it is made and kept on demand:

    low.scalar(v)     a bare scalar (uniform over the block): one LLVM scalar
    low.vec(v)        a tensor as one vector
    low.regs(v)       the same as a list of scalars
    low.set(v, x)     the result: a scalar, a vector, or a list of scalars

Each lowering is a function registered by op name:

    @lowers("nv_tileas.make_range")
    def make_range(low: Lowering, op: Operation) -> None: ...

Shared memory: passes have given every buffer its place (`allocate-buffers`) and put the barriers (`order-memory`); what a
lowering writes or reads there is what its op says. All threads of the team execute every op: control flow is uniform.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    IntAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
    UnknownLoc,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import BF16, F16, F32, F64, I8, Builder
from tileiras.conversion.tileas_to_llvm.team import Team
from tileiras.dialects import llvm, nv_tileaa
from tileiras.dialects.arith import Elementwise
from tileiras.dialects.cuda_tile.types import Float8E5M3FNUType
from tileiras.dialects.element import element_bytes as element_bytes
from tileiras.dialects.llvm import integer, ptr, vec
from tileiras.dialects.location_text import location_text
from tileiras.dialects.nv_tileas import LOADS, FlightType, TensorMapType, layout_of
from tileiras.errors import CompileError
from tileiras.layout.linear import LANE_BITS, LinearLayout, log2
from tileiras.layout.terms import terms_of

if TYPE_CHECKING:
    from tileiras.analysis.wrapping_offsets import Places

Handler = Callable[["Lowering", Any], None]
HANDLERS: dict[str, Handler] = {}


def lowers(*names: str) -> Callable[[Handler], Handler]:
    """Register a lowering for ops by name."""
    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler
    return register


_STORAGE: dict[type, Attribute] = {
    Float16Type: F16, BFloat16Type: BF16, Float32Type: F32, FloatTF32Type: F32, Float64Type: F64,
    Float8E4M3FNType: I8, Float8E5M2Type: I8, Float8E8M0FNUType: I8, Float4E2M1FNType: I8,
    Float8E5M3FNUType: I8}


def storage_type(t: Attribute) -> Attribute:
    """The LLVM type of one element: f8 types as i8, tf32 as float, f4 and i4 as i8 (one a byte), pointers as global pointers."""
    if isinstance(t, IntegerType):
        return I8 if t.width.data == 4 else integer(t.width.data)
    if isinstance(t, nv_tileaa.PtrType):
        return ptr(llvm.GLOBAL)
    if isinstance(t, TensorMapType):
        return ptr(llvm.GENERIC)
    found = _STORAGE.get(type(t))
    if found is None:
        raise CompileError(f"no machine type for {t}")
    return found


BESIDE_LOADS = frozenset({
    "arith.constant", *(f"nv_tileas.{name}" for name in (
        "get_program_id", "assume", "make_range", "splat", "broadcast", "view", "addptr", "make_memref", "block_tile",
        "create_mem_token", "join_mem_token"))})
"""What may stand between loads that are made together, beside arithmetic."""

BOUNDS = frozenset({"nv_tileas.producer_commit", "nv_tileas.consumer_wait", "nv_tileas.barrier", "nv_tileas.cluster_barrier",
                    "nv_tileas.cluster_arrive"})
"""What instructions that may come late come before."""


class Lowering:
    """One function's lowering. `b` is the builder, `target` the SM's facts; `loops` and `joins` are the enclosing loops' and ifs'
    targets, `views` what the memref and view values stand for, `bits` where the bits of masks are that are made of words
    (elementwise/masks.py), `read_registers` the words of a tensor that products in flight read; `tells`: whether an access of
    the function may tell other threads of those in front of it; `late` makes the instructions that wait for a place between
    others; `made_distinct` are tensors whose registers get values of their own; `places`: where addptrs lead, once one was
    lowered."""

    def __init__(self, builder: Builder, target: Any, num_warps: int, kernel: str, is_optimized: bool = True) -> None:
        self.b = builder
        self.target = target
        self.team = Team(num_warps)
        self.num_warps = num_warps
        self.kernel = kernel
        self.is_optimized = is_optimized
        self.bits: dict[SSAValue, list[tuple[SSAValue, int]]] = {}
        self.late_choices: dict[SSAValue, Any] = {}
        self.loops: list[Any] = []
        self.joins: list[Any] = []
        self.views: dict[SSAValue, Any] = {}
        self.generic_pointers = False
        self.tells = True
        self.map_memory: SSAValue | None = None
        self.places: Places | None = None
        self.extra_globals: list[Operation] = []
        self.shared_base: SSAValue | None = None
        self.tensor_base: SSAValue | None = None
        self.late: list[Callable[[], None]] = []    # copies that stand among a product's steps, in `lots`
        self.lots = 1
        self.asked: dict[SSAValue, Any] = {}    # tiles of loads that will be made together (memory/guarded.py)
        self.ask: Callable[[Lowering], None] | None = None      # makes them
        self.read_registers: dict[SSAValue, list[SSAValue]] = {}
        self.made_distinct: set[SSAValue] = set()
        self.tile_block_sreg = "ctaid"        # what counts tile blocks
        self._value: dict[SSAValue, SSAValue] = {}
        self._pieces: dict[SSAValue, list[SSAValue]] = {}
        self._list: dict[SSAValue, list[SSAValue]] = {}
        self._words: dict[SSAValue, tuple[list[SSAValue], Callable[[], list[SSAValue]]]] = {}
        self._scopes: list[list[tuple[dict[Any, Any], Any]]] = [[]]
        self._places: dict[tuple[tuple[int, ...], tuple[int, ...]], SSAValue] = {}
        b = builder
        self.tid = self.team.thread(b)
        self.lane = b.and_(self.tid, b.i32(31))
        self.warp = b.lshr(self.tid, 5) if num_warps > 1 else b.i32(0)

    @contextmanager
    def acting_as(self, team: Team) -> Iterator[None]:
        """What is lowered inside is done by this team, in blocks that nothing outside follows."""
        outer = self.team, self.num_warps, self.tid, self.warp, self._places
        self.enter()
        b = self.b
        self.team, self.num_warps, self._places = team, team.num_warps, {}
        self.tid = team.thread(b)
        self.warp = b.lshr(self.tid, 5) if team.num_warps > 1 else b.i32(0)
        yield
        self.leave()
        self.team, self.num_warps, self.tid, self.warp, self._places = outer

    @contextmanager
    def standing_for(self, values: Mapping[SSAValue, SSAValue], views: Mapping[SSAValue, Any]) -> Iterator[None]:
        """Inside, values and views are these, whatever they are outside."""
        outer, seen = {v: self._value[v] for v in values}, {v: self.views[v] for v in views}
        self._value.update(values)
        self.views.update(views)
        yield
        self._value.update(outer)
        self.views.update(seen)

    # --- values ---------------------------------------------------------------------------------------------------

    def layout(self, v: SSAValue) -> LinearLayout:
        return layout_of(v)

    def is_tensor(self, v: SSAValue) -> bool:
        return isinstance(v.type, TensorType)

    def element(self, v: SSAValue) -> Attribute:
        """The (nv_tileas) element type of a tensor, or the scalar's type."""
        return v.type.element_type if isinstance(v.type, TensorType) else v.type

    def lowered_type(self, t: Attribute) -> Attribute:
        """The LLVM type of a value of an nv_tileas type."""
        if isinstance(t, TensorType):
            return vec(t.encoding.data.num_regs, storage_type(t.element_type))  # type: ignore[attr-defined]
        return storage_type(t)

    def set(self, v: SSAValue, x: SSAValue | Sequence[SSAValue]) -> None:
        """Record what `v` became: a scalar or a vector, or the list of its registers."""
        if isinstance(x, SSAValue):
            if isinstance(v.type, TensorType) and not isinstance(x.type, VectorType):
                self._remember(self._list, v, [x])
            else:
                self._remember(self._value, v, x)
        elif not isinstance(v.type, TensorType):
            self._remember(self._value, v, x[0])
        else:
            self._remember(self._list, v, list(x))

    def scalar(self, v: SSAValue) -> SSAValue:
        return self._value[v]

    def vec(self, v: SSAValue) -> SSAValue:
        """A tensor's registers as one vector; a scalar's value as it is."""
        found = self._value.get(v)
        if found is None:
            found = self.b.pack(self.regs(v))
            self._remember(self._value, v, found)
        return found

    def regs(self, v: SSAValue) -> list[SSAValue]:
        """A tensor's registers as scalars; for a scalar, a list of one."""
        found = self._list.get(v)
        if found is None:
            value = self._value.get(v)
            if value is None:
                found = self._words[v][1]()
            else:
                found = self.b.unpack(value) if isinstance(value.type, VectorType) else [value]
            self._remember(self._list, v, found)
        return found

    def listed(self, v: SSAValue) -> list[SSAValue] | None:
        """A tensor's registers, if they have been scalars from the beginning."""
        return None if v in self._value else self._list.get(v)

    def set_words(self, v: SSAValue, words: Sequence[SSAValue], registers: Callable[[], list[SSAValue]]) -> None:
        """Record the words that a tensor is carried as. Where it is used `registers` makes its registers of them."""
        self._remember(self._words, v, (list(words), registers))

    def words(self, v: SSAValue) -> list[SSAValue] | None:
        """The words that a tensor came as; None where it didn't."""
        return self._words[v][0] if v in self._words else None

    def set_pieces(self, v: SSAValue, pieces: Sequence[SSAValue]) -> None:
        """Record the instructions' accumulators that a product in flight is."""
        self._remember(self._pieces, v, list(pieces))

    def pieces(self, v: SSAValue) -> list[SSAValue]:
        """What a loop or branch carries of a value: the accumulators of a product in flight, one value of anything else."""
        return self._pieces[v] if isinstance(v.type, FlightType) else [self.vec(v)]

    def make_distinct(self, v: SSAValue) -> None:
        """Every register of a tensor has a value that LLVM doesn't know to be another register's.

        LLVM may have a value in one register for all elements that are equal. A sum that a product adds to where it lies needs a
        register of its own, and a copy that LLVM makes for that may come as late as between two products of a group, when the
        first of them is in flight."""
        b, whole = self.b, self.vec(v)
        t = whole.type
        if not isinstance(t, VectorType):
            return
        words = b.cast("bitcast", whole, vec(t.get_shape()[0] // 2, integer(32))) if t.element_type == F16 else whole
        own = b.nvvm("own.registers", [words])[0]
        self._list.pop(v, None)
        self.set(v, b.cast("bitcast", own, t) if own.type != t else own)

    def has_list(self, v: SSAValue) -> bool:
        """Whether a tensor's registers are at hand as scalars, so that taking them costs nothing."""
        return v in self._list or v in self._words

    def _remember(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        table[key] = value
        self._scopes[-1].append((table, key))

    def add_global(self, symbol: str, data: bytes, alignment: int, constant: bool = False) -> None:
        """Bytes in global memory that the kernel's code has for itself; `constant`: nobody writes them."""
        self.extra_globals.append(llvm.Global.create(properties={
            "sym_name": StringAttr(symbol), "size": IntAttr(len(data)), "alignment": IntAttr(alignment),
            "space": IntAttr(llvm.GLOBAL), "linkage": StringAttr("internal"), "init": StringAttr(data.hex()),
            **({"constant": UnitAttr()} if constant else {})}))

    def enter(self) -> None:
        """A nested region begins: what is made from here on doesn't dominate what follows the region."""
        self._scopes.append([])

    def leave(self) -> None:
        for table, key in self._scopes.pop():
            table.pop(key, None)

    # --- places ---------------------------------------------------------------------------------------------------

    def place(self, lane: Sequence[int], warp: Sequence[int]) -> SSAValue:
        """XOR of the bases of this thread's lane and warp bits, as i32 (computed in the entry block's order of need)."""
        key = (tuple(lane), tuple(warp))
        found = self._places.get(key)
        if found is None:
            bases = (*key[0], *[0] * (LANE_BITS - len(key[0])), *key[1])
            found = self.linear(self.tid, bases) if self.num_warps > 1 else self.linear(self.lane, key[0])
            self._remember(self._places, key, found)
        return found

    def linear(self, x: SSAValue, bases: Sequence[int]) -> SSAValue:
        """The XOR of `bases` over the set bits of x."""
        b = self.b
        out = b.i32(0)
        for term in terms_of(tuple(bases)):
            x_bits = b.lshr(b.and_(x, b.i32(term.mask)), term.down)
            factor = term.factor
            out = b.xor(out, b.mul(x_bits, b.i32(factor)) if factor & factor - 1 else b.shl(x_bits, log2(factor)))
        return out

    def flat_index(self, layout: LinearLayout) -> SSAValue:
        """The flat index (i32) of the element in this thread's register 0; register r's is this XOR reg_indices[r]."""
        return self.place(layout.lane, layout.warp)

    def coordinates(self, layout: LinearLayout) -> list[SSAValue]:
        """The thread's coordinate in each dimension (i32) for register 0."""
        from tileiras.layout.linear import dim_bits
        out = []
        for low, bits in dim_bits(layout.shape):
            mask = (1 << bits) - 1
            out.append(self.place(tuple(x >> low & mask for x in layout.lane), tuple(x >> low & mask for x in layout.warp)))
        return out

    def owner_predicate(self, layout: LinearLayout) -> SSAValue | None:
        """True in one thread for each element that several threads hold (None: nobody shares): for stores and atomics.

        Register copies inside a thread are the caller's: `owned_regs`."""
        b = self.b
        n = len(layout.reg)
        free_lane = free_warp = 0
        for mask in layout.copies:
            place = mask >> n
            if not place:
                continue
            top = place.bit_length() - 1
            if top < 5:
                free_lane |= 1 << top
            else:
                free_warp |= 1 << top - 5
        predicate = None
        for source, free in ((self.lane, free_lane), (self.warp, free_warp)):
            if free and b.known(source) is None:
                p = b.icmp("eq", b.and_(source, b.i32(free)), b.i32(0))
                predicate = p if predicate is None else b.and_(predicate, p)
        return predicate

    def owned_regs(self, layout: LinearLayout) -> list[int]:
        """Registers that are not a copy of a lower register of the same thread."""
        seen: set[int] = set()
        out = []
        for r, flat in enumerate(layout.reg_indices):
            if flat not in seen:
                seen.add(flat)
                out.append(r)
        return out

    # --- the team -------------------------------------------------------------------------------------------------

    def shared_ptr(self, op: Operation) -> SSAValue:
        """Where the buffer or local memory that `op` makes starts; a pointer into shared memory."""
        offset: Any = op.properties.get("offset")
        if self.shared_base is None or offset is None:
            raise CompileError(f"'{op.name}' has no place in shared memory: allocate-buffers hasn't run", location_text(op))
        return self.b.gep(self.shared_base, offset.data)

    def barrier(self) -> None:
        """All threads of the team meet."""
        self.team.meet(self.b)

    def first_thread(self) -> SSAValue:
        """Whether this is the team's first thread: the one that does what is done once."""
        return self.team.is_first(self.b)

    def first_warp(self) -> SSAValue:
        """Whether this thread is of the team's first warp."""
        return self.b.icmp("eq", self.warp, self.b.i32(0))

    def chosen(self, op: Operation) -> SSAValue | None:
        """Whether this is the CTA that makes an access for all that would make the same; None: none would."""
        copies: Any = op.properties.get("cta_copies")
        if copies is None:
            return None
        rank = self.b.nvvm("read.ptx.sreg.cluster.ctarank")[0]
        return self.b.icmp("eq", self.b.and_(rank, self.b.i32(copies.data)), self.b.i32(0))

    # --- instructions that find their place between others --------------------------------------------------------------

    def catch_up_behind(self, step: int, steps: int) -> None:
        """Make those that stand behind one of a product's steps: a lot behind the first, the others as evenly as they can."""
        lots = min(self.lots, steps)
        made = -(-step * lots // steps)         # lots behind the steps before: number i stands behind step i * steps // lots
        if self.late and made * steps // lots == step:
            self.catch_up(lots - made)

    def catch_up(self, share: int = 1) -> None:
        """Make one of `share` parts of those that wait: all, where no number is given."""
        count = -(-len(self.late) // share)
        now, self.late = self.late[:count], self.late[count:]
        for make in now:
            make()

    def _stands_between(self, op: Operation) -> bool:
        """Whether an op may stand between loads that are made together: it only computes, nothing of theirs, or is another one."""
        return (op.name in BESIDE_LOADS or isinstance(op, Elementwise) or ("narrow" in op.properties and op.name in LOADS)) and \
            not op.regions and op.next_op is not None and not any(v in self.asked for v in op.operands)

    # --- the walk -------------------------------------------------------------------------------------------------

    def lower_block(self, block: Any) -> None:
        """Lower a block's ops in order (its terminator included)."""
        for op in block.ops:
            self.lower_op(op)

    def lower_op(self, op: Operation) -> None:
        if self.ask is not None and not self._stands_between(op):
            self.ask(self)
        if self.late and (op.regions or op.name in BOUNDS or op.next_op is None):
            self.catch_up()
        handler = HANDLERS.get(op.name)
        if handler is None:
            raise CompileError(f"'{op.name}' has no lowering", location_text(op))
        outer = self.b.location
        if not isinstance(op.location, UnknownLoc):
            self.b.location = op.location
        try:
            handler(self, op)
        except CompileError as error:
            error.loc = error.loc or location_text(op)
            raise
        if self.made_distinct:
            for v in op.results:
                if v in self.made_distinct:
                    if self.ask is not None and v in self.asked:
                        self.ask(self)
                    self.make_distinct(v)
        self.b.location = outer


def piece_type(tensor: TensorType, parts: int) -> Attribute:
    """The type of one instruction's accumulators, of `parts` that make a tensor."""
    count = tensor.encoding.data.num_regs // parts  # type: ignore[attr-defined]
    return vec(count // 2, integer(32)) if tensor.element_type == F16 else vec(count, storage_type(tensor.element_type))


def bits_of(t: Attribute) -> int:
    """Bits of a register element."""
    from tileiras.conversion.tileas_to_llvm.builder import width_of
    return width_of(storage_type(t))
