"""Our tensor maps beside those of `cuTensorMapEncodeTiled`: driver 580.159.04 on an H100, 2026-11-27.

`driver_maps.txt` is a selection of `bench/hardware/sweep.py`: maps until each bit, type, rank, swizzle, interleave, step and
end of a range that the driver's bytes have in the sweep is there, some at random, and refusals of each kind. A line: type, address,
sizes, strides, box, steps, interleave with swizzle, promotion and fill, in hexadecimal; the words, without zeros at the end.
"""
from __future__ import annotations

import pathlib
from collections import Counter

import pytest

from bench.hardware.report import tensor_map
from tileiras.layout.tensormap import DRIVER_TYPES, TensorMap, TensorMapError
from tileiras.sim.copy import tensormap as sim
from tileiras.sim.errors import DescriptorError

FILE = pathlib.Path(__file__).with_name("driver_maps.txt")
VERSION_AND_SIZE = 1 << 1 | 1 << 21         # of word 2: what host objects set and this driver doesn't


def recorded() -> list[tuple[TensorMap, list[int]]]:
    """Maps, and the driver's words: none where it refused."""
    out = []
    for line in FILE.read_text().splitlines():
        given, words = line.split(" | ")
        kind, address, *lists, modes = given.split()
        dims, strides, box, steps = ([int(n, 16) for n in part.split(",")] if part != "-" else [] for part in lists)
        interleave, swizzle, promotion, fill = map(int, modes)
        made = tensor_map({"type": DRIVER_TYPES.index(kind), "address": int(address, 16), "dims": dims, "strides": strides,
                           "box": box, "steps": steps, "interleave": interleave, "swizzle": swizzle, "promotion": promotion,
                           "fill": fill})
        found = [] if words == "refused" else [int(n, 16) for n in words.split()]
        out.append((made, found + [0] * (32 - len(found)) if found else []))
    return out


MAPS = recorded()


def test_the_record_has_all_kinds() -> None:
    taken = [m for m, words in MAPS if words]
    assert {m.element for m in taken} == set(DRIVER_TYPES[:13]) and {m.rank for m in taken} == {1, 2, 3, 4, 5}
    assert {(m.interleave, m.swizzle) for m in taken} == {(i, s) for i in (0, 16, 32) for s in (0, 32, 64, 128)}
    assert {m.promotion for m in taken} == {0, 64, 128, 256} and {m.nan_fill for m in taken} == {True, False}
    assert {s for m in taken for s in m.steps} == set(range(1, 9))
    assert len(taken) > 140 and len(MAPS) - len(taken) > 25


def test_the_drivers_words() -> None:
    for made, words in MAPS:
        if words:
            assert made.driver_words() == words, made


def test_copies_get_the_same_from_both() -> None:
    """What host objects write, and the simulator reads, differs in the version and the bit for large tensors alone."""
    for made, words in MAPS:
        if not words:
            continue
        ours = made.words()
        assert ours[:2] + ours[3:16] == words[:2] + words[3:16], made
        assert (ours[2] ^ words[2]) & ~VERSION_AND_SIZE == 0 and not any(ours[16:])
        theirs = b"".join(n.to_bytes(4, "little") for n in words)
        try:
            known = sim.decode(made.unchecked())
        except DescriptorError:         # without interleave, steps of dimension 0 are refused: the driver takes them
            assert made.steps[0] != 1 or made.interleave == 32
        else:
            assert sim.decode(theirs) == known


def test_refusals() -> None:
    """What the driver refuses we do, but for what needs a newer GPU; beyond that only what NVIDIA documents as wrong."""
    said: Counter[str] = Counter()
    for made, words in MAPS:
        newer = made.atomicity != "16B" or made.element in DRIVER_TYPES[13:]
        try:
            made.check()
        except TensorMapError as error:
            said[str(error)[:12]] += 1
            assert not words or (made.interleave == 32 and made.swizzle != 32), made
        else:
            assert bool(words) != newer, made
    assert said["a box of 261"] and len(said) > 10


@pytest.mark.parametrize(("box", "steps", "fits"), [((64, 227, 8), (1, 1, 1), True), ((64, 228, 8), (1, 1, 1), False),
                                                    ((64, 255, 15), (1, 2, 1), False), ((64, 255, 14), (1, 2, 1), True)])
def test_a_box_fits_shared_memory(box: tuple[int, ...], steps: tuple[int, ...], fits: bool) -> None:
    made = TensorMap(0, "f16", (64, 256, 64), (128, 32768), box, steps, swizzle=128)
    if fits:
        made.check()
    else:
        with pytest.raises(TensorMapError, match="more than shared memory has"):
            made.check()
