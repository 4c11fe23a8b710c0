"""nv_tileas: tiles placed. Every tensor says which thread holds which element; shared memory is explicit.

A tensor type's encoding is a `LayoutAttr`: the linear layout (layout/linear.py) from (register, lane, warp) bits to
the tile's row-major element index. Ops that nv_tileaa has with the same meaning are declared there once. New here:

  convert_layout   same elements, another layout: nothing, a register permutation, shuffles, or a trip through shared memory
  alloc_tensor     a buffer in shared memory, with the layout of its elements; `offset` (bytes) after allocation
  store_shared     registers to a buffer            load_shared   buffer to registers
  barrier          all threads of the block meet (and see each other's shared-memory writes)
  fence            orders each thread's own accesses for others in a scope
  dealloc          the end of memory on the device heap

Rings and pipes. A ring is several equal buffers, its stages; a pipe says which of them are full and which empty. It is an
object that changes: it has three cursors, one each for who fills stages, who waits for them and who gives them back, and each
agent that moves a cursor has its own copy. So a ring goes on where it was, in whatever loop or branch the next op on it stands.

  create_pipeline     its barriers, all stages empty
  producer_acquire    the number of the next stage to fill, once it is empty; bytes are expected there from now on (tma)
  producer_tail       all stages have been given back, at the end
  producer_commit     the stage is filled (group, cp_async: when the copies made so far are there), the producer goes on
  consumer_wait       the number of the next stage to read, once it is full (group: all but `pending` groups are there)
  consumer_release    the oldest stage waited for and not yet given back is empty: one arrival a warp
  extract_slice       the buffer that is a ring's stage of this number
  agent_switch        the block's warps do different things: one region an agent
  cancel_next_program_id, is_valid_program_id    a tile block that hasn't started is asked for; the answer

Products in flight. What `async_dot` gives isn't a tensor yet, and by its type nothing can take it for one; `dot_wait` makes it
one. Groups of products are done in order.

  begin_flight        a tensor as the accumulator of a product in flight
  async_dot           a dot by wgmma that isn't waited for
  dot_wait            the oldest products are done

Tensor memory (sm_100 and its kin). An accumulator that tcgen05 adds to lies there, in columns of its own. The products read shared
memory and write their accumulators by themselves, in the order in which they were begun; a pipe of kind "umma" tells when they are
done: its `producer_commit` has its stage full when all products begun so far are, and no stage of it is ever given back.

  alloc_tensor        (of a `tmem`) the columns; `offset` is the first one
  tensor_dot          a product into an accumulator, or one that starts at zero
  load_tmem           an accumulator as a tensor        store_tmem     a tensor as an accumulator
  scale_tmem          an accumulator times a tensor     tmem_stage     one of several accumulators
  add_tmem            the same, and another one added
  tmem_alloc          the block's columns               tmem_base      where they are, behind a barrier        tmem_free
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr, TensorType
from xdsl.ir import Attribute, Data, Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def

from tileiras.dialects.base import TileOp
from tileiras.dialects.nv_tileaa import SHARED, int_values, make_op
from tileiras.dialects.nv_tileaa_asm import int_array
from tileiras.layout.atoms.umma import columns_of
from tileiras.layout.linear import LinearLayout
from tileiras.layout.shared import CanonicalTile, SharedLayout, canonical
from tileiras.layout.tensormap import ELEMENTS

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

    def __getattr__(name: str) -> type[TileOp]:
        """The ops that the loop over SHARED declares."""
        ...


@irdl_attr_definition
class LayoutAttr(Data[LinearLayout]):
    """A linear layout as a tensor's encoding. Use `LayoutAttr.of`, which makes each layout's attribute once."""

    name = "nv_tileas.layout"

    @staticmethod
    def of(layout: LinearLayout) -> LayoutAttr:
        attr = _LAYOUTS.get(layout)
        if attr is None:
            attr = _LAYOUTS[layout] = LayoutAttr(layout)
        return attr

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> LinearLayout:
        from tileiras.layout.text import parse_linear
        return parse_linear(parser)

    def print_parameter(self, printer: Printer) -> None:
        shape = "x".join(map(str, self.data.shape))
        printer.print_string(f"<shape = [{shape}], {self.data}>")


_LAYOUTS: dict[LinearLayout, LayoutAttr] = {}


@irdl_attr_definition
class SharedLayoutAttr(Data[SharedLayout]):
    """Where a buffer's elements lie in shared memory (layout/shared.py)."""

    name = "nv_tileas.shared"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> SharedLayout:
        from tileiras.layout.text import parse_shared
        return parse_shared(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """A buffer in shared memory: element type and the layout of its elements."""

    name = "nv_tileas.buffer"
    element_type: Attribute = param_def()
    layout: SharedLayoutAttr = param_def()


@irdl_attr_definition
class RingType(ParametrizedAttribute, TypeAttribute):
    """Equal buffers in shared memory, one behind the other, `stages` of them."""

    name = "nv_tileas.ring"
    buffer: BufferType = param_def()
    stages: IntAttr = param_def()


@irdl_attr_definition
class TmemType(ParametrizedAttribute, TypeAttribute):
    """An accumulator in tensor memory: its elements' type, its shape ((batch,) m, n), and how many rows an instruction takes
    (layout/atoms/umma.py says where each element lies). `packed`: elements of a row in one cell: two of A of 16 bits."""

    name = "nv_tileas.tmem"
    element_type: Attribute = param_def()
    shape: ArrayAttr[IntAttr] = param_def()
    rows: IntAttr = param_def()
    packed: IntAttr = param_def()

    @staticmethod
    def of(t: TensorType, rows: int, packed: int = 1) -> TmemType:
        return TmemType(t.element_type, int_array(t.get_shape()), IntAttr(rows), IntAttr(packed))

    def several(self, count: int) -> TmemType:
        """So many side by side, of which `tmem_stage` gives one."""
        *batch, m, n = int_values(self.shape)
        return TmemType(self.element_type, int_array([count * (batch[0] if batch else 1), m, n]), self.rows, self.packed)

    @property
    def columns(self) -> int:
        """Of tensor memory that it takes."""
        return columns_of(int_values(self.shape), self.rows.data) // self.packed.data


PIPE_KINDS = ("group", "tma", "cp_async", "mbarrier", "umma")
"""How a stage comes to be full: groups of copies that a thread waits for (the consumers are the producers); bytes that the copy
engine counts; copies of all producing threads, each arriving when its own are there; arrivals of producing warps; the tensor
core's arrival when products are done."""


@irdl_attr_definition
class PipeType(ParametrizedAttribute, TypeAttribute):
    """Which stages of a ring (or of several that are filled together) are full and which empty."""

    name = "nv_tileas.pipe"
    kind: StringAttr = param_def()
    stages: IntAttr = param_def()


@irdl_attr_definition
class TensorMapType(ParametrizedAttribute, TypeAttribute):
    """A tensor map: 128 bytes that tell the copy engine where a tensor lies and what a box of it is. `element`: what the map
    calls elements (layout/tensormap.py). `shape`, `major`, `swizzle`: the tile that copies by it move, as it lies in shared
    memory (`CanonicalTile`); boxes follow from that."""

    name = "nv_tileas.tensormap"
    element: StringAttr = param_def()
    shape: ArrayAttr[IntAttr] = param_def()
    major: IntAttr = param_def()
    swizzle: IntAttr = param_def()

    @staticmethod
    def of(element: str, tile: CanonicalTile) -> TensorMapType:
        return TensorMapType(StringAttr(element), int_array(tile.shape), IntAttr(tile.major),
                             IntAttr(tile.swizzle))

    @property
    def tile(self) -> CanonicalTile:
        """The tile in shared memory."""
        return canonical(int_values(self.shape), ELEMENTS[self.element.data][0], self.major.data, self.swizzle.data)


@irdl_attr_definition
class FlightType(ParametrizedAttribute, TypeAttribute):
    """A product that may not be there yet: the tensor that a wait makes of it, and how many instructions' accumulators hold it.
    Only the next product into the same accumulator, a loop that carries it and its wait may have it."""

    name = "nv_tileas.flight"
    tensor: TensorType = param_def()
    parts: IntAttr = param_def()


LOOPS = frozenset({"scf.for", "nv_tileas.loop"})
LOADS = frozenset({"nv_tileas.load", "nv_tileas.tiled_load"})
EXITS = frozenset({"nv_tileas.break", "nv_tileas.continue", "nv_tileas.return"})
"""Early ways out of a loop's iteration, of a loop, of the function."""

_ACCESS = "runs:numbers? contiguous:count? neighbours:count? apart:positive?"
_GUARDED = f"{_ACCESS} inside:power? narrow:power?"
_PLACED_ATTRS: dict[str, str] = {
    "func": "num_warps:power counted_blocks:positive? shared_bytes:count? shared_alignment:power? tensor_maps:strings? "
            "built_maps:positive?",
    "dot": "atom:string? chained:unit? by_columns:unit? next_elements:power? k_slices:power? joined:unit? quads:unit? "
           "quad_rows:unit? negated:side? ends_block:unit?",
    "dot_scaled": "atom:string? k_slices:power?",
    "load": f"{_GUARDED} owners:unit? told:unit? invariant:unit? first:unit? early:unit? by_thread:unit?", "store": _GUARDED,
    "atomic_rmw": f"{_ACCESS} owners:unit? told:unit?", "atomic_cas": f"{_ACCESS} owners:unit? told:unit?",
    "tiled_load": f"check:flags? {_GUARDED} stretch:power? owners:unit? told:unit? engine:unit? filled:unit? invariant:unit? "
                  "first:unit? early:unit?",
    "tiled_store": f"check:flags? {_GUARDED} engine:unit? unless_apart:unit?",
    "tiled_atomic_rmw": f"check:flags? {_ACCESS} engine:unit?",
    "reduce": "parts:unit?", "print": "in_turn:unit?", "alloca": "owners:unit? offset:count?"}
"""What only this level says. num_warps: of a block. counted_blocks: how many an SM is to hold
(analysis/entry_hints.py). shared_bytes, shared_alignment, offset: set by `allocate-buffers`.
tensor_maps: how a launch makes the maps that are the last parameters (texts of host/recipe.py). built_maps: how many the kernel
builds itself.
atom: the instruction that computes a dot (none: multiply and add); chained: in the layouts that let its result be another
dot's operand; by_columns: in those that let each warp compute the columns of B that it multiplies; next_elements: its threads have
the columns that they multiply in the next product, which has so many elements in a register of A; k_slices: parts of k that will
go through buffers one after another; joined: each instruction's columns start at zero and are added to the accumulator before the
next one's begin; quads, quad_rows: which thread has which of its sums, or of its rows (layout/atoms/umma.py);
ends_block: a block of machine code ends behind it. runs, contiguous, neighbours, apart, inside, narrow, check, stretch: what is
known of an access (analysis/access.py). owners: only the threads that own an element (the lowest of those that hold it; the first
thread for a scalar) have its value; the result may only go to `store_shared`. told: and from there to all agents by a pipe.
parts: what different warps hold of the dimension stays apart, as a new leading dimension. engine: the copy engine moves the tile,
by way of a buffer. unless_apart: threads meet in front of it, if the array's strides have tiles overlap. filled: what lies outside
of the array may be anything, a `fill_outside` follows. in_turn: the tiles fill the one buffer of scratch in turn."""

_PLACED_OPERANDS = {"scan": "sources:factor*", "print": "args:printed* token:token?",
                    "dot_scaled": "lhs:factor rhs:factor acc:float_tensor lhs_scale:factor rhs_scale:factor"}
"""Scans and prints may be given scratch buffers; what is printed, and scales, may lie in buffers."""

for _mnemonic in SHARED:
    _op = make_op("nv_tileas", _mnemonic, _PLACED_ATTRS.get(_mnemonic, ""), _PLACED_OPERANDS.get(_mnemonic))
    globals()[_op.__name__] = _op


def scratch_of(op: Operation) -> list[SSAValue]:
    """The buffers that a scan or print was given behind its other operands, for what different threads exchange in it."""
    return [v for v in op.operands if isinstance(v.type, BufferType)]


class ConvertLayout(TileOp):
    """The same elements in the result's layout. Behind `materialize-convert-layout` only what registers and shuffles do."""

    name = "nv_tileas.convert_layout"
    OPERANDS = "source:tensor"
    RESULTS = "result:tensor"
    PURE = True


class Settle(TileOp):
    """The same tile, which is there: who uses the result waits for no load. `bytes`: of the accesses that have loaded it."""

    name = "nv_tileas.settle"
    OPERANDS = "source:tensor"
    RESULTS = "result:tensor"
    ATTRS = "bytes:positive"
    PURE = True
    SAME = "source result"


class AllocTensor(TileOp):
    """A buffer or a ring in shared memory, or an accumulator in tensor memory. `offset`: its first byte in the kernel's shared
    memory, or column of what it has of tensor memory, set by `allocate-buffers`."""

    name = "nv_tileas.alloc_tensor"
    RESULTS = "buffer:place"
    ATTRS = "offset:count?"


class ExtractSlice(TileOp):
    """A stage of a ring: the buffer of that number, its elements by the names that the result's type gives them."""

    name = "nv_tileas.extract_slice"
    OPERANDS = "ring:ring index:i32"
    RESULTS = "buffer:buffer"
    PURE = True


class CreatePipeline(TileOp):
    """A pipe whose stages are all empty. `offset`: of its barriers (none for groups), two of 8 bytes a stage, set by
    `allocate-buffers`. `bytes`: that a stage receives (tma). `producers`, `consumers`: arrivals that make a stage full (1 for
    tma: who acquires it), and empty. `peers`: CTAs of the cluster that fill each other's stages, this one among them, as what
    their ranks differ in; consumers tell all of them that a stage is empty. `once`: a stage is filled no second time, so that
    nobody waits for an empty one (tma). `told`: it hands on to all agents what a thread has drawn (mbarrier; `tell-agents`).
    `pair`: of a pair of CTAs, whose lower one begins the products that read the stages of both (tma), or tells both that they are
    done (umma): its full stage has the bytes of both."""

    name = "nv_tileas.create_pipeline"
    RESULTS = "pipe:pipe"
    ATTRS = "offset:count? bytes:count? producers:positive? consumers:positive? peers:numbers? once:unit? told:unit? pair:unit?"


class ProducerAcquire(TileOp):
    """Wait until the next stage is empty (group: a barrier of the threads has seen to that); its number. `behind`: what is computed
    before anything asks for it: the assembler moves a question in front of what it doesn't depend on, where it takes long."""

    name = "nv_tileas.producer_acquire"
    OPERANDS = "pipe:pipe behind:number_tensor?"
    RESULTS = "index:i32"


class ProducerCommit(TileOp):
    """The stage acquired last is filled, or will be when the copies begun so far are there. The producer goes on."""

    name = "nv_tileas.producer_commit"
    OPERANDS = "pipe:pipe"


class ProducerTail(TileOp):
    """Wait until all stages that were filled have been given back: nobody tells of any of them later. Who fills them does nothing
    with the pipe behind it."""

    name = "nv_tileas.producer_tail"
    OPERANDS = "pipe:pipe"


class ConsumerWait(TileOp):
    """Wait until the next stage is full; its number. `pending`: how many of the youngest groups may still be on their way
    (group only; a `barrier` behind it makes every thread's copies seen by all). `by_dots`: only products read the stage, so that
    only the thread which begins them waits. `storage`: what the products read and write that are done then (umma)."""

    name = "nv_tileas.consumer_wait"
    OPERANDS = "pipe:pipe storage:place*"
    RESULTS = "index:i32"
    ATTRS = "pending:count? by_dots:unit?"


class ConsumerRelease(TileOp):
    """The oldest stage waited for and not yet given back may be filled again: its reads are done (group: nothing is told).
    `by_dots`: it may be when the products begun so far are done; the tensor core tells so. `with_dots`: when threads have read it
    and those products are done, as both tell."""

    name = "nv_tileas.consumer_release"
    OPERANDS = "pipe:pipe"
    ATTRS = "by_dots:unit? with_dots:unit?"


class FenceAsync(TileOp):
    """What this thread wrote to shared memory before is seen by the copy engine and the tensor cores behind the next barrier.
    `global`: what it wrote, or has seen of what others wrote, to global memory is seen by the copy engine that it tells later."""

    name = "nv_tileas.fence_async"
    ATTRS = "global:unit?"


class AgentSwitch(TileOp):
    """The warps of the block part, each agent's to its own region (analysis/agents.py). `warps`: how many each agent has;
    `registers`: a thread of each may use, in all no more than the block is launched with (none given: the launch's, for all).
    Values from above are every agent's, but tensors: those lie in the registers of other threads."""

    name = "nv_tileas.agent_switch"
    ATTRS = "warps:numbers registers:numbers?"
    REGIONS = "agents:block*"


class TiledCopy(TileOp):
    """A tile of a view straight to a buffer: a `tiled_load` and a `store_shared` without registers between. Out of bounds come
    zeros. On its way until the pipe says that the stage of this number is full.

    `atom`: which instruction; "cp.async.16", "cp.async.8", "cp.async.4": of so many bytes a thread, `threads` says who copies
    which elements. Where `guard` doesn't hold nothing is copied. `token`: what the read waits for; nothing waits for the read but
    by the pipe. `spread`: its instructions may come anywhere between here and the pipe's commit,
    and do so in so many lots among a product's steps."""

    name = "nv_tileas.tiled_copy"
    OPERANDS = "view:view coords:ints* buffer:buffer pipe:pipe index:i32 guard:bool? token:token?"
    ATTRS = f"atom:name threads:layout? spread:positive? inbounds:inbounds? latency:index? allow_tma:flag? check:flags? " \
            f"filled:unit? {_ACCESS}"


class AsyncCopy(TileOp):
    """What pointers lead to straight to a buffer, as `tiled_copy` does it by cp.async: the pointers lie in the layout `threads`.
    Where `mask` doesn't hold come zeros."""

    name = "nv_tileas.async_copy"
    OPERANDS = "ptr:ptrs mask:bools? buffer:buffer pipe:pipe index:i32 guard:bool? token:token?"
    ATTRS = f"atom:name threads:layout spread:positive? latency:index? {_ACCESS}"


COPIES_BY_THREADS = ("nv_tileas.tiled_copy", "nv_tileas.async_copy")
"""Ops that copy to a stage of a ring without registers between, by cp.async."""


class MakeTiledTmaDesc(TileOp):
    """The tensor map of a view's array. `nan`: what lies outside reads as NaN, not as zero. From `separate-host-tma` on a map
    is a parameter of the function, or built by it."""

    name = "nv_tileas.make_tiled_tma_desc"
    OPERANDS = "view:view"
    RESULTS = "map:tensormap"
    ATTRS = "nan:unit?"
    PURE = True


class BuildTmaDesc(TileOp):
    """A tensor map of what is no function of the kernel's parameters, which the agent builds when it comes by, for copies that it
    makes itself; what was copied by the one before has been. `recipe`: a text of host/recipe.py over the op's operands in the
    place of parameters. `number`: which of the memory that a block has for maps, one for each such op (`allocate-buffers`)."""

    name = "nv_tileas.build_tma_desc"
    OPERANDS = "sources:scalar*"
    RESULTS = "map:tensormap"
    ATTRS = "recipe:string number:count?"
    PURE = True


class PrefetchTmaDesc(TileOp):
    """The copy engine fetches a tensor map before its first use."""

    name = "nv_tileas.prefetch_tma_desc"
    OPERANDS = "map:tensormap"


class TmaLoad(TileOp):
    """The copy engine brings a tile of a tensor to a buffer, in flight until the stage `index` of the pipe is full. `coords`: the
    tile's first element, in the order of the tile's dimensions. `slot`: the tile lies there as the map says, maybe under another
    shape of the same elements (dimensions permuted or reshaped). `cta_copies`: CTAs that differ in these bits of their ranks only
    load the same: each a part of the tile for all of them. The map's tiles are such parts, `shared` says how many there are along
    each dimension (layout/descriptors.py, `part_of`)."""

    name = "nv_tileas.tma_load"
    OPERANDS = "map:tensormap coords:i32* slot:buffer pipe:pipe index:i32"
    ATTRS = "cta_copies:positive? shared:numbers?"


class CancelNextProgramId(TileOp):
    """The hardware is asked for a tile block that hasn't started, for this block to do in its place. The answer comes to `slot`, in
    flight until the stage `index` of the pipe is full."""

    name = "nv_tileas.cancel_next_program_id"
    OPERANDS = "slot:buffer pipe:pipe index:i32"


class IsValidProgramId(TileOp):
    """What an answer says: the tile block's id, and whether there is one (else the ids are 0)."""

    name = "nv_tileas.is_valid_program_id"
    OPERANDS = "slot:buffer"
    RESULTS = "x:i32 y:i32 z:i32 valid:bool"


class BeginFlight(TileOp):
    """A tensor as what a product in flight goes on from."""

    name = "nv_tileas.begin_flight"
    OPERANDS = "source:number_tensor"
    RESULTS = "flight:flight"
    PURE = True


class AsyncDot(TileOp):
    """A dot by wgmma that isn't waited for: a group of products of its own. Without `acc` it starts at zero. Its buffers, and A's
    registers, are read until a wait says otherwise."""

    name = "nv_tileas.async_dot"
    OPERANDS = "lhs:factor rhs:buffer acc:flight?"
    RESULTS = "flight:flight"
    ATTRS = "atom:string negated:side?"


def instruction_of(dot: Operation) -> dict[str, Attribute]:
    """The attributes by which a dot says what its instruction does, wherever that is begun."""
    return {name: dot.properties[name] for name in ("atom", "negated") if name in dot.properties}


class DotWait(TileOp):
    """Wait until all but the `pending` youngest groups of products are done; what `flights` stood for is there. `registers`,
    `storage`: A in registers, buffers and rings that the products read which are done then."""

    name = "nv_tileas.dot_wait"
    OPERANDS = "flights:flight* registers:number_tensor* storage:storage*"
    RESULTS = "outs:number_tensor*"
    ATTRS = "pending:count?"


class TensorDot(TileOp):
    """A product of two buffers into an accumulator; where `add` doesn't hold the accumulator's old content doesn't count. The
    tensor core does it by itself, after those before it: what it reads may be written again, and what it writes be read, behind a
    wait for a later commit (or where a release of the tensor core's has told so). Until `commit-dots` has made those it counts as
    done behind the op (`told`: pipes that are there already tell that it is). A block-scaled one copies scale factors to columns of
    their own first."""

    name = "nv_tileas.tensor_dot"
    OPERANDS = "lhs:factors rhs:buffer acc:tmem add:bool lhs_scale:buffer? rhs_scale:buffer? factors:tmem?"
    ATTRS = "atom:string negated:side? told:unit?"


class LoadTmem(TileOp):
    """An accumulator, once its products are done; with `first`, its columns from that one on, as many as the result has. `quads`:
    which thread has what (layout/atoms/umma.py)."""

    name = "nv_tileas.load_tmem"
    OPERANDS = "buffer:tmem"
    RESULTS = "result:number_tensor"
    ATTRS = "first:count? quads:unit?"


class StoreTmem(TileOp):
    """A tensor becomes what an accumulator holds; with `first`, its columns from that one on, as many as the tensor has."""

    name = "nv_tileas.store_tmem"
    OPERANDS = "source:number_tensor buffer:tmem"
    ATTRS = "first:count? quads:unit?"


class ScaleTmem(TileOp):
    """What an accumulator holds is multiplied by a tensor. A warp whose factors are all one leaves it alone."""

    name = "nv_tileas.scale_tmem"
    OPERANDS = "factor:float_tensor buffer:tmem"


class AddTmem(TileOp):
    """What an accumulator holds is multiplied by a tensor, and what another one holds is added; `fused`: without rounding between.
    `wide`: threads have registers for more columns at once."""

    name = "nv_tileas.add_tmem"
    OPERANDS = "factor:float_tensor added:tmem buffer:tmem"
    ATTRS = "fused:unit? wide:unit?"


class TmemStage(TileOp):
    """One of the accumulators that lie side by side in tensor memory, as many as a pipe has stages."""

    name = "nv_tileas.tmem_stage"
    OPERANDS = "buffer:tmem index:i32"
    RESULTS = "result:tmem"
    PURE = True


class TmemAlloc(TileOp):
    """The block gets this many columns of tensor memory, waiting until the SM has them. Where they are goes to shared memory at
    `offset`. `pair`: both CTAs of a pair get the same. `several`: more columns are asked for behind, so that the right
    to ask isn't given up yet."""

    name = "nv_tileas.tmem_alloc"
    ATTRS = "columns:power offset:count pair:unit? several:unit?"


class TmemBase(TileOp):
    """All threads learn where the block's columns are."""

    name = "nv_tileas.tmem_base"
    ATTRS = "offset:count"


class TmemFree(TileOp):
    """The block's columns are given back: nobody uses them any more. `pair`: as they were got."""

    name = "nv_tileas.tmem_free"
    ATTRS = "columns:power pair:unit?"


class TmaStore(TileOp):
    """The copy engine puts a tile of a tensor where it lies in a buffer, as far as it lies inside the tensor. `coords`: as of
    `tma_load`, `cta_copies` of `tiled_store`. Behind the next barrier the buffer may be written again; with `in_flight`, behind a
    barrier that follows a `store_wait`. What is stored is there when the kernel is over. `rmw_mode`: the tile is added to what
    lies there, or whatever it says, element by element."""

    name = "nv_tileas.tma_store"
    OPERANDS = "map:tensormap coords:i32* slot:buffer"
    ATTRS = "cta_copies:positive? rmw_mode:rmw_mode? in_flight:unit?"


class StoreWait(TileOp):
    """Who tells the copy engine what to store waits until it has read what all but the `pending` youngest stores take, those of
    `slots` among them; with `written`, until all that is there, so that later stores come behind."""

    name = "nv_tileas.store_wait"
    OPERANDS = "slots:buffer*"
    ATTRS = "pending:count written:unit?"


class StoreShared(TileOp):
    """Write a tensor's (or scalar's) registers to a buffer.

    The buffer has the tensor's shape, or a larger one: the tensor is then its slice number `part`, or 0. With `slice` (dim, index,
    count) only the `index`-th of `count` equal parts along `dim` is written, and the buffer has that part's shape. With
    `rounds` (masks over the buffer's flat index) only those elements are written for which the parities of the masked index
    are the bits of `round`, or of `round | number`. With `owners` only an element's owner writes it. `turned` (dim, lane bits):
    bytes go by words along `dim`, and threads with these lane bits set store another row first (layout/turned_bytes.py)."""

    name = "nv_tileas.store_shared"
    OPERANDS = "source:tile buffer:buffer number:i32?"
    ATTRS = "slice:numbers? rounds:numbers? round:count? part:count? owners:unit? turned:numbers?"


class LoadShared(TileOp):
    """Read a tensor (the result's layout) or a scalar from a buffer: shapes, `rounds`, `round` and `number` as in
    `store_shared`. Elements that aren't read are those of `into`. `peer`: from the buffer of the CTA whose rank differs in these
    bits. `matrices`: the tensor is a product's fragment, which `ldmatrix` reads where it can."""

    name = "nv_tileas.load_shared"
    OPERANDS = "buffer:buffer number:i32? into:tile?"
    RESULTS = "result:tile"
    ATTRS = "rounds:numbers? round:count? peer:positive? matrices:unit?"


class FillOutside(TileOp):
    """A view's tile with its padding in the elements that lie outside of the array, whatever they were: of a tile that came by way
    of copies, which fill with zeros. `check`, `outside`: as of `tiled_load`."""

    name = "nv_tileas.fill_outside"
    OPERANDS = "source:number_tensor view:view coords:int*"
    RESULTS = "result:number_tensor"
    ATTRS = "check:flags? outside:flags?"
    PURE = True
    SAME = "source result"


class MaskRuns(TileOp):
    """For which columns, the indices along `dim`, does everything hold that is asked of them? Of each predicate there is an offset,
    which is added to the column (sums wrap around), and a limit, to which the sum is what the predicate says: numbers, or tiles of
    extent 1 along `dim`, held as a broadcast would take them. Threads hold many columns of a row (layout/runs.py)."""

    name = "nv_tileas.mask_runs"
    OPERANDS = "terms:ints*"
    RESULTS = "result:bool_tensor"
    ATTRS = "dim:index predicates:strings"
    PURE = True


class Dealloc(TileOp):
    """Give back memory of `alloca ... global`, in reverse order."""

    name = "nv_tileas.dealloc"
    OPERANDS = "pointers:ptr*"


class Barrier(TileOp):
    """All threads of the block meet; shared- and global-memory writes before it are seen after it."""

    name = "nv_tileas.barrier"


class WarpBarrier(TileOp):
    """The threads of each warp meet; shared-memory writes before it are seen by their warp after it."""

    name = "nv_tileas.warp_barrier"


class ClusterBarrier(TileOp):
    """All threads of the cluster meet; shared- and global-memory writes before it are seen after it. `relaxed`: only the set-up of
    pipes is, where nothing else has been written that others want."""

    name = "nv_tileas.cluster_barrier"
    ATTRS = "relaxed:unit?"


class ClusterArrive(TileOp):
    """The first half of a `cluster_barrier`: threads go on, and wait for those of the cluster at `cluster_wait`. `relaxed`: nothing
    that they wrote need be seen behind that."""

    name = "nv_tileas.cluster_arrive"
    ATTRS = "relaxed:unit?"


class ClusterWait(TileOp):
    """The other half: until all threads of the cluster have come to their `cluster_arrive`."""

    name = "nv_tileas.cluster_wait"


class Fence(TileOp):
    """What each thread did before it is done, as far as threads in `mem_scope` see, before what it does after it."""

    name = "nv_tileas.fence"
    ATTRS = "mem_scope:scope"


def layout_of(value: SSAValue) -> LinearLayout:
    """The layout of a tensor value. Raises TypeError for a value without one."""
    t = value.type
    if isinstance(t, TensorType) and isinstance(t.encoding, LayoutAttr):
        return t.encoding.data
    raise TypeError(f"{t} has no layout")


def with_layout(t: TensorType, layout: LinearLayout) -> TensorType:
    """The tensor type with this layout as its encoding."""
    return TensorType(t.element_type, t.shape, LayoutAttr.of(layout))  # type: ignore[arg-type]


OPS: dict[str, type[TileOp]] = {c.name: c for c in list(globals().values())
                                if isinstance(c, type) and TileOp in c.__mro__ and c is not TileOp}
TYPES = (BufferType, RingType, PipeType, TensorMapType, FlightType, TmemType)
ATTRS = (LayoutAttr, SharedLayoutAttr)
