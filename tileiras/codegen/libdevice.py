"""Which text defines the `__nv_*` functions that a module calls.

Linking the whole of libdevice costs a hundred milliseconds a module (cloning 350 functions, then optimizing
and dropping them). Here the bitcode is parsed once a process, and a module gets the text of only those
functions it declares and of what they call: internal, always inlined, with the three `__nvvm_reflect`
questions already answered. Parsing and printing all of it takes longer than a small compile, so the texts are kept from
process to process.
"""
from __future__ import annotations

import os
import re

import tileiras.kept as kept
from tileiras.codegen.guards import QUICK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

REFLECT_FTZ = 0
"""Subnormals are kept: a module mixes ops with and without flush-to-zero, so it is said per instruction."""
REFLECT_PREC_SQRT = 1
"""Square roots are IEEE unless an op asks for an approximation."""

_DECLARATION = re.compile(r"^declare\b[^\n@]*@(__nv_[\w.]+)\([^\n]*\n?", re.MULTILINE)
_DEFINITION = re.compile(r"^define (?:internal )?", re.MULTILINE)
_ATTRIBUTE_GROUP = re.compile(r" #\d+")
_SOURCE_LOCATION = re.compile(r", !srcloc !\d+")
_LOOP = re.compile(r", !llvm\.loop !\d+")
_COMMENT = re.compile(r"^;[^\n]*\n", re.MULTILINE)
_REFLECT = re.compile(r"call i32 @__nvvm_reflect\(ptr (@[\w.]+)\)")
_SYMBOL = re.compile(r"@([\w.$]+)")
_GLOBAL = re.compile(r"^@([\w.]+) = [^\n]*$", re.MULTILINE)
_TYPE = re.compile(r"^%([\w.]+) = type [^\n]*$", re.MULTILINE)
_END = "\n}\n"
_STRUCT = re.compile(r"%(struct\.[\w.]+)")


class UnknownFunction(Exception):
    """A module declares a `__nv_*` function that libdevice doesn't have."""


def _texts_of(binding: Any, path: str) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """The library's functions, global variables and types, as text by name."""
    status = os.stat(path)
    key = path, status.st_size, status.st_mtime_ns
    texts = kept.load("libdevice", key)
    if texts is None:
        with open(path, "rb") as file:
            whole = str(binding.parse_bitcode(file.read(), binding.create_context()))
        functions = (f"define {part[:part.index(_END) + len(_END)]}" for part in whole.split("\ndefine ")[1:])
        texts = ({text[text.index("@") + 1:text.index("(", text.index("@"))]: text for text in functions},
                 {m.group(1): m.group(0) for m in _GLOBAL.finditer(whole)}, {m.group(1): m.group(0) for m in _TYPE.finditer(whole)})
        kept.save("libdevice", texts, key)
    return texts


class Libdevice:
    """The maths library, as text to append to a module. `binding` is `llvmlite.binding`."""

    def __init__(self, binding: Any, path: str) -> None:
        self._functions, self._globals, self._structs = _texts_of(binding, path)
        self._questions = {f"@{name}": self._question(text) for name, text in self._globals.items() if '"__CUDA_' in text}
        self._texts: dict[str, tuple[str, tuple[str, ...]]] = {}

    @staticmethod
    def _question(text: str) -> str:
        match = re.search(r'c"(__CUDA_\w+)', text)
        return match.group(1) if match else ""

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def names(self) -> tuple[str, ...]:
        return tuple(self._functions)

    def _symbol(self, name: str) -> tuple[str, tuple[str, ...]]:
        """The text of one function or global, and the symbols and structs it refers to."""
        known = self._texts.get(name)
        if known is not None:
            return known
        if name in QUICK:
            guard = QUICK[name]
            whole, needs = self._symbol(guard.function)
            text = re.sub(guard.pattern, "icmp ne i32 0, 0", whole, flags=re.MULTILINE)
            self._texts[name] = text.replace(f"@{guard.function}(", f"@{name}(", 1), needs
            return self._texts[name]
        if name in self._functions:
            text = _COMMENT.sub("", self._functions[name])
            text = _LOOP.sub("", _SOURCE_LOCATION.sub("", _ATTRIBUTE_GROUP.sub("", text)))
            text = _DEFINITION.sub("define internal ", text, count=1)
            head, brace, body = text.partition("{\n")
            text = f"{head.rstrip()} alwaysinline nounwind {brace}{body}"
        else:
            text = self._globals[name].strip() + "\n"
        used = dict.fromkeys(_SYMBOL.findall(_REFLECT.sub("", text)))
        needs = tuple(s for s in used if s != name and (s in self._functions or s in self._globals))
        needs += tuple(dict.fromkeys(_STRUCT.findall(text)))
        self._texts[name] = text, needs
        return self._texts[name]

    def complete(self, llvm_ir: str, cc: int) -> str:
        """`llvm_ir` with every declared `__nv_*` function defined; `cc` is the compute capability times ten.

        Raises UnknownFunction.
        """
        wanted = dict.fromkeys(_DECLARATION.findall(llvm_ir))
        if not wanted:
            return llvm_ir
        missing = [name for name in wanted if name not in self._functions and name not in QUICK]
        if missing:
            raise UnknownFunction(f"libdevice has no function '{missing[0]}'")
        answers = {"__CUDA_FTZ": REFLECT_FTZ, "__CUDA_PREC_SQRT": REFLECT_PREC_SQRT, "__CUDA_ARCH": cc * 10}

        def answer(match: re.Match[str]) -> str:
            return f"add i32 0, {answers.get(self._questions[match.group(1)], 0)}"

        parts = [_DECLARATION.sub("", llvm_ir), "\n"]
        todo, seen = list(wanted), set(wanted)
        while todo:
            name = todo.pop()
            if name.startswith("struct."):
                parts.insert(0, f"{self._structs[name]}\n")
                continue
            text, needs = self._symbol(name)
            parts.append(_REFLECT.sub(answer, text))
            for need in needs:
                if need not in seen:
                    seen.add(need)
                    todo.append(need)
        return "".join(parts)


def calls_libdevice(llvm_ir: str) -> bool:
    return _DECLARATION.search(llvm_ir) is not None
