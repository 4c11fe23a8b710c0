"""How the conversion walks: once over every op in program order, without recursion.

A lowering emits ops into the current block and binds the old results to new values. One that has regions creates
its op first (all result types are known) and queues the regions; the walk then descends into them before it goes on,
so a use always finds its definition bound and nesting costs no Python stack.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.conversion.cudatile_to_tileaa.types import convert_type
from tileiras.dialects.base import TileOp
from tileiras.dialects.location_text import location_text
from tileiras.errors import CompileError

UNIT = UnitAttr()

Lowering = Callable[["CudaTileConverter", Any], None]

LOWERINGS: dict[str, Lowering] = {}
"""By op name ("cuda_tile.addf"); the family files of this folder fill it. A lowering emits the new ops and binds the old
op's results."""


def lowers(*mnemonics: str) -> Callable[[Lowering], Lowering]:
    """Register a function as the lowering of these cuda_tile ops."""
    def register(function: Lowering) -> Lowering:
        for mnemonic in mnemonics:
            LOWERINGS[f"cuda_tile.{mnemonic}"] = function
        return function
    return register


class CudaTileConverter:
    """The state of one conversion: the map of values, and where the next op goes."""

    def __init__(self, gpu_name: str) -> None:
        self.gpu_name = gpu_name
        self.values: dict[SSAValue, SSAValue] = {}
        self.block = Block()
        self.source: Operation | None = None
        self._queue: list[tuple[Iterator[Operation], Block, type[TileOp] | None]] = []

    # --- values ------------------------------------------------------------------------------------------------

    def get(self, value: SSAValue) -> SSAValue:
        """The new value of an old one."""
        return self.values[value]

    def get_all(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        table = self.values
        return [table[v] for v in values]

    def opt(self, value: SSAValue | None) -> SSAValue | None:
        return None if value is None else self.values[value]

    def bind(self, old: SSAValue, new: SSAValue) -> None:
        self.values[old] = new

    def bind_results(self, old: Operation, new: Operation) -> None:
        for a, b in zip(old.results, new.results):
            self.values[a] = b

    # --- emitting ----------------------------------------------------------------------------------------------

    def emit(self, cls: type[TileOp], operands: Sequence[SSAValue], types: Sequence[Attribute],
             attrs: Mapping[str, Attribute] | None = None, regions: Sequence[Region] = ()) -> Any:
        """Append an op whose operands are one flat list (at most one optional or variadic group)."""
        source = self.source
        op = cls.create(operands=operands, result_types=types, properties=attrs or {}, regions=regions,
                        location=None if source is None else source.location)
        self.block.add_op(op)
        return op

    def emit_groups(self, cls: type[TileOp], operands: Sequence[Any], types: Sequence[Any],
                    attrs: Mapping[str, Attribute | None] | None = None) -> Any:
        """Append an op given one entry per declared operand group (see `TileOp.make`)."""
        op = cls.make(operands, types, attrs)
        if self.source is not None:
            op.location = self.source.location
        self.block.add_op(op)
        return op

    def replace(self, old: Operation, cls: type[TileOp], operands: Sequence[SSAValue],
                attrs: Mapping[str, Attribute] | None = None) -> None:
        """Emit the op that stands for `old`: operands mapped by the caller, result types converted."""
        new = self.emit(cls, operands, [convert_type(r.type) for r in old.results], attrs)
        for a, b in zip(old.results, new.results):
            self.values[a] = b

    # --- regions -----------------------------------------------------------------------------------------------

    def block_like(self, old: Block) -> Block:
        """A block whose arguments are those of `old` with converted types; binds them."""
        new = Block(arg_types=[convert_type(a.type) for a in old.args])
        for a, b in zip(old.args, new.args):
            self.values[a] = b
        return new

    def enter(self, old: Block, new: Block, implicit_terminator: type[TileOp] | None = None) -> None:
        """Queue a block's ops; of several queued by one lowering, the last is walked first."""
        self._queue.append((iter(old.ops), new, implicit_terminator))

    def run(self) -> None:
        """Walk everything queued. Raises CompileError with the op's location."""
        try:
            self._walk()
        except CompileError as error:
            error.loc = error.loc or location_text(self.source)
            raise

    def _walk(self) -> None:
        queue = self._queue
        while queue:
            ops, block, terminator = queue[-1]
            self.block = block
            depth = len(queue)
            for op in ops:
                self.source = op
                lowering = LOWERINGS.get(op.name)
                if lowering is None:
                    raise self.error(f"op '{op.name}' has no meaning inside a kernel")
                lowering(self, op)
                if len(queue) != depth:
                    break
            else:
                queue.pop()
                last = block.last_op
                if terminator is not None and not (isinstance(last, TileOp) and last.TERMINATOR):
                    self.emit(terminator, (), ())

    def error(self, message: str) -> CompileError:
        """An error at the op being lowered."""
        return CompileError(message, location_text(self.source))
