"""Carried values that are always equal, over random loops and branches: the claim is held against running them."""
import itertools
import random

import pytest
from xdsl.dialects.builtin import IntegerAttr, i1, i32
from xdsl.ir import Block, Region

from tileiras.analysis.equal_values import are_equal
from tileiras.dialects import arith

CARRIED = 3


def constant(block, value, of=i32):
    op = arith.Constant.make([], [of], {"value": IntegerAttr(value, of)})
    block.add_op(op)
    return op.results[0]


def program(rng):
    """A loop around a branch, whose three carried values are permuted, copied and replaced by chance."""
    top = Block(arg_types=[i1])
    values = [constant(top, n) for n in range(2)]
    bounds = [constant(top, n) for n in (0, 4, 1)]
    body = Block(arg_types=[i32] * (1 + CARRIED))
    carried = list(body.args[1:])
    arms = [Block(), Block()]
    for arm in arms:
        fresh = constant(arm, 7)
        arm.add_op(arith.Yield.make([[rng.choice([*carried, fresh, values[0]]) for _ in range(CARRIED)]]))
    branch = arith.If.create(operands=[top.args[0]], result_types=[i32] * CARRIED, regions=[Region(arm) for arm in arms])
    body.add_op(branch)
    body.add_op(arith.Yield.make([[rng.choice([*branch.results, *carried]) for _ in range(CARRIED)]]))
    loop = arith.For.make([*bounds, [rng.choice(values) for _ in range(CARRIED)]], [[i32] * CARRIED], regions=[Region(body)])
    top.add_op(loop)
    return top, loop, branch


def run(loop, branch, ways):
    """The values of the loop's arguments and the branch's results in each iteration, and the loop's results."""
    env = {}

    def value(v):
        return env.get(v, v)        # an op's result stands for itself
    seen = []
    now = [value(v) for v in loop.operands[3:]]
    for way in ways:
        env.update(zip(loop.regions[0].block.args[1:], now))
        env.update(zip(branch.results, [value(v) for v in branch.regions[way].block.last_op.operands]))
        seen.append([env[v] for v in (*loop.regions[0].block.args[1:], *branch.results)])
        now = [value(v) for v in loop.regions[0].block.last_op.operands]
    return seen, now


def claims(seed):
    """Pairs of carried values, of the branch's and of the loop's results: whether they are said to be equal, and are."""
    top, loop, branch = program(random.Random(seed))
    assert top.parent is None
    names = [*loop.regions[0].block.args[1:], *branch.results]
    runs = [run(loop, branch, ways) for n in range(6) for ways in itertools.product((0, 1), repeat=n)]
    for i, j in itertools.combinations(range(len(names)), 2):
        yield are_equal(names[i], names[j]), all(row[i] is row[j] for seen, _ in runs for row in seen)
    for i, j in itertools.combinations(range(CARRIED), 2):
        yield are_equal(loop.results[i], loop.results[j]), all(now[i] is now[j] for _, now in runs)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_said_to_be_equal_is(seed):
    assert all(is_equal for said, is_equal in claims(seed) if said)


def test_much_that_is_equal_is_said_to_be():
    """Not where one is carried and the other given by a branch."""
    found = [said for seed in range(40) for said, is_equal in claims(seed) if is_equal]
    assert len(found) > 40
    assert sum(found) > len(found) / 4


def test_tokens_as_frontends_carry_them():
    """The page's example: what a branch stores comes last, and was stored last."""
    top = Block(arg_types=[i1])
    token, *bounds = [constant(top, n) for n in (9, 0, 4, 1)]
    body = Block(arg_types=[i32] * 3)
    store, keep = Block(), Block()
    stored = constant(store, 7)
    store.add_op(arith.Yield.make([[stored, stored]]))
    keep.add_op(arith.Yield.make([list(body.args[1:])]))
    branch = arith.If.create(operands=[top.args[0]], result_types=[i32] * 2, regions=[Region(store), Region(keep)])
    body.add_op(branch)
    body.add_op(arith.Yield.make([list(branch.results)]))
    loop = arith.For.make([*bounds, [token, token]], [[i32] * 2], regions=[Region(body)])
    top.add_op(loop)
    for a, b in (body.args[1:], branch.results, loop.results):
        assert are_equal(a, b)
    assert not are_equal(body.args[0], body.args[1])
