"""What ops of the llvm dialect must keep besides their declarations: as LLVM's own verifier has it.

What is checked here would otherwise be LLVM's refusal of a text that the user never saw.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import IntegerType, VectorType
from xdsl.ir import Attribute, Operation

from tileiras.dialects import llvm
from tileiras.dialects.cuda_tile.verify_error import InvalidOp
from tileiras.dialects.verify import Rule, shape_of
from tileiras.host.recipe import RecipeError, read_map

WIDTHS: dict[str, int] = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
POINTER_BITS = 64
SPACES = (llvm.GENERIC, llvm.GLOBAL, llvm.SHARED, llvm.CONST, llvm.LOCAL, llvm.TENSOR, llvm.CLUSTER)
INTEGER_FLAGS: dict[str, tuple[str, ...]] = {
    "add": ("nsw", "nuw"), "sub": ("nsw", "nuw"), "mul": ("nsw", "nuw"), "shl": ("nsw", "nuw"), "udiv": ("exact",),
    "sdiv": ("exact",), "lshr": ("exact",), "ashr": ("exact",), "or": ("disjoint",),
}
FAST_MATH = ("fast", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc")
FENCE_ORDERINGS = ("acquire", "release", "acq_rel", "seq_cst")
EXCHANGE_ORDERINGS = ("monotonic", "acquire", "release", "acq_rel", "seq_cst")


def scalar(t: Attribute) -> Any:
    """A vector's element type; any other type itself."""
    return t.element_type if isinstance(t, VectorType) else t


def bits(t: Attribute) -> int:
    """Bits of one element."""
    t = scalar(t)
    return t.width.data if isinstance(t, IntegerType) else WIDTHS.get(str(t), POINTER_BITS)


def _same_shape(op: Operation, a: Attribute, b: Attribute) -> None:
    if shape_of(a) != shape_of(b):
        raise InvalidOp(op, f"must have as many elements on both sides, but goes from '{a}' to '{b}'")


def _binary(op: Any) -> None:
    words = op.flags.data.split() if op.flags is not None else []
    mnemonic = op.name.removeprefix("llvm.")
    allowed = FAST_MATH if mnemonic.startswith("f") else INTEGER_FLAGS.get(mnemonic, ())
    unknown = next((word for word in words if word not in allowed), None)
    if unknown is not None:
        raise InvalidOp(op, f"has no flag '{unknown}'")


def _cast(widens: bool | None) -> Callable[[Any], None]:
    """A cast that must widen (True) or narrow (False) elements; None where both may be."""
    def check(op: Any) -> None:
        source, result = op.source.type, op.result.type
        _same_shape(op, source, result)
        if widens is True and bits(source) >= bits(result):
            raise InvalidOp(op, f"must widen, but goes from '{source}' to '{result}'")
        if widens is False and bits(source) <= bits(result):
            raise InvalidOp(op, f"must narrow, but goes from '{source}' to '{result}'")
    return check


def _bitcast(op: Any) -> None:
    source, result = op.source.type, op.result.type
    have, want = (bits(t) * max(1, *shape_of(t), 1) for t in (source, result))
    pointers = [isinstance(scalar(t), llvm.PtrType) for t in (source, result)]
    if have != want or pointers[0] != pointers[1]:
        raise InvalidOp(op, f"must keep the number of bits, but goes from '{source}' to '{result}'")
    if all(pointers) and scalar(source) != scalar(result):
        raise InvalidOp(op, f"must keep the address space, but goes from '{source}' to '{result}'")


def _addrspacecast(op: Any) -> None:
    _same_shape(op, op.source.type, op.result.type)
    if scalar(op.source.type) == scalar(op.result.type):
        raise InvalidOp(op, f"must change the address space of '{op.source.type}'")


def _icmp(op: Any) -> None:
    _same_shape(op, op.lhs.type, op.result.type)
    if not isinstance(scalar(op.lhs.type), (IntegerType, llvm.PtrType)):
        raise InvalidOp(op, f"compares integers or pointers, but got '{op.lhs.type}'")


def _fcmp(op: Any) -> None:
    _same_shape(op, op.lhs.type, op.result.type)


def _select(op: Any) -> None:
    condition = shape_of(op.condition.type)
    if condition and condition != shape_of(op.result.type):
        raise InvalidOp(op, f"the condition must be an i1 or of as many elements as the result, but is '{op.condition.type}'")


def _gep(op: Any) -> None:
    base, index, result = (shape_of(v.type) for v in (op.base, op.index, op.result))
    if (base or index) != result or (base and index and base != index):
        raise InvalidOp(op, f"'{op.base.type}' and '{op.index.type}' don't make '{op.result.type}'")
    if scalar(op.base.type) != scalar(op.result.type):
        raise InvalidOp(op, f"must keep the address space, but goes from '{op.base.type}' to '{op.result.type}'")


def _extractelement(op: Any) -> None:
    if op.vector.type.element_type != op.result.type:
        raise InvalidOp(op, f"result must be '{op.vector.type.element_type}', but is '{op.result.type}'")


def _insertelement(op: Any) -> None:
    if op.vector.type.element_type != op.value.type:
        raise InvalidOp(op, f"the value must be '{op.vector.type.element_type}', but is '{op.value.type}'")


def _shufflevector(op: Any) -> None:
    mask = [m.data for m in op.mask.data]
    count = op.lhs.type.get_shape()[0]
    if op.result.type.element_type != op.lhs.type.element_type or op.result.type.get_shape()[0] != len(mask):
        raise InvalidOp(op, f"result must be {len(mask)} of '{op.lhs.type.element_type}', but is '{op.result.type}'")
    wrong = next((m for m in mask if not -1 <= m < 2 * count), None)
    if wrong is not None:
        raise InvalidOp(op, f"mask names element {wrong} of {2 * count}")


def _extractvalue(op: Any) -> None:
    members, position = op.container.type.members.data, op.position.data
    if position >= len(members):
        raise InvalidOp(op, f"position {position} must be one of {len(members)} members")
    if members[position] != op.result.type:
        raise InvalidOp(op, f"result must be '{members[position]}', but is '{op.result.type}'")


def _call(op: Any) -> None:
    unknown = next((w for w in (op.fastmath.data.split() if op.fastmath is not None else ()) if w not in FAST_MATH), None)
    if unknown is not None:
        raise InvalidOp(op, f"has no flag '{unknown}'")


def _inline_asm(op: Any) -> None:
    """As many results and operands as the constraints name."""
    words = [word for word in op.constraints.data.split(",") if word and not word.startswith("~")]
    results = sum(word.startswith("=") for word in words)
    t = op.result.type
    have = len(t.members.data) if isinstance(t, llvm.StructType) else 0 if isinstance(t, llvm.VoidType) else 1
    if have != results:
        raise InvalidOp(op, f"constraints name {results} results, but there are {have}")
    if len(words) - results != len(op.args):
        raise InvalidOp(op, f"constraints name {len(words) - results} operands, but there are {len(op.args)}")


def _cmpxchg(op: Any) -> None:
    expected = [op.compare.type, IntegerType(1)]
    if list(op.result.type.members.data) != expected:
        raise InvalidOp(op, f"result must hold '{op.compare.type}' and 'i1', but is '{op.result.type}'")
    if op.success.data not in EXCHANGE_ORDERINGS or op.failure.data not in ("monotonic", "acquire", "seq_cst"):
        raise InvalidOp(op, f"can't be ordered '{op.success.data}' and '{op.failure.data}'")


def _fence(op: Any) -> None:
    if op.ordering.data not in FENCE_ORDERINGS:
        raise InvalidOp(op, f"can't be ordered '{op.ordering.data}'")


def _enters(op: Operation, block: Any, values: Any) -> None:
    have, want = [v.type for v in values], [a.type for a in block.args]
    if have != want:
        raise InvalidOp(op, f"the block takes ({', '.join(map(str, want))}), but gets ({', '.join(map(str, have))})")


def _successors(op: Operation, count: int) -> None:
    if len(op.successors) != count:
        raise InvalidOp(op, f"must have {count} successors, but has {len(op.successors)}")
    region = None if op.parent is None else op.parent.parent
    if any(block.parent is not region for block in op.successors):
        raise InvalidOp(op, "goes to a block of another region")
    if region is not None and any(block is region.blocks[0] for block in op.successors):
        raise InvalidOp(op, "goes to the function's first block")


def _br(op: Any) -> None:
    _successors(op, 1)
    _enters(op, op.successors[0], op.args)


def _cond_br(op: Any) -> None:
    _successors(op, 2)
    _enters(op, op.successors[0], op.then_args)
    _enters(op, op.successors[1], op.else_args)


def _constant(op: Any) -> None:
    width = bits(op.result.type)
    if op.bits.data >> width:
        raise InvalidOp(op, f"bits {op.bits.data} don't fit in '{op.result.type}'")
    if isinstance(scalar(op.result.type), llvm.PtrType) and op.bits.data:
        raise InvalidOp(op, "a constant pointer must be null")


def _func(op: Any) -> None:
    count = len(op.body.blocks[0].args)
    if op.arg_attrs is not None and len(op.arg_attrs.data) != count:
        raise InvalidOp(op, f"must have attributes of {count} parameters, but has {len(op.arg_attrs.data)}")
    for i, arg in enumerate(op.body.blocks[0].args):
        if isinstance(arg.type, (llvm.StructType, llvm.VoidType)):
            raise InvalidOp(op, f"parameter {i} can't be '{arg.type}'")
    if op.maps is not None:
        _maps(op, [text.data for text in op.maps.data], [arg.type for arg in op.body.blocks[0].args])


def _maps(op: Any, maps: list[str], parameters: list[Attribute]) -> None:
    """Recipes of tensor maps are of the ordinary parameters, behind which there is one for each."""
    ordinary = len(parameters) - len(maps)
    if ordinary < 0 or any(t != llvm.ptr(llvm.GENERIC) for t in parameters[ordinary:]):
        raise InvalidOp(op, f"must end with {len(maps)} parameters '{llvm.ptr(llvm.GENERIC)}' for its tensor maps")
    for text in maps:
        try:
            recipe = read_map(text)
        except RecipeError as error:
            raise InvalidOp(op, str(error)) from None
        for p in recipe.parameters():
            if p.index >= ordinary or bits(parameters[p.index]) != p.bits or shape_of(parameters[p.index]):
                raise InvalidOp(op, f"has no ordinary parameter {p.index} of {p.bits} bits, which a tensor map is made of")


def _global(op: Any) -> None:
    if op.space.data not in SPACES:
        raise InvalidOp(op, f"there is no address space {op.space.data}")
    text = op.init
    if text is not None and (len(text.data) != 2 * op.size.data or any(c not in "0123456789abcdefABCDEF" for c in text.data)):
        raise InvalidOp(op, f"attribute 'init' must be {op.size.data} bytes in hexadecimal")


OP_RULES: dict[str, Rule] = {
    **{cls.name: _binary for cls in llvm.BINARY.values()},
    **{f"llvm.{m}": _cast(True) for m in ("zext", "sext", "fpext")}, **{f"llvm.{m}": _cast(False) for m in ("trunc", "fptrunc")},
    **{f"llvm.{m}": _cast(None) for m in ("fptosi", "fptoui", "sitofp", "uitofp", "ptrtoint", "inttoptr")},
    "llvm.bitcast": _bitcast, "llvm.addrspacecast": _addrspacecast, "llvm.icmp": _icmp, "llvm.fcmp": _fcmp,
    "llvm.select": _select, "llvm.getelementptr": _gep, "llvm.extractelement": _extractelement,
    "llvm.insertelement": _insertelement, "llvm.shufflevector": _shufflevector, "llvm.extractvalue": _extractvalue,
    "llvm.call": _call, "llvm.inline_asm": _inline_asm, "llvm.cmpxchg": _cmpxchg, "llvm.fence": _fence, "llvm.br": _br,
    "llvm.cond_br": _cond_br, "llvm.mlir.constant": _constant, "llvm.func": _func, "llvm.mlir.global": _global,
}
