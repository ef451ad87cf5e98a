"""C sources to a library: flags, the cache, and what is said when it cannot be built."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from counteroof import build
from counteroof.build import KernelBuild, compile_sources, find_compiler, first_errors
from counteroof.errors import BuildError
from counteroof.library import open_library
from counteroof.spec import LibrarySpec

from .compiled import needs


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    return tmp_path / "cache" / "counteroof" / "builds"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "scale.h").write_text("#define FACTOR 2.0\n")
    (tmp_path / "scale.c").write_text(
        '#include "scale.h"\n#include <math.h>\n'
        "void scale(double *a, long n) { for (long i = 0; i < n; i++) a[i] = FACTOR * exp(a[i]); }\n"
    )
    return tmp_path / "scale.c"


def made(*sources: Path, cflags: tuple[str, ...] = (), ldflags: tuple[str, ...] = ()) -> KernelBuild:
    return compile_sources(LibrarySpec(sources=tuple(map(str, sources)), cflags=cflags, ldflags=ldflags))


@needs("gcc")
class TestBuild:
    def test_default_flags_optimise_for_this_machine_and_keep_debug_information(
        self, source: Path, cache: Path
    ) -> None:
        built = made(source)
        assert built.flags == ("-O3", "-march=native", "-g")
        assert Path(built.path).parent.parent == cache
        assert str(open_library(built.path).signature("scale")) == "void scale(double *a, long int n)"
        assert built.version
        assert not built.cached

    def test_own_flags_replace_the_defaults(self, source: Path) -> None:
        built = made(source, cflags=("-O1",), ldflags=("-Wl,-z,now",))
        assert built.flags == ("-O1", "-Wl,-z,now")
        assert not open_library(built.path).debug_info

    def test_math_library_is_linked_where_it_is_used(self, source: Path) -> None:
        assert any(name.startswith(("libm.", "libc.so")) for name in open_library(made(source).path).needed)

    def test_relative_include_folders_are_relative_to_the_first_source(self, source: Path) -> None:
        (source.parent / "inc").mkdir()
        (source.parent / "scale.h").rename(source.parent / "inc" / "scale.h")
        assert made(source, cflags=("-Iinc",)).path

    def test_several_sources_make_one_library(self, source: Path, tmp_path: Path) -> None:
        (tmp_path / "more").mkdir()
        (tmp_path / "more" / "scale.c").write_text("int more(int x) { return x; }")
        assert open_library(made(source, tmp_path / "more" / "scale.c").path).functions == ("more", "scale")

    @needs("g++")
    def test_c_and_cpp_sources_keep_their_languages(self, source: Path, tmp_path: Path) -> None:
        (tmp_path / "extra.cpp").write_text("void extra(double &x) { x = 0; }")
        assert open_library(made(source, tmp_path / "extra.cpp").path).functions == ("_Z5extraRd", "scale")

    def test_names_with_spaces_and_signs(self, source: Path, tmp_path: Path) -> None:
        folder = tmp_path / "a b$c#d"
        folder.mkdir()
        (folder / "my head.h").write_text("#define FACTOR 3.0\n")
        (folder / "my code.c").write_text('#include "my head.h"\ndouble f(void) { return FACTOR; }')
        first = made(folder / "my code.c")
        assert made(folder / "my code.c").cached
        (folder / "my head.h").write_text("#define FACTOR 4.0\n")
        assert made(folder / "my code.c").key != first.key


@needs("gcc")
class TestCache:
    def test_same_sources_and_flags_are_found_again(self, source: Path) -> None:
        first, second = made(source), made(source)
        assert (first.cached, second.cached) == (False, True)
        assert (first.path, first.key) == (second.path, second.key)

    def test_touched_but_unchanged_source_is_found_again(self, source: Path) -> None:
        made(source)
        source.write_text(source.read_text())
        assert made(source).cached

    @pytest.mark.parametrize("change", ["source", "header", "cflags", "ldflags", "environment"])
    def test_change_makes_a_new_build(
        self, source: Path, monkeypatch: pytest.MonkeyPatch, change: str
    ) -> None:
        first = made(source)
        cflags: tuple[str, ...] = ()
        ldflags: tuple[str, ...] = ()
        if change == "source":
            source.write_text(source.read_text() + "// more\n")
        elif change == "header":
            (source.parent / "scale.h").write_text("#define FACTOR 5.0\n")
        elif change == "cflags":
            cflags = ("-O2",)
        elif change == "ldflags":
            ldflags = ("-Wl,-z,now",)
        else:
            monkeypatch.setenv("CPATH", "/nonexistent")
        second = made(source, cflags=cflags, ldflags=ldflags)
        assert not second.cached
        assert second.key != first.key

    def test_header_changed_back_finds_the_first_build_again(self, source: Path) -> None:
        header = source.parent / "scale.h"
        first, text = made(source), header.read_text()
        header.write_text("#define FACTOR 5.0\n")
        made(source)
        header.write_text(text)
        again = made(source)
        assert again.cached
        assert again.key == first.key

    def test_other_processor_does_not_get_a_native_build(
        self, source: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made(source)
        made(source, cflags=("-O2",))
        monkeypatch.setattr(build, "_processor", lambda: ("model name: another",))
        assert not made(source).cached
        assert made(source, cflags=("-O2",)).cached

    def test_damaged_manifest_or_lost_library_only_costs_a_build(self, source: Path, cache: Path) -> None:
        built = made(source)
        (manifest,) = cache.glob("*.json")
        manifest.write_text("[{]")
        assert not made(source).cached
        manifest.write_text(json.dumps([{"key": 1}]))
        assert not made(source).cached
        Path(built.path).unlink()
        assert not made(source).cached
        assert Path(built.path).exists()

    def test_builds_at_the_same_time_end_in_one(self, source: Path, cache: Path) -> None:
        found: list[KernelBuild] = []
        threads = [threading.Thread(target=lambda: found.append(made(source))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({built.path for built in found}) == 1
        assert open_library(found[0].path).functions == ("scale",)
        assert not list(cache.glob(".*"))

    def test_failed_build_leaves_nothing_behind(self, source: Path, cache: Path) -> None:
        source.write_text("int f(")
        with pytest.raises(BuildError):
            made(source)
        assert list(cache.iterdir()) == []


class TestRefusals:
    @needs("gcc")
    def test_compiler_error_shows_its_first_lines(self, source: Path) -> None:
        source.write_text(
            "int f(void) { return x; }\n" + "\n".join(f"int g{i}(void) {{ return y{i}; }}" for i in range(30))
        )
        with pytest.raises(BuildError) as caught:
            made(source)
        text = str(caught.value)
        assert text.startswith("scale.c does not compile:\n")
        assert "scale.c:1:22: error: 'x' undeclared" in text
        assert "more lines" in text
        assert len(text.splitlines()) < 18
        assert "-c" in text.splitlines()[-1]
        assert ".building-" not in text  # so that it is the same for all kernels of the library

    @needs("gcc")
    def test_linker_error_shows_what_is_missing(self, source: Path) -> None:
        with pytest.raises(BuildError, match=r"(?s)libscale.so does not link.*counteroof_nothing"):
            made(source, ldflags=("-lcounteroof_nothing",))

    @needs("gcc")
    def test_missing_header(self, source: Path) -> None:
        (source.parent / "scale.h").unlink()
        with pytest.raises(BuildError, match=r"(?s)does not compile.*scale.h: No such file"):
            made(source)

    def test_missing_source(self, tmp_path: Path) -> None:
        with pytest.raises(BuildError, match=r"none\.c: no such source file"):
            made(tmp_path / "none.c")

    def test_file_that_is_no_source(self, tmp_path: Path) -> None:
        (tmp_path / "a.f90").touch()
        with pytest.raises(BuildError, match="not a source counteroof can compile"):
            made(tmp_path / "a.f90")

    def test_no_sources_at_all(self) -> None:
        with pytest.raises(BuildError, match="no sources to compile"):
            made()

    def test_no_compiler_says_what_to_install(self, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "/nonexistent")
        with pytest.raises(
            BuildError, match=r"no C compiler: none of cc, gcc, clang is there; .*apt-get install gcc"
        ):
            made(source)

    def test_compiler_of_the_environment_that_is_not_there(
        self, source: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CC", "counteroof-no-such-cc -m64")
        with pytest.raises(BuildError, match=r"\$CC is 'counteroof-no-such-cc -m64', which is not there"):
            made(source)

    @needs("gcc")
    def test_cache_that_cannot_be_written(
        self, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        with pytest.raises(BuildError, match=r"cannot be written .*; set XDG_CACHE_HOME"):
            made(source)


@needs("gcc")
def test_compiler_of_the_environment_goes_first_with_its_flags(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "gcc -DMARK=1")
    command = find_compiler("c")
    assert command is not None
    assert command[1:] == ("-DMARK=1",)
    source.write_text("#if MARK != 1\n#error no mark\n#endif\nint marked(void) { return 1; }")
    assert made(source).compiler.endswith("gcc -DMARK=1")


def test_messages_start_at_the_first_error() -> None:
    output = "a.c:1: note: hm\na.c:2: warning: x\na.c:3: error: y\n" + "\n".join(
        f"line {i}" for i in range(20)
    )
    shown = first_errors(output).splitlines()
    assert shown[0] == "  a.c:3: error: y"
    assert shown[-1] == "  ... 9 more lines"
    assert first_errors("") == "  (the compiler said nothing)"
