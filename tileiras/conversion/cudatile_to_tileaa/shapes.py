"""How ops on shapes, the grid and assumptions lower.

    reshape tile<T> -> tile<1x1xT>      nv_tileaa.splat        reshape tile<1xT> -> tile<T>     nv_tileaa.view
    reshape between ranks 1 and up      nv_tileaa.view         any of them without a change     nothing
"""
from __future__ import annotations

from functools import lru_cache
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, NoneAttr, TensorType
from xdsl.ir import Attribute

from tileiras.conversion.cudatile_to_tileaa.converter import LOWERINGS, CudaTileConverter, lowers
from tileiras.conversion.cudatile_to_tileaa.types import convert_type, int_attr, ints, text
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.base import TileOp
from tileiras.dialects.cuda_tile.attrs import BoundedAttr, DivByAttr, SameElementsAttr

ABSENT = -1
"""`every` and `along` of a div_by fact that says nothing of them."""

RENAMED: dict[str, type[TileOp]] = {
    "iota": aa.MakeRange, "get_tile_block_id": aa.GetProgramId, "get_num_tile_blocks": aa.GetNumPrograms,
    "pack": aa.Pack, "unpack": aa.Unpack,
}


def lower_renamed(cv: CudaTileConverter, op: Any) -> None:
    cv.replace(op, RENAMED[op.name[10:]], cv.get_all(op.operands))


for _mnemonic in RENAMED:
    LOWERINGS[f"cuda_tile.{_mnemonic}"] = lower_renamed


@lowers("reshape", "broadcast")
def lower_reshape(cv: CudaTileConverter, op: Any) -> None:
    source = cv.get(op.operands[0])
    result_type = convert_type(op.results[0].type)
    if source.type == result_type:
        cv.bind(op.results[0], source)
        return
    if not isinstance(source.type, TensorType):
        cls: type[TileOp] = aa.Splat
    elif op.name == "cuda_tile.reshape":
        cls = aa.View
    elif isinstance(source.owner, aa.Splat):
        cls, source = aa.Splat, source.owner.operands[0]
    else:
        cls = aa.Broadcast
    cv.bind(op.results[0], cv.emit(cls, (source,), (result_type,)).results[0])


@lowers("permute")
def lower_permute(cv: CudaTileConverter, op: Any) -> None:
    permutation = op.permutation.get_values()
    if tuple(permutation) == tuple(range(len(permutation))):
        cv.bind(op.results[0], cv.get(op.operands[0]))
        return
    cv.replace(op, aa.Permute, cv.get_all(op.operands), {"permutation": ints(permutation)})


@lowers("cat")
def lower_cat(cv: CudaTileConverter, op: Any) -> None:
    cv.replace(op, aa.Cat, cv.get_all(op.operands), {"dim": op.dim})


@lowers("extract")
def lower_extract(cv: CudaTileConverter, op: Any) -> None:
    source = cv.get(op.source)
    if source.type == convert_type(op.results[0].type):
        cv.bind(op.results[0], source)
        return
    cv.replace(op, aa.Extract, cv.get_all(op.operands))


@lowers("insert")
def lower_insert(cv: CudaTileConverter, op: Any) -> None:
    source = cv.get(op.source)
    if source.type == convert_type(op.results[0].type):
        cv.bind(op.results[0], source)
        return
    cv.replace(op, aa.Insert, cv.get_all(op.operands))


@lru_cache(maxsize=256)
def fact(predicate: Any) -> aa.AssumeAttr | None:
    """A cuda_tile assume predicate as nv_tileaa's."""
    if isinstance(predicate, DivByAttr):
        every = ABSENT if predicate.every is None else predicate.every
        along = ABSENT if predicate.along is None else predicate.along
        return aa.AssumeAttr(text("div_by"), ints((predicate.divisor, every, along)))
    if isinstance(predicate, SameElementsAttr):
        return aa.AssumeAttr(text("same_elements"), ints(predicate.values))
    if isinstance(predicate, BoundedAttr):
        bounds: list[Attribute] = [NoneAttr() if b is None else int_attr(b) for b in (predicate.lb, predicate.ub)]
        return aa.AssumeAttr(text("bounded"), ArrayAttr(bounds))  # type: ignore[arg-type]
    return None


@lowers("assume")
def lower_assume(cv: CudaTileConverter, op: Any) -> None:
    """A fact of a tensor view is one of its base pointer: the memref is made anew from the assumed pointer."""
    source, what = cv.get(op.operands[0]), fact(op.predicate)
    if what is None:
        cv.bind(op.results[0], source)
        return
    if isinstance(source.type, aa.MemRefType):
        memref = source.owner
        assert isinstance(memref, aa.MakeMemref)
        base = memref.operands[0]
        base = cv.emit(aa.Assume, (base,), (base.type,), {"fact": what}).results[0]
        made = cv.emit(aa.MakeMemref, (base, *memref.operands[1:]), (source.type,), memref.properties)
        cv.bind(op.results[0], made.results[0])
        return
    cv.bind(op.results[0], cv.emit(aa.Assume, (source,), (source.type,), {"fact": what}).results[0])
