"""The TLBs of processors: by CPUID, by the table, and in words."""

from __future__ import annotations

import pytest

from counteroof.machine import policy, tlb
from counteroof.machine.cpuid import Registers
from counteroof.machine.model import Tlb
from counteroof.machine.policy import Identity

from . import trees

AMD: Registers = (0x21, 0x68747541, 0x444D4163, 0x69746E65)
INTEL: Registers = (0x20, 0x756E6547, 0x6C65746E, 0x49656E69)
BOTH = ("4 KiB", "2 MiB")


def told(leaves: dict[tuple[int, int], Registers]) -> list[tuple[int, int, int, tuple[str, ...]]]:
    found = tlb.by_cpuid(trees.answers(leaves))
    assert all(one.source == "CPUID" for one in found)
    return [(one.level, one.entries, one.ways, one.pages) for one in found]


def amd(first: Registers, second: Registers) -> list[tuple[int, int, int, tuple[str, ...]]]:
    highest = (0x8000_0021, 0, 0, 0)
    return told({(0, 0): AMD, (0x8000_0000, 0): highest, (0x8000_0005, 0): first, (0x8000_0006, 0): second})


def test_amd_as_a_zen_3_answers() -> None:
    first, second = (0xFF40FF40, 0xFF40FF40, 0, 0), (0x48002200, 0x68004200, 0, 0)
    assert amd(first, second) == [(1, 64, 64, BOTH), (2, 2048, 8, BOTH)]


def test_amds_code_of_ways_is_the_number_that_leaves_a_power_of_two_of_sets() -> None:
    """Zen 4: a code of 8 to 15 ways for 3072 entries, 256 sets of 12."""
    first, second = (0xFF48FF48, 0xFF48FF48, 0, 0), (0x5C002200, 0x6C004200, 0, 0)
    assert amd(first, second) == [(1, 72, 72, BOTH), (2, 3072, 12, BOTH)]
    assert amd(first, (0, 0x8C004200, 0, 0))[1] == (2, 3072, 24, ("4 KiB",))
    assert amd(first, (0, 0x63E84200, 0, 0))[1] == (2, 1000, 8, ("4 KiB",))  # none does


def zen_4(first: int, second: int) -> tuple[tlb.Tlb, ...]:
    """Return the TLBs of a Zen 4 that answers with these registers, EBX of the two leaves."""
    leaves = {
        (0, 0): AMD,
        (0x8000_0000, 0): (0x8000_0021, 0, 0, 0),
        (0x8000_0005, 0): (first, first, 0, 0),
        (0x8000_0006, 0): (second, second, 0, 0),
    }
    return policy.tlbs(Identity("AuthenticAMD", 0x19, 0x11), trees.answers(leaves))


def test_amds_leaves_tell_entries_and_the_table_ways() -> None:
    assert tlb.text(zen_4(0xFF48FF40, 0x6C004200)) == (
        "L1 72 entries 72-way 4 KiB and 2 MiB, L2 3072 entries 24-way 4 KiB and 2 MiB"
    )
    assert {one.source for one in zen_4(0xFF48FF40, 0x6C004200)} == {
        "entries by CPUID, ways published for Zen 4"
    }
    other = zen_4(0xFF48FF40, 0x68004200)
    assert [(one.entries, one.ways, one.source) for one in other] == [(72, 72, "CPUID"), (2048, 8, "CPUID")]


def test_tlbs_that_a_hypervisor_makes_up_are_not_believed() -> None:
    """As QEMU answers, unless it is told to pass on what the host has."""
    found = zen_4(0x01FF_01FF, 0x4200_4200)
    assert [(one.entries, one.ways, one.source) for one in found] == [
        (72, 72, "published for Zen 4"),
        (3072, 24, "published for Zen 4"),
    ]


def test_amd_with_different_tlbs_for_the_sizes_or_none() -> None:
    first, second = (0xFF20FF20, 0x0440_0440, 0, 0), (0x0000_2200, 0xF100_4200, 0, 0)
    assert amd(first, second) == [(1, 64, 4, ("4 KiB",)), (1, 32, 32, ("2 MiB",)), (2, 256, 256, ("4 KiB",))]
    assert amd((0xFF40FF40, 0, 0, 0), second) == []  # of no use without those of small pages
    unknown = (0x9800_0000, 0x9800_0000, 0, 0)  # associativity told elsewhere
    assert amd((0xFF40FF40, 0xFF40FF40, 0, 0), unknown) == [(1, 64, 64, BOTH)]


def test_intel_by_descriptors() -> None:
    # 03: 64 entries of 4 KiB; 63: 2 MiB; B5: instructions; C3: shared; the 03 in al is a count
    registers = (0x7603_6303, 0x00F0_B5FF, 0x8000_00C1, 0x00C3_0000)
    assert told({(0, 0): INTEL, (2, 0): registers}) == [
        (1, 32, 4, ("2 MiB",)),
        (1, 64, 4, ("4 KiB",)),
        (2, 1536, 6, BOTH),
    ]


OWN_LEAF: dict[tuple[int, int], Registers] = {
    (0, 0): INTEL,
    (2, 0): (0x00FE_FF01, 0xF0, 0, 0),
    (0x18, 0): (4, 0, 0, 0),
    (0x18, 1): (0, 0x0008_0001, 32, 0x4022),  # instructions
    (0x18, 2): (0, 0x0010_000F, 1, 0x4125),  # stores
    (0x18, 3): (0, 0x0006_0001, 16, 0x4024),  # loads, level 1, 4 KiB
    (0x18, 4): (0, 0x0010_0003, 128, 0x4043),  # level 2
}
"""As Golden Cove's: loads and stores apart, and one shared TLB for pages of 4 KiB and 2 MiB."""


def test_intel_by_the_leaf_of_its_own() -> None:
    assert told(OWN_LEAF) == [(1, 96, 6, ("4 KiB",)), (2, 2048, 16, BOTH)]


def test_others_and_those_that_answer_nothing_have_none() -> None:
    assert told({(0, 0): (0x20, 0x746E6543, 0x736C7561, 0x48727561)}) == []
    assert told({(0, 0): INTEL, (2, 0): (0, 0, 0, 0)}) == []
    assert told({(0, 0): INTEL}) == []


def test_the_table_comes_before_descriptors_of_cpuid_which_know_no_hashes() -> None:
    cpuid = trees.answers({(0, 0): INTEL, (2, 0): (0x7603_6303, 0, 0, 0x00C3_0000)})
    found = policy.tlbs(Identity("GenuineIntel", 6, 0x55), cpuid)
    assert [(one.level, one.entries, one.ways, one.hashed) for one in found] == [
        (1, 64, 4, False),
        (1, 32, 4, False),
        (2, 1536, 12, True),
    ]
    assert found[0].source == "published for Skylake-SP, Cascade Lake, Cooper Lake"
    other = policy.tlbs(Identity("GenuineIntel", 6, 0x8F), cpuid)
    assert (other[2].ways, other[2].source) == (6, "CPUID")


def test_the_leaf_of_its_own_comes_before_the_table_which_tells_what_is_hashed() -> None:
    """The table's level 2 of 2048 entries in 16 ways is hashed; a level 1 of 96 entries it does not know."""
    ice_lake = Identity("GenuineIntel", 6, 0x6A)
    found = policy.tlbs(ice_lake, trees.answers(OWN_LEAF))
    assert [(one.level, one.entries, one.ways, one.hashed, one.source) for one in found] == [
        (1, 96, 6, False, "CPUID"),
        (2, 2048, 16, True, "CPUID"),
    ]
    empty = {leaf: (0, 0, 0, 0) if leaf[0] == 0x18 else told for leaf, told in OWN_LEAF.items()}
    hidden = policy.tlbs(ice_lake, trees.answers(empty))  # as by a hypervisor
    assert [(one.level, one.entries, one.ways) for one in hidden] == [(1, 64, 4), (1, 32, 4), (2, 2048, 16)]
    assert hidden[0].source == "assumed for Ice Lake-SP, Ice Lake-D"


def test_every_tlb_of_the_tables_can_be_simulated_and_level_1_takes_small_pages() -> None:
    for file in policy.files().values():
        for entry in file.microarchitecture:
            tlbs = policy._tlbs_of(entry.tlbs)
            assert tlb.problems(tlbs, entry.name) == []
            assert not tlbs or any(one.level == 1 and "4 KiB" in one.pages for one in tlbs)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (Tlb(1, 64, 4, ("4 KiB",)), "L1 64 entries 4-way 4 KiB"),
        (Tlb(2, 1536, 12, ("4 KiB", "2 MiB"), True), "L2 1536 entries 12-way hashed 4 KiB and 2 MiB"),
        (Tlb(1, 96, 96, ("2 MiB",)), "L1 96 entries 96-way 2 MiB"),
    ],
)
def test_in_words(one: Tlb, expected: str) -> None:
    assert tlb.text([one]) == expected
