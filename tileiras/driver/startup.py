"""How the command starts fast: most of a small kernel's compile would be imports.

Four costs of importing xDSL and this project are cut, for this process only:

- Each of hundreds of dataclasses compiles the text of its methods at import, and regular expressions are compiled. Texts are
  the same every time, so what they become is kept (`kept.py`).
- `dataclasses` asks `inspect` for the signature of every class without a docstring, to write one. Nobody reads it here.
- `inspect` and `ctypes` come with six modules of Python's; what is used of them in a compile is three small functions. They
  load when something else of theirs is asked for.
- `xdsl.dialects` imports, before any dialect, a loader for dialects written in IRDL, which nothing here uses.
- xDSL's classes are abstract ones, of which `isinstance` asks all that derive from them whether they take a class for theirs.
  None does: they answer as ordinary classes do.
- `typing.NamedTuple` compiles each annotation.
"""
from __future__ import annotations

import os
import sys
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace

import tileiras.kept as kept
from tileiras.driver.modules import KeptModules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_NAME = "startup"
_MAX_ENTRIES = 20000
_CO_COROUTINE = 0x80
_codes: dict[str, CodeType] = {}
_patterns: dict[tuple[str, int], tuple[Any, ...]] = {}
_new_entries = 0
_modules: KeptModules | None = None


def prepare() -> None:
    """Call before anything of weight is imported."""
    global _modules
    _modules = KeptModules(kept.path_of("modules"))
    sys.meta_path.insert(0, _modules)  # type: ignore[arg-type]
    found = kept.load(_NAME)
    if isinstance(found, tuple) and len(found) == 2:
        _codes.update(found[0])
        _patterns.update(found[1])
    _keep_patterns()
    if sys.version_info < (3, 14):
        for name, given in (("inspect", _of_inspect()), ("ctypes", {})):
            if name not in sys.modules:
                sys.modules[name] = _Later(name, given)
    _keep_methods()
    _plain_checks()
    _plain_annotations()
    _skip_dialect_loader()


def remember() -> None:
    """Keep what was compiled for the next start. Call at the end."""
    if _new_entries and len(_codes) + len(_patterns) <= _MAX_ENTRIES:
        kept.save(_NAME, (_codes, _patterns))
    if _modules is not None:
        _modules.remember()


class _Later(ModuleType):
    """A module that is loaded when it is first asked for something that isn't `given`."""

    def __init__(self, name: str, given: dict[str, Any]) -> None:
        super().__init__(name)
        self.__dict__.update(given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what the import system looks for
            raise AttributeError(name)
        return getattr(_load(self.__name__), name)


def _load(name: str) -> ModuleType:
    """The module itself. Who holds what stood in its place has all that is in it."""
    from importlib import import_module

    stand_in = sys.modules.get(name)
    if not isinstance(stand_in, _Later):
        return import_module(name)
    del sys.modules[name]
    module = import_module(name)
    stand_in.__dict__.update(module.__dict__)
    return module


def _of_inspect() -> dict[str, Any]:
    """What xDSL and `typing_extensions` use of `inspect` while they are imported, for the cases that they have."""
    def later(name: str) -> Callable[..., Any]:
        return lambda *arguments, **named: getattr(_load("inspect"), name)(*arguments, **named)

    def isclass(thing: object) -> bool:
        return isinstance(thing, type)

    def ismethod(thing: object) -> bool:
        return isinstance(thing, MethodType)

    def iscoroutinefunction(thing: object) -> bool:
        if isinstance(thing, FunctionType) and not thing.__dict__:
            return bool(thing.__code__.co_flags & _CO_COROUTINE)
        return later("iscoroutinefunction")(thing)

    def signature(thing: Any, **named: Any) -> Any:
        import typing
        if thing is getattr(typing, "_type_check", None):  # has it a certain parameter?
            return SimpleNamespace(parameters=dict.fromkeys(thing.__code__.co_varnames[:thing.__code__.co_argcount]))
        return later("signature")(thing, **named)

    def get_annotations(thing: Any, *, eval_str: bool = False, **named: Any) -> dict[str, Any]:
        if not isinstance(thing, type) or named:
            return later("get_annotations")(thing, eval_str=eval_str, **named)
        found = dict(vars(thing).get("__annotations__") or {})
        if eval_str:
            module, names = vars(sys.modules[thing.__module__]), dict(vars(thing))
            found = {name: eval(value, module, names) if isinstance(value, str) else value for name, value in found.items()}
        return found

    given = (isclass, ismethod, iscoroutinefunction, signature, get_annotations)
    return {**{function.__name__: function for function in given}, "getfullargspec": later("getfullargspec")}


def _keep_methods() -> None:
    import dataclasses

    dataclasses.exec = _execute  # type: ignore[attr-defined]
    dataclasses.inspect = _Later("inspect", {"signature": lambda _: ""})  # type: ignore[attr-defined]
    if sys.version_info < (3, 14):
        dataclasses._is_type = _is_special(dataclasses._is_type)  # type: ignore[attr-defined]
    if sys.version_info < (3, 13):
        dataclasses._repr_fn = _repr_later(dataclasses._repr_fn)  # type: ignore[attr-defined]
        dataclasses._frozen_get_del_attr = _guards  # type: ignore[attr-defined]


def _is_special(asked: Callable[..., bool]) -> Callable[..., bool]:
    """Whether an annotation is one of `dataclasses`' own: most can't be, by their text."""
    def is_type(annotation: str, *rest: Any) -> bool:
        return ("ClassVar" in annotation or "InitVar" in annotation or "KW_ONLY" in annotation) and asked(annotation, *rest)
    return is_type


def _repr_later(make: Callable[..., Any]) -> Callable[..., Any]:
    """`__repr__` that is made when it is first called: few are."""
    def repr_of(*given: Any) -> Callable[[Any], str]:
        made: list[Any] = []

        def __repr__(self: Any) -> str:
            if not made:
                made.append(make(*given))
            return made[0](self)
        return __repr__
    return repr_of


def _guards(cls: type, fields: Any, _: Any) -> tuple[Any, Any]:
    """What a frozen class answers to an assignment, without a text that is compiled."""
    from dataclasses import FrozenInstanceError
    names = frozenset(f.name for f in fields)

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)
    return __setattr__, __delattr__


def _plain_checks() -> None:
    """Classes that derive from `ABC` from now on have only those classes for theirs that derive from them."""
    import abc

    class Plain(abc.ABCMeta):
        __instancecheck__ = type.__instancecheck__
        __subclasscheck__ = type.__subclasscheck__

    abc.ABC = Plain("ABC", (), {"__module__": "abc", "__slots__": ()})  # type: ignore[misc]


def _plain_annotations() -> None:
    """Named tuples whose annotations stay texts."""
    import typing

    if sys.version_info < (3, 14) and hasattr(typing, "_make_nmtuple"):
        def make(name: str, types: Any, module: str, defaults: Any = ()) -> Any:
            from collections import namedtuple
            types = dict(types)
            made: Any = namedtuple(name, tuple(types), defaults=defaults, module=module)
            made.__annotations__ = made.__new__.__annotations__ = types
            return made
        typing._make_nmtuple = make  # type: ignore[attr-defined]


def _execute(text: Any, namespace: Any = None, local: Any = None) -> None:
    """`exec`, with the code of a text compiled at most once a machine."""
    global _new_entries
    if not isinstance(text, str):
        exec(text, namespace, local)
        return
    code = _codes.get(text)
    if code is None:
        code = _codes[text] = compile(text, "<string>", "exec", dont_inherit=True)
        _new_entries += 1
    exec(code, namespace, local)


def _keep_patterns() -> None:
    """Let regular expressions be compiled at most once a machine."""
    try:
        import _sre  # pyright: ignore[reportMissingImports]
        from re import _compiler as compiler  # type: ignore[attr-defined]
    except ImportError:
        try:
            import sre_compile as compiler
        except ImportError:
            return
    make = compiler.compile

    def compile_pattern(pattern: Any, flags: Any = 0) -> Any:
        global _new_entries
        if not isinstance(pattern, str) or not isinstance(flags, int):
            return make(pattern, flags)
        key = pattern, int(flags)
        recipe = _patterns.get(key)
        if recipe is None:
            seen: list[tuple[Any, ...]] = []
            compiler._sre = _Noting(_sre, seen)  # type: ignore[attr-defined]
            try:
                made = make(pattern, flags)
            finally:
                compiler._sre = _sre  # type: ignore[attr-defined]
            if len(seen) == 1:
                _patterns[key] = seen[0]
                _new_entries += 1
            return made
        return _sre.compile(*recipe)

    compiler.compile = compile_pattern


class _Noting:
    """`_sre`, with its `compile` writing down what it is given."""

    def __init__(self, sre: Any, seen: list[tuple[Any, ...]]) -> None:
        self._sre, self._seen = sre, seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sre, name)

    def compile(self, pattern: Any, flags: int, code: list[int], groups: int, index: dict[str, int], names: tuple[Any, ...]) -> Any:
        self._seen.append((pattern, int(flags), list(map(int, code)), groups, dict(index), names))
        return self._sre.compile(pattern, flags, code, groups, index, names)


def _skip_dialect_loader() -> None:
    from tileiras.codegen.toolchain import find_python_package

    xdsl = find_python_package("xdsl")
    if xdsl is not None and "xdsl.dialects" not in sys.modules:
        package = ModuleType("xdsl.dialects")
        package.__path__ = [os.path.join(xdsl, "dialects")]
        sys.modules["xdsl.dialects"] = package
