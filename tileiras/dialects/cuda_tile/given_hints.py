"""Which optimization hints does the caller give, beside the program's own? They stand for every kernel, over its own."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, i32

from tileiras.dialects.cuda_tile.attrs import OptimizationHintsAttr
from tileiras.dialects.cuda_tile.verify_hints import HINTS_OF, problem_of
from tileiras.errors import ConfigError

ENTRY = "cuda_tile.entry"


def check(hints: Mapping[str, int], gpu_name: str) -> None:
    """Raise ConfigError for a hint that a kernel can't have, or not with that value."""
    for name, value in hints.items():
        if name not in HINTS_OF[ENTRY]:
            raise ConfigError(f"unknown hint '{name}'; a kernel takes: {', '.join(HINTS_OF[ENTRY])}")
        if type(value) is not int or (problem := problem_of(name, IntegerAttr(value, i32), gpu_name)):
            told = "integer value expected for" if type(value) is not int else problem
            raise ConfigError(f"{told} hint '{name}', not {value!r}")


def give(module: Any, hints: Mapping[str, int], gpu_name: str) -> None:
    """Write the hints on a module's kernels, for this target."""
    given = {name: IntegerAttr(value, i32) for name, value in hints.items()}
    for op in module.body.block.ops:
        if op.name == ENTRY:
            own = op.properties.get("optimization_hints")
            before = dict(own.value.data) if isinstance(own, OptimizationHintsAttr) else {}
            of_target: Any = before.get(gpu_name)
            merged = {**(of_target.data if isinstance(of_target, DictionaryAttr) else {}), **given}
            op.properties["optimization_hints"] = OptimizationHintsAttr({**before, gpu_name: DictionaryAttr(merged)})
