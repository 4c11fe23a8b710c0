"""Control flow, memory, barriers, warp operations, and the faults that the simulator must raise."""
from __future__ import annotations

import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests.sim.ptxkit import evaluate
from tileiras import sim
from tileiras.sim import simulate
from tileiras.sim.core import heap

HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"


def entry(body: str, params: str = ".param .u64 a", threads: int = 32, before: str = "") -> str:
    return f"{HEAD}{before}\n.visible .entry k({params})\n.reqntid {threads}\n{{\n{body}\nret;\n}}\n"


REGS = ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .b64 %d<20>;\n"
TID = "mov.u32 %r1, %tid.x;\nld.param.u64 %d1, [a];\nmul.wide.u32 %d2, %r1, 4;\nadd.s64 %d3, %d1, %d2;\n"


def run(body: str, n: int = 32, grid: int | tuple[int, ...] = 1, threads: int = 32, before: str = "", **options) -> np.ndarray:
    out = np.zeros(n, np.uint32)
    simulate(entry(REGS + body, threads=threads, before=before), grid=grid, args=[out], **options)
    return out


def test_loop_with_a_different_count_in_every_thread():
    out = run(TID + """
    mov.u32 %r2, 0; mov.u32 %r3, 0;
LOOP:
    setp.ge.u32 %p1, %r3, %r1; @%p1 bra DONE;
    add.u32 %r2, %r2, %r3; add.u32 %r3, %r3, 1; bra LOOP;
DONE:
    st.global.u32 [%d3], %r2;""")
    assert out.tolist() == [i * (i - 1) // 2 for i in range(32)]


def test_divergent_branches_rejoin_before_a_shuffle():
    out = run(TID + """
    and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra EVEN;
    mul.lo.u32 %r3, %r1, 10; bra JOIN;
EVEN:
    add.u32 %r3, %r1, 1000;
JOIN:
    shfl.sync.bfly.b32 %r4, %r3, 1, 31, -1;
    st.global.u32 [%d3], %r4;""")
    mine = [i * 10 if i & 1 else i + 1000 for i in range(32)]
    assert out.tolist() == [mine[i ^ 1] for i in range(32)]


def test_branch_table():
    out = run(TID + """
    and.b32 %r2, %r1, 3;
TABLE: .branchtargets A, B, C, D;
    brx.idx %r2, TABLE;
A:  mov.u32 %r3, 10; bra E;
B:  mov.u32 %r3, 11; bra E;
C:  mov.u32 %r3, 12; bra E;
D:  mov.u32 %r3, 13;
E:  st.global.u32 [%d3], %r3;""")
    assert out.tolist() == [10 + i % 4 for i in range(32)]


def test_early_exit_leaves_the_others_running():
    out = run(TID + """
    setp.gt.u32 %p1, %r1, 9; @%p1 exit;
    bar.sync 0;
    st.global.u32 [%d3], 7;""", n=64, threads=64)
    assert out.tolist() == [7] * 10 + [0] * 54


def test_functions_with_parameters_and_results_are_called():
    functions = """
.func (.param .b32 result) square(.param .b32 x, .param .align 4 .b8 pair[8])
{ .reg .b32 %q<4>;
  ld.param.u32 %q1, [x]; ld.param.u32 %q2, [pair+4]; mad.lo.u32 %q3, %q1, %q1, %q2; st.param.b32 [result], %q3; ret; }
.func (.reg .u32 out) plus(.reg .u32 x, .reg .u32 y) { add.u32 out, x, y; ret; }
"""
    out = run(TID + """
    { .param .b32 p0; .param .align 4 .b8 p1[8]; .param .b32 r0;
      st.param.b32 [p0], %r1; st.param.b32 [p1], 1; st.param.b32 [p1+4], 3;
      call.uni (r0), square, (p0, p1);
      ld.param.b32 %r2, [r0]; }
    call (%r3), plus, (%r2, 100);
    st.global.u32 [%d3], %r3;""", before=functions)
    assert out.tolist() == [i * i + 103 for i in range(32)]


def test_scopes_may_repeat_names_and_labels():
    out = run(TID + """
    { .reg .b32 t; .reg .pred p; mov.u32 t, 0;
AGAIN: add.u32 t, t, 1; setp.lt.u32 p, t, 4; @p bra AGAIN; mov.u32 %r2, t; }
    { .reg .b32 t; .reg .pred p; mov.u32 t, 0;
AGAIN: add.u32 t, t, 2; setp.lt.u32 p, t, 9; @p bra AGAIN; add.u32 %r2, %r2, t; }
    st.global.u32 [%d3], %r2;""")
    assert out.tolist() == [14] * 32


def test_shared_memory_and_barriers_reverse_a_block():
    out = run(TID + """
    .shared .align 4 .b8 tile[512];
    mov.u32 %r2, tile; shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3;
    st.shared.u32 [%r4], %r1;
    bar.sync 0;
    sub.u32 %r5, 127, %r1; shl.b32 %r5, %r5, 2; add.u32 %r5, %r2, %r5;
    ld.shared.u32 %r6, [%r5];
    mov.u32 %r7, %ctaid.x; mad.lo.u32 %r8, %r7, 128, %r1; mul.wide.u32 %d4, %r8, 4; add.s64 %d5, %d1, %d4;
    mad.lo.u32 %r6, %r7, 1000, %r6;
    st.global.u32 [%d5], %r6;""", n=512, grid=4, threads=128)
    assert out.tolist() == [1000 * c + 127 - i for c in range(4) for i in range(128)]


def test_generic_addresses_reach_every_window():
    out = run(TID + """
    .shared .align 4 .u32 s[32]; .local .align 4 .u32 l[4];
    mov.u64 %d4, s; cvta.shared.u64 %d4, %d4; add.s64 %d4, %d4, %d2;
    mov.u64 %d5, l; cvta.local.u64 %d5, %d5;
    st.u32 [%d4], %r1; st.u32 [%d5+8], 5;
    isspacep.shared %p1, %d4; isspacep.global %p2, %d4; isspacep.local %p3, %d5;
    selp.u32 %r2, 100, 0, %p1; @%p2 add.u32 %r2, %r2, 1000; @%p3 add.u32 %r2, %r2, 10000;
    setp.lt.u32 %p4, %r1, 16; selp.b64 %d6, %d4, %d5, %p4; @!%p4 add.s64 %d6, %d6, 8;
    ld.u32 %r3, [%d6]; add.u32 %r3, %r3, %r2;
    st.global.u32 [%d3], %r3;""")
    assert out.tolist() == [(i if i < 16 else 5) + 10100 for i in range(32)]


def test_module_variables_and_constants():
    before = ".global .align 4 .u32 table[4] = {5, 6, 7, 8};\n.const .align 8 .f64 c = 0d4000000000000000;\n" \
             ".global .u64 where = table;"
    out = run(TID + """
    and.b32 %r2, %r1, 3; mul.wide.u32 %d4, %r2, 4; ld.global.u64 %d5, [where]; add.s64 %d4, %d5, %d4;
    ld.global.u32 %r3, [%d4]; ld.const.u64 %d6, [c]; shr.u64 %d6, %d6, 52; cvt.u32.u64 %r4, %d6;
    add.u32 %r3, %r3, %r4; st.global.u32 [%d3], %r3;""", before=before)
    assert out.tolist() == [5 + i % 4 + 0x400 for i in range(32)]


def test_vector_accesses_of_every_width():
    x = np.arange(64, dtype=np.uint16)
    y = np.zeros(64, np.uint16)
    body = """.reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .b128 %q;
    ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b];
    ld.global.v4.b16 {%h1, %h2, %h3, %h4}, [%d1]; st.global.v4.b16 [%d2], {%h4, %h3, %h2, %h1};
    ld.global.v2.b64 {%d3, %d4}, [%d1+16]; st.global.v2.b64 [%d2+16], {%d4, %d3};
    ld.global.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%d1+32]; st.global.v2.b32 [%d2+32], {%r8, %r1};
    ld.global.b128 %q, [%d1+64]; st.global.b128 [%d2+64], %q;
    mov.b128 {%d5, %d6}, %q; st.global.u64 [%d2+80], %d6;"""
    text = entry(body, ".param .u64 a, .param .u64 b", 1).replace(HEAD, ".version 8.8\n.target sm_100\n.address_size 64\n")
    simulate(text, args=[x, y])
    assert y[:4].tolist() == [3, 2, 1, 0] and y[8:16].tolist() == [12, 13, 14, 15, 8, 9, 10, 11]
    assert y[16:20].tolist() == [30, 31, 16, 17] and y[32:44].tolist() == [*range(32, 40), *range(36, 40)]


def test_signed_loads_extend():
    x = np.array([-1, -128, 127, 5], np.int8)
    y = np.zeros(4, np.int32)
    body = """.reg .b32 %r<9>; .reg .b64 %d<9>; ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; mov.u32 %r1, %tid.x;
    cvt.u64.u32 %d3, %r1; add.s64 %d4, %d1, %d3; ld.global.s8 %r2, [%d4]; mul.wide.u32 %d3, %r1, 4;
    add.s64 %d4, %d2, %d3; st.global.u32 [%d4], %r2;"""
    simulate(entry(body, ".param .u64 a, .param .u64 b", 4), args=[x, y])
    assert y.tolist() == [-1, -128, 127, 5]


def test_scalar_parameters_take_their_type():
    body = """.reg .b16 %h<4>; .reg .b32 %r<9>; .reg .b64 %d<9>;
    ld.param.u64 %d1, [o]; ld.param.f32 %r1, [f]; ld.param.s8 %h1, [c]; ld.param.f64 %d2, [g]; ld.param.u16 %h2, [h];
    st.global.f32 [%d1], %r1; cvt.s32.s16 %r2, %h1; st.global.u32 [%d1+4], %r2; st.global.f64 [%d1+8], %d2;
    st.global.u16 [%d1+16], %h2;"""
    out = np.zeros(20, np.uint8)
    text = entry(body, ".param .u64 o, .param .f32 f, .param .s8 c, .param .f64 g, .param .u16 h", 1)
    simulate(text, args=[out, np.float32(1.5), np.int8(-3), 2.25, np.float16(0.5)])
    assert out[:4].view(np.float32)[0] == 1.5 and out[4:8].view(np.int32)[0] == -3
    assert out[8:16].view(np.float64)[0] == 2.25 and out[16:18].view(np.float16)[0] == 0.5
    with pytest.raises(sim.LaunchError, match="takes 5 parameters, 1"):
        simulate(text, args=[out])


def test_arrays_that_share_memory_are_one_allocation():
    whole = np.arange(8, dtype=np.uint32)
    body = """.reg .b32 %r<9>; .reg .b64 %d<9>; ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b];
    ld.global.u32 %r1, [%d2]; st.global.u32 [%d1], %r1; sub.s64 %d3, %d2, %d1; st.global.u64 [%d1+8], %d3;"""
    simulate(entry(body, ".param .u64 a, .param .u64 b", 1), args=[whole, whole[4:]])
    assert whole.tolist() == [4, 1, 16, 0, 4, 5, 6, 7]


# ---- warp operations

SHUFFLES = {"up": lambda i: i - 3 if i >= 3 else i, "down": lambda i: i + 3 if i + 3 < 32 else i,
            "bfly": lambda i: i ^ 3, "idx": lambda i: 3}


@pytest.mark.parametrize("mode", SHUFFLES)
def test_shuffles(mode):
    clamp = 0 if mode == "up" else 31
    x = np.arange(32, dtype=np.uint32) * 7
    value, ok = evaluate(f"shfl.sync.{mode}.b32 %y0|%p1, %x0, 3, {clamp}, -1;\nselp.u32 %y1, 1, 0, %p1;",
                         [("b32", x)], [("b32", np.uint32), ("b32", np.uint32)])
    source = [SHUFFLES[mode](i) for i in range(32)]
    assert value.tolist() == [7 * s for s in source]
    moved = {"up": lambda i: i >= 3, "down": lambda i: i + 3 < 32}.get(mode, lambda i: True)
    assert ok.tolist() == [int(moved(i)) for i in range(32)]


def test_shuffles_in_segments_of_eight():
    x = np.arange(32, dtype=np.uint32)
    got = evaluate("shfl.sync.down.b32 %y0, %x0, 2, 0x181f, -1;", [("b32", x)], [("b32", np.uint32)])
    assert got.tolist() == [i + 2 if i % 8 < 6 else i for i in range(32)]
    lane = np.arange(32, dtype=np.uint32) % 5
    got = evaluate("shfl.sync.idx.b32 %y0, %x0, %x1, 0x181f, -1;", [("b32", x), ("b32", lane)], [("b32", np.uint32)])
    assert got.tolist() == [i // 8 * 8 + i % 5 for i in range(32)]


def test_votes_matches_and_reductions():
    x = np.arange(32, dtype=np.uint32) % 3
    full = 0xFFFFFFFF
    outs = [("b32", np.uint32)] * 3
    ballot, every, some = evaluate("""setp.eq.u32 %p1, %x0, 1; vote.sync.ballot.b32 %y0, %p1, -1;
    vote.sync.all.pred %p2, %p1, -1; vote.sync.any.pred %p3, %p1, -1; selp.u32 %y1, 1, 0, %p2;
    selp.u32 %y2, 1, 0, %p3;""", [("b32", x)], outs)
    assert ballot.tolist() == [sum(1 << i for i in range(32) if i % 3 == 1)] * 32
    assert every.tolist() == [0] * 32 and some.tolist() == [1] * 32
    match, total, least = evaluate("""match.any.sync.b32 %y0, %x0, -1; redux.sync.add.u32 %y1, %x0, -1;
    redux.sync.min.u32 %y2, %x0, -1;""", [("b32", x)], outs)
    assert match.tolist() == [sum(1 << j for j in range(32) if j % 3 == i % 3) & full for i in range(32)]
    assert total.tolist() == [int(x.sum())] * 32 and least.tolist() == [0] * 32
    mask, leader, lanes = evaluate("""activemask.b32 %y0; elect.sync %r1|%p1, -1; selp.u32 %y1, 1, 0, %p1;
    mov.u32 %y2, %lanemask_lt; add.u32 %y2, %y2, %x0;""", [("b32", x * 0)], outs)
    assert mask.tolist() == [full] * 32 and leader.tolist() == [1] + [0] * 31
    assert lanes.tolist() == [(1 << i) - 1 for i in range(32)]


def test_reduction_of_floats():
    x = np.random.default_rng(5).standard_normal(32).astype(np.float32)
    got = evaluate("redux.sync.max.f32 %y0, %x0, -1;", [("f32", x)], [("f32", np.float32)], target="sm_100a")
    assert (got == x.max()).all()
    x[3] = np.nan
    got = evaluate("redux.sync.min.abs.NaN.f32 %y0, %x0, -1;", [("f32", x)], [("f32", np.float32)], target="sm_100a")
    assert np.isnan(got).all()


def test_votes_by_part_of_a_warp():
    out = run(TID + """
    setp.lt.u32 %p1, %r1, 8; @!%p1 bra REST;
    vote.sync.ballot.b32 %r2, %p1, 0xff; bra JOIN;
REST: mov.u32 %r2, 1;
JOIN: st.global.u32 [%d3], %r2;""")
    assert out.tolist() == [255] * 8 + [1] * 24


# ---- barriers

def test_named_barriers_between_producer_and_consumer_warps():
    out = run(TID + """
    .shared .align 4 .u32 s[32];
    mov.u32 %r2, s; setp.ge.u32 %p1, %r1, 32; @%p1 bra CONSUME;
    shl.b32 %r3, %r1, 2; add.u32 %r3, %r2, %r3; mul.lo.u32 %r4, %r1, 3; st.shared.u32 [%r3], %r4;
    bar.arrive 1, 64; bra DONE;
CONSUME:
    bar.sync 1, 64;
    sub.u32 %r3, %r1, 32; shl.b32 %r4, %r3, 2; add.u32 %r4, %r2, %r4; ld.shared.u32 %r5, [%r4];
    st.global.u32 [%d3], %r5;
DONE:""", n=64, threads=64)
    assert out.tolist() == [0] * 32 + [3 * i for i in range(32)]


def test_barrier_reductions():
    out = run(TID + """
    and.b32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 0;
    barrier.cta.red.popc.u32 %r3, 0, %p1; bar.red.or.pred %p2, 1, %p1; bar.red.and.pred %p3, 2, %p1;
    @%p2 add.u32 %r3, %r3, 1000; @%p3 add.u32 %r3, %r3, 100000; st.global.u32 [%d3], %r3;""", n=96, threads=96)
    assert out.tolist() == [1024] * 96


def test_a_barrier_that_half_the_block_skips_is_a_deadlock():
    with pytest.raises(sim.Deadlock, match=r"32 threads wait at barrier 0.*\n.*bar.sync"):
        run(TID + """
        setp.lt.u32 %p1, %r1, 32; @!%p1 bra SPIN; bar.sync 0; bra DONE;
SPIN:   bar.sync 1;
DONE:""", n=64, threads=64)


def test_a_barrier_with_two_counts_is_a_fault():
    with pytest.raises(sim.BarrierError, match="different thread counts"):
        run(TID + "setp.lt.u32 %p1, %r1, 32; @%p1 bra A; bar.sync 1, 96; bra DONE;\nA: bar.sync 1, 64;\nDONE:", 96,
            threads=96)


def test_spinning_threads_let_others_run():
    out = run(TID + """
    .shared .align 4 .u32 flag;
    setp.ne.u32 %p1, %r1, 0; @%p1 bra SKIP; st.shared.u32 [flag], 0;
SKIP: bar.sync 0;
    setp.eq.u32 %p2, %r1, 63; @%p2 bra SET;
WAIT: ld.volatile.shared.u32 %r2, [flag]; setp.eq.u32 %p3, %r2, 0; @%p3 bra WAIT; bra DONE;
SET: st.volatile.shared.u32 [flag], 9;  mov.u32 %r2, 9;
DONE: st.global.u32 [%d3], %r2;""", n=64, threads=64)
    assert out.tolist() == [9] * 64


def test_a_block_may_wait_for_a_later_block():
    before = ".global .u32 ready;"
    out = run("""
    ld.param.u64 %d1, [a]; mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra LAST;
WAIT: ld.acquire.gpu.global.u32 %r2, [ready]; setp.eq.u32 %p2, %r2, 0; @%p2 bra WAIT;
    st.global.u32 [%d1], %r2; ret;
LAST: setp.ne.u32 %p3, %r1, 40; @%p3 ret; st.release.gpu.global.u32 [ready], 5;""", n=1, grid=41, threads=32,
              before=before, batch_threads=64)
    assert out[0] == 5


def test_a_runaway_loop_meets_the_budget():
    with pytest.raises(sim.BudgetExceeded, match="more than 1000 instructions"):
        run("AGAIN: bra AGAIN;", max_instructions=1000)


# ---- atomics

def test_atomics_of_one_address_are_served_one_after_another():
    out = run(TID + """
    atom.global.add.u32 %r2, [%d1], 1; setp.lt.u32 %p1, %r2, 500;
    mov.u32 %r3, %ctaid.x; mad.lo.u32 %r4, %r3, 32, %r1; mul.wide.u32 %d4, %r4, 4; add.s64 %d5, %d1, %d4;
    st.global.u32 [%d5+256], %r2;""", n=64 + 320, grid=10)
    assert out[0] == 320 and sorted(out[64:].tolist()) == list(range(320))


@pytest.mark.parametrize("op,start,f", [
    ("min.s32", 5, lambda v: min([5, *v])), ("max.u32", 5, lambda v: max([5, *v])),
    ("and.b32", 0xFF, lambda v: 0), ("or.b32", 0, lambda v: 31), ("xor.b32", 1, lambda v: 1),
    ("inc.u32", 0, lambda v: None), ("exch.b32", 9, lambda v: 31)])
def test_atomic_operations(op, start, f):
    body = f"atom.global.{op} %r2, [%d1], %r1; st.global.u32 [%d3+4], %r2;"
    out = np.zeros(33, np.uint32)
    out[0] = start
    simulate(entry(REGS + TID + body), args=[out])
    want = f(list(range(32)))
    if want is None:
        want = 0
        for i in range(32):
            want = 0 if want >= i else want + 1
    assert out[0] == want and out[1] == start


def test_compare_and_swap_loops_end():
    out = run(TID + """
    ld.global.u32 %r2, [%d1];
AGAIN: add.u32 %r3, %r2, %r1; atom.global.cas.b32 %r4, [%d1], %r2, %r3; setp.ne.u32 %p1, %r4, %r2;
    mov.u32 %r2, %r4; @%p1 bra AGAIN;""", n=1)
    assert out[0] == sum(range(32))


def test_float_atomics_add_every_term():
    for t, dtype in (("f32", np.float32), ("f64", np.float64), ("noftz.f16", np.float16)):
        out = np.zeros(1, dtype)
        register = {"f32": "%r3", "f64": "%d4", "noftz.f16": "%h1"}[t]
        kind = t.split(".")[-1]
        rounding = "" if kind == "f64" else ".rn"
        simulate(entry(REGS + TID + f"cvt.rn.{kind}.u32 {register}, %r1; red.global.add.{t} [%d1], {register};"
                       .replace("cvt.rn", f"cvt{rounding or '.rn'}")), args=[out])
        assert out[0] == 496
    pair = np.zeros(2, np.float16)
    simulate(entry(REGS + TID + "mov.u32 %r3, 0x3C004000; red.global.add.noftz.f16x2 [%d1], %r3;"), args=[pair])
    assert pair.tolist() == [64.0, 32.0]
    for form in ("add.v4.f32", "v4.f32.add", "gpu.v4.f32.add.noftz"):
        four = np.zeros(4, np.float32)
        simulate(entry(REGS + TID + "mov.f32 %r3, 0f3F800000; mov.f32 %r4, 0f40000000;"
                       f"red.global.{form} [%d1], {{%r3, %r4, %r3, %r4}};"), args=[four])
        assert four.tolist() == [32, 64, 32, 64]


# ---- faults

FAULTS = {
    "an unwritten register in global memory": (sim.UninitializedRead, TID + "st.global.u32 [%d3], %r9;", "%r9"),
    "an unwritten address": (sim.UninitializedRead, "st.global.u32 [%d9], 1;", "%d9"),
    "a register written by half the warp": (
        sim.UninitializedRead, TID + "setp.lt.u32 %p1, %r1, 16; @%p1 mov.u32 %r4, 1; st.global.u32 [%d3], %r4;", "%r4"),
    "unwritten shared memory": (sim.UninitializedRead, ".shared .u32 s[4]; ld.shared.u32 %r2, [s+4];", "shared memory"),
    "unwritten local memory": (sim.UninitializedRead, ".local .u32 s[4]; ld.local.u32 %r2, [s+4];", "local memory"),
    "a read past the end": (sim.OutOfBounds, TID + "ld.global.u32 %r2, [%d3+4];", "0 bytes past the end of argument 0"),
    "a write before the start": (sim.OutOfBounds, TID + "st.global.u32 [%d3+-4], %r1;", ""),
    "a null pointer": (sim.OutOfBounds, "mov.u64 %d1, 0; ld.global.u32 %r1, [%d1];", "0x0"),
    "a null generic pointer": (sim.OutOfBounds, "mov.u64 %d1, 0; ld.u32 %r1, [%d1];", "0x0"),
    "shared memory past the end": (sim.OutOfBounds, ".shared .u32 s[4]; st.shared.u32 [s+16], 1;", "shared"),
    "a misaligned word": (sim.Misaligned, TID + "ld.global.u32 %r2, [%d1+2];", "multiple of 4"),
    "a misaligned vector": (sim.Misaligned, TID + "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d1+8];", "multiple of 16"),
    "a write to a constant": (sim.OutOfBounds, TID + "mov.u64 %d4, c; st.global.u32 [%d4], 1;", "read-only c"),
    "a trap": (sim.Trap, "trap;", "trap"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_name_their_line(name):
    kind, body, words = FAULTS[name]
    with pytest.raises(kind) as caught:
        run(body, before=".const .u32 c = 4;")
    error = caught.value
    assert words in str(error) and error.kernel == "k" and error.ctaid == (0, 0, 0) and error.line
    assert error.text in body or error.text in str(body).replace("\n", "")
    assert error.tid is not None


def test_the_faulting_thread_is_named():
    with pytest.raises(sim.OutOfBounds) as caught:
        run(TID + "mov.u32 %r2, %ctaid.y; setp.eq.u32 %p1, %r1, 17; setp.eq.and.u32 %p1, %r2, 2, %p1;"
            "@%p1 add.s64 %d3, %d3, 4096; st.global.u32 [%d3], 1;", grid=(1, 4))
    assert caught.value.ctaid == (0, 2, 0) and caught.value.tid == (17, 0, 0)
    assert (caught.value.warp, caught.value.lane) == (0, 17) and "warp 0 lane 17" in str(caught.value)


def test_strict_launches_refuse_arithmetic_without_a_value():
    body = TID + "add.u32 %r5, %r9, 1; st.global.u32 [%d3], %r1;"
    assert run(body).tolist() == list(range(32))
    with pytest.raises(sim.UninitializedRead, match="%r9"):
        run(body, undefined="raise")


def test_branches_on_nothing_are_findings():
    out = np.zeros(32, np.uint32)
    report = simulate(entry(REGS + TID + "setp.eq.u32 %p1, %r9, 1; @%p1 bra A;\nA: st.global.u32 [%d3], %r1;"), args=[out])
    assert len(report.findings) == 1 and "%p1" in str(report.findings[0])


def test_unknown_instructions_and_bad_text_are_refused():
    with pytest.raises(sim.UnsupportedInstruction, match=r"tex.2d"):
        run("tex.2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [t, {%r1, %r2}];")
    with pytest.raises(sim.PtxSyntaxError):
        run("add.u32 %r1, ;")
    with pytest.raises(sim.InvalidInstruction, match="unknown name"):
        run("mov.u32 %r1, nowhere;")
    with pytest.raises(sim.LaunchError, match="no kernel other"):
        simulate(entry(REGS + TID), kernel="other", args=[np.zeros(1, np.uint32)])


PRINTING = """.global .align 1 .b8 fmt[16] = {105, 61, 37, 100, 32, 37, 46, 50, 102, 32, 37, 115, 10, 0};
.global .align 1 .b8 word[4] = {97, 98, 99, 0};
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 c);"""
PRINT = """
    st.local.u32 [%d4], NUMBER; st.local.f64 [%d4+8], 0d3FF8000000000000; mov.u64 %d6, word; cvta.global.u64 %d6, %d6;
    st.local.u64 [%d4+16], %d6; mov.u64 %d7, fmt; cvta.global.u64 %d7, %d7;
    { .param .b64 p0; .param .b64 p1; .param .b32 r0; st.param.b64 [p0], %d7; st.param.b64 [p1], %d5;
      call.uni (r0), vprintf, (p0, p1); ld.param.b32 %r5, [r0]; }"""
FAIL = "mov.u64 %d6, word; { .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4;" \
       "st.param.b64 [p0], %d6; st.param.b64 [p1], %d6; st.param.b32 [p2], 12; st.param.b64 [p3], %d6;" \
       "st.param.b64 [p4], 1; call.uni __assertfail, (p0, p1, p2, p3, p4); }"
DEPOT = ".local .align 8 .b8 depot[24]; mov.u64 %d4, depot; cvta.local.u64 %d5, %d4;"


@pytest.mark.parametrize("count", [1, 2, 20, 31, 32])
def test_some_threads_print(count):
    body = f"{TID} {DEPOT} setp.ge.u32 %p1, %r1, {count}; @%p1 bra DONE; {PRINT.replace('NUMBER', '%r1')} DONE:"
    report = simulate(entry(REGS + body, before=PRINTING), args=[np.zeros(32, np.uint32)])
    assert report.output == "".join(f"i={i} 1.50 abc\n" for i in range(count))


@pytest.mark.parametrize("every", [1, 2, 5])
def test_some_blocks_print_each_its_lines_together(every):
    """Two lines a thread: without order between blocks, each block's would be torn apart."""
    body = f"""{TID} {DEPOT} mov.u32 %r6, %ctaid.x; rem.u32 %r7, %r6, {every}; setp.ne.u32 %p1, %r7, 0; @%p1 bra DONE;
    setp.gt.u32 %p1, %r1, 1; @%p1 bra DONE; mad.lo.u32 %r8, %r6, 10, %r1; {PRINT.replace('NUMBER', '%r6')}
    {PRINT.replace('NUMBER', '%r8')} DONE:"""
    report = simulate(entry(REGS + body, before=PRINTING), grid=12, args=[np.zeros(32, np.uint32)])
    expected = [n for b in range(0, 12, every) for n in (b, b, 10 * b, 10 * b + 1)]
    assert report.output == "".join(f"i={n} 1.50 abc\n" for n in expected)


def test_a_failed_assertion_says_what_cuda_says():
    with pytest.raises(sim.Trap, match=r"abc:12: abc: block: \[0,0,0\], thread: \[0,0,0\] Assertion `abc` failed\."):
        simulate(entry(REGS + FAIL, before=PRINTING), args=[np.zeros(1, np.uint32)])


def test_an_assertion_fails_in_some_blocks_after_they_have_printed():
    body = f"""{TID} {DEPOT} mov.u32 %r6, %ctaid.x; and.b32 %r7, %r6, 1; setp.eq.u32 %p1, %r7, 0; @%p1 bra DONE;
    setp.ne.u32 %p1, %r1, 7; @%p1 bra DONE; {PRINT.replace('NUMBER', '%r6')} {FAIL} DONE:"""
    with pytest.raises(sim.Trap) as caught:
        simulate(entry(REGS + body, before=PRINTING), grid=6, args=[np.zeros(32, np.uint32)])
    said = [line for line in str(caught.value).splitlines() if "Assertion" in line]
    assert [line.partition("block: ")[2][:25] for line in said] == [f"[{b},0,0], thread: [7,0,0] " for b in (1, 3, 5)]
    assert caught.value.output == "".join(f"i={b} 1.50 abc\n" for b in (1, 3, 5))


def test_some_threads_take_memory_from_the_heap():
    before = """.extern .func (.param .b64 r) ALLOCATE (.param .b64 s, .param .b64 a);
.extern .func free (.param .b64 p);""".replace("ALLOCATE", heap.ALLOCATE)
    body = TID + """ setp.ge.u32 %p1, %r1, 5; @%p1 bra DONE;
    { .param .b64 p0; .param .b64 p1; .param .b64 r0; st.param.b64 [p0], 64; st.param.b64 [p1], 16;
      call.uni (r0), ALLOCATE, (p0, p1); ld.param.b64 %d4, [r0]; }
    st.u32 [%d4], %r1; ld.u32 %r5, [%d4]; st.global.u32 [%d3], %r5;
    { .param .b64 p0; st.param.b64 [p0], %d4; call.uni free, (p0); }
    DONE:""".replace("ALLOCATE", heap.ALLOCATE)
    out = np.full(32, 9, np.uint32)
    simulate(entry(REGS + body, before=before), args=[out])
    assert out.tolist() == [0, 1, 2, 3, 4] + [9] * 27


def test_special_registers_place_every_thread():
    body = """.reg .b32 %r<20>; .reg .b64 %d<9>;
    ld.param.u64 %d1, [a]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ntid.x; mov.u32 %r4, %ctaid.x;
    mov.u32 %r5, %ctaid.y; mov.u32 %r6, %nctaid.x; mov.u32 %r7, %clusterid.y; mad.lo.u32 %r8, %r5, %r6, %r4;
    mad.lo.u32 %r9, %r2, %r3, %r1; mad.lo.u32 %r10, %r8, 64, %r9; mul.wide.u32 %d2, %r10, 4; add.s64 %d3, %d1, %d2;
    mov.u32 %r11, %laneid; mov.u32 %r12, %warpid; mad.lo.u32 %r13, %r12, 100, %r11; mad.lo.u32 %r13, %r7, 1000, %r13;
    st.global.u32 [%d3], %r13;"""
    out = np.zeros(6 * 64, np.uint32)
    simulate(entry(body, threads="16, 4"), grid=(3, 2), args=[out])       # type: ignore[arg-type]
    want = [1000 * (c // 3) + 100 * (t // 32) + t % 32 for c in range(6) for t in range(64)]
    assert out.tolist() == want


# ---- races in shared memory

EXCHANGE = TID + """
    .shared .align 4 .b8 tile[512];
    mov.u32 %r2, tile; shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3; sub.u32 %r5, 508, %r3; add.u32 %r5, %r2, %r5;
    st.shared.u32 [%r4], %r1;
    bar.sync 0;
    ld.shared.u32 %r6, [%r5]; st.global.u32 [%d3], %r6;
    bar.sync 0;
    st.shared.u32 [%r4], 5;"""


def findings(body: str, threads: int = 128) -> list[str]:
    out = np.zeros(threads, np.uint32)
    return [str(f) for f in simulate(entry(REGS + body, threads=threads), args=[out]).findings]


def test_barriers_order_shared_memory():
    assert not findings(EXCHANGE)
    assert not findings(EXCHANGE.replace("bar.sync 0;", "barrier.sync.aligned 0;"))


def test_a_missing_barrier_is_a_race():
    first, second, third = EXCHANGE.split("bar.sync 0;")
    found = findings(first + second + "bar.sync 0;" + third)
    assert len(found) == 1 and "warp 0 reads byte 508 of shared memory, which warp 3 wrote" in found[0]
    found = findings(first + "bar.sync 0;" + second + third)
    assert len(found) == 1 and "writes" in found[0] and "st.shared.u32 \t[%r4], 5".replace("\t", "") in found[0]


def test_threads_of_one_warp_do_not_race():
    body = EXCHANGE.replace("508", "124").replace("bar.sync 0;", "bar.warp.sync -1;")
    assert not findings(body, 32)


def test_threads_of_one_warp_race_until_they_meet():
    body = EXCHANGE.replace("508", "124")
    first, second, third = body.split("bar.sync 0;")
    met = "bar.warp.sync -1;"
    found = findings(first + second + met + third, 32)
    assert len(found) == 1 and "thread 0 of warp 0 reads byte 124 of shared memory, which thread 31 of its warp wrote" in found[0]
    found = findings(first + met + second + third, 32)
    assert len(found) == 1 and "writes byte" in found[0] and "of its warp read with no bar.warp.sync between" in found[0]
    for order in ("bar.sync 0;", met):
        assert not findings(first + order + second + order + third, 32)


def test_a_thread_does_not_race_with_itself():
    own = TID + """.shared .align 4 .b8 own[128]; mov.u32 %r2, own; shl.b32 %r3, %r1, 2; add.u32 %r2, %r2, %r3;
        st.shared.u32 [%r2], 1; ld.shared.u32 %r4, [%r2]; st.shared.u32 [%r2], %r3; ld.shared.u32 %r4, [%r2];"""
    assert not findings(own, 32)


def test_threads_of_a_warp_may_write_one_value():
    same = TID + ".shared .align 4 .u32 one; mov.u32 %r2, 7; st.shared.u32 [one], %r2; st.shared.u32 [one], %r2; bar.warp.sync -1;"
    for threads in (32, 128):
        assert not findings(same + "ld.shared.u32 %r3, [one];", threads)
    found = findings(same + "st.shared.u32 [one], 8; @%p1 st.shared.u32 [one], 9;".replace("@%p1 ", ""), 32)
    assert len(found) == 1 and "wrote with no bar.warp.sync between" in found[0]


def test_two_warps_that_write_different_values_race():
    same = TID + ".shared .align 4 .u32 one; mov.u32 %r2, 7; st.shared.u32 [one], %r2; bar.sync 0;"
    assert not findings(same)
    found = findings(same.replace("%r2, 7", "%r2, %warpid"))
    assert len(found) == 1 and "of shared memory, which warp 3 also writes" in found[0]


# ---- what a launch costs

FOOTPRINT = """
import numpy as np
from tileiras.sim import simulate
from tests.sim.asynckit import kernel

def kilobytes(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))

def run(array):
    simulate(kernel("ld.global.u32 %r1, [%g0]; st.global.u32 [%g1], %r1;"), args=[array, np.ones(4, np.uint32)], grid=2)

array = np.ones(16 << 20, np.uint32)
run(np.ones(4, np.uint32))
before = kilobytes("VmRSS")
run(array)
print((kilobytes("VmHWM") - before) / (array.nbytes / 1024))
"""


@pytest.mark.skipif(not pathlib.Path("/proc/self/status").exists(), reason="reads Linux's account of memory")
def test_a_launch_holds_its_arrays_once_more_and_watches_what_is_touched():
    root = pathlib.Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", FOOTPRINT], cwd=root, capture_output=True, text=True, timeout=120, check=True)
    assert float(done.stdout) < 1.25
