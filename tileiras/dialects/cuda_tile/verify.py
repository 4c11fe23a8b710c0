"""Whether a cuda_tile module is valid: the public dialect's rules, checked in its order, in its words.

    verify_module(module)    raises InvalidOp at the first op that breaks a rule
    verify_program(module)   the same as BytecodeError, with the op's source location
    VERIFIERS                op name -> check of one op alone, for xDSL's `op.verify()`

The table says for each op the kinds of its operands and results (`verify_kinds`) and which of them must agree:
types, shapes, ranks, element types. What it can't say stands in `verify_rules` (values), `verify_memory` and
`verify_flow` (regions, terminators, debug scopes). Source: public `Ops.td`, `CudaTile.cpp`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects.cuda_tile import verify_flow, verify_memory, verify_rules
from tileiras.dialects.cuda_tile.debug import render_location
from tileiras.dialects.cuda_tile.op import CudaTileOp
from tileiras.dialects.cuda_tile.ops import OPS
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.dialects.cuda_tile.verify_error import InvalidOp, shown
from tileiras.dialects.cuda_tile.verify_kinds import KINDS, Kind
from tileiras.errors import BytecodeError

_UNARY = "source:float -> result:float ; types source result"
_BINARY = "lhs:float rhs:float -> result:float ; types lhs rhs result"
_INT_UNARY = "source:int -> result:int ; types source result"
_INT_BINARY = "lhs:int rhs:int -> result:int ; types lhs rhs result"
_COMPARE = "types lhs rhs ; i1like lhs result"
_SHAPES = "shapes from to"
_MMA = "types acc result ; elements lhs rhs ; ranks lhs rhs acc"

_TABLE: dict[str, str] = {
    **dict.fromkeys(("absf", "ceil", "cos", "cosh", "exp", "exp2", "floor", "log", "log2", "negf", "rsqrt", "sin",
                     "sinh", "sqrt", "tan", "tanh"), _UNARY),
    **dict.fromkeys(("addf", "divf", "maxf", "minf", "mulf", "remf", "subf"), _BINARY),
    **dict.fromkeys(("absi", "negi"), _INT_UNARY),
    **dict.fromkeys(("addi", "andi", "divi", "maxi", "mini", "muli", "ori", "shli", "shri", "subi", "xori"),
                    _INT_BINARY),
    "remi": "lhs:int rhs:int -> result:int ; types result lhs rhs",
    "mulhii": "x:int y:int -> result:int ; types x y result",
    "atan2": "x:float y:float -> result:float ; types x y result",
    "pow": "source:float exponent:float -> result:float ; types result source exponent",
    "fpowi": "source:float exponent:int32 -> result:float ; types result source ; shapes source exponent",
    "fma": "lhs:float rhs:float acc:float -> result:float ; types lhs rhs acc result",
    "cmpf": f"lhs:float rhs:float -> result:i1 ; {_COMPARE}",
    "cmpi": f"lhs:int rhs:int -> result:i1 ; {_COMPARE}",
    "mmaf": f"lhs:mmaf_in rhs:mmaf_in acc:mmaf_out -> result:mmaf_out ; {_MMA}",
    "mmaf_scaled": "lhs:scaled_in rhs:scaled_in acc:scaled_out lhs_scale:scaled_scale rhs_scale:scaled_scale -> "
                   "result:scaled_out ; types acc result ; elements lhs rhs ; elements lhs_scale rhs_scale ; "
                   "ranks lhs rhs acc lhs_scale rhs_scale",
    "mmai": f"lhs:mmai_in rhs:mmai_in acc:mmai_acc -> result:mmai_out ; {_MMA}",
    "select": "cond:i1 val_if_true:tile val_if_false:tile -> result:tile ; types val_if_true val_if_false result ; "
              "shapes cond val_if_true val_if_false result",
    "bitcast": "source:number -> result:number ; shapes source result",
    "int_to_ptr": "source:i64 -> result:ptr ; shapes source result",
    "ptr_to_int": "source:ptr -> result:i64 ; shapes source result",
    "ptr_to_ptr": "source:ptr -> result:ptr ; shapes source result",
    "exti": f"from:int4 -> to:int4 ; {_SHAPES}", "trunci": f"from:int4 -> to:int4 ; {_SHAPES}",
    "ftof": f"from:anyfloat -> to:anyfloat ; {_SHAPES}", "ftoi": f"from:anyfloat -> to:int ; {_SHAPES}",
    "itof": f"from:int -> to:anyfloat ; {_SHAPES}",
    "assume": "value:any -> result:any ; types value result",
    "broadcast": "source:tile -> result:tile ; ranks source result ; all_elements source result",
    "reshape": "source:tile -> result:tile ; all_elements source result",
    "pack": "source:number4 -> result:i8 ; ranks source result",
    "unpack": "source:i8 -> result:number4 ; ranks source result",
    "cat": "lhs:tile rhs:tile -> result:tile ; ranks lhs rhs result ; elements lhs rhs result",
    "constant": "-> result:number",
    "extract": "source:tile indices*:i32_0 -> result:tile ; ranks source result",
    "insert": "source:tile destination:tile indices*:i32_0 -> result:tile ; types destination result",
    "get_num_tile_blocks": "-> gridSize_x:i32_0 gridSize_y:i32_0 gridSize_z:i32_0",
    "get_tile_block_id": "-> blockId_x:i32_0 blockId_y:i32_0 blockId_z:i32_0",
    "iota": "-> result:int",
    "permute": "source:tile -> result:tile ; elements source result ; ranks source result",
    "reduce": "operands*:tile -> results*:tile ; operand_shapes operands",
    "scan": "operands*:tile -> results*:tile ; operand_shapes operands",
    "alloca": "-> result:ptr0",
    "atomic_cas_tko": "pointers:ptr cmp:tile val:tile mask?:i1 token?:token -> result:tile result_token:token ; "
                      "shapes pointers cmp val result ; types cmp val result",
    "atomic_rmw_tko": "pointers:ptr arg:tile mask?:i1 token?:token -> result:tile result_token:token ; "
                      "shapes pointers arg result ; types arg result",
    "atomic_red_view_tko": "view:view index*:int value:tile token?:token -> result_token:token",
    "gdc_launch_dependents_tko": "token?:token -> result_token:token",
    "gdc_wait_tko": "token?:token -> result_token:token",
    "memory_fence_alias_tko": "token:token -> result_token:token",
    "get_global": "-> result:ptr0",
    "get_index_space_shape": "src:view -> result*:int0",
    "get_tensor_shape": "src:tview -> result*:int0",
    "join_tokens": "tokens*:token -> result:token",
    "load_ptr_tko": "source:ptr mask?:i1 paddingValue?:number token?:token -> result:tile result_token:token ; "
                    "load_types source result ; load_mask source mask ; load_padding result paddingValue",
    "load_view_tko": "view:view index*:int token?:token -> tile:tile result_token:token",
    "make_gather_scatter_view": "tensor_view:tview -> result:gsview",
    "make_partition_view": "tensor_view:tview -> result:pview",
    "make_strided_view": "tensor_view:tview -> result:sview",
    "make_tensor_view": "base:ptr0 dynamicShape*:int0 dynamicStrides*:int0 -> result:tview",
    "make_token": "-> result:token",
    "multimem_load_reduce_view_tko": "view:view index*:int token?:token -> reduced_values:tile result_token:token",
    "multimem_reduce_view_tko": "view:view tile:tile index*:int token?:token -> result_token:token",
    "multimem_store_view_tko": "view:view tile:tile index*:int token?:token -> result_token:token",
    "offset": "ptr:ptr offset:int -> result:ptr ; types result ptr ; all_shapes ptr offset result",
    "store_ptr_tko": "destination:ptr value:tile mask?:i1 token?:token -> result_token:token ; "
                     "store_types destination value ; store_mask destination mask",
    "store_view_tko": "tile:tile view:view index*:int token?:token -> result_token:token",
    "assert": "condition:i1 ->",
    "print_tko": "args*:tile token?:token -> result_token?:token",
    "break": "operands*:any ->", "continue": "operands*:any ->", "return": "operands*:any ->",
    "yield": "operands*:any ->",
    "for": "lowerBound:int0 upperBound:int0 step:int0 initValues*:any -> resultValues*:any ; "
           "types lowerBound upperBound step ; variadic_types initValues resultValues",
    "if": "condition:i1_0 -> results*:any", "loop": "initValues*:any -> resultValues*:any",
}

_ATTRIBUTE_RULES = verify_rules.ATTRIBUTE_RULES | verify_memory.ATTRIBUTE_RULES
_OP_RULES = verify_rules.OP_RULES | verify_memory.OP_RULES | verify_flow.OP_RULES
_REGION_RULES = verify_flow.REGION_RULES


class _Plan:
    """What to check of one op class, resolved from the table at its first use."""

    __slots__ = ("attributes", "checks", "name", "operands", "plain_operands", "plain_results", "region_rule",
                 "required", "results", "rule")

    def __init__(self, op: type[Operation]) -> None:
        self.name = op.name.removeprefix("cuda_tile.")
        kinds, _, rest = _TABLE.get(self.name, "->").partition("->")
        results, *checks = [part.split() for part in rest.split(";")]
        self.operands = [_spec(word) for word in kinds.split()]
        self.results = [_spec(word) for word in results]
        self.plain_operands = _plain(self.operands)
        self.plain_results = _plain(self.results)
        self.checks = [(_CHECKS[words[0]], tuple(words[1:])) for words in checks if words]
        self.required = tuple(f.name for f in op.attr_fields if not f.many)  # type: ignore[attr-defined]
        self.attributes = _ATTRIBUTE_RULES.get(self.name)
        self.rule = _OP_RULES.get(self.name) or getattr(op, "CHECK", None)
        self.region_rule = _REGION_RULES.get(self.name)


def _spec(word: str) -> tuple[str, str, Kind]:
    name, _, kind = word.partition(":")
    return name.rstrip("*?"), name[-1] if name[-1] in "*?" else "", KINDS[kind]


def _plain(specs: list[tuple[str, str, Kind]]) -> tuple[Kind, ...] | None:
    """The groups' kinds where each is one value, else None."""
    return None if any(many for _, many, _ in specs) else tuple(kind for _, _, kind in specs)


class Verifier:
    """Verifies ops; remembers which kinds each type that it met was found to be of, by identity."""

    def __init__(self) -> None:
        self._kinds: dict[int, int] = {}
        self._alive: list[Attribute] = []

    def module(self, module: Operation) -> None:
        """The module op, everything inside, and what spans ops."""
        verify_flow.check_module(module)
        self._nested(module)

    def op(self, op: Operation) -> None:
        """An op and everything inside it, in MLIR's order."""
        if not isinstance(op, CudaTileOp):  # of another dialect, which tools may let through
            self._nested(op)
            return
        plan = _plan_of(type(op))
        self.alone(op, plan)
        if op.regions:
            self._nested(op)
            if plan.region_rule is not None:
                plan.region_rule(op)

    def _nested(self, op: Operation) -> None:
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    self.op(inner)

    def alone(self, op: Any, plan: _Plan) -> None:
        """An op by itself."""
        properties = op.properties
        for name in plan.required:
            if name not in properties:
                raise InvalidOp(op, f"requires attribute '{name}'")
        if plan.attributes is not None:
            plan.attributes(op)
        operands = op._operands
        if plan.plain_operands is None:
            self._groups(op, plan.operands, "operand")
        elif len(operands) != len(plan.plain_operands):
            raise InvalidOp(op, f"expected {len(plan.plain_operands)} operands, but found {len(operands)}")
        else:
            self._values(op, plan.plain_operands, operands, "operand")
        if plan.plain_results is None:
            self._groups(op, plan.results, "result")
        elif len(op.results) != len(plan.plain_results):
            raise InvalidOp(op, f"expected {len(plan.plain_results)} results, but found {len(op.results)}")
        else:
            self._values(op, plan.plain_results, op.results, "result")
        for check, names in plan.checks:
            check(op, names)
        if plan.rule is not None:
            plan.rule(op)

    def _is_not(self, type_: Attribute, kind: Kind) -> bool:
        bits = self._kinds.get(id(type_))
        if bits is None:
            bits = self._kinds[id(type_)] = 0
            self._alive.append(type_)
        if bits & kind.bit:
            return False
        if not kind.accepts(type_):
            return True
        self._kinds[id(type_)] = bits | kind.bit
        return False

    def _values(self, op: Operation, kinds: tuple[Kind, ...], values: Sequence[SSAValue], what: str) -> None:
        for i, (kind, value) in enumerate(zip(kinds, values)):
            if self._is_not(value.type, kind):
                raise _wrong_kind(op, what, i, "", kind, value)

    def _groups(self, op: Any, specs: list[tuple[str, str, Kind]], what: str) -> None:
        index = 0
        for name, many, kind in specs:
            for value in _group(op, name):
                if self._is_not(value.type, kind):
                    raise _wrong_kind(op, what, index, "variadic of " if many == "*" else "", kind, value)
                index += 1


def _wrong_kind(op: Operation, what: str, index: int, prefix: str, kind: Kind, value: SSAValue) -> InvalidOp:
    return InvalidOp(op, f"{what} #{index} must be {prefix}{kind.summary}, but got {shown(value.type)}")


def _group(op: Any, name: str) -> Sequence[SSAValue]:
    if name in ("operands", "results"):
        return getattr(op, name)
    values = getattr(op, name + "_" if name == "from" else name)
    return values if isinstance(values, tuple) else () if values is None else (values,)


def _value(op: Any, name: str) -> Any:
    return getattr(op, name + "_" if name == "from" else name)


def _type(op: Any, name: str) -> Any:
    return _value(op, name).type


def _all_of(op: Operation, names: tuple[str, ...], what: str) -> InvalidOp:
    return InvalidOp(op, f"failed to verify that all of {{{', '.join(names)}}} have {what}")


# The checks of the table.

def _types(op: Any, names: tuple[str, ...]) -> None:
    first = _type(op, names[0])
    for name in names[1:]:
        other = _type(op, name)
        if other is not first and other != first:
            raise _all_of(op, names, "same type")


def _shapes(op: Any, names: tuple[str, ...]) -> None:
    if len({_type(op, name).shape for name in names}) > 1:
        raise _all_of(op, names, "same shape")


def _ranks(op: Any, names: tuple[str, ...]) -> None:
    if len({len(_type(op, name).shape) for name in names}) > 1:
        raise _all_of(op, names, "same rank")


def _elements(op: Any, names: tuple[str, ...]) -> None:
    first = _type(op, names[0]).element_type
    if any(_type(op, name).element_type != first for name in names[1:]):
        raise _all_of(op, names, "the same element type")


def _all_elements(op: Any, names: tuple[str, ...]) -> None:
    first = _type(op, names[0]).element_type
    if any(_type(op, name).element_type != first for name in names[1:]):
        raise InvalidOp(op, "requires the same element type for all operands and results")


def _all_shapes(op: Any, names: tuple[str, ...]) -> None:
    if len({_type(op, name).shape for name in names}) > 1:
        raise InvalidOp(op, "requires the same shape for all operands and results")


def _operand_shapes(op: Any, names: tuple[str, ...]) -> None:
    if len({value.type.shape for value in op.operands}) > 1:
        raise InvalidOp(op, "requires the same shape for all operands")


def _i1_like(op: Any, names: tuple[str, ...]) -> None:
    if _type(op, names[0]).shape != _type(op, names[1]).shape:
        raise InvalidOp(op, "failed to verify that Result type has i1 element type and same shape as operands")


def _variadic_types(op: Any, names: tuple[str, ...]) -> None:
    first, second = ([value.type for value in _group(op, name)] for name in names)
    if first != second:
        raise _all_of(op, names, "same type")


def _points_to(pointers: TileType, values: TileType) -> bool:
    return pointers.shape == values.shape and pointers.element_type.pointee == values.element_type  # type: ignore


def _load_types(op: Any, names: tuple[str, ...]) -> None:
    if not _points_to(op.source.type, op.result.type):
        raise InvalidOp(op, "failed to verify that `source` type is expected a pointer type of `result` type")


def _load_mask(op: Any, names: tuple[str, ...]) -> None:
    if op.mask is not None and op.mask.type.shape != op.source.type.shape:
        raise InvalidOp(op, "failed to verify that shape of 'mask' must match the shape of 'source'")


def _load_padding(op: Any, names: tuple[str, ...]) -> None:
    if op.paddingValue is not None and op.paddingValue.type != op.result.type:
        raise InvalidOp(op, "failed to verify that type of 'paddingValue' must match the type of 'result'")


def _store_types(op: Any, names: tuple[str, ...]) -> None:
    if not _points_to(op.destination.type, op.value.type):
        raise InvalidOp(op, "failed to verify that `destination` type is expected a pointer type of `value` type")


def _store_mask(op: Any, names: tuple[str, ...]) -> None:
    if op.mask is not None and op.mask.type.shape != op.destination.type.shape:
        raise InvalidOp(op, "failed to verify that shape of 'destination' must match the shape of 'mask'")


_CHECKS: dict[str, Callable[[Any, tuple[str, ...]], None]] = {
    "types": _types, "shapes": _shapes, "ranks": _ranks, "elements": _elements, "all_elements": _all_elements,
    "all_shapes": _all_shapes, "operand_shapes": _operand_shapes, "i1like": _i1_like,
    "variadic_types": _variadic_types, "load_types": _load_types, "load_mask": _load_mask,
    "load_padding": _load_padding, "store_types": _store_types, "store_mask": _store_mask,
}

_PLANS: dict[type[Operation], _Plan] = {}


def _plan_of(op: type[Operation]) -> _Plan:
    plan = _PLANS.get(op)
    if plan is None:
        plan = _PLANS[op] = _Plan(op)
    return plan


def equal_type_groups(op: type[Operation]) -> list[tuple[str, ...]]:
    """The groups of an op's operands and results that have one type."""
    return [names for check, names in _plan_of(op).checks if check in (_types, _variadic_types)]


def kind_of_group(op: type[Operation], group: str) -> str:
    """The kind of an operand or result group, as `verify_kinds` calls it."""
    plan = _plan_of(op)
    kind = next((kind for name, _, kind in (*plan.operands, *plan.results) if name == group), None)
    return next((name for name, known in KINDS.items() if known is kind), "")


def verify_module(module: Operation) -> None:
    """Check a module; raises InvalidOp."""
    Verifier().module(module)


def verify_program(module: Operation) -> None:
    """Check a module that came as bytecode. Raises BytecodeError with the invalid op's source location."""
    try:
        Verifier().module(module)
    except InvalidOp as error:
        raise BytecodeError(error.message, render_location(error.op.location)) from error


def verify_one(op: Operation) -> None:
    """Check one op, not what is inside it; raises InvalidOp."""
    plan = _plan_of(type(op))
    if plan.name == "module":
        verify_flow.check_module(op)
        return
    Verifier().alone(op, plan)
    if op.regions and plan.region_rule is not None:
        plan.region_rule(op)


VERIFIERS: dict[str, Callable[[Operation], None]] = {op.name: verify_one for op in OPS}
