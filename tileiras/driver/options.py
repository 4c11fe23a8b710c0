"""What one compilation was asked for, and how passes are run under those wishes.

The pipeline is handed a `CompileOptions` and runs each of its passes through `run_pass`, which does what the
user asked for around a pass (time it, verify after it, print after it), and calls `reached` where the module
has come down to a new dialect. So no pass knows about printing or timing.
"""
from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tileiras.driver.targets import Target, find_target
from tileiras.errors import CompileError, ConfigError, TileirasError

EMIT_KINDS = ("cubin", "ptx", "llvm", "cuda_tile", "nv_tileaa", "nv_tileas")
"""What `--emit` takes: how far down the pipeline goes, and what is written."""

DIALECT_STAGES = ("cuda_tile", "nv_tileaa", "nv_tileas")
OPT_LEVELS = range(4)
SANITIZERS = ("memcheck",)
ALL_PASSES = "*"


class StageReached(Exception):
    """Ends a pipeline early: the module is at the stage that was asked for."""


@dataclass
class CompileOptions:
    """One compilation's wishes.

    `print_after` names passes to print the module after (`("*",)`: all). `timing` is called with a phase's name
    and its seconds, `print_sink` with text for the user, `on_stage` with a dialect's name and the module that
    has reached it.
    """

    target: Target
    opt_level: int = 3
    lineinfo: bool = False
    device_debug: bool = False
    sanitize: str | None = None
    emit: str = "cubin"
    print_after: tuple[str, ...] = ()
    verify_each: bool = False
    timing: Callable[[str, float], None] | None = None
    print_sink: Callable[[str], None] | None = None
    on_stage: Callable[[str, Any], None] | None = None

    def validate(self) -> None:
        """Raise ConfigError for a combination that doesn't exist, in the documented order."""
        self.target = find_target(self.target)
        if isinstance(self.opt_level, bool) or self.opt_level not in OPT_LEVELS:
            raise ConfigError(f"invalid optimization level: {self.opt_level}")
        if self.device_debug and self.opt_level:
            raise ConfigError("optimized debugging is currently not supported, change the optimization level to 0 "
                              "or disable full debug info")
        if self.sanitize is not None and self.sanitize not in SANITIZERS:
            raise ConfigError(f"unknown sanitizer '{self.sanitize}'; known: {', '.join(SANITIZERS)}")
        if self.emit not in EMIT_KINDS:
            raise ConfigError(f"unknown output kind '{self.emit}'; known: {', '.join(EMIT_KINDS)}")

    def run_pass(self, name: str, function: Callable[[Any], Any], module: Any) -> Any:
        """`function(module)` as the pass `name`; the module it returns, or `module` if it works in place."""
        start = time.perf_counter()
        result = function(module)
        if self.timing is not None:
            self.timing(name, time.perf_counter() - start)
        if result is None:
            result = module
        if self.verify_each:
            self._verify(name, result)
        if self.print_after and self.print_sink is not None and (
                name in self.print_after or ALL_PASSES in self.print_after):
            self.print_sink(f"// *** IR dump after {name} ***\n{result}\n")
        return result

    def reached(self, stage: str, module: Any) -> None:
        """Say that `module` is now in the dialect `stage`. May raise StageReached; let it pass."""
        if self.on_stage is not None:
            self.on_stage(stage, module)

    @staticmethod
    def _verify(name: str, module: Any) -> None:
        verify = getattr(module, "verify", None)
        if verify is None:
            return
        try:
            verify()
        except TileirasError:
            raise
        except Exception as error:
            raise CompileError(f"the module is invalid after pass '{name}': {error}") from error
