"""GSL: integration and sorting with callbacks, special functions, linear algebra, random numbers."""

from __future__ import annotations

import ctypes
import struct

import numpy as np

from .work import ADDRESS, DOUBLE, INT, LONG, Hook, load, work


def gsl() -> ctypes.CDLL:
    """Return GSL, with the CBLAS it leaves to its user to choose."""
    load("libgslcblas0", "libgslcblas.so.0")
    ctypes.CDLL("libgslcblas.so.0", mode=ctypes.RTLD_GLOBAL)
    return load("libgsl27", "libgsl.so.28", "libgsl.so.27", "libgsl.so.25")


class Function(ctypes.Structure):
    """gsl_function: called with a number and ``params``."""

    _fields_ = (("function", ADDRESS), ("params", ADDRESS))


def integrals(hook: Hook, function: int) -> bytes:
    """Integrate a function in three ways."""
    lib = gsl()
    results = (DOUBLE * 6)()

    def place(i: int) -> int:
        return ctypes.addressof(results) + 8 * i

    integrand = ctypes.byref(Function(function, None))
    space = hook(lib, "gsl_integration_workspace_alloc", ADDRESS, LONG)(1000)
    adaptive = hook(
        lib, "gsl_integration_qag", INT, ADDRESS, *[DOUBLE] * 4, LONG, INT, ADDRESS, ADDRESS, ADDRESS
    )
    assert adaptive(integrand, 0.0, 30.0, 0.0, 1e-9, 1000, 6, space, place(0), place(1)) == 0
    singular = hook(lib, "gsl_integration_qags", INT, ADDRESS, *[DOUBLE] * 4, LONG, ADDRESS, ADDRESS, ADDRESS)
    assert singular(integrand, 0.0, 1.0, 0.0, 1e-7, 1000, space, place(2), place(3)) == 0
    evaluations = ctypes.c_size_t()
    plain = hook(lib, "gsl_integration_qng", INT, ADDRESS, *[DOUBLE] * 4, ADDRESS, ADDRESS, ADDRESS)
    assert plain(integrand, 0.0, 1.0, 0.0, 1e-7, place(4), place(5), ctypes.byref(evaluations)) == 0
    hook(lib, "gsl_integration_workspace_free", None, ADDRESS)(space)
    return bytes(results) + evaluations.value.to_bytes(8, "little")


@work("GSL", "gsl_integration_qag, qags, qng over cos of the C library")
def integration(hook: Hook) -> bytes:
    cosine = ctypes.cast(ctypes.CDLL("libm.so.6").cos, ADDRESS).value
    assert cosine
    return integrals(hook, cosine)


@work("GSL", "gsl_integration_qag, qags, qng over a Python function")
def python_callback(hook: Hook) -> bytes:
    @ctypes.CFUNCTYPE(DOUBLE, DOUBLE, ADDRESS)
    def function(x: float, params: int | None) -> float:
        return sum(x**k / (k + 1) for k in range(4)) / (1 + x * x)

    address = ctypes.cast(function, ADDRESS).value
    assert address
    return integrals(hook, address)


@work("GSL", "gsl_sf_bessel_Jn, gamma, zeta, hyperg_2F1, airy_Ai, ellint_Kcomp ...")
def special_functions(hook: Hook) -> bytes:
    lib = gsl()
    points = np.linspace(0.1, 9.5, 20)
    values = []
    for name in (
        "bessel_J0",
        "bessel_K1",
        "gamma",
        "lngamma",
        "psi",
        "erf",
        "dilog",
        "expint_E1",
        "lambert_W0",
    ):
        function = hook(lib, f"gsl_sf_{name}", DOUBLE, DOUBLE)
        values += [function(x) for x in points]
    nth = hook(lib, "gsl_sf_bessel_Jn", DOUBLE, INT, DOUBLE)
    values += [nth(n, x) for n in (0, 3, 40) for x in points]
    zeta = hook(lib, "gsl_sf_zeta", DOUBLE, DOUBLE)
    values += [zeta(1 + x) for x in points]
    airy = hook(lib, "gsl_sf_airy_Ai", DOUBLE, DOUBLE, ctypes.c_uint)
    values += [airy(-x, 0) for x in points]
    elliptic = hook(lib, "gsl_sf_ellint_Kcomp", DOUBLE, DOUBLE, ctypes.c_uint)
    values += [elliptic(x / 10, 0) for x in points]
    hypergeometric = hook(lib, "gsl_sf_hyperg_2F1", DOUBLE, DOUBLE, DOUBLE, DOUBLE, DOUBLE)
    values += [hypergeometric(0.5, 1.5, 2.25, x / 10) for x in points]
    return struct.pack(f"<{len(values)}d", *values)


class Matrix(ctypes.Structure):
    """gsl_matrix over somebody else's numbers."""

    _fields_ = (
        ("rows", ctypes.c_size_t),
        ("columns", ctypes.c_size_t),
        ("row_step", ctypes.c_size_t),
        ("data", ADDRESS),
        ("block", ADDRESS),
        ("owner", INT),
    )


class Vector(ctypes.Structure):
    """gsl_vector over somebody else's numbers."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("step", ctypes.c_size_t),
        ("data", ADDRESS),
        ("block", ADDRESS),
        ("owner", INT),
    )


class Permutation(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("data", ADDRESS))


def as_matrix(a: np.ndarray) -> Matrix:
    return Matrix(a.shape[0], a.shape[1], a.shape[1], a.ctypes.data, None, 0)


def as_vector(a: np.ndarray) -> Vector:
    return Vector(a.size, 1, a.ctypes.data, None, 0)


@work("GSL", "gsl_linalg_LU_decomp, LU_solve, SV_decomp, gsl_eigen_symmv")
def linear_algebra(hook: Hook) -> bytes:
    lib, by = gsl(), ctypes.byref
    n = 40
    random = np.random.default_rng(0)
    a, b, x, order = random.random((n, n)), random.random(n), np.zeros(n), np.zeros(n, np.uintp)
    before = a.copy()
    permutation, sign = Permutation(n, order.ctypes.data), INT()
    assert (
        hook(lib, "gsl_linalg_LU_decomp", INT, *[ADDRESS] * 3)(by(as_matrix(a)), by(permutation), by(sign))
        == 0
    )
    solve = hook(lib, "gsl_linalg_LU_solve", INT, *[ADDRESS] * 4)
    assert solve(by(as_matrix(a)), by(permutation), by(as_vector(b)), by(as_vector(x))) == 0
    assert np.allclose(before @ x, b)
    u, v, s, scratch = before.copy(), np.zeros((n, n)), np.zeros(n), np.zeros(n)
    singular = hook(lib, "gsl_linalg_SV_decomp", INT, *[ADDRESS] * 4)
    assert singular(by(as_matrix(u)), by(as_matrix(v)), by(as_vector(s)), by(as_vector(scratch))) == 0
    symmetric, values, vectors = before + before.T, np.zeros(n), np.zeros((n, n))
    space = hook(lib, "gsl_eigen_symmv_alloc", ADDRESS, LONG)(n)
    eigen = hook(lib, "gsl_eigen_symmv", INT, *[ADDRESS] * 4)
    assert eigen(by(as_matrix(symmetric)), by(as_vector(values)), by(as_matrix(vectors)), space) == 0
    hook(lib, "gsl_eigen_symmv_free", None, ADDRESS)(space)
    assert np.allclose(np.sort(values), np.linalg.eigvalsh(before + before.T))
    return b"".join(result.tobytes() for result in (a, order, x, u, v, s, values, vectors))


@work("GSL", "gsl_sort, gsl_heapsort with strcmp of the C library")
def sorting(hook: Hook) -> bytes:
    lib = gsl()
    numbers = np.random.default_rng(0).random(5000)
    hook(lib, "gsl_sort", None, ADDRESS, LONG, LONG)(numbers.ctypes.data, 1, numbers.size)
    assert (np.diff(numbers) >= 0).all()
    words = np.random.default_rng(1).integers(97, 123, (1000, 8)).astype(np.uint8)
    words[:, 7] = 0
    compare = ctypes.cast(ctypes.CDLL(None).strcmp, ADDRESS).value
    hook(lib, "gsl_heapsort", None, ADDRESS, LONG, LONG, ADDRESS)(words.ctypes.data, 1000, 8, compare)
    in_order = [bytes(word) for word in words]
    assert in_order == sorted(in_order)
    return numbers.tobytes() + words.tobytes()


@work("GSL", "gsl_rng_mt19937, gsl_ran_gaussian, gsl_ran_gamma, gsl_ran_poisson")
def random_numbers(hook: Hook) -> bytes:
    lib = gsl()
    kind = ADDRESS.in_dll(lib, "gsl_rng_mt19937").value
    generator = hook(lib, "gsl_rng_alloc", ADDRESS, ADDRESS)(kind)
    hook(lib, "gsl_rng_set", None, ADDRESS, LONG)(generator, 42)
    gaussian = hook(lib, "gsl_ran_gaussian", DOUBLE, ADDRESS, DOUBLE)
    gamma = hook(lib, "gsl_ran_gamma", DOUBLE, ADDRESS, DOUBLE, DOUBLE)
    poisson = hook(lib, "gsl_ran_poisson", ctypes.c_uint, ADDRESS, DOUBLE)
    values = [value for _ in range(50) for value in (gaussian(generator, 2.0), gamma(generator, 1.5, 2.0))]
    counts = [poisson(generator, mean) for mean in (0.5, 7.0, 300.0) for _ in range(20)]
    hook(lib, "gsl_rng_free", None, ADDRESS)(generator)
    return struct.pack(f"<{len(values)}d{len(counts)}I", *values, *counts)
