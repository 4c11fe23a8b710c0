"""`separate-host-tma`: tensor maps become parameters that the launch makes.

    func(%p: ptr<f16>, %n: i32) {                          func(%p: ptr<f16>, %n: i32, %map: tensormap) {
      %v = block_tile (make_memref %p, %n)         ->        prefetch_tma_desc %map
      %map = make_tiled_tma_desc %v                          ...
                                                           } tensor_maps = ["f16 p0 [u32(p1)] [] box [64] swizzle 128"]

What a map is made of are functions of the other parameters (analysis/host_values.py); the function says which, as texts of
host/recipe.py, in the order of the maps. Equal maps are one parameter.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.host_values import host_value
from tileiras.dialects import nv_tileas
from tileiras.dialects.element import element_bytes
from tileiras.dialects.location_text import location_text
from tileiras.dialects.nv_tileaa import DYNAMIC, int_values
from tileiras.dialects.nv_tileas import TensorMapType
from tileiras.errors import CompileError
from tileiras.host.recipe import Const, Expr, HostMap, apply
from tileiras.layout.descriptors import boxes


def run(module: Operation, context: Any = None) -> None:
    """Give each function the maps that it uses as parameters, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            made = [op for op in func.walk() if op.name == "nv_tileas.make_tiled_tma_desc"]
            if made:
                _separate(func, made)


def _separate(func: Operation, made: list[Operation]) -> None:
    body = func.regions[0].block
    maps: dict[tuple[str, Any], SSAValue] = {}
    for op in made:
        t: Any = op.results[0].type
        text = str(recipe_of(op))
        found = maps.get((text, t))
        if found is None:
            found = maps[text, t] = body.insert_arg(t, len(body.args))
        op.results[0].replace_all_uses_with(found)
        op.detach()
        op.erase()
    func.properties["tensor_maps"] = ArrayAttr([StringAttr(text) for text, _ in maps])
    first = body.first_op
    assert first is not None
    for found in maps.values():
        prefetch = nv_tileas.PrefetchTmaDesc.make([found])
        prefetch.location = func.location
        body.insert_op_before(prefetch, first)


def recipe_of(op: Operation) -> HostMap:
    """How the launch makes the map of a `make_tiled_tma_desc`."""
    t: Any = op.results[0].type
    assert isinstance(t, TensorMapType)
    view: Any = op.operands[0].type
    maker: Any = op.operands[0].owner.operands[0].owner  # type: ignore[union-attr]
    memref, dim_map = view.memref, int_values(view.dim_map)
    size = element_bytes(memref.element_type)
    sizes = _values(op, memref.shape, maker.sizes)
    strides = _values(op, memref.strides, maker.strides)
    plan = boxes(t.tile)
    dims = [dim_map[d] for d in plan.order]
    return HostMap(_value(op, maker.base), t.element.data, tuple(apply("umax", sizes[d], Const(1)) for d in dims),
                   tuple(apply("mul", strides[d], Const(size)) for d in dims[1:]), plan.box, plan.swizzle,
                   f"{plan.atom}B", nan_fill="nan" in op.properties)


def _values(op: Operation, static: Any, dynamic: Any) -> list[Expr]:
    rest = iter(dynamic)
    return [_value(op, next(rest)) if n == DYNAMIC else Const(n) for n in int_values(static)]


def _value(op: Operation, value: SSAValue) -> Expr:
    found = host_value(value)
    if found is None:
        raise CompileError("a tensor map of what isn't a function of the kernel's parameters", location_text(op))
    return found
