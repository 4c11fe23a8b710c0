"""What becomes of functions beside the kernels of an LLVM module? A cubin holds entries and nothing is linked to it, so they are
the module's own, and those that the calling convention carries badly have no calls left.

    define weak float @f([100 x float] %x) {   ->   define internal float @f([100 x float] %x) alwaysinline {

Kernels that say so by an attribute alone get their calling convention. The compiler's own modules define kernels only; those that
are given to `compile_llvm` may have more.
"""
from __future__ import annotations

import re
from collections.abc import Iterator

MOST_PARAMETER_BYTES = 384
MOST_RETURN_BYTES = 144
"""A function with more is inlined, unless it says `noinline`."""
LEAST_SLOT_BYTES = 4
"""Of a parameter."""
_KERNEL_MARKS = ('"nvvm.kernel"', '"kernel"', '"nvvm.annotations_transplanted"')
_LINKAGES = ("linkonce_odr", "linkonce", "weak_odr", "weak", "external", "private", "internal", "dso_local", "hidden", "protected",
             "default")
_DEFINITION = re.compile(r'^define ([^@\n]*)@("[^"\n]*"|[-\w$.]+)\(([^\n]*)\{$', re.MULTILINE)
_LINKAGE = re.compile(r"\b(?:" + "|".join(_LINKAGES) + r")\b ?")
_NEVER_READ = re.compile(r"\bcomdat(?:\([^)]*\))? ?|\b(?:local_)?unnamed_addr ?")
_GROUP = re.compile(r"#\d+")
_CALL = re.compile(r'\bcall\b[^@\n]*@("[^"\n]*"|[-\w$.]+)\(')
_SCALARS = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "fp128": 16}
_SCALAR = re.compile(r"i(\d+)|half|bfloat|float|double|fp128|ptr(?: addrspace\((\d+)\))?")
_COUNT = re.compile(r"(\d+) x ")
_SHORT_SPACES = ("3", "4", "5")
"""Shared, constant and local memory, whose pointers have 32 bits."""
_MOST_NESTED = 32


def prepared(llvm_ir: str) -> str:
    """The module with the linkage and the inlining that its functions are to have."""
    def head(match: re.Match[str]) -> str:
        before, name, rest = match.groups()
        parameters, attributes = _to_bracket(rest)
        if "ptx_kernel" in before or "available_externally" in before:
            return match.group()
        said = attributes + "".join(_group(llvm_ir, name) for name in _GROUP.findall(attributes))
        if any(mark in said for mark in _KERNEL_MARKS):
            return f"define ptx_kernel {_LINKAGE.sub('', before)}@{name}({parameters}){attributes}{{"
        inlined = "alwaysinline " if _must_be_inlined(before, parameters, said) else ""
        attributes = _NEVER_READ.sub("", attributes.lstrip())
        return f"define internal {_LINKAGE.sub('', before)}@{name}({parameters}) {inlined}{attributes}{{"

    return _DEFINITION.sub(head, llvm_ir)


def _group(llvm_ir: str, name: str) -> str:
    """A group of attributes."""
    match = re.search(rf"^attributes {name} = \{{([^\n]*)\}}", llvm_ir, re.MULTILINE)
    return match.group(1) if match is not None else ""


def _to_bracket(text: str) -> tuple[str, str]:
    """What stands before the bracket that closes, and behind it."""
    depth = 1
    for at, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if not depth:
            return text[:at], text[at + 1:]
    return text, ""


def _must_be_inlined(before: str, parameters: str, attributes: str) -> bool:
    if re.search(r"\b(?:alwaysinline|noinline|optnone)\b", attributes):
        return False
    return sum(map(_slot_bytes, _parts(parameters))) > MOST_PARAMETER_BYTES or _returned_bytes(before) > MOST_RETURN_BYTES


def _slot_bytes(parameter: str) -> int:
    found = _size(parameter.strip(), 0)
    return max(found[0], LEAST_SLOT_BYTES) if found is not None else LEAST_SLOT_BYTES


def _returned_bytes(before: str) -> int:
    """The size of the type that a definition's words end in; 0 of none."""
    words = before.strip()
    while words:
        found = _size(words, 0)
        if found is not None and not words[found[2]:].strip():
            return found[0]
        words = words.partition(" ")[2].lstrip()
    return 0


def _parts(text: str) -> Iterator[str]:
    """What commas separate that stand in no brackets."""
    depth = start = 0
    for at, c in enumerate(text):
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and not depth:
            yield text[start:at]
            start = at + 1
    if text[start:].strip():
        yield text[start:]


def _size(text: str, depth: int) -> tuple[int, int, int] | None:
    """(bytes, alignment, characters) of the type that a text begins with; None if that is none."""
    if depth > _MOST_NESTED:
        return None
    match = _SCALAR.match(text)
    if match is not None:
        bits, space = match.groups()
        size = _SCALARS.get(match.group()) or (-(-int(bits) // 8) if bits else 4 if space in _SHORT_SPACES else 8)
        size = 1 << (size - 1).bit_length()
        return size, min(size, 16), match.end()
    if text[:1] in ("[", "<") and (count := _COUNT.match(text, 1)) is not None:
        inner = _size(text[count.end():], depth + 1)
        if inner is None:
            return None
        whole = int(count.group(1)) * inner[0]
        return whole, inner[1] if text[0] == "[" else min(1 << max(whole - 1, 0).bit_length(), 16), count.end() + inner[2] + 1
    if text[:1] == "{":
        return _struct(text, depth)
    return None


def _struct(text: str, depth: int) -> tuple[int, int, int] | None:
    at, size, most = 1, 0, 1
    while at < len(text) and text[at] != "}":
        if text[at] in ", ":
            at += 1
            continue
        member = _size(text[at:], depth + 1)
        if member is None:
            return None
        bytes_, alignment, length = member
        size = -(-size // alignment) * alignment + bytes_
        most, at = max(most, alignment), at + length
    return -(-size // most) * most, most, at + 1


def recursion(llvm_ir: str) -> str:
    """The name of a function that may call itself, through others or not; "" if there is none."""
    bodies = {match.group(2): match.end() for match in _DEFINITION.finditer(llvm_ir)}
    starts = sorted(bodies.values())
    ends = dict(zip(starts, [*starts[1:], len(llvm_ir)]))
    calls = {name: [callee for callee in dict.fromkeys(_CALL.findall(llvm_ir, at, ends[at])) if callee in bodies]
             for name, at in bodies.items()}
    done: set[str] = set()
    for root in calls:
        todo, path = [(root, iter(calls[root]))], {root}
        while todo and root not in done:
            name, rest = todo[-1]
            callee = next(rest, None)
            if callee is None:
                todo.pop()
                path.discard(name)
                done.add(name)
            elif callee in path:
                return callee.strip('"')
            elif callee not in done:
                path.add(callee)
                todo.append((callee, iter(calls[callee])))
    return ""
