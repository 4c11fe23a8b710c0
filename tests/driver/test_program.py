"""The program handle: states, errors, the order of checks; hints from outside; diagnostics as objects."""
from __future__ import annotations

from collections.abc import Callable

import pytest

import tileiras
from tests.driver.test_main import empty_module
from tileiras import Diagnostic, Program


def test_states_and_their_errors() -> None:
    program = Program(empty_module(1), "sm_90")
    assert program.state == "created"
    with pytest.raises(tileiras.ProgramError, match=r"^program has not been compiled$") as early:
        _ = program.output
    assert early.value.exit_code == 4
    module = program.compile()
    assert program.state == "compiled" and program.output == module.cubin and program.output[:4] == b"\x7fELF"
    assert program.compile() is module
    program.release()
    assert program.state == "released"
    for use in (program.compile, program.release, lambda: program.output, lambda: program.diagnostics):
        with pytest.raises(tileiras.ProgramError, match=r"^program is null$"):
            use()
    with Program(empty_module(1)) as held:
        pass
    assert held.state == "released"


@pytest.mark.parametrize(("arguments", "error", "text"), [
    ((None, "sm_1", 7), tileiras.ConfigError, "input buffer is null"),
    ((b"junk", "sm_1", 7), tileiras.BytecodeError, "input does not correspond to Tile IR bytecode"),
    ((b"ML\xefRjunk", "sm_1", 7), tileiras.BytecodeError, "looks like MLIR bytecode instead"),
    ((empty_module(1), "sm_1", 7), tileiras.ConfigError, "unsupported GPU target"),
    ((empty_module(1), "sm_90", 7), tileiras.ConfigError, "invalid optimization level"),
])
def test_arguments_are_checked_in_order(arguments: tuple[object, ...], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Program(*arguments)  # type: ignore[arg-type]


def test_debugging_and_hosts_are_checked() -> None:
    with pytest.raises(tileiras.ConfigError, match="optimized debugging is currently not supported"):
        Program(empty_module(1), "sm_90", 3, device_debug=True)
    with pytest.raises(tileiras.ConfigError, match="unknown host 'pdp11'"):
        Program(empty_module(1), "sm_90", host_arch="pdp11")
    other = Program(empty_module(1), "sm_90", host_arch="aarch64")
    other.compile()
    assert other.output[:4] == b"\x7fELF"


def test_a_failure_is_a_diagnostic_with_its_pass(kernel_bytecode: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    from tileiras.transforms import order_memory

    def refuse(module: object, context: object) -> None:
        raise tileiras.CompileError("no order", '"k.py":3:1')

    monkeypatch.setattr(order_memory, "run", refuse)
    program = Program(kernel_bytecode("vector_add_float32"), "sm_90")
    with pytest.raises(tileiras.CompileError, match="no order"):
        program.compile()
    assert program.state == "failed"
    assert program.diagnostics == (Diagnostic("error", '"k.py":3:1', "no order", "order-memory"),
                                   Diagnostic("error", "", "failed to compile Tile IR program"))
    assert str(program.diagnostics[0]) == 'loc("k.py":3:1): error: no order'


def test_remarks_are_diagnostics(kernel_bytecode: Callable[..., bytes]) -> None:
    program = Program(kernel_bytecode("matmul_float16_float32"), "sm_80", emit="ptx", remarks=True)
    program.compile()
    assert program.output.startswith(b"//") or b".version" in program.output
    told = [d for d in program.diagnostics if d.severity == "remark"]
    assert any(d.pass_name == "Tensor-core" and ".py:" in d.location for d in told)


def test_hints_from_outside_act_as_the_programs_own(kernel_bytecode: Callable[..., bytes]) -> None:
    program = kernel_bytecode("vector_add_float32")
    warps = [tileiras.compile(program, "sm_90", emit="ptx", hints={"num_worker_warps_per_cta": n}).entries[0].threads // 32
             for n in (1, 2, 8)]
    assert warps == [1, 2, 8]
    assert ".maxnreg" in tileiras.compile(program, "sm_90", emit="ptx", hints={"occupancy": 8}).ptx
    for hints, text in (({"speed": 1}, "unknown hint 'speed'"), ({"occupancy": 99}, "hint 'occupancy', not 99"),
                        ({"occupancy": "two"}, "hint 'occupancy', not 'two'")):
        with pytest.raises(tileiras.ConfigError, match=text):
            tileiras.compile(program, "sm_90", hints=hints)  # type: ignore[arg-type]
