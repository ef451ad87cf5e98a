"""Cache policies by microarchitecture: the files say what they claim, and every processor finds its entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from counteroof.errors import MachineFileError
from counteroof.machine import policy, replacement
from counteroof.machine.policy import Identity
from counteroof.machine.replacement import POLICIES

INTEL, AMD = "GenuineIntel", "AuthenticAMD"


@pytest.mark.parametrize(
    ("identity", "name", "l2", "l3", "hashed"),
    [
        (Identity(INTEL, 6, 0x1A), "Nehalem, Westmere client", "non-inclusive", "inclusive", False),
        (Identity(INTEL, 6, 0x2D), "Sandy Bridge", "non-inclusive", "inclusive", True),
        (Identity(INTEL, 6, 0x3E), "Ivy Bridge", "non-inclusive", "inclusive", True),
        (Identity(INTEL, 6, 0x3F), "Haswell", "non-inclusive", "inclusive", True),
        (Identity(INTEL, 6, 0x4F), "Broadwell", "non-inclusive", "inclusive", True),
        (Identity(INTEL, 6, 0x9E), "Skylake client to Comet Lake", "non-inclusive", "inclusive", True),
        (Identity(INTEL, 6, 0x55), "Skylake-SP, Cascade Lake, Cooper Lake", "non-inclusive", "victim", True),
        (Identity(INTEL, 6, 0x6A), "Ice Lake-SP, Ice Lake-D", "non-inclusive", "victim", True),
        (Identity(INTEL, 6, 0x8F), "Sapphire Rapids, Emerald Rapids", "non-inclusive", "victim", True),
        (
            Identity(INTEL, 6, 0xAD),
            "Granite Rapids, Sierra Forest, Clearwater Forest",
            "non-inclusive",
            "victim",
            True,
        ),
        (Identity(AMD, 0x17, 0x01), "Zen, Zen+", "inclusive", "victim", True),
        (Identity("HygonGenuine", 0x18, 0x00), "Zen, Zen+", "inclusive", "victim", True),
        (Identity(AMD, 0x17, 0x31), "Zen 2", "inclusive", "victim", True),
        (Identity(AMD, 0x19, 0x01), "Zen 3", "inclusive", "victim", True),
        (Identity(AMD, 0x19, 0x11), "Zen 4", "inclusive", "victim", True),
        (Identity(AMD, 0x1A, 0x02), "Zen 5", "inclusive", "victim", True),
        (Identity(AMD, 0x1B, 0x00), "AMD in no other entry", "inclusive", "victim", True),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_processor_finds_its_entry(identity: Identity, name: str, l2: str, l3: str, hashed: bool) -> None:
    entry = policy.microarchitecture(identity)
    assert entry is not None
    assert entry.name == name
    # whatever CPUID says
    for said in (None, True, False):
        assert policy.fill(identity, 2, said)[0] == l2
        assert policy.fill(identity, 3, said)[0] == l3
        assert policy.hashed(identity, 3, said)[0] is hashed


def test_what_is_assumed_of_a_known_processor_is_called_so() -> None:
    zen5 = Identity(AMD, 0x1A, 0x02)
    assert policy.fill(zen5, 3, None) == ("victim", "fill published for Zen 5")
    assert policy.hashed(zen5, 3, None) == (True, "index assumed for Zen 5")
    assert policy.fill(Identity(INTEL, 6, 0x55), 3, None)[1].startswith("fill measured for Skylake-SP")


def test_what_no_entry_says_is_asked_of_cpuid_and_else_assumed() -> None:
    alder_lake, zhaoxin = Identity(INTEL, 6, 0x97), Identity("CentaurHauls", 7, 0x3B)
    assert policy.fill(alder_lake, 2, True)[0] == "non-inclusive"
    for identity in (alder_lake, zhaoxin):
        assert policy.fill(identity, 3, True) == ("inclusive", "fill by CPUID")
        assert policy.fill(identity, 3, None) == ("non-inclusive", "fill assumed")
        assert policy.hashed(identity, 3, False) == (False, "index by CPUID")
        assert policy.hashed(identity, 3, None) == (True, "hashed index assumed")
    assert policy.microarchitecture(zhaoxin) is None


def test_the_first_levels_follow_cpuid_and_the_program() -> None:
    zen5 = Identity(AMD, 0x1A, 0x02)
    assert policy.fill(zen5, 1, True) == ("non-inclusive", "")
    assert policy.hashed(zen5, 2, None) == (False, "")
    assert policy.hashed(zen5, 2, True) == (True, "")


def test_a_family_that_only_looks_alike_gets_no_entry() -> None:
    """Model 0x55 of another family than 6 is no Skylake."""
    assert policy.microarchitecture(Identity(INTEL, 15, 0x55)) is None
    assert policy.microarchitecture(Identity(AMD, 0x16, 0x30)) is None
    assert policy.microarchitecture(Identity(None, None, None)) is None


@pytest.mark.parametrize(
    ("identity", "evasion", "known"),
    [
        (Identity(INTEL, 6, 0x55), "none", "published"),
        (Identity(INTEL, 6, 0x6A), "under load", "published"),
        (Identity(INTEL, 6, 0xAD), "under load", "assumed"),
        (Identity(AMD, 0x19, 0x11), "none", "published"),
        (Identity("Arm", 0x41, 0xD4F), "always", "published"),
        (Identity("CentaurHauls", 7, 0x3B), "none", "assumed"),
    ],
)
def test_write_allocate_evasion_is_a_property_of_the_machine(
    identity: Identity, evasion: str, known: str
) -> None:
    found = policy.stores(identity)
    assert found.evasion == evasion
    assert found.evaded == (1 if evasion == "always" else 0)  # the model does not know the load
    assert found.source.startswith(f"write-allocate evasion {known}")


def test_what_a_partly_filled_line_costs_is_said_with_how_it_is_known() -> None:
    server = policy.stores(Identity(INTEL, 6, 0x6A))
    assert server.partial == "read"
    assert server.source.endswith("; partly filled lines published for Ice Lake-SP, Ice Lake-D")
    other = policy.stores(Identity(AMD, 0x1A, 0x02))
    assert (other.partial, other.source.endswith("; partly filled lines assumed")) == ("read", True)


def test_every_entry_can_be_reached_and_names_are_used_once() -> None:
    """The entry for all others comes last; a model stands in one entry alone."""
    entries = [entry for file in policy.files().values() for entry in file.microarchitecture]
    names = [entry.name for entry in entries]
    assert len(set(names)) == len(names)
    for file in policy.files().values():
        models = [model for entry in file.microarchitecture for model in entry.models]
        assert len(set(models)) == len(models)
        if not file.vendors:
            continue
        for entry in file.microarchitecture:
            family = (*entry.families, entry.family_from or 0)[-1 if not entry.families else 0]
            candidates = [
                *entry.models,
                *(first for first, _ in entry.model_ranges),
                *((0x100,) if not entry.models and not entry.model_ranges else ()),
            ]
            family += 0x100 * (entry.family_from is not None)
            for model in candidates:
                found = policy.microarchitecture(Identity(file.vendors[0], family, model))
                assert found == entry


def test_generic_says_everything() -> None:
    assert [name for name, _ in policy.generic().facts()] == [
        "l2_fill",
        "l3_fill",
        "l3_hashed",
        "l3_policy",
        "write_allocate_evasion",
        "partial_lines",
    ]
    assert all(fact.known == "assumed" for _, fact in policy.generic().facts())


def test_a_source_that_is_not_listed_and_a_wrong_word_are_mistakes_of_the_file(tmp_path: Path) -> None:
    text = (policy.FOLDER / "amd.toml").read_text()
    path = tmp_path / "amd.toml"
    path.write_text(text.replace('source = "sog1a"', 'source = "hearsay"'))
    with pytest.raises(MachineFileError, match="Zen 5: l2_fill: found source 'hearsay'; expected one of"):
        policy.load(path)
    path.write_text(text.replace('value = "victim"', 'value = "exclusive"', 1))
    with pytest.raises(MachineFileError, match=r"l3_fill\.value"):
        policy.load(path)


@pytest.mark.parametrize(
    ("identity", "policy_text", "how"),
    [
        (Identity(INTEL, 6, 0x3E), "qlru", "measured for Ivy Bridge"),
        (Identity(INTEL, 6, 0x3F), "qlru", "published for Haswell"),
        (Identity(INTEL, 6, 0x55), "random", "measured for Skylake-SP, Cascade Lake, Cooper Lake"),
        (Identity(INTEL, 6, 0x6A), "random", "assumed for Ice Lake-SP, Ice Lake-D"),
        (Identity(AMD, 0x19, 0x01), "lru", "assumed"),
        (Identity("CentaurHauls", 7, 0x3B), "lru", "assumed"),
    ],
)
def test_the_last_level_replaces_lines_as_its_entry_says(
    identity: Identity, policy_text: str, how: str
) -> None:
    found, known = policy.replaced(identity, 3)
    assert replacement.text(found) == policy_text
    assert known == f"{policy_text} {how}"
    assert policy.replaced(identity, 2) == (POLICIES["lru"], "")
