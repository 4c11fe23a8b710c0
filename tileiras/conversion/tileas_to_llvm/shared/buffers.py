"""Buffers in shared memory: where they start, and registers into and out of them, by accesses that `layout/shared.py` plans."""
from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.conversion.tileas_to_llvm.lowering import Lowering, bits_of, lowers, storage_type
from tileiras.conversion.tileas_to_llvm.registers import from_plain, plain_type, to_plain
from tileiras.conversion.tileas_to_llvm.shared import accesses
from tileiras.conversion.tileas_to_llvm.shared.matrices import load_matrices, matrices_of, store_matrices
from tileiras.dialects.nv_tileas import TmemType
from tileiras.layout.linear import LinearLayout, dim_bits, log2
from tileiras.layout.operands import ldmatrix_plan
from tileiras.layout.shape_rules import embed, slice_bits
from tileiras.layout.shared import Access, SharedLayout, access
from tileiras.layout.slices import of_parts, single


@lowers("nv_tileas.alloc_tensor")
def alloc_tensor(low: Lowering, op: Operation) -> None:
    if isinstance(op.results[0].type, TmemType):
        from tileiras.conversion.tileas_to_llvm.matrix.tcgen05 import accumulator
        low.set(op.results[0], accumulator(low, op))
    else:
        low.set(op.results[0], low.shared_ptr(op))


def _sliced(op: Operation, shape: tuple[int, ...], buffer: SharedLayout) -> tuple[SharedLayout, tuple[int, ...], int]:
    """For a store of one slice of a tile: the buffer's offsets over the whole tile's index, the index bits that number
    the slices, and the slice's number. `slice` = (dimension, number, count)."""
    dim, number, count = (x.data for x in op.properties["slice"].data)  # type: ignore[attr-defined]
    low, bits = dim_bits(shape)[dim]
    cut = log2(count)
    end = low + bits - cut
    bases = (*buffer.bases[:end], *[0] * cut, *buffer.bases[end:])
    return SharedLayout(shape, bases), tuple(1 << end + i for i in range(cut)), number


def _layout_in(low: Lowering, v: SSAValue, buffer: SharedLayout) -> LinearLayout:
    """The layout of a tensor, or of a scalar that all threads hold, over the buffer's index."""
    threads = LinearLayout(buffer.shape, (), (0,) * 5, (0,) * log2(low.num_warps))
    layout = low.layout(v) if isinstance(v.type, TensorType) else single(threads)
    return layout if layout.shape == buffer.shape else embed(layout, buffer.shape)


def _round(low: Lowering, op: Operation) -> tuple[tuple[int, ...], accesses.Round]:
    """The masks that number the rounds, and which round takes part: `round`, or `round | number`."""
    properties: dict[str, Any] = op.properties
    if "rounds" not in properties:
        return (), 0
    masks = tuple(m.data for m in properties["rounds"].data)
    fixed = properties["round"].data
    number = op.number  # type: ignore[attr-defined]
    return masks, fixed if number is None else low.b.or_(low.scalar(number), low.b.i32(fixed))


def _plan(low: Lowering, op: Operation, v: SSAValue, buffer: SharedLayout) -> tuple[Access, accesses.Round]:
    elem_bytes = max(1, bits_of(low.element(v)) // 8)
    if "slice" in op.properties:
        layout = low.layout(v)
        shared, rounds, number = _sliced(op, layout.shape, buffer)
        return access(layout, shared, elem_bytes, rounds), number
    if "part" in op.properties:
        layout = low.layout(v)
        bits = slice_bits(buffer.shape, layout.shape)
        return access(of_parts(layout, buffer.shape), buffer, elem_bytes, bits), op.properties["part"].data   # type: ignore
    rounds, wanted = _round(low, op)
    return access(_layout_in(low, v, buffer), buffer, elem_bytes, rounds), wanted


@lowers("nv_tileas.store_shared")
def store_shared(low: Lowering, op: Operation) -> None:
    source, buffer = op.operands[:2]
    is_tensor = isinstance(source.type, TensorType)
    if is_tensor and not {"slice", "rounds", "part", "owners"} & op.properties.keys():
        matrices = matrices_of(low, low.layout(source), buffer.type.layout.data, bits_of(low.element(source)) // 8)  # type: ignore
        if matrices is not None:
            store_matrices(low, to_plain(low.b, low.vec(source)), matrices, low.scalar(buffer))
            return
    if "turned" in op.properties:
        from tileiras.conversion.tileas_to_llvm.shared.turned_bytes import store_turned  # few kernels have such

        store_turned(low, op)
        return
    plan, wanted = _plan(low, op, source, buffer.type.layout.data)  # type: ignore[attr-defined]
    only = None
    if "owners" in op.properties:
        only = low.owner_predicate(low.layout(source)) if is_tensor else low.first_thread()
    v = to_plain(low.b, low.vec(source) if is_tensor else low.b.splat(low.scalar(source), 1))
    if "part" in op.properties:
        v = _among_parts(low, v, wanted, prod(buffer.type.layout.data.shape) // prod(low.layout(source).shape))  # type: ignore
    accesses.write(low, v, plan, low.scalar(buffer), wanted, only)


def _among_parts(low: Lowering, v: SSAValue, number: int, count: int) -> SSAValue:
    """The registers of a tile's parts, of which there is one."""
    others = low.b.poison(v.type)
    return low.b.concat([v if n == number else others for n in range(count)])


@lowers("nv_tileas.load_shared")
def load_shared(low: Lowering, op: Operation) -> None:
    buffer, result = op.operands[0], op.results[0]
    t = storage_type(low.element(result))
    if "matrices" in op.properties:
        shared, size = buffer.type.layout.data, max(1, bits_of(low.element(result)) // 8)  # type: ignore[attr-defined]
        matrices = ldmatrix_plan(low.layout(result), shared, size, low.target.has_ldmatrix_bytes)
        if low.target.has_ldmatrix and matrices is not None:
            low.set(result, from_plain(low.b, load_matrices(low, matrices, low.scalar(buffer), size, plain_type(t)), t))
            return
    plan, wanted = _plan(low, op, result, buffer.type.layout.data)  # type: ignore[attr-defined]
    into = op.into  # type: ignore[attr-defined]
    old = None
    if into is not None:
        old = to_plain(low.b, low.vec(into) if isinstance(into.type, TensorType) else low.b.splat(low.scalar(into), 1))
    base = low.scalar(buffer)
    if "peer" in op.properties:
        peer: Any = op.properties["peer"]
        rank = low.b.nvvm("read.ptx.sreg.cluster.ctarank")[0]
        base = low.b.nvvm("mapa.shared.cluster", [base, low.b.xor(rank, low.b.i32(peer.data))])[0]
    out = from_plain(low.b, accesses.read(low, plain_type(t), plan, base, wanted, old), t)
    low.set(result, out if isinstance(result.type, TensorType) else low.b.extract(out, 0))
