"""tcgen05.ld, st, cp and shift against the PTX ISA's figures of their shapes, written down here as bit layouts."""
from __future__ import annotations

import numpy as np
import pytest

from tests.sim import tcgen05kit as kit
from tileiras.sim import simulate
from tileiras.sim.errors import SimulationError

CELLS = (np.arange(128)[:, None] << 16 | np.arange(64)).astype(np.uint32)


def place(shape: tuple, stride: tuple, index: int) -> int:
    """A number split into mixed-radix digits, first digit fastest, each times its stride."""
    out = 0
    for s, d in zip(shape, stride):
        out += index % s * d
        index //= s
    return out


def expected(shape: str, n: int, thread: int, register: int) -> tuple[int, int]:
    """(lane, column) of a register of a thread: the figure's layouts of (thread, bit) in rows of `width` bits."""
    bit = 32 * register
    if shape == "32x32b":
        width, at = 32 * n, 32 * n * thread + bit
    elif shape == "16x64b":
        width = 64 * n
        at = place((2, 2, 8), (8 * width, 32, width), thread) + place((32, n), (1, 64), bit)
    elif shape == "16x128b":
        width = 128 * n
        at = place((4, 8), (32, width), thread) + place((32, 2, n), (1, 8 * width, 128), bit)
    elif shape == "16x256b":
        width = 256 * n
        at = place((4, 8), (64, width), thread) + place((64, 2, n), (1, 8 * width, 256), bit)
    else:
        width = 64 * n
        at = place((16, 2), (width, 32 * n), thread) + bit
    return at // width, at % width // 32


PER = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
CASES = [(s, n) for s in PER for n in (1, 2, 4, 8, 16, 32, 64, 128) if n * PER[s] <= 128]


def mover(shape: str, n: int, packed: bool, split: int, load: bool, lane: int = 0) -> tuple[str, int, int]:
    """(kernel text, registers, columns): loads registers from tensor memory, or stores them there, and writes all out."""
    registers = n * PER[shape]
    words = {"32x32b": n, "16x64b": 2 * n, "16x128b": 4 * n, "16x256b": 8 * n, "16x32bx2": n + split}[shape]
    columns = max(32, 1 << (words * (2 if packed and shape != "16x32bx2" else 1) - 1).bit_length())
    if packed and shape == "16x32bx2":
        columns = max(32, 1 << (split + 2 * n - 1).bit_length())
    names = "{" + ", ".join(f"%r{i}" for i in range(registers)) + "}"
    extra = f", {split}" if shape == "16x32bx2" else ""
    lines = []
    if load:
        lines += [line for c in range(columns) for line in
                  (f"shl.b32 %t1, %t5, 16; or.b32 %t1, %t1, {c}; mov.b32 %t1, %t1;" if not packed else
                   f"mad.lo.u32 %t1, %t5, 512, {c};",
                   f"tcgen05.st.sync.aligned.32x32b.x1.b32 [%t4+{c}], {{%t1}};")]
        lines += ["tcgen05.wait::st.sync.aligned;", f"add.u32 %t4, %t4, {lane << 16};",
                  f"tcgen05.ld.sync.aligned.{shape}.x{n}{'.pack::16b' if packed else ''}.b32 {names}, [%t4]{extra};",
                  "tcgen05.wait::ld.sync.aligned;", f"mad.wide.u32 %out, %me, {4 * registers}, %out;"]
        lines += [f"st.global.u32 [%out+{4 * i}], %r{i};" for i in range(registers)]
    else:
        lines += [f"tcgen05.st.sync.aligned.32x32b.x1.b32 [%t4+{c}], {{%zero}};" for c in range(columns)]
        lines += [f"mad.lo.u32 %r{i}, %me, {registers}, {i + 1};" for i in range(registers)]
        if packed:
            lines += [f"mul.lo.u32 %r{i}, %r{i}, 65537;" for i in range(registers)]
        lines += ["tcgen05.wait::st.sync.aligned;",
                  f"tcgen05.st.sync.aligned.{shape}.x{n}{'.unpack::16b' if packed else ''}.b32 [%t4]{extra}, {names};",
                  "tcgen05.wait::st.sync.aligned;", f"mad.wide.u32 %out, %me, {4 * columns}, %out;"]
        for c in range(columns):
            lines += [f"tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%t1}}, [%t4+{c}];", "tcgen05.wait::ld.sync.aligned;",
                      f"st.global.u32 [%out+{4 * c}], %t1;"]
    text = f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
.reqntid 128
{{
.reg .b32 %r<130>, %t<8>, %me, %slot, %zero;
.reg .b64 %out;
.reg .pred %p0;
.shared .align 4 .b32 address;
mov.u32 %me, %tid.x;
mov.u32 %zero, 0;
mov.u32 %slot, address;
ld.param.u64 %out, [out];
setp.lt.u32 %p0, %me, 32;
@!%p0 bra ready;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot], {columns};
ready:
bar.sync 0;
ld.shared.u32 %t3, [%slot];
shr.u32 %t4, %me, 5;
shl.b32 %t4, %t4, 21;
add.u32 %t4, %t3, %t4;
mov.u32 %t5, %me;
{chr(10).join(lines)}
tcgen05.fence::before_thread_sync;
bar.sync 0;
@!%p0 bra freed;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %t3, {columns};
freed:
ret;
}}
"""
    return text, registers, columns


def half_split(shape: str, n: int, packed: bool) -> int:
    return (2 * n if packed else n) if shape == "16x32bx2" else 0


def cells_of(shape: str, n: int, packed: bool, split: int, thread: int, register: int) -> list[tuple[int, int]]:
    """The cells of a register: with packing each 32-bit word of the figure is two columns."""
    lane, word = expected(shape, n, thread, register)
    second = shape == "16x32bx2" and word >= n
    word -= n * second
    columns = [2 * word, 2 * word + 1] if packed else [word]
    return [(lane, c + split * second) for c in columns]


LOADS = [(s, n, False) for s, n in CASES] + [(s, n, True) for s, n in CASES if n in (1, 2, 16) or n * PER[s] == 64]


@pytest.mark.parametrize("shape,n,packed", LOADS)
def test_loads_bring_each_register_the_cell_that_the_figures_show(shape, n, packed):
    split = half_split(shape, n, packed)
    lane = 16 if shape.startswith("16") and n == 2 else 0
    text, registers, _ = mover(shape, n, packed, split, True, lane)
    complaint = kit.assembled(text, "sm_100a")
    assert not complaint
    out = np.zeros((128, registers), np.uint32)
    report = simulate(text, args=[out])
    assert not report.findings
    for thread in range(128):
        for register in range(registers):
            want = 0
            for i, (row, column) in enumerate(cells_of(shape, n, packed, split, thread % 32, register)):
                row += thread // 32 * 32 + lane
                want |= (row * 512 + column) % 65536 << 16 * i if packed else row << 16 | column
            assert out[thread, register] == want, (thread, register)


@pytest.mark.parametrize("shape,n,packed", [(s, n, p) for s, n in CASES if n in (1, 2, 16) for p in (False, True)])
def test_stores_put_each_register_into_the_cell_that_the_figures_show(shape, n, packed):
    split = half_split(shape, n, packed)
    text, registers, columns = mover(shape, n, packed, split, False)
    complaint = kit.assembled(text, "sm_100a")
    assert not complaint
    out = np.zeros((128, columns), np.uint32)
    report = simulate(text, args=[out])
    assert not report.findings
    want = np.zeros((128, columns), np.uint32)
    for thread in range(128):
        for register in range(registers):
            value = thread * registers + register + 1
            for row, column in cells_of(shape, n, packed, split, thread % 32, register):
                want[thread // 32 * 32 + row, column] = value
    assert (out == want).all()


# ---- copies from shared memory

def copy_image(rows: int, size: int, swizzle: int) -> tuple[np.ndarray, np.ndarray, int]:
    """(rows of bytes, image, descriptor bits) of a K-major matrix; each 16-byte chunk placed by hand."""
    rng = np.random.default_rng(rows * size + swizzle)
    data = rng.integers(0, 256, (rows, size), np.uint8)
    span = {0: 16, 6: 32, 4: 64, 2: 128}[swizzle]
    groups = -(-rows // 8)
    image = np.zeros(groups * 8 * max(span, size), np.uint8)
    for r in range(rows):
        for c in range(size // 16):
            if swizzle:
                at = r // 8 * 8 * span + r % 8 * span + 16 * c
                key = at >> 7 & (span // 16 - 1)
                at ^= key << 4
            else:
                at = r // 8 * 128 + r % 8 * 16 + c * groups * 128
            image[at:at + 16] = data[r, 16 * c:16 * c + 16]
    return data, image, kit.descriptor(groups * 128 if not swizzle else 16, 8 * span if swizzle else 128, swizzle)


def repeated(data: np.ndarray, shape: str, multicast: str) -> dict[int, np.ndarray]:
    """Lane -> row of the source."""
    if shape == "4x256b":
        return {32 * r: data[r] for r in range(4)}
    if multicast == "warpx4":
        return {32 * w + r: data[r] for w in range(4) for r in range(32)}
    if multicast:                                        # quarters 0 and 2 (or 0 and 1) hold the same rows
        order = (0, 1, 0, 1) if multicast.endswith("02_13") else (0, 0, 1, 1)
        return {32 * w + r: data[32 * half + r] for w, half in enumerate(order) for r in range(32)}
    return dict(enumerate(data))


@pytest.mark.parametrize("swizzle", [0, 2, 4, 6])
@pytest.mark.parametrize("shape,multicast", [("128x256b", ""), ("128x128b", ""), ("4x256b", ""),
                                             ("64x128b", "warpx2::02_13"), ("64x128b", "warpx2::01_23"),
                                             ("32x128b", "warpx4")])
def test_copies_put_rows_into_the_lanes_of_their_shape(shape, multicast, swizzle):
    rows, size = int(shape.split("x")[0]), int(shape.split("x")[1][:-1]) // 8
    data, image, bits = copy_image(rows, size, swizzle)
    name = shape + ("." + multicast if multicast else "")
    out, report = kit.run(kit.matrix_at("%d0", 0, bits) + f"\ntcgen05.cp.cta_group::1.{name} [%tm+8], %d0;",
                          CELLS, image)
    want = CELLS.copy()
    for lane, row in repeated(data, shape, multicast).items():
        want[lane, 8:8 + size // 4] = row.view(np.uint32)
    assert (out == want).all()
    assert not report.findings


@pytest.mark.parametrize("form,width", [("b4x16_p64", 4), ("b6x16_p32", 6)])
def test_copies_spread_packed_elements(form, width):
    data, image, bits = copy_image(128, 32, 0)
    out, report = kit.run(kit.matrix_at("%d0", 0, bits) + f"\ntcgen05.cp.cta_group::1.128x256b.b8x16.{form} [%tm], %d0;",
                          CELLS, image)
    for lane in (0, 1, 77, 127):
        spread = out[lane, :8].copy().view(np.uint8)
        for half in range(2):
            number = int.from_bytes(data[lane, 16 * half:16 * half + 16].tobytes(), "little")
            for i in range(16):
                code = number >> width * i & (1 << width) - 1
                assert spread[16 * half + i] == (code << 2 if width == 4 else code)
    assert not report.findings


def test_a_shift_moves_each_lane_but_the_last_one_down():
    out, report = kit.run("add.u32 %t5, %tm, 2097152;\ntcgen05.shift.cta_group::1.down [%t5+4];", CELLS)
    want = CELLS.copy()
    want[32:63, 4:12] = CELLS[33:64, 4:12]
    assert (out == want).all()
    assert not report.findings


@pytest.mark.parametrize("operation,want", [
    ("max.u32", lambda x: x.max(axis=1)), ("min.s32", lambda x: x.view(np.int32).min(axis=1).view(np.uint32)),
    ("min.f32", lambda x: np.fmin.reduce(x.view(np.float32), axis=1).view(np.uint32)),
    ("max.abs.f32", lambda x: np.fmax.reduce(np.abs(x.view(np.float32)), axis=1).view(np.uint32)),
    ("max.NaN.f32", lambda x: np.where(np.isnan(x.view(np.float32)).any(axis=1), np.uint32(0x7FFFFFFF),
                                       np.fmax.reduce(x.view(np.float32), axis=1).view(np.uint32)))])
def test_loads_with_a_reduction(operation, want):
    rng = np.random.default_rng(5)
    cells = rng.standard_normal((128, 32)).astype(np.float32)
    cells[3, 5] = np.nan
    after = f"""tcgen05.ld.red.sync.aligned.32x32b.x8.{operation} {{%v0, %v1, %v2, %v3, %v4, %v5, %v6, %v7}}, %t9, [%mine];
tcgen05.wait::ld.sync.aligned;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%mine+8], {{%t9}};
tcgen05.wait::st.sync.aligned;"""
    out, report = kit.run("", cells.view(np.uint32), target="sm_103a", after=after)
    assert (out[:, 8] == want(cells[:, :8].copy().view(np.uint32))).all()
    assert not report.findings


def test_a_warp_reaches_its_own_quarter_only():
    _, report = kit.run("", CELLS, after="""tcgen05.ld.sync.aligned.32x32b.x1.b32 {%t9}, [%tm];
tcgen05.wait::ld.sync.aligned;""")
    assert [f.kind for f in report.findings] == ["tensor memory"]
    assert "warp 1 reaches lanes 32 to 63" in str(report.findings[0])


def test_reads_beyond_the_allocation_are_found():
    _, report = kit.run("", CELLS, after="""tcgen05.ld.sync.aligned.32x32b.x1.b32 {%t9}, [%mine+64];
tcgen05.wait::ld.sync.aligned;""")
    assert ["column 64 of tensor memory isn't allocated" in str(f) for f in report.findings] == [True]


def test_addresses_outside_tensor_memory_fault():
    with pytest.raises(SimulationError, match="outside tensor memory"):
        kit.run("", CELLS, after="""tcgen05.ld.sync.aligned.32x32b.x2.b32 {%t9, %t8}, [%mine+511];
tcgen05.wait::ld.sync.aligned;""")
