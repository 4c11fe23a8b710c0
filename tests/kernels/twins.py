"""Aligned twins of the suite's cases: the same kernels on arrays that asynchronous copies may take, many ring depths long.

    twin("gemm_f16_f32_ragged_k_twin")          # a case like any other, for runner and coverage
    python -m tests.kernels.twins               # tries every twin against its reference, and prints the table below

A twin is made from its case by rule. All its arrays are `pitched`: base and rows lie on multiples of 16 bytes, which the
signature says, and behind each row is a gap that nobody may write. Extents that bound a loop (the bytecode says which) grow
until it runs through several rings; extents of nothing else that are round lose a few elements, so that tiles stick out:
most twins' by 16 elements, which the signature tells as frontends do, some (`odd`) by 3.
Extents that were equal stay equal; whole-number arguments equal to one follow it, and so does the grid. Inputs are those
of the case, drawn as often as it takes to fill the arrays.

Not every kernel bears this: some count on rows without gaps, on extents that divide each other, or compare lengths with
constants. WEAKER names them with the strongest kind of twin whose outcome, by the interpreter, is what the reference says.
"""
from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import sys
import textwrap
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.kernels import runner
from tests.kernels.suite import Array, Case, Const, Scalar

SUFFIX = "_twin"
KINDS = ("deep", "long", "short", "even", "scaled", "cut", "pitched", "none")
"""From the strongest:
  deep     loops run over `TILES["deep"]` tiles and a rest, other round extents are cut
  long     the same loops, and nothing cut
  short    as deep, with fewer tiles
  even     loops over whole tiles (for loads that aren't padded), and nothing cut
  scaled   all extents SCALE times what they were (for extents that divide each other)
  cut      no loop runs longer, round extents are cut
  pitched  the case's extents, in rows with gaps
  none     not even that"""
TILES = {"deep": 5, "long": 5, "short": 3, "even": 6}
SCALE = 3
STICKS_OUT = 16
"""Elements that the last tile of an extent has, or lacks; of an odd twin ODD."""
ODD = 3
ODD_SHARE = 3
"""One case in so many has an odd twin."""
LEAST = 16
"""The shortest extent that is cut."""
DRAWS = 8
"""Draws of a case's inputs that a twin's are put together from, at most."""
SECONDS = 20
"""How long the interpreter may take for a twin."""


# ---------------------------------------------------------------------------------------------------------------------
# Which extents bound loops.

def _places(case: Case) -> dict[int, tuple[int, int]]:
    """Of the kernel's parameters those that are extents: (argument, dimension)."""
    places, at = {}, 0
    for i, a in enumerate(case.args):
        if isinstance(a, Array):
            rank = len(a.shape)
            places |= {at + 1 + d: (i, d) for d in range(rank)}
            at += 1 + 2 * rank
        elif isinstance(a, Scalar):
            at += 1
    return places


def _sources(value: Any, tile: int) -> Iterator[tuple[int, int]]:
    """The entry's parameters that a number comes from, each with the extent of the tiles that it is counted in (0: unknown)."""
    todo, seen = [(value, tile)], set()
    while todo:
        value, tile = todo.pop()
        if (value, tile) in seen:
            continue
        seen.add((value, tile))
        op = value.owner
        if not hasattr(op, "operands"):                     # a block's argument
            if op.parent_op().name == "cuda_tile.entry":
                yield value.index, tile
        elif op.name == "cuda_tile.get_index_space_shape":
            view = op.operands[0]
            kind = view.type
            made = view.owner.operands[0].owner if view.owner.operands else None
            if made is None or made.name != "cuda_tile.make_tensor_view" or not hasattr(kind, "dim_map"):
                continue
            dimension = list(op.results).index(value)
            along = kind.dim_map[dimension]
            dynamic = [d for d, n in enumerate(kind.tensor_view.shape) if not isinstance(n, int) or n < 0]
            if along in dynamic:
                todo.append((made.operands[1 + dynamic.index(along)], kind.tile_shape[dimension]))
        else:
            todo += [(operand, tile) for operand in op.operands]


def loop_extents(case: Case) -> dict[int, int]:
    """Extents that bound loops: {extent: the tile it is counted in}, a guess where the code doesn't show the tile."""
    from tileiras import bytecode
    places, found = _places(case), dict[int, int]()
    sizes = [a.value for a in case.args if isinstance(a, Const) and type(a.value) is int]
    for op in bytecode.read(runner.export_case(case)).walk():
        if op.name != "cuda_tile.for":
            continue
        for index, tile in itertools.chain(_sources(op.operands[0], 0), _sources(op.operands[1], 0)):
            if index not in places:
                continue
            argument, dimension = places[index]
            extent = case.args[argument].shape[dimension]      # type: ignore[union-attr]
            if not tile:
                known = [n for n in sizes if 8 <= n <= extent and n & (n - 1) == 0]
                tile = min(known, default=max(1, 1 << max(extent // 3, 1).bit_length() - 1))
            found[extent] = max(found.get(extent, 0), tile)
    return found


# ---------------------------------------------------------------------------------------------------------------------
# The rule.

def is_odd(case: Case) -> bool:
    """Whether tiles of the twin end within 16 elements: drawn by the name."""
    return zlib.crc32(case.name.encode()) % ODD_SHARE == 0


def new_extents(case: Case, kind: str) -> dict[int, int]:
    """What becomes of the case's extents."""
    extents = {n for a in case.args if isinstance(a, Array) for n in a.shape}
    loops = loop_extents(case) if kind in TILES or kind == "scaled" else {}
    beyond = ODD if is_odd(case) else STICKS_OUT
    changed = {}
    if kind == "scaled":
        return {n: n * SCALE for n in extents if n > 1} if loops else {}
    for extent, tile in loops.items():
        if extent > 1:
            rest = 0 if kind == "even" else beyond if beyond < tile else min(ODD, tile // 2)
            changed[extent] = max(TILES[kind] * tile, extent // tile * tile) + rest
    if kind in ("deep", "short", "cut"):
        for extent in extents - set(changed):
            if extent >= LEAST and extent % 8 == 0:
                changed[extent] = extent - (beyond if beyond < extent else ODD)
    return {old: new for old, new in changed.items() if old != new}


def _argument(a: Any, extents: dict[int, int]) -> Any:
    if isinstance(a, Array):
        if a.strides is not None:               # columns that lie together, say
            return dataclasses.replace(a, shape=tuple(extents.get(n, n) for n in a.shape),
                                       strides=tuple(extents.get(n, n) for n in a.strides))
        return dataclasses.replace(a, shape=tuple(extents.get(n, n) for n in a.shape), aligned=True, pitched=True)
    whole = type(a.value) is int and a.value in extents
    if isinstance(a, Scalar) and whole:
        return dataclasses.replace(a, value=extents[a.value])
    if isinstance(a, Const) and whole and a.value & (a.value - 1):      # powers of two are sizes of tiles
        return dataclasses.replace(a, value=extents[a.value])
    return a


def _axes(case: Case) -> set[int]:
    """Along which axes of the grid the kernel asks where a block is."""
    from tileiras import bytecode
    return {axis for op in bytecode.read(runner.export_case(case)).walk() if op.name == "cuda_tile.get_tile_block_id"
            for axis, result in enumerate(op.results) if result.uses}


def _grid(case: Case, extents: dict[int, int], wide: bool) -> tuple[int, int, int]:
    """The grid, where it counts the tiles of an extent that has changed. Where several explain the case's grid the least is taken,
    since tiles wholly outside an array aren't defined, or for a `wide` twin the largest."""
    every = {n: extents.get(n, n) for a in case.args if isinstance(a, Array) for n in a.shape if n > 1}
    sizes = [a.value for a in case.args if isinstance(a, Const) and type(a.value) is int and a.value > 1]
    counts = list(case.grid)
    for axis in _axes(case) if extents else ():
        count = case.grid[axis]
        tiles = [n for n in sizes if n >= LEAST] if count == 1 else [1, *sizes]
        found = [-(-new // n) for old, new in every.items() for n in tiles if -(-old // n) == count]
        counts[axis] = (max if wide else min)(found, default=count)
    return counts[0], counts[1], counts[2]


def _filled(draws: list[dict[int, np.ndarray]], i: int, shape: tuple[int, ...]) -> np.ndarray:
    """An input of the wanted shape out of draws of the case's own shape, side by side, the first one first."""
    part = np.asarray(draws[0][i])
    out = np.empty(shape, part.dtype)
    counts = [-(-n // max(m, 1)) for n, m in zip(shape, part.shape)]
    for number, at in enumerate(np.ndindex(*counts)):
        corner = tuple(slice(k * m, (k + 1) * m) for k, m in zip(at, part.shape))
        space = out[corner]
        space[...] = np.asarray(draws[number % len(draws)][i])[tuple(slice(0, n) for n in space.shape)]
    return out


def _inputs(case: Case, args: list[Any]) -> Callable[[np.random.Generator], dict[int, np.ndarray]]:
    def draw(rng: np.random.Generator) -> dict[int, np.ndarray]:
        pairs = [(a.shape, b.shape) for a, b in zip(case.args, args) if isinstance(a, Array) and math.prod(a.shape)]
        count = max((math.prod(-(-n // m) for n, m in zip(new, old)) for old, new in pairs), default=1)
        draws = [case.inputs(rng) for _ in range(min(count, DRAWS))]
        return {i: _filled(draws, i, args[i].shape) for i in draws[0]}
    return draw


def make(case: Case, kind: str, wide: bool = False) -> Case:
    """The case's twin of a kind."""
    extents = new_extents(case, kind)
    args = [_argument(a, extents) for a in case.args]
    return dataclasses.replace(case, name=case.name + SUFFIX, args=args, grid=_grid(case, extents, wide),
                               inputs=_inputs(case, args), tags=(*case.tags, "twin"))


@functools.cache
def twin(name: str) -> Case:
    """A twin by its name. Raises KeyError."""
    case = runner.cases()[name.removesuffix(SUFFIX)]
    kind = kind_of(case.name)
    if not name.endswith(SUFFIX) or kind == "none":
        raise KeyError(name)
    return make(case, kind, case.name in WIDE.split())


@functools.cache
def _weaker() -> dict[str, str]:
    return {name: kind for kind, names in WEAKER.items() for name in names.split()}


def kind_of(name: str) -> str:
    """Which kind of twin a case has."""
    return _weaker().get(name, KINDS[0])


def names() -> list[str]:
    """The names of all twins, in the suite's order."""
    return [name + SUFFIX for name in runner.cases() if kind_of(name) != "none"]


# ---------------------------------------------------------------------------------------------------------------------
# Which kernels bear which kind.

WIDE = """
attention_decode_split_keys_f16 mxfp8_e4m3_128x128x128 mxfp4_128x128x128 mxfp4_block16_64x64x64 nvfp4_128x64x128
gemm_e4m3_f32_128x128x64 moe_route_top6_of_64 moe_expert_gemm_bf16 dequant_gemm_int4_packed_bf16 dequant_gemm_codebook_f16
scaled_gemm_fp8_128_blocks
"""
"""Cases whose grid counts tiles of the extent that has the most."""

WEAKER: dict[str, str] = {
    "long": """
        swiglu_bf16_ragged_rows geglu_f16_ragged_rows atomic_add_int32 atomic_add_int64 atomic_add_uint32 atomic_add_uint64
        atomic_add_float32 atomic_add_float64 atomic_add_float16 atomic_add_bfloat16 atomic_max_int32 atomic_min_int32
        atomic_max_uint32 atomic_min_uint32 atomic_max_int64 atomic_min_int64 atomic_max_uint64 atomic_min_uint64
        atomic_and_int32 atomic_or_int32 atomic_xor_int32 atomic_and_uint64 atomic_or_uint64 atomic_xor_uint64
        atomic_2d_broadcast atomic_histogram atomic_claim atomic_cas_loop atomic_last_block atomic_orders_block
        atomic_orders_device atomic_orders_system atomic_raw_offsets atomic_view_add_float32 atomic_view_add_int32
        atomic_view_add_float16 atomic_view_add_bfloat16 atomic_view_add_float64 atomic_view_overlapping
        attention_decode_split_keys_f16 attention_decode_paged_bf16 cast_fp4 control_for_dynamic control_nested_for
        control_early_return control_if_expression_5 control_if_expression_6 control_if_expression_7 control_loop_carried_0
        control_loop_carried_1 control_loop_carried_9 control_loop_in_branch control_branch_in_loop_0 control_branch_in_loop_3
        control_branch_in_loop_8 control_static_iter conv1d_dense_dilated_f16 embedding_lookup_indexed_load_f16
        cache_store_rows_indexed_bf16 fft_64_by_matrix_f32 fft_256_two_factors_f32 fft_128_butterflies_f32
        ifft_128_butterflies_f32 gemm_tf32_rounded_ragged gemm_batched_bf16_ragged gemm_operator_f16 gemm_grouped_by_table
        histogram_256_direct_uint8 histogram_32_private_f32 gated_delta_rule_bf16 memory_3d_ragged memory_padding_infinity
        memory_padding_negative_infinity memory_padding_nan_float32 memory_padding_nan_float16 memory_padding_nan_float64
        memory_padding_int8 memory_padding_int64 memory_padding_bool memory_padding_float8_e4m3fn memory_order_store_3d
        memory_column_major_load memory_broadcast_stride memory_zero_stride_1d memory_slice memory_slice_store
        memory_foreign_int64 memory_tiled_view_broadcast memory_sliding_window memory_unchecked memory_orders memory_in_place
        memory_gather_rows memory_gather_unchecked memory_scatter_masked memory_advanced_load_float32
        memory_advanced_load_float16 memory_advanced_columns memory_advanced_store misc_pack_float32 misc_pack_int16
        misc_pack_float64 misc_pack_int8 misc_unpack_int32 misc_unpack_float16 misc_unpack_uint64 misc_nibbles misc_assert
        misc_global_constants misc_helper_functions misc_assume_divisible moe_align_to_tiles moe_expert_gemm_bf16_weighted
        moe_combine_f16_ragged softmax_across_blocks_join_f32 add_rms_norm_in_place_f16 quantize_blocks_fp8_f32
        quantize_mxfp8_f32 quantize_nvfp4_f32 reduce_sum_float32 reduce_sum_float64 reduce_sum_float16 reduce_sum_int32
        reduce_sum_int64 reduce_sum_int8 reduce_sum_uint16 reduce_large_tile reduce_sum_3d reduce_prod_float32
        reduce_prod_float64 reduce_prod_float16 reduce_prod_int32 reduce_prod_uint8 reduce_rounding reduce_minmax_float32
        reduce_minmax_float16 reduce_minmax_bfloat16 reduce_minmax_float64 reduce_minmax_int32 reduce_minmax_uint32
        reduce_minmax_int8 reduce_minmax_int64 reduce_minmax_nan_float32 reduce_minmax_nan_float16 reduce_argminmax_float32
        reduce_argminmax_int32 reduce_argminmax_float16 reduce_argminmax_uint8 reduce_argminmax_nan reduce_custom
        reduce_any_all reduce_tuple_moments reduce_tuple_payload reduce_tuple_logsumexp rope_halves_in_place_bf16
        rope_neighbours_f32_ragged rope_backward_f16 scan_cumsum_float32 scan_cumsum_float32_reverse scan_cumsum_float64
        scan_cumsum_float64_reverse scan_cumsum_float16 scan_cumsum_float16_reverse scan_cumsum_int32
        scan_cumsum_int32_reverse scan_cumsum_int64 scan_cumsum_int64_reverse scan_cumsum_uint8 scan_cumsum_uint8_reverse
        scan_cumprod_float32 scan_cumprod_int32 scan_rounding scan_cumsum_3d scan_custom scan_fill_forward scan_recurrence
        scan_recurrence_reverse shape_reshape_float32 shape_reshape_int8 shape_reshape_float16 shape_broadcast
        shape_extract_cat_float32 shape_extract_cat_uint8 shape_extract_dynamic shape_insert shape_interleave shape_arange
        shape_full shape_triangle_mask csr_times_matrix_f16 ell_times_vector_f64 coo_times_vector_atomic_f32
        block_sparse_times_matrix_bf16 box_blur_sliced_views_uint8 life_on_a_torus_int8 depth_to_space_f32""",
    "short": """
        attention_causal_ragged_bf16 conv2d_3x3_relu_f16 conv2d_stride2_bf16 embedding_bag_mean_f32""",
    "even": """
        gemm_scaled_residual_bf16 gemm_gated_pair_f16 gemm_split_k_last_adds gemm_rank_k_symmetric misc_hint_opt_level_0
        misc_hint_opt_level_1 misc_hint_opt_level_2 misc_hint_occupancy misc_hint_num_ctas misc_hint_worker_warps
        misc_hint_by_target""",
    "scaled": """
        mxfp8_e4m3_128x128x128 mxfp8_e5m2_weight_ragged mxfp4_128x128x128 mxfp4_block16_64x64x64 nvfp4_128x64x128
        nvfp4_ragged_rows gemm_e5m2_f32_64x128x128 dequant_gemm_int4_packed_bf16 dequant_gemm_codebook_f16
        scaled_gemm_fp8_128_blocks""",
    "cut": """
        attention_causal_d64_bf16 attention_causal_d128_grouped_f16 control_persistent layer_norm_backward_f16_ragged""",
    "pitched": """
        atomic_xchg_int32 atomic_xchg_float32 atomic_xchg_uint64 memory_scatter_float32 memory_scatter_int8 memory_scatter_int64
        attention_packed_sequences_f16 attention_dkdv_causal_d64_f16 attention_dq_causal_d64_f16
        attention_dkdv_ragged_d64_bf16 attention_dq_ragged_d64_bf16 attention_backward_atomic_dq_f16 mxfp8_e4m3_batched
        mxfp8_e4m3_interleaved_scales gemm_int8_b_ordered gemm_a_column_major_view moe_place_tokens csr_times_vector_f32
        frame_energy_overlapping_view""",
    "none": """
        memory_num_tiles memory_raw_offsets""",
}


@contextlib.contextmanager
def _tiles_outside() -> Iterator[list[str]]:
    """Collects what the interpreter accesses wholly outside of arrays meanwhile."""
    from tileiras.interp.views import TileView
    plain, found = TileView._box, list[str]()

    def watched(self: TileView, index: tuple[Any, ...], inbounds: tuple[bool, ...]) -> Any:
        box = plain(self, index, inbounds)
        if box is None:
            found.append(f"tile {[int(i) for i in index]} lies wholly outside of an array of {list(self.tensor.shape)}")
        return box
    TileView._box = watched                             # type: ignore[method-assign]
    try:
        yield found
    finally:
        TileView._box = plain                           # type: ignore[method-assign]


def verdict(case: Case) -> str:
    """What is wrong with a twin by the interpreter; empty if nothing is."""
    from tests.fuzz.programs import time_limit
    try:
        with time_limit(SECONDS), np.errstate(all="ignore"), _tiles_outside() as outside:
            found = runner.interpret_case(case)
    except Exception as error:              # a reference that doesn't take other extents, an access out of bounds
        return f"{type(error).__name__}: {error}".splitlines()[0][:150]
    return found.detail if not found.ok else outside[0] if outside else ""


MEET = ("moe_place_tokens", "atomic_xchg_int32", "atomic_xchg_float32", "atomic_xchg_uint64", "memory_scatter_float32",
        "memory_scatter_int8", "memory_scatter_int64")
"""Cases whose blocks write one place where an input names it twice, as padding does: these keep their extents."""


def choose(name: str) -> tuple[str, bool, list[str]]:
    """The strongest kind that a case bears, whether it's wide, and why not the ones before it."""
    case, reasons = runner.cases()[name], []
    for kind in KINDS[KINDS.index("pitched") if name in MEET else 0:-1]:
        for wide in (False, True):
            made = make(case, kind, wide)
            if wide and made.grid == make(case, kind).grid:
                break
            wrong = verdict(made)
            if not wrong:
                return kind, wide, reasons
            reasons.append(f"{kind}{' wide' if wide else ''}: {wrong}")
    return KINDS[-1], False, reasons


def _table(names: list[str], indent: str) -> str:
    return textwrap.fill(" ".join(names), 126, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def main() -> None:
    chosen: dict[str, list[str]] = {kind: [] for kind in KINDS}
    broad = []
    for name in sys.argv[1:] or runner.cases():
        kind, wide, reasons = choose(name)
        chosen[kind].append(name)
        broad += [name] * wide
        for reason in reasons:
            print(f"{name}: {reason}", file=sys.stderr, flush=True)
    print(f'WIDE = """\n{_table(broad, "")}\n"""')
    print("WEAKER: dict[str, str] = {")
    for kind in KINDS[1:]:
        print(f'    "{kind}": """\n{_table(chosen[kind], " " * 8)}""",')
    print("}")


if __name__ == "__main__":
    main()
