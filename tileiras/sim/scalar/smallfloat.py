"""The 8-, 6- and 4-bit floating formats: tables of their values, encoding with rounding and saturation."""
from __future__ import annotations

import numpy as np

from tileiras.sim.scalar import rounding as rnd


def _table(exponent: int, mantissa: int, bias: int) -> np.ndarray:
    """Every value of a sign-exponent-mantissa format, infinities and NaNs not treated."""
    n = exponent + mantissa
    code = np.arange(1 << n)
    e, m = code >> mantissa, code & ((1 << mantissa) - 1)
    value = np.where(e == 0, np.ldexp(m.astype(float), 1 - bias - mantissa),
                     np.ldexp((m + (1 << mantissa)).astype(float), e - bias - mantissa))
    return np.concatenate([value, -value])


def _make() -> dict[str, np.ndarray]:
    e4m3 = _table(4, 3, 7)
    e4m3[[0x7F, 0xFF]] = np.nan
    e5m2 = _table(5, 2, 15)
    e5m2[[0x7C, 0xFC]] = np.inf, -np.inf
    for k in (0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF):
        e5m2[k] = np.nan
    e5m3 = _table(5, 3, 15)[:256]
    e5m3[255] = np.nan
    e8m0 = np.ldexp(1.0, np.arange(256) - 127)
    e8m0[255] = np.nan
    return {"e4m3": e4m3, "e5m2": e5m2, "e2m1": _table(2, 1, 1), "e2m3": _table(2, 3, 1), "e3m2": _table(3, 2, 3),
            "ue8m0": e8m0, "ue5m3": e5m3}


TABLES = _make()
"""Format name -> float64 value of every code."""
FORMATS = {"e4m3": rnd.E4M3, "e5m2": rnd.E5M2, "e2m1": rnd.E2M1, "e2m3": rnd.E2M3, "e3m2": rnd.E3M2,
           "ue5m3": rnd.E5M3}
BITS = {"e4m3": 8, "e5m2": 8, "e2m1": 4, "e2m3": 6, "e3m2": 6, "ue8m0": 8, "ue5m3": 8}
_TOP = {"e4m3": 0x7E, "e5m2": 0x7B, "e2m1": 0x7, "e2m3": 0x1F, "e3m2": 0x1F, "ue5m3": 0xFE}


def decode(code: np.ndarray, name: str) -> np.ndarray:
    """Codes (any unsigned array; high bits ignored) to float64."""
    return TABLES[name][code & code.dtype.type((1 << BITS[name]) - 1)]


def encode(x: np.ndarray, name: str, mode: str = "rn", saturate: bool = True, relu: bool = False) -> np.ndarray:
    """float64 (exact or rounded to odd) to codes, as uint8. NaN becomes the format's NaN, or its greatest value."""
    if relu:
        x = np.where(x < 0, 0.0, x)
    if name == "ue8m0":
        return _encode_scale(x, mode)
    if name == "ue5m3":             # of negative numbers no manual says anything
        x = np.abs(x)
    f = FORMATS[name]
    y = rnd.to_format(np.where(x == x, x, 0.0), f, mode, saturate)
    top = _TOP[name]
    positive = TABLES[name][:top + 1]
    code = np.searchsorted(positive, np.minimum(np.abs(y), f.greatest))
    sign = 1 << (BITS[name] - 1)
    code = np.where(np.signbit(y), code | sign, code)
    over = np.abs(y) > f.greatest
    if name == "e4m3":
        code = np.where(over, np.where(np.signbit(y), 0xFF, 0x7F), code)
        code = np.where(x == x, code, 0x7F)
    elif name == "e5m2":
        code = np.where(over, np.where(np.signbit(y), 0xFC, 0x7C), code)
        code = np.where(x == x, code, 0x7F)
    else:
        code = np.where(x == x, code, 0xFF if name == "ue5m3" else top)
    return code.astype(np.uint8)


def _encode_scale(x: np.ndarray, mode: str) -> np.ndarray:
    """float64 to ue8m0: the power of two below (rz) or above (rp) its magnitude."""
    m, e = np.frexp(np.abs(x))
    e = e - 1
    if mode == "rp":
        e = e + (m > 0.5)
    code = np.clip(np.where(x == 0, -127, e), -127, 127) + 127
    code = np.where(np.isinf(x), 254, code)
    return np.where(x == x, code, 255).astype(np.uint8)
