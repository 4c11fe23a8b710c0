"""Operands and scale factors of tcgen05.mma with block scaling: the places that layouts give them are where the instruction, as the
simulator has it, looks for them."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.sim import tcgen05kit as kit
from tileiras.layout.atoms import tensor_scaled
from tileiras.layout.atoms.tensor_scaled import PIECE_BYTES, PIECE_COLUMNS, TensorScaledAtom, column_of, scale_buffer, widened
from tileiras.layout.descriptors import address_field, byte_offset, matrix_descriptor
from tileiras.layout.shared import CanonicalTile, SharedLayout, canonical
from tileiras.machine.targets import find_target

TYPES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e2m1": ml_dtypes.float4_e2m1fn}


def codes(rng: np.random.Generator, type_: str, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Small numbers: bytes (one an element) and values."""
    values = rng.integers(-3, 4, shape).astype(np.float32).astype(TYPES[type_])
    return values.view(np.uint8), values.astype(np.float64)


def packed(x: np.ndarray, k_dim: int) -> np.ndarray:
    """Pairs along k in bytes, the first in the low half."""
    first, second = (x.take(range(i, x.shape[k_dim], 2), k_dim) for i in (0, 1))
    return first | second << 4


def placed(data: np.ndarray, layout: SharedLayout, size: int) -> np.ndarray:
    """An image of shared memory in which the bytes of a tile lie where a layout says."""
    image = np.zeros(size, np.uint8)
    for i, value in enumerate(data.reshape(-1)):
        image[layout.offset(i)] = value
    return image


def repeated(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.tile(x, [n // have for n, have in zip(shape, x.shape)])


CASES = [
    # kind, element, scale, factors a step, m, n, k, whether A and B have k contiguous
    ("mxf8f6f4", "e4m3", "ue8m0", 1, 128, 128, 128, (True, True)), ("mxf8f6f4", "e5m2", "ue8m0", 1, 128, 64, 64, (True, True)),
    ("mxf8f6f4", "e4m3", "ue8m0", 1, 128, 256, 256, (True, True)), ("mxf8f6f4", "e4m3", "ue8m0", 1, 128, 128, 128, (True, False)),
    ("mxf8f6f4", "e5m2", "ue8m0", 1, 128, 16, 256, (False, False)), ("mxf8f6f4", "e4m3", "ue8m0", 1, 64, 32, 64, (True, True)),
    ("mxf4", "e2m1", "ue8m0", 2, 128, 128, 128, (True, True)), ("mxf4", "e2m1", "ue8m0", 2, 64, 64, 256, (True, True)),
    ("mxf4nvf4", "e2m1", "ue4m3", 4, 128, 64, 128, (True, True)), ("mxf4nvf4", "e2m1", "ue4m3", 4, 64, 64, 128, (True, True)),
    ("mxf4nvf4", "e2m1", "ue8m0", 4, 64, 8, 64, (True, True)), ("mxf4nvf4", "e2m1", "ue4m3", 4, 128, 256, 512, (True, True))]


@pytest.mark.parametrize("kind,element,scale,vectors,m,n,k,contiguous", CASES)
def test_products_of_whole_tiles(kind, element, scale, vectors, m, n, k, contiguous) -> None:
    rng = np.random.default_rng(7)
    atom = TensorScaledAtom(kind, m, n, element, element, scale, vectors)
    a, av = codes(rng, element, (m, k))
    b, bv = codes(rng, element, (k, n))
    factors = k // atom.block
    scales = [rng.integers(1, 4, shape) for shape in ((m, factors), (factors, n))]
    as_bytes = [(x + 126).astype(np.uint8) if scale == "ue8m0" else x.astype(np.float32).astype(TYPES["e4m3"]).view(np.uint8)
                for x in scales]
    values = [2.0 ** (x - 1.0) if scale == "ue8m0" else x.astype(np.float64) for x in scales]
    if atom.packed:
        a, b = packed(a, 1), packed(b, 0)
    tiles = (canonical(a.shape, 8, 1 if contiguous[0] else 0, run=atom.run), canonical(b.shape, 8, 0 if contiguous[1] else 1))
    images, layouts = [], []
    for tile, data in zip(tiles, (a, b)):
        images.append(placed(data, tile.layout, max(1024, tile.num_bytes)))
    for i, (data, k_dim) in enumerate(zip(as_bytes, (1, 0))):
        rows, some = widened(data.shape[1 - k_dim], data.shape[k_dim])
        shape = (rows, some) if k_dim else (some, rows)
        layouts.append(scale_buffer(shape, k_dim, 0 if i else atom.run))
        images.append(placed(repeated(data, shape), layouts[-1], rows * some))
    starts = np.cumsum([0, *map(len, images)])
    body = _body(atom, tiles, starts, [len(image) // PIECE_BYTES for image in images[2:]], k, n)
    columns = n + PIECE_COLUMNS * (sum(map(len, images[2:])) // PIECE_BYTES)
    out, report = kit.run(body, np.zeros((128, columns), np.uint32), np.concatenate(images))
    got = out[:, :n].copy().view(np.float32)
    if m == 64:
        got = got.reshape(4, 2, 16, n)[:, 0].reshape(64, n)
    want = (av * np.repeat(values[0], atom.block, 1)) @ (bv * np.repeat(values[1], atom.block, 0))
    assert (got == want).all() and np.abs(want).max() > 8
    assert not report.findings


def _body(atom: TensorScaledAtom, tiles: tuple[CanonicalTile, CanonicalTile], starts: np.ndarray, count: list[int], k: int,
          n: int) -> str:
    """PTX of the copies of all pieces and the products of all steps."""
    lines = []
    plain = kit.descriptor(16, 128, 0)
    groups, rows = count[0], tensor_scaled.beside(n)
    for of_b in (0, 1):
        for piece in range(count[of_b]):
            column = n + of_b * PIECE_COLUMNS * groups + column_of(piece, groups, rows if of_b else 1)
            lines += [kit.matrix_at("%d2", int(starts[2 + of_b]) + PIECE_BYTES * piece, plain),
                      f"tcgen05.cp.cta_group::1.32x128b.warpx4 [%tm+{column}], %d2;"]
    lines += [kit.matrix_at(f"%d{i}", int(starts[i]), matrix_descriptor(tiles[i], 1 - i, "tcgen05")) for i in (0, 1)]
    halves = 2 if atom.packed else 1
    for step in range(k // atom.k):
        group = step * atom.vectors // 4
        sfb = n + PIECE_COLUMNS * (groups + rows * group)
        at = [address_field(byte_offset(tiles[0], (0, step * atom.k // halves))),
              address_field(byte_offset(tiles[1], (step * atom.k // halves, 0)))]
        idesc = atom.descriptor(step, tiles[0].major == 0, tiles[1].major == 1)
        lines += [f"add.u64 %d3, %d0, {at[0]};", f"add.u64 %d4, %d1, {at[1]};", f"mov.b32 %t5, {idesc};",
                  f"tcgen05.mma.cta_group::1.kind::{atom.kind}.block_scale.block{atom.block} [%tm], %d3, %d4, %t5, "
                  f"[%tm+{n + PIECE_COLUMNS * group}], [%tm+{sfb}], {'%go' if step else '%no'};"]
    return "\n".join(lines)


def test_the_choice_of_an_instruction() -> None:
    target = find_target("sm_100")

    def name(*what: object) -> str | None:
        atom = tensor_scaled.choose(target, *what)
        if atom is not None:
            assert tensor_scaled.named(atom.intrinsic) == atom
        return None if atom is None else atom.intrinsic
    assert name("f8E4M3FN", "f8E8M0FNU", 32, 128, 128, 128) == "sm100.mma_bs.mxf8f6f4.m128n128k32.f32.e4m3.e4m3.1x.ue8m0.cg1.ss"
    assert name("f8E5M2", "f8E8M0FNU", 32, 64, 64, 64) == "sm100.mma_bs.mxf8f6f4.m128n64k32.f32.e5m2.e5m2.1x.ue8m0.cg1.ss.r64"
    assert name("f4E2M1FN", "f8E8M0FNU", 32, 256, 512, 64) == "sm100.mma_bs.mxf4.m128n256k64.f32.e2m1.e2m1.2x.ue8m0.cg1.ss"
    assert name("f4E2M1FN", "f8E8M0FNU", 16, 128, 8, 64) == "sm100.mma_bs.mxf4nvf4.m128n8k64.f32.e2m1.e2m1.4x.ue8m0.cg1.ss"
    assert name("f4E2M1FN", "f8E4M3FN", 16, 128, 64, 64) == "sm100.mma_bs.mxf4nvf4.m128n64k64.f32.e2m1.e2m1.4x.ue4m3.cg1.ss"
    assert name("f4E2M1FN", "f8E4M3FN", 16, 128, 64, 32) is None        # less than a step of k
    assert name("f8E4M3FN", "f8E8M0FNU", 32, 32, 64, 64) is None        # too few rows
    assert name("f8E4M3FN", "f8E8M0FNU", 16, 128, 64, 64) is None       # no such block
    for sm in ("sm_90", "sm_120"):
        assert tensor_scaled.choose(find_target(sm), "f8E4M3FN", "f8E8M0FNU", 32, 128, 128, 128) is None


@pytest.mark.parametrize("name", [
    "mxf8f6f4.m128n128k32.f32.e4m3.e4m3.4x.ue8m0.cg1.ss", "mxf4.m128n128k64.f32.e2m1.e2m1.2x.ue4m3.cg1.ss",
    "mxf4.m128n128k32.f32.e2m1.e2m1.2x.ue8m0.cg1.ss", "mxf8f6f4.m128n512k32.f32.e4m3.e4m3.1x.ue8m0.cg1.ss",
    "mxf8f6f4.m128n24k32.f32.e4m3.e4m3.1x.ue8m0.cg1.ss", "mxf8f6f4.m64n64k32.f32.e4m3.e4m3.1x.ue8m0.cg1.ss"])
def test_instructions_that_do_not_exist(name: str) -> None:
    with pytest.raises(KeyError):
        tensor_scaled.named("sm100.mma_bs." + name)
