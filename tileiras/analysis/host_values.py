"""Which values of a kernel are functions of its parameters? Their recipes (host/recipe.py), which code of the launch follows.

    %n = arith.addi %arg2, 63        ->      zext32(add(u32(p2), 63))

An integer of N bits is a recipe whose 64 bits above N are zero; a pointer is its address. Loads, grid ids and values that
loops or branches carry have no recipe.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import BlockArgument, Operation, SSAValue

from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileaa import PtrType
from tileiras.host.recipe import BITS, Const, Expr, Param, apply, choose, extend

MAX_OPS = 32
"""Ops that a recipe is made of, at most: what a launch computes anew each time is short."""

BYTE = 8

_WRAPPING = {"arith.addi": "add", "arith.subi": "sub", "arith.muli": "mul", "arith.andi": "and", "arith.ori": "or",
             "arith.xori": "xor", "arith.shli": "shl", "arith.shrui": "lshr", "arith.minui": "umin", "arith.maxui": "umax"}
"""Right on operands extended by zeros, once the result is cut to its width."""
_SIGNED = {"arith.minsi": "smin", "arith.maxsi": "smax", "arith.shrsi": "ashr"}
_PREDICATES: dict[str, tuple[str, bool, bool]] = {
    "eq": ("eq", False, False), "ne": ("ne", False, False), "ult": ("ult", False, False), "ule": ("ule", False, False),
    "ugt": ("ult", False, True), "uge": ("ule", False, True), "slt": ("slt", True, False), "sle": ("sle", True, False),
    "sgt": ("slt", True, True), "sge": ("sle", True, True)}
"""Predicate -> (comparison, of signed operands, with its sides exchanged)."""


def host_value(value: SSAValue) -> Expr | None:
    """The recipe of a scalar integer or pointer, None if it isn't a function of the kernel's parameters (or a long one)."""
    return _Recipe().of(value)


class _Recipe:
    def __init__(self) -> None:
        self.left = MAX_OPS

    def of(self, value: SSAValue) -> Expr | None:
        if isinstance(value, BlockArgument):
            func: Any = value.owner.parent_op()
            if func is None or not func.name.endswith(".func") or _bits(value) < BYTE:
                return None
            return Param(value.index, _bits(value))
        op = value.owner
        assert isinstance(op, Operation)
        self.left -= 1
        if self.left < 0:
            return None
        rule = _RULES.get(op.name.partition(".")[2]) if op.name.startswith("nv_tile") else _arith_rule(op.name)
        return None if rule is None else rule(self, op)

    def signed(self, value: SSAValue) -> Expr | None:
        """The value extended by its sign."""
        found = self.of(value)
        return None if found is None else _sign(found, _bits(value))


def _bits(value: SSAValue) -> int:
    return value.type.width.data if isinstance(value.type, IntegerType) else BITS


def _sign(expr: Expr, bits: int) -> Expr:
    if isinstance(expr, Param) and expr.bits == bits:
        return Param(expr.index, bits, bits < BITS)
    return extend(expr, bits, True)


def _two(operation: str, lhs: Expr | None, rhs: Expr | None, bits: int) -> Expr | None:
    return None if lhs is None or rhs is None else extend(apply(operation, lhs, rhs), bits)


def _same(recipe: _Recipe, op: Any) -> Expr | None:
    return recipe.of(op.operands[0])


def _constant(recipe: _Recipe, op: Any) -> Expr | None:
    value: int = getattr(getattr(op.value, "value", None), "data", None)  # type: ignore[assignment]
    return extend(Const(value), _bits(op.results[0])) if isinstance(value, int) else None


def _sext(recipe: _Recipe, op: Any) -> Expr | None:
    found = recipe.signed(op.operands[0])
    return None if found is None else extend(found, _bits(op.results[0]))


def _trunc(recipe: _Recipe, op: Any) -> Expr | None:
    found = recipe.of(op.operands[0])
    return None if found is None else extend(found, _bits(op.results[0]))


def _compare(recipe: _Recipe, op: Any) -> Expr | None:
    operation, is_signed, swapped = _PREDICATES[op.predicate.data]
    sides = [recipe.signed(v) if is_signed else recipe.of(v) for v in op.operands]
    return _two(operation, *(reversed(sides) if swapped else sides), BITS)  # type: ignore[arg-type]


def _select(recipe: _Recipe, op: Any) -> Expr | None:
    condition, lhs, rhs = (recipe.of(v) for v in op.operands)
    return None if condition is None or lhs is None or rhs is None else choose(condition, lhs, rhs)


def _negate(recipe: _Recipe, op: Any) -> Expr | None:
    return _two("sub", Const(0), recipe.of(op.operands[0]), _bits(op.results[0]))


def _addptr(recipe: _Recipe, op: Any) -> Expr | None:
    t = op.operands[0].type
    if not isinstance(t, PtrType):
        return None
    offset = _two("mul", recipe.signed(op.operands[1]), Const(element_bytes(t.pointee)), BITS)
    return _two("add", recipe.of(op.operands[0]), offset, BITS)


_Rule = Callable[[_Recipe, Any], "Expr | None"]
_RULES: dict[str, _Rule] = {"assume": _same, "ptr_to_ptr": _same, "int_to_ptr": _same, "ptr_to_int": _same, "addptr": _addptr}
_ARITH: dict[str, _Rule] = {"arith.constant": _constant, "arith.extui": _same, "arith.extsi": _sext, "arith.trunci": _trunc,
                            "arith.cmpi": _compare, "arith.select": _select, "arith.negi": _negate}


def _arith_rule(name: str) -> _Rule | None:
    if name in _WRAPPING:
        return lambda recipe, op: _two(_WRAPPING[name], recipe.of(op.operands[0]), recipe.of(op.operands[1]), _bits(op.results[0]))
    if name in _SIGNED:
        second = _Recipe.of if name == "arith.shrsi" else _Recipe.signed
        return lambda recipe, op: _two(_SIGNED[name], recipe.signed(op.operands[0]), second(recipe, op.operands[1]),
                                       _bits(op.results[0]))
    return _ARITH.get(name)
