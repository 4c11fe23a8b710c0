"""The boundary from nv_tileas to llvm: functions with their parameters, launch attributes and shared memory; globals."""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region

from tileiras.analysis.agents import block_warps, launch_registers
from tileiras.analysis.effects import BY_TOKENS
from tileiras.analysis.entry_hints import blocks_by_shared_memory, hint, register_limit
from tileiras.analysis.warpgroup_dots import shared_beginnings
from tileiras.conversion.tileas_to_llvm import handlers
from tileiras.conversion.tileas_to_llvm.builder import I32, Builder
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, storage_type
from tileiras.dialects import llvm, nv_tileaa
from tileiras.dialects.location_text import location_text
from tileiras.errors import CompileError

SHARED_ALIGNMENT = 128


def run(module: ModuleOp, context: Any) -> ModuleOp:
    """Lower every nv_tileas function and global of the module to the llvm dialect, for `context.target`. Returns a new module."""
    out: list[Operation] = []
    for op in module.body.block.ops:
        if op.name == "nv_tileas.global":
            out.append(_global(op))
        elif op.name == "nv_tileas.func":
            if context.remarks is not None:
                _report_occupancy(op, context.target, context.remarks)
            out += lower_function(op, context.target, context.opt_level > 0)
    return ModuleOp(out)


def lower_function(func: Operation, target: Any, is_optimized: bool = True) -> list[Operation]:
    """The llvm.func of an nv_tileas.func, after the globals it needs."""
    handlers.load(dict.fromkeys(op.name for op in func.walk()))
    name = func.properties["sym_name"].data  # type: ignore[attr-defined]
    num_warps = block_warps(func)
    old = func.regions[0].block
    try:
        entry = Block(arg_types=[storage_type(a.type) for a in old.args])
    except CompileError as error:
        raise CompileError(error.message, location_text(func)) from error
    region = Region(entry)
    builder = Builder(entry)
    builder.location = func.location
    builder.target = target
    low = Lowering(builder, target, num_warps, name, is_optimized)
    if "cluster" in func.properties:
        low.tile_block_sreg = "clusterid"       # a division by the launch's cluster: 70 to 100 cycles, where none is said either
    globals_: list[Operation] = []
    if "shared_bytes" in func.properties:
        size: Any = func.properties["shared_bytes"]
        alignment: Any = func.properties["shared_alignment"]
        symbol = f"global_smem_{name}"
        globals_.append(llvm.Global.create(properties={
            "sym_name": StringAttr(symbol), "size": size, "alignment": IntAttr(max(SHARED_ALIGNMENT, alignment.data)),
            "space": IntAttr(llvm.SHARED), "linkage": StringAttr("internal")}))
        low.shared_base = builder.address_of(symbol, llvm.SHARED)
    low.generic_pointers = any(op.name == "nv_tileas.alloca" and "global" not in op.properties for op in func.walk())
    low.tells = any(op.name in BY_TOKENS and op.properties["mem_semantic"].data != "weak" for op in func.walk())    # type: ignore
    for a, new in zip(old.args, entry.args):
        # A 32-bit parameter that is loaded and extended at once can't be a factor of `mul.wide` any more; a frozen one can.
        low.set(a, builder.freeze(new) if new.type == I32 else new)
    attributes = ["align 1" if isinstance(a.type, nv_tileaa.PtrType) else "" for a in old.args]
    if "built_maps" in func.properties:
        maps: Any = func.properties.get("tensor_maps")
        hidden = len(attributes) - (len(maps.data) if maps is not None else 0)
        low.map_memory = entry.insert_arg(llvm.ptr(0), hidden)
        attributes.insert(hidden, "align 1")
    low.made_distinct = shared_beginnings(func) if target.has_wgmma else set()
    low.lower_block(old)
    globals_ += low.extra_globals
    launch = {"nvvm.reqntid": StringAttr(str(32 * num_warps)), "nvvm.minctasm": StringAttr("1")}
    if "cluster" in func.properties:
        launch |= {"nvvm.cluster_dim": StringAttr(str(func.properties["cluster"].data)),     # type: ignore[attr-defined]
                   "nvvm.blocksareclusters": StringAttr("")}
    registers = launch_registers(func) or register_limit(func, target, 32 * num_warps)
    if registers is not None:
        launch["nvvm.maxnreg"] = StringAttr(str(registers))
    properties: dict[str, Attribute] = {"sym_name": StringAttr(name), "kernel": UnitAttr(), "launch": DictionaryAttr(launch),
                                        "arg_attrs": ArrayAttr([StringAttr(text) for text in attributes])}
    for theirs, ours in (("tensor_maps", "maps"), ("built_maps", "built_maps")):
        if theirs in func.properties:
            properties[ours] = func.properties[theirs]
    return [*globals_, llvm.Func.create(properties=properties, regions=[region], location=func.location)]


def _report_occupancy(func: Operation, target: Any, remarks: list[Any]) -> None:
    """What the hint on registers came to, with all agents' threads."""
    from tileiras.remarks import HINTS, MISSED, PASSED, remark
    blocks = hint(func, "occupancy")
    if blocks is None:
        return
    text = f"Hint occupancy = {blocks}"
    threads = 32 * block_warps(func)
    limit, shared = register_limit(func, target, threads), launch_registers(func)
    if limit is not None and shared is not None and shared * threads * blocks <= target.registers_per_sm:
        limit, shared = shared, None
    if limit is None or shared is not None:
        if limit is not None:
            reason = f"agents share out {shared} registers a thread, which one block on an SM has"
        elif blocks > 1 and blocks_by_shared_memory(func, target) == 1:
            reason = "an SM's shared memory holds one block"
        else:
            reason = "a block of any size fits an SM"
        remarks.append(remark(func, func, MISSED, HINTS, "HintIgnored", f"{text} doesn't limit registers", reasons=[reason]))
    else:
        remarks.append(remark(func, func, PASSED, HINTS, "HintApplied", f"{text} limits registers", {"Registers": limit},
                              ["if registers are spilled, a lower occupancy is faster"]))


def _global(op: Operation) -> Operation:
    data = op.properties["value"].data.data  # type: ignore[attr-defined]
    alignment = op.properties.get("alignment")
    return llvm.Global.create(properties={
        "sym_name": op.properties["sym_name"], "size": IntAttr(len(data) // 2), "linkage": StringAttr("internal"),
        "alignment": IntAttr(max(16, getattr(alignment, "data", 0) if isinstance(alignment, IntAttr) else 16)),
        "space": IntAttr(llvm.GLOBAL), "init": StringAttr(data)})
