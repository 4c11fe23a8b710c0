"""A product and a sum round each for itself: contraction happens where the program says `fma`, and nowhere else.

The public definition gives every op its rounding; its optimizer fuses only when asked (`fuse-fma`, "non-numeric-preserving").
The original keeps to that too: what looks contracted in its code was `fma` in the frontend's bytecode.
"""
from __future__ import annotations

import subprocess

import pytest

import tileiras
from bench import cubin
from tests.sim import reference
from tileiras.bytecode import write
from tileiras.dialects.cuda_tile.asm_parse import parse_module

PROGRAM = """
cuda_tile.module @m {{
  entry @k(%p: tile<ptr<{t}>>, %q: tile<ptr<{t}>>) {{
    %w = make_tensor_view %p, shape = [384], strides = [1] : tensor_view<384x{t}, strides=[1]>
    %v = make_partition_view %w : {three}
    %u = make_tensor_view %q, shape = [128], strides = [1] : tensor_view<128x{t}, strides=[1]>
    %r = make_partition_view %u : {one}
    %i0 = constant <i32: 0> : tile<i32>
    %i1 = constant <i32: 1> : tile<i32>
    %i2 = constant <i32: 2> : tile<i32>
    %a, %t1 = load_view_tko weak %v[%i0] : {three}, tile<i32> -> tile<128x{t}>, token
    %b, %t2 = load_view_tko weak %v[%i1] : {three}, tile<i32> -> tile<128x{t}>, token
    %c, %t3 = load_view_tko weak %v[%i2] : {three}, tile<i32> -> tile<128x{t}>, token
    {ops}
    %e = store_view_tko weak %s, %r[%i0] : tile<128x{t}>, {one}, tile<i32> -> token
    return
  }}
}}
"""
TWO = "%m = mulf %a, %b : tile<128x{t}>\n    %s = {sum} : tile<128x{t}>"
ONE = "%s = fma %a, %b, %c : tile<128x{t}>"


def program(t: str, ops: str) -> bytes:
    three, one = (f"partition_view<tile=(128), tensor_view<{n}x{t}, strides=[1]>>" for n in (384, 128))
    return write(parse_module(PROGRAM.format(t=t, ops=ops, three=three, one=one)))


@pytest.mark.parametrize("t", ["f16", "f32", "f64"])
@pytest.mark.parametrize("sum_", ["addf %m, %c", "addf %c, %m", "subf %m, %c", "subf %c, %m"])
def test_a_product_in_a_sum_stays_a_product(t: str, sum_: str) -> None:
    for level in (0, 3):
        ptx = tileiras.compile(program(t, TWO.format(t=t, sum=sum_)), "sm_90", level, emit="ptx").ptx
        assert f"mul.rn.{t}" in ptx and "fma." not in ptx, level


@pytest.mark.parametrize("t", ["f16", "f32", "f64"])
def test_an_fma_is_one(t: str) -> None:
    ptx = tileiras.compile(program(t, ONE.format(t=t)), "sm_90", emit="ptx").ptx
    assert f"fma.rn.{t}" in ptx and "mul" not in "".join(line for line in ptx.splitlines() if f".{t}" in line)


@pytest.mark.skipif(reference.original() is None, reason="the original isn't installed")
def test_nor_does_the_original_contract(tmp_path) -> None:
    (tmp_path / "k.tileirbc").write_bytes(program("f32", TWO.format(t="f32", sum="addf %m, %c")))
    command = reference.original()
    assert command is not None
    subprocess.run([command, tmp_path / "k.tileirbc", "-o", tmp_path / "k.cubin", "--gpu-name", "sm_90", "--lineinfo"],
                   check=True, capture_output=True)
    [facts] = cubin.inspect((tmp_path / "k.cubin").read_bytes()).values()
    ops = {name.split(".")[0] for name in facts.opcodes}
    assert {"FMUL", "FADD"} <= ops and "FFMA" not in ops
