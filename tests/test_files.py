"""Files that are either as they were or wholly new."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from counteroof import files


def test_a_file_gets_its_content_its_folder_and_the_usual_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.txt"
    previous = os.umask(0o022)
    try:
        files.write_text(path, "µ\n")
    finally:
        os.umask(previous)
    assert path.read_bytes() == "µ\n".encode()
    assert path.stat().st_mode & 0o777 == 0o644
    assert [one.name for one in path.parent.iterdir()] == ["b.txt"]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_an_interrupted_write_leaves_the_old_content_and_no_scratch(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.json"
    path.write_text("old")

    def interrupted(_: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(type(error)):
        files.write_text(path, "new")
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["results.json"]


def test_moving_replaces_what_was_there(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    new.write_text("new")
    old.write_text("old")
    assert files.move(new, old) == old
    assert old.read_text() == "new"
    assert not new.exists()
