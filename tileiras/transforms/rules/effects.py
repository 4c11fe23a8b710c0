"""Masks that are constant; branches on constants; facts about constants; tokens joined twice."""
from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.base import OPERAND_SEGMENTS
from tileiras.transforms.rules import constant_attr, int_constant, rule


@rule("nv_tileaa.load", "nv_tileaa.store", "nv_tileaa.atomic_rmw", "nv_tileaa.atomic_cas")
def drop_full_mask(op: Operation) -> SSAValue | None:
    """A mask of ones, and the value that a load gives elsewhere, go."""
    mask = op.mask  # type: ignore[attr-defined]
    if mask is None or int_constant(mask) != 1:
        return None
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
    return None


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
    return None


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
