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

from bench.hardware import host_object, launch_probes, matrix_probes, prepare, rate_probes, report, run, sweep
from bench.hardware.gpu_driver import CudaError, Driver, LaunchConfig
from tileiras import sim
from tileiras.codegen import ptxas

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


def test_report_renders_every_kind() -> None:
    base = {"grid": [1, 1, 1]}
    rows = [
        {**base, "name": "language_7/block1", "question": 1, "kind": "launch", "block": [1, 1, 1],
         "result": {"threads": 128, "blocks": 1, "hidden": [7] * 32, "registers": [list(range(16))], "log_after_load": [["0x1"]]}},
        {**base, "name": "w", "question": 10, "kind": "product", "result": {"right": False, "got": "00", "expected": "01"}},
        {**base, "name": "ours/v", "question": 12, "kind": "case", "result": {"right": True, "worst": {"0": 0.5}}},
        {**base, "name": "copy", "question": 13, "kind": "copy", "result": {"microseconds": 10.0, "rate": 4300.0, "unit": "GB/s"}},
        {**base, "name": "bar", "question": 15, "kind": "latency", "result": {"cycles": 21.5}},
        {**base, "name": "x", "question": 6, "kind": "frontend", "result": {"error": "ImportError: no torch"}}]
    machine = {"gpu": "NVIDIA H200", "driver": 13000, "sms": 132}
    text = report.render({"date": "2026-01-01", "tileiras": "0", "machine": machine, "results": rows}, "r.json")
    for part in ("| language_7/block1 | [1, 1, 1] | 128 | 1 | %ntid.x 0", "00000007", "all: different 1", "ours: right 1",
                 "| copy | 10.0 | 4300 GB/s |", "| bar | 21.5 |", "ImportError: no torch", "### 14. Benchmark kernels\nNot run."):
        assert part in text


def test_the_sweep_is_compared_with_the_encoder() -> None:
    good = [g for g in sweep.inputs(count=40) if g["type"] == 6][:50]
    rows: list = [[g, 0, report.tensor_map(g).encode().hex()] for g in good if g["box"][0] * 2 % 16 == 0][:5]
    odd = bytearray.fromhex(rows[0][2])
    odd[10] ^= 2
    rows += [[rows[0][0], 0, odd.hex()], [rows[0][0], 1, ""], [{**rows[0][0], "box": [300, 1]}, 1, ""],
             [{**rows[0][0], "address": 8}, 0, rows[0][2]]]
    lines = report.encode_lines([{"name": "encode_sweep", "result": {"rows": rows}}])
    assert lines == ["different 1, refused by both 1, refused by the driver only 1, refused by tileiras only 1, the same 5.",
                     "Differing bits (word.bit): 2.17."]


def test_without_a_plan_or_a_gpu_the_runner_says_so(tmp_path: pathlib.Path) -> None:
    done = subprocess.run([sys.executable, str(ROOT / "bench/hardware/run.py"), str(tmp_path)], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 2 and "run prepare first" in done.stderr
