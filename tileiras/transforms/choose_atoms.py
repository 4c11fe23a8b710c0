"""`choose-atoms`: which instruction computes each dot, and in how many parts of k its operands go through shared memory.

    %d = nv_tileas.dot %a, %b, %c : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32>
->  %d = nv_tileas.dot %a, %b, %c {atom = "mma.m16n8k16.row.col.f32.f32", k_slices = 1}

A dot without an instruction for its types and extents gets no atom: it multiplies and adds. 8-bit floats that the target
doesn't multiply are widened to f16 first, which loses nothing. `chained` marks a product whose rows feed, or come from,
another product's first operand: its warps then go over rows first, so that the value never leaves its threads. Products into
tensor memory take such an operand from there (`.ts`).

From -O1 on a target with wgmma multiplies tiles of 64 rows a warpgroup by it (`--without=wgmma`: it doesn't), except in kernels
that call functions, round which the assembler would wait for each product. One with tensor memory multiplies tiles of 64 rows by
tcgen05, as far as the accumulators of all products have room there (`--without=tcgen05`), at the same time or, where one needs what
another computes, in turn; rows that become a first operand take columns of the product that they are made of, or what is left, or
go by shared memory. So do rows that threads make of what a loop loads: scaled, normalized, dequantized. wgmma sums 8-bit floats in
fewer bits than f32 has: without `fast_acc` each product starts anew, and an addition joins it to what was there.

    %d = dot %a, %b, %c : f8 to f32      ->      %0 = constant 0 ; %p = dot %a, %b, %0 {atom = "sm90..."} ; %d = addf %c, %p

Such a product takes as many registers again as what it is added to. Where a thread hasn't as many, instructions have fewer columns,
and each one's are added before the next one begins (`joined`).

A product in a loop, of many sums that go to functions at once (a recurrent layer's), `ends_block`: in one block of machine code
ptxas computes a few sums, their functions, and the next sums, so that each instruction waits for the one before (a layer of
64 x 64, A100: 78.0 us, 49.9 with this, and with its state in registers from step to step).
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import Float16Type, FloatAttr, IntAttr, StringAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, Operation

from tileiras.analysis.access import contiguous_of
from tileiras.analysis.agents import WARP_THREADS, words_of
from tileiras.analysis.dot_chains import goes_to_functions, is_chained, is_computed, is_made, is_row, rows_from, takes_rows
from tileiras.analysis.layout_rules import dot_shape, permutation_of
from tileiras.analysis.program_slice import loop_around
from tileiras.analysis.tensor_dots import ctas_of, goes_on_from, umma_of
from tileiras.analysis.tensor_memory import ColumnsByLoop
from tileiras.analysis.warpgroup_dots import is_zero
from tileiras.dialects import arith
from tileiras.dialects.element import element_bytes, element_name
from tileiras.dialects.location_text import location_text
from tileiras.dialects.nv_tileas import LOADS
from tileiras.errors import CompileError
from tileiras.layout.atoms import MmaAtom, choose_atom, split_warps, umma, warpgroup
from tileiras.layout.atoms.mma_sync import columns_for
from tileiras.layout.atoms.umma import UmmaAtom
from tileiras.layout.atoms.warpgroup import WgmmaAtom
from tileiras.layout.linear import log2
from tileiras.transforms.decompose_dot_scaled import SHARED_RESERVE, block_scaled_atom

if TYPE_CHECKING:
    from tileiras.layout.atoms.block_scaled import BlockScaledAtom
    from tileiras.layout.atoms.tensor_scaled import TensorScaledAtom

VIEW, PERMUTE = "nv_tileas.view", "nv_tileas.permute"
MOST_APART = 64
"""Registers of a thread for a product beside those for what it will be added to, which may be as many: with twice as many of both
nothing is left for anything else."""
COLUMNS_APART, FEW_COLUMNS_APART = 128, 64
"""Of an instruction whose sums are added before the next one begins: two registers of a thread for four columns. Fewer where
warps of the load agent turn B and need registers, too, or what another product makes takes some."""
WAIT_FACTOR = 1.25
"""How many times as much may be read from shared memory where a computed B needs no way through it: nobody waits for its stores."""
MOST_COMPUTED = 64
"""Elements of B that a thread computes and holds for its product."""
MANY_SUMS = 32
"""Registers of a thread: of a product with fewer, ptxas computes all at a time by itself."""
CALLS = frozenset({"nv_tileas.print", "nv_tileas.assert"})
NEAREST = "nearest_even"


def is_staged(op: Operation) -> bool:
    """Whether a dot reads from buffers already: its instruction has been chosen."""
    return any(not isinstance(v.type, TensorType) for v in op.operands)


def run(module: Operation, context: Any) -> None:
    """Write `atom`, `k_slices` and `chained` on every dot, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            ops = list(func.walk())
            num_warps: int = func.properties["num_warps"].data  # type: ignore[attr-defined]
            searches = context.opt_level and context.search_layouts
            warpgroups = context.uses("wgmma") and not any(map(_calls, ops))
            scaled = [(op, _scaled_atom(op, context)) for op in ops if op.name == "nv_tileas.dot_scaled"]
            taken = ColumnsByLoop()
            free = umma.COLUMNS - sum(_scaled_columns(op, atom) for op, atom in scaled) if context.uses("tcgen05") else 0
            dots = [op for op in ops if op.name == "nv_tileas.dot" and not is_staged(op)]
            into_tensor_memory, whys = _into_tensor_memory(dots, func, context, free, taken)
            left = {op: _new_columns(op, atom) for op, atom in into_tensor_memory.items() if is_zero(op.operands[2])}
            chained: dict[Operation, MmaAtom] = {}
            for op in dots:
                atom: Any = into_tensor_memory.get(op) or (_wgmma_of(op, func, context.target) if warpgroups else None)
                atom, why = atom or warp_atom(op, context.target, num_warps), whys.get(op, "")
                slices = parts_of_k(op, atom, context)
                if isinstance(atom, UmmaAtom) and slices == 1:
                    columns, room = _operand_columns(op, atom), free - taken.beside(op)
                    if room >= 0 and (host := _read_before(op, columns, left)) is not None:
                        left[host] -= columns
                        atom = atom.with_a_in(shared=False)
                    elif columns <= room:
                        atom = atom.with_a_in(shared=False)
                        taken.add(op, columns)
                apart = isinstance(atom, WgmmaAtom) and _starts_anew(op, atom)
                if apart and _words(op, func) > MOST_APART:
                    few = is_chained(op) or _is_turned(op.operands[1])
                    atom = replace(atom, n=min(atom.n, FEW_COLUMNS_APART if few else COLUMNS_APART))
                    op.properties["joined"] = UnitAttr()
                if context.remarks is not None:
                    from tileiras.transforms.layout_remarks import report_dot
                    report_dot(func, op, atom, slices, context.target, context.remarks, why)
                if ctas_of(op) > 1 and (not isinstance(atom, UmmaAtom) or slices > 1):
                    reason = why or "they are too large"
                    raise CompileError(f"a pair of CTAs can't multiply these tiles: {reason}", location_text(op))
                if "negated" in op.properties and not isinstance(atom, (WgmmaAtom, UmmaAtom)):
                    from tileiras.transforms.negate_dots import give_back
                    give_back(op)
                if atom is not None:
                    op.properties["atom"] = StringAttr(atom.intrinsic)
                    if apart and "joined" not in op.properties:
                        _start_anew(op)
                    elif not isinstance(atom, WgmmaAtom) and not isinstance(atom, UmmaAtom) and is_chained(op, around=True):
                        op.properties["chained"] = UnitAttr()
                        chained[op] = atom
                    elif isinstance(atom, MmaAtom) and slices == 1 and searches and is_computed(op, 1) and \
                            pays_by_columns(op, atom, num_warps):
                        op.properties["by_columns"] = UnitAttr()
                    if isinstance(atom, MmaAtom) and searches and loop_around(op) is not None and \
                            _words(op, func) >= MANY_SUMS and goes_to_functions(op):
                        op.properties["ends_block"] = UnitAttr()
                    if atom.widen:
                        _widen(op)
                op.properties["k_slices"] = IntAttr(slices)
            if searches:
                _share_out_columns(chained, num_warps)
            if searches and into_tensor_memory and num_warps == umma.GROUP_WARPS and \
                    any(op.name in LOADS and is_row(op.results[0].type) for op in ops):
                _by_quads(dots)
            for op, atom in scaled:
                if context.remarks is not None:
                    from tileiras.transforms.layout_remarks import report_dot
                    report_dot(func, op, atom, 1, context.target, context.remarks)
                op.properties["atom"] = StringAttr(atom.intrinsic)
                op.properties["k_slices"] = IntAttr(1)


def _share_out_columns(atoms: Mapping[Operation, MmaAtom], num_warps: int) -> None:
    """Let threads have of weights the columns that they multiply, where the second product's instruction has another number of
    elements in a register of A than 16-bit ones (bytes, tf32): nobody exchanges weights then. It costs the first product nothing
    where its B runs along k in memory: matrices of it are read row by row. `atoms`: of chained products."""
    asked: dict[Operation, set[int]] = {}
    for op, atom in atoms.items():
        sources = list(rows_from(op))
        fit = all(source in atoms and _may_share_out(source, atoms[source], atom, num_warps) for source in sources)
        for source in sources:
            asked.setdefault(source, set()).add(atom.elements_per_reg if fit else 0)
    for op, elements in asked.items():
        if elements != {0} and len(elements) == 1 and op in atoms:
            op.properties["next_elements"] = IntAttr(*elements)


def _may_share_out(op: Operation, atom: MmaAtom, following: MmaAtom, num_warps: int) -> bool:
    """Whether the columns of a product can be shared out as another one's A, each warp having whole rows of them."""
    batch, m, n, _ = dot_shape(op)
    return not batch and m >= num_warps * atom.m and bool(columns_for(atom, n, following.elements_per_reg)) and \
        _runs_along_k(op.operands[1])


def _runs_along_k(rhs: Any) -> bool:
    """Whether B, as it is loaded, lies in memory column by column, by whatever conversions, views and turns it comes."""
    along = 0                   # the dimension of the last two of `rhs`
    while isinstance(op := rhs.owner, Operation) and op.operands:
        if op.name == "nv_tileas.tiled_load":
            return contiguous_of(op) == len(rhs.type.get_shape()) - 2 + along
        source: Any = op.operands[0]
        if op.name == PERMUTE:
            *before, k, n = range(len(rhs.type.get_shape()))
            if permutation_of(op) != [*before, n, k]:
                return False
            along ^= 1
        elif not (isinstance(op, arith.Elementwise) and len(op.operands) == 1) and \
                not (op.name == VIEW and source.type.get_shape()[-2:] == rhs.type.get_shape()[-2:]):
            return False
        rhs = source
    return False


def _by_quads(dots: list[Operation]) -> None:
    """Four threads share a row of sums of 64 rows that meet a number for each column, and of what is made of them for the rows of
    other products."""
    from tileiras.analysis.column_numbers import joined_by_columns  # few kernels have such products

    for op in dots:
        if "quads" in op.properties or not _may_be_quads(op) or (found := joined_by_columns(op)) is None:
            continue
        if all(map(_may_be_quads, (*found.sums, *found.rows))) and all(is_zero(dot.operands[2]) for dot in found.sums):
            for dot in found.sums:
                dot.properties["quads"] = UnitAttr()
            for dot in found.rows:
                if not umma_of(dot).a_in_shared:    # type: ignore[union-attr]
                    dot.properties["quad_rows"] = UnitAttr()


def _may_be_quads(op: Operation) -> bool:
    """Whether a product is of 64 rows, by one CTA, in one part, and its rows aren't bytes that registers hold: a cell of four has
    them from one thread."""
    atom = umma_of(op)
    if not isinstance(atom, UmmaAtom) or op.properties.get("k_slices") != IntAttr(1):
        return False
    batch, m, _, _ = dot_shape(op)
    return atom.rows == m == umma.HALF_ROWS and atom.ctas == 1 and not batch and (
        atom.a_in_shared or umma.IN_CELLS[atom.a] in umma.IN_QUADS)


def _scaled_atom(op: Operation, context: Any) -> BlockScaledAtom | TensorScaledAtom:
    """The instruction of a block-scaled product. Raises CompileError if the target has none."""
    atom: BlockScaledAtom | TensorScaledAtom | None
    if "block" in op.properties and not context.target.has_block_scaled_mma:
        from tileiras.layout.atoms import tensor_scaled
        block: Any = op.properties["block"]
        _, m, n, k = dot_shape(op)
        element = "f4E2M1FN" if "packed" in op.properties else _types(op)[0]
        scale = element_name(op.operands[3].type.element_type)  # type: ignore[attr-defined]
        atom = tensor_scaled.choose(context.target, element, scale, block.data, m, n, k, ctas_of(op))
    else:
        atom = block_scaled_atom(op, context.target)
    if atom is None:
        raise CompileError("no instruction of the target computes this block-scaled product", location_text(op))
    return atom


def _scaled_columns(op: Operation, atom: BlockScaledAtom | TensorScaledAtom) -> int:
    """Columns of tensor memory that a block-scaled product takes."""
    if "block" not in op.properties:
        return 0
    from tileiras.layout.atoms.tensor_scaled import TensorScaledAtom, factor_columns, whole
    if not isinstance(atom, TensorScaledAtom):
        return 0
    acc, lhs_scale, rhs_scale = (v.type.get_shape() for v in op.operands[2:])  # type: ignore[attr-defined]
    return umma.columns_of(acc, atom.rows) + factor_columns(whole(lhs_scale, len(acc) - 1), whole(rhs_scale, len(acc) - 2))


def warp_atom(op: Operation, target: Any, warps: int = 1) -> MmaAtom | None:
    """The instruction by which so many warps compute a dot."""
    batch, m, n, k = dot_shape(op)
    return choose_atom(target, *_types(op), m, n, k, _signed(op, "signedness_lhs"), _signed(op, "signedness_rhs"),
                       max(1, warps // max(batch, 1)))


def _wgmma_of(op: Operation, func: Operation, target: Any) -> WgmmaAtom | None:
    _, m, n, k = dot_shape(op)
    num_warps: int = func.properties["num_warps"].data  # type: ignore[attr-defined]
    return warpgroup.choose(target, *_types(op), m, n, k, num_warps, _signed(op, "signedness_lhs"),
                            _signed(op, "signedness_rhs"))


def umma_for(op: Operation, warps: int, target: Any, turned: bool = False) -> UmmaAtom | str:
    """The instruction of so many warps' tensor core, or why there is none. `turned`: for the product of both operands turned."""
    batch, m, n, k = dot_shape(op)
    a, b, acc = _types(op)
    signs = _signed(op, "signedness_lhs"), _signed(op, "signedness_rhs")
    if turned:
        a, b, m, n, signs = b, a, n, m, (signs[1], signs[0])
    return umma.chosen(target, a, b, acc, m, n, k, warps, batch, *signs, ctas_of(op))


def _into_tensor_memory(dots: list[Operation], func: Operation, context: Any, free: int,
                        taken: ColumnsByLoop) -> tuple[dict[Operation, UmmaAtom], dict[Operation, str]]:
    """The products by tcgen05 with their instructions, and why others aren't. All accumulators are counted before any operand: a
    product's rows may go by shared memory, but a product without an accumulator goes by warps, whose registers it takes."""
    found: dict[Operation, UmmaAtom] = {}
    whys: dict[Operation, str] = {}
    num_warps: int = func.properties["num_warps"].data  # type: ignore[attr-defined]
    for op in dots if context.target.has_tcgen05 and context.uses("tcgen05") else ():
        atom = umma_for(op, num_warps, context.target)
        if isinstance(atom, str):
            whys[op] = atom
        elif (columns := _new_columns(op, atom)) and columns > (room := free - taken.beside(op)) and not (
                free == umma.COLUMNS and taken.fits_in_turn(op, columns)):
            whys[op] = f"it takes {columns} columns of tensor memory, and other products leave {max(room, 0)}"
        else:
            found[op] = atom
            op.properties["atom"] = StringAttr(atom.intrinsic)      # which tells the next one whose sums it may go on in
            taken.add(op, columns)
    return found, whys


def _new_columns(op: Operation, atom: UmmaAtom | None) -> int:
    """Columns of tensor memory that a dot's accumulator takes, where it doesn't go on in another's."""
    if atom is None or goes_on_from(op) is not None:
        return 0
    batch, m, n, _ = dot_shape(op)
    return umma.columns_of(*umma.place_of(atom, (batch, m, n) if batch else (m, n)))


def _operand_columns(op: Operation, atom: UmmaAtom) -> int:
    """Columns of tensor memory for a first operand that another product's rows become, or that threads make; more than there are
    where it isn't one, or can't lie there."""
    if atom.a not in umma.IN_CELLS or not (takes_rows(op) or is_made(op, op.operands[0])):
        return umma.COLUMNS + 1
    batch, m, _, k = dot_shape(op)
    return umma.columns_of((batch, m, k) if batch else (m, k), atom.rows) // umma.IN_CELLS[atom.a]


def _read_before(op: Operation, columns: int, left: Mapping[Operation, int]) -> Operation | None:
    """The product of whose accumulator a first operand's rows are made, and whose columns they take when it has been read: of those
    that begin anew in the same block, by how many columns each has `left`."""
    return next((dot for dot in rows_from(op) if dot.parent is op.parent and left.get(dot, 0) >= columns), None)


def _types(op: Operation) -> tuple[str, str, str]:
    a, b, c = (element_name(v.type.element_type) for v in op.operands[:3])  # type: ignore[attr-defined]
    return a, b, c


def _calls(op: Operation) -> bool:
    """Whether the op becomes a call of a function that isn't inlined: vprintf, malloc."""
    return op.name in CALLS or (op.name == "nv_tileas.alloca" and "global" in op.properties)


def _starts_anew(op: Operation, atom: WgmmaAtom) -> bool:
    """Whether a product starts at zero and is added to its accumulator afterwards: one of 8-bit floats without `fast_acc`."""
    return atom.a in warpgroup.NARROW_SUMS and "fast_acc" not in op.properties and not is_zero(op.operands[2])


def _words(op: Operation, func: Operation) -> int:
    """Registers of a thread that hold a product."""
    num_warps: int = func.properties["num_warps"].data  # type: ignore[attr-defined]
    return words_of(op.results[0].type, num_warps)     # type: ignore[arg-type]


def _is_turned(rhs: Any) -> bool:
    """Whether B's columns lie contiguous in memory, which a matrix descriptor of bytes can't say."""
    load = rhs.owner
    if not isinstance(load, Operation) or load.name != "nv_tileas.tiled_load":
        return False
    return contiguous_of(load) == len(rhs.type.get_shape()) - 1


def pays_by_columns(op: Operation, atom: MmaAtom, num_warps: int) -> bool:
    """Whether warps that each multiply columns of their own, of a B that they compute, read less from shared memory than warps
    that share out rows and columns write and read; each has room for its columns then."""
    batch, m, n, k = dot_shape(op)
    bits = log2(max(1, num_warps // max(batch, 1)))
    rows, columns = split_warps(m, n, atom.m, atom.n, bits)
    if n // atom.n < 1 << bits or k * n >> bits > WARP_THREADS * MOST_COMPUTED:
        return False
    return m << bits <= WAIT_FACTOR * ((m << columns) + n + (n << rows))


def _start_anew(op: Operation) -> None:
    """Start at zero, and add."""
    acc, block = op.operands[2], op.parent
    assert block is not None and isinstance(acc.type, TensorType)
    zero = arith.Constant.make([], [acc.type], {"value": FloatAttr(0.0, acc.type.element_type)})  # type: ignore[arg-type]
    total = arith.Addf.make([acc, op.results[0]], [acc.type], {"rounding": StringAttr(NEAREST)})
    op.results[0].replace_uses_with_if(total.results[0], lambda use: use.operation is not total)
    op.operands[2] = zero.results[0]
    for new in (zero, total):
        new.location = op.location
    block.insert_op_before(zero, op)
    block.insert_op_after(total, op)


def _signed(op: Operation, name: str) -> bool:
    attr = op.properties.get(name)
    return attr is None or getattr(attr, "data", "signed") == "signed"


def parts_of_k(op: Operation, atom: MmaAtom | WgmmaAtom | UmmaAtom | None, context: Any) -> int:
    """Parts of k, so that both operands of one part fit the block's shared memory; in a ring of them, that what ptxas grants
    besides, too."""
    target = context.target
    batch, m, n, k = dot_shape(op)
    lhs: Any = op.operands[0].type
    size = 2 if atom is not None and atom.widen else element_bytes(lhs.element_type)
    budget = target.max_static_smem - SHARED_RESERVE
    if target.has_cp_async and context.uses("pipelines"):
        budget = max(budget, target.most_static_smem // 2 - SHARED_RESERVE)
    slices, least = 1, atom.k if atom is not None else 1
    while max(batch, 1) * (m + n // ctas_of(op)) * k // slices * size > budget and k // slices > least:
        slices *= 2
    return slices


def _widen(op: Operation) -> None:
    """Both operands as f16."""
    block = op.parent
    assert block is not None
    for i, v in enumerate(op.operands[:2]):
        t = v.type
        assert isinstance(t, TensorType)
        wide: Attribute = TensorType(Float16Type(), t.shape)
        cast = arith.Convertf.make([v], [wide])
        cast.location = op.location
        block.insert_op_before(cast, op)
        op.operands[i] = cast.results[0]
