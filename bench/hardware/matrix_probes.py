"""Single-tile products: every `mma.sync` atom of the compiler's table, and `wgmma` over types, N, major orders, swizzles.

Operands are small integers, so every sum is exact and the result must match to the bit. `mma` probes load each lane's
registers from an image laid out by the atom table (which is what they judge). `wgmma` probes copy a byte image into shared
memory and take both descriptors as parameters, less the address, so that one kernel serves every layout.
"""
from __future__ import annotations

import dataclasses
from typing import Any

import ml_dtypes
import numpy as np

from tileiras.layout.atoms import ATOMS, BITS, MmaAtom

NUMPY: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32, "f64": np.float64, "s8": np.int8,
    "u8": np.uint8, "s32": np.int32, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
HEADER = ".version 9.2\n.target sm_90a\n.address_size 64\n"


@dataclasses.dataclass
class Product:
    """One probe: PTX of the entry `probe(out, in, ...)`, input bytes, expected output bytes, further u64 parameters."""

    name: str
    ptx: str
    data: bytes
    expected: bytes
    parameters: list[int]
    threads: int


def _image(values: np.ndarray, reg_bases: Any, lane_bases: Any) -> np.ndarray:
    """Each lane's elements in register order: (32, elements)."""
    def places(bases: Any) -> np.ndarray:
        out = np.zeros((1, 2), int)
        for base in bases:
            out = np.concatenate([out, out ^ np.array(base)])
        return out
    at = places(lane_bases)[:, None, :] ^ places(reg_bases)[None, :, :]
    return np.ascontiguousarray(values[at[..., 0], at[..., 1]])


def _words(image: np.ndarray) -> int:
    """Bytes a lane holds."""
    return image[0].nbytes


def mma(atom: MmaAtom) -> Product:
    """The probe of one atom."""
    rng = np.random.default_rng(atom.m * 1000 + atom.k)
    low = 0 if "u8" in (atom.a, atom.b) else -3
    a = rng.integers(low, 4, (atom.m, atom.k)).astype(NUMPY[atom.a])
    b = rng.integers(low, 4, (atom.k, atom.n)).astype(NUMPY[atom.b])
    c = rng.integers(-3, 4, (atom.m, atom.n)).astype(NUMPY[atom.acc])
    d = (a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)).astype(NUMPY[atom.acc])
    images = [_image(a, *atom.a_bases), _image(b, *atom.b_bases), _image(c, *atom.c_bases)]
    result = _image(d, *atom.c_bases)
    wide = atom.a == "f64"
    kind, width = ("f64", 8) if wide else ("b32", 4)
    kinds = [kind, kind, "f32" if atom.acc == "f32" else kind]
    offset, body, names = 0, [], []
    for letter, image, register in zip("abc", images, kinds):
        count = _words(image) // width
        body += [f"  .reg .{register} %{letter}<{count}>;", f"  mul.lo.u32 %r1, %r0, {_words(image)};",
                 "  cvt.u64.u32 %at, %r1;", "  add.u64 %at, %at, %in;"]
        body += [f"  ld.global.{register} %{letter}{i}, [%at+{offset + width * i}];" for i in range(count)]
        names.append("{" + ", ".join(f"%{letter}{i}" for i in range(count)) + "}")
        offset += image.nbytes
    count = _words(result) // width
    outs = "{" + ", ".join(f"%d{i}" for i in range(count)) + "}"
    types = f"{atom.acc}.{atom.a}.{atom.b}.{atom.acc}"
    body += [f"  .reg .{kinds[2]} %d<{count}>;",
             f"  mma.sync.aligned.m{atom.m}n{atom.n}k{atom.k}.row.col.{types} {outs}, {', '.join(names)};",
             f"  mul.lo.u32 %r1, %r0, {_words(result)};", "  cvt.u64.u32 %at, %r1;", "  add.u64 %at, %at, %out;"]
    body += [f"  st.global.{kinds[2]} [%at+{width * i}], %d{i};" for i in range(count)]
    name = f"mma_m{atom.m}n{atom.n}k{atom.k}_{types.replace('.', '_')}"
    return Product(name, entry(32, body), b"".join(image.tobytes() for image in images), result.tobytes(), [], 32)


def entry(threads: int, body: list[str], more: int = 0, declarations: str = "") -> str:
    parameters = ", ".join([".param .u64 p_out", ".param .u64 p_in", *(f".param .u64 p{i}" for i in range(more))])
    return "\n".join([HEADER + declarations + f".visible .entry probe({parameters})", f".reqntid {threads}", "{",
                      "  .reg .b64 %out, %in, %at;", "  .reg .b32 %r<8>;", "  .reg .pred %p<4>;",
                      "  ld.param.u64 %out, [p_out];", "  ld.param.u64 %in, [p_in];", "  mov.u32 %r0, %tid.x;",
                      *body, "  ret;", "}", ""])


# wgmma: shared-memory layouts. Swizzles exchange address bits 4.. with bits 7..: (bytes a row, mask of bits 7.., code).
SWIZZLES = {128: (7, 1), 64: (3, 2), 32: (1, 3), 0: (0, 0)}


def _swizzled(address: np.ndarray, mask: int) -> np.ndarray:
    return address ^ (((address >> 7) & mask) << 4)


def _operand(values: np.ndarray, swizzle: int, k_major: bool) -> tuple[bytes, int]:
    """(image, descriptor less its address) of an operand given as (outer, 32 bytes of K)."""
    size = values.itemsize
    outer, inner = (np.indices(values.shape) if k_major else np.indices(values.shape)[::-1])
    mask, code = SWIZZLES[swizzle]
    rows = values.shape[0] if k_major else values.shape[1]     # in the direction that isn't contiguous
    if swizzle:
        per_row = swizzle // size
        groups = (rows + 7) // 8
        address = (inner // per_row) * (groups * 8 * swizzle) + outer * swizzle + (inner % per_row) * size
        address, leading, stride = _swizzled(address, mask), groups * 8 * swizzle, 8 * swizzle
    else:               # 8 rows of 16 bytes lie together; blocks follow along the contiguous direction, then the other
        per_row = 16 // size
        blocks = values.shape[1 if k_major else 0] // per_row
        address = (outer // 8) * (blocks * 128) + (inner // per_row) * 128 + (outer % 8) * 16 + (inner % per_row) * size
        leading, stride = 128, blocks * 128
        if not k_major:
            leading, stride = stride, leading
    image = np.zeros(1 << int(address.max() + size - 1).bit_length(), np.uint8)
    raw = np.ascontiguousarray(values).view(np.uint8).reshape(*values.shape, size)
    for i in range(size):
        image[address + i] = raw[..., i]
    return image.tobytes(), (leading >> 4) << 16 | (stride >> 4) << 32 | code << 62


def wgmma(kind: str, acc: str, n: int, swizzle: int, a_k_major: bool = True, b_k_major: bool = True) -> Product:
    """One m64nNk(32 bytes). Shared memory holds A at 0 and B at 32768."""
    rng = np.random.default_rng(n + swizzle)
    k = 256 // BITS[kind]
    low = 0 if kind == "u8" else -3
    a = rng.integers(low, 4, (64, k)).astype(NUMPY[kind])
    b = rng.integers(low, 4, (n, k)).astype(NUMPY[kind])
    d = (a.astype(np.float64) @ b.astype(np.float64).T).astype(NUMPY[acc])
    (image_a, desc_a), (image_b, desc_b) = _operand(a, swizzle, a_k_major), _operand(b, swizzle, b_k_major)
    data = image_a.ljust(32768, b"\0") + image_b.ljust(32768, b"\0")
    thread = np.arange(128)
    row = 16 * (thread // 32) + (thread % 32) // 4
    register = np.arange(n // 2)
    rows = row[:, None] + 8 * ((register >> 1) & 1)
    columns = 8 * (register >> 2) + 2 * (thread % 4)[:, None] + (register & 1)
    result = np.ascontiguousarray(d[rows, columns])
    width = 4
    count = n // 2 * result.itemsize // width
    letter = {"f32": "f32", "s32": "s32", "f16": "b32"}[acc]
    outs = "{" + ", ".join(f"%d{i}" for i in range(count)) + "}"
    floating = kind in ("f16", "bf16", "tf32", "e4m3", "e5m2")
    tail = ", 1, 1" if floating else ""
    if kind in ("f16", "bf16"):
        tail += f", {0 if a_k_major else 1}, {0 if b_k_major else 1}"
    body = [
        f"  .reg .{letter} %d<{count}>;", "  .reg .b64 %da, %db, %s;",
        "  mov.u32 %r1, %r0;", "LOOP:", "  mul.wide.u32 %at, %r1, 4;", "  add.u64 %at, %at, %in;", "  ld.global.u32 %r2, [%at];",
        "  shl.b32 %r3, %r1, 2;", "  mov.u32 %r4, buffer;", "  add.u32 %r3, %r3, %r4;", "  st.shared.u32 [%r3], %r2;",
        "  add.u32 %r1, %r1, 128;", "  setp.lt.u32 %p0, %r1, 16384;", "  @%p0 bra LOOP;",
        "  fence.proxy.async.shared::cta;", "  bar.sync 0;",
        "  mov.u32 %r4, buffer;", "  shr.u32 %r4, %r4, 4;", "  cvt.u64.u32 %s, %r4;", "  ld.param.u64 %da, [p0];",
        "  ld.param.u64 %db, [p1];", "  or.b64 %da, %da, %s;", "  add.u64 %s, %s, 2048;", "  or.b64 %db, %db, %s;",
        "  wgmma.fence.sync.aligned;", "  setp.ne.u32 %p1, 0, 0;",
        f"  wgmma.mma_async.sync.aligned.m64n{n}k{k}.{acc}.{kind}.{kind} {outs}, %da, %db, %p1{tail};",
        "  wgmma.commit_group.sync.aligned;", "  wgmma.wait_group.sync.aligned 0;",
        f"  mul.wide.u32 %at, %r0, {count * width};", "  add.u64 %at, %at, %out;"]
    body += [f"  st.global.{letter} [%at+{width * i}], %d{i};" for i in range(count)]
    majors = ("k" if a_k_major else "m") + ("k" if b_k_major else "n")
    shared = ".extern .shared .align 1024 .b8 buffer[];\n"
    return Product(f"wgmma_m64n{n}k{k}_{acc}_{kind}_sw{swizzle}_{majors}", entry(128, body, 2, shared), data, result.tobytes(),
                   [desc_a, desc_b], 128)


def products() -> list[Product]:
    """Every probe, mma first."""
    out = [mma(atom) for atom in ATOMS]
    for kind, acc in (("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("tf32", "f32"), ("e4m3", "f32"), ("e5m2", "f32"),
                      ("e4m3", "f16"), ("s8", "s32"), ("u8", "s32")):
        out += [wgmma(kind, acc, n, 128) for n in (8, 16, 32, 64, 128, 256)]
        out += [wgmma(kind, acc, 64, swizzle) for swizzle in (0, 32, 64)]
    for kind in ("f16", "bf16"):
        out += [wgmma(kind, "f32", n, swizzle, a, b) for n in (64, 128) for swizzle in SWIZZLES
                for a, b in ((False, True), (True, False), (False, False))]
    return out
