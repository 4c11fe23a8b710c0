"""Where layouts chosen by cost make ptxas spill, the kernel is compiled once more with layouts by priority."""
from __future__ import annotations

from collections.abc import Callable

import pytest

import tileiras
from tileiras import compiler
from tileiras.compiler import CompiledModule
from tileiras.driver.options import CompileOptions
from tileiras.errors import CompileError
from tileiras.machine.targets import find_target


def spills(module: CompiledModule) -> int:
    return sum(e.spill_stores + e.spill_loads for e in module.entries)


def test_the_choice_that_spills_less_is_kept(kernel_bytecode: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    bytecode = kernel_bytecode("conv2d_3x3_relu_f16")
    asked: list[bool] = []
    lower = compiler.lower

    def watched(data: bytes, options: CompileOptions) -> str:
        asked.append(options.search_layouts)
        return lower(data, options)
    monkeypatch.setattr(compiler, "lower", watched)
    kept = tileiras.compile(bytecode, "sm_80")
    assert asked == [True, False]
    alone = [compiler._compiled(bytecode, lower(bytecode, options), options)
             for search in (True, False) for options in [CompileOptions(find_target("sm_80"), search_layouts=search)]]
    assert spills(kept) == min(map(spills, alone))


def test_a_second_attempt_that_fails_costs_nothing(kernel_bytecode: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    lower = compiler.lower

    def only_by_cost(data: bytes, options: CompileOptions) -> str:
        if not options.search_layouts:
            raise CompileError("no room")
        return lower(data, options)
    monkeypatch.setattr(compiler, "lower", only_by_cost)
    options = CompileOptions(find_target("sm_80"), timing=[])
    module = compiler.compile_module(kernel_bytecode("conv2d_3x3_relu_f16"), options)
    assert module.cubin and spills(module) > 0
    assert options.timing is not None and "order-memory" in [name for name, _ in options.timing]


def test_both_attempts_are_timed(kernel_bytecode: Callable[..., bytes]) -> None:
    options = CompileOptions(find_target("sm_80"), timing=[])
    compiler.compile_module(kernel_bytecode("conv2d_3x3_relu_f16"), options)
    assert options.timing is not None and [name for name, _ in options.timing].count("order-memory") == 2


def test_a_kernel_that_does_not_spill_is_compiled_once(kernel_bytecode: Callable[..., bytes],
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    lower = compiler.lower
    monkeypatch.setattr(compiler, "lower", lambda data, options: asked.append(options.search_layouts) or lower(data, options))
    module = tileiras.compile(kernel_bytecode("vector_add_float32"), "sm_80")
    assert spills(module) == 0 and asked == [True]
