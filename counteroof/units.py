"""The only place where a prefix or a unit's text is applied to a number.

Everything inside counteroof is in base units (bytes, FLOP, seconds, hertz); what a person reads comes from
here. Prefixes are decimal (``MB`` is 1e6 bytes) except for cache sizes, which are powers of two (``MiB``).
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

_DECIMAL = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_SMALL = ("", "m", "µ", "n", "p", "f", "a")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

MISSING = "-"
"""What stands where a number could not be had; the reason is printed elsewhere."""


def si(value: float | None, unit: str, digits: int = 3) -> str:
    """Return ``value`` with a decimal prefix, to ``digits`` significant digits, such as ``640 MB``.

    Below one, ``m`` to ``a`` are used; counts of indivisible things never get there. A missing value
    is ``-``.
    """
    if value is None:
        return MISSING
    if not math.isfinite(value):
        return f"{value} {unit}".strip()
    exponent = _group(value, digits, 3)
    largest, smallest = len(_DECIMAL) - 1, -(len(_SMALL) - 1)
    exponent = max(smallest, min(largest, exponent))
    prefix = _DECIMAL[exponent] if exponent >= 0 else _SMALL[-exponent]
    # scaling by an exact power (an integer) keeps integers exact up to the final rounding
    scaled = value / 10 ** (3 * exponent) if exponent >= 0 else value * 10 ** (-3 * exponent)
    text = significant(scaled, digits) if exponent == 0 else _rounded(scaled, digits)
    return f"{text} {prefix}{unit}".strip()


def significant(value: float | None, digits: int = 3) -> str:
    """Return ``value`` to ``digits`` significant digits without an exponent where that stays readable.

    Integers below ``10**digits`` are printed as they are: the count 7 stays ``7``, but 7.0 is ``7.00``.
    """
    if value is None:
        return MISSING
    if not math.isfinite(value):
        return str(value)
    if value == 0 or (isinstance(value, int) and abs(value) < 10**digits):
        return str(int(value))
    return _rounded(value, digits)


def _rounded(value: float, digits: int) -> str:
    """Return ``value``, which is not 0, with exactly ``digits`` significant digits."""
    magnitude = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if magnitude < -4 or magnitude > 8:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(0, digits - 1 - magnitude)}f}"


def _group(value: float, digits: int, size: int) -> int:
    """Return the power of ``10**size`` whose prefix fits ``value`` once it is rounded to ``digits``."""
    if value == 0:
        return 0
    rounded = float(f"{abs(value):.{digits - 1}e}")  # 999 600 is 1.00 M, not 1000 k
    return math.floor(math.floor(math.log10(rounded)) / size)


def byte_count(value: float | None, digits: int = 3) -> str:
    """Return a number of bytes with a decimal prefix: ``640 MB``."""
    return _whole(value, "B", digits)


def flop_count(value: float | None, digits: int = 3) -> str:
    """Return a number of floating-point operations with a decimal prefix: ``40 MFLOP``."""
    return _whole(value, "FLOP", digits)


def count(value: float | None, digits: int = 3) -> str:
    """Return a plain number with a decimal prefix: ``40 M``."""
    return _whole(value, "", digits)


def signed_bytes(value: float | None, digits: int = 3) -> str:
    """Return a number of bytes that always carries its sign: ``+160 MB``, ``-24 kB``."""
    if value is None:
        return MISSING
    return byte_count(value, digits) if value < 0 else f"+{byte_count(value, digits)}"


def _whole(value: float | None, unit: str, digits: int) -> str:
    """Like :func:`si` for things that have no thousandth part: never below the base unit."""
    if value is None or abs(value) >= 1000 or (value != int(value) and abs(value) >= 1):
        return si(value, unit, digits)
    return f"{significant(int(value) if value == int(value) else value, digits)} {unit}".strip()


def binary_bytes(value: int | None) -> str:
    """Return a cache or memory size with a binary prefix: ``32 MiB``."""
    if value is None:
        return MISSING
    power = 0
    scaled: float = value
    while abs(scaled) >= 1024 and power < len(_BINARY) - 1:
        power, scaled = power + 1, scaled / 1024
    whole = int(scaled) if scaled == int(scaled) else scaled
    return f"{significant(whole, 4 if abs(scaled) >= 1000 else 3)} {_BINARY[power]}B"


def binary_size(text: str) -> int:
    """Return the bytes that a cache or memory size means: ``48K``, ``48 KiB``, ``38.5 MiB`` or ``4096``.

    Raises
    ------
    ValueError
        If the text is not a whole number of bytes with one of these prefixes. ``kB`` is refused: nobody
        can tell which of two sizes it means.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])(?:iB)?|B)?\s*", text, re.ASCII)
    size = Fraction(match[1]) * 1024 ** " KMGT".index(match[2] or " ") if match else Fraction(1, 2)
    if size.denominator != 1:
        raise ValueError(f"{text!r} is not a size such as 48K, 48 KiB or 38.5 MiB")
    return int(size)


def seconds(value: float | None, digits: int = 3) -> str:
    """Return a time: ``16.2 ms``."""
    return si(value, "s", digits)


def hertz(value: float | None, digits: int = 3) -> str:
    """Return a frequency: ``4.18 GHz``."""
    return si(value, "Hz", digits)


def bandwidth(value: float | None, digits: int = 3) -> str:
    """Return bytes per second: ``42.4 GB/s``."""
    return si(value, "B/s", digits)


def operation_rate(value: float | None, digits: int = 3) -> str:
    """Return operations on integers per second: ``1.85 TOP/s``."""
    return si(value, "OP/s", digits)


def flop_rate(value: float | None, digits: int = 3) -> str:
    """Return FLOP per second: ``203 GFLOP/s``."""
    return si(value, "FLOP/s", digits)


def in_giga(value: float | None, digits: int = 3) -> str:
    """Return ``value`` in units of 1e9, for a column whose heading carries the ``G``."""
    return significant(None if value is None else value / 1e9, digits)


def giga(value: float) -> float:
    """Return ``value`` in units of 1e9, for an axis whose label carries the ``G``."""
    return value / 1e9


def intensity(value: float | None, digits: int = 3) -> str:
    """Return FLOP per byte, unit in the heading: ``0.0625``."""
    return significant(value, digits)


def ratio(value: float | None, digits: int = 3) -> str:
    """Return a quotient of like quantities: ``1.33``."""
    return significant(None if value is None else float(value), digits)


def percent(fraction: float | None) -> str:
    """Return a share as a percentage: ``96 %``; one decimal below ten."""
    if fraction is None:
        return MISSING
    if not math.isfinite(fraction):
        return f"{fraction} %"
    value = 100 * fraction
    return f"{value:.0f} %" if abs(value) >= 9.95 or value == 0 else f"{value:.1f} %"


def share(text: str) -> float:
    """Return the fraction that a share means: ``1%``, ``1.5 %`` or ``0.01``.

    Raises
    ------
    ValueError
        If it is none, or negative.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(%?)\s*", text, re.ASCII)
    if not match:
        raise ValueError(f"{text!r} is not a share such as 1% or 0.01")
    return float(match[1]) / (100 if match[2] else 1)
