"""Programs that nest deeply: read, compiled and refused by the bytes of their file, never by a crash."""
from __future__ import annotations

import pathlib
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, Region

import tileiras
from tileiras import nesting
from tileiras.bytecode import container, read
from tileiras.bytecode.wire import append_varint
from tileiras.bytecode.writer import write
from tileiras.dialects import arith
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.errors import BytecodeError, CompileError
from tileiras.sim import simulate

ROOT = pathlib.Path(__file__).resolve().parents[2]
ONE_LEVEL = """
cuda_tile.module @m { entry @k(%n: tile<i32>, %p: tile<ptr<i32>>) {
  %one = constant <i32: 1> : tile<i32>
  %c = cmpi equal %n, %one, signed : tile<i32> -> tile<i1>
  if %c {
    %a = addi %n, %one : tile<i32>
    %t = store_ptr_tko weak %p, %one : tile<ptr<i32>>, tile<i32> -> token
  }
  return
} }
"""
# How a level stands in the file: the branch, its first region of one block with so many operations, and the addition;
# behind what is nested the end of the block, and an empty second region.
LEVEL_BEGINS = bytes.fromhex("32 00 03 02 01 00 03  03 02 00 00 02")
LEVEL_ENDS = bytes.fromhex("6d 00 00 00")


def nested(levels: int) -> bytes:
    """A kernel of so many branches, each in the one before, which stores in the innermost."""
    file = write(parse_module(ONE_LEVEL, locations=False))
    sections = container.read_sections(file)
    function = sections[container.FUNCTION][1]
    head, length, body = function[:4] + b"\0", function[5], function[6:]  # the fifth byte says where its locations are
    assert length == len(body) and body.count(LEVEL_BEGINS) == body.count(LEVEL_ENDS) == 1
    body = body.replace(LEVEL_BEGINS, LEVEL_BEGINS * levels).replace(LEVEL_ENDS, LEVEL_ENDS * levels)
    out = bytearray(file[:container.HEADER_BYTES])
    function = bytearray(head)
    append_varint(function, len(body))
    del sections[container.DEBUG]
    for number, (_, payload) in sections.items():
        if number == container.FUNCTION:
            payload = bytes(function) + body
        out.append(number | 0x80)
        append_varint(out, len(payload))
        append_varint(out, 8)
        out += bytes(-len(out) % 8) + payload
    return bytes(out) + b"\0"


def test_the_file_holds_what_it_says() -> None:
    module = read(nested(40))
    assert sum(op.name == "cuda_tile.if" for op in module.walk()) == 40
    assert str(parse_module(str(module))) == str(module)


@pytest.mark.parametrize("levels", [64, 65, 80, 300])
def test_a_program_of_many_levels_compiles(levels: int) -> None:
    module = tileiras.compile(nested(levels), "sm_90")
    assert module.cubin[:4] == b"\x7fELF" and module.llvm.count("br i1") == levels


def test_every_stage_of_a_deep_program_prints() -> None:
    module = tileiras.compile(nested(200), "sm_90", emit="llvm", verify_each=True)
    assert module.ir("cuda_tile").count("if %") == 200
    assert module.ir("nv_tileaa").count("scf.if") == module.ir("nv_tileas").count("scf.if") == 200


def test_tools_print_a_deep_program(tmp_path: pathlib.Path) -> None:
    from tileiras.tools import tileirdisasm
    from tileiras.tools.tileiras_translate import to_text

    (tmp_path / "deep.bc").write_bytes(nested(200))
    assert tileirdisasm.main([str(tmp_path / "deep.bc"), "-o", str(tmp_path / "text")]) == 0
    assert (tmp_path / "text").read_text().count("if %") == to_text(nested(200)).count("if %") == 200


@pytest.mark.parametrize("n, stored", [(1, 1), (2, 0)])
def test_a_deep_program_computes_what_a_flat_one_does(n: int, stored: int) -> None:
    """Two hundred times the same condition, n == 1: the store of 1 happens or not."""
    out = np.zeros(1, np.int32)
    simulate(tileiras.compile(nested(200), "sm_90", 0, emit="ptx").ptx, "k", (1, 1, 1), (np.int32(n), out))
    assert out[0] == stored


def test_putting_ops_into_blocks_does_not_ask_for_all_levels_above(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted: how often anything goes from an op to what it lies in. All levels for each op would be 150 times a level."""
    steps, up = 0, Operation.parent_node

    def counted(op: Operation) -> object:
        nonlocal steps
        steps += 1
        return up.fget(op)  # type: ignore[misc]

    monkeypatch.setattr(Operation, "parent_node", property(counted))
    tileiras.compile(nested(300), "sm_90", emit="llvm")
    assert steps <= 10 * 300


def test_an_op_cannot_be_put_into_itself() -> None:
    """Neither into a block of its own nor deeper, whether anything else is in it or not; into others it can."""
    condition = Block(arg_types=[i1]).args[0]
    outer, inner = (arith.If.create(operands=[condition], regions=[Region(Block()), Region()]) for _ in range(2))
    with pytest.raises(ValueError, match="contained in the operation"):
        outer.regions[0].block.add_op(outer)
    outer.regions[0].block.add_op(inner)
    with pytest.raises(ValueError, match="contained in the operation"):
        inner.regions[0].block.add_op(outer)
    assert outer.is_ancestor(outer) and outer.is_ancestor(inner.regions[0].block) and not inner.is_ancestor(outer.regions[0].block)


def test_the_limit_of_calls_is_as_before() -> None:
    before, size = sys.getrecursionlimit(), threading.stack_size()
    tileiras.compile(nested(100), "sm_90", emit="llvm")
    assert (sys.getrecursionlimit(), threading.stack_size()) == (before, size)


def test_several_threads_compile_deep_programs() -> None:
    data, texts = nested(100), []
    threads = [threading.Thread(target=lambda: texts.append(tileiras.compile(data, "sm_90", emit="llvm").llvm)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 3 and len(set(texts)) == 1


def test_malformed_files_of_many_levels_are_refused_at_their_place() -> None:
    data = nested(500)
    with pytest.raises(BytecodeError, match="exceeds remaining data size"):
        tileiras.compile(data[:len(data) // 2], "sm_90")
    damaged = bytearray(data)
    at = damaged.index(LEVEL_ENDS)
    damaged[at] = 0x7F
    with pytest.raises(BytecodeError, match="unsupported opcode 127 for bytecode version"):
        tileiras.compile(bytes(damaged), "sm_90")


def test_a_hostile_file_is_refused_cleanly(tmp_path: pathlib.Path) -> None:
    """In a process of its own, since what is tested is that nothing crashes."""
    (tmp_path / "deep.bc").write_bytes(nested(nesting.MOST_LEVELS + 1))
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "tileiras.driver.main", "deep.bc", "--gpu-name", "sm_90"], cwd=tmp_path,
                          capture_output=True, text=True, timeout=100, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 3 and f"regions nest deeper than {nesting.MOST_LEVELS}\n" in done.stderr
    assert time.monotonic() - start < 60


def test_too_many_calls_are_an_error_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nesting, "_CALLS_PER_LEVEL", 0)
    with pytest.raises(CompileError, match="nests too deeply"):
        tileiras.compile(nested(2000), "sm_90", emit="llvm")


def test_no_memory_for_the_stack_is_an_error_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(CompileError, match="no memory for the stack"):
        tileiras.compile(nested(100), "sm_90", emit="llvm")
