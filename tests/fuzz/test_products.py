"""A fixed sample of loops whose products hang together, and the smallest of them that were once compiled wrongly."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.fuzz.mixed import Mixed
from tests.fuzz.nests import Nest
from tests.fuzz.products import OPERANDS, check
from tests.fuzz.programs import failure, reference
from tests.fuzz.tangled import Tangled
from tileiras.bytecode import write
from tileiras.bytecode.version import CURRENT_VERSION
from tileiras.dialects.cuda_tile.asm_parse import parse_module

SMS = ("sm_90", "sm_80", "sm_100", "sm_120", "sm_75")


@pytest.mark.parametrize("seed", range(10))
def test_products_that_hang_together(seed: int) -> None:
    assert check(seed, [(SMS[seed % len(SMS)], 3)], extents=(16, 32, 64)) == []


@pytest.mark.parametrize("seed", range(8))
def test_loops_whose_carried_tiles_change_places(seed: int) -> None:
    assert check(seed, [(SMS[seed % len(SMS)], 3)], extents=(16, 32, 64), drawn=Tangled) == []


@pytest.mark.parametrize("seed", range(8))
def test_nests_of_loops_and_branches(seed: int) -> None:
    assert check(seed, [(SMS[seed % len(SMS)], 3)], extents=(16, 32, 64), drawn=Nest) == []


@pytest.mark.parametrize("seed", range(8))
def test_nests_with_what_stands_beside_products(seed: int) -> None:
    assert check(seed, [(SMS[seed % len(SMS)], 3)], extents=(16, 32, 64), drawn=Mixed) == []


def test_products_of_two_shapes_into_one_accumulator() -> None:
    """The hardware orders the second behind the first where their shapes are the same, not else (once without a wait)."""
    assert check(200072, [("sm_90", 3)], drawn=Nest) == []


@pytest.mark.parametrize("seed", [201047, 311023])
def test_tensor_memory_and_pipe_are_there_before_the_first_product(seed: int) -> None:
    """They were made where the first pipe stood, in front of which a function or an agent had a product already."""
    assert check(seed, [("sm_100", 3)], drawn=Nest) == []


def test_a_stage_that_is_filled_though_nobody_reads_it() -> None:
    """Two loops share a ring; the second one's product isn't wanted, and other tiles must not take the ring's place meanwhile."""
    assert check(1190, [("sm_100", 3)], drawn=Tangled) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 40))
def test_products_of_larger_tiles_that_hang_together(seed: int) -> None:
    assert check(seed, [(SMS[seed % len(SMS)], level) for level in (0, 3)], extents=(32, 64, 128)) == []


@pytest.mark.parametrize("gpu, level", [("sm_80", 3), ("sm_90", 3), ("sm_90", 0), ("sm_100", 3)])
@pytest.mark.parametrize("first, second", [("f32", "f16"), ("f16", "f32"), ("f16", "bf16")])
def test_an_accumulator_that_two_instructions_share(first: str, second: str, gpu: str, level: int) -> None:
    """Products of f32 are multiplied and added by threads, the others by tensor cores, which hold sums otherwise."""
    def view(name: str, element: str) -> str:
        tensor = f"tensor_view<64x64x{element}, strides=[64,1]>"
        return f"""%{name}t = make_tensor_view %{name}, shape = [64, 64], strides = [64, 1] : {tensor}
        %{name}v = make_partition_view %{name}t : partition_view<tile=(64x64), {tensor}>"""

    def load(name: str, element: str) -> str:
        return (f"%{name}x, %{name}k = load_view_tko weak %{name}v[%zero, %zero] token = %none : partition_view<tile=(64x64), "
                f"tensor_view<64x64x{element}, strides=[64,1]>>, tile<i32> -> tile<64x64x{element}>, token")
    parts = {"a": first, "b": first, "c": second, "d": second, "o": "f32"}
    bytecode = write(parse_module(f"""cuda_tile.module @m {{
      entry @kernel({', '.join(f'%{n}: tile<ptr<{e}>>' for n, e in parts.items())}) {{
        %zero = constant <i32: 0> : tile<i32>
        %none = make_token : token
        %nothing = constant <f32: 0.0> : tile<64x64xf32>
        {chr(10).join(view(n, e) for n, e in parts.items())}
        {chr(10).join(load(n, e) for n, e in parts.items() if n != 'o')}
        %x = mmaf %ax, %bx, %nothing : tile<64x64x{first}>, tile<64x64x{first}>, tile<64x64xf32>
        %y = mmaf %cx, %dx, %x : tile<64x64x{second}>, tile<64x64x{second}>, tile<64x64xf32>
        %s = store_view_tko weak %y, %ov[%zero, %zero] token = %none : tile<64x64xf32>,
             partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
        return
      }}
    }}"""), CURRENT_VERSION)
    rng = np.random.default_rng(0)
    a, b, c, d = (rng.integers(-3, 4, (64, 64)) for _ in range(4))
    given = [x.astype(OPERANDS[e]).reshape(-1) for x, e in zip((a, b, c, d), parts.values())]
    want = [*given, (a @ b + c @ d).astype(np.float32).reshape(-1)]
    assert failure(bytecode, (1,), [*given, np.zeros(64 * 64, np.float32)], want, (gpu, level)) == ""


def one_product(shapes: dict[str, tuple[int, int, str]], body: str) -> bytes:
    """A kernel that loads each tile but the last, `out`, computes %out, and stores it."""
    views, loads = [], []
    for name, (rows, columns, element) in shapes.items():
        tensor = f"tensor_view<{rows}x{columns}x{element}, strides=[{columns},1]>"
        part = f"partition_view<tile=({rows}x{columns}), {tensor}>"
        views.append(f"""%{name}_a = assume div_by<16>, %{name}_p : tile<ptr<{element}>>
        %{name}_t = make_tensor_view %{name}_a, shape = [{rows}, {columns}], strides = [{columns}, 1] : {tensor}
        %{name}_v = make_partition_view %{name}_t : {part}""")
        t = f"tile<{rows}x{columns}x{element}>"
        at = f"%{name}_v[%zero, %zero] token = %none"
        if name == "out":
            loads.append(f"{body}\n%done = store_view_tko weak %out, {at} : {t}, {part}, tile<i32> -> token")
        else:
            loads.append(f"%{name}, %{name}_k = load_view_tko weak {at} : {part}, tile<i32> -> {t}, token")
    return write(parse_module(f"""cuda_tile.module @m {{
      entry @kernel({', '.join(f'%{n}_p: tile<ptr<{e}>>' for n, (_, _, e) in shapes.items())}) {{
        %zero = constant <i32: 0> : tile<i32>
        %none = make_token : token
        {chr(10).join([*views, *loads])}
        return
      }}
    }}"""), CURRENT_VERSION)


@pytest.mark.parametrize("gpu", ["sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("element, k", [("f8E4M3FN", 256), ("i8", 256), ("i8", 128), ("f8E4M3FN", 64)])
def test_eight_columns_of_bytes(element: str, k: int, gpu: str) -> None:
    """ldmatrix turns 16 x 16 bytes: where B has 8 columns the other half is another step of k (once an internal error)."""
    wide, op, sign, one = ("i32", "mmai", " signed signed", "1") if element == "i8" else ("f32", "mmaf", "", "1.0")
    bytecode = one_product({"a": (16, k, element), "b": (k, 8, element), "out": (16, 8, wide)},
                           f"%c = constant <{wide}: {one}> : tile<16x8x{wide}>\n%out = {op} %a, %b, %c{sign} : "
                           f"tile<16x{k}x{element}>, tile<{k}x8x{element}>, tile<16x8x{wide}>")
    rng, result = np.random.default_rng(0), np.int32 if element == "i8" else np.float32
    a, b = rng.integers(-3, 4, (16, k)), rng.integers(-3, 4, (k, 8))
    given = [x.astype(OPERANDS[element]).reshape(-1) for x in (a, b)]
    want = [*given, (a @ b + 1).astype(result).reshape(-1)]
    assert failure(bytecode, (1,), [*given, np.zeros(16 * 8, result)], want, (gpu, 3)) == ""


def test_sums_of_a_padded_tile_are_begun_with() -> None:
    """Block-scaled instructions multiply 128 rows, of which the tile has 16: what the others begin with nobody has written or looks
    at, also where their operand's room holds what another buffer left there (once a finding of the simulator)."""
    scales = {"u": (16, 2, "f8E8M0FNU"), "v": (2, 64, "f8E8M0FNU")}
    bytecode = one_product(
        {"a": (16, 64, "f8E4M3FN"), "b": (64, 64, "f8E4M3FN"), **scales, "out": (16, 64, "f32")},
        "%c = constant <f32: 1.0> : tile<16x64xf32>\n%out = mmaf_scaled %a, %b, %c, %u, %v : tile<16x64xf8E4M3FN>, "
        "tile<64x64xf8E4M3FN>, tile<16x64xf32>, tile<16x2xf8E8M0FNU>, tile<2x64xf8E8M0FNU>")
    rng = np.random.default_rng(0)
    given = [rng.integers(-3, 4, n * 64).astype(ml_dtypes.float8_e4m3fn) for n in (16, 64)]
    given += [rng.integers(127, 129, n * 2).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu) for n in (16, 64)]
    arguments = [*given, np.zeros(16 * 64, np.float32)]
    assert failure(bytecode, (1,), arguments, reference(bytecode, (1,), arguments), ("sm_100", 3)) == ""
