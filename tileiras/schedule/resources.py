"""What an op of nv_tileas takes of an SM's units in cycles, and how long after its start its result is there.

An op is a whole tile: an instruction's cost times how often the warps of the block issue it. Rates are those of the machine
that stands for the SM (machine/units.py, machines.py, latencies.py); the figures steer schedules, they predict no time.
Units are the SM's: `tensor` cores, `port` of shared memory, `fma`, `alu`, `half`, `xu`, `fp64`, `issue` slots of the four
schedulers, `ingress` from L2, and `stream`: warps execute in order, so that an op that isn't asynchronous keeps the block's
instructions to itself for as long as its busiest unit works. Loads take `ingress` for as long as their bytes need at the SM's
share of bandwidth; what they wait for memory is latency on the edge to who uses them, and no unit's time.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.dialects.element import element_bytes, element_name
from tileiras.dialects.nv_tileas import COPIES_BY_THREADS, BufferType, LayoutAttr
from tileiras.layout.atoms.names import atom_named
from tileiras.machine import units
from tileiras.machine.latencies import Latencies, latencies
from tileiras.machine.machines import Machine, machine_of

UNITS = ("tensor", "port", "fma", "alu", "half", "xu", "fp64", "issue", "ingress", "stream")
_OF_PIPE = {units.FMA: "fma", units.ALU: "alu", units.FP16: "half", units.XU: "xu", units.FP64: "fp64", units.LSU: "port",
            units.TENSOR: "tensor", units.UNIFORM: "alu", units.CONTROL: "issue"}
HANDOVER = 100
"""Cycles that passing a stage of a ring on takes, however small it is (mbarrier: arrival, wake-up; group: wait and barrier)."""
ASSUMED_TRIPS = 8
"""How often a loop inside a loop runs, as far as is known."""
WGMMA = "sm90.mma."
"""How the names of products of a warpgroup begin (layout/atoms/wgmma.py)."""
INTO_TENSOR_MEMORY = "sm100."
"""How those of products into tensor memory do."""
FIXED_LATENCY = 5
"""Of arithmetic: mean of the pipes' dependent latencies (PX)."""


@dataclass(frozen=True)
class Footprint:
    """`uses`: (unit, cycles) of what an op keeps busy. `latency`: cycles from its start to a user's start."""

    uses: tuple[tuple[str, float], ...] = ()
    latency: float = 0

    @property
    def cycles(self) -> float:
        """Of the unit that is busy longest."""
        return max((c for _, c in self.uses), default=0)

    def of(self, unit: str) -> float:
        return sum(c for u, c in self.uses if u == unit)


FREE = Footprint()

# Opcodes (as listings write them) of one f32 element; a number behind `:` is how many.
_F32 = {
    "addf": "FADD", "subf": "FADD", "mulf": "FMUL", "fma": "FFMA", "divf": "MUFU.RCP FFMA:8 FSETP", "remf": "MUFU.RCP FFMA:12",
    "negf": "FADD", "absf": "FADD", "maxf": "FMNMX", "minf": "FMNMX", "cmpf": "FSETP", "ceil": "FRND", "floor": "FRND",
    "exp": "FMUL:2 MUFU.EX2", "exp2": "FMUL:2 MUFU.EX2", "log": "MUFU.LG2 FMUL:3", "log2": "MUFU.LG2 FMUL:2",
    "sqrt": "MUFU.RSQ FFMA:5", "rsqrt": "MUFU.RSQ FMUL:2", "sin": "FFMA:12 F2I", "cos": "FFMA:12 F2I",
    "tan": "FFMA:16 F2I MUFU.RCP", "sinh": "MUFU.EX2 MUFU.RCP FFMA:8", "cosh": "MUFU.EX2 MUFU.RCP FFMA:6", "tanh": "MUFU.TANH",
    "powf": "MUFU.LG2 MUFU.EX2 FFMA:20", "atan2": "MUFU.RCP FFMA:16", "fpowi": "FMUL:16"}
_INTEGERS = {
    "addi": "IADD3", "subi": "IADD3", "muli": "IMAD", "mulhiui": "IMAD.HI", "absi": "IADD3", "negi": "IADD3", "cmpi": "ISETP",
    "maxsi": "IMNMX", "maxui": "IMNMX", "minsi": "IMNMX", "minui": "IMNMX", "andi": "LOP3", "ori": "LOP3", "xori": "LOP3",
    "shli": "SHF", "shrsi": "SHF", "shrui": "SHF", "select": "SEL", "extsi": "PRMT", "extui": "PRMT", "trunci": "PRMT",
    "sitofp": "I2FP", "uitofp": "I2FP", "fptosi": "F2I", "fptoui": "F2I", "bitcast": ""}
_DIVISIONS = ("divsi", "divui", "floordivsi", "ceildivsi", "ceildivui", "remsi", "remui")
_DIVISION = "I2F F2I MUFU.RCP IMAD:6 IADD3:5 ISETP:3"
_PACKED = ("addf", "subf", "mulf", "fma", "maxf", "minf", "negf", "absf")
"""On 16-bit floats two elements go in one instruction."""


@lru_cache(maxsize=256)
def _words(text: str) -> tuple[tuple[str, int], ...]:
    return tuple((w.partition(":")[0], int(w.partition(":")[2] or 1)) for w in text.split())


class Model:
    """One SM's costs, for blocks of `warps` warps. Ask `model_of`."""

    def __init__(self, target: Any, warps: int) -> None:
        self.target = target
        self.warps = warps
        self.machine: Machine = machine_of(target.cc)
        self.latencies: Latencies = latencies(target.cc)
        self.generation = units.generation(target.cc)
        rate = (self.machine.l2_rate + self.machine.l2_shared) / 2
        self.ingress = min(self.machine.ingress, rate / self.machine.sustained_clock / self.machine.sms)
        """Bytes a cycle that an SM gets of L2 when all of them read, some of it what others read, too."""

    # ---- pieces

    def instructions(self, opcode: str, count: float) -> tuple[tuple[str, float], ...]:
        """(unit, cycles) of `count` instructions of one warp each."""
        use = units.use_of(self.target.cc, opcode, self.machine.tensor_half)
        ports = units.ports(self.target.cc)[use.pipe] if use.port < 0 else 1
        slots = count / units.PARTITIONS
        unit = _OF_PIPE[use.pipe]
        if unit == "issue":
            return (("issue", slots),)
        return ((unit, slots * use.interval / ports), ("issue", slots))

    def shared(self, nbytes: float, passes: float = 1) -> tuple[tuple[str, float], ...]:
        """(unit, cycles) of bytes through the port of shared memory, by accesses of 16 bytes a thread."""
        return (("port", passes * nbytes / self.generation.smem_bytes), ("issue", nbytes / (16 * units.LANES) / units.PARTITIONS))

    def copies(self, value: SSAValue) -> float:
        """Warp instructions that doing something once an element of a value takes: its registers, in each warp."""
        t = value.type
        if not isinstance(t, TensorType):
            return self.warps
        if isinstance(t.encoding, LayoutAttr):
            return t.encoding.data.num_regs * self.warps
        return max(1.0, prod(t.get_shape()) / units.LANES)

    # ---- ops

    def footprint(self, op: Operation) -> Footprint:
        """Of one op. What costs nothing at run time gives `FREE`."""
        found = self._footprint(op)
        if not found.uses or is_asynchronous(op):
            return found
        return Footprint((("stream", found.cycles), *(use for use in found.uses if use[0] != "stream")), found.latency)

    def beside_another_iteration(self, op: Operation) -> Footprint:
        """The same of a loop's op beside which those of another iteration may stand."""
        found = self.footprint(op)
        uses = dict(found.uses)
        return replace(found, uses=tuple((uses | {"stream": uses["issue"]}).items())) if goes_on_beside(op) else found

    def _footprint(self, op: Operation) -> Footprint:
        dialect, _, name = op.name.partition(".")
        if dialect in ("arith", "math"):
            return self._elementwise(op, name)
        rule = _RULES.get(name)
        if rule is not None:
            return rule(self, op)
        if op.regions:
            return self._nested(op)
        return FREE

    def _timed(self, parts: tuple[tuple[str, float], ...], latency: float) -> Footprint:
        total: dict[str, float] = {}
        for unit, cycles in parts:
            total[unit] = total.get(unit, 0) + cycles
        uses = tuple((u, c) for u, c in total.items() if c > 0)
        return Footprint(uses, max((c for _, c in uses), default=0) + latency)

    def _elementwise(self, op: Operation, name: str) -> Footprint:
        if name == "constant" or not op.results:
            return FREE
        result = op.results[0]
        wide: Any = op.operands[-1].type if name in ("cmpf", "cmpi", "trunci", "fptosi", "fptoui") else result.type
        element = wide.element_type if isinstance(wide, TensorType) else wide
        count = self.copies(result)
        kind, nbytes = element_name(element), element_bytes(element)
        if name == "convertf":
            text, count = ("F2FP", count / 2) if nbytes <= 2 else ("PRMT", count)
        elif name in _F32:
            text = _F32[name]
            if nbytes == 8:
                text, count = "DFMA", count * max(1, sum(n for _, n in _words(text)))
            elif nbytes <= 2 and kind != "tf32" and name in _PACKED:
                text, count = "HFMA2", count / 2
        elif name in _DIVISIONS:
            text = _DIVISION
        else:
            text = _INTEGERS.get(name, "IADD3")
        if nbytes == 8 and name not in _F32:
            count *= 2
        parts = tuple(p for opcode, n in _words(text) for p in self.instructions(opcode, n * count))
        return self._timed(parts, self.latencies.xu if "MUFU" in text or "F2I" in text else FIXED_LATENCY)

    def _nested(self, op: Operation) -> Footprint:
        """A loop or an if: what is inside, one after another; of an if the dearer branch."""
        trips = ASSUMED_TRIPS if op.name in ("scf.for", "nv_tileas.loop") else 1
        worst = FREE
        for region in op.regions:
            parts: list[tuple[str, float]] = []
            length = 0.0
            for block in region.blocks:
                for inner in block.ops:
                    found = self._footprint(inner)
                    parts += [(u, trips * c) for u, c in found.uses]
                    length += trips * found.latency
            mine = self._timed(tuple(parts), 0)
            mine = Footprint(mine.uses, max(length, mine.latency))
            if mine.latency > worst.latency:
                worst = mine
        return worst

    def _dot(self, op: Operation) -> Footprint:
        from tileiras.analysis.layout_rules import dot_shape
        batch, m, n, k = dot_shape(op)
        macs = max(batch, 1) * m * n * k
        operand_bytes = [_bytes_of(v) for v in op.operands[:2]]
        atom = op.properties.get("atom")
        if atom is None:
            return self._timed((*self.instructions("FFMA", macs / units.LANES), *self.shared(2 * sum(operand_bytes))),
                               FIXED_LATENCY)
        name: str = atom.data  # type: ignore[attr-defined]
        fetched = [b if isinstance(v.type, BufferType) else 0 for b, v in zip(operand_bytes, op.operands)]
        if name.startswith(WGMMA):
            return self._wgmma(op, name, m, n, k, batch)
        if name.startswith(INTO_TENSOR_MEMORY):
            return self._umma(name, m, n, k, batch)
        row: Any = atom_named(name)
        # Each warp reads its rows of A and its columns of B: a near square of warps shares both.
        across = max(1, round(self.warps ** 0.5))
        parts = [*self.shared((fetched[0] + fetched[1]) * across)]
        issues = macs / (row.m * row.n * row.k * row.elements)
        rate = self.generation.mma_rate.get(rate_of(row), 0) or self.generation.mma_rate["f16"]
        half = 2 if self.machine.tensor_half and rate_of(row) in ("f16", "fp8", "tf32") and row.acc == "f32" else 1
        parts += [("tensor", half * macs / rate), ("issue", issues / units.PARTITIONS)]
        return self._timed(tuple(parts), self.latencies.matrix + self.latencies.shared * bool(sum(fetched)))

    def _wgmma(self, op: Operation, name: str, m: int, n: int, k: int, batch: int) -> Footprint:
        from tileiras.machine.tensor import WGMMA_LATENCY_EXTRA, wgmma_fetch, wgmma_interval
        shape = name.split(".")[2]              # m64n128k16
        atom_n, atom_k = int(shape.partition("n")[2].partition("k")[0]), int(shape.partition("k")[2])
        a_in_shared = isinstance(op.operands[0].type, BufferType)
        issues = max(batch, 1) * -(-m // 64) * -(-n // atom_n) * -(-k // atom_k)
        return self._timed((("tensor", issues * wgmma_interval(atom_n, a_in_shared)), ("issue", issues),
                            ("port", issues * wgmma_fetch(atom_n, a_in_shared))), WGMMA_LATENCY_EXTRA)

    def _umma(self, name: str, m: int, n: int, k: int, batch: int) -> Footprint:
        """The tensor core reads operands beside what it multiplies: its interval counts both."""
        from tileiras.machine.tensor import COMMIT, tcgen05_fetch, tcgen05_interval, tcgen05_latency
        row: Any = atom_named(name)
        issues = max(batch, 1) * (m // row.rows) * (n // row.n) * -(-k // row.k)
        interval = tcgen05_interval(row.m, row.n, row.a_in_shared, row.ctas)
        return self._timed((("tensor", issues * interval), ("issue", issues),
                            ("port", issues * tcgen05_fetch(row.m, row.n, row.a_in_shared, row.ctas))),
                           tcgen05_latency(row.m, row.n, row.a_in_shared, row.ctas) - interval + COMMIT)

    def _load(self, op: Operation) -> Footprint:
        nbytes = _bytes_of(op.results[0]) if op.results and isinstance(op.results[0].type, TensorType) else _bytes_of_copy(op)
        return self._timed((("ingress", nbytes / self.ingress), *self.instructions("LDG", nbytes / (16 * units.LANES))),
                           self.latencies.loaded)

    def _store(self, op: Operation) -> Footprint:
        nbytes = max((_bytes_of(v) for v in op.operands if isinstance(v.type, (TensorType, BufferType))), default=4)
        return self._timed((("ingress", nbytes / self.ingress), *self.instructions("STG", nbytes / (16 * units.LANES))),
                           self.latencies.store_read)

    def _atomic(self, op: Operation) -> Footprint:
        count = max((self.copies(v) for v in op.operands), default=1.0)
        return self._timed((("ingress", 4 * count), *self.instructions("ATOMG", count)), self.latencies.atomic_global)

    def _shared_access(self, op: Operation) -> Footprint:
        nbytes = max((_bytes_of(v) for v in (*op.operands, *op.results)), default=4)
        return self._timed(self.shared(nbytes), self.latencies.shared)

    def _reduce(self, op: Operation) -> Footprint:
        parts: list[tuple[str, float]] = []
        for v in op.operands:
            count = self.copies(v)
            parts += [*self.instructions("FADD", count), *self.instructions("SHFL", count / 4)]
        return self._timed(tuple(parts), 4 * self.latencies.shuffle)

    def _convert(self, op: Operation) -> Footprint:
        from tileiras.analysis.layout_cost import conversion
        source: Any = op.operands[0].type
        slots = conversion(source.encoding.data, op.results[0].type.encoding.data,  # type: ignore[attr-defined]
                           8 * element_bytes(source.element_type)) * self.warps
        return self._timed((("issue", slots / units.PARTITIONS), ("port", slots / units.PARTITIONS)),
                           self.latencies.shuffle if slots else 0)

    def _barrier(self, op: Operation) -> Footprint:
        return Footprint((("issue", self.warps / units.PARTITIONS),),
                         self.latencies.barrier + self.latencies.barrier_warp * self.warps)


_RULES: dict[str, Any] = {
    "dot": Model._dot, "dot_scaled": Model._dot, "load": Model._load, "tiled_load": Model._load, "tiled_copy": Model._load,
    "copy": Model._load, "store": Model._store, "tiled_store": Model._store, "atomic_rmw": Model._atomic,
    "atomic_cas": Model._atomic, "tiled_atomic_rmw": Model._atomic, "store_shared": Model._shared_access,
    "load_shared": Model._shared_access, "reduce": Model._reduce, "scan": Model._reduce, "convert_layout": Model._convert,
    "barrier": Model._barrier}


def is_asynchronous(op: Operation) -> bool:
    """Whether who issues the op goes on before it is done: products of warpgroups and into tensor memory, copies to stages
    of rings."""
    if op.name in COPIES_BY_THREADS:
        return True
    atom: Any = op.properties.get("atom")
    return atom is not None and op.name.endswith(("dot", "dot_scaled")) and atom.data.startswith((WGMMA, INTO_TENSOR_MEMORY))


def goes_on_beside(op: Operation) -> bool:
    """Whether what doesn't wait for a product of warps can stand between its instructions: of products one of which takes what
    threads make of the other's result, the one of this iteration beside the other of the next."""
    return op.name == "nv_tileas.dot" and "chained" in op.properties


def _bytes_of(v: SSAValue) -> int:
    """Bytes of a tile or a buffer; of a scalar those of its word."""
    t: Any = v.type
    if isinstance(t, TensorType):
        return prod(t.get_shape()) * element_bytes(t.element_type) if _is_data(t) else prod(t.get_shape()) * 8
    if isinstance(t, BufferType):
        return t.layout.data.extent * element_bytes(t.element_type)
    return 4


def _is_data(t: Any) -> bool:
    try:
        element_bytes(t.element_type)
    except (TypeError, ValueError, KeyError, AttributeError):
        return False
    return True


def _bytes_of_copy(op: Operation) -> int:
    """Of the buffer that an asynchronous copy fills."""
    return max((_bytes_of(v) for v in op.operands if isinstance(v.type, BufferType)), default=4)


def rate_of(row: Any) -> str:
    """What `mma_rate` calls the operands of an instruction of warps."""
    return {"f16": "f16", "bf16": "f16", "tf32": "tf32", "f64": "f64", "s8": "int8", "u8": "int8"}.get(row.a, "fp8")


@lru_cache(maxsize=64)
def model_of(target: Any, warps: int) -> Model:
    """The costs of an SM for blocks of so many warps."""
    return Model(target, warps)
