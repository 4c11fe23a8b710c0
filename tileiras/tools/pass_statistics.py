"""What each pass did to a module, in numbers: which ops there are more or fewer of behind it.

    cse                             412 ops, 31 fewer
      - 24  arith.constant
      -  7  arith.addi
    stage-operands                  401 ops, 20 more
      +  8  nv_tileas.alloc_tensor
      ...

Passes that run several times have a row for each time. A conversion renames ops: its row says how many it left of each level.
"""
from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

FORMS = ("list", "json")
_NAME_WIDTH = 32


@dataclass(frozen=True)
class PassCount:
    """How many ops of each name stood before and behind a pass."""

    name: str
    before: Counter[str]
    after: Counter[str]

    @property
    def changes(self) -> dict[str, int]:
        """By op: how many more; negative for fewer. The largest changes first, then by name."""
        found = {op: self.after[op] - self.before[op] for op in self.before.keys() | self.after.keys()}
        return {op: n for op, n in sorted(found.items(), key=lambda item: (-abs(item[1]), item[0])) if n}


def count_ops(module: Any) -> Counter[str]:
    """The ops of a module by name, itself among them."""
    return Counter(op.name for op in module.walk())


def report(counts: list[PassCount], form: str) -> str:
    """As text; `form` is one of FORMS."""
    if form == "json":
        rows = [{"pass": c.name, "before": c.before.total(), "after": c.after.total(), "changes": c.changes} for c in counts]
        return json.dumps(rows, indent=2) + "\n"
    lines = []
    for c in counts:
        more = c.after.total() - c.before.total()
        words = "as many" if not more else f"{abs(more)} {'more' if more > 0 else 'fewer'}"
        lines.append(f"{c.name:<{_NAME_WIDTH}}{c.after.total()} ops, {words}\n")
        lines += [f"  {'+' if n > 0 else '-'} {abs(n):4}  {op}\n" for op, n in c.changes.items()]
    return "".join(lines)
