"""What a compile imports: the levels and passes that its program goes through, and nothing that is there for other purposes."""
from __future__ import annotations

import functools
import pathlib
import subprocess
import sys
from collections.abc import Iterable

import pytest

from tests.kernels import runner

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = """
import pathlib, sys
import tileiras
tileiras.compile(pathlib.Path(sys.argv[1]).read_bytes(), sys.argv[2])
print("\\n".join(sys.modules))
"""
PLAIN, PRODUCT, ATTENTION = ("vector_add_float32", "sm_90"), ("matmul_float16_float32", "sm_90"), ("attention_d64_f16", "sm_100")
CASES = (PLAIN, ("vector_add_float32", "sm_80"), PRODUCT, ATTENTION)
XDSL = frozenset("""
    xdsl xdsl.dialect_interfaces xdsl.dialect_interfaces.op_asm xdsl.dialects xdsl.dialects.builtin xdsl.ir xdsl.ir.affine
    xdsl.ir.affine.affine_expr xdsl.ir.affine.affine_map xdsl.ir.affine.affine_set xdsl.ir.core xdsl.irdl xdsl.irdl.attributes
    xdsl.irdl.constraints xdsl.irdl.operations xdsl.traits xdsl.utils xdsl.utils.bitwise_casts xdsl.utils.classvar
    xdsl.utils.comparisons xdsl.utils.dialect_loader xdsl.utils.dialect_stub xdsl.utils.exceptions xdsl.utils.hints
    xdsl.utils.runtime_final""".split())
"""All that a compile needs of xDSL."""
NEVER = """
    numpy llvmlite ml_dtypes
    tileiras.sim tileiras.interp tileiras.tools tileiras.launcher tileiras.many tileiras.cache
    tileiras.dialects.cute tileiras.dialects.cute_nvgpu tileiras.dialects.cutlass tileiras.layout.cute tileiras.layout.text
    tileiras.layout.atoms.registry tileiras.layout.atoms.copies
    tileiras.dialects.module_text tileiras.dialects.verify tileiras.dialects.verify_arith tileiras.dialects.verify_cute
    tileiras.dialects.verify_llvm tileiras.dialects.verify_structure tileiras.dialects.verify_tileaa
    tileiras.dialects.verify_tileas tileiras.dialects.verify_types tileiras.dialects.kinds
    tileiras.dialects.cuda_tile.asm_parse tileiras.dialects.cuda_tile.asm_print tileiras.dialects.cuda_tile.asm_format
    tileiras.dialects.cuda_tile.verify_hints tileiras.bytecode.writer tileiras.bytecode.tables
    tileiras.analysis.pipes tileiras.analysis.pipe_paths tileiras.analysis.pipe_slice tileiras.analysis.in_flight
    tileiras.codegen.debug_info tileiras.codegen.functions tileiras.codegen.kernel_info tileiras.codegen.libdevice
    tileiras.driver.main tileiras.driver.command_line tileiras.driver.option_table tileiras.driver.help tileiras.driver.server
    tileiras.driver.linger tileiras.driver.output tileiras.driver.remarks
    tileiras.transforms.canonicalize tileiras.transforms.fuse_fma tileiras.transforms.synthesize_debug_info_scopes
    tileiras.transforms.layout_remarks tileiras.transforms.hint_remarks tileiras.conversion.tileaa_to_tileas.remarks
    tileiras.schedule.chart""".split()
"""What is there for other purposes: oracles, tools, verifiers, texts, remarks, debug information."""
FOR_OTHERS = """
    tileiras.schedule.modulo tileiras.schedule.graph tileiras.layout.atoms.block_scaled
    tileiras.transforms.plan_agents tileiras.transforms.choose_atoms tileiras.transforms.stage_operands
    tileiras.transforms.generate_schedule tileiras.transforms.materialize_async tileiras.transforms.materialize_schedule
    tileiras.transforms.overlap_dots tileiras.transforms.place_accumulators tileiras.transforms.commit_dots
    tileiras.transforms.overlap_epilogues tileiras.transforms.unroll_loops tileiras.transforms.unroll_streams
    tileiras.transforms.prefetch_to_registers tileiras.transforms.join_stages
    tileiras.transforms.split_reductions tileiras.transforms.stage_slices tileiras.transforms.provide_scratch
    tileiras.conversion.tileas_to_llvm.matrix tileiras.conversion.tileas_to_llvm.collectives
    tileiras.conversion.tileas_to_llvm.shared.built_maps tileiras.conversion.tileas_to_llvm.memory.atomics""".split()
"""What a kernel without loops, products and reductions doesn't need."""
MOST_PLAIN, MOST = 229, 344
"""Modules of this project and of xDSL, of a plain kernel and of any."""


@functools.cache
def imported(case: str, gpu: str) -> frozenset[str]:
    file = str(runner.bytecode_path(case))
    done = subprocess.run([sys.executable, "-c", SCRIPT, file, gpu], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return frozenset(done.stdout.split())


def of(names: Iterable[str], modules: frozenset[str]) -> list[str]:
    """Those of the modules that are one of these or stand in it."""
    return sorted(m for m in modules if any(m == name or m.startswith(f"{name}.") for name in names))


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[1]}")
def test_nothing_that_is_for_others(case: tuple[str, str]) -> None:
    modules = imported(*case)
    assert of(NEVER, modules) == []
    assert {m for m in modules if m.partition(".")[0] == "xdsl"} <= XDSL
    assert sum(m.partition(".")[0] in ("tileiras", "xdsl") for m in modules) <= MOST


def test_a_plain_kernel_goes_without_what_loops_and_products_need() -> None:
    modules = imported(*PLAIN)
    assert of(FOR_OTHERS, modules) == []
    assert sum(m.partition(".")[0] in ("tileiras", "xdsl") for m in modules) <= MOST_PLAIN


def test_the_names_are_of_modules() -> None:
    """A name of nothing would be found nowhere."""
    for name in (n for n in (*NEVER, *FOR_OTHERS) if n.startswith("tileiras.")):
        path = ROOT / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file(), name
    everywhere = imported(*PRODUCT) | imported(*ATTENTION)
    assert {"tileiras.schedule.modulo", "tileiras.layout.atoms.umma", "tileiras.transforms.materialize_schedule"} <= everywhere
