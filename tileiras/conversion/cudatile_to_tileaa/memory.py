"""How memory ops lower: pointers, loads and stores, atomics, tokens. Every op keeps its token operand and result.

    load_ptr_tko weak %p, %mask, %pad token=%t   ->   nv_tileaa.load(%p, %mask, %pad, %t) {mem_semantic = "weak"}
    join_tokens %a                               ->   %a
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import DictionaryAttr, IntegerType, SymbolRefAttr
from xdsl.ir import Attribute

from tileiras.conversion.cudatile_to_tileaa.converter import LOWERINGS, CudaTileConverter, lowers
from tileiras.conversion.cudatile_to_tileaa.types import MEM_TOKEN, convert_type, text
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.base import TileOp

PLAIN: dict[str, type[TileOp]] = {
    "offset": aa.Addptr, "int_to_ptr": aa.IntToPtr, "ptr_to_int": aa.PtrToInt, "ptr_to_ptr": aa.PtrToPtr,
    "make_token": aa.CreateMemToken, "gdc_wait_tko": aa.GdcWait, "gdc_launch_dependents_tko": aa.GdcLaunchDependents,
    "memory_fence_alias_tko": aa.FenceAlias,
}


def lower_plain(cv: CudaTileConverter, op: Any) -> None:
    cv.replace(op, PLAIN[op.name[10:]], cv.get_all(op.operands))


for _mnemonic in PLAIN:
    LOWERINGS[f"cuda_tile.{_mnemonic}"] = lower_plain


def ordering(op: Any) -> dict[str, Attribute | None]:
    """`mem_semantic` and, unless weak, `mem_scope`."""
    semantics, scope = op.memory_ordering_semantics, op.memory_scope
    return {"mem_semantic": text(semantics.value), "mem_scope": None if scope is None else text(scope.value)}


def hints(cv: CudaTileConverter, op: Any, *names: str) -> dict[str, Attribute | None]:
    """Those optimization hints of a load or store that hold for the target."""
    found = op.properties.get("optimization_hints")
    if found is None:
        return {}
    for_target = found.for_target(cv.gpu_name)
    return {name: for_target.get(name) for name in names}


def entry_hints(cv: CudaTileConverter, op: Any) -> DictionaryAttr | None:
    """The entry's optimization hints for the target, or None."""
    found = op.properties.get("optimization_hints")
    if found is None:
        return None
    for_target = found.for_target(cv.gpu_name)
    return DictionaryAttr(dict(for_target)) if for_target else None


@lowers("load_ptr_tko")
def lower_load(cv: CudaTileConverter, op: Any) -> None:
    mask, padding = op.mask, op.paddingValue
    new = cv.emit_groups(aa.Load, (cv.get(op.source), cv.opt(mask), cv.opt(padding), cv.opt(op.token)),
                         (convert_type(op.results[0].type), MEM_TOKEN), {**ordering(op), **hints(cv, op, "latency")})
    cv.bind_results(op, new)


@lowers("store_ptr_tko")
def lower_store(cv: CudaTileConverter, op: Any) -> None:
    new = cv.emit_groups(aa.Store, (cv.get(op.destination), cv.get(op.value), cv.opt(op.mask), cv.opt(op.token)),
                         (MEM_TOKEN,), {**ordering(op), **hints(cv, op, "latency")})
    cv.bind_results(op, new)


@lowers("atomic_rmw_tko")
def lower_atomic_rmw(cv: CudaTileConverter, op: Any) -> None:
    new = cv.emit_groups(aa.AtomicRmw, (cv.get(op.pointers), cv.get(op.arg), cv.opt(op.mask), cv.opt(op.token)),
                         (convert_type(op.results[0].type), MEM_TOKEN),
                         {"rmw_mode": text(op.mode.value), **ordering(op)})
    cv.bind_results(op, new)


@lowers("atomic_cas_tko")
def lower_atomic_cas(cv: CudaTileConverter, op: Any) -> None:
    new = cv.emit_groups(aa.AtomicCas, (cv.get(op.pointers), cv.get(op.cmp), cv.get(op.val), cv.opt(op.mask),
                                        cv.opt(op.token)),
                         (convert_type(op.results[0].type), MEM_TOKEN), ordering(op))
    cv.bind_results(op, new)


@lowers("join_tokens")
def lower_join_tokens(cv: CudaTileConverter, op: Any) -> None:
    tokens = list(dict.fromkeys(cv.get_all(op.operands)))
    if len(tokens) == 1:
        cv.bind(op.results[0], tokens[0])
        return
    cls: type[TileOp] = aa.JoinMemToken if tokens else aa.CreateMemToken
    cv.replace(op, cls, tokens)


@lowers("get_global")
def lower_get_global(cv: CudaTileConverter, op: Any) -> None:
    cv.replace(op, aa.GetGlobal, (), {"symbol": SymbolRefAttr(op.symbol)})


@lowers("alloca")
def lower_alloca(cv: CudaTileConverter, op: Any) -> None:
    attrs = {"num_elem": op.num_elem, "alignment": op.alignment}
    if "global" in op.properties:
        attrs["global"] = op.properties["global"]
    cv.replace(op, aa.Alloca, (), attrs)


def widened(cv: CudaTileConverter, value: Any, width: int, signed: bool = False) -> Any:
    """An integer scalar extended or truncated to `width` bits; extents and indices are not negative."""
    from tileiras.dialects import arith
    have = value.type.width.data
    if have == width:
        return value
    cls = arith.Trunci if have > width else arith.Extsi if signed else arith.Extui
    return cv.emit(cls, (value,), (IntegerType(width),)).results[0]
