"""Chromium for tests of pages: without a network, and quiet unless a page complains."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--window-size=1400,1000"),
)

needs_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(
        shutil.which("chromium") is None or shutil.which("chromedriver") is None,
        reason="needs chromium and chromedriver",
    ),
]


class Browser:
    """A window of Chromium."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def visit(self, path: Path, width: int = 1400, anchor: str = "") -> None:
        """Open a file, on a screen of some width."""
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.get("about:blank")
        self.driver.get(path.as_uri() + anchor)

    def run(self, script: str, *arguments: object) -> Any:
        """Return what a script returns."""
        return self.driver.execute_script(script, *arguments)

    def click(self, selector: str) -> None:
        """Click on what a CSS selector finds."""
        self.driver.find_element("css selector", selector).click()

    @property
    def complaints(self) -> list[str]:
        """What is on the console since it was last asked: errors, and what a page's policy forbade."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """Start Chromium with an empty profile, and end it."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
