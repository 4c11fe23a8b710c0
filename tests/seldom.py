"""Parameters of which `make test` takes the first ones only; `make test-all` takes all."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def seldom(values: Iterable[Any], first: int = 1, *, of_one: bool = False) -> list[Any]:
    """For `pytest.mark.parametrize`: all but the first so many are slow. A tuple is several parameters' values, or `of_one`."""
    return [pytest.param(*(v if isinstance(v, tuple) and not of_one else (v,)), marks=[pytest.mark.slow] * (n >= first))
            for n, v in enumerate(values)]
