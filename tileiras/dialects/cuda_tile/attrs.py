"""Which attributes cuda_tile has: enumerations, assume predicates, hints, constants.

Like the types they are xDSL `Data` attributes of plain Python values. An enumeration's `value` is the public
mnemonic; its place in `CASES` is its number in bytecode. Source: public `AttrDefs.td`; 13.4 cases from cuTile
Python's encodings.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

    from tileiras.dialects.cuda_tile.types import TileType


class CudaTileAttr(Data[Any]):
    """The base of the dialect's attributes."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        parser.raise_error("attributes of cuda_tile are read with cuda_tile text, by its own parser")

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


class EnumAttr(CudaTileAttr):
    """The base of the enumerations: data is the mnemonic."""

    CASES: ClassVar[tuple[str, ...]] = ()

    def __init__(self, value: str) -> None:
        if value not in self.CASES:
            raise ValueError(f"{self.name}: expected one of {', '.join(self.CASES)}; got {value!r}")
        super().__init__(value)

    @property
    def value(self) -> str:
        return self.data

    @property
    def number(self) -> int:
        """The case's number in bytecode."""
        return self.CASES.index(self.data)


@irdl_attr_definition
class SignednessAttr(EnumAttr):
    name = "cuda_tile.signedness"
    CASES = ("unsigned", "signed")


@irdl_attr_definition
class OverflowAttr(EnumAttr):
    name = "cuda_tile.overflow"
    CASES = ("none", "no_signed_wrap", "no_unsigned_wrap", "no_wrap")


@irdl_attr_definition
class RoundingAttr(EnumAttr):
    name = "cuda_tile.rounding"
    CASES = ("nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full", "nearest_int_to_zero",
             "nearest_away")


@irdl_attr_definition
class ComparisonOrderingAttr(EnumAttr):
    name = "cuda_tile.comparison_ordering"
    CASES = ("unordered", "ordered")


@irdl_attr_definition
class ComparisonPredicateAttr(EnumAttr):
    name = "cuda_tile.comparison_predicate"
    CASES = ("equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal")


@irdl_attr_definition
class AtomicRMWModeAttr(EnumAttr):
    name = "cuda_tile.atomic_rmw_mode"
    CASES = ("and", "or", "xor", "add", "addf", "max", "min", "umax", "umin", "xchg")


@irdl_attr_definition
class MultimemReductionAttr(EnumAttr):
    """How a multimem op reduces (13.5)."""

    name = "cuda_tile.multimem_reduction"
    CASES = ("add", "min", "max", "and", "or", "xor", "umin", "umax")


@irdl_attr_definition
class MemoryScopeAttr(EnumAttr):
    name = "cuda_tile.memory_scope"
    CASES = ("tl_blk", "device", "sys")


@irdl_attr_definition
class MemoryOrderingSemanticsAttr(EnumAttr):
    name = "cuda_tile.memory_ordering_semantics"
    CASES = ("weak", "relaxed", "acquire", "release", "acq_rel")


@irdl_attr_definition
class PaddingValueAttr(EnumAttr):
    name = "cuda_tile.padding_value"
    CASES = ("zero", "neg_zero", "nan", "pos_inf", "neg_inf")


@irdl_attr_definition
class SymbolVisibilityAttr(EnumAttr):
    name = "cuda_tile.symbol_visibility"
    CASES = ("public", "private")


PTR_ATTR_CASES = ("none",)
"""The 13.4 pointer attribute's cases, a parameter of pointer and tensor view types."""


@irdl_attr_definition
class OptimizationHintsAttr(CudaTileAttr):
    """Hints by architecture: data is a DictionaryAttr of dictionaries, `{sm_90 = {num_cta_in_cga = 2 : i32}}`."""

    name = "cuda_tile.optimization_hints"

    def __init__(self, value: DictionaryAttr | Mapping[str, Attribute]) -> None:
        super().__init__(value if isinstance(value, DictionaryAttr) else DictionaryAttr(value))

    @property
    def value(self) -> DictionaryAttr:
        return self.data

    def for_target(self, gpu_name: str) -> Mapping[str, Attribute]:
        """The hints that apply to `gpu_name` (as `sm_90`): `default`'s, overridden by the target's own."""
        merged: dict[str, Attribute] = {}
        for key in ("default", gpu_name):
            entry = self.data.data.get(key)
            if isinstance(entry, DictionaryAttr):
                merged.update(entry.data)
        return merged

    def print_parameter(self, printer: Printer) -> None:
        def entry(item: tuple[str, Attribute]) -> None:
            printer.print_string(item[0] + " = ")
            printer.print_attribute(item[1])

        printer.print_string("<")
        printer.print_list(tuple(self.data.data.items()), entry)
        printer.print_string(">")


@irdl_attr_definition
class DivByAttr(CudaTileAttr):
    """Elements are divisible by `divisor`; with every/along, the first of each group of `every` along that axis is."""

    name = "cuda_tile.div_by"

    def __init__(self, divisor: int, every: int | None = None, along: int | None = None) -> None:
        super().__init__((divisor, every, along))

    @property
    def divisor(self) -> int:
        return self.data[0]

    @property
    def every(self) -> int | None:
        return self.data[1]

    @property
    def along(self) -> int | None:
        return self.data[2]

    def print_parameter(self, printer: Printer) -> None:
        divisor, every, along = self.data
        groups = "" if every is None and along is None else f", every {every} along {along}"
        printer.print_string(f"<{divisor}{groups}>")


@irdl_attr_definition
class SameElementsAttr(CudaTileAttr):
    """Per dimension, the size of the groups within which all elements are equal."""

    name = "cuda_tile.same_elements"

    def __init__(self, values: Iterable[int]) -> None:
        super().__init__(tuple(values))

    @property
    def values(self) -> tuple[int, ...]:
        return self.data

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<[" + ", ".join(map(str, self.data)) + "]>")


@irdl_attr_definition
class BoundedAttr(CudaTileAttr):
    """Inclusive bounds of all elements as signed integers; None is unbounded."""

    name = "cuda_tile.bounded"

    def __init__(self, lb: int | None, ub: int | None) -> None:
        super().__init__((lb, ub))

    @property
    def lb(self) -> int | None:
        return self.data[0]

    @property
    def ub(self) -> int | None:
        return self.data[1]

    def print_parameter(self, printer: Printer) -> None:
        lb, ub = ("?" if bound is None else str(bound) for bound in self.data)
        printer.print_string(f"<{lb}, {ub}>")


@irdl_attr_definition
class DenseElementsAttr(CudaTileAttr):
    """A tile constant: data is (tile type, raw little-endian bytes), all elements or just one that fills the tile.

    The bytes are laid out as the module `dense` says, which also takes them apart.
    """

    name = "cuda_tile.dense"

    def __init__(self, type_: TileType, raw: bytes) -> None:
        super().__init__((type_, raw))

    @property
    def type(self) -> TileType:
        return self.data[0]

    def get_type(self) -> Attribute:
        return self.data[0]

    @property
    def raw(self) -> bytes:
        return self.data[1]

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f'<"0x{self.data[1].hex().upper()}"> : ')
        printer.print_attribute(self.data[0])


ASSUME_PREDICATES = (DivByAttr, SameElementsAttr, BoundedAttr)

ATTRS: tuple[type[CudaTileAttr], ...] = (
    SignednessAttr, OverflowAttr, RoundingAttr, ComparisonOrderingAttr, ComparisonPredicateAttr, AtomicRMWModeAttr,
    MemoryScopeAttr, MemoryOrderingSemanticsAttr, PaddingValueAttr, SymbolVisibilityAttr, OptimizationHintsAttr,
    DivByAttr, SameElementsAttr, BoundedAttr, DenseElementsAttr,
)
