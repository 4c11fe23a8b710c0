"""Plain text tables: a title row, a rule, rows; numbers to the right."""
from __future__ import annotations

from collections.abc import Iterable, Sequence


def render(head: Sequence[str], rows: Iterable[Sequence[object]], indent: str = "  ") -> str:
    """The table as text. A column is set to the right where every cell but the title starts like a number."""
    body = [["" if cell is None else str(cell) for cell in row] for row in rows]
    columns = [[title, *(row[i] for row in body)] for i, title in enumerate(head)]
    widths = [max(map(len, column)) for column in columns]
    right = [all(not cell or cell[0] in "0123456789.-+<>" for cell in column[1:]) for column in columns]

    def line(cells: Sequence[str]) -> str:
        return (indent + "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right))).rstrip()

    return "\n".join([line(list(head)), indent + "  ".join("-" * w for w in widths), *map(line, body)])
