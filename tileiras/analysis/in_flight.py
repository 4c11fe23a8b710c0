"""Whether a function uses values only when they are there.

What `wgmma.mma_async` and `tcgen05.ld` give is in flight until a wait takes it and gives it back. Refused, with the op:

    a use of a value in flight that is neither a wait of its kind, nor the accumulator of the next product, nor a block
    argument whose uses are held to the same
    registers of A that no wait takes: the product may read them until then
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects import llvm
from tileiras.dialects.nvvm import Inst


def check(function: Operation) -> None:
    """Raise VerifyException at the first use of a value in flight in an llvm.func (or any op with blocks)."""
    flying: dict[SSAValue, str] = {}
    work: list[tuple[SSAValue, str]] = []
    for op in function.walk():
        if not isinstance(op, Inst):
            continue
        row = op.row
        if row.flight and not row.is_wait:
            work += [(v, row.flight) for v in op.results]
            for v in op.operands[1:2] if row.flight == "wgmma" and len(op.operands) > 1 else ():
                if row.operands[1].startswith("v"):
                    _check_registers_of_a(op, v)
    while work:
        value, kind = work.pop()
        if value in flying:
            continue
        flying[value] = kind
        for use in value.uses:
            work += [(v, kind) for v in _through(use.operation, use.index, kind, value)]


def _through(op: Operation, index: int, kind: str, value: SSAValue) -> list[SSAValue]:
    """The values that are in flight because `op` uses one as its operand `index`. Raises VerifyException."""
    if isinstance(op, Inst):
        row = op.row
        if row.is_wait:
            if row.flight == f"wait:{kind}":
                return []
            return [op.results[index]]
        if row.flight == kind and index < row.tied:
            return [op.results[index]]
    if isinstance(op, llvm.Br):
        return [op.successors[0].args[index]]
    if isinstance(op, llvm.CondBr):
        then, other = op.successors
        count = op.properties["operandSegmentSizes"].get_values()[1]  # type: ignore[attr-defined]
        if 1 <= index <= count:
            return [then.args[index - 1]]
        if index > count:
            return [other.args[index - 1 - count]]
    what = f"{op.name} {op.row.name}" if isinstance(op, Inst) else op.name
    raise VerifyException(f"'{what}' uses a value of {_source(value)} in flight; it must pass through a wait first")


def _source(value: SSAValue) -> str:
    owner: Any = value.owner
    return "a block argument" if isinstance(owner, Block) else owner.row.name


def _check_registers_of_a(op: Any, value: SSAValue) -> None:
    if not any(isinstance(u.operation, Inst) and u.operation.row.is_wait for u in value.uses):
        raise VerifyException(f"'{op.row.name}' reads registers of A that no wait takes; they may change before it is done")
