"""What LLVM is never given, because it would end the process or compile it to something else.

LLVM's answer to an instruction that it can't select is to abort; to an ordered atomic, to drop the order. So a
module's text is checked here first: machine instructions against the table of machine/intrinsics.py, LLVM's own against
the rules below.
"""
from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tileiras.codegen.operand_rules import FAMILIES, operand_problems, said_of_lacking
from tileiras.codegen.places import kernels_of_llvm
from tileiras.errors import CompileError
from tileiras.machine.intrinsics import features_of
from tileiras.machine.targets import TARGETS, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

APPROXIMABLE = ("sin", "cos", "tanh")
"""Generic intrinsics that select when the call is `afn` (and the type is f32 or narrower)."""
LIBRARY_ONLY = ("tan", "asin", "acos", "atan", "sinh", "cosh", "log", "log2", "log10", "exp", "exp10", "pow", "powi",
                "atan2", "sincos", "sincospi", "modf", "frexp")
"""Generic intrinsics that no target selects: they are calls of libdevice functions."""
_UNSELECTABLE = ("exp2.f64", "tanh.f64", "sin.f64", "cos.f64", "canonicalize.bf16", "canonicalize.v2f16",
                 "canonicalize.v2bf16")

_INTRINSIC = re.compile(r"@(llvm\.[\w.]+)")
_NAMES_BEGIN = "llvm.nvvm."
_UNKNOWN = re.compile(r"\bllvm\.nvvm\.[\w.]+")
_GENERIC_MATH = re.compile(r"llvm\.(" + "|".join((*APPROXIMABLE, *LIBRARY_ONLY)) + r")\.(v\d+)?(bf16|f16|f32|f64)")
_INSTRUCTION = re.compile(r"(?:^ *|= |tail |notail )(frem|atomicrmw|cmpxchg|load atomic|store atomic|fence|sitofp|uitofp|"
                          r"fptosi|fptoui|fptrunc|fpext|fadd|fsub|fmul|fdiv)\b(.*)")
_WIDE_FLOATS = ("fp128", "x86_fp80", "ppc_fp128")
_SUSPECTS = ("frem", "atomic", "cmpxchg", "fence", "i128", "fp128", "x86_fp80")
"""Words of the instructions that may be refused."""
_KERNEL_BEGINS = "define ptx_kernel void @"
_KERNEL = re.compile(_KERNEL_BEGINS + r'(?:"([^"]*)"|([^\s(]+))')
_PTX_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_$]*|[_$][A-Za-z0-9_$]+")
_SCOPE = re.compile(r'syncscope\("(\w*)"\)')
_VECTOR = re.compile(r"<(\d+) x (half|bfloat|float|double|i8|i16|i32|i64)>")
_WIDTHS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
_MOST_ATOMIC_BITS = 64
"""Of an exchange on every SM; LLVM makes all other atomics of wider vectors of one of 128 bits."""
_SCOPES = frozenset({"", "singlethread", "block", "cluster", "device", "system"})
_LAUNCHES = ("cudaLaunchDevice", "cudaLaunchDeviceV2", "llvm.nvvm.launch")
"""What a kernel would launch another with."""
_LAUNCH = re.compile(r"call [^@\n]*@(?:" + "|".join(map(re.escape, _LAUNCHES)) + r")\(([^\n]*)\)")
_LOCAL = re.compile(r"(%[\w.]+) = (?:alloca\b|addrspacecast ptr addrspace\(5\))")
_ATTRIBUTE = re.compile(r'"nvvm\.(\w+)"="([^"]*)"')
_EXTENTS = ("maxntid", "reqntid", "cluster_dim")
_COUNTS = ("minctasm", "maxnreg", "maxclusterrank")


def _lines_with(llvm_ir: str, *words: str) -> Iterator[str]:
    """The lines that have one of these words, in order. Searching for words leaves the other lines alone: most modules have few."""
    starts = set()
    for word in words:
        at = llvm_ir.find(word)
        while at >= 0:
            starts.add(llvm_ir.rfind("\n", 0, at) + 1)
            end = llvm_ir.find("\n", at)
            at = llvm_ir.find(word, end) if end >= 0 else -1
    for start in sorted(starts):
        end = llvm_ir.find("\n", start)
        yield llvm_ir[start:end if end >= 0 else len(llvm_ir)]


def _kernels(llvm_ir: str) -> list[str]:
    """The names of the kernels that are defined."""
    found = map(_KERNEL.match, _lines_with(llvm_ir, _KERNEL_BEGINS))
    return [match.group(1) or match.group(2) or "" for match in found if match is not None]


def _targets_with(feature: str) -> str:
    names = [t.name for t in TARGETS if getattr(t, feature)]
    return names[0] if len(names) == 1 else ", ".join(names)


def _generic_math(name: str, llvm_ir: str) -> str:
    """What is wrong with a generic float intrinsic, or ""."""
    if any(name == f"llvm.{bad}" for bad in _UNSELECTABLE):
        return f"'{name}' can't be selected; call the libdevice function instead"
    match = _GENERIC_MATH.fullmatch(name) or _GENERIC_MATH.match(name)
    if match is None:
        return ""
    if match.group(1) in APPROXIMABLE and match.group(3) != "f64":
        calls = re.findall(rf"call ([^@\n]*)@{re.escape(name)}\(", llvm_ir)
        if all(re.search(r"\b(afn|fast)\b", flags) for flags in calls):
            return ""
        return f"'{name}' without 'afn' can't be selected; call the libdevice function instead"
    return f"'{name}' can't be selected; call the libdevice function instead"


def _instructions(llvm_ir: str, target: Target) -> Iterator[str]:
    """What is wrong with a module's plain instructions."""
    for match in map(_INSTRUCTION.search, _lines_with(llvm_ir, *_SUSPECTS)):
        if match is None:
            continue
        op, rest = match.groups()
        if op == "frem":
            yield "'frem' is inexact on every target; call __nv_fmod or __nv_fmodf"
        elif any(wide in rest for wide in _WIDE_FLOATS):
            yield f"'{op}' on floats wider than 64 bits isn't available on any target"
        elif "i128" in rest and op in ("sitofp", "uitofp", "fptosi", "fptoui"):
            yield f"'{op}' between floats and i128 isn't available on any target"
        elif op in ("atomicrmw", "cmpxchg", "load atomic", "store atomic", "fence"):
            yield from _atomic(op, rest, target)


def _atomic(op: str, rest: str, target: Target) -> Iterator[str]:
    scope = match.group(1) if (match := _SCOPE.search(rest)) else "system"
    if scope not in _SCOPES:
        yield f"unsupported NVPTX synchronization scope '{scope}'"
    if op == "fence" and not re.search(r"\b(acquire|release|acq_rel|seq_cst)\b", rest):
        yield "fence ordering must be acquire, release, acq_rel, or seq_cst"
    if op == "atomicrmw" and (scope != "device" or "monotonic" not in rest):
        yield "'atomicrmw' loses its scope and ordering; write it as inline PTX"
    if scope == "cluster" and not target.has_clusters:
        yield f"'{op}' at cluster scope needs one of {_targets_with('has_clusters')}"
    if "i128" in rest and not target.has_atom_b128:
        yield "128b atomics not supported on this architecture!"
    elif "i128" in rest and (op == "atomicrmw" or "seq_cst" in rest):
        yield f"'{op}' on 128 bits isn't available"
    if op == "atomicrmw" and not target.has_atom_b128 and _bits_of_vector(rest) > _MOST_ATOMIC_BITS:
        yield "vector atomics not supported on this architecture!"


def _bits_of_vector(rest: str) -> int:
    """The width of an atomic op's vector, 0 where it has none."""
    match = _VECTOR.search(rest)
    return int(match.group(1)) * _WIDTHS[match.group(2)] if match is not None else 0


def _launches(llvm_ir: str) -> Iterator[str]:
    """What is wrong with kernels that launch kernels: by the rules of such launches, and then that there are none."""
    kernels = set(_kernels(llvm_ir))
    local = set(_LOCAL.findall(llvm_ir))
    for arguments in _LAUNCH.findall(llvm_ir):
        callee, *given = arguments.split(", ")
        name = callee.rpartition("@")[2].strip('"') if "@" in callee else ""
        if name not in kernels:
            yield "a function that is not __global__ cannot be launched"
        if any(words[0] == "ptr" and (words[-1] in local or "addrspace" not in a) and words[-1].startswith("%")
               for a in given if (words := a.split())):
            yield ("A pointer to local memory or memory in 'addrspace(0)' has been used as a launch argument. Dereferencing this "
                   "within the launch is undefined")
        yield "kernels don't launch kernels: a cubin holds entries only, without the runtime that would do it"


def _launch_attributes(llvm_ir: str, target: Target) -> Iterator[str]:
    """What is wrong with how kernels say that they want to be launched."""
    for line in _lines_with(llvm_ir, '"nvvm.'):
        if not line.startswith("define "):
            continue
        given = dict(_ATTRIBUTE.findall(line))
        for name in (n for n in _EXTENTS if n in given):
            extents = given[name].split(",")
            if len(extents) > len("xyz") or not all(e.strip().isdecimal() and int(e) > 0 for e in extents):
                yield f"'nvvm.{name}' must be one to three positive numbers, but is '{given[name]}'"
        for name in (n for n in _COUNTS if n in given):
            if not given[name].isdecimal():
                yield f"'nvvm.{name}' must be a number, but is '{given[name]}'"
        if "blocksareclusters" in given and not {"reqntid", "cluster_dim"} <= set(given):
            yield "blocksareclusters directive requires both thread-block dimensions and a cluster dimension"
        wide = next((n for n in ("cluster_dim", "blocksareclusters", "maxclusterrank") if n in given), None)
        if wide is not None and not target.has_clusters:
            yield f"'nvvm.{wide}' needs one of {_targets_with('has_clusters')}"


def problems(llvm_ir: str, target: Target) -> list[str]:
    """Why `llvm_ir` can't be compiled for `target`: one text a reason, in order of appearance, none twice."""
    found: dict[str, None] = {}
    for kernel in _kernels(llvm_ir):
        if not _PTX_IDENTIFIER.fullmatch(kernel):
            name = kernel.replace(r"\5C", "\\")      # as LLVM's text has it
            found[f"a kernel called '{name}': PTX names are of letters, digits, '_' and '$'"] = None
    for name in dict.fromkeys(_INTRINSIC.findall(llvm_ir)):
        if name.startswith("llvm.nvvm."):
            short = name[len("llvm.nvvm."):]
            lacking = next((f for f in features_of(short) if not getattr(target, f)), None)
            if lacking is not None:
                said = said_of_lacking(short)
                found[f"'{name}' needs one of {_targets_with(lacking)}{': ' if said else ''}{said}"] = None
        elif reason := _generic_math(name, llvm_ir):
            found[reason] = None
    found.update(dict.fromkeys(operand_problems(_lines_with(llvm_ir, *FAMILIES), target)))
    if has_functions(llvm_ir):
        from tileiras.codegen.functions import recursion
        name = recursion(llvm_ir)
        if name:
            found[f"'{name}' may call itself; how much memory its calls need isn't known before they are made"] = None
    if any(name in llvm_ir for name in _LAUNCHES):
        found.update(dict.fromkeys(_launches(llvm_ir)))
    found.update(dict.fromkeys(_launch_attributes(llvm_ir, target)))
    found.update(dict.fromkeys(_instructions(llvm_ir, target)))
    return list(found)


def has_functions(llvm_ir: str) -> bool:
    """Whether a module defines anything but kernels with their calling convention."""
    return llvm_ir.count("define ptx_kernel ") != llvm_ir.count("\ndefine ") + llvm_ir.startswith("define ")


def unknown_intrinsic(ptx: str) -> str:
    """The name of an intrinsic that LLVM doesn't know and took for a function somewhere else; "" if there is none."""
    match = _UNKNOWN.search(ptx) if _NAMES_BEGIN in ptx else None
    return match.group() if match is not None else ""


def check(llvm_ir: str, target: Target) -> None:
    """Raise CompileError naming the op and the target if LLVM would not survive `llvm_ir`."""
    reasons = problems(llvm_ir, target)
    if reasons:
        at_fault = next((name for name, text in kernels_of_llvm(llvm_ir).items() if problems(text, target)), None)
        raise CompileError(f"not available on {target.name}: " + "; ".join(reasons), kernel=at_fault)
