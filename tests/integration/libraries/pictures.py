"""libpng and libjpeg-turbo: a picture written to memory and read back."""

from __future__ import annotations

import ctypes

import numpy as np

from .work import ADDRESS, INT, LONG, Hook, load, work

WIDTH, HEIGHT = 120, 90


def picture() -> np.ndarray:
    """Return smooth colours with some noise in them."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    noise = np.random.default_rng(0).integers(0, 12, (HEIGHT, WIDTH))
    return np.stack((2 * x, 2 * y, x + y + noise), -1).astype(np.uint8)


class PngImage(ctypes.Structure):
    """png_image of libpng's simplified interface."""

    _fields_ = (
        ("opaque", ADDRESS),
        ("version", ctypes.c_uint32),
        ("width", ctypes.c_uint32),
        ("height", ctypes.c_uint32),
        ("format", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("colormap_entries", ctypes.c_uint32),
        ("warning_or_error", ctypes.c_uint32),
        ("message", ctypes.c_char * 64),
    )


@work("libpng", "png_image_write_to_memory, begin_read_from_memory, finish_read")
def png(hook: Hook) -> bytes:
    lib = load("libpng16-16", "libpng16.so.16")
    pixels = picture()
    image = PngImage(version=1, width=WIDTH, height=HEIGHT, format=2)  # PNG_FORMAT_RGB
    file, size = ctypes.create_string_buffer(1 << 17), ctypes.c_size_t(1 << 17)
    write = hook(lib, "png_image_write_to_memory", INT, ADDRESS, ADDRESS, ADDRESS, INT, ADDRESS, INT, ADDRESS)
    assert write(ctypes.byref(image), file, ctypes.byref(size), 0, pixels.ctypes.data, 0, None), image.message
    again, back = PngImage(version=1), np.zeros_like(pixels)
    begin = hook(lib, "png_image_begin_read_from_memory", INT, ADDRESS, ADDRESS, LONG)
    assert begin(ctypes.byref(again), file, size.value), again.message
    again.format = 2
    finish = hook(lib, "png_image_finish_read", INT, ADDRESS, ADDRESS, ADDRESS, INT, ADDRESS)
    assert finish(ctypes.byref(again), None, back.ctypes.data, 0, None), again.message
    assert (back == pixels).all()
    return file.raw[: size.value]


@work("libpng", "png_image_begin_read_from_memory of a broken file: longjmp")
def broken_png(hook: Hook) -> bytes:
    lib = load("libpng16-16", "libpng16.so.16")
    begin = hook(lib, "png_image_begin_read_from_memory", INT, ADDRESS, ADDRESS, LONG)
    results = b""
    for file in (b"not a picture at all", bytes.fromhex("89504e470d0a1a0a0000000d49484452") + bytes(17)):
        image = PngImage(version=1)
        assert begin(ctypes.byref(image), file, len(file)) == 0
        results += image.message + b"\n"
    return results


@work("libjpeg-turbo", "tjCompress2, tjDecompressHeader3, tjDecompress2")
def jpeg(hook: Hook) -> bytes:
    lib = load("libturbojpeg0", "libturbojpeg.so.0")
    pixels, back = picture(), np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    file, size = ADDRESS(), ctypes.c_ulong()
    packer = hook(lib, "tjInitCompress", ADDRESS)()
    pack = hook(lib, "tjCompress2", INT, ADDRESS, ADDRESS, *[INT] * 4, ADDRESS, ADDRESS, INT, INT, INT)
    results = b""
    for sampling in (0, 2):  # 4:4:4, 4:2:0
        status = pack(
            packer,
            pixels.ctypes.data,
            WIDTH,
            0,
            HEIGHT,
            0,
            ctypes.byref(file),
            ctypes.byref(size),
            sampling,
            85,
            0,
        )
        assert status == 0
        results += ctypes.string_at(file.value or 0, size.value)
    unpacker = hook(lib, "tjInitDecompress", ADDRESS)()
    numbers = [INT() for _ in range(4)]
    header = hook(lib, "tjDecompressHeader3", INT, ADDRESS, ADDRESS, LONG, *[ADDRESS] * 4)
    assert header(unpacker, file, size.value, *map(ctypes.byref, numbers)) == 0
    assert [number.value for number in numbers[:2]] == [WIDTH, HEIGHT]
    unpack = hook(lib, "tjDecompress2", INT, ADDRESS, ADDRESS, LONG, ADDRESS, *[INT] * 5)
    assert unpack(unpacker, file, size.value, back.ctypes.data, WIDTH, 0, HEIGHT, 0, 0) == 0
    assert abs(back.astype(int) - pixels).mean() < 8
    hook(lib, "tjFree", None, ADDRESS)(file)
    for handle in (packer, unpacker):
        assert hook(lib, "tjDestroy", INT, ADDRESS)(handle) == 0
    return results + back.tobytes()
