"""`order-memory` in loops: every pair of accesses that must not overtake each other has a barrier between, over the loop's edge
too, and no barrier is placed that could go.

Programs are a loop, or a loop in a loop, of stores to and loads from shared buffers, told as words ("w0": write buffer 0; "w" and
"v" write and read where each warp has rows of its own, "u" and "r" where it has columns). That a placement is right is judged by
running the words, every loop none, one and two times: between two accesses to one buffer, one of them a write, a barrier must have
come, of the warp's threads where both are by rows or both by columns, else of the block.
"""
from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from xdsl.dialects.builtin import IntAttr, ModuleOp, StringAttr, f32, i32
from xdsl.ir import Block, Operation, Region

from tests.conversion.tiles import tensor
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.nv_tileas import AllocTensor, BufferType, LoadShared, SharedLayoutAttr, StoreShared, layout_of
from tileiras.layout.linear import LinearLayout
from tileiras.layout.shared import SharedLayout
from tileiras.transforms import order_memory

SHAPE = (32, 4)
BY_ROWS = LinearLayout(SHAPE, (), (1, 2, 4, 8, 16), (32, 64))
BY_COLUMNS = LinearLayout(SHAPE, (), (4, 8, 16, 32, 64), (1, 2))
LAYOUTS = {"w": BY_ROWS, "v": BY_ROWS, "u": BY_COLUMNS, "r": BY_COLUMNS}
WRITES = "wu"
BYTES = 512
BUFFERS = 3
BARRIERS = "bs"
Word = Any
"""An access, "w0" or "r0"; a barrier of the block, "b", or of each warp, "s"; a loop: a list of words."""


def program(words: list[Word]) -> tuple[ModuleOp, Block]:
    types = {letter: tensor(layout, f32) for letter, layout in LAYOUTS.items()}
    block = Block(arg_types=[i32, i32, i32, types["w"], types["u"]])
    lower, upper, step, *tiles = block.args
    tile = dict(zip(WRITES, tiles))
    buffers = []
    buffer = BufferType(f32, SharedLayoutAttr(SharedLayout.row_major(SHAPE)))
    for n in range(BUFFERS):
        alloc = AllocTensor.make([], [buffer], {"offset": IntAttr(n * BYTES)})
        block.add_op(alloc)
        buffers.append(alloc.results[0])

    def fill(into: Block, inside: list[Word]) -> None:
        for word in inside:
            if isinstance(word, list):
                body = Block(arg_types=[i32])
                fill(body, word)
                body.add_op(arith.Yield.make([[]]))
                into.add_op(arith.For.make([lower, upper, step, []], [[]], {}, [Region(body)]))
            elif word == "b":
                into.add_op(nv_tileas.Barrier.make())
            elif word == "s":
                into.add_op(nv_tileas.WarpBarrier.make())
            elif word[0] in WRITES:
                into.add_op(StoreShared.make([tile[word[0]], buffers[int(word[1])]]))
            else:
                into.add_op(LoadShared.make([buffers[int(word[1])]], [types[word[0]]]))

    fill(block, words)
    block.add_op(nv_tileas.Return.make())   # type: ignore[attr-defined]
    func = nv_tileas.Func.make([], [], {"sym_name": StringAttr("f")}, [Region(block)])  # type: ignore[attr-defined]
    return ModuleOp([func]), block


def words_of(block: Block) -> list[Word]:
    """A block's accesses, barriers and loops, as words again."""
    def word(op: Operation, buffer: int) -> str:
        offset: Any = op.operands[buffer].owner.properties["offset"]    # type: ignore[union-attr]
        return str(offset.data // BYTES)

    out: list[Word] = []
    for op in block.ops:
        if op.name == "scf.for":
            out.append(words_of(op.regions[0].block))
        elif op.name == "nv_tileas.barrier":
            out.append("b")
        elif op.name == "nv_tileas.warp_barrier":
            out.append("s")
        elif op.name == "nv_tileas.store_shared":
            out.append(("w" if layout_of(op.operands[0]) == BY_ROWS else "u") + word(op, 1))
        elif op.name == "nv_tileas.load_shared":
            out.append(("v" if layout_of(op.results[0]) == BY_ROWS else "r") + word(op, 0))
    return out


def ordered(words: list[Word]) -> list[Word]:
    module, block = program(words)
    order_memory.run(module)
    return words_of(block)


def traces(words: list[Word]) -> list[list[tuple[int, str]]]:
    """What is done, each with the place of its word in the text, for every number of turns up to two of every loop."""
    out: list[list[tuple[int, str]]] = [[]]
    place = 0

    def number(inside: list[Word]) -> list[Any]:
        nonlocal place
        numbered: list[Any] = []
        for word in inside:
            if isinstance(word, list):
                numbered.append(number(word))
            else:
                numbered.append((place, word))
                place += 1
        return numbered

    def run(inside: list[Any]) -> list[list[tuple[int, str]]]:
        done: list[list[tuple[int, str]]] = [[]]
        for word in inside:
            if isinstance(word, tuple):
                done = [d + [word] for d in done]
            else:
                once = run(word)
                turns = [[], *once, *(first + second for first, second in itertools.product(once, repeat=2))]
                done = [d + t for d in done for t in turns]
        return done

    out = run(number(words))
    return out


def is_right(words: list[Word]) -> bool:
    """Whether a barrier stands between every two accesses that must not overtake each other; those of one word that writes are in
    order: the same thread writes the same place."""
    for trace in traces(words):
        for (i, (at, a)), (j, (other, b)) in itertools.combinations(enumerate(trace), 2):
            if a in BARRIERS or b in BARRIERS or a[1] != b[1] or not {a[0], b[0]} & set(WRITES) or at == other:
                continue
            enough = BARRIERS if LAYOUTS[a[0]] == LAYOUTS[b[0]] else "b"
            if not any(word in enough for _, word in trace[i:j] if isinstance(word, str) and len(word) == 1):
                return False
    return True


def without(words: list[Word], which: int) -> list[Word]:
    """Without the barrier of this number."""
    seen = itertools.count()

    def left(inside: list[Word]) -> list[Word]:
        return [left(w) if isinstance(w, list) else w for w in inside if w not in ("b", "s") or next(seen) != which]

    return left(words)


def barriers(words: list[Word]) -> int:
    return sum(barriers(w) if isinstance(w, list) else w in ("b", "s") for w in words)


@pytest.mark.parametrize(("before", "after"), [
    ([["w0", "r0"]], [["b", "w0", "b", "r0"]]),
    # the barrier between the accesses to 1 orders those to 0 over the loop's edge
    ([["w0", "r0", "w1", "r1"]], [["w0", "b", "r0", "w1", "b", "r1"]]),
    # as late as may be, and what a loop leaves pending is pending behind it
    ([["r0", "w1", "b", "r1"], "w0"], [["r0", "b", "w1", "b", "r1"], "w0"]),
    ([["w1", "b", "r1", "r0"], "w0"], [["b", "w1", "b", "r1", "r0"], "b", "w0"]),
    (["w0", ["r0"]], ["w0", ["b", "r0"]]),
    ([["w0", ["r0", "w1", "b", "r1"], "b"]], [["w0", ["b", "r0", "w1", "b", "r1"], "b"]]),
    ([["r0", "r1"]], [["r0", "r1"]]),
    # a warp's own bytes: its threads meet
    ([["w0", "v0"]], [["s", "w0", "s", "v0"]]),
    (["w0", "s", "v0", "v0", "u0"], ["w0", "s", "v0", "v0", "b", "u0"]),
    # what the block has met behind, no warp has to; what a warp has met behind, the block has
    (["w0", "b", "v0", "r0"], ["w0", "b", "v0", "r0"]),
    (["w0", "v0", "r0"], ["w0", "s", "v0", "b", "r0"]),
    ([["w0", "v0", "u1", "r1"], "v1"], [["w0", "s", "v0", "u1", "s", "r1"], "b", "v1"]),
])
def test_over_the_edge_of_a_loop(before: list[Word], after: list[Word]) -> None:
    assert ordered(before) == after
    assert is_right(after)


def a_program(rng: random.Random, letters: str = "wr") -> list[Word]:
    def some(most: int) -> list[Word]:
        return [f"{rng.choice(letters)}{rng.randrange(BUFFERS)}" for _ in range(rng.randint(1, most))]
    body: list[Word] = some(5)
    if rng.random() < 0.5:
        body.insert(rng.randrange(len(body) + 1), some(3))
    return [*some(2), body, *some(2)]


@pytest.mark.parametrize("letters", ["wr", "wvur"])
@pytest.mark.parametrize("seed", range(200))
def test_all_that_clashes_is_ordered(seed: int, letters: str) -> None:
    assert is_right(ordered(a_program(random.Random(seed), letters)))


@pytest.mark.parametrize("letters", ["wr", "wvur"])
def test_hardly_a_barrier_could_go(letters: str) -> None:
    placed = dead = 0
    for seed in range(200):
        words = ordered(a_program(random.Random(seed), letters))
        placed += barriers(words)
        dead += sum(is_right(without(words, n)) for n in range(barriers(words)))
    assert placed > 400
    assert dead <= placed // 100


def test_the_judge_sees_a_missing_barrier() -> None:
    assert not is_right([["w0", "b", "r0"]]) and not is_right(["w0", "r0"]) and not is_right([["b", "w0", "r0"]])
    assert not is_right(["w0", "s", "r0"]) and not is_right(["w0", "v0"]) and is_right(["w0", "s", "v0"])
    assert is_right([["b", "w0", "b", "r0"]]) and is_right([["w0"]]) and is_right(["r0", ["r0"]])
