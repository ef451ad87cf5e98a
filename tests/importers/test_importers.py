"""Which tool a file is from, and what is said when it is from none."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from counteroof import importers
from counteroof.errors import BadInput
from counteroof.importers.imported import Options
from counteroof.results import from_json, to_json

from ..factories import machine
from . import test_carm, test_likwid, test_likwid_marker, test_ncu, test_perf_stat

FILES = {
    "perf-stat": (
        test_perf_stat.ZEN4,
        test_perf_stat.HYBRID_CSV,
        test_perf_stat.SPR,
        test_perf_stat.INTERVALS,
    ),
    "likwid": (test_likwid.ZEN3, test_likwid.CASCADE_LAKE, test_likwid.CSV),
    "likwid-marker": (test_likwid_marker.ZEN3, test_likwid_marker.TWO_THREADS),
    "ncu": (test_ncu.SAXPY, test_ncu.raw(test_ncu.RAW_VALUES)),
    "carm": (test_carm.lines(test_carm.ARITHMETIC, test_carm.MEMORY), test_carm.lines(test_carm.PROFILE)),
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in FILES.items() for text in texts])
def test_a_file_is_recognised_by_its_content_and_by_no_other_importer(kind: str, text: str) -> None:
    assert [name for name in importers.KINDS if importers._module(name).recognises(text)] == [kind]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_encodings_and_line_ends_do_not_matter(encoding: str, ends: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(test_ncu.SAXPY.removeprefix("\ufeff").replace("\n", ends).encode(encoding))
    (run,) = importers.read(path)
    assert run.kernels[0].dram_bytes.value == 134_221_568 + 43_631_104


@pytest.mark.parametrize("kind", [None, "likwid"])
def test_a_kind_may_be_named(kind: str | None, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(test_likwid.ZEN3)
    assert importers.read(path, kind)[0].kernels[0].name == "saxpy"


def test_kernels_are_held_against_a_machine_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(test_likwid.CSV)
    (run,) = importers.read(path, options=Options(machine=machine()))
    (kernel,) = run.kernels
    assert kernel.placement is not None
    assert (kernel.placement.bound, kernel.placement.ceiling) == ("dram", "DRAM copy")
    assert any("held against the ceilings of 2-core Zen 5 VM" in note for note in run.machine.notes)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "file is empty"),
        (b"hello\n", "is of no kind that can be imported"),
        (b"a,b,c\n1,2,3\n", "is of no kind that can be imported"),
        (b'{"schema": "counteroof.results/1"}', "is of no kind that can be imported"),
        (b"\xff\xfe\x00", "is not text"),
    ],
)
def test_other_files_are_refused_with_what_is_expected(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=message):
        importers.read(path)


def test_what_cannot_be_read_and_kinds_nobody_knows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        importers.read(tmp_path / "nothing")
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadInput, match=r"unknown kind 'likwit' \(did you mean 'likwid'\?\)"):
        importers.read(tmp_path / "file", "likwit")
    with pytest.raises(BadInput, match="cannot be read"):
        importers.read(tmp_path)


@pytest.mark.parametrize("kind", importers.KINDS)
def test_a_file_of_another_kind_is_refused_by_every_importer(kind: str, tmp_path: Path) -> None:
    for other, texts in FILES.items():
        path = tmp_path / "file"
        path.write_text(texts[0])
        if other != kind:
            with pytest.raises(BadInput):
                importers.read(path, kind)


VALUES = ("0", "-1", "9" * 30, "9" * 400, "nan", "1e400", "10e+00", "", "null", "true", '""')
CHARACTERS = '0123456789.,-|":{}[]e \n\t%naAN<>\u00b5\0'


def damaged(text: str, chance: random.Random) -> str:
    """Return a text with something cut, doubled, swapped or replaced."""
    lines = text.split("\n")
    one, other, at = (
        chance.randrange(len(lines)),
        chance.randrange(len(lines)),
        chance.randrange(len(text) + 1),
    )
    match chance.randrange(6):
        case 0:
            return text[:at]
        case 1:
            return text[:at] + chance.choice(CHARACTERS) + text[at + chance.randrange(2) :]
        case 2:
            del lines[one]
        case 3:
            lines.insert(one, lines[other])
        case 4:
            lines[one], lines[other] = lines[other], lines[one]
        case _:
            numbers = list(re.finditer(r"\d+", text))
            if numbers:
                spot = chance.choice(numbers)
                return text[: spot.start()] + chance.choice(VALUES) + text[spot.end() :]
    return "\n".join(lines)


@pytest.mark.parametrize("kind", [None, *importers.KINDS])
def test_a_damaged_file_is_read_or_refused_in_one_line(kind: str | None, tmp_path: Path) -> None:
    chance = random.Random(f"{kind}")
    path = tmp_path / "file"
    texts = [text for name, several in FILES.items() for text in several if kind in (None, name)]
    outcomes: set[str | int] = set()
    for _ in range(150):
        text = chance.choice(texts)
        for _ in range(chance.choice([1, 1, 2, 4])):
            text = damaged(text, chance)
        path.write_text(text)
        try:
            runs = importers.read(path, kind)
        except BadInput as error:
            outcomes.add(str(error).count("\n"))
            continue
        outcomes.add("read")
        assert [from_json(to_json(run)) for run in runs] == list(runs)
    assert outcomes == {"read", 0}
