"""nv_tileaa: the alias-aware tier. Addresses are explicit, effects keep their tokens, tiles are plain tensors.

Values: a rank-0 tile is a bare scalar (one copy a thread, uniform over the block); a tile of rank 1 or more is a
builtin `tensor<shape x T>` without encoding; pointers are `!nv_tileaa.ptr<T>`; tokens `!nv_tileaa.mem_token`.
Element-wise math and structured control are `arith`, `math`, `scf` (dialects/arith.py).

Ops of the tile level that keep their meaning in nv_tileas are declared once, by `shared_op`, for both.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

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


SHARED: dict[str, tuple[str, str, str, str, bool, bool, type[TileOp]]] = {}


def shared_op(mnemonic: str, operands: str = "", results: str = "", attrs: str = "", regions: str = "",
              pure: bool = False, terminator: bool = False, base: type[TileOp] = TileOp) -> type[TileOp]:
    """Declare an op for nv_tileaa and (by `nv_tileas`) for nv_tileas; `base` has what both can do."""
    SHARED[mnemonic] = (operands, results, attrs, regions, pure, terminator, base)
    return make_op("nv_tileaa", mnemonic)


def make_op(dialect: str, mnemonic: str) -> type[TileOp]:
    operands, results, attrs, regions, pure, terminator, base = SHARED[mnemonic]
    name = "".join(part.capitalize() for part in mnemonic.split("_"))
    return type(name, (base,), {"name": f"{dialect}.{mnemonic}", "OPERANDS": operands, "RESULTS": results, "ATTRS": attrs,
                                "REGIONS": regions, "PURE": pure, "TERMINATOR": terminator})


# Functions and the grid. func: one block whose arguments are the entry's parameters. `hints`: DictionaryAttr of the
# entry's optimization hints for the target (num_cta_in_cga, occupancy, num_worker_warps_per_cta), if any.
Func = shared_op("func", attrs="sym_name hints? arg_facts? num_warps?", regions="body")
Return = shared_op("return", terminator=True)
GetProgramId = shared_op("get_program_id", "", "x y z", pure=True)
GetNumPrograms = shared_op("get_num_programs", "", "x y z", pure=True)

# Early exits: scf.for's and loop's terminators inside nested scf.if. `loop` repeats until a break; its block
# arguments are the carried values, its results are break's operands.
Loop = shared_op("loop", "inits*", "outs*", regions="body", base=LoopOp)
Break = shared_op("break", "values*", terminator=True)
Continue = shared_op("continue", "values*", terminator=True)

# Shapes. splat: scalar to tensor. make_range: 0..n-1. view: same elements in row-major order, other shape (reshape);
# also tensor of one element to scalar and back. broadcast: same rank, extents 1 grow. permute: result dim i is
# source dim permutation[i]. extract: indices in units of the result's extents. insert is its inverse. cat: two along `dim`.
Splat = shared_op("splat", "source", "result", pure=True)
MakeRange = shared_op("make_range", "", "result", pure=True)
View = shared_op("view", "source", "result", pure=True)
Broadcast = shared_op("broadcast", "source", "result", pure=True)
Permute = shared_op("permute", "source", "result", "permutation", pure=True)
Extract = shared_op("extract", "source indices*", "result", pure=True)
Insert = shared_op("insert", "source dest indices*", "result", pure=True)
Cat = shared_op("cat", "lhs rhs", "result", "dim", pure=True)
Pack = shared_op("pack", "source", "result", pure=True)        # reinterpret elements as bytes, row-major
Unpack = shared_op("unpack", "source", "result", pure=True)    # and back

# Pointers and views. addptr: offset in elements of the pointee. make_memref: dynamic extents and strides in order.
Addptr = shared_op("addptr", "ptr offset", "result", pure=True)
IntToPtr = shared_op("int_to_ptr", "source", "result", pure=True)
PtrToInt = shared_op("ptr_to_int", "source", "result", pure=True)
PtrToPtr = shared_op("ptr_to_ptr", "source", "result", pure=True)
MakeMemref = shared_op("make_memref", "base sizes* strides*", "result", pure=True)
BlockTile = shared_op("block_tile", "memref", "view", pure=True)

# Memory. mem_semantic: weak relaxed acquire release acq_rel; mem_scope: tl_blk device sys (absent when weak).
# inbounds: UnitAttr, or ArrayAttr of 0/1 a dimension: no check needed. latency, allow_tma: hints.
TiledLoad = shared_op("tiled_load", "view coords* token?", "result result_token",
                      "mem_semantic mem_scope? inbounds? latency? allow_tma?")
TiledStore = shared_op("tiled_store", "source view coords* token?", "result_token",
                       "mem_semantic mem_scope? inbounds? latency? allow_tma?")
TiledAtomicRmw = shared_op("tiled_atomic_rmw", "source view coords* token?", "result_token",
                           "rmw_mode mem_semantic mem_scope inbounds?")
Load = shared_op("load", "ptr mask? other? token?", "result result_token", "mem_semantic mem_scope? latency?")
Store = shared_op("store", "ptr source mask? token?", "result_token", "mem_semantic mem_scope? latency?")
AtomicRmw = shared_op("atomic_rmw", "ptr source mask? token?", "result result_token", "rmw_mode mem_semantic mem_scope")
AtomicCas = shared_op("atomic_cas", "ptr compare source mask? token?", "result result_token", "mem_semantic mem_scope")
CreateMemToken = shared_op("create_mem_token", "", "result", pure=True)
JoinMemToken = shared_op("join_mem_token", "tokens*", "result", pure=True)
GetGlobal = shared_op("get_global", "", "result", "symbol", pure=True)
Global = shared_op("global", attrs="sym_name type value alignment? constant?")     # value: DenseTileAttr of a tensor type
Alloca = shared_op("alloca", "", "result", "num_elem alignment? global?")

# Collectives. dot: result = lhs x rhs + acc; rank 2 or 3 (leading batch). reduce, scan: N sources of one shape, N
# results; the body's block has 2N scalar arguments and ends in scf.yield of N; `identities`: ArrayAttr of N scalars.
# reduce's block arguments come in pairs (a0, b0, a1, b1, ...); scan's too, (accumulated, current).
Dot = shared_op("dot", "lhs rhs acc", "result", "signedness_lhs? signedness_rhs? fast_acc?", pure=True)
DotScaled = shared_op("dot_scaled", "lhs rhs acc lhs_scale rhs_scale", "result", pure=True)
Reduce = shared_op("reduce", "sources*", "outs*", "dim identities", regions="body", pure=True)
Scan = shared_op("scan", "sources*", "outs*", "dim reverse identities", regions="body", pure=True)

# Facts and side effects
Assume = shared_op("assume", "source", "result", "fact", pure=True)            # fact: AssumeAttr
Assert = shared_op("assert", "condition", attrs="message")
Print = shared_op("print", "args* token?", "result_token?", "format")
GdcWait = shared_op("gdc_wait", "token?", "result_token")
GdcLaunchDependents = shared_op("gdc_launch_dependents", "token?", "result_token")
FenceAlias = shared_op("fence_alias", "token", "result_token")

OPS: dict[str, type[TileOp]] = {c.name: c for c in list(globals().values())
                                if isinstance(c, type) and issubclass(c, TileOp) and c not in (TileOp, LoopOp)}
TYPES = (PtrType, MemTokenType, MemRefType, TiledViewType)
ATTRS = (DenseTileAttr, AssumeAttr)
