"""What keeps a kernel from being timed, as errors a user can act on."""
from __future__ import annotations

from tileiras.errors import CompileError, ConfigError


class NoDisassembler(ConfigError):
    """nvdisasm isn't there."""

    def __init__(self) -> None:
        super().__init__("nvdisasm isn't there, and timing reads machine code: pip install 'open-tileiras[timing]', or put "
                         "a CUDA toolkit's bin folder on PATH")


class NotTimed(CompileError):
    """A cubin that can't be read, or doesn't say which PTX line an instruction comes from."""
