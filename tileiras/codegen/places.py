"""Which place of the user's source a tool's words speak of: a line of PTX with its `.loc`, or a kernel.

    ptxas tile.ptx, line 41; error : ...            .file 1 "k.py"      -> "k.py":12:4
                                                    .loc  1 12 4
    error : Entry function 'k' uses too much ...                        -> kernel k
"""
from __future__ import annotations

import re

_PTX_LINE = re.compile(r", line (\d+); (?:error|fatal)")
_NAMED = (re.compile(r"[Ff]unction '?:? ?'?([\w$]+)'"), re.compile(r"[Ii]n function:? '?([\w$]+)"))
_KERNEL_OF_LLVM = re.compile(r'^define ptx_kernel void @(?:"([^"]*)"|([^\s(]+))', re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"', re.MULTILINE)
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)")


def kernels_of_llvm(llvm_ir: str) -> dict[str, str]:
    """The kernels of a module: name -> text, from its beginning to the next one's."""
    matches = list(_KERNEL_OF_LLVM.finditer(llvm_ir))
    ends = [*(match.start() for match in matches[1:]), len(llvm_ir)]
    return {match.group(1) or match.group(2): llvm_ir[match.start():end] for match, end in zip(matches, ends)}


def kernel_named(words: str, llvm_ir: str) -> str | None:
    """The kernel that a tool's words name; the only one where there is only one."""
    kernels = kernels_of_llvm(llvm_ir)
    for pattern in _NAMED:
        for name in pattern.findall(words):
            if name in kernels:
                return name
    return next(iter(kernels)) if len(kernels) == 1 else None


def place_in_ptx(words: str, ptx: str) -> tuple[str | None, str | None]:
    """Of the first line of PTX that ptxas complains about: the user's line, where `.loc` says it, and the kernel."""
    match = _PTX_LINE.search(words)
    if match is None:
        return None, None
    lines = ptx.split("\n")
    for index in range(min(int(match.group(1)), len(lines)) - 1, -1, -1):
        if found := _LOC.match(lines[index]):
            files = dict(_FILE.findall(ptx))
            number, line, column = found.groups()
            kernel = next((e.group(1) for text in reversed(lines[:index]) if (e := _ENTRY.search(text))), None)
            return (f'"{files[number]}":{line}:{column}' if number in files else None), kernel
        if found := _ENTRY.search(lines[index]):
            return None, found.group(1)
    return None, None
