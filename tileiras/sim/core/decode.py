"""PTX instructions to Python closures: operands bound to register slots, addresses and constants.

An operation is decoded by the function registered for its name, `@operation("add")`, into a closure `run(batch)`.
`program.build` makes a whole entry function of such closures.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tileiras.machine.targets import TARGETS
from tileiras.sim.core import definite
from tileiras.sim.core import memory as mem
from tileiras.sim.errors import InvalidInstruction, UnsupportedInstruction
from tileiras.sim.ptx import module as ptx
from tileiras.sim.ptx.types import B128, BITS, SIGNED, STORAGE, VALUE

Run: TypeAlias = Callable
OPERATIONS: dict[str, Callable] = {}
PURE: set[str] = set()                   # operations from registers to registers of the same thread
_PURE_MODULES = ("integer", "floating", "bitwise", "compare", "convert")
SYNCHRONOUS: dict[str, Callable] = {}    # operation -> (decoder, instruction) -> member mask getter, None: whole warp
BLOCKING: dict[str, Callable] = {}       # operation -> whether an instruction may block: its closure returns who is through
_special: list[Callable] = []
MAX_SHARED = max(target.smem_per_sm for target in TARGETS) + mem.SHARED_START
MAX_LOCAL = (512 << 10) + mem.LOCAL_START


def operation(*names: str) -> Callable:
    """Register the decoder of instructions whose first words are one of `names` ("ld", "cp.async.bulk")."""
    def keep(f: Callable) -> Callable:
        for name in names:
            OPERATIONS[name] = f
            if f.__module__.rpartition(".")[2] in _PURE_MODULES:
                PURE.add(name)
        return f
    return keep


def special_registers(f: Callable) -> Callable:
    """Register what knows the special registers: (name, decoder) -> (getter, width in bits)."""
    _special.append(f)
    return f


class Instance:
    """One inlined copy of a function: its names to slots, addresses and labels."""

    def __init__(self, function: ptx.Function, prefix: str, parent: Instance | None) -> None:
        self.function, self.prefix, self.parent = function, prefix, parent
        self.slots: dict[str, int] = {}
        self.addresses: dict[str, tuple[str, int]] = {}      # variable -> (space, address)

    def depth(self) -> int:
        return 0 if self.parent is None else 1 + self.parent.depth()


class Decoder:
    """Binds operands of one launch's entry function. The `source`/`target` methods are what operations use."""

    def __init__(self, module: ptx.Module, entry: ptx.Function, launch) -> None:
        self.module, self.entry, self.launch = module, entry, launch
        self.storage: list = []
        self.types: list[str] = []
        self.names: list[str] = []
        self.shared_size = mem.SHARED_START
        self.local_size = mem.LOCAL_START
        self.shared_addresses: dict[str, int] = {}
        self.instance = Instance(entry, "", None)
        self.line = 0
        self.granule = 16                # smallest access to shared memory
        self.global_granule = 16         # and to global memory
        self.cas = self.cancels = False
        self.soft = ""                   # what getters made now do about registers without a value: see `note`

    # ---- names
    def enter(self, instance: Instance) -> None:
        f = instance.function
        for name, type_ in f.registers.items():
            instance.slots[name] = self.new_slot(type_, instance.prefix + name)
        for v in f.variables.values():
            if v.space == "shared":
                instance.addresses[v.name] = ("shared", self.place_shared(instance.prefix + v.name, v))
            elif v.space in ("local", "param"):
                instance.addresses[v.name] = ("local", self.place_local(v.size, v.align))
            elif v.space in ("global", "const"):
                instance.addresses[v.name] = ("global", self.launch.function_variables[f.name, v.name])

    def new_slot(self, type_: str, name: str) -> int:
        if type_ not in STORAGE and type_ != B128:
            raise UnsupportedInstruction(f"registers of type .{type_}")
        self.storage.append(STORAGE.get(type_, np.uint64))
        self.types.append(type_)
        self.names.append(name)
        return len(self.storage) - 1

    def place_shared(self, name: str, v: ptx.Variable) -> int:
        if name not in self.shared_addresses:
            size = v.size or (self.launch.dynamic_shared if v.extern else 0)
            align = max(v.align, 16)
            address = (self.shared_size + align - 1) // align * align
            self.shared_addresses[name] = address
            self.shared_size = address + size
            if self.shared_size > MAX_SHARED:
                raise UnsupportedInstruction(f"more than {MAX_SHARED >> 10} KiB of shared memory")
        return self.shared_addresses[name]

    def place_local(self, size: int, align: int) -> int:
        address = (self.local_size + align - 1) // align * align
        self.local_size = address + size
        if self.local_size > MAX_LOCAL:
            raise UnsupportedInstruction(f"more than {MAX_LOCAL >> 10} KiB of local memory")
        return address

    def address_of(self, name: str) -> tuple[str, int] | None:
        """(space, address) of a variable or kernel parameter, or None."""
        found = self.instance.addresses.get(name)
        if found:
            return found
        if self.instance.parent is None and name in self.launch.param_addresses:
            return "global", self.launch.param_addresses[name]
        v = self.module.variables.get(name)
        if v is None:
            return None
        if v.space == "shared":
            return "shared", self.place_shared(name, v)
        if name in self.launch.variable_addresses:
            return "global", self.launch.variable_addresses[name]
        return None

    def slot(self, operand) -> int:
        """The slot of a register operand."""
        if not isinstance(operand, ptx.Register):
            raise InvalidInstruction(f"a register is needed, found {describe(operand)}")
        return self.instance.slots[operand.name]

    def predicate(self, name: str) -> int:
        return self.instance.slots[name]

    def register_bits(self, operand) -> int:
        """Width of a register operand in bits."""
        return BITS[self.types[self.slot(operand)]]

    # ---- reading
    def source(self, operand, type_: str) -> Callable:
        """A getter `get(batch)` of an operand as `VALUE[type_]`. It raises where the operand has no value, except
        while `soft` is set: then it notes the threads for `tainting`."""
        if isinstance(operand, ptx.Register):
            return self.register_source(operand, type_)
        if isinstance(operand, ptx.Negated) and type_ == "pred":
            inner = self.source(operand.item, "pred")
            return lambda st: ~inner(st)
        if isinstance(operand, ptx.Immediate):
            value = self.constant(operand, type_)
            return lambda st: value
        if isinstance(operand, ptx.Symbol):
            return self.symbol_source(operand, type_)
        if isinstance(operand, ptx.Sink):
            raise InvalidInstruction("the sink `_` can't be read")
        raise InvalidInstruction(f"operand {describe(operand)} doesn't fit type .{type_}")

    def register_source(self, operand: ptx.Register, type_: str) -> Callable:
        """A getter of a register's value; a register without one is treated as `note` says."""
        slot = self.slot(operand)
        have = self.types[slot]
        if (have == "pred") != (type_ == "pred"):
            raise InvalidInstruction(f"register {operand.name} of type .{have} where .{type_} is needed")
        if type_ == B128 or have == B128:
            if have != type_:
                raise InvalidInstruction(f"register {operand.name} of type .{have} where .{type_} is needed")
            return self.wide_source(slot)
        storage, value = STORAGE[have], VALUE[type_]
        width, wanted = BITS[have], BITS[type_]
        if width < wanted:
            raise InvalidInstruction(f"register {operand.name} of type .{have} is too narrow for .{type_}")
        narrow = None if width == wanted else STORAGE[type_]
        view = None if (narrow or storage) == value else value

        soft = self.soft

        if narrow is None and view is None:
            def get(st):
                if st.I[slot] is not True:
                    note(st, slot, soft)
                v = st.R[slot]
                return v if st.index is None or v.size == 1 else v[st.index]
        elif narrow is None:
            def get(st):
                if st.I[slot] is not True:
                    note(st, slot, soft)
                v = st.R[slot]
                return v.view(view) if st.index is None or v.size == 1 else v[st.index].view(view)
        else:
            def get(st):
                if st.I[slot] is not True:
                    note(st, slot, soft)
                v = st.R[slot]
                if st.index is not None and v.size != 1:
                    v = v[st.index]
                return v.astype(narrow).view(value)
        return get

    def wide_source(self, slot: int) -> Callable:
        soft = self.soft

        def get(st):
            if st.I[slot] is not True:
                note(st, slot, soft)
            v = st.R[slot]
            return v if st.index is None else v[st.index]
        return get

    def constant(self, operand: ptx.Immediate, type_: str) -> np.ndarray:
        """An immediate as a one-element array of `VALUE[type_]`."""
        value, kind = operand.value, operand.kind
        if type_ == "pred":
            return np.array([bool(value)])
        bits = BITS[type_]
        if kind == "f64" and type_ in ("f32", "b32", "u32", "s32"):
            with np.errstate(all="ignore"):
                value = int(np.uint64(value).view(np.float64).astype(np.float32).view(np.uint32))
        elif kind == "f64" and type_ in ("f16", "b16"):
            with np.errstate(all="ignore"):
                value = int(np.uint64(value).view(np.float64).astype(np.float16).view(np.uint16))
        elif kind == "f32" and type_ == "f64":
            with np.errstate(all="ignore"):
                value = int(np.uint32(value).view(np.float32).astype(np.float64).view(np.uint64))
        elif kind == "int" and type_ in ("f32", "f64", "f16"):
            value = int(np.array(value, VALUE[type_]).view(STORAGE[type_]))
        return np.array([value & ((1 << bits) - 1)], np.uint64).astype(STORAGE[type_]).view(VALUE[type_])

    def symbol_source(self, operand: ptx.Symbol, type_: str) -> Callable:
        if operand.name.startswith("%") or operand.name in ("WARP_SZ",):
            get, bits = _special[0](operand.name, self)
            dtype = VALUE[type_]
            if BITS[type_] == bits:
                return lambda st: get(st).view(dtype)
            unsigned = STORAGE[type_]
            return lambda st: get(st).astype(unsigned).view(dtype)
        found = self.address_of(operand.name)
        if found is None:
            function = self.launch.function_addresses.get(operand.name)
            if function is None:
                raise InvalidInstruction(f"unknown name {operand.name}")
            found = ("function", function)
        value = np.array([(found[1] + operand.offset) & ((1 << BITS[type_]) - 1)], np.uint64).astype(VALUE[type_])
        if found[0] == "shared" and self.launch.cluster_size > 1 and BITS[type_] >= 32:
            return ranked(value)
        return lambda st: value

    def raw_source(self, operand, type_: str) -> tuple[Callable, int | None]:
        """A getter that doesn't check initialisation, and the slot to check (None for constants)."""
        kept, self.soft = self.soft, "ignore"
        get = self.source(operand, type_)
        self.soft = kept
        return get, self.slot(operand) if isinstance(operand, ptx.Register) else None

    # ---- writing
    def target(self, operand, type_: str) -> Callable:
        """A writer `put(batch, value)` for results of `VALUE[type_]`; narrower types are widened to the register."""
        convert, slot = self.widening(operand, type_)
        if slot is None:
            return lambda st, value: None
        if convert is None:
            def put(st, value):
                if st.mask is None:
                    st.R[slot] = value
                    st.I[slot] = True
                else:
                    st.write(slot, value)
        else:
            def put(st, value):
                value = convert(value)
                if st.mask is None:
                    st.R[slot] = value
                    st.I[slot] = True
                else:
                    st.write(slot, value)
        return put

    def scatter_target(self, operand, type_: str) -> Callable:
        """A writer for results with one element for each active lane (memory and warp operations)."""
        convert, slot = self.widening(operand, type_)
        if slot is None:
            return lambda st, value: None
        if convert is None:
            return lambda st, value: st.scatter(slot, value)
        return lambda st, value: st.scatter(slot, convert(value))

    def widening(self, operand, type_: str) -> tuple[Callable | None, int | None]:
        if isinstance(operand, ptx.Sink):
            return None, None
        slot = self.slot(operand)
        have = self.types[slot]
        if (have == "pred") != (type_ == "pred") or (have == B128) != (type_ == B128):
            raise InvalidInstruction(f"a result of type .{type_} in register {operand.name} of type .{have}")
        if type_ in ("pred", B128):
            return None, slot
        width, given = BITS[have], BITS[type_]
        storage, value = STORAGE[have], VALUE[type_]
        if width < given:
            raise InvalidInstruction(f"a result of type .{type_} doesn't fit register {operand.name} of type .{have}")
        if width == given:
            return (None if storage == value else lambda v: v.view(storage)), slot
        if type_ in SIGNED:
            signed = VALUE[f"s{width}"]
            return (lambda v: v.astype(signed).view(storage)), slot
        raw = STORAGE[type_]
        return (lambda v: v.view(raw).astype(storage)), slot

    def simple(self, ins: ptx.Instruction, types: list[str], result: str, f: Callable,
               partial: tuple[int, ...] = ()) -> Run:
        """An elementwise operation: operands 1.. read as `types`, `f` of them written to operand 0 as `result`.

        Of the operands in `partial` only some bits go into the result, so they don't make it undefined."""
        if len(ins.operands) != len(types) + 1:
            raise InvalidInstruction(f"{ins.parts[0]} takes {len(types) + 1} operands, found {len(ins.operands)}")
        gets = [self.raw_source(o, t)[0] if self.soft and i in partial else self.source(o, t)
                for i, (o, t) in enumerate(zip(ins.operands[1:], types))]
        return apply(f, gets, self.target(ins.operands[0], result))

    def tainting(self, run: Run, ins: ptx.Instruction) -> Run:
        """An operation whose results have no value where its operands have none; of single bits, where there is a rule."""
        slots = [self.slot(t) for t in destinations(ins.operands[0])]
        bits = definite.rule(self, ins)

        def passing(st):
            st.tainted = None
            run(st)
            if st.tainted is not None:
                for slot in slots:
                    st.unwrite(slot, st.tainted, None if bits is None else bits(st))
                st.tainted = None
        return passing


def note(st, slot: int, soft: str) -> None:
    """A register that may lack a value is read. "": raise; "taint": remember the threads; "ignore": nothing."""
    if st.inflight is not None and st.inflight.touched(slot):
        return
    if not soft:
        st.check(slot)
        return
    if soft == "taint":
        bad = st.active if st.I[slot] is None else st.active & ~st.I[slot]
        if bad.any():
            st.tainted = bad if st.tainted is None else st.tainted | bad
    if st.R[slot] is None:
        wide = st.program.storage[slot]
        st.R[slot] = np.zeros((st.size, 2), wide) if st.program.wide[slot] else np.zeros(1, wide)


def ranked(address: np.ndarray) -> Callable:
    """A getter of a shared variable's address in a cluster of several CTAs: with the executing CTA's rank."""
    name = "address", int(address[0]), address.dtype.str

    def get(st):
        found = st.special.get(name)
        if found is None:
            found = st.special[name] = address + (st.rank_of << 24).astype(address.dtype)
        return found if st.index is None else found[st.index]
    return get


def apply(f: Callable, gets: list, put: Callable) -> Run:
    """A closure that evaluates getters, a function of them, and a writer."""
    if len(gets) == 1:
        a, = gets
        return lambda st: put(st, f(a(st)))
    if len(gets) == 2:
        a, b = gets
        return lambda st: put(st, f(a(st), b(st)))
    if len(gets) == 3:
        a, b, c = gets
        return lambda st: put(st, f(a(st), b(st), c(st)))
    return lambda st: put(st, f(*[g(st) for g in gets]))


def destinations(operand) -> list[ptx.Register]:
    """The registers that an instruction's first operand names."""
    if isinstance(operand, ptx.Register):
        return [operand]
    if isinstance(operand, ptx.Pair):
        return destinations(operand.first) + destinations(operand.second)
    if isinstance(operand, ptx.Vector):
        return [r for item in operand.items for r in destinations(item)]
    return []


def describe(operand) -> str:
    """An operand in words, for messages."""
    if isinstance(operand, ptx.Register | ptx.Symbol):
        return operand.name
    if isinstance(operand, ptx.Immediate):
        return f"the constant {operand.value}"
    return type(operand).__name__.lower()


def guarded(run: Run, slot: int, negated: bool, soft: str = "") -> Run:
    """An operation under a predicate."""
    def conditional(st):
        taken = predicate_of(st, slot, negated, soft)
        if taken is None:
            return
        if taken is True:
            run(st)
            return
        st.within(taken, run)
    return conditional


def predicate_of(st, slot: int, negated: bool, soft: str = ""):
    """The active threads whose predicate holds: True for all of them, None for none, else a mask."""
    if st.I[slot] is not True:
        note(st, slot, soft)
    p = st.R[slot]
    if p.size == 1 and st.size != 1:
        return True if bool(p[0]) != negated else None
    active = st.active
    taken = active & ~p if negated else active & p
    count = np.count_nonzero(taken)
    if count == 0:
        return None
    if count == np.count_nonzero(active):
        return True
    return taken
