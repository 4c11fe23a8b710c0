"""The version of the package, in one place: packaging, `--version` and the compile cache key read it."""
from __future__ import annotations

__version__ = "0.1.0"
