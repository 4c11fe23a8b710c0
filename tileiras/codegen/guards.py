"""Functions of libdevice that take a long way from a bound of their argument's magnitude on, and what they test there.

`quick` names the same function without the long way; the maths library makes it from the text of the whole one, by
answering the comparison that `pattern` finds with no. Where the text has no such comparison, `quick` is the whole function.
"""
from __future__ import annotations


class Guard:
    """The long way is taken for |x| >= bound."""

    __slots__ = ("bound", "function", "pattern")

    def __init__(self, function: str, bound: float, pattern: str) -> None:
        self.function, self.bound, self.pattern = function, bound, pattern

    @property
    def quick(self) -> str:
        return f"{self.function}.quick"


_SINGLE = r"fcmp oge float %[\w.]+, 1\.056150e\+05$"
_DOUBLE = r"fcmp oge double %[\w.]+, 0x41E0000000000000$"

GUARDS: dict[str, Guard] = {g.function: g for g in (
    *(Guard(f"__nv_{name}f", 105615.0, _SINGLE) for name in ("sin", "cos", "tan")),
    *(Guard(f"__nv_{name}", 2.0**31, _DOUBLE) for name in ("sin", "cos", "tan")))}

QUICK: dict[str, Guard] = {g.quick: g for g in GUARDS.values()}
