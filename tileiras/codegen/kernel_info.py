"""What a kernel's code is made of: nineteen figures, in the order in which the specification's `kernel-info` prints them.

    regs smem cmem tex params local stack barriers                  of a thread or a block, as ptxas reports them
    loads stores branches fp_ops int_ops divergence predicated      instructions of its PTX
    vector_ops mma_ops tcgen05_ops tma_ops

Instructions are counted as they stand, once each, however often they run. `divergence`: branches that depend on a thread's own
predicate; `predicated`: other instructions that do; `vector_ops`: accesses of several registers and packed arithmetic.
"""
from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileiras.codegen.resources import Entry

METRICS: tuple[str, ...] = (
    "regs", "smem", "cmem", "tex", "params", "local", "stack", "barriers", "loads", "stores", "branches", "fp_ops", "int_ops",
    "divergence", "predicated", "vector_ops", "mma_ops", "tcgen05_ops", "tma_ops")
_INSTRUCTION = re.compile(r"^[ \t]*(@!?%\w+[ \t]+)?([a-z][\w:.]*)[^\n;]*;", re.MULTILINE)
_COMPUTES = frozenset(
    "abs add addc and bfe bfi brev clz cos cvt div ex2 fma fns lg2 lop3 mad madc max min mul mul24 neg not or popc prmt rcp rem "
    "rsqrt sad selp set setp shf shl shr sin sqrt sub subc tanh xor".split())
_FLOAT = re.compile(r"\.(?:f16|bf16|f32|f64)")
_VECTOR = re.compile(r"\.v[248]\b|\.b?f(?:16|32)x2\b")


def kernel_info(ptx: str, entry: Entry) -> dict[str, int]:
    """The figures of a kernel, by the names of METRICS, in their order."""
    found: dict[str, int] = dict.fromkeys(METRICS, 0)
    found.update(regs=entry.registers, smem=entry.shared_bytes, cmem=entry.param_base + entry.param_bytes,
                 params=len(entry.params) + len(entry.hidden), local=entry.spill_bytes,
                 stack=entry.stack_bytes, barriers=entry.barriers)
    for predicate, opcode in _INSTRUCTION.findall(_body(ptx, entry.name)):
        base = opcode.partition(".")[0]
        for metric in _kinds(base, opcode):
            found[metric] += 1
        if predicate:
            found["divergence" if base == "bra" else "predicated"] += 1
    return found


def _kinds(base: str, opcode: str) -> list[str]:
    """What an instruction counts as."""
    kinds = []
    if base == "bra" or base == "brx":
        kinds.append("branches")
    elif base in ("tex", "tld4", "suld", "sust"):
        kinds.append("tex")
    elif opcode.startswith("ld.") and not opcode.startswith("ld.param"):
        kinds.append("loads")
    elif opcode.startswith("st.") and not opcode.startswith("st.param"):
        kinds.append("stores")
    elif opcode.startswith("tcgen05."):
        kinds.append("tcgen05_ops")
    elif base in ("mma", "wmma") or opcode.startswith("wgmma.mma_async"):
        kinds.append("mma_ops")
    elif opcode.startswith(("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor")):
        kinds.append("tma_ops")
    elif base in _COMPUTES:
        kinds.append("fp_ops" if _FLOAT.search(opcode) else "int_ops")
    if _VECTOR.search(opcode):
        kinds.append("vector_ops")
    return kinds


def _body(ptx: str, name: str) -> str:
    """The text of a kernel, up to the next one (assembly has braces of its own)."""
    start = re.search(rf"\.entry\s+{re.escape(name)}\b", ptx)
    if start is None:
        return ""
    end = ptx.find(".entry", start.end())
    return ptx[ptx.find("\n{", start.end()):end if end >= 0 else len(ptx)]
