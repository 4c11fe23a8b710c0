"""CuTe's layouts: functions from nested coordinates to indices, given by a shape and strides.

    tuples      nested tuples of integers, coordinates, indices
    algebra     Layout; coalesce, composition, complement, inverses
    tiling      divides, products, tiles and partitions
    swizzle     Swizzle(B, M, S), layouts followed by one
    f2          to and from the matrices of layout/linear.py and layout/shared.py

Shapes and strides are known numbers here; values known only when a kernel runs are leaves of the cute dialect's ops.
"""
from __future__ import annotations

from tileiras.layout.cute.algebra import Layout, parse_layout
from tileiras.layout.cute.swizzle import ComposedLayout, Swizzle
from tileiras.layout.cute.tuples import LayoutError

__all__ = ["ComposedLayout", "Layout", "LayoutError", "Swizzle", "parse_layout"]
