"""The instructions of products by the names that dots bear."""
from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.layout.atoms import mma_sync, umma, warpgroup

if TYPE_CHECKING:
    from tileiras.layout.atoms.tensor_scaled import TensorScaledAtom


def atom_named(intrinsic: str) -> mma_sync.MmaAtom | warpgroup.WgmmaAtom | umma.UmmaAtom | TensorScaledAtom:
    """The instruction of that name, block-scaled ones, those of warpgroups and into tensor memory too. Raises KeyError."""
    if intrinsic.startswith(umma.PREFIX):
        return umma.named(intrinsic)
    if intrinsic.startswith(warpgroup.PREFIX):
        return warpgroup.named(intrinsic)
    if intrinsic.startswith("sm100.mma_bs."):
        from tileiras.layout.atoms import tensor_scaled
        return tensor_scaled.named(intrinsic)
    if intrinsic.startswith("mma.block.scale"):
        from tileiras.layout.atoms.block_scaled import BY_NAME
        return BY_NAME[intrinsic]
    return mma_sync.BY_NAME[intrinsic]
