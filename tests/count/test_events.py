"""The event data: each processor finds its own, and mistakes in a file are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from counteroof.count import events
from counteroof.count.events import EventDataError, Match, Processor, builtin, this_processor, with_file
from counteroof.errors import BadInput
from counteroof.machine.sysfs import Tree
from tests.machine import trees

OWN = """
family = "own"
[set.my_flops]
confidence = "measured by me"
events = [{ name = "MY_FLOPS", event = 0x42, umask = 0x03, precision = "f64", weight = 2 }]
[processor.my_cpu]
title = "My own processor"
match = { vendor = "AuthenticAMD", family = 0x19, models = [0x11] }
flops = ["my_flops"]
dram = ["dram_amd_umc"]
source = "a run of a kernel with known FLOPs"
confidence = "v1"
"""


def intel(model: int, stepping: int = 0) -> Processor:
    return Processor(architecture="x86_64", vendor="GenuineIntel", family=6, model=model, stepping=stepping)


def amd(family: int, model: int) -> Processor:
    return Processor(architecture="x86_64", vendor="AuthenticAMD", family=family, model=model)


def arm(implementer: int, part: int) -> Processor:
    return Processor(architecture="aarch64", implementer=implementer, part=part)


@pytest.mark.parametrize(
    ("cpu", "name"),
    [
        (intel(0x55, 4), "skylake_sp"),
        (intel(0x55, 7), "cascadelake"),
        (intel(0x55, 11), "cooperlake"),
        (intel(0x6A), "icelake_sp"),
        (intel(0x8F), "sapphirerapids"),
        (intel(0xAD), "graniterapids"),
        (intel(0xAF), "sierraforest"),
        (intel(0x97), "alderlake"),
        (intel(0xBE), "alderlake_n"),
        (intel(0x3C), "haswell"),
        (amd(0x17, 0x01), "zen1"),
        (amd(0x17, 0x31), "zen2"),
        (amd(0x19, 0x01), "zen3"),
        (amd(0x19, 0x11), "zen4"),
        (amd(0x1A, 0x02), "zen5"),
        (arm(0x41, 0xD0C), "neoverse_n1"),
        (arm(0x41, 0xD4F), "neoverse_v2"),
        (arm(0x46, 0x001), "a64fx"),
        (arm(0xC0, 0xAC4), "ampereone"),
        (arm(0x61, 0x023), "apple_silicon"),
        (Processor(architecture="ppc64le", pvr=0x4E), "power9"),
        (Processor(architecture="riscv64"), "riscv"),
    ],
)
def test_a_processor_is_found_by_what_it_says_of_itself(cpu: Processor, name: str) -> None:
    found = builtin().find(cpu)
    assert found is not None
    assert found[0] == name


@pytest.mark.parametrize(
    "cpu", [intel(0x01), amd(0x19, 0xF0), arm(0x41, 0xFFF), Processor(architecture="x86_64")]
)
def test_a_processor_nobody_wrote_about_is_found_nowhere(cpu: Processor) -> None:
    assert builtin().find(cpu) is None


def test_no_processor_fits_two_entries() -> None:
    data = builtin()
    for name, one in data.processors.items():
        match = one.match
        models = match.models or tuple(first for first, _ in match.model_ranges) or (None,)
        for model in models:
            for stepping in match.steppings or (0,):
                cpu = Processor(
                    architecture=match.architecture or "x",
                    vendor=match.vendor,
                    family=match.family,
                    model=model,
                    stepping=stepping,
                    implementer=match.implementer,
                    part=match.parts[0] if match.parts else None,
                    pvr=match.pvr,
                )
                fitting = [other for other, entry in data.processors.items() if entry.match.fits(cpu)]
                assert fitting == [name]


def test_every_entry_has_its_source_and_how_sure_it_is() -> None:
    data = builtin()
    assert len(data.processors) >= 43
    for one in data.processors.values():
        assert one.source
        assert one.confidence
    for one_set in data.sets.values():
        assert one_set.confidence


def test_where_flops_cannot_be_counted_the_reason_is_written_down() -> None:
    for name, one in builtin().processors.items():
        assert one.flops or one.flops_impossible, name


@pytest.mark.parametrize(
    ("set_name", "codes"),
    [
        (
            "intel_fp_arith_256",
            [(0xC7, 1, 1), (0xC7, 2, 1), (0xC7, 4, 2), (0xC7, 8, 4), (0xC7, 16, 4), (0xC7, 32, 8)],
        ),
        ("intel_fp_arith_512", [(0xC7, 0x40, 8), (0xC7, 0x80, 16)]),
        ("amd_flops_zen23", [(0x03, 0x0F, 1)]),
        # the low nibble selects the operations: without it nothing is counted
        ("amd_flops_zen5", [(3, 0x2F, 1), (3, 0x4F, 1), (3, 0x6F, 1), (3, 0x8F, 1), (3, 0xAF, 1), (2, 7, 1)]),
        ("power9_flops", [(0x45050, 0, 1), (0x4D052, 0, 2), (0x45052, 0, 4), (0x4D054, 0, 8)]),
    ],
)
def test_codes_and_weights_of_flops(set_name: str, codes: list[tuple[int, int, float]]) -> None:
    assert [(e.event, e.umask, e.weight) for e in builtin().events(set_name)] == codes


def test_granite_rapids_counts_both_sub_channels() -> None:
    found = builtin().events("dram_gnr")
    assert [(e.event, e.umask, e.direction) for e in found] == [
        (0x05, 0xCF, "read"),
        (0x06, 0xCF, "read"),
        (0x05, 0xF0, "write"),
        (0x06, 0xF0, "write"),
    ]


def test_instances_of_an_event_are_so_many_codes() -> None:
    reads = [e for e in builtin().events("dram_amd_df_v2_zen5") if e.direction == "read"]
    assert [e.event for e in reads] == [0x1F + 0x40 * number for number in range(12)]
    assert reads[11].name == "local_or_remote_socket_read_data_beats_dram_11"


def test_events_of_some_processors_only_are_left_out_for_others() -> None:
    data = builtin()
    assert len(data.events("dram_amd_df_v1", "zen1")) == 6
    assert len(data.events("dram_amd_df_v1", "zen2")) == 8
    assert data.events("fb_intel_old", "haswell")[0].config1 == 0x3FFFC007F7


def test_an_alternative_is_not_added_to_what_it_could_replace() -> None:
    assert "data_total" not in [e.name for e in builtin().events("dram_tgl")]


# -- files of the user's own


def own(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "own.toml"
    path.write_text(text)
    return path


def test_a_file_of_ones_own_goes_before_what_is_built_in(tmp_path: Path) -> None:
    data = with_file(own(tmp_path, OWN))
    found = data.find(amd(0x19, 0x11))
    assert found is not None
    assert found[0] == "my_cpu"
    assert [e.name for e in data.events("my_flops")] == ["MY_FLOPS"]
    assert data.find(intel(0x8F)) is not None


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (('my_flops"]', 'my_flop"]'), "found the set 'my_flop'"),
        (("weight = 2", "precison = 2"), "found a key nobody knows"),
        ((", weight = 2", ""), "MY_FLOPS without weight"),
        (("event = 0x42, umask = 0x03, ", ""), "found no code of MY_FLOPS"),
        (('vendor = "AuthenticAMD", family = 0x19, models = [0x11]', ""), "what tells the processor"),
        (('source = "a run of a kernel with known FLOPs"', ""), "source: found nothing; expected a string"),
        (("0x42", '"0x42"'), 'set.my_flops.events[0].event: found "0x42"; expected an integer'),
        (("weight = 2", "weight = 2, instances = 4"), "4 instances 0 apart"),
    ],
)
def test_a_mistake_in_a_file_is_named_with_its_place(
    tmp_path: Path, change: tuple[str, str], text: str
) -> None:
    with pytest.raises(EventDataError) as error:
        with_file(own(tmp_path, OWN.replace(*change)))
    assert text in str(error.value)
    assert "own.toml" in str(error.value)


def test_a_file_that_is_not_there_or_no_toml_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        with_file(tmp_path / "none.toml")
    with pytest.raises(BadInput, match="is not TOML"):
        with_file(own(tmp_path, "family ="))


# -- the processor itself


def test_an_x86_processor_tells_vendor_family_model_and_stepping(tmp_path: Path) -> None:
    trees.write(
        tmp_path,
        "proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t: 85\nstepping\t: 7\n",
    )
    cpu = this_processor(Tree(tmp_path), "x86_64")
    assert (cpu.vendor, cpu.family, cpu.model, cpu.stepping) == ("GenuineIntel", 6, 0x55, 7)
    assert str(cpu) == "GenuineIntel, family 0x6, model 0x55"


def test_an_arm_processor_tells_its_midr(tmp_path: Path) -> None:
    trees.write(tmp_path, "proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n")
    cpu = this_processor(Tree(tmp_path), "aarch64")
    assert (cpu.implementer, cpu.part) == (0x41, 0xD4F)
    assert str(cpu) == "implementer 0x41, part 0xd4f"


def test_a_power_processor_tells_its_version(tmp_path: Path) -> None:
    trees.write(
        tmp_path,
        "proc/cpuinfo",
        "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nrevision\t: 2.2 (pvr 004e 1202)\n",
    )
    assert this_processor(Tree(tmp_path), "ppc64le").pvr == 0x4E


def test_an_x86_processor_answers_for_itself_where_proc_is_hidden(tmp_path: Path) -> None:
    cpu = this_processor(Tree(tmp_path), "x86_64", trees.ZEN5_CPUID)
    assert (cpu.vendor, cpu.family, cpu.model, cpu.stepping) == ("AuthenticAMD", 26, 2, 1)
    found = builtin().find(cpu)
    assert found is not None
    assert found[1].title == "AMD Zen 5"
    assert cpu.identified


def test_where_nothing_tells_the_processor_it_is_unknown(tmp_path: Path) -> None:
    assert not this_processor(Tree(tmp_path), "x86_64").identified
    assert not this_processor(Tree(tmp_path), "aarch64", lambda leaf, subleaf: None).identified
    trees.write(tmp_path, "proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x00\nCPU part\t: 0x051\n")
    assert this_processor(Tree(tmp_path), "aarch64").identified


def test_an_entry_that_asks_for_nothing_fits_nothing() -> None:
    assert not Match().fits(intel(0x55))


def test_the_data_are_part_of_the_package() -> None:
    assert {path.stem for path in events.FOLDER.glob("*.toml")} >= {"intel", "amd", "arm", "fujitsu", "power"}
