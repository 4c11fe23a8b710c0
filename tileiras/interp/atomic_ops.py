"""What the atomics mean: read-modify-write, compare-and-swap, reductions through views.

Every element is a transaction of its own. Elements of one op that meet at an address follow one another in the
order of the tile, one of the orders that the language allows.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tileiras.interp import floats, integers
from tileiras.interp.errors import InterpreterError
from tileiras.interp.formats import FloatFormat, Format, IntFormat
from tileiras.interp.memory import Memory, encode, garbage
from tileiras.interp.memory_ops import unsigned_index
from tileiras.interp.registry import Run, enum, meaning, tile_format
from tileiras.interp.views import TileView

Update = Callable[[Any, Any], Any]
_BITWISE: dict[str, Update] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "add": np.add}
_EXTREMA: dict[str, tuple[Update, str]] = {"max": (np.maximum, "signed"), "min": (np.minimum, "signed"),
                                           "umax": (np.maximum, "unsigned"), "umin": (np.minimum, "unsigned")}


def _always(op: Any) -> bool:
    return True


def update_function(mode: str, fmt: Format) -> Update:
    """The function (old, argument) -> new of a mode. Raises InterpreterError where the type has none such."""
    if mode == "xchg" and fmt.bits in (32, 64):
        return lambda old, new: new
    if mode == "addf" and isinstance(fmt, FloatFormat) and fmt.name in ("f16", "bf16", "f32", "f64"):
        return floats.arithmetic("add", fmt, "nearest_even", False)
    if isinstance(fmt, IntFormat) and fmt.bits in (32, 64):
        if mode in _BITWISE:
            return _BITWISE[mode]
        if mode in _EXTREMA:
            pick, signedness = _EXTREMA[mode]
            return lambda old, new: integers.wrap(pick(integers.valued(old, fmt, signedness),
                                                       integers.valued(new, fmt, signedness)), fmt)
    raise InterpreterError(f"atomic {mode} doesn't exist on {fmt.name}")


def in_turns(addresses: Any) -> list[Any]:
    """Positions of flat addresses in groups without repetition, each address's own in the tile's order."""
    order = np.argsort(addresses, kind="stable")
    ordered = addresses[order]
    fresh = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    if fresh.all():
        return [slice(None)]
    first = np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
    turn = np.arange(len(order)) - first
    by_turn = order[np.argsort(turn, kind="stable")]
    return np.split(by_turn, np.cumsum(np.bincount(turn))[:-1])


def apply(memory: Memory, addresses: Any, argument: Any, fmt: Format, mask: Any, update: Update) -> Any:
    """Do the updates; returns the old values, garbage where masked out. Shapes as the tile's."""
    shape = np.shape(addresses)
    flat = np.asarray(addresses, np.uint64).reshape(-1)
    values = np.broadcast_to(argument, shape).reshape(-1)
    old = garbage(flat.shape, fmt)
    chosen = np.arange(flat.size) if mask is None else np.nonzero(np.asarray(mask).reshape(-1))[0]
    if chosen.size:
        for turn in in_turns(flat[chosen]):
            at = chosen[turn]
            seen = memory.load(flat[at], fmt)
            old[at] = seen
            new = update(seen, values[at])
            changed = encode(new, fmt) != encode(seen, fmt)
            if changed.any():               # so that a spinning block can be told from one that gets on
                memory.store(flat[at], new, fmt, changed)
    return old.reshape(shape)


@meaning("atomic_rmw_tko", block=True, meets_others=_always)
def atomic_rmw_tko(op: Any) -> Run:
    fmt = tile_format(op.arg.type)
    update = update_function(enum(op.mode), fmt)

    def run(block: Any, pointers: Any, arg: Any, mask: Any, token: Any) -> Any:
        return apply(block.launch.memory, pointers, arg, fmt, mask, update)
    return run


@meaning("atomic_cas_tko", block=True, meets_others=_always)
def atomic_cas_tko(op: Any) -> Run:
    """Compares bits; a masked-out element gives its `cmp`."""
    fmt = tile_format(op.val.type)
    raw = {32: np.uint32, 64: np.uint64}.get(fmt.bits)
    if raw is None:
        raise InterpreterError(f"compare-and-swap doesn't exist on {fmt.name}")

    def run(block: Any, pointers: Any, cmp: Any, val: Any, mask: Any, token: Any) -> Any:
        shape = np.shape(pointers)
        pairs = np.empty(int(np.prod(shape, dtype=np.int64)), [("cmp", fmt.dtype), ("val", fmt.dtype)])
        pairs["cmp"], pairs["val"] = np.reshape(cmp, -1), np.reshape(val, -1)

        def swap(old: Any, pair: Any) -> Any:
            same = np.asarray(old).view(raw) == np.ascontiguousarray(pair["cmp"]).view(raw)
            return np.where(same, pair["val"], old)
        old = apply(block.launch.memory, pointers, pairs.reshape(shape), fmt, mask, swap)
        return old if mask is None else np.where(mask, old, cmp)
    return run


@meaning("atomic_red_view_tko", block=True, meets_others=_always)
def atomic_red_view_tko(op: Any) -> Run:
    fmt = tile_format(op.value.type)
    update = update_function(enum(op.mode), fmt)
    kinds = [v.type for v in op.index]

    def run(block: Any, view: TileView, index: tuple[Any, ...], value: Any, token: Any) -> Any:
        addresses, inside = view.elements(tuple(unsigned_index(i, t) for i, t in zip(index, kinds)))
        apply(block.launch.memory, addresses, value, fmt, inside, update)
    return run
