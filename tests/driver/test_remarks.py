"""Remarks say what became of a kernel's loads, stores, products and hints, why, and what would help."""
from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest

from tests.programs.programs import load_all
from tileiras.bytecode import read
from tileiras.codegen.resources import Entry, Parameter
from tileiras.driver import main as driver
from tileiras.driver.command_line import parse
from tileiras.driver.options import WITHOUT, CompileOptions
from tileiras.driver.remarks import as_text, as_yaml, resource_remarks, wanted
from tileiras.machine.targets import find_target
from tileiras.pipeline import run
from tileiras.remarks import Remark
from tileiras.sim.cutile import export
from tileiras.tools.tileiras_translate import to_bytecode

ENTRY = Entry("k", (Parameter(".u64", 8, True),), threads=128, shared_bytes=512, registers=40)
SPILLS = Entry("k", (), threads=128, registers=255, spill_stores=12, spill_loads=20)
WIDTH, BOUNDS, MMA = "RemarkMemoryAccessWidth", "RemarkMemoryBoundsCheck", "RemarkTensorCoreMMA"

REMARKS = [
    Remark("passed", "Tensor-core", MMA, "f", "MMA operation", ("a b/k.py", 16, 14), (("Shape", "[16, 8, 16]"), ("Warps", 4))),
    Remark("failed", "Memory", WIDTH, "f", "it's: bad", None, (), ("no", "add assume_div_by<8>")),
    Remark("missed", "Memory", WIDTH, "g", "x", ('q"ä\n.py', 1, 0)),
]
TEXT = '''in function: f:

  category: Memory
    remark[failed]: it's: bad
       = name: RemarkMemoryAccessWidth
       = reason: no
       = reason: add assume_div_by<8>


  category: Tensor-core
    remark[passed]: MMA operation
      --> "a b/k.py":16:14
       |
       = name: RemarkTensorCoreMMA
       = note: Shape = [16, 8, 16]
       = note: Warps = 4

in function: g:

  category: Memory
    remark[missed]: x
      --> "q\\"ä
.py":1:0
       |
       = name: RemarkMemoryAccessWidth

'''
YAML = '''--- !Failure
Pass:            Memory
Name:            RemarkMemoryAccessWidth
Function:        f
Args:
  - RemarkId:    1
  - Remark:      'it''s: bad'
  - Reason:      'no'
  - Reason:      'add assume_div_by<8>'
...
--- !Passed
Pass:            Tensor-core
Name:            RemarkTensorCoreMMA
DebugLoc:        { File: 'a b/k.py', Line: 16, Column: 14 }
Function:        f
Args:
  - RemarkId:    2
  - Remark:      MMA operation
  - Shape:       '[16, 8, 16]'
  - Warps:       4
...
--- !Missed
Pass:            Memory
Name:            RemarkMemoryAccessWidth
DebugLoc:        { File: "q\\"ä\\x0A.py", Line: 1, Column: 0 }
Function:        g
Args:
  - RemarkId:    3
  - Remark:      x
...
'''


def test_forms() -> None:
    assert as_text(REMARKS) == TEXT
    assert as_yaml(REMARKS) == YAML
    assert as_text([]) == as_yaml([]) == ""
    assert as_text([*REMARKS, *REMARKS]) == TEXT


def test_resources() -> None:
    [resources] = resource_remarks([ENTRY])
    assert dict(resources.notes) == {"Threads": 128, "Registers": 40, "SharedBytes": 512, "StackBytes": 0, "Barriers": 0,
                                     "ParameterBytes": 8}
    warps = Remark("analysis", "Resources", "RemarkKernelWarps", "k", "", ("k.py", 3, 0))
    spills = resource_remarks([SPILLS], [warps])[1]
    assert (spills.kind, spills.category, spills.place) == ("missed", "Memory", ("k.py", 3, 0))
    assert spills.notes == (("SpillStoreBytes", 12), ("SpillLoadBytes", 20))


@pytest.mark.parametrize("line, names", [
    ("", []),
    ("--remarks=none", []),
    ("--remarks=all", [MMA, WIDTH, WIDTH, "RemarkKernelResources"]),
    ("--remarks=memory", [WIDTH, WIDTH]),
    ("--remarks=tensorcore", [MMA]),
    ("--remarks-missed=all", [WIDTH]),
    ("--remarks-failed=all --remarks-passed=tensorcore", [MMA, WIDTH]),
    ("--remarks-analysis=all", ["RemarkKernelResources"]),
    ("--remarks-analysis=memory", []),
    ("--remarks=memory --remarks-failed=none", [WIDTH, WIDTH]),
    ("--remarks=all --remarks=none", []),
])
def test_selection(line: str, names: list[str]) -> None:
    read_line = parse(line.split(), "tileiras")
    assert [r.name for r in [*REMARKS, *resource_remarks([ENTRY])] if wanted(read_line, r)] == names


# --- the command --------------------------------------------------------------------------------------------------


def command(kernel: pathlib.Path, output: pathlib.Path, *options: str) -> int:
    return driver.main([str(kernel), "-o", str(output), "--gpu-name", "sm_90", *options])


def test_text_goes_to_standard_output(kernel_file: Callable[..., pathlib.Path], tmp_path: pathlib.Path,
                                      capfd: pytest.CaptureFixture[str]) -> None:
    kernel, output = kernel_file("matmul_float16_float16"), tmp_path / "o"
    assert command(kernel, output, "--remarks=tensorcore") == 0
    out, err = capfd.readouterr()
    assert err == "" and out.startswith("in function: matmul_float16_float16:\n\n  category: Tensor-core\n    remark[passed]: ")
    assert 'k_matmul.py":' in out and "category: Memory" not in out
    assert command(kernel, output, "--remarks=all") == 0
    assert "     = note: Registers = " in capfd.readouterr().out
    assert command(kernel, output) == 0
    assert capfd.readouterr() == ("", "")


def test_yaml_goes_to_a_file(kernel_file: Callable[..., pathlib.Path], tmp_path: pathlib.Path,
                             monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """No remarks make an empty file; none asked for, none."""
    monkeypatch.chdir(tmp_path)
    kernel, default = kernel_file("matmul_float16_float16"), tmp_path / "tileir_remarks.yaml"
    assert command(kernel, tmp_path / "o", "--remark-format=yaml") == 0 and not default.exists()
    assert command(kernel, tmp_path / "o", "--remark-format=yaml", "--remarks-failed=tensorcore") == 0
    assert default.read_text() == ""
    assert command(kernel, tmp_path / "o", "--remark-format=yaml", "--remarks=memory", "--remarks-output-file=r.yaml") == 0
    assert (tmp_path / "r.yaml").read_text().startswith("--- !")
    assert capfd.readouterr() == ("", "")


# --- what passes tell ---------------------------------------------------------------------------------------------


def remarks_on(bytecode: bytes, gpu_name: str = "sm_90", opt_level: int = 3) -> list[Remark]:
    options = CompileOptions(find_target(gpu_name), opt_level, remarks=[])
    run(read(bytecode), options)
    assert options.remarks is not None
    return options.remarks


def named(remarks: list[Remark], name: str) -> list[Remark]:
    return [remark for remark in remarks if remark.name == name]


VIEW = '''cuda_tile.module @m {{
  entry @k(%arg0: tile<ptr<f16>>, %arg1: tile<i32>, %arg2: tile<i32>, %arg3: tile<i32>) {hints} {{
    %b = assume div_by<{base}>, %arg0 : tile<ptr<f16>>
    %n = assume div_by<{extent}>, %arg2 : tile<i32>
    %s = assume div_by<{stride}>, %arg3 : tile<i32>
    %v = make_tensor_view %b, shape = [%arg1, %n], strides = {strides} : tile<i32> -> tensor_view<?x?xf16, strides={static}>
    %p = make_partition_view %v : {p}
    %x, %y, %z = get_tile_block_id : tile<i32>
    %t, %token = load_view_tko weak %p[%x, %y] {load} : {p}, tile<i32> -> tile<64x64xf16>, token
    %u = negf %t : tile<64x64xf16>
    %w = store_view_tko weak %u, %p[%x, %y] : tile<64x64xf16>, {p}, tile<i32> -> token
    return
  }}
}}
'''


def view_program(base: int = 16, extent: int = 64, stride: int = 64, strides: str = "[%s, 1]", static: str = "[?,1]",
                 hints: str = "", load: str = "") -> bytes:
    view = f"partition_view<tile=(64x64), tensor_view<?x?xf16, strides={static}>>"
    return to_bytecode(VIEW.format(p=view, base=base, extent=extent, stride=stride, strides=strides, static=static, hints=hints,
                                   load=load))


def test_a_load_that_is_as_wide_as_can_be() -> None:
    remarks = remarks_on(view_program())
    [load] = named(remarks, "RemarkMemoryLoadInstructionSelected")
    assert load.kind == "passed" and dict(load.notes)["AccessBytes"] == 16
    assert not named(remarks, WIDTH)


@pytest.mark.parametrize("arguments, width, reason", [
    ({"base": 4}, 4, "%arg0 isn't known to be aligned to 16 bytes; add an assume_div_by<16>"),
    ({"stride": 2}, 4, "stride %arg3 isn't known to be a multiple of 8; add an assume_div_by<8>"),
    ({"extent": 4}, 8, "extent %arg2 isn't known to be a multiple of 8; add an assume_div_by<8>, or pad the array and "
                        "promise inbounds"),
    ({"static": "[100,1]", "strides": "[100, 1]"}, 8, "stride 100 of dimension 0 isn't a multiple of 8"),
    ({"static": "[?,2]", "strides": "[%s, 2]"}, 2,
     "no dimension of the tile has stride 1 in memory (strides [?, 2]): neighbours lie apart"),
])
def test_why_accesses_are_narrow(arguments: dict[str, int], width: int, reason: str) -> None:
    """16 bytes are 8 elements of f16: the base must be aligned to 16 bytes, strides and the checked extent divide by 8. Where there
    is a copy engine it may move what threads would in narrow accesses."""
    load, store = named(remarks_on(view_program(**arguments), "sm_80"), WIDTH)  # type: ignore[arg-type]
    assert load.kind == "missed" and load.reasons == store.reasons == (reason,)
    assert load.text == f"load of tile<64x64xf16> uses {width}-byte accesses, 16 bytes are possible"
    assert store.text == load.text.replace("load", "store")


def test_bounds_that_are_checked() -> None:
    """The second extent is a multiple of the tile's, so it goes unchecked."""
    load, _ = named(remarks_on(view_program()), BOUNDS)
    assert load.text == "load of tile<64x64xf16> checks bounds along dimension 0"
    assert load.reasons == ("extent %arg1 isn't known to be a multiple of 64; add an assume_div_by<64>",)


POINTERS = '''cuda_tile.module @m {{
  entry @k(%arg0: tile<ptr<f32>>, %arg1: tile<i32>) {{
    %b = assume div_by<{base}>, %arg0 : tile<ptr<f32>>
    %i = iota : tile<1024xi32>
    {offsets}
    %r = reshape %b : tile<ptr<f32>> -> tile<1xptr<f32>>
    %a = broadcast %r : tile<1xptr<f32>> -> tile<1024xptr<f32>>
    %p = offset %a, %o : tile<1024xptr<f32>>, tile<1024xi32> -> tile<1024xptr<f32>>
    %n = reshape %arg1 : tile<i32> -> tile<1xi32>
    %m = broadcast %n : tile<1xi32> -> tile<1024xi32>
    %c = cmpi less_than %i, %m, signed : tile<1024xi32> -> tile<1024xi1>
    %t, %token = load_ptr_tko weak %p{mask} : tile<1024xptr<f32>>{types} -> tile<1024xf32>, token
    %u = store_ptr_tko weak %p, %t : tile<1024xptr<f32>>, tile<1024xf32> -> token
    return
  }}
}}
'''


@pytest.mark.parametrize("base, offsets, masked, reason", [
    (16, "%o = muli %i, %i : tile<1024xi32>", False, "the pointers aren't known to be neighbours: each is computed on its own"),
    (4, "%o = addi %i, %i : tile<1024xi32>", False, "the pointers aren't known to be neighbours: each is computed on its own"),
    (4, "%z = constant <i32: 0> : tile<1024xi32>\n    %o = addi %i, %z : tile<1024xi32>", False,
     "the pointers aren't known to be aligned to 16 bytes (but to 4); add an assume_div_by<16> to the base pointer and to what "
     "is added to it"),
    (16, "%z = constant <i32: 0> : tile<1024xi32>\n    %o = addi %i, %z : tile<1024xi32>", True,
     "the mask isn't known to be the same for 4 neighbours along dimension 0; add an assume_div_by<4> to the bound that it "
     "compares with"),
])
def test_why_accesses_through_pointers_are_narrow(base: int, offsets: str, masked: bool, reason: str,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a mask is, it isn't `wide-inside` that makes them wide."""
    monkeypatch.setenv(WITHOUT, "wide")
    text = POINTERS.format(base=base, offsets=offsets, mask=", %c" if masked else "", types=", tile<1024xi1>" if masked else "")
    load = named(remarks_on(to_bytecode(text)), WIDTH)[0]
    assert load.text == "load of tile<1024xf32> uses 4-byte accesses, 16 bytes are possible"
    assert load.reasons == (reason,)


DOT = '''cuda_tile.module @m {{
  entry @k(%arg0: tile<ptr<{c}>>, %arg1: tile<ptr<{a}>>) {{
    %i = constant <i32: 0> : tile<i32>
    %u = make_tensor_view %arg1, shape = [{m}, {k}], strides = [{k}, 1] : tensor_view<{m}x{k}x{a}, strides=[{k},1]>
    %q = make_partition_view %u : {q}
    %a, %t = load_view_tko weak %q[%i, %i] : {q}, tile<i32> -> tile<{m}x{k}x{a}>, token
    %b = constant <{a}: 1{dot}> : tile<{k}x{n}x{a}>
    %z = constant <{c}: 0{dot}> : tile<{m}x{n}x{c}>
    %d = {op} %a, %b, %z{sign} : tile<{m}x{k}x{a}>, tile<{k}x{n}x{a}>, tile<{m}x{n}x{c}>
    %v = make_tensor_view %arg0, shape = [{m}, {n}], strides = [{n}, 1] : tensor_view<{m}x{n}x{c}, strides=[{n},1]>
    %p = make_partition_view %v : {p}
    %w = store_view_tko weak %d, %p[%i, %i] : tile<{m}x{n}x{c}>, {p}, tile<i32> -> token
    return
  }}
}}
'''


def dot_remarks(a: str, c: str, gpu_name: str, m: int = 64, n: int = 64, k: int = 32) -> list[Remark]:
    integers = a.startswith("i")
    view = f"partition_view<tile=({m}x{n}), tensor_view<{m}x{n}x{c}, strides=[{n},1]>>"
    loaded = f"partition_view<tile=({m}x{k}), tensor_view<{m}x{k}x{a}, strides=[{k},1]>>"
    text = DOT.format(p=view, q=loaded, a=a, c=c, m=m, n=n, k=k, op="mmai" if integers else "mmaf",
                      sign=" signed signed" if integers else "", dot="" if integers else ".0")
    return remarks_on(to_bytecode(text), gpu_name)


@pytest.mark.parametrize("a, c, gpu_name, instruction, shape, atom", [
    ("f16", "f32", "sm_90", "Tensor-core SM90", "[64, 64, 16]", "sm90.mma.m64n64k16.f32.f16.f16.ss"),
    ("f16", "f32", "sm_75", "Tensor-core SM75", "[16, 8, 8]", "mma.m16n8k8.row.col.f32.f32"),
    ("i8", "i32", "sm_80", "Tensor-core SM80", "[16, 8, 32]", "mma.m16n8k32.row.col.s8"),
    ("f16", "f32", "sm_100", "Tensor-core SM100", "[64, 64, 16]", "sm100.mma.f16.m64n64k16.f32.f16.f16.cg1.ss"),
    ("tf32", "f32", "sm_120", "Tensor-core SM80", "[16, 8, 8]", "mma.m16n8k8.row.col.tf32"),
])
def test_which_instruction_multiplies(a: str, c: str, gpu_name: str, instruction: str, shape: str, atom: str) -> None:
    [dot] = named(dot_remarks(a, c, gpu_name), MMA)
    assert dot.kind == "passed"
    assert dict(dot.notes) == {"Instruction": instruction, "Shape": shape, "Atom": atom}


@pytest.mark.parametrize("a, c, gpu_name, extents, reason", [
    ("f32", "f32", "sm_90", {}, "no tensor core format for f32 x f32; convert the operands to tf32, bf16, f16"),
    ("f32", "f32", "sm_75", {}, "no tensor core format for f32 x f32; convert the operands to f16"),
    ("bf16", "f32", "sm_75", {}, "sm_75 has no tensor core instruction for bf16 x bf16"),
    ("f16", "f32", "sm_90", {"k": 4}, "the tile's k of 4 is less than the 8 of the smallest instruction"),
    ("f16", "f32", "sm_90", {"m": 1, "n": 4}, "a 1x4 tile is less than 1/16 of the smallest instruction's 16x8; use a larger tile"),
])
def test_why_a_product_takes_no_tensor_core(a: str, c: str, gpu_name: str, extents: dict[str, int], reason: str) -> None:
    [dot] = named(dot_remarks(a, c, gpu_name, **extents), MMA)
    assert (dot.kind, dot.reasons) == ("failed", (reason,))
    assert dict(dot.notes) == {"Instruction": "FMA", "Shape": "[1, 1, 1]"}


@pytest.mark.parametrize("a, c, gpu_name, extents, reason", [
    ("f16", "f32", "sm_100", {"m": 32}, "the tile has 32 rows, the smallest instruction 64"),
    ("f16", "f32", "sm_100", {"n": 4}, "the tile has 4 columns, the smallest instruction 8"),
    ("f16", "f32", "sm_100", {"k": 8}, "the tile's k of 8 is less than the instruction's 16"),
    ("i8", "i32", "sm_103", {}, "sm_103 multiplies no i8 x i8 into tensor memory with sums of i32"),
])
def test_why_a_product_does_without_tensor_memory(a: str, c: str, gpu_name: str, extents: dict[str, int], reason: str) -> None:
    remarks = dot_remarks(a, c, gpu_name, **extents)
    assert [r.reasons for r in named(remarks, "RemarkTensorCoreNotInTensorMemory")] == [(reason,)]
    assert [r.kind for r in named(remarks, MMA)] == ["passed"]


def test_products_that_could_do_better() -> None:
    [widened] = named(dot_remarks("f8E4M3FN", "f32", "sm_80"), "RemarkTensorCoreWidened")
    assert widened.reasons == ("sm_80 multiplies no f8E4M3FN on tensor cores that accumulate in f32",)
    [small] = named(dot_remarks("f16", "f32", "sm_90", m=4), "RemarkTensorCoreSmallTile")
    assert small.text == "A 4x64 tile fills part of a 16x8 instruction only"
    [sliced] = named(dot_remarks("f16", "f32", "sm_75", m=128, n=128, k=256), "RemarkMemoryDotSliced")
    assert sliced.text == "Product goes through shared memory in 4 parts"  # 128 KiB of operands, 48 KiB of memory


def test_hints() -> None:
    hints = "optimization_hints=<sm_90 = {num_cta_in_cga = 2, occupancy = 4, num_worker_warps_per_cta = 8}>"
    load = "optimization_hints = <sm_90 = {latency = 4, allow_tma = true}>"
    remarks = remarks_on(view_program(hints=hints, load=load))
    assert [r.text for r in named(remarks, "RemarkHintIgnored")] == [
        "Hint latency = 4 has no effect", "Hint allow_tma = true has no effect"]
    [warps] = named(remarks, "RemarkKernelWarps")
    assert (warps.text, warps.reasons) == ("8 warps run a CTA's part of a tile block", ("the hint num_worker_warps_per_cta",))
    [clusters, occupancy] = named(remarks, "RemarkHintApplied")
    assert clusters.text == "Hint num_cta_in_cga = 2 splits a tile block over 2 CTAs"
    assert dict(occupancy.notes) == {"Registers": 65536 // (4 * 256)}


ACCESSES = ("RemarkMemoryLoadInstructionSelected", "RemarkMemoryStoreInstructionSelected")
REFUSED = ("RemarkMemoryTmaLoadFailed", "RemarkMemoryTmaStoreFailed")
RINGS = '''cuda_tile.module @m {{
  entry @k(%pa: tile<ptr<f16>>, %po: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<default = {{occupancy = {occupancy}}}> {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %start = constant <f32: 0.0> : tile<64x64xf32>
    %a = assume div_by<16>, %pa : tile<ptr<f16>>
    %ta = make_tensor_view %a, shape = [64, 4096], strides = [4096, 1] : tensor_view<64x4096xf16, strides=[4096,1]>
    %to = make_tensor_view %po, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %va = make_partition_view %ta : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>
    %vo = make_partition_view %to : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<64x64xf32>) {{
      %x, %tx = load_view_tko weak %va[%zero, %i] token = %t optimization_hints = <default = {{{hints}}}> : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
      %d = mmaf %x, %x, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %d : tile<64x64xf32>
    }}
    %e = store_view_tko weak %sum, %vo[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }}
}}
'''      # noqa: E501
NO_ENGINE = {0: "-O0 leaves the copy engine alone", 3: "sm_80 has no copy engine"}


@pytest.mark.parametrize("hint, gpu_name, opt_level, obeyed, reason", [
    ("true", "sm_90", 3, True, "the copy engine moves the tile"),
    ("false", "sm_90", 3, True, "threads move the tile, which the copy engine could"),
    ("true", "sm_90", 0, False, NO_ENGINE[0]),
    ("true", "sm_80", 3, False, NO_ENGINE[3]),
    ("false", "sm_80", 3, False, NO_ENGINE[3]),
])
def test_allow_tma_is_obeyed_where_there_is_a_copy_engine(hint: str, gpu_name: str, opt_level: int, obeyed: bool,
                                                          reason: str) -> None:
    remarks = remarks_on(to_bytecode(RINGS.format(occupancy=1, hints=f"allow_tma = {hint}")), gpu_name, opt_level)
    [told] = [r for r in remarks if r.text.startswith("Hint allow_tma")]
    assert (told.kind, told.name) == (("passed", "RemarkHintApplied") if obeyed else ("missed", "RemarkHintIgnored"))
    assert (told.text, told.reasons) == (f"Hint allow_tma = {hint} {'is obeyed' if obeyed else 'has no effect'}", (reason,))
    engine = any(dict(r.notes)["Instruction"] == "TMA Load instruction" for r in named(remarks, ACCESSES[0]))
    assert engine == (obeyed and hint == "true")


@pytest.mark.parametrize("gpu_name, opt_level, stages", [("sm_90", 3, 6), ("sm_80", 3, 4), ("sm_75", 3, None), ("sm_90", 0, None)])
def test_one_remark_says_what_latency_did(gpu_name: str, opt_level: int, stages: int | None) -> None:
    remarks = remarks_on(to_bytecode(RINGS.format(occupancy=1, hints="latency = 2")), gpu_name, opt_level)
    [told] = [r for r in remarks if r.text.startswith("Hint latency = 2")]
    assert (told.name, dict(told.notes)) == (("RemarkHintApplied", {"Stages": stages}) if stages else ("RemarkHintIgnored", {}))
    assert not stages or told.reasons == ("with fewer stages the loop would wait for its loads",)


def test_without_an_agent_that_loads_latency_has_no_effect() -> None:
    options = CompileOptions(find_target("sm_90"), remarks=[], without=frozenset({"agents"}))
    run(read(to_bytecode(RINGS.format(occupancy=1, hints="latency = 2"))), options)
    [told] = [r for r in options.remarks or [] if r.text.startswith("Hint latency")]
    assert (told.name, told.reasons) == ("RemarkHintIgnored", ("agents are switched off",))


def test_latency_acts_on_tiles_that_go_through_registers() -> None:
    """Bytes that are widened between memory and the ring: the load agent does it, seven stages as asked."""
    text = RINGS.format(occupancy=1, hints="latency = 6").replace("64x4096xf16", "64x4096xi8").replace("ptr<f16>", "ptr<i8>")
    text = text.replace("tile<64x64xf16>, token", "tile<64x64xi8>, token").replace("mmaf %x, %x", "mmaf %h, %h").replace(
        "      %d =", "      %h = itof %x signed rounding<nearest_even> : tile<64x64xi8> -> tile<64x64xf16>\n      %d =")
    remarks = remarks_on(to_bytecode(text))
    assert named(remarks, "RemarkAgentsChosen")
    [told] = [r for r in remarks if r.text.startswith("Hint latency")]
    assert (told.name, dict(told.notes)) == ("RemarkHintApplied", {"Stages": 7})


def test_occupancy_counts_the_loading_warp() -> None:
    """Two blocks of four warps and a loader have three warps on one part of the SM, which share 16 Ki registers: 168 a thread."""
    remarks = remarks_on(to_bytecode(RINGS.format(occupancy=2, hints="")))
    [told] = [r for r in remarks if r.text.startswith("Hint occupancy")]
    assert (told.name, dict(told.notes)) == ("RemarkHintApplied", {"Registers": 168})
    [agents] = named(remarks, "RemarkAgentsChosen")
    assert dict(agents.notes) == {"Agents": 2, "Warps": "4 + 1"}


def test_agents_that_share_out_registers_leave_room_for_the_blocks_asked_for() -> None:
    pytest.importorskip("cuda.tile")
    launch = load_all()["attention_of_two_blocks_2"].launch()
    made = export(launch.kernel, launch.args, "sm_120")
    [told] = [r for r in remarks_on(made.bytecode, "sm_120") if r.text.startswith("Hint occupancy")]
    assert (told.name, dict(told.notes)) == ("RemarkHintApplied", {"Registers": 128})


def test_an_sm_of_one_block_needs_no_limit() -> None:
    [told] = [r for r in remarks_on(to_bytecode(RINGS.format(occupancy=1, hints=""))) if r.text.startswith("Hint occupancy")]
    assert (told.name, told.text) == ("RemarkHintIgnored", "Hint occupancy = 1 doesn't limit registers")


def test_layout_changes_through_shared_memory(kernel_bytecode: Callable[..., bytes]) -> None:
    remarks = remarks_on(kernel_bytecode("shape_transpose"), "sm_80")
    change, *_ = named(remarks, "RemarkMemoryLayoutConversion")
    assert change.kind == "analysis" and change.text.endswith("goes through shared memory to other threads")


@pytest.mark.parametrize("gpu_name, opt_level", [("sm_75", 0), ("sm_90", 3), ("sm_120", 1)])
def test_every_remark_has_its_place(gpu_name: str, opt_level: int, kernel_bytecode: Callable[..., bytes]) -> None:
    for name in ("matmul_float16_float16", "reduce_softmax_ragged", "mish_f32"):
        remarks = remarks_on(kernel_bytecode(name), gpu_name, opt_level)
        assert remarks and all(r.place is not None and r.place[0].endswith(".py") and r.place[1] for r in remarks)


def test_what_the_copy_engine_moves(kernel_bytecode: Callable[..., bytes]) -> None:
    remarks = remarks_on(kernel_bytecode("matmul_float16_float16"))
    assert [dict(r.notes) for name in ACCESSES for r in named(remarks, name)] == [
        {"Instruction": "TMA Load instruction", "Shape": "[128, 64]"},
        {"Instruction": "TMA Load instruction", "Shape": "[64, 128]"},
        {"Instruction": "TMA Store instruction", "Shape": "[128, 128]"}]
    assert not any(named(remarks, name) for name in REFUSED)
    for gpu_name, opt_level in (("sm_80", 3), ("sm_90", 0)):
        others = remarks_on(kernel_bytecode("matmul_float16_float16"), gpu_name, opt_level)
        assert {dict(r.notes)["Instruction"] for name in ACCESSES for r in named(others, name)} == {
            "Global-memory load instruction", "Global-memory store instruction"}


def test_why_the_copy_engine_does_not(kernel_bytecode: Callable[..., bytes]) -> None:
    """Nothing is promised of the strides of its arrays, in parameters 3, 8 and 16."""
    remarks = remarks_on(kernel_bytecode("gemm_bias_gelu_f16_ragged"))
    said = [(r.kind, r.reasons) for name in REFUSED for r in named(remarks, name)]
    assert said == [("failed", (f"stride %arg{n} of dimension 0 isn't known to be a multiple of 8 elements (16 bytes); "
                                "add an assume_div_by<8>",)) for n in (3, 8, 16)]
