"""An entry function as basic blocks of closures: `build` makes the `Program` that the engine executes."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tileiras.sim.core import memory as mem
from tileiras.sim.core.decode import BLOCKING, PURE, SYNCHRONOUS, Decoder, Run, guarded
from tileiras.sim.core.inlining import Item, flatten, label_of
from tileiras.sim.errors import InvalidInstruction, UnsupportedInstruction
from tileiras.sim.matrix.warpgroups import watcher
from tileiras.sim.memory.barriers import decode_barrier
from tileiras.sim.memory.warp import member_mask
from tileiras.sim.ptx import module as ptx
from tileiras.sim.ptx import targets
from tileiras.sim.ptx.types import B128
from tileiras.sim.run import precedence, share
from tileiras.sim.run.instructions import decoder_of

_CONTROL = {"bra", "brx", "ret", "exit", "bar", "barrier"}


@dataclass
class Block:
    """A basic block: closures, the PTX line of each, and how it ends.

    `end`: ("fall",), ("bra", target, predicate, negated), ("brx", getter, targets), ("exit", predicate, negated),
    ("bar", Barrier, predicate, negated). `sync` holds what a warp-synchronous first instruction needs: (getter of the
    member mask or None for the whole warp, predicate, negated)."""
    start: int
    run: list = field(default_factory=list)
    lines: list = field(default_factory=list)
    end: tuple = ("fall",)
    end_line: int = 0
    sync: tuple | None = None
    kinds: list = field(default_factory=list)


@dataclass
class Program:
    """A decoded entry: blocks, each one's rank among those that threads are ready for, the register slots' storage and names,
    and the sizes of private memory in bytes."""
    entry: ptx.Function
    blocks: list[Block]
    rank: list[int]
    storage: list
    names: list[str]
    wide: list[bool]
    shared_size: int
    local_size: int
    module: ptx.Module
    granule: int = 0        # bytes of the smallest access to shared memory; 0: there is none
    global_granule: int = 0  # the same of global memory
    cas: bool = False       # whether it compares and swaps in global memory
    cancels: bool = False   # whether it cancels clusters
    engines: int = 0        # slots for asynchronous operations in `order`
    apart: bool = False     # whether blocks of different clusters have no way to meet


def build(module: ptx.Module, entry: ptx.Function, launch) -> Program:
    """Decode an entry function for a launch (whose memory layout gives the addresses of variables and parameters)."""
    decoder = Decoder(module, entry, launch)
    items: list[Item] = []
    try:
        for v in module.variables.values():
            if v.space == "shared" and not v.extern:
                decoder.place_shared(v.name, v)
        items = flatten(decoder)
        blocks = _blocks(decoder, items)
    except (UnsupportedInstruction, InvalidInstruction) as error:
        line = decoder.line
        error.locate(kernel=entry.name, line=line or None, source=module.source_of(line),
                     text=module.lines[line - 1].strip() if 0 < line <= len(module.lines) else "")
        raise
    wide = [t == B128 for t in decoder.types]
    rank = precedence.ranks([_following(k, block.end) for k, block in enumerate(blocks)])
    return Program(entry, blocks, rank, decoder.storage, decoder.names, wide, decoder.shared_size, decoder.local_size,
                   module, decoder.granule if decoder.shared_size > mem.SHARED_START else 0, decoder.global_granule,
                   decoder.cas, decoder.cancels,
                   ENGINES if any(item.ins is not None and asynchronous(item.ins) for item in items) else 0,
                   share.apart([item.ins for item in items if item.ins is not None]))


ENGINES = 32        # slots for asynchronous operations of a cluster


def asynchronous(ins: ptx.Instruction) -> bool:
    """Whether an instruction makes an asynchronous engine do something."""
    parts = ins.parts
    return parts[0] in ("wgmma", "tcgen05") or "bulk" in parts or (parts[0] in ("st", "red") and "async" in parts) or \
        "mbarrier" in parts[1:] or parts[0] == "clusterlaunchcontrol"


def _blocks(decoder: Decoder, items: list[Item]) -> list[Block]:
    labels: dict[str, int] = {}
    blocks: list[Block] = []
    def fresh() -> Block:
        block = Block(len(blocks))
        blocks.append(block)
        return block

    current = fresh()
    soft = decoder.launch.undefined == "propagate"
    watch = _product_watch(decoder, items)
    observer = decoder.launch.observer
    allowed = targets.Checker(decoder.module)
    for item in items:
        if item.label is not None:
            if current.run or current.sync or current.end != ("fall",):
                current = fresh()
            labels[item.label] = current.start
            continue
        ins = item.ins
        assert ins is not None
        decoder.instance = item.instance
        decoder.line = ins.line
        allowed(ins)
        name = ins.parts[0]
        guard = (None if ins.guard is None else decoder.predicate(ins.guard)), ins.guard_negated
        if name in _CONTROL:
            current.end_line = ins.line
            if name != "ret" and name != "exit" and not ins.operands and "cluster" not in ins.parts:
                raise InvalidInstruction(f"{ins.opcode} needs an operand")
            if name == "bra":
                current.end = ("bra", label_of(item), *guard)
            elif name == "brx":
                get = decoder.source(ins.operands[0], "u32")
                table = ins.operands[1] if len(ins.operands) > 1 else None
                names = item.instance.function.tables.get(getattr(table, "name", ""))
                if names is None:
                    raise InvalidInstruction("brx.idx needs a branch table")
                current.end = ("brx", get, [item.instance.prefix + n for n in names], *guard)
            elif name in ("ret", "exit"):
                current.end = ("exit", *guard)
            else:
                barrier = _decode(decode_barrier, decoder, ins)
                if observer is not None and barrier is not None:
                    barrier = observer.barrier(decoder, ins, barrier)
                if barrier is None:                        # bar.warp.sync
                    _synchronous(decoder, ins, guard, fresh() if current.run or current.sync else current)
                    current = blocks[-1]
                    current.run.append(_warps_meet)
                    current.lines.append(ins.line)
                    current.kinds.append("bar.warp")
                    continue
                current.end = ("bar", barrier, *guard)
            current = fresh()
            continue
        decode = decoder_of(ins.parts)
        if decode is None:
            raise UnsupportedInstruction(ins.opcode)
        if name in SYNCHRONOUS and SYNCHRONOUS[name](ins):
            if current.run or current.sync:
                current = fresh()
            _synchronous(decoder, ins, guard, current)
        if name in BLOCKING and BLOCKING[name](ins):
            current = _blocking(decoder, ins, guard, decode, fresh() if current.run else current, labels, fresh)
            continue
        decoder.soft = "taint" if soft and name in PURE else ""
        run = _decode(decode, decoder, ins)
        if decoder.soft:
            run = decoder.tainting(run, ins)
            decoder.soft = ""
        if watch is not None and name != "wgmma":
            run = watch(run, ins)
        if observer is not None:
            run = observer.instruction(decoder, ins, run)
        if guard[0] is not None:
            run = guarded(run, guard[0], guard[1], soft="ignore" if soft and name in PURE else "")
            if observer is not None:
                run = observer.guarded(decoder, ins, run)
        current.run.append(run)
        current.lines.append(ins.line)
        current.kinds.append(name)
    if current.end == ("fall",):
        current.end = ("exit", None, False)
        current.end_line = decoder.line
    for block in blocks:
        end = block.end
        if end[0] == "bra":
            block.end = ("bra", _target(labels, end[1]), *end[2:])
        elif end[0] == "brx":
            block.end = ("brx", end[1], [_target(labels, n) for n in end[2]], *end[3:])
    return blocks


def _following(at: int, end: tuple) -> tuple[int, ...]:
    """The blocks that may come behind block `at`, which ends so."""
    kind = end[0]
    if kind == "bra":
        return (end[1],) if end[2] is None else (at + 1, end[1])
    if kind == "brx":
        return (*end[2], *(() if end[-2] is None else (at + 1,)))
    if kind == "exit" and end[1] is None:
        return ()
    return (at + 1,)


def _product_watch(decoder: Decoder, items: list[Item]):
    """wgmma.watcher for a kernel that has asynchronous products in registers, else None."""
    if not any(item.ins is not None and item.ins.parts[0] == "wgmma" for item in items):
        return None
    return watcher(decoder, [(item.instance, item.ins) for item in items if item.ins is not None])


def _decode(decode: Callable, decoder: Decoder, ins: ptx.Instruction) -> Run:
    """Decode one instruction; operands of the wrong number or kind are the text's fault, not the simulator's."""
    try:
        return decode(decoder, ins)
    except (IndexError, KeyError, AttributeError, TypeError, ValueError, StopIteration) as error:
        raise InvalidInstruction(f"{ins.opcode}: malformed operands or type ({error})") from error


def _synchronous(decoder: Decoder, ins: ptx.Instruction, guard: tuple, block: Block) -> None:
    block.sync = (member_mask(decoder, ins), *guard)


def _warps_meet(st) -> None:
    """bar.warp.sync, when its threads are there."""
    if st.order is not None:
        st.order.meet(st.order.rows_of(st.lanes))


def _blocking(decoder: Decoder, ins: ptx.Instruction, guard: tuple, decode: Callable, block: Block, labels: dict,
              fresh: Callable) -> Block:
    """An instruction that is tried again until its closure says of every active thread that it is through."""
    done = decoder.new_slot("pred", f"{ins.opcode} is through")
    attempt = _decode(decode, decoder, ins)
    if decoder.launch.observer is not None:
        attempt = decoder.launch.observer.instruction(decoder, ins, attempt)

    def try_(st):
        st.scatter(done, attempt(st))
    run: Run = try_
    if guard[0] is not None:
        run = guarded(run, guard[0], guard[1])

    def again(st):
        st.write(done, np.ones(1, bool))
        run(st)
    block.run.append(again)
    block.lines.append(ins.line)
    block.kinds.append(ins.parts[0])
    block.end_line = ins.line
    labels[name := f"{ins.opcode}@{block.start}"] = block.start
    block.end = ("bra", name, done, True)
    return fresh()


def _target(labels: dict[str, int], name: str) -> int:
    if name not in labels:
        raise InvalidInstruction(f"unknown label {name}")
    return labels[name]
