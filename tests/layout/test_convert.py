"""Plans for conversions: cheapest kind, and every element where it belongs."""
from __future__ import annotations

import random

import pytest

from tests.conversion.test_moves import any_layout
from tileiras.layout.atoms import choose_atom, dot_layouts
from tileiras.layout.convert import (
    BARRIER_SLOTS,
    PASS_SLOTS,
    SELECT_SLOTS,
    SHUFFLE_SLOTS,
    Noop,
    RegisterPermute,
    ThroughShared,
    plan_conversion,
    shared_slots,
    shuffle_slots,
    stays_in_warps,
)
from tileiras.layout.f2 import apply
from tileiras.layout.linear import LinearLayout, blocked
from tileiras.layout.placement import within_warps
from tileiras.layout.shared import access
from tileiras.layout.shuffle import WarpShuffle, apply_shuffle, are_neighbours, in_words, plan_shuffle
from tileiras.machine.targets import find_target


@pytest.mark.parametrize("seed", range(150))
def test_shuffles_bring_every_element(seed: int) -> None:
    """Any two layouts that hold the same elements in each warp, copies included."""
    rng = random.Random(seed)
    bits = rng.randint(1, 8)
    warps = rng.choice([1, 2])
    src = any_layout(rng, (1 << bits,), warps, rng.randint(0, 2))
    inside = [*src.reg, *src.lane] + [0] * rng.randint(0, 2)
    rng.shuffle(inside)
    if rng.random() < 0.5:      # directions need not be single bits
        i, j = rng.sample(range(len(inside)), 2)
        inside[i] ^= inside[j]
    dst = LinearLayout(src.shape, tuple(inside[5:]), tuple(inside[:5]), src.warp)
    plan = plan_shuffle(src, dst, rng.choice([8, 16, 32, 64]))
    assert plan is not None
    for warp in range(warps):
        held = [[src.index(r, lane, warp) for r in range(src.num_regs)] for lane in range(32)]
        want = [[dst.index(r, lane, warp) for r in range(dst.num_regs)] for lane in range(32)]
        assert apply_shuffle(plan, held, warp) == want
        words = in_words(plan, src.num_regs)
        if words is None:
            continue
        packed = [[tuple(held[lane][r] for r in words.gathered[i:i + words.size])
                   for i in range(0, src.num_regs, words.size)] for lane in range(32)]
        out = [[x for word in given for x in word] for given in apply_shuffle(words.plan, packed, warp)]   # type: ignore[arg-type]
        assert [[given[i] for i in words.spread] for given in out] == want


def test_narrow_elements_are_selected_in_words() -> None:
    """Four lanes exchange pieces of 16 bytes of f16, which lie in words already: half the selects of single elements."""
    a = blocked((32, 64), 4, 2)
    b = LinearLayout(a.shape, (a.reg[0], *a.lane[:2], *a.reg[3:]), (*a.reg[1:3], *a.lane[2:]), a.warp)
    plan = plan_shuffle(a, b, 16)
    assert plan is not None and are_neighbours(plan)
    words = in_words(plan, a.num_regs)
    assert words is not None and words.size == 2 and words.gathered == words.spread == tuple(range(a.num_regs))
    count = a.num_regs // 2
    assert shuffle_slots(plan, 16) == count * 3 // 4 * SHUFFLE_SLOTS + 4 * count * SELECT_SLOTS


def test_elements_that_change_warps_are_not_shuffled() -> None:
    src = LinearLayout((128,), (), (1, 2, 4, 8, 16), (32, 64))
    dst = LinearLayout((128,), (), (64, 2, 4, 8, 16), (32, 1))
    assert plan_shuffle(src, dst, 32) is None
    assert isinstance(plan_conversion(src, dst, 32), ThroughShared)


def test_the_cheapest_kind_is_taken() -> None:
    a = blocked((64, 64), 4, 4)
    assert plan_conversion(a, a, 32) == Noop()
    renamed = LinearLayout(a.shape, a.reg[::-1], a.lane, a.warp)
    plan = plan_conversion(a, renamed, 32)
    assert isinstance(plan, RegisterPermute)
    assert [a.index(m) for m in plan.mapping] == [renamed.index(r) for r in range(a.num_regs)]
    lanes = LinearLayout(a.shape, (*a.lane[:2], *a.reg[2:]), (*a.reg[:2], *a.lane[2:]), a.warp)
    assert isinstance(plan_conversion(a, lanes, 32), WarpShuffle)


def test_few_registers_are_shuffled_and_many_go_through_shared_memory() -> None:
    """Four lanes exchange their registers: 3 of 4 by a shuffle, and every register through two selects before and two after.
    Shared memory takes accesses of 16 bytes, four passes each, and two barriers: that pays from some registers on."""
    for rows, shuffled in ((8, True), (16, True), (256, False)):
        a = blocked((rows, 64), 4, 4)
        b = LinearLayout(a.shape, (*a.lane[:2], *a.reg[2:]), (*a.reg[:2], *a.lane[2:]), a.warp)
        registers = a.num_regs
        by_shuffles = registers * 3 // 4 * SHUFFLE_SLOTS + registers * 4 * SELECT_SLOTS
        by_memory = 2 * (registers // 4) * (4 * PASS_SLOTS + 1) + 2 * BARRIER_SLOTS
        assert (by_shuffles <= by_memory) == shuffled
        plan = plan_conversion(a, b, 32)
        assert isinstance(plan, WarpShuffle if shuffled else ThroughShared)
        cost = shuffle_slots(plan, 32) if isinstance(plan, WarpShuffle) else shared_slots(plan, a, b)
        assert cost == (by_shuffles if shuffled else by_memory)


def test_accumulators_of_one_product_are_the_operand_of_the_next() -> None:
    """Attention: C of the first product (f32 narrowed to f16) is A of the second, without leaving its thread."""
    atom = choose_atom(find_target("sm_80"), "f16", "f16", "f32", 64, 64, 64)
    assert atom is not None
    *_, c = dot_layouts(atom, 64, 128, 32, 4, along="rows")
    a, *_ = dot_layouts(atom, 64, 32, 128, 4, along="rows")
    assert isinstance(plan_conversion(c, a, 16), Noop | RegisterPermute)
    *_, square = dot_layouts(atom, 64, 128, 32, 4)
    assert isinstance(plan_conversion(square, a, 16), ThroughShared)


def test_narrow_elements_share_a_shuffle() -> None:
    src = blocked((4, 128), 1, 4)
    dst = LinearLayout(src.shape, src.reg, src.lane[::-1], src.warp)
    assert [len(p.steps) for p in (plan_shuffle(src, dst, w) for w in (8, 16, 32)) if p is not None] == [4, 8, 16]


@pytest.mark.parametrize("seed", range(40))
def test_rounds_keep_the_scratch_within_its_budget(seed: int) -> None:
    rng = random.Random(seed)
    shape = rng.choice([(32, 32), (256,), (16, 64)])
    warps = rng.choice([1, 4])
    src, dst = any_layout(rng, shape, warps), any_layout(rng, shape, warps)
    elem = rng.choice([8, 32])
    budget = rng.choice([64, 256, 1024])
    plan = plan_conversion(src, dst, elem, budget)
    if not isinstance(plan, ThroughShared):
        return
    assert plan.bytes <= budget
    got: dict[tuple[int, int, int], int] = {}
    for number in range(plan.num_rounds):
        memory: dict[int, int] = {}
        for layout, write in ((src, True), (dst, False)):
            side = access(layout, plan.shared, plan.elem_bytes, plan.rounds)
            for lane in range(32):
                for warp in range(warps):
                    thread = apply(side.lane, lane) ^ apply(side.warp, warp)
                    own = apply(side.lane_round, lane) ^ apply(side.warp_round, warp)
                    for registers, offset, part in side.groups:
                        if part ^ own != number:
                            continue
                        for i, r in enumerate(registers):
                            if write:
                                memory[(thread ^ offset) + i] = layout.index(r, lane, warp)
                            else:
                                got[r, lane, warp] = memory[(thread ^ offset) + i]
    for (r, lane, warp), flat in got.items():
        assert flat == dst.index(r, lane, warp)
    assert len({r for r, _, _ in got}) == len(set(dst.reg_indices))


@pytest.mark.parametrize(("shape", "warps", "elem"), [((64, 64), 4, 2), ((128, 64), 8, 4), ((32, 128), 4, 2)])
def test_a_warp_keeps_its_part(shape: tuple[int, int], warps: int, elem: int) -> None:
    """Each warp holds what it held, in pieces of 16 bytes of rows; other warps needn't be there."""
    atom = choose_atom(find_target("sm_80"), "f16", "f16", "f32", *shape, 16)
    assert atom is not None
    *_, c = dot_layouts(atom, *shape, 16, warps)
    own = within_warps(c, 1, 16 // elem)
    assert own is not None and own.is_exclusive and own.is_complete and stays_in_warps(c, own)
    for warp in range(warps):
        held, dealt = ({layout.index(r, lane, warp) for r in range(layout.num_regs) for lane in range(32)} for layout in (c, own))
        assert held == dealt
    assert own.reg[:4 - elem // 2] == tuple(1 << i for i in range(4 - elem // 2))
    turned = LinearLayout(c.shape, own.reg, own.lane, own.warp[::-1])
    assert not stays_in_warps(c, turned)
