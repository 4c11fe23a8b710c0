"""Which bytecode versions there are."""
from __future__ import annotations

from typing import NamedTuple

from tileiras.dialects.cuda_tile import edition


class Version(NamedTuple):
    """A bytecode version; compares as a tuple, prints as `13.1`."""

    major: int
    minor: int
    tag: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}" + (f".{self.tag}" if self.tag else "")

    @classmethod
    def parse(cls, text: str) -> Version:
        """`13.1` or `13.1.0`; raises ValueError on anything else."""
        return cls(*(int(part) for part in text.split(".")))


V13_1 = Version(13, 1)
V13_2 = Version(13, 2)
V13_3 = Version(13, 3)
V13_4 = Version(13, 4)
V13_5 = Version(13, 5)

SUPPORTED_VERSIONS: tuple[Version, ...] = (V13_1, V13_2, V13_3, V13_4)
DEVELOPMENT_VERSIONS: tuple[Version, ...] = (V13_5,)
"""What the frontend's development version writes: read and written as far as the frontend shows it, and not announced."""

CURRENT_VERSION = SUPPORTED_VERSIONS[-1]


def spoken_versions() -> tuple[Version, ...]:
    """The supported versions that the edition of the language in force knows."""
    return tuple(v for v in SUPPORTED_VERSIONS if v[:2] <= edition.current())


def supported_range() -> str:
    """`[13.1 - 13.4]`."""
    spoken = spoken_versions()
    return f"[{spoken[0]} - {spoken[-1]}]"
