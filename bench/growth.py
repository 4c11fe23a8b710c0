"""How does compile time grow with a program? `python -m bench.growth [KIND ...] [--sizes 100,1000,10000] [--gpu-name SM]`.

Programs of so many ops on tiles, of several kinds (`KINDS`, or `all`): what a kind repeats stands below by its name. Printed are
processor seconds by pass and, from the smallest to the largest, the exponent of each; `--whole` adds LLVM and ptxas, `--short`
prints one line a kind.
"""
from __future__ import annotations

import argparse
import collections
import math
import sys
import time
from dataclasses import dataclass

from tileiras.compiler import lower
from tileiras.driver.options import SWITCHES, CompileOptions
from tileiras.errors import CompileError
from tileiras.machine.targets import find_target

_SMALL, _LARGE = 16, 64


@dataclass(frozen=True)
class Kind:
    """A program: `group`, so often that it has the ops asked for, each a link of a chain: group N makes %xN of %x(N-1).
    `ops`: how many a group has, with those in its regions. `rows`, `element`: of the tiles."""

    ops: int
    group: str
    rows: int = _SMALL
    element: str = "f32"

    def text(self, ops: int) -> str:
        """The program as text."""
        groups = max(1, ops // self.ops)
        n, e = self.rows, self.element
        array = f"tensor_view<?x{n}x{e}, strides=[{n},1]>"
        words = {"T": f"tile<{n}x{n}x{e}>", "S": f"tile<{n}x{n}xf32>", "R": f"tile<{n}x{e}>", "C": f"tile<{n}x1x{e}>", "A": array,
                 "V": f"partition_view<tile=({n}x{n}), {array}>", "rows": n, "element": e}
        parts = [_HEAD.format(**words)]
        parts += [self.group.format(n=k, before=k - 1, **words) for k in range(1, groups + 1)]
        return "".join((*parts, _TAIL.format(n=groups, **words)))


_HEAD = """cuda_tile.module @kernels {{
  entry @growth(%a: tile<ptr<{element}>>, %n: tile<i32>) {{
    %t = make_token : token
    %v = make_tensor_view %a, shape = [%n, {rows}], strides = [{rows}, 1] : tile<i32> -> {A}
    %p = make_partition_view %v : {V}
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %few = constant <i32: 8> : tile<i32>
    %none = constant <f32: 0.0> : {S}
    %x0, %t0 = load_view_tko weak %p[%bx, %zero] token = %t : {V}, tile<i32> -> {T}, token
    %s0 = mulf %none, %none : {S}
"""
_TAIL = """    %last = store_view_tko weak %x{n}, %p[%bx, %zero] token = %t : {T}, {V}, tile<i32> -> token
    return
  }}
}}
"""
_LOAD = """    %i{n} = constant <i32: {n}> : tile<i32>
    %l{n}, %q{n} = load_view_tko weak %p[%i{n}, %zero] token = %t : {V}, tile<i32> -> {T}, token
"""
_SUM = """dim=1 identities=[0.000000e+00 : f32] : {T} -> {R}
    (%lhs{n}: tile<f32>, %rhs{n}: tile<f32>) {{
      %sum{n} = addf %lhs{n}, %rhs{n} : tile<f32>
      yield %sum{n} : tile<f32>
    }}
    %h{n} = reshape %r{n} : {R} -> {C}
    %b{n} = broadcast %h{n} : {C} -> {T}
"""
_MIXED = _LOAD + """    %m{n} = mulf %l{n}, %x{before} : {T}
    %r{n} = reduce %m{n} """ + _SUM + """    %d{n} = subf %m{n}, %b{n} : {T}
    %e{n} = exp %d{n} : {T}
    %w{n} = permute %e{n} [1, 0] : {T} -> {T}
    %x{n} = addf %w{n}, %e{n} : {T}
"""
_TOWER = 16
"""Levels of a loop in a loop."""


def _tower() -> str:
    """Loops in each other, and what stands behind each."""
    lines = []
    for k in range(_TOWER):
        carried = f"c{{n}}_{k - 1}" if k else "x{before}"
        lines.append(f"    %x{{n}}_{k} = for %i{{n}}_{k} in (%zero to %n, step %one) : tile<i32> "
                     f"iter_values(%c{{n}}_{k} = %{carried}) -> ({{T}}) {{{{")
    for k in reversed(range(_TOWER)):
        inner = f"x{{n}}_{k + 1}" if k + 1 < _TOWER else f"c{{n}}_{k}"
        lines += [f"    %e{{n}}_{k} = exp %{inner} : {{T}}", f"    continue %e{{n}}_{k} : {{T}}", "    }}"]
    return "\n".join((*lines, "    %x{n} = exp %x{n}_0 : {T}", ""))


KINDS = {
    "mixed": Kind(10, _MIXED),
    "mixed in shared memory": Kind(10, _MIXED, rows=_LARGE),
    "elementwise": Kind(4, """    %m{n} = mulf %x{before}, %x0 : {T}
    %d{n} = subf %m{n}, %x{before} : {T}
    %e{n} = exp %d{n} : {T}
    %x{n} = addf %e{n}, %x{before} : {T}
"""),
    "reductions": Kind(7, "    %r{n} = reduce %x{before} " + _SUM + "    %x{n} = subf %x{before}, %b{n} : {T}\n"),
    "reductions between warps": Kind(7, "    %r{n} = reduce %x{before} " + _SUM + "    %x{n} = subf %x{before}, %b{n} : {T}\n",
                                     rows=_LARGE),
    "transposes": Kind(2, """    %w{n} = permute %x{before} [1, 0] : {T} -> {T}
    %x{n} = addf %w{n}, %x{before} : {T}
""", rows=_LARGE),
    "loads and stores": Kind(5, _LOAD + """    %x{n} = addf %l{n}, %x{before} : {T}
    %k{n} = addi %i{n}, %bx : tile<i32>
    %t{n} = store_view_tko weak %x{n}, %p[%k{n}, %zero] token = %t{before} : {T}, {V}, tile<i32> -> token
"""),
    "products": Kind(4, _LOAD + """    %s{n} = mmaf %l{n}, %x{before}, %s0 : {T}, {T}, {S}
    %x{n} = ftof %s{n} : {S} -> {T}
""", element="f16", rows=_LARGE),
    "products into one sum": Kind(4, _LOAD + """    %s{n} = mmaf %l{n}, %x0, %s{before} : {T}, {T}, {S}
    %x{n} = ftof %s{n} : {S} -> {T}
""", element="f16", rows=_LARGE),
    "loops": Kind(5, """    %x{n} = for %i{n} in (%zero to %n, step %one) : tile<i32> iter_values(%c{n} = %x{before}) -> ({T}) {{
      %l{n}, %q{n} = load_view_tko weak %p[%i{n}, %zero] token = %t : {V}, tile<i32> -> {T}, token
      %m{n} = mulf %l{n}, %c{n} : {T}
      %e{n} = exp %m{n} : {T}
      continue %e{n} : {T}
    }}
"""),
    "loops of products": Kind(6, """
    %s{n} = for %i{n} in (%zero to %n, step %one) : tile<i32> iter_values(%c{n} = %s0) -> ({S}) {{
      %l{n}, %q{n} = load_view_tko weak %p[%i{n}, %zero] token = %t : {V}, tile<i32> -> {T}, token
      %m{n} = mmaf %l{n}, %x{before}, %c{n} : {T}, {T}, {S}
      continue %m{n} : {S}
    }}
    %x{n} = ftof %s{n} : {S} -> {T}
""", element="f16", rows=_LARGE),
    "branches": Kind(6, """    %i{n} = cmpi less_than %bx, %n, signed : tile<i32> -> tile<i1>
    %x{n} = if %i{n} -> ({T}) {{
      %e{n} = exp %x{before} : {T}
      yield %e{n} : {T}
    }} else {{
      yield %x{before} : {T}
    }}
"""),
    "nested": Kind(3 * _TOWER, _tower()),
}


def program(ops: int, kind: str = "mixed") -> bytes:
    """Bytecode of a program of about so many ops on tiles."""
    from tileiras.bytecode import write
    from tileiras.dialects.cuda_tile.asm_parse import parse_module

    return write(parse_module(KINDS[kind].text(ops)))


def seconds(data: bytes, gpu_name: str, whole: bool, level: int = 3) -> dict[str, float]:
    """Processor seconds by pass."""
    options = CompileOptions(find_target(gpu_name), level, timing=[])
    start = time.process_time()
    if whole:
        from tileiras.compiler import compile_module
        compile_module(data, options)
    else:
        try:
            lower(data, options)
        except CompileError:    # as compilation itself does it
            found_so_far = list(options.timing or ())
            options = CompileOptions(find_target(gpu_name), level, timing=[], without=frozenset(SWITCHES))
            lower(data, options)
            assert options.timing is not None
            options.timing += found_so_far
    found: dict[str, float] = collections.defaultdict(float)
    for name, spent in options.timing or ():
        found[name] += spent
    return {OURS: time.process_time() - start, **found}


OURS = "all of ours"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.growth", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; default: mixed")
    parser.add_argument("--sizes", default="100,1000,10000")
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("-O", dest="level", type=int, default=3)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--short", action="store_true")
    a = parser.parse_args(argv)
    sizes = [int(size) for size in a.sizes.split(",")]
    kinds = list(KINDS) if a.kinds == ["all"] else a.kinds or ["mixed"]
    print(f"{'':<36}" + "".join(f"{size:>10}" for size in sizes) + "  exponent")
    for kind in kinds:
        seconds(program(sizes[0], kind), a.gpu_name, a.whole, a.level)     # imports
        columns = [seconds(program(size, kind), a.gpu_name, a.whole, a.level) for size in sizes]
        names = [OURS] if a.short else sorted(columns[-1], key=lambda name: -columns[-1][name])
        if len(kinds) > 1 and not a.short:
            print(f"{kind}:")
        for name in names:
            values = [column.get(name, 0.0) for column in columns]
            grows = len(sizes) > 1 and values[0] > 0 < values[-1] and math.log(values[-1] / values[0], sizes[-1] / sizes[0])
            print(f"{kind if a.short else name:<36}" + "".join(f"{value:>10.3f}" for value in values) + f"{grows:>10.2f}",
                  flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
