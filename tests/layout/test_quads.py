"""Which thread has which element of 64 rows in tensor memory, in quads: the formulas of the PTX ISA for `tcgen05.ld`."""
import pytest

from tileiras.layout.atoms import umma

THREADS, WARPS = 32, 4


def place(shape: str, thread: int, register: int) -> tuple[int, int]:
    """Lane (of a warp's) and column of tensor memory."""
    if shape == "16x256b":
        return thread // 4 + 8 * (register // 2 % 2), 2 * (thread % 4) + register % 2 + 8 * (register // 4)
    return thread // 4 + 8 * (register % 2), thread % 4 + 4 * (register // 2)     # 16x128b


@pytest.mark.parametrize("columns", [8, 16, 64, 256])
@pytest.mark.parametrize("shape,packed", [("16x256b", 1), ("16x128b", 2)])
def test_quads_are_what_the_instruction_moves(shape: str, packed: int, columns: int) -> None:
    layout = umma.fragment((64, columns), 64, WARPS, quads=True)
    assert layout.num_regs == columns // 2
    for warp in range(WARPS):
        for thread in range(THREADS):
            for element in range(layout.num_regs):
                row, column = place(shape, thread, element // packed)
                assert layout.index(element, thread, warp) == \
                    (16 * warp + row) * columns + packed * column + element % packed


def test_a_thread_meets_half_as_many_columns() -> None:
    def met(quads: bool) -> int:
        layout = umma.fragment((64, 64), 64, WARPS, quads)
        return len({layout.index(r, 5, 2) % 64 for r in range(layout.num_regs)})
    assert (met(False), met(True)) == (32, 16)
