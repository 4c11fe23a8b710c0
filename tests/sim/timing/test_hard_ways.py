"""Ways through the machine code that the first search doesn't find: branches that carry another branch's line, lines that ptxas
moved out of their block, slow ways that are never taken."""
from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.sim import reference
from tests.sim.timing.kernels import needs_disassembler, suite_streams
from tests.sim.timing.test_polarity import at
from tileiras.sim.timing import path, sass
from tileiras.sim.timing.join import Join, Sense, join
from tileiras.sim.timing.sass import Branch, Code, SassBlock
from tileiras.sim.timing.trace import PtxBlock, PtxCode

HEAD, SKIP, LOAD, BACK, COUNT, AGAIN, END = 10, 11, 20, 21, 30, 31, 40
OPERATIONS = {HEAD: "ld.global.b32", SKIP: "bra", LOAD: "ld.global.b32", BACK: "bra", COUNT: "add.s32", AGAIN: "bra", END: "ret"}
ROUNDS, TILES = 3, 4


def made(blocks: list[SassBlock], ptx: PtxCode) -> Join:
    for block in blocks:
        for to in block.successors:
            blocks[to].predecessors.append(block.index)
    return join(Code("k", 100, [i for b in blocks for i in b.instructions], blocks, {0: "k"}), ptx)


def nest(*outer: int) -> PtxCode:
    """A loop over tiles, of lines `outer`, around a loop of loads."""
    return PtxCode((PtxBlock(0, outer, SKIP if SKIP in outer else 0, 2 if SKIP in outer else -2, 1),
                    PtxBlock(1, (LOAD, BACK), BACK, 1, 2), PtxBlock(2, (COUNT, AGAIN), AGAIN, 0, 3),
                    PtxBlock(3, (END,), 0, -2, -1)), OPERATIONS, frozenset(), frozenset(), frozenset())


TRACE = ((0,) + (1,) * ROUNDS + (2,)) * TILES + (3,)


def jump(target: int, *conditions: str) -> Branch:
    return Branch("jump", target, conditions)


def test_the_outer_loop_s_branch_may_carry_the_inner_one_s_line():
    """ptxas gives the branch back to the outer loop the line of the inner loop's branch that stands before it."""
    machine = made([SassBlock(0, at(HEAD, "LDG"), None, -1, 1),
                    SassBlock(1, at(LOAD, "LDG") + at(BACK, "BRA"), jump(1, "P0"), 1, 2),
                    SassBlock(2, at(BACK, "BRA"), jump(0, "!P1"), 0, 3), SassBlock(3, at(END, "EXIT"), Branch("exit"), -1, -1)],
                   nest(HEAD))
    misread = replace(machine, senses={1: Sense(BACK, True, 9), 2: Sense(BACK, False, 2)})
    assert path.repeated(misread) == {2}
    found = path.find(misread, TRACE)
    assert found is not None and found.residual == 0
    assert [v.block for v in found.visits] == list(TRACE)


def test_a_branch_between_whose_line_and_the_one_before_work_is_done_is_not_doubted():
    machine = made([SassBlock(0, at(HEAD, "LDG"), None, -1, 1),
                    SassBlock(1, at(LOAD, "LDG") + at(BACK, "BRA"), jump(1, "P0"), 1, 2),
                    SassBlock(2, at(LOAD, "LDG") + at(BACK, "BRA"), jump(0, "!P1"), 0, 3),
                    SassBlock(3, at(END, "EXIT"), Branch("exit"), -1, -1)], nest(HEAD))
    assert not path.repeated(replace(machine, senses={1: Sense(BACK, True, 9), 2: Sense(BACK, False, 2)}))


def test_anchors_alone_are_left_without_the_lines_that_stand_for_a_block():
    machine = made([SassBlock(0, at(COUNT, "IADD3") + at(HEAD, "LDG"), None, -1, 1),
                    SassBlock(1, at(LOAD, "LDG") + at(BACK, "BRA"), jump(1, "P0"), 1, 2),
                    SassBlock(2, at(AGAIN, "BRA"), jump(0, "P1"), 0, 3), SassBlock(3, at(END, "EXIT"), Branch("exit"), -1, -1)],
                   nest(HEAD))
    weighed = replace(machine, lines=machine.lines | {COUNT: path.REPRESENTATIVE})
    assert set(path.without_representatives(weighed).lines) == {HEAD, LOAD}


@pytest.mark.parametrize("opcode, operands", [("BRA.DIV", ("~URZ", "0x980")), ("BRA.DIV", ("UR4", "0x980")),
                                              ("CALL.ABS.NOINC", ("R2",))])
def test_the_slow_way_of_a_shuffle_and_a_call_out_of_the_cubin_do_not_end_a_block(opcode, operands):
    assert sass._branch(opcode, operands, None, 0, {}) is None


@needs_disassembler
@pytest.mark.parametrize("name, sm, executed", [("misc_assert", "sm_80", {"SHFL": 5}),
                                                ("permute_channels_last_uint8", "sm_90", {})])
def test_cases_are_joined(name, sm, executed):
    """The sum of a warp takes five shuffles, in line; a loop's count that stands in the loop's head says nothing of rounds."""
    streams = suite_streams(name, sm, False)
    assert streams is not None and streams.is_joined and streams.joined.residual <= path.EXPLAINED
    counts = Counter(step.instruction.base for step in streams.ctas[0].warps[0].steps)
    assert {base: counts[base] for base in executed} == executed


@needs_disassembler
def test_code_that_prints_is_joined():
    streams = suite_streams("misc_print_types", "sm_90", False)
    assert streams is not None and streams.is_joined


@needs_disassembler
@pytest.mark.skipif(reference.original() is None, reason="the original isn't installed")
def test_a_wrong_guess_that_passes_over_rounds_of_a_loop_does_not_hide_the_way(monkeypatch):
    """The original's permutation on sm_120: what is passed over costs too little beside progress, until it is made dearer."""
    streams = suite_streams("permute_heads_first_bf16", "sm_120", True)
    assert streams is not None and streams.is_joined and streams.joined.residual <= path.EXPLAINED
    monkeypatch.setattr(path, "DEARER", ())
    streams = suite_streams("permute_heads_first_bf16", "sm_120", True)
    assert streams is not None and streams.joined.residual > path.EXPLAINED
