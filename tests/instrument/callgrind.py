"""The independent oracle of executed counts: valgrind's callgrind runs the same calls, and the count of every
instruction must be equal.

Both sides prepare a call through ``callgrind_driver.c`` from the same job file, so arrays have the same
contents and lie at the same distance from a 2 MiB boundary. Counts are compared file by file, at addresses as
in the file. Three things differ by design:

- The C library chooses implementations by CPUID, where valgrind hides AVX-512, and its allocator runs
  natively under the engine. It is not compared, nor is what one side alone runs (:data:`NOT_COMPARED`).
- Callgrind counts a repeated string instruction once per iteration, and once more for the look at the count
  that ends it, unless a comparison ended it before. The engine counts it each time it is reached. So here
  callgrind may have counted more; the instructions around it tell how often it was reached.
- Valgrind finds no file for the code of a linkage table and names it ``???``, at its address in memory. The
  process's map of memory tells the file.
"""

from __future__ import annotations

import ctypes
import re
import struct
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from counteroof.instrument.engine import Engine
from counteroof.native import ffi
from counteroof.run.prepare import prepare
from counteroof.spec import KernelCase

HERE = Path(__file__).resolve().parent
CSRC = HERE.parents[1] / "csrc"

NOT_COMPARED = ("libc.so", "libc-2", "ld-linux", "ld-2", "vgpreload", "driver", "[vdso]")
"""How the names of files begin that are left out."""

CODE = (
    "maths",
    "long_maths",
    "recursion",
    "indirect_calls",
    "jump_table",
    "sort_with_callback",
    "long_jumps",
    "count_loop",
    "repeated_strings",
    "counted_loops",
)
ZLIB = (
    "zlib_compress_fast",
    "zlib_compress",
    "zlib_compress_best",
    "zlib_store",
    "zlib_uncompress",
    "zlib_crc32",
    "zlib_adler32",
)
FFTW = (
    "fftw_1d_power",
    "fftw_1d_odd",
    "fftw_1d_prime",
    "fftw_in_place",
    "fftw_real",
    "fftw_cosine",
    "fftw_2d",
    "fftw_planner",
)
"""Functions of ``callgrind_code.c``, or what comes before ``_setup``."""

Counts = dict[str, dict[int, int]]
"""For each file (its real path), how often the instruction at an address of the file was executed."""


# ---- callgrind's output ----


def parse(text: str) -> Counts:
    """Return the counts of a dump that was made with ``--dump-instr=yes``; the first event must be ``Ir``.

    The format is that of valgrind's manual, "Callgrind Format Specification": names and positions may be
    compressed, trailing zero costs are left out, and the line after ``calls=`` holds what the called function
    cost, which is counted where it arose.
    """
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    names: dict[str, str] = {}
    positions, file = 0, ""
    last: list[int] = []
    inclusive = False
    for line in text.splitlines():
        if not line or line[0] == "#":
            continue
        key, equals, value = line.partition("=")
        if equals and key.isalpha():
            if key in ("ob", "cob"):
                name = _name(value, names)
                file = name if key == "ob" else file
            elif key == "calls":
                inclusive = True
            elif key in ("jump", "jcnd"):
                raise ValueError("jumps are not understood; leave out --collect-jumps")
            continue
        if line[0].isalpha():
            header, _, value = line.partition(":")
            if header == "positions":
                if value.split()[0] != "instr":
                    raise ValueError(f"no instruction addresses in this dump, positions are{value}")
                positions = len(value.split())
                last = [0] * positions
            elif header == "events" and value.split()[0] != "Ir":
                raise ValueError(f"the first event must be Ir, these are{value}")
            continue
        fields = line.split()
        last = [_position(word, before) for word, before in zip(fields, last, strict=False)]
        if not inclusive and len(fields) > positions and (executed := int(fields[positions])):
            counts[file][last[0]] += executed
        inclusive = False
    return {file: dict(found) for file, found in counts.items()}


def _name(value: str, names: dict[str, str]) -> str:
    """Return the name that ``(number) name``, ``(number)`` or ``name`` stands for."""
    found = re.match(r"(\(\d+\))\s*(.*)", value)
    if not found:
        return value
    number, name = found.groups()
    return names.setdefault(number, name)


def _position(word: str, before: int) -> int:
    if word == "*":
        return before
    if word[0] in "+-":
        return before + int(word, 0)
    return int(word, 0)


class MappedFiles:
    """Which file an address in memory belongs to, from ``/proc/self/maps``."""

    def __init__(self, maps: str) -> None:
        self._found: list[tuple[int, int, str]] = []
        self._bases: dict[str, int] = {}
        for line in maps.splitlines():
            places, _, offset, _, _, *path = line.split(maxsplit=5)
            start, end = (int(word, 16) for word in places.split("-"))
            file = path[0] if path else ""
            self._found.append((start, end, file))
            if int(offset, 16) == 0:
                self._bases.setdefault(file, start)

    def at(self, address: int) -> tuple[str, int]:
        """Return the file, and the address in it."""
        for start, end, file in self._found:
            if start <= address < end:
                return file, address - self._bases.get(file, 0)
        raise ValueError(f"{address:#x} belongs to no file")

    def sort(self, counts: Mapping[int, int]) -> Counts:
        """Return the counts at addresses in memory by file."""
        sorted_out: dict[str, Counter[int]] = defaultdict(Counter)
        for address, times in counts.items():
            file, place = self.at(address)
            sorted_out[file][place] += times
        return {file: dict(found) for file, found in sorted_out.items()}


# ---- jobs ----


@dataclass
class Job:
    """One call, for both sides: a function of a library, its arguments and arrays."""

    label: str
    library: Path
    symbol: str
    setup: str = ""
    """A function without arguments to call before; it is not counted."""
    frame: Any = field(default_factory=lambda: ffi.new("struct run_frame *"))
    arrays: tuple[tuple[int, bytes], ...] = ()

    def write(self, path: Path) -> None:
        """Write the file that ``callgrind_driver.c`` reads."""
        names = (str(self.library).encode(), self.setup.encode(), self.symbol.encode())
        header = struct.pack("<1024s128s128sQ", *names, len(self.arrays))
        frame = bytes(ffi.buffer(self.frame, ffi.sizeof("struct run_frame")))
        places = [struct.pack("<QQ", start, len(content)) for start, content in self.arrays]
        path.write_bytes(b"".join([header, frame, *places, *(content for _, content in self.arrays)]))


def kernel_job(case: KernelCase) -> Job:
    """Return the job of a kernel as it stands after its set-up calls."""
    prepared = prepare(case)
    arrays = tuple((span.start, bytes(prepared.buffer(span.name))) for span in prepared.spans)
    prepared.free()
    label = f"{case.spec.name} {' '.join(f'{name}={value}' for name, value in case.params.items())}"
    return Job(label, Path(prepared.library_path), case.spec.symbol, frame=prepared.frame, arrays=arrays)


def code_jobs(folder: Path, names: Sequence[str], *flags: str) -> list[Job]:
    """Compile ``callgrind_code.c`` into a folder, and return jobs of functions in it."""
    library = folder / f"lib{names[0]}.so"
    command = ["cc", "-shared", "-fPIC", "-O2", "-g", "-w", "-o", str(library)]
    _run([*command, str(HERE / "callgrind_code.c"), *flags, "-lm"])
    return [_code_job(library, name) for name in names]


def _code_job(library: Path, name: str) -> Job:
    if name in ZLIB:
        return Job(name, library, name, "zlib_setup")
    if name in FFTW:
        return Job(name, library, name if name == "fftw_planner" else "fftw_run", f"{name}_setup")
    return Job(name, library, name)


# ---- the two sides ----


class Oracle:
    """Callgrind and the engine, each with its driver compiled into a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        source, call = str(HERE / "callgrind_driver.c"), str(CSRC / "run" / "call.c")
        command = ["cc", "-O2", "-g", f"-I{CSRC}", source, call]
        self._program, library = folder / "driver", folder / "libdriver.so"
        _run([*command, "-DCALLGRIND", "-o", str(self._program), "-ldl"])
        _run([*command, "-shared", "-fPIC", "-o", str(library), "-ldl"])
        self._library = ctypes.CDLL(str(library))

    def callgrind(self, jobs: Sequence[Job], *options: str) -> list[Counts]:
        """Return what callgrind counts in each job; one process runs them all."""
        for old in self.folder.glob("counts*"):
            old.unlink()
        command = [
            "valgrind",
            "-q",
            "--tool=callgrind",
            "--dump-instr=yes",
            "--collect-atstart=no",
            "--skip-plt=no",  # else the jumps of the linkage table are counted as their caller's
            f"--callgrind-out-file={self.folder / 'counts'}",
            *options,
            str(self._program),
            str(self.folder / "maps"),
        ]
        for number, job in enumerate(jobs):
            job.write(self.folder / f"job{number}")
            command.append(str(self.folder / f"job{number}"))
        _run(command)
        files = MappedFiles((self.folder / "maps").read_text())
        found = []
        for part in range(len(jobs)):
            counts = parse((self.folder / f"counts.{part + 1}").read_text())
            found.append(added(counts, files.sort(counts.pop("???", {}))))
        return found

    def engine(self, job: Job, detail: Any = "bytes") -> list[Counts]:
        """Return what the engine counts in a job: when it translates it, and when it does so once more."""
        found = []
        job.write(self.folder / "job")
        with Engine(detail) as engine:
            for _ in range(2):
                function, frame = self._prepared(job)
                engine.reset()
                engine.call(function, frame)
                executed: Counter[int] = Counter()
                for item in engine.executed():
                    executed[item.instruction.ip] += item.times
                found.append(MappedFiles(Path("/proc/self/maps").read_text()).sort(executed))
        return found

    def _prepared(self, job: Job) -> tuple[int, Any]:
        loaded = ffi.new("uint64_t[]", 1 + ffi.sizeof("struct run_frame") // 8)
        path = str(self.folder / "job").encode()
        if self._library.load_job(path, ctypes.c_void_p(int(ffi.cast("uintptr_t", loaded)))):
            raise RuntimeError(f"{job.label} cannot be prepared")
        frame = ffi.new("struct run_frame *")
        ffi.memmove(frame, loaded + 1, ffi.sizeof("struct run_frame"))
        return loaded[0], frame


def added(one: Counts, other: Counts) -> Counts:
    """Return the sums of two sets of counts."""
    files = {*one, *other}
    return {file: dict(Counter(one.get(file, {})) + Counter(other.get(file, {}))) for file in files}


# ---- comparison ----


@dataclass(frozen=True)
class Difference:
    """An instruction whose counts are not equal."""

    file: str
    address: int
    callgrind: int
    engine: int

    def __str__(self) -> str:
        where = f"{Path(self.file).name}+{self.address:#x}"
        return f"{where}: callgrind {self.callgrind}, engine {self.engine}"


def compared(file: str) -> bool:
    """Tell whether the counts of a file must be equal."""
    return not Path(file).name.startswith(NOT_COMPARED)


def differences(callgrind: Counts, engine: Counts) -> Iterator[Difference]:
    """Yield the instructions whose counts differ, file by file in the order of their addresses."""
    for file in sorted(filter(compared, {*callgrind, *engine})):
        theirs, ours = callgrind.get(file, {}), engine.get(file, {})
        for address in sorted({*theirs, *ours}):
            difference = Difference(file, address, theirs.get(address, 0), ours.get(address, 0))
            if difference.callgrind == difference.engine:
                continue
            more = difference.callgrind > difference.engine > 0
            if not (more and is_repeated(file, address)):
                yield difference


def instructions(counts: Counts) -> int:
    """Return how many instructions of compared files were executed."""
    return sum(sum(found.values()) for file, found in counts.items() if compared(file))


@cache
def is_repeated(file: str, address: int) -> bool:
    """Tell whether the instruction at an address of a file is a string instruction with a repeat prefix."""
    import iced_x86 as ix
    from elftools.elf.elffile import ELFFile

    with Path(file).open("rb") as stream:
        for segment in ELFFile(stream).iter_segments("PT_LOAD"):
            offset = address - segment["p_vaddr"]
            if 0 <= offset < segment["p_filesz"]:
                stream.seek(segment["p_offset"] + offset)
                code = ix.Decoder(64, stream.read(15), ip=address).decode()
                return code.is_string_instruction and (code.has_rep_prefix or code.has_repne_prefix)
    return False


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
