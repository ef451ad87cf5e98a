#!/usr/bin/env python3
"""Times what is waited for after a run: the first picture, and a report of a thousand kernels.

Usage: scripts/bench_report.py [RESULTS], a results file or the folder of a run (counteroof-out). Its kernels
are repeated until there are a thousand. The report is opened in Chromium, if it is there with ChromeDriver.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from counteroof import results as results_file
from counteroof.results import Results

MANY = 1000

FIRST = """
import sys, time
from pathlib import Path
from counteroof import results
found = results.load(Path(sys.argv[1]))
begun, busy = time.perf_counter(), time.process_time()
from counteroof.plot import roofline
roofline.save(found, Path(sys.argv[2]), formats=("png",))
print(time.perf_counter() - begun, time.process_time() - busy)
"""

OPENED = "return [performance.getEntriesByType('navigation')[0].loadEventEnd, performance.now()]"


def main() -> None:
    """Print the times in seconds."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "counteroof-out")
    path = path / "results.json" if path.is_dir() else path
    found = results_file.load(path)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(3):
            command = [sys.executable, "-c", FIRST, str(path), name]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            took, busy = map(float, said.split())
            what = f"first picture of {len(found.kernels)} kernels, imports included"
            print(f"{took:6.2f} s  {what} ({busy:.2f} s of the processor)")
        many = repeated(found)
        results_file.save(many, folder / "results.json")
        begun = time.perf_counter()
        results_file.load(folder / "results.json")
        print(f"{time.perf_counter() - begun:6.2f} s  results of {MANY} kernels read")
        from counteroof.report import html

        for _ in range(3):
            begun = time.perf_counter()
            html.save(many, folder / "report.html")
            print(f"{time.perf_counter() - begun:6.2f} s  report of {MANY} kernels written")
        opened(folder / "report.html", folder / "profile")


def repeated(found: Results) -> Results:
    """Return results with so many kernels, their names told apart."""
    if not found.kernels:
        sys.exit("the results have no kernels to repeat")
    kernels = [
        replace(kernel, label=f"{kernel.label}_{turn}")
        for turn in range(-(-MANY // len(found.kernels)))
        for kernel in found.kernels
    ]
    return replace(found, kernels=tuple(kernels[:MANY]))


def opened(page: Path, profile: Path) -> None:
    """Print how long Chromium takes to load a page and to lay it out."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        print("chromium and chromedriver are not here, so the report was not opened")
        return
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-background-networking"):
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={profile}")
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        for _ in range(3):
            driver.get("about:blank")
            driver.get(page.as_uri())
            driver.execute_script("document.body.offsetHeight")
            loaded, laid_out = (value / 1000 for value in driver.execute_script(OPENED))
            size = page.stat().st_size / 1e6
            print(f"{laid_out:6.2f} s  report of {size:.1f} MB opened (loaded after {loaded:.2f} s)")
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
