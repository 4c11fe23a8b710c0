"""Where each op stands in the program's text, for profilers that show the text beside the machine code.

    text = annotate(module)     every op's `location` becomes a TextLocAttr

The text is what `tileirdisasm` prints. Lines count from 1; a column is the op's indentation plus two, since the
original counts from 1 within the module that the text leaves out.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import UnknownLoc
from xdsl.ir import Operation

from tileiras.dialects.cuda_tile.asm_print import TextPrinter
from tileiras.dialects.cuda_tile.debug import TextLocAttr

_MARK = "\x00"
"""Never in a program's text, where strings have their control characters escaped."""


class _MarkingPrinter(TextPrinter):
    """Puts a mark before each op and remembers the ops in the order of their marks."""

    def __init__(self, root: Operation) -> None:
        super().__init__(root)
        self.ops: list[Operation] = []

    def op_text(self, op: Operation, indent: int, short: bool) -> str:
        self.ops.append(op)
        return _MARK + super().op_text(op, indent, short)


def annotate(module: Operation) -> str:
    """The program's text; ops with a known location get their place in it. Empty if no location is known."""
    if all(isinstance(op.location, UnknownLoc) for op in module.regions[0].block.ops):
        return ""
    printer = _MarkingPrinter(module)
    lines: list[str] = []
    ops = iter(printer.ops)  # filled as the text is printed
    for top in module.regions[0].block.ops:
        for line in printer.op_text(top, 0, True).split("\n"):
            head, *rest = line.split(_MARK)
            lines.append("".join([head, *rest]))
            for _ in rest:
                op: Any = next(ops)
                if not isinstance(op.location, UnknownLoc):
                    op.location = TextLocAttr(op.location, len(lines), len(head) + 2)
    return "".join(f"{line}\n" for line in lines)
