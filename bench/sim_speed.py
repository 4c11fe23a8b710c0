"""How fast the simulator is: thread-instructions a second of large elementwise kernels, seconds of a 512-cube matmul.

    python -m bench.sim_speed

Each kernel of the suite is compiled by us with larger arrays, run once to warm up what is made on first use, then timed;
results are compared with the case's reference. `make bench` prints it behind the compile times.
"""
from __future__ import annotations

import dataclasses
import sys
import time

import numpy as np

from tests.kernels import runner
from tests.kernels.runner import suite
from tileiras.sim import simulate
from tileiras.sim.run import share

ELEMENTS = 1 << 22
GOAL = 50e6                 # thread-instructions a second, of a large elementwise kernel
SECONDS = 20.0              # of the matmul


def large(name: str, elements: int) -> suite.Case:
    """An elementwise case of the suite on one-dimensional arrays of `elements`."""
    case = runner.case_of(name)
    old = next(a.shape[0] for a in case.args if isinstance(a, suite.Array))
    args = [dataclasses.replace(a, shape=(elements,)) if isinstance(a, suite.Array) else a for a in case.args]
    blocks = case.grid[0] * elements // old

    def inputs(rng):
        return {i: np.resize(a, elements) for i, a in case.inputs(rng).items()}
    return dataclasses.replace(case, name=f"{name}_large", args=args, grid=(blocks, 1, 1), inputs=inputs)


def matmul(size: int) -> suite.Case:
    """f16 matmul of size x size matrices by tiles of 128 x 128 x 64."""
    runner.cases()
    module = sys.modules["k_gemm"]
    case = runner.case_of("gemm_f16_f32_128x256x64")
    args = [suite.Array("float16", (size, size), True), suite.Array("float16", (size, size), True),
            suite.Array("float32", (size, size), True), suite.Const(128), suite.Const(128), suite.Const(64)]
    return dataclasses.replace(case, name=f"matmul_{size}", args=args, grid=(size // 128, size // 128, 1),
                               inputs=module.normals(a_0=(size, size), b_1=(size, size)))


def timed(case: suite.Case, gpu_name: str = "sm_90", clock=time.process_time, **options):
    """Compile a case, simulate it, and judge it: (report, seconds by `clock`). In one process unless `options` say more."""
    options.setdefault("processes", 1)
    import tileiras
    code = tileiras.compile(runner.export_case(case), gpu_name=gpu_name)
    launch = runner.Launch(*suite.launch_arguments(case, 0))
    start = clock()
    report = simulate(code.ptx, kernel=case.name, grid=case.grid, args=launch.flat, **options)
    seconds = clock() - start
    verdict = runner.judge(case, launch)
    if report.findings or not verdict.ok:
        raise SystemExit(f"{case.name}: {report.findings or verdict}")
    return report, seconds


def main() -> int:
    """Print the table; the exit status says whether the goals are met."""
    good = True
    print("simulator, sm_90")
    for name in ("vector_add_float32", "gelu_tanh_f16"):
        report, seconds = timed(large(name, ELEMENTS))
        rate = report.instructions / seconds
        good &= rate >= GOAL
        print(f"  {name}, {ELEMENTS} elements: {report.instructions / 1e6:.0f} M thread-instructions in {seconds:.2f} s, "
              f"{rate / 1e6:.0f} M/s")
        cores = share.processes()
        if cores > 1:
            one, all_ = (timed(large(name, ELEMENTS), clock=time.perf_counter, processes=n)[1] for n in (1, cores))
            print(f"    in {cores} processes {one / all_:.2f} times as fast")
    report, seconds = timed(matmul(512))
    good &= seconds < SECONDS
    print(f"  f16 matmul 512x512x512, tiles 128x128x64: {seconds:.1f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
