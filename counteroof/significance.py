"""Whether two sets of timing samples differ: a rank test and an interval of their ratio, with no assumption
about the shape of their distribution.

The test is that of Mann and Whitney (H. B. Mann, D. R. Whitney, Ann. Math. Statist. 18 (1947) 50), exact for
few samples; the ratio and its interval are those of Hodges and Lehmann (J. L. Hodges, E. L. Lehmann, Ann.
Math. Statist. 34 (1963) 598) on the logarithms. Both take the samples as independent. Samples of one process
resemble one another more than that, so a p just below the threshold is worth a second run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, median

ALPHA = 0.05
"""Chance of calling two samples of the same distribution different."""

EXACT = 40
"""Samples together up to which the distribution of ranks is counted out; beyond, it is a normal one."""


@dataclass(frozen=True)
class Difference:
    """How the seconds of a kernel after a change are to those before.

    Attributes
    ----------
    ratio
        After over before: the median of the ratios of all pairs of samples. Below 1 is faster.
    low, high
        Interval that holds the true ratio with probability ``1 - alpha``; ``None`` if there are too few
        samples for one.
    p
        Probability of ranks at least so far apart if nothing had changed.
    alpha
        The threshold ``p`` is held against.
    enough
        Whether so many samples could show a difference at all.
    """

    ratio: float
    low: float | None
    high: float | None
    p: float
    alpha: float
    enough: bool

    @property
    def significant(self) -> bool:
        """Whether the samples differ."""
        return self.enough and self.p < self.alpha


def compare(before: Sequence[float], after: Sequence[float], alpha: float = ALPHA) -> Difference:
    """Return how ``after`` differs from ``before``, both positive.

    Raises
    ------
    ValueError
        If a sample is missing or not positive.
    """
    if not before or not after:
        raise ValueError("a comparison needs samples on both sides")
    if min(*before, *after) <= 0:
        raise ValueError("samples must be positive")
    m, n = len(before), len(after)
    doubled = _doubled_ranks([*before, *after])
    observed = sum(doubled[m:])
    exact = m + n <= EXACT
    p = _exact_p(doubled, n, observed) if exact else _normal_p(doubled, m, n, observed)
    least = 2 / math.comb(m + n, n) if exact else 0.0
    ratios = sorted(math.log(b) - math.log(a) for a in before for b in after)
    low = high = None
    enough = least < alpha
    if enough:
        cut = _tail(m, n, alpha)
        low, high = math.exp(ratios[cut]), math.exp(ratios[len(ratios) - 1 - cut])
    return Difference(math.exp(median(ratios)), low, high, p, alpha, enough)


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value, so that the mean rank of equal ones is whole."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for position in range(start, end + 1):
            ranks[order[position]] = start + end + 2
        start = end + 1
    return ranks


@lru_cache(maxsize=256)
def _sums(doubled: tuple[int, ...], size: int) -> Mapping[int, int]:
    """Return in how many ways ``size`` of the ranks have each sum."""
    ways: list[dict[int, int]] = [{} for _ in range(size + 1)]
    ways[0][0] = 1
    for rank in doubled:
        for count in range(size, 0, -1):
            target = ways[count]
            for total, number in ways[count - 1].items():
                target[total + rank] = target.get(total + rank, 0) + number
    return ways[size]


def _exact_p(doubled: Sequence[int], size: int, observed: int) -> float:
    centre = size * sum(doubled) / len(doubled)
    ways = _sums(tuple(sorted(doubled)), size)
    far = sum(number for total, number in ways.items() if abs(total - centre) >= abs(observed - centre))
    return far / sum(ways.values())


def _normal_p(doubled: Sequence[int], m: int, n: int, observed: int) -> float:
    """Return the two-sided p of the rank sum's normal approximation, corrected for ties and continuity."""
    total = m + n
    centre = n * (total + 1)  # of doubled ranks
    mean = sum(doubled) / total
    variance = m * n / (total * (total - 1)) * sum((rank - mean) ** 2 for rank in doubled)
    if variance == 0:
        return 1.0
    away = max(abs(observed - centre) - 1, 0)
    return min(1.0, 2 * (1 - NormalDist().cdf(away / math.sqrt(variance))))


def _tail(m: int, n: int, alpha: float) -> int:
    """Return how many of the ordered ratios lie outside the interval on each side."""
    if m + n <= EXACT:
        ways = _sums(tuple(2 * rank for rank in range(1, m + n + 1)), n)
        least, whole, far = n * (n + 1), math.comb(m + n, n), 0
        for outside in range(m * n // 2 + 1):
            far += ways.get(least + 2 * outside, 0)
            if far > alpha / 2 * whole:
                return max(outside - 1, 0)
        return m * n // 2
    spread = math.sqrt(m * n * (m + n + 1) / 12)
    cut = m * n / 2 + NormalDist().inv_cdf(alpha / 2) * spread
    return max(math.floor(cut) - 1, 0)
