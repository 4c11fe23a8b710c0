"""What a dot into tensor memory is made of, and what it shares with those of warpgroups: operands that matrix descriptors name."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.warpgroup_dots import wgmma_of
from tileiras.dialects.nv_tileas import TmemType
from tileiras.layout.atoms import umma
from tileiras.layout.atoms.umma import UmmaAtom
from tileiras.layout.atoms.warpgroup import WgmmaAtom

if TYPE_CHECKING:
    from tileiras.layout.atoms.tensor_scaled import TensorScaledAtom

TENSOR_DOT, TMEM_STAGE = "nv_tileas.tensor_dot", "nv_tileas.tmem_stage"
DOTS = ("nv_tileas.dot", "nv_tileas.dot_scaled", TENSOR_DOT)


def umma_of(op: Operation) -> UmmaAtom | TensorScaledAtom | None:
    """The instruction of a dot that is computed by tcgen05, None for any other op."""
    name = op.properties.get("atom") if op.name in DOTS else None
    if not isinstance(name, StringAttr) or not name.data.startswith("sm100."):
        return None
    if name.data.startswith(umma.PREFIX):
        return umma.named(name.data)
    from tileiras.layout.atoms import tensor_scaled  # few kernels have such products
    return tensor_scaled.named(name.data)


def is_rows(v: SSAValue) -> bool:
    """Whether a place is what a product reads as its first operand from tensor memory: its columns are planned so that it may still
    do so in its loop's next iteration (tensor_memory.py)."""
    return isinstance(v.type, TmemType) and any(
        is_rows(use.operation.results[0]) if use.operation.name == TMEM_STAGE else
        use.index == 0 and use.operation.name == TENSOR_DOT for use in v.uses)


def is_told_by_dots(op: Operation) -> bool:
    """Whether the tensor core tells that a stage may be filled again, alone or with the threads that read it, too."""
    return "by_dots" in op.properties or "with_dots" in op.properties


def adds_up(op: Operation) -> bool:
    """Whether an op is a product whose sum stays in tensor memory over its loop's iterations, perhaps with what others of the body
    add to it, and threads don't want before the loop's end."""
    block = op.parent
    loop: Any = None if block is None or umma_of(op) is None or op.name == TENSOR_DOT else block.parent_op()
    if block is None or loop is None or loop.name != "scf.for":
        return False
    first = op
    while (before := goes_on_from(first)) is not None:
        first = before
    carried = first.operands[2]
    if carried not in loop.carried_args():
        return False
    added, last = carried, block.last_op
    while (use := added.get_user_of_unique_use()) is not None and umma_of(use) is not None and use.operands[2] is added:
        added = use.results[0]
    assert last is not None
    return use is last and last.operands[loop.carried_args().index(carried)] is added


def is_of_warps(op: Operation) -> bool:
    """Whether warps multiply by instructions of their own, step by step."""
    atom: Any = op.properties.get("atom")
    return atom is not None and atom.data.startswith("mma.")


def is_paired(op: Operation) -> bool:
    """Whether a pair of CTAs computes a product together."""
    atom = umma_of(op)
    return atom is not None and atom.ctas > 1


def ctas_of(op: Operation) -> int:
    """How many CTAs are to compute a dot together, before it has an instruction."""
    return umma.PAIR if "pair" in op.properties else 1


def goes_on_from(op: Operation) -> Operation | None:
    """The product of the same block in whose accumulator a product goes on, which nobody else wants; None where it needs columns of
    its own."""
    acc = op.operands[2]
    before = acc.owner
    if not isinstance(before, Operation) or before.parent is not op.parent or not acc.has_one_use() or before.name == TENSOR_DOT:
        return None
    return before if umma_of(before) is not None else None


def changes_operands(op: Operation) -> bool:
    """Whether a product may change what its operands and their scales hold in shared memory, so that both together still stand for
    the same: signs of scales go to elements."""
    atom = umma_of(op)
    return atom is not None and not isinstance(atom, UmmaAtom) and atom.has_signs


def described_of(op: Operation) -> WgmmaAtom | UmmaAtom | TensorScaledAtom | None:
    """The instruction of a dot that reads operands by matrix descriptors, None for any other op."""
    return wgmma_of(op) or umma_of(op)
