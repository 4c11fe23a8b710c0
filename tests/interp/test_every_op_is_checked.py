"""For every op of the dialect, the test that compares the interpreter with something independent of it.

NumPy and ml_dtypes, `fractions`, or numbers worked out in the test. An op without a row here fails; so does a row whose
test is gone or doesn't use the op.
"""
from __future__ import annotations

import importlib
import inspect
import types as python_types

import pytest

from tileiras.dialects.cuda_tile.ops import OPS

ELEMENTWISE, ROUNDING, SHAPES, MEMORY, CONTROL, SPECIAL = (
    f"tests.interp.test_{name}" for name in
    ("elementwise_ops", "rounding", "shape_ops", "memory_ops", "control_ops", "special_values"))

CHECKED_BY: dict[str, tuple[str, str]] = {
    # Floats: NumPy and ml_dtypes; maths functions in long double; sums and products in exact fractions (ROUNDING)
    **dict.fromkeys(("AbsF", "NegF", "Ceil", "Floor", "MaxF", "MinF", "AddF", "SubF", "MulF", "DivF", "Sqrt", "RemF",
                     "CmpF", "Fma"), (SPECIAL, "test_floats_on_special_values")),
    **dict.fromkeys(("Exp", "Exp2", "Log", "Log2", "Sin", "Cos", "Tan", "SinH", "CosH", "TanH", "Rsqrt", "Pow", "Atan2"),
                    (SPECIAL, "test_maths_on_special_values")),
    "FPowI": (ELEMENTWISE, "test_maths_with_modes_and_two_operands"),
    # Integers: Python's, for every pair of bytes
    **dict.fromkeys(("AddI", "SubI", "MulI", "DivI", "RemI", "MaxI", "MinI", "AndI", "OrI", "XOrI", "ShLI", "ShRI",
                     "CmpI", "MulhiI"), (SPECIAL, "test_integers_on_all_bytes")),
    **dict.fromkeys(("AbsI", "NegI"), (SPECIAL, "test_single_integers_on_all_bytes")),
    # Conversions
    **dict.fromkeys(("ExtI", "TruncI", "FToI", "IToF", "Bitcast"), (ELEMENTWISE, "test_conversions")),
    "FToF": (ELEMENTWISE, "test_float_to_float"),
    **dict.fromkeys(("IntToPtr", "PtrToInt", "PtrToPtr", "Select"), (ELEMENTWISE, "test_select_and_pointer_casts")),
    **dict.fromkeys(("Pack", "Unpack"), (ELEMENTWISE, "test_four_bit_types_through_bytes")),
    # Shapes and aggregates
    **dict.fromkeys(("Broadcast", "Cat", "Permute", "Reshape"), (SHAPES, "test_reshape_broadcast_permute_cat")),
    **dict.fromkeys(("Extract", "Insert"), (SHAPES, "test_extract_and_insert_count_in_slices")),
    "Constant": (SHAPES, "test_splat_and_tf32_constants"),
    "Iota": (SHAPES, "test_iota_counts_unsigned"),
    "Assume": (SHAPES, "test_assumptions_are_checked"),
    **dict.fromkeys(("GetNumTileBlocks", "GetTileBlockId"), (SHAPES, "test_block_indices_and_assumptions")),
    "Reduce": (SHAPES, "test_reduce_along_any_axis"),
    "Scan": (SHAPES, "test_scan_hands_over_accumulator_then_element"),
    "MmaF": (SHAPES, "test_float_matrix_product"),
    "MmaI": (SHAPES, "test_integer_matrix_product_mixes_signedness"),
    "MmaFScaled": (SHAPES, "test_scaled_matrix_product"),
    # Memory
    "Alloca": (MEMORY, "test_alloca_is_private_memory_of_a_block"),
    "AtomicCASTko": (MEMORY, "test_compare_and_swap_compares_bits"),
    "AtomicRMWTko": (MEMORY, "test_atomic_updates_follow_one_another"),
    "AtomicRedViewTko": (MEMORY, "test_reduction_through_a_view_skips_what_lies_outside"),
    **dict.fromkeys(("GdcLaunchDependentsTko", "GdcWaitTko", "JoinTokens", "MakeToken", "MemoryFenceAliasTko"),
                    (MEMORY, "test_tokens_and_grid_dependencies_pass")),
    **dict.fromkeys(("GetGlobal", "Global"), (MEMORY, "test_globals_hold_their_values")),
    **dict.fromkeys(("GetIndexSpaceShape", "GetTensorShape"), (MEMORY, "test_shapes_of_views")),
    **dict.fromkeys(("LoadPtrTko", "StorePtrTko", "Offset"), (MEMORY, "test_masked_loads_and_stores")),
    **dict.fromkeys(("LoadViewTko", "MakePartitionView", "MakeTensorView", "MakeStridedView", "MakeGatherScatterView"),
                    (MEMORY, "loaded")),
    "StoreViewTko": (MEMORY, "stored"),
    # Control
    "Assert": (CONTROL, "test_assertions_name_the_elements"),
    **dict.fromkeys(("For", "Continue"), (CONTROL, "test_for_counts_in_its_type")),
    **dict.fromkeys(("Loop", "Break"), (CONTROL, "test_loop_ends_at_a_break_inside_an_if_and_skips_by_continue")),
    **dict.fromkeys(("If", "Yield", "Return"), (CONTROL, "test_if_yields_and_return_ends_the_block_even_inside_loops")),
    "PrintTko": (CONTROL, "printed"),
    # What holds a program: every test above
    **dict.fromkeys(("Module", "Entry"), ("tests.interp.build", "Kernel")),
}
"""By the op's class: module and function. A function that isn't a test itself is a helper that tests there call."""

HELPERS = {"loaded", "stored", "printed", "Kernel"}


def source_with_helpers(module: python_types.ModuleType, name: str, depth: int = 2) -> str:
    """A function's source, its decorators, and what it calls or names of its own module."""
    item = getattr(module, name)
    text = inspect.getsource(item)
    if depth:
        for other, found in vars(module).items():
            if other != name and other in text and inspect.isfunction(found) and found.__module__ == module.__name__:
                text += source_with_helpers(module, other, depth - 1)
            elif other in text and isinstance(found, (dict, list, tuple)) and other.isupper():
                text += repr(found)
    return text


def test_every_op_has_a_test() -> None:
    assert sorted(op.__name__ for op in OPS if op.__name__ not in CHECKED_BY) == []
    assert sorted(set(CHECKED_BY) - {op.__name__ for op in OPS}) == []


@pytest.mark.parametrize("op", sorted(CHECKED_BY))
def test_the_test_uses_the_op(op: str) -> None:
    module_name, function = CHECKED_BY[op]
    assert function.startswith("test_") or function in HELPERS
    source = source_with_helpers(importlib.import_module(module_name), function)
    cls = next(cls for cls in OPS if cls.__name__ == op)
    assert f"ops.{op}" in source or f"'{cls.__name__}'" in source or cls.__name__ in source
