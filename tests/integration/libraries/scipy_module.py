"""SciPy's own extension modules: Cython's C functions, callbacks in C, and functions called from Python."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from counteroof.instrument.hooks import capsule_function

from .work import ADDRESS, DOUBLE, INT, Hook, Missing, work


def scipy(name: str) -> Any:
    """Return a module of SciPy."""
    import importlib

    try:
        return importlib.import_module(f"scipy.{name}")
    except ImportError as error:
        raise Missing("SciPy (PyPI: scipy)") from error


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape)


@work("SciPy", "scipy.special.cython_special: C functions of __pyx_capi__")
def special_functions(hook: Hook) -> bytes:
    capsules = scipy("special.cython_special").__pyx_capi__
    values = []
    for name, takes in (
        *(("__pyx_fuse_1gamma", 1), ("__pyx_fuse_1erf", 1), ("__pyx_fuse_1jv", 2), ("gammainc", 2)),
        *(("__pyx_fuse_1betainc", 3), ("ellipk", 1), ("__pyx_fuse_1psi", 1), ("__pyx_fuse_1hyp2f1", 4)),
    ):
        address = hook.address(capsule_function(capsules[name]))
        function = ctypes.CFUNCTYPE(DOUBLE, *[DOUBLE] * takes, INT)(address)
        values += [function(*[x / (i + 1) for i in range(takes)], 0) for x in np.linspace(0.1, 0.9, 30)]
    return np.array(values).tobytes()


@work("SciPy", "scipy.linalg.cython_lapack.dgesv, dsyev: C functions of __pyx_capi__")
def lapack(hook: Hook) -> bytes:
    capsules = scipy("linalg.cython_lapack").__pyx_capi__
    n = 60
    a, b, pivots, info = numbers(n, n), numbers(n), np.zeros(n, np.int32), ctypes.c_int(-1)
    size, one = ctypes.byref(INT(n)), ctypes.byref(INT(1))
    solve = ctypes.CFUNCTYPE(None, *[ADDRESS] * 8)(hook.address(capsule_function(capsules["dgesv"])))
    place = a.ctypes.data
    solve(size, one, place, size, pivots.ctypes.data, b.ctypes.data, size, ctypes.byref(info))
    assert info.value == 0
    assert np.allclose(numbers(n, n).T @ b, numbers(n))
    symmetric, values, scratch = numbers(n, n), np.zeros(n), np.zeros(34 * n)
    eigen = ctypes.CFUNCTYPE(None, *[ADDRESS] * 9)(hook.address(capsule_function(capsules["dsyev"])))
    length = ctypes.byref(INT(34 * n))
    rest = values.ctypes.data, scratch.ctypes.data, length, ctypes.byref(info)
    eigen(b"V", b"L", size, symmetric.ctypes.data, size, *rest)
    assert info.value == 0
    return b"".join(result.tobytes() for result in (a, b, pivots, symmetric, values))


@work("SciPy", "integrate.quad over a C function that is hooked")
def low_level_callable(hook: Hook) -> bytes:
    integrate = scipy("integrate")
    from scipy import LowLevelCallable

    sine = ctypes.cast(ctypes.CDLL("libm.so.6").sin, ADDRESS).value
    assert sine
    function = LowLevelCallable(ctypes.CFUNCTYPE(DOUBLE, DOUBLE)(hook.address(sine)))
    return np.array(integrate.quad(function, 0, 20, limit=200)).tobytes()


@work("SciPy", "erf, gamma, jv, expit: inner loops of special's ufuncs")
def ufuncs(hook: Hook) -> bytes:
    special = scipy("special")
    x = numbers(500) * 5
    with hook.python(special.erf, special.gamma, special.jv, special.expit, special.gammainc):
        results = (
            special.erf(x),
            special.gamma(x),
            special.jv(1.5, x),
            special.expit(x),
            special.gammainc(2, x),
        )
    return b"".join(result.tobytes() for result in results)


@work(
    "SciPy",
    "sparse csr_matvec, csr_matmat; ndimage.correlate1d; pocketfft c2c; QUADPACK; _hierarchy (Cython)",
)
def extensions(hook: Hook) -> bytes:
    sparse, ndimage, fft = scipy("sparse"), scipy("ndimage"), scipy("fft")
    integrate, hierarchy, distance = scipy("integrate"), scipy("cluster.hierarchy"), scipy("spatial.distance")
    tools, image = scipy("sparse._sparsetools"), scipy("ndimage._nd_image")
    pocketfft, quadpack = scipy("fft._pocketfft.pypocketfft"), scipy("integrate._quadpack")
    trees = scipy("cluster._hierarchy")
    matrix = sparse.random(200, 200, 0.05, format="csr", random_state=np.random.default_rng(0))
    x = numbers(200)
    with hook.python(
        *(
            tools.csr_matvec,
            tools.csr_matmat,
            tools.csr_matmat_maxnnz,
            image.correlate1d,
            image.geometric_transform,
        ),
        *(
            image.euclidean_feature_transform,
            quadpack._qagse,
            trees.linkage,
            trees.nn_chain,
            pocketfft.good_size,
        ),
    ):
        product = matrix @ matrix
        results = [matrix @ x, product.data, product.indices, ndimage.gaussian_filter(numbers(40, 50), 2.0)]
        results += [
            ndimage.rotate(numbers(20, 30), 30.0),
            ndimage.distance_transform_edt(numbers(30, 30) > 0.1),
        ]
        results.append(np.array(integrate.quad(lambda t: t**2 * np.exp(-t), 0, 5)))
        results.append(hierarchy.linkage(distance.pdist(numbers(50, 3)), "average"))
        results.append(fft.fft(numbers(fft.next_fast_len(997))))
    return b"".join(result.tobytes() for result in results)
