"""Formulas that fit what was counted: those of the claim with other coefficients, those of the arrays.

A formula is looked for among few with small coefficients, so that one which gives a count of many digits
exactly is hardly there by chance; one that only comes close is said to.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from .. import units
from ..errors import FormulaError
from ..formula import Formula, Number
from .base import Facts, Size

EIGHTHS = 8
"""Coefficients of an exact formula are multiples of one over this."""

OFFSETS = range(5)
"""How many fewer of a parameter may count: the borders of a grid, the first of a series."""

CLOSE = 0.03
"""A formula that is off by no more than this comes close."""

MINOR = 0.01
"""An array with less than this share of the bytes is in no formula."""

ROUNDINGS = (1, 2, EIGHTHS, 100)
"""Into how many parts of one the times are rounded that an array moved, as far as none comes close."""

MOST = 5000
"""Formulas with offsets that are tried."""

LARGEST = 1000
"""Coefficients of an exact formula are no larger than this times those of the claim."""


CORRECTION = 100
"""The coefficient of a second term is no larger than this."""


@dataclass(frozen=True)
class Fit:
    """A formula, and by what share of the count it is off: 0 is exact."""

    text: str
    off: float
    sizes: int = 1

    @property
    def words(self) -> str:
        """The formula and how well it fits."""
        if self.off == 0:
            return f"{self.text} fits exactly" + (f", at {self.sizes} sizes" if self.sizes > 1 else "")
        off = units.percent(abs(self.off)) if abs(self.off) >= 1e-3 else "less than 0.1 %"
        return f"{self.text} fits to {off}"


def flops_fit(formula: str, sizes: Sequence[Size]) -> Fit | None:
    """Return the simplest formula after the shape of a claim that fits the FLOPs of all sizes."""
    for candidate in _candidates(formula, sizes[0]):
        if all(_value(candidate, one.params) == one.flops for one in sizes):
            return Fit(candidate, 0.0, len(sizes))
    close = [fit for text in _near(formula, sizes[0]) if (fit := _off(text, sizes)) is not None]
    return min(close, key=lambda fit: abs(fit.off), default=None)


def loose(fit: Fit, claim: str) -> bool:
    """Return whether a fit at one size changes number and parameters of a claim: it may be chance."""
    (number, factors), (claimed, theirs) = (_product(_leading(text)) for text in (fit.text, claim))
    return fit.sizes == 1 and number != claimed and sorted(factors) != sorted(theirs)


def bytes_fit(facts: Facts, moved: float) -> Fit | None:
    """Return the sum of the arrays' own formulas, each as often as it moved, if it comes close."""
    for parts in ROUNDINGS:
        text = _sum_of_arrays(facts, moved, parts)
        value = None if text is None else _value(text, facts.params)
        if text is None or value is None:
            return None
        if abs(value / moved - 1) <= CLOSE:
            # lines at the ends are in no formula
            ends = 2 * facts.line_bytes * len(facts.arrays)
            return Fit(text, 0.0 if abs(value - moved) <= ends else value / moved - 1)
    return None


def _sum_of_arrays(facts: Facts, moved: float, parts: int) -> str | None:
    """Return the formula in which each array counts as often as it moved, in so many parts of one."""
    sums: dict[tuple[str, ...], Fraction] = {}
    for array in facts.arrays:
        shape = facts.shape(array.name)
        size = array.dram_read_bytes + array.dram_write_bytes
        if size < MINOR * moved:
            continue
        if shape is None or not shape.bytes or len(shape.formulas) != len(shape.extents):
            return None
        coefficient, factors = _product("*".join(f"({text})" for text in shape.formulas))
        often = Fraction(size, shape.bytes)
        rounded = Fraction(round(often * parts), parts)
        key = next((known for known in sums if sorted(known) == sorted(factors)), factors)
        sums[key] = sums.get(key, Fraction(0)) + rounded * coefficient * shape.element_bytes
    return " + ".join(_term(total, factors) for factors, total in sums.items() if total) or None


def _candidates(formula: str, size: Size) -> Iterator[str]:
    """Return formulas that give the FLOPs of a size exactly, those nearest to the claim first."""
    coefficient, factors = _product(_leading(formula))
    if not factors or not size.flops:
        return
    for found in (_with_offsets(coefficient, factors, size), _with_second_term(coefficient, factors, size)):
        yield from (text for _, text in sorted(found))


def _with_offsets(
    coefficient: Fraction, factors: tuple[str, ...], size: Size
) -> Iterator[tuple[tuple[float, float], str]]:
    """Return formulas of one term, some of its parameters less by a little, with their distance."""
    largest = LARGEST * max(abs(float(coefficient)), 1.0)
    plain = [factor for factor in factors if factor.partition("**")[0].isidentifier()]
    for offsets in itertools.islice(itertools.product(OFFSETS, repeat=len(plain)), MOST):
        renamed = dict(zip(plain, offsets, strict=True))
        shifted = tuple(_shifted(factor, renamed.get(factor, 0)) for factor in factors)
        value = _value("*".join(shifted), size.params)
        if not value:
            continue
        ratio = Fraction(size.flops) / Fraction(value)
        if (ratio * EIGHTHS).denominator == 1 and 0 < ratio <= largest:
            steps = _distance(ratio, coefficient) + sum(offset > 0 for offset in offsets)
            yield (steps, sum(offsets)), _term(ratio, shifted)


def _with_second_term(
    coefficient: Fraction, factors: tuple[str, ...], size: Size
) -> Iterator[tuple[tuple[float, float], str]]:
    """Return formulas of the claim's term and one of a factor fewer, with their distance."""
    whole = _value("*".join(factors), size.params)
    if not whole:
        return
    flops, main = Fraction(size.flops), Fraction(whole)
    for index in range(len(factors)):
        rest = (*factors[:index], *factors[index + 1 :])
        value = _value("*".join(rest) or "1", size.params)
        if not value:
            continue
        for first in (Fraction(math.floor(flops / main)), Fraction(math.ceil(flops / main))):
            second = (flops - first * main) / Fraction(value)
            if first > 0 and second and second.denominator == 1 and abs(second) <= CORRECTION:
                sign = " + " if second > 0 else " - "
                text = _term(first, factors) + sign + _term(abs(second), rest)
                yield (_distance(first, coefficient) + 1, float(abs(second))), text


def _distance(found: Fraction, claimed: Fraction) -> int:
    """Return how unlikely a coefficient is: most likely is the claim's, least one that is not whole."""
    return 0 if found == claimed else 2 if found.denominator == 1 else 4


def _near(formula: str, size: Size) -> Iterator[str]:
    """Return formulas of the claim's term with a coefficient that comes close."""
    _, factors = _product(_leading(formula))
    value = _value("*".join(factors) or "1", size.params)
    if not value or not factors:
        return
    ratio = Fraction(size.flops) / Fraction(value)
    for parts in (1, 4):
        near = Fraction(round(ratio * parts), parts)
        if near:
            yield _term(near, factors)
            if abs(near / ratio - 1) <= 5e-3:
                return
    yield _term(Fraction(f"{float(ratio):.3g}"), factors)


def _off(text: str, sizes: Sequence[Size]) -> Fit | None:
    """Return a formula with how far it is off at worst, if it comes close at all sizes."""
    worst = 0.0
    for one in sizes:
        value = _value(text, one.params)
        if value is None or not one.flops:
            return None
        off = value / one.flops - 1
        worst = max(worst, off, key=abs)
    return Fit(text, worst) if abs(worst) <= CLOSE else None


def _leading(formula: str) -> str:
    """Return the first term of a sum, without its sign."""
    node = ast.parse(formula, mode="eval").body
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        node = node.left
    return ast.get_source_segment(formula, node) or ast.unparse(node)


def _product(formula: str) -> tuple[Fraction, tuple[str, ...]]:
    """Return the number in front of a product and its other factors, in order."""
    number = Fraction(1)
    factors: list[str] = []

    def take(node: ast.expr) -> None:
        nonlocal number
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            take(node.left)
            take(node.right)
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            number *= Fraction(node.value)
        else:
            text = ast.get_source_segment(formula, node) or ast.unparse(node)
            single = not isinstance(node, ast.BinOp) or isinstance(node.op, ast.Pow)
            factors.append(text if single else f"({text})")

    take(ast.parse(formula, mode="eval").body)
    powers = {factor: factors.count(factor) for factor in factors}
    return number, tuple(f"{factor}**{power}" if power > 1 else factor for factor, power in powers.items())


def _shifted(factor: str, offset: int) -> str:
    """Return a parameter, or its power, with an offset taken off."""
    if not offset:
        return factor
    name, power, exponent = factor.partition("**")
    return f"({name} - {offset}){power}{exponent}"


def _term(coefficient: Fraction, factors: Sequence[str]) -> str:
    if coefficient == 1 and factors:
        return "*".join(factors)
    shown = str(coefficient.numerator) if coefficient.denominator == 1 else f"{float(coefficient):g}"
    return "*".join([shown, *factors])


def _value(text: str, params: Mapping[str, Number]) -> Number | None:
    """Return the value of a formula, or ``None`` if it has none."""
    try:
        return Formula(text).evaluate(params)
    except FormulaError:
        return None
