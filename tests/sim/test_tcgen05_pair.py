"""tcgen05 on pairs of CTAs (cta_group::2): products over both blocks' rows and columns, copies, shifts, commits."""
from __future__ import annotations

import numpy as np
import pytest

from tests.sim import tcgen05kit as kit
from tests.sim.test_tcgen05_mma import as_rows, k_major, matrices, place_metadata, start, words
from tests.sim.test_tcgen05_scaled import cells_of, exact_product, factors, operand
from tileiras.sim.errors import SimulationError


def pair_image(a: np.ndarray, b: np.ndarray, a_swizzle: int = 6, b_swizzle: int = 6) -> tuple[np.ndarray, int, int, int]:
    """(bytes of both blocks, A's bits, B's bits, where B is): block r has the r-th half of A's rows and of B's columns."""
    parts = []
    for r in range(2):
        a_image, a_bits = k_major(a[r * (len(a) // 2):(r + 1) * (len(a) // 2)], a_swizzle)
        b_image, b_bits = k_major(b[r * (len(b) // 2):(r + 1) * (len(b) // 2)], b_swizzle)
        room = -(-len(a_image) // 1024) * 1024
        parts.append(np.concatenate([a_image, np.zeros(room - len(a_image), np.uint8), b_image]))
    return np.stack(parts), a_bits, b_bits, room


def cell_of(i: int, j: int, m: int, n: int, sparse: bool, lane: int = 0) -> tuple[int, int, int]:
    """(block, lane, column) of D[i, j], from the figures: layout A for M=256, B for dense and C for sparse M=128."""
    if m == 256:
        return i // 128, i % 128, j
    r, row = i // 64, i % 64
    if sparse:
        return r, row // 16 * 32 + row % 16 + lane, j
    return r, row + 64 * (j >= n // 2), j % (n // 2)


def spread(d: np.ndarray, cells: np.ndarray, m: int, sparse: bool = False, lane: int = 0) -> np.ndarray:
    out = cells.copy()
    for i in range(m):
        for j in range(d.shape[1]):
            out[cell_of(i, j, m, d.shape[1], sparse, lane)] = d[i, j]
    return out


def product(kind: str, idesc: int, a_bits, b_bits: int, room: int, *, more: str = "", options: str = "", meta: str = "",
            tail: str = "", go: str = "%no", a_cells: int = 0, d: str = "%tm") -> str:
    a = "%d0" if a_bits is not None else f"[%tm+{a_cells}]"
    first = kit.matrix_at("%d0", 0, a_bits) if a_bits is not None else ""
    return f"""{first}
{kit.matrix_at("%d1", room, b_bits)}
mov.b32 %t5, {idesc};
{more}
tcgen05.mma{options}.cta_group::2.kind::{kind} [{d}], {a}, %d1,{meta} %t5,{tail} {go};"""


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("m,n", [(256, 64), (256, 16), (128, 64), (128, 32)])
@pytest.mark.parametrize("in_tensor", [False, True])
def test_products_of_a_pair(m, n, in_tensor, seed):
    (a, av), (b, bv) = matrices("f16", "f16", "f16", m, n, 16)
    image, a_bits, b_bits, room = pair_image(as_rows(a, "f16"), as_rows(b, "f16"))
    cells = np.random.default_rng(1).integers(0, 1 << 16, (2, 128, n + 8)).astype(np.uint32)
    if in_tensor:
        for i in range(m):
            for j in (0, n - 1):
                r, lane, _ = cell_of(i, j, m, n, False)
                cells[r, lane, n:] = a[i].view(np.uint32)
    body = product("f16", kit.instruction(m, n), None if in_tensor else a_bits, b_bits, room, a_cells=n)
    out, report = kit.run(body, cells, image, group=2, seed=seed)
    assert (out == spread(words(av @ bv.T, "f32"), cells, m)).all()
    assert not report.findings


@pytest.mark.parametrize("kind,type_", [("tf32", "tf32"), ("i8", "s8"), ("f8f6f4", "e4m3")])
def test_kinds_and_accumulation(kind, type_):
    m, n, k = 256, 32, 8 if kind == "tf32" else 32
    (a, av), (b, bv) = matrices(kind, type_, type_, m, n, k)
    d_type = "s32" if kind == "i8" else "f32"
    image, a_bits, b_bits, room = pair_image(as_rows(a, type_), as_rows(b, type_))
    filled = [start(128, n, d_type, seed) for seed in (3, 4)]
    codes = {"tf32": 2, "s8": 1, "e4m3": 0}[type_]
    idesc = kit.instruction(m, n, d=2 if kind == "i8" else 1, a=codes, b=codes)
    out, report = kit.run(product(kind, idesc, a_bits, b_bits, room, go="%go"), np.stack([w for w, _ in filled]), image,
                          group=2)
    want = av @ bv.T + np.concatenate([v for _, v in filled])
    assert (out.reshape(256, n) == words(want, d_type)).all()
    assert not report.findings


def test_lanes_of_both_blocks_may_be_disabled():
    m, n = 256, 32
    (a, av), (b, bv) = matrices("f16", "f16", "f16", m, n, 16)
    image, a_bits, b_bits, room = pair_image(as_rows(a, "f16"), as_rows(b, "f16"))
    masks = np.random.default_rng(2).integers(0, 1 << 32, 8, np.uint64)
    more = "\n".join(f"mov.b32 %t{10 + i}, {int(w)};" for i, w in enumerate(masks))
    names = ", ".join(f"%t{10 + i}" for i in range(8))
    cells = np.full((2, 128, n), 7, np.uint32)
    out, report = kit.run(product("f16", kit.instruction(m, n), a_bits, b_bits, room, more=more, tail=f" {{{names}}},"),
                          cells, image, group=2)
    off = np.unpackbits(masks.astype(np.uint32).view(np.uint8), bitorder="little").astype(bool)
    assert (out.reshape(256, n) == np.where(off[:, None], 7, words(av @ bv.T, "f32"))).all()
    assert not report.findings


@pytest.mark.parametrize("m,lane", [(256, 0), (128, 0), (128, 16)])
def test_sparse_products_of_a_pair(m, lane):
    n, rng = 32, np.random.default_rng(9)
    (a, av), _ = matrices("f16", "f16", "f16", m, n, 16)
    _, (b, bv) = matrices("f16", "f16", "f16", m, n, 32)
    pairs = {4: (0, 1), 8: (0, 2), 12: (0, 3), 9: (1, 2), 13: (1, 3), 14: (2, 3)}
    codes = rng.choice(list(pairs), (m, 8))
    full = np.zeros((m, 32))
    for r in range(m):
        for c in range(8):
            for i, where in enumerate(pairs[int(codes[r, c])]):
                full[r, 4 * c + where] = av[r, 2 * c + i]
    cells = np.zeros((2, 128, n + 8), np.uint32)
    for r in range(2):
        part = codes[r * m // 2:(r + 1) * m // 2]
        if m == 256:
            place_metadata(cells[r], n, part, "f16", 0)
        else:                                             # 16 rows in each quarter, as the accumulator's
            tall = np.zeros((128, 8), int)
            for i in range(64):
                tall[i // 16 * 32 + i % 16 + lane] = part[i]
            place_metadata(cells[r], n, tall, "f16", 0)
    image, a_bits, b_bits, room = pair_image(as_rows(a, "f16"), as_rows(b, "f16"), 6, 4)
    body = product("f16", kit.instruction(m, n, sparse=1), a_bits, b_bits, room, options=".sp", meta=f" [%tm+{n}],",
                   more=f"add.u32 %t7, %tm, {lane << 16};", d="%t7")
    out, report = kit.run(body, cells, image, group=2)
    assert (out == spread(words(full @ bv.T, "f32"), cells, m, True, lane)).all()
    assert not report.findings


@pytest.mark.parametrize("m", [256, 128])
@pytest.mark.parametrize("kind,count,scale,option,k", [("mxf8f6f4", 1, "ue8m0", "", 32), ("mxf4nvf4", 4, "ue4m3", ".block16", 64)])
def test_scaled_products_of_a_pair(m, kind, count, scale, option, k):
    n = 64
    type_ = "e2m1" if k == 64 else "e4m3"
    a_bytes, av = operand(m, k, type_, k == 64, 1)
    b_bytes, bv = operand(n, k, type_, k == 64, 2)
    sa_codes, sa = factors(m, count, scale, 3)
    sb_codes, sb = factors(n, count, scale, 4)
    image, a_bits, b_bits, room = pair_image(a_bytes, b_bytes)
    cells = np.zeros((2, 128, n + 8), np.uint32)
    for r in range(2):
        own = cells_of(sa_codes[r * m // 2:(r + 1) * m // 2], 0)
        cells[r, :, n:n + own.shape[1]] = own
        if m == 256:                                      # every quarter has the factors of all columns
            cells[r, :, n + 4:n + 6] = cells_of(sb_codes, 0)
        else:                                             # quarters 0 and 1 those of the left half, 2 and 3 of the right
            for half in range(2):
                cells[r, 64 * half:64 * half + 64, n + 4:n + 5] = cells_of(sb_codes[32 * half:32 * half + 32], 0)[:64]
    idesc = kit.scaled_instruction(m, n, a=int(k == 64), b=int(k == 64), scale=int(scale == "ue8m0"))
    body = product(f"{kind}.block_scale{option}", idesc, a_bits, b_bits, room, tail=f" [%tm+{n}], [%tm+{n + 4}],")
    out, report = kit.run(body, cells, image, group=2)
    want = exact_product(av, sa[:, :count], bv, sb[:, :count], np.zeros((m, n), np.float32))
    checked = 0
    for i, j in np.argwhere(~np.isnan(want)):
        assert out[cell_of(i, j, m, n, False)].view(np.float32) == want[i, j]
        checked += 1
    assert checked > 60 and not report.findings


def test_copies_and_shifts_act_on_both_blocks():
    rng = np.random.default_rng(3)
    image = rng.integers(0, 256, (2, 32 * 16)).astype(np.uint8)
    cells = rng.integers(0, 1 << 30, (2, 128, 16)).astype(np.uint32)
    body = kit.matrix_at("%d0", 0, kit.descriptor(16, 128)) + """
tcgen05.cp.cta_group::2.32x128b.warpx4 [%tm+12], %d0;
tcgen05.shift.cta_group::2.down [%tm];"""
    for seed in (0, 1):
        out, report = kit.run(body, cells, image, group=2, seed=seed)
        for r in range(2):
            want = cells[r].copy()
            want[:31, :8] = cells[r][1:32, :8]
            want[:, 12:] = np.tile(image[r].view(np.uint32).reshape(32, 4), (4, 1))
            assert (out[r] == want).all()
        assert not report.findings


def test_a_pair_needs_a_cluster_of_an_even_size():
    text = kit.kernel("", columns=32, image=16, group=2).replace(".reqnctapercluster 2\n", "")
    with pytest.raises(SimulationError, match="cta_group::2 in a cluster of 1"):
        from tileiras.sim import simulate
        simulate(text, grid=2, args=[np.zeros((2, 128, 32), np.uint32), np.zeros(32, np.uint8)])


def test_a_commit_to_nobody_arrives_nowhere() -> None:
    """A mask without bits: what the original's other CTA commits with."""
    cells = np.random.default_rng(5).integers(0, 1 << 30, (2, 128, 8)).astype(np.uint32)
    body = """mov.b16 %both, 0;
tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%bar], %both;
mov.b16 %both, 3;"""
    out, report = kit.run(body, cells, group=2)
    assert (out == cells).all() and not report.findings
