"""OpenSSL and GMP: assembly that chains carries through flags, and picks its variant by CPUID."""

from __future__ import annotations

import ctypes

from .work import ADDRESS, INT, LONG, Hook, load, work

DATA = bytes(i * i % 251 for i in range(20_000))


@work("OpenSSL", "EVP_Digest: SHA-1, SHA-256, SHA-512, SHA3, BLAKE2; AES-GCM, ChaCha20-Poly1305")
def digests_and_ciphers(hook: Hook) -> bytes:
    lib = load("libssl3", "libcrypto.so.3")
    lib.OPENSSL_init_crypto(0, None)
    results = b""
    digest = hook(lib, "EVP_Digest", INT, ctypes.c_char_p, LONG, ADDRESS, ADDRESS, ADDRESS, ADDRESS)
    for name in ("EVP_sha1", "EVP_sha256", "EVP_sha512", "EVP_sha3_256", "EVP_blake2b512", "EVP_md5"):
        out = ctypes.create_string_buffer(64)
        kind = hook(lib, name, ADDRESS)()
        assert digest(DATA, len(DATA), out, None, kind, None) == 1
        results += out.raw
    for name in ("EVP_aes_128_gcm", "EVP_aes_256_cbc", "EVP_chacha20_poly1305"):
        kind = hook(lib, name, ADDRESS)()
        context = hook(lib, "EVP_CIPHER_CTX_new", ADDRESS)()
        start = hook(lib, "EVP_EncryptInit_ex", INT, *[ADDRESS] * 3, ctypes.c_char_p, ctypes.c_char_p)
        assert start(context, kind, None, b"k" * 32, b"i" * 16) == 1
        out, length = ctypes.create_string_buffer(len(DATA) + 64), INT()
        update = hook(lib, "EVP_EncryptUpdate", INT, ADDRESS, ADDRESS, ADDRESS, ctypes.c_char_p, INT)
        assert update(context, out, ctypes.byref(length), DATA, len(DATA)) == 1
        finish = hook(lib, "EVP_EncryptFinal_ex", INT, ADDRESS, ADDRESS, ADDRESS)
        place = ctypes.addressof(out) + length.value
        assert finish(context, place, ctypes.byref(length)) == 1
        hook(lib, "EVP_CIPHER_CTX_free", None, ADDRESS)(context)
        results += out.raw
    return results


@work("OpenSSL", "BN_mod_exp")
def big_numbers(hook: Hook) -> bytes:
    lib = load("libssl3", "libcrypto.so.3")
    make = hook(lib, "BN_bin2bn", ADDRESS, ctypes.c_char_p, INT, ADDRESS)
    base, power, modulus = (make(DATA[at : at + 256], 256, None) for at in (1, 300, 601))
    hook(lib, "BN_set_bit", INT, ADDRESS, INT)(modulus, 0)
    result = hook(lib, "BN_new", ADDRESS)()
    context = hook(lib, "BN_CTX_new", ADDRESS)()
    assert hook(lib, "BN_mod_exp", INT, *[ADDRESS] * 5)(result, base, power, modulus, context) == 1
    out = ctypes.create_string_buffer(256)
    hook(lib, "BN_bn2binpad", INT, ADDRESS, ADDRESS, INT)(result, out, 256)
    numbers = [int.from_bytes(DATA[at : at + 256], "big") for at in (1, 300, 601)]
    assert int.from_bytes(out.raw, "big") == pow(numbers[0], numbers[1], numbers[2] | 1)
    return out.raw


@work("GMP", "mpz_fac_ui, mpz_powm, mpz_gcd, mpz_sqrt, mpz_get_str")
def exact_arithmetic(hook: Hook) -> bytes:
    lib = load("libgmp10", "libgmp.so.10")
    a, b, c = (ctypes.create_string_buffer(16) for _ in range(3))
    for number in (a, b, c):
        hook(lib, "__gmpz_init", None, ADDRESS)(number)
    text = hook(lib, "__gmpz_get_str", ADDRESS, ADDRESS, INT, ADDRESS)
    results = []

    def keep(number: ctypes.Array[ctypes.c_char]) -> None:
        out = ctypes.create_string_buffer(20_000)
        text(out, 10, number)
        results.append(out.value)

    hook(lib, "__gmpz_fac_ui", None, ADDRESS, LONG)(a, 500)
    keep(a)
    hook(lib, "__gmpz_sqrt", None, ADDRESS, ADDRESS)(b, a)
    keep(b)
    hook(lib, "__gmpz_ui_pow_ui", None, ADDRESS, LONG, LONG)(c, 7, 401)
    hook(lib, "__gmpz_gcd", None, ADDRESS, ADDRESS, ADDRESS)(c, a, c)
    keep(c)
    hook(lib, "__gmpz_powm", None, *[ADDRESS] * 4)(c, b, b, a)
    keep(c)
    for number in (a, b, c):
        hook(lib, "__gmpz_clear", None, ADDRESS)(number)
    return b"\n".join(results)
