"""The experiments for a GPU, as far as a machine without one can tell: everything assembles, the runner survives faults and
judges values, the report says what the results say."""
from __future__ import annotations

import ctypes as c
import json
import pathlib
import subprocess
import sys
import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from bench.hardware import host_object, launch_probes, matrix_probes, pairs, prepare, rate_probes, report, run, sweep
from bench.hardware.gpu_driver import CudaError, Driver, LaunchConfig
from tests.programs import programs
from tileiras import sim
from tileiras.codegen import ptxas
from tileiras.sim.run.launch import PointerTable

ROOT = pathlib.Path(__file__).resolve().parents[2]


class FakeCuda:
    """libcuda with host memory. A launch counts block-1 launches as 128 threads, the way a tile launch is hoped to."""

    def __init__(self, refuse: str = "") -> None:
        self.refuse, self.memory, self.launches = refuse, {}, 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("cuEventElapsedTime"):
            return self.elapsed
        return lambda *_: 700 if name == self.refuse else 0

    def elapsed(self, out: Any, *_: Any) -> int:
        out._obj.value = 0.5
        return 0

    def cuGetErrorName(self, code: int, out: Any) -> int:
        out._obj.value = b"CUDA_ERROR_ILLEGAL_ADDRESS"
        return 0

    def cuMemAlloc_v2(self, out: Any, size: Any) -> int:
        block = c.create_string_buffer(size.value)
        self.memory[c.addressof(block)] = block
        out._obj.value = c.addressof(block)
        return 0

    def cuMemcpyHtoD_v2(self, to: Any, data: bytes, size: Any) -> int:
        c.memmove(to.value, data, size.value)
        return 0

    def cuMemcpyDtoDAsync_v2(self, to: Any, source: Any, size: Any, stream: Any) -> int:
        c.memmove(to.value, source.value, size.value)
        return 0

    def cuMemcpyDtoH_v2(self, to: Any, source: Any, size: Any) -> int:
        c.memmove(to, source.value, size.value)
        return 0

    def cuLaunchKernelEx(self, config: Any, kernel: Any, arguments: Any, extra: Any) -> int:
        self.launches += 1
        launch: LaunchConfig = config._obj
        out = c.c_uint64.from_address(arguments[0]).value
        blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
        c.memmove(out, np.array([128 * blocks, blocks], np.uint32).tobytes(), 8)
        return 0


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("hardware")
    builder = prepare.build(folder, ("cases",), ["vector_add_float32"])
    assert builder.failed == []
    return folder


def test_every_launch_probe_assembles_one_of_each_kind(tmp_path: pathlib.Path) -> None:
    host = tmp_path / "host.o"
    host.write_bytes(host_object.build("probe", "vector_look"))
    for probe in launch_probes.probes(("vector_look",))[::6] + launch_probes.probes(("vector_look",))[-1:]:
        flags = ["--nv-host", str(host)] if probe.host else []
        assert ptxas.assemble(probe.ptx, ["-arch=sm_90a", *flags]).cubin[:4] == b"\x7fELF"


def test_host_object_is_packed_into_the_cubin(tmp_path: pathlib.Path) -> None:
    host = tmp_path / "host.o"
    host.write_bytes(host_object.build("probe", "zero"))
    cubin = ptxas.assemble(launch_probes.Probe("p", 5).ptx, ["-arch=sm_90a", "--nv-host", str(host)]).cubin
    assert b".nv.host\0" in cubin and host.read_bytes() in cubin


def test_names_are_unique_and_products_are_exact_sums() -> None:
    products = matrix_probes.products()
    assert len({p.name for p in products}) == len(products)
    names = [p.name for p in launch_probes.probes(("zero",))]
    assert len(set(names)) == len(names)


def test_mma_probe_in_the_simulator() -> None:
    atom = next(a for a in matrix_probes.ATOMS if (a.a, a.m, a.k, a.acc) == ("bf16", 16, 16, "f32"))
    product = matrix_probes.mma(atom)
    out = np.zeros(len(product.expected), np.uint8)
    sim.simulate(product.ptx, kernel="probe", grid=(1, 1, 1), args=[out, np.frombuffer(product.data, np.uint8).copy()])
    assert out.tobytes() == product.expected


def test_rate_probes_have_names_of_their_own_and_run_in_the_simulator() -> None:
    probes = {p.name: p for p in rate_probes.rates()}
    assert len(probes) == len(rate_probes.rates())
    for name in ("tma_l2_own_1", "gather_8_l1", "wgmma_f16_n64_rs_4w", "bar_sync_8w"):
        probe = probes[name]
        assert ptxas.assemble(probe.ptx, ["-arch=sm_90a"]).cubin[:4] == b"\x7fELF"
        out, data = np.zeros(64 << 10, np.uint8), np.zeros(1 << 18, np.uint8)
        sim.simulate(probe.ptx, kernel="probe", grid=(1, 1, 1), args=[out, data], dynamic_shared=probe.shared, races=False)
        assert out[:8].any(), name


def test_a_rate_is_work_over_cycles(plan: pathlib.Path) -> None:
    case = next(e for e in json.loads((plan / "plan.json").read_text())["experiments"] if e["kind"] == "case")
    got = run.Runner(plan, Driver(FakeCuda())).run({
        "kind": "rate", "cubin": case["cubin"], "blocks": 2, "per_sm": 1, "threads": 32, "iterations": 4, "work": 64,
        "unit": "bytes", "bytes": 64, "shared": 0, "cold": True})
    # the fake one writes two words of counts: 256 in the low half of the first block's cycles, 2 in the high one
    first = 256 | 2 << 32
    assert got["slowest"] == first / 4 and got["cycles"] == first / 8 and got["rate"] == 64 / got["cycles"]


def test_swizzled_images_are_permutations() -> None:
    values = np.arange(64 * 16, dtype=np.float16).reshape(64, 16)
    for swizzle in matrix_probes.SWIZZLES:
        for k_major in (True, False):
            image, _ = matrix_probes._operand(values, swizzle, k_major)
            found = np.frombuffer(image, np.float16)
            assert sorted(found[found != 0]) == sorted(values[values != 0])


def test_sweep_moves_every_parameter() -> None:
    rows = list(sweep.inputs(50))
    for key in sweep.BASE:
        assert len({json.dumps(row[key]) for row in rows}) > (1 if key == "fill" else 2), key
    assert {len(row["dims"]) for row in rows} == {1, 2, 3, 4, 5}
    assert all(len(row["strides"]) == len(row["dims"]) - 1 and len(row["box"]) == len(row["dims"]) for row in rows)


def test_launch_probe_against_a_stand_in_driver(plan: pathlib.Path) -> None:
    (plan / "k.cubin").write_bytes(b"x")
    runner = run.Runner(plan, Driver(FakeCuda()))
    got = runner.run({"kind": "launch", "cubin": "k.cubin", "grid": [6, 2, 1], "block": [1, 1, 1], "hidden": False, "host": False})
    assert (got["threads"], got["blocks"]) == (128 * 12, 12)


def test_case_that_writes_nothing_right_is_wrong(plan: pathlib.Path) -> None:
    case = next(e for e in json.loads((plan / "plan.json").read_text())["experiments"] if e["kind"] == "case")
    got = run.Runner(plan, Driver(FakeCuda())).run(case)
    assert got["right"] is False


def pair_of(tmp_path: pathlib.Path, expected: list[int]) -> dict[str, Any]:
    """An experiment of two sides whose stand-in leaves [256, 2, ...] in the first array."""
    given = pairs.Parameters([np.arange(4, dtype=np.int32), PointerTable([np.ones(3, np.float32), 7]), np.float32(2)],
                             [np.array(expected, np.int32), PointerTable([np.ones(3, np.float32), 7]), np.float32(2)])
    assert [p[0] for p in given.list] == ["array", "table", "raw"]
    assert given.list[1][1][1] == ["raw", (7).to_bytes(8, "little").hex()]
    for name in ("cubins", "data"):
        (tmp_path / name).mkdir()
    return pairs.Pair("p", (2, 1, 1), given.list, given.stored, {"ours": ("k", b"x"), "original": ("k", b"y")}).put(tmp_path)


def test_pairs_are_held_against_what_must_come_out(tmp_path: pathlib.Path) -> None:
    got = run.Runner(tmp_path, Driver(FakeCuda())).run(pair_of(tmp_path, [256, 2, 2, 3]))
    assert got["right"] and got["ours"]["worst"] == {0: 0.0} and got["original"]["beside"] == [0.0, 0.0]
    assert got["ours"]["different"] == [0, 0] and len(got["original"]["all"]) == 15


def test_a_wrong_pair_is_wrong(tmp_path: pathlib.Path) -> None:
    assert not run.Runner(tmp_path, Driver(FakeCuda())).run(pair_of(tmp_path, [256, 2, 2, 4]))["right"]


def test_a_program_has_what_must_come_out() -> None:
    made = pairs.program(next(name for name, one in programs.load_all().items() if one.quick))
    assert "ours" in made.sides and any(key.startswith("e") for key in made.stored)


def test_several_codes_of_a_kernel_differ() -> None:
    made = pairs.several("gemm_batched_f16")
    assert list(made.sides) == ["ours", "waits pinned", "few registers", "no agents", "no engine", "given back late"]
    assert len({cubin for _, cubin in made.sides.values()}) == 6


def test_a_code_that_has_no_room_is_left_out() -> None:
    made = pairs.several("matmul_bf16_64_rows")         # a warpgroup's product takes 90 registers
    assert "few registers" not in made.sides and {"no agents", "as many blocks as fit"} < set(made.sides)


def test_pairs_are_told_by_what_they_were_taken_from() -> None:
    def side(cold: float, right: bool | None = None, **more: Any) -> dict[str, Any]:
        return {"all": [cold] * 15, "in_turn": cold, "different": [0, more.get("different", 0)],
                "beside": [more.get("beside", 0.0)], **({} if right is None else {"right": right})}
    rows = [{"name": name, "question": 20, "kind": "pair", "result": {"right": True, **result}} for name, result in (
        ("pair/sums", {"ours": side(10, True), "original": side(20, False, beside=0.5)}),
        ("pair/_kernel-1", {"ours": side(10), "original": side(8, different=3)}),
        ("pair/var_product", {"ours": side(10), "no agents": side(12)}),
        ("pair/behind", {"ours": {**side(5), "in_turn": 90.0}, "original": side(5)}))]
    lines = "\n".join(report.pair_lines([report.kept(r) for r in rows]))
    for part in ("| programs | 2 | 1 of 1 | 0 of 1 | 1 | 2.00 | 0 |", "| TileGym | 1 |  |  | 1 | 0.80 | 1 |",
                 "Below 0.95: `_kernel-1` 0.80.", "- `sums` leaves other values by 0.5 of the largest",
                 "- `_kernel-1` of original leaves something else in another launch",
                 "| var_product | ours 10.0; no agents 12.0 |"):
        assert part in lines, part


def test_failing_calls_become_errors(plan: pathlib.Path) -> None:
    case = next(e for e in json.loads((plan / "plan.json").read_text())["experiments"] if e["kind"] == "case")
    got = run.Runner(plan, Driver(FakeCuda("cuLibraryLoadData"))).run(case)
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in got["error"]
    with pytest.raises(CudaError):
        Driver(FakeCuda("cuInit"))


def test_distance_counts_in_tolerances() -> None:
    want = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    got = np.array([1.0, 2.015625], ml_dtypes.bfloat16)
    assert run.distance(got.tobytes(), want.tobytes(), "bfloat16", 0.0, 0.015625) == 1.0
    assert run.distance(b"\1", b"\2", "int8", 1.0, 1.0) > 1


def test_a_dead_process_costs_one_answer(plan: pathlib.Path, tmp_path: pathlib.Path) -> None:
    script = tmp_path / "child.py"
    script.write_text("import json, sys\n"
                      "for name in json.load(open(sys.argv[sys.argv.index('--child') + 1])):\n"
                      "    print(json.dumps({'start': name}), flush=True)\n"
                      "    if name == 'b': sys.exit(9)\n"
                      "    print(json.dumps({'name': name, 'result': {'right': True}}), flush=True)\n")
    experiments = [{"name": n, "kind": "product"} for n in "abc"] + [{"name": "h", "kind": "launch", "host": True}]
    results = run.supervise(plan, experiments, [sys.executable, str(script)], time.monotonic() + 30)
    assert results["a"] == results["c"] == results["h"] == {"right": True}
    assert results["b"]["error"] == "the process ended with 9"


def test_dry_run_and_report(plan: pathlib.Path, tmp_path: pathlib.Path) -> None:
    out, page = tmp_path / "results.json", tmp_path / "page.md"
    command = [sys.executable, str(ROOT / "bench/hardware/run.py"), str(plan), "--dry-run", "--out", str(out)]
    assert subprocess.run(command, timeout=60).returncode == 0
    found = json.loads(out.read_text())
    assert found["missing"] == [] and {r["name"] for r in found["results"]} >= {"ours/vector_add_float32", "frontend_launch"}
    assert "No GPU has run this yet." in report.render(found, "results.json")
    page.write_text(f"# Page\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    done = subprocess.run([sys.executable, "-m", "bench.hardware.report", str(out), "--write", str(page)], cwd=ROOT, timeout=60)
    assert done.returncode == 0
    assert "old" not in page.read_text() and page.read_text().endswith(f"{report.END}\nafter\n")


MACHINE = {"gpu": "NVIDIA H200", "driver": 13000, "sms": 132}


def launched(name: str, question: int = 1, threads: int = 128, ctaid: int = 0, **result: object) -> dict[str, Any]:
    registers = [[threads, 1, ctaid, 0, 1, ctaid, 0, 1, 1, 0, 1, 0, 1, smid, 0, 0] for smid in (3, 9)]
    return {"name": name, "question": question, "kind": "launch", "block": [1, 1, 1], "host": question == 5, "result":
            {"threads": 2 * threads, "blocks": 2, "hidden": None, "registers": registers, **result}}


def test_report_renders_every_kind() -> None:
    base = {"grid": [1, 1, 1]}
    rows = [
        launched("language_7/block1"), launched("language_8/block1"), launched("threads_256/block1", threads=256),
        launched("hidden/block1", 4, hidden=[7] * 32), {**launched("x/block1"), "result": {"error": "CudaError: no"}},
        {**base, "name": "w", "question": 10, "kind": "product", "result": {"right": False, "got": "00", "expected": "01"}},
        {**base, "name": "ours/v", "question": 12, "kind": "case", "result": {"right": True, "worst": {"0": 0.5}}},
        {**base, "name": "copy", "question": 13, "kind": "copy", "result": {"microseconds": 10.0, "rate": 4300.0, "unit": "GB/s"}},
        {**base, "name": "bar", "question": 15, "kind": "latency", "result": {"cycles": 21.5}},
        {**base, "name": "x", "question": 6, "kind": "frontend", "result": {"error": "ImportError: no torch"}}]
    text = report.render({"date": "2026-01-01", "tileiras": "0", "machine": MACHINE, "results": rows}, "r.json")
    for part in ("| `language_{7, 8}`: block1 | 128 | 2 | 1, 1 | 0, 0 | 0, 0 | 1, 1 |  |", "| `threads_256`: block1 | 256 | 2 |",
                 "| 1, 1 | 0x7 |", "| `x`: block1 | CudaError: no |", "wgmma: different 1", "suite, ours: right 1",
                 "Not run: question 2, 3, 7.", "copy: 10.0 us, 4300 GB/s.", "Cycles: bar 21.5.", "ImportError: no torch",
                 "### 14. Benchmark kernels\nNot run."):
        assert part in text, part


def test_report_tells_when_callbacks_were_called() -> None:
    def record(tag: int, *words: int) -> list[str]:
        return [hex(w) for w in (tag, 0x7000, 0x8000, *words, *[0] * (13 - len(words)))]
    loaded, changed = record(1, 1, 0x9000, 5, 6, 56), record(2, 0xA000, 0xB000, 5, 6, 56, 0, 0, 0, 0, 0, 0, 0, 1)
    logs = {"log_after_load": [], "log_after_first": [loaded, changed], "log_after_same": [loaded, changed, changed],
            "log_after_other": [loaded, changed, changed, changed]}
    rows = [launched("host_zero_look/block1", 5, **logs),
            {**launched("host_vector/block1", 5), "result": {"error": "CudaError: cuLaunchKernelEx: unknown error (-1265713088)"}}]
    lines = "\n".join(report.callback_lines([report.kept(r) for r in rows]))
    for part in ("ON_PRE_LOAD 0, 1, 1, 1; ON_ARGUMENTS_CHANGE 0, 1, 2, 3.", "version 1, out)",
                 "the same first two arguments, and 1 buffer", "its size, 56 bytes",
                 "`host_vector`: the launch fails with 0xb48ec040"):
        assert part in lines, part


def test_report_sets_times_beside_each_other(tmp_path: pathlib.Path) -> None:
    def row(who: str, cold: float, in_turn: float, difference: list[float | None]) -> dict[str, Any]:
        return {"name": f"speed/{who}/k", "question": 14, "kind": "speed", "result":
                {"all": [cold + 0.5, cold, cold, cold + 9] * 4, "in_turn": in_turn, "difference": difference}}
    first = {"date": "d", "tileiras": "0", "machine": MACHINE, "results":
             [row("ours", 10, 9, [None]), row("original", 30, 27, [0.5])]}
    second = {**first, "results": [row("ours", 12, 8, [None]), row("torch", 20, 16, [])]}
    (tmp_path / "speed.json").write_text(json.dumps([{"kernel": "k", "machine": "H100", "ratio": 2.5}]))
    lines = report.speed_lines(report.merged([first, second])["results"], tmp_path / "speed.json")
    assert "1 kernels: 3.00 cold, 3.38 in turn, 2.50 predicted; of PyTorch's over ours, 1: 2.00, 2.00." in lines[0]
    assert "| k | 10.0, 8.0 | 30.0, 27.0 | 20.0, 16.0 | 3.00 | 3.38 | 2.50 |" in lines and "`k` 0.5." in lines[-1]


def test_the_sweep_is_compared_with_the_encoder() -> None:
    good = [g for g in sweep.inputs(count=40) if g["type"] == 6][:50]
    rows: list = [[g, 0, report.tensor_map(g).encode().hex()] for g in good if g["box"][0] * 2 % 16 == 0][:5]
    odd = bytearray.fromhex(rows[0][2])
    odd[10] ^= 2
    driver = b"".join(w.to_bytes(4, "little") for w in report.tensor_map(rows[0][0]).driver_words())
    rows += [[rows[0][0], 0, odd.hex()], [rows[0][0], 1, ""], [{**rows[0][0], "box": [300, 1]}, 1, ""],
             [{**rows[0][0], "address": 8}, 0, rows[0][2]], [rows[0][0], 0, driver.hex()]]
    lines = report.encode_lines([{"name": "encode_sweep", "result": {"rows": rows}}])
    assert lines == ["different 2, refused by both 1, refused by the driver only (f16) 1, "
                     "refused by tileiras only (the address isn't a multiple of 16) 1, the same 5.",
                     "Differing bits (word.bit): 2.1, 2.17, 2.21, 16.13, 18.4. With `TensorMap.driver_words`, 1 are the same."]


def test_approximations_beside_the_simulators() -> None:
    exact = report.simulated("rcp.approx.f32", report.INPUTS[::64])
    off = exact.copy()
    off[5] = np.nextafter(off[5], np.float32(np.inf))
    rows = [{"name": name, "question": 18, "kind": "approximation", "result": {"every": 64, "outputs": data.tobytes().hex()}}
            for name, data in (("rcp.approx.f32", off), ("sqrt.approx.f32", exact))]
    lines = report.approximation_lines([report.kept(r) for r in rows])
    assert lines[2].startswith("| `rcp.approx.f32` | 1024 | 100% | 1 | 2^-23.") and lines[2].endswith("| 0 |")
    assert lines[3].endswith("| 512 |")         # where one is no number


def test_what_is_kept_says_the_same(tmp_path: pathlib.Path) -> None:
    found = [[g, int(i % 2), "" if i % 2 else bytes(128).hex()] for i, g in enumerate(sweep.inputs())]
    rows = [launched("language_7/block1"), launched("language_8/block1"), launched("shared_16k/block1", 7),
            {"name": "encode_sweep", "question": 8, "kind": "encode", "result": {"rows": found}},
            {"name": "device_map_f16_rank2", "question": 9, "kind": "device_map", "result":
             {"device": "00" * 128, "driver": "00" * 64 + "11" * 64, "cycles": 600}},
            {"name": "gone", "question": 15, "kind": "latency", "result": {"error": "not run"}}]
    run_ = {"date": "2026-01-01", "tileiras": "0", "machine": MACHINE, "results": rows}
    kept = tmp_path / "kept.json"
    kept.write_text(report.as_text(report.merged([run_])))
    text = report.render(run_, "r")
    assert report.render(report.read(kept), "r") == text
    assert "| 2 | 1 | 1 | 1 | 600 |" in text and "array's size in 0 of 1 launches" in text
    assert kept.stat().st_size < 200_000 and kept.read_text().count("language_7") == 1


@pytest.mark.parametrize("name", ["hardware.md", "hardware-h200.md"])
def test_the_evidence_for_the_page_is_there(name: str) -> None:
    """A page's last section is made of the file that it names; predictions may have changed since."""
    page = (ROOT / "docs" / name).read_text()
    written = page[page.index(report.BEGIN):page.index(report.END) + len(report.END)]
    evidence = written.split("Evidence: `")[1].split("`")[0]
    made = report.render(report.read(ROOT / evidence), evidence)
    parts = [[part for part in text.split("\n### ") if not part.startswith("14.")] for text in (made, written)]
    assert parts[0] == parts[1]


def test_without_a_plan_or_a_gpu_the_runner_says_so(tmp_path: pathlib.Path) -> None:
    done = subprocess.run([sys.executable, str(ROOT / "bench/hardware/run.py"), str(tmp_path)], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 2 and "run prepare first" in done.stderr
