"""nv_tileaa: the alias-aware tier. Addresses are explicit, effects keep their tokens, tiles are plain tensors.

Values: a rank-0 tile is a bare scalar (one copy a thread, uniform over the block); a tile of rank 1 or more is a
builtin `tensor<shape x T>` without encoding; pointers are `!nv_tileaa.ptr<T>`; tokens `!nv_tileaa.mem_token`.
Element-wise math and structured control are `arith`, `math`, `scf` (dialects/arith.py).

Ops of the tile level that keep their meaning in nv_tileas are declared once, by `shared_op`, for both.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from xdsl.dialects.builtin import ArrayAttr, IntAttr, NoneAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def

from tileiras.dialects import nv_tileaa_asm as asm
from tileiras.dialects.base import TileOp

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

DYNAMIC = -1
"""The extent or stride of a memref that is known only at run time."""


@irdl_attr_definition
class PtrType(ParametrizedAttribute, TypeAttribute):
    """A pointer into global memory."""

    name = "nv_tileaa.ptr"
    pointee: Attribute = param_def()


@irdl_attr_definition
class MemTokenType(ParametrizedAttribute, TypeAttribute):
    """An ordering edge between memory operations; has no run-time value."""

    name = "nv_tileaa.mem_token"


@irdl_attr_definition
class MemRefType(ParametrizedAttribute, TypeAttribute):
    """A strided array in global memory: element type, extents and strides in elements; -1 where dynamic."""

    name = "nv_tileaa.memref"
    element_type: Attribute = param_def()
    shape: ArrayAttr[IntAttr] = param_def()
    strides: ArrayAttr[IntAttr] = param_def()

    def print_parameters(self, printer: Printer) -> None:
        asm.print_memref(printer, self.element_type, self.shape, self.strides)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return asm.parse_memref(parser)


@irdl_attr_definition
class TiledViewType(ParametrizedAttribute, TypeAttribute):
    """How a memref is walked in tiles.

    kind: "partition", "strided" or "gather_scatter". tile_shape: the tile's extents, in tile order. dim_map[t] is
    the memref dimension that tile dimension t runs along. steps[t]: distance of neighbouring tiles along tile
    dimension t, in elements (= tile_shape for partitions, 1 for gather_scatter). padding: "" (unspecified), zero,
    neg_zero, nan, pos_inf, neg_inf. sparse_dim: the gathered dimension of a gather_scatter view, else -1."""

    name = "nv_tileaa.tiled_view"
    memref: MemRefType = param_def()
    kind: StringAttr = param_def()
    tile_shape: ArrayAttr[IntAttr] = param_def()
    dim_map: ArrayAttr[IntAttr] = param_def()
    steps: ArrayAttr[IntAttr] = param_def()
    padding: StringAttr = param_def()
    sparse_dim: IntAttr = param_def()

    def print_parameters(self, printer: Printer) -> None:
        asm.print_tiled_view(printer, self)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return asm.parse_tiled_view(parser)


@irdl_attr_definition
class DenseTileAttr(ParametrizedAttribute):
    """The elements of a constant tensor: row-major little-endian bytes, `width` bytes each (i1: one byte, 0 or 1)."""

    name = "nv_tileaa.dense"
    data: StringAttr = param_def()          # hexadecimal
    width: IntAttr = param_def()


@irdl_attr_definition
class AssumeAttr(ParametrizedAttribute):
    """A fact: kind "div_by" (divisor, every or -1, along or -1), "bounded" (low or None, high or None) or
    "same_elements" (sizes)."""

    name = "nv_tileaa.fact"
    kind: StringAttr = param_def()
    values: ArrayAttr[IntAttr | NoneAttr] = param_def()

    def print_parameters(self, printer: Printer) -> None:
        asm.print_fact(printer, self.kind.data, self.values)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        return asm.parse_fact(parser)


def int_values(attr: ArrayAttr) -> tuple[int, ...]:
    """The numbers of an array of IntAttr: extents, strides, steps as the types above hold them."""
    return tuple(a.data for a in attr.data)  # type: ignore[attr-defined]


int_array = asm.int_array
"""The array that `int_values` reads."""


# ---------------------------------------------------------------------------------------------------------------------
# Ops of both tile levels

class LoopOp(TileOp):
    """A loop all of whose operands and block arguments are carried values."""

    def carried_inits(self) -> Sequence[SSAValue]:
        """What the carried values are before the first iteration."""
        return self.operands

    def carried_args(self) -> Sequence[SSAValue]:
        """The body's arguments that hold the carried values."""
        return self.regions[0].block.args


class Declaration(NamedTuple):
    """An op of both tile levels: what a TileOp declares, and the class that has what both can do."""

    operands: str
    results: str
    attrs: str
    regions: str
    same: str
    same_shape: str
    pure: bool
    terminator: bool
    base: type[TileOp]


SHARED: dict[str, Declaration] = {}


def shared_op(mnemonic: str, operands: str = "", results: str = "", attrs: str = "", regions: str = "", *, same: str = "",
              same_shape: str = "", pure: bool = False, terminator: bool = False,
              base: type[TileOp] = TileOp) -> type[TileOp]:
    """Declare an op for nv_tileaa and (by `nv_tileas`) for nv_tileas."""
    SHARED[mnemonic] = Declaration(operands, results, attrs, regions, same, same_shape, pure, terminator, base)
    return make_op("nv_tileaa", mnemonic)


def make_op(dialect: str, mnemonic: str, more_attrs: str = "", operands: str | None = None) -> type[TileOp]:
    """The op of one of the levels; `more_attrs`: what only this level says; `operands`: what they are there, if not the same."""
    d = SHARED[mnemonic]
    name = "".join(part.capitalize() for part in mnemonic.split("_"))
    return type(name, (d.base,), {"name": f"{dialect}.{mnemonic}", "OPERANDS": d.operands if operands is None else operands,
                                  "RESULTS": d.results, "ATTRS": f"{d.attrs} {more_attrs}", "REGIONS": d.regions, "SAME": d.same,
                                  "SAME_SHAPE": d.same_shape, "PURE": d.pure, "TERMINATOR": d.terminator})


# Functions and the grid. func: one block whose arguments are the entry's parameters. `hints`: DictionaryAttr of the
# entry's optimization hints for the target (num_cta_in_cga, occupancy, num_worker_warps_per_cta), if any.
# cluster: how many CTAs share a tile block (plan-cta); get_cta_rank: which of them this one is.
# most_blocks: how many an SM is to hold at most (bound-blocks).
# chains: how many agents share its rows (plan-chains); get_chain: which of them this one is.
# cta_exchange: the tile of that name that the CTA has whose rank differs from this one's in the bits of `peer`.
Func = shared_op("func", attrs="sym_name:name hints:dict? cluster:power? chains:power? most_blocks:positive?", regions="body:block")
Return = shared_op("return", terminator=True)
GetProgramId = shared_op("get_program_id", "", "x:i32 y:i32 z:i32", pure=True)
GetCtaRank = shared_op("get_cta_rank", "", "rank:i32", pure=True)
GetChain = shared_op("get_chain", "", "chain:i32", pure=True)
CtaExchange = shared_op("cta_exchange", "source:numbers", "result:numbers", "peer:positive", same="source result",
                        same_shape="source result", pure=True)
GetNumPrograms = shared_op("get_num_programs", "", "x:i32 y:i32 z:i32", pure=True)

# Early exits: scf.for's and loop's terminators inside nested scf.if. `loop` repeats until a break; its block
# arguments are the carried values, its results are break's operands.
Loop = shared_op("loop", "inits:carried*", "outs:carried*", regions="body:block", base=LoopOp)
Break = shared_op("break", "values:carried*", terminator=True)
Continue = shared_op("continue", "values:carried*", terminator=True)

# Shapes. splat: scalar to tensor. make_range: 0..n-1. view: same elements in row-major order, other shape (reshape);
# also tensor of one element to scalar and back. broadcast: same rank, extents 1 grow. permute: result dim i is
# source dim permutation[i]. extract: indices in units of the result's extents. insert is its inverse. cat: two along `dim`.
Splat = shared_op("splat", "source:scalar", "result:tensor", pure=True)
MakeRange = shared_op("make_range", "", "result:int_tensor", pure=True)
View = shared_op("view", "source:tile", "result:tile", pure=True)
Broadcast = shared_op("broadcast", "source:tensor", "result:tensor", pure=True)
Permute = shared_op("permute", "source:tensor", "result:tensor", "permutation:numbers", pure=True)
Extract = shared_op("extract", "source:tensor indices:int*", "result:tensor", pure=True)
Insert = shared_op("insert", "source:tensor dest:tensor indices:int*", "result:tensor", pure=True)
Cat = shared_op("cat", "lhs:tensor rhs:tensor", "result:tensor", "dim:index", pure=True)
Pack = shared_op("pack", "source:number_tensor", "result:int_tensor", pure=True)      # elements as bytes, row-major
Unpack = shared_op("unpack", "source:int_tensor", "result:number_tensor", pure=True)  # and back

# Pointers and views. addptr: offset in elements of the pointee. make_memref: dynamic extents and strides in order.
Addptr = shared_op("addptr", "ptr:ptrs offset:ints", "result:ptrs", same="ptr result", same_shape="ptr offset", pure=True)
IntToPtr = shared_op("int_to_ptr", "source:ints", "result:ptrs", same_shape="source result", pure=True)
PtrToInt = shared_op("ptr_to_int", "source:ptrs", "result:ints", same_shape="source result", pure=True)
PtrToPtr = shared_op("ptr_to_ptr", "source:ptrs", "result:ptrs", same_shape="source result", pure=True)
MakeMemref = shared_op("make_memref", "base:ptr sizes:int* strides:int*", "result:memref", pure=True)
BlockTile = shared_op("block_tile", "memref:memref", "view:view", pure=True)

# Memory. mem_semantic: weak relaxed acquire release acq_rel; mem_scope: tl_blk device sys (absent when weak).
# inbounds: UnitAttr, or ArrayAttr of 0/1 a dimension: no check needed. latency, allow_tma: hints. cta_copies: bits of a CTA's
# rank; CTAs of a cluster that differ in these only access the same, and one of them writes (plan-cta). outside: for each
# dimension, whether the tile may begin outside the array, being a part of a tile that begins inside. in_turn: loads of a loop with
# one number come by one ring (split-operands).
TiledLoad = shared_op("tiled_load", "view:view coords:ints* token:token?", "result:tile result_token:token",
                      "mem_semantic:load_semantic mem_scope:scope? inbounds:inbounds? latency:index? allow_tma:flag? "
                      "cta_copies:positive? outside:flags? in_turn:positive?")
TiledStore = shared_op("tiled_store", "source:tile view:view coords:ints* token:token?", "result_token:token",
                       "mem_semantic:store_semantic mem_scope:scope? inbounds:inbounds? latency:index? allow_tma:flag? "
                       "cta_copies:positive? outside:flags?")
TiledAtomicRmw = shared_op("tiled_atomic_rmw", "source:numbers view:view coords:int* token:token?", "result_token:token",
                           "rmw_mode:rmw_mode mem_semantic:atomic_semantic mem_scope:scope inbounds:inbounds? "
                           "cta_copies:positive? outside:flags?")
Load = shared_op("load", "ptr:ptrs mask:bools? other:tile? token:token?", "result:tile result_token:token",
                 "mem_semantic:load_semantic mem_scope:scope? latency:index? cta_copies:positive?",
                 same="other result", same_shape="ptr mask result")
Store = shared_op("store", "ptr:ptrs source:tile mask:bools? token:token?", "result_token:token",
                  "mem_semantic:store_semantic mem_scope:scope? latency:index? cta_copies:positive?", same_shape="ptr source mask")
AtomicRmw = shared_op("atomic_rmw", "ptr:ptrs source:numbers mask:bools? token:token?",
                      "result:numbers result_token:token",
                      "rmw_mode:rmw_mode mem_semantic:atomic_semantic mem_scope:scope cta_copies:positive?",
                      same="source result", same_shape="ptr source mask")
AtomicCas = shared_op("atomic_cas", "ptr:ptrs compare:numbers source:numbers mask:bools? token:token?",
                      "result:numbers result_token:token", "mem_semantic:atomic_semantic mem_scope:scope cta_copies:positive?",
                      same="compare source result", same_shape="ptr source mask")
CreateMemToken = shared_op("create_mem_token", "", "result:token", pure=True)
JoinMemToken = shared_op("join_mem_token", "tokens:token*", "result:token", pure=True)
GetGlobal = shared_op("get_global", "", "result:ptr", "symbol:symbol", pure=True)
Global = shared_op("global", attrs="sym_name:name type:type value:elements alignment:size? constant:unit?")
Alloca = shared_op("alloca", "", "result:ptr", "num_elem:index alignment:size? global:unit?")

PLACING = frozenset({"nv_tileaa.splat", "nv_tileaa.view", "nv_tileaa.broadcast", "nv_tileaa.permute"})
"""Ops that only place elements, some of them several times."""

# Collectives. dot: result = lhs x rhs + acc; rank 2 or 3 (leading batch); `pair`: rhs is this CTA's half of the columns, the CTA
# whose rank differs in the lowest bit has the other, and the two multiply together (plan-cta). dot_scaled: the same, each `block`
# elements along k times their scale, of a pair each CTA with the scales of all columns; as its instruction takes it (`block` is
# given), 4-bit elements are `packed` in i8, two along k each (transforms/prepare_dot_scaled.py). reduce, scan: N sources of one
# shape, N results; the body's block has 2N scalar arguments and ends in scf.yield of N; `identities`: ArrayAttr of N scalars.
# reduce's block arguments come in pairs (a0, b0, a1, b1, ...); scan's too, (accumulated, current).
Dot = shared_op("dot", "lhs:factor rhs:factor acc:number_tensor", "result:number_tensor",
                "signedness_lhs:signedness? signedness_rhs:signedness? fast_acc:unit? pair:unit?", same="acc result", pure=True)
DotScaled = shared_op("dot_scaled", "lhs:factor rhs:factor acc:float_tensor lhs_scale:float_tensor "
                                    "rhs_scale:float_tensor", "result:float_tensor", "packed:unit? block:positive? pair:unit?",
                      same="acc result", pure=True)
Reduce = shared_op("reduce", "sources:number_tensor*", "outs:numbers*", "dim:index identities:identities",
                   regions="body:block", pure=True)
Scan = shared_op("scan", "sources:number_tensor*", "outs:number_tensor*", "dim:index reverse:flag identities:identities",
                 regions="body:block", pure=True)

# Facts and side effects
Assume = shared_op("assume", "source:tile", "result:tile", "fact:fact", same="source result", pure=True)
Assert = shared_op("assert", "condition:bools", attrs="message:string")
Print = shared_op("print", "args:tile* token:token?", "result_token:token?", "format:string")
GdcWait = shared_op("gdc_wait", "token:token?", "result_token:token")
GdcLaunchDependents = shared_op("gdc_launch_dependents", "token:token?", "result_token:token")
FenceAlias = shared_op("fence_alias", "token:token", "result_token:token")

OPS: dict[str, type[TileOp]] = {c.name: c for c in list(globals().values())
                                if isinstance(c, type) and TileOp in c.__mro__ and c not in (TileOp, LoopOp)}
TYPES = (PtrType, MemTokenType, MemRefType, TiledViewType)
ATTRS = (DenseTileAttr, AssumeAttr)
