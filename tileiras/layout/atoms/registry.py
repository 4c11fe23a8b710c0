"""All atoms, by name and by target.

    find("sm90.mma.m64n128k16.f32.f16.f16.ss").operand("D").fragment
    [a.name for a in atoms("copy") if available(target, a)]
"""
from __future__ import annotations

from functools import lru_cache

from tileiras.layout.atoms import block_scaled, copies, tcgen05, wgmma
from tileiras.layout.atoms.atom import REGISTERS, Atom, Cost, Operand, available
from tileiras.layout.atoms.mma_sync import ATOMS, MmaAtom
from tileiras.layout.cute.algebra import Layout
from tileiras.layout.cute.f2 import from_linear
from tileiras.layout.linear import LinearLayout

__all__ = ["Atom", "atoms", "available", "find", "of_mma_sync"]

WARP = 32
_RATES = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "f64": "f64", "s8": "int8", "u8": "int8"}


def _fragment(bases: tuple, rows: int, columns: int) -> Layout:
    reg, lane = (tuple(r * columns + c for r, c in group) for group in bases)
    return from_linear(LinearLayout((rows, columns), reg, lane, ()))


def of_mma_sync(atom: MmaAtom) -> Atom:
    """The row of a product whose operands are all in registers."""
    m, n, k = atom.m, atom.n, atom.k
    operands = [Operand("A", REGISTERS, atom.a, (m, k), _fragment(atom.a_bases, m, k)),
                Operand("B", REGISTERS, atom.b, (k, n), _fragment(atom.b_bases, k, n)),
                Operand("D", REGISTERS, atom.acc, (m, n), _fragment(atom.c_bases, m, n))]
    tier = "sm89" if atom.feature == "has_fp8_mma" else "sm80"
    rate = _RATES.get(atom.a, "fp8")
    name = f"{tier}.mma.m{m}n{n}k{k}.{atom.acc}.{atom.a}.{atom.b}"
    if isinstance(atom, block_scaled.BlockScaledAtom):
        operands += [Operand("SFA", REGISTERS, atom.scale, (m, atom.vectors), _fragment(atom.sfa_bases, m, atom.vectors)),
                     Operand("SFB", REGISTERS, atom.scale, (atom.vectors, n), _fragment(atom.sfb_bases, atom.vectors, n))]
        name = f"SM120.mma_bs.{atom.kind}.m{m}n{n}k{k}.{atom.acc}.{atom.a}.{atom.b}.{atom.vectors}x.{atom.scale}"
        rate = "fp4" if atom.bits == 4 else "fp8"
    return Atom(name, "mma", tuple(operands), WARP, atom.feature, atom.intrinsic, Cost(1, m * n * k, rate), (m, n, k))


def _fma() -> Atom:
    one = Layout((1, 1), (0, 0))
    operands = tuple(Operand(name, REGISTERS, "f32", (1, 1), one) for name in ("A", "B", "D"))
    return Atom("atom.universal_fma", "mma", operands, 1, "", "fma", Cost(1, 1), (1, 1, 1))


@lru_cache(maxsize=8)
def atoms(kind: str = "") -> tuple[Atom, ...]:
    """All rows, or those of a kind."""
    if not kind:
        return tuple(a for k in ("mma", "copy", "tma", "tmem") for a in atoms(k))
    if kind == "mma":
        return (_fma(), *map(of_mma_sync, ATOMS), *map(of_mma_sync, block_scaled.BLOCK_SCALED), *wgmma.rows(),
                *(a for k in tcgen05.KINDS for a in tcgen05.products(k)))
    return tuple(a for a in (*copies.rows(), *tcgen05.rows()) if a.kind == kind)


@lru_cache(maxsize=16)
def _named(family: str) -> dict[str, Atom]:
    """The rows of one family, by name: what a compile that uses one of them pays for."""
    if family.startswith("sm100."):
        return {a.name: a for a in tcgen05.products(family.split(".")[2])} if family.count(".") == 2 else {}
    found = {"sm90": wgmma.rows, "atom": lambda: (_fma(), *copies.rows(), *tcgen05.rows())}.get(
        family, lambda: map(of_mma_sync, (*ATOMS, *block_scaled.BLOCK_SCALED)))
    return {a.name: a for a in found()}


def find(name: str) -> Atom:
    """The atom that IR calls `name`. Raises KeyError."""
    family = name.split(".", 1)[0]
    return _named(".".join(name.split(".")[:3]) if family == "sm100" else family)[name]
