"""The 32-bit instruction descriptor of tcgen05.mma and the zero-column mask descriptor, decoded from their bits.

Sources: PTX ISA, "Instruction descriptor" (a table for each group of kinds), "Zero-Column Mask Descriptor", and the
tables of shapes. Reserved bits, types a kind doesn't have and shapes an instruction doesn't have are DescriptorErrors.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tileiras.sim.errors import DescriptorError

FLOATS = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
TYPES = {"f16": {0: "f16", 1: "bf16"}, "tf32": {2: "tf32"}, "f8f6f4": FLOATS, "i8": {0: "u8", 1: "s8"},
         "mxf8f6f4": FLOATS, "mxf4": {1: "e2m1"}, "mxf4nvf4": {1: "e2m1"}}
RESULTS = {"f16": {0: "f16", 1: "f32"}, "tf32": {1: "f32"}, "f8f6f4": {0: "f16", 1: "f32"}, "i8": {2: "s32"}}
SCALED = ("mxf8f6f4", "mxf4", "mxf4nvf4")
DEPTH = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
_PLAIN_RESERVED = 1 << 6 | 1 << 23 | 1 << 29
_MX8_RESERVED = 0b11 | 1 << 3 | 1 << 6 | 0b111 << 24 | 1 << 31
_MX4_RESERVED = 0b11 | 1 << 3 | 1 << 6 | 1 << 12 | 0b11 << 15 | 0b11 << 25


@dataclass(frozen=True)
class Product:
    """What an instruction descriptor says: D[m, n] (+)= A[m, k] * B[k, n] of a kind.

    `k` counts elements of B; a sparse A stores k / 2 a row. `selector`: of the sparsity metadata. `vectors`: scale
    factors a row for one instruction; `scale_a`/`scale_b`: where in a word of tensor memory they start (bytes)."""
    kind: str
    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    negate_a: bool = False
    negate_b: bool = False
    transpose_a: bool = False
    transpose_b: bool = False
    saturate: bool = False
    sparse: bool = False
    selector: int = 0
    scale: str = ""
    vectors: int = 0
    scale_a: int = 0
    scale_b: int = 0


def _bits(word: int, low: int, count: int) -> int:
    return word >> low & ((1 << count) - 1)


def _type(kind: str, table: dict[int, str], code: int, what: str) -> str:
    if code not in table:
        raise DescriptorError(f"instruction descriptor: {what} type {code} doesn't exist for kind::{kind}")
    return table[code]


def decode_instruction(word: int, kind: str, *, group: int = 1, ws: bool = False, sparse: bool = False,
                       vectors: str = "") -> Product:
    """A descriptor's meaning for an instruction `.kind::kind` of `.cta_group::group`, weight-stationary or sparse.

    `vectors`: the instruction's scale qualifier (1X, 2X, 4X, block16, block32 or nothing). Raises DescriptorError."""
    reserved = _PLAIN_RESERVED if kind not in SCALED else _MX8_RESERVED if kind == "mxf8f6f4" else _MX4_RESERVED
    if not ws and kind not in SCALED:
        reserved |= 0b11 << 30
    if kind not in SCALED and not sparse:
        reserved |= 0b11
    if word & reserved:
        raise DescriptorError(f"instruction descriptor {word:#010x}: reserved bits {word & reserved:#010x} must be 0")
    if bool(_bits(word, 2, 1)) != sparse:
        raise DescriptorError(f"instruction descriptor {word:#010x}: the sparsity bit is {_bits(word, 2, 1)}, the "
                              f"instruction is {'sparse' if sparse else 'dense'}")
    n = _bits(word, 17, 6) << 3
    k = DEPTH[kind] * (2 if sparse else 1)
    scaled = kind in SCALED
    m = _bits(word, 27, 2) << 7 if scaled else _bits(word, 24, 5) << 4
    a = _type(kind, TYPES[kind], _bits(word, 7, 3), "A")
    b = _type(kind, TYPES[kind], _bits(word, 10, 2 if kind in ("mxf4", "mxf4nvf4") else 3), "B")
    transpose_a, transpose_b = bool(_bits(word, 15, 1)), bool(_bits(word, 16, 1))
    for name, transposed, type_ in (("A", transpose_a, a), ("B", transpose_b, b)):
        if transposed and type_ in ("e2m1", "e2m3", "e3m2"):
            raise DescriptorError(f"instruction descriptor {word:#010x}: {name} of type {type_} can't be transposed")
    negate_a, negate_b = bool(_bits(word, 13, 1)), bool(_bits(word, 14, 1))
    if scaled:
        found = _scales(word, kind, k, vectors, sparse)
        product = Product(kind, m, n, found[0], a, b, "f32", negate_a, negate_b, transpose_a, transpose_b, False, sparse, 0,
                          *found[1:])
    else:
        if vectors:
            raise DescriptorError(f"kind::{kind} takes no scale vectors")
        d = _type(kind, RESULTS[kind], _bits(word, 4, 2), "D")
        if kind == "f16" and (a != b or (d == "f16" and a != "f16")):
            raise DescriptorError(f"instruction descriptor {word:#010x}: kind::f16 has no product of {a} and {b} to {d}")
        if kind != "i8" and word & 1 << 3:
            raise DescriptorError(f"instruction descriptor {word:#010x}: saturation is for integers")
        if kind == "i8" and (negate_a or negate_b):
            raise DescriptorError(f"instruction descriptor {word:#010x}: integers can't be negated")
        product = Product(kind, m, n, k, a, b, d, negate_a, negate_b, transpose_a, transpose_b, bool(word & 1 << 3),
                          sparse, _selector(word, kind))
    _check_shape(product, group, ws)
    return product


def _selector(word: int, kind: str) -> int:
    selector = _bits(word, 0, 2)
    if selector and kind in ("i8", "f8f6f4"):
        raise DescriptorError(f"instruction descriptor {word:#010x}: the sparsity selector of kind::{kind} must be 0")
    return selector


SCALE_TYPES = ("ue4m3", "ue8m0", "ue5m3")
"""By their number in the descriptor."""


def _scales(word: int, kind: str, k: int, vectors: str, sparse: bool) -> tuple[int, str, int, int, int]:
    """(k, scale type, scale factors a row, first byte of A's, first byte of B's)."""
    scale = dict(enumerate(SCALE_TYPES)).get(_bits(word, 23, 2), "")
    if not scale:
        raise DescriptorError(f"instruction descriptor {word:#010x}: no scale type has the number 3")
    if kind == "mxf8f6f4":
        count = {"": 1, "1X": 1, "block32": 1}.get(vectors)
    else:
        if _bits(word, 31, 1):
            if sparse:
                raise DescriptorError(f"instruction descriptor {word:#010x}: K of 96 isn't for sparse products")
            k = 96
            count = {"block16": 6, "block32": 3}.get(vectors)
        elif kind == "mxf4":
            count = {"": 2, "2X": 2, "block32": 2}.get(vectors)
        else:
            count = {"2X": 2, "block32": 2, "4X": 4, "block16": 4}.get(vectors)
    if count is None:
        raise DescriptorError(f"kind::{kind} with K of {k} has no scale vectors {vectors or '(none given)'}")
    if scale != "ue8m0" and not (kind == "mxf4nvf4" and count in (4, 6)):
        raise DescriptorError(f"instruction descriptor {word:#010x}: scales of kind::{kind} with {count} a row are ue8m0")
    ids = _bits(word, 29, 2), _bits(word, 4, 2)
    for name, ident in zip("AB", ids):
        if (count in (2, 6) and ident & 1) or (count == 4 and ident):
            raise DescriptorError(f"instruction descriptor {word:#010x}: scale factor {name} id {ident} with {count} "
                                  "scale factors a row")
    return k, scale, count, ids[0], ids[1]


def _check_shape(p: Product, group: int, ws: bool) -> None:
    """PTX ISA, tables of the shapes of each kind."""
    if ws:
        ok = p.m in (32, 64, 128) and p.n in (64, 128, 256)
    elif p.kind in SCALED:
        ok = (p.m == 128 and p.n % 8 == 0 and 8 <= p.n <= 256) if group == 1 else \
            (p.m in (128, 256) and p.n % 16 == 0 and 16 <= p.n <= 256)
    elif group == 2:
        step = 32 if p.kind == "i8" else 16
        ok = p.m in (128, 256) and p.n % step == 0 and step <= p.n <= 256
    elif p.kind == "i8":
        ok = p.m in (64, 128) and (p.n in (16, 32) or (p.n % 16 == 0 and 48 <= p.n <= 256) or
                                   (p.m == 64 and p.n in (8, 24)))
    else:
        ok = (p.m == 64 and p.n % 8 == 0 and 8 <= p.n <= 256) or (p.m == 128 and p.n % 16 == 0 and 16 <= p.n <= 256)
    if not ok:
        raise DescriptorError(f"instruction descriptor: kind::{p.kind}{' .ws' if ws else ''} of cta_group::{group} has no "
                              f"shape M={p.m}, N={p.n}")
    bits = {"e4m3": 8, "e5m2": 8, "u8": 8, "s8": 8}.get(p.b)
    if p.transpose_b and bits == 8 and p.n % (16 * group):
        raise DescriptorError(f"instruction descriptor: a transposed 8-bit B needs N in steps of {16 * group}, not {p.n}")


@dataclass(frozen=True)
class ColumnMask:
    """Columns of B that count as zero, [n] bool, and by how many columns B is shifted."""
    zero: np.ndarray
    shift: int


def decode_column_mask(word: int, m: int, n: int) -> ColumnMask:
    """A zero-column mask descriptor for a weight-stationary product of M=m, N=n."""
    if word & (0b111 << 36 | 0b11 << 62):
        raise DescriptorError(f"zero-column mask descriptor {word:#018x}: reserved bits must be 0")
    shift = _bits(word, 56, 6)
    if shift > (16 if m == 32 else 32):
        raise DescriptorError(f"zero-column mask descriptor {word:#018x}: columns shifted by {shift}")
    parts = 128 // m
    zero = np.zeros(n, bool)
    if word >> 39 & 1:
        ones, zeros = _bits(word, 40, 8) + 1, _bits(word, 48, 8) + 1
        for i in range(parts):
            start, first = _bits(word, 8 * i, 8), _bits(word, 32 + i, 1)
            place = np.arange(n // parts) + start
            phase = place % (ones + zeros)
            zero[i * (n // parts):(i + 1) * (n // parts)] = phase < ones if first else phase >= zeros
    return ColumnMask(zero, shift)
