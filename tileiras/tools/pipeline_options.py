"""What may stand in `tileir{...}`, besides the wishes for schedules (schedule/options.py)?

Options act by steps beside the pipeline's passes:

    num-warps=8, num-ctas=2        hints for every kernel, over its own (cuda_tile)
    ftz=true                       f32 arithmetic flushes subnormal numbers to zero (cuda_tile)
    approx=true                    f32 division, square root and tanh are approximate (cuda_tile)
    emit-line-info=tileas          the IR as it is there goes to snapshot.mlir, and its lines are the locations from there on
    dump-host=FILE                 the code of the host's callbacks, as LLVM IR, for the host `host-triple`

Others have one value here, which is the documented default; any other is refused with the reason (FIXED).
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tileiras.errors import ConfigError, UsageError
from tileiras.tools.pass_runner import Step

SNAPSHOT = "snapshot.mlir"
HINT_OF = {"num-warps": "num_worker_warps_per_cta", "num-ctas": "num_cta_in_cga"}
FLAGS = ("ftz", "approx")
SNAPSHOT_BEFORE = {"tileaa": "convert-tileaa-to-tileas", "tileas": "convert-tileas-to-llvm"}
LINE_INFO = ("none", "inputIR", *SNAPSHOT_BEFORE, "post-tileas")
FIXED: dict[str, tuple[str, str]] = {
    "v2-opt-level": ("0", "there is one pipeline, and opt-level alone says how much of it runs"),
    "index-bitwidth": ("32", "each access has indices as wide as its array's extents and strides ask for"),
    "use-nvgpucomp-libnvvm": ("false", "LLVM makes the PTX; neither NVGpuComp nor libNVVM is used"),
    "enable-debug-logging": ("false", "the host's callbacks call nothing, so they can't print"),
}
"""By option: its one value, and why there is no other."""
APPROXIMATE = ("cuda_tile.divf", "cuda_tile.sqrt", "cuda_tile.tanh")
MOST = 1 << 16


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MOST)) and 0 < int(text) <= MOST):
        raise UsageError(f"option '{name}' takes a number from 1 to {MOST}, not '{text}'")
    return int(text)


def _flag(name: str, text: str) -> bool:
    if text not in ("false", "true"):
        raise UsageError(f"option '{name}' is true or false, not '{text}'")
    return text == "true"


def _platform(triple: str) -> tuple[str, str]:
    """The host of a triple. Raises UsageError."""
    from tileiras.host.object import DEFAULT_PLATFORM, PLATFORMS

    if triple == "native":
        return DEFAULT_PLATFORM
    found = next((host for host, (known, _) in PLATFORMS.items() if known == triple), None)
    if found is None:
        known = ", ".join(dict.fromkeys(t for t, _ in PLATFORMS.values()))
        raise UsageError(f"unknown host triple '{triple}'; known: native, {known}")
    return found


def around(steps: list[Step], given: Mapping[str, str], level: str, options: Any) -> list[Step]:
    """The pipeline's steps with those that its options add. `level`: of the module that they start from. Raises UsageError for a
    value that an option doesn't take, or that this module comes too late for."""
    for name, (only, why) in FIXED.items():
        if given.get(name, only) != only:
            raise UsageError(f"option '{name}' is {only}: {why}")
    out = [*_first(given, options), *steps]
    asked = [name for name in (*HINT_OF, *FLAGS) if given.get(name, "false") != "false"]
    if asked and level not in ("", "cuda_tile"):
        raise UsageError(f"option '{asked[0]}' acts on cuda_tile, but the module is {level}")
    stage = given.get("emit-line-info", "none")
    if stage not in LINE_INFO:
        raise UsageError(f"unknown stage '{stage}' of line information; known: {', '.join(LINE_INFO)}")
    if stage in SNAPSHOT_BEFORE or stage == "post-tileas":
        at = next((i for i, step in enumerate(out) if step.name == SNAPSHOT_BEFORE.get(stage, "convert-tileas-to-llvm")), None)
        if at is None:
            raise UsageError(f"emit-line-info={stage}: this pipeline doesn't come there")
        behind = stage == "post-tileas"
        kind = out[at].gives if behind else out[at].takes
        out.insert(at + behind, Step("emit-line-info", kind, kind, _snapshot))
    host = _platform(given.get("host-triple", "native"))
    if path := given.get("dump-host", ""):
        out.append(Step("dump-host", "llvm", "llvm", lambda module: _dump_host(module, path, host, options)))
    return out


def _first(given: Mapping[str, str], options: Any) -> Iterator[Step]:
    """What comes before the first pass."""
    hints = {hint: _number(name, given[name]) for name, hint in HINT_OF.items() if name in given}
    if hints:
        from tileiras.dialects.cuda_tile.given_hints import check, give
        try:
            check(hints, options.target.name)
        except ConfigError as error:
            raise UsageError(error.message) from error
        yield _in_place("hints", lambda module: give(module, hints, options.target.name))
    for name, act in (("ftz", flush), ("approx", approximate)):
        if _flag(name, given.get(name, "false")):
            yield _in_place(name, act)


def _in_place(name: str, act: Callable[[Any], None]) -> Step:
    def run(module: Any) -> Any:
        act(module)
        return module
    return Step(name, "cuda_tile", "cuda_tile", run)


def _is_f32(op: Any) -> bool:
    from xdsl.dialects.builtin import Float32Type

    return isinstance(op.results[0].type.element_type, Float32Type)


def flush(module: Any) -> None:
    """Let every f32 op that can flush subnormal numbers do so."""
    from xdsl.dialects.builtin import UnitAttr

    for op in module.walk():
        if hasattr(type(op), "flush_to_zero") and op.results and _is_f32(op):
            op.properties["flush_to_zero"] = UnitAttr()


def approximate(module: Any) -> None:
    """Let f32 divisions, square roots and tanh be approximate."""
    from tileiras.dialects.cuda_tile.attrs import RoundingAttr

    for op in module.walk():
        if op.name in APPROXIMATE and _is_f32(op):
            op.properties["rounding_mode"] = RoundingAttr("approx")


def _snapshot(module: Any) -> Any:
    """Write the module to SNAPSHOT; the result is that file, read: each op comes from its line there."""
    from tileiras.dialects.module_text import module_text
    from tileiras.tools.lower_text import parse_lower
    from tileiras.tools.support import write_text

    text = module_text(module)
    write_text(SNAPSHOT, text)
    return parse_lower(text, SNAPSHOT)


def _dump_host(module: Any, path: str, host: tuple[str, str], options: Any) -> Any:
    """Write what the host will do before launches, and go on."""
    from tileiras.codegen.host_maps import host_text
    from tileiras.codegen.llvm_text import print_module
    from tileiras.tools.support import write_text

    write_text(path, host_text(print_module(module), options.target, host))
    return module


def with_opt_level(options: Any, given: Mapping[str, str], default: int) -> Any:
    """Options at the level that the pipeline's text asks for. Raises UsageError."""
    wanted = given.get("opt-level", str(default))
    if wanted not in ("0", "1", "2", "3"):
        raise UsageError(f"invalid optimization level: {wanted}")
    return replace(options, opt_level=int(wanted))
