"""The exceptions of the compiler, one a stage, each with the exit code that the command line documents.

0 success; 1 no input or a malformed command line; 2 configuration; 3 not Tile IR bytecode, or malformed;
4 a file that can't be read or written, a program handle that isn't what is asked of it; 5 compilation.
"""
from __future__ import annotations


class TileirasError(Exception):
    """An error a user can act on: a message, the source location if one is known, and an exit code."""

    exit_code = 5

    def __init__(self, message: str, loc: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.loc = loc

    def render(self) -> str:
        """The diagnostic as frontends parse it: `loc("file":line:col): error: message`."""
        prefix = f"loc({self.loc}): " if self.loc else ""
        return f"{prefix}error: {self.message}"


class UsageError(TileirasError):
    """The command line can't be understood, or names no input."""

    exit_code = 1


class ConfigError(TileirasError):
    """A target, level or option that doesn't exist or doesn't combine."""

    exit_code = 2


class BytecodeError(TileirasError):
    """The input isn't Tile IR bytecode, or is malformed, or fails verification."""

    exit_code = 3


class InputError(TileirasError):
    """A file that can't be read or written."""

    exit_code = 4


class ProgramError(TileirasError):
    """A program handle that was released, or that has no output yet."""

    exit_code = 4


class CompileError(TileirasError):
    """A valid program that couldn't be compiled. `kernel` names the kernel at fault where the place isn't known yet."""

    exit_code = 5

    def __init__(self, message: str, loc: str | None = None, kernel: str | None = None) -> None:
        super().__init__(message, loc)
        self.kernel = kernel
