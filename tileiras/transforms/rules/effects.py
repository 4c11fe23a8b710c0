"""Masks that are constant; atomics that change nothing; facts about constants and splats; tokens joined twice."""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.base import OPERAND_SEGMENTS
from tileiras.transforms.rules import build, constant_attr, element_type, int_constant, int_splat, int_width, rule

UNORDERED = ("weak", "relaxed")
"""Accesses that order nothing but themselves."""
UNCHANGED = {"add": 0, "or": 0, "xor": 0, "umax": 0, "and": -1, "umin": -1}
"""Mode of an atomic on integers -> the operand that leaves what is there; of signed extremes it is the other extreme."""


@rule("nv_tileaa.load", "nv_tileaa.store", "nv_tileaa.atomic_rmw", "nv_tileaa.atomic_cas")
def fold_mask(op: Operation) -> SSAValue | None:
    """Behind an empty mask nothing is accessed; a full one says nothing; an atomic that changes nothing and whose result nobody
    reads isn't needed."""
    mask = op.mask  # type: ignore[attr-defined]
    full = int_constant(mask) if mask is not None else None
    if full == 0 and op.name != "nv_tileaa.atomic_rmw" and op.name != "nv_tileaa.atomic_cas":
        return _without_access(op)
    if op.name in ("nv_tileaa.atomic_rmw", "nv_tileaa.atomic_cas") and _changes_nothing(op):
        op.results[1].replace_all_uses_with(_token_before(op))
        return op.source  # type: ignore[attr-defined]
    return _drop_full_mask(op) if full == 1 else None


def _semantic(op: Operation) -> str:
    return op.properties["mem_semantic"].data  # type: ignore[attr-defined]


def _token_before(op: Operation) -> SSAValue:
    """What an access waits for."""
    token: SSAValue | None = op.token  # type: ignore[attr-defined]
    return token if token is not None else build(op, aa.CreateMemToken, (), op.results[-1].type)


def _without_access(op: Operation) -> SSAValue | None:
    """For a load what it gives where the mask doesn't hold, for a store what it waits for."""
    if _semantic(op) not in UNORDERED:
        return None
    if op.name == "nv_tileaa.store":
        return _token_before(op)
    other: SSAValue | None = op.other  # type: ignore[attr-defined]
    if other is not None:
        op.results[1].replace_all_uses_with(_token_before(op))
    return other


def _changes_nothing(op: Operation) -> bool:
    if op.results[0].first_use is not None or _semantic(op) not in UNORDERED:
        return False
    source: SSAValue = op.source  # type: ignore[attr-defined]
    if op.name == "nv_tileaa.atomic_cas":
        compare: SSAValue = op.compare  # type: ignore[attr-defined]
        known = constant_attr(source)
        return compare is source or (known is not None and constant_attr(compare) == known)
    mode = op.properties["rmw_mode"].data  # type: ignore[attr-defined]
    half = 1 << int_width(source.type) - 1 if int_width(source.type) else 0
    left = {"max": -half, "min": half - 1}.get(mode, UNCHANGED.get(mode))
    return left is not None and int_constant(source) == left


def _drop_full_mask(op: Operation) -> None:
    """A mask of ones, and the value that a load gives elsewhere, go."""
    names = [f.name for f in type(op).operand_fields]  # type: ignore[attr-defined]
    sizes = list(op.properties[OPERAND_SEGMENTS].get_values())  # type: ignore[attr-defined]
    operands: list[SSAValue] = []
    rest = iter(op.operands)
    for i, name in enumerate(names):
        values = [next(rest) for _ in range(sizes[i])]
        if name in ("mask", "other"):
            sizes[i] = 0
        else:
            operands += values
    op.operands = operands
    op.properties[OPERAND_SEGMENTS] = DenseArrayBase.from_list(i32, sizes)


@rule("nv_tileaa.dot")
def fold_dot(op: Operation) -> SSAValue | None:
    """Integers times zeros add nothing; equal ones times equal ones the same everywhere. (Floats may: infinities and NaN.) Numbers
    of 16 bits that were widened to tf32 are multiplied as they were."""
    lhs, rhs, acc = op.operands
    if getattr(element_type(lhs.type), "name", "") == "tf32":
        from tileiras.transforms.rules.products import multiply_as_loaded  # few kernels have such products
        return multiply_as_loaded(op)
    factors = int_constant(lhs), int_constant(rhs)
    if 0 in factors:
        return acc
    if None in factors:
        return None
    product = lhs.type.get_shape()[-1]  # type: ignore[attr-defined]
    for factor, v, side in zip(factors, (lhs, rhs), ("lhs", "rhs")):
        signed: Any = op.properties.get(f"signedness_{side}")
        product *= factor if signed is None or signed.data == "signed" else factor % (1 << int_width(v.type))  # type: ignore
    return build(op, arith.Addi, (acc, int_splat(op, acc.type, product)), acc.type)


@rule("nv_tileaa.assume")
def drop_idle_assume(op: Operation) -> SSAValue | None:
    """A fact about a constant says nothing new; the same fact twice says it once."""
    source = op.operands[0]
    if constant_attr(source) is not None:
        return source
    inner = source.owner
    while isinstance(inner, aa.Assume):
        if inner.properties["fact"] == op.properties["fact"]:
            return source
        inner = inner.operands[0].owner
    owner = source.owner
    if isinstance(owner, aa.Splat) and _is_of_each(op.properties["fact"]):
        known = build(op, aa.Assume, owner.operands, owner.operands[0].type, op.properties)
        return build(op, aa.Splat, (known,), op.results[0].type)
    return None


def _is_of_each(fact: Any) -> bool:
    """Whether a fact is about every element by itself."""
    return fact.kind.data == "bounded" or (fact.kind.data == "div_by" and fact.values.data[1].data < 0)


@rule("nv_tileaa.join_mem_token")
def join_once(op: Operation) -> SSAValue | None:
    """Each token once; a fresh token orders nothing; of one token nothing is left to join."""
    tokens = list(dict.fromkeys(op.operands))
    ordering = [t for t in tokens if not isinstance(t.owner, aa.CreateMemToken)]
    tokens = ordering or tokens[:1]
    if len(tokens) == 1:
        return tokens[0]
    if len(tokens) != len(op.operands):
        op.operands = tokens
    return None
