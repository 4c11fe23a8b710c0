"""`separate-host-tma`: tensor maps become parameters that the launch makes, or, where it can't, are built by the kernel.

    func(%p: ptr<f16>, %n: i32) {                          func(%p: ptr<f16>, %n: i32, %map: tensormap) {
      %v = block_tile (make_memref %p, %n)         ->        prefetch_tma_desc %map
      %map = make_tiled_tma_desc %v                          ...
                                                           } tensor_maps = ["f16 p0 [u32(p1)] [] box [64] swizzle 128"]

What a map is made of are functions of the other parameters (analysis/host_values.py); the function says which, as texts of
host/recipe.py, in the order of the maps. Equal maps are one parameter.

Where the array's place is known only in the kernel (lists of arrays, slices by loaded bounds), the map is built where the array
is made, once for all tiles:

    %p = int_to_ptr (load ...)                             %p = int_to_ptr (load ...)
    %v = block_tile (make_memref %p, %n)         ->        %map = build_tma_desc %p, %n {recipe = "f16 p0 [u32(p1)] [] box [64]"}
    for { %map = make_tiled_tma_desc %v }                  for { }
"""
from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntegerType, StringAttr
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.host_values import host_value
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileaa import DYNAMIC, int_values
from tileiras.dialects.nv_tileas import TensorMapType
from tileiras.host.recipe import BITS, Const, Expr, HostMap, Param, apply
from tileiras.layout.descriptors import boxes
from tileiras.transforms.structure import holder_in
from tileiras.transforms.tma_common import after, before


def run(module: Operation, context: Any = None) -> None:
    """Give each function the maps that it uses as parameters, in place, or let it build them."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            made = [op for op in func.walk() if op.name == "nv_tileas.make_tiled_tma_desc"]
            by_host = [(op, recipe) for op in made if (recipe := _recipe_of(op, host_value)) is not None]
            if by_host:
                _separate(func, by_host)
            _build([op for op in made if op.parent is not None])


def _separate(func: Operation, made: list[tuple[Operation, HostMap]]) -> None:
    body = func.regions[0].block
    maps: dict[tuple[str, Any], SSAValue] = {}
    for op, recipe in made:
        t: Any = op.results[0].type
        text = str(recipe)
        found = maps.get((text, t))
        if found is None:
            found = maps[text, t] = body.insert_arg(t, len(body.args))
        _replace(op, found)
    func.properties["tensor_maps"] = ArrayAttr([StringAttr(text) for text, _ in maps])
    first = body.first_op
    assert first is not None
    for found in maps.values():
        before(first, nv_tileas.PrefetchTmaDesc.make([found]), func)


def _build(made: list[Operation]) -> None:
    """Maps that only the kernel can make stand behind the arrays that they are of; those of a block together, if nobody uses one
    before the last array is there: they share their fences."""
    maps: dict[tuple[Operation, str, Any], Operation] = {}
    for op in made:
        t, sources = op.results[0].type, _Sources()
        maker = _maker(op)
        recipe = _recipe_of(op, sources.value)
        assert recipe is not None
        found = maps.get((maker, str(recipe), t))
        if found is None:
            found = nv_tileas.BuildTmaDesc.make([sources.values], [t], {"recipe": StringAttr(str(recipe))})
            maps[maker, str(recipe), t] = before(after(maker), found, op)
        _replace(op, found.results[0])
    blocks: dict[Block | None, list[Operation]] = {}
    for op in maps.values():
        blocks.setdefault(op.parent, []).append(op)
    for block, built in blocks.items():
        assert block is not None
        _gather(block, sorted(built, key=block.get_operation_index))


def _gather(block: Block, built: list[Operation]) -> None:
    """Move maps of a block (in its order) down to the next one that is built, where that is before their use."""
    for op, following in reversed(list(pairwise(built))):
        used = min(block.get_operation_index(holder_in(block, use.operation)) for use in op.results[0].uses)
        if used > block.get_operation_index(following):
            op.detach()
            block.insert_op_before(op, following)


def _replace(op: Operation, found: SSAValue) -> None:
    op.results[0].replace_all_uses_with(found)
    op.detach()
    op.erase()


def _maker(op: Operation) -> Any:
    """The array that a `make_tiled_tma_desc` is of."""
    return op.operands[0].owner.operands[0].owner   # type: ignore[union-attr]


class _Sources:
    """What a map is made of: values that stand in its recipe for parameters."""

    def __init__(self) -> None:
        self.values: list[SSAValue] = []

    def value(self, value: SSAValue) -> Expr:
        known = _constant(value)
        if known is not None:
            return known
        if value not in self.values:
            self.values.append(value)
        bits = value.type.width.data if isinstance(value.type, IntegerType) else BITS
        return Param(self.values.index(value), bits)


def _constant(value: SSAValue) -> Const | None:
    found = host_value(value) if isinstance(value.owner, arith.Constant) else None
    return found if isinstance(found, Const) else None


def _recipe_of(op: Operation, value_of: Callable[[SSAValue], Expr | None]) -> HostMap | None:
    """What the map of a `make_tiled_tma_desc` is, None if one of its values isn't known to `value_of`."""
    t: Any = op.results[0].type
    assert isinstance(t, TensorMapType)
    view: Any = op.operands[0].type
    maker = _maker(op)
    known = {v: found for v in (maker.base, *maker.sizes, *maker.strides) if (found := value_of(v)) is not None}
    if len(known) < len({maker.base, *maker.sizes, *maker.strides}):
        return None
    memref, dim_map = view.memref, int_values(view.dim_map)
    size = element_bytes(memref.element_type)
    sizes, strides = ([Const(n) if n != DYNAMIC else known[next(rest)] for n in int_values(static)]
                      for static, rest in ((memref.shape, iter(maker.sizes)), (memref.strides, iter(maker.strides))))
    plan = boxes(t.tile)
    dims = [dim_map[d] for d in plan.order]
    return HostMap(known[maker.base], t.element.data, tuple(apply("umax", sizes[d], Const(1)) for d in dims),
                   tuple(apply("mul", strides[d], Const(size)) for d in dims[1:]), plan.box, plan.swizzle,
                   f"{plan.atom}B", nan_fill="nan" in op.properties)
