"""The 128 bytes of tensor maps: encoded, decoded, and built field by field as `tensormap.replace` does it."""
from __future__ import annotations

import random

import numpy as np
import pytest

from tests.sim.asynckit import run
from tileiras.layout.tensormap import ATOMICITIES, DRIVER_TYPES, ELEMENTS, TensorMap, TensorMapError, tiled
from tileiras.sim import InvalidInstruction
from tileiras.sim.copy import tensormap as sim
from tileiras.sim.errors import DescriptorError

CODES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "tf32", "tf32.ftz", "b4x16", "b4x16_p64",
         "b6x16_p32")                   # of tensormap.replace.elemtype, PTX ISA table "tensormap new_val validity"


EMPTY = (1 << 65).to_bytes(128, "little")             # what a map of version 1 has but for its fields
LARGE = 1 << 85


def random_map(rng: random.Random) -> TensorMap:
    """A valid tiled map."""
    while True:
        rank = rng.randint(1, 5)
        element = rng.choice([e for e in ELEMENTS if e[0] != "b" or e == "bf16"])
        size = ELEMENTS[element][0] // 8
        swizzle = rng.choice([0, 32, 64, 128, 96])
        m = TensorMap(rng.randrange(1 << 50) * 16, element, tuple(rng.randint(1, 1 << 32) for _ in range(rank)),
                      tuple(rng.randrange(1, 1 << 36) * 16 for _ in range(rank - 1)),
                      (rng.choice([16, 32, 64, 96, 128]) // size, *(rng.randint(1, rng.choice((256, 6))) for _ in range(rank - 1))),
                      (1, *(rng.randint(1, 8) for _ in range(rank - 1))), swizzle=swizzle,
                      atomicity=rng.choice(ATOMICITIES) if swizzle == 128 else "16B", promotion=rng.choice([0, 64, 128, 256]),
                      nan_fill=element[0] not in "us" and rng.random() < 0.5)
        try:
            m.check()
            return m
        except TensorMapError:
            continue


def fields(m: TensorMap):
    """(field, ordinal, value) of every `tensormap.replace` that builds a map."""
    yield "global_address", 0, m.address
    yield "rank", 0, m.rank - 1
    yield "elemtype", 0, CODES.index(m.element)
    yield "interleave_layout", 0, {0: 0, 16: 1, 32: 2}[m.interleave]
    yield "swizzle_mode", 0, (0, 32, 64, 128, 96).index(m.swizzle)
    yield "swizzle_atomicity", 0, ATOMICITIES.index(m.atomicity)
    yield "fill_mode", 0, int(m.nan_fill)
    for i in range(m.rank):
        yield "global_dim", i, m.sizes[i] & 0xFFFFFFFF
        yield "box_dim", i, m.box[i]
        yield "element_stride", i, (m.steps or (1,) * m.rank)[i]
        if i:
            yield "global_stride", i - 1, m.strides[i - 1]


def test_maps_come_back_as_they_went_in():
    rng = random.Random(5)
    for _ in range(300):
        m = random_map(rng)
        data = m.encode()
        assert len(data) == 128
        d = sim.decode(data)
        assert (d.address, d.sizes, d.strides, d.box) == (m.address, m.sizes, m.strides, m.box)
        assert (d.steps, d.swizzle, d.nan_fill, d.interleave) == (m.steps, m.swizzle, m.nan_fill, m.interleave)
        assert ATOMICITIES[d.atomicity] == m.atomicity and d.bits == m.bits
        assert d.element == m.element.replace("tf32", "f32")
        assert d.tf32 == m.element.startswith("tf32")


def test_a_map_built_field_by_field_is_the_one_encoded():
    rng = random.Random(6)
    for _ in range(300):
        m = random_map(rng)
        data = EMPTY
        order = list(fields(m))
        rng.shuffle(order)
        for field, ordinal, value in order:
            data = sim.replace(data, field, ordinal, value)
        made = TensorMap(**{**m.__dict__, "promotion": 0}).encode()
        assert int.from_bytes(data, "little") == int.from_bytes(made, "little") & ~LARGE


def test_the_bits_that_ptxas_writes():
    """Words and shifts of the stores in ptxas 13.5's code for tensormap.replace on sm_90a, sm_100a, sm_103a and sm_120a."""
    def word(field, ordinal, value, index):
        return int.from_bytes(sim.replace(bytes(128), field, ordinal, value)[4 * index:4 * index + 4], "little")
    assert word("rank", 0, 4, 2) == 4 << 4
    assert [word("elemtype", 0, k, 2) for k in (1, 10, 11, 12, 13, 15)] == [0x80, 0x500, 0x10380, 0x10400, 0x580, 0x680]
    assert [word("interleave_layout", 0, k, 2) for k in (1, 2)] == [0x800, 0x1000]
    assert [word("swizzle_mode", 0, k, 2) for k in (1, 2, 3, 4)] == [0x2000, 0x4000, 0x6000, 0x400000]
    assert [word("swizzle_atomicity", 0, k, 2) for k in (1, 2, 3)] == [0x80000, 0x100000, 0x180000]
    assert word("fill_mode", 0, 1, 2) == 0x8000
    assert word("box_dim", 0, 256, 13) == 0xFF000000
    assert [word("box_dim", i, 3, 14) for i in range(1, 5)] == [2 << 8 * i for i in range(4)]
    assert [word("element_stride", i, 8, 13) for i in range(5)] == [7 << 3 * i for i in range(5)]
    assert [word("global_dim", i, 9, 8 + i) for i in range(5)] == [8] * 5
    assert [word("global_stride", i, 1 << 36 | 32, 7) for i in range(4)] == [1 << 4 * i for i in range(4)]
    assert [word("global_stride", i, 1 << 36 | 32, 3 + i) for i in range(4)] == [2] * 4


def test_im2col_maps_keep_their_corners():
    for rank, low, high in [(3, (-32768,), (32767,)), (4, (-128, 5), (127, -3)), (5, (-16, 3, 0), (15, -2, -1))]:
        m = TensorMap(0, "f16", (64, 9, 14, 5, 6)[:rank], (128, 1152, 16128, 80640)[:rank - 1], mode="im2col", lower=low,
                      upper=high, channels=64, pixels=1024, swizzle=128)
        d = sim.decode(m.encode())
        assert (d.mode, d.lower, d.upper, d.channels, d.pixels) == ("im2col", low, high, 64, 1024)
        assert m.box_bytes() == 64 * 1024 * 2


@pytest.mark.parametrize(("change", "words"), [
    ({"address": 8}, "multiple of 16"), ({"box": (7, 4)}, "multiple of 16"), ({"box": (257, 4)}, "256"),
    ({"strides": (120,)}, "multiple of 16"), ({"strides": ()}, "strides"), ({"sizes": (0, 8)}, "size 0"),
    ({"swizzle": 32}, "swizzle of 32"), ({"swizzle": 48}, "no swizzle"), ({"interleave": 16}, "3 dimensions"),
    ({"steps": (1, 9)}, "element stride 9"), ({"atomicity": "32B"}, "atomicities"), ({"element": "u16", "nan_fill": True}, "NaN"),
    ({"promotion": 32}, "promotion"), ({"element": "f8"}, "unknown element"), ({"mode": "im2col"}, "im2col")])
def test_what_the_encoder_refuses(change, words):
    good = tiled(0, "f16", (64, 8), (32, 4))
    with pytest.raises(TensorMapError, match=words):
        TensorMap(**{**good.__dict__, **change}).encode()


@pytest.mark.parametrize(("bit", "words"), [(66, "version 3"), (67, "version 5"), (90, "reserved"), (245, "reserved"),
                                            (433, "reserved"), (500, "reserved"), (0, "multiple of 16"), (70, "6 dimensions"),
                                            (86, "two swizzles"), (83, "atomicity"), (75, "interleave")])
def test_bits_that_cant_be(bit, words):
    good = tiled(0, "f16", (64, 8), (32, 4), swizzle=64).encode()
    with pytest.raises(DescriptorError, match=words):
        sim.decode((int.from_bytes(good, "little") ^ 1 << bit).to_bytes(128, "little"))


@pytest.mark.parametrize("bits", [1 << 65, 1 << 85, 1 << 512, 1 << 1023, sum(1 << b for b in range(512, 1024))])
def test_bits_that_mean_nothing_to_a_copy(bits):
    """The version may be 0 too, a small tensor may count as large, and bytes 64 to 127 are nobody's."""
    good = int.from_bytes(tiled(0, "f16", (64, 8), (32, 4), swizzle=64).encode(), "little")
    assert sim.decode((good ^ bits).to_bytes(128, "little")) == sim.decode(good.to_bytes(128, "little"))


GOLDEN = [
    (tiled(0x7F1000000000, "f16", (192, 256), (64, 128), swizzle=128, promotion=128),
     "0 7f10 46312 18 0 0 0 0 bf ff 0 0 0 3f000000 7f 0"),
    (tiled(0x7F1000100000, "f16", (320, 256), (64, 64), swizzle=128, promotion=128),
     "100000 7f10 246312 28 0 0 0 0 13f ff 0 0 0 3f000000 3f 0"),
    (tiled(0x7F1000000050, "f32", (48, 6, 5, 4, 3), (16, 4, 4, 2, 2), (192, 1152, 5760, 92160), promotion=128),
     "50 7f10 2403c2 c 48 168 1680 0 2f 5 4 3 2 f000000 1010303 0"),
    (tiled(0x7F1000000000, "b4x16", (4096, 1000), (128, 64), promotion=128),
     "0 7f10 240592 80 0 0 0 0 fff 3e7 0 0 0 7f000000 3f 0"),
    (tiled(0x7F1000000000, "f32", (8, 16, 64), (8, 16, 4), (0x3FFFFFFC0, 0x3FFFFFFC00), promotion=128),
     "0 7f10 2403a2 3ffffffc ffffffc0 0 0 30 7 f 3f 0 0 7000000 30f 0"),
    (tiled(0x7E0100000000, "tf32", (512, 448), (32, 32), (2304,), swizzle=128, atomicity="32B", promotion=128),
     "0 7e01 2d6392 90 0 0 0 0 1ff 1bf 0 0 0 1f000000 1f 0"),
]


@pytest.mark.parametrize(("made", "words"), GOLDEN)
def test_the_words_that_launches_of_the_original_get(made, words):
    """Words in hexadecimal that host code in the original's cubins wrote for these tensors."""
    data = made.encode()
    assert [int.from_bytes(data[4 * i:4 * i + 4], "little") for i in range(32)] == [int(w, 16) for w in words.split()] + [0] * 16
    assert sim.decode(data).sizes == made.sizes


def test_the_instruction_writes_the_same_fields():
    m = tiled(0x7F0000000100, "bf16", (1000, 77, 5), (64, 8, 2), swizzle=128, atomicity="32B", steps=(1, 2, 1), nan_fill=True)
    body = "setp.ne.u32 %p1, %t, 0; @%p1 ret;\n"
    for field, ordinal, value in fields(m):
        which = f"{ordinal}, " if field in ("box_dim", "global_dim", "global_stride", "element_stride") else ""
        wide = field in ("global_address", "global_stride")
        body += f"tensormap.replace.tile.{field}.global.b1024.b{64 if wide else 32} [%g0], {which}{value};\n"
    out = np.zeros(256, np.uint8)
    aligned = out[-out.ctypes.data % 64:][:128]
    aligned[:] = np.frombuffer(EMPTY, np.uint8)
    run(body, [aligned])
    assert int.from_bytes(aligned.tobytes(), "little") == int.from_bytes(m.encode(), "little") & ~LARGE


@pytest.mark.parametrize("text", ["tile.rank.global.b1024.b64 [%g0], 1", "tile.box_dim.global.b1024.b32 [%g0], 5, 1",
                                  "tile.swizzle_mode.global.b1024.b32 [%g0], 5", "tile.elemtype.global.b1024.b32 [%g0], %r1",
                                  "tile.colour.global.b1024.b32 [%g0], 1", "im2col.rank.global.b1024.b32 [%g0], 1",
                                  "tile.global_stride.global.b1024.b64 [%g0], 4, 16"])
def test_replacements_that_dont_exist(text):
    with pytest.raises(InvalidInstruction):
        run(f"mov.u32 %r1, 0; tensormap.replace.{text};", [np.zeros(128, np.uint8)])


def test_a_map_of_an_array():
    array = np.zeros((4, 10, 64), np.float16)[:, :8]
    d = sim.decode(sim.tensor_map(array, (1, 8, 32), swizzle=64).encode(256))
    assert (d.address, d.element, d.sizes, d.strides, d.box) == (256, "f16", (64, 8, 4), (128, 1280), (32, 8, 1))
    with pytest.raises(DescriptorError, match="contiguous"):
        sim.tensor_map(array[:, :, ::2], (1, 1, 8))
    with pytest.raises(DescriptorError, match="no elements"):
        sim.tensor_map(np.zeros((4, 4), np.complex64), (4, 4))
    with pytest.raises(DescriptorError, match="multiple of 16"):
        sim.tensor_map(array, (1, 1, 7))


def test_the_drivers_types_are_all_there():
    assert sorted(DRIVER_TYPES) == sorted(ELEMENTS) and len(DRIVER_TYPES) == 16
