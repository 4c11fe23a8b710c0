"""Run when a Python program starts under the stand-in: hand over to the stand-in, and to the environment's own start-up file."""
import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
_others = [p for p in sys.path if os.path.abspath(p or os.curdir) != _here]
_own = importlib.machinery.PathFinder.find_spec("sitecustomize", _others)
if _own is not None and _own.loader is not None:
    _own.loader.exec_module(importlib.util.module_from_spec(_own))

from tileiras.sim.cutile import child  # noqa: E402  (after the environment's own start-up)

child.start()
