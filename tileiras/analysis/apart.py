"""Do the tiles of a partition lie apart in memory?

Indices of a partition's tiles are apart; the places are, if no two elements of the array share one. Of strides that are positive
that is so if of any two dimensions one's stride is at least the other one's times its extent: then each is beyond all that the
dimensions further in can reach. A frontend lets any array be passed, also windows over one buffer that overlap, and orders the
stores to all of them by tokens; most strides are known to the launch only.
"""
from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.dialects.nv_tileaa import DYNAMIC, int_values

Amount = SSAValue | int


@dataclass(frozen=True)
class Below:
    """That `stride` is less than `inner` times `extent`."""

    stride: Amount
    inner: Amount
    extent: Amount

    def holds(self) -> bool | None:
        """Whether that is so; None if only the launch knows. An extent that isn't known is taken to be larger than 1."""
        if not isinstance(self.stride, int) or not isinstance(self.inner, int):
            return None
        if isinstance(self.extent, int):
            return self.stride < self.inner * self.extent
        return True if self.stride <= self.inner else None


Clash = tuple[Below, ...]
"""Elements share places if all of these hold."""


def clashes(maker: Any) -> list[Clash]:
    """In which ways elements of an array may share places, that aren't known not to."""
    t: Any = maker.results[0].type
    strides, sizes = iter(maker.strides), iter(maker.sizes)
    dims: list[tuple[Amount, Amount]] = [
        (next(strides) if s == DYNAMIC else s, next(sizes) if n == DYNAMIC else n)
        for s, n in zip(int_values(t.strides), int_values(t.shape))]
    ways: list[Clash] = [(Below(s, n, m), Below(n, s, k)) for (s, k), (n, m) in itertools.combinations(dims, 2)]
    ways += [(Below(s, 1, 1), Below(1, 1, n)) for s, n in dims]
    return [way for way in ways if not any(b.holds() is False for b in way)]


def maker_of(view: SSAValue) -> Any:
    """What makes the array of a partition, if it is one; None where it is chosen at run time."""
    tiling = view.owner
    maker = tiling.operands[0].owner if isinstance(tiling, Operation) and tiling.operands else None
    return maker if isinstance(maker, Operation) and maker.name.endswith(".make_memref") else None


def lies_apart(view: SSAValue) -> bool | None:
    """Whether no two elements of a view's array share a place; None if only the launch knows."""
    maker = maker_of(view)
    if maker is None:
        return None
    ways = clashes(maker)
    return False if any(all(b.holds() for b in way) for way in ways) else None if ways else True
