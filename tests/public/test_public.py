"""The public definition's tests pass but for those that are known, where TILEIRAS_PUBLIC names a checkout; the runner's
own parts, anywhere."""
from __future__ import annotations

import os
import pathlib

import pytest

from tests.public import shell
from tests.public.run_public import announced_errors, run, unexpected

CHECKOUT = os.environ.get("TILEIRAS_PUBLIC", "")


@pytest.mark.skipif(not CHECKOUT, reason="TILEIRAS_PUBLIC names no checkout of the public definition")
def test_public_tests_pass() -> None:
    assert unexpected(run(pathlib.Path(CHECKOUT))) == []


def test_run_lines_pipe_negate_and_compare(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.mlir"
    path.write_text("// RUN: cuda-tile-opt %s | FileCheck \\\n// RUN: %s\n// RUN: not cuda-tile-opt %t 2>&1 | FileCheck %s "
                    "--check-prefix=BAD\n// RUN: %round_trip_test %s %t.x\n// CHECK: entry @f()\n// BAD: unable to read\n"
                    "cuda_tile.module @kernels {\n  entry @f() {\n    return\n  }\n}\n")
    lines = [shell.substituted(line, path, tmp_path / "scratch") for line in shell.run_lines(path)]
    assert len(lines) == 3
    assert [shell.run_pipe(line).code for line in lines] == [0, 0, 0]
    assert shell.run_pipe(lines[0].replace("FileCheck", "not FileCheck")).code == 1
    assert shell.run_pipe(f"no-such-tool {path}").code == 127


def test_announced_errors_count_by_line_and_by_text(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.mlir"
    path.write_text("// RUN: cuda-tile-opt %s -verify-diagnostics -split-input-file\n"
                    "cuda_tile.module @m { entry @f(%x: tile<i32>) {\n"
                    "  // expected-error @below {{truncating to larger or identical integer}}\n"
                    "  %y = trunci %x : tile<i32> -> tile<i64>\n  return } }\n// -----\n"
                    "cuda_tile.module @m { entry @f(%x: tile<i32>) {\n"
                    "  // expected-error @below {{in other words}}\n"
                    "  %y = trunci %x : tile<i32> -> tile<i64>\n  return } }\n// -----\n"
                    "cuda_tile.module @m { entry @f(%x: tile<i32>) {\n"
                    "  // expected-error @above {{truncating}}\n"
                    "  %y = trunci %x : tile<i32> -> tile<i64>\n  return } }\n")
    announced, at_line, equal, missed = announced_errors(path, "t.mlir", shell.run_lines(path))
    assert (announced, at_line, equal) == (3, 2, 1) and len(missed) == 2
