"""The IR of the cross-section's kernels keeps the rules of its level after every pass; `test_suite.py` has sm_80 and sm_90."""
from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from tests.kernels import runner
from tests.kernels.coverage import LEVELS
from tests.kernels.cross_section import CROSS_SECTION
from tileiras.bytecode import read
from tileiras.dialects import arith
from tileiras.driver.options import CompileOptions
from tileiras.errors import CompileError
from tileiras.machine.targets import find_target
from tileiras.pipeline import run
from tileiras.transforms import dce


def lowered(name: str, gpu: str, level: int) -> Any:
    """The llvm module of a case, each pass before verified."""
    options = CompileOptions(target=find_target(gpu), opt_level=level, verify_each=True)
    return run(read(runner.export_case(name)), options)


@pytest.mark.parametrize("name", CROSS_SECTION)
def test_verifies_after_every_pass(name: str) -> None:
    for level in LEVELS:
        assert lowered(name, "sm_120", level).body.block.first_op is not None


def test_a_compile_does_not_pay_for_the_rules() -> None:
    program = ("import sys; from tileiras.driver.options import CompileOptions; from tileiras.pipeline import run; "
               "from tileiras.bytecode import read; options = CompileOptions(target='sm_90'); options.validate(); "
               "run(read(open(sys.argv[1], 'rb').read()), options); "
               "print(sorted(m for m in sys.modules if m.startswith(('tileiras.dialects.verify', 'tileiras.dialects.kinds'))))")
    source = str(runner.bytecode_path("vector_add_float32"))
    assert subprocess.run([sys.executable, "-c", program, source], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_pass_that_breaks_a_rule_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(module: Operation, context: Any) -> None:
        op = next(op for op in module.walk() if isinstance(op, arith.Addf))
        op.properties["rounding"] = StringAttr("sideways")

    monkeypatch.setattr(dce, "run", broken)
    with pytest.raises(CompileError) as raised:
        lowered("vector_add_float32", "sm_90", 3)
    assert raised.value.message.startswith("the pass 'dce' left an invalid module: 'arith.addf' op attribute 'rounding' must be")
