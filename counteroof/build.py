"""C and C++ sources to a shared library, kept in a cache keyed by everything that went into it.

A build is found again when the contents of the sources and of every header they included, the compiler, its
version and the flags are the same (and the processor, where a flag says ``native``). A header that is newly
added in front of one that was used is not noticed; that is the limit of every such cache.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import BuildError
from .files import cache_directory

if TYPE_CHECKING:
    from .spec import LibrarySpec

DEFAULT_CFLAGS = ("-O3", "-march=native", "-g")
TIME_LIMIT = 600
"""Seconds one compiler call may take."""

C_SUFFIXES = (".c", ".s", ".S")
CXX_SUFFIXES = (".cc", ".cpp", ".cxx", ".C", ".c++")

_COMPILERS = {"c": ("CC", ("cc", "gcc", "clang")), "c++": ("CXX", ("c++", "g++", "clang++"))}
_PACKAGES = {"c": ("gcc", "gcc"), "c++": ("g++", "gcc-c++")}
# Variables that change what the compiler or linker finds.
_ENVIRONMENT = (
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "LIBRARY_PATH",
    "GCC_EXEC_PREFIX",
    "COMPILER_PATH",
)
_ERROR_LINES = 12
_VARIANTS = 32  # builds remembered per set of sources and flags


@dataclass(frozen=True)
class KernelBuild:
    """A shared library and how it was made.

    ``flags`` are all flags given to the compiler; ``key`` names the build in the cache; ``cached`` says that
    it was found there.
    """

    path: str
    compiler: str
    version: str
    flags: tuple[str, ...]
    key: str
    cached: bool


def cache_folder() -> Path:
    """Return the folder of builds, ``$XDG_CACHE_HOME/counteroof/builds`` (made when first needed)."""
    return cache_directory() / "builds"


def find_compiler(language: str = "c") -> tuple[str, ...] | None:
    """Return the command of a compiler for ``c`` or ``c++``, or ``None`` if there is none.

    ``$CC`` and ``$CXX`` go first, and may hold flags of their own (``gcc -m64``, ``ccache gcc``).
    """
    variable, names = _COMPILERS[language]
    chosen = shlex.split(os.environ.get(variable, ""))
    if chosen:
        path = shutil.which(chosen[0])
        return (path, *chosen[1:]) if path else None
    return next(((path,) for path in map(shutil.which, names) if path), None)


def require_compiler(language: str = "c") -> tuple[str, ...]:
    """Return the command of a compiler, or raise :class:`BuildError` saying what to install."""
    found = find_compiler(language)
    if found is not None:
        return found
    variable, names = _COMPILERS[language]
    debian, fedora = _PACKAGES[language]
    chosen = os.environ.get(variable)
    what = (
        f"${variable} is {chosen!r}, which is not there" if chosen else f"none of {', '.join(names)} is there"
    )
    title = "C" if language == "c" else "C++"
    raise BuildError(
        f"no {title} compiler: {what}; install one with: apt-get install {debian} (Debian, Ubuntu), "
        f"dnf install {fedora} (Fedora), or set ${variable}"
    )


@functools.lru_cache
def compiler_version(command: tuple[str, ...]) -> str:
    """Return the first line of the compiler's ``--version``."""
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(f"{shlex.join(command)} --version failed ({error}); is it a compiler?") from None
    return (done.stdout.splitlines() or ["unknown"])[0].strip()


def compile_sources(library: LibrarySpec) -> KernelBuild:
    """Compile the sources of a library, or find the same build in the cache.

    The compiler runs in the folder of the first source, so relative ``-I`` flags are relative to it.

    Raises
    ------
    BuildError
        If a source is missing, there is no compiler, or it refuses the sources; with its first lines.
    """
    sources = [Path(source).absolute() for source in library.sources]
    if not sources:
        raise BuildError("no sources to compile; give sources = [...] or path = ... in [library]")
    languages = [_language(source) for source in sources]
    compilers = {language: require_compiler(language) for language in dict.fromkeys(languages)}
    linker = compilers.get("c++") or compilers["c"]
    version = compiler_version(linker)
    flags = tuple(library.cflags) or DEFAULT_CFLAGS
    ldflags = tuple(library.ldflags)
    base = _hash(
        [
            [(str(source), _digest(source)) for source in sources],
            [(command, compiler_version(command)) for command in compilers.values()],
            [flags, ldflags],
            _surroundings([*linker, *flags]),
        ]
    )
    folder = cache_folder()
    manifest = folder / f"{base}.json"
    found = _cached(folder, manifest)
    if found is None:
        commands = [(*compilers[language], "-fPIC", *flags) for language in languages]
        # Flags such as -fopenmp matter to both steps. -lm is linked only if it is used.
        link = (*linker, "-shared", *flags)
        key, path, headers = _build(
            folder, base, sources, commands, link, (*ldflags, "-Wl,--as-needed", "-lm")
        )
        _remember(manifest, {"key": key, "library": f"{key}/{path.name}", "headers": headers})
    else:
        key, path = found
    return KernelBuild(str(path), shlex.join(linker), version, (*flags, *ldflags), key, found is not None)


def _language(source: Path) -> str:
    if source.suffix not in C_SUFFIXES + CXX_SUFFIXES:
        raise BuildError(
            f"{source}: not a source counteroof can compile; expected {' '.join(C_SUFFIXES + CXX_SUFFIXES)} "
            "(build other languages yourself and give the shared library)"
        )
    if not source.exists():
        raise BuildError(f"{source}: no such source file")
    return "c++" if source.suffix in CXX_SUFFIXES else "c"


def _surroundings(command: Sequence[str]) -> list[str]:
    """What else decides the result: search paths, and the processor if a flag asks for the native one."""
    facts = [f"{name}={os.environ[name]}" for name in _ENVIRONMENT if name in os.environ]
    if any("native" in word for word in command):
        facts += _processor()
    return facts


@functools.lru_cache
def _processor() -> tuple[str, ...]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ()
    wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    first = text.split("\n\n")[0].splitlines()
    return tuple(line for line in first if line.startswith(wanted))


def _cached(folder: Path, manifest: Path) -> tuple[str, Path] | None:
    """Return key and path of a build whose headers have not changed since."""
    try:
        variants = json.loads(manifest.read_text())
        for variant in variants:
            path = folder / variant["library"]
            if path.exists() and all(
                _digest_or_none(Path(name)) == digest for name, digest in variant["headers"]
            ):
                return variant["key"], path
    except (OSError, ValueError, KeyError, TypeError):
        return None  # no manifest yet, or a damaged one, which the next build replaces
    return None


def _build(
    folder: Path,
    base: str,
    sources: Sequence[Path],
    commands: Sequence[Sequence[str]],
    link: Sequence[str],
    libraries: Sequence[str],
) -> tuple[str, Path, list[tuple[str, str]]]:
    """Compile and link in a temporary folder, then move the library into place in one step."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".building-", dir=folder))
    except OSError as error:
        raise BuildError(
            f"the build cache {folder} cannot be written ({error.strerror}); set XDG_CACHE_HOME"
        ) from None
    try:
        work = sources[0].parent
        headers: dict[str, str] = {}
        objects = [str(scratch / f"{number}.o") for number in range(len(sources))]
        depends = scratch / "depends"
        for source, command, out in zip(sources, commands, objects, strict=True):
            compile_one = [*command, "-c", str(source), "-o", out, "-MD", "-MF", str(depends)]
            _run(compile_one, work, f"{source.name} does not compile")
            headers |= _headers(depends, source, work)
            depends.unlink(missing_ok=True)
        name = f"lib{sources[0].stem}.so"
        _run([*link, "-o", str(scratch / name), *objects, *libraries], work, f"{name} does not link")
        key = _hash([base, sorted(headers.items())])[:16]
        (folder / key).mkdir(exist_ok=True)
        (scratch / name).replace(folder / key / name)
        return key, folder / key / name, sorted(headers.items())
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _remember(manifest: Path, build: dict[str, object]) -> None:
    try:
        variants = [variant for variant in json.loads(manifest.read_text()) if variant["key"] != build["key"]]
    except (OSError, ValueError, KeyError, TypeError):
        variants = []
    file, name = tempfile.mkstemp(dir=manifest.parent, prefix=".manifest-")
    with os.fdopen(file, "w") as out:
        json.dump([build, *variants][:_VARIANTS], out)
    Path(name).replace(manifest)


def _run(command: Sequence[str], folder: Path, failure: str) -> None:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, errors="replace",
            timeout=TIME_LIMIT, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BuildError(f"{failure}: {command[0]} took longer than {TIME_LIMIT} s") from None
    except OSError as error:
        raise BuildError(f"{failure}: {command[0]} cannot be started ({error.strerror})") from None
    if done.returncode:
        shown = re.sub(r"\S*/\.building-\w+/", "", shlex.join(command))  # the folder is gone by now
        raise BuildError(f"{failure}:\n{first_errors(done.stderr)}\n(command: {shown})")


def first_errors(output: str) -> str:
    """Return the first lines of a compiler's messages, from the first error on, and how many are left out."""
    lines = output.strip().splitlines() or ["(the compiler said nothing)"]
    start = next(
        (i for i, line in enumerate(lines) if re.search(r"\berror\b|undefined reference|cannot find", line)),
        0,
    )
    shown = lines[start : start + _ERROR_LINES]
    left = len(lines) - start - len(shown)
    return "\n".join(f"  {line}" for line in shown) + (f"\n  ... {left} more lines" if left else "")


def _headers(depends: Path, source: Path, folder: Path) -> dict[str, str]:
    """Return hashes of the files a source included, from the rule the compiler wrote (make syntax)."""
    if not depends.exists():  # plain assembly is not preprocessed
        return {}
    rule = depends.read_text(errors="surrogateescape").replace("\\\n", " ")
    names = re.findall(r"(?:\\.|[^\s\\])+", rule.partition(": ")[2])
    files = {folder / re.sub(r"\\(.)", r"\1", name).replace("$$", "$") for name in names}
    return {str(file): _digest(file) for file in files - {source}}


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise BuildError(f"{path}: cannot be read ({error.strerror})") from None


def _digest_or_none(path: Path) -> str | None:
    try:
        return _digest(path)
    except BuildError:
        return None


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]
