"""Matrix descriptors: bits, and where tiles lie, against the PTX ISA's canonical layouts written as shape:stride."""
from __future__ import annotations

import itertools

import numpy as np
import pytest

from tileiras.sim.errors import DescriptorError
from tileiras.sim.matrix import descriptors
from tileiras.sim.matrix.descriptors import MatrixDescriptor, chunk_addresses, decode, encode, unpack


def cute(shape: tuple, stride: tuple, index: int) -> int:
    """A CuTe layout of nested modes: the offset of a linear index, first mode fastest."""
    total = 0
    for extent, step in zip(shape, stride):
        total += index % extent * step
        index //= extent
    assert index == 0
    return total


def swizzle(bits: int, base: int, shift: int, offset: int) -> int:
    """Swizzle<bits, base, shift> of a byte offset."""
    mask = (1 << bits) - 1
    return offset ^ ((offset >> (base + shift) & mask) << base)


SWIZZLES = {(0, 16): (0, 4, 3), (32, 16): (1, 4, 3), (64, 16): (2, 4, 3), (128, 16): (3, 4, 3), (128, 32): (2, 5, 2)}


def canonical(major: str, span: int, atom: int, width: int, mn: int, k: int, lbo: int, sbo: int) -> np.ndarray:
    """[mn, k] byte offsets from a pattern's start by the table of canonical layouts (strides in elements)."""
    t = 128 // width
    leading, stride = lbo * 8 // width, sbo * 8 // width
    w = max(span // 16, 1)
    big = 1 << 20
    if major == "mn":
        if atom == 32:
            rows, columns = ((t, 8, big), (1, t, leading)), ((4, big), (8 * t, stride))
        elif span == 0:
            rows, columns = ((t, 1, big), (1, t, stride)), ((8, big), (t, leading))
        else:
            rows, columns = ((t, w, big), (1, t, leading)), ((8, big), (w * t, stride))
    else:
        rows = ((8, big), (w * t, stride))
        columns = ((t, big), (1, leading if span == 0 else t))
    out = np.empty((mn, k), np.int64)
    for i, j in itertools.product(range(mn), range(k)):
        linear = (cute(*rows, i) + cute(*columns, j)) * width // 8
        out[i, j] = swizzle(*SWIZZLES[span, atom], linear)
    return out


def place_of(d: MatrixDescriptor, major: str, mn: int, k: int, width: int) -> np.ndarray:
    """[mn, k] addresses of the bytes that hold each element."""
    chunks = chunk_addresses(d, major, mn, k, width)
    t = 128 // width
    if major == "k":
        return chunks[:, np.arange(k) // t] + np.arange(k) % t * width // 8
    return chunks[np.arange(mn) // t] + (np.arange(mn) % t * width // 8)[:, None]


@pytest.mark.parametrize("major", ["k", "mn"])
@pytest.mark.parametrize("span,atom", list(SWIZZLES))
@pytest.mark.parametrize("width", [4, 8, 16, 32])
def test_tiles_lie_as_the_canonical_layouts_say(major, span, atom, width):
    if atom == 32 and major == "k":
        pytest.skip("only MN-major")
    mn = 64
    for k_bytes, (lbo, sbo) in itertools.product((32,), ((16, 1024), (2048, 4096), (128, 256), (8192, 1024), (6144, 2048))):
        k = k_bytes * 8 // width
        want = canonical(major, span, atom, width, mn, k, lbo, sbo)
        for start in (0, 1024, 9 * 1024):
            d = MatrixDescriptor(start, lbo, sbo, 0, span, atom)
            np.testing.assert_array_equal(place_of(d, major, mn, k, width), start + want)


@pytest.mark.parametrize("span", [64, 128])
def test_steps_along_k_stay_in_the_swizzled_row(span):
    """Adding a step's bytes to the start address of a swizzled K-major tile gives the next columns."""
    wide = canonical("k", span, 16, 16, 64, span // 2, 16, 1024)
    for step in range(span // 32):
        d = MatrixDescriptor(2048 + 32 * step, 16, 1024, 0, span)
        np.testing.assert_array_equal(place_of(d, "k", 64, 16, 16), 2048 + wide[:, 16 * step:16 * step + 16])


@pytest.mark.parametrize("span", [32, 64, 128])
def test_a_base_offset_names_the_pattern_s_start(span):
    for first in range(8):
        start = 4096 + 128 * first
        d = MatrixDescriptor(start, 16, 1024, first, span)
        want = canonical("k", span, 16, 16, 32, 16, 16, 1024)
        np.testing.assert_array_equal(place_of(d, "k", 32, 16, 16), start + want)
        assert first == (start >> 7) & 7


def test_isa_examples_of_canonical_layouts():
    """PTX ISA, "Canonical Layouts": the exact layouts of its five examples, an instruction's K of them."""
    examples = [("k", 0, 32, 64 * 4, 32 * 4, ((8, 2), (4, 32)), ((4, 2), (1, 64))),
                ("k", 32, 32, 16, 64 * 4, ((8, 2), (8, 64)), ((4, 2), (1, 4))),
                ("mn", 0, 16, 128 * 2, 64 * 2, ((8, 1, 2), (1, 8, 64)), ((8, 2), (8, 128))),
                ("mn", 32, 16, 128 * 2, 256 * 2, ((8, 2, 2), (1, 8, 128)), ((8, 2), (16, 256))),
                ("mn", 64, 16, 256 * 2, 512 * 2, ((8, 4, 2), (1, 8, 256)), ((8, 2), (32, 512)))]
    for major, span, width, lbo, sbo, rows, columns in examples:
        mn, k = int(np.prod(rows[0])), int(np.prod(columns[0]))
        want = [[swizzle(*SWIZZLES[span, 16], (cute(rows[0], rows[1], i) + cute(columns[0], columns[1], j)) * width // 8)
                 for j in range(k)]
                for i in range(mn)]
        got = place_of(MatrixDescriptor(0, lbo, sbo, 0, span), major, mn, k, width)
        np.testing.assert_array_equal(got, want)


def test_rows_of_48_bytes_go_on_at_the_absolute_address():
    d = MatrixDescriptor(1024 + 96, 8192, 1024, 0, 128, 16, True)
    at = chunk_addresses(d, "k", 16, 96, 4)
    for row in range(16):
        line = row % 8 * 128 + row // 8 * 1024
        want = [swizzle(3, 4, 3, 1024 + line + 96), swizzle(3, 4, 3, 1024 + line + 112), swizzle(3, 4, 3, 8192 + line)]
        assert at[row].tolist() == want


@pytest.mark.parametrize("width", [1, 4, 8, 16, 32])
@pytest.mark.parametrize("major", ["k", "mn"])
def test_codes_come_out_where_elements_lie(width, major):
    rng = np.random.default_rng(width)
    mn, k = 128, 256 // width
    d = MatrixDescriptor(2048, 4096, 512, 0, 64) if major == "k" else MatrixDescriptor(2048, 8192, 1024, 0, 64)
    memory = rng.integers(0, 256, 1 << 18, np.uint8)
    codes = unpack(memory.view(np.uint64).reshape(-1, 2)[chunk_addresses(d, major, mn, k, width) // 16], major, mn, k, width)
    assert codes.shape == (mn, k)
    at = place_of(d, major, mn, k, width)
    for i, j in itertools.product(range(0, mn, 7), range(0, k, 3)):
        size = max(width // 8, 1)
        value = int.from_bytes(memory[at[i, j]:at[i, j] + size].tobytes(), "little")
        if width < 8:
            value = value >> ((j if major == "k" else i) * width % 8) & ((1 << width) - 1)
        assert codes[i, j] == value


def test_descriptors_that_compilers_write():
    """Constants of a published compiler's sm_90 and sm_100 code for a 128x128x64 product of f16."""
    assert decode(0x4000004000010000, "wgmma") == MatrixDescriptor(0, 16, 1024, 0, 128)
    assert decode(0x4000004002000000, "wgmma") == MatrixDescriptor(0, 8192, 1024, 0, 128)
    assert decode(0x4000404000010000, "tcgen05") == MatrixDescriptor(0, 16, 1024, 0, 128)
    assert decode(0x4000404002000000, "tcgen05") == MatrixDescriptor(0, 8192, 1024, 0, 128)


def test_fields_survive_a_round_trip():
    for form, spans in (("wgmma", [(0, 16), (32, 16), (64, 16), (128, 16)]), ("tcgen05", list(SWIZZLES))):
        for (span, atom), start, lbo, sbo in itertools.product(spans, (16, 0x3FFF0), (0, 0x3FFF0), (1024,)):
            for base in range(8) if span else (0,):
                d = MatrixDescriptor(start, lbo, sbo, base, span, atom)
                assert decode(encode(d, form), form) == d


def test_reserved_bits_are_refused():
    good = {"wgmma": 0x4000004000010000, "tcgen05": 0x4000404000010000}
    fields = {"wgmma": [*range(14), *range(16, 30), *range(32, 46), 49, 50, 51, 62, 63],
              "tcgen05": [*range(14), *range(16, 30), *range(32, 46), 49, 50, 51, 52]}
    for form, bits in good.items():
        for bit in range(64):
            if bit in fields[form]:
                decode(bits ^ 1 << bit, form)
            elif bit < 61:
                with pytest.raises(DescriptorError):
                    decode(bits ^ 1 << bit, form)
    for code in (3, 5, 7):
        with pytest.raises(DescriptorError, match="swizzling mode"):
            decode(code << 61 | 1 << 46, "tcgen05")
    with pytest.raises(DescriptorError, match="base offset"):
        decode(1 << 49, "wgmma")
    with pytest.raises(DescriptorError, match="absolute"):
        decode(1 << 52 | 1 << 46, "tcgen05")


def test_tiles_that_no_descriptor_can_describe_are_refused():
    with pytest.raises(DescriptorError, match="span"):
        chunk_addresses(MatrixDescriptor(0, 16, 256, 0, 32), "k", 8, 32, 16)
    with pytest.raises(DescriptorError, match="MN-major"):
        chunk_addresses(MatrixDescriptor(0, 16, 256, 0, 128, 32), "k", 8, 16, 16)
    with pytest.raises(DescriptorError, match="multiple"):
        chunk_addresses(MatrixDescriptor(0, 16, 256, 0, 128), "mn", 12, 16, 16)


def test_swizzles_are_the_bit_formula():
    address = np.arange(1 << 12)
    for (span, atom), (b, m, s) in SWIZZLES.items():
        want = [swizzle(b, m, s, int(a)) for a in address]
        assert descriptors.swizzled(address, span, atom).tolist() == want
