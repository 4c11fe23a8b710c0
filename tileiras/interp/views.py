"""Tensor views and the tile views into them: which elements of memory a tile at an index stands for.

A tile view gives each dimension of the tensor an element position for every tile coordinate along it:

    partition        index * tile + i
    strided          index * traversal_stride + i
    gather/scatter   index + i; along the sparse dimension index[i]

Elements whose position lies outside the tensor are padding on loads and skipped on stores. Tile dimension t runs along
tensor dimension dim_map[t]. Source: the type descriptions in cuda_tile's Types.td; the element-wise indices of
gather/scatter views are as the public cuTile frontend documents advanced indexing.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tileiras.interp.errors import InterpreterError
from tileiras.interp.formats import FloatFormat, Format
from tileiras.interp.memory import Memory, decode, encode, garbage
from tileiras.interp.rounding import round_to


@dataclass(frozen=True)
class Tensor:
    """A tensor view: base address, shape and strides in elements."""

    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    fmt: Format


@dataclass(frozen=True)
class TileView:
    """A tile view of a tensor. steps: elements from one tile to the next, by tile dimension; 1 in gather/scatter
    views, whose `sparse` is their sparse dimension. padding: the value outside, or None where it is undefined."""

    tensor: Tensor
    tile: tuple[int, ...]
    steps: tuple[int, ...]
    dim_map: tuple[int, ...]
    padding: str | None = None
    sparse: int | None = None

    def index_space(self) -> tuple[int, ...]:
        """The number of tiles along each dimension, partial ones included."""
        return tuple(-(-self.tensor.shape[d] // s) for d, s in zip(self.dim_map, self.steps))

    def load(self, memory: Memory, index: tuple[Any, ...], inbounds: tuple[bool, ...] = ()) -> Any:
        """The tile at `index` (an integer a dimension; an integer array along the sparse one)."""
        fmt = self.tensor.fmt
        if self.sparse is not None:
            addresses, inside = self._addresses(index)
            self._keep_promise(inside, inbounds)
            out = memory.load(addresses, fmt, inside)
            return out if inside.all() else np.where(inside, out, self._outside(fmt))
        box = self._box(index, inbounds)
        if box is None:
            return np.array(np.broadcast_to(self._outside(fmt), self.tile))
        address, steps, place = box
        shape = tuple(s.stop - s.start for s in place)
        inner = decode(memory.window(address, steps, shape, fmt, False).copy(), fmt)
        if shape == self.tile:
            return inner
        out = np.array(np.broadcast_to(self._outside(fmt), self.tile))
        out[place] = inner
        return out

    def store(self, memory: Memory, index: tuple[Any, ...], value: Any, inbounds: tuple[bool, ...] = ()) -> None:
        """Write the part of the tile that lies inside the tensor."""
        fmt = self.tensor.fmt
        if self.sparse is not None:
            addresses, inside = self._addresses(index)
            self._keep_promise(inside, inbounds)
            memory.store(addresses, value, fmt, inside)
            return
        box = self._box(index, inbounds)
        if box is not None:
            address, steps, place = box
            part = np.asarray(value)[place]
            memory.window(address, steps, part.shape, fmt, True)[...] = encode(part, fmt)
            memory.writes += 1

    def elements(self, index: tuple[Any, ...]) -> tuple[Any, Any]:
        """(addresses, inside) of every element of the tile."""
        return self._addresses(index)

    def _positions(self, index: tuple[Any, ...]) -> list[Any]:
        """Element positions along the tensor dimension of each tile dimension; int64 [tile size]."""
        out = []
        for t, (i, n, step) in enumerate(zip(index, self.tile, self.steps)):
            if t == self.sparse:
                out.append(np.asarray(i).astype(np.int64))
            else:
                out.append(min(int(i) * step, 1 << 62) + np.arange(n, dtype=np.int64))
        return out

    def _addresses(self, index: tuple[Any, ...]) -> tuple[Any, Any]:
        rank = len(self.tile)
        offset: Any = np.zeros(self.tile, np.uint64)
        inside: Any = np.ones(self.tile, np.bool_)
        for t, positions in enumerate(self._positions(index)):
            d = self.dim_map[t]
            along = [1] * rank
            along[t] = -1
            inside = inside & ((positions >= 0) & (positions < self.tensor.shape[d])).reshape(along)
            offset = offset + (positions.astype(np.uint64) * np.uint64(self.tensor.strides[d] % 2 ** 64)).reshape(along)
        return np.uint64(self.tensor.base) + offset * np.uint64(self.tensor.fmt.bytes), inside

    def _box(self, index: tuple[Any, ...], inbounds: tuple[bool, ...]) -> Any:
        """(address, byte steps, slices of the tile) of the part inside the tensor, or None if there is none."""
        address, steps, place = self.tensor.base, [], []
        for t, (i, n, step) in enumerate(zip(index, self.tile, self.steps)):
            d = self.dim_map[t]
            start, extent = int(i) * step, self.tensor.shape[d]
            stop = min(n, extent - start)
            if stop < n and t < len(inbounds) and inbounds[t]:
                self._broken_promise(t)
            if stop <= 0:
                return None
            stride = self.tensor.strides[d] * self.tensor.fmt.bytes
            address += start * stride
            steps.append(stride)
            place.append(slice(0, stop))
        return address, tuple(steps), tuple(place)

    def _outside(self, fmt: Format) -> Any:
        if self.padding is None:
            return garbage((), fmt)
        value = {"zero": 0.0, "neg_zero": -0.0, "nan": np.nan, "pos_inf": np.inf, "neg_inf": -np.inf}[self.padding]
        if isinstance(fmt, FloatFormat) and fmt.codes is not None:
            return round_to(np.array(value), fmt)
        return np.array(value, np.float64).astype(fmt.dtype)

    def _keep_promise(self, inside: Any, inbounds: tuple[bool, ...]) -> None:
        if any(inbounds) and all(inbounds) and not inside.all():
            self._broken_promise(0)

    def _broken_promise(self, dimension: int) -> None:
        raise InterpreterError(f"the tile leaves the tensor along dimension {dimension}, which 'inbounds' rules out")
