"""The reference interpreter of the cuda_tile dialect: what a program means, written from the public definition.

    run(bytecode_or_module, kernel, grid, args, order="forward")

executes a kernel over its whole grid with NumPy. It shares nothing with the compiler but the reader and the
op classes, so that it can say who is right.
"""
from __future__ import annotations

from tileiras.interp.errors import AssertionFailed, InterpreterError
from tileiras.interp.launch import run

__all__ = ["AssertionFailed", "InterpreterError", "run"]
