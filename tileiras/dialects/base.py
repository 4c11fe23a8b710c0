"""How an op of this project is declared: one short class, cheap to import and cheap to create.

xDSL's `irdl_op_definition` costs about half a millisecond an op at import and twenty microseconds an op
at creation; with some four hundred ops, that would be most of a compile. `TileOp` keeps xDSL's `Operation`
(so printing, passes, rewriting, SSA and regions are xDSL's) and replaces the declaration:

    class LoadPtrTko(TileOp):
        name = "cuda_tile.load_ptr_tko"
        OPERANDS = "source mask? padding_value? token?"
        RESULTS = "result result_token"
        ATTRS = "memory_ordering_semantics memory_scope? optimization_hints?"

    op = LoadPtrTko.make([ptrs, None, None, token], [tile_type, token_type],
                         {"memory_ordering_semantics": weak})
    op.mask          # SSAValue or None
    op.result_token  # the second result
    op.memory_scope  # Attribute or None

`name` alone is one operand, `name?` none or one, `name*` any number (the accessor gives a tuple). What it may be stands
behind a colon, as `mask:bools?`: a word of `kinds.py`, which the verifier reads. `SAME` names operands and results of
one and the same type, `SAME_SHAPE` those of one shape. An op with two or more optional or variadic groups carries
`operandSegmentSizes`, as MLIR's ops do; results likewise. Inherent attributes are xDSL properties, so the generic form
prints as MLIR's `<{...}>`. A name that xDSL's `Operation` has itself (`operands`, `results`, `name`) keeps xDSL's meaning;
a Python keyword (`from`, `global`) gets an accessor with an underscore behind it (`from_`, `global_`).
"""
from __future__ import annotations

import importlib
import keyword
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from xdsl.dialects.builtin import UNKNOWN_LOC, DenseArrayBase, LocationAttr, i32
from xdsl.ir import Attribute, Block, IRNode, Operation, OpResult, OpTraits, Region, SSAValue, SSAValues, Use
from xdsl.traits import IsTerminator, OpTrait, Pure
from xdsl.utils.exceptions import VerifyException

OPERAND_SEGMENTS = "operandSegmentSizes"
RESULT_SEGMENTS = "resultSegmentSizes"
NOTHING: Mapping[str, Attribute] = {}
"""Properties of an op that has none; nobody writes to it."""


VERIFIER = "tileiras.dialects.verify"
"""Imported by the first verification only: compiling doesn't verify, and shouldn't pay for the rules."""


class Field:
    """One entry of a declaration: a name, what it may be ("" for anything), how many values it stands for ("", "?", "*")."""

    __slots__ = ("name", "kind", "many")

    def __init__(self, text: str) -> None:
        self.many = text[-1] if text[-1] in "?*" else ""
        self.name, _, self.kind = text.rstrip("?*").partition(":")


def fields(text: str) -> tuple[Field, ...]:
    return tuple(Field(word) for word in text.split())


def _group_accessor(kind: str, index: int, group: tuple[Field, ...]) -> property:
    """The property that reads group `index` of an op's operands or results."""
    values = "_operands" if kind == "operands" else "results"
    many = group[index].many
    variable = [i for i, f in enumerate(group) if f.many]
    if not variable or index < variable[0]:
        def fixed(op: Operation) -> Any:
            return getattr(op, values)[index]
        if not many:
            return property(fixed)
    segments = OPERAND_SEGMENTS if kind == "operands" else RESULT_SEGMENTS
    if len(variable) == 1:
        before, after = index, len(group) - index - 1
        if many:
            def read(op: Operation) -> Any:
                all_values = getattr(op, values)
                picked = tuple(all_values[before:len(all_values) - after])
                return picked if many == "*" else (picked[0] if picked else None)
        else:
            def read(op: Operation) -> Any:
                return getattr(op, values)[-after - 1]
        return property(read)

    def by_segment(op: Operation) -> Any:
        sizes = op.properties[segments].get_values()  # type: ignore[attr-defined]
        start = sum(sizes[:index])
        picked = tuple(getattr(op, values)[start:start + sizes[index]])
        if many == "*":
            return picked
        return picked[0] if picked else None
    return property(by_segment)


def _attribute_accessor(name: str) -> property:
    return property(lambda op: op.properties.get(name))


def _region_accessor(index: int) -> property:
    return property(lambda op: op.regions[index])


_OF_OPERATION = frozenset(("name", *dir(Operation), *dir(type(Operation))))
"""Names that mean something on every op: what `hasattr` would say, asked once."""


def _add_accessor(cls: type[Operation], name: str, accessor: property) -> None:
    if name in _OF_OPERATION:
        return
    setattr(cls, name + "_" if keyword.iskeyword(name) else name, accessor)


class TileOp(Operation):
    """The base of every op declared by this project; see the module's docstring."""

    OPERANDS: ClassVar[str] = ""
    RESULTS: ClassVar[str] = ""
    ATTRS: ClassVar[str] = ""
    REGIONS: ClassVar[str] = ""
    SAME: ClassVar[str] = ""
    SAME_SHAPE: ClassVar[str] = ""
    PURE: ClassVar[bool] = False
    TERMINATOR: ClassVar[bool] = False
    EXTRA_TRAITS: ClassVar[tuple[OpTrait, ...]] = ()

    operand_fields: ClassVar[tuple[Field, ...]] = ()
    result_fields: ClassVar[tuple[Field, ...]] = ()
    attr_fields: ClassVar[tuple[Field, ...]] = ()
    region_fields: ClassVar[tuple[Field, ...]] = ()

    traits: ClassVar[OpTraits] = OpTraits(lambda: ())

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        found: list[OpTrait] = [*([Pure()] if cls.PURE else []), *([IsTerminator()] if cls.TERMINATOR else []),
                                *cls.EXTRA_TRAITS]
        cls.traits = OpTraits(lambda: tuple(found))
        for kind, text, group_name in (("operands", "OPERANDS", "operand_fields"), ("results", "RESULTS", "result_fields")):
            if text in cls.__dict__:
                group = fields(cls.__dict__[text])
                setattr(cls, group_name, group)
                for i, f in enumerate(group):
                    _add_accessor(cls, f.name, _group_accessor(kind, i, group))
        if "ATTRS" in cls.__dict__:
            cls.attr_fields = fields(cls.__dict__["ATTRS"])
            for f in cls.attr_fields:
                _add_accessor(cls, f.name, _attribute_accessor(f.name))
        if "REGIONS" in cls.__dict__:
            cls.region_fields = fields(cls.__dict__["REGIONS"])
            for i, f in enumerate(cls.region_fields):
                _add_accessor(cls, f.name, _region_accessor(i))

    if TYPE_CHECKING:
        # The accessors are made from the declaration: a type checker can't see them.
        def __getattr__(self, name: str) -> Any: ...

    @classmethod
    def make(cls, operands: Sequence[SSAValue | Sequence[SSAValue] | None] = (),
             result_types: Sequence[Attribute | Sequence[Attribute] | None] = (),
             attrs: Mapping[str, Attribute | None] | None = None,
             regions: Sequence[Region] = ()) -> Any:
        """Create the op from one entry per declared group: a value, None (absent) or a sequence (variadic). Operand groups at
        the end that are left out are absent."""
        properties: dict[str, Attribute] = {k: v for k, v in attrs.items() if v is not None} if attrs else {}
        flat, sizes = _flatten(operands)
        if _needs_segments(cls.operand_fields):
            sizes += [0] * (len(cls.operand_fields) - len(sizes))
            properties[OPERAND_SEGMENTS] = _segments(tuple(sizes))
        flat_types, type_sizes = _flatten(result_types)
        if _needs_segments(cls.result_fields):
            properties[RESULT_SEGMENTS] = _segments(tuple(type_sizes))
        return cls.create(operands=flat, result_types=flat_types, properties=properties, regions=regions)

    def is_ancestor(self, op: IRNode) -> bool:
        """As xDSL's, which asks it of every op put into a block and goes up all levels: nothing lies deeper in an op than the
        blocks that it has, as long as they are empty."""
        if not self.regions:
            return op is self
        if any(block.ops.first is not None for region in self.regions for block in region.blocks):
            return super().is_ancestor(op)
        return op is self or op.parent_node is self or (op.parent_node is not None and op.parent_node.parent_node is self)

    @classmethod
    def create(cls, *, operands: Sequence[SSAValue] = (), result_types: Sequence[Attribute] = (),
               properties: Mapping[str, Attribute] = NOTHING, attributes: Mapping[str, Attribute] = NOTHING,
               location: LocationAttr | None = None, successors: Sequence[Block] = (), regions: Sequence[Region] = ()) -> Any:
        """As xDSL's, in less than half the time: that gives operands back that a new op doesn't have, and looks the unknown place
        up. A kernel has some thousand ops made."""
        op: Any = cls.__new__(cls)
        op._operands = values = SSAValues(operands)
        op._operand_uses = uses = tuple([Use(op, i) for i in range(len(values))])
        for value, use in zip(values, uses):
            value.add_use(use)
        op.results = SSAValues([OpResult(t, op, i) for i, t in enumerate(result_types)])
        op.properties, op.attributes = dict(properties), dict(attributes)
        op.location = UNKNOWN_LOC if location is None else location
        op.regions = ()
        if successors:
            op.successors = successors
        for region in regions:
            op.add_region(region)
        return op

    def walk(self, *, reverse: bool = False, region_first: bool = False) -> Iterator[Operation]:
        """As xDSL's, but for its chain of generators: that costs a step a level for every op. The op after one is looked up
        before that one is handed out, and what is in it after."""
        if reverse or region_first:
            yield from super().walk(reverse=reverse, region_first=region_first)
            return
        yield self
        above: list[tuple[Iterator[Block], Operation | None]] = []      # blocks still to come, and the next op
        blocks, op = _blocks_of(self), None
        while True:
            while op is not None:
                following = op.next_op
                yield op
                if op.regions:
                    above.append((blocks, following))
                    blocks, following = _blocks_of(op), None
                op = following
            block = next(blocks, None)
            if block is not None:
                op = block.first_op
            elif above:
                blocks, op = above.pop()
            else:
                return

    def verify_(self) -> None:
        """The declaration's own check: counts of operands, results, regions; presence of attributes."""
        check_counts(self)
        for f in self.attr_fields:
            if not f.many and f.name not in self.properties:
                raise VerifyException(f"'{self.name}' op requires attribute '{f.name}'")
        self.verify_op()

    def verify_op(self) -> None:
        """Types, attributes, and what the declaration can't say. Raises VerifyException."""
        importlib.import_module(VERIFIER).verify_op(self)


def _blocks_of(op: Operation) -> Iterator[Block]:
    """The blocks directly inside an op."""
    for region in op.regions:
        yield from region.blocks


def check_counts(op: TileOp) -> None:
    """Whether an op has as many operands, results and regions as declared. Raises VerifyException."""
    _check_count(op, "operand", op.operand_fields, len(op.operands), OPERAND_SEGMENTS)
    _check_count(op, "result", op.result_fields, len(op.results), RESULT_SEGMENTS)
    fixed = [f for f in op.region_fields if f.many != "*"]
    if len(op.regions) < len(fixed) or (len(fixed) == len(op.region_fields) and len(op.regions) > len(fixed)):
        raise VerifyException(f"'{op.name}' op expected {len(fixed)} regions, got {len(op.regions)}")


@lru_cache(maxsize=256)
def _segments(sizes: tuple[int, ...]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i32, sizes)


def _flatten(groups: Sequence[Any]) -> tuple[list[Any], list[int]]:
    flat: list[Any] = []
    sizes: list[int] = []
    for g in groups:
        if g is None:
            sizes.append(0)
        elif isinstance(g, (list, tuple)):
            flat.extend(g)
            sizes.append(len(g))
        else:
            flat.append(g)
            sizes.append(1)
    return flat, sizes


def _needs_segments(group: tuple[Field, ...]) -> bool:
    return sum(1 for f in group if f.many) > 1


def _are_sizes(sizes: Sequence[Any], group: tuple[Field, ...], count: int) -> bool:
    """Whether each group has as many values as its entry takes, and all together `count`."""
    return len(sizes) == len(group) and sum(sizes) == count and all(
        size >= 0 if f.many == "*" else size in (0, 1) if f.many else size == 1 for f, size in zip(group, sizes))


def _check_count(op: Operation, what: str, group: tuple[Field, ...], count: int, segments: str) -> None:
    least = sum(1 for f in group if not f.many)
    most = None if any(f.many == "*" for f in group) else len(group)
    if count < least or (most is not None and count > most):
        expected = str(least) if most == least else f"{least} or more" if most is None else f"{least} to {most}"
        raise VerifyException(f"'{op.name}' op expected {expected} {what}s, but found {count}")
    if _needs_segments(group):
        sizes = op.properties.get(segments)
        if not isinstance(sizes, DenseArrayBase) or sizes.elt_type != i32 or not _are_sizes(sizes.get_values(), group, count):
            raise VerifyException(f"'{op.name}' op attribute '{segments}' does not match its {what}s")
