"""Ops that structure a program: module, entry, global; loops, branches and their terminators; assert and print."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block
from xdsl.traits import IsolatedFromAbove, NoTerminator, SymbolTable

from tileiras.dialects.cuda_tile.op import CudaTileOp


class Module(CudaTileOp):
    """One region with one block of globals and entries.

    `bytecode_info` is what the reader knows besides the program: the version and the tables in the file's order
    (None for a module that doesn't come from bytecode).
    """

    name = "cuda_tile.module"
    ATTRS = "sym_name producer?"
    REGIONS = "body"
    EXTRA_TRAITS = (SymbolTable(), IsolatedFromAbove(), NoTerminator())

    bytecode_info: Any = None

    @property
    def bytecode_version(self) -> str | None:
        """The version of the bytecode that the module was read from, as `13.1`."""
        return None if self.bytecode_info is None else str(self.bytecode_info.version)

    @property
    def producer_name(self) -> str | None:
        """The identifier that the frontend left (13.3), or None."""
        producer = self.properties.get("producer")
        return producer.data if isinstance(producer, StringAttr) else None

    @property
    def entries(self) -> Iterator[Entry]:
        return (op for op in self.body.block.ops if isinstance(op, Entry))

    @property
    def globals(self) -> Iterator[Global]:
        return (op for op in self.body.block.ops if isinstance(op, Global))


class Entry(CudaTileOp):
    """A kernel. `function_type` is a builtin FunctionType (not wrapped); the body's block takes its inputs."""

    name = "cuda_tile.entry"
    ATTRS = "sym_name function_type arg_attrs? res_attrs? optimization_hints?"
    REGIONS = "body"
    EXTRA_TRAITS = (IsolatedFromAbove(),)

    @property
    def entry_block(self) -> Block:
        return self.body.block


class Global(CudaTileOp):
    """`value` is a DenseElementsAttr, `alignment` an i64 IntegerAttr; constant and symbol_visibility are since 13.3."""

    name = "cuda_tile.global"
    ATTRS = "sym_name value alignment constant? symbol_visibility?"


class Assert(CudaTileOp):
    name = "cuda_tile.assert"
    OPERANDS = "condition"
    ATTRS = "message"


class Break(CudaTileOp):
    name = "cuda_tile.break"
    OPERANDS = "operands*"
    TERMINATOR = True


class Continue(CudaTileOp):
    name = "cuda_tile.continue"
    OPERANDS = "operands*"
    TERMINATOR = True


class For(CudaTileOp):
    """The body's block takes the induction variable, then the loop-carried values. `unsignedCmp` is since 13.2."""

    name = "cuda_tile.for"
    OPERANDS = "lowerBound upperBound step initValues*"
    RESULTS = "resultValues*"
    ATTRS = "unsignedCmp?"
    REGIONS = "region"


class If(CudaTileOp):
    """Two regions; the else region has no block where the source has no else."""

    name = "cuda_tile.if"
    OPERANDS = "condition"
    RESULTS = "results*"
    REGIONS = "thenRegion elseRegion"


class Loop(CudaTileOp):
    name = "cuda_tile.loop"
    OPERANDS = "initValues*"
    RESULTS = "resultValues*"
    REGIONS = "region"


class PrintTko(CudaTileOp):
    """Without token and result in 13.1."""

    name = "cuda_tile.print_tko"
    OPERANDS = "args* token?"
    RESULTS = "result_token?"
    ATTRS = "str"


class Return(CudaTileOp):
    name = "cuda_tile.return"
    OPERANDS = "operands*"
    TERMINATOR = True


class Yield(CudaTileOp):
    name = "cuda_tile.yield"
    OPERANDS = "operands*"
    TERMINATOR = True
    PURE = True


OPS: tuple[type[CudaTileOp], ...] = (
    Module, Entry, Global, Assert, Break, Continue, For, If, Loop, PrintTko, Return, Yield,
)
