"""What the tcgen05 instructions share: targets, pairs of CTAs, addresses, and the pipeline of each issuing thread.

Products, copies and shifts that one thread issues happen in that order; a commit happens after those before it.
"""
from __future__ import annotations

import numpy as np

from tileiras.sim.check.agents import Operation
from tileiras.sim.core import memory as mem
from tileiras.sim.errors import InvalidInstruction, LaunchError, OutOfBounds, UninitializedRead
from tileiras.sim.ptx import module as ptx
from tileiras.sim.tcgen05.memory import ENGINE, Places, tensor_memory

TARGETS = ("sm_100a", "sm_100f", "sm_101a", "sm_101f", "sm_103a", "sm_103f", "sm_107a", "sm_107f", "sm_110a",
           "sm_110f")


def require_target(decoder, ins, kind: str = "") -> None:
    """Refuse tcgen05 where the module's target hasn't got it, and mixed .cta_group qualifiers in one kernel."""
    target = decoder.module.target.split(",")[0].strip()
    if target not in TARGETS:
        raise InvalidInstruction(f"{ins.opcode} on {target}")
    if kind == "i8" and target not in ("sm_100a", "sm_101a", "sm_110a"):
        raise InvalidInstruction(f"{ins.opcode}: kind::i8 on {target}")
    group = next((p for p in ins.parts if p.startswith("cta_group::")), None)
    if group is not None:
        have = getattr(decoder, "cta_group", None)
        if group not in ("cta_group::1", "cta_group::2") or have not in (None, group):
            raise InvalidInstruction(f"{ins.opcode}: the kernel's tcgen05 instructions need one cta_group, {have} was used")
        decoder.cta_group = group


def tensor_address(decoder, operand):
    """A getter of tensor memory addresses (uint32) of `[register + offset]` or a plain register."""
    offset = 0
    if isinstance(operand, ptx.Memory):
        operand, offset = operand.base, operand.offset
    if isinstance(operand, ptx.Immediate):
        value = np.array([operand.value + offset & 0xFFFFFFFF], np.uint32)
        return lambda st: value
    get = decoder.source(operand, "b32")
    if not offset:
        return get
    step = np.uint32(offset & 0xFFFFFFFF)
    return lambda st: get(st) + step


def members_of(st, lane: int, group: int) -> list[int]:
    """The CTAs (numbers in the batch) that an operation of a thread acts on: its own, or its pair, even rank first."""
    cta = int(st.cta_of[lane])
    if group == 1:
        return [cta]
    size = st.cluster_size
    even = cta - cta % size % 2
    if size % 2:
        raise LaunchError(f"cta_group::2 in a cluster of {size} blocks", thread=lane)
    return [even, even + 1]


def shared_places(st, cta: int, address: np.ndarray, size: int) -> np.ndarray:
    """Offsets in the batch's shared memory of shared addresses in one CTA; raises OutOfBounds."""
    low, high = int(address.min()), int(address.max()) + size
    if low < mem.SHARED_START or high > st.program.shared_size:
        raise OutOfBounds(f"a matrix in shared memory from {low:#x} to {high:#x}; the shared variables take "
                          f"{mem.SHARED_START:#x} to {st.program.shared_size:#x}")
    return address + (cta * st.shared_stride - mem.SHARED_START)


def check_shared(st, chunks: np.ndarray, used: np.ndarray, lane: int, name: str) -> None:
    """Find operands with bytes that were never written. `used`: [16] which bytes of each chunk hold anything."""
    state = st.written_views["shared"].of(8, 2)[chunks.reshape(-1) // 16].view(np.uint8)
    missing = (state == 0) & used
    if missing.any():
        chunk, byte = np.argwhere(missing)[0]
        place = (int(chunks.reshape(-1)[chunk]) + int(byte)) % st.shared_stride
        st.found(UninitializedRead(f"{name} reads byte {place} of shared memory, which was never written", thread=lane))


def issue(st, lane: int, name: str, shared: list[np.ndarray], reads: list[Places], writes: list[Places],
          perform) -> Operation:
    """Issue an asynchronous operation of a thread: it follows the thread's earlier ones.

    `shared`: offsets of the 16-byte chunks that it reads. The cells it writes count as written from now on."""
    tensor = tensor_memory(st)
    count = tensor.use(lane, ENGINE, reads, writes, name)
    for places in writes:
        tensor.written[places.cta, places.lanes, places.columns] = True
    last = tensor.pipelines.get(lane)
    op = Operation(name, lane, reads=[("shared", places.reshape(-1)) for places in shared], after=[last[0]] if last else (),
                   perform=perform)
    tensor.pipelines[lane] = op, count
    st.agents.issue(op)
    return op


def issued_before(st, lane: int) -> tuple[list[Operation], int]:
    """(operations of a thread's pipeline that a commit waits for, the agent's count of the last)."""
    last = tensor_memory(st).pipelines.get(lane)
    return ([], 0) if last is None else ([last[0]], last[1])
