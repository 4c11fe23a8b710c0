"""`plan-chains`: attention's tile block of 256 rows becomes the program of one of two chains of 128, on targets with tensor memory.

    %q = tiled_load %vq[%i]     : tensor<256x64xf16>             %n = get_chain
    for %j {                                                     %q = tiled_load %wq[%i * 2 + %n] : tensor<128x64xf16>
      %s = dot %q, %k, zeros    : tensor<256x64xf32>             for %j {
      %p = exp %s                                          ->      %s = dot %q, %k, zeros  : tensor<128x64xf32>
      %o = dot %p, %v, %acc                                        ...
    }                                                            }
    tiled_store %o, %vo[%i]                                      tiled_store %o, %wo[%i * 2 + %n]

`materialize-schedule` makes an agent of each chain, beside the one that loads what both read: while the threads of one work on a
product, the tensor core has the other's. Which kernels that is for says analysis/chains.py; tiles are split as for the CTAs of a
cluster (cta_split.py). A hint `occupancy` that tensor memory can't meet is forgotten: nothing is to be made smaller for blocks that
an SM doesn't hold.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation


def run(module: Operation, context: Any) -> None:
    """Split the tile blocks, in place."""
    if not (context.target.has_tcgen05 and context.uses("tcgen05")):
        return
    from tileiras.analysis.chains import CHAINS, blocks_by_tensor_memory, planned
    from tileiras.analysis.entry_hints import bound_occupancy, hint
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.transforms.cta_split import Split
    for func in module.regions[0].block.ops:
        if func.name != "nv_tileaa.func":
            continue
        if hint(func, "occupancy") is not None:
            bound_occupancy(func, blocks_by_tensor_memory(func), "tensor memory", context.remarks)
        plan = planned(func, context)
        if plan is None:
            continue
        if context.remarks is not None:
            from tileiras.remarks import PASSED, TENSOR_CORE, remark
            context.remarks.append(remark(func, func, PASSED, TENSOR_CORE, "RowsInChains",
                                          "Two agents have the rows between them: one's products run while the other computes",
                                          {"Chains": CHAINS, **plan.notes()}))
        Split(func, plan, aa.GetChain).run()
        func.properties["chains"] = IntAttr(CHAINS)
