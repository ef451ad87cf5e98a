"""The report page in a browser: sorted, filtered, opened, on a phone, and with a thousand kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from counteroof.report import html
from counteroof.results import Results

from ..browser import Browser, needs_browser
from ..factories import failed, result, results
from .test_html import EVIL, FULL

pytestmark = needs_browser


def shown(browser: Browser, found: Results, folder: Path, width: int = 1400, anchor: str = "") -> None:
    browser.visit(html.save(found, folder / "report.html"), width, anchor)


def order(browser: Browser) -> list[str]:
    """Return the names in the table from top to bottom, without those that are hidden."""
    return list(
        browser.run(
            "return [...document.querySelectorAll('#kernels tbody tr')].filter(row => !row.hidden)"
            ".map(row => row.cells[0].textContent)"
        )
    )


SLOW, FAST = result("slow", seconds=0.5), result("fast", seconds=0.0125)
UNTIMED = result("untimed", seconds=None)


def test_the_table_sorts_both_ways_and_what_is_missing_comes_last(browser: Browser, tmp_path: Path) -> None:
    shown(browser, results(FAST, UNTIMED, SLOW), tmp_path)
    assert order(browser) == ["fast", "untimed", "slow"]
    headings = browser.run("return [...document.querySelectorAll('#kernels th')].map(x => x.textContent)")
    time = headings.index("time") + 1
    browser.click(f"#kernels th:nth-child({time}) button")
    assert order(browser) == ["slow", "fast", "untimed"]
    browser.click(f"#kernels th:nth-child({time}) button")
    assert order(browser) == ["fast", "slow", "untimed"]
    assert browser.run("return document.querySelector('#kernels [aria-sort]').textContent") == "time"
    browser.click("#kernels th:nth-child(1) button")
    assert order(browser) == ["fast", "slow", "untimed"]
    browser.click("#kernels th:nth-child(1) button")
    assert order(browser) == ["untimed", "slow", "fast"]


def test_the_filter_hides_rows_dots_and_details(browser: Browser, tmp_path: Path) -> None:
    shown(browser, results(FAST, UNTIMED, SLOW), tmp_path)
    browser.driver.find_element("css selector", "#filter").send_keys("SLO")
    assert order(browser) == ["slow"]
    assert browser.run("return document.getElementById('shown').textContent") == "1 of 3"
    seen = "return [...document.querySelectorAll(arguments[0])].filter(x => x.checkVisibility()).length"
    assert browser.run(seen, "svg a[data-k]") == 1
    assert browser.run(seen, "details[id^=k]") == 1


def test_a_dot_and_a_name_lead_to_the_details(browser: Browser, tmp_path: Path) -> None:
    shown(browser, results(FAST, SLOW), tmp_path)
    opened = "return [...document.querySelectorAll('details[open]')].map(x => x.id)"
    assert browser.run(opened) == []
    browser.click("#kernels tbody tr:nth-child(2) a")
    assert browser.run(opened) == ["k1"]
    browser.run("document.querySelector('svg a[data-k]').dispatchEvent(new MouseEvent('click'))")
    assert browser.run("return location.hash") == "#k0"
    shown(browser, results(FAST, SLOW), tmp_path, anchor="#k1")
    assert browser.run(opened) == ["k1"]


@pytest.mark.parametrize("width", [360, 1400])
def test_the_page_is_as_wide_as_the_screen(browser: Browser, tmp_path: Path, width: int) -> None:
    long = result("std::vector<double>::operator_with_a_very_long_name(int, double, std::allocator<int>)" * 3)
    shown(browser, results(FULL, long, failed(message="m" * 300)), tmp_path, width)
    browser.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run("return document.querySelector('figure svg').getBoundingClientRect().width") >= 300


def test_words_in_tables_are_not_broken_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    shown(browser, results(FULL), tmp_path, 360)
    browser.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    broken = browser.run(
        """
        const found = [];
        for (const cell of document.querySelectorAll(".scroll td")) {
          const text = cell.firstChild;
          if (text?.nodeType !== Node.TEXT_NODE) continue;
          for (const word of text.data.matchAll(/\\p{L}{2,12}/gu)) {
            const range = document.createRange();
            range.setStart(text, word.index);
            range.setEnd(text, word.index + word[0].length);
            if (range.getClientRects().length > 1) found.push(word[0]);
          }
        }
        return found;
        """
    )
    assert broken == []


def test_labels_of_the_roofline_overlap_nothing(browser: Browser, tmp_path: Path) -> None:
    from ..plot.test_roofline import crowd

    shown(browser, results(*crowd(40)), tmp_path)
    clashes = browser.run(
        """
        const found = [];
        for (const chart of document.querySelectorAll('figure svg')) {
          const texts = [...chart.querySelectorAll('text.name')];
          const boxes = texts.map(x => x.getBoundingClientRect());
          const dots = [...chart.querySelectorAll('.dot')].map(x => x.getBoundingClientRect());
          const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
          boxes.forEach((a, i) => {
            boxes.forEach((b, j) => i < j && meet(a, b) && found.push([i, j].map(k => texts[k].textContent)));
            dots.forEach(b => meet(a, b) && found.push([texts[i].textContent, 'a dot']));
          });
        }
        return found;
        """
    )
    assert clashes == []


def numbered(count: int) -> Results:
    return results(*(result(f"kernel_{i}", seconds=0.01 + i / 1e5) for i in range(count)))


def wait(browser: Browser, condition: Callable[[], bool]) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(browser.driver, 60).until(lambda _: condition())


def test_a_thousand_kernels_open_sort_and_unfold(browser: Browser, tmp_path: Path) -> None:
    shown(browser, numbered(1000), tmp_path, anchor="#k700")
    assert browser.run("return document.querySelectorAll('figure .dot').length") == 1000
    text = "return document.getElementById(arguments[0]).innerText"
    assert "How every number was got" in browser.run(text, "k700")
    top = "return document.getElementById('k700').getBoundingClientRect().top"
    assert 0 <= browser.run(top) < 800
    assert "median of 3 samples" not in browser.run(text, "k3")
    browser.run("document.getElementById('k3').open = true")
    browser.driver.execute_async_script("setTimeout(arguments[0], 50)")
    assert "median of 3 samples" in browser.run(text, "k3")
    assert len(order(browser)) == html.MOST_AT_ONCE
    browser.click("#kernels th:nth-child(4) button")
    assert order(browser) == [f"kernel_{i}" for i in reversed(range(1000))]


def test_what_is_far_below_is_not_laid_out_until_it_is_near(browser: Browser, tmp_path: Path) -> None:
    most = html.MOST_AT_ONCE
    shown(browser, numbered(3 * most + 1), tmp_path)
    drawn = "return document.getElementById('k0').checkVisibility({contentVisibilityAuto: true})"
    frame = "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(arguments[0], 0)))"
    browser.driver.execute_async_script(frame)
    assert not browser.run(drawn)
    assert order(browser) == [f"kernel_{i}" for i in range(most)]
    browser.run("document.getElementById('more').scrollIntoView({block: 'end'})")
    wait(browser, lambda: len(order(browser)) > most)
    browser.driver.execute_async_script(frame)
    assert order(browser) == [f"kernel_{i}" for i in range(2 * most)]
    browser.click("#all")
    assert order(browser) == [f"kernel_{i}" for i in range(3 * most + 1)]
    assert not browser.run("return document.getElementById('all').checkVisibility()")
    browser.run("document.getElementById('k0').scrollIntoView()")
    wait(browser, lambda: browser.run(drawn))


def test_the_filter_finds_rows_that_were_kept_as_text(browser: Browser, tmp_path: Path) -> None:
    shown(browser, numbered(2 * html.MOST_AT_ONCE), tmp_path)
    browser.driver.find_element("css selector", "#filter").send_keys("kernel_199")
    assert order(browser) == ["kernel_199"]
    assert browser.run("return document.getElementById('shown').textContent") == "1 of 200"
    browser.run(
        "document.querySelector('#kernels [data-k=\"199\"]').dispatchEvent(new MouseEvent('mouseenter'))"
    )
    assert browser.run("return document.querySelector('svg a.lit').dataset.k") == "199"


def test_all_rows_are_printed(browser: Browser, tmp_path: Path) -> None:
    shown(browser, numbered(html.MOST_AT_ONCE + 1), tmp_path)
    browser.driver.execute_cdp_cmd("Page.printToPDF", {})
    assert len(order(browser)) == html.MOST_AT_ONCE + 1


def test_names_that_are_code_do_nothing(browser: Browser, tmp_path: Path) -> None:
    evil = result(EVIL, label=EVIL, symbol=EVIL)
    for kernels in ([evil, FAST], [evil, *[FAST] * html.MOST_AT_ONCE]):
        shown(browser, results(*kernels), tmp_path, anchor="#k0")
        assert "How every number was got" in browser.run("return document.getElementById('k0').innerText")
        assert browser.run("return document.querySelectorAll('img').length") == 0
