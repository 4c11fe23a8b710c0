"""`make demo`: three real kernels, from cuTile Python to a cubin that computes the right numbers, with no GPU.

The frontend (`cuda-tile` from PyPI) exports each kernel as a cubin: it finds our `tileiras` on PATH, asks it which
bytecode it takes, and runs it, as it does for its users. Then the PTX of each kernel runs in the simulator on real
inputs, and what it writes is compared with NumPy.
"""
from __future__ import annotations

import argparse
import importlib.metadata
import io
import os
import pathlib
import shutil
import sys
import tempfile
import time

KERNELS = (
    ("vector addition", "vector_add_float32"),
    ("row softmax with padding", "softmax_1x1024_f32_ragged"),
    ("f16 matmul with a K loop", "matmul_float16_float32"),
)
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
SIMULATED = ("sm_80", "sm_90")


def our_tileiras() -> str:
    """The `tileiras` that the frontend will run, made sure to be ours with no other before it."""
    try:
        importlib.metadata.version("nvidia-cuda-tileiras")
    except importlib.metadata.PackageNotFoundError:
        pass
    else:
        raise SystemExit("nvidia-cuda-tileiras is installed here, and the frontend would take it before ours; "
                         "run `make demo`, which makes an environment of its own")
    ours = pathlib.Path(sys.executable).parent
    os.environ["PATH"] = os.pathsep.join([str(ours), os.environ.get("PATH", "")])
    found = shutil.which("tileiras")
    if found is None or pathlib.Path(found).parent != ours:
        raise SystemExit("the `tileiras` command isn't installed in this environment: pip install -e '.[demo]'")
    return found


def shape_text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--gpu-name", action="append", metavar="sm_XX", help="instead of " + ", ".join(TARGETS))
    a = parser.parse_args(argv)
    targets = tuple(a.gpu_name or TARGETS)
    command = our_tileiras()
    with tempfile.TemporaryDirectory() as folder:
        # A cache of our own, empty: otherwise the frontend may find yesterday's cubins and compile nothing.
        os.environ["CUDA_TILE_CACHE_DIR"] = folder
        return run(command, targets)


def run(command: str, targets: tuple[str, ...]) -> int:
    from cuda.tile.compilation import export_kernel

    import tileiras
    from bench import cubin, table
    from tests.kernels import runner, suite
    from tileiras.version import __version__

    print(f"cuda-tile {importlib.metadata.version('cuda-tile')} finds {command} (open-tileiras {__version__})\n")
    for title, name in KERNELS:
        case = runner.case_of(name)
        arrays = ", ".join(f"{x.dtype}[{shape_text(x.shape)}]" for x in runner.arrays_of(case))
        print(f"  {title}: {case.kernel._annotated_function.pyfunc.__name__}({arrays}), grid {shape_text(case.grid)}")

    # The first call of the frontend asks for the bytecode version; that is not the kernel's time.
    first = runner.case_of(KERNELS[0][1])
    export_kernel(first.kernel, [suite.signature(first)], io.BytesIO(), output_format="tileir_bytecode",
                  gpu_code="sm_90")

    failed = 0
    rows = []
    for title, name in KERNELS:
        case = runner.case_of(name)
        for target in targets:
            out, start = io.BytesIO(), time.perf_counter()
            try:
                export_kernel(case.kernel, [suite.signature(case)], out, output_format="cubin", gpu_code=target)
                seconds = time.perf_counter() - start
                facts = cubin.inspect(out.getvalue())[case.name]
            except Exception as error:
                failed += 1
                print(f"\n{name} for {target} failed: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            rows.append((title, target, f"{seconds * 1000:.0f} ms", facts.registers, facts.spills, facts.shared,
                         facts.instructions))
            failed += facts.spills > 0
    print("\nCompiled by the frontend with our tileiras (time: the frontend's work, tileiras and ptxas):\n")
    print(table.render(("kernel", "target", "time", "registers", "spills", "shared bytes", "instructions"), rows))

    rows = []
    for title, name in KERNELS:
        case = runner.case_of(name)
        for target in [t for t in SIMULATED if t in targets] or targets[:1]:
            start = time.perf_counter()
            try:
                compiled = tileiras.compile(runner.export_case(case), gpu_name=target, opt_level=3)
                verdict = runner.simulate_case(case, compiled)
            except Exception as error:
                failed += 1
                print(f"\n{name} for {target} failed: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            seconds = time.perf_counter() - start
            failed += not verdict.ok
            rows.append((title, target, f"{verdict.max_abs:.3g}", f"{verdict.worst:.3f}",
                         "ok" if verdict.ok else "WRONG: " + verdict.detail, f"{seconds:.1f} s"))
    print("\nRun in the simulator and compared with NumPy (error in tolerances: up to 1 is right):\n")
    print(table.render(("kernel", "target", "largest error", "in tolerances", "", "time"), rows))
    print(f"\n{'all right' if not failed else f'{failed} failures'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
