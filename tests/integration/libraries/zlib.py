"""zlib: compression at three levels, decompression, checksums."""

from __future__ import annotations

import ctypes

import numpy as np

from .work import ADDRESS, INT, Hook, load, work

LENGTH = ctypes.c_ulong


def zlib() -> ctypes.CDLL:
    return load("zlib1g", "libz.so.1")


def text() -> bytes:
    """Return bytes that compress somewhat: words in random order."""
    random = np.random.default_rng(0)
    words = [bytes(random.integers(97, 123, size)) for size in random.integers(2, 9, 300)]
    return b" ".join(words[i] for i in random.integers(0, 300, 3_000))


@work("zlib", "compress2, uncompress, crc32, adler32")
def round_trip(hook: Hook) -> bytes:
    source = text()
    compress = hook(zlib(), "compress2", INT, ADDRESS, ADDRESS, ctypes.c_char_p, LENGTH, INT)
    expand = hook(zlib(), "uncompress", INT, ADDRESS, ADDRESS, ADDRESS, LENGTH)
    results = b""
    for level in (1, 6, 9):
        packed, size = ctypes.create_string_buffer(2 * len(source)), LENGTH(2 * len(source))
        assert compress(packed, ctypes.byref(size), source, len(source), level) == 0
        again, length = ctypes.create_string_buffer(len(source)), LENGTH(len(source))
        assert expand(again, ctypes.byref(length), packed, size.value) == 0
        assert again.raw == source
        results += packed.raw[: size.value]
    for sum_up in ("crc32", "adler32"):
        add = hook(zlib(), sum_up, LENGTH, LENGTH, ctypes.c_char_p, ctypes.c_uint)
        results += add(0, source, len(source)).to_bytes(8, "little")
    return results
