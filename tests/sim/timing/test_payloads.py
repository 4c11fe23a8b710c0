"""Sectors and passes follow from the addresses of a warp's lanes."""
from __future__ import annotations

import numpy as np
import pytest

from tileiras.sim.timing import payloads
from tileiras.sim.timing.stream import AsyncGroup, GlobalAccess, Mma, SharedAccess
from tileiras.sim.timing.touches import GLOBAL, SHARED, Form

LANES = np.arange(32)


def shared(address, width, **form) -> SharedAccess:
    address = np.asarray(address, np.uint64)
    lanes = LANES[:len(address)]
    found, = payloads.accesses(SHARED, Form(width, False, **form), np.zeros(len(lanes), np.int64), lanes, address, None, None,
                               np.zeros(1, np.int64))
    assert isinstance(found, SharedAccess)
    return found


@pytest.mark.parametrize(("stride", "passes"), [(4, 1), (8, 2), (16, 4), (128, 32), (132, 1), (0, 1)])
def test_words_at_a_stride_conflict_as_banks_repeat(stride, passes):
    assert shared(1024 + stride * LANES, 4).passes == passes


def test_wide_accesses_take_a_pass_for_every_128_bytes():
    assert shared(16 * LANES, 16).passes == 4
    assert shared(8 * LANES, 8).passes == 2
    assert shared(8 * LANES, 8).bytes == 256


def test_rows_of_a_matrix_128_bytes_apart_fall_on_the_same_banks():
    assert shared(128 * np.arange(8), 16).passes == 8
    assert shared(144 * np.arange(8), 16).passes == 1


def test_atomics_on_one_word_come_one_after_the_other():
    assert shared(0 * LANES, 4, atomic=True).passes == 32
    assert shared(4 * LANES, 4, atomic=True).passes == 1


def test_shared_memory_of_another_cta_is_named():
    assert shared((3 << 24) + 4 * LANES, 4).cta == 3
    assert shared(4 * LANES, 4).cta is None


def test_sectors_are_the_different_32_byte_pieces():
    warps = np.repeat([0, 1], 32)
    address = np.concatenate([4096 + 4 * LANES, 4096 + 64 * LANES]).astype(np.uint64)
    one, two = payloads.accesses(GLOBAL, Form(4, False), warps, np.tile(LANES, 2), address, None, None, np.zeros(2, np.int64))
    assert one == GlobalAccess((128, 129, 130, 131), 128, waves=1)
    assert isinstance(two, GlobalAccess) and two.sectors == tuple(128 + 2 * i for i in range(32))
    assert two.waves == 16          # 64 bytes apart: two banks have all words


def test_lanes_at_one_place_are_what_an_atomic_waits_for():
    def atomic(address):
        found = payloads.accesses(GLOBAL, Form(4, True, True), np.zeros(32, int), LANES, address.astype(np.uint64), None, None,
                                  np.zeros(1, np.int64))
        return found[0].waves  # type: ignore[union-attr]
    assert atomic(4096 + 0 * LANES) == 32 and atomic(4096 + 4 * (LANES // 8)) == 8 and atomic(4096 + 4 * LANES) == 1


def test_a_copy_that_brings_nothing_reads_no_sector():
    reads = LANES < 16
    found, = payloads.accesses(GLOBAL, Form(16, False, to_shared=True), np.zeros(32, np.int64), LANES,
                               (8192 + 16 * LANES).astype(np.uint64), (16 * LANES).astype(np.uint64), reads,
                               np.zeros(1, np.int64))
    assert isinstance(found, GlobalAccess)
    assert (len(found.sectors), found.bytes, found.passes) == (8, 256, 4)


def test_what_the_text_says_alone():
    line = "cp.async.wait_group 3;"
    assert payloads.of_text("DEPBAR.LE", "DEPBAR", ("SB0", "0x3"), "cp.async.wait_group", line) == AsyncGroup("cp.async", "wait", 3)
    line = "cp.async.bulk.wait_group.read 1;"
    assert payloads.of_text("DEPBAR.LE", "DEPBAR", ("SB0", "0x1"), "cp.async.bulk.wait_group.read", line) == \
        AsyncGroup("bulk", "wait", 1, read=True)
    assert payloads.of_text("HGMMA.64x128x16.F32", "HGMMA", ("R24", "gdesc[UR12]", "R24", "gsb0"), "", "") == \
        Mma("wgmma", (64, 128, 16), 16, "shared", "shared", 1, False, "f16")
    assert payloads.of_text("QGMMA.64x64x32.F32.E4M3.E4M3", "QGMMA", ("R24", "R4", "gdesc[UR12]", "R24"), "", "") == \
        Mma("wgmma", (64, 64, 32), 8, "registers", "shared", 1, False, "f8")
