"""A failing program cut down: ops are dropped, one after another, as long as it still fails in the same way.

An op goes whole, with its regions; what used its results gets an operand of the same type, or a constant of ones, or a
new token. Branches give way to what they yield. Reduced programs that the interpreter or verifier refuses don't count.
"""
from __future__ import annotations

import pathlib
import time
from collections.abc import Callable

from xdsl.ir import Operation, SSAValue

from tests.fuzz.generate import Program
from tests.fuzz.programs import VERSION, Config, failure, reference, time_limit
from tests.interp.build import ELEMENTS, TOKEN, dense
from tileiras.bytecode import read, write
from tileiras.dialects.cuda_tile import attrs, ops, types

NAMES = {e: n for n, e in ELEMENTS.items()}
KEPT = (ops.Module, ops.Entry)


def stand_in(value: SSAValue, op: Operation) -> tuple[SSAValue, Operation | None] | None:
    """(a value of the same type that is there before `op`, the op that makes it where it's new)."""
    for operand in op.operands:
        if operand.type == value.type:
            return operand, None
    if isinstance(value.type, types.TokenType):
        made = ops.MakeToken.make([], [TOKEN])
        return made.results[0], made
    if not isinstance(value.type, types.TileType):
        return None
    element = NAMES.get(value.type.element_type)
    if element is None or element == "tf32":
        return None
    if element == "f4E2M1FN":       # no constant of one: two share a byte
        return None
    made = ops.Constant.make([], [value.type], {"value": attrs.DenseElementsAttr(value.type, dense(element, [1]).data[1])})
    return made.results[0], made


def drop(op: Operation) -> bool:
    """Remove an op, with stand-ins for its results. False if that can't be."""
    if op.parent is None or op.next_op is None or isinstance(op, (ops.Iota, ops.Offset)):       # terminators stay
        return False
    for result in op.results:
        if not result.uses:
            continue
        if any(isinstance(use.operation, ops.Offset) for use in result.uses):
            return False        # so that stores stay apart
        found = stand_in(result, op)
        if found is None:
            return False
        if found[1] is not None:
            op.parent.insert_op_before(found[1], op)
        result.replace_all_uses_with(found[0])
    op.parent.erase_op(op)
    return True


def inline(op: Operation, branch: int) -> bool:
    """Replace a branch that yields by one of its sides."""
    if not isinstance(op, ops.If) or op.parent is None or not op.regions[branch].blocks:
        return False
    block = op.regions[branch].block
    end = block.last_op
    if not isinstance(end, ops.Yield):
        return False
    for inner in list(block.ops):
        if inner is not end:
            inner.detach()
            op.parent.insert_op_before(inner, op)
    for result, value in zip(op.results, end.operands):
        result.replace_all_uses_with(value)
    op.parent.erase_op(op)
    return True


def clean(module: Operation) -> None:
    """Drop pure ops that nothing uses."""
    for op in reversed(list(module.walk())):
        pure = type(op).PURE or isinstance(op, (ops.Reduce, ops.Scan, ops.LoadPtrTko, ops.LoadViewTko))  # type: ignore[attr-defined]
        if pure and op.parent is not None and op.next_op is not None and not any(r.uses for r in op.results):
            op.parent.erase_op(op)


def shrink(bytecode: bytes, fails: Callable[[bytes], bool], seconds: float = 60) -> bytes:
    """The smallest bytecode found within the time for which `fails` still holds."""
    end = time.perf_counter() + seconds
    changed = True
    while changed and time.perf_counter() < end:
        changed = False
        at = len(list(read(bytecode).walk())) - 1
        while at > 0 and time.perf_counter() < end:
            for change in (drop, lambda op: inline(op, 0), lambda op: inline(op, 1)):
                module = read(bytecode)
                every = list(module.walk())
                if at >= len(every):
                    break
                if isinstance(every[at], KEPT) or not change(every[at]):
                    continue
                clean(module)
                try:
                    smaller = write(module, VERSION)
                except Exception:       # a reduction that can't be written is no reduction
                    continue
                if len(list(module.walk())) < len(every) and fails(smaller):
                    bytecode, changed = smaller, True
                    break
            at -= 1
    return bytecode


def shrunk(program: Program, config: Config, wrong: str, seconds: float = 60) -> bytes:
    """The program cut down as far as it fails like `wrong` (`kind: ...`, and the same exception)."""
    def signature(text: str) -> str:
        return text.split(":")[0] if text.startswith("mismatch") else ":".join(text.split(":")[:2]) + text.rpartition("(")[2]

    def fails(candidate: bytes) -> bool:
        try:
            with time_limit(20):
                from tileiras.dialects.cuda_tile.verify import verify_program
                verify_program(read(candidate))
                want = reference(candidate, program.grid, program.arguments())
        except Exception:
            return False
        return signature(failure(candidate, program.grid, program.arguments(), want, config, 20,
                                 loose=program.loose)) == signature(wrong)
    start = write(program.module, VERSION)
    return shrink(start, fails, seconds) if fails(start) else start


def report(program: Program, config: Config, wrong: str, keep: pathlib.Path | None, seconds: float = 60) -> str:
    """The text of what is left, which is written to `keep` too."""
    left = shrunk(program, config, wrong, seconds)
    try:
        wrong = failure(left, program.grid, program.arguments(),
                        reference(left, program.grid, program.arguments()), config, loose=program.loose)
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    text = f"// seed {program.seed} {config[0]} -O{config[1]}, grid {program.grid}: {wrong}\n{read(left)!s}"
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{program.seed}.tileirbc").write_bytes(left)
        (keep / f"{program.seed}.mlir").write_text(text)
    return text
