"""`python -m bench.hardware.prepare`: build all that `run` needs, on a machine without a GPU.

The folder gets `plan.json` (the list of experiments: name, question, kind, what the kind needs), cubins, and input and
expected bytes. `--reference` names a Python whose environment holds the original, whose cubins are then made from the same
bytecode. What can't be built is listed under "failed" in the plan and on standard error; the exit code is 1 if nothing
could be built.
"""
from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from typing import Any

import numpy as np

import tileiras
from bench.hardware import host_object, latency_probes, launch_probes, matrix_probes, pairs, rate_probes
from bench.speed import kernels, original, side
from tests.kernels import runner, suite
from tileiras.codegen import ptxas
from tileiras.errors import TileirasError
from tileiras.version import __version__

TORCH = ("matmul_f16_4096", "matmul_f16_8192", "attention_d64_f16", "attention_d64_causal_f16", "attention_d128_f16",
         "softmax_4096x4096_f32", "layer_norm_f16", "vector_add_f32", "transpose_f16")
"""Kernels of `make speed` that PyTorch has too."""
LIMIT_BYTES = 2 << 20
"""Cases whose inputs and outputs take more than this stay behind."""


class Builder:
    """Writes files into the folder and experiments into the plan."""

    def __init__(self, folder: pathlib.Path, reference: str | None = None) -> None:
        self.folder, self.reference = folder, reference
        self.experiments: list[dict[str, Any]] = []
        self.failed: list[str] = []
        for name in ("cubins", "data"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    @classmethod
    def again(cls, folder: pathlib.Path) -> Builder:
        """One that goes on with a folder's plan, but for its pairs."""
        builder = cls(folder)
        if (folder / "plan.json").exists():
            plan = json.loads((folder / "plan.json").read_text())
            builder.experiments = [e for e in plan["experiments"] if e["kind"] != "pair"]
            builder.failed = plan["failed"]
        return builder

    def file(self, name: str, data: bytes) -> str:
        (self.folder / name).write_bytes(data)
        return name

    def assemble(self, name: str, ptx: str, *flags: str) -> str | None:
        """The cubin of a PTX text; None, and a line in `failed`, where ptxas refuses."""
        try:
            return self.file(f"cubins/{name}.cubin", ptxas.assemble(ptx, ["-arch=sm_90a", *flags]).cubin)
        except TileirasError as error:
            self.failed.append(f"{name}: {error}")
            return None

    def add(self, name: str, question: int, kind: str, cubin: str | None, **more: Any) -> None:
        if cubin:
            self.experiments.append({"name": name, "question": question, "kind": kind, "cubin": cubin, **more})

    def launch_contract(self) -> None:
        """Questions 1 to 5 and 7."""
        objects = {}
        for variant in host_object.VARIANTS:
            path = self.folder / "data" / f"host_{variant}.o"
            path.write_bytes(host_object.build("probe", variant))
            objects[variant] = path
        for probe in launch_probes.probes(tuple(objects)):
            flags = ["--nv-host", str(objects[probe.host])] if probe.host else []
            cubin = self.assemble(probe.name, probe.ptx, *flags)
            plain = {"grid": [6, 2, 1], "hidden": probe.hidden, "host": bool(probe.host), "threads": probe.threads}
            self.add(f"{probe.name}/block1", probe.question, "launch", cubin, block=[1, 1, 1], **plain)
            if not probe.host:
                self.add(f"{probe.name}/block{probe.threads}", probe.question, "launch", cubin,
                         block=[probe.threads, 1, 1], **plain)
            if probe.name == "language_7":
                for cluster in ([1, 1, 1], [2, 1, 1]):
                    self.add(f"{probe.name}/cluster_attribute_{cluster[0]}", 3, "launch", cubin, block=[1, 1, 1],
                             cluster=cluster, **plain)

    def maps(self) -> None:
        """Questions 8 and 9: the sweep itself stands in `run`, which asks the driver."""
        self.add("encode_sweep", 8, "encode", "none")
        for device_map in latency_probes.device_maps():
            self.add(f"device_map_{device_map.name}", 9, "device_map",
                     self.assemble(f"map_{device_map.name}", device_map.ptx), dims=device_map.dims, strides=device_map.strides,
                     box=device_map.box, swizzle=device_map.swizzle, type=device_map.driver_type)

    def matrices(self) -> None:
        """Questions 10 and 11."""
        for product in matrix_probes.products():
            self.add(product.name, 10 if product.name.startswith("wgmma") else 11, "product",
                     self.assemble(product.name, product.ptx), threads=product.threads, parameters=product.parameters,
                     shared=65536 if product.name.startswith("wgmma") else 0,
                     data=self.packed(f"{product.name}", data=np.frombuffer(product.data, np.uint8),
                                      expected=np.frombuffer(product.expected, np.uint8)))

    def packed(self, name: str, **arrays: np.ndarray) -> str:
        np.savez_compressed(self.folder / "data" / f"{name}.npz", **arrays)     # type: ignore[arg-type]
        return f"data/{name}.npz"

    def latencies(self) -> None:
        """Question 15 and the approximate functions."""
        self.add("copy_bandwidth", 13, "copy", "none")
        self.add("torch_matmul_bf16", 13, "torch_matmul", "none")
        for latency in latency_probes.latencies():
            self.add(latency.name, 15, "latency", self.assemble(latency.name, latency.ptx), threads=latency.threads,
                     iterations=latency.iterations, chain=latency.chain_bytes)
        for name, ptx in latency_probes.approximations().items():
            self.add(name, 18, "approximation", self.assemble(name, ptx))

    def rates(self) -> None:
        """Question 15, by all warps of an SM and by all SMs."""
        for rate in rate_probes.rates():
            self.add(f"rate/{rate.name}", 15, "rate", self.assemble(f"rate_{rate.name}", rate.ptx), threads=rate.threads,
                     iterations=rate.iterations, work=rate.work, unit=rate.unit, blocks=rate.blocks, per_sm=rate.per_sm,
                     bytes=rate.bytes, shared=rate.shared, cold=rate.cold)

    def compiled(self, name: str, who: str) -> str | None:
        """The cubin of a suite case by this project ("ours") or the original ("original")."""
        target = f"cubins/{who}_{name}.cubin"
        try:
            if who == "ours":
                return self.file(target, runner.compile_case(name, "sm_90", 3).cubin)
            done = subprocess.run([str(self.reference), str(runner.bytecode_path(name)), "--gpu-name", "sm_90", "-O3", "-o",
                                   str(self.folder / target)], capture_output=True, text=True, timeout=300)
            if done.returncode:
                raise RuntimeError(done.stderr.strip()[-300:])
            return target
        except Exception as error:      # whatever a compiler does to one kernel, the others are still worth measuring
            self.failed.append(f"{who} {name}: {type(error).__name__}: {str(error)[:300]}")
            return None

    def cases(self, names: list[str], controls: int) -> None:
        """Question 12: each case by this project, and every `controls`-th by the original as a check of the harness."""
        for number, name in enumerate(names):
            case, launch = runner.case_of(name), runner.launch_of(name)
            arrays = {f"a{i}": v for i, v in enumerate(launch.values) if isinstance(v, np.ndarray)}
            if sum(a.nbytes for a in arrays.values()) > LIMIT_BYTES:
                continue
            expected = {f"e{i}": np.ascontiguousarray(np.asarray(v).astype(launch.values[i].dtype))
                        for i, v in launch.expected.items()}
            data = self.packed(f"case_{name}", **{k: np.frombuffer(a.tobytes(), np.uint8)
                                                  for k, a in {**arrays, **expected}.items()})
            places = {id(v): i for i, v in enumerate(launch.values) if isinstance(v, np.ndarray)}
            parameters = [["array", places[id(v)]] if id(v) in places else ["raw", np.asarray(v).tobytes().hex()]
                          for v in launch.flat]
            types = {str(i): str(launch.values[i].dtype) for i in launch.expected}
            for who in ("ours", "original"):
                if who == "ours" or (self.reference and number % controls == 0):
                    self.add(f"{who}/{name}", 12, "case", self.compiled(name, who), kernel=case.name, grid=case.grid, data=data,
                             parameters=parameters, expected=types, rtol=case.rtol, atol=case.atol)

    def speed(self, names: list[str]) -> None:
        """Question 14: the kernels of `make speed`, ours and the original's from the same bytecode, and PyTorch's own."""
        for name in names:
            kernel = kernels.by_name()[name]
            case, bounds = kernels.case_of(kernel)
            parameters: list[list[Any]] = []
            for i, argument in enumerate(case.args):
                if isinstance(argument, suite.Array):
                    parameters.append(["array", int(np.prod(argument.shape)), argument.dtype, bounds.get(i, 0)])
                    strides = suite.strides_of(argument)
                    parameters += [["raw", np.int32(n).tobytes().hex()] for n in (*argument.shape, *strides)]
                elif isinstance(argument, suite.Scalar):
                    parameters.append(["raw", suite.NUMPY[argument.dtype](argument.value).tobytes().hex()])
            unit, work = ("flops", kernel.flops) if kernel.flops else ("bytes", kernel.bytes)
            for who in ("ours", "original") if self.reference else ("ours",):
                self.add(f"speed/{who}/{name}", 14, "speed", self.timed(kernel, who), kernel=case.name, grid=kernel.grid,
                         parameters=parameters, unit=unit, work=work)
        for name in TORCH:
            self.add(f"speed/torch/{name}", 14, "torch_speed", "none", what=name)

    def timed(self, kernel: kernels.Kernel, who: str) -> str | None:
        """The cubin of a kernel of `make speed`."""
        try:
            bytecode = side.bytecode_of(kernel)
            cubin = (tileiras.compile(bytecode, gpu_name="sm_90", opt_level=3).cubin if who == "ours" else
                     original.compile_original(bytecode, "sm_90")[1])
        except (TileirasError, original.NoOriginal) as error:
            self.failed.append(f"{who} {kernel.name}: {type(error).__name__}: {str(error)[:300]}")
            return None
        return self.file(f"cubins/speed_{who}_{kernel.name}.cubin", cubin)

    def pairs(self, jobs: Sequence[tuple[str, str]]) -> None:
        """Question 20: launches with all their sides."""
        for made in map(pairs.made, jobs):
            if isinstance(made, str):
                self.failed.append(made)
                continue
            self.failed += [f"{who} {made.name}: {why}" for who, why in made.failed.items()]
            if made.sides:
                self.experiments.append(made.put(self.folder))

    def finish(self) -> None:
        plan = {"built": datetime.date.today().isoformat(), "tileiras": __version__, "experiments": self.experiments,
                "failed": self.failed}
        (self.folder / "plan.json").write_text(json.dumps(plan, indent=0))


PARTS = ("launch", "maps", "matrices", "latencies", "rates", "cases", "speed", "programs")


def build(folder: pathlib.Path, parts: tuple[str, ...] = PARTS, names: list[str] | None = None, reference: str | None = None,
          controls: int = 10) -> Builder:
    """Build the parts into the folder. `names`: the suite's cases (all by default). `reference`: the original's command."""
    builder = Builder(folder, reference)
    # Question 6 needs nothing built: it runs where the frontend is installed.
    builder.add("frontend_launch", 6, "frontend", "none")
    simple = {"launch": builder.launch_contract, "maps": builder.maps, "matrices": builder.matrices,
              "latencies": builder.latencies, "rates": builder.rates}
    for part in parts:
        if part in simple:
            simple[part]()
    if "cases" in parts:
        builder.cases(names or list(runner.cases()), controls)
    if "speed" in parts:
        builder.speed([name for name in kernels.by_name() if names is None or name in names])
    if "programs" in parts:
        builder.pairs([job for job in pairs.jobs(True, (), True, True) if names is None or job[1] in names])
    builder.finish()
    return builder


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.hardware.prepare", description=str(__doc__).splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=runner.BUILD / "hardware")
    parser.add_argument("--part", action="append", choices=PARTS, help="only these parts")
    parser.add_argument("--reference", type=pathlib.Path, help="a Python whose environment holds the original")
    parser.add_argument("--controls", type=int, default=10, help="the original's cubin of every N-th case (1: of all)")
    parser.add_argument("--tar", action="store_true", help="pack the folder and the runner into OUT.tar.gz as well")
    parser.add_argument("names", nargs="*", help="only these cases of the suite")
    options = parser.parse_args()
    reference = None
    if options.reference:
        from bench.__main__ import reference_command
        reference = reference_command(options.reference)
    builder = build(options.out, tuple(options.part or PARTS), options.names or None, reference, max(options.controls, 1))
    for line in builder.failed:
        print(line, file=sys.stderr)
    size = sum(path.stat().st_size for path in options.out.rglob("*") if path.is_file())
    print(f"{len(builder.experiments)} experiments, {len(builder.failed)} not built, {size / 2**20:.1f} MiB in {options.out}")
    if options.tar:
        archive = options.out.with_suffix(".tar.gz")
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(options.out, "hardware/plan")
            for name in ("gpu_driver.py", "gpu_values.py", "run.py", "sweep.py"):
                tar.add(pathlib.Path(__file__).parent / name, f"hardware/{name}")
        print(f"{archive}: {archive.stat().st_size / 2**20:.1f} MiB. On the GPU machine:\n"
              "  tar xzf hardware.tar.gz && python3 hardware/run.py hardware/plan --out results.json")
    return 0 if len(builder.experiments) > 1 else 1


if __name__ == "__main__":
    sys.exit(main())
