"""The interactive page in a browser: it draws, says everything where one points, and heeds its switches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counteroof.plot import interactive

from ..browser import Browser, needs_browser
from ..factories import result, results
from ..report.test_html import EVIL
from .test_interactive import RESIDENT, whole
from .test_views import LEVEL_CEILINGS, everywhere

pytestmark = needs_browser

READY = "const done = arguments[0]; (function wait() { window.view ? done(1) : setTimeout(wait, 20); })()"


def shown(browser: Browser, folder: Path, found: Any) -> None:
    (path,) = interactive.save(found, folder, "roofline", ("html",))
    browser.visit(path)
    browser.driver.execute_async_script(READY)


def set_signal(browser: Browser, name: str, value: object) -> None:
    browser.driver.execute_async_script(
        "const [name, value, done] = arguments; view.signal(name, value).runAsync().then(() => done(1))",
        name,
        value,
    )


DOTS = """
const found = [];
(function walk(item) {
  if (item.items) item.items.forEach(walk);
  else if (item.datum && item.shape !== undefined && item.tooltip)
    found.push(item.datum.kernel + ' ' + item.datum.level);
})(view.scenegraph().root);
return found.sort();
"""


def test_it_draws_offline_and_heeds_switches_and_search(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path, whole(everywhere("triad"), RESIDENT))
    assert browser.run(DOTS) == ["resident no DRAM traffic", "triad DRAM"]
    set_signal(browser, "show_l1", True)
    assert browser.run(DOTS) == ["resident no DRAM traffic", "triad DRAM", "triad L1"]
    set_signal(browser, "search", "RES")
    assert browser.run(DOTS) == ["resident no DRAM traffic"]


def test_pointing_at_a_dot_shows_its_numbers_with_their_sources(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path, results(result(EVIL, ceilings=LEVEL_CEILINGS), ceilings=LEVEL_CEILINGS))
    place = browser.run(
        "const boxes = [...document.querySelectorAll('#roofline path[aria-label*=sentence]')]"
        ".map(one => one.getBoundingClientRect()).filter(box => box.width < 20);"
        "return [boxes[0].left + boxes[0].width / 2, boxes[0].top + boxes[0].height / 2];"
    )
    for step in (0, 1, 2):
        event = {"type": "mouseMoved", "x": place[0] + step, "y": place[1]}
        browser.driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)
    browser.driver.execute_async_script("setTimeout(arguments[0], 200)")
    tip = browser.run("return document.querySelector('#vg-tooltip-element')?.innerText")
    assert tip is not None
    assert "480 MB (modelled: instrument: cache model, LRU, 32 MiB L3)" in tip
    assert "Intensity 0.0833 declared" in tip
    assert browser.run("return document.querySelectorAll('img').length") == 0
