"""What random programs once found, as small as it got: each must give the interpreter's values on every path."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Region

from tests.fuzz.programs import CONFIGS, VERSION, Config, failure, reference
from tests.interp.build import ARRAYS, Kernel, name_of, pointer, tile
from tileiras.bytecode import write
from tileiras.dialects.cuda_tile import attrs, ops

every_config = pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c[0]}-O{c[1]}")
I32 = tile("i32")


def agree(make: Callable[..., Any], inputs: Sequence[np.ndarray], result: tuple[str, tuple[int, ...]], config: Config,
          grid: Sequence[int] = (1,)) -> None:
    """`make(kernel, *tiles)` computes a tile of type `result` from one tile for each array."""
    kernel = Kernel(*(pointer(name_of(a)) for a in inputs), pointer(result[0]))
    tiles = [kernel.load(kernel.args[i], name_of(a), a.shape) for i, a in enumerate(inputs)]
    kernel.store(kernel.args[-1], make(kernel, *tiles))
    arguments = [*inputs, np.zeros(result[1], ARRAYS[result[0]])]
    bytecode = write(kernel.module(), VERSION)  # type: ignore[arg-type]
    assert failure(bytecode, grid, arguments, reference(bytecode, grid, arguments), config, emit="ptx") == ""


def is_positive(kernel: Kernel, value: Any) -> Any:
    zero = kernel.constant("i32", 0)
    return kernel.add(ops.CmpI.make([value, zero], [tile("i1")], {
        "comparison_predicate": attrs.ComparisonPredicateAttr("greater_than"),
        "signedness": attrs.SignednessAttr("signed")}))


@every_config
@pytest.mark.parametrize("early", (0, 1))
def test_returns_from_loops(early: int, config: Config) -> None:
    """The original takes them, though the public dialect's verifier wants ifs only around a return."""
    def make(kernel: Kernel, condition: Any) -> Any:
        taken = is_positive(kernel, condition)

        def body() -> Any:
            leave = kernel.region([], lambda: ops.Return.make([[]]))
            kernel.add(ops.If.make([taken], [[]], {}, [leave, Region()]))
            return ops.Break.make([[]])
        kernel.add(ops.Loop.make([[]], [[]], {}, [kernel.region([], body)]))
        return kernel.constant("i32", 7)
    agree(make, [np.array(early, np.int32)], ("i32", ()), config)


@every_config
def test_one_byte_read_from_shared_memory_stays_one_byte(config: Config) -> None:
    """LLVM widened the load of a slice of one element to four bytes, three of which nobody had written."""
    def make(kernel: Kernel, values: Any, condition: Any) -> Any:
        def slice_at(i: int) -> Any:
            part = kernel.add(ops.Extract.make([values, [kernel.constant("i32", i)]], [tile("i8", 1)]))
            return ops.Yield.make([[part]])
        sides = [kernel.region([], lambda i=i: slice_at(i)) for i in (8, 31)]
        return kernel.add(ops.If.make([is_positive(kernel, condition)], [[tile("i8", 1)]], {}, sides))
    agree(make, [np.arange(32, dtype=np.int8), np.array(1, np.int32)], ("i8", (1,)), config)


@every_config
@pytest.mark.parametrize("sign", ("signed", "unsigned"))
@pytest.mark.parametrize("element", ("bf16", "f16", "f32", "f64"))
def test_booleans_as_floats(element: str, sign: str, config: Config) -> None:
    """Signed ones are -1; LLVM made 1 of them where the SM converts integers to bf16."""
    def make(kernel: Kernel, values: Any) -> Any:
        bits = kernel.add(ops.TruncI.make([values], [tile("i1", 32)], {"overflow": attrs.OverflowAttr("none")}))
        return kernel.add(ops.IToF.make([bits], [tile(element, 32)], {
            "signedness": attrs.SignednessAttr(sign), "rounding_mode": attrs.RoundingAttr("nearest_even")}))
    agree(make, [np.arange(32, dtype=np.int64)], (element, (32,)), config)


def test_a_splat_packs_into_bytes() -> None:
    """The interpreter took the tile's memory for contiguous."""
    def make(kernel: Kernel, value: Any) -> Any:
        four = kernel.add(ops.Broadcast.make([value], [tile("i16", 4)]))
        return kernel.add(ops.Pack.make([four], [tile("i8", 8)]))
    agree(make, [np.array([0x1234], np.int16)], ("i8", (8,)), ("sm_80", 3))


@every_config
@pytest.mark.parametrize("known", (0, 1))
@pytest.mark.parametrize("sign", ("signed", "unsigned"))
def test_one_bit_numbers_against_constants(sign: str, known: int, config: Config) -> None:
    """What was known of a constant true (-1) and of a comparison's result (0 or 1) made `x != true` always true."""
    signed = attrs.SignednessAttr(sign)
    bits, wide = tile("i1", 32), tile("i8", 32)

    def make(kernel: Kernel, values: Any) -> Any:
        zero = kernel.constant("i8", np.zeros(32))
        x = kernel.add(ops.CmpI.make([values, zero], [bits], {
            "comparison_predicate": attrs.ComparisonPredicateAttr("not_equal"), "signedness": signed}))
        constant = kernel.constant("i1", np.full(32, known))
        results = []
        for a, b in ((x, constant), (constant, x), (constant, constant)):
            results += [kernel.add(ops.CmpI.make([a, b], [bits], {
                "comparison_predicate": attrs.ComparisonPredicateAttr(p), "signedness": signed}))
                for p in attrs.ComparisonPredicateAttr.CASES]
            results += [kernel.add(op.make([a, b], [bits], {"signedness": signed})) for op in (ops.MaxI, ops.MinI)]
        total = zero
        three = kernel.constant("i8", np.full(32, 3))
        wrap = {"overflow": attrs.OverflowAttr("none")}
        for value in results:       # every result changes a sum of its own weight
            total = kernel.add(ops.MulI.make([total, three], [wide], wrap))
            total = kernel.add(ops.AddI.make([total, kernel.add(ops.ExtI.make([value], [wide], {"signedness": signed}))],
                                             [wide], wrap))
        return total
    agree(make, [np.arange(32, dtype=np.int8) % 2], ("i8", (32,)), config)
