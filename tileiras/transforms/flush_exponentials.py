"""`flush-exponentials`: the exponentials of a softmax are flushed to zero where nobody can tell.

    %n = reduce max %s ; %m = maxf %old, %n              %far = cmpf olt (%n + 64), %m
    %x = subf %s, (broadcast %m)                         %c = select %far, (%m - 32), %m
    %p = exp2 %x                                   ->    %x = subf %s, (broadcast %c)
    %f = convertf %p : f16                               %p = exp2 %x flushed ; %f = convertf %p
    %l = reduce add %p                                   %l = (reduce add %p) * (select %far, 2^-32, 1)

The machine's exponential flushes results below 2^-126; that they aren't takes four instructions more for each element. As f16 or
in eight bits they are zeros anyway. A row's sum has a term 2^(%n - %m): where that is 2^-64 at least, what was flushed is less
than 2^-50 of the sum, far less than its additions round. Other rows (their maximum is far below an earlier one) have exponentials
2^32 times as large: what is flushed then would be less than half of the least f32 (2^-158), what is converted is below 2^-32 and
so zero as before, and the sum is scaled back: it is rounded to a subnormal once, instead of each of its terms. In these rows the
difference may be rounded once more, by half a unit in the last place of %s at most. Where %m is the row's maximum itself nothing
is scaled.

What else uses %p would see what was flushed, bf16 as well (it goes down to 2^-133): then it stays as it is. But %p divided by its
sum, or multiplied by the sum's reciprocal, and then converted, is as good as converted if %m is the row's maximum: the sum is 1 at
least. Rows are scaled where the copy engine brings tiles: before those, shared memory bounds attention, and not the issue of
instructions (A100, 64 features, by the timing model: causal 0.99 of the speed, without a mask 0.87, 128 features 1.03).
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import FloatAttr, StringAttr, TensorType, UnitAttr, f32, i1
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.axis_info import shape_of
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.transforms.rules import attr_splat, build, float_constant, with_element

FARTHEST, LOWERED = 64.0, 32.0
"""By how much a row's maximum may be below what is subtracted, and by how much less is subtracted where it is farther below."""
COARSE = frozenset({"f16", "f8E4M3FN", "f8E5M2", "f4E2M1FN"})
"""Types whose least number is above 2^-26."""
LEAST_COLUMNS, LEAST_ALONE = 32, 256
"""Of a row that is lowered: some ops for each row have to pay. A product's factors are in four lanes a row, others in up to 32."""
LOWEST = -3.4028234663852886e38
"""Of f32: that of a maximum that begins with more may be more than those of the numbers."""


@dataclass
class _Softmax:
    """A difference `shift` whose operand `number` is `subtracted` (minus that, where it is an fma), broadcast along `dim`; `most`:
    the maximum of the row that it is subtracted from; `exact`: it is what is subtracted."""

    shift: Operation
    number: int
    subtracted: SSAValue
    dim: int
    most: SSAValue
    exact: bool


def run(module: Operation, context: Any) -> None:
    """Flush such exponentials, in place."""
    for op in [op for op in module.walk() if isinstance(op, arith.Exp2)]:
        t: Any = op.results[0].type
        if "ftz" in op.properties or not isinstance(t, TensorType) or t.element_type != f32:
            continue
        found = _softmax(op.operands[0])
        sums = _sums(op.results[0], found) if found is not None else None
        if found is None or sums is None:
            continue
        if found.exact:
            op.properties["ftz"] = UnitAttr()
        elif context.target.has_tma:
            alone = len(sums) == len(list(op.results[0].uses))
            if t.get_shape()[found.dim] >= (LEAST_ALONE if alone else LEAST_COLUMNS):
                _lower(op, found, sums)


def _softmax(x: SSAValue) -> _Softmax | None:
    """What a difference subtracts from a tile, if it is the maximum of the tile's rows or more."""
    shift: Any = x.owner
    if not isinstance(shift, (arith.Subf, arith.Fma)) or "ftz" in shift.properties or not x.has_one_use():
        return None
    tile, *factors, spread = shift.operands
    scaled: list[tuple[SSAValue, float | None]] = []
    if not factors:
        scaled.append((tile, None))
    product = (tile, *factors) if factors else tile.owner.operands if isinstance(tile.owner, arith.Mulf) else ()
    if product and 0.0 < (float_constant(product[1]) or 0.0) < float("inf"):
        scaled.append((product[0], float_constant(product[1])))
    minus = 0
    while isinstance(spread.owner, (arith.Negf, aa.Broadcast)) and shape_of(spread.type) == shape_of(x.type):
        minus += isinstance(spread.owner, arith.Negf)
        spread = spread.owner.operands[0]
    if isinstance(spread.owner, arith.Negf):
        minus, spread = minus + 1, spread.owner.operands[0]
    different = [d for d, (a, b) in enumerate(zip(shape_of(x.type), shape_of(spread.type))) if a != b]
    if minus != len(factors) or len(shape_of(x.type)) != len(shape_of(spread.type)) or len(different) != 1:
        return None
    for tile, factor in scaled:
        most = _most(spread, tile, different[0], factor)
        if most is not None:
            return _Softmax(shift, len(shift.operands) - 1, spread, different[0], most, _viewed(spread) is most)
    return None


def _viewed(value: SSAValue) -> SSAValue:
    """What views show."""
    while isinstance(value.owner, aa.View):
        value = value.owner.operands[0]
    return value


def _most(value: SSAValue, tile: SSAValue, dim: int, factor: float | None) -> SSAValue | None:
    """The maxima of a tile's rows, times a factor, if a value is these or the maxima of these and others."""
    shape, op = shape_of(tile.type), value.owner
    if shape_of(value.type) not in (shape[:dim] + shape[dim + 1:], shape[:dim] + (1,) + shape[dim + 1:]):
        return None
    if isinstance(op, (arith.Maxf, aa.View)):
        return next((most for v in op.operands if (most := _most(v, tile, dim, factor)) is not None), None)
    if isinstance(op, arith.Mulf) and factor is not None and float_constant(op.operands[1]) == factor:
        rows = _viewed(op.operands[0])
        return value if _most(op.operands[0], tile, dim, None) is rows else None
    if factor is None and _reduces(op, arith.Maxf, tile, dim) and \
            op.properties["identities"].data[0].value.data <= LOWEST:       # type: ignore[union-attr]
        return value
    return None


def _reduces(op: Any, by: type[Operation], tile: SSAValue, dim: int) -> bool:
    """Whether an op is the reduction of a tile along a dimension by one op."""
    if not isinstance(op, aa.Reduce) or list(op.operands) != [tile] or op.properties["dim"].value.data != dim:  # type: ignore[attr-defined]
        return False
    first, *others = op.regions[0].block.ops
    return isinstance(first, by) and set(first.operands) == set(op.regions[0].block.args) and len(others) == 1 and \
        list(others[0].operands) == [first.results[0]]


def _sums(p: SSAValue, softmax: _Softmax) -> list[Operation] | None:
    """The sums of the rows of exponentials; None where something else than these and coarse conversions uses them."""
    users = [use.operation for use in p.uses]
    sums = [op for op in users if _reduces(op, arith.Addf, p, softmax.dim)]
    for op in users:
        if op not in sums and not _is_coarse(op) and not (softmax.exact and _is_share(op, p, sums) and
                                                          all(_is_coarse(use.operation) for use in op.results[0].uses)):
            return None
    return sums


def _is_coarse(op: Operation) -> bool:
    """Whether an op makes zeros of what is below 2^-126: a conversion, maybe of a view."""
    if isinstance(op, aa.View):
        return all(_is_coarse(use.operation) for use in op.results[0].uses)
    t: Any = op.results[0].type if op.results else None
    rounding: Any = op.properties.get("rounding")
    return isinstance(op, arith.Convertf) and t.element_type.name in COARSE and \
        (rounding is None or rounding.data != "positive_inf")


def _is_share(op: Operation, p: SSAValue, sums: list[Operation]) -> bool:
    """Whether an op divides exponentials by their row's sum."""
    if not isinstance(op, (arith.Divf, arith.Mulf)) or op.operands[0] is not p:
        return False
    spread = op.operands[1].owner
    if not isinstance(spread, aa.Broadcast):
        return False
    by = _viewed(spread.operands[0])
    if isinstance(op, arith.Mulf):
        if not isinstance(by.owner, arith.Divf) or float_constant(by.owner.operands[0]) != 1.0:
            return False
        by = _viewed(by.owner.operands[1])
    return by.owner in sums


def _lower(op: Operation, found: _Softmax, sums: list[Operation]) -> None:
    """Flush exponentials, of less in rows far below what is subtracted, and scale these rows' sums back."""
    shift, subtracted = found.shift, found.subtracted
    t: Any = subtracted.type
    most = found.most if found.most.type == t else build(shift, aa.View, (found.most,), t)
    nearest = {"rounding": StringAttr("nearest_even")}

    def constant(value: float) -> SSAValue:
        return attr_splat(shift, t, FloatAttr(value, f32))

    farthest = build(shift, arith.Addf, (most, constant(FARTHEST)), t, nearest)
    far = build(shift, arith.Cmpf, (farthest, subtracted), with_element(t, i1), {"predicate": StringAttr("olt")})
    less = build(shift, arith.Subf, (subtracted, constant(LOWERED)), t, nearest)
    lowered = build(shift, arith.Select, (far, less, subtracted), t)
    factor = build(shift, arith.Select, (far, constant(2.0 ** -LOWERED), constant(1.0)), t)
    if isinstance(shift, arith.Fma):
        lowered = build(shift, arith.Negf, (lowered,), t)
    shift.operands[found.number] = build(shift, aa.Broadcast, (lowered,), shift.results[0].type)
    op.properties["ftz"] = UnitAttr()
    for row in sums:
        uses = list(row.results[0].uses)
        behind = row.next_op
        assert behind is not None
        scale = build(behind, aa.View, (factor,), row.results[0].type)
        scaled = build(behind, arith.Mulf, (row.results[0], scale), scale.type, nearest)
        for use in uses:
            use.operation.operands[use.index] = scaled
