"""How a kernel is launched in the interpreter: its arguments, its globals, and the order in which its blocks run.

Blocks run one after another. Where a block meets others (atomics, loads that aren't weak) it may be set aside: after
many such places in a row, so that a block that spins on what another has yet to store lets that one get on; with a
random order, at any of them. A launch in which all blocks spin and nothing in memory changes is reported, not endured.
"""
from __future__ import annotations

import random
import sys
from collections.abc import Callable, Generator, Sequence
from operator import index
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.cuda_tile.control_ops import Entry, Global, Module
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.interp import (  # noqa: F401  (importing a file registers its ops)
    atomic_ops,
    collectives,
    control,
    conversion_ops,
    debug_ops,
    float_ops,
    integer_ops,
    matrix_ops,
    memory_ops,
    shape_ops,
)
from tileiras.interp.errors import InterpreterError
from tileiras.interp.formats import POINTER, format_of
from tileiras.interp.memory import Memory, encode
from tileiras.interp.program import Block, Program, location, run_code
from tileiras.interp.registry import integer

PATIENCE = 64                   # meetings in a row before a block is set aside
IDLE_ROUNDS = 64                # rounds of all blocks without a store before the launch counts as stuck
WORD_MASK = (1 << 64) - 1       # tables hold negative numbers in two's complement
MAX_ITERATIONS = 20_000_000     # loop iterations of a whole launch


class Launch:
    """What the blocks of a launch share."""

    def __init__(self, module: Operation, grid: tuple[int, int, int], output: Callable[[str], Any],
                 check_assumptions: bool, max_iterations: int) -> None:
        self.module = module
        self.grid = grid
        self.output = output
        self.check_assumptions = check_assumptions
        self.memory = Memory()
        self._left = max_iterations
        self._globals: dict[str, int] = {}

    def count_iteration(self, op: Operation) -> None:
        """Note one more iteration of a loop; raises InterpreterError when the launch has had its share."""
        self._left -= 1
        if self._left < 0:
            raise InterpreterError("too many loop iterations: does the loop end?").at(op.name, location(op))

    def address_of_global(self, name: str) -> int:
        if name not in self._globals:
            found = [g for g in _items(self.module, Global) if g.sym_name.data == name]     # type: ignore[attr-defined]
            if not found:
                raise InterpreterError(f"no global named {name}")
            value = shape_ops.dense_values(found[0].value)                                  # type: ignore[attr-defined]
            fmt = format_of(found[0].value.type.element_type)                               # type: ignore[attr-defined]
            data = encode(value, fmt).reshape(-1).view(np.uint8).copy()
            made = self.memory.allocate(len(data), f"global {name}", integer(found[0].alignment), data,   # type: ignore
                                        read_only=found[0].constant is not None)            # type: ignore[attr-defined]
            self._globals[name] = made.start
        return self._globals[name]


def run(bytecode_or_module: bytes | Operation, kernel: str | None, grid: Sequence[int], args: Sequence[Any], *,
        order: str | int = "forward", output: Callable[[str], Any] = sys.stdout.write, check_assumptions: bool = True,
        max_iterations: int = MAX_ITERATIONS) -> None:
    """Execute a kernel over a grid of one to three extents.

    args: the launch parameters in the entry's order. For a pointer a NumPy array (a pointer to its memory, which is
    written in place), an address, None for null, or a table of 64-bit words (`tileiras.sim.PointerTable`, which is what
    a list of arrays becomes); for a scalar a number or a NumPy scalar.
    kernel: the entry's name; None where the module has only one.
    order: "forward", "backward", or a seed: blocks in a random order, interleaved at random where they meet.
    output: what print writes to. check_assumptions: false assumptions are errors.
    Raises InterpreterError with the op and its source location; BytecodeError for unreadable bytecode.
    """
    if isinstance(bytecode_or_module, Operation):
        module = bytecode_or_module
    else:
        from tileiras.bytecode import read

        module = read(bytecode_or_module)
    extents = tuple(int(n) for n in grid)
    if not 1 <= len(extents) <= 3 or min(extents) < 1:
        raise InterpreterError(f"a grid has one to three positive extents, not {tuple(grid)}")
    entry = _entry(module, kernel)
    launch = Launch(module, (*extents, 1, 1)[:3], output, check_assumptions, max_iterations)    # type: ignore[arg-type]
    with np.errstate(all="ignore"):
        program = Program(entry)
        values = _bind(entry, args, launch.memory)
        _run_blocks(program, values, launch, order)


def _items(module: Operation, kind: type[Operation]) -> list[Operation]:
    return [op for op in module.regions[0].block.ops if isinstance(op, kind)] if module.regions[0].blocks else []


def _entry(module: Operation, name: str | None) -> Operation:
    if not isinstance(module, Module):
        raise InterpreterError(f"expected a cuda_tile module, got {module.name}")
    entries = {op.sym_name.data: op for op in _items(module, Entry)}        # type: ignore[attr-defined]
    if name is None and len(entries) == 1:
        return next(iter(entries.values()))
    if name is None or name not in entries:
        raise InterpreterError(f"no kernel named {name}; there are: {', '.join(entries) or 'none'}")
    return entries[name]


def _bind(entry: Operation, args: Sequence[Any], memory: Memory) -> list[Any]:
    """The arguments as values of the program."""
    parameters = entry.regions[0].block.args
    if len(args) != len(parameters):
        raise InterpreterError(f"the kernel takes {len(parameters)} parameters, not {len(args)}")
    placed = _place(args, [_is_pointer(p.type) for p in parameters], memory)
    values = []
    for i, (value, parameter) in enumerate(zip(args, parameters)):
        type_ = parameter.type
        if not isinstance(type_, TileType) or type_.shape:
            raise InterpreterError(f"parameter {i} has type {type_}, which no launch can give")
        fmt = format_of(type_.element_type)
        if fmt is POINTER:
            if i not in placed and value is not None and not hasattr(value, "__index__"):
                raise InterpreterError(f"parameter {i} is a pointer, not a {type(value).__name__}; pass an array, an address, "
                                       "a table of words, or None")
            values.append(np.array(placed[i] if i in placed else index(value or 0), np.uint64))
            continue
        if np.shape(value) != ():
            raise InterpreterError(f"parameter {i} is a scalar of {fmt.name}, not an array")
        given = np.asarray(value)
        if given.dtype.kind == "u" and given.dtype.itemsize == fmt.dtype.itemsize and fmt.dtype.kind == "i":
            given = given.view(fmt.dtype)
        values.append(given.astype(fmt.dtype))
    return values


def _place(args: Sequence[Any], pointers: list[bool], memory: Memory) -> dict[int, int]:
    """The addresses of the arrays and tables among the arguments, by parameter."""
    arrays = [(i, f"argument {i}", a) for i, a in enumerate(args) if isinstance(a, np.ndarray) and pointers[i]]
    tables = {i: list(a.words) for i, a in enumerate(args) if hasattr(a, "words") and pointers[i]}
    listed = [(f"argument {i}, word {w}", word) for i, words in tables.items() for w, word in enumerate(words)
              if isinstance(word, np.ndarray)]
    addresses = memory.place_arrays([a for *_, a in arrays] + [a for _, a in listed],
                                    [name for _, name, _ in arrays] + [name for name, _ in listed])
    placed = {i: address for (i, *_), address in zip(arrays, addresses)}
    of_listed = iter(addresses[len(arrays):])
    for i, words in tables.items():
        flat = [next(of_listed) if isinstance(word, np.ndarray) else int(word) for word in words]
        data = np.array([n & WORD_MASK for n in flat], np.uint64).view(np.uint8)
        placed[i] = memory.allocate(len(data), f"the table of argument {i}", data=data).start
    return placed


def _is_pointer(type_: Any) -> bool:
    return isinstance(type_, TileType) and format_of(type_.element_type) is POINTER


def _run_blocks(program: Program, values: list[Any], launch: Launch, order: str | int) -> None:
    gx, gy, gz = launch.grid
    waiting = [(x, y, z) for z in range(gz) for y in range(gy) for x in range(gx)]
    chance: random.Random | None = None
    if order == "backward":
        waiting.reverse()
    elif order != "forward":
        if isinstance(order, str):
            raise InterpreterError(f"order {order!r} is neither forward, backward nor a seed")
        chance = random.Random(order)
        chance.shuffle(waiting)
    template: list[Any] = [None] * program.slot_count
    for slot, value in zip(program.code.arguments, values):
        template[slot] = value
    started: list[tuple[Block, Generator[None, None, Any]]] = []
    idle, writes = 0, launch.memory.writes
    turn = 0
    waiting.reverse()
    while waiting or started:
        # Start the next block unless one set aside shall go on; those set aside take turns.
        if started and (not waiting or (chance is not None and chance.random() < 0.5) or turn % 2):
            at = chance.randrange(len(started)) if chance else turn // 2 % len(started)
            block, steps = started[at]
        else:
            block = Block(launch, waiting.pop(), list(template))
            steps = run_code(program.code, block)
            at = len(started)
            started.append((block, steps))
        turn += 1
        patience = chance.randrange(1, 8) if chance else PATIENCE
        ended = _advance(steps, patience)
        if ended:
            for made in block.allocations:
                launch.memory.release(made)
            del started[at]
        if ended or launch.memory.writes != writes:
            idle, writes = 0, launch.memory.writes
        elif not waiting:
            idle += 1
            if idle > IDLE_ROUNDS * len(started):
                raise InterpreterError(f"{len(started)} blocks wait for each other: {_where(started)}")


def _advance(steps: Generator[None, None, Any], patience: int) -> bool:
    """Run a block until it ends (True) or has met others `patience` times."""
    try:
        for _ in range(patience):
            next(steps)
    except StopIteration:
        return True
    return False


def _where(started: list[tuple[Block, Generator[None, None, Any]]]) -> str:
    return "blocks " + ", ".join(str(block.index) for block, _ in started[:4]) + (" ..." if len(started) > 4 else "")
