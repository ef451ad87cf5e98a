"""FFTW: plans made natively or under the engine, and executed."""

from __future__ import annotations

import ctypes

import numpy as np

from .work import ADDRESS, INT, Hook, load, work

FORWARD, BACKWARD, ESTIMATE = -1, 1, 64


def fftw() -> ctypes.CDLL:
    return load("libfftw3-double3", "libfftw3.so.3")


def noise(*shape: int) -> np.ndarray:
    random = np.random.default_rng(0)
    return random.random(shape) + 1j * random.random(shape)


def execute(hook: Hook, plan: int) -> None:
    assert plan
    hook(fftw(), "fftw_execute", None, ADDRESS)(plan)


@work("FFTW", "fftw_execute, complex, 1-D")
def one_dimension(hook: Hook) -> bytes:
    results = []
    for n in (1 << 14, 3 * 5 * 7 * 11 * 13, 10007):  # a power of two, mixed radices, a prime
        x, y = noise(n), np.zeros(n, complex)
        make = Hook()(fftw(), "fftw_plan_dft_1d", ADDRESS, INT, ADDRESS, ADDRESS, INT, INT)
        execute(hook, make(n, x.ctypes.data, y.ctypes.data, FORWARD, ESTIMATE))
        assert np.allclose(y, np.fft.fft(x))
        results.append(y.tobytes())
    return b"".join(results)


@work("FFTW", "fftw_execute, complex, 2-D, in place")
def two_dimensions(hook: Hook) -> bytes:
    x = noise(96, 128)
    before = x.copy()
    make = Hook()(fftw(), "fftw_plan_dft_2d", ADDRESS, INT, INT, ADDRESS, ADDRESS, INT, INT)
    execute(hook, make(96, 128, x.ctypes.data, x.ctypes.data, BACKWARD, ESTIMATE))
    assert np.allclose(x, np.fft.ifft2(before) * x.size)
    return x.tobytes()


@work("FFTW", "fftw_execute, real to complex and back")
def real(hook: Hook) -> bytes:
    n = 6000
    x, y, z = noise(n).real.copy(), np.zeros(n // 2 + 1, complex), np.zeros(n)
    there = Hook()(fftw(), "fftw_plan_dft_r2c_1d", ADDRESS, INT, ADDRESS, ADDRESS, INT)
    back = Hook()(fftw(), "fftw_plan_dft_c2r_1d", ADDRESS, INT, ADDRESS, ADDRESS, INT)
    plans = there(n, x.ctypes.data, y.ctypes.data, ESTIMATE), back(n, y.ctypes.data, z.ctypes.data, ESTIMATE)
    execute(hook, plans[0])
    spectrum = y.tobytes()
    execute(hook, plans[1])
    assert np.allclose(z / n, x)
    return spectrum + z.tobytes()


@work("FFTW", "fftw_plan_dft_3d, fftw_execute_dft, fftw_destroy_plan")
def planning(hook: Hook) -> bytes:
    x, y = noise(12, 20, 18), np.zeros((12, 20, 18), complex)
    make = hook(fftw(), "fftw_plan_dft_3d", ADDRESS, INT, INT, INT, ADDRESS, ADDRESS, INT, INT)
    plan = make(12, 20, 18, x.ctypes.data, y.ctypes.data, FORWARD, ESTIMATE)
    hook(fftw(), "fftw_execute_dft", None, ADDRESS, ADDRESS, ADDRESS)(plan, x.ctypes.data, y.ctypes.data)
    hook(fftw(), "fftw_destroy_plan", None, ADDRESS)(plan)
    assert np.allclose(y, np.fft.fftn(x))
    return y.tobytes()
