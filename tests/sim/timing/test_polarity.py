"""Which way a machine branch goes is told by the code at its ends, and not by spills, which carry any line."""
from __future__ import annotations

import pytest

from tileiras.sim.timing.join import Depths, join
from tileiras.sim.timing.replay import instruction_from
from tileiras.sim.timing.sass import Branch, Code, SassBlock
from tileiras.sim.timing.stream import Instruction
from tileiras.sim.timing.trace import PtxBlock, PtxCode

WAIT, BACK, LOAD, ADD, END = 10, 11, 20, 21, 22


def at(line: int, *opcodes: str) -> list[Instruction]:
    return [instruction_from(opcode, (), 1, None, None, 0, line) for opcode in opcodes]


def test_a_branch_behind_a_wait_that_carries_its_line_is_not_the_wait_s():
    """WAIT: try; @!done bra WAIT; then a branch whose predicate was computed long before: ptxas gives it the line of the wait's."""
    ptx = PtxCode((PtxBlock(0, (WAIT, BACK), BACK, 0, 1), PtxBlock(1, (LOAD,), LOAD, 3, 2), PtxBlock(2, (ADD,), 0, -2, 3),
                   PtxBlock(3, (END,), 0, -2, -1)),
                  {WAIT: "mbarrier.try_wait", BACK: "bra", LOAD: "bra", ADD: "red.global.add", END: "ret"}, frozenset(),
                  frozenset({0}), frozenset())
    blocks = [
        SassBlock(0, at(WAIT, "SYNCS") + at(BACK, "BRA"), Branch("jump", conditions=("!P1",)), 4, 1),
        SassBlock(1, at(BACK, "BRA"), Branch("jump", conditions=("UP0",)), 3, 2),
        SassBlock(2, at(ADD, *["REDG"] * 9), None, -1, 3),
        SassBlock(3, at(END, "EXIT"), Branch("exit"), -1, -1),
        SassBlock(4, at(WAIT, "SYNCS", "NANOSLEEP") + at(BACK, "BRA"), Branch("jump", conditions=("!P1",)), 4, 1)]
    for block in blocks:
        for to in block.successors:
            blocks[to].predecessors.append(block.index)
    code = Code("k", 100, [i for b in blocks for i in b.instructions], blocks, {0: "k"})
    senses = join(code, ptx).senses
    assert 1 not in senses and [senses[b].line for b in (0, 4)] == [BACK, BACK]


@pytest.mark.parametrize("spills", [0, 1, 40])
def test_spills_behind_a_wait_do_not_turn_its_branch_round(spills):
    """WAIT: try; @!done bra WAIT. ptxas tries once in line, and again in a loop off the way that the failed try branches to."""
    ptx = PtxCode((PtxBlock(0, (WAIT, BACK), BACK, 0, 1), PtxBlock(1, (LOAD, ADD, END), 0, -2, -1)),
                  {WAIT: "mbarrier.try_wait", BACK: "bra", LOAD: "ld.shared", ADD: "add", END: "ret"}, frozenset(),
                  frozenset({0}), frozenset())
    taken_if_not_done = Branch("jump", conditions=("!P1",))
    blocks = [
        SassBlock(0, at(WAIT, "SYNCS") + at(BACK, "BRA"), taken_if_not_done, 2, 1),
        SassBlock(1, at(BACK, *["STL", "LDL"] * spills) + at(LOAD, "LDS") + at(ADD, "IADD3") + at(END, "EXIT"),
                  Branch("exit"), -1, -1),
        SassBlock(2, at(WAIT, "SYNCS", "NANOSLEEP") + at(BACK, "BRA"), taken_if_not_done, 2, 3),
        SassBlock(3, at(BACK, "BRA"), Branch("jump"), 1, -1)]
    for block in blocks:
        for to in block.successors:
            blocks[to].predecessors.append(block.index)
    code = Code("k", 90, [i for b in blocks for i in b.instructions], blocks, {0: "k"})
    senses = join(code, ptx).senses
    assert [(senses[b].line, senses[b].same) for b in (0, 2)] == [(BACK, True)] * 2


def test_an_exit_does_not_tell_which_way_a_loop_s_branch_goes():
    """@done bra END; bra LOOP. ptxas branches back where it isn't done, and gives the exit behind that the jump's line."""
    ptx = PtxCode((PtxBlock(0, (LOAD,), LOAD, 3, 1), PtxBlock(1, (ADD, WAIT), WAIT, 3, 2), PtxBlock(2, (BACK,), 0, 1, -2),
                   PtxBlock(3, (END,), 0, -1, -2)),
                  {LOAD: "bra", ADD: "st.global", WAIT: "bra", BACK: "bra.uni", END: "ret"}, frozenset(), frozenset(), frozenset())
    blocks = [SassBlock(0, at(LOAD, "EXIT"), Branch("exit", conditions=("P1",)), -1, 1),
              SassBlock(1, at(ADD, "STG") + at(WAIT, "BRA"), Branch("jump", conditions=("!P0",)), 1, 2),
              SassBlock(2, at(BACK, "EXIT"), Branch("exit"), -1, -1)]
    for block in blocks:
        for to in block.successors:
            blocks[to].predecessors.append(block.index)
    senses = join(Code("k", 90, [i for b in blocks for i in b.instructions], blocks, {0: "k"}), ptx).senses
    assert (senses[1].line, senses[1].same) == (WAIT, False)


def test_loops_are_counted_and_waits_are_none():
    """0 -> 1 (outer loop to 4) -> 2 (inner loop to 3); 5 waits for itself."""
    graph = {0: [1], 1: [2], 2: [3], 3: [2, 4], 4: [1, 5], 5: [5, 6], 6: []}
    counted = Depths(graph, 0).loops()
    assert [counted[n] for n in range(7)] == [0, 1, 2, 2, 1, 0, 0]
