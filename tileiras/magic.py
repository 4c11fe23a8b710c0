"""How a Tile IR bytecode file begins, and what is said of one that doesn't. Imports nothing of weight."""
from __future__ import annotations

from tileiras.errors import BytecodeError

MAGIC = b"\x7fTileIR\x00"
MLIR_MAGIC = b"ML\xefR"
NOT_BYTECODE = "input does not correspond to Tile IR bytecode"


def not_bytecode(data: bytes) -> str:
    """What is wrong with data that doesn't begin with the magic."""
    return NOT_BYTECODE + (" (it looks like MLIR bytecode instead)" if data.startswith(MLIR_MAGIC) else "")


def check_magic(data: bytes) -> None:
    """Raise BytecodeError for what can't be a Tile IR bytecode file."""
    if not data.startswith(MAGIC):
        raise BytecodeError(not_bytecode(data))
