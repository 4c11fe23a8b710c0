"""What one compilation was asked for.

The pipeline is handed a `CompileOptions`; it reads the target and the level, appends to `timing`, and calls
`after_pass` after each pass, which prints the module where the user asked for that.
"""
from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tileiras.errors import ConfigError
from tileiras.host.object import DEFAULT_PLATFORM, PLATFORMS
from tileiras.machine.targets import Target, find_target

if TYPE_CHECKING:
    from tileiras.remarks import Remark
    from tileiras.schedule.options import ScheduleOptions

EMIT_KINDS = ("cubin", "ptx", "llvm", "cuda_tile", "nv_tileaa", "nv_tileas")
"""What `--emit` takes: how far down the pipeline goes, and what is written."""

DIALECT_STAGES = ("cuda_tile", "nv_tileaa", "nv_tileas")
OPT_LEVELS = range(4)
SANITIZERS = ("memcheck",)
SWITCHES = {
    "pipelines": "loads of a loop's later iterations while it computes",
    "tma": "copies by the tensor memory accelerator, with tensor maps that the host makes",
    "wgmma": "products of a warpgroup (sm_90)",
    "tcgen05": "products and accumulators in tensor memory (sm_100 and its kin)",
    "agents": "warps that only load beside warps that only compute",
    "clusters": "tile blocks that the CTAs of a cluster share, where a hint asks for it",
    "pairs": "products that two CTAs of a cluster compute together (sm_100 and its kin)",
    "wide": "accesses of several elements where all are in bounds, of one elsewhere",
}
"""What -O1 and up may use, and `without` turns off."""
WITHOUT = "TILEIRAS_WITHOUT"
"""Names of switches with commas between, for programs that call the compiler where nobody can give it options."""
ALL_PASSES = "*"


def _turned_off() -> frozenset[str]:
    return frozenset(filter(None, os.environ.get(WITHOUT, "").split(",")))


def _check_passes(names: tuple[str, ...]) -> None:
    """Raise ConfigError for a pass that the pipeline doesn't have."""
    from tileiras.pipeline import PIPELINE

    known = ("read-bytecode", *dict.fromkeys(entry.name for entry in PIPELINE))
    unknown = next((name for name in names if name not in known and name != ALL_PASSES), None)
    if unknown is not None:
        raise ConfigError(f"unknown pass '{unknown}'; known: {', '.join(known)}")


@dataclass(eq=False, repr=False)
class CompileOptions:
    """One compilation's wishes.

    `print_after` names passes to print the module after (`("*",)`: all) and `print_sink` is what prints. `timing`,
    where there is one, collects (pass or phase, seconds); `remarks`, where there is one, what passes have to tell.
    `ptxas_flags` are options that ptxas gets besides its own. `search_layouts`: layouts may be chosen by cost; without, and at
    -O0, priorities decide. `prefetch`: loops may load an iteration ahead into registers; `prefetched`: a pass says that one
    does; `large_parts`, `has_large_parts`: the same for large parts of products a warp; `late_waits`, `waits_late`: for waits of an
    iteration for the products of the one before. `meet_occupancy`: hints `occupancy` are followed. `lend_registers`: a load agent
    gives up registers to the agents that compute, even where what they have seems enough; `may_lend`: a pass says that one could.
    `count_blocks`, `counts_blocks`: the same for kernels held to registers that leave an SM as many blocks as a pass counted on.
    `held_blocks`: how many blocks of the kernel the registers of an SM hold (0: not known).
    `in_agents`: how many kernels have their loads in an agent of their own. `turns`: two chains may compute exponentials by turns;
    `takes_turns`: a pass says that two do.
    `without`: names of SWITCHES that are off; passes ask `uses(name)`. `host_arch`, `host_os`: of the machine whose driver will
    load the cubin. `schedule`: what is asked of schedules of loops, beyond the program's hints. `hints`: hints for every kernel,
    over its own. `running`: the pass at work.
    """

    target: Target
    opt_level: int = 3
    lineinfo: bool = False
    device_debug: bool = False
    sanitize: str | None = None
    emit: str = "cubin"
    print_after: tuple[str, ...] = ()
    verify_each: bool = False
    timing: list[tuple[str, float]] | None = None
    print_sink: Callable[[str], None] | None = None
    remarks: list[Remark] | None = None
    ptxas_flags: tuple[str, ...] = ()
    search_layouts: bool = True
    prefetch: bool = True
    prefetched: bool = False
    large_parts: bool = True
    has_large_parts: bool = False
    late_waits: bool = True
    waits_late: bool = False
    meet_occupancy: bool = True
    lend_registers: bool = False
    may_lend: bool = False
    count_blocks: bool = True
    counts_blocks: bool = False
    held_blocks: int = 0
    in_agents: int = 0
    turns: bool = True
    takes_turns: bool = False
    without: frozenset[str] = field(default_factory=_turned_off)
    host_arch: str = DEFAULT_PLATFORM[0]
    host_os: str = DEFAULT_PLATFORM[1]
    schedule: ScheduleOptions | None = None
    hints: Mapping[str, int] = field(default_factory=dict)
    running: str = ""

    def validate(self) -> None:
        """Raise ConfigError for a combination that doesn't exist, in the documented order."""
        self.target = find_target(self.target)
        if type(self.opt_level) is not int or self.opt_level not in OPT_LEVELS:
            raise ConfigError(f"invalid optimization level: {self.opt_level}")
        if self.device_debug and self.opt_level:
            raise ConfigError("optimized debugging is currently not supported, change the optimization level to 0 "
                              "or disable full debug info")
        if self.sanitize is not None and self.sanitize not in SANITIZERS:
            raise ConfigError(f"unknown sanitizer '{self.sanitize}'; known: {', '.join(SANITIZERS)}")
        unknown = sorted(self.without - set(SWITCHES))
        if unknown:
            raise ConfigError(f"nothing is called '{unknown[0]}' that could be turned off; known: {', '.join(SWITCHES)}")
        if (self.host_arch, self.host_os) not in PLATFORMS:
            raise ConfigError(f"unknown host '{self.host_arch}' with '{self.host_os}'; known: "
                              f"{', '.join(' with '.join(known) for known in PLATFORMS)}")
        if self.print_after:
            _check_passes(self.print_after)
        if self.emit not in EMIT_KINDS:
            raise ConfigError(f"unknown output kind '{self.emit}'; known: {', '.join(EMIT_KINDS)}")
        if self.hints:
            from tileiras.dialects.cuda_tile.given_hints import check
            check(self.hints, self.target.name)

    def uses(self, switch: str) -> bool:
        """Whether passes may make what one of SWITCHES names: never at -O0."""
        return self.opt_level > 0 and switch not in self.without

    @property
    def multiplies_apart(self) -> bool:
        """Whether products may go to instructions that run by themselves."""
        return (self.uses("wgmma") and self.target.has_wgmma) or (self.uses("tcgen05") and self.target.has_tcgen05)

    @property
    def in_turn(self) -> bool:
        """Whether an option asks for rings of one stage: an iteration's loads and its work go in turn."""
        return self.schedule is not None and self.schedule.stages == 1

    def after_pass(self, name: str, module: Any) -> None:
        """What the pipeline calls when the pass `name` has left `module`."""
        if self.print_sink is not None and (name in self.print_after or ALL_PASSES in self.print_after):
            from tileiras.dialects.module_text import module_text

            self.print_sink(f"// *** IR dump after {name} ***\n{module_text(module)}")

    def forget(self) -> None:
        """Forget what an attempt to compile told, before the next one."""
        self.prefetched = self.has_large_parts = self.waits_late = self.may_lend = self.counts_blocks = self.takes_turns = False
        for told in (self.timing, self.remarks):
            if told is not None:
                told.clear()

    def record(self, phase: str, seconds: float) -> None:
        if self.timing is not None:
            self.timing.append((phase, seconds))
