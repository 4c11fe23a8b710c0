"""What `--version` says. Frontends use the whole text as a key of their compile caches, so it changes with the code."""
from __future__ import annotations

import os
import zlib

from tileiras.version import __version__


def source_digest() -> str:
    """A checksum over the package's sources (names and contents), the same for the same code anywhere."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    digest = 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                digest = zlib.crc32(os.path.relpath(path, root).encode(), digest)
                with open(path, "rb") as file:
                    digest = zlib.crc32(file.read(), digest)
    return f"{digest:08x}"


def version_text() -> str:
    from tileiras.bytecode.version import SUPPORTED_VERSIONS

    newest = SUPPORTED_VERSIONS[-1]
    return (f"tileiras: open CUDA Tile IR optimizing assembler\n"
            f"Tile IR bytecode {SUPPORTED_VERSIONS[0]} to {newest}\n"
            f"open-tileiras, release {newest}, V{__version__}\n"
            f"Build {source_digest()}\n")
