"""How does compile time grow with a program? `python -m bench.growth [--sizes 100,1000,10000] [--gpu-name SM] [--whole]`.

Programs of so many ops on tiles: loads, arithmetic, sums along a row, transposes, a chain through all of them. Printed are
processor seconds by pass and, from the smallest to the largest, the exponent of each; `--whole` adds LLVM and ptxas.
"""
from __future__ import annotations

import argparse
import collections
import math
import sys
import time

from tileiras.compiler import lower
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target

_HEAD = """cuda_tile.module @kernels {
  entry @growth(%a: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %v = make_tensor_view %a, shape = [%n, 16], strides = [16, 1] : tile<i32> -> tensor_view<?x16xf32, strides=[16,1]>
    %p = make_partition_view %v : partition_view<tile=(16x16), tensor_view<?x16xf32, strides=[16,1]>>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %x0, %r0 = load_view_tko weak %p[%bx, %zero] token = %t : partition_view<tile=(16x16), tensor_view<?x16xf32, strides=[16,1]>>, \
tile<i32> -> tile<16x16xf32>, token
"""
_TAIL = """    %last = store_view_tko weak %x{n}, %p[%bx, %zero] token = %t : tile<16x16xf32>, partition_view<tile=(16x16), \
tensor_view<?x16xf32, strides=[16,1]>>, tile<i32> -> token
    return
  }}
}}
"""
_GROUP = """    %i{n} = constant <i32: {n}> : tile<i32>
    %l{n}, %q{n} = load_view_tko weak %p[%i{n}, %zero] token = %t : partition_view<tile=(16x16), \
tensor_view<?x16xf32, strides=[16,1]>>, tile<i32> -> tile<16x16xf32>, token
    %m{n} = mulf %l{n}, %x{before} : tile<16x16xf32>
    %s{n} = reduce %m{n} dim=1 identities=[0.000000e+00 : f32] : tile<16x16xf32> -> tile<16xf32>
    (%lhs{n}: tile<f32>, %rhs{n}: tile<f32>) {{
      %sum{n} = addf %lhs{n}, %rhs{n} : tile<f32>
      yield %sum{n} : tile<f32>
    }}
    %h{n} = reshape %s{n} : tile<16xf32> -> tile<16x1xf32>
    %b{n} = broadcast %h{n} : tile<16x1xf32> -> tile<16x16xf32>
    %d{n} = subf %m{n}, %b{n} : tile<16x16xf32>
    %e{n} = exp %d{n} : tile<16x16xf32>
    %w{n} = permute %e{n} [1, 0] : tile<16x16xf32> -> tile<16x16xf32>
    %x{n} = addf %w{n}, %e{n} : tile<16x16xf32>
"""
OPS_A_GROUP = 10


def program(ops: int) -> bytes:
    """Bytecode of a program of about so many ops on tiles."""
    from tileiras.bytecode import write
    from tileiras.dialects.cuda_tile.asm_parse import parse_module

    groups = max(1, ops // OPS_A_GROUP)
    text = _HEAD + "".join(_GROUP.format(n=n, before=n - 1) for n in range(1, groups + 1)) + _TAIL.format(n=groups)
    return write(parse_module(text))


def seconds(data: bytes, gpu_name: str, whole: bool) -> dict[str, float]:
    """Processor seconds by pass."""
    options = CompileOptions(find_target(gpu_name), timing=[])
    start = time.process_time()
    if whole:
        from tileiras.compiler import compile_module
        compile_module(data, options)
    else:
        lower(data, options)
    found: dict[str, float] = collections.defaultdict(float)
    for name, spent in options.timing or ():
        found[name] += spent
    return {"all of ours": time.process_time() - start, **found}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.growth", description=__doc__)
    parser.add_argument("--sizes", default="100,1000,10000")
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--whole", action="store_true")
    a = parser.parse_args(argv)
    sizes = [int(size) for size in a.sizes.split(",")]
    seconds(program(sizes[0]), a.gpu_name, a.whole)     # imports
    columns = [seconds(program(size), a.gpu_name, a.whole) for size in sizes]
    print(f"{'':<36}" + "".join(f"{size:>10}" for size in sizes) + "  exponent")
    for name in sorted(columns[-1], key=lambda name: -columns[-1][name]):
        values = [column.get(name, 0.0) for column in columns]
        grows = math.log(values[-1] / values[0], sizes[-1] / sizes[0]) if len(sizes) > 1 and values[0] > 0 < values[-1] else 0.0
        print(f"{name:<36}" + "".join(f"{value:>10.3f}" for value in values) + f"{grows:>10.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
