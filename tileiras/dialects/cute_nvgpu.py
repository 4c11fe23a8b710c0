"""cute_nvgpu: instructions on memory with layouts and on fragments; each op names its atom (layout/atoms/registry.py).

    %d = cute_nvgpu.arch.mma.SM80(%a, %b, %c) {atom = "sm80.mma.m16n8k16.f32.f16.f16"}
             : (vector<8xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %f = cute_nvgpu.arch.copy.ldsm(%v) {atom = "atom.ldsm.m8n8.x4"} : memref in smem -> vector<8xi16>
    %w = cute_nvgpu.smem_desc_view(%v) {form = "wgmma", k = 1} : memref in smem -> i64

`OPERANDS_OF` says which operand of an atom each of an op's values is. The verifier compares where they live, and for
fragments how many elements of how many bits a thread holds.
"""
from __future__ import annotations

from tileiras.dialects.base import TileOp

FORMS = ("wgmma", "tcgen05")
_VECTOR, _REF = "llvm.vector", "cute.memref"


def _op(mnemonic: str, operands: str, results: str = "", attrs: str = "atom:name") -> type[TileOp]:
    name = "".join(part.capitalize() for part in mnemonic.replace(".", "_").split("_"))
    return type(name, (TileOp,), {"name": f"cute_nvgpu.{mnemonic}", "OPERANDS": operands, "RESULTS": results, "ATTRS": attrs})


_TABLE: tuple[tuple[str, str, str, str, str, str], ...] = (
    # mnemonic, operands, results, prefix of its atoms, atom operands of the values in order ("-": none), more attributes
    ("arch.mma.SM80", f"a:{_VECTOR} b:{_VECTOR} c:{_VECTOR}", f"d:{_VECTOR}", "sm80.mma. sm89.mma.", "A B D D", ""),
    ("arch.mma.SM120.block_scaled", f"a:{_VECTOR} b:{_VECTOR} c:{_VECTOR} sfa:{_VECTOR} sfb:{_VECTOR}", f"d:{_VECTOR}",
     "SM120.mma_bs.", "A B D SFA SFB D", ""),
    ("arch.mma.SM90", f"acc:{_VECTOR} a:llvm.value b:llvm.int accumulate:llvm.bool", f"d:{_VECTOR}", "sm90.mma.", "D A B - D",
     ""),
    ("arch.mma.SM100.umma", f"acc:{_REF} a:llvm.value b:llvm.int accumulate:llvm.bool", "", "sm100.mma.", "D A B -", ""),
    ("arch.copy.ldsm", f"source:{_REF}", f"result:{_VECTOR}", "atom.ldsm.", "memory registers", ""),
    ("arch.copy.stsm", f"value:{_VECTOR} target:{_REF}", "", "atom.stsm.", "registers memory", ""),
    ("universal_copy", f"source:{_REF} target:{_REF}", "", "atom.universal_copy.", "- -", ""),
    ("arch.copy.SM80.cp_async", f"source:{_REF} target:{_REF}", "", "atom.simt_async_copy.", "source target", ""),
    ("arch.copy.SM90.tma_load", f"desc:llvm.ptr target:{_REF} mbarrier:llvm.ptr coords:llvm.int*", "", "atom.tma_load.",
     "global shared -", ""),
    ("arch.copy.SM90.tma_store", f"source:{_REF} desc:llvm.ptr coords:llvm.int*", "", "atom.tma_store.", "shared global", ""),
    ("arch.copy.SM90.tma_reduce", f"source:{_REF} desc:llvm.ptr coords:llvm.int*", "", "atom.tma_reduce.", "shared global", ""),
    ("arch.copy.SM100.tmem_load", f"source:{_REF}", f"result:{_VECTOR}", "atom.tmem_load.", "cells registers", ""),
    ("arch.copy.SM100.tmem_store", f"value:{_VECTOR} target:{_REF}", "", "atom.tmem_store.", "registers cells", ""),
)

OPS: dict[str, type[TileOp]] = {}
PREFIXES: dict[str, tuple[str, ...]] = {}
OPERANDS_OF: dict[str, tuple[str, ...]] = {}
for _mnemonic, _operands, _results, _prefix, _roles, _more in _TABLE:
    _class = _op(_mnemonic, _operands, _results, f"atom:name {_more}".strip())
    OPS[_class.name] = _class
    PREFIXES[_class.name] = tuple(_prefix.split())
    OPERANDS_OF[_class.name] = tuple(_roles.split())

SmemDescView = _op("smem_desc_view", f"source:{_REF}", "result:llvm.int", "form:name k:count")
MakeTmaDescTiled = _op("make_tma_desc_tiled", "base:llvm.ptr sizes:llvm.int* strides:llvm.int*", "desc:llvm.ptr",
                       "element:name box:numbers swizzle:count")
MakeWarpUniform = _op("arch.make_warp_uniform", "source:llvm.int", "result:llvm.int", "")
OPS |= {c.name: c for c in (SmemDescView, MakeTmaDescTiled, MakeWarpUniform)}
