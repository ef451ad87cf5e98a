"""Claim and reference of the Fourier transform (``csrc/kernels/fft.c``)."""

from __future__ import annotations

import numpy as np

from ..formula import Formula
from ..spec import ArrayRef, KernelSpec, LibrarySpec, SetupCall, array
from .entry import Arrays, Expected, Params, entry, sizes

FAMILY = "fft"

# 34 FLOPs a butterfly of four points in each pass of radix 4; 2n in the pass of radix 2 if log2(n) is odd.
EXECUTED = {"fft": Formula("34*(n//4)*(log2(n)//2) + 2*n*(log2(n)%2)")}


def fft(arrays: Arrays, params: Params) -> Expected:
    real, imaginary = arrays["x"]
    y = np.fft.fft(real + 1j * imaginary)
    return {"y": np.stack((y.real, y.imag))}


def kernels(library: LibrarySpec) -> tuple[KernelSpec, ...]:
    """Return the family's kernel; real parts come first, imaginary parts after them."""
    return (
        entry(
            library,
            FAMILY,
            "fft",
            (
                array("x", "f64", (2, "n"), "random", access="read", seed=1, low=-1, high=1),
                array("y", "f64", (2, "n"), access="write"),
                array("work", "f64", (2, "n"), access="write"),
                array("twiddle", "f64", (2, "3*n//4"), access="read"),
                *sizes("n"),
            ),
            setup=(SetupCall("fft_twiddles", (ArrayRef("twiddle", "twiddle"), *sizes("n"))),),
            title="complex FFT",
            precision="f64",
            params={"n": 1 << 20},
            small={"n": 1 << 11},
            flops="5*n*log2(n)",
            bytes="48*n",
            source="FLOPs: convention of FFTW's benchFFT; "
            "bytes: three times 16 bytes a point, for input, factors and output",
            rtol=1e-9,
        ),
    )
