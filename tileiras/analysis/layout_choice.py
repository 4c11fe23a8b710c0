"""Which layout each class of a function's tensors gets: candidates from what its values meet, and the cheapest combination.

A variable is a class of values that must share a layout (layout_classes.py), or a tiled store, which may have its tile in
a layout of its own. Candidates:

    an accumulator          its instruction's fragment, and nothing else
    a computed operand      the instruction's fragment: it needs no way through shared memory then
    a described operand     where it must be turned on its way to shared memory, what does that in few passes; of words, as many
                            side by side as a store takes
    a loaded or stored tile coalesced along memory's contiguous dimension
    a tile that some read one by one, others in wider accesses: as many side by side as the former read at no cost
    a reduced tile          the same with each warp on rows of its own, so that no two warps share a sum; short rows, or those
                            that no access prescribes, whole in a thread
    whatever is linked      what a neighbour's candidate becomes on the way

and the layout that priorities alone give (`priorities`): the answer costs no more than those. What the copy engine may move
(tma_choice.py) costs what is less, its way or the threads', and is chosen with the layout.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis import layout_cost
from tileiras.analysis.access import access_width, apart_of, contiguous_of, is_checked, line_of, runs_of
from tileiras.analysis.assignment import Problem
from tileiras.analysis.dot_chains import is_computed
from tileiras.analysis.layout_classes import Classes, LayoutClass, Relations, suggested
from tileiras.analysis.layout_rules import (
    DOTS,
    accessed,
    accumulator_layout,
    constant_of,
    dim_of,
    instruction_k,
    is_tensor,
    multiply_add_reader,
    operand_fragments,
    scale_fragments,
    shape_of,
)
from tileiras.analysis.places import places_of
from tileiras.analysis.tensor_dots import described_of, umma_of
from tileiras.dialects import arith
from tileiras.dialects.element import REGISTER_BYTES, element_bytes, tile_bytes
from tileiras.dialects.nv_tileas import COPIES_BY_THREADS, LOOPS
from tileiras.layout.linear import LinearLayout
from tileiras.layout.operands import turning_layouts
from tileiras.layout.placement import default_layout, within_warps
from tileiras.machine.targets import WARP_THREADS

if TYPE_CHECKING:
    from tileiras.analysis.tma import MapFacts

MAX_PER_THREAD_BYTES = 16
"""How many bytes side by side a thread may hold of the widest type of a class: more would scatter a warp's access."""
MAX_CANDIDATES = 6
MIN_GAIN = 96
"""Issue slots that another choice than what priorities give must save: less is within what costs can tell."""
SHORT_ROWS = 16
"""Numbers of a row that a thread may combine by itself where threads load the tile, too: more registers then, fewer shuffles
(scores of a token's 8 experts, A100: 1.57 us with a row in 8 threads, 0.99 so)."""
POINTER_ACCESSES = frozenset({"nv_tileas.load", "nv_tileas.store", "nv_tileas.atomic_rmw", "nv_tileas.atomic_cas"})
LEAVES = frozenset({"arith.constant", "nv_tileas.splat", "nv_tileas.make_range"})
PASSED_ON = frozenset({"nv_tileas.view", "nv_tileas.broadcast", "nv_tileas.permute"})
SLOTS = {**dict.fromkeys(("divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "ceildivui"), 24),
         **dict.fromkeys(("divf", "remf"), 8), **dict.fromkeys(("sitofp", "uitofp", "fptosi", "fptoui", "convertf"), 4)}
"""Issue slots of `arith`'s ops that aren't one instruction a register; `math`'s take MATH_SLOTS. Twice as many for 64 bits."""
MATH_SLOTS = 8
FEW_AHEAD = 4
"""Registers that a thread may give a load of the next iteration beside products that run by themselves."""
WAITED = 128
"""Slots of a warp that waits for memory in each iteration, beside products that run by themselves: what takes many registers of a
thread isn't loaded an iteration ahead. What each thread loads a little of, for all, goes by a ring (`materialize-async`). Of floats
that pointers gather: of integers places are computed, and what a view says where it lies the copy engine brings."""
MEETING_FACTOR = 1.5
"""How many times its slots the way of a product's sums to the layout in which they are stored costs where warps exchange them: all
meet behind the product's end, with nothing else to do."""


@dataclass
class Choice:
    """Layouts by class, for the values of `classes`; `stores`: the layout of a tiled store's tile. `cost`, `before`: issue
    slots a warp of this choice and of what priorities give. `engine`: the loads and stores that are the copy engine's."""

    classes: Classes
    stores: dict[Operation, LinearLayout] = field(default_factory=dict)
    cost: float = 0.0
    before: float = 0.0
    engine: set[Operation] = field(default_factory=set)
    slots: dict[Operation, tuple[float, float]] = field(default_factory=dict)
    """Of each access that may be the engine's: issue slots by threads, and by the engine."""


def choose(found: Relations, num_warps: int, search: bool, movable: dict[Operation, MapFacts] | None = None,
           turns_bytes: bool = False) -> Choice:
    """Layouts for all tensors. `search`: look for a cheaper choice than what priorities give. `movable`: what the copy engine may
    load and store. `turns_bytes`: as of `ldmatrix_plan`."""
    plain = Classes(found)
    if not plain.of:
        return Choice(plain)
    priorities(found, plain, num_warps, turns_bytes)
    if not search:
        return Choice(plain)
    searching = _Search(found, plain, num_warps, movable or {}, turns_bytes)
    choice = searching.run() or Choice(plain)
    searching.give_to_engine(choice)
    return choice


# --- priorities --------------------------------------------------------------------------------------------------------

def priorities(found: Relations, classes: Classes, num_warps: int, turns_bytes: bool = False) -> None:
    """Decide in this order: accumulators of dots; tiles that are loaded or stored; what shape ops and reductions imply from
    a decided neighbour; the default for the rest."""
    accesses: dict[LayoutClass, list[tuple[Operation, SSAValue]]] = {}
    for op in found.ops:
        if op.name in DOTS:
            c = classes.get(op.results[0])
            if c.layout is None:
                c.layout = accumulator_layout(op, num_warps)
        elif is_by_registers(op):
            tile = tile_of(op)
            if is_tensor(tile):
                accesses.setdefault(classes.get(tile), []).append((op, tile))
    for c, group in accesses.items():
        if c.layout is None:
            c.layout = coalesced(c.shape, group, num_warps, turns_bytes)
    classes.spread(lambda shape: default_layout(shape, num_warps))


def is_by_registers(op: Operation) -> bool:
    """Whether an op is an access to memory whose tile is in registers."""
    return "runs" in op.properties and op.name not in COPIES_BY_THREADS


def tile_of(op: Operation) -> SSAValue:
    """The tensor whose layout decides an access: the tile of a view's, the pointers of the others."""
    return op.operands[0] if op.name in POINTER_ACCESSES else accessed(op)


def coalesced(shape: tuple[int, ...], group: list[tuple[Operation, SSAValue]], num_warps: int,
              turns_bytes: bool = False) -> LinearLayout:
    """The blocked layout for a class with these accesses: the first access that has a contiguous dimension leads,
    or else one that is likely to have one."""
    dim = next((d for along in (contiguous_of, line_of) for op, _ in group if (d := along(op)) is not None), None)
    if dim is None:
        return default_layout(shape, num_warps, 1)
    widest = max(moved_bytes(tile) for _, tile in group)
    per_thread = max(runs_of(op)[dim] for op, _ in group if line_of(op) == dim)
    per_thread = min(per_thread, max(1, MAX_PER_THREAD_BYTES // widest))
    order = (dim, *[d for d in range(len(shape) - 1, -1, -1) if d != dim])
    return default_layout(shape, num_warps, per_thread, order, _rows_beside(group, dim, turns_bytes))


def moved_bytes(tile: SSAValue) -> int:
    """Bytes of an element that an access of this tile (or through this tile of pointers) moves."""
    element: Any = tile.type.element_type  # type: ignore[attr-defined]
    return element_bytes(getattr(element, "pointee", element))


def _rows_beside(group: list[tuple[Operation, SSAValue]], dim: int, turns_bytes: bool) -> int:
    """Rows that a thread should load side by side: 4 of a dot's operand of bytes whose rows don't run along k, so that
    the thread holds whole words of four neighbours in k, as fragments have them; else 1, also where `ldmatrix` turns bytes."""
    for _, tile in group:
        for use in tile.uses:
            if moved_bytes(tile) == 1 and use.operation.name in DOTS and use.index < 2:
                rank = len(shape_of(tile) or ())
                turned = turns_bytes and described_of(use.operation) is None
                if not turned and dim != (rank - 1 if use.index == 0 else rank - 2):
                    return 4
    return 1


# --- the search --------------------------------------------------------------------------------------------------------

class _Search:
    """Variables are numbered: classes that matter, then tiled stores."""

    def __init__(self, found: Relations, plain: Classes, num_warps: int, movable: dict[Operation, MapFacts],
                 turns_bytes: bool) -> None:
        self.found, self.plain, self.num_warps, self.movable = found, plain, num_warps, movable
        self.turns_bytes = turns_bytes
        self.classes = Classes(found, cut=True)
        self.weights: dict[Block, float] = {}
        self.numbers: dict[LayoutClass | Operation, int] = {}
        self.candidates: list[list[LinearLayout]] = []
        for c in self.classes.all():
            if not all(is_leaf(v) for v in c.values):
                self.add(c, plain.layout(c.values[0]))
        self.stores = [op for op in found.ops if op.name == "nv_tileas.tiled_store" and is_tensor(op.operands[0])]
        for op in self.stores:
            self.add(op, plain.layout(op.operands[0]))
        self.fixed: set[int] = set()
        dots = [op for op in found.ops if op.name in DOTS]
        self.of_products = {op.parent for op in dots}
        self.beside_products = {op.parent for op in dots if described_of(op) is not None and self.weight(op) > 1}
        self.has_products = bool(self.of_products)

    def add(self, key: LayoutClass | Operation, start: LinearLayout) -> None:
        self.numbers[key] = len(self.candidates)
        self.candidates.append([start])

    def number(self, v: SSAValue) -> int | None:
        """The variable of a value, None for what is made in whatever layout is wanted."""
        return self.numbers.get(self.classes.get(v))

    def offer(self, variable: int | None, layout: LinearLayout | None) -> bool:
        """One more candidate, if there is room and it is new."""
        if variable is None or layout is None or variable in self.fixed:
            return False
        if 0 in layout.reg:
            layout = layout.compact_regs()
        own = self.candidates[variable]
        if layout in own or len(own) >= MAX_CANDIDATES:
            return False
        own.append(layout)
        return True

    def run(self) -> Choice | None:
        """The cheapest choice found; None where priorities are as good."""
        self.anchors()
        self.exchange()
        if all(len(own) == 1 for own in self.candidates):
            return None
        problem = Problem([len(own) for own in self.candidates])
        self.unary(problem)
        self.edges(problem)
        start = [0] * len(self.candidates)
        chosen = problem.solve(start)
        before, cost = problem.cost(start), problem.cost(chosen)
        if cost > before - MIN_GAIN:
            return None
        for key, n in self.numbers.items():
            if isinstance(key, LayoutClass):
                key.layout = self.candidates[n][chosen[n]]
        stores = {op: self.candidates[n][chosen[n]] for op in self.stores if (n := self.numbers[op]) is not None}
        self.classes.spread(lambda shape: default_layout(shape, self.num_warps))
        return Choice(self.classes, stores, cost, before)

    def give_to_engine(self, choice: Choice) -> None:
        """Decide which accesses are the copy engine's, in the layouts chosen."""
        if not self.movable:
            return
        from tileiras.analysis.tma_choice import (
            EXPOSED_SLOTS,
            exposed,
            gain,
            is_exchanged_in_rounds,
            is_small_stream,
            offer,
            overhead,
            paying,
        )
        gains: dict[Operation, float] = {}
        late = exposed(self.movable)
        instead: set[Operation] = set()
        for op, facts in self.movable.items():
            tile = tile_of(op)
            layout = choice.classes.layout(tile)
            if choice.stores.get(op, layout) != layout:     # a conversion goes through shared memory already
                if is_exchanged_in_rounds(op, facts, layout):
                    choice.stores[op] = layout
                    instead.add(op)
                continue
            if is_small_stream(op, self.has_products):
                continue
            by_threads, by_engine = self.by_threads(op, layout) + EXPOSED_SLOTS * (op in late), offer(op, facts, layout).slots
            choice.slots[op] = by_threads, by_engine + overhead(op)
            gains[op] = gain(op, by_threads, by_engine)
        choice.engine = paying(gains) | instead

    # --- candidates -------------------------------------------------------------------------------------------------

    def anchors(self) -> None:
        """What dots, accesses and reductions want."""
        for op in self.found.ops:
            if op.name in DOTS:
                n = self.number(op.results[0])
                if n is not None and n not in self.fixed:
                    self.candidates[n] = [accumulator_layout(op, self.num_warps)]
                    self.fixed.add(n)
                for n, _, wanted in self.scales(op):
                    self.offer(n, wanted)
        self.fix_stored()
        for op in self.found.ops:
            if is_by_registers(op) and is_tensor(tile := tile_of(op)):
                n = self.numbers[op] if op in self.numbers else self.number(tile)
                own = coalesced(shape_of(tile) or (), [(op, tile)], self.num_warps, self.turns_bytes)
                self.offer(n, own)
                if op in self.movable:
                    self.offer(n, self.in_chunks(op, tile))
                elif n is not None and (dim := line_of(op)) is not None and \
                        own.contiguous(dim) < (free := self.free_pieces(tile)) < self.candidates[n][0].contiguous(dim):
                    self.offer(n, self.in_pieces(tile, dim, free))
        for op in self.found.ops:
            described = described_of(op)
            if op.name in DOTS and "k_slices" in op.properties:
                for i, fragment in enumerate(operand_fragments(op, self.num_warps)):
                    if fragment is not None and (umma_of(op) is not None or is_computed(op, i)):
                        self.offer(self.number(op.operands[i]), fragment)
            if described is None:
                continue
            for i, v in enumerate(op.operands[:2]):
                shape = shape_of(v)
                if shape is not None and element_bits(v) == 8 * REGISTER_BYTES:
                    self.offer(self.number(v), self.in_words(v, len(shape) - 1 - i))
                if shape is not None and not described.contiguous(of_a=i == 0):
                    for layout in turning_layouts(shape, element_bits(v) // 8, len(shape) - 1 - i, self.num_warps):
                        self.offer(self.number(v), layout)
            for v, k_dim, _ in self.copied_scales(op):
                from tileiras.layout.atoms.tensor_scaled import word_layout  # few kernels have such products
                layout = word_layout(shape_of(v) or (), k_dim, self.num_warps)
                if layout is not None:
                    self.offer(self.number(v), layout)
        for op in self.found.ops:
            if op.name in ("nv_tileas.reduce", "nv_tileas.scan") and is_tensor(op.operands[0]):
                n = self.of_collective(op)
                if n is not None:
                    for layout in self.candidates[n][:2]:
                        self.offer(n, own_rows(layout, dim_of(op)))
                    if self.movable or op.name == "nv_tileas.scan" or _has_short_rows(op):
                        self.offer(n, self.in_rows(op))

    def fix_stored(self) -> None:
        """Sums that are narrowed, or take another shape, and go to a store keep their layout until there, if they are so large that
        threads would exchange them in rounds: whether they do is the store's choice, as it is where they are stored as they are."""
        fixed = [(key, n) for key, n in self.numbers.items() if n in self.fixed and isinstance(key, LayoutClass)]
        if not self.movable or not fixed:
            return
        narrowed: dict[LayoutClass, list[SSAValue]] = {}
        for edge in self.classes.edges:
            if is_unary(edge.target.owner):
                narrowed.setdefault(self.classes.get(edge.value), []).append(edge.target)
        for c, n in fixed:                  # grows
            layout = self.candidates[n][0]
            ways = [(other, suggested(link, layout, True)) for link, other, forward in self.classes.across(c)
                    if forward and self.goes_to_large_store(link.target)]
            ways += [(self.classes.get(tile), layout) for tile in narrowed.get(c, ()) if self.goes_to_large_store(tile)]
            for other, wanted in ways:
                m = self.numbers.get(other)
                if m is not None and m not in self.fixed and wanted is not None:
                    self.candidates[m] = [wanted]
                    self.fixed.add(m)
                    fixed.append((other, m))

    def goes_to_large_store(self, tile: SSAValue) -> bool:
        """Whether a tile goes to a store and nowhere else, narrowed or under another shape, and is large there."""
        while tile.has_one_use():
            op = next(iter(tile.uses)).operation
            if op.name == "nv_tileas.tiled_store":
                from tileiras.analysis.tma_choice import MOST_AT_ONCE
                return op in self.movable and tile_bytes(tile.type) > MOST_AT_ONCE
            if op.name not in PASSED_ON and not is_unary(op):
                break
            tile = op.results[0]
        return False

    def in_chunks(self, op: Operation, tile: SSAValue) -> LinearLayout:
        """What threads like of a tile that the copy engine brings to shared memory: whole chunks of its rows."""
        dim = contiguous_of(op)
        assert dim is not None
        return self.in_pieces(tile, dim, max(1, MAX_PER_THREAD_BYTES // moved_bytes(tile)))

    @staticmethod
    def free_pieces(tile: SSAValue) -> int:
        """How many elements side by side a thread may hold of a tile that it reads one by one, at no cost to these accesses: they
        take the port for so many lines anyway. Where shifted tiles are read beside aligned ones (stencils by gathers), these are
        read and stored by half as many accesses."""
        return max(1, layout_cost.LEAST_LINES * layout_cost.LINE_BYTES // WARP_THREADS // moved_bytes(tile))

    def in_words(self, v: SSAValue, k_dim: int) -> LinearLayout:
        """What the stores of a described operand of words like, which may be widened: no more side by side a thread than one store
        takes. Two stores of what a load brings of narrower elements meet in half of the banks."""
        return self.in_pieces(v, k_dim, MAX_PER_THREAD_BYTES // REGISTER_BYTES)

    def in_rows(self, op: Operation) -> LinearLayout:
        """What a reduction or scan likes of a tile: long pieces of rows a thread."""
        dim, shape = dim_of(op), shape_of(op.operands[0]) or ()
        return self.in_pieces(op.operands[0], dim, shape[dim])

    def in_pieces(self, tile: SSAValue, dim: int, per_thread: int) -> LinearLayout:
        """So many elements side by side along `dim` a thread, and threads along it first."""
        shape = shape_of(tile) or ()
        order = (dim, *[d for d in range(len(shape) - 1, -1, -1) if d != dim])
        return default_layout(shape, self.num_warps, per_thread, order)

    def exchange(self) -> None:
        """What neighbours want: over edges as it is, over links as they carry it."""
        for _ in range(2):
            for edge in self.classes.edges:
                self.swap(self.number(edge.value), self.number(edge.target))
            for op in self.stores:
                self.keep_warps(op)
                self.swap(self.number(op.operands[0]), self.numbers[op])
            for c, n in list(self.numbers.items()):
                if isinstance(c, LayoutClass):
                    for link, other, forward in self.classes.across(c):
                        m = self.numbers.get(other)
                        if m is not None and m not in self.fixed:
                            for layout in tuple(self.candidates[n]):
                                self.offer(m, suggested(link, layout, forward))

    def keep_warps(self, op: Operation) -> None:
        """A tile that is stored so that its warps needn't meet on the way: each turns its own part, as memory likes it."""
        n, dim, tile = self.number(op.operands[0]), contiguous_of(op), tile_of(op)
        if n is not None and dim is not None and op not in self.movable:
            per_thread = min(runs_of(op)[dim], max(1, MAX_PER_THREAD_BYTES // moved_bytes(tile)))
            for layout in tuple(self.candidates[n][:2]):
                self.offer(self.numbers[op], within_warps(layout, dim, per_thread))

    def swap(self, a: int | None, b: int | None) -> None:
        if a is None or b is None or a == b:
            return
        for layout in tuple(self.candidates[a]):
            self.offer(b, layout)
        for layout in tuple(self.candidates[b]):
            self.offer(a, layout)

    # --- costs ------------------------------------------------------------------------------------------------------

    def weight(self, op: Operation) -> float:
        """How often an op runs, as far as its loops tell."""
        block = op.parent
        if block is None:
            return 1.0
        known = self.weights.get(block)
        if known is None:
            parent = block.parent_op()
            known = 1.0
            if parent is not None:
                known = self.weight(parent) * (_trips(parent) if parent.name in LOOPS else 1)
            self.weights[block] = known
        return known

    def unary(self, problem: Problem) -> None:
        work: dict[int, float] = {}
        for op in self.found.ops:
            if isinstance(op, arith.Elementwise):
                if is_tensor(op.results[0]) and (n := self.number(op.results[0])) is not None:
                    work[n] = work.get(n, 0.0) + self.weight(op) * slots_of(op, op.parent in self.of_products)
            elif is_by_registers(op):
                self.access(problem, op)
            elif op.name in ("nv_tileas.reduce", "nv_tileas.scan"):
                self.collective(problem, op)
            elif op.name in DOTS:
                self.dot(problem, op)
        for n, slots in work.items():
            problem.alone(n, [slots * layout.num_regs for layout in self.candidates[n]])

    def access(self, problem: Problem, op: Operation) -> None:
        tile = tile_of(op)
        if not is_tensor(tile):
            return
        n = self.numbers[op] if op in self.numbers else self.number(tile)
        if n is None or len(self.candidates[n]) == 1:
            return
        weight, facts = self.weight(op), self.movable.get(op)
        costs = [self.by_threads(op, layout) for layout in self.candidates[n]]
        if op.name == "nv_tileas.load" and op.parent in self.beside_products and is_float(op.results[0]):
            most = FEW_AHEAD * REGISTER_BYTES * 8 // element_bits(op.results[0])
            costs = [cost + WAITED * (layout.num_regs > most) for cost, layout in zip(costs, self.candidates[n])]
        if facts is not None:
            from tileiras.analysis.tma_choice import is_small_stream, offer, overhead
            if not is_small_stream(op, self.has_products):
                engine = [offer(op, facts, layout).slots + overhead(op) for layout in self.candidates[n]]
                costs = [min(pair) for pair in zip(costs, engine)]
        problem.alone(n, [weight * cost for cost in costs])

    def by_threads(self, op: Operation, layout: LinearLayout) -> float:
        """Slots of an access by the threads' own instructions."""
        writes = not op.name.endswith("load")
        return layout_cost.global_access(layout, access_width(op, layout), line_of(op), moved_bytes(tile_of(op)) * apart_of(op),
                                         writes, is_checked(op))

    def of_collective(self, op: Operation) -> int | None:
        """The variable of what a reduction or scan combines: of its first operand that isn't made in any layout."""
        return next((n for v in op.operands if (n := self.number(v)) is not None), None)

    def collective(self, problem: Problem, op: Operation) -> None:
        if not is_tensor(op.operands[0]):
            return
        n = self.of_collective(op)
        if n is not None and len(self.candidates[n]) > 1:
            cost = layout_cost.reduction if op.name.endswith(".reduce") else layout_cost.scan
            bits, dim, weight = element_bits(op.operands[0]), dim_of(op), self.weight(op)
            operands, body = len(op.operands), body_slots(op)
            problem.alone(n, [weight * cost(layout, dim, bits, operands, body) for layout in self.candidates[n]])

    def dot(self, problem: Problem, op: Operation) -> None:
        if "k_slices" not in op.properties:     # its operands are staged already
            return
        fragments = operand_fragments(op, self.num_warps)
        atom_k = instruction_k(op)
        whole: Any = op.properties["k_slices"]
        described, umma = described_of(op), umma_of(op)
        for i, fragment in enumerate(fragments):
            v = op.operands[i]
            n = self.number(v)
            if n is None or len(self.candidates[n]) == 1:
                continue
            rank, weight, size = len(shape_of(v) or ()), self.weight(op), element_bits(v) // 8

            def staging(layout: LinearLayout, fragment=fragment, k_dim=rank - 1 - i, size=size, of_a=i == 0) -> float:
                if whole.data == 1 and fragment is not None and in_registers(layout, fragment):
                    return 0
                if described is not None:
                    cost = layout_cost.described_staging(layout, k_dim, size, described.contiguous(of_a))
                    return cost if fragment is None or umma is None else cost + layout_cost.described_reading(layout, size)
                if fragment is None:
                    acc = accumulator_layout(op, self.num_warps)
                    reader, steps = multiply_add_reader(op, layout.shape, k_dim, acc)
                    return layout_cost.multiply_add_staging(layout, reader, k_dim, size, steps)
                return layout_cost.staging(layout, fragment, k_dim, size, atom_k, self.turns_bytes)
            problem.alone(n, [weight * staging(layout) for layout in self.candidates[n]])

        for v, k_dim, run in self.copied_scales(op):
            n = self.number(v)
            if n is not None and len(self.candidates[n]) > 1:
                problem.alone(n, [self.weight(op) * layout_cost.scale_staging(layout, k_dim, element_bits(v) // 8, run)
                                  for layout in self.candidates[n]])
        for n, v, wanted in self.scales(op):
            if len(self.candidates[n]) > 1:
                problem.alone(n, [self.weight(op) * layout_cost.conversion(layout, wanted, element_bits(v))
                                  for layout in self.candidates[n]])

    def copied_scales(self, op: Operation) -> list[tuple[SSAValue, int, int]]:
        """The scales that the tensor core copies for a product as they are: each with its dimension along k, and how many rows lie
        together."""
        described = described_of(op)
        if op.name != "nv_tileas.dot_scaled" or described is None:
            return []
        from tileiras.layout.atoms.tensor_scaled import whole
        found = []
        for of_a, v in zip((1, 0), op.operands[3:]):
            shape = shape_of(v) or ()
            if whole(shape, len(shape) - 2 + of_a) == shape:
                found.append((v, len(shape) - 2 + of_a, described.run if of_a else 0))
        return found

    def scales(self, op: Operation) -> list[tuple[int, SSAValue, LinearLayout]]:
        """What a block-scaled product wants of its scales' layouts: (variable, value, layout)."""
        if op.name != "nv_tileas.dot_scaled":
            return []
        return [(n, v, layout) for v, layout in scale_fragments(op, self.num_warps) if (n := self.number(v)) is not None]

    def edges(self, problem: Problem) -> None:
        """Conversions between classes."""
        seen: set[tuple[SSAValue, int]] = set()
        pairs = [(edge.op, edge.value, self.number(edge.target)) for edge in self.classes.edges]
        pairs += [(op, op.operands[0], self.numbers[op]) for op in self.stores]
        for op, value, target in pairs:
            source = self.number(value)
            if source is None or target is None or source == target or (value, target) in seen:
                continue
            seen.add((value, target))
            meeting = MEETING_FACTOR if source in self.fixed and op in self.stores else 1
            self.pair(problem, source, target, self.weight(op), element_bits(value), lambda a: a, lambda b: b, meeting)
        done: set[int] = set()
        for c, n in self.numbers.items():
            for link, other, forward in self.classes.across(c) if isinstance(c, LayoutClass) else ():
                m = self.numbers.get(other)
                if m is None or id(link) in done or not forward:
                    continue
                done.add(id(link))
                owner = link.target.owner
                weight = self.weight(owner) if isinstance(owner, Operation) else 1.0
                bits = element_bits(link.source)
                if link.to is not None:
                    self.pair(problem, n, m, weight, bits, link.to, lambda b: b)
                elif link.back is not None:
                    self.pair(problem, n, m, weight, bits, lambda a: a, link.back)

    def pair(self, problem: Problem, a: int, b: int, weight: float, bits: int, left: Any, right: Any, meeting: float = 1) -> None:
        """The conversions between two variables. `meeting`: how many times as much they cost where warps exchange elements."""
        first, second = ([way(layout) for layout in self.candidates[n]] for n, way in ((a, left), (b, right)))
        if len(first) == len(second) == 1:
            return

        def cost(x: LinearLayout | None, y: LinearLayout | None) -> float:
            if x is None or y is None:
                return 0.0
            return weight * layout_cost.conversion(x, y, bits, weight > 1) * (meeting if x.warp != y.warp else 1)
        problem.together(a, b, [[cost(x, y) for y in second] for x in first])


def element_bits(v: SSAValue) -> int:
    """Bits of a tensor's element in a register."""
    assert isinstance(v.type, TensorType)
    return 8 * element_bytes(v.type.element_type)


def _has_short_rows(op: Operation) -> bool:
    """Whether a reduction or scan goes along few numbers."""
    shape = shape_of(op.operands[0])
    return shape is not None and shape[dim_of(op)] <= SHORT_ROWS


def is_float(v: SSAValue) -> bool:
    """Whether a tensor is of floats."""
    t: Any = v.type
    return isinstance(t.element_type, AnyFloat)


def is_unary(op: Any) -> bool:
    """Whether an op computes each element from one of another tile's."""
    return isinstance(op, arith.Elementwise) and len(op.operands) == 1


def slots_of(op: Operation, beside_product: bool = False) -> int:
    """About the issue slots of an element-wise op on one register of a warp. `beside_product`: in a block with one, where slots are
    left over, and the port of shared memory, by which shuffles go, isn't: there a cast between floats of 16 and 32 bits is what it
    is, one instruction (widening in normalized rows, 128x128x64, B200: 173 us with a row of factors by shuffles, 149). Elsewhere it
    counts as dearly as other casts: a tile rather goes to other threads when it is wide (layer norm of unaligned rows, B200: 8.39,
    9.26 us)."""
    dialect, _, name = op.name.partition(".")
    slots = MATH_SLOTS if dialect == "math" else SLOTS.get(name, 1)
    if beside_product and name == "convertf" and is_tensor(op.results[0]) and \
            sorted(map(element_bits, (op.operands[0], op.results[0]))) == [16, 32]:
        slots = 1
    return 2 * slots if is_tensor(op.results[0]) and element_bits(op.results[0]) > 32 else slots


def body_slots(op: Operation) -> float:
    """About the issue slots of combining two numbers of a reduction or scan, for each of its operands."""
    operands = len(op.operands)
    if places_of(op) is not None:
        return 1
    slots = sum(slots_of(inner) for inner in op.regions[0].block.ops if isinstance(inner, arith.Elementwise))
    return max(operands, slots) / operands


def is_leaf(v: SSAValue) -> bool:
    """Whether a tensor costs nothing to make in any layout."""
    owner = v.owner
    if not isinstance(owner, Operation):
        return False
    if owner.name in PASSED_ON:
        return not is_tensor(owner.operands[0]) or is_leaf(owner.operands[0])
    return owner.name in LEAVES


def in_registers(have: LinearLayout, fragment: LinearLayout) -> bool:
    """Whether a layout is the fragment's up to a permutation of each thread's own registers."""
    return have.lane == fragment.lane and have.warp == fragment.warp and sorted(have.reg) == sorted(fragment.reg)


def own_rows(layout: LinearLayout, dim: int) -> LinearLayout | None:
    """The layout with the warps' bits that step along `dim` exchanged for registers' bits that don't, so that no two warps
    hold parts of one row; None if there are none to exchange."""
    from tileiras.layout.linear import dim_bits
    low, bits = dim_bits(layout.shape)[dim]
    along = (1 << bits) - 1 << low
    reg, warp = list(layout.reg), list(layout.warp)
    free = [i for i, b in enumerate(reg) if b and not b & along]
    changed = False
    for j, b in enumerate(warp):
        if b & along and free:
            i = free.pop()
            reg[i], warp[j] = b, reg[i]
            changed = True
    if not changed:
        return None
    taken = [b for b in reg if b & along]
    others = iter(sorted(taken))
    return LinearLayout(layout.shape, tuple(next(others) if b & along else b for b in reg), layout.lane, tuple(warp))


def _trips(loop: Operation) -> float:
    """How often a loop runs, as far as is known."""
    if not isinstance(loop, arith.For):
        return layout_cost.LOOP_WEIGHT
    lower, upper, step = (constant_of(v) for v in loop.operands[:3])
    if lower is None or upper is None or step is None or step < 1:
        return layout_cost.LOOP_WEIGHT
    return min(layout_cost.MOST_WEIGHT, max(1, -((lower - upper) // step)))
