"""Tile blocks on several CTAs: what each does, what one does for all, and in which order."""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tileiras.bytecode import write
from tileiras.bytecode.version import CURRENT_VERSION
from tileiras.compiler import CompiledModule, compile_module
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.sim import SimulationError, simulate

POINTERS = """
    %i = iota : tile<256xi32>
    %ones = constant <i32: 1> : tile<256xi32>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %size = constant <i32: 256> : tile<i32>
    %first = muli %x, %size : tile<i32>
    %mine = offset %p, %first : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %s = reshape %mine : tile<ptr<i32>> -> tile<1xptr<i32>>
    %b = broadcast %s : tile<1xptr<i32>> -> tile<256xptr<i32>>
    %q = offset %b, %i : tile<256xptr<i32>>, tile<256xi32> -> tile<256xptr<i32>>
    %t = make_token : token
    %v, %l = load_ptr_tko weak %q token = %t : tile<256xptr<i32>> -> tile<256xi32>, token
    %n = addi %v, %ones : tile<256xi32>
    %o = store_ptr_tko weak %q, %n token = %l : tile<256xptr<i32>>, tile<256xi32> -> token"""
"""Adds one to 256 numbers."""


def compiled(body: str, ctas: int, gpu: str = "sm_90") -> CompiledModule:
    """A kernel of these ops, for clusters of so many CTAs."""
    text = f"""cuda_tile.module @m {{
  entry @k(%p: tile<ptr<i32>>, %c: tile<ptr<i32>>) optimization_hints=<default = {{num_cta_in_cga = {ctas}}}> {{{body}
    return
  }}
}}"""
    options = CompileOptions(find_target(gpu), verify_each=True, remarks=[])
    return compile_module(write(parse_module(text), CURRENT_VERSION), options)


def run(module: CompiledModule, grid: int, *args: Any) -> str:
    """What it prints, if nothing is found fault with."""
    report = simulate(module.ptx, grid=grid, args=args)
    assert not report.findings, report.findings[0]
    return report.output


def of_cluster(ptx: str) -> int:
    found = re.search(r"\.reqnctapercluster (\d+)", ptx)
    return int(found[1]) if found else 1


@pytest.mark.parametrize("gpu", ["sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("ctas", [2, 4, 16])
def test_each_cta_has_a_part(ctas: int, gpu: str) -> None:
    made = compiled(POINTERS, ctas, gpu)
    assert of_cluster(made.ptx) == ctas
    p, c = np.arange(768, dtype=np.int32), np.zeros(1, np.int32)
    run(made, 3, p, c)
    np.testing.assert_array_equal(p, np.arange(768) + 1)


@pytest.mark.parametrize("ctas", [2, 8])
def test_what_happens_once_one_cta_does(ctas: int) -> None:
    """An addition to a counter, the store of a scalar, a line."""
    made = compiled(POINTERS + """
    %one = constant <i32: 1> : tile<i32>
    %r, %u = atomic_rmw_tko relaxed device %c, add, %one token = %t : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %at = addi %x, %one : tile<i32>
    %d = offset %c, %at : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %w = store_ptr_tko weak %d, %at token = %t : tile<ptr<i32>>, tile<i32> -> token
    %line = print_tko "block %d\\0A", %x token=%t : tile<i32> -> token""", ctas)
    assert of_cluster(made.ptx) == ctas
    p, c = np.arange(768, dtype=np.int32), np.zeros(4, np.int32)
    said = run(made, 3, p, c)
    assert c.tolist() == [3, 1, 2, 3]
    assert sorted(said.split("\n")) == ["", "block 0", "block 1", "block 2"]


BACKWARDS = POINTERS + """
    %last = constant <i32: 255> : tile<256xi32>
    %back = subi %last, %i : tile<256xi32>
    %g = offset %b, %back : tile<256xptr<i32>>, tile<256xi32> -> tile<256xptr<i32>>
    %e, %f = load_ptr_tko weak %g token = %o : tile<256xptr<i32>> -> tile<256xi32>, token
    %cs = reshape %c : tile<ptr<i32>> -> tile<1xptr<i32>>
    %cb = broadcast %cs : tile<1xptr<i32>> -> tile<256xptr<i32>>
    %cq = offset %cb, %i : tile<256xptr<i32>>, tile<256xi32> -> tile<256xptr<i32>>
    %w = store_ptr_tko weak %cq, %e token = %t : tile<256xptr<i32>>, tile<256xi32> -> token"""
"""Then reads them from last to first, so that each CTA reads what another wrote."""


@pytest.mark.parametrize("ctas", [2, 4])
def test_what_tokens_order_waits_for_all_ctas(ctas: int) -> None:
    made = compiled(BACKWARDS, ctas)
    p, c = np.arange(256, dtype=np.int32), np.zeros(256, np.int32)
    run(made, 1, p, c)
    np.testing.assert_array_equal(c, np.arange(256, 0, -1))
    assert made.ptx.count("barrier.cluster.arrive") == made.ptx.count("barrier.cluster.wait") > 0


def test_a_barrier_of_the_cta_would_not_do() -> None:
    made = compiled(BACKWARDS, 2)
    text = re.sub(r"barrier\.cluster\.arrive[.\w]*", "bar.sync 0", re.sub(r"barrier\.cluster\.wait[.\w]*", "bar.sync 0", made.ptx))
    assert text != made.ptx
    report = simulate(text, grid=1, args=[np.arange(256, dtype=np.int32), np.zeros(256, np.int32)])
    assert report.findings


def refusal(module: CompiledModule) -> str:
    assert of_cluster(module.ptx) == 1
    assert module._options is not None and module._options.remarks is not None
    [found] = [r for r in module._options.remarks if "num_cta_in_cga" in r.text]
    assert (found.kind, found.name) == ("missed", "RemarkHintIgnored")
    [reason] = found.reasons
    return reason


@pytest.mark.parametrize("ops, reason", [
    ("""
    %r, %u = atomic_rmw_tko relaxed device %c, add, %first token = %t : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %w = store_ptr_tko weak %p, %r token = %u : tile<ptr<i32>>, tile<i32> -> token""",
     "the result of an atomic operation on a tile that isn't split is one CTA's"),
    ("""
    %r, %u = load_ptr_tko relaxed device %c token = %t : tile<ptr<i32>> -> tile<i32>, token
    %w = store_ptr_tko weak %p, %r token = %u : tile<ptr<i32>>, tile<i32> -> token""",
     "an ordered load of a tile that isn't split gives each CTA another value"),
    ("""
    %r, %u = load_ptr_tko acquire device %c token = %t : tile<ptr<i32>> -> tile<i32>, token""",
     "a load that acquires orders what its own CTA does"),
    ("""
    %h = reshape %n : tile<256xi32> -> tile<16x16xi32>
    %th = permute %h [1, 0] : tile<16x16xi32> -> tile<16x16xi32>
    %k = addi %h, %th : tile<16x16xi32>
    %kr = reshape %k : tile<16x16xi32> -> tile<256xi32>
    %w = store_ptr_tko weak %q, %kr token = %o : tile<256xptr<i32>>, tile<256xi32> -> token""",
     "dimension 1 of tile<16x16xi32> stays whole: it runs along two dimensions of a tile"),
])
def test_what_keeps_a_tile_block_in_one_cta(ops: str, reason: str) -> None:
    assert refusal(compiled(POINTERS + ops, 2)) == reason


def test_more_ctas_than_parts() -> None:
    made = compiled("""
    %t = make_token : token
    %i = iota : tile<8xi32>
    %s = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
    %b = broadcast %s : tile<1xptr<i32>> -> tile<8xptr<i32>>
    %q = offset %b, %i : tile<8xptr<i32>>, tile<8xi32> -> tile<8xptr<i32>>
    %o = store_ptr_tko weak %q, %i token = %t : tile<8xptr<i32>>, tile<8xi32> -> token""", 16)
    assert refusal(made) == "tile<8xi32> doesn't have as many parts"


def reduction(count: int, body: str) -> str:
    """From each of `count` numbers their reduction is taken away; it goes to another array, too."""
    return f"""
    %i = iota : tile<{count}xi32>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %size = constant <i32: {count}> : tile<i32>
    %first = muli %x, %size : tile<i32>
    %mine = offset %p, %first : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %s = reshape %mine : tile<ptr<i32>> -> tile<1xptr<i32>>
    %b = broadcast %s : tile<1xptr<i32>> -> tile<{count}xptr<i32>>
    %q = offset %b, %i : tile<{count}xptr<i32>>, tile<{count}xi32> -> tile<{count}xptr<i32>>
    %t = make_token : token
    %v, %l = load_ptr_tko weak %q token = %t : tile<{count}xptr<i32>> -> tile<{count}xi32>, token
    %r = reduce %v dim=0 identities=[0 : i32] : tile<{count}xi32> -> tile<i32>
    (%m: tile<i32>, %k: tile<i32>) {{
      %a = {body} : tile<i32>
      yield %a : tile<i32>
    }}
    %rs = reshape %r : tile<i32> -> tile<1xi32>
    %rb = broadcast %rs : tile<1xi32> -> tile<{count}xi32>
    %n = subi %v, %rb : tile<{count}xi32>
    %o = store_ptr_tko weak %q, %n token = %l : tile<{count}xptr<i32>>, tile<{count}xi32> -> token
    %cc = offset %c, %x : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %w = store_ptr_tko weak %cc, %r token = %t : tile<ptr<i32>>, tile<i32> -> token"""


LARGE = 16384


@pytest.mark.parametrize("body, function", [("addi %m, %k", np.sum), ("maxi %m, %k signed", np.max)])
@pytest.mark.parametrize("ctas", [2, 8])
def test_reductions_over_all_ctas(ctas: int, body: str, function: Any) -> None:
    made = compiled(reduction(LARGE, body), ctas)
    assert of_cluster(made.ptx) == ctas and "shared::cluster" in made.ptx
    p, c = np.random.default_rng(ctas).integers(0, 1000, 2 * LARGE).astype(np.int32), np.zeros(2, np.int32)
    rows = p.reshape(2, LARGE).copy()
    run(made, 2, p, c)
    found = function(rows, axis=1, keepdims=True)
    np.testing.assert_array_equal(c, found[:, 0])
    np.testing.assert_array_equal(p, (rows - found).ravel())


def test_an_exchange_that_costs_more_than_it_saves() -> None:
    made = compiled(reduction(256, "addi %m, %k"), 2)
    assert refusal(made) == "what reductions would have to exchange between CTAs costs more than the split saves"


@pytest.mark.parametrize("kept", [1, 2])
def test_both_barriers_of_an_exchange_are_needed(kept: int) -> None:
    """Without the first a CTA reads what isn't there; without the last, what is there no longer, or of a CTA that has left."""
    text = compiled(reduction(LARGE, "addi %m, %k"), 2).ptx
    parts = re.split(r"barrier\.cluster\.arrive[.\w]*;\s*barrier\.cluster\.wait[.\w]*;", text)
    assert len(parts) == 3
    broken = parts[0] + "bar.sync 0;" + parts[1] + "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" + parts[2] \
        if kept == 2 else parts[0] + "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" + parts[1] + parts[2]
    p, c = np.arange(2 * LARGE, dtype=np.int32), np.zeros(2, np.int32)
    try:
        assert simulate(broken, grid=2, args=[p, c]).findings
    except SimulationError:
        pass
