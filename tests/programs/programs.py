"""Whole programs in cuTile Python beside the suite: what a program is, and how one is judged.

The suite in tests/kernels goes through the language op by op. Here are kernels as users write them, and corners where several
features meet; each is a table of sizes and a function that draws the inputs and says by NumPy what must come out:

    @program((np.float16, 128, 64), (bf16, 64, 32))
    def row_norms(dtype, rows, columns):
        x, out = draw(rows, columns, dtype=dtype), np.zeros(rows, np.float32)
        return Launch(norms, (4,), (x, out, 32), {1: np.linalg.norm(wide(x), axis=1)}, 1e-3)

`run` compiles a program for an SM and a level, strictly (what would be compiled without asynchronous code fails), simulates it
under several orders of what is asynchronous, and compares; `python -m tests.programs` does it for many.
"""
import dataclasses
import importlib
import pathlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tests.ptx import ORDERS, is_asynchronous

bf16, e4m3, e5m2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
e8m0 = ml_dtypes.float8_e8m0fnu


@dataclasses.dataclass(frozen=True)
class Launch:
    """One launch of a kernel: `expected` says what the arrays among `args` (lists of arrays: by (argument, number)) must hold
    behind it, to `tolerance` both absolute and relative; arrays that aren't named must be as they were."""
    kernel: Any
    grid: tuple[int, ...]
    args: Sequence[Any]
    expected: Mapping[Any, Any]
    tolerance: float = 0.0


@dataclasses.dataclass(frozen=True)
class Program:
    """A row of a program's table. `since`: the first SM that the kernel's types are for; `quick`: part of `make test`."""
    name: str
    draw: Callable[..., Launch]
    sizes: tuple
    since: int
    quick: bool

    def launch(self) -> Launch:
        return self.draw(*self.sizes)


@dataclasses.dataclass(frozen=True)
class Run:
    """How a program did: seconds of compiling, bytes spilled, whether its code is asynchronous."""
    seconds: float
    spills: int
    asynchronous: bool


PROGRAMS: dict[str, Program] = {}


def program(*rows: tuple, since: int = 75, quick: bool = False) -> Callable:
    """Register a function from sizes to a Launch, once for each row of sizes; `quick`: the first row is part of `make test`."""
    def register(draw: Callable[..., Launch]) -> Callable[..., Launch]:
        for number, sizes in enumerate(rows or ((),)):
            name = draw.__name__ + (f"_{number}" if len(rows) > 1 else "")
            assert name not in PROGRAMS, f"two programs are called {name}"
            PROGRAMS[name] = Program(name, draw, sizes, since, quick and number == 0)
        return draw
    return register


def load_all() -> dict[str, Program]:
    """All programs, by name."""
    here = pathlib.Path(__file__).parent
    for path in sorted(here.glob("p_*.py")):
        importlib.import_module(f"tests.programs.{path.stem}")
    return PROGRAMS


# ---- drawing and judging

def draw(*shape: int, dtype: Any = np.float16, scale: float = 1.0, seed: int = 0) -> np.ndarray:
    """Normal numbers."""
    return (np.random.default_rng(seed + sum(shape)).standard_normal(shape) * scale).astype(dtype)


def whole(*shape: int, dtype: Any = np.int32, low: int = -8, high: int = 8, seed: int = 0) -> np.ndarray:
    """Whole numbers from `low` to `high`."""
    return np.random.default_rng(seed + sum(shape)).integers(low, high + 1, shape).astype(dtype)


def wide(x: Any) -> np.ndarray:
    """The same numbers in double precision."""
    with np.errstate(invalid="ignore"):     # NaN whose first bit of fraction isn't set
        return np.asarray(x).astype(np.float64)


def blocks(extent: int, tile: int) -> int:
    """How many tiles cover an extent."""
    return -(-extent // tile)


def bitonic_network(n: int) -> tuple[tuple[int, int], ...]:
    """The steps that sort n numbers, a power of two: how long the runs are that grow, and how far apart what is compared lies."""
    steps, size = [], 2
    while size <= n:
        gap = size // 2
        while gap:
            steps.append((size, gap))
            gap //= 2
        size *= 2
    return tuple(steps)


def arrays_of(args: Sequence[Any]) -> dict[Any, np.ndarray]:
    """The arrays among arguments, by number; those in lists by (number, place)."""
    out: dict[Any, np.ndarray] = {}
    for i, a in enumerate(args):
        if isinstance(a, np.ndarray):
            out[i] = a
        elif isinstance(a, (list, tuple)):
            out.update({(i, j): b for j, b in enumerate(a) if isinstance(b, np.ndarray)})
    return out


def judge(launch: Launch, before: Mapping[Any, np.ndarray]) -> None:
    """Assert that arrays hold what they must."""
    arrays = arrays_of(launch.args)
    assert set(launch.expected) <= set(arrays), f"no arrays: {set(launch.expected) - set(arrays)}"
    for at, got in arrays.items():
        want = np.asarray(launch.expected[at] if at in launch.expected else before[at])
        assert want.shape in (got.shape, ()), f"argument {at} has shape {got.shape}, expected is {want.shape}"
        want = np.broadcast_to(want, got.shape)
        if got.dtype.kind in "biu":
            same = got == want
        elif at not in launch.expected:
            same = (wide(got) == wide(want)) | (np.isnan(wide(got)) & np.isnan(wide(want)))
        else:
            g, w = wide(got), wide(want)
            with np.errstate(invalid="ignore"):
                near = np.abs(g - w) <= launch.tolerance * (1 + np.abs(w))
            same = (g == w) | near | (np.isnan(g) & np.isnan(w))
        wrong = np.argwhere(~np.asarray(same, bool))
        where = tuple(wrong[0]) if len(wrong) else ()
        what = "" if at in launch.expected else " (an input)"
        assert not len(wrong), (f"argument {at}{what}: {len(wrong)} of {got.size} differ, first at {[int(k) for k in where]}: "
                                f"{got[where]} for {want[where]}")


def compiled(launch: Launch, gpu: str, level: int, **options: Any) -> tuple[Any, Any]:
    """The launch's bytecode from the frontend, and what it is compiled to."""
    import tileiras
    from tileiras.sim.cutile import export

    exported = export(launch.kernel, launch.args, gpu)
    return exported, tileiras.compile(exported.bytecode, gpu_name=gpu, opt_level=level, **options)


def run(name: str, gpu: str, level: int = 3, orders: Iterable[int] = ORDERS, simulated: bool = True) -> Run:
    """Compile a program, simulate it in each order (one, where nothing is asynchronous), and assert that it is right."""
    from tileiras.sim import simulate

    launch = PROGRAMS[name].launch()
    start = time.perf_counter()
    exported, module = compiled(launch, gpu, level)
    seconds = time.perf_counter() - start
    assert not module.warnings, module.warnings
    spills = sum(e.spill_stores + e.spill_loads for e in module.entries)
    asynchronous = is_asynchronous(module.ptx)
    arrays = arrays_of(launch.args)
    before = {at: a.copy() for at, a in arrays.items()}
    for order in (list(orders) if asynchronous else [0]) if simulated else []:
        for at, a in arrays.items():
            if a.flags.writeable:
                np.copyto(a, before[at])
        report = simulate(module.ptx, kernel=exported.symbol, grid=launch.grid, args=exported.flat, seed=order)
        if report.findings:
            raise report.findings[0]
        judge(launch, before)
    return Run(seconds, spills, asynchronous)
