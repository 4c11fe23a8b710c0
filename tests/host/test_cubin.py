"""Cubins carry their host object: for every kernel, on every SM, in every way to compile; and maps reach it from the IR."""
from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    Float16Type,
    Float64Type,
    IntegerType,
    ModuleOp,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Region

import tileiras
from tests.driver.test_main import empty_module
from tests.host.hostcode import HostCode, read_elf
from tests.host.test_object import EM_AARCH64, EM_X86_64
from tileiras.codegen import client, ptxas
from tileiras.codegen.compile import compile_llvm, compile_llvm_to_ptx
from tileiras.codegen.host_maps import expected, kernels_of
from tileiras.codegen.llvm_text import print_module
from tileiras.conversion.tileas_to_llvm.builder import I32, Builder
from tileiras.dialects import llvm
from tileiras.driver.main import main
from tileiras.errors import CompileError
from tileiras.layout.tensormap import tiled
from tileiras.machine.targets import TARGETS, Target
from tileiras.sim.timing.cubin import Cubin

CASE = "reduce_softmax_ragged"
SECTION = ".nv.host"
RECIPE = "f32 p0 [u32(p1), 16] [mul(u32(p1), 4)] box [32, 16]"


def host_of(cubin: bytes) -> bytes:
    return Cubin(cubin).contents(SECTION)


@pytest.fixture(scope="module")
def softmax(kernel_bytecode: Callable[..., bytes]) -> bytes:
    return kernel_bytecode(CASE)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_every_cubin_has_a_row_a_kernel(softmax: bytes, target: Target) -> None:
    code = HostCode(host_of(tileiras.compile(softmax, target.name).cubin))
    assert [name for name, _ in code.rows()] == [CASE]


@pytest.mark.parametrize("options", [{"opt_level": 0}, {"lineinfo": True}, {"opt_level": 0, "device_debug": True},
                                     {"sanitize": "memcheck"}], ids=str)
def test_so_has_every_way_to_compile(softmax: bytes, options: dict) -> None:
    assert host_of(tileiras.compile(softmax, "sm_90", **options).cubin) == host_of(tileiras.compile(softmax, "sm_90").cubin)


def test_a_kernel_that_is_assembled_again_keeps_it(kernel_bytecode: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """For more warps an SM: with fewer registers a thread."""
    runs: list[bytes] = []
    assemble = ptxas.assemble
    monkeypatch.setattr(ptxas, "assemble", lambda *given, host=b"": runs.append(host) or assemble(*given, host=host))
    module = tileiras.compile(kernel_bytecode("jacobi_5_point_f32"), "sm_90")
    assert len(runs) > 1 and set(runs) == {host_of(module.cubin)} and runs[0]


def test_a_module_without_kernels_has_none() -> None:
    assert Cubin(tileiras.compile(empty_module(1), "sm_120").cubin).section(SECTION) is None


@pytest.mark.parametrize("arch,machine", [("x86_64", EM_X86_64), ("aarch64", EM_AARCH64)])
def test_the_command_makes_it_for_the_host_that_it_is_told(softmax: bytes, arch: str, machine: int, tmp_path) -> None:
    (tmp_path / "k.bc").write_bytes(softmax)
    made = {}
    for system in ("linux", "windows"):
        out = tmp_path / f"{system}.cubin"
        host = f"--host-arch={arch}", f"--host-os={system}"
        assert main([str(tmp_path / "k.bc"), "--gpu-name", "sm_90", *host, "-o", str(out)]) == 0
        made[system] = host_of(out.read_bytes())
        assert read_elf(made[system]).machine == machine
    assert (made["linux"] != made["windows"]) is (arch == "x86_64")


# ---- maps

def kernel_with_maps(*recipes: str, before: Sequence[Attribute] = ()) -> ModuleOp:
    """A kernel `k(global pointer, i32, `before`, maps)` that copies the first 64 bytes of each map to its pointer."""
    entry = Block(arg_types=[llvm.ptr(llvm.GLOBAL), I32, *before, *[llvm.ptr(llvm.GENERIC)] * len(recipes)])
    func = llvm.Func.make((), (), {
        "sym_name": StringAttr("k"), "kernel": UnitAttr(), "launch": DictionaryAttr({"nvvm.reqntid": StringAttr("32")}),
        "maps": ArrayAttr([StringAttr(text) for text in recipes])}, [Region(entry)])
    b = Builder(entry)
    words = llvm.vec(4, I32)
    for i, address in enumerate(entry.args[2 + len(before):]):
        for k in range(4):
            b.store(b.load(words, b.gep(address, 16 * k), 16), b.gep(entry.args[0], 64 * i + 16 * k), 16)
    b.ret()
    return ModuleOp([func])


def test_recipes_reach_the_entry_and_the_object() -> None:
    source = print_module(kernel_with_maps(RECIPE, "u8 p0 [4096] [] box [256]"))
    result = compile_llvm(source, "sm_90")
    entry = result.entries[0]
    assert [p.bytes for p in entry.params] == [8, 4] and [p.bytes for p in entry.hidden] == [128, 128]
    assert [str(m) for m in entry.maps] == [RECIPE, "u8 p0 [4096] [] box [256]"]
    assert entry.param_offsets == (0, 8, 48, 176) and entry.param_bytes == 304     # 0x210 + 48 is a multiple of 64
    assert result.ptx.count(".hidden .param .align 64 .b8") == 2
    filled = HostCode(host_of(result.cubin)).fill("k", struct.pack("<QI", 0x7F1000000000, 64) + bytes(292))
    assert filled[48:112] == tiled(0x7F1000000000, "f32", (64, 16), (32, 16), promotion=128).encode()[:64]
    assert filled[176:240] == tiled(0x7F1000000000, "u8", (4096,), (256,), promotion=128).encode()[:64]


@pytest.mark.parametrize("target", [t for t in TARGETS if t.has_tma], ids=str)
def test_the_object_is_known_before_the_ptx(target: Target) -> None:
    """Where parameters of all sizes lie, and so the host's code, is told from LLVM IR rightly."""
    made = kernel_with_maps(RECIPE, "u8 add(p0, p6) [u16(p2)] [] box [256]", before=[
        IntegerType(16), Float16Type(), IntegerType(8), I32, IntegerType(64), IntegerType(1), Float64Type(), IntegerType(8)])
    source = print_module(made)
    assert expected(source, target) == kernels_of(compile_llvm(source, target).entries)


def test_a_compile_asks_for_its_host_code_before_its_passes(softmax: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """And gets what it asked for."""
    asked, got = [], []
    prepare, get = client.prepare_host_object, client.host_object
    monkeypatch.setattr(client, "_objects", {})
    monkeypatch.setattr(client, "prepare_host_object", lambda *key: asked.append(key) or prepare(*key))
    monkeypatch.setattr(client, "host_object", lambda *key: got.append(key) or get(*key))
    tileiras.compile(softmax, "sm_90")
    assert asked[0] in got and set(got) == set(asked)


def test_a_recipe_without_a_parameter_is_refused() -> None:
    text = print_module(kernel_with_maps(RECIPE)).replace('"tileiras.map.0"', f'"tileiras.map.0"="{RECIPE}" "tileiras.map.1"')
    with pytest.raises(CompileError, match="kernel 'k' has no parameter for a tensor map 'f32 p0"):
        compile_llvm_to_ptx(text, "sm_90")
    with pytest.raises(CompileError, match="kernel 'k' has a parameter for a tensor map that nothing is said of"):
        compile_llvm_to_ptx(print_module(kernel_with_maps(RECIPE, RECIPE)).replace('"tileiras.map.1"', '"other"'), "sm_90")


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("gpu", ["sm_90", "sm_100", "sm_120"])
def test_a_simulated_launch_takes_ordinary_arguments_only(gpu: str, level: int) -> None:
    """Maps are built from them, as the driver's callback does it."""
    from tileiras.sim import simulate

    text = print_module(kernel_with_maps(RECIPE))
    compiled = compile_llvm(text, gpu, level)
    array = np.zeros(16 * 64, np.float32)
    simulate(compiled.ptx, "k", 1, [array, np.int32(64)])
    w = array.view(np.uint32)[:16]
    # from part 3 of the encoding: f32 is type 7, rank 2; 256-byte rows; 64 x 16 elements; box 32 x 16
    assert list(w[2:]) == [1 << 1 | 1 << 4 | 7 << 7 | 2 << 17, 16, 0, 0, 0, 0, 63, 15, 0, 0, 0, 31 << 24, 15, 0]
    assert w[0] % 16 == 0 and (int(w[1]) << 32 | int(w[0])) > 0
