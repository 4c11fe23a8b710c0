"""`canonicalize` on cuda_tile: what each rule leaves, that it is valid, and that the interpreter sees no difference.

Programs take two flags, two numbers and two tiles, and store what they compute; all combinations of flags run, before
and after. What isn't done: selects on the equality of floats, results of another shape than their condition, ends that
a loop's body can't have, nested branches whose else sides differ.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileiras import interp
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.dialects.cuda_tile.asm_print import print_module
from tileiras.dialects.cuda_tile.verify import verify_module
from tileiras.transforms import canonicalize

HEAD = """cuda_tile.module @m { entry @kernel(%c: tile<i1>, %d: tile<i1>, %x: tile<i32>, %y: tile<i32>, %f: tile<f32>,
    %g: tile<f32>, %po: tile<ptr<i32>>, %pf: tile<ptr<f32>>) {
    %true = constant <i1: true> : tile<i1>
    %false = constant <i1: false> : tile<i1>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
"""
STORE = "%stored = store_ptr_tko weak %po, %r : tile<ptr<i32>>, tile<i32> -> token\nreturn } }"
STORE_FLOAT = "%stored = store_ptr_tko weak %pf, %r : tile<ptr<f32>>, tile<f32> -> token\nreturn } }"
INTEGER, FLOAT, NO_STORE = STORE, STORE_FLOAT, "return } }"


def put(name: str, slot: int) -> str:
    """Store a number at its own place: an effect that has to stay where it is."""
    return (f"%k{slot} = constant <i32: {slot}> : tile<i32>\n%a{slot} = offset %po, %k{slot} : tile<ptr<i32>>, tile<i32> -> "
            f"tile<ptr<i32>>\n%t{slot} = store_ptr_tko weak %a{slot}, {name} : tile<ptr<i32>>, tile<i32> -> token\n")


RULES: list[tuple[str, str, str, str, str]] = [
    # (name, body, end, ops that must be gone, ops that must be there)
    ("select of one value", "%r = select %c, %x, %x : tile<i1>, tile<i32>", INTEGER, "select", ""),
    ("select on true", "%r = select %true, %x, %y : tile<i1>, tile<i32>", INTEGER, "select", ""),
    ("select on false", "%r = select %false, %x, %y : tile<i1>, tile<i32>", INTEGER, "select", ""),
    ("select true false", "%q = select %c, %true, %false : tile<i1>, tile<i1>\n%r = select %q, %x, %y : tile<i1>, tile<i32>",
     INTEGER, "", "select"),
    ("select false true", "%q = select %c, %false, %true : tile<i1>, tile<i1>\n%r = exti %q signed : tile<i1> -> tile<i32>",
     INTEGER, "select", "xori"),
    ("select on equality", "%q = cmpi equal %x, %y, signed : tile<i32> -> tile<i1>\n%r = select %q, %x, %y : tile<i1>, "
     "tile<i32>", INTEGER, "select", ""),
    ("select on inequality", "%q = cmpi not_equal %y, %x, signed : tile<i32> -> tile<i1>\n%r = select %q, %x, %y : "
     "tile<i1>, tile<i32>", INTEGER, "select", ""),
    ("select on order", "%q = cmpi less_than %x, %y, signed : tile<i32> -> tile<i1>\n%r = select %q, %x, %y : tile<i1>, "
     "tile<i32>", INTEGER, "", "select"),
    ("select on equality of floats", "%q = cmpf equal ordered %f, %g : tile<f32> -> tile<i1>\n%r = select %q, %f, %g : "
     "tile<i1>, tile<f32>", FLOAT, "", "select"),
    ("select on not", "%n = xori %c, %true : tile<i1>\n%r = select %n, %x, %y : tile<i1>, tile<i32>", INTEGER, "xori",
     "select"),
    ("select in select", "%s = select %c, %x, %y : tile<i1>, tile<i32>\n%r = select %c, %two, %s : tile<i1>, tile<i32>",
     INTEGER, "", "select"),
    ("select in the other side", "%s = select %c, %x, %y : tile<i1>, tile<i32>\n%r = select %c, %s, %two : tile<i1>, "
     "tile<i32>", INTEGER, "", "select"),
    ("select one zero", "%r = select %c, %one, %zero : tile<i1>, tile<i32>", INTEGER, "select", "exti"),
    ("select zero one", "%r = select %c, %zero, %one : tile<i1>, tile<i32>", INTEGER, "select", "exti"),
    ("select of constants", "%s = constant <i1: [true, false]> : tile<2xi1>\n%u = constant <i32: [1, 2]> : tile<2xi32>\n"
     "%v = constant <i32: [3, 4]> : tile<2xi32>\n%w = select %s, %u, %v : tile<2xi1>, tile<2xi32>\n"
     "%e = extract %w[%one] : tile<2xi32> -> tile<1xi32>\n%r = reshape %e : tile<1xi32> -> tile<i32>", INTEGER, "select", ""),
    ("assume twice", "%a = assume bounded<-100, ?>, %x : tile<i32>\n%r = assume bounded<-100, ?>, %a : tile<i32>", INTEGER, "",
     "assume"),
    ("product first", "%p = mulf %f, %g : tile<f32>\n%r = addf %g, %p : tile<f32>", FLOAT, "", "addf"),
    ("if on true", "%r = if %true -> (tile<i32>) { yield %x : tile<i32> } else { yield %y : tile<i32> }", INTEGER, "if", ""),
    ("if on false without else", f"if %false {{ {put('%x', 1)} }}\n%r = addi %x, %y : tile<i32>", INTEGER, "if", ""),
    ("if on true that returns", f"if %true {{ {put('%x', 1)} return }} else {{ {put('%y', 2)} }}\n{put('%y', 3)}", NO_STORE,
     "if", ""),
    ("if to select", "%r = if %c -> (tile<i32>) { yield %x : tile<i32> } else { yield %y : tile<i32> }", INTEGER, "if",
     "select"),
    ("if to select of floats", "%r = if %c -> (tile<f32>) { yield %f : tile<f32> } else { yield %g : tile<f32> }", FLOAT, "if",
     "select"),
    ("if to select in part", "%r, %s = if %c -> (tile<i32>, tile<i32>) { %u = muli %x, %y : tile<i32>\nyield %x, %u : "
     f"tile<i32>, tile<i32> }} else {{ yield %y, %y : tile<i32>, tile<i32> }}\n{put('%s', 1)}", INTEGER, "", "select"),
    ("if with booleans", "%q = if %c -> (tile<i1>) { yield %true : tile<i1> } else { yield %false : tile<i1> }\n%r = exti %q "
     "unsigned : tile<i1> -> tile<i32>", INTEGER, "if", ""),
    ("if with booleans, negated", "%q = if %c -> (tile<i1>) { yield %false : tile<i1> } else { yield %true : tile<i1> }\n"
     "%r = exti %q unsigned : tile<i1> -> tile<i32>", INTEGER, "if", "xori"),
    ("if with tiles of booleans", "%u = constant <i1: true> : tile<2xi1>\n%v = constant <i1: false> : tile<2xi1>\n"
     "%q = if %c -> (tile<2xi1>) { yield %u : tile<2xi1> } else { yield %v : tile<2xi1> }\n%w = exti %q unsigned : "
     "tile<2xi1> -> tile<2xi32>\n%e = extract %w[%one] : tile<2xi32> -> tile<1xi32>\n%r = reshape %e : tile<1xi32> -> "
     "tile<i32>", INTEGER, "if", "broadcast"),
    ("if not", f"%n = xori %c, %true : tile<i1>\nif %n {{ {put('%x', 1)} }} else {{ {put('%y', 2)} }}", NO_STORE, "xori", "if"),
    ("if then leaves", "%r = if %c -> (tile<i32>) { return } else { yield %x : tile<i32> }", INTEGER, "yield", "if"),
    ("if else leaves", f"%r = if %c -> (tile<i32>) {{ {put('%y', 1)} yield %x : tile<i32> }} else {{ return }}", INTEGER,
     "", "if"),
    ("both leave", f"if %c {{ {put('%x', 1)} return }} else {{ {put('%y', 2)} return }}\n{put('%one', 3)}", NO_STORE, "",
     "if"),
    ("two ifs", f"%s = if %c -> (tile<i32>) {{ {put('%x', 1)} %u = addi %x, %y : tile<i32>\nyield %u : tile<i32> }} else {{ "
     f"%u = subi %x, %y : tile<i32>\nyield %u : tile<i32> }}\n%r = if %c -> (tile<i32>) {{ %u = muli %s, %two : tile<i32>\n"
     f"yield %u : tile<i32> }} else {{ {put('%s', 2)} yield %s : tile<i32> }}", INTEGER, "", "if"),
    ("two ifs, one negated", f"%n = xori %c, %true : tile<i1>\nif %c {{ {put('%x', 1)} }}\nif %n {{ {put('%y', 2)} }}", NO_STORE,
     "", "if"),
    ("two ifs, the first negated", f"%n = xori %c, %true : tile<i1>\nif %n {{ {put('%x', 1)} }}\nif %c {{ {put('%y', 2)} }} else "
     f"{{ {put('%one', 3)} }}", NO_STORE, "", "if"),
    ("two ifs, the first returns", f"if %c {{ {put('%x', 1)} return }} else {{ {put('%y', 2)} }}\nif %c {{ {put('%one', 3)} }} "
     f"else {{ {put('%two', 4)} }}", NO_STORE, "", "if"),
    ("nested ifs", f"if %c {{ if %d {{ {put('%x', 1)} }} }}", NO_STORE, "", "andi"),
    ("nested ifs that return", f"if %c {{ if %d {{ {put('%x', 1)} return }} }}\n{put('%y', 2)}", NO_STORE, "", "andi"),
    ("nested ifs with one else", f"%r = if %c -> (tile<i32>) {{ %s = if %d -> (tile<i32>) {{ {put('%x', 1)} %u = addi %x, %y : "
     "tile<i32>\nyield %u : tile<i32> } else { yield %two : tile<i32> }\nyield %s : tile<i32> } else { yield %two : tile<i32> "
     "}", INTEGER, "", "andi"),
    ("nested ifs with two elses", f"%r = if %c -> (tile<i32>) {{ %s = if %d -> (tile<i32>) {{ {put('%x', 1)} %u = addi %x, %y "
     ": tile<i32>\nyield %u : tile<i32> } else { yield %one : tile<i32> }\nyield %s : tile<i32> } else { yield %two : "
     "tile<i32> }", INTEGER, "andi", "if"),
    ("nested ifs and a value beside", f"%r = if %c -> (tile<i32>) {{ if %d {{ {put('%x', 1)} }}\nyield %x : tile<i32> }} else {{ "
     "yield %y : tile<i32> }", INTEGER, "", "select"),
    ("unused result", f"%q, %r = if %c -> (tile<i32>, tile<i32>) {{ {put('%x', 1)} %u = addi %x, %y : tile<i32>\n%v = muli %x, "
     "%y : tile<i32>\nyield %u, %v : tile<i32>, tile<i32> } else { yield %x, %y : tile<i32>, tile<i32> }", INTEGER, "addi", "if"),
    ("continue under a known condition", "%r = for %i in (%zero to %two, step %one) : tile<i32> iter_values(%v = %x) -> "
     "(tile<i32>) { if %true { %u = addi %v, %y : tile<i32>\ncontinue %u : tile<i32> }\ncontinue %zero : tile<i32> }", INTEGER,
     "if", "for"),
    ("return in a for stays in its branch", f"for %i in (%zero to %two, step %one) : tile<i32> {{ if %true {{ {put('%x', 1)} "
     f"return }}\ncontinue }}\n{put('%y', 2)}", NO_STORE, "", "if"),
    ("both leave a for", f"for %i in (%zero to %two, step %one) : tile<i32> {{ if %c {{ {put('%x', 1)} continue }} else {{ "
     f"{put('%y', 2)} return }}\n{put('%one', 3)}continue }}\n{put('%two', 4)}", NO_STORE, "", "if"),
    ("break under a known condition", "%r = loop iter_values(%v = %x) : tile<i32> -> tile<i32> { if %true { %u = addi %v, %y : "
     "tile<i32>\nbreak %u : tile<i32> }\ncontinue %v : tile<i32> }", INTEGER, "if", "loop"),
]


def canonical(text: str) -> Any:
    module = parse_module(text)
    verify_module(module)
    canonicalize.run(module)
    verify_module(module)
    return module


def outcome(module: Any, c: bool, d: bool, numbers: tuple[int, int], floats: tuple[float, float]) -> list[bytes]:
    ints, reals = np.full(8, -99, np.int32), np.full(2, -99, np.float32)
    with np.errstate(all="ignore"):
        interp.run(module, "kernel", (1,), [c, d, *numbers, *(np.float32(f) for f in floats), ints, reals],
                   check_assumptions=False, max_iterations=1000)
    reals[np.isnan(reals)] = np.nan
    return [ints.tobytes(), reals.tobytes()]


NUMBERS = ((3, 5), (7, 7), (-2**31, -1), (0, 2**31 - 1))
FLOATS = ((1.5, 2.5), (0.0, -0.0), (-0.0, 0.0), (np.nan, 1.0), (np.inf, 0.0), (-np.inf, np.inf))


@pytest.mark.parametrize(("body", "end", "gone", "there"), [row[1:] for row in RULES], ids=[row[0] for row in RULES])
def test_rule(body: str, end: str, gone: str, there: str) -> None:
    text = HEAD + body + "\n" + end
    before, after = parse_module(text), canonical(text)
    names = [op.name.removeprefix("cuda_tile.") for op in after.walk()]
    assert not gone or gone not in names
    assert not there or there in names
    inputs = [(numbers, FLOATS[i]) for i, numbers in enumerate(NUMBERS)] + [(NUMBERS[0], floats) for floats in FLOATS]
    for c in (False, True):
        for d in (False, True):
            for numbers, floats in inputs:
                assert outcome(after, c, d, numbers, floats) == outcome(before, c, d, numbers, floats), (c, d, numbers)


def test_constants_stand_once_at_the_front() -> None:
    text = HEAD + "%r = if %c -> (tile<i32>) { %u = constant <i32: 2> : tile<i32>\n%v = muli %x, %u : tile<i32>\nyield %v : " \
                  "tile<i32> } else { yield %two : tile<i32> }\n" + STORE
    ops = list(next(canonical(text).entries).entry_block.ops)
    assert [op.name for op in ops[:2]] == ["cuda_tile.constant", "cuda_tile.if"]


def test_a_second_time_changes_nothing() -> None:
    for _, body, end, _, _ in RULES:
        module = canonical(HEAD + body + "\n" + end)
        text = print_module(module)
        canonicalize.run(module)
        assert print_module(module) == text, body


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_mean_the_same(seed: int) -> None:
    """Programs with loops, branches, views and reductions from the fuzzer's generator."""
    from tests.fuzz.generate import generate
    from tests.fuzz.programs import difference, reference
    from tileiras.bytecode import read, write

    program = generate(9000 + seed)
    bytecode = write(program.module, "13.4")
    module = read(bytecode)
    canonicalize.run(module)
    verify_module(module)
    arguments = program.arguments()
    want, got = (reference(data, program.grid, arguments) for data in (bytecode, write(module, "13.4")))
    assert not difference(got, want)
