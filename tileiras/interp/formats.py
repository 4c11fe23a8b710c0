"""How numbers of each element type are represented in NumPy arrays, and what each float format can hold.

    i1                    bool
    i4                    int8 holding -8..7
    i8 i16 i32 i64        signed NumPy integers; unsigned meaning is a view (see integers.py)
    f16 bf16 f32 f64      NumPy and ml_dtypes floats
    tf32                  float32 whose low 13 fraction bits are zero
    f8.. f4..             ml_dtypes floats, one byte an element
    f8E5M3FNU             its codes, as uint8: NumPy has no such float
    ptr                   uint64 addresses

Sources: the element types of cuda_tile's Types.td; IEEE 754-2019; OCP 8-bit floating point 1.0; OCP microscaling 1.0.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import Attribute

from tileiras.interp.errors import InterpreterError


@dataclass(frozen=True, eq=False)
class Format:
    """An element type: its name in the IR, its width in bits, and the NumPy type that holds an element."""

    name: str
    bits: int
    dtype: np.dtype[Any]

    @property
    def bytes(self) -> int:
        """Bytes an element takes in memory (i1, i4 and f4E2M1FN take one)."""
        return self.dtype.itemsize


@dataclass(frozen=True, eq=False)
class IntFormat(Format):
    """An integer type; signedness belongs to the ops."""


@dataclass(frozen=True, eq=False)
class PointerFormat(Format):
    """A pointer: a 64-bit byte address."""


@dataclass(frozen=True, eq=False)
class FloatFormat(Format):
    """A binary floating-point type.

    precision: significant bits of a normal number, the leading one included.
    emin: exponent of the least normal number 2**emin; subnormals share its spacing.
    largest: greatest finite number.
    saturates: conversions into it give the greatest finite number where others give infinity.
    signed: False for f8E8M0FNU and f8E5M3FNU. zero: False for f8E8M0FNU.
    codes: the number of each code, where NumPy has no such type and `dtype` holds codes; ascending, the last NaN."""

    precision: int
    emin: int
    largest: float
    saturates: bool = False
    signed: bool = True
    zero: bool = True
    codes: Any = None

    def numbers(self, x: Any) -> Any:
        """Elements as float64."""
        return np.asarray(x).astype(np.float64) if self.codes is None else self.codes[np.asarray(x)]

    def held(self, numbers: Any) -> Any:
        """Numbers of this format (float64) as elements."""
        if self.codes is None:
            return numbers.astype(self.dtype)
        return np.where(np.isnan(numbers), len(self.codes) - 1, np.searchsorted(self.codes[:-1], numbers)).astype(self.dtype)


def _largest(precision: int, emax: int) -> float:
    return (2.0 - 2.0 ** (1 - precision)) * 2.0 ** emax


I1 = IntFormat("i1", 1, np.dtype(np.bool_))
I4 = IntFormat("i4", 4, np.dtype(np.int8))
I8 = IntFormat("i8", 8, np.dtype(np.int8))
I16 = IntFormat("i16", 16, np.dtype(np.int16))
I32 = IntFormat("i32", 32, np.dtype(np.int32))
I64 = IntFormat("i64", 64, np.dtype(np.int64))
F16 = FloatFormat("f16", 16, np.dtype(np.float16), 11, -14, _largest(11, 15))
BF16 = FloatFormat("bf16", 16, np.dtype(ml_dtypes.bfloat16), 8, -126, _largest(8, 127))
F32 = FloatFormat("f32", 32, np.dtype(np.float32), 24, -126, _largest(24, 127))
TF32 = FloatFormat("tf32", 32, np.dtype(np.float32), 11, -126, _largest(11, 127))
F64 = FloatFormat("f64", 64, np.dtype(np.float64), 53, -1022, _largest(53, 1023))
F8E4M3FN = FloatFormat("f8E4M3FN", 8, np.dtype(ml_dtypes.float8_e4m3fn), 4, -6, 448.0, saturates=True)
F8E5M2 = FloatFormat("f8E5M2", 8, np.dtype(ml_dtypes.float8_e5m2), 3, -14, 57344.0, saturates=True)
F8E8M0FNU = FloatFormat("f8E8M0FNU", 8, np.dtype(ml_dtypes.float8_e8m0fnu), 1, -127, 2.0 ** 127, saturates=True,
                        signed=False, zero=False)
_E5M3 = np.array([*(m * 2.0 ** -17 for m in range(8)), *((8 + m) * 2.0 ** (e - 18) for e in range(1, 32) for m in range(8))])
_E5M3[-1] = np.nan
F8E5M3FNU = FloatFormat("cuda_tile.fnv8E5M3FNU", 8, np.dtype(np.uint8), 4, -14, 114688.0, saturates=True, signed=False,
                        codes=_E5M3)
F4E2M1FN = FloatFormat("f4E2M1FN", 4, np.dtype(ml_dtypes.float4_e2m1fn), 2, 0, 6.0, saturates=True)
POINTER = PointerFormat("ptr", 64, np.dtype(np.uint64))

ALL = (I1, I4, I8, I16, I32, I64, F16, BF16, F32, TF32, F64, F8E4M3FN, F8E5M2, F8E8M0FNU, F8E5M3FNU,
       F4E2M1FN)
_INTEGERS = {f.bits: f for f in ALL if isinstance(f, IntFormat)}
_FLOATS: dict[str, FloatFormat] = {f.name: f for f in ALL if isinstance(f, FloatFormat)}


def format_of(element_type: Attribute) -> Format:
    """The format of a tile's element type. Raises InterpreterError for a type that no tile can have."""
    if isinstance(element_type, builtin.IntegerType):
        found = _INTEGERS.get(element_type.width.data)
        if found is not None:
            return found
    name = getattr(element_type, "name", "")
    if name in _FLOATS:
        return _FLOATS[name]
    if name == "cuda_tile.ptr":
        return POINTER
    raise InterpreterError(f"element type {element_type} is not supported")
