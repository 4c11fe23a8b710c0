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
  bounds     two IntAttr (sitofp, uitofp): the least and the greatest that an integer may be, where f16 has all of these
  nan        UnitAttr (maxf, minf): a NaN operand gives NaN; without it the other operand is returned
"""
from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tileiras.dialects.base import TileOp


class Elementwise(TileOp):
    """One result, same shape and layout as every operand that is a tensor; computed element by element."""

    PURE = True
    RESULTS = "result:tile"


class Constant(TileOp):
    """A scalar (IntegerAttr, FloatAttr) or a tensor: `value` is a DenseTileAttr, or a scalar attribute for a splat."""

    name = "arith.constant"
    RESULTS = "result:numbers"
    ATTRS = "value:constant"
    PURE = True


def _declare(name: str, operands: str, result: str, same: str, attrs: str) -> type[Elementwise]:
    words = operands.split()
    return type(_class_name(name), (Elementwise,), {
        "name": name, "OPERANDS": operands, "RESULTS": f"result:{result}", "SAME": same, "ATTRS": attrs,
        "SAME_SHAPE": " ".join([*(word.partition(":")[0] for word in words), "result"])})


def _class_name(name: str) -> str:
    return name.replace("arith.", "").replace("math.", "").capitalize()


def _unary(name: str, kind: str, attrs: str = "") -> type[Elementwise]:
    """One operand, a result of its type."""
    return _declare(name, f"source:{kind}", kind, "source result", attrs)


def _binary(name: str, kind: str, attrs: str = "") -> type[Elementwise]:
    """Two operands of one type, which is the result's too."""
    return _declare(name, f"lhs:{kind} rhs:{kind}", kind, "lhs rhs result", attrs)


def _compare(name: str, kind: str, attrs: str) -> type[Elementwise]:
    return _declare(name, f"lhs:{kind} rhs:{kind}", "bools", "lhs rhs", attrs)


def _cast(name: str, source: str, result: str, attrs: str = "") -> type[Elementwise]:
    return _declare(name, f"source:{source}", result, "", attrs)


# integers
Addi = _binary("arith.addi", "ints", "overflow:overflow?")
Subi = _binary("arith.subi", "ints", "overflow:overflow?")
Muli = _binary("arith.muli", "ints", "overflow:overflow?")
Mulhiui = _binary("arith.mulhiui", "ints")
Divsi = _binary("arith.divsi", "ints")              # rounds to zero
Divui = _binary("arith.divui", "ints")
FloorDivsi = _binary("arith.floordivsi", "ints")    # rounds to negative infinity
CeilDivsi = _binary("arith.ceildivsi", "ints")      # rounds to positive infinity
CeilDivui = _binary("arith.ceildivui", "ints")
Remsi = _binary("arith.remsi", "ints")
Remui = _binary("arith.remui", "ints")
Andi = _binary("arith.andi", "ints")
Ori = _binary("arith.ori", "ints")
Xori = _binary("arith.xori", "ints")
Shli = _binary("arith.shli", "ints", "overflow:overflow?")
Shrsi = _binary("arith.shrsi", "ints")
Shrui = _binary("arith.shrui", "ints")
Maxsi = _binary("arith.maxsi", "ints")
Maxui = _binary("arith.maxui", "ints")
Minsi = _binary("arith.minsi", "ints")
Minui = _binary("arith.minui", "ints")
Absi = _unary("math.absi", "ints")
Negi = _unary("arith.negi", "ints", "overflow:overflow?")
Cmpi = _compare("arith.cmpi", "ints", "predicate:integer_predicate")

# floats
_ROUNDED = "rounding:rounding? ftz:unit?"
Addf = _binary("arith.addf", "floats", _ROUNDED)
Subf = _binary("arith.subf", "floats", _ROUNDED)
Mulf = _binary("arith.mulf", "floats", _ROUNDED)
Divf = _binary("arith.divf", "floats", _ROUNDED)
Remf = _binary("arith.remf", "floats")
Negf = _unary("arith.negf", "floats")
Maxf = _binary("arith.maxf", "floats", "nan:unit? ftz:unit?")
Minf = _binary("arith.minf", "floats", "nan:unit? ftz:unit?")
Cmpf = _compare("arith.cmpf", "floats", "predicate:float_predicate")
Absf = _unary("math.absf", "floats")
Ceil = _unary("math.ceil", "floats")
Floor = _unary("math.floor", "floats")
Exp = _unary("math.exp", "floats", _ROUNDED)
Exp2 = _unary("math.exp2", "floats", "ftz:unit? branchless:unit?")
Log = _unary("math.log", "floats")
Log2 = _unary("math.log2", "floats")
Sqrt = _unary("math.sqrt", "floats", _ROUNDED)
Rsqrt = _unary("math.rsqrt", "floats", "ftz:unit?")
Sin = _unary("math.sin", "floats")
Cos = _unary("math.cos", "floats")
Tan = _unary("math.tan", "floats")
Sinh = _unary("math.sinh", "floats")
Cosh = _unary("math.cosh", "floats")
Tanh = _unary("math.tanh", "floats", "rounding:rounding?")
Pow = _binary("math.powf", "floats")
Atan2 = _binary("math.atan2", "floats")
Fpowi = _declare("math.fpowi", "lhs:floats rhs:ints", "floats", "lhs result", "")   # float base, integer exponent
Fma = _declare("math.fma", "lhs:floats rhs:floats acc:floats", "floats", "lhs rhs acc result", _ROUNDED)

# conversions
Extsi = _cast("arith.extsi", "ints", "ints")
Extui = _cast("arith.extui", "ints", "ints")
Trunci = _cast("arith.trunci", "ints", "ints", "overflow:overflow?")
Sitofp = _cast("arith.sitofp", "ints", "floats", "rounding:rounding? bounds:numbers?")
Uitofp = _cast("arith.uitofp", "ints", "floats", "rounding:rounding? bounds:numbers?")
Fptosi = _cast("arith.fptosi", "floats", "ints", "rounding:rounding? saturating:unit?")
Fptoui = _cast("arith.fptoui", "floats", "ints", "rounding:rounding? saturating:unit?")
Convertf = _cast("arith.convertf", "floats", "floats", "rounding:rounding?")   # saturates where the target has no infinity
Bitcast = _cast("arith.bitcast", "numbers", "numbers")


class Select(Elementwise):
    """`condition` is i1, a scalar or a tensor of the result's shape."""

    name = "arith.select"
    OPERANDS = "condition:bools true_value:tile false_value:tile"
    RESULTS = "result:tile"
    SAME = "true_value false_value result"


BOUNDS = 3
"""Operands of a counted loop in front of what it carries."""


class For(TileOp):
    """Counts from lower to below upper by step (> 0), scalars of one integer type; carries `inits`.

    The body's block has (induction variable, carried...) as arguments and ends in `scf.yield` (or in
    `nv_tileaa.break` / `nv_tileaa.return`; nested ifs may end in `nv_tileaa.continue`, `break`, `return`).
    `as_loaded`: for each result the bytes of the accesses that load it, as whose words it is carried; 0: as a vector."""

    name = "scf.for"
    OPERANDS = "lower:int upper:int step:int inits:carried*"
    RESULTS = "outs:carried*"
    ATTRS = "unsigned_cmp:unit? as_loaded:numbers?"
    REGIONS = "body:block"
    SAME = "lower upper step"

    def carried_inits(self) -> Sequence[SSAValue]:
        """What the carried values are before the first iteration."""
        return self.operands[BOUNDS:]

    def carried_from(self, number: int) -> list[SSAValue]:
        """What iterations are given under a number, by whom stands before the loop and by each other."""
        last = self.regions[0].block.last_op
        assert last is not None
        return [self.operands[BOUNDS + number], last.operands[number]]

    def carried_args(self) -> Sequence[SSAValue]:
        """The body's arguments that hold the carried values, behind the induction variable."""
        return self.regions[0].block.args[1:]


class If(TileOp):
    """The else region may be empty. Regions end in `scf.yield`, or in `nv_tileaa.{break,continue,return}`.
    `as_loaded`: as in `scf.for`. `apart`: what is in them isn't computed ahead of the condition."""

    name = "scf.if"
    OPERANDS = "condition:bool"
    RESULTS = "outs:carried*"
    ATTRS = "as_loaded:numbers? apart:unit?"
    REGIONS = "then_region:block else_region:block?"


class Yield(TileOp):
    name = "scf.yield"
    OPERANDS = "values:carried*"
    TERMINATOR = True


ARITH_OPS: tuple[type[TileOp], ...] = (
    Constant, Addi, Subi, Muli, Mulhiui, Divsi, Divui, FloorDivsi, CeilDivsi, CeilDivui, Remsi, Remui, Andi, Ori, Xori,
    Shli, Shrsi, Shrui, Maxsi, Maxui, Minsi, Minui, Negi, Cmpi, Addf, Subf, Mulf, Divf, Remf, Negf, Maxf, Minf, Cmpf,
    Extsi, Extui, Trunci, Sitofp, Uitofp, Fptosi, Fptoui, Convertf, Bitcast, Select)
MATH_OPS: tuple[type[TileOp], ...] = (
    Absi, Absf, Ceil, Floor, Exp, Exp2, Log, Log2, Sqrt, Rsqrt, Sin, Cos, Tan, Sinh, Cosh, Tanh, Pow, Atan2, Fpowi, Fma)
SCF_OPS: tuple[type[TileOp], ...] = (For, If, Yield)
