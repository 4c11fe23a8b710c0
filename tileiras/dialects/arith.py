"""`arith`, `math` and `scf` as this project uses them: element-wise tile math and structured control.

The ops have the names and the meaning of MLIR's, on scalars and on tensors alike, and carry what Tile IR
says beyond MLIR: rounding mode, flush-to-zero, NaN propagation. They are declared here, not imported from
xDSL, because importing xDSL's own costs more than a small kernel's whole compile. They serve both nv_tileaa
(tensors without encoding) and nv_tileas (tensors with a layout as encoding).

Attributes:
  rounding   StringAttr: nearest_even, zero, negative_inf, positive_inf, approx, full, nearest_int_to_zero
  ftz        UnitAttr: subnormal f32 inputs and results are flushed to zero
  predicate  StringAttr: cmpi: eq ne slt sle sgt sge ult ule ugt uge; cmpf: oeq one olt ole ogt oge, ueq une ...
  overflow   StringAttr: none, nsw, nuw, nsw_nuw
  nan        UnitAttr (maxf, minf): a NaN operand gives NaN; without it the other operand is returned
"""
from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tileiras.dialects.base import TileOp


class Elementwise(TileOp):
    """One result, same shape and layout as every operand that is a tensor; computed element by element."""

    PURE = True
    RESULTS = "result"


class Constant(TileOp):
    """A scalar (IntegerAttr, FloatAttr) or a tensor: `value` is a DenseTileAttr, or a scalar attribute for a splat."""

    name = "arith.constant"
    RESULTS = "result"
    ATTRS = "value"
    PURE = True


def _unary(name: str, attrs: str = "") -> type[Elementwise]:
    return type(_class_name(name), (Elementwise,), {"name": name, "OPERANDS": "source", "ATTRS": attrs})


def _binary(name: str, attrs: str = "") -> type[Elementwise]:
    return type(_class_name(name), (Elementwise,), {"name": name, "OPERANDS": "lhs rhs", "ATTRS": attrs})


def _class_name(name: str) -> str:
    return name.replace("arith.", "").replace("math.", "").capitalize()


# integers
Addi = _binary("arith.addi", "overflow?")
Subi = _binary("arith.subi", "overflow?")
Muli = _binary("arith.muli", "overflow?")
Mulhiui = _binary("arith.mulhiui")
Divsi = _binary("arith.divsi")              # rounds to zero
Divui = _binary("arith.divui")
FloorDivsi = _binary("arith.floordivsi")    # rounds to negative infinity
CeilDivsi = _binary("arith.ceildivsi")      # rounds to positive infinity
CeilDivui = _binary("arith.ceildivui")
Remsi = _binary("arith.remsi")
Remui = _binary("arith.remui")
Andi = _binary("arith.andi")
Ori = _binary("arith.ori")
Xori = _binary("arith.xori")
Shli = _binary("arith.shli", "overflow?")
Shrsi = _binary("arith.shrsi")
Shrui = _binary("arith.shrui")
Maxsi = _binary("arith.maxsi")
Maxui = _binary("arith.maxui")
Minsi = _binary("arith.minsi")
Minui = _binary("arith.minui")
Absi = _unary("math.absi")
Negi = _unary("arith.negi", "overflow?")
Cmpi = _binary("arith.cmpi", "predicate")

# floats
Addf = _binary("arith.addf", "rounding? ftz?")
Subf = _binary("arith.subf", "rounding? ftz?")
Mulf = _binary("arith.mulf", "rounding? ftz?")
Divf = _binary("arith.divf", "rounding? ftz?")
Remf = _binary("arith.remf")
Negf = _unary("arith.negf")
Maxf = _binary("arith.maxf", "nan? ftz?")
Minf = _binary("arith.minf", "nan? ftz?")
Cmpf = _binary("arith.cmpf", "predicate")
Absf = _unary("math.absf")
Ceil = _unary("math.ceil")
Floor = _unary("math.floor")
Exp = _unary("math.exp", "rounding? ftz?")
Exp2 = _unary("math.exp2", "ftz?")
Log = _unary("math.log")
Log2 = _unary("math.log2")
Sqrt = _unary("math.sqrt", "rounding? ftz?")
Rsqrt = _unary("math.rsqrt", "ftz?")
Sin = _unary("math.sin")
Cos = _unary("math.cos")
Tan = _unary("math.tan")
Sinh = _unary("math.sinh")
Cosh = _unary("math.cosh")
Tanh = _unary("math.tanh", "rounding?")
Pow = _binary("math.powf")
Atan2 = _binary("math.atan2")
Fpowi = _binary("math.fpowi")               # float base, integer exponent

# conversions
Extsi = _unary("arith.extsi")
Extui = _unary("arith.extui")
Trunci = _unary("arith.trunci", "overflow?")
Sitofp = _unary("arith.sitofp", "rounding?")
Uitofp = _unary("arith.uitofp", "rounding?")
Fptosi = _unary("arith.fptosi", "rounding? saturating?")
Fptoui = _unary("arith.fptoui", "rounding? saturating?")
Convertf = _unary("arith.convertf", "rounding?")   # any float type to any other; saturates where the target has no infinity
Bitcast = _unary("arith.bitcast")


class Fma(Elementwise):
    name = "math.fma"
    OPERANDS = "lhs rhs acc"
    ATTRS = "rounding? ftz?"


class Select(Elementwise):
    """`condition` is i1, a scalar or a tensor of the result's shape."""

    name = "arith.select"
    OPERANDS = "condition true_value false_value"


class For(TileOp):
    """Counts from lower to below upper by step (> 0), scalars of one integer type; carries `inits`.

    The body's block has (induction variable, carried...) as arguments and ends in `scf.yield` (or in
    `nv_tileaa.break` / `nv_tileaa.return`; nested ifs may end in `nv_tileaa.continue`, `break`, `return`)."""

    name = "scf.for"
    OPERANDS = "lower upper step inits*"
    RESULTS = "outs*"
    ATTRS = "unsigned_cmp?"
    REGIONS = "body"

    def carried_inits(self) -> Sequence[SSAValue]:
        """What the carried values are before the first iteration."""
        return self.operands[3:]

    def carried_args(self) -> Sequence[SSAValue]:
        """The body's arguments that hold the carried values, behind the induction variable."""
        return self.regions[0].block.args[1:]


class If(TileOp):
    """The else region may be empty. Regions end in `scf.yield`, or in `nv_tileaa.{break,continue,return}`."""

    name = "scf.if"
    OPERANDS = "condition"
    RESULTS = "outs*"
    REGIONS = "then_region else_region"


class Yield(TileOp):
    name = "scf.yield"
    OPERANDS = "values*"
    TERMINATOR = True


ARITH_OPS: tuple[type[TileOp], ...] = (
    Constant, Addi, Subi, Muli, Mulhiui, Divsi, Divui, FloorDivsi, CeilDivsi, CeilDivui, Remsi, Remui, Andi, Ori, Xori,
    Shli, Shrsi, Shrui, Maxsi, Maxui, Minsi, Minui, Negi, Cmpi, Addf, Subf, Mulf, Divf, Remf, Negf, Maxf, Minf, Cmpf,
    Extsi, Extui, Trunci, Sitofp, Uitofp, Fptosi, Fptoui, Convertf, Bitcast, Select)
MATH_OPS: tuple[type[TileOp], ...] = (
    Absi, Absf, Ceil, Floor, Exp, Exp2, Log, Log2, Sqrt, Rsqrt, Sin, Cos, Tan, Sinh, Cosh, Tanh, Pow, Atan2, Fpowi, Fma)
SCF_OPS: tuple[type[TileOp], ...] = (For, If, Yield)
