"""The passes from cuda_tile to LLVM IR text: one list, in order.

`lower_to_llvm(module, options)` runs it. Each entry is (name, level it leaves, the pass); `--print-ir-after=NAME`,
`--emit=LEVEL`, `--verify-each` and `--pass-timing` act between entries.
"""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

LEVELS = ("cuda_tile", "nv_tileaa", "nv_tileas", "llvm")


@dataclass(frozen=True)
class Pass:
    """One entry: `module` has a function `run(ir, context)`. That of a conversion returns the IR of its `level`; a pass that
    stays in its level works in place and returns nothing. `takes`: the level of the IR that it takes. `min_opt`: the lowest
    optimization level that runs it. `of`: names of ops; a program with none of them is left as it is, without the pass being
    imported; with an empty set every program goes through it. `since`: the first SM whose programs go through it."""

    name: str
    takes: str
    level: str
    module: str
    min_opt: int = 0
    of: frozenset[str] = frozenset()
    since: int = 0

    def apply(self, ir: Any, context: Any) -> Any:
        """The IR after the pass. `context`: the `CompileOptions` of the compilation."""
        changed = import_module(self.module).run(ir, context)
        return ir if changed is None else changed


def _transform(name: str, level: str, min_opt: int, of: str = "", since: int = 0) -> Pass:
    ops = frozenset(f"{level}.{op}" if "." not in op else op for op in of.split())
    return Pass(name, level, level, f"tileiras.transforms.{name.replace('-', '_')}", min_opt, ops, since)


def _conversion(name: str, level: str) -> Pass:
    module = name.removeprefix("convert-").replace("-", "_")
    return Pass(name, LEVELS[LEVELS.index(level) - 1], level, f"tileiras.conversion.{module}.entry")


PIPELINE: tuple[Pass, ...] = (
    _conversion("convert-cudatile-to-tileaa", "nv_tileaa"),
    _transform("simplify", "nv_tileaa", 1),
    _transform("flatten-dots", "nv_tileaa", 1, of="dot"),
    _transform("unroll-loops", "nv_tileaa", 3, of="scf.for"),
    _transform("cse", "nv_tileaa", 1),
    _transform("refine-integers", "nv_tileaa", 1),
    _transform("shift-offsets", "nv_tileaa", 1, of="addptr"),
    _transform("hoist-invariants", "nv_tileaa", 1),
    _transform("count-loops", "nv_tileaa", 1, of="loop"),
    _transform("tighten-loops", "nv_tileaa", 1, of="scf.if"),
    _transform("retype-accesses", "nv_tileaa", 1, of="arith.bitcast"),
    _transform("load-where-used", "nv_tileaa", 1, of="dot dot_scaled"),
    _transform("simplify", "nv_tileaa", 1),
    _transform("remove-dead-args", "nv_tileaa", 1, of="scf.for"),
    _transform("flush-exponentials", "nv_tileaa", 1, of="math.exp2"),
    _transform("bound-blocks", "nv_tileaa", 1, of="scf.for"),
    _transform("back-and-forth", "nv_tileaa", 1, of="scf.for"),
    _transform("dce", "nv_tileaa", 0),
    _transform("plan-cta", "nv_tileaa", 0),
    _transform("plan-chains", "nv_tileaa", 1, of="dot"),
    _transform("split-tiles", "nv_tileaa", 1, of="dot"),
    _transform("split-streams", "nv_tileaa", 3, of="scf.for"),
    _transform("decompose-dot-scaled", "nv_tileaa", 0, of="dot_scaled"),
    _transform("prepare-dot-scaled", "nv_tileaa", 1, of="dot_scaled"),
    _transform("skip-masks", "nv_tileaa", 1, of="dot dot_scaled"),
    _transform("join-steps", "nv_tileaa", 1, of="dot"),
    _transform("split-steps", "nv_tileaa", 1, of="dot"),
    _transform("split-operands", "nv_tileaa", 1, of="dot"),
    _conversion("convert-tileaa-to-tileas", "nv_tileas"),
    _transform("negate-dots", "nv_tileas", 1, of="arith.negf"),
    _transform("turn-dots", "nv_tileas", 1, of="dot"),
    _transform("plan-agents", "nv_tileas", 1, of="dot dot_scaled"),
    _transform("plan-blocks", "nv_tileas", 1, of="dot"),
    _transform("choose-atoms", "nv_tileas", 0, of="dot dot_scaled"),
    _transform("early-dots", "nv_tileas", 1, of="dot"),
    _transform("list-schedule", "nv_tileas", 1, of="dot"),
    _transform("wide-inside", "nv_tileas", 1),
    _transform("assign-load-store-layouts", "nv_tileas", 0),
    _transform("remove-layout-conversions", "nv_tileas", 1),
    _transform("stage-operands", "nv_tileas", 0, of="dot dot_scaled"),
    _transform("read-operands", "nv_tileas", 1, of="dot"),
    _transform("hoist-conversions", "nv_tileas", 1, of="convert_layout"),
    _transform("split-reductions", "nv_tileas", 0, of="reduce"),
    _transform("share-results", "nv_tileas", 0),
    _transform("stage-slices", "nv_tileas", 0, of="extract insert"),
    _transform("provide-scratch", "nv_tileas", 0, of="scan print cta_exchange"),
    _transform("materialize-convert-layout", "nv_tileas", 0, of="convert_layout"),
    _transform("share-buffers", "nv_tileas", 1, of="alloc_tensor"),
    _transform("hoist-buffers", "nv_tileas", 1, of="scf.for loop"),
    _transform("hold-fragments", "nv_tileas", 1, of="scf.for loop"),
    _transform("stage-tiles", "nv_tileas", 1, of="tiled_load tiled_store tiled_atomic_rmw"),
    _transform("dynamic-persistent", "nv_tileas", 1, of="is_valid_program_id"),     # those that ask for it run every pass
    _transform("tell-agents", "nv_tileas", 1, of="atomic_rmw atomic_cas loop"),
    _transform("generate-schedule", "nv_tileas", 1, of="scf.for"),
    _transform("meet-in-clusters", "nv_tileas", 1),
    _transform("lower-tma-load-store-to-async", "nv_tileas", 1),
    _transform("untie-stores", "nv_tileas", 1, of="scf.for loop"),
    _transform("separate-host-tma", "nv_tileas", 1, of="make_tiled_tma_desc"),
    _transform("stage-streams", "nv_tileas", 1, of="scf.for"),
    _transform("materialize-async", "nv_tileas", 1, of="scf.for"),
    _transform("unspecialized-pipeline", "nv_tileas", 1, of="producer_commit"),
    _transform("free-heap", "nv_tileas", 0, of="alloca"),
    _transform("materialize-schedule", "nv_tileas", 1, of="scf.for loop"),
    _transform("unroll-streams", "nv_tileas", 3, of="scf.for"),
    _transform("join-stages", "nv_tileas", 3, of="load_shared"),
    _transform("prefetch-to-registers", "nv_tileas", 1, of="scf.for"),
    _transform("overlap-iterations", "nv_tileas", 3, of="scf.for"),
    _transform("fragments-ahead", "nv_tileas", 3, of="dot"),
    _transform("overlap-dots", "nv_tileas", 1, of="dot"),
    _transform("place-accumulators", "nv_tileas", 1, of="dot dot_scaled"),
    _transform("place-sums", "nv_tileas", 3, of="tensor_dot"),
    _transform("separate-products", "nv_tileas", 3, of="tensor_dot"),
    _transform("separate-made-rows", "nv_tileas", 3, of="tensor_dot"),
    _transform("advance-dots", "nv_tileas", 3, of="tensor_dot"),
    _transform("late-results", "nv_tileas", 3, of="tensor_dot"),
    _transform("late-sums", "nv_tileas", 3, of="tensor_dot"),
    _transform("commit-dots", "nv_tileas", 1, of="tensor_dot"),
    _transform("overlap-epilogues", "nv_tileas", 1, of="tensor_dot"),
    _transform("take-turns", "nv_tileas", 3, of="agent_switch"),
    _transform("early-copies", "nv_tileas", 1, of="tma_load"),
    _transform("meet-once", "nv_tileas", 1, of="load_shared"),
    _transform("allocate-buffers", "nv_tileas", 0),
    _transform("order-memory", "nv_tileas", 0),
    _transform("fence-atomics", "nv_tileas", 1, of="atomic_rmw atomic_cas tiled_atomic_rmw"),
    _transform("early-loads", "nv_tileas", 1, of="tiled_load load"),
    _transform("carry-as-loaded", "nv_tileas", 1, of="scf.if scf.for"),
    _transform("settle-loads", "nv_tileas", 1, of="scf.for"),
    _transform("mask-runs", "nv_tileas", 1, of="arith.select"),
    _transform("keep-branches", "nv_tileas", 1, of="scf.if", since=90),
    _conversion("convert-tileas-to-llvm", "llvm"),
    _transform("addresses-first", "llvm", 1, since=100),
)

def selected(opt_level: int, start_at: str, stop_at: str, sm: int | None = None) -> Iterator[Pass]:
    """The passes that an optimization level runs between two levels of IR, for an SM or any."""
    for entry in PIPELINE:
        is_run = entry.min_opt <= opt_level and (sm is None or entry.since <= sm)
        if is_run and LEVELS.index(start_at) <= LEVELS.index(entry.takes) and LEVELS.index(entry.level) <= LEVELS.index(stop_at):
            yield entry


def run(module: Any, context: Any, stop_at: str | None = None, after: Callable[[str, Any], None] | None = None,
        start_at: str = LEVELS[0]) -> Any:
    """Run the pipeline and return the IR. `context`: the `CompileOptions`, which every pass is handed; `start_at`: the level
    of `module`; `stop_at`: the last level wanted. `after(name, ir)` is called after each pass."""
    ir = module
    names: frozenset[str] = frozenset()     # of the ops in `ir`, once they were asked for
    tells = context.remarks is not None or context.schedule is not None     # passes speak of what they don't change, too
    for entry in selected(context.opt_level, start_at, stop_at or LEVELS[-1], context.target.cc):
        start = time.perf_counter()
        if entry.of and not tells:
            names = names or op_names(ir)
        if tells or not entry.of or not entry.of.isdisjoint(names):
            context.running = entry.name
            ir = entry.apply(ir, context)
            names = frozenset()
        context.record(entry.name, time.perf_counter() - start)
        if context.verify_each:
            verify_after(ir, entry.name)
        if after is not None:
            after(entry.name, ir)
    return ir


def op_names(ir: Any) -> frozenset[str]:
    """The names of all ops of a module."""
    return frozenset(op.name for op in ir.walk())


PIPE_PASSES = frozenset({"lower-tma-load-store-to-async", "materialize-async", "unspecialized-pipeline", "materialize-schedule",
                         "prefetch-to-registers", "overlap-iterations", "fragments-ahead", "order-memory"})
"""Passes behind which pipes are checked, where passes are verified (not `commit-dots`: the waits that it adds lean on barriers)."""


def verify_after(ir: Any, name: str) -> None:
    """Raise CompileError if the pass `name` left IR that breaks a rule of its level, or agents that don't get along."""
    from tileiras.dialects.cuda_tile.verify_error import InvalidOp
    from tileiras.dialects.location_text import location_text
    from tileiras.dialects.verify import verify_module
    from tileiras.errors import CompileError
    try:
        verify_module(ir)
    except InvalidOp as error:
        raise CompileError(f"the pass '{name}' left an invalid module: {error.message}", location_text(error.op)) from error
    if name in PIPE_PASSES:
        from tileiras.analysis.pipes import QUICK_ORDERS, QUICK_WAYS, WRONG, check_pipes
        for func in ir.body.block.ops:
            verdict = check_pipes(func, QUICK_WAYS, QUICK_ORDERS, placed=name == "order-memory")
            if verdict.kind == WRONG:
                raise CompileError(f"the pass '{name}' left pipes that go wrong: {verdict.message}", location_text(verdict.op))


def lower_to_llvm(module: Any, context: Any) -> str:
    """cuda_tile module to LLVM IR text, for `context.target` at `context.opt_level`."""
    from tileiras.codegen.llvm_text import print_module
    program = ""
    if context.lineinfo or context.device_debug:
        from tileiras.dialects.cuda_tile.asm_lines import annotate
        program = annotate(module)
    ir = run(module, context, after=context.after_pass)
    return print_module(ir, lines=context.lineinfo, debug=context.device_debug, optimized=context.opt_level > 0, program=program)
