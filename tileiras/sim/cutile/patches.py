"""How does a stand-in take the place of functions of loaded modules, and give the place back?

A function may be bound in many modules (`from cuda.tile import launch`), also in modules that are loaded while the
stand-in is there. `Patches` therefore looks for the old object in all modules when it is put in, and for the new one in all
modules when it is undone.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

OURS = __name__.rpartition(".")[0]
_MISSING = object()


class Patches:
    """What was put in place of what; undone in reverse order."""

    def __init__(self) -> None:
        self._attributes: list[tuple[Any, str, Any]] = []
        self._everywhere: list[tuple[Any, Any]] = []        # (old, new)
        self._environment: list[tuple[str, str | None]] = []
        self._at_end: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return bool(self._attributes or self._everywhere or self._environment)

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Bind an attribute of a module or class."""
        own = vars(owner).get(name, _MISSING)
        self._attributes.append((owner, name, own))
        setattr(owner, name, value)

    def replace(self, old: Any, new: Any) -> None:
        """Bind `new` wherever a loaded module holds `old`."""
        self._everywhere.append((old, new))
        _rebind(old, new)

    def environment(self, name: str, value: str) -> None:
        """Set a variable of the environment, for children."""
        self._environment.append((name, os.environ.get(name)))
        os.environ[name] = value

    def at_end(self, call: Callable[[], None]) -> None:
        """Call something when the patches are undone."""
        self._at_end.append(call)

    def undo(self) -> None:
        while self._at_end:
            self._at_end.pop()()
        while self._everywhere:
            old, new = self._everywhere.pop()
            _rebind(new, old)
        while self._attributes:
            owner, name, old = self._attributes.pop()
            if old is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, old)
        while self._environment:
            name, before = self._environment.pop()
            if before is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = before


def _rebind(old: Any, new: Any) -> None:
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith(OURS):                    # where the new ones are defined
            continue
        held = getattr(module, "__dict__", None)
        for name in [n for n, v in list(held.items()) if v is old] if isinstance(held, dict) else ():
            setattr(module, name, new)
