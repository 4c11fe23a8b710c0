"""How a case of the kernel suite is exported, compiled, simulated, interpreted and judged; one helper a step.

Every step takes the case's name or the `Case` itself. Exported bytecode is kept under `build/bytecode`, keyed by the
kernel sources and the frontend's version, so that only the first run pays the frontend.

    launch = launch_of(case)                         # inputs, flattened launch parameters, expected outputs
    compiled = compile_case(case, "sm_90", 3)        # tileiras.compile on the case's bytecode
    simulate_case(case, compiled).worst              # <= 1.0 where every output is within tolerance
    interpret_case(case).worst
"""
from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.metadata
import io
import os
import pathlib
import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.kernels import suite
from tests.kernels.suite import Array, Case
from tests.ptx import ORDERS, is_asynchronous

if TYPE_CHECKING:
    from tileiras import CompiledModule

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"


@functools.cache
def cases() -> dict[str, Case]:
    """All cases by name, in the order in which the kernel files register them."""
    return dict(suite.load_all())


def case_of(case: str | Case) -> Case:
    """A case of the suite, or an aligned twin of one, by name."""
    if not isinstance(case, str):
        return case
    found = cases().get(case)
    if found is None:
        from tests.kernels import twins
        found = twins.twin(case)
    return found


@functools.cache
def _sources_key() -> str:
    digest = hashlib.sha256(importlib.metadata.version("cuda-tile").encode())
    for path in sorted(suite.HERE.glob("k_*.py")) + [pathlib.Path(str(suite.__file__))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def write_atomically(path: pathlib.Path, data: bytes) -> None:
    """Write so that no other process ever sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(handle, "wb") as f:
        f.write(data)
    os.replace(name, path)


def latest_version(case: str | Case) -> str:
    """The newest bytecode version that the case is written for."""
    return case_of(case).versions[-1]


def bytecode_path(case: str | Case, version: str | None = None) -> pathlib.Path:
    """The file that holds the case's bytecode, exported on first use."""
    c = case_of(case)
    version = version or latest_version(c)
    # Twins of several kinds have one name.
    kind = "" if c.name in cases() else "-" + hashlib.sha256(repr((c.args, c.grid)).encode()).hexdigest()[:8]
    path = BUILD / "bytecode" / _sources_key() / f"{c.name}-{version}{kind}.tileirbc"
    if not path.exists():
        from cuda.tile.compilation import export_kernel
        out = io.BytesIO()
        # Before 13.3 bytecode is written for one architecture.
        export_kernel(c.kernel, [suite.signature(c)], out, gpu_code="sm_90" if version < "13.3" else None,
                      output_format="tileir_bytecode", bytecode_version=version)
        write_atomically(path, out.getvalue())
    return path


def export_case(case: str | Case, version: str | None = None) -> bytes:
    """The case's Tile IR bytecode as the frontend writes it (by default in its newest version)."""
    return bytecode_path(case, version).read_bytes()


def _copy(array: np.ndarray) -> np.ndarray:
    """A copy; of the view of a pitched array, with what lies between its rows."""
    return array.copy() if array.base is None else array.base.copy()[..., :array.shape[-1]]


@dataclasses.dataclass
class Launch:
    """One launch: the suite's per-argument values, the flat launch parameters that share their arrays, what must come
    out."""

    values: list[Any]
    flat: list[Any]
    expected: dict[int, np.ndarray]

    def fresh(self) -> Launch:
        """The same launch on arrays of its own, since kernels write in place."""
        copies = {id(v): _copy(v) for v in self.values if isinstance(v, np.ndarray)}
        return Launch([copies.get(id(v), v) for v in self.values], [copies.get(id(v), v) for v in self.flat],
                      self.expected)


@functools.lru_cache(maxsize=4)
def _launch(name: str, seed: int) -> Launch:
    return Launch(*suite.launch_arguments(case_of(name), seed))


def launch_of(case: str | Case, seed: int = 0) -> Launch:
    """The launch of a case with inputs drawn from `seed`."""
    c = case_of(case)
    if isinstance(case, str) or cases().get(c.name) is c:
        return _launch(c.name, seed).fresh()
    return Launch(*suite.launch_arguments(c, seed))


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How far the outputs are from the reference. `worst` counts in tolerances: up to 1.0 passes."""

    worst: float
    max_abs: float
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.worst <= 1.0


def judge(case: str | Case, launch: Launch) -> Verdict:
    """Compare the launch's arrays, written by whatever ran the kernel, with the reference."""
    c = case_of(case)
    errors = suite.check(c, launch.values, launch.expected)
    worst, max_abs, detail = 0.0, 0.0, ""
    for i, error in errors.items():
        got, want = launch.values[i], np.asarray(launch.expected[i])
        with np.errstate(all="ignore"):
            g, w = got.astype(np.float64), want.astype(np.float64)
            both = (g == w) | (np.isnan(g) & np.isnan(w))
            gap = np.where(both, 0.0, np.abs(g - w))
            bound = 0.0 if got.dtype.kind in "biu" else c.atol + c.rtol * np.abs(w)
            bad = ~(gap <= bound)
        max_abs = max(max_abs, float(np.nan_to_num(gap, nan=np.inf).max(initial=0.0)))
        if error > worst or (error > 1.0 and not detail):
            worst = max(worst, error)
            if bad.any():
                at = tuple(int(k) for k in np.argwhere(bad)[0])
                untouched = "" if got[at].tobytes() != bytes([suite.UNWRITTEN]) * got.itemsize else " (never written)"
                detail = (f"argument {i}: {int(bad.sum())} of {bad.size} elements differ, first at {list(at)}: "
                          f"got {got[at]}, expected {want[at]}{untouched}")
    for i, value in enumerate(launch.values):
        if isinstance(value, np.ndarray) and value.base is not None and not detail:
            gap = np.ascontiguousarray(value.base[..., value.shape[-1]:]).view(np.uint8)
            if (gap != suite.UNWRITTEN).any():
                worst, detail = np.inf, f"argument {i}: bytes behind the end of a row are written"
    return Verdict(worst, max_abs, detail)


def compile_case(case: str | Case, gpu_name: str = "sm_90", opt_level: int = 3, version: str | None = None,
                 **options: Any) -> CompiledModule:
    """`tileiras.compile` on the case's bytecode."""
    import tileiras
    return tileiras.compile(export_case(case, version), gpu_name=gpu_name, opt_level=opt_level, **options)


def simulate_case(case: str | Case, compiled: CompiledModule, seed: int = 0, orders: Iterable[int] | None = None) -> Verdict:
    """Run the compiled case's PTX in the simulator and judge what it wrote, the worst over `orders` (by default all of ORDERS
    where something is asynchronous). The first finding (a race, say) is raised."""
    from tileiras.sim import simulate
    if orders is None:
        orders = ORDERS if is_asynchronous(compiled.ptx) else (0,)
    c, worst = case_of(case), None
    for order in orders:
        launch = launch_of(case, seed)
        report = simulate(compiled.ptx, kernel=c.name, grid=c.grid, args=launch.flat, seed=order)
        if report.findings:
            raise report.findings[0]
        verdict = judge(c, launch)
        if worst is None or verdict.worst > worst.worst:
            worst = verdict
    assert worst is not None, "no order to simulate in"
    return worst


@dataclasses.dataclass(frozen=True)
class Structure:
    """How compiled code is built: the stages of its rings, deepest first, and among how many agents its warps are split."""

    rings: tuple[int, ...] = ()
    agents: int = 1


def structure_of(case: str | Case, gpu_name: str, opt_level: int = 3) -> Structure:
    """The structure that the passes have given a case, from the IR before LLVM."""
    from tileiras import bytecode, pipeline
    from tileiras.driver.options import CompileOptions
    from tileiras.machine.targets import find_target
    options = CompileOptions(target=find_target(gpu_name), opt_level=opt_level)
    module = pipeline.run(bytecode.read(export_case(case)), options, stop_at="nv_tileas")
    rings, agents = [], 1
    for op in module.walk():
        if op.name == "nv_tileas.create_pipeline":
            rings.append(op.results[0].type.stages.data)
        elif op.name == "nv_tileas.agent_switch":
            agents = max(agents, len(op.regions))
    return Structure(tuple(sorted(rings, reverse=True)), agents)


def interpret_case(case: str | Case, version: str | None = None, seed: int = 0) -> Verdict:
    """Run the case's bytecode in the reference interpreter and judge what it wrote."""
    from tileiras import interp
    c, launch = case_of(case), launch_of(case, seed)
    interp.run(export_case(c, version), c.name, c.grid, launch.flat)
    return judge(c, launch)


def ops_of(case: str | Case, version: str | None = None) -> list[str]:
    """The names of the cuda_tile ops that the case's bytecode holds, sorted."""
    from tileiras import bytecode
    module = bytecode.read(export_case(case, version))
    return sorted({op.name for op in module.walk()})


def arrays_of(case: str | Case) -> list[Array]:
    return [a for a in case_of(case).args if isinstance(a, Array)]
