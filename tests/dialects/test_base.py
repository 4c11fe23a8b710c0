"""Do the quick ways of making ops and of going through them do what xDSL's do?"""
from __future__ import annotations

import pytest
from xdsl.dialects.builtin import UNKNOWN_LOC, FileLineColLoc, IntAttr, IntegerAttr, StringAttr, i1, i32
from xdsl.ir import Block, Operation, Region

from tileiras.dialects import arith
from tileiras.dialects.base import TileOp


def constant(value: int) -> TileOp:
    return arith.Constant.create(result_types=[i32], properties={"value": IntegerAttr(value, i32)})


def branch(*ops: Operation) -> TileOp:
    condition = Block(arg_types=[i1]).args[0]
    return arith.If.create(operands=[condition], regions=[Region(Block(ops)), Region(Block())])


def numbers(root: TileOp) -> list[int]:
    """The constants met by a walk."""
    return [op.properties["value"].value.data for op in root.walk() if isinstance(op, arith.Constant)]  # type: ignore[union-attr]


def test_a_new_op_is_as_xdsl_makes_it() -> None:
    """Everything that an op holds, of two ops on the same values."""
    values = Block(arg_types=[i1, i32]).args
    place = FileLineColLoc(StringAttr("f.py"), IntAttr(3), IntAttr(4))
    for location in (None, place):
        given = {"operands": [values[0], values[1], values[0]], "result_types": [i32, i1],
                 "properties": {"a": StringAttr("b")}, "attributes": {"c": StringAttr("d")}, "location": location}
        ours = arith.If.create(**given, regions=[Region(Block()), Region()])
        theirs = Operation.create.__func__(arith.If, **given, regions=[Region(Block()), Region()])  # type: ignore[attr-defined]
        assert all(hasattr(ours, name) for name in vars(theirs))
        assert tuple(ours.operands) == tuple(theirs.operands) and ours.result_types == theirs.result_types
        assert [(r.op, r.index) for r in ours.results] == [(ours, 0), (ours, 1)]
        assert (ours.properties, ours.attributes, ours.location) == (theirs.properties, theirs.attributes, theirs.location)
        assert ours.location is (UNKNOWN_LOC if location is None else place)
        assert [region.parent for region in ours.regions] == [ours, ours] and not ours.successors
        assert {(use.operation, use.index) for use in values[0].uses} >= {(ours, 0), (ours, 2)}
        ours.operands[0] = ours.operands[1] = values[0]
        ours.erase()
        theirs.erase()
    assert not list(values[0].uses) and not list(values[1].uses)


def test_what_an_op_holds_is_its_own() -> None:
    shared = {"value": IntegerAttr(1, i32)}
    first = arith.Constant.create(result_types=[i32], properties=shared)
    second = arith.Constant.create(result_types=[i32])
    first.properties["more"] = first.attributes["more"] = StringAttr("x")
    assert "more" not in shared and not second.properties and not second.attributes
    assert not arith.Constant.create(result_types=[i32]).properties


def test_a_region_of_another_op_is_refused() -> None:
    taken = branch().regions[0]
    with pytest.raises(ValueError, match="already attached"):
        arith.If.create(operands=[Block(arg_types=[i1]).args[0]], regions=[taken])


def test_a_walk_meets_all_ops_in_order() -> None:
    root = branch(constant(0), branch(constant(1), branch(), branch(constant(2))), constant(3))
    root.regions[1].block.add_op(constant(4))
    root.regions[1].add_block(Block([constant(5)]))
    assert numbers(root) == [0, 1, 2, 3, 4, 5]
    assert [id(op) for op in root.walk()] == [id(op) for op in Operation.walk(root)]
    assert [id(op) for op in root.walk(reverse=True)] == [id(op) for op in Operation.walk(root, reverse=True)]


def test_a_walk_stands_changes_at_where_it_is() -> None:
    """An op is erased, or gets one before, one behind, or one inside: what comes behind isn't met, as with xDSL's, and what is
    inside is."""
    for walk in (TileOp.walk, Operation.walk):
        root = branch(constant(0), branch(), constant(1), constant(2))
        met = []
        for op in walk(root):
            if isinstance(op, arith.If) and op is not root:
                op.regions[0].block.add_op(constant(10))
            elif isinstance(op, arith.Constant):
                met.append(op.properties["value"].value.data)   # type: ignore[union-attr]
                if met[-1] == 1:
                    block = op.parent_block()
                    assert block is not None
                    block.insert_op_before(constant(11), op)
                    block.insert_op_after(constant(12), op)
                    block.erase_op(op)
        assert met == [0, 10, 1, 2] and numbers(root) == [0, 10, 11, 12, 2]
