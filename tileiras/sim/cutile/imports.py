"""How is something done right after a module has been imported, if it ever is? A finder that waits for it."""
from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


class After(importlib.abc.MetaPathFinder):
    """Calls a function when a module has been imported, once; stands first in sys.meta_path until `remove`."""

    def __init__(self, after: dict[str, Callable[[], Any]]) -> None:
        self.after = after
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Wait for nothing any more."""
        self.after.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        call = self.after.pop(fullname, None)
        if call is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is None or not isinstance(spec.loader, importlib.abc.Loader):
            return spec
        execute = spec.loader.exec_module

        def loaded(module: ModuleType) -> None:
            execute(module)
            call()
        spec.loader.exec_module = loaded            # type: ignore[method-assign]
        return spec
