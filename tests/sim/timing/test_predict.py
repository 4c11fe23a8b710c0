"""predict(): kernels written in PTX, assembled by ptxas, and what must come out by arithmetic."""
from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from tests.sim.timing import streamkit as kit
from tests.sim.timing.streamkit import step
from tileiras.codegen import ptxas, toolchain
from tileiras.machine.machines import machine_of
from tileiras.sim.timing import predict, predictor
from tileiras.sim.timing.errors import NotTimed
from tileiras.sim.timing.lines import places
from tileiras.sim.timing.occupancy import occupancy
from tileiras.sim.timing.predictor import predict_streams
from tileiras.sim.timing.sharing import sharing
from tileiras.sim.timing.stream import CtaStreams, GlobalAccess, Joined, KernelStreams, SharedAccess

NEEDED = pytest.mark.skipif(toolchain.find_tool("nvdisasm") is None or toolchain.find_tool("ptxas") is None,
                            reason="needs ptxas and nvdisasm")
THREADS = 256


def assemble(ptx: str, lineinfo: bool = True, sm: str = "sm_90a") -> bytes:
    return ptxas.assemble(ptx, ptxas.arguments(sm, 3, lineinfo=lineinfo)).cubin


def copy_kernel(vector: int = 4) -> str:
    """out[i] = in[i], four loads of 16 bytes a thread."""
    text = [".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry copy(.param .u64 a, .param .u64 b)",
            f".reqntid {THREADS}\n{{\n.reg .b64 %p, %q, %o;\n.reg .b32 %t, %c, %v<16>;", "ld.param.u64 %p, [a];",
            "ld.param.u64 %q, [b];", "mov.u32 %t, %tid.x;", "mov.u32 %c, %ctaid.x;",
            f"mad.lo.u32 %t, %c, {THREADS * vector}, %t;", "mul.wide.u32 %o, %t, 16;", "add.u64 %p, %p, %o;", "add.u64 %q, %q, %o;"]
    for i in range(vector):
        text.append(f"ld.global.v4.b32 {{%v{4 * i}, %v{4 * i + 1}, %v{4 * i + 2}, %v{4 * i + 3}}}, [%p+{16 * THREADS * i}];")
    for i in range(vector):
        text.append(f"st.global.v4.b32 [%q+{16 * THREADS * i}], {{%v{4 * i}, %v{4 * i + 1}, %v{4 * i + 2}, %v{4 * i + 3}}};")
    return "\n".join([*text, "ret;\n}\n"])


def shared_kernel(stride: int, rounds: int = 200) -> str:
    """Each thread adds up words of shared memory, `stride` bytes from its neighbour's."""
    return f""".version 8.0
.target sm_90a
.address_size 64
.visible .entry shared(.param .u64 out)
.reqntid 128
{{
.reg .b64 %q, %o; .reg .b32 %t, %a, %v, %s, %i; .reg .pred %p; .shared .align 16 .b8 s[8192];
ld.param.u64 %q, [out];
mov.u32 %t, %tid.x;
and.b32 %a, %t, 31;
mul.lo.u32 %a, %a, {stride};
mov.u32 %v, s;
add.u32 %a, %a, %v;
st.shared.u32 [%a], %t;
bar.sync 0;
mov.u32 %s, 0;
mov.u32 %i, 0;
LOOP:
.pragma "nounroll";
ld.volatile.shared.u32 %v, [%a];
add.u32 %s, %s, %v;
add.u32 %i, %i, 1;
setp.lt.u32 %p, %i, {rounds};
@%p bra LOOP;
mul.wide.u32 %o, %t, 4;
add.u64 %q, %q, %o;
st.global.u32 [%q], %s;
ret;
}}
"""


@pytest.fixture(scope="module")
def copied():
    n = 4096
    data = [np.zeros(n * THREADS * 16, np.uint32) for _ in range(2)]
    ptx = copy_kernel()
    return predict(ptx, assemble(ptx), "copy", (n,), data, "H100", timeline=True), n * THREADS * 64


@NEEDED
def test_a_copy_moves_what_streaming_kernels_reach(copied):
    prediction, size = copied
    assert not prediction.is_estimate and prediction.bound == "DRAM"
    assert 2 * size / prediction.seconds == pytest.approx(3010e9, rel=0.08)
    assert prediction.counts["DRAM bytes"] == pytest.approx(2 * size, rel=0.01)
    assert prediction.occupancy is not None and prediction.occupancy.limit in ("warps", "registers")
    assert prediction.residual == 0 and prediction.launch_seconds > 0


@NEEDED
def test_a_faster_memory_makes_a_copy_faster(copied):
    prediction, _ = copied
    ptx = copy_kernel()
    data = [np.zeros(4096 * THREADS * 16, np.uint32) for _ in range(2)]
    other = predict(ptx, assemble(ptx), "copy", (4096,), data, "H200")
    # 4200 against 3010 GB/s
    assert prediction.seconds / other.seconds == pytest.approx(4200 / 3010, rel=0.08)


@NEEDED
def test_the_timeline_is_a_chrome_trace(copied):
    trace = json.loads(copied[0].timeline())
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert spans and all(e["dur"] >= 0 and e["ts"] >= 0 for e in spans)
    named = {e["tid"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert {e["tid"] for e in spans} <= named


@NEEDED
def test_text_and_record_say_the_same(copied):
    prediction, _ = copied
    record = json.loads(json.dumps(prediction.record()))
    assert record["bound"] in prediction.text() and record["machine"] == "H100"
    assert sum(record["stalls"].values()) == pytest.approx(1, abs=0.02)


@NEEDED
def test_planted_bank_conflicts_slow_a_kernel_by_their_passes():
    plain, conflicting = shared_kernel(4), shared_kernel(128)
    out = [np.zeros(128, np.uint32)]
    found = [predict(p, assemble(p), "shared", (132,), out, "H100") for p in (plain, conflicting)]
    # 32 passes an access of each of four warps keep the port busy; without them a round is one latency and its arithmetic.
    assert found[1].cycles == pytest.approx(200 * 32 * 4, rel=0.1)
    assert 200 * 29 < found[0].cycles < 200 * 60
    assert found[1].bound == "shared port" and found[0].bound == "latency"
    assert next(iter(found[1].by("loop"))) == plain.splitlines().index("LOOP:") + 1


@NEEDED
def test_loads_of_an_unrolled_loop_overlap():
    unrolled = shared_kernel(4).replace('.pragma "nounroll";\n', "")
    found, kept = (predict(p, assemble(p), "shared", (132,), [np.zeros(128, np.uint32)], "H100")
                   for p in (unrolled, shared_kernel(4)))
    assert not found.is_estimate and not kept.is_estimate
    assert 200 * 4 <= found.cycles < kept.cycles / 4       # the port takes one of four warps' loads a cycle


@NEEDED
def test_code_of_other_trip_counts_gets_an_estimate_marked_as_such():
    unrolled = [shared_kernel(4, rounds).replace('.pragma "nounroll";', "") for rounds in (200, 100)]
    found = predict(unrolled[1], assemble(unrolled[0]), "shared", (132,), [np.zeros(128, np.uint32)], "H100")
    assert found.is_estimate and "anchors" in found.reason and "estimate" in found.text()
    assert found.cycles > 0


@NEEDED
def test_code_of_other_ptx_is_refused():
    other = shared_kernel(4).replace("bar.sync 0;", "bar.sync 0;\nbar.sync 0;")
    with pytest.raises(NotTimed, match="other PTX: line 16"):
        predict(other, assemble(shared_kernel(4)), "shared", (132,), [np.zeros(128, np.uint32)], "H100")


@NEEDED
@pytest.mark.parametrize("together", ["", "\n.reqnctapercluster 2", "\n.reqnctapercluster 2\n.blocksareclusters"])
def test_a_kernel_that_cannot_be_joined_gets_a_lower_bound_marked_as_such(monkeypatch, together):
    ptx = shared_kernel(4).replace(".reqntid 128", f".reqntid 128{together}").replace(".version 8.0", ".version 9.0")
    arguments = ptx, assemble(ptx), "shared", (132,), [np.zeros(128, np.uint32)], "H100"
    joined = predict(*arguments)
    found = predictor.streams.streams_of
    monkeypatch.setattr(predictor.streams, "streams_of",
                        lambda *a, **k: dataclasses.replace(found(*a, **k), ctas=(), is_joined=False, reason="no way was found"))
    estimate = predict(*arguments)
    assert estimate.is_estimate and not joined.is_estimate
    assert estimate.reason == "no way was found" and "no way was found" in estimate.text()
    assert 0 < estimate.cycles < joined.cycles


@NEEDED
def test_predictions_are_the_same_each_time():
    ptx = shared_kernel(8, 20)
    one, two = (predict(ptx, assemble(ptx), "shared", (500,), [np.zeros(128, np.uint32)], "H100") for _ in range(2))
    assert one.record() == two.record()


@NEEDED
def test_a_cubin_without_lines_is_refused_with_the_option():
    ptx = copy_kernel()
    with pytest.raises(NotTimed, match="lineinfo"):
        predict(ptx, assemble(ptx, lineinfo=False), "copy", (4,), [np.zeros(1 << 16, np.uint32)] * 2, "H100")


@NEEDED
def test_a_machine_of_another_generation_is_refused():
    ptx = copy_kernel()
    with pytest.raises(LookupError, match="sm_90 doesn't run on B200"):
        predict(ptx, assemble(ptx), "copy", (4,), [np.zeros(1 << 16, np.uint32)] * 2, "B200")


# ---- occupancy, by hand from the programming guide's limits

@pytest.mark.parametrize("machine,threads,registers,shared,ctas,limit", [
    ("H100", 128, 32, 1024, 16, "warps"), ("H100", 256, 128, 1024, 2, "registers"), ("H100", 256, 96, 100 * 1024, 2, "registers"),
    ("H100", 128, 64, 100 * 1024, 2, "shared memory"), ("A100", 128, 255, 113 * 1024, 1, "shared memory"),
    ("RTX 5090", 1024, 32, 1024, 1, "warps"), ("H100", 32, 16, 0, 32, "CTAs"), ("T4", 128, 40, 0, 8, "warps")])
def test_occupancy(machine, threads, registers, shared, ctas, limit):
    found = occupancy(machine_of(machine), threads, registers, shared, 1000)
    assert (found.ctas, found.limit) == (ctas, limit)


def test_a_small_grid_limits_what_is_resident():
    assert occupancy(machine_of("H100"), 128, 32, 1024, 2).limit == "grid"


@pytest.mark.parametrize("columns,ctas,limit", [(0, 16, "warps"), (32, 16, "warps"), (128, 4, "tensor memory"),
                                                (512, 1, "tensor memory")])
def test_tensor_memory_limits_what_is_resident(columns, ctas, limit):
    found = occupancy(machine_of("B200"), 128, 32, 1024, 1000, columns)
    assert (found.ctas, found.limit) == (ctas, limit)


def allocating(columns: int) -> str:
    """A warp that takes columns of tensor memory and gives them back."""
    return f""".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry allocate() .reqntid 32\n{{
.shared .align 4 .b32 at;
.reg .b32 %a, %n;
mov.b32 %n, {columns};
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [at], %n;
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
ld.shared.b32 %a, [at];
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %a, %n;
ret;\n}}\n"""


@NEEDED
@pytest.mark.parametrize("columns,ctas", [(64, 8), (512, 1)])
def test_a_kernel_s_own_columns_are_counted(columns, ctas):
    ptx = allocating(columns)
    found = predict(ptx, assemble(ptx, sm="sm_100a"), "allocate", (4000,), [], "B200")
    assert found.occupancy is not None
    assert (found.occupancy.ctas, found.occupancy.limit) == (ctas, "tensor memory")


# ---- waves

def many(count: int, body: list, threads: int = 128, shared: int = 0) -> KernelStreams:
    one = kit.cta([body] * (threads // 32), shared=shared)
    object.__setattr__(one, "count", count)
    return KernelStreams("k", 90, (count, 1, 1), (1, 1, 1), (one,), Joined(0, 1, 0, 1), True)


def test_time_grows_by_waves_not_by_ctas():
    body = [step("FFMA", stall=4)] * 3000

    def cycles(count: int) -> float:
        # 200 KiB of shared memory: one CTA an SM
        return predict_streams(many(count, body, shared=200 * 1024), machine_of("H100"), 0).cycles

    assert cycles(133) == pytest.approx(2 * cycles(132), rel=0.05)
    assert cycles(264) == pytest.approx(cycles(133), rel=0.01)
    assert cycles(132 * 40) == pytest.approx(40 * cycles(132), rel=0.05)


def test_a_wave_ends_with_its_longest_cta():
    def lasting(rounds: int, count: int) -> CtaStreams:
        return dataclasses.replace(kit.cta([[step("FFMA", stall=4)] * rounds] * 4, shared=200 * 1024), count=count)

    def cycles(*ctas: CtaStreams) -> float:
        # 200 KiB of shared memory: one CTA an SM
        grid = sum(c.count for c in ctas), 1, 1
        found = KernelStreams("k", 90, grid, (1, 1, 1), ctas, Joined(0.0, 0, 0, 0), True)
        return predict_streams(found, machine_of("H100"), 0).cycles

    short, long = lasting(1000, 130), lasting(4000, 2)
    assert cycles(short, long) == cycles(long, short) == cycles(lasting(4000, 132))
    # Over many waves places get free early and late, and it's the mean that counts.
    assert cycles(lasting(1000, 132 * 20), lasting(4000, 132 * 20)) == pytest.approx(cycles(lasting(2500, 132 * 40)), rel=0.02)


def test_ctas_of_different_lengths_go_where_a_place_gets_free():
    """Of 264 CTAs of one and three units in turn, one an SM of 132, the second 66 begin at 1, then 33 at 2, and 33 at 3, of which
    some end at 6: they have three units behind three."""
    def cycles(y: int, *rounds: int) -> float:
        made = [kit.cta([[step("FFMA", stall=4)] * n] * 4, shared=200 * 1024) for n in rounds]
        ctas = tuple(dataclasses.replace(c, cta=(x, 0, 0), count=y) for x, c in enumerate(made))
        found = KernelStreams("k", 90, (len(ctas), y, 1), (1, 1, 1), ctas, Joined(0.0, 0, 0, 0), True)
        return predict_streams(found, machine_of("H100"), 0).cycles
    assert cycles(132, 1000, 3000) == pytest.approx(cycles(264, 3000), rel=0.02)


def test_ctas_that_read_the_same_take_it_from_l2_once():
    body = [step("LDG.E.128", GlobalAccess(tuple(range(16 * i, 16 * i + 16)), 512), write=0, wait=1) for i in range(200)]
    shared = predict_streams(many(132 * 4, body), machine_of("H100"), 200 * 512)
    own = predict_streams(many(132 * 4, body), machine_of("H100"), 132 * 4 * 200 * 512)
    assert shared.counts["DRAM bytes"] * 100 < own.counts["DRAM bytes"]
    assert shared.cycles < own.cycles


def test_results_are_no_memory_that_blocks_could_share():
    """65,536 blocks read a row of their own and weights that all read, 1 KB each; beside the rows lie 64 MB of results: half of
    what they ask for comes from DRAM, not all."""
    blocks, piece = 1 << 16, 1024
    rows, weights, results = (1 << 40, blocks * piece), (1 << 41, piece), (1 << 42, blocks * piece)
    sectors = tuple(range(rows[0] // 32, (rows[0] + piece) // 32)) + tuple(range(weights[0] // 32, (weights[0] + piece) // 32))
    cta = kit.cta([[step("LDG.E", GlobalAccess(sectors, 2 * piece, False))]])
    machine, arrays = machine_of("H100"), (rows, weights, results)
    memory = sum(size for _, size in arrays)
    assert sharing(machine, [cta], blocks, machine.sms, 8, memory, arrays=arrays).dram_share == pytest.approx(0.5, abs=0.001)
    assert sharing(machine, [cta], blocks, machine.sms, 8, memory).dram_share == pytest.approx(1, abs=0.001)


def test_shares_are_work_over_time():
    found = predict_streams(many(132, [step("LDS", SharedAccess(2, 128), write=0)] * 2000), machine_of("H100"), 0)
    # Four warps, two passes each: 8 cycles of the port a round, one round each 8 cycles.
    assert found.shares["shared port"] == pytest.approx(1, abs=0.05)
    assert found.bound == "shared port"


def test_lines_know_their_source_and_innermost_loop():
    text = '.file 1 "dir/k.py"\nA:\n.loc 1 7 3\nadd;\nB:\nadd;\n@%p bra B;\n.loc 1 9 1\n@%q bra A;\nret;\n'
    found = places(text)
    assert (found[4].source, found[4].loop) == ("k.py:7", 2)
    assert found[6].loop == 5 and found[9].source == "k.py:9" and found[10].loop == 0


COPIES = """
.version 8.7
.target sm_80
.address_size 64
.visible .entry copies(.param .u64 a)
.reqntid 32
{{
.reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %q<5>;
.shared .align 16 .b8 tile[512];
ld.param.u64 %q1, [a];
mov.u32 %r1, %tid.x;
mul.wide.u32 %q2, %r1, 16;
add.u64 %q3, %q1, %q2;
shl.b32 %r2, %r1, 4;
mov.u32 %r3, tile;
add.u32 %r3, %r3, %r2;
setp.ge.u32 %p1, %r1, 8;
selp.u32 %r4, 0, 16, %p1;
{copy}
{copy}
cp.async.commit_group;
cp.async.wait_group 0;
bar.sync 0;
ld.shared.u32 %r5, [%r3];
st.global.u32 [%q3], %r5;
ret;
}}
"""


def copies(copy: str):
    ptx = COPIES.format(copy=copy)
    return predict(ptx, assemble(ptx, sm="sm_80"), "copies", (108,), [np.zeros(128, np.uint32)], "A100")


@NEEDED
@pytest.mark.parametrize("copy", ["cp.async.cg.shared.global [%r3], [%q3], 16, %p1;",
                                  "cp.async.cg.shared.global [%r3], [%q3], 16, %r4;"])
def test_a_copy_that_its_predicate_or_size_forbids_reads_nothing(copy):
    whole, part = copies("cp.async.cg.shared.global [%r3], [%q3], 16;"), copies(copy)
    # 32 lanes of 16 bytes are 16 sectors, 8 lanes are 4; two copies a CTA, a CTA an SM
    assert whole.counts["sectors"] - part.counts["sectors"] == 108 * 2 * (16 - 4)


@NEEDED
def test_only_copies_through_l1_are_found_there_again():
    assert copies("cp.async.ca.shared.global [%r3], [%q3], 16;").counts["L1 hits"] == 108 * 16
    assert copies("cp.async.cg.shared.global [%r3], [%q3], 16;").counts["L1 hits"] == 0
