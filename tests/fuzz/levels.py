"""Damaged text of every level through `tileiras-opt`: none may crash it, hang it, or go without a place.

    python -m tests.fuzz.levels --level nv_tileas --count 5000 --seed 0 --keep build/damage

Programs are random ones of `tests.fuzz.generate` and kernels of the suite, lowered to a level (those of the dialects that no pass
makes, and of nvvm, are the valid ops of their tests), printed, and damaged: as
text (lines gone, swapped, repeated; operands, types, names and numbers changed) or as IR whose print is consistent again
(values of other types, other operands, attributes changed, ops moved), which gets past the parser (of cuda_tile as text only:
`tests.fuzz.damage` changes its ops in bytecode). What still verifies
goes through the passes below. The exit code must be documented; anything but 0 comes with a diagnostic that says where.
"""
from __future__ import annotations

import argparse
import collections
import contextlib
import pathlib
import random
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerAttr, StringAttr, UnitAttr, f16, f32, i1, i8, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tests.fuzz.damage import Answers, bounded
from tests.fuzz.generate import Limits, generate
from tileiras.dialects.module_text import module_text
from tileiras.driver.options import CompileOptions
from tileiras.errors import BytecodeError, UsageError
from tileiras.machine.targets import find_target
from tileiras.pipeline import LEVELS, run

DIALECTS = ("cute", "nvvm")
"""Whose texts are read, verified and printed: cute, cute_nvgpu and cutlass; rows of nvvm in a kernel."""
ROWS = 6
"""Of nvvm in one text."""
SECONDS = 20
GPUS = ("sm_90", "sm_80", "sm_120")
LONGEST = 40_000
"""Characters of a program to damage."""


def lowered(module: Any, level: str, gpu: str, opt_level: int) -> str:
    """A cuda_tile module as text of a level."""
    if level == LEVELS[0]:
        from tileiras.dialects.cuda_tile.asm_print import print_module
        return print_module(module)
    return module_text(run(module, CompileOptions(target=find_target(gpu), opt_level=opt_level), stop_at=level))


# --- damage to text --------------------------------------------------------------------------------------------------

_TYPE = re.compile(r"\btile<[^<>]*(?:<[^<>]*>)?>|!nv_tileaa\.\w+(?:<[^<>]*>)?|!llvm\.\w+(?:<\d+>)?|tensor<[^<>]*>|vector<[^<>]*>|"
                   r"\b[if](?:1|8|16|32|64)\b")
_NAME = re.compile(r"%\w+(?:#\d+)?")
_OP = re.compile(r'"(?:arith|math|scf|nv_tileaa|nv_tileas|llvm|nvvm|cute|cute_nvgpu|cutlass)\.[\w.]+"|'
                 r'^ +(?:%[\w, ]+ = )?[a-z]\w+\b', re.MULTILINE)
_NUMBER = re.compile(r"(?<![\w%#.])-?\d+\b")
_ATTRIBUTE = re.compile(r"\b[a-z_]\w* = [^,{}<>]*,? ?")
_STRANGE = ("", "(", ")", "{", "}", "<", ">", '"', "%", "!", "#", "^bb9", "loc(", "-1", "99999999999999999999", "\x00", "é", "?",
            "tensor<", "tensor<?xf32>", "tensor<3xf32>", "tensor<0xf32>", "!nv_tileaa.ptr<>", "unit", "[]", "array<i32: 1>")
_NUMBERS = ("0", "-1", "1", "3", "7", "64", "65537", str(1 << 40), str(1 << 70))


def _replace_one(text: str, pattern: re.Pattern[str], choices: Sequence[str], rng: random.Random) -> str:
    found = list(pattern.finditer(text))
    if not found:
        return text
    match = rng.choice(found)
    return text[:match.start()] + rng.choice(choices) + text[match.end():]


def damaged_text(text: str, rng: random.Random) -> str:
    """One thing of a text changed."""
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    way = rng.randrange(11)
    if way == 0:
        del lines[at]
    elif way == 1:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif way == 2:
        lines.insert(rng.randrange(len(lines)), lines[at])
    elif way == 3:
        return text[:rng.randrange(len(text))]
    elif way == 4:
        place = rng.randrange(len(text))
        return text[:place] + rng.choice(_STRANGE) + text[place + rng.randrange(3):]
    elif way == 5:
        return _replace_one(text, _NUMBER, _NUMBERS, rng)
    elif way == 6:
        return _replace_one(text, _ATTRIBUTE, ("", "dim = 1 : i32, ", 'rounding = "up", '), rng)
    else:
        pattern = (_TYPE, _TYPE, _NAME, _OP)[way - 7]
        found = pattern.findall(text)
        return _replace_one(text, pattern, found, rng) if found else text
    return "\n".join(lines)


# --- damage to IR ----------------------------------------------------------------------------------------------------

def _other_number(value: int, rng: random.Random) -> int:
    return rng.choice((0, 1, 2, 3, -1, 7, value + 1, value - 1, 2 * value, 64, 1 << 40))


def _other_attribute(value: Attribute, pool: Sequence[Attribute], rng: random.Random) -> Attribute:
    if rng.random() < 0.3:
        return rng.choice(pool)
    if isinstance(value, IntAttr):
        return IntAttr(_other_number(value.data, rng))
    if isinstance(value, IntegerAttr):
        number = rng.choice((0, 1, 2, 3, 5))
        return IntegerAttr(number % 2 if value.type == i1 else number, value.type)
    if isinstance(value, StringAttr):
        return StringAttr(rng.choice(("", "x", "weak", "relaxed", "add", "zero", "signed", "slt", value.data * 2)))
    if isinstance(value, ArrayAttr) and value.data:
        items: list[Any] = list(value.data)
        at = rng.randrange(len(items))
        if rng.random() < 0.3:
            del items[at]
        else:
            items[at] = _other_attribute(items[at], pool, rng)
        return ArrayAttr(items)
    return rng.choice((*pool, UnitAttr(), StringAttr("x"), IntAttr(3)))


def _values(op: Operation) -> list[SSAValue]:
    return [*op.results, *(arg for region in op.regions for block in region.blocks for arg in block.args)]


def _change(ops: Sequence[Operation], types: Sequence[Attribute], attributes: Sequence[Attribute], rng: random.Random) -> None:
    op = rng.choice(ops)
    way = rng.randrange(9)
    if way < 2 and _values(op):
        Rewriter.replace_value_with_new_type(rng.choice(_values(op)), rng.choice(types))
    elif way < 4 and op.operands:
        others = _values(rng.choice(ops))
        if others:
            op.operands[rng.randrange(len(op.operands))] = rng.choice(others)
    elif way == 4 and op.operands:
        kept = list(op.operands)
        del kept[rng.randrange(len(kept))]
        op.operands = kept
    elif way in (5, 6) and op.properties:
        name = rng.choice(sorted(op.properties))
        if rng.random() < 0.2:
            del op.properties[name]
        else:
            op.properties[name] = _other_attribute(op.properties[name], attributes, rng)
    elif way == 7 and op.parent is not None:
        block = rng.choice([b for o in ops for region in o.regions for b in region.blocks] or [op.parent])
        inside = block.parent_op()
        while inside is not None and inside is not op:
            inside = inside.parent_op()
        if inside is None and block.ops:
            op.detach()
            block.insert_op_before(op, rng.choice(list(block.ops)) if len(block.ops) else op)
    elif way == 8 and op.parent is not None and not any(r.uses for r in op.results):
        op.parent.erase_op(op)


def damaged_ir(text: str, rng: random.Random) -> str:
    """One to three things of a module changed, printed."""
    from tileiras.tools.lower_text import parse_lower
    module = parse_lower(text)
    ops = [op for op in module.walk() if op.name != "builtin.module"]
    types = [*dict.fromkeys([v.type for op in ops for v in _values(op)]), i1, i8, i32, i64, f16, f32]
    attributes = list(dict.fromkeys(a for op in ops for a in op.properties.values()))
    for _ in range(rng.randint(1, 3)):
        with contextlib.suppress(Exception):       # what xDSL itself won't do to a module is no damage
            _change([op for op in ops if op.parent is not None], types, attributes, rng)
    return module_text(module)


def mutants(text: str, seed: int, count: int) -> Iterator[str]:
    """`count` damaged copies of a text, half of them as text, half of them as IR where it is a lower level's."""
    rng = random.Random(seed)
    as_text_only = "cuda_tile.module" in text
    for number in range(count):
        if number % 2 or as_text_only:
            damaged = text
            for _ in range(rng.randint(1, 2)):
                damaged = damaged_text(damaged, rng)
            yield damaged
        else:
            try:
                yield damaged_ir(text, rng)
            except BytecodeError:
                raise
            except Exception:       # what can't be printed is no text
                continue


# --- answers ---------------------------------------------------------------------------------------------------------

def answer(text: str, folder: pathlib.Path, options: Sequence[str], seconds: int = SECONDS) -> tuple[int, str]:
    """(exit code, what is wrong with the answer) of one text."""
    from tileiras.tools import tileiras_opt
    source, out = folder / "damaged.mlir", folder / "out.mlir"
    source.write_text(text)
    code, said, wrong = bounded(lambda: tileiras_opt.main([str(source), "-o", str(out), *options]), seconds, of_processor=True)
    if wrong:
        return code, wrong
    first = (said.strip().splitlines() or [""])[0]
    if code and "error: " not in first:
        return code, f"exit {code} without a diagnostic"
    if code not in (0, UsageError.exit_code) and not first.startswith("loc("):
        return code, f"no place: {first[:300]}"
    return code, "internal: " + first[:300] if "internal error" in first else ""


def sources(seed: int, levels: Sequence[str] = LEVELS) -> Iterator[tuple[str, str, str]]:
    """(origin, level, text) without end: a random program at one of the levels, a kernel of the suite at another."""
    from tests.kernels import runner
    from tests.kernels.cross_section import CROSS_SECTION
    from tileiras.bytecode import read
    rng = random.Random(seed)
    while True:
        number, level, gpu, opt_level = rng.randrange(1 << 20), rng.choice(levels), rng.choice(GPUS), rng.choice((0, 3))
        yield f"random {number}", level, lowered(generate(number, Limits(16, 256)).module, level, gpu, opt_level)
        name, level = rng.choice(CROSS_SECTION), rng.choice(levels)
        yield name, level, lowered(read(runner.export_case(name)), level, gpu, opt_level)


def dialect_sources(seed: int, dialect: str) -> Iterator[tuple[str, str, str]]:
    """(origin, dialect, text) without end, of ops that a test of the dialect has."""
    rng = random.Random(seed)
    if dialect == "cute":
        from tests.dialects import test_cute
        while True:
            name = rng.choice(sorted(test_cute.VALID))
            yield name, dialect, test_cute.module(test_cute.VALID[name])
    from tests.dialects import test_nvvm
    from tileiras.dialects import nvvm
    rows = [row for row in nvvm.rows() if not row.flight and not row.is_wait]
    while True:
        kernel, chosen = test_nvvm.Kernel(), rng.sample(rows, ROWS)
        for row in chosen:
            test_nvvm.use(kernel, row)
        kernel.b.ret()
        yield " ".join(row.name for row in chosen), dialect, module_text(kernel.module)


def campaign(count: int, seed: int, keep: pathlib.Path | None = None, batch: int = 20, progress: bool = False,
             levels: Sequence[str] = LEVELS) -> Answers:
    """Damage `count` texts of these levels. Those that make trouble go to `keep`."""
    answers = Answers()
    with tempfile.TemporaryDirectory() as name:
        found = dialect_sources(seed, levels[0]) if levels[0] in DIALECTS else sources(seed, levels)
        for number, (origin, level, text) in enumerate(found):
            if len(text) > LONGEST:
                continue
            for copy, damaged in enumerate(mutants(text, seed + number, batch)):
                if answers.count >= count:
                    return answers
                options = () if level in DIALECTS else (
                    f"--to={LEVELS[-1]}", f"--gpu-name={GPUS[copy % len(GPUS)]}", f"-O{(0, 3)[copy // 2 % 2]}")
                code, wrong = answer(damaged, pathlib.Path(name), options)
                what = f"{origin} {level} seed {seed + number} copy {copy} {' '.join(options)}: {wrong}"
                answers.note(code, what if wrong else "", progress, keep, f"{seed + number}-{copy}.{level}.mlir", damaged.encode())
    return answers


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.levels", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--level", choices=(*LEVELS, *DIALECTS), help="of this level or dialect only")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for texts that make trouble")
    a = parser.parse_args(argv)
    answers = campaign(a.count, a.seed, a.keep, progress=True, levels=(a.level,) if a.level else LEVELS)
    codes = ", ".join(f"{n} exit {c}" for c, n in sorted(collections.Counter(answers.codes).items()))
    print(f"{answers.count} damaged texts: {codes}; {len(answers.trouble)} in trouble")
    return bool(answers.trouble)


if __name__ == "__main__":
    sys.exit(main())
