"""The C library: sorting with a callback, numbers from and to text, regular expressions."""

from __future__ import annotations

import ctypes
import struct

import numpy as np

from .work import ADDRESS, DOUBLE, INT, LONG, Hook, work


@work("C library", "qsort with strcmp")
def sorting(hook: Hook) -> bytes:
    words = np.random.default_rng(1).integers(97, 123, (2000, 16)).astype(np.uint8)
    words[:, 15] = 0
    lib = ctypes.CDLL(None)
    compare = ctypes.cast(lib.strcmp, ADDRESS).value
    hook(lib, "qsort", None, ADDRESS, LONG, LONG, ADDRESS)(words.ctypes.data, 2000, 16, compare)
    in_order = [bytes(word) for word in words]
    assert in_order == sorted(in_order)
    return words.tobytes()


@work("C library", "strtod, regcomp, regexec, snprintf")
def text(hook: Hook) -> bytes:
    lib = ctypes.CDLL(None)
    results = b""
    read = hook(lib, "strtod", DOUBLE, ctypes.c_char_p, ADDRESS)
    values = [
        read(t, None) for t in (b"3.14159265358979", b"-1e-310", b"0x1.8p3", b"1e400", b"inf", b"12abc")
    ]
    results += struct.pack("<6d", *values)
    expression = ctypes.create_string_buffer(256)
    compile_ = hook(lib, "regcomp", INT, ADDRESS, ctypes.c_char_p, INT)
    assert compile_(expression, rb"^([a-z]+)-([0-9]{2,4})(x|yy)*$", 1) == 0
    match, spans = hook(lib, "regexec", INT, ADDRESS, ctypes.c_char_p, LONG, ADDRESS, INT), (INT * 8)()
    for subject in (b"abc-123xyyx", b"abc-1", b"-22", b"q-9999"):
        results += match(expression, subject, 4, spans, 0).to_bytes(4, "little") + bytes(spans)
    hook(lib, "regfree", None, ADDRESS)(expression)
    out = ctypes.create_string_buffer(300)
    write = hook(lib, "snprintf", INT, ADDRESS, LONG, ctypes.c_char_p, DOUBLE, DOUBLE, LONG, ctypes.c_char_p)
    length = write(out, 300, b"%.17g|%a|%#lx|%-20s|", 0.1, 1e-300, -1, b"text")
    assert length == len(out.value)
    assert out.value.startswith(b"0.10000000000000001|0x1.")
    return results + out.value
