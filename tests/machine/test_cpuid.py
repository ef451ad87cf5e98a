"""What processors say of themselves, decoded from registers as real ones return them."""

from __future__ import annotations

from counteroof.machine import cpuid

from . import trees


def test_amd_is_decoded_from_its_own_leaf() -> None:
    caches = cpuid.caches(trees.ZEN5_CPUID)
    assert [(c.level, c.bytes, c.ways, c.line_bytes, c.shared_by) for c in caches] == [
        (1, 48 * 1024, 12, 64, 1),
        (2, 1024 * 1024, 16, 64, 1),
        (3, 32 * 1024 * 1024, 16, 64, 2),
    ]
    assert [c.inclusive for c in caches] == [False, True, False]
    assert [c.hashed for c in caches] == [None, None, None]


def test_intel_says_inclusion_and_complex_indexing() -> None:
    for inclusive in (True, False):
        last = cpuid.caches(trees.intel_cpuid(0x55, inclusive))[2]
        assert (last.bytes, last.ways, last.inclusive, last.hashed) == (28160 * 1024, 11, inclusive, True)


def test_identity() -> None:
    assert cpuid.vendor(trees.ZEN5_CPUID) == "AuthenticAMD"
    assert cpuid.family_and_model(trees.ZEN5_CPUID) == (26, 2)
    assert cpuid.stepping(trees.ZEN5_CPUID) == 1
    assert cpuid.brand(trees.ZEN5_CPUID) == "AMD EPYC"
    assert cpuid.family_and_model(trees.intel_cpuid(0x55, False)) == (6, 0x55)
    assert cpuid.vendor(trees.intel_cpuid(0x55, False)) == "GenuineIntel"


def test_hypervisors_are_named_and_strangers_shown_with_their_signature() -> None:
    assert cpuid.hypervisor(trees.ZEN5_CPUID) == "KVM"
    assert cpuid.hypervisor(trees.intel_cpuid(0x55, False)) is None
    stranger = trees.answers(
        {(0, 0): (1, 0, 0, 0), (1, 0): (0, 0, 1 << 31, 0), (0x4000_0000, 0): (0, 0x41414141, 0, 0)}
    )
    assert cpuid.hypervisor(stranger) == "unknown (AAAA)"


def test_vector_registers_count_only_if_the_kernel_saves_them() -> None:
    assert cpuid.vector_flags(trees.ZEN5_CPUID) == {"avx", "avx2", "avx512f"}

    def without_upper_registers(leaf: int, subleaf: int) -> cpuid.Registers | None:
        return (0x7, 0, 0, 0) if leaf == 0xD else trees.ZEN5_CPUID(leaf, subleaf)

    assert cpuid.vector_flags(without_upper_registers) == {"avx", "avx2"}

    def without_saving(leaf: int, subleaf: int) -> cpuid.Registers | None:
        eax, ebx, ecx, edx = trees.ZEN5_CPUID(leaf, subleaf) or (0, 0, 0, 0)
        return (eax, ebx, ecx & ~(1 << 27), edx) if leaf == 1 else (eax, ebx, ecx, edx)

    assert cpuid.vector_flags(without_saving) == set()


def test_a_processor_without_cpuid_says_nothing() -> None:
    def nothing(leaf: int, subleaf: int) -> None:
        return None

    assert cpuid.caches(nothing) == ()
    assert cpuid.vendor(nothing) is None
    assert cpuid.brand(nothing) is None
    assert cpuid.hypervisor(nothing) is None
    assert cpuid.vector_flags(nothing) == set()
