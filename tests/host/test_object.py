"""The host object keeps the driver's contract: its tables, what its functions return and write, and what it is linked with."""
from __future__ import annotations

import ctypes
import random
import struct

import pytest

from tests.host.hostcode import ATTRIBUTE, HostCode, made, read_elf, words
from tileiras.codegen import client
from tileiras.errors import CompileError
from tileiras.host.callbacks import HostKernel
from tileiras.host.object import DEFAULT_PLATFORM, PLATFORMS, host_module
from tileiras.host.recipe import OPERATIONS, Apply, Choose, Const, Extend, HostMap, Param, evaluate, read_map

EM_X86_64, EM_AARCH64 = 62, 183
X86_KINDS = {1, 24, 25, 27, 29}                     # R_X86_64_64, PC64, GOTOFF64, GOT64, GOTPC64
ARM_KINDS = {257, 261, 275, 277, 311, 312}          # R_AARCH64_ABS64, PREL32, ADR_PREL_PG_HI21, ADD_ABS_LO12_NC, GOT page and low
MAP = read_map("f16 p0 [u32(p2), u32(p1)] [mul(u32(p3), 2)] box [64, 128] swizzle 128")
OFFSETS = (0, 8, 12, 16, 48)
JUNK = 0xCD


def test_a_module_without_maps_has_tables_and_rows() -> None:
    code = HostCode(made(HostKernel("first"), HostKernel("the_second"), HostKernel("x" * 300)))
    table = code.table()
    assert [table[i] for i in (0, 1, 2, 3, 4, 6, 7)] == [2, 0, 0, 0, 64, 3, 2] and table[5] and table[8]
    assert [name for name, _ in code.rows()] == ["first", "the_second", "x" * 300]
    for name, row in code.rows():
        assert [row[i] for i in (1, 2, 3, 4, 6, 7)] == [0] * 6
        assert code.fill(name, bytes(range(100))) == bytes(range(100))


def test_the_vector_is_handed_out_before_loading() -> None:
    code = HostCode(made(HostKernel("k")))
    asked: list[tuple[int, int]] = []

    @ATTRIBUTE
    def attribute(device: int, number: int, out) -> int:
        asked.append((device, number))
        out[0] = 132
        return 0
    assert code.load(0) == (1, [])
    for version in (2, 3, 1, -1):
        code_, vector = code.load(version, attribute)
        assert code_ == 0 and vector == code.table()
    assert asked == [(0, 16)] * 2                   # by versions 1 and -1: how many SMs there are


def parameters(offsets: tuple[int, ...], values: dict[int, tuple[int, int]], size: int) -> bytearray:
    """A buffer with (bytes, value) of some parameters, else junk."""
    data = bytearray([JUNK]) * size
    for index, (width, value) in values.items():
        data[offsets[index]:offsets[index] + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
    return data


def test_a_callback_writes_half_a_map_and_nothing_else() -> None:
    code = HostCode(made(HostKernel("plain"), HostKernel("k", OFFSETS, (MAP,))))
    before = parameters(OFFSETS, {0: (8, 0x7F1000000000), 1: (4, 256), 2: (4, 192), 3: (4, 192)}, 200)
    after = code.fill("k", bytes(before))
    assert struct.unpack("<16I", after[48:112]) == (0, 0x7F10, 0x46312, 0x18, 0, 0, 0, 0, 0xBF, 0xFF, 0, 0, 0, 0x3F000000, 0x7F, 0)
    assert after[:48] == before[:48] and after[112:] == before[112:]
    assert code.fill("plain", bytes(before)) == before


@pytest.mark.parametrize("element, code_in_map, row, stride", [
    ("b4x16", 11, 64, 2048), ("b4x16_p64", 12, 128, 2048), ("b6x16_p32", 13, 128, 3072)])
def test_narrow_elements_packed_and_padded(element: str, code_in_map: int, row: int, stride: int) -> None:
    """Rows of 4096 elements of 4 or 6 bits; sizes count elements, strides bytes of global memory, where nothing is padded. The
    codes are those that tensormap.replace writes."""
    made_of = f"{element} p0 [u32(p1), 1000] [{stride}] box [{row}, 64] swizzle 128"
    code = HostCode(made(HostKernel("k", (0, 8, 16), (read_map(made_of),))))
    filled = code.fill("k", struct.pack("<QI4x", 0x7F1000000000, 4096) + bytes(128))
    wanted = (0, 0x7F10, 0x246012 | code_in_map << 7, stride >> 4, 0, 0, 0, 0, 4095, 999, 0, 0, 0, row - 1 << 24, 63, 0)
    assert struct.unpack("<16I", filled[16:80]) == wanted
    assert read_map(made_of).encode((0x7F1000000000, 4096)) == struct.pack("<16I", *wanted) + bytes(64)
    assert str(read_map(made_of)) == made_of


def _value(rng: random.Random) -> int:
    return rng.choice((0, 1, 2, 63, 64, 65, 1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1,
                       rng.getrandbits(64), rng.getrandbits(8)))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_compiled_arithmetic_is_that_of_the_recipes(operation: str) -> None:
    """A size of the expression shows its low 32 bits, a second its high 32 bits."""
    rng = random.Random(operation)
    p, q = Param(0), Param(1)
    for expr in (Apply(operation, p, q), Apply(operation, p, Const(_value(rng))), Apply(operation, Const(_value(rng)), q)):
        code = HostCode(made(HostKernel("k", (0, 8, 16), (_showing(expr),))))
        for _ in range(40):
            assert_shown(code, expr, (_value(rng), _value(rng)))


def _showing(expr) -> HostMap:
    return HostMap(Const(0), "u8", (expr, Apply("lshr", expr, Const(32))), (Const(0),), (16, 1))


def assert_shown(code: HostCode, expr, values: tuple[int, int]) -> None:
    data = code.fill("k", struct.pack("<QQ", *values) + bytes(128))
    low, high = (n + 1 & 0xFFFFFFFF for n in struct.unpack_from("<II", data, 16 + 32))
    assert high << 32 | low == evaluate(expr, values), (str(expr), values)


@pytest.mark.parametrize("expr", [
    Extend(Param(0), 8, True), Extend(Param(0), 17), Extend(Param(1), 1, True), Param(0, 8, True), Param(1, 16), Param(1, 32, True),
    Choose(Apply("slt", Param(0), Param(1)), Param(0, 32), Param(1)), Choose(Param(0), Const(-1), Param(1))], ids=str)
def test_compiled_extensions_are_those_of_the_recipes(expr) -> None:
    rng = random.Random(str(expr))
    code = HostCode(made(HostKernel("k", (0, 8, 16), (_showing(expr),))))
    for _ in range(40):
        assert_shown(code, expr, (_value(rng), _value(rng)))


def test_memory_for_maps_built_on_the_device() -> None:
    """Of 8192 bytes an SM and map; 224 SMs are thought of until the driver says how many there are."""
    kernels = HostKernel("a", (0, 8), (), 2), HostKernel("b", (0, 8, 64), (MAP_OF_POINTER,), 1), HostKernel("c", (0,))
    code = HostCode(made(*kernels))
    assert code.table()[2] == 8192 * 224 * 3
    memory = 0x7E0000000000
    assert struct.unpack("<QQ", code.fill("a", bytes(16), memory)) == (0, memory)
    assert struct.unpack_from("<QQ", code.fill("b", bytes(192), memory)) == (0, memory + 2 * 8192 * 224)
    assert code.fill("c", bytes(8), memory) == bytes(8)

    @ATTRIBUTE
    def attribute(device: int, number: int, out) -> int:
        out[0] = 300
        return 0
    assert code.load(2, attribute)[1][2] == 0
    assert code.load(1, attribute)[1][2] == 8192 * 300 * 3
    assert struct.unpack_from("<QQ", code.fill("b", bytes(192), memory)) == (0, memory + 2 * 8192 * 300)


MAP_OF_POINTER = HostMap(Param(0), "u8", (Const(4096),), (), (256,))


@pytest.mark.parametrize("platform", PLATFORMS, ids="-".join)
def test_an_object_is_linked_with_nothing(platform: tuple[str, str]) -> None:
    elf = read_elf(made(HostKernel("k", OFFSETS, (MAP,)), HostKernel("plain"), platform=platform))
    x86 = platform[0] == "x86_64"
    assert elf.machine == (EM_X86_64 if x86 else EM_AARCH64)
    assert elf.undefined <= ({"_GLOBAL_OFFSET_TABLE_"} if x86 else set())
    assert elf.relocations <= (X86_KINDS if x86 else ARM_KINDS)
    assert elf.symbols == {
        ("__CUDA_TILEIR_CALLBACKS", 72, True), ("__CUDA_TILEIR_FUNC_CALLBACKS", 128, False),
        ("__CUDA_TILEIR_FUNC_NAME_0", 2, False),
        ("__CUDA_TILEIR_FUNC_NAME_1", 6, False), ("__CUDA_TILEIR_CALLBACKS_ON_PRE_LOAD", 72, False),
        ("__CUDA_TILEIR_ON_PRE_LOAD", 0, True), ("__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_0", 0, False),
        ("__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_1", 0, False)}
    expected = {".ltext", ".lrodata", ".lbss"} if x86 else {".text", ".rodata", ".bss"}
    assert expected | {".data.rel.ro", ".eh_frame"} <= set(elf.sections) and not {".init_array", ".data"} & set(elf.sections)


def test_windows_calls_by_its_own_registers() -> None:
    """The fourth argument, the parameters, comes in r9 there and in rcx elsewhere: `mov eax, [r9 + 12]` against `[rcx + 12]`."""
    linux, windows = (made(HostKernel("k", OFFSETS, (MAP,)), platform=("x86_64", name)) for name in ("linux", "windows"))
    assert b"\x41\x8b\x41\x0c" in windows and b"\x41\x8b\x41\x0c" not in linux
    assert b"\x8b\x41\x0c" in linux


def test_the_same_kernels_give_the_same_bytes() -> None:
    assert made(HostKernel("k", OFFSETS, (MAP,))) == made(HostKernel("k", OFFSETS, (MAP,)))


def test_an_object_asked_for_ahead_survives_other_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.codegen import programs
    from tileiras.machine.targets import find_target

    monkeypatch.setattr(client, "_objects", {})
    source = programs.vector_op(find_target("sm_90"))
    emit = {"cpu": "sm_90a", "features": "+ptx90", "opt_level": 3, "cc": 90}
    platform = PLATFORMS[DEFAULT_PLATFORM]
    one, two, three = (host_module([(name, ())], platform[0]) for name in ("one", "two", "three"))
    expected = {name: made(HostKernel(name)) for name in ("one", "two", "three")}
    client._objects.clear()
    client.emit_ptx(source, **emit)
    client.prepare_host_object(one, *platform)
    client.prepare_host_object(two, *platform)      # one at a time: this is made when it is wanted
    assert ".entry" in client.emit_ptx(source, **emit)[0]
    assert client.host_object(one, *platform) == expected["one"] and client.host_object(two, *platform) == expected["two"]
    client.prepare_host_object(three, *platform)
    client.stop()                                   # with a reply under way
    assert client.host_object(three, *platform) == expected["three"] != expected["one"]
    pid = client.worker_pid()
    client.stop()
    assert client.host_object(three, *platform) == expected["three"] and client.worker_pid() is None and pid is not None


def test_only_the_last_objects_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_objects", {})
    monkeypatch.setattr(client, "MAX_OBJECTS", 2)
    for name in "abc":
        made(HostKernel(name))
    assert [f"c\"\\{ord(name):X}\\00" in key[0] for key, name in zip(client._objects, "bc")] == [True, True]


def test_a_wrong_module_is_a_diagnostic() -> None:
    with pytest.raises(CompileError, match="of the host's code"):
        client.host_object("nonsense", *PLATFORMS[DEFAULT_PLATFORM])


def test_words_are_read_from_this_process() -> None:
    data = (ctypes.c_uint64 * 2)(3, 1 << 63)
    assert words(ctypes.addressof(data), 2) == [3, 1 << 63]
