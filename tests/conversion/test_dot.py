"""Products of tiles: every atom, operands in registers and in buffers, multiply-add, slices of k, batches."""
from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import Float32Type, FloatTF32Type, StringAttr

from tests.conversion.test_moves import any_layout
from tests.conversion.tiles import TYPES, Tile, run, tensor
from tileiras.dialects import nv_tileas
from tileiras.dialects.nv_tileas import AllocTensor, BufferType, SharedLayoutAttr, StoreShared
from tileiras.layout.atoms import ATOMS, MmaAtom, dot_layouts
from tileiras.layout.atoms import choose_atom as find_atom
from tileiras.layout.linear import blocked
from tileiras.layout.operands import multiply_add_buffer, multiply_add_reads, operand_buffer, unroll_of
from tileiras.layout.placement import fma_layout
from tileiras.layout.shared import SharedLayout
from tileiras.machine.targets import find_target

NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f64": np.float64, "s8": np.int8,
         "u8": np.uint8, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "f32": np.float32, "s32": np.int32}


def choose_atom(*args: Any) -> Any:
    """`find_atom`, for cases that have one."""
    return find_atom(*args)


def element_of(kind: str):
    return FloatTF32Type() if kind == "tf32" else TYPES[np.dtype(NUMPY[kind])]


def small(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Values whose products and sums are exact in every type here."""
    low = 0 if kind == "u8" else -3
    return rng.integers(low, 4, shape).astype(NUMPY[kind])


def exact(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


def to_buffer(v, shared: SharedLayout) -> list:
    alloc = AllocTensor.make([], [BufferType(v.type.element_type, SharedLayoutAttr(shared))])
    return [alloc, StoreShared.make([v, alloc.results[0]])]


def signedness(atom: MmaAtom) -> dict:
    return {f"signedness_{side}": StringAttr("unsigned" if t == "u8" else "signed")
            for side, t in (("lhs", atom.a), ("rhs", atom.b)) if t in ("s8", "u8")}


def product(atom: MmaAtom, shape: tuple[int, int, int], num_warps: int, source: str, batch: int = 0,
            k_major: bool = False, stats: dict[str, int] | None = None, gpu: str = "sm_90") -> None:
    """Compute with operands from `source`: "registers" or "buffers", and compare with NumPy."""
    m, n, k = shape
    rng = np.random.default_rng(m * n + k)
    lead = (batch,) if batch else ()
    a, b, c = (small(rng, (*lead, *s), t) for s, t in (((m, k), atom.a), ((k, n), atom.b), ((m, n), atom.acc)))
    la, lb, lc = dot_layouts(atom, m, n, k, num_warps, batch)
    attrs = {"atom": StringAttr(atom.intrinsic), **signedness(atom)}
    turns = find_target(gpu).has_ldmatrix_bytes
    if source == "registers":
        tiles = [Tile(a, la, element_of(atom.a)), Tile(b, lb, element_of(atom.b)), Tile(c, lc)]

        def from_registers(v):
            return [nv_tileas.Dot.make(v, [v[2].type], attrs)]
        build = from_registers
    else:
        rank = len(la.shape)
        order = (rank - 2, rank - 1, *range(rank - 2))
        wa = blocked(la.shape, num_warps, max(1, 16 // a.itemsize),
                     order if not k_major and source == "transposed" else None)
        wb = blocked(lb.shape, num_warps, max(1, 16 // b.itemsize), order if k_major else None)
        tiles = [Tile(a, wa, element_of(atom.a)), Tile(b, wb, element_of(atom.b)), Tile(c, lc)]

        def from_buffers(v):
            lhs = to_buffer(v[0], operand_buffer(la.shape, a.itemsize, rank - 1, wa, la, atom.k, turns))
            rhs = to_buffer(v[1], operand_buffer(lb.shape, b.itemsize, rank - 2, wb, lb, atom.k, turns))
            return [*lhs, *rhs, nv_tileas.Dot.make([lhs[0].results[0], rhs[0].results[0], v[2]], [v[2].type], attrs)]
        build = from_buffers
    [d] = run(tiles, build, num_warps, [NUMPY[atom.acc]], gpu=gpu, stats=stats)
    np.testing.assert_array_equal(exact(a) @ exact(b) + exact(c), exact(d))


@pytest.mark.parametrize("atom", ATOMS, ids=[a.intrinsic for a in ATOMS])
def test_every_atom_multiplies(atom: MmaAtom) -> None:
    product(atom, (atom.m, atom.n, atom.k), 1, "registers")
    product(atom, (2 * atom.m, 2 * atom.n, 2 * atom.k), 2, "buffers")


BYTES = [next(a for a in ATOMS if a.a == t) for t in ("s8", "u8", "e4m3", "e5m2")]


@pytest.mark.parametrize("atom", BYTES, ids=[a.a for a in BYTES])
@pytest.mark.parametrize("shape,num_warps", [((32, 64, 64), 4), ((16, 16, 32), 1), ((64, 32, 128), 8)])
def test_bytes_whose_rows_run_along_n_are_turned_by_ldmatrix(atom: MmaAtom, shape: tuple[int, int, int], num_warps: int) -> None:
    for source in ("buffers", "transposed"):
        stats: dict[str, int] = {}
        product(atom, shape, num_warps, source, stats=stats, gpu="sm_120")
        turned = sum(n for name, n in stats.items() if name.startswith("ldmatrix.sync.aligned.m16n16"))
        plain = sum(n for name, n in stats.items() if name.startswith("ldmatrix.sync.aligned.m8n8"))
        assert turned and (plain == 0) == (source == "transposed")


ONE_OF_EACH = [next(a for a in ATOMS if a.a == t) for t in ("f16", "bf16", "tf32", "f64", "s8", "e4m3")]


@pytest.mark.parametrize("atom", ONE_OF_EACH, ids=[a.a for a in ONE_OF_EACH])
@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("source", ["registers", "buffers", "transposed"])
def test_tiles_of_many_atoms(atom: MmaAtom, num_warps: int, source: str) -> None:
    product(atom, (32, 64, 64), num_warps, source)
    product(atom, (64, 16, 32), num_warps, source, k_major=True)


@pytest.mark.parametrize("atom", ONE_OF_EACH, ids=[a.a for a in ONE_OF_EACH])
@pytest.mark.parametrize("source", ["registers", "buffers", "transposed"])
@pytest.mark.parametrize("m,n", [(1, 64), (8, 32), (32, 2), (4, 4)])
def test_tiles_smaller_than_the_atom_are_held_in_copies(atom: MmaAtom, source: str, m: int, n: int) -> None:
    product(atom, (m, n, 64), 4, source)
    product(atom, (m, n, 32), 1, source, k_major=True)


@pytest.mark.parametrize("source", ["registers", "buffers"])
@pytest.mark.parametrize("batch", [1, 2, 8])
def test_batches(batch: int, source: str) -> None:
    product(choose_atom(find_target("sm_80"), "f16", "f16", "f32", 32, 32, 16), (32, 32, 16), 4, source, batch)


def test_f16_operands_come_by_ldmatrix_without_a_store_or_load_too_many() -> None:
    stats: dict[str, int] = {}
    product(choose_atom(find_target("sm_80"), "f16", "f16", "f32", 64, 64, 64), (64, 64, 64), 4, "buffers", stats=stats)
    # a warp's part is 32 x 32: per 16 of k two 16 x 16 of A and two of B, one ldmatrix.x4 each
    assert stats["ldmatrix.sync.aligned.m8n8.x4.b16.p3"] == 4 * 2
    assert stats["ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3"] == 4 * 2
    assert stats["mma.m16n8k16.row.col.f32.f32"] == 4 * 2 * 4
    assert stats["store16"] == 2 * 4
    assert "load16" not in stats


KINDS = ["f32 f32", "f64 f64", "f16 f16", "f16 f32", "bf16 f32", "s8 s32", "u8 s32", "e4m3 f32"]


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("shape", [(16, 16, 16), (32, 64, 32), (8, 4, 2), (1, 64, 64), (2, 1, 1)])
def test_multiply_add(kinds: str, shape: tuple[int, int, int]) -> None:
    ab, acc = kinds.split()
    m, n, k = shape
    for num_warps, batch in ((4, 0), (1, 2)):
        rng = np.random.default_rng(k)
        lead = (batch,) if batch else ()
        a, b, c = (small(rng, (*lead, *s), t) for s, t in (((m, k), ab), ((k, n), ab), ((m, n), acc)))
        layout = fma_layout(c.shape, num_warps)
        tiles = [Tile(a, blocked(a.shape, num_warps, 4)), Tile(b, blocked(b.shape, num_warps, 4)), Tile(c, layout)]
        attrs = {f"signedness_{side}": StringAttr("unsigned" if ab == "u8" else "signed") for side in ("lhs", "rhs")}

        def build(v, attrs=attrs):
            lhs, rhs = (to_buffer(x, SharedLayout.row_major(x.type.get_shape())) for x in v[:2])
            return [*lhs, *rhs, nv_tileas.Dot.make([lhs[0].results[0], rhs[0].results[0], v[2]], [v[2].type],
                                                   attrs if ab in ("s8", "u8") else {})]
        [d] = run(tiles, build, num_warps, [NUMPY[acc]], gpu="sm_90")
        np.testing.assert_array_equal(exact(a) @ exact(b) + exact(c), exact(d))


def test_multiply_add_from_any_accumulator_layout() -> None:
    rng = random.Random(1)
    x = np.random.default_rng(1)
    a, b, c = (small(x, s, "f32") for s in ((16, 8), (8, 32), (16, 32)))
    for _ in range(4):
        layout = any_layout(rng, c.shape, 4)
        tiles = [Tile(a, blocked(a.shape, 4)), Tile(b, blocked(b.shape, 4)), Tile(c, layout)]

        def build(v):
            lhs, rhs = (to_buffer(y, SharedLayout.row_major(y.type.get_shape())) for y in v[:2])
            return [*lhs, *rhs, nv_tileas.Dot.make([lhs[0].results[0], rhs[0].results[0], v[2]], [v[2].type])]
        [d] = run(tiles, build, 4, [np.float32])
        np.testing.assert_array_equal(exact(a) @ exact(b) + exact(c), exact(d))


@pytest.mark.parametrize("sides", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_multiply_add_from_columns(sides: tuple[int, int]) -> None:
    """Operands that threads hold in columns (1) go to buffers that suit these, and the products are the same."""
    x = np.random.default_rng(3)
    a, b, c = (small(x, s, "f32") for s in ((32, 32), (32, 64), (32, 64)))
    acc = fma_layout(c.shape, 4)
    writers = [blocked(v.shape, 4, 4, (0, 1) if side else (1, 0)) for v, side in zip((a, b), sides)]
    buffers = []
    for v, writer, k_dim in zip((a, b), writers, (1, 0)):
        reader = multiply_add_reads(v.shape, k_dim, acc, unroll_of(32, 4))
        buffers.append(multiply_add_buffer(v.shape, 4, k_dim, writer, reader, 8))
    assert (buffers[0] != SharedLayout.row_major(a.shape)) or not sides[0]

    def build(v):
        lhs, rhs = (to_buffer(y, buffer) for y, buffer in zip(v, buffers))
        return [*lhs, *rhs, nv_tileas.Dot.make([lhs[0].results[0], rhs[0].results[0], v[2]], [v[2].type])]
    [d] = run([Tile(a, writers[0]), Tile(b, writers[1]), Tile(c, acc)], build, 4, [np.float32])
    np.testing.assert_array_equal(exact(a) @ exact(b) + exact(c), exact(d))


def test_an_accumulator_in_another_layout_is_converted() -> None:
    atom = choose_atom(find_target("sm_80"), "f16", "f16", "f32", 32, 32, 16)
    x = np.random.default_rng(2)
    a, b, c = (small(x, s, t) for s, t in (((32, 16), "f16"), ((16, 32), "f16"), ((32, 32), "f32")))
    la, lb, _ = dot_layouts(atom, 32, 32, 16, 4)
    other = blocked((32, 32), 4, 2)
    [d] = run([Tile(a, la), Tile(b, lb), Tile(c, other)],
              lambda v: [nv_tileas.Dot.make(v, [tensor(other, Float32Type())], {"atom": StringAttr(atom.intrinsic)})],
              4, [np.float32])
    np.testing.assert_array_equal(exact(a) @ exact(b) + exact(c), exact(d))


def test_small_tiles_and_odd_types_have_no_atom() -> None:
    assert find_atom(find_target("sm_90"), "f32", "f32", "f32", 64, 64, 64) is None
    assert find_atom(find_target("sm_90"), "f16", "f16", "f32", 1, 4, 64) is None
    assert find_atom(find_target("sm_90"), "f16", "f16", "f32", 64, 64, 4) is None
    assert choose_atom(find_target("sm_90"), "f64", "f64", "f64", 8, 64, 64).m == 8
    assert choose_atom(find_target("sm_90"), "f64", "f64", "f64", 16, 16, 64, True, True, 4).m == 8   # not in copies
    assert choose_atom(find_target("sm_90"), "f64", "f64", "f64", 32, 16, 64, True, True, 4).m == 16
    assert find_atom(find_target("sm_75"), "bf16", "bf16", "f32", 64, 64, 64) is None
    assert choose_atom(find_target("sm_75"), "f16", "f16", "f32", 64, 64, 64).k == 8
    assert choose_atom(find_target("sm_80"), "f8E4M3FN", "f8E4M3FN", "f32", 64, 64, 64).widen == "f16"
    assert choose_atom(find_target("sm_89"), "f8E4M3FN", "f8E4M3FN", "f32", 64, 64, 64).k == 32
    assert choose_atom(find_target("sm_80"), "i8", "i8", "i32", 64, 64, 64, True, False).intrinsic == "mma.m16n8k32.row.col.s8.u8"
