"""f8E5M3FNU, an unsigned float of five exponent and three mantissa bits without infinities: interpreter and code agree.

Its numbers are written out here: code 8e + m is m * 2^-17 for e = 0 and (8 + m) * 2^(e - 18) else; 255 is NaN. The public
frontend (`_bytecode/float.py`) has the same numbers.
"""
from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr

import tileiras
from tests.interp import build
from tests.interp.build import TOKEN, WEAK, Kernel, pointer, tile
from tileiras.bytecode import read, write
from tileiras.dialects.cuda_tile import attrs, ops, types
from tileiras.machine.targets import TARGETS
from tileiras.sim import simulate

E5M3 = types.Float8E5M3FNUType()
NUMBERS = [m * 2.0 ** -17 for m in range(8)] + [(8 + m) * 2.0 ** (e - 18) for e in range(1, 32) for m in range(8)]
NUMBERS[255] = math.nan
LARGEST = 114688.0
NEAREST = {"rounding_mode": attrs.RoundingAttr("nearest_even")}


def pointers(k: Kernel, base: Any, n: int) -> Any:
    """Pointers to n elements."""
    kind = types.PointerType(E5M3)
    one = k.add(ops.Reshape.make([base], [tile(kind, 1)]))
    many = k.add(ops.Broadcast.make([one], [tile(kind, n)]))
    return k.add(ops.Offset.make([many, k.add(ops.Iota.make([], [tile("i32", n)]))], [tile(kind, n)]))


def load(k: Kernel, base: Any, n: int) -> Any:
    return k.add(ops.LoadPtrTko.make([pointers(k, base, n), None, None, None], [tile(E5M3, n), TOKEN],
                                     {"memory_ordering_semantics": WEAK}))[0]


def widening(to: str) -> Kernel:
    k = Kernel(tile(types.PointerType(E5M3)), pointer(to))
    k.store(k.args[1], k.add(ops.FToF.make([load(k, k.args[0], 256)], [tile(to, 256)], NEAREST)))
    return k


def narrowing(source: str, n: int) -> Kernel:
    k = Kernel(pointer(source), tile(types.PointerType(E5M3)))
    x = k.add(ops.FToF.make([k.load(k.args[0], source, (n,))], [tile(E5M3, n)], NEAREST))
    k.add(ops.StorePtrTko.make([pointers(k, k.args[1], n), x, None, None], [TOKEN], {"memory_ordering_semantics": WEAK}))
    return k


def results(k: Kernel, *args: np.ndarray) -> list[np.ndarray]:
    """The last array as the interpreter leaves it, and the code for three SMs at both levels."""
    module: Any = k.module()
    data = write(module, "13.4")
    found = []

    def once(run: Any) -> None:
        copies = [a.copy() for a in args]
        run(copies)
        found.append(copies[-1])
    from tileiras.interp import run as interpret
    once(lambda copies: interpret(read(data), "kernel", (1,), copies))
    for gpu in ("sm_75", "sm_90", "sm_107", "sm_120"):
        for level in (0, 3):
            ptx = tileiras.compile(data, gpu_name=gpu, opt_level=level).ptx
            once(lambda copies, ptx=ptx: simulate(ptx, args=copies))
    return found


@pytest.mark.parametrize("to", ["f32", "f64", "bf16"])
def test_every_code(to: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    for got in results(widening(to), codes, np.zeros(256, build.ARRAYS[to])):
        wide = got.astype(np.float64)
        assert wide[:255].tolist() == NUMBERS[:255] and np.isnan(wide[255])


def test_to_f16_what_is_beyond_its_range_is_infinite() -> None:
    codes = np.arange(256, dtype=np.uint8)
    for got in results(widening("f16"), codes, np.zeros(256, np.float16)):
        expected = np.array(NUMBERS)
        with np.errstate(over="ignore"):
            assert got[:255].tolist() == expected[:255].astype(np.float16).tolist()


def nearest(x: float) -> int:
    """The code of the nearest number to the magnitude, the even code of two; the largest beyond the range."""
    if math.isnan(x):
        return 255
    x = min(abs(x), LARGEST)
    return min(range(255), key=lambda code: (abs(NUMBERS[code] - x), code % 2))


@pytest.mark.parametrize("source", ["f32", "f16", "f64"])
def test_rounding(source: str) -> None:
    rng = np.random.default_rng(5)
    middles = [(a + b) / 2 for a, b in itertools.pairwise(NUMBERS[:255])]
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e30, -3.0, 2.0 ** -18, 2.0 ** -19, LARGEST, LARGEST * 1.01, 1.0]
    with np.errstate(over="ignore"):
        x = np.array([*special, *middles, *(2.0 ** rng.uniform(-20, 18, 246))]).astype(build.ARRAYS[source])
    assert len(x) == 512
    expected = [nearest(float(v)) for v in x]
    for got in results(narrowing(source, 512), x, np.zeros(512, np.uint8)):
        assert got.tolist() == expected


def scaled_product(m: int, n: int, depth: int) -> Kernel:
    """fp4 operands, one scale for 16 elements along k."""
    k = Kernel(pointer("i8"), pointer("i8"), *[tile(types.PointerType(E5M3))] * 2, pointer("f32"))

    def fp4(i: int, *shape: int) -> Any:
        count = shape[0] * shape[1]
        flat = k.add(ops.Unpack.make([k.load(k.args[i], "i8", (count // 2,))], [tile("f4E2M1FN", count)]))
        return k.add(ops.Reshape.make([flat], [tile("f4E2M1FN", *shape)]))
    left, right = fp4(0, m, depth), fp4(1, depth, n)
    blocks = depth // 16
    sa = k.add(ops.Reshape.make([load(k, k.args[2], m * blocks)], [tile(E5M3, m, blocks)]))
    sb = k.add(ops.Reshape.make([load(k, k.args[3], blocks * n)], [tile(E5M3, blocks, n)]))
    zero = k.constant("f32", np.zeros((m, n)))
    k.store(k.args[4], k.add(ops.MmaFScaled.make([left, right, zero, sa, sb], [tile("f32", m, n)])))
    return k


def scaled_operands(m: int, n: int, depth: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Small numbers, so that every sum is exact: the arguments, and the product."""
    rng = np.random.default_rng(9)
    four = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    four = np.concatenate([four, -four])
    a, b = (rng.integers(0, 16, shape) for shape in ((m, depth), (depth, n)))
    packed = [(x.reshape(-1, 2) @ [1, 16]).astype(np.uint8).view(np.int8) for x in (a, b)]
    scales = np.array([112, 120, 128, 124], np.uint8)
    sa_codes, sb_codes = (rng.choice(scales, shape) for shape in ((m, depth // 16), (depth // 16, n)))
    values = np.array(NUMBERS)
    want = (four[a] * np.repeat(values[sa_codes], 16, 1)) @ (four[b] * np.repeat(values[sb_codes], 16, 0))
    return [*packed, sa_codes, sb_codes, np.zeros((m, n), np.float32)], want


def test_scales_of_a_product() -> None:
    arguments, want = scaled_operands(16, 16, 32)
    for got in results(scaled_product(16, 16, 32), *arguments):
        assert got.tolist() == want.tolist()


@pytest.mark.parametrize("m, n", [(128, 64), (64, 32)])
def test_sm_107_multiplies_with_such_scales(m: int, n: int) -> None:
    """One instruction, whose descriptor says scale type 2: the bits that the original writes."""
    module: Any = scaled_product(m, n, 64).module()
    data = write(module, "13.4")
    made = tileiras.compile(data, gpu_name="sm_107", verify_each=True)
    assert made.ptx.count("kind::mxf4nvf4.block_scale") == 1
    assert "block_scale" not in tileiras.compile(data, gpu_name="sm_103").ptx
    arguments, want = scaled_operands(m, n, 64)
    for seed in range(5):
        copies = [a.copy() for a in arguments]
        report = simulate(made.ptx, args=copies, seed=seed)
        assert not report.findings, str(report.findings[0])
        assert copies[-1].tolist() == want.tolist()


def test_sm_107_converts_pairs() -> None:
    """Its instructions at work: two codes an instruction, by way of bf16 and from f32 or f16."""
    for k, wanted, count in ((widening("f32"), "bf16x2.ue5m3x2", 1), (narrowing("f32", 512), "satfinite.ue5m3x2.f32", 2),
                             (narrowing("f16", 512), "satfinite.ue5m3x2.f16x2", 2)):
        module: Any = k.module()
        assert tileiras.compile(write(module, "13.4"), gpu_name="sm_107").ptx.count(f"cvt.rn.{wanted}") == count


@pytest.mark.parametrize("gpu", [t.name for t in TARGETS])
def test_every_sm(gpu: str) -> None:
    for k in (widening("f32"), narrowing("f32", 64)):
        module: Any = k.module()
        assert tileiras.compile(write(module, "13.4"), gpu_name=gpu).cubin


def test_the_frontend_has_the_same_numbers() -> None:
    floats = pytest.importorskip("cuda.tile._bytecode.float")
    kinds = pytest.importorskip("cuda.tile._bytecode.type").SimpleType
    kind = next((k for k in kinds if k.name.endswith("8E5M3FNU")), None)
    if kind is None:
        pytest.skip("this frontend doesn't have the type")
    assert [floats.float_to_bits(x, kind) for x in NUMBERS[:255]] == list(range(255))


def test_memory_of_an_alloca() -> None:
    """It takes a byte an element."""
    k = Kernel(tile(types.PointerType(E5M3)), tile(types.PointerType(E5M3)))
    space = k.add(ops.Alloca.make([], [tile(types.PointerType(E5M3))], {"num_elem": IntegerAttr(64, 64),
                                                                        "alignment": IntegerAttr(16, 64)}))
    weak = {"memory_ordering_semantics": WEAK}
    token = k.add(ops.StorePtrTko.make([pointers(k, space, 64), load(k, k.args[0], 64), None, None], [TOKEN], weak))
    y = k.add(ops.LoadPtrTko.make([pointers(k, space, 64), None, None, token], [tile(E5M3, 64), TOKEN], weak))[0]
    k.add(ops.StorePtrTko.make([pointers(k, k.args[1], 64), y, None, None], [TOKEN], weak))
    codes = np.arange(100, 164, dtype=np.uint8)
    for got in results(k, codes, np.zeros(64, np.uint8)):
        assert got.tolist() == codes.tolist()


@pytest.mark.parametrize("padding, code", [("zero", 0), ("neg_zero", 0), ("nan", 255), ("pos_inf", 254), ("neg_inf", 254)])
def test_padding_of_views(padding: str, code: int) -> None:
    """40 elements, read as a tile of 64: what is past the end is the nearest that the type has."""
    k = Kernel(tile(types.PointerType(E5M3)), tile(types.PointerType(E5M3)))
    view_type = types.TensorViewType(E5M3, (40,), (1,))
    view = k.add(ops.MakeTensorView.make([k.args[0], [], []], [view_type]))
    tiles = types.PartitionViewType((64,), view_type, (0,), attrs.PaddingValueAttr(padding))
    view = k.add(ops.MakePartitionView.make([view], [tiles]))
    x = k.add(ops.LoadViewTko.make([view, [k.constant("i32", 0)], None], [tile(E5M3, 64), TOKEN],
                                   {"memory_ordering_semantics": WEAK}))[0]
    k.add(ops.StorePtrTko.make([pointers(k, k.args[1], 64), x, None, None], [TOKEN], {"memory_ordering_semantics": WEAK}))
    codes = np.arange(100, 140, dtype=np.uint8)
    for got in results(k, codes, np.zeros(64, np.uint8)):
        assert got.tolist() == [*codes, *[code] * 24]
