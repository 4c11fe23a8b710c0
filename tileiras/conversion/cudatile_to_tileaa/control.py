"""How control flow lowers: `for` and `if` to scf, `loop` to nv_tileaa.loop, early exits to nv_tileaa's terminators.

    for ... { ...; continue %x }                  ->   scf.for ... { ...; scf.yield %x }
    for ... { if %c { continue %x }; ... }        ->   scf.for ... { scf.if %c { nv_tileaa.continue %x }; ... }
    loop { if %c { break %x }; continue %y }      ->   nv_tileaa.loop { scf.if %c { nv_tileaa.break %x };
                                                                        nv_tileaa.continue %y }
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Block, Region

from tileiras.conversion.cudatile_to_tileaa.converter import UNIT, CudaTileConverter, lowers
from tileiras.conversion.cudatile_to_tileaa.memory import entry_hints
from tileiras.conversion.cudatile_to_tileaa.types import MEM_TOKEN, convert_type
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa


@lowers("entry")
def lower_entry(cv: CudaTileConverter, op: Any) -> None:
    name = op.sym_name.data
    if "." in name:
        raise cv.error(f"entry name '{name}' contains '.', which no kernel name may")
    old = op.body.block
    body = cv.block_like(old)
    attrs: dict[str, Any] = {"sym_name": op.sym_name}
    found = entry_hints(cv, op)
    if found is not None:
        attrs["hints"] = found
    cv.emit(aa.Func, (), (), attrs, (Region(body),))
    cv.enter(old, body, aa.Return)


@lowers("for")
def lower_for(cv: CudaTileConverter, op: Any) -> None:
    old = op.regions[0].block
    body = cv.block_like(old)
    new = cv.emit(arith.For, cv.get_all(op.operands), [convert_type(r.type) for r in op.results],
                  {"unsigned_cmp": UNIT} if "unsignedCmp" in op.properties else None, (Region(body),))
    cv.bind_results(op, new)
    cv.enter(old, body, arith.Yield)


@lowers("loop")
def lower_loop(cv: CudaTileConverter, op: Any) -> None:
    old = op.regions[0].block
    body = cv.block_like(old)
    new = cv.emit(aa.Loop, cv.get_all(op.operands), [convert_type(r.type) for r in op.results], None, (Region(body),))
    cv.bind_results(op, new)
    cv.enter(old, body, aa.Continue)


@lowers("if")
def lower_if(cv: CudaTileConverter, op: Any) -> None:
    then_region, else_region = op.regions
    then_block = Block()
    else_block = Block() if else_region.blocks else None
    new = cv.emit(arith.If, cv.get_all(op.operands), [convert_type(r.type) for r in op.results], None,
                  (Region(then_block), Region(else_block) if else_block is not None else Region()))
    cv.bind_results(op, new)
    if else_block is not None:
        cv.enter(else_region.block, else_block, arith.Yield)
    cv.enter(then_region.block, then_block, arith.Yield)


@lowers("yield")
def lower_yield(cv: CudaTileConverter, op: Any) -> None:
    cv.emit(arith.Yield, cv.get_all(op.operands), ())


@lowers("continue")
def lower_continue(cv: CudaTileConverter, op: Any) -> None:
    parent = op.parent_op()
    cls = arith.Yield if parent is not None and parent.name == "cuda_tile.for" else aa.Continue
    cv.emit(cls, cv.get_all(op.operands), ())


@lowers("break")
def lower_break(cv: CudaTileConverter, op: Any) -> None:
    cv.emit(aa.Break, cv.get_all(op.operands), ())


@lowers("return")
def lower_return(cv: CudaTileConverter, op: Any) -> None:
    if op.operands:
        raise cv.error("'cuda_tile.return' op: a kernel returns no values")
    cv.emit(aa.Return, (), ())


@lowers("assert")
def lower_assert(cv: CudaTileConverter, op: Any) -> None:
    cv.emit(aa.Assert, cv.get_all(op.operands), (), {"message": op.message})


@lowers("print_tko", "print")
def lower_print(cv: CudaTileConverter, op: Any) -> None:
    new = cv.emit_groups(aa.Print, (cv.get_all(op.args), cv.opt(op.token)), ((MEM_TOKEN,) if op.results else None,),
                         {"format": op.properties["str"]})
    cv.bind_results(op, new)
