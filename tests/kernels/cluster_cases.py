"""Cases of the suite under a forced `num_cta_in_cga`: their bytecode with the hint, compiled, and whether it took effect.

    compiled = compile_on("softmax_rows_f32", 2, "sm_90")       # as runner.compile_case, tile blocks on two CTAs each
    ctas(compiled.ptx)                                          # 2, or 1 where the hint was refused
    python -m tests.kernels.cluster_cases 2 -k matmul           # which of the suite's cases are split, simulated
"""
from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, i32

from tests.kernels import runner
from tileiras import bytecode
from tileiras.analysis import cta_plan
from tileiras.compiler import CompiledModule, compile_module
from tileiras.dialects.cuda_tile.attrs import OptimizationHintsAttr
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target


def with_ctas(data: bytes, count: int, sm: str, version: str) -> bytes:
    """Bytecode whose entries ask for clusters of so many CTAs on an SM."""
    module = bytecode.read(data)
    for op in module.body.block.ops:
        if op.name == "cuda_tile.entry":
            given = op.properties.get("optimization_hints")
            table = dict(given.data.data) if isinstance(given, OptimizationHintsAttr) else {}
            own: Any = table.get(sm)
            table[sm] = DictionaryAttr({**(own.data if own is not None else {}), "num_cta_in_cga": IntegerAttr(count, i32)})
            op.properties["optimization_hints"] = OptimizationHintsAttr(table)
    return bytecode.write(module, version)


def compile_on(case: str, count: int, sm: str = "sm_90", opt_level: int = 3, **options: Any) -> CompiledModule:
    """A case compiled for clusters of so many CTAs."""
    version = runner.latest_version(case)
    data = with_ctas(runner.export_case(case, version), count, sm, version)
    return compile_module(data, CompileOptions(find_target(sm), opt_level, **options))


def ctas(ptx: str) -> int:
    """CTAs that share a tile block."""
    found = re.search(r"^\.reqnctapercluster (\d+)", ptx, re.MULTILINE)
    return int(found[1]) if found else 1


@contextlib.contextmanager
def any_parts() -> Iterator[None]:
    """Tiles are split as if the size of its tiles made no product slower."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cta_plan, "LEAST_PART", 0)
        patch.setattr(cta_plan, "LEAST_PART_UMMA", 0)
        patch.setattr(cta_plan, "FEW_ROWS_UMMA", cta_plan.FEW_ROWS)
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("names", nargs="*")
    parser.add_argument("-k", default="")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--sm", default="sm_90")
    parser.add_argument("--no-sim", action="store_true")
    parser.add_argument("--orders", type=int, default=5)
    options = parser.parse_args()
    names = options.names or [n for n in sorted(runner.cases()) if re.search(options.k, n)][options.start::options.every]
    counts = {"split": 0, "whole": 0, "wrong": 0}
    for name in names:
        told: list[Any] = []
        try:
            made = compile_on(name, options.count, options.sm, emit="ptx" if not options.no_sim else "cubin", remarks=told)
            split = ctas(made.ptx) == options.count
            if split and not options.no_sim:
                verdict = runner.simulate_case(name, made, orders=range(options.orders))
                assert verdict.ok, verdict.detail
            about = [t for t in told if "num_cta_in_cga" in t.text]
            why = "; ".join([*about[0].reasons, *(str(v) for _, v in about[0].notes)]) if about else "no hint"
            kind = "split" if split else "whole"
        except Exception as error:      # one case costs itself only
            kind, why = "wrong", f"{type(error).__name__}: {error}".splitlines()[0]
        counts[kind] += 1
        print(f"{kind} {name}: {why}", flush=True)
    print(*(f"{n} {kind}" for kind, n in counts.items()))


if __name__ == "__main__":
    main()
