"""NumPy's own extension modules: its functions and inner loops, called from Python as ever."""

from __future__ import annotations

import ctypes

import numpy as np

from .work import ADDRESS, DOUBLE, Hook, work


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape)


@work("NumPy", "add, multiply, sqrt, exp, sin, log, maximum.reduce: inner loops of ufuncs")
def ufuncs(hook: Hook) -> bytes:
    x, y = numbers(4000), numbers(4000)[::-1]
    functions = (
        np.add,
        np.multiply,
        np.sqrt,
        np.exp,
        np.sin,
        np.log,
        np.arctan2,
        np.maximum,
        np.floor_divide,
    )
    with hook.python(*functions):
        results = [f(x, y) if f.nin == 2 else f(x) for f in functions]
        results.append(np.maximum.reduce(x.reshape(50, 80), axis=0))
        results.append(np.add(x.astype(np.float32)[::3], np.float32(1)))
        results.append(np.add(np.arange(100), 1j))
    return b"".join(result.tobytes() for result in results)


@work("NumPy", "ndarray.sort, argsort, partition, searchsorted, cumsum, take")
def sorting(hook: Hook) -> bytes:
    x = numbers(5000)
    methods = ("sort", "argsort", "partition", "searchsorted", "cumsum", "take", "astype")
    with hook.python(*(getattr(np.ndarray, name) for name in methods)):
        order = x.argsort(kind="stable")
        whole = (x * 1e6).astype(np.int32)
        whole.sort()
        words = x[:300].astype("U12")
        words.sort()
        y = x.copy()
        y.partition(2500)
        x.sort()
        found = x.searchsorted(y[:100])
        results = (order, whole, words, y, x, found, x.cumsum(), x.take(found))
    return b"".join(result.tobytes() for result in results)


@work("NumPy", "dot, matmul, einsum, correlate, bincount, linalg.solve, eigh, svd")
def linear_algebra(hook: Hook) -> bytes:
    a, b, c = numbers(80, 80), numbers(80, 60), numbers(80)
    private = np.linalg._umath_linalg
    loops = (
        private.solve,
        private.solve1,
        private.eigh_lo,
        private.svd_f,
        private.svd_s,
        private.cholesky_lo,
    )
    functions = (np.dot, np.matmul, np._core.multiarray.c_einsum, np._core.multiarray.correlate, np.bincount)
    with hook.python(*functions, *loops):
        results = [np.dot(a, b), a @ c, np.einsum("ij,jk,i->k", a, b, c), np.correlate(c, a[0], "full")]
        results += [
            np.bincount((c * 20).astype(int), weights=c),
            np.linalg.solve(a, b),
            np.linalg.solve(a, c),
        ]
        results += [*np.linalg.eigh(a @ a.T), *np.linalg.svd(b, full_matrices=False)]
        results.append(np.linalg.cholesky(a @ a.T + np.eye(80)))
    return b"".join(result.tobytes() for result in results)


@work("NumPy", "numpy.fft: inner loops")
def transforms(hook: Hook) -> bytes:
    import numpy.fft._pocketfft_umath as private

    x = numbers(3000)
    with hook.python(private.fft, private.ifft, private.rfft_n_even, private.irfft):
        results = (np.fft.fft(x), np.fft.ifft(x), np.fft.rfft(x), np.fft.irfft(np.fft.rfft(x)))
    return b"".join(result.tobytes() for result in results)


@work("NumPy", "next_double of PCG64 and MT19937, through the pointers they give away")
def random_numbers(hook: Hook) -> bytes:
    values = []
    for make in (np.random.PCG64, np.random.MT19937):
        generator = make(42)
        interface = generator.ctypes
        address = ctypes.cast(interface.next_double, ADDRESS).value
        assert address
        draw = ctypes.CFUNCTYPE(DOUBLE, ADDRESS)(hook.address(address))
        values += [draw(interface.state_address) for _ in range(1000)]
    return np.array(values).tobytes()


@work("NumPy", "dot of shapes that do not match: exceptions from translated code")
def exceptions(hook: Hook) -> bytes:
    messages = []
    with hook.python(np.dot, np.bincount, np.ndarray.reshape):
        for call in (
            lambda: np.dot(np.ones(3), np.ones(4)),
            lambda: np.bincount([-1]),
            lambda: np.ones(6).reshape(4, 2),
            lambda: np.dot(object(), 3),
        ):
            try:
                call()
            except (ValueError, TypeError) as error:
                messages.append(f"{type(error).__name__}: {error}")
    assert len(messages) == 4
    return "\n".join(messages).encode()
