"""How element-wise ops lower: one arith or math op each, chosen by the signedness or rounding attribute.

    cuda_tile.divi %a, %b signed rounding<negative_inf>   ->   arith.floordivsi %a, %b
    cuda_tile.addf %a, %b rounding<zero> flush_to_zero    ->   arith.addf %a, %b {rounding = "zero", ftz}
"""
from __future__ import annotations

from typing import Any

from tileiras.conversion.cudatile_to_tileaa.converter import LOWERINGS, UNIT, CudaTileConverter, lowers
from tileiras.conversion.cudatile_to_tileaa.types import text
from tileiras.dialects import arith
from tileiras.dialects.base import TileOp

OVERFLOW = {"no_signed_wrap": "nsw", "no_unsigned_wrap": "nuw", "no_wrap": "nsw_nuw"}
"""Public overflow mnemonics as arith's; "none" carries no attribute."""

# --- ops with nothing but operands, and those whose attributes map one to one -------------------------------------

PLAIN: dict[str, type[TileOp]] = {
    "absf": arith.Absf, "absi": arith.Absi, "andi": arith.Andi, "atan2": arith.Atan2, "bitcast": arith.Bitcast,
    "ceil": arith.Ceil, "cos": arith.Cos, "cosh": arith.Cosh, "floor": arith.Floor, "fpowi": arith.Fpowi,
    "log": arith.Log, "log2": arith.Log2, "mulhii": arith.Mulhiui, "negf": arith.Negf, "ori": arith.Ori,
    "pow": arith.Pow, "remf": arith.Remf, "select": arith.Select, "sin": arith.Sin, "sinh": arith.Sinh,
    "tan": arith.Tan, "xori": arith.Xori,
}

FLOAT: dict[str, type[TileOp]] = {
    "addf": arith.Addf, "subf": arith.Subf, "mulf": arith.Mulf, "divf": arith.Divf, "fma": arith.Fma, "exp": arith.Exp,
    "exp2": arith.Exp2, "sqrt": arith.Sqrt, "rsqrt": arith.Rsqrt, "tanh": arith.Tanh, "ftof": arith.Convertf,
}

MIN_MAX_FLOAT: dict[str, type[TileOp]] = {"maxf": arith.Maxf, "minf": arith.Minf}

WRAPPING: dict[str, type[TileOp]] = {
    "addi": arith.Addi, "subi": arith.Subi, "muli": arith.Muli, "shli": arith.Shli, "negi": arith.Negi,
    "trunci": arith.Trunci,
}

SIGNED: dict[str, tuple[type[TileOp], type[TileOp]]] = {
    "maxi": (arith.Maxsi, arith.Maxui), "mini": (arith.Minsi, arith.Minui), "remi": (arith.Remsi, arith.Remui),
    "shri": (arith.Shrsi, arith.Shrui), "exti": (arith.Extsi, arith.Extui),
}
"""By mnemonic, the op for signed and the one for unsigned operands."""


def lower_plain(cv: CudaTileConverter, op: Any) -> None:
    cv.replace(op, PLAIN[op.name[10:]], cv.get_all(op.operands))


def lower_float(cv: CudaTileConverter, op: Any) -> None:
    attrs: dict[str, Any] = {}
    rounding = op.properties.get("rounding_mode")
    if rounding is not None:
        attrs["rounding"] = text(rounding.value)
    if "flush_to_zero" in op.properties:
        attrs["ftz"] = UNIT
    cv.replace(op, FLOAT[op.name[10:]], cv.get_all(op.operands), attrs)


def lower_min_max_float(cv: CudaTileConverter, op: Any) -> None:
    attrs: dict[str, Any] = {}
    if "propagate_nan" in op.properties:
        attrs["nan"] = UNIT
    if "flush_to_zero" in op.properties:
        attrs["ftz"] = UNIT
    cv.replace(op, MIN_MAX_FLOAT[op.name[10:]], cv.get_all(op.operands), attrs)


def lower_wrapping(cv: CudaTileConverter, op: Any) -> None:
    overflow = op.properties.get("overflow")
    word = OVERFLOW.get(overflow.value) if overflow is not None else None
    cv.replace(op, WRAPPING[op.name[10:]], cv.get_all(op.operands), {"overflow": text(word)} if word else None)


def lower_signed(cv: CudaTileConverter, op: Any) -> None:
    signed, unsigned = SIGNED[op.name[10:]]
    cv.replace(op, signed if op.signedness.value == "signed" else unsigned, cv.get_all(op.operands))


for _table, _function in ((PLAIN, lower_plain), (FLOAT, lower_float), (MIN_MAX_FLOAT, lower_min_max_float),
                          (WRAPPING, lower_wrapping), (SIGNED, lower_signed)):
    for _mnemonic in _table:
        LOWERINGS[f"cuda_tile.{_mnemonic}"] = _function

# --- division, comparison, conversion between integers and floats -------------------------------------------------

DIVISION: dict[tuple[str, str], type[TileOp]] = {
    ("signed", "zero"): arith.Divsi, ("signed", "negative_inf"): arith.FloorDivsi,
    ("signed", "positive_inf"): arith.CeilDivsi, ("unsigned", "zero"): arith.Divui,
    ("unsigned", "positive_inf"): arith.CeilDivui,
}


@lowers("divi")
def lower_divi(cv: CudaTileConverter, op: Any) -> None:
    rounding = op.properties.get("rounding")
    key = (op.signedness.value, "zero" if rounding is None else rounding.value)
    cls = DIVISION.get(key)
    if cls is None:
        raise cv.error(f"'cuda_tile.divi' op has no meaning with rounding '{key[1]}' on {key[0]} integers")
    cv.replace(op, cls, cv.get_all(op.operands))


PREDICATES = {"equal": "eq", "not_equal": "ne", "less_than": "lt", "less_than_or_equal": "le", "greater_than": "gt",
              "greater_than_or_equal": "ge"}


@lowers("cmpi")
def lower_cmpi(cv: CudaTileConverter, op: Any) -> None:
    word = PREDICATES[op.comparison_predicate.value]
    if word not in ("eq", "ne"):
        word = ("s" if op.signedness.value == "signed" else "u") + word
    cv.replace(op, arith.Cmpi, cv.get_all(op.operands), {"predicate": text(word)})


@lowers("cmpf")
def lower_cmpf(cv: CudaTileConverter, op: Any) -> None:
    ordering = "o" if op.comparison_ordering.value == "ordered" else "u"
    cv.replace(op, arith.Cmpf, cv.get_all(op.operands),
               {"predicate": text(ordering + PREDICATES[op.comparison_predicate.value])})


@lowers("itof")
def lower_itof(cv: CudaTileConverter, op: Any) -> None:
    cls = arith.Sitofp if op.signedness.value == "signed" else arith.Uitofp
    cv.replace(op, cls, cv.get_all(op.operands), {"rounding": text(op.rounding_mode.value)})


@lowers("ftoi")
def lower_ftoi(cv: CudaTileConverter, op: Any) -> None:
    cls = arith.Fptosi if op.signedness.value == "signed" else arith.Fptoui
    attrs: dict[str, Any] = {"rounding": text(op.rounding_mode.value)}
    if "saturating" in op.properties:
        attrs["saturating"] = UNIT
    cv.replace(op, cls, cv.get_all(op.operands), attrs)
