"""The outcomes as a page: a row for each op and types, and the functions' errors in ulp."""
from __future__ import annotations

from collections.abc import Sequence

from tests.tables.cells import COMPARISONS, Cell
from tests.tables.run import INTERPRETER, Config, Outcome

_TITLES = ((("addf", "subf", "mulf", "divf", "fma", "sqrt", "remf", "maxf", "minf", "absf", "negf", "ceil", "floor", "cmpf"),
            "Floating point"),
           (("addi", "subi", "muli", "negi", "absi", "mulhii", "divi", "remi", "maxi", "mini", "andi", "ori", "xori", "shli",
             "shri", "cmpi"), "Integers"),
           (("ftof", "ftoi", "itof", "exti", "trunci", "bitcast", "int_to_ptr", "ptr_to_ptr", "select"),
            "Conversions, and what only moves bits"))
_SHORT = {"flush_to_zero": "ftz", "propagate_nan": "nan", "nearest_int_to_zero": ""}


def _row(values: Sequence[object]) -> str:
    return "| " + " | ".join(str(v) for v in values) + " |"


def _types(cell: Cell) -> str:
    same = all(t == cell.result for t in cell.operands) or cell.op in (*COMPARISONS, "select")
    return cell.operands[-1] if same else f"{', '.join(dict.fromkeys(cell.operands))} → {cell.result}"


def _variant(cell: Cell) -> str:
    return " ".join(filter(None, (_SHORT.get(v, v) for _, v in cell.attributes)))


def _configs(configs: Sequence[Config]) -> str:
    return ", ".join(f"{gpu} -O{level}" for gpu, level in configs)


def _op_rows(name: str, outcomes: Sequence[Outcome]) -> list[str]:
    """Types with the same variants share a row."""
    by_types: dict[str, list[Outcome]] = {}
    for o in outcomes:
        if o.cell.op == name:
            by_types.setdefault(_types(o.cell), []).append(o)
    merged: dict[tuple[str, ...], list[str]] = {}
    for types, several in by_types.items():
        merged.setdefault(tuple(_variant(o.cell) for o in several), []).append(types)
    rows = []
    for variants, types in merged.items():
        several = [o for t in types for o in by_types[t]]
        passed = sum(not o.failures for o in several)
        shown = ", ".join(v or "plain" for v in variants) if any(variants) else "-"
        least = min(o.values for o in several)
        rows.append(_row([f"`{name}`", ", ".join(types), shown, f"{passed} of {len(several)}", least]))
    return rows


def _function_rows(outcomes: Sequence[Outcome]) -> list[str]:
    rows = []
    for o in outcomes:
        if not o.ulps:
            continue
        compiled = {who: e for who, e in o.ulps.items() if who != INTERPRETER}
        most = max(compiled.values(), default=0.0)
        bound = o.source if "|" in o.source else f"{o.bound:g} ({o.source})"
        rows.append(_row([f"`{o.cell.op}`", _types(o.cell), _variant(o.cell) or "-", f"{most:.3g}",
                          f"{o.ulps.get(INTERPRETER, 0.0):.2g}", bound.replace("|", "\\|"), "yes" if not o.failures else "**no**"]))
    return rows


def markdown(outcomes: Sequence[Outcome], configs: Sequence[Config]) -> str:
    failed = [o for o in outcomes if o.failures]
    lines = [
        "# Numerics",
        "Written by `make tables`. A cell is an op with its types, rounding mode and flags; all are here that the "
        "dialect's verifier allows, but for types that only 13.5 knows. Each cell is compiled for "
        f"{_configs(configs)}, accepted by `ptxas`, run in the simulator (code that differs from code already run in "
        "nothing but its target isn't run again) and in the interpreter, and both are compared with an oracle of their "
        "own: exact rationals rounded once, NumPy in a longer format, ml_dtypes, plain integers. Values are zeros of both "
        "signs, subnormals, infinities, NaN, the ends of every range, ties of every shorter format, random bits and "
        "ordinary numbers, against each other; every value of formats of up to eight bits. Values for which the language "
        "leaves the result open aren't compared; the last column says how many remain for the cell with fewest.",
        "",
        f"**{len(outcomes) - len(failed)} of {len(outcomes)} cells pass.**",
    ]
    if failed:
        lines += ["", "## What fails", ""]
        lines += [f"- `{o.cell}`: {o.failures[0]}" for o in failed]
    for names, title in _TITLES:
        lines += ["", f"## {title}", "", _row(["op", "types", "variants", "cells that pass", "values"]), "|---|---|---|---|---|"]
        for name in names:
            lines += _op_rows(name, [o for o in outcomes if not o.ulps])
    lines += [
        "", "## Functions and approximations", "",
        "Errors in units in the last place from the exact value, the largest over all configurations. The simulator "
        "computes the hardware's approximations (`ex2.approx` and its like) in float64 and rounds once, so what the "
        "hardware adds to these isn't in the figures. CUDA's guide counts from the correctly rounded result; from the "
        "exact one its bounds are half a unit more, which is how they stand here. `fpowi`: for exponents up to 16.", "",
        _row(["op", "types", "mode", "largest error", "interpreter's", "bound", "within"]), "|---|---|---|---|---|---|---|",
        *_function_rows(outcomes)]
    return "\n".join(lines) + "\n"
