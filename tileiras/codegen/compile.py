"""The way from LLVM IR text to a cubin: gate, LLVM, PTX fix-ups, the host object, ptxas."""
from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tileiras.codegen import client, gate, host_maps
from tileiras.codegen.flight_copies import copies_behind_waits
from tileiras.codegen.location_table import StandIns, complete, read_table, restore_names, without_text
from tileiras.codegen.places import kernel_named, place_in_ptx
from tileiras.codegen.ptx_fixup import empty_ptx, fix_ptx
from tileiras.codegen.resources import Entry, entries_of_ptx, with_resources
from tileiras.errors import CompileError
from tileiras.host.object import DEFAULT_PLATFORM
from tileiras.machine.targets import MAX_PARAMETER_BYTES, Target, find_target

WIDE_PRODUCT = ".lo.s64"
"""What kernels have that may be helped by `wide_products`; most have none."""
TimingSink = Callable[[str, float], None]
"""Called with a phase's name and its seconds."""


@dataclass(frozen=True)
class CodegenResult:
    """`ptx` as ptxas got it, the `cubin`, its `entries` with resources, ptxas' `report` and `warnings`;
    `optimized_llvm` is empty unless it was asked for."""

    ptx: str
    cubin: bytes
    entries: tuple[Entry, ...]
    report: str = ""
    warnings: tuple[str, ...] = ()
    optimized_llvm: str = ""


def compile_llvm_to_ptx(llvm_ir: str, target: Target | str, opt_level: int = 3, *, verify: bool = False,
                        timing: TimingSink | None = None) -> str:
    """PTX for `target`, ready for ptxas. Raises CompileError."""
    return _to_ptx(llvm_ir, find_target(target), opt_level, verify, False, timing)[0]


def _to_ptx(llvm_ir: str, target: Target, opt_level: int, verify: bool, keep_llvm: bool,
            timing: TimingSink | None, host: tuple[str, str] | None = None) -> tuple[str, str, StandIns]:
    if "define " not in llvm_ir:
        return empty_ptx(target), llvm_ir, []
    if gate.has_functions(llvm_ir):
        from tileiras.codegen import functions
        llvm_ir = functions.prepared(llvm_ir)
    gate.check(llvm_ir, target)
    try:
        ptx, optimized, phases = client.emit_ptx(
            llvm_ir, cpu=target.llvm_cpu, features=target.llvm_features, opt_level=opt_level, cc=target.cc,
            verify=verify, keep_llvm=keep_llvm)
    except CompileError as error:
        error.kernel = kernel_named(error.message, llvm_ir)
        raise
    if timing is not None:
        for phase, seconds in phases.items():
            timing(phase, seconds)
    unknown = gate.unknown_intrinsic(ptx)
    if unknown:
        raise CompileError(f"LLVM has no intrinsic '{unknown}'", kernel=kernel_named(unknown, llvm_ir))
    if host is not None:
        host_maps.prepare_with_maps(llvm_ir, target, host)
    if opt_level and WIDE_PRODUCT in ptx:
        from tileiras.codegen.wide_products import wide_products
        ptx = wide_products(ptx)
    ptx = fix_ptx(copies_behind_waits(ptx), target, host_maps.recipes_of(llvm_ir), host_maps.built_by(llvm_ir))
    table = read_table(llvm_ir)
    ptx, stand_ins = (ptx, []) if table is None else complete(ptx, table)
    for entry in entries_of_ptx(ptx):
        if entry.param_bytes > MAX_PARAMETER_BYTES:
            raise CompileError(f"Formal parameter space overflowed ({entry.param_bytes} bytes required, max "
                               f"{MAX_PARAMETER_BYTES} bytes allowed) in function {entry.name}", kernel=entry.name)
    return ptx, optimized, stand_ins


def optimize_llvm(llvm_ir: str, target: Target | str, opt_level: int = 3) -> str:
    """The module as LLVM IR text after LLVM's optimizations, libdevice included. Raises CompileError."""
    return _to_ptx(llvm_ir, find_target(target), opt_level, False, True, None)[1]


def compile_llvm(llvm_ir: str, target: Target | str, opt_level: int = 3, *, lineinfo: bool = False,
                 device_debug: bool = False, sanitize: str | None = None, verify: bool = False,
                 keep_llvm: bool = False, ptxas_flags: tuple[str, ...] = (),
                 host: tuple[str, str] = DEFAULT_PLATFORM,
                 timing: TimingSink | None = None) -> CodegenResult:
    """A cubin of an LLVM module (text) whose kernels have the calling convention `ptx_kernel`.

    `lineinfo` keeps source lines, `device_debug` full debug information (needs `opt_level` 0), `sanitize` is
    None or "memcheck"; `host`, a key of `host.object.PLATFORMS`, is where the cubin will be loaded. Raises CompileError with
    LLVM's or ptxas' words.
    """
    from tileiras.codegen import occupancy, ptxas

    target = find_target(target)
    ptx, optimized, stand_ins = _to_ptx(llvm_ir, target, opt_level, verify, keep_llvm, timing, host)
    entries = entries_of_ptx(ptx)
    flags = ptxas.arguments(target.ptx, opt_level, lineinfo=lineinfo, device_debug=device_debug,
                            sanitize=sanitize, extra=ptxas_flags)
    start = time.perf_counter()
    host_object = host_maps.host_object(entries, host)
    if timing is not None:
        timing("host-object", time.perf_counter() - start)

    def assemble(text: str) -> ptxas.Assembled:
        return ptxas.assemble(text, flags, host=host_object)

    start = time.perf_counter()
    try:
        try:
            assembled = assemble(ptx)
        except ptxas.TooOldError:
            ptx = without_text(ptx, target.ptx_version)
            assembled = assemble(ptx)
    except CompileError as error:
        error.loc, error.kernel = place_in_ptx(error.message, ptx)
        error.kernel = error.kernel or kernel_named(error.message, llvm_ir)
        raise
    entries = with_resources(entries_of_ptx(ptx), assembled.report)
    if opt_level >= occupancy.FROM_LEVEL and any(occupancy.could_have_more(e, target) for e in entries):
        ptx, assembled = occupancy.with_more_warps(ptx, entries, target, assemble, assembled)
        entries = with_resources(entries_of_ptx(ptx), assembled.report)
    if timing is not None:
        timing("ptxas", time.perf_counter() - start)
    cubin = restore_names(assembled.cubin, stand_ins) if stand_ins else assembled.cubin
    return CodegenResult(ptx, cubin, with_resources(entries, assembled.report), assembled.report, assembled.warnings, optimized)
