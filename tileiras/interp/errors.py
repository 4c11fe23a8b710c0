"""What can go wrong when a program is interpreted: errors that name the op and its source location."""
from __future__ import annotations

from tileiras.errors import TileirasError


class InterpreterError(TileirasError):
    """The program does something that has no meaning, or the launch doesn't fit it.

    `message` names the op once the error has passed the machine; `loc` is the op's source location, if known."""

    exit_code = 5

    def __init__(self, message: str, loc: str | None = None) -> None:
        super().__init__(message, loc)
        self.op_name: str | None = None

    def at(self, op_name: str, loc: str | None) -> InterpreterError:
        """Attach the op that failed, unless an inner op is attached already."""
        if self.op_name is None:
            self.op_name = op_name
            self.message = f"{op_name}: {self.message}"
            self.args = (self.message,)
            self.loc = self.loc or loc
        return self


class AssertionFailed(InterpreterError):
    """A `cuda_tile.assert` saw a false element."""
