"""A pass that a program is spared, for it has none of the ops that the pass is for, would have changed nothing."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tileiras import pipeline
from tileiras.compiler import read_module
from tileiras.dialects.module_text import module_text
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target

KERNELS = ("vector_add_ragged", "softmax_16x256_f16", "matmul_float16_float32", "attention_d64_f16", "atomic_add_float16",
           "scan_cumsum_float32", "transpose_tile_float16", "cross_entropy_f16_ragged")


@pytest.mark.parametrize("sm", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", KERNELS)
def test_left_out_passes_change_nothing(name: str, sm: str, kernel_file: Callable[..., Path]) -> None:
    options = CompileOptions(find_target(sm))
    ir = read_module(kernel_file(name).read_bytes(), options)
    left_out = 0
    for entry in pipeline.selected(options.opt_level, "cuda_tile", "nv_tileas"):
        spared = bool(entry.of) and entry.of.isdisjoint(pipeline.op_names(ir))
        before = module_text(ir) if spared else ""
        ir = entry.apply(ir, options)
        assert not spared or module_text(ir) == before, entry.name
        left_out += spared
    assert left_out


def test_a_program_is_spared_what_it_has_no_use_for(kernel_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    apply = pipeline.Pass.apply
    monkeypatch.setattr(pipeline.Pass, "apply", lambda entry, ir, context: (ran.append(entry.name), apply(entry, ir, context))[1])
    options = CompileOptions(find_target("sm_90"))
    pipeline.run(read_module(kernel_file("vector_add_ragged").read_bytes(), options), options)
    assert "overlap-dots" not in ran and "materialize-async" not in ran and ran[-1] == "convert-tileas-to-llvm"
    options.remarks = []
    ran.clear()
    pipeline.run(read_module(kernel_file("vector_add_ragged").read_bytes(), options), options)
    assert "overlap-dots" in ran       # what isn't done is told, too
