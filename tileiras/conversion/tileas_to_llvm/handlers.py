"""Which module holds which lowerings. A module is imported when a function first has one of its ops."""
from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

COMMON = ("control", "grid", "memory.loads_stores", "memory.views", "shape", "elementwise.int_ops", "elementwise.float_ops",
          "elementwise.casts", "elementwise.constants")
"""Modules that nearly every kernel needs, and those whose ops are too many to list."""

RARE: dict[str, tuple[str, ...]] = {
    "memory.atomics": ("atomic_rmw", "atomic_cas", "tiled_atomic_rmw"),
    "effects": ("assert", "gdc_wait", "gdc_launch_dependents", "fence_alias"),
    "collectives.printing": ("print",),
    "shared.buffers": ("alloc_tensor", "store_shared", "load_shared"),
    "shared.pipes": ("extract_slice", "create_pipeline", "producer_acquire", "producer_commit", "producer_tail",
                     "consumer_wait", "consumer_release", "fence_async"),
    "memory.async_copies": ("tiled_copy", "async_copy"),
    "shared.tma": ("tma_load", "tma_store", "store_wait", "prefetch_tma_desc"), "shared.built_maps": ("build_tma_desc",),
    "shared.launch_control": ("cancel_next_program_id", "is_valid_program_id"),
    "shared.convert_layout": ("convert_layout",),
    "collectives.reduce": ("reduce",),
    "collectives.scan": ("scan",),
    "matrix.dot": ("dot", "dot_scaled"), "matrix.wgmma": ("begin_flight", "async_dot", "dot_wait"),
    "matrix.tcgen05": ("tensor_dot", "load_tmem", "store_tmem", "scale_tmem", "add_tmem", "tmem_stage", "tmem_alloc", "tmem_base",
                       "tmem_free"),
    "elementwise.masks": ("mask_runs",), "memory.heap": ("dealloc",), "memory.settle": ("settle",),
    "agents": ("agent_switch",),
}
"""module -> the nv_tileas ops it lowers."""

_MODULE_OF = {f"nv_tileas.{op}": module for module, ops in RARE.items() for op in ops}
_loaded: set[str] = set()


def load(op_names: Iterable[str]) -> None:
    """Import the modules that lower ops of these names."""
    wanted = [*COMMON, *(_MODULE_OF[n] for n in op_names if n in _MODULE_OF)]
    if any(n.startswith("math.") for n in op_names):
        wanted.append("elementwise.math")
    for module in wanted:
        if module not in _loaded:
            import_module(f"tileiras.conversion.tileas_to_llvm.{module}")
            _loaded.add(module)
