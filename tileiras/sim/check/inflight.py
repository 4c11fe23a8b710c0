"""Registers that an asynchronous operation writes: between the operation and the wait for it nobody may touch them.

Such a register holds its new value already and counts as unwritten, so ordinary code pays nothing; a read arrives in
`decode.note`, which asks here, and a write shows when the wait finds the register written.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tileiras.sim.errors import InFlight


@dataclass
class Pending:
    """One register of some threads: what writes it, what to wait for it with, and the line of the former."""
    mask: np.ndarray
    what: str
    wait: str
    line: int


class Registers:
    """The registers in flight of a batch, by slot."""

    def __init__(self, st) -> None:
        self.st = st
        self.of: dict[int, list[Pending]] = {}

    def begin(self, slots: list[int], what: str, wait: str) -> None:
        """The active threads' registers are in flight until the instruction `wait`."""
        st = self.st
        mask = st.active.copy()
        for slot in slots:
            self.of.setdefault(slot, []).append(Pending(mask, what, wait, st.where()))
            st.unwrite(slot, mask)

    def end(self, wait: str) -> None:
        """The active threads execute `wait`."""
        st = self.st
        active = st.active
        for slot in list(self.of):
            kept = []
            for p in self.of[slot]:
                done = p.mask & active if p.wait == wait else None
                if done is None or not done.any():
                    kept.append(p)
                    continue
                written = st.I[slot]
                if written is True or (written is not None and (written & done).any()):
                    over = done if written is True else written & done
                    st.found(InFlight(f"register {st.program.names[slot]} is written before {wait}, while {p.what} is under way",
                                      thread=int(np.argmax(over))), p.line)
                total = done if written is None else True if written is True else written | done
                st.I[slot] = True if total is True or total.all() else total
                if (p.mask & ~done).any():
                    kept.append(Pending(p.mask & ~done, p.what, p.wait, p.line))
            if kept:
                self.of[slot] = kept
            else:
                del self.of[slot]

    def touched(self, slot: int) -> bool:
        """A register that counts as unwritten is read: true when that is because it is in flight (now a finding)."""
        st = self.st
        pending = self.of.get(slot)
        if pending is None:
            return False
        written = st.I[slot]
        bad = st.active if written is None else st.active & ~written
        for p in pending:
            here = bad & p.mask
            if here.any():
                st.found(InFlight(f"register {st.program.names[slot]} is read while {p.what} (line {p.line}) is under way: it "
                                  f"needs {p.wait}", thread=int(np.argmax(here))))
                bad = bad & ~p.mask
        return not bad.any()


def registers(st) -> Registers:
    """The batch's registers in flight, made on first use."""
    if st.inflight is None:
        st.inflight = Registers(st)
    return st.inflight
