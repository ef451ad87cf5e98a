"""The waterfall of a ledger: a bar for every cause, that begins where the one before it ended."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from counteroof.errors import BadInput
from counteroof.plot import waterfall
from counteroof.reconcile import LedgerLine
from counteroof.results import KernelResult

from ..factories import result

LEDGER = (
    LedgerLine("declared", 480_000_000),
    LedgerLine("write-allocate", 160_000_000, "a"),
    LedgerLine("stayed in cache", -40_000_000, "b"),
    LedgerLine("modelled", 600_000_000),
    LedgerLine("unexplained", 12_000_000),
    LedgerLine("actual", 612_000_000),
)


def explained(name: str = "triad", ledger: tuple[LedgerLine, ...] = LEDGER) -> KernelResult:
    return result(name, ledger=ledger)


def bars(figure: Figure) -> dict[str, tuple[float, float]]:
    """Return left and right end of each bar in MB, by kind and name."""
    found = {}
    for axes in figure.axes:
        for patch in axes.patches:
            box = patch.get_bbox()
            found[patch.get_gid() or ""] = (round(min(box.x0, box.x1), 6), round(max(box.x0, box.x1), 6))
    return found


def test_bars_begin_where_the_one_before_ended() -> None:
    assert bars(waterfall.draw([explained()])) == {
        "total:declared": (0, 480),
        "more:write-allocate: a": (480, 640),
        "less:stayed in cache: b": (600, 640),
        "total:modelled": (0, 600),
        "more:unexplained": (600, 612),
        "total:actual": (0, 612),
    }


def test_every_bar_has_its_name_and_its_bytes() -> None:
    (axes,) = waterfall.draw([explained()]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        *("declared", "write-allocate: a", "stayed in cache: b", "modelled", "unexplained", "actual")
    ]
    assert [text.get_text() for text in axes.texts] == [
        *("480 MB", "+160 MB", "-40.0 MB", "600 MB", "+12.0 MB", "612 MB")
    ]


def test_more_and_less_are_told_apart_in_grey() -> None:
    figure = waterfall.draw([explained()])
    looks = {patch.get_gid(): patch for axes in figure.axes for patch in axes.patches}
    more, less = looks["more:write-allocate: a"], looks["less:stayed in cache: b"]
    assert more.get_hatch() != less.get_hatch()
    assert to_rgb(more.get_facecolor()) != to_rgb(less.get_facecolor())


@pytest.mark.parametrize("count", [1, 5, waterfall.MOST])
def test_texts_overlap_nothing_and_stay_on_the_picture(count: int) -> None:
    long = tuple(
        LedgerLine("touched but not in the formula", 10_000_000, f"array_with_a_long_name_{i}")
        for i in range(9)
    )
    ledger = (LEDGER[0], *long, LedgerLine("actual", 570_000_000))
    figure = waterfall.draw(
        [explained(f"kernel_{i} " * 6, ledger if i % 2 else LEDGER) for i in range(count)]
    )
    figure.draw_without_rendering()  # gives axis labels their places
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    texts = [
        one for one in figure.findobj(Text) if isinstance(one, Text) and one.get_text() and one.get_visible()
    ]
    boxes = {id(text): text.get_window_extent(renderer) for text in texts}
    page = figure.bbox
    for text in texts:
        box = boxes[id(text)]
        assert page.x0 <= box.x0, text
        assert page.y0 <= box.y0, text
        assert box.x1 <= page.x1, text
        assert box.y1 <= page.y1, text
    clashes = [
        (one.get_text(), other.get_text())
        for one, other in itertools.combinations(texts, 2)
        if boxes[id(one)].overlaps(boxes[id(other)])
    ]
    assert clashes == []
    for axes in figure.axes:
        values = [boxes[id(text)] for text in axes.texts]
        ends = [patch.get_window_extent(renderer) for patch in axes.patches]
        assert not [1 for value in values for end in ends if value.overlaps(end)]


def test_a_declared_total_that_is_not_known_has_no_bar() -> None:
    ledger = (LedgerLine("declared", None), LedgerLine("unexplained", 5_000), LedgerLine("actual", 5_000))
    figure = waterfall.draw([explained(ledger=ledger)])
    assert bars(figure) == {"more:unexplained": (0, 5), "total:actual": (0, 5)}
    assert figure.axes[0].texts[0].get_text() == "-"


def test_no_ledger_and_too_many_are_refused_with_what_to_do() -> None:
    with pytest.raises(BadInput, match="no kernel has a ledger"):
        waterfall.draw([explained(ledger=())])
    with pytest.raises(BadInput, match="choose some"):
        waterfall.draw([explained(f"k{i}") for i in range(waterfall.MOST + 1)])


def test_many_waterfalls_are_several_pictures(tmp_path: Path) -> None:
    kernels = [explained(f"k{i}") for i in range(2 * waterfall.MOST + 2)]
    files = waterfall.save(kernels, tmp_path, "w", ("svg",))
    assert [file.name for file in files] == ["w-1.svg", "w-2.svg", "w-3.svg"]
    shown = [set(re.findall(r"<!-- (k\d+) -->", file.read_text())) for file in files]
    assert [len(one) for one in shown] == [17, 17, 16]
    assert set.union(*shown) == {kernel.name for kernel in kernels}


def test_a_waterfall_can_be_drawn_on_axes_that_are_there(tmp_path: Path) -> None:
    figure = Figure()
    axes = figure.subplots()
    waterfall.draw_on(axes, explained())
    assert len(axes.patches) == 6
    figure.savefig(tmp_path / "a.png")
