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

_MARKS = ("\x00", "\x00\x01", "\x00\x02\x00")
"""What marks an op; strings in a program have their control characters escaped, but keys of hints don't, so there are more
than one."""


class _MarkingPrinter(TextPrinter):
    """Puts a mark before each op and remembers the ops in the order of their marks."""

    def __init__(self, root: Operation, mark: str) -> None:
        super().__init__(root)
        self.mark = mark
        self.ops: list[Operation] = []

    def op_text(self, op: Operation, indent: int, short: bool) -> str:
        self.ops.append(op)
        return self.mark + super().op_text(op, indent, short)


def annotate(module: Operation) -> str:
    """The program's text in printable ASCII; ops with a known location get their place in it.

    Empty if no location is known, or if the text is made to look like marks."""
    if all(isinstance(op.location, UnknownLoc) for op in module.regions[0].block.ops):
        return ""
    for mark in _MARKS:
        printer = _MarkingPrinter(module, mark)
        text = "\n".join([printer.op_text(op, 0, True) for op in module.regions[0].block.ops])
        if text.count(mark) == len(printer.ops):
            return _place(text, mark, printer.ops)
    return ""


def _place(text: str, mark: str, ops: list[Operation]) -> str:
    """Give ops the places of their marks; the text without them."""
    lines: list[str] = []
    following = iter(ops)
    for line in text.split("\n"):
        head, *rest = line.split(mark)
        line = "".join([head, *rest])
        lines.append(line if line.isascii() and line.isprintable() else "".join(
            c if c.isascii() and c.isprintable() else "?" for c in line))
        for _ in rest:
            op: Any = next(following)
            if not isinstance(op.location, UnknownLoc):
                op.location = TextLocAttr(op.location, len(lines), len(head) + 2)
    return "".join(f"{line}\n" for line in lines)
