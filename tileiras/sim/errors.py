"""What can go wrong in a simulation, as exceptions that say where.

Every error that a running kernel causes is a `SimulationError`: it names the kernel, the block (`ctaid`), the thread
(`tid`), and the PTX line with its text. Malformed PTX is a `PtxSyntaxError`; PTX that is well-formed and outside the
simulator's instruction set is an `UnsupportedInstruction`.
"""
from __future__ import annotations

from tileiras.errors import TileirasError


class SimulationError(TileirasError):
    """A fault found while simulating PTX.

    Attributes: `kind` (a short word, as "out-of-bounds"), `kernel`, `ctaid` and `tid` (x, y, z; None where they don't
    apply), `warp` in its block and `lane` in its warp, `line` (1-based PTX line), `text` (that line), `source` (file:line of
    the user's program, from `.loc`)."""

    kind = "fault"

    def __init__(self, message: str, *, thread: int | None = None) -> None:
        super().__init__(message)
        self.thread = thread                    # index in the batch, until the engine resolves it
        self.detail = message
        self.kernel: str | None = None
        self.ctaid: tuple[int, int, int] | None = None
        self.tid: tuple[int, int, int] | None = None
        self.warp: int | None = None
        self.lane: int | None = None
        self.line: int | None = None
        self.text: str | None = None
        self.source: str | None = None
        self.findings: list[SimulationError] = []       # what was found before this ended the run
        self.output = ""                                # what the kernel printed before

    def locate(self, *, kernel=None, ctaid=None, tid=None, warp=None, lane=None, line=None, text=None, source=None) -> None:
        """Fill in where it happened and rebuild the message."""
        self.kernel, self.ctaid, self.tid, self.warp, self.lane = kernel, ctaid, tid, warp, lane
        self.line, self.text, self.source = line, text, source
        where = [f"kernel {kernel}"] if kernel else []
        if ctaid is not None:
            where.append(f"ctaid {ctaid}")
        if tid is not None:
            where.append(f"tid {tid}")
        if warp is not None:
            where.append(f"warp {warp} lane {lane}")
        if source:
            where.append(f"source {source}")
        message = f"{self.kind}: {self.detail}"
        if where:
            message += f" ({', '.join(where)})"
        if line is not None:
            message += f"\n  PTX line {line}: {text}"
        self.message = message
        self.args = (message,)


class PtxSyntaxError(SimulationError):
    """The text isn't PTX that the parser understands."""

    kind = "syntax"


class UnsupportedInstruction(SimulationError):
    """A valid instruction or directive that the simulator doesn't carry out."""

    kind = "unsupported instruction"


class InvalidInstruction(SimulationError):
    """An instruction that the PTX ISA doesn't allow in this form."""

    kind = "invalid instruction"


class LaunchError(SimulationError):
    """The launch doesn't fit the kernel: unknown name, wrong arguments, bad grid."""

    kind = "launch"


class UninitializedRead(SimulationError):
    """A register, or a byte of shared or local memory, is read before it is written."""

    kind = "uninitialized read"


class OutOfBounds(SimulationError):
    """An access outside every allocation."""

    kind = "out of bounds"


class Misaligned(SimulationError):
    """An address that isn't a multiple of the access size."""

    kind = "misaligned access"


class DataRace(SimulationError):
    """Two warps, or two threads of one, touch one place in shared memory, one of them writing, with no barrier between."""

    kind = "data race"


class BarrierError(SimulationError):
    """A barrier used against its rules."""

    kind = "barrier"


class MissingProxyFence(SimulationError):
    """Memory passes between ordinary accesses and an asynchronous engine without the fence between their proxies."""

    kind = "missing proxy fence"


class InFlight(SimulationError):
    """A place or register is touched while an asynchronous operation uses it."""

    kind = "in flight"


class MissingFence(SimulationError):
    """A product uses registers that no fence has handed over to it."""

    kind = "missing fence"


class TransactionMismatch(SimulationError):
    """The bytes that an mbarrier expects aren't those that its copies bring."""

    kind = "transaction bytes"


class DescriptorError(SimulationError):
    """A descriptor or tensor map with bits that can't be."""

    kind = "descriptor"


class TensorMemoryError(SimulationError):
    """Tensor memory leaked, freed twice, or used outside an allocation."""

    kind = "tensor memory"


class UseAfterExit(SimulationError):
    """Shared memory of a block that has exited is used."""

    kind = "use after exit"


class Deadlock(SimulationError):
    """Threads wait for something that can't come any more."""

    kind = "deadlock"


class BudgetExceeded(SimulationError):
    """More instructions were issued than the launch allows."""

    kind = "instruction budget exceeded"


class Trap(SimulationError):
    """The kernel executed `trap`, or a device-side assertion failed."""

    kind = "trap"
