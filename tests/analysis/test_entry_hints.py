"""Limits of registers that the hint occupancy asks for, by arithmetic: an SM has 65,536 registers, each of its parts a quarter."""
import pytest
from xdsl.dialects.builtin import DictionaryAttr, IntAttr, IntegerAttr, i32

from tileiras.analysis.entry_hints import register_limit
from tileiras.dialects import nv_tileas
from tileiras.machine.targets import find_target


@pytest.mark.parametrize("shared_kib, threads, limit", [
    (None, 256, 128),       # two blocks of eight warps: 16 warps of 32 threads
    (48, 256, 128),
    (49, 256, 128),         # 2 * (49 + 1 that the driver takes) KiB is what sm_120 has
    (50, 256, None),        # one block by shared memory: there is nothing to give registers up for
    (99, 128, None),
])
def test_shared_memory_bounds_the_blocks_asked_for(shared_kib: int | None, threads: int, limit: int | None) -> None:
    func = nv_tileas.Func.create(properties={"hints": DictionaryAttr({"occupancy": IntegerAttr(2, i32)})})
    if shared_kib is not None:
        func.properties["shared_bytes"] = IntAttr(shared_kib * 1024)
    assert register_limit(func, find_target("sm_120"), threads) == limit


def test_more_blocks_than_fit_are_as_many_as_fit() -> None:
    func = nv_tileas.Func.create(properties={"hints": DictionaryAttr({"occupancy": IntegerAttr(8, i32)}),
                                             "shared_bytes": IntAttr(32 * 1024)})
    assert register_limit(func, find_target("sm_120"), 128) == 65536 // (3 * 128) // 8 * 8
