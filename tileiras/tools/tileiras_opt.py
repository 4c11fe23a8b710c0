"""The command `tileiras-opt`: run passes of the compiler on text, one by one or down to a level.

    tileiras-opt kernel.mlir                                       parse, verify, print
    tileiras-opt kernel.mlir --to=nv_tileas --gpu-name=sm_90       the pipeline down to a level
    tileiras-opt aa.mlir --passes=simplify,dce                     single passes
    tileiras-opt aa.mlir --pass-pipeline='builtin.module(simplify,dce)' --print-ir-after-change
    tileiras-opt kernel.mlir --pass-pipeline='builtin.module(tileir{num-warps=8 ftz=true})'     the pipeline with options
    tileiras-opt kernel.mlir --canonicalize                        cuda_tile's canonical form
    tileiras-opt --list-pipeline -O3                               the pipeline
    tileiras-opt kernel.mlir --verify-diagnostics --split-input-file

A text is cuda_tile in the public syntax, or nv_tileaa or nv_tileas in MLIR's generic one; a bytecode file will do too.
Exit codes: 0 success; 1 a malformed command line or diagnostics other than expected; 2 configuration; 3 an invalid
program; 4 a file that can't be read or written; 5 a pass failed.
"""
from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tileiras.errors import BytecodeError, InputError, UsageError
from tileiras.tools.support import PROGRAM_ERRORS, Arguments, ShowVersion, add_language, read_bytes, report, write_text

_LOWER_LEVEL = re.compile(r'"nv_tilea[as]\.|^ *builtin\.module|"arith\.|"math\.|"scf\.|"llvm\.', re.MULTILINE)
CUDA_TILE_PASSES: dict[str, str | Callable[[Any], None]] = {
    "canonicalize": "tileiras.transforms.canonicalize:run", "fuse-fma": "tileiras.transforms.fuse_fma:run",
    "synthesize-debug-info-scopes": "tileiras.transforms.synthesize_debug_info_scopes:run"}
"""Passes on cuda_tile that the pipeline doesn't run: a function that is called with the top op, or its "module:name"."""


def _arguments() -> argparse.ArgumentParser:
    parser = Arguments(prog="tileiras-opt", description="tileiras-opt: run passes on Tile IR text")
    parser.add_argument("input", nargs="?", default="-", metavar="FILE", help="what to read (default: stdin)")
    parser.add_argument("--passes", "-passes", metavar="PASS[,PASS...]", help="run these passes in this order")
    parser.add_argument("--canonicalize", "-canonicalize", action="store_true", help="the same as --passes=canonicalize")
    parser.add_argument("--to", metavar="LEVEL", help="run the pipeline down to this level")
    parser.add_argument("--gpu-name", default="sm_90", metavar="SM", help="the target (default: sm_90)")
    parser.add_argument("-O", dest="opt_level", type=int, default=3, metavar="N", help="optimization level (default 3)")
    parser.add_argument("--list-pipeline", action="store_true", help="print the passes of this level and target")
    parser.add_argument("--verify-each", action="store_true", help="verify after every pass")
    parser.add_argument("--pass-pipeline", metavar="TEXT", help="run these passes, as builtin.module(cse,dce)")
    for when in ("before", "after"):
        parser.add_argument(f"--print-ir-{when}", metavar="PASS[,PASS...]", help=f"print the IR {when} these passes")
    parser.add_argument("--crash-reproducer", metavar="FILE", help="where a failing pass leaves what it found, to run again")
    parser.add_argument("--pass-timing", choices=("tree", "json"), help="say how long reading, passes and writing took")
    parser.add_argument("--pass-statistics", choices=("list", "json"), help="say which ops each pass adds and removes")
    parser.add_argument("--mlir-pass-statistics", "-mlir-pass-statistics", dest="pass_statistics", action="store_const",
                        const="list", help="the same as --pass-statistics=list")
    parser.add_argument("--schedule-trace-file", default="", metavar="FILE",
                        help="where the schedules of loops go, in Chrome's trace format")
    for name, text in (("print-ir-before-all", "print the IR before every pass"),
                       ("print-ir-after-all", "print the IR after every pass"),
                       ("print-ir-after-change", "print the IR after passes that change it"),
                       ("print-ir-after-failure", "print the IR that a failing pass found"),
                       ("print-schedule", "print the schedule of each loop: units over cycles, and its ops"),
                       ("verify-diagnostics", "compare errors with `// expected-error` comments"),
                       ("split-input-file", "treat parts between lines `// -----` as files of their own"),
                       ("mlir-print-debuginfo", "print locations"),
                       ("mlir-print-op-generic", "print MLIR's generic form"),
                       ("Wunsupported-hints", "warn of optimization hints that have no effect"),
                       ("Werr-hints", "with -Wunsupported-hints: take such hints for errors"),
                       ("no-implicit-module", "accepted: text stands as it is"),
                       ("allow-unregistered-dialect", "accepted: ops of other dialects always pass through")):
        parser.add_argument(f"--{name}", f"-{name}", action="store_true", help=text)
    add_language(parser)
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="show the version and exit")
    parser.add_argument("-o", "--output-file", default="-", metavar="FILE", help="where to write (default: stdout)")
    return parser


def list_pipeline(opt_level: int) -> str:
    """One line a pass: its name, the level that it leaves."""
    from tileiras.pipeline import PIPELINE

    return "".join(f"{entry.name:<32}{entry.level}\n" for entry in PIPELINE if entry.min_opt <= opt_level)


def read_ir(data: bytes, file_name: str, extra_ops: Mapping[str, Any] | None = None) -> Any:
    """The program in a file: bytecode, cuda_tile text or a lower level's text. Several ops at the top of cuda_tile text
    stand in a builtin.module. Raises BytecodeError."""
    from tileiras.magic import MAGIC

    if data.startswith(MAGIC):
        from tileiras.bytecode import read
        from tileiras.dialects.cuda_tile.verify import verify_program

        module = read(data)
        verify_program(module)
        return module
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BytecodeError(f"the input is neither bytecode nor UTF-8 text: byte {error.start}") from error
    if "cuda_tile.module" not in text and _LOWER_LEVEL.search(text):
        from tileiras.tools.lower_text import parse_lower

        return parse_lower(text, file_name)
    return _parse_cuda_tile(text, file_name, extra_ops)


def _parse_cuda_tile(text: str, file_name: str, extra_ops: Mapping[str, Any] | None) -> Any:
    from tileiras.dialects.cuda_tile.asm_parse import parse_ops
    from tileiras.dialects.cuda_tile.debug import render_location
    from tileiras.tools.diagnostics import invalid_ops

    ops = parse_ops(text, file_name, extra_ops=extra_ops)
    for error in invalid_ops(ops):
        raise BytecodeError(error.message, render_location(error.op.location))
    return _program(ops)


def _program(ops: list[Any]) -> Any:
    """The one module among the ops; else the ops in a builtin.module."""
    from xdsl.dialects.builtin import ModuleOp

    if len(ops) == 1 and ops[0].name == "builtin.module":
        inner = list(ops[0].body.block.ops)
        if len(inner) != 1 or inner[0].name != "cuda_tile.module":
            return ops[0]
        inner[0].detach()
        return inner[0]
    for op in ops:
        op.detach()
    return ops[0] if len(ops) == 1 and ops[0].name == "cuda_tile.module" else ModuleOp(ops)


def run_passes(module: Any, given: argparse.Namespace, timing: Any = None) -> Any:
    """The module after the passes asked for. Raises ConfigError, UsageError, CompileError."""
    from tileiras.tools.pass_runner import Timed, level_of, run_steps

    watch = _watch(given)
    try:
        return run_steps(module, _steps(given, level_of(module)), watch, timing or Timed("total"))
    finally:
        if watch.counts is not None:
            from tileiras.tools.pass_statistics import report as statistics
            sys.stderr.write(statistics(watch.counts, given.pass_statistics))


def _steps(given: argparse.Namespace, level: str) -> list[Any]:
    """The passes that a command line asks for, for a module of that level."""
    from tileiras.driver.options import CompileOptions
    from tileiras.machine.targets import find_target
    from tileiras.pipeline import LEVELS
    from tileiras.tools.pass_pipeline import WHOLE_PIPELINE, Item, parse_pipeline

    plain = CompileOptions(target=find_target(given.gpu_name), opt_level=given.opt_level)

    def scheduled(asked: Mapping[str, str]) -> Any:
        """The options of a compilation with these wishes for schedules, the command line's own among them."""
        if given.schedule_trace_file:
            asked = {"schedule-trace-file": given.schedule_trace_file, **asked}
        if not asked and not given.print_schedule:
            return plain
        from tileiras.schedule.options import OPTIONS, parse_options
        schedule, off = parse_options({k: v for k, v in asked.items() if k in OPTIONS},
                                      sys.stderr.write if given.print_schedule else None)
        return dataclasses.replace(plain, schedule=schedule, without=plain.without | off)
    options = scheduled({})
    items = [Item(name) for name in (given.passes or "").split(",") if name]
    items += [Item("canonicalize")] * given.canonicalize
    if given.pass_pipeline is not None:
        items += parse_pipeline(given.pass_pipeline)
    out: list[Any] = []
    for item in items:
        if item.name != WHOLE_PIPELINE:
            out.append(_step(item.name, scheduled(item.options)))
            continue
        from tileiras.tools.pipeline_options import around, with_opt_level
        target = find_target(item.options.get("compute-capability", given.gpu_name))
        wanted = with_opt_level(dataclasses.replace(scheduled(item.options), target=target), item.options, given.opt_level)
        start = out[-1].gives if out else level
        out += around(_pipeline_steps(start, LEVELS[-1], wanted), item.options, start, wanted)
    if given.to is not None:
        if given.to not in LEVELS:
            raise UsageError(f"unknown level '{given.to}'; known: {', '.join(LEVELS)}")
        out += _pipeline_steps(out[-1].gives if out else level, given.to, options)
    return out


def _step(name: str, options: Any) -> Any:
    """A pass by its name. Raises UsageError for an unknown one."""
    from tileiras.pipeline import LEVELS, PIPELINE
    from tileiras.tools.pass_runner import Step

    if name in CUDA_TILE_PASSES:
        def run_in_place(module: Any) -> Any:
            _cuda_tile_pass(name)(module)
            return module
        return Step(name, LEVELS[0], LEVELS[0], run_in_place)
    found = next((entry for entry in PIPELINE if entry.name == name), None)
    if found is None:
        raise UsageError(f"unknown pass '{name}'; known: {', '.join(known_passes())}")
    if name == "dynamic-persistent":        # who names it wants it
        from tileiras.schedule.options import ScheduleOptions
        wanted = dataclasses.replace(options.schedule or ScheduleOptions(), persistent=True)
        options = dataclasses.replace(options, schedule=wanted)
    return Step(name, found.takes, found.level, lambda module: found.apply(module, options))


def _pipeline_steps(level: str, stop_at: str, options: Any) -> list[Any]:
    from tileiras.pipeline import LEVELS, selected
    from tileiras.tools.pass_runner import Step

    def apply(entry: Any) -> Callable[[Any], Any]:
        return lambda module: entry.apply(module, options)
    start = level if level in LEVELS else LEVELS[0]
    chosen = selected(options.opt_level, start, stop_at, options.target.cc)
    return [Step(entry.name, entry.takes, entry.level, apply(entry)) for entry in chosen]


def known_passes() -> list[str]:
    """The names of all passes."""
    from tileiras.pipeline import PIPELINE

    return sorted({*(entry.name for entry in PIPELINE), *CUDA_TILE_PASSES})


def _watch(given: argparse.Namespace) -> Any:
    """What a command line wants to see. Raises UsageError for a pass that doesn't exist."""
    from tileiras.tools.pass_runner import Watch

    named = {}
    for option in ("print_ir_before", "print_ir_after"):
        named[option] = frozenset(name for name in (getattr(given, option) or "").split(",") if name)
        unknown = sorted(named[option].difference(known_passes()))
        if unknown:
            raise UsageError(f"unknown pass '{unknown[0]}'; known: {', '.join(known_passes())}")
    return Watch(named["print_ir_before"], named["print_ir_after"], given.print_ir_before_all, given.print_ir_after_all,
                 given.print_ir_after_change, given.print_ir_after_failure, given.verify_each, given.crash_reproducer,
                 f"--gpu-name={given.gpu_name} -O{given.opt_level}", sys.stderr.write,
                 [] if given.pass_statistics else None)


def _cuda_tile_pass(name: str) -> Callable[[Any], None]:
    from importlib import import_module

    found = CUDA_TILE_PASSES[name]
    if not isinstance(found, str):
        return found
    module, function = found.split(":")
    return getattr(import_module(module), function)


def module_text(module: Any, given: argparse.Namespace) -> str:
    if given.mlir_print_op_generic:
        from io import StringIO

        from xdsl.printer import Printer

        stream = StringIO()
        Printer(stream, print_generic_format=True, print_debuginfo=given.mlir_print_debuginfo).print_op(module)
        return stream.getvalue() + "\n"
    if module.name == "cuda_tile.module" or _holds_cuda_tile(module):
        from tileiras.dialects.cuda_tile.asm_print import print_module

        return print_module(module, given.mlir_print_debuginfo)
    return f"{str(module).rstrip()}\n"


def _holds_cuda_tile(module: Any) -> bool:
    return module.name == "builtin.module" and any(op.name.startswith("cuda_tile.") for op in module.body.block.ops)


def _verify_diagnostics(data: bytes, given: argparse.Namespace, extra_ops: Mapping[str, Any] | None) -> int:
    from tileiras.tools.diagnostics import Settings, say

    then = None if not (given.passes or given.canonicalize or given.pass_pipeline) else lambda ops: run_passes(_program(ops), given)
    return say(data.decode(), given.input, Settings(extra_ops or {}, given.Wunsupported_hints, given.Werr_hints, then))


def _say_hints(module: Any, given: argparse.Namespace) -> None:
    """Warn of hints without effect. Raises BytecodeError if they are errors."""
    from tileiras.dialects.cuda_tile.debug import render_location
    from tileiras.dialects.cuda_tile.verify_hints import FAILED, hint_problems

    for op in module.walk():
        problems = list(hint_problems(op))
        place = render_location(op.location) if problems else None
        for problem in problems:
            print(f"{f'loc({place}): ' if place else ''}warning: {problem}", file=sys.stderr)
        if problems and given.Werr_hints:
            raise BytecodeError(f"'{op.name}' op {FAILED}", place)


def _parts(data: bytes, is_split: bool) -> list[bytes]:
    if not is_split:
        return [data]
    from tileiras.tools.diagnostics import split

    return [part.encode() for _, part in split(data.decode())]


def main(arguments: list[str] | None = None, extra_ops: Mapping[str, Any] | None = None) -> int:
    """Run the command; its exit code. `extra_ops`: more ops than the dialect's, by their name without `cuda_tile.`."""
    from tileiras.dialects.cuda_tile import edition

    given = _arguments().parse_args(arguments)
    with edition.speaking(given.language):
        return _run(given, extra_ops)


def _one(data: bytes, given: argparse.Namespace, extra_ops: Mapping[str, Any] | None) -> str:
    """What one module is afterwards, as text."""
    from tileiras.tools.pass_runner import Timed

    whole = Timed("all")
    timing = Timed("total")
    try:
        with whole.part("total") as timing:
            with timing.part("read"):
                module = read_ir(data, given.input, extra_ops)
            if given.Wunsupported_hints:
                _say_hints(module, given)
            with timing.part("passes") as passes:
                module = run_passes(module, given, passes)
            with timing.part("write"):
                return module_text(module, given)
    finally:
        if given.pass_timing:
            sys.stderr.write(timing.report(given.pass_timing))


def _run(given: argparse.Namespace, extra_ops: Mapping[str, Any] | None) -> int:
    code = 0
    try:
        if given.list_pipeline:
            write_text(given.output_file, list_pipeline(given.opt_level))
            return 0
        data = read_bytes(given.input)
        if given.verify_diagnostics:
            return _verify_diagnostics(data, given, extra_ops)
        out = []
        for part in _parts(data, given.split_input_file):
            try:
                out.append(_one(part, given, extra_ops))
            except PROGRAM_ERRORS as error:
                code = report(error)
        if out or not code:
            write_text(given.output_file, "// -----\n".join(out))
    except UnicodeDecodeError as error:
        return report(InputError(f"'{given.input}' is no UTF-8 text: byte {error.start}"))
    except PROGRAM_ERRORS as error:
        return report(error)
    return code


if __name__ == "__main__":
    sys.exit(main())
