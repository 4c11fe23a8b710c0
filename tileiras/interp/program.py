"""A kernel prepared for execution: every SSA value a slot of a frame, every op a step that reads and fills slots.

    %2 = addi %0, %1      ->  Step(run=<add>, arguments=(0, 1), results=(2,))

Regions become lists of steps run by the structured ops that own them (control.py, collectives.py). One block's
execution is a generator: it yields wherever other blocks may have to run for it to get on (atomics, loads that aren't
weak), so that launch.py can interleave blocks.
"""
from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation, Region, SSAValue

from tileiras.dialects.base import OPERAND_SEGMENTS
from tileiras.interp.errors import InterpreterError
from tileiras.interp.memory import Allocation
from tileiras.interp.registry import MEANINGS

if TYPE_CHECKING:
    from tileiras.interp.launch import Launch

Argument = int | tuple[int, ...] | None
Frame = list[Any]


@dataclass(frozen=True)
class Signal:
    """How a region ended: `kind` is yield, continue, break or return; `values` what it hands over."""

    kind: str
    values: tuple[Any, ...] = ()


Steps = Generator[None, None, Signal]


@dataclass
class Step:
    """One op. `arguments`: a slot, None or a tuple of slots for each operand group; `results`: slots."""

    op: Operation
    run: Callable[..., Any]
    arguments: tuple[Argument, ...]
    results: tuple[int, ...]
    plain: bool                 # every argument is one slot
    block: bool                 # `run` takes the running block first
    elementwise: bool
    meets_others: bool


@dataclass
class Terminator:
    """The end of a region: a signal with the values of some slots."""

    op: Operation
    kind: str
    operands: tuple[int, ...]


@dataclass
class Structured:
    """An op that owns regions and may have to stop in their midst: `run(block)` is a generator that ends with None, or
    with the signal that ends the region around the op too."""

    op: Operation
    run: Callable[[Block], Generator[None, None, Signal | None]]


@dataclass
class Code:
    """A region: its arguments' slots and its steps."""

    arguments: tuple[int, ...]
    steps: list[Step | Structured | Terminator]

    @property
    def elementwise(self) -> bool:
        """Whether the region can run on many elements at once."""
        return all(isinstance(s, Terminator) or (isinstance(s, Step) and s.elementwise) for s in self.steps)


@dataclass
class Block:
    """A tile block while it runs. `index`: its x, y, z in the grid; `allocations`: its allocas, released at its end."""

    launch: Launch
    index: tuple[int, int, int]
    frame: Frame
    allocations: list[Allocation] = field(default_factory=list)


class Program:
    """An entry op prepared: `code` and the number of slots. Raises InterpreterError for an op without a meaning."""

    def __init__(self, entry: Operation) -> None:
        self._slots: dict[SSAValue, int] = {}
        self.code = self.region(entry.regions[0])
        self.slot_count = len(self._slots)

    def slot(self, value: SSAValue) -> int:
        return self._slots.setdefault(value, len(self._slots))

    def region(self, region: Region) -> Code:
        """The code of a region of at most one block."""
        if not region.blocks:
            return Code((), [])
        block = region.block
        arguments = tuple(self.slot(a) for a in block.args)
        return Code(arguments, [self._step(op) for op in block.ops])

    def _step(self, op: Operation) -> Step | Structured | Terminator:
        kind = op.name.removeprefix("cuda_tile.")
        try:
            if kind in TERMINATORS:
                return Terminator(op, kind, tuple(self.slot(v) for v in op.operands))
            if kind in STRUCTURED:
                return Structured(op, STRUCTURED[kind](self, op))
            meaning = MEANINGS.get(op.name)
            if meaning is None:
                raise InterpreterError("this op has no meaning to the interpreter")
            arguments = tuple(self._argument(v) for v in operand_groups(op))
            return Step(op, meaning.prepare(op), arguments, tuple(self.slot(r) for r in op.results),
                        all(isinstance(a, int) for a in arguments), meaning.block, meaning.elementwise,
                        meaning.meets_others(op))
        except InterpreterError as error:
            raise error.at(op.name, location(op)) from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise InterpreterError(str(error)).at(op.name, location(op)) from error

    def _argument(self, value: Any) -> Argument:
        if value is None:
            return None
        return self.slot(value) if isinstance(value, SSAValue) else tuple(self.slot(v) for v in value)


def operand_groups(op: Any) -> list[SSAValue | tuple[SSAValue, ...] | None]:
    """An op's operands by declared group: a value, None or a tuple of values for each."""
    values, groups = list(op.operands), op.operand_fields
    variable = sum(1 for f in groups if f.many)
    if variable > 1:
        sizes = list(op.properties[OPERAND_SEGMENTS].get_values())
    else:
        sizes = [len(values) - len(groups) + 1 if f.many else 1 for f in groups]
    out: list[SSAValue | tuple[SSAValue, ...] | None] = []
    for f, size in zip(groups, sizes):
        part, values = values[:size], values[size:]
        out.append(tuple(part) if f.many == "*" else part[0] if part else None)
    return out


TERMINATORS = ("yield", "continue", "break", "return")
STRUCTURED: dict[str, Callable[[Program, Any], Callable[[Block], Generator[None, None, Signal | None]]]] = {}


def structured(name: str) -> Callable[[Any], Any]:
    """Register how a structured op is prepared: (program, op) -> the function of a block that runs it."""
    def register(prepare: Any) -> Any:
        STRUCTURED[name] = prepare
        return prepare
    return register


def location(op: Operation) -> str | None:
    return getattr(op, "source_location", None)


def _read(frame: Frame, argument: Argument) -> Any:
    if argument is None:
        return None
    return frame[argument] if isinstance(argument, int) else tuple(frame[i] for i in argument)


def execute(step: Step, block: Block) -> None:
    """Run one step on the block's frame."""
    frame = block.frame
    try:
        values: Any = ([frame[i] for i in step.arguments] if step.plain     # type: ignore[misc]
                       else [_read(frame, a) for a in step.arguments])
        result = step.run(block, *values) if step.block else step.run(*values)
    except InterpreterError as error:
        raise error.at(step.op.name, location(step.op)) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # The op's operands don't fit together, which the verifier would have refused.
        raise InterpreterError(str(error)).at(step.op.name, location(step.op)) from error
    if type(result) is tuple:
        for slot, value in zip(step.results, result):
            frame[slot] = value
    elif step.results:
        frame[step.results[0]] = np.asarray(result) if isinstance(result, np.generic) else result


def run_code(code: Code, block: Block) -> Steps:
    """Run a region; its arguments' slots are filled. Returns the signal that ended it."""
    frame = block.frame
    for step in code.steps:
        if isinstance(step, Step):
            if step.meets_others:
                yield
            execute(step, block)
        elif isinstance(step, Terminator):
            return Signal(step.kind, tuple(frame[i] for i in step.operands))
        else:
            signal = yield from step.run(block)
            if signal is not None:
                return signal
    return Signal("yield")


def fill(frame: Frame, slots: Sequence[int], values: Sequence[Any]) -> None:
    for slot, value in zip(slots, values):
        frame[slot] = value
