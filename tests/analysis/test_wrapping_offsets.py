"""What addptrs of a function have in common is looked for once, not by each of them."""
from __future__ import annotations

from typing import Any

import pytest

import tileiras
from tileiras.analysis import wrapping_offsets
from tileiras.bytecode import write
from tileiras.dialects.cuda_tile.asm_parse import parse_module


def gathers(count: int) -> bytes:
    """A kernel that reads at `count` places, each three times as far on as a number that it has loaded just before."""
    lines = ["%t0 = make_token : token", "%three = constant <i32: 3> : tile<i32>"]
    for i in range(count):
        lines += [f"%x{i}, %u{i} = load_ptr_tko weak %q token = %t{i} : tile<ptr<i32>> -> tile<i32>, token",
                  f"%y{i} = muli %x{i}, %three : tile<i32>", f"%w{i} = exti %y{i} signed : tile<i32> -> tile<i64>",
                  f"%p{i} = offset %q, %w{i} : tile<ptr<i32>>, tile<i64> -> tile<ptr<i32>>",
                  f"%z{i}, %v{i} = load_ptr_tko weak %p{i} token = %u{i} : tile<ptr<i32>> -> tile<i32>, token",
                  f"%t{i + 1} = store_ptr_tko weak %q, %z{i} token = %v{i} : tile<ptr<i32>>, tile<i32> -> token"]
    return write(parse_module("cuda_tile.module @m { entry @k(%q: tile<ptr<i32>>) {\n" + "\n".join(lines) + "\nreturn } }"))


def test_each_addptr_is_looked_at_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once with all others, once when it is lowered."""
    looked = []
    narrow = wrapping_offsets._narrow

    def counted(v: Any) -> Any:
        looked.append(v)
        return narrow(v)
    monkeypatch.setattr(wrapping_offsets, "_narrow", counted)
    tileiras.compile(gathers(40), gpu_name="sm_90", opt_level=1, emit="llvm")
    assert len(looked) == 2 * 40
