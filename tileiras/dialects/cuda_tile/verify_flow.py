"""Rules on what encloses what: loops and branches, early exits, bodies of reductions, entries, symbols, debug scopes.

Source: public `CudaTile.cpp` (ForOp, IfOp, LoopOp, BreakOp, ContinueOp, ReturnOp, EntryOp, ModuleOp and the debug
information rules), MLIR's traits for single blocks and parents.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Block, Operation, Region

from tileiras.dialects.cuda_tile.asm_types import type_text
from tileiras.dialects.cuda_tile.debug import (
    MAX_SCOPE_DEPTH,
    CallSiteLocAttr,
    DILexicalBlockAttr,
    DILocAttr,
    DISubprogramAttr,
)
from tileiras.dialects.cuda_tile.op import CudaTileOp
from tileiras.dialects.cuda_tile.ops import (
    Break,
    Continue,
    DivI,
    Entry,
    For,
    GetGlobal,
    GetIndexSpaceShape,
    GetTensorShape,
    Global,
    If,
    Loop,
    MakeTensorView,
    Reduce,
    Return,
    Scan,
    Yield,
)
from tileiras.dialects.cuda_tile.types import TensorViewType, TileType, TileViewType
from tileiras.dialects.cuda_tile.verify_error import InvalidOp, shown, shown_all, single_block

_SPECULATION_UNSAFE = (DivI, GetIndexSpaceShape, GetTensorShape, MakeTensorView)
"""Ops without effects that the public dialect doesn't call pure."""

Rule = Callable[[Any], None]


def _types(values: Sequence[Any]) -> list[Attribute]:
    return [value.type for value in values]


def _parents(op: Any, *allowed: type[Operation]) -> None:
    if not isinstance(op.parent_op(), allowed):
        names = ", ".join(cls.name for cls in allowed)
        raise InvalidOp(op, f"expects parent op to be one of '{names}'")


def _enclosing(op: Any, *loops: type[Operation]) -> Any:
    """The loop that an early exit leaves; only ifs may stand between."""
    parent = op.parent_op()
    while not isinstance(parent, loops):
        if not isinstance(parent, If):
            names = "', '".join((*(loop.name for loop in loops), If.name))
            raise InvalidOp(op, f"can only be nested within a ancestor chain of '{names}' operations")
        parent = parent.parent_op()
    return parent


# Terminators.

def _break(op: Any) -> None:
    _parents(op, If, Loop)
    loop = _enclosing(op, Loop)
    if _types(loop.results) != _types(op.operands):
        raise InvalidOp(op, "operand types must correspond to the parent loop result types: "
                            f"({shown_all(op.operands)}) vs ({shown_all(loop.results)})")


def _continue(op: Any) -> None:
    _parents(op, For, If, Loop)
    loop = _enclosing(op, For, Loop)
    is_loop = isinstance(loop, Loop)
    expected = loop.operands if is_loop else loop.results
    if _types(expected) != _types(op.operands):
        name, what = ("loop", "iter_values") if is_loop else ("for", "return types")
        raise InvalidOp(op, f"`{name}` is missing a valid terminator. `continue` op should have operand types that "
                            f"match the parent loop {what}: ({shown_all(expected)}), but found: "
                            f"({shown_all(op.operands)})", named=False)


def _return(op: Any) -> None:
    _parents(op, Entry, If)
    parent = op.parent_op()
    while isinstance(parent, (If, For, Loop)):      # the original takes returns from loops, though public text doesn't
        parent = parent.parent_op()
    if not isinstance(parent, Entry):
        raise InvalidOp(op, "must be used within a cuda_tile.entry, or cuda_tile.if operation")
    results = parent.function_type.outputs.data
    if len(op.operands) != len(results):
        raise InvalidOp(op, f"has {len(op.operands)} operands, but enclosing function (@{parent.sym_name.data}) "
                            f"returns {len(results)}")
    for i, (value, expected) in enumerate(zip(op.operands, results)):
        if value.type != expected:
            raise InvalidOp(op, f"type of return operand {i} ({shown(value.type)}) doesn't match function result type "
                                f"({shown(expected)}) in function @{parent.sym_name.data}", named=False)
    if op.operands and type(parent) is Entry:
        raise InvalidOp(op, f"has {len(op.operands)} operands, but entry function must return 0 operands")


def _yield(op: Any) -> None:
    _parents(op, If, Reduce, Scan)


# Loops and branches.

def _ends_with(op: Any, region: Region, *allowed: type[Operation]) -> None:
    last = region.block.last_op
    if not isinstance(last, allowed):
        names = ", ".join(cls.name for cls in allowed)
        raise InvalidOp(op, f"expects regions to end with '{names}', found '{'' if last is None else last.name}'")


def _no_views(op: Any, types: Sequence[Attribute], what: str) -> None:
    for i, type_ in enumerate(types):
        if isinstance(type_, TensorViewType):
            raise InvalidOp(op, f"{what} {i} is a tensor_view, which is not supported")
        if isinstance(type_, TileViewType):
            raise InvalidOp(op, f"{what} {i} is a tile view, which is not supported")


def _iter_values(op: Any, arguments: Sequence[Any]) -> None:
    initial = op.initValues
    if len(arguments) != len(initial):
        raise InvalidOp(op, "mismatch in number of region iterator values and loop iterator inits: "
                            f"{len(arguments)} vs {len(initial)}")
    for i, (value, argument) in enumerate(zip(initial, arguments)):
        _no_views(op, [None] * i + [argument.type], "loop-carried value")  # type: ignore[list-item]
        if value.type != argument.type:
            raise InvalidOp(op, f"init value {i} and region iter_value {i} have different type: {shown(value.type)} "
                                f"!= {shown(argument.type)}")
    _no_views(op, _types(op.resultValues), "result type")


def _for(op: Any) -> None:
    single_block(op, "region")


def _for_region(op: Any) -> None:
    _ends_with(op, op.region, Continue)
    arguments = op.region.block.args
    if not arguments:
        raise InvalidOp(op, "expected at least one block argument for induction variable")
    if arguments[0].type != op.lowerBound.type:
        raise InvalidOp(op, "expected induction variable to be same type as bounds and step: "
                            f"{shown(arguments[0].type)} vs {shown(op.lowerBound.type)}")
    _iter_values(op, arguments[1:])


def _loop(op: Any) -> None:
    single_block(op, "region")


def _loop_region(op: Any) -> None:
    _ends_with(op, op.region, Continue, Break)
    _iter_values(op, op.region.block.args)


def _if(op: Any) -> None:
    then = single_block(op, "thenRegion")
    if len(op.elseRegion.blocks) > 1:
        raise InvalidOp(op, "region #1 ('elseRegion') failed to verify constraint: region with at most 1 blocks")
    if then.args or (op.elseRegion.blocks and op.elseRegion.block.args):
        raise InvalidOp(op, "region should have no arguments")
    _no_views(op, _types(op.results), "result type")
    _check_yield(op, then, "then")
    if op.elseRegion.blocks:
        if not op.elseRegion.block.ops:
            raise InvalidOp(op, "expects a non-empty block")
        _check_yield(op, op.elseRegion.block, "else")
    elif op.results:
        raise InvalidOp(op, "has non-empty return type, must define else branch")


def _check_yield(op: Any, block: Block, name: str) -> None:
    last = block.last_op
    if not isinstance(last, Yield):
        return
    if op.results and not last.operands:
        raise InvalidOp(op, f"has return type of {shown_all(op.results)} but {name} branch does not yield anything")
    if not op.results and last.operands:
        raise InvalidOp(op, f"does not return a value, but {name} branch yields {shown_all(last.operands)}")
    if _types(last.operands) != _types(op.results):
        raise InvalidOp(op, f"type does not match yield type, {name} branch yields {shown_all(last.operands)} but op "
                            f"result type is {shown_all(op.results)}")


def _if_region(op: Any) -> None:
    for region in op.regions:
        if region.blocks:
            _ends_with(op, region, Yield, Break, Continue, Return)


# Bodies of reductions and scans.

def _aggregate_body(op: Any) -> None:
    block = op.body.block
    _ends_with(op, op.body, Yield)
    count = len(op.operands)
    if len(block.args) != 2 * count:
        raise InvalidOp(op, f"expect {2 * count} block arguments but got: {len(block.args)}")
    for i, argument in enumerate(block.args):
        if not isinstance(argument.type, TileType) or argument.type.rank:
            raise InvalidOp(op, f"expect 0-rank tile type at index: {i} but got: {shown(argument.type)}")
    elements = [argument.type.element_type for argument in block.args]
    for i in range(0, 2 * count, 2):
        if elements[i] != elements[i + 1]:
            raise InvalidOp(op, f"expect same element type for block argument at index: {i} and {i + 1} but got: "
                                f"{shown(elements[i])} and {shown(elements[i + 1])}")
    for i, operand in enumerate(op.operands):
        if operand.type.element_type != elements[2 * i]:
            raise InvalidOp(op, f"expect same type for operand at index: {i} and block argument at index: {2 * i} but "
                                f"got: {shown(operand.type.element_type)} and {shown(elements[2 * i])}")
    _aggregate_terminator(op, block.last_op)
    for inner in block.ops:
        if not isinstance(inner, Yield) and not _is_pure(inner):
            raise InvalidOp(inner, f"only pure operations are allowed inside '{op.name}'")


def _aggregate_terminator(op: Any, last: Any) -> None:
    if len(last.operands) != len(op.operands):
        raise InvalidOp(op, f"expect number of terminators operands ({len(last.operands)}) to match number of operands "
                            f"({len(op.operands)})")
    for i, (operand, given) in enumerate(zip(op.operands, last.operands)):
        if not isinstance(given.type, TileType):
            raise InvalidOp(op, f"expected TileType for operand and terminator types but got: {shown(operand.type)} "
                                f"and {shown(given.type)}")
        if operand.type.element_type != given.type.element_type:
            raise InvalidOp(op, f"expect same type for operand at index: {i} and terminator argument at index: {i} but "
                                f"got: {shown(operand.type.element_type)} and {shown(given.type.element_type)}")


def _is_pure(op: Operation) -> bool:
    return isinstance(op, CudaTileOp) and op.PURE and not isinstance(op, _SPECULATION_UNSAFE)


# Entries, globals, the module.

def _entry(op: Any) -> None:
    single_block(op, "body")
    if op.function_type.outputs.data:
        raise InvalidOp(op, "entry op must not return values")
    for argument in op.body.block.args:
        if isinstance(argument.type, TileType) and argument.type.rank:
            raise InvalidOp(op, "entry op must have scalar types (rank 0 !cuda_tile.tile)")
    _entry_location(op)


def _entry_region(op: Any) -> None:
    _ends_with(op, op.body, Return)
    _scopes(op)


def _global(op: Any) -> None:
    if op.value.type.rank != 1:
        raise InvalidOp(op, "type must have rank 1")


def check_module(module: Any) -> None:
    """Symbols are unique, globals have no scope, every get_global names one of its type."""
    symbols: dict[str, Operation] = {}
    for op in module.body.block.ops if module.body.blocks else ():
        name = op.properties.get("sym_name")
        if isinstance(name, StringAttr):
            if name.data in symbols:
                raise InvalidOp(op, f"redefinition of symbol named '{name.data}'", named=False)
            symbols[name.data] = op
        if not isinstance(op, Entry) and (location := scoped_location(op.location)) is not None:
            raise InvalidOp(op, f"invalid operation debug info scope: {_location_text(location)}. Global variables "
                                "must not have scope.")
    for op in symbols.values():
        if isinstance(op, Entry):
            for inner in op.walk():
                if isinstance(inner, GetGlobal) and isinstance(inner.properties.get("name"), SymbolRefAttr):
                    _symbol_use(inner, symbols)


def _symbol_use(op: Any, symbols: dict[str, Operation]) -> None:
    target = symbols.get(op.symbol)
    if not isinstance(target, Global):
        raise InvalidOp(op, f"'{op.symbol}' does not reference a valid global")
    pointer = op.result.type.element_type if isinstance(op.result.type, TileType) else None
    element = target.value.type.element_type  # type: ignore[union-attr]
    if getattr(pointer, "pointee", element) != element:
        raise InvalidOp(op, f"pointee type of result type {shown(pointer)} does not match type "  # type: ignore
                            f"'{type_text(element)}' of the global @{op.symbol}")


# Debug scopes.

def scoped_location(location: Attribute | None) -> DILocAttr | None:
    """The location with a scope, of the outermost caller for a call site; None where there's none."""
    for _ in range(MAX_SCOPE_DEPTH):
        if not isinstance(location, CallSiteLocAttr):
            break
        location = location.caller
    return location if isinstance(location, DILocAttr) else None


def _subprogram(location: DILocAttr | None) -> DISubprogramAttr | None:
    scope = None if location is None else location.scope
    for _ in range(MAX_SCOPE_DEPTH):
        if not isinstance(scope, DILexicalBlockAttr):
            break
        scope = scope.scope
    return scope if isinstance(scope, DISubprogramAttr) else None


def _location_text(location: Attribute) -> str:
    from tileiras.dialects.cuda_tile.asm_locations import full_location

    return full_location(location)


def _entry_location(op: Any) -> None:
    if isinstance(op.location, CallSiteLocAttr):
        raise InvalidOp(op, f"invalid function debug info location: {_location_text(op.location)}. Function location "
                            "must not be a CallSiteLoc.")
    location = scoped_location(op.location)
    if location is None:
        return
    scope = location.scope
    if not isinstance(scope, DISubprogramAttr):
        raise InvalidOp(op, f"invalid function debug info scope: {_location_text(scope)}. Function location must have "
                            "cuda_tile.di_subprogram debug info scope.")
    if scope.linkage_name != op.sym_name.data:
        raise InvalidOp(op, f"invalid function debug info scope: {_location_text(scope)}. Function name "
                            f"\"{op.sym_name.data}\" does not match subprogram scope linkage name "
                            f"\"{scope.linkage_name}\".")


def _scopes(op: Any) -> None:
    """Every op's scope is the entry's, by identity first: a file has few locations and many ops."""
    own = _subprogram(scoped_location(op.location))
    seen: dict[int, DISubprogramAttr | None] = {}
    for inner in op.walk():
        location = inner.location
        key = id(location)
        if key not in seen:
            seen[key] = _subprogram(scoped_location(location))
        scope = seen[key]
        if scope is None or scope is own or scope == own:
            continue
        text = _location_text(scope)
        if own is None:
            raise InvalidOp(inner, f"invalid operation debug info scope: {text}. Operation has debug info scope, but "
                                   "function debug info scope is undefined.")
        raise InvalidOp(inner, f"invalid operation debug info scope: {text}. Operation debug info scope does not match "
                               f"function debug info scope: {_location_text(own)}.", named=False)


OP_RULES: dict[str, Rule] = {
    "break": _break, "continue": _continue, "return": _return, "yield": _yield, "for": _for, "loop": _loop, "if": _if,
    "entry": _entry, "global": _global,
}

REGION_RULES: dict[str, Rule] = {
    "for": _for_region, "loop": _loop_region, "if": _if_region, "reduce": _aggregate_body, "scan": _aggregate_body,
    "entry": _entry_region,
}
