"""Whether IR below cuda_tile keeps the rules of its level: `verify_module(module)`, `verify_op(op)`.

An op is held to its declaration (what every operand, result and attribute may be, which of them have one type or one
shape: base.py, kinds.py), then to the rule that its dialect's own file has for it (verify_tileaa.py and its neighbours).
A module is held besides to what no op can see alone: `verify_structure.py`. Errors are `InvalidOp`: they know the op.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

from xdsl.dialects.builtin import TensorType, VectorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.base import OPERAND_SEGMENTS, RESULT_SEGMENTS, Field, TileOp
from tileiras.dialects.cuda_tile.op import CudaTileOp
from tileiras.dialects.cuda_tile.verify_error import InvalidOp
from tileiras.dialects.kinds import ATTRIBUTE_KINDS, KINDS
from tileiras.dialects.verify_types import check_type

Rule = Callable[[Any], None]

RULES: dict[str, str] = {
    "arith": "tileiras.dialects.verify_arith", "math": "tileiras.dialects.verify_arith",
    "scf": "tileiras.dialects.verify_arith", "nv_tileaa": "tileiras.dialects.verify_tileaa",
    "nv_tileas": "tileiras.dialects.verify_tileas", "llvm": "tileiras.dialects.verify_llvm",
    **dict.fromkeys(("cute", "cute_nvgpu", "cutlass"), "tileiras.dialects.verify_cute"),
}
"""By dialect, the module whose `OP_RULES` (by op name) say what declarations can't."""


def verify_module(module: Operation) -> None:
    """Raise InvalidOp for the first op of a module that breaks a rule."""
    if module.name == "cuda_tile.module":
        from tileiras.dialects.cuda_tile import verify as cuda_tile

        cuda_tile.verify_module(module)
        return
    from tileiras.dialects.verify_structure import check_structure

    for op in module.walk():
        if op is not module:
            check_op(op)
    check_structure(module)


def check_op(op: Operation) -> None:
    """One op by itself, with its counts; ops inside aren't looked at. Raises InvalidOp."""
    try:
        if isinstance(op, TileOp):
            op.verify_()
        else:
            op.verify(verify_nested_ops=False)
    except InvalidOp:
        raise
    except VerifyException as error:
        raise InvalidOp(op, str(error), named=False) from error


def verify_op(op: TileOp) -> None:
    """An op of right counts: its types, its attributes, its rule. Raises InvalidOp."""
    if isinstance(op, CudaTileOp):
        return
    _check_values(op, "operand", op.operand_fields, op.operands, OPERAND_SEGMENTS)
    _check_values(op, "result", op.result_fields, op.results, RESULT_SEGMENTS)
    _check_regions(op)
    _check_attributes(op)
    if op.SAME:
        _check_same(op)
    if op.SAME_SHAPE:
        _check_same_shape(op)
    rule = _rules_of(op.name.partition(".")[0]).get(op.name)
    if rule is not None:
        rule(op)


@lru_cache(maxsize=64)
def _rules_of(dialect: str) -> dict[str, Rule]:
    return import_module(RULES[dialect]).OP_RULES if dialect in RULES else {}


def groups(op: Operation, fields: Sequence[Field], values: Sequence[SSAValue], segments: str) -> Iterator[tuple[Field, int]]:
    """(field, how many values it stands for) in order; counts are known to be right."""
    variable = [f for f in fields if f.many]
    if len(variable) > 1:
        sizes: Any = op.properties[segments]
        yield from zip(fields, sizes.get_values())
    else:
        rest = len(values) - (len(fields) - len(variable))
        yield from ((f, rest if f.many else 1) for f in fields)


def _check_values(op: TileOp, what: str, fields: Sequence[Field], values: Sequence[SSAValue], segments: str) -> None:
    at = 0
    for field, count in groups(op, fields, values, segments):
        kind = KINDS.get(field.kind)
        for i in range(at, at + count):
            problem = check_type(values[i].type)
            if problem is not None:
                raise InvalidOp(op, f"{what} #{i} ('{field.name}') has an invalid type '{values[i].type}': {problem}")
            if kind is not None and not kind.holds(values[i].type):
                raise InvalidOp(op, f"{what} #{i} ('{field.name}') must be {kind.words}, but got '{values[i].type}'")
        at += count


def _check_regions(op: TileOp) -> None:
    """`body:block`: exactly one block; `body:block?`: one or none; `body:block*`: regions of one block; `body:blocks`: any number
    but none."""
    for i, region in enumerate(op.regions):
        field = op.region_fields[min(i, len(op.region_fields) - 1)]
        count = len(region.blocks)
        if field.kind == "block" and count != 1 and not (field.many == "?" and count == 0):
            raise InvalidOp(op, f"region #{i} ('{field.name}') must have {'at most ' if field.many == '?' else ''}one block, "
                                f"but has {count}")
        if field.kind == "blocks" and not count:
            raise InvalidOp(op, f"region #{i} ('{field.name}') must have a block")


def _check_attributes(op: TileOp) -> None:
    known = {field.name: field for field in op.attr_fields}
    for name, value in op.properties.items():
        field = known.get(name)
        if field is None:
            if name not in (OPERAND_SEGMENTS, RESULT_SEGMENTS):
                raise InvalidOp(op, f"has no attribute '{name}'")
            continue
        kind = ATTRIBUTE_KINDS.get(field.kind)
        if kind is not None and not kind.holds(value):
            raise InvalidOp(op, f"attribute '{name}' must be {kind.words}, but is {value}")


def named_values(op: TileOp, names: str) -> Iterator[tuple[str, SSAValue]]:
    """(name, value) of the operands and results of these names, those that are there."""
    wanted = set(names.split())
    for fields, values, segments in ((op.operand_fields, op.operands, OPERAND_SEGMENTS),
                                     (op.result_fields, op.results, RESULT_SEGMENTS)):
        at = 0
        for field, count in groups(op, fields, values, segments):
            if field.name in wanted:
                yield from ((field.name, value) for value in values[at:at + count])
            at += count


def without_layout(t: Attribute) -> Attribute:
    """A tensor type without its encoding; any other type itself."""
    return TensorType(t.element_type, t.shape) if isinstance(t, TensorType) else t


def shape_of(t: Attribute) -> tuple[int, ...]:
    """A tensor's or vector's extents; none for a scalar."""
    return tuple(t.get_shape()) if isinstance(t, (TensorType, VectorType)) else ()


def _check_same(op: TileOp) -> None:
    first: tuple[str, SSAValue] | None = None
    for name, value in named_values(op, op.SAME):
        if first is None:
            first = name, value
        elif value.type != first[1].type and without_layout(value.type) != without_layout(first[1].type):
            raise InvalidOp(op, f"'{first[0]}' and '{name}' must have the same type, but have '{first[1].type}' and "
                                f"'{value.type}'")


def _check_same_shape(op: TileOp) -> None:
    first: tuple[str, SSAValue] | None = None
    for name, value in named_values(op, op.SAME_SHAPE):
        if first is None:
            first = name, value
        elif shape_of(value.type) != shape_of(first[1].type):
            raise InvalidOp(op, f"'{first[0]}' and '{name}' must have the same shape, but have '{first[1].type}' and "
                                f"'{value.type}'")
