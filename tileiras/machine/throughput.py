"""What an SM does in a cycle when nothing stands in its way: thread-instructions by kind, tensor work, bytes.

Follows from the intervals in `units.py` and `tensor.py`; for estimates that count work and know no code.
"""
from __future__ import annotations

from dataclasses import dataclass

from tileiras.machine import tensor, units
from tileiras.machine.machines import Machine
from tileiras.machine.targets import find_target

SHARED_PORT_LANES = 32
CONTROL_LANES = 64


@dataclass(frozen=True)
class Throughput:
    """`threads`: thread-instructions a cycle and SM by kind. `flops`: multiplications and additions of the tensor cores in f16
    accumulated in f32, a cycle and SM. `dram`: bytes a cycle of the whole chip, at the pins."""

    threads: dict[str, float]
    flops: float
    dram: float


def throughput(machine: Machine) -> Throughput:
    sm, lanes = machine.sm, units.PARTITIONS * units.LANES

    def rate(opcode: str) -> float:
        use = units.use_of(sm, opcode, machine.tensor_half)
        return lanes / use.interval * (units.ports(sm)[use.pipe] if use.port < 0 else 1)

    threads = {"fp32": rate("FFMA"), "int32": rate("IADD3"), "fp64": rate("DFMA"), "special": rate("MUFU.RSQ"),
               "memory": float(SHARED_PORT_LANES), "control": float(CONTROL_LANES), "issue": float(lanes)}
    return Throughput(threads, tensor_flops(machine), machine.dram / machine.clock)


def tensor_flops(machine: Machine) -> float:
    """Of the fastest matrix instruction that the SM has."""
    target = find_target(f"sm_{machine.sm}")
    if target.has_tcgen05:
        return 2 * 128 * 256 * 16 / tensor.tcgen05_interval(128, 256, True)
    if target.has_wgmma:
        return 2 * 64 * 256 * 16 / tensor.wgmma_interval(256, True)
    shape, opcode = ((16, 8, 16), "HMMA.16816.F32") if target.has_f16_mma_k16 else ((16, 8, 8), "HMMA.1688.F32")
    m, n, k = shape
    return 2 * m * n * k * units.PARTITIONS / units.matrix_interval(machine.sm, opcode, machine.tensor_half)
