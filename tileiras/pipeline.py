"""The passes from cuda_tile to LLVM IR text: one list, in order.

`lower_to_llvm(module, options)` runs it. Each entry is (name, level it leaves, the pass); `--print-ir-after=NAME`,
`--emit=LEVEL`, `--verify-each` and `--pass-timing` act between entries.
"""
from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Pass:
    """One entry: `function` is "module:name". A conversion is called with (ir, target, options) and returns the IR of its
    `level`; a pass that stays in its level works in place and is called with (ir, options). `min_opt`: the lowest
    optimization level that runs it."""

    name: str
    level: str
    function: str
    min_opt: int = 0
    in_place: bool = False

    def apply(self, ir: Any, target: Any, options: Any) -> Any:
        module, name = self.function.split(":")
        function = getattr(import_module(module), name)
        if self.in_place:
            function(ir, options)
            return ir
        return function(ir, target, options)


def _in_place(name: str, level: str, min_opt: int) -> Pass:
    return Pass(name, level, f"tileiras.transforms.{name.replace('-', '_')}:run", min_opt, in_place=True)


PIPELINE: tuple[Pass, ...] = (
    Pass("convert-cudatile-to-tileaa", "nv_tileaa", "tileiras.conversion.cudatile_to_tileaa:convert"),
    _in_place("simplify", "nv_tileaa", 1),
    _in_place("cse", "nv_tileaa", 1),
    _in_place("refine-integers", "nv_tileaa", 1),
    _in_place("hoist-invariants", "nv_tileaa", 1),
    _in_place("simplify", "nv_tileaa", 1),
    _in_place("dce", "nv_tileaa", 0),
    _in_place("decompose-dot-scaled", "nv_tileaa", 0),
    Pass("convert-tileaa-to-tileas", "nv_tileas", "tileiras.conversion.tileaa_to_tileas.convert:convert"),
    _in_place("share-buffers", "nv_tileas", 1),
    _in_place("hoist-buffers", "nv_tileas", 1),
    _in_place("order-memory", "nv_tileas", 0),
    Pass("convert-tileas-to-llvm", "llvm", "tileiras.conversion.tileas_to_llvm.func:convert"),
)

LEVELS = ("cuda_tile", "nv_tileaa", "nv_tileas", "llvm")


def run(module: Any, target: Any, options: Any = None, stop_at: str | None = None,
        after: Callable[[str, Any], None] | None = None) -> Any:
    """Run the pipeline and return the IR; `stop_at`: the last level wanted. `after(name, ir)` is called after each pass."""
    opt_level = getattr(options, "opt_level", 3)
    timing = getattr(options, "timing", None)
    verify = getattr(options, "verify_each", False)
    ir = module
    for entry in PIPELINE:
        if entry.min_opt > opt_level:
            continue
        if stop_at is not None and LEVELS.index(entry.level) > LEVELS.index(stop_at):
            break
        start = time.perf_counter()
        ir = entry.apply(ir, target, options)
        if timing is not None:
            timing.append((entry.name, time.perf_counter() - start))
        if verify:
            ir.verify()
        if after is not None:
            after(entry.name, ir)
    return ir


def lower_to_llvm(module: Any, options: Any) -> str:
    """cuda_tile module to LLVM IR text, for `options.target` at `options.opt_level`."""
    from tileiras.codegen.llvm_text import print_module
    after = getattr(options, "after_pass", None)
    lines, debug = getattr(options, "lineinfo", False), getattr(options, "device_debug", False)
    program = ""
    if lines or debug:
        from tileiras.dialects.cuda_tile.asm_lines import annotate
        program = annotate(module)
    ir = run(module, options.target, options, after=after)
    return print_module(ir, lines=lines, debug=debug, optimized=getattr(options, "opt_level", 3) > 0, program=program)
