"""Division of many f32 by few: IEEE quotients, whatever numbers share a test, and one reciprocal for each denominator."""
from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Block, Region

from tests.conversion.harness import OPS
from tileiras import sim
from tileiras.codegen import compile_llvm_to_ptx
from tileiras.codegen.llvm_text import print_module
from tileiras.conversion.tileas_to_llvm.builder import F32, I32, Builder
from tileiras.conversion.tileas_to_llvm.elementwise.division import DENOMINATORS, NUMERATORS, pays, quotients
from tileiras.dialects import llvm, nv_tileas
from tileiras.machine.targets import find_target

REGISTERS = 12
THREADS = 32
LEAST, MOST = np.float32(1e-45), np.finfo(np.float32).max


def kernel(denominators: int, gpu: str) -> str:
    """LLVM IR: each thread divides REGISTERS numbers, in turn by its first, second, ... denominator."""
    entry = Block(arg_types=[llvm.ptr(llvm.GLOBAL)] * 3)
    region = Region(entry)
    b = Builder(entry)
    b.target = find_target(gpu)
    block, lane = (b.call(f"llvm.nvvm.read.ptx.sreg.{name}.x", I32, []) for name in ("ctaid", "tid"))
    thread = b.cast("zext", b.add(b.mul(block, b.i32(THREADS)), lane), llvm.integer(64))
    x, y, out = (b.gep(p, b.mul(thread, b.i64(4 * n))) for p, n in zip(entry.args, (REGISTERS, denominators, REGISTERS)))
    ys = [b.load(F32, b.gep(y, 4 * i), 4) for i in range(denominators)]
    divided = quotients(b, [b.load(F32, b.gep(x, 4 * i), 4) for i in range(REGISTERS)],
                        [ys[i % denominators] for i in range(REGISTERS)])
    for i, q in enumerate(b.unpack(divided)):
        b.store(q, b.gep(out, 4 * i), 4)
    b.ret()
    func = llvm.Func.create(regions=[region], properties={
        "sym_name": StringAttr("k"), "kernel": UnitAttr(), "launch": DictionaryAttr({"nvvm.reqntid": StringAttr(str(THREADS))})})
    return print_module(ModuleOp([func]))


def around(*values: float) -> np.ndarray:
    """Values, both neighbours of each, and all of them below zero."""
    x = np.array(values, np.float32)
    x = np.concatenate([x, np.nextafter(x, np.float32(0)), np.nextafter(x, np.float32(np.inf))])
    return np.concatenate([x, -x])


def numbers(rng: np.random.Generator, count: int, bounds: tuple[float, float]) -> np.ndarray:
    """Of any magnitude, and some special: zeros of either sign, infinities, NaN, subnormal ones, the bounds of the quick way."""
    special = np.concatenate([around(*bounds, 1.0, 2.0**-126, 2.0**-103, float(MOST)),
                              np.array([0, 0, 0, -0.0, -0.0, np.inf, -np.inf, np.nan, LEAST, -LEAST, 3 * LEAST], np.float32)])
    small = np.ldexp(rng.uniform(1, 2, (count, 1)), rng.integers(-149, 128, (count, 1))) * rng.choice([-1, 1], (count, 1))
    usual = rng.standard_normal((count, 1))
    kind = rng.integers(0, 6, (count, 1))
    drawn = np.where(kind == 0, rng.choice(special, (count, 1)), np.where(kind == 1, small, usual))
    return drawn.astype(np.float32)


@pytest.mark.parametrize("gpu", ["sm_75", "sm_90", "sm_100"])
@pytest.mark.parametrize("denominators", [1, 2, 3])
def test_quotients_are_ieee(denominators: int, gpu: str) -> None:
    rng = np.random.default_rng(denominators)
    blocks = 64
    rows = blocks * THREADS
    with np.errstate(all="ignore"):
        y = numbers(rng, rows * denominators, DENOMINATORS).reshape(rows, denominators)
        x = numbers(rng, rows * REGISTERS, NUMERATORS).reshape(rows, REGISTERS)
        x[:rows // 4] = np.abs(rng.standard_normal((rows // 4, REGISTERS)))     # the quick way
        x[rows // 8:rows // 4, 3] = rng.choice(np.array([0.0, -0.0], np.float32), rows // 8)
        y[:rows // 4] = rng.uniform(0.5, 3, (rows // 4, denominators)) * rng.choice([-1, 1], (rows // 4, denominators))
        want = x / y[:, np.arange(REGISTERS) % denominators]
    got = np.zeros_like(x)
    sim.simulate(compile_llvm_to_ptx(kernel(denominators, gpu), gpu, 3), kernel="k", grid=(blocks, 1, 1),
                 args=[x.reshape(-1), y.reshape(-1), (flat := got.reshape(-1))])
    got = flat.reshape(x.shape)
    assert (np.isnan(got) == np.isnan(want)).all()
    real = ~np.isnan(want)
    assert got[real].view(np.uint32).tolist() == want[real].view(np.uint32).tolist()


def test_the_middle_of_two_subnormal_numbers_goes_to_the_even_one() -> None:
    odd = np.arange(1, 2 * THREADS * REGISTERS, 2, dtype=np.float32)       # halves of the least number, all of them middles
    x = odd * np.float32(2.0**-126)
    y = np.full(THREADS, 2.0**24, np.float32)
    got = np.zeros_like(x)
    sim.simulate(compile_llvm_to_ptx(kernel(1, "sm_90"), "sm_90", 3), kernel="k", grid=(1, 1, 1), args=[x, y, got])
    want = ((odd.astype(np.int64) // 2 + 1) // 2 * 2) * 2.0**-149
    assert got.astype(np.float64).tolist() == want.tolist()


def test_what_is_rounded_to_a_middle_first_goes_the_way_of_its_rest() -> None:
    """Quotients next to halves of the least number, of which f32's first 24 bits say no more; negative ones, too."""
    rng = np.random.default_rng(7)
    threads = 64 * THREADS
    y = (rng.uniform(2.0**-40, 2.0**-38, threads) * rng.choice([-1, 1], threads)).astype(np.float32)
    y[::2] = rng.uniform(1, 1000, threads // 2)
    places = rng.integers(0, 2**rng.integers(1, 24, (threads, REGISTERS))) + 0.5
    with np.errstate(under="ignore"):
        x = (places * 2.0**-149 * y[:, None].astype(np.float64) * rng.choice([-1, 1], places.shape)).astype(np.float32)
        want = x / y[:, None]
        twice = (x * np.float32(2.0**72) / y[:, None]).astype(np.float32) * np.float32(2.0**-72)
    assert (twice != want).sum() > 1000        # there is something to be corrected
    got = np.zeros_like(x)
    sim.simulate(compile_llvm_to_ptx(kernel(1, "sm_90"), "sm_90", 3), kernel="k", grid=(64, 1, 1),
                 args=[x.reshape(-1), y, (flat := got.reshape(-1))])
    assert flat.view(np.uint32).tolist() == want.reshape(-1).view(np.uint32).tolist()


def test_a_denominator_has_one_reciprocal() -> None:
    ptx = compile_llvm_to_ptx(kernel(2, "sm_90"), "sm_90", 3)
    assert ptx.count("rcp.approx.ftz.f32") == 2
    assert "div." not in ptx


def test_exponentials_by_few_denominators_pay() -> None:
    b = Builder(Block())
    one, other = b.const(1.0, F32), b.const(2.0, F32)
    exponential, total = (OPS[name].make([one] * n, [F32]).results[0] for name, n in (("math.exp", 1), ("arith.addf", 2)))
    assert pays(exponential, [one] * 4) and pays(exponential, [one, other] * 4)
    assert not pays(exponential, [one] * 3) and not pays(exponential, [one, one, other, other])
    assert not pays(total, [one] * 4)
    product = nv_tileas.LoadTmem.make([one], [F32]).results[0]
    scaled = OPS["arith.mulf"].make([product, one], [F32]).results[0]
    assert pays(product, [one] * 4) and pays(scaled, [one] * 4)     # attention's sums
    assert not pays(OPS["arith.addf"].make([product, one], [F32]).results[0], [one] * 4)
