"""Whatever bytes come in, the reader gives a module or a BytecodeError, soon and in bounded memory."""
from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import pytest

from tests.fuzz.bytecode import HOSTILE, RETURN, assemble, function, mutations
from tileiras.bytecode import check_arguments, read, write
from tileiras.errors import BytecodeError

KERNELS = ("vector_add_float32", "softmax_1x1024_f32_ragged", "control_while", "matmul_float16_float32",
           "scan_cumsum_float32_reverse", "misc_print", "atomic_2d_broadcast", "reduce_minmax_float64",
           "control_for_int64", "misc_pack_int8")
MUTATIONS_PER_KERNEL = 100
SECONDS = 2.0
READ_BYTES = 64 << 20


def read_or_refuse(data: bytes) -> bool:
    """Whether the file was read; a module that was read can also be written, or the writer says why not."""
    try:
        module = read(data)
    except BytecodeError as error:
        assert error.exit_code == 3
        assert str(error)
        return False
    try:
        write(module)
    except BytecodeError:
        pass
    return True


@pytest.mark.parametrize("name", KERNELS)
def test_mutated_files_are_read_or_refused(name: str, kernel_bytecode: Callable[..., bytes]) -> None:
    refused = 0
    for changed in mutations(kernel_bytecode(name), seed=KERNELS.index(name), count=MUTATIONS_PER_KERNEL):
        start = time.process_time()
        refused += not read_or_refuse(changed)
        assert time.process_time() - start < SECONDS
    assert refused > MUTATIONS_PER_KERNEL // 4


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_cost_no_more_than_others(name: str) -> None:
    data = HOSTILE[name]()
    tracemalloc.start()
    start = time.process_time()
    try:
        read_or_refuse(data)
        assert tracemalloc.get_traced_memory()[1] < READ_BYTES
    finally:
        tracemalloc.stop()
    assert time.process_time() - start < SECONDS


HARMLESS = {"many functions, one long debug run"}


@pytest.mark.parametrize("name", sorted(set(HOSTILE) - HARMLESS))
def test_hostile_files_are_refused(name: str) -> None:
    with pytest.raises(BytecodeError):
        read(HOSTILE[name]())


def test_the_assembled_file_is_good_without_the_damage() -> None:
    module = read(assemble(function(RETURN)))
    assert [entry.sym_name.data for entry in module.entries] == ["k"]


@pytest.mark.parametrize(("damage", "message"), [
    (lambda data: b"x" + data[1:], "input does not correspond to Tile IR bytecode"),
    (lambda data: data[:7], "input does not correspond to Tile IR bytecode"),
    (lambda data: b"ML\xefR" + data[4:],
     "input does not correspond to Tile IR bytecode (it looks like MLIR bytecode instead)"),
    (lambda data: data[:8] + b"\x0d\x63" + data[10:], "Tile version 13.99.0, this reader supports versions [13.1 - 13.4]"),
    (lambda data: data[:8] + b"\x0d\x01\x05\x00" + data[12:], "unsupported Tile version 13.1.5, this reader supports"),
    (lambda data: data + b"\x00", "end section is not the last section"),
    (lambda data: data[:40], "exceeds remaining"),
])
def test_diagnostics(damage: Callable[[bytes], bytes], message: str) -> None:
    with pytest.raises(BytecodeError) as caught:
        read(damage(assemble(function(RETURN))))
    assert message in str(caught.value)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(("body", "message"), [
    (b"\x5c\x00\x01\x07", "operand index 7 out of bounds (size=0) for operand 0"),
    (b"\x6e", "unsupported opcode 110 for bytecode version 13.1"),
    (RETURN + RETURN, "'cuda_tile.return' op must be the last operation in its block"),
    (b"\x44\x01", "block is expected to have a terminator operation, but the last operation 'cuda_tile.make_token'"),
    (b"", "block is expected to have a terminator operation, but it is empty"),
    (b"\x44", "unexpected end of data in a function's body"),
    (b"\x3d\x01\x01\x20", "unused bits set in optional parameter flags"),
    (b"\x44\x09", "type index 9 out of bounds (size=2)"),
])
def test_diagnostics_of_bodies(body: bytes, message: str) -> None:
    with pytest.raises(BytecodeError, match=r"(?s).*") as caught:
        read(assemble(function(body), types=[b"\x10\x00\x00", b"\x11"]))
    assert message in str(caught.value)


def test_a_string_that_is_no_utf_8_is_shown_with_escapes() -> None:
    module = read(assemble(function(RETURN), strings=[b"k\xff"]))
    assert [entry.sym_name.data for entry in module.entries] == ["k\\xff"]


def test_a_function_that_is_no_kernel_is_refused() -> None:
    with pytest.raises(BytecodeError, match="un-expected non-entry function 'k'"):
        read(assemble(b"\x01\x00\x00\x00\x00\x03" + RETURN))


@pytest.mark.parametrize(("argument", "shown"), [
    (b"\x11", "!cuda_tile.token"),
    (b"\x0e\x02" + b"\x01" + (-2**63).to_bytes(8, "little", signed=True) + b"\x01" + (1).to_bytes(8, "little"),
     "!cuda_tile.tensor_view<?xf32, strides=[1]>"),
])
def test_a_kernel_takes_tiles_only(argument: bytes, shown: str) -> None:
    with pytest.raises(BytecodeError) as caught:
        check_arguments(read(assemble(function(RETURN), types=[b"\x10\x01\x01\x00", argument, b"\x07"])))
    assert str(caught.value) == (f"unsupported type in bytecode for entry argument #0: '{shown}'; "
                                 "expected a rank-0 !cuda_tile.tile type")
