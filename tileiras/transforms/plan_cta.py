"""`plan-cta`: the CTAs of a cluster share a tile block, where the hint `num_cta_in_cga` asks for several.

    %a = tiled_load %va[%i, %k]   : tensor<128x64xf16>      %rank = get_cta_rank
    %b = tiled_load %vb[%k, %j]   : tensor<64x128xf16>  ->  %a = tiled_load %wa[%i * 2 + %rank, %k] : tensor<64x64xf16>
    %c = dot %a, %b, %acc         : tensor<128x128xf32>     %b = tiled_load %vb[%k, %j] {cta_copies = 1} : tensor<64x128xf16>
    tiled_store %c, %vc[%i, %j]                             %c = dot %a, %b, %acc : tensor<64x128xf32>
                                                            tiled_store %c, %wc[%i * 2 + %rank, %j]

Each CTA computes parts of tiles: behind this pass the function is the program of one CTA, whose tiles are as large as its parts.
A tile is split along axes (analysis/cta_axes.py) that nothing needs whole; what isn't split, every CTA has. Only what reductions
make of parts crosses from one CTA to another. Of the splits there are, the one with the least work a CTA is taken; a hint that
halves nothing is ignored, and a remark says what stands in the way.

Bits of a CTA's rank number the parts of an axis. `cta_copies` on an access is a mask of the bits that number nothing of its tile:
CTAs that differ in these only access the same. What happens once is done by the one where they are 0 (stores, atomics; prints and
assertions stand under a condition); loads may be shared.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from tileiras.analysis.entry_hints import bound_occupancy, hint


def run(module: Operation, context: Any) -> None:
    """Split the tile blocks of the functions that ask for it, in place."""
    for func in module.regions[0].block.ops:
        if func.name != "nv_tileaa.func":
            continue
        if not context.meet_occupancy:
            bound_occupancy(func, 1, "register file", context.remarks)
        ctas = hint(func, "num_cta_in_cga")
        if ctas is None or ctas < 2:
            continue
        # Only here: most kernels ask for no cluster, and shouldn't pay for the imports.
        from tileiras.analysis.cta_plan import Refusal, planned
        from tileiras.remarks import HINTS, MISSED, PASSED, remark
        from tileiras.transforms.cta_split import Split
        try:
            plan = planned(func, ctas, context)
        except Refusal as refusal:
            if context.remarks is not None:
                context.remarks.append(remark(func, func, MISSED, HINTS, "HintIgnored",
                                              f"Hint num_cta_in_cga = {ctas} has no effect", reasons=[str(refusal)]))
            continue
        if context.remarks is not None:
            context.remarks.append(remark(func, func, PASSED, HINTS, "HintApplied",
                                          f"Hint num_cta_in_cga = {ctas} splits a tile block over {ctas} CTAs", plan.notes()))
        Split(func, plan).run()
