"""Every cell of the table of numerics: on sm_90 and one more configuration in turn; all of them in the slow tests."""
from __future__ import annotations

import numpy as np
import pytest

from tests.tables.cells import Cell, cells
from tests.tables.inputs import operands, special
from tests.tables.kernels import from_memory, groups, to_memory
from tests.tables.oracle import Expected, error_in_ulp, expected, wrong
from tests.tables.run import CONFIGS, run

GROUPS = groups(cells())


def _name(group: list[Cell]) -> str:
    return f"{group[0].op}-{'-'.join(group[0].operands)}-{len(group)}"


@pytest.mark.parametrize("index", range(len(GROUPS)), ids=[_name(g) for g in GROUPS])
def test_cells(index: int) -> None:
    configs = [("sm_90", 3), CONFIGS[index % len(CONFIGS)]]
    assert [f"{o.cell}: {f}" for o in run(GROUPS[index], configs, 512) for f in o.failures] == []


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(GROUPS)), ids=[_name(g) for g in GROUPS])
def test_cells_everywhere(index: int) -> None:
    assert [f"{o.cell}: {f}" for o in run(GROUPS[index], CONFIGS, 2048) for f in o.failures] == []


def test_the_table_has_what_the_language_has() -> None:
    """Counted by hand: four formats by four modes, and flush-to-zero for f32."""
    found = [c for c in cells() if c.op == "addf"]
    assert len(found) == 4 * 4 + 4 and sum(c.ftz for c in found) == 4
    assert len([c for c in cells() if c.op == "cmpf"]) == 4 * 6 * 2
    assert len([c for c in cells() if c.op == "cmpi"]) == 5 * 6 * 2
    assert len([c for c in cells() if c.op == "divi"]) == 5 * 5         # signed has negative_inf too
    assert len([c for c in cells() if c.op == "itof"]) == 5 * 8 * 2     # no f8E8M0FNU


def test_operands_hold_the_special_values() -> None:
    (x, y) = operands(Cell("addf", ("f32", "f32"), "f32", (("rounding_mode", "zero"),)), 2048)
    for column in (x, y):
        assert np.isnan(column).any() and np.isinf(column).any() and (np.signbit(column) & (column == 0)).any()
        assert ((np.abs(column) < 2.0 ** -126) & (column != 0)).any()
    assert set(special("i8").tolist()) >= {-128, 127, 0, -1}


def test_a_wrong_result_is_seen() -> None:
    cell = Cell("addf", ("f32", "f32"), "f32", (("rounding_mode", "nearest_even"),))
    x = [np.array([1.0, 0.0, np.nan], np.float32), np.array([2.0, -0.0, 1.0], np.float32)]
    want = expected(cell, x)
    assert wrong(cell, np.array([3.0, 0.0, np.nan], np.float32), want).tolist() == [False] * 3
    assert wrong(cell, np.array([np.nextafter(np.float32(3), np.float32(4)), -0.0, 1.0], np.float32), want).all()


def test_errors_in_ulp() -> None:
    want = Expected(np.array([1.0, 0.5, np.inf, 1e39, 1e-45, np.nan]).astype(np.longdouble), np.ones(6, bool))
    up = np.nextafter(np.float32(1), np.float32(2))
    got = np.array([up, 0.5, np.inf, np.inf, 0.0, 1.0], np.float32)
    error = error_in_ulp(got, want, "f32")
    assert error[:4].tolist() == [1.0, 0.0, 0.0, 0.0] and 0.5 < error[4] < 1 and error[5] == np.inf


@pytest.mark.parametrize("element", ("i4", "f4E2M1FN"))
def test_two_in_a_byte(element: str) -> None:
    values = special(element)
    again = from_memory(to_memory(values, element), element)
    assert len(to_memory(values, element)) == len(values) // 2
    assert values.astype(float).tolist() == again.astype(float).tolist()
