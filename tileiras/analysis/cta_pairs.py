"""Which products may a pair of CTAs multiply together (`tcgen05.mma.cta_group::2`)?

Each CTA of a pair has half of the tile's rows (its own of A and of the accumulator) and half of B's columns; the tensor cores of
both read both halves of B, so that neither CTA loads what the other one has. Of a block-scaled product each has the scales of its
rows and of all columns, in pieces as tcgen05.cp takes them. All of a kernel's products go so, or none: an instruction of another
group isn't allowed beside. One thread begins the products of both CTAs, and threads of two agents in two CTAs don't meet. So the
products have to be those of loops that run once, or of one in a loop over tiles, whose operands the copy engine brings where the
loop wants them, and whose sums nobody sees before its end.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xdsl.ir import BlockArgument, Operation, SSAValue

from tileiras.analysis.access_facts import view_facts
from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.cta_axes import extents, mnemonic
from tileiras.analysis.entry_hints import worker_warps
from tileiras.analysis.host_values import host_value
from tileiras.analysis.reshapes import index_bits, kept
from tileiras.analysis.tma import LEAVES, MapFacts, is_unwritten, map_facts, rounded_by
from tileiras.analysis.warpgroup_dots import is_zero
from tileiras.dialects.element import element_bytes, element_name
from tileiras.dialects.nv_tileaa import int_values
from tileiras.layout.atoms import umma
from tileiras.layout.atoms.umma import COLUMNS, GROUP_WARPS, LANES, MAX_N, PAIR, UmmaAtom
from tileiras.layout.shared import CHUNK_BYTES, GROUP_ROWS

if TYPE_CHECKING:
    from tileiras.layout.atoms.tensor_scaled import TensorScaledAtom

PRODUCTS = ("dot", "dot_scaled")
SWITCHES = ("tcgen05", "tma", "pipelines", "agents", "pairs")
MATRIX, ACC = 2, 2
"""Dimensions of a matrix; which operand of a product it adds to, with those of the matrices in front and their scales' behind."""
SAME = ("permute", "view")
"""Ops that give the same elements at other places."""
LEAST_FOLDED = 256
"""Columns of a pair's product with 64 rows a CTA. Predicted for a B200, f16 products of 4096: tiles of 128 x 256 take 107.7 us by
pairs, 112.3 by CTAs of 128 x 128 each; tiles of 128 x 128 take 124.6 by pairs, and 118.8 whole."""
MOST_OPERANDS = 64 * 1024
"""Bytes of a CTA's operands for one step: three stages of so many fit its shared memory."""


class Pairs:
    """What stands against a function's products by pairs (`obstacle`), whatever is split; without, `takes` says which parts do."""

    def __init__(self, func: Operation, context: Any) -> None:
        self.func, self.target = func, context.target
        self.products = [op for op in func.walk() if mnemonic(op) in PRODUCTS]
        self.axis: AxisAnalysis | None = None
        self.along: dict[tuple[Operation, int], int | None] = {}
        self.obstacle = self._obstacle(context)

    def _obstacle(self, context: Any) -> str | None:
        if not self.products or not self.target.has_tcgen05 or not all(context.uses(name) for name in SWITCHES):
            return "there are no products that pairs of CTAs multiply"
        self.axis = AxisAnalysis(self.func)
        return next(filter(None, map(self._obstacle_of, self.products)), None)

    def _obstacle_of(self, op: Operation) -> str | None:
        loop = op.parent_op()
        assert loop is not None and self.axis is not None
        if len(extents(op.results[0])) != MATRIX:
            return "pairs of CTAs multiply tiles of two dimensions"
        if not self._runs_once_a_tile(loop):
            return "pairs of CTAs multiply in loops that run once, or in one of a loop over tiles, and to their end"
        if not _is_carried(op, loop):
            return "sums of pairs of CTAs begin with zeros, and are seen behind the loop"
        for number, v in enumerate(op.operands):
            if number == ACC:
                continue
            made = _made_of(v, SAME if number > ACC else ("permute",))
            load: Any = made[-1] if made else None
            if load is None or load.parent is not op.parent:
                return "operands of pairs of CTAs come straight from loads of views in the product's loop"
            along = view_facts(load, load.view, self.axis).contiguous
            if along is None or not isinstance(map_facts(load, self.axis, contiguous=along), MapFacts) or not is_unwritten(load):
                return "the copy engine can't bring the operands of pairs of CTAs"
            array = load.view.owner.operands[0].owner
            if any(host_value(v) is None for v in (array.base, *array.sizes, *array.strides)):
                return "operands of pairs of CTAs come by maps that the launch makes"
            if number > ACC:
                if not _are_pieces(v, MATRIX + ACC - number, made, along):
                    return "scales of pairs of CTAs lie in memory as the tensor core copies them"
                continue
            for move in reversed(made[:-1]):
                along = _moved(move, along)
            if along is None:
                return "rows of the operands of pairs of CTAs are memory's"
            self.along[op, number] = along
        return None

    def _runs_once_a_tile(self, loop: Operation) -> bool:
        """Whether a loop stands in the function, or has all products and stands in one that does."""
        if mnemonic(loop) != "for":
            return False
        tiles = loop.parent_op()
        if tiles is None or any(mnemonic(inner) in LEAVES for inner in (loop if tiles is self.func else tiles).walk()):
            return False
        return tiles is self.func or (mnemonic(tiles) == "for" and tiles.parent_op() is self.func and all(
            op.parent_op() is loop for op in self.products))

    def takes(self, extents_of: Callable[[Operation], tuple[int, int]]) -> bool:
        """Whether each product has an instruction where `extents_of` it are a CTA's rows and columns, and all have room."""
        columns = 0
        for op in self.products:
            m, n = extents_of(op)
            if n > MAX_N or (m % LANES and not _is_worth_folding(op, m, n)):
                return False
            scaled = mnemonic(op) == "dot_scaled"
            atom = _scaled_atom(op, m, n, self.target) if scaled else self._atom(op, m, n)
            k, size = extents(op.operands[0])[-1], _size(op.operands[0])
            if atom is None or isinstance(atom, str) or (m + n // PAIR) * k * size > MOST_OPERANDS:
                return False
            if isinstance(op.operands[2], BlockArgument):
                columns += umma.columns_of(*umma.place_of(atom, (m, n)))
            if scaled:
                columns += _scales_columns(op, m, n)
            if not all(self._is_described(op, number, atom) for number in (0, 1)):
                return False
        return columns <= COLUMNS

    def _is_described(self, op: Operation, number: int, atom: UmmaAtom | TensorScaledAtom) -> bool:
        """Whether a matrix descriptor names a CTA's part of an operand as the copy engine puts it in shared memory."""
        v = op.operands[number]
        rows, k = (atom.n // PAIR if number else atom.rows), extents(v)[1 - number]
        if self.along[op, number] == 1 - number:
            return rows % GROUP_ROWS == 0 and k * _size(v) >= CHUNK_BYTES
        return atom.contiguous(number == 0) > 0 and rows * _size(v) >= CHUNK_BYTES and k % GROUP_ROWS == 0

    def _atom(self, op: Operation, m: int, n: int) -> UmmaAtom | str:
        types = [element_name(v.type.element_type) for v in op.operands[:3]]        # type: ignore[attr-defined]
        signs: Any = [op.properties.get(name) for name in ("signedness_lhs", "signedness_rhs")]
        signed = [sign is None or getattr(sign, "data", "signed") == "signed" for sign in signs]
        k, warps = extents(op.operands[0])[-1], worker_warps(self.func) or GROUP_WARPS
        return umma.chosen(self.target, *types, m, n, k, warps, 0, *signed, PAIR)


def _is_worth_folding(op: Operation, m: int, n: int) -> bool:
    """Whether a pair multiplies a tile of 128 rows, 64 each: of 256 columns it loads three quarters of what CTAs with 128 each
    do."""
    return m == LANES // PAIR and extents(op.results[0])[0] == LANES and n >= LEAST_FOLDED


def _scaled_atom(op: Operation, m: int, n: int, target: Any) -> TensorScaledAtom | None:
    """The instruction of a block-scaled product, if a pair of CTAs has it and its scales are whole pieces. Signs of scales are one
    CTA's matter, 4-bit elements are packed after the split."""
    from tileiras.layout.atoms import tensor_scaled
    element, scale = (element_name(op.operands[i].type.element_type) for i in (0, 3))      # type: ignore[attr-defined]
    k, factors = extents(op.operands[0])[-1], extents(op.operands[3])[-1]
    atom = tensor_scaled.choose(target, element, scale, k // factors, m, n, k, PAIR)
    return None if atom is None or atom.has_signs or atom.packed or n < tensor_scaled.PIECE_ROWS else atom


def _scales_columns(op: Operation, m: int, n: int) -> int:
    from tileiras.layout.atoms.tensor_scaled import factor_columns, widened
    factors = extents(op.operands[3])[-1]
    return factor_columns(widened(m, factors), widened(n, factors))


def _are_pieces(v: SSAValue, k_dim: int, made: list[Operation], along: int) -> bool:
    """Whether scales lie in memory as in their buffer: a tile's rows one behind the other, whole pieces for each CTA."""
    from tileiras.layout.atoms.tensor_scaled import PIECE_FACTORS, PIECE_ROWS, scale_buffer
    shape, tile = extents(v), extents(made[-1].results[0])
    rows = (PAIR if k_dim else 1) * PIECE_ROWS       # A's are halved
    if shape[1 - k_dim] < rows or shape[k_dim] < PIECE_FACTORS or along != len(tile) - 1:
        return False
    bases = scale_buffer(tuple(shape), k_dim).bases
    return all(where is not None and base == 1 << where for base, where in zip(bases, index_bits(made[:-1], len(bases))))


def _is_carried(op: Operation, loop: Any) -> bool:
    """Whether a product adds to what its loop carries from zeros on, maybe by way of other products, and nobody else wants it."""
    acc, result = op.operands[2], op.results[0]
    if not acc.has_one_use() or not result.has_one_use():
        return False
    if isinstance(acc, BlockArgument):
        number = acc.index - 1
        if acc.owner is not loop.regions[0].block or number < 0 or not is_zero(loop.carried_inits()[number]):
            return False
    elif not isinstance(acc.owner, Operation) or mnemonic(acc.owner) not in PRODUCTS or acc.owner.parent is not op.parent:
        return False
    use = result.first_use
    assert use is not None
    user = use.operation
    return (mnemonic(user) == "yield" and user.parent is op.parent and _goes_on(op, loop, use.index)) or (
        mnemonic(user) in PRODUCTS and use.index == ACC)


def _goes_on(op: Operation, loop: Any, number: int) -> bool:
    """Whether the first product of those that lead to this one adds to what the loop carries under this number."""
    first = op
    while isinstance(before := first.operands[2].owner, Operation):
        first = before
    return first.operands[2] is loop.carried_args()[number]


def _made_of(v: SSAValue, moves: tuple[str, ...]) -> list[Operation]:
    """The ops that make an operand, last first: what comes for nothing behind a load whose tile nobody else wants; else [].
    `moves`: that may be among them, besides what keeps dimensions or rounds as a map does."""
    out: list[Operation] = []
    while isinstance(v.owner, Operation) and v.has_one_use():
        out.append(v.owner)
        if mnemonic(v.owner) == "tiled_load":
            return out
        if mnemonic(v.owner) not in moves and kept(v.owner) is None and not rounded_by(v.owner):
            break
        v = v.owner.operands[0]
    return []


def _moved(move: Operation, dim: int | None) -> int | None:
    """Which dimension behind an op of `_made_of` is the one in front; None for one of a single element."""
    if mnemonic(move) == "permute" and dim is not None:
        order: Any = move.properties["permutation"]
        return int_values(order).index(dim)
    reshaped = kept(move)
    return dim if reshaped is None else dict(reshaped).get(dim)     # type: ignore[call-overload]


def _size(v: Any) -> int:
    return element_bytes(v.type.element_type)
