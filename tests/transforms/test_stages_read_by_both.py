"""Stages that products and threads read are given back by both: right for every trip count and order; no part may be missing."""
from __future__ import annotations

import pathlib
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntAttr

from tests.kernels.cluster_cases import any_parts
from tests.transforms.test_gathered_rings import compiled
from tileiras.analysis.pipes import RIGHT, WRONG, check_pipes
from tileiras.compiler import read_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.pipeline import run
from tileiras.sim import simulate
from tileiras.tools.tileiras_translate import to_bytecode

PROGRAM = (pathlib.Path(__file__).parents[1] / "filecheck" / "passes" / "commit-dots-both.mlir").read_text()
STAGES = 4


@pytest.mark.parametrize("gpu", ["sm_100", "sm_103", "sm_110"])
def test_sums_are_right_for_every_trip_count(gpu: str) -> None:
    ptx, _ = compiled(PROGRAM, gpu)
    assert ptx.count("tcgen05.commit") == 2         # of the loop's stages, and of the sums behind it
    assert_right(ptx)


def test_so_are_those_of_threads_that_load_themselves() -> None:
    """Which have no agent for that."""
    ptx, _ = compiled(PROGRAM, "sm_100", without=frozenset({"agents"}))
    assert "tcgen05.mma" in ptx
    assert_right(ptx)


def test_so_are_those_of_two_ctas_that_load_columns_for_each_other() -> None:
    """Each tells the other, too, that it has read them, by its warps and by its tensor core."""
    asked = PROGRAM.replace("%n: tile<i32>) {", "%n: tile<i32>) optimization_hints=<sm_100 = {num_cta_in_cga = 2}> {")
    with any_parts():
        ptx, _ = compiled(asked, "sm_100")
    assert ".reqnctapercluster 2" in ptx and ptx.count("tcgen05.commit") == 2
    assert "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster" in ptx
    assert_right(ptx)


def assert_right(ptx: str) -> None:
    rng = np.random.default_rng(3)
    x, w = rng.integers(-3, 4, (64, 4096)).astype(np.float16), rng.integers(-2, 3, (4096, 128)).astype(np.float16)
    for seed, trips in enumerate((0, 1, 3, STAGES, 2 * STAGES + 1)):
        out, squares = np.full((64, 128), np.nan, np.float32), np.full(64, np.nan, np.float32)
        report = simulate(ptx, args=[x, w, out, squares, np.int32(trips)], seed=seed)
        rows, columns = x[:, :64 * trips].astype(np.float32), w[:64 * trips].astype(np.float32)
        assert not report.findings
        assert (out == rows @ columns).all() and (squares == (rows * rows).sum(axis=1)).all()


@lru_cache(maxsize=1)
def module() -> Any:
    """With the protocol written out."""
    options = CompileOptions(find_target("sm_100"))
    return run(read_module(to_bytecode(PROGRAM), options), options, stop_at="nv_tileas")


def verdict(change: Any) -> str:
    """Of the protocol in which the ring's pipe and what gives its stages back were changed."""
    changed = module().clone()
    func = next(op for op in changed.walk() if op.name == "nv_tileas.func")
    end = next(op for op in func.walk() if op.name == "nv_tileas.consumer_release")
    change(end.operands[0].owner, end)
    return check_pipes(func).kind


def by_threads_alone(pipe: Any, end: Any) -> None:
    del end.properties["with_dots"]


def by_products_alone(pipe: Any, end: Any) -> None:
    end.properties["by_dots"] = end.properties.pop("with_dots")


def one_part_is_enough(pipe: Any, end: Any) -> None:
    pipe.properties["consumers"] = IntAttr(pipe.properties["consumers"].data - 1)


def products_arent_asked(pipe: Any, end: Any) -> None:
    by_threads_alone(pipe, end)
    one_part_is_enough(pipe, end)


def threads_arent_asked(pipe: Any, end: Any) -> None:
    by_products_alone(pipe, end)
    pipe.properties["consumers"] = IntAttr(1)


def test_the_protocol_is_right_as_it_is() -> None:
    assert verdict(lambda pipe, end: None) == RIGHT


@pytest.mark.parametrize("mistake", [by_threads_alone, by_products_alone, one_part_is_enough, products_arent_asked,
                                     threads_arent_asked])
def test_each_part_is_needed(mistake: Any) -> None:
    assert verdict(mistake) == WRONG
