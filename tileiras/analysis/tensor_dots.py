"""What a dot into tensor memory is made of, and what it shares with those of warpgroups: operands that matrix descriptors name."""
from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from tileiras.analysis.warpgroup_dots import wgmma_of
from tileiras.layout.atoms import umma
from tileiras.layout.atoms.umma import UmmaAtom
from tileiras.layout.atoms.warpgroup import WgmmaAtom

TENSOR_DOT = "nv_tileas.tensor_dot"


def umma_of(op: Operation) -> UmmaAtom | None:
    """The instruction of a dot that is computed by tcgen05, None for any other op."""
    name = op.properties.get("atom") if op.name in ("nv_tileas.dot", TENSOR_DOT) else None
    return umma.named(name.data) if isinstance(name, StringAttr) and name.data.startswith(umma.PREFIX) else None


def described_of(op: Operation) -> WgmmaAtom | UmmaAtom | None:
    """The instruction of a dot that reads operands by matrix descriptors, None for any other op."""
    return wgmma_of(op) or umma_of(op)
