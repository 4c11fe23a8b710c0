"""PTX text, as tests compare it."""
from __future__ import annotations

import re


def body_of(ptx: str) -> str:
    """The code without what names its version and target: two that are equal compute the same."""
    return re.sub(r"^\s*(\.version|\.target|//).*$", "", ptx, flags=re.M)
