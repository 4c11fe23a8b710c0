"""Ops on memory: pointers, views, loads and stores, atomics, tokens."""
from __future__ import annotations

from tileiras.dialects.cuda_tile.op import CudaTileOp


class Alloca(CudaTileOp):
    """Since 13.3; `num_elem` and `alignment` are i64 IntegerAttrs."""

    name = "cuda_tile.alloca"
    RESULTS = "result"
    ATTRS = "num_elem alignment global?"


class AtomicCASTko(CudaTileOp):
    name = "cuda_tile.atomic_cas_tko"
    OPERANDS = "pointers cmp val mask? token?"
    RESULTS = "result result_token"
    ATTRS = "memory_ordering_semantics memory_scope"


class AtomicRMWTko(CudaTileOp):
    name = "cuda_tile.atomic_rmw_tko"
    OPERANDS = "pointers arg mask? token?"
    RESULTS = "result result_token"
    ATTRS = "memory_ordering_semantics memory_scope mode"


class AtomicRedViewTko(CudaTileOp):
    """Since 13.3; `inbounds`, since 13.5, as in LoadViewTko."""

    name = "cuda_tile.atomic_red_view_tko"
    OPERANDS = "view index* value token?"
    RESULTS = "result_token"
    ATTRS = "memory_ordering_semantics memory_scope mode inbounds?"


class GdcLaunchDependentsTko(CudaTileOp):
    """Since 13.4."""

    name = "cuda_tile.gdc_launch_dependents_tko"
    OPERANDS = "token?"
    RESULTS = "result_token"


class GdcWaitTko(CudaTileOp):
    """Since 13.4."""

    name = "cuda_tile.gdc_wait_tko"
    OPERANDS = "token?"
    RESULTS = "result_token"


class GetGlobal(CudaTileOp):
    """Its attribute `name`, a SymbolRefAttr, is read by `symbol`."""

    name = "cuda_tile.get_global"
    RESULTS = "result"
    ATTRS = "name"
    PURE = True

    @property
    def symbol(self) -> str:
        """The name of the global."""
        return self.properties["name"].root_reference.data  # type: ignore[attr-defined]


class GetIndexSpaceShape(CudaTileOp):
    name = "cuda_tile.get_index_space_shape"
    OPERANDS = "src"
    RESULTS = "result*"
    PURE = True


class GetTensorShape(CudaTileOp):
    name = "cuda_tile.get_tensor_shape"
    OPERANDS = "src"
    RESULTS = "result*"
    PURE = True


class JoinTokens(CudaTileOp):
    name = "cuda_tile.join_tokens"
    OPERANDS = "tokens*"
    RESULTS = "result"
    PURE = True


class LoadPtrTko(CudaTileOp):
    name = "cuda_tile.load_ptr_tko"
    OPERANDS = "source mask? paddingValue? token?"
    RESULTS = "result result_token"
    ATTRS = "memory_ordering_semantics memory_scope? optimization_hints?"


class LoadViewTko(CudaTileOp):
    """`inbounds`, since 13.4, is an i1 DenseArrayBase with one flag a view dimension; absent before and where empty."""

    name = "cuda_tile.load_view_tko"
    OPERANDS = "view index* token?"
    RESULTS = "tile result_token"
    ATTRS = "memory_ordering_semantics memory_scope? optimization_hints? inbounds?"


class MakeGatherScatterView(CudaTileOp):
    """Since 13.3."""

    name = "cuda_tile.make_gather_scatter_view"
    OPERANDS = "tensor_view"
    RESULTS = "result"
    PURE = True


class MakePartitionView(CudaTileOp):
    name = "cuda_tile.make_partition_view"
    OPERANDS = "tensor_view"
    RESULTS = "result"
    PURE = True


class MakeStridedView(CudaTileOp):
    """Since 13.3."""

    name = "cuda_tile.make_strided_view"
    OPERANDS = "tensor_view"
    RESULTS = "result"
    PURE = True


class MakeTensorView(CudaTileOp):
    name = "cuda_tile.make_tensor_view"
    OPERANDS = "base dynamicShape* dynamicStrides*"
    RESULTS = "result"
    PURE = True


class MakeToken(CudaTileOp):
    name = "cuda_tile.make_token"
    RESULTS = "result"
    PURE = True


class MemoryFenceAliasTko(CudaTileOp):
    """Since 13.4."""

    name = "cuda_tile.memory_fence_alias_tko"
    OPERANDS = "token"
    RESULTS = "result_token"


class MultimemLoadReduceViewTko(CudaTileOp):
    """Since 13.5; `inbounds` as in LoadViewTko."""

    name = "cuda_tile.multimem_load_reduce_view_tko"
    OPERANDS = "view index* token?"
    RESULTS = "reduced_values result_token"
    ATTRS = "memory_ordering_semantics memory_scope? reduction inbounds?"


class MultimemReduceViewTko(CudaTileOp):
    """Since 13.5; `inbounds` as in LoadViewTko."""

    name = "cuda_tile.multimem_reduce_view_tko"
    OPERANDS = "view tile index* token?"
    RESULTS = "result_token"
    ATTRS = "memory_ordering_semantics memory_scope reduction inbounds?"


class MultimemStoreViewTko(CudaTileOp):
    """Since 13.5; `inbounds` as in LoadViewTko."""

    name = "cuda_tile.multimem_store_view_tko"
    OPERANDS = "view tile index* token?"
    RESULTS = "result_token"
    ATTRS = "memory_ordering_semantics memory_scope? inbounds?"


class Offset(CudaTileOp):
    name = "cuda_tile.offset"
    OPERANDS = "ptr offset"
    RESULTS = "result"
    PURE = True


class StorePtrTko(CudaTileOp):
    name = "cuda_tile.store_ptr_tko"
    OPERANDS = "destination value mask? token?"
    RESULTS = "result_token"
    ATTRS = "memory_ordering_semantics memory_scope? optimization_hints?"


class StoreViewTko(CudaTileOp):
    """`inbounds` as in LoadViewTko."""

    name = "cuda_tile.store_view_tko"
    OPERANDS = "tile view index* token?"
    RESULTS = "result_token"
    ATTRS = "memory_ordering_semantics memory_scope? optimization_hints? inbounds?"


OPS: tuple[type[CudaTileOp], ...] = (
    Alloca, AtomicCASTko, AtomicRMWTko, AtomicRedViewTko, GdcLaunchDependentsTko, GdcWaitTko, GetGlobal,
    GetIndexSpaceShape, GetTensorShape, JoinTokens, LoadPtrTko, LoadViewTko, MakeGatherScatterView, MakePartitionView,
    MakeStridedView, MakeTensorView, MakeToken, MemoryFenceAliasTko, Offset, StorePtrTko, StoreViewTko,
)

DEVELOPMENT_OPS: tuple[type[CudaTileOp], ...] = (MultimemLoadReduceViewTko, MultimemReduceViewTko, MultimemStoreViewTko)
"""Read and written, but without a text form: no program with them is valid."""
