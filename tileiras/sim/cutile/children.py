"""How do Python programs that the program starts get the stand-in too? By a start-up file that they find on PYTHONPATH.

Python imports `sitecustomize` when it starts. The one in `startup/` hands over to `child`, which waits until the child
imports cuTile or PyTorch; children that import neither notice nothing.
"""
from __future__ import annotations

import os

from tileiras.sim.cutile.patches import Patches

VARIABLE = "TILEIRAS_SIM_CHILDREN"
STARTUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")
PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def install(patches: Patches, gpu_name: str, cupy: bool) -> None:
    """Set the environment so that Python programs started from now on get the stand-in for `gpu_name`."""
    patches.environment(VARIABLE, f"{gpu_name} cupy" if cupy else gpu_name)
    paths = [STARTUP, PACKAGES, os.environ.get("PYTHONPATH", "")]
    patches.environment("PYTHONPATH", os.pathsep.join(p for p in paths if p))
