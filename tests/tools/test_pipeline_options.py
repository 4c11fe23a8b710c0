"""The options of `tileir{...}`: each acts, or is refused with its reason."""
from __future__ import annotations

import pathlib
from typing import Any

import pytest

from tileiras.errors import UsageError
from tileiras.tools.pass_pipeline import PIPELINE_OPTIONS, WHOLE_OPTIONS, WHOLE_PIPELINE
from tileiras.tools.pipeline_options import FIXED, FLAGS, HINT_OF
from tileiras.tools.tileiras_opt import main

DOCUMENTED = (
    "num-warps num-ctas compute-capability opt-level v2-opt-level pipeline-strategy index-bitwidth "
    "unspecialized-pipeline-num-stages approx ftz use-nvgpucomp-libnvvm emit-line-info dynamic-persistent schedule-trace-file "
    "enable-random-delay rrt-size-threshold max-constraint-iterations enable-debug-logging host-triple dump-host").split()
"""All twenty of the specification (10-pipeline/05)."""
KERNEL = """cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %w = make_tensor_view %p, shape = [512], strides = [1] : tensor_view<512xf32, strides=[1]>
    %v = make_partition_view %w : partition_view<tile=(512), tensor_view<512xf32, strides=[1]>>
    %a, %u = load_view_tko weak %v[%zero] token = %t
      : partition_view<tile=(512), tensor_view<512xf32, strides=[1]>>, tile<i32> -> tile<512xf32>, token
    %d = divf %a, %a : tile<512xf32>
    %h = ftof %d : tile<512xf32> -> tile<512xf16>
    %s = sqrt %h : tile<512xf16>
    %e = ftof %s : tile<512xf16> -> tile<512xf32>
    %x = store_view_tko weak %e, %v[%zero] token = %u
      : tile<512xf32>, partition_view<tile=(512), tensor_view<512xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
"""


@pytest.fixture
def run(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the pipeline with options on a text: (exit code, result, what was said)."""
    monkeypatch.chdir(tmp_path)

    def pipeline(options: str = "", text: str = KERNEL, *more: str) -> tuple[int, str, str]:
        pathlib.Path("in.mlir").write_text(text)
        pathlib.Path("out.mlir").unlink(missing_ok=True)
        code = main(["in.mlir", "-o", "out.mlir", f"--pass-pipeline=builtin.module(tileir{{{options}}})", *more])
        out = pathlib.Path("out.mlir")
        return code, out.read_text() if out.exists() else "", capsys.readouterr().err
    return pipeline


def test_every_documented_option_is_known() -> None:
    known = set(PIPELINE_OPTIONS[WHOLE_PIPELINE])
    assert len(DOCUMENTED) == 20 and set(DOCUMENTED) <= known and known - set(DOCUMENTED) == {"num-stages"}
    assert {*HINT_OF, *FLAGS, *FIXED, "emit-line-info", "host-triple", "dump-host"} == set(WHOLE_OPTIONS)


@pytest.mark.parametrize("option", FIXED)
def test_what_has_one_value_takes_that_and_says_why_no_other(option: str, run: Any) -> None:
    only, why = FIXED[option]
    assert run(f"{option}={only}") == run()
    other = {"0": "1", "32": "64", "false": "true"}[only]
    assert run(f"{option}={other}") == (UsageError.exit_code, "", f"error: option '{option}' is {only}: {why}\n")


@pytest.mark.parametrize(("options", "message"), [
    ("num-warps=0", "takes a number from 1"), ("num-warps=many", "takes a number from 1"), ("num-ctas=3", "num_cta_in_cga"),
    ("ftz=maybe", "is true or false"), ("approx=1", "is true or false"), ("emit-line-info=cute", "unknown stage 'cute'"),
    ("host-triple=sparc-sun-solaris", "unknown host triple 'sparc-sun-solaris'; known: native, x86_64-unknown-linux-gnu"),
    ("opt-level=4", "invalid optimization level"),
])
def test_other_values_are_refused(options: str, message: str, run: Any) -> None:
    code, text, said = run(options)
    assert (code, text) == (UsageError.exit_code, "") and message in said


@pytest.mark.parametrize("warps", [1, 2, 8])
def test_warps(warps: int, run: Any) -> None:
    """A block has 32 threads a warp."""
    assert f'nvvm.reqntid = "{32 * warps}"' in run(f"num-warps={warps}")[1]


def test_ctas(run: Any) -> None:
    """Two CTAs share the tile: a cluster of two."""
    assert "cluster" not in run()[1] and 'nvvm.cluster_dim = "2"' in run("num-ctas=2")[1]


def test_flushing(run: Any) -> None:
    """f32 only: the square root of f16 (which is computed in f32) stays."""
    plain, flushed = run()[1], run("ftz=true")[1]
    assert "ftz" not in plain and "llvm.nvvm.div.rn.ftz.f" in flushed
    assert flushed.count("llvm.nvvm.sqrt.rn.f") == plain.count("llvm.nvvm.sqrt.rn.f") > 0


def test_approximations(run: Any) -> None:
    plain, quick = run()[1], run("approx=true")[1]
    assert "llvm.nvvm.div.approx.f" in quick and "approx" not in plain
    assert quick.count("llvm.nvvm.sqrt.rn.f") == plain.count("llvm.nvvm.sqrt.rn.f") > 0


@pytest.mark.parametrize("option", ["num-warps=2", "num-ctas=2", "ftz=true", "approx=true"])
def test_what_acts_on_cuda_tile_is_refused_below(option: str, run: Any, tmp_path: pathlib.Path) -> None:
    (tmp_path / "k.mlir").write_text(KERNEL)
    assert main([str(tmp_path / "k.mlir"), "--to=nv_tileaa", "-o", str(tmp_path / "aa.mlir")]) == 0
    code, _, said = run(option, (tmp_path / "aa.mlir").read_text())
    assert code == UsageError.exit_code and f"'{option.split('=')[0]}' acts on cuda_tile, but the module is nv_tileaa" in said


@pytest.mark.parametrize(("stage", "op"), [("tileaa", "nv_tileaa.tiled_load"), ("tileas", "nv_tileas.tiled_load"),
                                           ("post-tileas", "llvm.load")])
def test_lines_of_a_snapshot(stage: str, op: str, run: Any) -> None:
    """What comes from the op on line n of the snapshot says so."""
    code, text, _ = run(f"emit-line-info={stage}", KERNEL, "--mlir-print-debuginfo", "--mlir-print-op-generic")
    snapshot = pathlib.Path("snapshot.mlir").read_text().split("\n")
    assert code == 0
    line = next(n for n, content in enumerate(snapshot, 1) if f'"{op}"' in content)
    assert f'"snapshot.mlir":{line}:' in text
    assert '"in.mlir"' not in text


def test_without_a_snapshot_lines_are_the_inputs(run: Any) -> None:
    for options in ("", "emit-line-info=none", "emit-line-info=inputIR"):
        text = run(options, KERNEL, "--mlir-print-debuginfo", "--mlir-print-op-generic")[1]
        assert '"in.mlir":7:' in text and "snapshot" not in text
    assert not pathlib.Path("snapshot.mlir").exists()


@pytest.mark.parametrize(("triple", "written"), [("native", "x86_64-unknown-linux-gnu"),
                                                 ("aarch64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")])
def test_the_hosts_code(triple: str, written: str, run: Any) -> None:
    code, text, _ = run(f"dump-host=k.ll,host-triple={triple}")
    host = pathlib.Path("k.ll").read_text()
    assert code == 0 and text == run()[1]
    assert f'target triple = "{written}"' in host and "@__CUDA_TILEIR_CALLBACKS =" in host
    assert '@__CUDA_TILEIR_FUNC_NAME_0 = internal constant [2 x i8] c"\\6B\\00"' in host     # "k"
