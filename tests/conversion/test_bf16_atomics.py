"""bf16 additions where no instruction adds them atomically: a compare-and-swap loop with the sum's rounding, order and scope."""
from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tileiras
from tests.conversion.test_memory_order import semantics
from tests.interp.build import TOKEN, Kernel, pointer, tile
from tileiras.bytecode import write
from tileiras.dialects.cuda_tile import attrs, ops
from tileiras.sim import simulate

BF16 = ml_dtypes.bfloat16
ADD = attrs.AtomicRMWModeAttr("addf")


def compiled(k: Kernel, gpu: str, opt_level: int = 3) -> Any:
    module: Any = k.module()
    return tileiras.compile(write(module, "13.4"), gpu_name=gpu, opt_level=opt_level)


def adding(count: int, ordering: str, scope: str, masked: bool = False, place: int | None = None) -> Kernel:
    """x[i] is added to y[i] (or all to y[place]); the old values go to a third array."""
    k = Kernel(*[pointer("bf16")] * 3, pointer("i1"))
    x = k.load(k.args[0], "bf16", (count,))
    p = k.pointers(k.args[1], "bf16", count)
    if place is not None:
        one = k.add(ops.Offset.make([k.args[1], k.constant("i32", place)], [pointer("bf16")]))
        one = k.add(ops.Reshape.make([one], [pointer("bf16", 1)]))
        p = k.add(ops.Broadcast.make([one], [pointer("bf16", count)]))
    mask = k.load(k.args[3], "i1", (count,)) if masked else None
    how = {**semantics(ordering, scope), "mode": ADD}
    k.store(k.args[2], k.add(ops.AtomicRMWTko.make([p, x, mask, None], [tile("bf16", count), TOKEN], how))[0])
    return k


@pytest.mark.parametrize("ordering, scope, spelled", [
    ("relaxed", "tl_blk", "relaxed.cta"), ("acquire", "device", "acquire.gpu"), ("release", "sys", "release.sys"),
    ("acq_rel", "device", "acq_rel.gpu")])
def test_the_swap_carries_order_and_scope(ordering: str, scope: str, spelled: str) -> None:
    for gpu in ("sm_75", "sm_80", "sm_89"):
        ptx = compiled(adding(32, ordering, scope), gpu, opt_level=0).ptx
        assert f"atom.{spelled}.global.cas.b16" in ptx and "atom.add" not in ptx
        assert ("cvt.rn.bf16.f32" in ptx) == (gpu != "sm_75")


SPECIAL = np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x0080, 0x3F80, 0xBF80, 0x3F81, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0,
                    0x4300, 0x3C00, 0x3BFF, 0x3C01, 0x4B00, 0x7F00], np.uint16)


@pytest.mark.parametrize("gpu", ["sm_75", "sm_80"])
@pytest.mark.parametrize("opt_level", [0, 3])
def test_sums_round_to_nearest_even(gpu: str, opt_level: int) -> None:
    """Every pair of special values, each at its own place, and random ones; the old values come back."""
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)), np.uint16)
    rng = np.random.default_rng(7)
    bits = np.concatenate([pairs, rng.integers(0, 1 << 16, (512 - len(pairs), 2), dtype=np.uint16)])
    x, y, old = bits[:, 0].copy().view(BF16), bits[:, 1].copy().view(BF16), np.zeros(512, BF16)
    before = y.copy()
    with np.errstate(all="ignore"):
        expected = (x.astype(np.float64) + y.astype(np.float64)).astype(np.float32).astype(BF16)
    simulate(compiled(adding(512, "relaxed", "device"), gpu, opt_level).ptx, args=[x, y, old, np.zeros(1, np.bool_)])
    assert old.view(np.uint16).tolist() == before.view(np.uint16).tolist()
    nan = np.isnan(expected.astype(np.float32))
    assert np.array_equal(np.isnan(y.astype(np.float32)), nan)
    assert y[~nan].view(np.uint16).tolist() == expected[~nan].view(np.uint16).tolist()


@pytest.mark.parametrize("gpu", ["sm_75", "sm_86"])
@pytest.mark.parametrize("opt_level", [0, 3])
def test_all_threads_at_one_place_and_a_mask(gpu: str, opt_level: int) -> None:
    """128 threads add ones to one place, those of a mask: small integers add exactly, and each sum is seen once."""
    chosen = np.arange(128) % 3 == 0
    x, y, old = np.ones(128, BF16), np.zeros(4, BF16), np.zeros(128, BF16)
    simulate(compiled(adding(128, "acq_rel", "device", True, 2), gpu, opt_level).ptx, args=[x, y, old, chosen])
    assert y.astype(float).tolist() == [0, 0, float(chosen.sum()), 0]
    assert sorted(old[chosen].astype(int)) == list(range(chosen.sum()))
