"""How one bytecode module becomes one compiled module: read, lower, generate code."""
from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tileiras.driver.options import DIALECT_STAGES, CompileOptions
from tileiras.errors import BytecodeError, CompileError, ConfigError, TileirasError
from tileiras.kept import cache_folder
from tileiras.nesting import with_room

if TYPE_CHECKING:
    from tileiras.codegen.resources import Entry

STAGES = (*DIALECT_STAGES, "llvm", "llvm-optimized", "ptx")
"""What `CompiledModule.ir` prints, from the input down."""
_KEPT = ("cubin", "ptx", "llvm", "entries", "gpu_name", "warnings")
TOO_FEW_REGISTERS = ("Register allocation failed", "Insufficient registers")
"""What ptxas says of a limit of registers that it can't keep."""
STRICT = "TILEIRAS_STRICT"
"""Set to 1, a failure of asynchronous code is one of the compilation."""
MOST_BY_LAYOUTS = 512
"""Bytes stored to and loaded from local memory that layouts by priority may help against: kernels that spill more, which take
longest to compile, were seen to spill about as much by them (the best: 944 bytes to 764)."""
MOST_FOR_BLOCKS = 256
"""Bytes stored to and loaded from local memory that a block more on an SM is worth where passes counted on it."""
FEW_FOR_BLOCKS = 128
"""Such bytes that a block more is worth where none did (attention of 16 queries by 64 keys of 2 bits, 4096 keys, B200: 295 us by
one block of eight warps that spill nothing, 172 by two of four)."""
MUCH_FOR_A_HINT = 1024
"""Bytes that a thread spills for a hint `occupancy`, from which a program is compiled in more ways without it. (A product of
128x128x64 in two blocks that spill 632, A100: 67 us, without 75; in four that spill 6,132 264.)"""
LONGER_RINGS_FROM, LARGE_RINGS = 3, 48 << 10
"""The optimization level that pays for one more attempt, and bytes of shared memory from which rings are what takes it."""
HARDLY_ANY = 32
"""Such bytes that nothing else is tried for: some words cost less than other warps may (attention of 128 rows, 128 keys and 128
columns, B200: 75.4 us with 12, 112.2 by two warpgroups that spill nothing and meet for each row; of 64 columns 34.0 with 28, 43.7
by one block of two)."""


@dataclass(frozen=True)
class CompiledModule:
    """A compiled program.

    `cubin` goes to `cuLibraryLoadData`; `ptx` and `llvm` are the texts on the way; `entries` gives every kernel's
    parameters, threads, shared bytes, registers and spills. What wasn't asked for (`emit`) is empty.
    """

    cubin: bytes = b""
    ptx: str = ""
    llvm: str = ""
    entries: tuple[Entry, ...] = ()
    gpu_name: str = ""
    warnings: tuple[str, ...] = ()
    _bytecode: bytes = field(default=b"", repr=False)
    _options: CompileOptions | None = field(default=None, repr=False)

    def ir(self, stage: str) -> str:
        """The program as text at a stage of `STAGES`. A stage that wasn't kept is made again."""
        if stage == "ptx" and self.ptx:
            return self.ptx
        if stage == "llvm" and self.llvm:
            return self.llvm
        if stage not in STAGES:
            raise ConfigError(f"unknown stage '{stage}'; known: {', '.join(STAGES)}")
        assert self._options is not None
        options = CompileOptions(self._options.target, self._options.opt_level, self._options.lineinfo,
                                 self._options.device_debug, self._options.sanitize, without=self._options.without,
                                 hints=self._options.hints)
        if stage in DIALECT_STAGES:
            return stage_text(self._bytecode, options, stage)
        llvm = self.llvm or lower(self._bytecode, options)
        if stage == "llvm":
            return llvm
        from tileiras.codegen import compile_llvm_to_ptx
        from tileiras.codegen.compile import optimize_llvm
        if stage == "llvm-optimized":
            return optimize_llvm(llvm, options.target, options.opt_level)
        return compile_llvm_to_ptx(llvm, options.target, options.opt_level)


def read_module(bytecode: bytes, options: CompileOptions) -> Any:
    """The cuda_tile module of a bytecode file, verified. Raises BytecodeError."""
    return with_room(lambda: _read_module(bytecode, options), len(bytecode))


def _read_module(bytecode: bytes, options: CompileOptions) -> Any:
    from tileiras.bytecode import check_arguments, read

    start = time.perf_counter()
    options.running = "read-bytecode"
    module = read(bytecode)
    check_arguments(module)
    if options.hints:
        from tileiras.dialects.cuda_tile.given_hints import give
        give(module, options.hints, options.target.name)
    options.record("read-bytecode", time.perf_counter() - start)
    if module.body.block.ops:
        from tileiras.dialects.cuda_tile.verify import verify_program

        start = time.perf_counter()
        verify_program(module)
        options.record("verify-cudatile", time.perf_counter() - start)
    options.after_pass("read-bytecode", module)
    return module


def _import_verify_exception() -> type[Exception]:
    from xdsl.utils.exceptions import VerifyException
    return VerifyException


@contextmanager
def _lowering() -> Iterator[None]:
    """Around the passes: an invalid module becomes a CompileError; the garbage collector, which would look through
    the IR over and over for a quarter of the time, waits until they are done."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    except _import_verify_exception() as error:
        raise CompileError(f"a pass left an invalid module: {error}") from error
    finally:
        if collecting:
            gc.enable()


def entry_names(module: Any) -> list[str]:
    """The names of a cuda_tile module's kernels, in order."""
    return [op.properties["sym_name"].data for op in module.body.block.ops if op.name == "cuda_tile.entry"]


def lower(bytecode: bytes, options: CompileOptions) -> str:
    """LLVM IR text of a bytecode module, empty for an empty module. Raises BytecodeError, CompileError."""
    return with_room(lambda: _lower(bytecode, options), len(bytecode))


def _lower(bytecode: bytes, options: CompileOptions) -> str:
    options.forget()
    with _lowering():
        module = _read_module(bytecode, options)
        if not module.body.block.ops:  # what frontends probe for versions with
            return ""
        if options.emit == "cubin":
            from tileiras.codegen import host_maps
            host_maps.prepare(entry_names(module), (options.host_arch, options.host_os))
        from tileiras.pipeline import lower_to_llvm

        return lower_to_llvm(module, options)


def stage_text(bytecode: bytes, options: CompileOptions, stage: str) -> str:
    """The module as text where it last is in the dialect `stage`; nothing below that runs."""
    return with_room(lambda: _stage_text(bytecode, options, stage), len(bytecode))


def _stage_text(bytecode: bytes, options: CompileOptions, stage: str) -> str:
    options.forget()
    with _lowering():
        module = _read_module(bytecode, options)
        if stage != DIALECT_STAGES[0]:
            from tileiras.pipeline import run
            module = run(module, options, stop_at=stage, after=options.after_pass)
        from tileiras.dialects.module_text import module_text

        return module_text(module)


def compile_module(bytecode: bytes, options: CompileOptions) -> CompiledModule:
    """Compile one bytecode module under `options` (validated here), as far down as `options.emit` says.

    Raises ConfigError, BytecodeError, CompileError.
    """
    options.validate()
    if options.emit in DIALECT_STAGES:
        raise ConfigError(f"'{options.emit}' is no compiled module; `CompiledModule.ir` and `--emit` print it")
    if not cache_folder():
        return _compile(bytecode, options)
    import tileiras.cache as cache

    place = cache.place_of(bytecode, options)
    known = cache.load(place) if place is not None else None
    if known is not None:
        return CompiledModule(**known, _bytecode=bytecode, _options=options)
    if options.emit != "llvm":
        from tileiras.codegen import client
        client.start(options.target.llvm_cpu, options.target.llvm_features, options.opt_level)
    module = _compile(bytecode, options)
    if place is not None:
        cache.save(place, {name: getattr(module, name) for name in _KEPT})
    return module


def _compile(bytecode: bytes, options: CompileOptions) -> CompiledModule:
    try:
        return _attempt(bytecode, options)
    except BytecodeError:
        raise
    except Exception as error:
        if any(told in str(error) for told in TOO_FEW_REGISTERS) and (fewer := _with_fewer_blocks(bytecode, options)) is not None:
            return fewer
        plain = _without_asynchronous_code(bytecode, options, error)
        if plain is not None:
            return plain
        if isinstance(error, CompileError):
            error.loc = error.loc or _place_of_kernel(error.kernel, bytecode, options)
        raise


def _attempt(bytecode: bytes, options: CompileOptions) -> CompiledModule:
    llvm = lower(bytecode, options)
    if options.emit == "llvm":
        return CompiledModule(llvm=llvm, gpu_name=options.target.name, _bytecode=bytecode, _options=options)
    module, options = _settled(bytecode, llvm, options)
    few = MOST_FOR_BLOCKS if options.counts_blocks else HARDLY_ANY
    if _spills(module) > few and options.opt_level:
        return _with_fewer_spills(module, bytecode, options)
    return _with_longer_rings(module, bytecode, options) if options.in_agents and options.opt_level >= LONGER_RINGS_FROM else module


def _with_longer_rings(module: CompiledModule, bytecode: bytes, options: CompileOptions) -> CompiledModule:
    """The module, or where its rings leave shared memory for a second block on the SM that registers leave no room for, the same
    with rings for one (sums of a part of k added to memory, 128x128x64, 128 blocks, B200: 6.9 us by three stages, 6.2 by six)."""
    retried = _retried(module, bytecode, options, held_blocks=1) if _keeps_room_for_nobody(module, options) else None
    if retried is None:
        return module
    longer, other = retried
    before, after = (sum(entry.shared_bytes for entry in one.entries) for one in (module, longer))
    if after <= before or _spills(longer) > _spills(module) or _has_fewer_blocks(longer, module, options):
        return module
    _keep_remarks(options, other)
    return longer


def _keeps_room_for_nobody(module: CompiledModule, options: CompileOptions) -> bool:
    from tileiras.codegen.occupancy import RESERVED_SHARED, blocks_by_registers

    return any(LARGE_RINGS < entry.shared_bytes <= options.target.smem_per_sm // 2 - RESERVED_SHARED and
               blocks_by_registers(entry, options.target) == 1 for entry in module.entries)


def _for_another_attempt(options: CompileOptions, **changes: Any) -> CompileOptions:
    """The options with changes, by which nothing is printed again and remarks wait for `_keep_remarks`."""
    from dataclasses import replace

    return replace(options, print_sink=None, remarks=None if options.remarks is None else [], **changes)


def _keep_remarks(options: CompileOptions, other: CompileOptions) -> None:
    """The attempt that other options are of is what becomes of the program: its remarks are the program's."""
    if options.remarks is not None:
        options.remarks[:] = other.remarks or []


def _settled(bytecode: bytes, llvm: str, options: CompileOptions) -> tuple[CompiledModule, CompileOptions]:
    """What LLVM IR becomes, and the options that it is by: where a kernel held to registers for the blocks that passes counted on
    spills much, that of the program lowered without, unless that fails."""
    module = _compiled(bytecode, llvm, options)
    if not options.counts_blocks or _spills(module) <= MOST_FOR_BLOCKS:
        return module, options
    from dataclasses import replace

    other = _for_another_attempt(options, count_blocks=False, counts_blocks=False)
    try:
        module = _compiled(bytecode, lower(bytecode, other), other)
    except CompileError:
        return module, options
    _keep_remarks(options, other)
    return module, replace(other, remarks=options.remarks)


def _with_fewer_blocks(bytecode: bytes, options: CompileOptions) -> CompiledModule | None:
    """The module of a program whose hint `occupancy` leaves products by `wgmma` fewer registers than their accumulators take, which
    can't be spilled: without the hint. None where that doesn't help."""
    from dataclasses import replace

    if options.remarks is not None:
        options.remarks.clear()
    try:
        return _attempt(bytecode, replace(options, meet_occupancy=False))
    except CompileError:
        return None


def _without_asynchronous_code(bytecode: bytes, options: CompileOptions, error: Exception) -> CompiledModule | None:
    """The net below asynchronous code: the module without any, where with it something failed. None where it was off already or
    fails as well, and where failures are to be seen (--verify-each, or STRICT in the environment, as the tests have it)."""
    from dataclasses import replace

    from tileiras.driver.options import SWITCHES

    switches = frozenset(SWITCHES)
    if options.opt_level == 0 or options.without >= switches or options.verify_each or os.environ.get(STRICT) == "1":
        return None
    try:
        module = _attempt(bytecode, replace(options, without=switches))
    except TileirasError:
        return None
    told = str(error).splitlines()[0] if str(error) else type(error).__name__
    return replace(module, warnings=(*module.warnings, f"warning: compiled without asynchronous code: {told}"))


def _spills(module: CompiledModule) -> int:
    """Bytes that threads of a module's kernels store to and load from local memory for want of registers."""
    return sum(entry.spill_bytes for entry in module.entries)


def _spills_of_blocks(module: CompiledModule) -> int:
    """The same of a block's threads together, those that load left out (the others are a power of two): they share a port to memory
    (attention of 256 rows, B200: 4.61 us by 512 threads that spill 900 bytes each, 4.09 by 256 with 1,104)."""
    return sum(entry.spill_bytes << max(entry.threads, 1).bit_length() - 1 for entry in module.entries)


CHANGES: tuple[tuple[str, str, bool, int], ...] = (
    ("takes_turns", "turns", False, 0),
    ("may_lend", "lend_registers", True, 0), ("has_large_parts", "large_parts", False, 0), ("may_lend", "lend_registers", True, 0),
    ("prefetched", "prefetch", False, 0), ("waits_late", "late_waits", False, 0),
    ("", "search_layouts", False, MOST_BY_LAYOUTS))
"""What may help against spills, what helps most first: the pass' word that it may, the option that changes, to what, and up to how
many bytes (0: any). More warps for smaller parts may be lent registers, too (a gated delta rule's chunks, B200: 15.8 us by eight
warps, 14.8 with these)."""


def _with_fewer_spills(module: CompiledModule, bytecode: bytes, options: CompileOptions) -> CompiledModule:
    """The module, or the same without chains' turns, with registers of the load agent given to those that compute, with smaller
    parts of products a warp, without loads ahead in registers or waits put off, or with layouts by priority, if that spills less:
    costs count issue slots, and only ptxas knows what fits the registers. Compiled once more only where there are spills; what
    helped stays. If an attempt fails, or still spills and leaves room for fewer blocks an SM, the module stands."""
    tried: set[tuple[str, bool]] = set()
    for word, name, value, most in CHANGES:
        spilled = _spills(module)
        may_help = (not word or getattr(options, word)) and getattr(options, name) != value
        if not may_help or not spilled or (most and spilled > most) or (name, options.large_parts) in tried:
            continue
        tried.add((name, options.large_parts))
        module, options = _if_it_spills_less(module, bytecode, options, **{name: value})
    return _unless_l1_overflows(module, bytecode, options)


def _unless_l1_overflows(module: CompiledModule, bytecode: bytes, options: CompileOptions) -> CompiledModule:
    """The module, or where its hint `occupancy` leaves so few registers that what the blocks of an SM spill is more than L1 has
    room for, the same without the hint, if that helps: such spills go to memory (distances of rows of 32,000, measured on an H100:
    three blocks of 288 threads that spill 176 bytes each 724 us, two without spills 446). It helps, too, if as little as half is
    spilled (a product of 128x256x64 in two blocks, A100: 250 us, in one 89)."""
    if not options.meet_occupancy or not _overflows_l1(module, options):
        return module
    other = _for_another_attempt(options, timing=None if options.timing is None else [], meet_occupancy=False)
    try:
        llvm = lower(bytecode, other)
        freed = _compiled(bytecode, llvm, other) if llvm != module.llvm else module
    except CompileError:
        return module
    if freed is not module and _spills(freed) and _spills(module) > MUCH_FOR_A_HINT:
        freed = _with_fewer_spills(freed, bytecode, other)      # once: the hint isn't met any more
    if options.timing is not None:
        options.timing += other.timing or []
    if freed is module or (_overflows_l1(freed, options) and 2 * _spills_of_blocks(freed) > _spills_of_blocks(module)):
        return module
    _keep_remarks(options, other)
    return freed


def _overflows_l1(module: CompiledModule, options: CompileOptions) -> bool:
    """Whether the local memory of the blocks that an SM holds of a kernel that spills is more than shared memory leaves of L1."""
    from tileiras.codegen.occupancy import RESERVED_SHARED, blocks_by_registers
    from tileiras.machine.machines import machine_of

    for entry in module.entries:
        each = entry.shared_bytes + RESERVED_SHARED
        blocks = max(1, min(blocks_by_registers(entry, options.target), options.target.smem_per_sm // each))
        if entry.spill_bytes and blocks * (entry.stack_bytes * entry.threads + each) > machine_of(options.target.cc).l1:
            return True
    return False


def _retried(module: CompiledModule, bytecode: bytes, options: CompileOptions,
             **changes: Any) -> tuple[CompiledModule, CompileOptions] | None:
    """The module that changes of options lead to, the same one where they change nothing, and the options that it is by; None where
    it doesn't compile."""
    other = _for_another_attempt(options, timing=None if options.timing is None else [], **changes)
    try:
        llvm = lower(bytecode, other)
        made, other = _settled(bytecode, llvm, other) if llvm != module.llvm else (module, other)
    except CompileError:
        return None
    if options.timing is not None:
        options.timing += other.timing or []
    return made, other


def _if_it_spills_less(module: CompiledModule, bytecode: bytes, options: CompileOptions,
                       **changes: Any) -> tuple[CompiledModule, CompileOptions]:
    """The module, or the same with these changes of options if that spills less, and the options that it is by. A kernel keeps its
    load agent: without, all wait for each load (attention of 256 rows by 128 keys, B200: 33.5 us by 128 threads that spill 48
    bytes, 14.1 by 384 with 52)."""
    from dataclasses import replace

    retried = _retried(module, bytecode, options, may_lend=False, **changes)
    if retried is None:
        return module, options
    plain, other = retried
    if other.in_agents < options.in_agents or _spills_of_blocks(plain) >= _spills_of_blocks(module):
        return module, options
    if (_spills(plain) or _spills(module) <= FEW_FOR_BLOCKS) and _has_fewer_blocks(plain, module, options):
        return module, options
    _keep_remarks(options, other)
    return plain, replace(options, **changes, may_lend=other.may_lend, count_blocks=other.count_blocks)


def _has_fewer_blocks(module: CompiledModule, other: CompiledModule, options: CompileOptions) -> bool:
    """Whether registers leave an SM room for fewer blocks of a kernel than they did: that costs more than fewer spills gain (two
    heads' attention, B200: 52.6 us by one block of eight warps with 456 bytes, 25.6 by two of four with 680; with its keys turned
    inside 291 us with 16 bytes, 201 with 112)."""
    from tileiras.codegen.occupancy import blocks_by_registers

    before = {entry.name: blocks_by_registers(entry, options.target) for entry in other.entries}
    return any(blocks_by_registers(entry, options.target) < before.get(entry.name, 0) for entry in module.entries)


def _place_of_kernel(kernel: str | None, bytecode: bytes, options: CompileOptions) -> str | None:
    """Where a kernel stands in the user's source. Only a failure asks: the program is read again."""
    if kernel is None:
        return None
    from tileiras.dialects.location_text import location_text

    module = read_module(bytecode, options)
    return next((location_text(op) for op in module.body.block.ops
                 if (name := op.properties.get("sym_name")) is not None and name.data == kernel), None)


def _compiled(bytecode: bytes, llvm: str, options: CompileOptions) -> CompiledModule:
    from tileiras.codegen.compile import compile_llvm, compile_llvm_to_ptx

    if options.emit == "ptx":
        ptx = compile_llvm_to_ptx(llvm, options.target, options.opt_level, verify=options.verify_each,
                                  timing=options.record)
        from tileiras.codegen.resources import entries_of_ptx
        return CompiledModule(ptx=ptx, llvm=llvm, entries=tuple(entries_of_ptx(ptx)), gpu_name=options.target.name,
                              _bytecode=bytecode, _options=options)
    result = compile_llvm(llvm, options.target, options.opt_level, lineinfo=options.lineinfo,
                          device_debug=options.device_debug, sanitize=options.sanitize,
                          verify=options.verify_each, ptxas_flags=options.ptxas_flags, timing=options.record,
                          host=(options.host_arch, options.host_os))
    return CompiledModule(result.cubin, result.ptx, llvm, result.entries, options.target.name, result.warnings, bytecode, options)
