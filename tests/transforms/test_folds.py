"""Every fold against the interpreter: what programs compute before and after, on zeros, extremes, infinities and NaN.

Three tables. Constants: each integer op on pairs of extreme constants, whose folded value must be the interpreter's.
Identities: each rule of `simplify` as an expression of unknown x and y, with the ops that must be gone from the IR; all
expressions of a type are one kernel, compiled at -O3, run in the simulator, and equal bit for bit (any NaN for any
other). Not done: what looks like an identity and isn't; the op must still be there, and the values agree all the same.
"""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.ir import Operation

import tileiras
from tests.fuzz.programs import difference, reference
from tests.interp.test_special_values import specials
from tileiras.bytecode import write
from tileiras.conversion.cudatile_to_tileaa.entry import run as convert
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.sim import simulate
from tileiras.transforms import dce, simplify
from tileiras.transforms.rules import constant_attr

TARGET = find_target("sm_90")
OPTIONS = CompileOptions(target=TARGET)
ARRAYS: dict[str, Any] = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16,
                          "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def simplified(text: str | Operation) -> Any:
    module = convert(parse_module(text) if isinstance(text, str) else text, OPTIONS)
    simplify.run(module)
    dce.run(module)
    return module


# --- constants ------------------------------------------------------------------------------------------------------

BINARY = ("addi {a}, {b}", "subi {a}, {b}", "muli {a}, {b}", "andi {a}, {b}", "ori {a}, {b}", "xori {a}, {b}",
          "maxi {a}, {b} signed", "maxi {a}, {b} unsigned", "mini {a}, {b} signed", "mini {a}, {b} unsigned",
          "mulhii {a}, {b}", "shli {a}, {b}", "shri {a}, {b} signed", "shri {a}, {b} unsigned",
          "divi {a}, {b} signed", "divi {a}, {b} signed rounding<negative_inf>",
          "divi {a}, {b} signed rounding<positive_inf>", "divi {a}, {b} unsigned",
          "divi {a}, {b} unsigned rounding<positive_inf>", "remi {a}, {b} signed", "remi {a}, {b} unsigned")
COMPARISONS = tuple(f"cmpi {predicate} {{a}}, {{b}}, {sign}" for sign in ("signed", "unsigned") for predicate in
                    ("equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal"))


def extremes(width: int) -> tuple[int, ...]:
    low = -(1 << (width - 1))
    return 0, 1, -1, 7, -7, low, ~low


def is_undefined(op: str, a: int, b: int, width: int) -> bool:
    """Whether the language promises nothing: division by zero, a quotient that doesn't fit, shifting out everything."""
    if op.startswith(("divi", "remi")):
        return b == 0 or (" signed" in op and b == -1 and a == -(1 << (width - 1)))
    return op.startswith(("shli", "shri")) and not 0 <= b < width


def constant_program(width: int, wanted: bool) -> tuple[str, int]:
    """All ops on all pairs of extremes that are defined (`wanted`) or not, each result stored; how many there are."""
    type_ = f"tile<i{width}>"
    lines, count = [], 0
    for op in (*BINARY, *COMPARISONS):
        for a in extremes(width):
            for b in extremes(width):
                if is_undefined(op, a, b, width) == wanted:
                    continue
                text = op.format(a=f"%a{count}", b=f"%b{count}")
                result = f"%r{count} = {text} : {type_}"
                if op in COMPARISONS:
                    result = f"%q{count} = {text} : {type_} -> tile<i1>\n"
                    result += f"%r{count} = exti %q{count} unsigned : tile<i1> -> {type_}"
                lines.append(f"""%a{count} = constant <i{width}: {a}> : {type_}
                    %b{count} = constant <i{width}: {b}> : {type_}
                    {result}
                    %n{count} = constant <i32: {count}> : tile<i32>
                    %o{count} = offset %p, %n{count} : tile<ptr<i{width}>>, tile<i32> -> tile<ptr<i{width}>>
                    %t{count} = store_ptr_tko weak %o{count}, %r{count} : tile<ptr<i{width}>>, {type_} -> token""")
                count += 1
    body = "\n".join(lines)
    return f"cuda_tile.module @m {{ entry @kernel(%p: tile<ptr<i{width}>>) {{\n{body}\nreturn }} }}", count


def stored(module: Any) -> list[Any]:
    return [op.operands[1] for op in module.walk() if isinstance(op, aa.Store)]


@pytest.mark.parametrize("width", (8, 64))
def test_integer_constants_fold_to_what_the_interpreter_says(width: int) -> None:
    text, count = constant_program(width, True)
    module = parse_module(text)
    (want,) = reference(write(module), (1,), [np.zeros(count, ARRAYS[f"i{width}"])])
    folded = [constant_attr(value) for value in stored(simplified(module))]
    assert [attr.value.data for attr in folded] == want.tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize("width", (8, 32))
def test_what_is_undefined_is_left_alone(width: int) -> None:
    text, count = constant_program(width, False)
    values = stored(simplified(text))
    assert len(values) == count and all(constant_attr(value) is None for value in values)


# --- identities -----------------------------------------------------------------------------------------------------

C = "%c = constant <{e}: {v}> : {t}\n"


def const(value: str, name: str = "%c") -> str:
    return f"{name} = constant <{{e}}: {value}> : {{t}}\n"


INTEGER_IDENTITIES: list[tuple[str, str]] = [
    ("addi", const("0") + "%r = addi %x, %c : {t}"), ("addi", const("0") + "%r = addi %c, %x : {t}"),
    ("subi", const("0") + "%r = subi %x, %c : {t}"), ("subi", "%r = subi %x, %x : {t}"),
    ("muli", const("1") + "%r = muli %x, %c : {t}"), ("muli", const("0") + "%r = muli %c, %x : {t}"),
    ("andi", const("-1") + "%r = andi %x, %c : {t}"), ("andi", const("0") + "%r = andi %x, %c : {t}"),
    ("andi", "%r = andi %x, %x : {t}"), ("ori", const("0") + "%r = ori %x, %c : {t}"),
    ("ori", const("-1") + "%r = ori %x, %c : {t}"), ("xori", "%r = xori %x, %x : {t}"),
    ("xori", const("0") + "%r = xori %x, %c : {t}"),
    ("shli", const("0") + "%r = shli %x, %c : {t}"), ("shrsi", const("0") + "%r = shri %x, %c signed : {t}"),
    ("divsi", const("1") + "%r = divi %x, %c signed : {t}"), ("divui", const("1") + "%r = divi %x, %c unsigned : {t}"),
    ("remsi", const("1") + "%r = remi %x, %c signed : {t}"), ("remui", const("1") + "%r = remi %x, %c unsigned : {t}"),
    ("maxsi", "%r = maxi %x, %x signed : {t}"), ("minui", const("0") + "%r = mini %x, %c unsigned : {t}"),
    ("maxui", const("0") + "%r = maxi %x, %c unsigned : {t}"), ("minui", const("-1") + "%r = mini %x, %c unsigned : {t}"),
    ("maxui", const("-1") + "%r = maxi %x, %c unsigned : {t}"), ("mulhiui", const("0") + "%r = mulhii %x, %c : {t}"),
    ("mulhiui", const("1") + "%r = mulhii %x, %c : {t}"),
    ("subi", "%n = negi %x : {t}\n%r = negi %n : {t}"),
    ("cmpi", "%q = cmpi less_than_or_equal %x, %x, signed : {t} -> tile<{n}xi1>\n"
             "%r = exti %q unsigned : tile<{n}xi1> -> {t}"),
    ("select", "%q = cmpi less_than %x, %y, signed : {t} -> tile<{n}xi1>\n%r = select %q, %x, %x : tile<{n}xi1>, {t}"),
    ("select", "%q = constant <i1: true> : tile<{n}xi1>\n%r = select %q, %y, %x : tile<{n}xi1>, {t}"),
    ("select", "%q = cmpi less_than %x, %y, unsigned : {t} -> tile<{n}xi1>\n%u = constant <i1: true> : tile<{n}xi1>\n"
               "%v = constant <i1: false> : tile<{n}xi1>\n%s = select %q, %u, %v : tile<{n}xi1>, tile<{n}xi1>\n"
               "%r = exti %s unsigned : tile<{n}xi1> -> {t}"),
    ("select", "%q = cmpi equal %x, %y, signed : {t} -> tile<{n}xi1>\n%r = select %q, %x, %y : tile<{n}xi1>, {t}"),
    ("select", "%q = cmpi not_equal %y, %x, unsigned : {t} -> tile<{n}xi1>\n%r = select %q, %x, %y : tile<{n}xi1>, {t}"),
    ("xori", "%q = cmpi less_than %x, %y, signed : {t} -> tile<{n}xi1>\n%u = constant <i1: true> : tile<{n}xi1>\n"
             "%v = xori %q, %u : tile<{n}xi1>\n%r = select %v, %x, %y : tile<{n}xi1>, {t}"),
    ("nothing", "%q = cmpi less_than %x, %y, signed : {t} -> tile<{n}xi1>\n%s = select %q, %x, %y : tile<{n}xi1>, {t}\n"
                "%r = select %q, %y, %s : tile<{n}xi1>, {t}"),
    ("nothing", const("-7") + const("5", "%d") + "%m = addi %x, %c : {t}\n%r = addi %m, %d : {t}"),
    ("nothing", const("-7") + const("5", "%d") + "%m = muli %x, %c : {t}\n%r = muli %m, %d : {t}"),
    ("nothing", const("3") + const("6", "%d") + "%m = xori %x, %c : {t}\n%r = xori %m, %d : {t}"),
]
"""(the op that is gone, the expression): {t} is the tile's type, {e} its element, {n} its extent."""

WIDENING: list[tuple[str, str]] = [
    ("trunci", "%m = exti %x signed : {t} -> tile<{n}xi64>\n%r = trunci %m : tile<{n}xi64> -> {t}"),
    ("trunci", "%m = exti %x unsigned : {t} -> tile<{n}xi64>\n%r = trunci %m : tile<{n}xi64> -> {t}"),
    ("nothing", "%m = exti %x signed : {t} -> tile<{n}xi32>\n%w = exti %m unsigned : tile<{n}xi32> -> tile<{n}xi64>\n"
                "%h = constant <i64: 8> : tile<{n}xi64>\n%k = shri %w, %h unsigned : tile<{n}xi64>\n"
                "%r = trunci %k : tile<{n}xi64> -> {t}"),
    ("nothing", "%m = exti %x unsigned : {t} -> tile<{n}xi32>\n%w = exti %m signed : tile<{n}xi32> -> tile<{n}xi64>\n"
                "%h = constant <i64: 8> : tile<{n}xi64>\n%k = shri %w, %h unsigned : tile<{n}xi64>\n"
                "%r = trunci %k : tile<{n}xi64> -> {t}"),
    *((f"ext{ext[0]}i", f"%m = exti %x {ext} : {{t}} -> tile<{{n}}xi64>\n%k = exti %y {ext} : {{t}} -> tile<{{n}}xi64>\n"
                        f"%q = cmpi {predicate} %m, %k, {sign} : tile<{{n}}xi64> -> tile<{{n}}xi1>\n"
                        "%r = select %q, %x, %y : tile<{n}xi1>, {t}")
      for ext in ("signed", "unsigned") for sign in ("signed", "unsigned")
      for predicate in ("equal", "less_than", "greater_than_or_equal")),
    *((f"ext{ext[0]}i", f"%m = exti %x {ext} : {{t}} -> tile<{{n}}xi64>\n%k = constant <i64: {limit}> : tile<{{n}}xi64>\n"
                        f"%q = cmpi less_than %m, %k, {sign} : tile<{{n}}xi64> -> tile<{{n}}xi1>\n"
                        "%r = select %q, %x, %y : tile<{n}xi1>, {t}")
      for ext, limits in (("signed", (100, -100)), ("unsigned", (100, 200))) for limit in limits
      for sign in ("signed", "unsigned")),
]
"""Extensions are gone from comparisons whose operands they reach by themselves or by constants that fit."""

BYTE, BIT = "tile<{n}xi8>", "tile<{n}xi1>"
TRUE_OF = "%q = cmpi less_than %x, %y, signed : {t} -> " + BIT + "\n%m = exti %q {0} : " + BIT + " -> " + BYTE + "\n"
ALSO = "%s = cmpi equal %x, %y, signed : {t} -> " + BIT + "\n%k = exti %s {0} : " + BIT + " -> " + BYTE + "\n"
ASKED = "%d = constant <i8: 0> : " + BYTE + "\n%h = cmpi {1} {2}, %d, signed : " + BYTE + " -> " + BIT + \
    "\n%r = select %h, %x, %y : " + BIT + ", {t}"


def truth(text: str, *words: str) -> str:
    """Words in place of {0}, {1}, ... and what is formatted later as it is."""
    for i, word in enumerate(words):
        text = text.replace(f"{{{i}}}", word)
    return text


TRUTHS: list[tuple[str, str]] = [
    *((f"ext{ext[0]}i", truth(TRUE_OF + ASKED, ext, predicate, "%m")) for ext in ("signed", "unsigned")
      for predicate in ("equal", "not_equal")),
    *((f"ext{ext[0]}i", truth(TRUE_OF + ALSO + f"%n = {op} %m, %k : {BYTE}\n" + ASKED, ext, "not_equal", "%n"))
      for ext in ("signed", "unsigned") for op in ("andi", "ori")),
    ("trunci", truth("%q = cmpi less_than %x, %y, unsigned : {t} -> " + BIT + "\n%v = exti %q unsigned : " + BIT +
                     " -> tile<{n}xi32>\n%m = trunci %v : tile<{n}xi32> -> " + BYTE + "\n" + ASKED, "", "not_equal", "%m")),
]
NOT_TRUTHS: list[tuple[str, str]] = [
    ("extui", truth(TRUE_OF + ALSO + f"%n = addi %m, %k : {BYTE}\n" + ASKED, "unsigned", "not_equal", "%n")),
    ("extui", truth(TRUE_OF + ALSO + f"%n = xori %m, %k : {BYTE}\n" + ASKED, "unsigned", "not_equal", "%n")),
]
"""Truth values in bytes, as C++ has them, are truth values again where they are asked for."""

FLOAT_IDENTITIES: list[tuple[str, str]] = [
    ("addf", const("-0.0") + "%r = addf %x, %c : {t}"), ("addf", const("-0.0") + "%r = addf %c, %x : {t}"),
    ("subf", const("0.0") + "%r = subf %x, %c : {t}"), ("mulf", const("1.0") + "%r = mulf %x, %c : {t}"),
    ("mulf", const("1.0") + "%r = mulf %c, %x : {t}"), ("divf", const("1.0") + "%r = divf %x, %c : {t}"),
    ("negf", "%n = negf %x : {t}\n%r = negf %n : {t}"), ("negf", "%n = negf %x : {t}\n%r = absf %n : {t}"),
    ("select", "%q = cmpf less_than ordered %x, %y : {t} -> tile<{n}xi1>\n%r = select %q, %x, %x : tile<{n}xi1>, {t}"),
    ("negf", const("-0.0") + "%n = negf %c : {t}\n%r = addf %x, %n : {t}"),
]
FLOAT_NOT: list[tuple[str, str]] = [
    ("addf", const("0.0") + "%r = addf %x, %c : {t}"), ("subf", const("-0.0") + "%r = subf %x, %c : {t}"),
    ("mulf", const("0.0") + "%r = mulf %x, %c : {t}"), ("subf", "%r = subf %x, %x : {t}"),
    ("divf", "%r = divf %x, %x : {t}"), ("divf", const("0.0") + "%r = divf %c, %x : {t}"),
    ("addf", const("-0.0") + "%r = addf %x, %c rounding<negative_inf> : {t}"),
    ("cmpf", "%q = cmpf equal ordered %x, %x : {t} -> tile<{n}xi1>\n%r = select %q, %x, %y : tile<{n}xi1>, {t}"),
    ("select", "%q = cmpf equal ordered %x, %y : {t} -> tile<{n}xi1>\n%r = select %q, %x, %y : tile<{n}xi1>, {t}"),
    ("maxf", "%r = maxf %x, %x : {t}"),
    ("addf", const("3.0") + const("0.1", "%d") + "%m = addf %x, %c : {t}\n%r = addf %m, %d : {t}"),
    ("fma", const("0.0") + "%r = fma %x, %c, %y : {t}"),
]
"""What isn't an identity: -0.0, NaN, infinities, directed rounding, the order of sums."""

FLUSHED: list[tuple[str, str]] = [
    ("mulf", const("1.0") + "%r = mulf %x, %c flush_to_zero : {t}"),
    ("addf", const("-0.0") + "%r = addf %x, %c flush_to_zero : {t}"),
]
CONVERTED: dict[str, list[tuple[str, str]]] = {
    "f32": [("convertf", "%m = ftof %x : {t} -> tile<{n}xf64>\n%r = ftof %m : tile<{n}xf64> -> {t}"),
            ("bitcast", "%m = bitcast %x : {t} -> tile<{n}xi32>\n%r = bitcast %m : tile<{n}xi32> -> {t}")],
    "f16": [("convertf", "%m = ftof %x : {t} -> tile<{n}xf32>\n%r = ftof %m : tile<{n}xf32> -> {t}")],
    "bf16": [("convertf", "%m = ftof %x : {t} -> tile<{n}xf32>\n%r = ftof %m : tile<{n}xf32> -> {t}")],
    "f64": [],
}
LOSSY: dict[str, list[tuple[str, str]]] = {
    "f32": [("convertf", f"%m = ftof %x : {{t}} -> tile<{{n}}x{narrow}>\n%r = ftof %m : tile<{{n}}x{narrow}> -> {{t}}")
            for narrow in ("f16", "bf16", "f8E5M2", "f8E4M3FN", "tf32")],
    "f16": [("convertf", "%m = ftof %x : {t} -> tile<{n}xf8E5M2>\n%r = ftof %m : tile<{n}xf8E5M2> -> {t}")],
    "f64": [("convertf", "%m = ftof %x : {t} -> tile<{n}xf32>\n%r = ftof %m : tile<{n}xf32> -> {t}")], "bf16": [],
}


def program(element: str, rows: list[tuple[str, str]], n: int) -> str:
    """One kernel of x, y and the results of all expressions, one after another."""
    t, p = f"tile<{n}x{element}>", f"tile<{n}xptr<{element}>>"

    def pointers(base: str, name: str) -> str:
        return (f"%{name}1 = reshape {base} : tile<ptr<{element}>> -> tile<1xptr<{element}>>\n"
                f"%{name}2 = broadcast %{name}1 : tile<1xptr<{element}>> -> {p}\n"
                f"%{name} = offset %{name}2, %lanes : {p}, tile<{n}xi32> -> {p}\n")

    text = f"%lanes = iota : tile<{n}xi32>\n"
    for name in "xy":
        text += pointers(f"%p{name}", f"a{name}")
        text += f"%{name}, %t{name} = load_ptr_tko weak %a{name} : {p} -> {t}, token\n"
    for k, (_, body) in enumerate(rows):
        filled = body.format(t=t, e=element, n=n)
        for name in set("cdmnqrsuvwhk"):
            filled = filled.replace(f"%{name} ", f"%{name}_{k} ").replace(f"%{name},", f"%{name}_{k},")
        text += f"{filled}\n%i{k} = constant <i32: {k * n}> : tile<i32>\n"
        text += f"%b{k} = offset %po, %i{k} : tile<ptr<{element}>>, tile<i32> -> tile<ptr<{element}>>\n"
        text += pointers(f"%b{k}", f"o{k}_")
        text += f"%z{k} = store_ptr_tko weak %o{k}_, %r_{k} : {p}, {t} -> token\n"
    pointer = f"tile<ptr<{element}>>"
    return f"cuda_tile.module @m {{ entry @kernel(%px: {pointer}, %py: {pointer}, %po: {pointer}) {{\n{text}\nreturn }} }}"


def names(text: str) -> list[str]:
    return [op.name.partition(".")[2] for op in simplified(text).walk()]


def operands(element: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    dtype = ARRAYS[element]
    if element[0] == "i":
        rng = np.random.default_rng(3)
        info = np.iinfo(dtype)
        x, y = rng.integers(info.min, info.max, (2, n), dtype, endpoint=True)
        edges = np.array(extremes(info.bits), dtype)
    else:
        x, y = (np.random.default_rng(3).standard_normal((2, n)) * 50).astype(dtype)
        edges = specials(dtype)
    x[:len(edges)], y[:len(edges)] = edges, np.roll(edges, 1)
    return x, y


FLOATS = ("f16", "bf16", "f32", "f64")
EVERYTHING: dict[str, tuple[list[tuple[str, str]], list[tuple[str, str]]]] = {
    "i8": (INTEGER_IDENTITIES + WIDENING, []), "i32": (INTEGER_IDENTITIES + TRUTHS, NOT_TRUTHS),
    "i64": (INTEGER_IDENTITIES + TRUTHS, NOT_TRUTHS),
    **{e: (FLOAT_IDENTITIES + CONVERTED[e], FLOAT_NOT + LOSSY[e] + (FLUSHED if e == "f32" else [])) for e in FLOATS},
}
"""By element: identities, and what isn't one."""


@pytest.mark.parametrize("element", EVERYTHING)
def test_folds_happen_where_they_hold_and_nowhere_else(element: str) -> None:
    done, not_done = EVERYTHING[element]
    for gone, body in done:
        assert gone not in names(program(element, [(gone, body)], 8)), body
    for kept, body in not_done:
        assert kept in names(program(element, [(kept, body)], 8)), body


@pytest.mark.parametrize("element", EVERYTHING)
def test_compiled_folds_compute_what_the_interpreter_says(element: str) -> None:
    done, not_done = EVERYTHING[element]
    rows, n = done + not_done, 64
    bytecode = write(parse_module(program(element, rows, n)))
    arguments = [*operands(element, n), np.zeros(n * len(rows), ARRAYS[element])]
    want = reference(bytecode, (1,), arguments)
    compiled = tileiras.compile(bytecode, "sm_90", 3, emit="ptx")
    got = [a.copy() for a in arguments]
    with np.errstate(all="ignore"):
        simulate(compiled.ptx, kernel="kernel", grid=(1,), args=got)
    for k, (_, body) in enumerate(rows):
        part = slice(k * n, (k + 1) * n)
        assert not difference([got[2][part]], [want[2][part]]), f"{body}\n{difference([got[2][part]], [want[2][part]])}"


# --- what the specification's page gets wrong -------------------------------------------------------------------------

def test_a_float_product_with_zero_is_not_its_accumulator() -> None:
    """0 * inf is NaN: mma of a zero operand stays."""
    text = """cuda_tile.module @m { entry @kernel(%p: tile<ptr<f32>>) {
        %a = constant <f16: 0.0> : tile<16x16xf16>
        %b = constant <f16: 1.0> : tile<16x16xf16>
        %c = constant <f32: 1.0> : tile<16x16xf32>
        %r = mmaf %a, %b, %c : tile<16x16xf16>, tile<16x16xf16>, tile<16x16xf32>
        %f = reshape %r : tile<16x16xf32> -> tile<256xf32>
        %1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
        %2 = broadcast %1 : tile<1xptr<f32>> -> tile<256xptr<f32>>
        %t = store_ptr_tko weak %2, %f : tile<256xptr<f32>>, tile<256xf32> -> token
        return } }"""
    assert any("dot" in name for name in names(text))


@pytest.mark.parametrize("mode, element, zero", [("addf", "f32", "0.0"), ("add", "i32", "0"), ("or", "i32", "0"),
                                                 ("and", "i32", "-1")])
def test_an_atomic_update_by_nothing_stays(mode: str, element: str, zero: str) -> None:
    """It orders memory, and -0.0 + 0.0 is +0.0."""
    text = f"""cuda_tile.module @m {{ entry @kernel(%p: tile<ptr<{element}>>) {{
        %z = constant <{element}: {zero}> : tile<{element}>
        %r, %t = atomic_rmw_tko acq_rel device %p, {mode}, %z : tile<ptr<{element}>>, tile<{element}> -> tile<{element}>, token
        return }} }}"""
    assert "atomic_rmw" in names(text)
