"""Numbers as people read them: one place applies prefixes, so every prefix has a test."""

from __future__ import annotations

import pytest

from counteroof import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (7, "7 B"),
        (640, "640 B"),
        (1_000, "1.00 kB"),
        (24_000, "24.0 kB"),
        (640_000_000, "640 MB"),
        (1_234_567_890, "1.23 GB"),
        (2.5e12, "2.50 TB"),
        (3e15, "3.00 PB"),
        (4e18, "4.00 EB"),
        (-160_000_000, "-160 MB"),
        (0.25, "0.250 B"),
        (None, "-"),
    ],
)
def test_bytes_take_decimal_prefixes(value: float | None, text: str) -> None:
    assert units.byte_count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (999.4, "999 B"),
        (999.6, "1.00 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (999_600_000, "1.00 GB"),
    ],
)
def test_a_number_that_rounds_up_takes_the_next_prefix(value: float, text: str) -> None:
    assert units.byte_count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.5, "2.50 s"),
        (0.0162, "16.2 ms"),
        (200e-9, "200 ns"),
        (1.5e-6, "1.50 µs"),
        (3e-12, "3.00 ps"),
        (4e-15, "4.00 fs"),
        (61.5, "61.5 s"),
    ],
)
def test_times_go_below_one_second(value: float, text: str) -> None:
    assert units.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (48 * 1024, "48 KiB"),
        (1024**2, "1 MiB"),
        (32 * 1024**2, "32 MiB"),
        (24 * 1024**3, "24 GiB"),
        (100, "100 B"),
    ],
)
def test_cache_sizes_are_powers_of_two(value: int, text: str) -> None:
    assert units.binary_bytes(value) == text


def test_rates_and_clock() -> None:
    assert units.bandwidth(42.4e9) == "42.4 GB/s"
    assert units.flop_rate(203e9) == "203 GFLOP/s"
    assert units.flop_rate(8.91e6) == "8.91 MFLOP/s"
    assert units.hertz(4.18e9) == "4.18 GHz"
    assert units.in_giga(2.469e9) == "2.47"
    assert units.in_giga(8.91e6) == "0.00891"


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.96, "96 %"),
        (0.031, "3.1 %"),
        (0.0999, "10 %"),
        (1.07, "107 %"),
        (0, "0 %"),
        (0.0004, "0.0 %"),
        (None, "-"),
    ],
)
def test_shares_are_percentages(fraction: float | None, text: str) -> None:
    assert units.percent(fraction) == text


@pytest.mark.parametrize(
    ("value", "text"), [(4 / 3, "1.33"), (1.0, "1.00"), (0.5, "0.500"), (71.2, "71.2"), (0, "0"), (None, "-")]
)
def test_ratios_keep_three_digits_near_one(value: float | None, text: str) -> None:
    assert units.ratio(value) == text


def test_intensities_never_use_a_prefix() -> None:
    assert units.intensity(2 / 24) == "0.0833"
    assert units.intensity(130.2) == "130"
    assert units.intensity(1e-7) == "1.00e-07"
    assert units.intensity(None) == "-"


def test_signed_bytes_always_show_the_sign() -> None:
    assert units.signed_bytes(160_000_000) == "+160 MB"
    assert units.signed_bytes(-24_000) == "-24.0 kB"
    assert units.signed_bytes(None) == "-"


def test_counts_have_no_thousandth_part() -> None:
    assert units.flop_count(40_000_000) == "40.0 MFLOP"
    assert units.count(1_999_999) == "2.00 M"
    assert units.count(0.5) == "0.500"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("48K", 48 * 1024),
        ("32768K", 32 * 1024**2),
        ("48 KiB", 48 * 1024),
        ("38.5 MiB", 77 * 1024**2 // 2),
        ("1 GiB", 1024**3),
        ("2T", 2 * 1024**4),
        ("64 B", 64),
        (" 4096 ", 4096),
        ("0", 0),
    ],
)
def test_sizes_are_read_with_binary_prefixes(text: str, size: int) -> None:
    assert units.binary_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "K", "48 kB", "48 KB", "48k", "-1", "1.3 B", "1e3", "1,5 MiB", "48 Ki", "٤K"]
)
def test_what_is_no_size_for_certain_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size such as"):
        units.binary_size(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1%", 0.01), (" 1.5 % ", 0.015), ("0.01", 0.01), ("0", 0.0), (".5", 0.5), ("150%", 1.5)],
)
def test_a_share_is_a_percentage_or_a_fraction(text: str, value: float) -> None:
    assert units.share(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "%", "-1%", "1 permille", "1e3", "nan", "1,5%", "٣%"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a share such as 1% or"):
        units.share(text)
