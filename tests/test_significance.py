"""Whether timing samples differ, held against SciPy's tests and against samples of known difference."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from scipy import stats

from counteroof.significance import EXACT, compare


def drawn(chance: random.Random, count: int, factor: float = 1.0) -> list[float]:
    return [factor * chance.lognormvariate(0, 0.1) for _ in range(count)]


@pytest.mark.parametrize(("m", "n"), [(2, 2), (3, 5), (5, 5), (15, 15), (15, 4), (1, 30)])
def test_few_samples_are_counted_out_exactly(m: int, n: int) -> None:
    chance = random.Random(m * n)
    for factor in (1.0, 1.1, 2.0):
        before, after = drawn(chance, m), drawn(chance, n, factor)
        expected = stats.mannwhitneyu(before, after, method="exact").pvalue
        assert compare(before, after).p == pytest.approx(expected)


def test_many_samples_have_the_normal_approximation() -> None:
    chance = random.Random(3)
    before, after = drawn(chance, EXACT), drawn(chance, EXACT, 1.03)
    before[3] = after[5] = after[7]  # ties
    expected = stats.mannwhitneyu(before, after, method="asymptotic").pvalue
    assert compare(before, after).p == pytest.approx(expected)


def test_equal_samples_share_their_ranks() -> None:
    before, after = [1.0, 1.0, 2.0], [1.0, 2.0, 3.0, 3.0]
    ranks = stats.rankdata([*before, *after])
    sums = [sum(chosen) for chosen in combinations(ranks, 4)]
    centre = 4 * ranks.mean()
    far = [s for s in sums if abs(s - centre) >= abs(sum(ranks[3:]) - centre) - 1e-9]
    assert compare(before, after).p == pytest.approx(len(far) / len(sums))


def test_the_same_samples_do_not_differ() -> None:
    found = compare([1.0] * 5, [1.0] * 5)
    assert (found.ratio, found.p, found.significant) == (1, 1, False)


def test_a_clear_difference_is_found_with_its_ratio() -> None:
    found = compare([1.00, 1.01, 1.02, 0.99, 1.03], [0.50, 0.51, 0.505, 0.495, 0.515])
    assert found.significant
    assert found.ratio == pytest.approx(0.5, rel=0.01)
    assert found.low is not None
    assert found.high is not None
    assert 0.48 < found.low < found.ratio < found.high < 0.53


def test_two_samples_a_side_can_show_nothing() -> None:
    found = compare([1.0, 1.01], [9.0, 9.01])
    assert (found.enough, found.significant, found.low, found.high) == (False, False, None, None)
    assert found.ratio == pytest.approx(9, rel=0.01)


@pytest.mark.parametrize(("m", "n"), [(4, 4), (15, 15), (30, 30)])
def test_the_interval_holds_the_true_ratio_as_often_as_it_says(m: int, n: int) -> None:
    chance = random.Random(5)
    held = sum(
        found.low is not None and found.high is not None and found.low <= 1.2 <= found.high
        for found in (compare(drawn(chance, m), drawn(chance, n, 1.2)) for _ in range(200))
    )
    assert 0.91 <= held / 200 <= 1.0


def test_equal_kernels_are_rarely_called_different() -> None:
    chance = random.Random(6)
    wrong = sum(compare(drawn(chance, 15), drawn(chance, 15)).significant for _ in range(300))
    assert 0 < wrong / 300 < 0.09


@pytest.mark.parametrize("samples", [[], [0.0, 1.0], [-1.0]])
def test_samples_that_are_none_are_refused(samples: list[float]) -> None:
    with pytest.raises(ValueError, match="samples"):
        compare(samples, [1.0])
    with pytest.raises(ValueError, match="samples"):
        compare([1.0], samples)
