"""The interactive page in a browser: it draws, says everything where one points, and heeds its switches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counteroof.plot import interactive, style

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


STROKES = """
const found = {};
(function walk(item) {
  if (item.items) item.items.forEach(walk);
  else if (item.datum && item.shape !== undefined && item.tooltip) found[item.datum.level] = item.stroke;
})(view.scenegraph().root);
return found;
"""


def test_dots_of_several_boundaries_are_told_apart_by_what_is_around_them(
    browser: Browser, tmp_path: Path
) -> None:
    shown(browser, tmp_path, whole(everywhere("triad")))
    assert browser.run(STROKES) == {"DRAM": "white"}
    set_signal(browser, "show_l1", True)
    assert browser.run(STROKES) == {"DRAM": style.slope("dram"), "L1": style.slope("l1")}
    assert browser.complaints == []


def test_it_draws_offline_and_heeds_switches_and_search(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path, whole(everywhere("triad"), RESIDENT))
    assert browser.run(DOTS) == ["resident no DRAM traffic", "triad DRAM"]
    set_signal(browser, "show_l1", True)
    assert browser.run(DOTS) == ["resident no DRAM traffic", "triad DRAM", "triad L1"]
    set_signal(browser, "search", "RES")
    assert browser.run(DOTS) == ["resident no DRAM traffic"]


PLACE = """
const boxes = [...document.querySelectorAll('#roofline path[aria-label*=sentence]')]
  .map(one => one.getBoundingClientRect()).filter(box => box.width < 20);
return [boxes[0].left + boxes[0].width / 2, boxes[0].top + boxes[0].height / 2];
"""


def mouse(browser: Browser, kind: str, x: float, y: float, **more: object) -> None:
    browser.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})


def settle(browser: Browser) -> None:
    browser.driver.execute_async_script("setTimeout(() => view.runAsync().then(() => arguments[0](1)), 200)")


def test_a_click_picks_a_kernel_and_names_it(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path, whole(everywhere("triad"), everywhere("other", seconds=0.5)))
    x, y = browser.run(PLACE)
    mouse(browser, "mouseMoved", x, y)
    for kind in ("mousePressed", "mouseReleased"):
        mouse(browser, kind, x, y, button="left", clickCount=1)
    settle(browser)
    assert browser.run("return view.data('pick_store').length") == 1
    names = browser.run("return [...document.querySelectorAll('#roofline text')].map(x => x.textContent)")
    assert sorted({"triad", "other"} & set(names)) in (["triad"], ["other"])


def test_the_wheel_zooms(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path, whole(everywhere("triad")))
    domain = "const [low, high] = view.scale('x').domain(); return high / low"
    before = browser.run(domain)
    x, y = browser.run(PLACE)
    mouse(browser, "mouseWheel", x, y, deltaX=0, deltaY=-300)
    settle(browser)
    assert browser.run(domain) < before / 1.2


def test_pointing_at_a_dot_shows_its_numbers_with_their_sources(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path, results(result(EVIL, ceilings=LEVEL_CEILINGS), ceilings=LEVEL_CEILINGS))
    x, y = browser.run(PLACE)
    for step in (0, 1, 2):
        mouse(browser, "mouseMoved", x + step, y)
    settle(browser)
    tip = browser.run("return document.querySelector('#vg-tooltip-element')?.innerText")
    assert tip is not None
    assert "480 MB (modelled: instrument: cache model, LRU, 32 MiB L3)" in tip
    assert "Intensity 0.0833 declared" in tip
    assert browser.run("return document.querySelectorAll('img').length") == 0
