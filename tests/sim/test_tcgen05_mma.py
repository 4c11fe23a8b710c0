"""tcgen05.mma without block scaling, against NumPy: kinds, layouts of operands and accumulators, options, sparsity.

Where an element lies is written down here from the PTX ISA's canonical layouts and figures, one element at a time."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.sim import tcgen05kit as kit
from tileiras.sim.errors import DescriptorError, SimulationError

SPAN = {0: 16, 6: 32, 4: 64, 2: 128, 1: 128}
FORMATS = {"e4m3": (ml_dtypes.float8_e4m3fn, 0), "e5m2": (ml_dtypes.float8_e5m2, 1), "e2m3": (ml_dtypes.float6_e2m3fn, 3),
           "e3m2": (ml_dtypes.float6_e3m2fn, 4), "e2m1": (ml_dtypes.float4_e2m1fn, 5)}


def k_major(data: np.ndarray, swizzle: int) -> tuple[np.ndarray, int]:
    """Rows of bytes (at most one span each) as a K-major tile: (image, descriptor bits)."""
    rows, size = data.shape
    span, groups = SPAN[swizzle], -(-rows // 8)
    image = np.zeros(groups * 8 * max(span, size), np.uint8)
    for r in range(rows):
        for c in range(size // 16):
            if swizzle:
                at = r * span + 16 * c
                at ^= (at >> 7 & (span // 16 - 1)) << 4
            else:
                at = r // 8 * 128 + r % 8 * 16 + c * groups * 128
            image[at:at + 16] = data[r, 16 * c:16 * c + 16]
    return image, kit.descriptor(groups * 128 if not swizzle else 16, 8 * span if swizzle else 128, swizzle)


def mn_major(codes: np.ndarray, swizzle: int) -> tuple[np.ndarray, int]:
    """Element codes [mn, k] as an MN-major tile: atoms of one span along MN and 8 (4 with 32-byte atoms) of K."""
    mn, k = codes.shape
    width = codes.itemsize
    span = SPAN[swizzle]
    rows = 4 if swizzle == 1 else 8
    along = -(-mn * width // span)
    stride = rows * span                                  # next rows of K
    leading = -(-k // rows) * stride                      # next span along MN
    if not swizzle:
        stride, leading = leading, stride                 # unswizzled: SBO along MN, LBO along K
    image = np.zeros(along * -(-k // rows) * rows * span, np.uint8)
    raw = codes.view(np.uint8).reshape(mn, k, width)
    for m in range(mn):
        for j in range(k):
            byte = m * width
            to_mn, to_k = (stride, leading) if not swizzle else (leading, stride)
            at = byte // span * to_mn + j // rows * to_k + j % rows * span + byte % span
            if swizzle == 1:
                at ^= (at >> 7 & 3) << 5
            elif swizzle:
                at ^= (at >> 7 & (span // 16 - 1)) << 4
            image[at:at + width] = raw[m, j]
    return image, kit.descriptor(leading, stride, swizzle)


def narrow_bytes(codes: np.ndarray, width: int) -> np.ndarray:
    """4- or 6-bit codes [rows, k] packed at the start of every 16 bytes, as shared memory has them."""
    out = np.zeros(codes.shape, np.uint8)
    for r in range(codes.shape[0]):
        for g in range(codes.shape[1] // 16):
            number = sum(int(c) << width * i for i, c in enumerate(codes[r, 16 * g:16 * g + 16]))
            out[r, 16 * g:16 * g + 16] = np.frombuffer(number.to_bytes(16, "little"), np.uint8)
    return out


def matrices(kind: str, a_type: str, b_type: str, m: int, n: int, k: int, seed: int = 0):
    """((codes, float64 values) of A [m, k], the same of B [n, k]); values that add up exactly."""
    rng = np.random.default_rng(seed)
    out = []
    for rows, type_ in ((m, a_type), (n, b_type)):
        if type_ in FORMATS:
            codes = rng.integers(0, 1 << {"e2m1": 4, "e2m3": 6, "e3m2": 6}.get(type_, 8), (rows, k)).astype(np.uint8)
            values = codes.view(FORMATS[type_][0]).astype(np.float64)
            bad = ~np.isfinite(values) | (np.abs(values) > 64) | ((values != 0) & (np.abs(values) < 2.0**-6))
            codes[bad] = 0
            values = codes.view(FORMATS[type_][0]).astype(np.float64)
        elif type_ in ("u8", "s8"):
            codes = rng.integers(0, 256, (rows, k)).astype(np.uint8)
            values = codes.view(np.uint8 if type_ == "u8" else np.int8).astype(np.float64)
        else:
            dtype = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32}[type_]
            x = rng.integers(-6, 7, (rows, k)).astype(dtype)
            codes = x.view(np.uint32 if type_ == "tf32" else np.uint16)
            values = x.astype(np.float64)
        out.append((codes, values))
    return out


def as_rows(codes: np.ndarray, type_: str) -> np.ndarray:
    """Codes to the bytes of a K-major row."""
    if type_ in ("e2m1", "e2m3", "e3m2"):
        return narrow_bytes(codes, 4 if type_ == "e2m1" else 6)
    return np.ascontiguousarray(codes).view(np.uint8).reshape(len(codes), -1)


def issue(kind: str, idesc: int, a_bits, b_bits: int, b_at: int, *, accumulate: bool, options: str = "", a_cells: int = 0,
          more: str = "", meta: str = "", tail: str = "", d_offset: int = 0) -> str:
    """The PTX of one product: A described by `a_bits` at the image's start, or (None) in tensor memory at `a_cells`."""
    a = f"[%tm+{a_cells}]" if a_bits is None else "%d0"
    text = "" if a_bits is None else kit.matrix_at("%d0", 0, a_bits)
    if d_offset:
        a = a.replace("%tm", "%t7")
    return f"""{text}
{kit.matrix_at("%d1", b_at, b_bits)}
mov.b32 %t5, {idesc};
add.u32 %t7, %tm, {d_offset};
{more}
tcgen05.mma{options}.cta_group::1.kind::{kind} [%t7], {a}, %d1,{meta} %t5, {'%go' if accumulate else '%no'}{tail};"""


LAYOUTS = {                                   # (m, n, M, N) -> (lane, column), from the figures of the data paths
    "D": lambda i, j, m, n: (i, j),
    "F": lambda i, j, m, n: (i // 16 * 32 + i % 16, j),
    "E": lambda i, j, m, n: (i + 64 * (j >= n // 2), j % (n // 2)),
    "G": lambda i, j, m, n: (i + 32 * (j // (n // 4)), j % (n // 4))}


def spread_out(d: np.ndarray, cells: np.ndarray, layout: str, lane: int = 0) -> np.ndarray:
    """The words of D [m, n] put into a copy of the cells."""
    out = cells.copy()
    for i in range(d.shape[0]):
        for j in range(d.shape[1]):
            row, column = LAYOUTS[layout](i, j, *d.shape)
            out[row + lane, column] = d[i, j]
    return out


def words(d: np.ndarray, type_: str) -> np.ndarray:
    if type_ == "f16":
        return d.astype(np.float16).view(np.uint16).astype(np.uint32)
    if type_ == "s32":
        return d.astype(np.int64).astype(np.int32).view(np.uint32)
    return d.astype(np.float32).view(np.uint32)


def start(m_cells: int, n: int, type_: str, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """(words, values) of an accumulator's initial contents in all 128 lanes."""
    values = np.random.default_rng(seed).integers(-9, 10, (128, n)).astype(np.float64)
    return words(values, type_), values


KINDS = [("f16", "f16", "f16", "f32", 16), ("f16", "f16", "f16", "f16", 16), ("f16", "bf16", "bf16", "f32", 16),
         ("tf32", "tf32", "tf32", "f32", 8), ("i8", "u8", "s8", "s32", 32), ("i8", "s8", "u8", "s32", 32),
         ("f8f6f4", "e4m3", "e5m2", "f32", 32), ("f8f6f4", "e2m1", "e3m2", "f32", 32),
         ("f8f6f4", "e2m3", "e2m1", "f16", 32), ("f8f6f4", "e5m2", "e4m3", "f16", 32)]
CODES = {"f16": 0, "bf16": 1, "tf32": 2, "u8": 0, "s8": 1, **{k: v[1] for k, v in FORMATS.items()}}
RESULT = {"f16": 0, "f32": 1, "s32": 2}


@pytest.mark.parametrize("swizzle", [0, 6, 4, 2])
@pytest.mark.parametrize("kind,a_type,b_type,d_type,k", KINDS)
def test_products_of_every_kind_with_operands_major_in_k(kind, a_type, b_type, d_type, k, swizzle):
    m, n = 128, 32 if kind == "i8" else 48
    (a, av), (b, bv) = matrices(kind, a_type, b_type, m, n, k, swizzle)
    a_image, a_bits = k_major(as_rows(a, a_type), swizzle)
    b_image, b_bits = k_major(as_rows(b, b_type), swizzle)
    room = -(-len(a_image) // 1024) * 1024
    image = np.concatenate([a_image, np.zeros(room - len(a_image), np.uint8), b_image])
    idesc = kit.instruction(m, n, d=RESULT[d_type], a=CODES[a_type], b=CODES[b_type])
    cells, c = start(128, n, d_type)
    for accumulate in (False, True):
        out, report = kit.run(issue(kind, idesc, a_bits, b_bits, room, accumulate=accumulate), cells, image)
        want = av @ bv.T + (c if accumulate else 0)
        assert (out == words(want, d_type)).all()
        assert not report.findings


@pytest.mark.parametrize("kind,type_,swizzle,transpose", [
    (kind, type_, s, t) for kind, type_ in (("f16", "f16"), ("f8f6f4", "e4m3"), ("i8", "s8")) for s in (0, 6, 4, 2)
    for t in ((1, 0), (0, 1), (1, 1))] + [("tf32", "tf32", 1, t) for t in ((1, 0), (0, 1), (1, 1))])
def test_products_with_operands_major_in_m_or_n(kind, type_, swizzle, transpose):
    m, n, k = 128, 64, {"f16": 16, "tf32": 8}.get(kind, 32)
    d_type = "s32" if kind == "i8" else "f32"
    (a, av), (b, bv) = matrices(kind, type_, type_, m, n, k)
    other = swizzle if swizzle != 1 else 0
    a_image, a_bits = mn_major(a, swizzle) if transpose[0] else k_major(as_rows(a, type_), other)
    b_image, b_bits = mn_major(b, swizzle) if transpose[1] else k_major(as_rows(b, type_), other)
    room = -(-len(a_image) // 1024) * 1024
    image = np.concatenate([a_image, np.zeros(room - len(a_image), np.uint8), b_image])
    idesc = kit.instruction(m, n, d=RESULT[d_type], a=CODES[type_], b=CODES[type_], transpose=transpose)
    out, report = kit.run(issue(kind, idesc, a_bits, b_bits, room, accumulate=False), np.zeros((128, n), np.uint32), image)
    assert (out == words(av @ bv.T, d_type)).all()
    assert not report.findings


def plain(m: int, n: int, seed: int = 0, sparse: bool = False):
    """An f16 product's (values of A, of B, image, A's bits, B's bits, where B is); a sparse A comes packed."""
    k = 32 if sparse else 16
    (a, av), (b, bv) = matrices("f16", "f16", "f16", m, n, k, seed)
    if sparse:
        a, av = a[:, :16], av[:, :16]
    a_image, a_bits = k_major(as_rows(a, "f16"), 6)
    b_image, b_bits = k_major(as_rows(b, "f16"), 4 if sparse else 6)
    room = -(-len(a_image) // 1024) * 1024
    return av, bv, np.concatenate([a_image, np.zeros(room - len(a_image), np.uint8), b_image]), a_bits, b_bits, room, a


@pytest.mark.parametrize("m,n,ws,layout,lane", [(64, 24, "", "F", 0), (64, 24, "", "F", 16), (128, 64, ".ws", "D", 0),
                                                (64, 64, ".ws", "E", 0), (32, 64, ".ws", "G", 0),
                                                (32, 128, ".ws", "G", 0)])
@pytest.mark.parametrize("in_tensor", [False, True])
def test_accumulators_lie_as_the_figures_of_the_data_paths_show(m, n, ws, layout, lane, in_tensor):
    av, bv, image, a_bits, b_bits, room, a = plain(m, n)
    cells = np.random.default_rng(1).integers(0, 1 << 16, (128, n + 8)).astype(np.uint32)
    if in_tensor:                                         # each lane holds the row of A that it computes with
        for i in range(m):
            for j in range(0, n, n // 4):
                row = LAYOUTS[layout](i, j, m, n)[0] + lane
                cells[row, n:] = a[i].view(np.uint32)
    idesc = kit.instruction(m, n)
    body = issue("f16", idesc, None if in_tensor else a_bits, b_bits, room, accumulate=False, options=ws, a_cells=n,
                 d_offset=lane << 16)
    out, report = kit.run(body, cells, image)
    assert (out == spread_out(words(av @ bv.T, "f32"), cells, layout, lane)).all()
    assert not report.findings


@pytest.mark.parametrize("type_", ["e2m1", "e3m2", "e4m3"])
def test_narrow_elements_of_a_in_tensor_memory_have_a_byte_each(type_):
    m, n, k = 128, 16, 32
    (a, av), (b, bv) = matrices("f8f6f4", type_, "e4m3", m, n, k)
    b_image, b_bits = k_major(as_rows(b, "e4m3"), 0)
    cells = np.zeros((128, 24), np.uint32)
    cells[:, 16:] = (a << 2 if type_ == "e2m1" else a).view(np.uint32)
    idesc = kit.instruction(m, n, a=CODES[type_])
    out, report = kit.run(issue("f8f6f4", idesc, None, b_bits, 0, accumulate=False, a_cells=16), cells, b_image)
    assert (out[:, :16] == words(av @ bv.T, "f32")).all()
    assert not report.findings


def test_disabled_lanes_keep_their_cells():
    av, bv, image, a_bits, b_bits, room, _ = plain(128, 16)
    cells = np.full((128, 16), 7, np.uint32)
    masks = np.random.default_rng(2).integers(0, 1 << 32, 4, np.uint64)
    more = "\n".join(f"mov.b32 %t{10 + i}, {int(w)};" for i, w in enumerate(masks))
    body = issue("f16", kit.instruction(128, 16), a_bits, b_bits, room, accumulate=False, more=more)
    body = body.replace("%t5, %no", "%t5, {%t10, %t11, %t12, %t13}, %no")
    out, report = kit.run(body, cells, image)
    off = np.unpackbits(masks.astype(np.uint32).view(np.uint8), bitorder="little").astype(bool)
    want = np.where(off[:, None], cells, words(av @ bv.T, "f32"))
    assert (out == want).all()
    assert not report.findings


@pytest.mark.parametrize("shift", [1, 5, 15])
def test_the_accumulator_may_be_scaled_down(shift):
    av, bv, image, a_bits, b_bits, room, _ = plain(128, 16)
    cells, c = start(128, 16, "f32")
    out, _ = kit.run(issue("f16", kit.instruction(128, 16), a_bits, b_bits, room, accumulate=True, tail=f", {shift}"),
                     cells, image)
    assert (out == words(av @ bv.T + c / 2**shift, "f32")).all()


@pytest.mark.parametrize("negate", [(1, 0), (0, 1), (1, 1)])
def test_operands_may_be_negated(negate):
    av, bv, image, a_bits, b_bits, room, _ = plain(128, 16)
    cells, c = start(128, 16, "f32")
    idesc = kit.instruction(128, 16, negate=negate)
    out, _ = kit.run(issue("f16", idesc, a_bits, b_bits, room, accumulate=True), cells, image)
    assert (out == words((-1) ** sum(negate) * (av @ bv.T) + c, "f32")).all()


def test_integers_saturate_when_asked():
    m, n, k = 128, 16, 32
    (a, av), (b, bv) = matrices("i8", "s8", "s8", m, n, k)
    a_image, a_bits = k_major(a, 6)
    b_image, b_bits = k_major(b, 6)
    cells = np.full((128, n), (1 << 31) - 100, np.uint32)
    for saturate in (0, 1):
        idesc = kit.instruction(m, n, d=2, a=1, b=1, saturate=saturate)
        out, _ = kit.run(issue("i8", idesc, a_bits, b_bits, len(a_image), accumulate=True), cells,
                         np.concatenate([a_image, b_image]))
        exact = (av @ bv.T).astype(np.int64) + (1 << 31) - 100
        want = np.minimum(exact, (1 << 31) - 1) if saturate else exact
        assert (out == want.astype(np.uint64).astype(np.uint32)).all()


def test_ashift_takes_each_row_from_the_lane_above():
    av, bv, image, _, b_bits, room, a = plain(128, 16)
    cells = np.zeros((128, 24), np.uint32)
    cells[:, 16:] = a.view(np.uint32)
    body = issue("f16.ashift", kit.instruction(128, 16), None, b_bits, room, accumulate=False, a_cells=16)
    out, _ = kit.run(body, cells, image)
    moved = np.concatenate([av[1:], av[-1:]])
    assert (out[:, :16] == words(moved @ bv.T, "f32")).all()


# the PTX ISA's own examples of zero-column masks: (M, start counts, first spans, skip, use, masks lowest bit first)
MASKS = [(128, [0, 0, 0, 0], [0, 0, 0, 0], 2, 3, ["0000111" * 10]),
         (64, [0, 0, 0, 0], [1, 0, 0, 0], 2, 3, ["1110000" * 5, "0000111" * 5]),
         (32, [0, 1, 2, 1], [1, 1, 0, 0], 2, 3, ["1110000" * 3, "110000" + "1110000" * 3, "00111" + "0000111" * 3,
                                                 "000111" + "0000111" * 3])]


@pytest.mark.parametrize("m,starts,firsts,skip,use,masks", MASKS)
@pytest.mark.parametrize("shift", [0, 2])
def test_zero_column_masks(m, starts, firsts, skip, use, masks, shift):
    n = 64
    (a, av), (b, bv) = matrices("f16", "f16", "f16", m, n + 16, 16)
    a_image, a_bits = k_major(as_rows(a, "f16"), 6)
    b_image, b_bits = k_major(as_rows(b, "f16"), 6)
    room = -(-len(a_image) // 1024) * 1024
    image = np.concatenate([a_image, np.zeros(room - len(a_image), np.uint8), b_image])
    mask = sum(s << 8 * i for i, s in enumerate(starts)) | sum(f << 32 + i for i, f in enumerate(firsts)) | 1 << 39 | \
        skip << 40 | use << 48 | shift << 56
    parts = 128 // m
    zero = np.array([bit == "1" for part in masks for bit in part[:n // parts]])
    body = issue("f16", kit.instruction(m, n), a_bits, b_bits, room, accumulate=False, options=".ws",
                 more=f"mov.b64 %d3, {mask};", tail=", %d3")
    cells = np.zeros((128, n), np.uint32)
    out, report = kit.run(body, cells, image)
    used = np.where(zero[:, None], 0, bv[shift:shift + n])
    assert (out == spread_out(words(av @ used.T, "f32"), cells, {128: "D", 64: "E", 32: "G"}[m])).all()
    assert not report.findings


# ---- sparse A: the metadata's place in tensor memory as bits of (row, element of K)

def place_metadata(cells: np.ndarray, column: int, codes: np.ndarray, kind: str, selector: int) -> None:
    """4-bit codes [rows, chunks of K] written where lanes and bits are by the layouts of 16-, 32- and 8-bit elements."""
    for row in range(codes.shape[0]):
        for chunk, code in enumerate(codes[row]):
            if kind in ("f16", "tf32"):                   # 16 rows share 16 lanes and 32 bits
                lane = row // 16 * 16 + row % 8 + 8 * (chunk // 4)
                bit, at = 4 * (chunk % 4) + 16 * (row // 8 % 2), column + selector
            else:
                lane, bit, at = row, 4 * chunk % 32, column + chunk // 8
            cells[lane, at] |= np.uint32(int(code) << bit)


@pytest.mark.parametrize("kind,type_,selector", [("f16", "f16", 0), ("f16", "f16", 1), ("tf32", "tf32", 0), ("i8", "s8", 0),
                                                 ("f8f6f4", "e4m3", 0)])
def test_sparse_products(kind, type_, selector):
    m, n = 128, 16
    stored = {"f16": 16, "tf32": 8}.get(kind, 32)
    (a, av), _ = matrices(kind, type_, type_, m, n, stored)
    _, (b, bv) = matrices(kind, type_, type_, m, n, 2 * stored)
    rng = np.random.default_rng(9)
    full = np.zeros((m, 2 * stored))
    if kind == "tf32":
        codes = rng.choice([4, 14], (m, stored))
        for r in range(m):
            for c in range(stored):
                full[r, 2 * c + (codes[r, c] == 14)] = av[r, c]
    else:
        pairs = {4: (0, 1), 8: (0, 2), 12: (0, 3), 9: (1, 2), 13: (1, 3), 14: (2, 3)}
        codes = rng.choice(list(pairs), (m, stored // 2))
        for r in range(m):
            for c in range(stored // 2):
                for i, where in enumerate(pairs[int(codes[r, c])]):
                    full[r, 4 * c + where] = av[r, 2 * c + i]
    cells = np.zeros((128, n + 8), np.uint32)
    place_metadata(cells, n, codes, kind, selector)
    a_image, a_bits = k_major(as_rows(a, type_), 6)
    b_image, b_bits = k_major(as_rows(b, type_), 4)
    room = -(-len(a_image) // 1024) * 1024
    image = np.concatenate([a_image, np.zeros(room - len(a_image), np.uint8), b_image])
    d_type = "s32" if kind == "i8" else "f32"
    idesc = kit.instruction(m, n, d=RESULT[d_type], a=CODES[type_], b=CODES[type_], sparse=1, selector=selector)
    body = issue(kind, idesc, a_bits, b_bits, room, accumulate=False, options=".sp", meta=f" [%tm+{n}],")
    out, report = kit.run(body, cells, image)
    assert (out[:, :n] == words(full @ bv.T, d_type)).all()
    assert not report.findings


@pytest.mark.parametrize("m,layout", [(128, "D"), (64, "E"), (32, "G")])
@pytest.mark.parametrize("in_tensor", [False, True])
def test_sparse_weight_stationary_products(m, layout, in_tensor):
    n, rng = 64, np.random.default_rng(4)
    av, bv, image, a_bits, b_bits, room, a = plain(m, n, sparse=True)
    pairs = {4: (0, 1), 8: (0, 2), 12: (0, 3), 9: (1, 2), 13: (1, 3), 14: (2, 3)}
    codes = rng.choice(list(pairs), (m, 8))
    full = np.zeros((m, 32))
    for r in range(m):
        for c in range(8):
            for i, where in enumerate(pairs[int(codes[r, c])]):
                full[r, 4 * c + where] = av[r, 2 * c + i]
    cells = np.zeros((128, n + 16), np.uint32)
    for part in range(128 // m):                          # metadata and A once for every part of N
        own = cells[m * part:m * part + m]
        place_metadata(own, n + 8, codes, "f16", 0)
        own[:, n:n + 8] = a.view(np.uint32)
    body = issue("f16", kit.instruction(m, n, sparse=1), None if in_tensor else a_bits, b_bits, room, accumulate=False,
                 options=".ws.sp", meta=f" [%tm+{n + 8}],", a_cells=n)
    out, report = kit.run(body, cells, image)
    assert (out == spread_out(words(full @ bv.T, "f32"), cells, layout)).all()
    assert not report.findings


# ---- what is refused

@pytest.mark.parametrize("change,words_", [
    (1 << 6, "reserved bits"), (1 << 23, "reserved bits"), (1 << 29, "reserved bits"), (1, "reserved bits"),
    (1 << 30, "reserved bits"), (1 << 3, "saturation"), (1 << 2, "sparsity"), (1 << 5, "D type"), (1 << 9, "A type"),
    (1 << 10, "no product of f16 and bf16"), (1 << 17, "no shape"), (1 << 24, "no shape")])
def test_wrong_instruction_descriptors_are_found(change, words_):
    _, _, image, a_bits, b_bits, room, _ = plain(128, 16)
    with pytest.raises(DescriptorError, match=words_):
        kit.run(issue("f16", kit.instruction(128, 16) ^ change, a_bits, b_bits, room, accumulate=False),
                np.zeros((128, 32), np.uint32), image)


@pytest.mark.parametrize("change", [1 << 46, 1 << 47, 1 << 53, 3 << 61, 1 << 14])
def test_wrong_matrix_descriptors_are_found(change):
    _, _, image, a_bits, b_bits, room, _ = plain(128, 16)
    with pytest.raises(DescriptorError, match="matrix descriptor"):
        kit.run(issue("f16", kit.instruction(128, 16), a_bits ^ change, b_bits, room, accumulate=False),
                np.zeros((128, 32), np.uint32), image)


def test_matrices_outside_shared_memory_fault():
    _, _, image, a_bits, b_bits, _, _ = plain(128, 16)
    with pytest.raises(SimulationError, match="a matrix in shared memory"):
        kit.run(issue("f16", kit.instruction(128, 16), a_bits, b_bits, 200 << 10, accumulate=False),
                np.zeros((128, 32), np.uint32), image)




@pytest.mark.parametrize("target,kind", [("sm_103a", "i8"), ("sm_90a", "f16"), ("sm_120a", "f16")])
def test_targets_without_the_instruction_refuse_it(target, kind):
    _, _, image, a_bits, b_bits, room, _ = plain(128, 16)
    with pytest.raises(SimulationError, match=target):
        kit.run(issue(kind, kit.instruction(128, 16, d=2 if kind == "i8" else 1), a_bits, b_bits, room, accumulate=False),
                np.zeros((128, 32), np.uint32), image, target=target, assemble=False)
