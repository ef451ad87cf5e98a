"""The report page as text: complete, escaped, and in need of nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from counteroof.diagnose.base import Finding
from counteroof.reconcile import LedgerLine
from counteroof.report import html
from counteroof.report.html import page
from counteroof.results import KernelResult, SourceLine

from ..factories import failed, measured_in_full, result, results

VOID = {"meta", "input", "br", "hr", "img", "link"}
DRAWN = {"circle", "rect", "path"}


class Page(HTMLParser):
    """The texts of each element that has an id, and every attribute that may fetch something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, str | None]] = []
        self.texts: dict[str, str] = {}
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.handlers: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "action", "data", "poster", "srcset") and value:
                self.fetched.append(value)
            if name.startswith("on") or name == "style":
                self.handlers.append(name)
        if tag not in VOID:
            self.open.append((tag, dict(attrs).get("id")))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        opened, _ = self.open.pop()
        assert opened == tag, f"<{opened}> is closed by </{tag}>"

    def handle_data(self, data: str) -> None:
        for _, name in self.open:
            if name:
                self.texts[name] = self.texts.get(name, "") + data


def shown(*kernels: KernelResult) -> Page:
    found = Page(page(results(*kernels)))
    assert found.open == []
    return found


FULL = result(
    "triad",
    lines=(SourceLine("/somewhere/triad.c", 7, 1234, 40_000_000, 640_000_000, 480_000_000, 160_000_000),),
    findings=(Finding("write-allocate", "warning", "a is read first", "use stores past", 1.33),),
)


def test_a_kernel_has_its_sentence_ledger_arrays_lines_findings_and_sources() -> None:
    text = shown(FULL).texts["k0"]
    for part in (
        *("Intensity 0.0833 declared, 0.0625 true", "35 times left of the ridge"),
        *("write-allocate: a", "+160 MB", "640 MB"),
        *("Arrays", "160 MB"),
        *("Source lines", "triad.c:7", "1.23 k"),
        *("write-allocate", "a is read first", "use stores past", "Gain: up to 1.33 times."),
        *("How every number was got", "instrument: engine", "a paper", "median of 3 samples"),
        *("f64 512 bit fma 40.0 M", "triad of libkernels.so; n = 20000000", "agrees with the reference"),
    ):
        assert part in text


def test_what_paces_a_kernel_has_its_tables() -> None:
    text = shown(measured_in_full()).texts["k0"]
    for part in (
        *("From declared to executed FLOPs", "+3.00 M", "expf of libm.so.6"),
        *("How arrays were walked", "32 bytes", "nothing left out"),
        *("Loops whose passes wait for each other", "f, line 27", "4.00 ms", "latencies of Zen 3"),
    ):
        assert part in text
    assert "passes wait" not in shown(FULL).texts["k0"]


def test_the_waterfall_has_a_bar_for_each_step() -> None:
    ledger = (
        LedgerLine("declared", 400),
        LedgerLine("write-allocate", 200, "a"),
        LedgerLine("stayed in cache", -100, "b"),
        LedgerLine("actual", 500),
    )
    text = page(results(result("k", ledger=ledger)))
    found = re.findall(r'<rect class="(total|more|less)" x="([\d.]+)" width="([\d.]+)"', text)
    assert found == [
        ("total", "0", "66.7"),
        ("more", "66.7", "33.3"),
        ("less", "83.3", "16.7"),
        ("total", "0", "83.3"),
    ]


def test_what_is_not_there_leaves_no_trace() -> None:
    bare = replace(failed("bare"), declared=None, error=None)
    text = shown(bare).texts["k0"]
    for heading in ("Findings", "From declared", "Arrays", "Source lines", "None"):
        assert heading not in text
    assert "neither timed nor counted" in text


def test_a_failed_kernel_is_there_with_its_reason() -> None:
    found = shown(failed("spoiled", "crash", "SIGSEGV in triad"))
    assert "Not measured to the end: crash: SIGSEGV in triad." in found.texts["k0"]
    assert "spoiled" in found.texts["kernels"]


def test_an_empty_run_is_a_page_too() -> None:
    assert "Roofline" in page(results())
    assert "Roofline" in page(results(ceilings=()))


EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{ 7 * 7 }}\x1b[31m\x00"


@pytest.mark.parametrize("count", [1, html.MOST_AT_ONCE + 1])
def test_names_from_the_user_are_text_wherever_they_stand(count: int) -> None:
    kernel = replace(
        FULL,
        **dict.fromkeys(("name", "label", "library", "symbol"), EVIL),
        arrays=tuple(replace(one, name=EVIL) for one in FULL.arrays),
        ledger=tuple(replace(one, array=EVIL if one.array else None) for one in FULL.ledger),
        lines=(replace(FULL.lines[0], file=EVIL, symbol=EVIL),),
        findings=(Finding(EVIL, EVIL, EVIL, EVIL, None),),
        params={EVIL: 1},
    )
    text = page(
        results(*[kernel] * count, replace(failed(EVIL), error=replace(failed().error, message=EVIL)))
    )
    found = Page(text)
    packs = count + 1 + 1 if count > html.MOST_AT_ONCE else 0  # of each kernel's details, and one of rows
    assert found.tags.count("script") == 1 + packs
    assert "img" not in found.tags
    assert found.handlers == []
    assert "49" not in found.texts["kernels"]
    assert "\x1b" not in text
    assert "\x00" not in text
    assert "<img src=x onerror=alert(2)>" in found.texts["kernels"]


def test_the_page_fetches_nothing_and_may_run_nothing_but_its_own_script() -> None:
    text = page(results(FULL, failed()))
    found = Page(text)
    assert all(link.startswith("#k") for link in found.fetched)
    assert "@import" not in text
    assert "url(" not in text
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; ")
    for tag in ("script", "style"):
        (body,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]
    assert "unsafe" not in policy[1]


def test_cells_carry_their_values_so_that_sorting_does_not_read_texts() -> None:
    text = page(results(result("triad", seconds=0.0125)))
    assert '<td class="n" data-v="0.0125">12.5 ms</td>' in text
    assert '<td class="n" data-v="640000000">640 MB</td>' in text
    untimed = page(results(result("untimed", seconds=None)))
    assert '<td class="n">-</td>' in untimed


PACK = re.compile(r'<script type="text/plain">(.*?)</script>', re.DOTALL)
ROW = re.compile(r'<tr data-k="(\d+)".*?</tr>', re.DOTALL)


def test_of_many_kernels_the_details_and_later_rows_are_kept_as_text() -> None:
    most = html.MOST_AT_ONCE
    many = [result(f"k{i}") for i in range(2 * most + 1)]
    text = page(results(*many))
    details, rows = [], []
    for pack in PACK.findall(text):
        (rows if ROW.search(pack) else details).append(pack)
    assert len(details) == len(many)
    assert all("How every number was got" in pack for pack in details)
    keys = [[int(row[1]) for row in ROW.finditer(part)] for part in (PACK.sub("", text), *rows)]
    assert keys == [[*range(most)], [*range(most, 2 * most)], [2 * most]]


def test_a_row_is_the_same_whether_it_is_kept_as_text_or_not() -> None:
    first, *rest = [result(f"k{i}", seconds=0.5 + i) for i in range(html.MOST_AT_ONCE + 1)]
    few, many = page(results(*rest)), page(results(first, *rest))
    assert PACK.search(few) is None
    last = [found[0] for found in ROW.finditer(few)][-1]
    number = len(rest)
    packed = last.replace(f'data-k="{number - 1}"', f'data-k="{number}"').replace(
        f"#k{number - 1}", f"#k{number}"
    )
    assert packed in PACK.findall(many)[0]


def test_the_file_is_written_whole(tmp_path: Path) -> None:
    path = html.save(results(FULL), tmp_path / "report.html")
    assert path.read_text(encoding="utf-8") == page(results(FULL))
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]
