"""Layouts of buffers in shared memory: which byte offset an element has, as a matrix over F2."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SharedLayout:
    """A buffer of `shape`: `bases[i]` is the element offset that bit i of the flat (row-major) index stands for;
    an element's offset is the XOR of the bases of its set bits. Row-major without swizzle: bases[i] = 1 << i."""

    shape: tuple[int, ...]
    bases: tuple[int, ...]
