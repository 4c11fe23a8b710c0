"""What the frontend writes is read and written back: byte for byte, and to an equal module in every version that can
hold it. `campaign.py` does the same for the whole kernel suite."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.bytecode.campaign import check_file, equal_locations
from tileiras.bytecode import SUPPORTED_VERSIONS, read, write
from tileiras.dialects.cuda_tile import ops
from tileiras.errors import BytecodeError

VERSIONS = [str(version) for version in SUPPORTED_VERSIONS]
CASES = ("vector_add_float32", "softmax_1x1024_f32_ragged", "control_while", "matmul_float16_float32", "misc_print",
         "scan_cumsum_float32_reverse", "atomic_2d_broadcast", "gelu_exact_f32_ragged", "cast_from_int16",
         "layer_norm_streamed_bf16_ragged", "fft_128_butterflies_f32")


@pytest.mark.parametrize("version", ["13.1", "13.2", "13.3", "13.4"])
@pytest.mark.parametrize("case", CASES)
def test_a_file_is_written_back_byte_for_byte(case: str, version: str, kernel_bytecode: Callable[..., bytes]) -> None:
    outcome = check_file(kernel_bytecode(case, version))
    assert outcome.same_bytes
    assert outcome.equal_module


@pytest.mark.parametrize("version", ["13.1", "13.4"])
def test_a_negative_f64_identity_is_written_shorter(version: str, kernel_bytecode: Callable[..., bytes]) -> None:
    # The frontend writes the pattern of -inf as an unsigned number in 65 bits; zigzag holds it in 64.
    data = kernel_bytecode("reduce_minmax_float64", version)
    outcome = check_file(data)
    assert not outcome.same_bytes
    assert outcome.equal_module
    identities = [op.identities.data[0].value.data for op in read(data).walk() if isinstance(op, ops.Reduce)]
    assert float("-inf") in identities


@pytest.mark.parametrize("case", CASES)
def test_table_order_follows_first_use(case: str, kernel_bytecode: Callable[..., bytes]) -> None:
    data = kernel_bytecode(case, "13.1")
    again = write(read(data), keep_tables=False)
    assert len(again) <= len(data)  # a table loses what no op uses
    assert write(read(again), keep_tables=False) == again


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", [case for case in CASES if case != "misc_print"])
def test_a_program_reads_alike_from_every_version(case: str, version: str,
                                                  kernel_bytecode: Callable[..., bytes]) -> None:
    original = read(kernel_bytecode(case, "13.1"))
    other = read(write(original, version))
    assert other.bytecode_version == version
    for op in other.walk():
        flags = op.properties.pop("inbounds", None)
        assert flags is None or not any(flags.get_values())  # type: ignore[attr-defined]
    assert original.is_structurally_equivalent(other)
    assert equal_locations(original, other)


@pytest.mark.parametrize("case", CASES)
def test_what_the_frontend_writes_verifies(case: str, kernel_bytecode: Callable[..., bytes]) -> None:
    read(kernel_bytecode(case)).verify()


def test_print_has_a_token_since_13_2(kernel_bytecode: Callable[..., bytes]) -> None:
    old, new = read(kernel_bytecode("misc_print", "13.1")), read(kernel_bytecode("misc_print", "13.2"))
    old_prints, new_prints = ([op for op in module.walk() if isinstance(op, ops.PrintTko)] for module in (old, new))
    assert old_prints and len(old_prints) == len(new_prints)
    assert all(op.result_token is None and op.token is None for op in old_prints)
    assert all(op.result_token is not None for op in new_prints)
    with pytest.raises(BytecodeError, match=r"requires bytecode version 13\.2"):
        write(new, "13.1")


def test_reading_twice_gives_the_same_bytes(kernel_bytecode: Callable[..., bytes]) -> None:
    data = kernel_bytecode("matmul_float16_float32")
    assert write(read(data), "13.2") == write(read(data), "13.2")


@pytest.mark.parametrize("version", ["13.0", "13.99", "12", "x", "13.1.0.0"])
def test_an_unknown_version_is_refused(version: str, kernel_bytecode: Callable[..., bytes]) -> None:
    with pytest.raises(BytecodeError, match="unsupported Tile version"):
        write(read(kernel_bytecode("vector_add_float32")), version)
