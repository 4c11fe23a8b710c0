"""What the choice of layouts and instructions means to the program's author: widths of memory accesses, tensor cores.

A reason names what stands in the way as the program's text names it (`%arg3`), and what would remove it. The facts
are those that the passes decided by; nothing is decided here.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from tileiras.analysis.access import MAX_ACCESS_BYTES, access_width, contiguous_of
from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.tma import Refusal
from tileiras.dialects.element import element_bytes, element_name
from tileiras.dialects.nv_tileaa import DYNAMIC, int_values
from tileiras.dialects.nv_tileas import layout_of
from tileiras.layout.atoms import ATOMS, BITS, LEAST_USE, TYPE_NAMES, MmaAtom, has_atom
from tileiras.layout.atoms.umma import UmmaAtom
from tileiras.layout.atoms.warpgroup import WgmmaAtom
from tileiras.remarks import ANALYSIS, FAILED, MEMORY, MISSED, PASSED, TENSOR_CORE, Remark, remark, tile_text
from tileiras.schedule.names import DEPTH, told
from tileiras.transforms.hint_remarks import ignore_latency

NOT_STORES = "it acts on loads only"
UNSCHEDULED = "the copy engine loads it for no loop that is scheduled: its ring has the stages that hide the load"
NO_RING = "it is loaded in the iteration that uses it: no ring in shared memory takes it"
ASSUME = "add an assume_div_by"
THREADS = 32
_TRACED = 64
"""Ops that are looked through, at most, to find the argument that a value comes from."""
_TRANSPARENT = ("nv_tileas.assume", "arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "nv_tileas.ptr_to_ptr")


def report_accesses(func: Operation, remarks: list[Remark], refused: Sequence[tuple[Operation, list[Refusal]]] = ()) -> None:
    """Append the remarks on a function's loads and stores, whose layouts are final. `refused`: those that might have been the copy
    engine's, and why they aren't."""
    reporter = Reporter(func, remarks)
    for op in func.walk():
        name = op.name.removeprefix("nv_tileas.")
        if name in ("tiled_load", "tiled_store", "load", "store"):
            reporter.access(op, name.removeprefix("tiled_"))
        elif name in ("tma_load", "tma_store"):
            reporter.engine(op, name.removeprefix("tma_"))
    for op, why in refused:
        reporter.refused(op, "load" if op.name.endswith("load") else "store", why)


def report_engine_by_cost(func: Operation, slots: dict[Operation, tuple[float, float]], engine: set[Operation],
                          remarks: list[Remark]) -> None:
    """Append what threads would take for each access that may be the copy engine's, and what the engine would, in issue slots."""
    for op, (by_threads, by_engine) in slots.items():
        verb = "load" if op.name.endswith("load") else "store"
        tile: Any = (op.results[0] if verb == "load" else op.operands[0]).type
        who = "the copy engine moves it" if op in engine else "threads move it"
        remarks.append(remark(func, op, ANALYSIS, MEMORY, "MemoryEngineByCost", f"{verb} of {tile_text(tile)}: {who}",
                              {"ThreadSlots": round(by_threads), "EngineSlots": round(by_engine)},
                              ["fewer issue slots of a warp count; the engine needs a pipe's set-up, a wait and a trip through "
                               "shared memory, threads need addresses, bounds and as many accesses as alignment asks for"]))


def report_dot(func: Operation, op: Operation, atom: MmaAtom | WgmmaAtom | UmmaAtom | None, k_slices: int, target: Any,
               remarks: list[Remark], why: str = "") -> None:
    """Append the remarks on a dot for which this instruction was chosen. `why`: what kept it from tensor memory."""
    dots = Dots(func, target, remarks)
    dots.dot(op, atom, k_slices)
    if why and atom is not None:
        dots.say(op, MISSED, TENSOR_CORE, "TensorCoreNotInTensorMemory", "MMA operation doesn't accumulate in tensor memory",
                 reasons=[why])


class Base:
    """The remarks of one function."""

    def __init__(self, func: Operation, remarks: list[Remark]) -> None:
        self.func, self.remarks = func, remarks

    def say(self, op: Operation, kind: str, category: str, name: str, text: str, notes: dict[str, str | int] | None = None,
            reasons: list[str] | None = None) -> None:
        self.remarks.append(remark(self.func, op, kind, category, name, text, notes, reasons))


class Reporter(Base):
    """Loads and stores."""

    def __init__(self, func: Operation, remarks: list[Remark]) -> None:
        super().__init__(func, remarks)
        self.axis = AxisAnalysis(func)

    # --- loads and stores -----------------------------------------------------------------------------------------

    def engine(self, op: Operation, verb: str) -> None:
        noun, t = verb.capitalize(), op.map.type  # type: ignore[attr-defined]
        self.say(op, PASSED, MEMORY, f"Memory{noun}InstructionSelected", f"{noun} instruction selected",
                 {"Instruction": f"TMA {noun} instruction", "Shape": str(list(int_values(t.shape)))})

    def refused(self, op: Operation, verb: str, why: list[Refusal]) -> None:
        reasons = []
        for refusal in why:
            text = refusal.reason.replace("{name}", self.name(refusal.value, "that it is made with"))
            reasons.append(f"{text}; {ASSUME}<{refusal.needs}>" if refusal.needs else text)
        self.say(op, FAILED, MEMORY, f"MemoryTma{verb.capitalize()}Failed", f"Failed to select TMA {verb} instruction",
                 reasons=reasons)

    def access(self, op: Operation, verb: str) -> None:
        if told(op, DEPTH) is None:
            ignore_latency(self.func, op, NOT_STORES if verb == "store" else NO_RING, self.remarks)
        tiled = "check" in op.properties
        tensor: SSAValue = op.results[0] if verb == "load" else op.source  # type: ignore[attr-defined]
        noun = "Load" if verb == "load" else "Store"
        notes: dict[str, str | int] = {"Instruction": f"Global-memory {verb} instruction"}
        if "runs" not in op.properties or not isinstance(tensor.type, TensorType):
            self.say(op, PASSED, MEMORY, f"Memory{noun}InstructionSelected", f"{noun} instruction selected", notes)
            return
        size = element_bytes(tensor.type.element_type)
        width = access_width(op, layout_of(tensor))
        notes["Shape"] = str(list(tensor.type.get_shape()))
        notes["AccessBytes"] = width * size
        self.say(op, PASSED, MEMORY, f"Memory{noun}InstructionSelected", f"{noun} instruction selected", notes)
        best = self.best_width(tensor, size)
        if width < best:
            reasons = self.view_reasons(op, best, size) if tiled else self.pointer_reasons(op, best, size)
            self.say(op, MISSED, MEMORY, "MemoryAccessWidth",
                     f"{verb} of {tile_text(tensor.type)} uses {width * size}-byte accesses, {best * size} bytes are possible",
                     {"AccessBytes": width * size, "PossibleBytes": best * size},
                     reasons or ["the tile's layout, chosen for its other uses, gives a thread fewer neighbours"])
        if tiled and any(_checked(op)):
            self.bounds(op, verb, tensor.type)

    def best_width(self, tensor: SSAValue, size: int) -> int:
        """Elements that one access could take if alignment allowed everything: each thread still has to have work."""
        count = 1
        for extent in tensor.type.get_shape():  # type: ignore[attr-defined]
            count *= extent
        longest = max(tensor.type.get_shape(), default=1)  # type: ignore[attr-defined]
        return max(1, min(MAX_ACCESS_BYTES // size, longest, count // (THREADS * layout_of(tensor).num_warps)))

    def view_reasons(self, op: Operation, best: int, size: int) -> list[str]:
        view: SSAValue = op.view  # type: ignore[attr-defined]
        t: Any = view.type
        dim_map, steps = int_values(t.dim_map), int_values(t.steps)
        memref = self.axis.memref(view)
        contiguous = contiguous_of(op)
        if contiguous is None:
            strides = ", ".join("?" if s is None else str(s) for s in memref.strides)
            return [f"no dimension of the tile has stride 1 in memory (strides [{strides}]): neighbours lie apart"]
        sizes, strides_ = self.descriptors(view)
        dim = dim_map[contiguous]
        out = []
        if memref.base_alignment < best * size:
            out.append(f"{self.name(self.base(view), 'the base pointer')} isn't known to be aligned to {best * size} bytes; "
                       f"{ASSUME}<{best * size}>")
        for d in dim_map:
            if d != dim and gcd(memref.stride_divisors[d], best) < best:
                out.append(self.divisor_reason("stride", memref.strides[d], strides_.get(d), d, best))
        coordinate = list(op.coords)[contiguous]  # type: ignore[attr-defined]
        if gcd(steps[contiguous] * self.axis.divisor(coordinate), best) < best:
            out.append(f"the tile's start in dimension {contiguous}, index times {steps[contiguous]}, isn't known "
                       f"to be a multiple of {best}")
        if _checked(op)[contiguous] and gcd(memref.extent_divisors[dim], best) < best:
            out.append(self.divisor_reason("extent", memref.extents[dim], sizes.get(dim), dim, best)
                       + ", or pad the array and promise inbounds")
        return out

    def divisor_reason(self, what: str, static: int | None, value: SSAValue | None, dim: int, best: int) -> str:
        if static is not None:
            return f"{what} {static} of dimension {dim} isn't a multiple of {best}"
        return f"{what} {self.name(value, f'of dimension {dim}')} isn't known to be a multiple of {best}; {ASSUME}<{best}>"

    def pointer_reasons(self, op: Operation, best: int, size: int) -> list[str]:
        axis, p = self.axis, op.operands[0]
        contiguity = axis.contiguity(p)
        run = max(contiguity, default=1)
        if run <= 1:
            return ["the pointers aren't known to be neighbours: each is computed on its own"]
        dim = max(range(len(contiguity)), key=lambda d: (contiguity[d], d))
        out = []
        if run < best:
            out.append(f"only {run} pointers in a row are known to be neighbours along dimension {dim}")
        aligned = axis.divisibility(p)[dim]
        if aligned < best * size:
            out.append(f"the pointers aren't known to be aligned to {best * size} bytes (but to {aligned}); "
                       f"{ASSUME}<{best * size}> to the base pointer and to what is added to it")
        mask = op.mask  # type: ignore[attr-defined]
        if mask is not None and isinstance(mask.type, TensorType) and axis.constancy(mask)[dim] < best:
            out.append(f"the mask isn't known to be the same for {best} neighbours along dimension {dim}; "
                       f"{ASSUME}<{best}> to the bound that it compares with")
        return out

    def bounds(self, op: Operation, verb: str, tile: TensorType) -> None:
        view: SSAValue = op.view  # type: ignore[attr-defined]
        t: Any = view.type
        dim_map, shape = int_values(t.dim_map), int_values(t.tile_shape)
        memref = self.axis.memref(view)
        sizes, _ = self.descriptors(view)
        dims = [i for i, checked in enumerate(_checked(op)) if checked]
        reasons = [self.divisor_reason("extent", memref.extents[dim_map[i]], sizes.get(dim_map[i]), dim_map[i], shape[i])
                   for i in dims if gcd(memref.extent_divisors[dim_map[i]], shape[i]) < shape[i]]
        self.say(op, ANALYSIS, MEMORY, "MemoryBoundsCheck",
                 f"{verb} of {tile_text(tile)} checks bounds along dimension {' and '.join(map(str, dims))}",
                 reasons=reasons or ["tiles of this view may overlap the array's end"])

    # --- names ----------------------------------------------------------------------------------------------------

    def name(self, value: SSAValue | None, otherwise: str) -> str:
        """The argument that a value comes from, as the program's text names it."""
        for _ in range(_TRACED):
            if isinstance(value, BlockArgument):
                return f"%arg{value.index}" if value.owner is self.func.regions[0].block else otherwise
            if value is None or not isinstance(value.owner, Operation) or value.owner.name not in _TRANSPARENT:
                break
            value = value.owner.operands[0]
        return otherwise

    def maker(self, view: SSAValue) -> Any:
        owner: Any = view.owner
        if getattr(owner, "name", "").endswith(".block_tile"):
            owner = owner.operands[0].owner
        return owner if getattr(owner, "name", "").endswith(".make_memref") else None

    def base(self, view: SSAValue) -> SSAValue | None:
        maker = self.maker(view)
        return None if maker is None else maker.base

    def descriptors(self, view: SSAValue) -> tuple[dict[int, SSAValue], dict[int, SSAValue]]:
        """The values of dynamic extents and strides, by dimension of the array."""
        maker = self.maker(view)
        if maker is None:
            return {}, {}
        t = maker.results[0].type

        def dynamic(static: Any, given: Any) -> dict[int, SSAValue]:
            rest = iter(given)
            return {d: v for d, n in enumerate(static) if n.data == DYNAMIC and (v := next(rest, None)) is not None}
        return dynamic(t.shape, maker.sizes), dynamic(t.strides, maker.strides)


def _checked(op: Operation) -> tuple[int, ...]:
    return int_values(op.properties["check"])  # type: ignore[arg-type]


class Dots(Base):
    """Products."""

    def __init__(self, func: Operation, target: Any, remarks: list[Remark]) -> None:
        super().__init__(func, remarks)
        self.target = target

    def dot(self, op: Operation, atom: MmaAtom | WgmmaAtom | UmmaAtom | None, k_slices: int) -> None:
        lhs, rhs, acc = (v.type for v in op.operands[:3])
        assert isinstance(lhs, TensorType) and isinstance(rhs, TensorType) and isinstance(acc, TensorType)
        types = [element_name(t.element_type) for t in (lhs, rhs, acc)]
        target = self.target
        if atom is None:
            self.say(op, FAILED, TENSOR_CORE, "TensorCoreMMA",
                     "MMA operation failed to optimize to use Tensor Cores, it is using FMA instructions instead",
                     {"Instruction": "FMA", "Shape": "[1, 1, 1]"}, [self.no_atom(types, lhs, acc)])
        else:
            since = "SM120" if op.name.endswith("scaled") else "SM75" if target.cc < 80 else "SM80"
            if isinstance(atom, WgmmaAtom):
                since = "SM90"
            elif atom.intrinsic.startswith("sm100."):
                since = "SM100"
            self.say(op, PASSED, TENSOR_CORE, "TensorCoreMMA", "MMA operation successfully optimized to use Tensor Cores",
                     {"Instruction": f"Tensor-core {since}",
                      "Shape": str([atom.m, atom.n, atom.k * (atom.elements if isinstance(atom, MmaAtom) else 1)]),
                      "Atom": atom.intrinsic})
            if atom.widen:
                self.say(op, MISSED, TENSOR_CORE, "TensorCoreWidened", f"Operands of type {types[0]} are widened to f16",
                         reasons=[f"{target.name} multiplies no {types[0]} on tensor cores that accumulate in {types[2]}"])
            rows, columns = acc.get_shape()[-2:]
            if rows < getattr(atom, "rows", atom.m) or columns < atom.n:
                self.say(op, MISSED, TENSOR_CORE, "TensorCoreSmallTile",
                         f"A {rows}x{columns} tile fills part of a {atom.m}x{atom.n} instruction only",
                         reasons=[f"tiles of at least {atom.m}x{atom.n} use it whole"])
        if k_slices > 1:
            self.say(op, MISSED, MEMORY, "MemoryDotSliced", f"Product goes through shared memory in {k_slices} parts",
                     {"SharedBytes": target.max_static_smem},
                     [f"operands of {tile_text(lhs)} and {tile_text(rhs)} don't fit at once; use a smaller tile"])

    def no_atom(self, types: list[str], lhs: TensorType, acc: TensorType) -> str:
        a, b, c = types
        target = self.target.name
        rows, columns, k = *acc.get_shape()[-2:], lhs.get_shape()[-1]
        integers = a == b == "i8" and c == "i32"
        names = ("s8", "s8", "s32") if integers else tuple(TYPE_NAMES.get(t, "") for t in types)
        of_type = [atom for atom in ATOMS if (atom.a, atom.b, atom.acc) == names]
        if not of_type and a in TYPE_NAMES and BITS[TYPE_NAMES[a]] == 8:
            of_type = [atom for atom in ATOMS if (atom.a, atom.b, atom.acc) == ("f16", "f16", names[2])]
        if not of_type:
            if a == b == "f32":
                sm = self.target
                known = [*(["tf32"] if sm.has_tf32_mma else []), *(["bf16"] if sm.has_bf16_mma else []), "f16"]
                return f"no tensor core format for f32 x f32; convert the operands to {', '.join(known)}"
            return f"no tensor core format for {a} x {b} accumulated in {c}"
        there = [atom for atom in of_type if has_atom(self.target, atom)]
        if not there:
            return f"{target} has no tensor core instruction for {a} x {b}"
        least = min(atom.k for atom in there)
        if k < least:
            return f"the tile's k of {k} is less than the {least} of the smallest instruction"
        first = min(there, key=lambda atom: atom.m * atom.n)
        return (f"a {rows}x{columns} tile is less than 1/{LEAST_USE} of the smallest instruction's {first.m}x{first.n}; "
                "use a larger tile")
