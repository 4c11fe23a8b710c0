"""Driving passes by `tileiras-opt`: pipelines as text, IR before and after passes, reproducers, timing."""
from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest

from tileiras.errors import CompileError, UsageError
from tileiras.tools.pass_pipeline import parse_pipeline, pipeline_text
from tileiras.tools.tileiras_opt import main
from tileiras.transforms import dce

PROGRAM = '''"nv_tileaa.func"() <{sym_name = "k"}> ({
^bb0(%n: i32, %p: !nv_tileaa.ptr<i32>):
  %unused = "arith.addi"(%n, %n) : (i32, i32) -> i32
  %t = "nv_tileaa.store"(%p, %n) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, mem_semantic = "weak"}>
     : (!nv_tileaa.ptr<i32>, i32) -> !nv_tileaa.mem_token
  "nv_tileaa.return"() : () -> ()
}) : () -> ()
'''


@pytest.fixture
def opt(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the tool on PROGRAM: (exit code, what it wrote, what it said)."""
    source, out = tmp_path / "in.mlir", tmp_path / "out.mlir"
    source.write_text(PROGRAM)

    def run(*options: str) -> tuple[int, str, str]:
        out.unlink(missing_ok=True)
        code = main([str(source), "-o", str(out), *options])
        return code, out.read_text() if out.exists() else "", capsys.readouterr().err
    return run


@pytest.mark.parametrize(("text", "passes"), [
    ("builtin.module()", []), ("builtin.module(cse)", ["cse"]), (" any( cse , dce ) ", ["cse", "dce"]),
    ("builtin.module(cse,nv_tileaa.func(dce,simplify)),any(cse)", ["cse", "dce", "simplify", "cse"]),
    ("builtin.module(tileir{opt-level=2},dce)", ["tileir{opt-level=2}", "dce"]),
])
def test_pipelines_are_read(text: str, passes: list[str]) -> None:
    items = parse_pipeline(text)
    assert list(map(str, items)) == passes
    assert parse_pipeline(pipeline_text(items)) == items


@pytest.mark.parametrize(("text", "column", "message"), [
    ("", 1, "expected a name"), ("cse", 1, "expected one of builtin.module"), ("builtin.module", 15, "expected '('"),
    ("builtin.module(cse", 19, "expected ')'"), ("builtin.module(cse) dce", 21, "expected the end"),
    ("builtin.module(,cse)", 16, "expected a pass"), ("builtin.module(cse{fast=1})", 20, "pass 'cse' has no option 'fast'"),
    ("builtin.module(tileir{opt-level})", 32, "expected '='"), ("builtin.module(cse;dce)", 19, "expected ')'"),
    ("any(" * 40, 72, "nested too deeply"),
])
def test_malformed_pipelines_are_refused_at_their_column(text: str, column: int, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_pipeline(text)
    assert refused.value.message.startswith(f"pass pipeline, column {column}: ") and message in refused.value.message


def test_a_pipeline_runs_its_passes(opt: Any) -> None:
    assert opt("--pass-pipeline=builtin.module(dce)") == opt("--passes=dce")
    code, text, _ = opt("--pass-pipeline=builtin.module(dce)")
    assert code == 0 and "arith.addi" not in text and "nv_tileaa.store" in text


def test_the_whole_pipeline_goes_on_from_the_module_s_level(opt: Any) -> None:
    assert opt("--pass-pipeline=builtin.module(tileir{opt-level=0})") == opt("--to=llvm", "-O0")
    assert '"llvm.func"' in opt("--pass-pipeline=builtin.module(dce,tileir)")[1]


@pytest.mark.parametrize("options", [("--passes=bogus",), ("--pass-pipeline=builtin.module(bogus)",), ("--print-ir-after=bogus",),
                                     ("--print-ir-before=dce,bogus",)])
def test_unknown_passes_are_refused(options: tuple[str, ...], opt: Any) -> None:
    code, text, said = opt(*options)
    assert (code, text) == (UsageError.exit_code, "") and said.startswith("error: unknown pass 'bogus'; known: ")


def test_a_pass_of_another_level_is_refused(opt: Any) -> None:
    code, _, said = opt("--passes=order-memory")
    assert code == UsageError.exit_code and "pass 'order-memory' takes nv_tileas, but the module is nv_tileaa" in said


def dumps(said: str) -> list[str]:
    return re.findall(r"// \*\*\* IR dump (.*) \*\*\*", said)


def test_ir_is_printed_around_passes(opt: Any) -> None:
    passes = "--passes=cse,dce,simplify"
    assert dumps(opt(passes, "--print-ir-before=dce", "--print-ir-after=cse,dce")[2]) == ["after cse", "before dce", "after dce"]
    assert dumps(opt(passes, "--print-ir-before-all")[2]) == ["before cse", "before dce", "before simplify"]
    assert dumps(opt(passes, "--print-ir-after-all")[2]) == ["after cse", "after dce", "after simplify"]
    assert dumps(opt(passes, "--print-ir-after-change")[2]) == ["after dce"]


def test_what_a_failing_pass_found_can_be_run_again(opt: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
                                                    capsys: pytest.CaptureFixture[str]) -> None:
    def broken(module: Any, context: Any) -> None:
        raise KeyError("lost")
    reproducer = tmp_path / "again.mlir"
    with monkeypatch.context() as patch:
        patch.setattr(dce, "run", broken)
        code, text, said = opt("--passes=cse,dce,simplify", "--print-ir-after-failure", f"--crash-reproducer={reproducer}", "-O1")
    assert (code, text) == (CompileError.exit_code, "")
    assert dumps(said) == ["before failure of dce"] and "error: internal error: pass 'dce': KeyError: 'lost'" in said
    first = reproducer.read_text().splitlines()[0]
    assert first == f"// tileiras-opt {reproducer} --pass-pipeline='builtin.module(dce,simplify)' --gpu-name=sm_90 -O1"
    assert main([str(reproducer), "-o", str(tmp_path / "o"), "--pass-pipeline=builtin.module(dce,simplify)"]) == 0
    assert "arith.addi" not in (tmp_path / "o").read_text()


def test_timing_is_a_tree_of_parts(opt: Any) -> None:
    found = json.loads(opt("--passes=cse,dce", "--verify-each", "--pass-timing=json")[2])
    assert [part["name"] for part in found["parts"]] == ["read", "passes", "write"]
    passes = found["parts"][1]["parts"]
    assert [part["name"] for part in passes] == ["cse", "dce"] and all(p["parts"][0]["name"] == "verify" for p in passes)
    assert sum(part["seconds"] for part in found["parts"]) <= found["seconds"]
    tree = opt("--passes=cse,dce", "--pass-timing=tree")[2].splitlines()
    assert [line.split("%")[1] for line in tree] == ["  total", "    read", "    passes", "      cse", "      dce", "    write"]


def test_statistics_say_which_ops_came_and_went(opt: Any) -> None:
    code, _, said = opt("--passes=cse,dce", "--pass-statistics=list")
    assert code == 0
    assert said == ("cse                             5 ops, as many\n"
                    "dce                             4 ops, 1 fewer\n"
                    "  -    1  arith.addi\n")
    assert opt("--passes=cse,dce", "-mlir-pass-statistics")[2] == said


def test_statistics_as_json(opt: Any) -> None:
    found = json.loads(opt("--passes=dce", "--pass-statistics=json")[2])
    assert found == [{"pass": "dce", "before": 5, "after": 4, "changes": {"arith.addi": -1}}]


def test_statistics_come_also_where_a_pass_fails(opt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise CompileError("no")
    monkeypatch.setattr(dce, "run", fails)
    code, _, said = opt("--passes=cse,dce", "--pass-statistics=list")
    assert code == 5 and said.startswith("cse  ") and "no" in said


def test_every_level_has_passes_that_the_one_below_lacks(opt: Any) -> None:
    lists = [set(opt("--list-pipeline", f"-O{level}")[1].splitlines()) for level in range(4)]
    assert lists[0] < lists[1] <= lists[2] < lists[3]
    assert {line.split()[0] for line in lists[3] - lists[2]} == {
        "advance-dots", "fragments-ahead", "join-stages", "late-results", "late-sums", "overlap-iterations", "place-sums",
        "separate-made-rows", "separate-products", "split-streams", "take-turns", "unroll-loops", "unroll-streams"}


def test_the_pipelines_target_may_stand_in_its_text(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It stands above the option of the command (the larger of two bf16 is one instruction from sm_80 on); a wrong name is
    refused."""
    source = tmp_path / "in.mlir"
    source.write_text(PROGRAM.replace("(%p, %n)", "(%p, %most)").replace("i32, %p", "bf16, %p").replace("ptr<i32>", "ptr<bf16>")
                      .replace("ptr<bf16>, i32", "ptr<bf16>, bf16")
                      .replace('%unused = "arith.addi"(%n, %n) : (i32, i32) -> i32',
                               '%most = "arith.maxf"(%n, %n) : (bf16, bf16) -> bf16'))

    def said(*options: str) -> tuple[int, str]:
        code = main([str(source), *options])
        out = capsys.readouterr()
        return code, out.out + out.err
    texts = [said(f"--pass-pipeline=builtin.module(tileir{{compute-capability={gpu}}})", "--gpu-name=sm_120")
             for gpu in ("sm_75", "sm_90")]
    assert texts == [said("--to=llvm", f"--gpu-name={gpu}") for gpu in ("sm_75", "sm_90")] and texts[0] != texts[1]
    code, text = said("--pass-pipeline=builtin.module(tileir{compute-capability=sm_33})")
    assert code == 2 and "unsupported GPU target 'sm_33'" in text


LOOP = """cuda_tile.module @m {
  entry @sum(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <f32: 0.0> : tile<1024xf32>
    %w = make_tensor_view %p, shape = [65536], strides = [1] : tensor_view<65536xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(1024), tensor_view<65536xf32, strides=[1]>>
    %s = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%a = %c) -> (tile<1024xf32>) {
      %x, %u = load_view_tko weak %v[%i] token = %t : partition_view<tile=(1024), tensor_view<65536xf32, strides=[1]>>, tile<i32>
        -> tile<1024xf32>, token
      %y = addf %a, %x : tile<1024xf32>
      continue %y : tile<1024xf32>
    }
    print_tko "%f", %s : tile<1024xf32> -> token
    return
  }
}
"""


def test_schedules_may_go_to_a_trace(tmp_path: pathlib.Path) -> None:
    """By the tool's option as by the pipeline's."""
    (tmp_path / "k.mlir").write_text(LOOP)
    traces = [tmp_path / "a.json", tmp_path / "b.json"]
    run = [str(tmp_path / "k.mlir"), "-o", str(tmp_path / "out"), "--gpu-name=sm_90"]
    assert main([*run, "--to=llvm", f"--schedule-trace-file={traces[0]}"]) == 0
    assert main([*run, f"--pass-pipeline=builtin.module(tileir{{schedule-trace-file={traces[1]}}})"]) == 0
    events = [json.loads(trace.read_text()) for trace in traces]
    assert events[0] == events[1] and events[0]


def test_ops_of_other_dialects_pass_through(tmp_path: pathlib.Path) -> None:
    (tmp_path / "k.mlir").write_text(PROGRAM)
    for options in ([], ["--allow-unregistered-dialect"], ["--no-implicit-module"]):
        assert main([str(tmp_path / "k.mlir"), "-o", str(tmp_path / "out"), *options]) == 0
        assert "nv_tileaa.store" in (tmp_path / "out").read_text()
