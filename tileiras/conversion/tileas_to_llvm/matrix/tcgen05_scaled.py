"""Block-scaled products into tensor memory: scale factors copied from shared memory by the tensor core, products by one thread.

    tensor_dot %a, %b, %d, %add, %sa, %sb, %factors
->  the first warp, where scales may be negative: their signs go to the elements that they scale
    one thread: tcgen05.cp of every piece of scale factors ; for each step of k, rows, columns: tcgen05.mma ... block_scale

Copies and products of one thread are done in order, so a product may follow its factors' copies at once, and the next copies to the
same columns follow the product. A step takes its factors from a byte of their word on, which the instruction descriptor names.
For a pair of CTAs (`.cg2`) a thread of the lower one copies and multiplies for both, from and to the same places in each.

The language's f8E4M3FN scales have a sign, the instruction's ue4m3 haven't. They seldom are negative: a warp looks at all of them,
and where one is, it negates the 16 elements which that scales, in shared memory, and takes the scale's sign away. Both together
stand for the same as before, so that who multiplies by both again finds nothing left to do.
"""
from __future__ import annotations

from itertools import product
from typing import Any

from xdsl.ir import SSAValue

from tileiras.analysis.warpgroup_dots import tile_of
from tileiras.conversion.tileas_to_llvm.builder import I32
from tileiras.conversion.tileas_to_llvm.lowering import Lowering
from tileiras.conversion.tileas_to_llvm.matrix.tensor_places import DISCARD, address
from tileiras.conversion.tileas_to_llvm.matrix.wgmma import Described, descriptor, first_word
from tileiras.conversion.tileas_to_llvm.shared.pipes import only_first, only_if
from tileiras.dialects.llvm import vec
from tileiras.dialects.nv_tileaa import int_values
from tileiras.layout.atoms.tensor_scaled import (
    LANES,
    PIECE_BYTES,
    PIECE_COLUMNS,
    PIECE_FACTORS,
    TensorScaledAtom,
    beside,
    column_of,
    pieces,
    units,
)
from tileiras.layout.atoms.umma import PAIR
from tileiras.layout.descriptors import matrix_descriptor
from tileiras.layout.linear import dim_bits, log2
from tileiras.layout.shared import CHUNK_BYTES, SharedLayout, canonical

COPY = "tcgen05.cp.32x128b_warpx4.cg"
_ROWS_OF_PIECE = canonical((LANES, CHUNK_BYTES), 8, 1, 0)
WORD_BYTES, WORDS_A_CHUNK = 4, CHUNK_BYTES // 4
SIGNS, MAGNITUDES, NIBBLE_SIGNS = 0x80808080, 0x7F7F7F7F, 0x88888888
"""Signs of four scales; what is left of them; signs of eight 4-bit elements."""
SIGN_BIT = 7
BLOCK_WORDS = 2
"""Words that the 16 packed elements of a block take."""


def multiply(low: Lowering, op: Any, atom: TensorScaledAtom) -> None:
    """Lower a block-scaled product."""
    if atom.has_signs:
        only_if(low, low.first_warp(), lambda: _give_signs_to_elements(low, op))
    only_first(low, atom.ctas == PAIR, lambda: _issue(low, op, atom))


def _issue(low: Lowering, op: Any, atom: TensorScaledAtom) -> None:
    """One thread's part: the copies and the products."""
    b = low.b
    *batch, m, n = int_values(op.acc.type.shape)
    over = units(atom, m, n, batch[0] if batch else 0)
    lhs, rhs = Described(low, op.lhs, 1, "tcgen05"), Described(low, op.rhs, 0, "tcgen05")
    scales = [_shape(v) for v in (op.lhs_scale, op.rhs_scale)]
    groups, rows = scales[0][-1] // PIECE_FACTORS, beside(atom.n)
    factors = low.scalar(op.factors)
    b.nvvm("tcgen05.fence.after.thread.sync")
    first = 0
    for v, shape, together in zip((op.lhs_scale, op.rhs_scale), scales, (1, rows)):
        form = matrix_descriptor(_ROWS_OF_PIECE, 1, "tcgen05")
        source = first_word(low, v, form)
        for piece in range(pieces(shape)):
            to = b.add(factors, b.i32(first + column_of(piece, groups, together)))
            word = b.add(source, b.i32(piece * PIECE_BYTES // CHUNK_BYTES))
            b.nvvm(f"{COPY}{atom.ctas}", [address(b, to), descriptor(b, word, form)])
        first += PIECE_COLUMNS * pieces(shape)
    of_b = PIECE_COLUMNS * pieces(scales[0])
    none, start = b.i32(0), low.scalar(op.acc)
    k = atom.elements * _shape(op.lhs)[-1]
    for step in range(k // atom.k):
        word = b.i32(atom.descriptor(step, lhs.transposed, rhs.transposed))
        group = step * atom.vectors // PIECE_FACTORS
        at_k = step * atom.k // atom.elements
        for z, i, j in product(*map(range, over)):
            row, column = z * over[1] + i, z * over[2] + j
            b.nvvm(atom.instruction, [
                address(b, b.add(start, b.i32(row * n + j * atom.n))),
                lhs.at(z, i * atom.rows, at_k, none), rhs.at(z, j * atom.n, at_k, none), word,
                low.scalar(op.add) if step == 0 else b.true(),
                address(b, b.add(factors, b.i32(PIECE_COLUMNS * (row * groups + group)))),
                address(b, b.add(factors, b.i32(of_b + PIECE_COLUMNS * (column * groups + group) * rows))),
                b.i32(atom.ctas), b.i32(DISCARD)])


def _shape(v: SSAValue) -> tuple[int, ...]:
    t: Any = v.type
    return t.layout.data.shape


# --- signs --------------------------------------------------------------------------------------------------------------


def _give_signs_to_elements(low: Lowering, op: Any) -> None:
    """The first warp's part: no scale is negative behind it."""
    b = low.b
    found = b.i32(0)
    for v in (op.lhs_scale, op.rhs_scale):
        for piece in range(pieces(_shape(v))):
            at = b.gep(low.scalar(v), b.add(b.mul(low.lane, b.i32(CHUNK_BYTES)), b.i32(PIECE_BYTES * piece)))
            for word in b.unpack(b.load(vec(WORDS_A_CHUNK, I32), at, CHUNK_BYTES)):
                found = b.or_(found, word)
    negative = b.icmp("ne", b.and_(found, b.i32(SIGNS)), b.i32(0))
    some = b.nvvm("vote.any.sync", [b.i32(-1), negative])[0]

    def move() -> None:
        b.nvvm("bar.warp.sync", [b.i32(-1)])        # lanes write what others have looked at
        for v, scale, k_dim in ((op.lhs, op.lhs_scale, 1), (op.rhs, op.rhs_scale, 0)):
            _move_signs(low, v, scale, k_dim)
        b.nvvm("fence.proxy.async.shared_cta")
        b.nvvm("bar.warp.sync", [b.i32(-1)])
    only_if(low, some, move)


def _move_signs(low: Lowering, elements: SSAValue, scale: SSAValue, k_dim: int) -> None:
    """A loop over the words of an operand's scales: a lane has a row's, four at a time."""
    b = low.b
    tile, layout = tile_of(elements), _layout(scale)
    rank = len(tile.shape)
    k_dim = rank - 2 + k_dim
    row_dim = 2 * rank - 3 - k_dim
    scale_fields, fields = dim_bits(layout.shape), dim_bits(tile.shape)

    def bases(of: SharedLayout, some: Any, d: int, first: int, count: int) -> list[int]:
        low_bit = some[d][0] + first
        return [of.bases[low_bit + i] for i in range(count)]
    row_bits, lane_bits = log2(tile.shape[row_dim]), min(log2(tile.shape[row_dim]), log2(LANES))
    group_bits = log2(layout.shape[k_dim] // PIECE_FACTORS)
    batch_bits = log2(tile.shape[0]) if rank > 2 else 0
    chunk = log2(CHUNK_BYTES)
    ways = []
    for of, some, group_first in ((layout, scale_fields, log2(PIECE_FACTORS)), (tile.layout, fields, chunk + 1)):
        lanes = bases(of, some, row_dim, 0, lane_bits)
        rest = bases(of, some, row_dim, lane_bits, row_bits - lane_bits) + bases(of, some, k_dim, group_first, group_bits)
        rest += bases(of, some, 0, 0, batch_bits) if rank > 2 else []
        ways.append((lanes, rest))
    count = 1 << len(ways[0][1])
    other = tile.layout.bases[fields[k_dim][0] + chunk]
    mine = [low.linear(low.lane, lanes) for lanes, _ in ways]
    body, done = b.new_block([I32]), b.new_block()
    if 1 << lane_bits < LANES:
        b.cond_br(b.icmp("ult", low.lane, b.i32(1 << lane_bits)), body, done, [b.i32(0)])
    else:
        b.br(body, [b.i32(0)])
    b.at(body)
    low.enter()
    number = body.args[0]
    offsets = [b.xor(at, low.linear(number, rest)) for at, (_, rest) in zip(mine, ways)]
    place = b.gep(low.scalar(scale), offsets[0])
    word = b.load(I32, place, WORD_BYTES)
    b.store(b.and_(word, b.i32(MAGNITUDES)), place, WORD_BYTES)
    flips = []
    for i in range(PIECE_FACTORS):
        sign = b.and_(b.lshr(word, 8 * i + SIGN_BIT), b.i32(1))
        flips += [b.mul(sign, b.i32(NIBBLE_SIGNS))] * BLOCK_WORDS
    for half in range(2):
        at = b.gep(low.scalar(elements), b.xor(offsets[1], b.i32(half * other)))
        old = b.unpack(b.load(vec(WORDS_A_CHUNK, I32), at, CHUNK_BYTES))
        new = [b.xor(x, flip) for x, flip in zip(old, flips[half * WORDS_A_CHUNK:])]
        b.store(b.pack(new), at, CHUNK_BYTES)
    following = b.add(number, b.i32(1))
    low.leave()
    b.cond_br(b.icmp("ult", following, b.i32(count)), body, done, [following])
    b.at(done)


def _layout(v: SSAValue) -> SharedLayout:
    t: Any = v.type
    return t.layout.data
