"""Whether optimization hints mean anything: known targets, hints the op takes, values in range.

A hint that doesn't is no error, since a file may be for a newer compiler: it is ignored, and the text tools say so on
request (`-Wunsupported-hints`, `-Werr-hints`). Source: OptimizationHintsAttr in public `Attributes.cpp`.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation

from tileiras.dialects.cuda_tile.attrs import OptimizationHintsAttr

KNOWN_KEYS = frozenset((*(f"sm_{n}" for n in (80, 86, 87, 88, 89, 90, 100, 103, 107, 110, 120, 121)), "default"))

HINTS_OF: dict[str, tuple[str, ...]] = {
    "cuda_tile.entry": ("num_cta_in_cga", "num_worker_warps_per_cta", "occupancy"),
    "cuda_tile.load_ptr_tko": ("latency",), "cuda_tile.store_ptr_tko": ("latency",),
    "cuda_tile.load_view_tko": ("latency", "allow_tma"), "cuda_tile.store_view_tko": ("latency", "allow_tma"),
}
"""The hints that each op takes."""

_WITHOUT_CLUSTERS = ("sm_80", "sm_86", "sm_87", "sm_88", "sm_89")
FAILED = "Optimization hints verification failed"
"""What `-Werr-hints` says of an op with such hints."""


def _is_flag(value: Attribute) -> bool:
    return isinstance(value, IntegerAttr) and isinstance(value.type, IntegerType) and value.type.width.data == 1


def _clusters(value: int, key: str) -> str:
    if key.startswith(_WITHOUT_CLUSTERS) and value != 1:
        return "expected 1 for"
    return _power_of_two(value, 16)


def _power_of_two(value: int, most: int) -> str:
    return "" if 0 < value <= most and value & (value - 1) == 0 else f"expected power-of-two \u2264 {most} for"


def _within(value: int, most: int) -> str:
    return "" if 1 <= value <= most else f"integer value in the range [1, {most}] is expected for"


_RULES: dict[str, Callable[[int, str], str]] = {
    "num_cta_in_cga": _clusters,
    "num_worker_warps_per_cta": lambda value, key: _power_of_two(value, 32),
    "latency": lambda value, key: _within(value, 10),
    "occupancy": lambda value, key: _within(value, 32),
}


def problem_of(name: str, value: Attribute, key: str) -> str:
    """What is wrong with one hint's value, without its name."""
    if name == "allow_tma":
        return "" if _is_flag(value) else "boolean value expected for"
    if not isinstance(value, IntegerAttr):
        return "integer value expected for"
    return _RULES[name](value.value.data, key)


def hint_problems(op: Operation) -> Iterator[str]:
    """One line for each hint of an op that has no effect."""
    hints = op.properties.get("optimization_hints")
    if not isinstance(hints, OptimizationHintsAttr):
        return
    allowed = HINTS_OF.get(op.name, ())
    for key, entry in sorted(hints.value.data.items()):
        if key not in KNOWN_KEYS:
            yield f"unknown hint key {key}"
            continue
        for name, value in sorted(entry.data.items()) if isinstance(entry, DictionaryAttr) else ():
            if name not in allowed:
                yield f"{name} is not known hint for current Operation"
            elif problem := problem_of(name, value, key):
                yield f"{problem} {key}.{name}"
