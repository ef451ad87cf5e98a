"""Colours and shapes: told apart in grey, and by eyes that see fewer colours."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

from counteroof.plot import style

# Machado, Oliveira and Fernandes, 2009, "A physiologically-based model for simulation of color vision
# deficiency", table for severity 1.0; for linear RGB
SIGHT = {
    "protanopia": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    "deuteranopia": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    "tritanopia": ((1.256, -0.077, -0.179), (-0.078, 0.931, 0.148), (0.005, 0.691, 0.304)),
}
TO_XYZ = np.array([(0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505)])
WHITE = TO_XYZ.sum(axis=1)
JUST_SEEN = 2.3
"""Distance in CIELAB of two colours that are just told apart."""


def seen(colour: str, sight: str) -> NDArray[np.float64]:
    """Return a colour in CIELAB as such eyes see it."""
    coded = np.array(to_rgb(colour))
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(np.array(SIGHT[sight]) @ linear, 0, 1) / WHITE
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("looks", [style.BOUNDS, style.LEVELS], ids=["bounds", "levels"])
def test_colours_differ_to_eyes_that_see_fewer(looks: dict[str | None, style.Look], sight: str) -> None:
    for one, other in itertools.combinations(set(looks.values()), 2):
        distance = np.linalg.norm(seen(one.colour, sight) - seen(other.colour, sight))
        assert distance > 4 * JUST_SEEN, (one.words, other.words)


def test_two_colours_alike_would_be_noticed() -> None:
    distance = np.linalg.norm(seen("#d55e00", "deuteranopia") - seen("#a88000", "deuteranopia"))
    assert distance < 4 * JUST_SEEN


@pytest.mark.parametrize("looks", [style.BOUNDS, style.LEVELS], ids=["bounds", "levels"])
def test_shapes_differ_so_that_grey_print_can_be_read(looks: dict[str | None, style.Look]) -> None:
    different = set(looks.values())
    assert len({one.marker for one in different}) == len(different)
    assert len({one.words for one in different}) == len(different)


def test_paths_differ() -> None:
    assert len({style.path(number) for number in range(20)}) == 20
    assert len({style.path(number)[1] for number in range(4)}) == 4


def test_a_theme_ends_with_the_picture() -> None:
    before = dict(matplotlib.rcParams)
    with style.themed():
        assert matplotlib.rcParams["font.family"] == ["DejaVu Sans"]
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("home", ["home", "file"])
def test_a_user_without_a_home_gets_a_picture_and_no_complaint(tmp_path: Path, home: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "home").mkdir()
    program = (
        "import os\n"
        "from counteroof.plot import style\n"
        "with style.themed():\n"
        "    import matplotlib\n"
        "print(matplotlib.get_configdir())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ".", "PATH": "/usr/bin", "HOME": str(tmp_path / home), "TMPDIR": str(tmp_path)},
    )
    assert done.stderr == ""
    own = str(tmp_path / "home" / ".config" / "matplotlib")
    assert (done.stdout.strip() == own) == (home == "home")
    # nothing is left of what was made for this process alone
    assert not list(tmp_path.glob("counteroof-matplotlib-*"))
