"""How each op of cuda_tile is written: one row an op, read by the printer and by the parser.

A row is the op's name and its format, in the spirit of MLIR's assembly formats:

    word , -> [ ]       itself; a space goes before it but where punctuation takes none, and `_` takes away the next
    $x                  the operand group or the attribute `x`
    %x                  an enumeration's bare mnemonic
    T(x)                the types of operand or result group `x`; T1(x): the type of its first value, for all of them
    rounding(x,d,m)     ` rounding<mode>` unless the mode is `d`; the parser takes the modes of the set `m`
    ordering(s,c)       memory ordering `s` and scope `c`, together
    mixed(x,y)          `[4, %0]`: static extents from the result type's `y`, dynamic ones from operand group `x`
    body(x)             a region whose terminator without operands goes unwritten
    args_body(x)        a region with its arguments before it
    dense, visibility, predicate, hints(x), signature, iter(x)    as their functions say
    { ... $x ... }?     written if the first `$x` in it is there
    attr-dict           other attributes, in braces

Source: the `assemblyFormat` and custom printers of public `Ops.td` and `CudaTile.cpp`; 13.4's ops as the reference
disassembler shows them.
"""
from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

_UNARY = "$source attr-dict : T(result)"
_BINARY = "$lhs , $rhs attr-dict : T(result)"
_XY = "$x , $y attr-dict : T(result)"
_UNARY_FTZ = "$source { flush_to_zero $flush_to_zero }? attr-dict : T(result)"
_IEEE = "rounding(rounding_mode,nearest_even,ieee)"
_BINARY_ROUNDED = f"$lhs , $rhs {_IEEE} {{ flush_to_zero $flush_to_zero }}? attr-dict : T(result)"
_MIN_MAX_F = "$lhs , $rhs oilist(flush_to_zero,propagate_nan) attr-dict : T(result)"
_OVERFLOW = "{ overflow _ $overflow }?"
_BINARY_WRAPPING = f"$lhs , $rhs {_OVERFLOW} attr-dict : T(result)"
_BINARY_SIGNED = "$lhs , $rhs %signedness attr-dict : T(result)"
_CONVERSION = "attr-dict : T(source) -> T(result)"
_OPERANDS = "attr-dict { $operands : T(operands) }?"
_TOKEN = "{ token _ = _ $token }?"
_SPACED_TOKEN = "{ token = $token }?"
_HINTS = "{ optimization_hints = hints($optimization_hints) }?"
_BOUNDS = "{ inbounds = flags($inbounds) }?"

_TABLE: dict[str, str] = {
    # Floats
    "absf": _UNARY, "ceil": _UNARY, "cos": _UNARY, "cosh": _UNARY, "floor": _UNARY, "log": _UNARY, "log2": _UNARY,
    "negf": _UNARY, "sin": _UNARY, "sinh": _UNARY, "tan": _UNARY, "exp2": _UNARY_FTZ, "rsqrt": _UNARY_FTZ,
    "exp": "$source rounding(rounding_mode,full,full) attr-dict : T(result)",
    "tanh": "$source rounding(rounding_mode,full,full) attr-dict : T(result)",
    "sqrt": "$source rounding(rounding_mode,nearest_even,sqrt) { flush_to_zero $flush_to_zero }? attr-dict : T(result)",
    "addf": _BINARY_ROUNDED, "subf": _BINARY_ROUNDED, "mulf": _BINARY_ROUNDED, "remf": _BINARY,
    "divf": "$lhs , $rhs rounding(rounding_mode,nearest_even,div) { flush_to_zero $flush_to_zero }? "
            "attr-dict : T(result)",
    "maxf": _MIN_MAX_F, "minf": _MIN_MAX_F, "atan2": _XY,
    "pow": "$source , $exponent attr-dict : T(result)",
    "fpowi": "$source , $exponent attr-dict : T(source) , T(exponent)",
    "fma": f"$lhs , $rhs , $acc {_IEEE} {{ flush_to_zero $flush_to_zero }}? attr-dict : T(result)",
    "cmpf": "%comparison_predicate %comparison_ordering $lhs , $rhs attr-dict : T(lhs) -> T(result)",
    "mmaf": "$lhs , $rhs , $acc { fast_acc $fast_acc }? attr-dict : T(lhs) , T(rhs) , T(acc)",
    "mmaf_scaled": "$lhs , $rhs , $acc , $lhs_scale , $rhs_scale attr-dict : "
                   "T(lhs) , T(rhs) , T(acc) , T(lhs_scale) , T(rhs_scale)",
    # Integers
    "absi": _UNARY, "negi": f"$source {_OVERFLOW} attr-dict : T(result)",
    "addi": _BINARY_WRAPPING, "subi": _BINARY_WRAPPING, "muli": _BINARY_WRAPPING, "shli": _BINARY_WRAPPING,
    "andi": _BINARY, "ori": _BINARY, "xori": _BINARY, "mulhii": _XY,
    "maxi": _BINARY_SIGNED, "mini": _BINARY_SIGNED, "remi": _BINARY_SIGNED, "shri": _BINARY_SIGNED,
    "divi": "$lhs , $rhs %signedness { rounding _ $rounding }? attr-dict : T(result)",
    "cmpi": "%comparison_predicate $lhs , $rhs , %signedness attr-dict : T(lhs) -> T(result)",
    "mmai": "$lhs , $rhs , $acc %signedness_lhs %signedness_rhs attr-dict : T(lhs) , T(rhs) , T(acc)",
    "select": "$cond , $val_if_true , $val_if_false attr-dict : T(cond) , T(result)",
    # Conversions
    "bitcast": f"$source {_CONVERSION}", "int_to_ptr": f"$source {_CONVERSION}",
    "ptr_to_int": f"$source {_CONVERSION}", "ptr_to_ptr": f"$source {_CONVERSION}",
    "exti": "$from %signedness attr-dict : T(from) -> T(to)",
    "trunci": f"$from {_OVERFLOW} attr-dict : T(from) -> T(to)",
    "ftof": "$from rounding(rounding_mode,nearest_even,ftof) attr-dict : T(from) -> T(to)",
    "ftoi": "$from %signedness rounding(rounding_mode,nearest_int_to_zero,integer) { saturating $saturating }? "
            "attr-dict : T(from) -> T(to)",
    "itof": f"$from %signedness {_IEEE} attr-dict : T(from) -> T(to)",
    # Tiles
    "assume": "predicate , $value attr-dict : T(value)",
    "broadcast": f"$source {_CONVERSION}", "reshape": f"$source {_CONVERSION}",
    "pack": f"$source {_CONVERSION}", "unpack": f"$source {_CONVERSION}",
    "cat": "$lhs , $rhs dim = $dim attr-dict : T(lhs) , T(rhs) -> T(result)",
    "constant": "dense attr-dict",
    "extract": f"$source [ $indices ] {_CONVERSION}",
    "insert": "$source , $destination [ $indices ] attr-dict : T(source) , T(destination)",
    "get_num_tile_blocks": "attr-dict : T(gridSize_x)",
    "get_tile_block_id": "attr-dict : T(blockId_x)",
    "iota": "attr-dict : T(result)",
    "permute": f"$source $permutation {_CONVERSION}",
    "reduce": "$operands attr-dict dim _ = _ $dim identities _ = _ $identities : T(operands) -> T(results) "
              "args_body(body)",
    "scan": "$operands attr-dict dim _ = _ $dim reverse _ = _ $reverse identities _ = _ $identities : "
            "T(operands) -> T(results) args_body(body)",
    # Memory
    "alloca": "num_elem = $num_elem , alignment = $alignment { global $global }? attr-dict : T(result)",
    "atomic_cas_tko": f"%memory_ordering_semantics %memory_scope $pointers , $cmp , $val {{ , $mask }}? {_TOKEN} "
                      "attr-dict : T(pointers) , T(val) { , T(mask) }? -> T(result) , T(result_token)",
    "atomic_rmw_tko": f"%memory_ordering_semantics %memory_scope $pointers , %mode , $arg {{ , $mask }}? {_TOKEN} "
                      "attr-dict : T(pointers) , T(arg) { , T(mask) }? -> T(result) , T(result_token)",
    "atomic_red_view_tko": f"ordering(red) $view [ $index ] , %mode , $value {_SPACED_TOKEN} {_BOUNDS} attributes-dict : "
                           "T(value) , T(view) index_types -> T(result_token)",
    "gdc_launch_dependents_tko": f"{_SPACED_TOKEN} attr-dict -> T(result_token)",
    "gdc_wait_tko": f"{_SPACED_TOKEN} attr-dict -> T(result_token)",
    "memory_fence_alias_tko": "$token attr-dict",
    "get_global": "$name attr-dict : T(result)",
    "get_index_space_shape": "$src attr-dict : T(src) -> T1(result)",
    "get_tensor_shape": "$src attr-dict : T(src) -> T1(result)",
    "join_tokens": "$tokens attr-dict : T(result)",
    "load_ptr_tko": f"%memory_ordering_semantics {{ %memory_scope }}? $source {{ , $mask }}? {{ , $paddingValue }}? "
                    f"{_TOKEN} {_HINTS} attr-dict : T(source) {{ , T(mask) }}? {{ , T(paddingValue) }}? -> "
                    "T(result) , T(result_token)",
    "load_view_tko": f"ordering(view) $view [ $index ] {_SPACED_TOKEN} {_HINTS} {_BOUNDS} attributes-dict : "
                     "T(view) index_types -> T(tile) , T(result_token)",
    "make_tensor_view": "$base , shape = mixed(dynamicShape,shape) , strides = mixed(dynamicStrides,strides) "
                        "attr-dict : view_index T(result)",
    "make_partition_view": "$tensor_view attr-dict : T(result)",
    "make_strided_view": "$tensor_view attr-dict : T(result)",
    "make_gather_scatter_view": "$tensor_view attr-dict : T(result)",
    "make_token": "attr-dict : T(result)",
    "offset": "$ptr , $offset attr-dict : T(ptr) , T(offset) -> T(result)",
    "store_ptr_tko": f"%memory_ordering_semantics {{ %memory_scope }}? $destination , $value {{ , $mask }}? {_TOKEN} "
                     f"{_HINTS} attr-dict : T(destination) , T(value) {{ , T(mask) }}? -> T(result_token)",
    "store_view_tko": f"ordering(view) $tile , $view [ $index ] {_SPACED_TOKEN} {_HINTS} {_BOUNDS} attributes-dict : "
                      "T(tile) , T(view) index_types -> T(result_token)",
    # Structure
    "assert": "$condition , $message attr-dict : T(condition)",
    "print_tko": f"$str {{ , $args }}? {_TOKEN} attr-dict {{ : T(args) }}? -> T(result_token)",
    "break": _OPERANDS, "continue": _OPERANDS, "return": _OPERANDS, "yield": _OPERANDS,
    "if": "$condition { -> ( T(results) ) }? body(thenRegion) { else body(elseRegion) }? attr-dict",
    "for": "for_head body(region) attr-dict",
    "loop": "loop_head body(region) attr-dict",
    "global": "visibility { constant $constant }? $sym_name { alignment = $alignment }? attr-dict dense",
    "entry": "signature { optimization_hints _ = _ hints($optimization_hints) }? entry_body attr-dict",
    "module": "$sym_name attributes-dict module_body",
}


class Element(NamedTuple):
    """One element: kind "word", "$", "%", "group" or a directive's name; its arguments; whether a space goes before."""

    kind: str
    arguments: tuple[str, ...]
    space: bool
    group: tuple[Element, ...] = ()


_DIRECTIVE = re.compile(r"(\w[\w-]*)\(([^()]*)\)$")
_BARE_DIRECTIVES = frozenset(("dense", "visibility", "predicate", "index_types", "view_index", "for_head", "loop_head",
                              "signature", "entry_body", "module_body", "attr-dict", "attributes-dict"))
_SELF_SPACED = frozenset(("attr-dict", "attributes-dict", "index_types", "oilist", "args_body", "view_index"))
"""Directives that write their own leading space, since they may write nothing."""


@cache
def format_of(name: str) -> tuple[Element, ...] | None:
    """The elements of an op's format, by its name without `cuda_tile.`; None where the dialect has no such op."""
    text = _TABLE.get(name)
    if text is None:
        return None
    elements, _, _, _ = _read(text.split(), 0, True, False)
    return elements


def op_names() -> tuple[str, ...]:
    return tuple(_TABLE)


def _read(words: list[str], i: int, space: bool, after_punctuation: bool
          ) -> tuple[tuple[Element, ...], int, bool, bool]:
    """Elements up to the end or a closing `}?`; MLIR's rules for spaces between them."""
    elements: list[Element] = []
    while i < len(words):
        word = words[i]
        i += 1
        if word == "}?":
            break
        if word == "_":
            space = False
        elif word == "{":
            group, i, space, after_punctuation = _read(words, i, space, after_punctuation)
            elements.append(Element("group", (), False, group))
        else:
            element = _element(word, space, after_punctuation)
            elements.append(element)
            if element.kind == "word":
                space = word not in ("<", "(", "{", "[")
                after_punctuation = not word[0].isalpha()
            elif element.kind not in _SELF_SPACED:
                space, after_punctuation = True, False
    return tuple(elements), i, space, after_punctuation


def _element(word: str, space: bool, after_punctuation: bool) -> Element:
    if word[0] in "$%" and len(word) > 1:
        return Element(word[0], (word[1:],), space)
    if word in _BARE_DIRECTIVES:
        return Element(word, (), space)
    directive = _DIRECTIVE.match(word)
    if directive:
        return Element(directive[1], tuple(directive[2].split(",")), space)
    if space and len(word) == 1 and not word.isalnum():
        space = word not in (")>}]," if after_punctuation else "<>(){}[],")
    return Element("word", (word,), space)
