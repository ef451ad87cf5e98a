"""What would be opened on machines described by their sysfs: every type, code and processor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from counteroof.count import pmus
from counteroof.count.events import EventFact, Processor, builtin
from counteroof.count.perf_plan import PerfPlan, Source, plan
from counteroof.count.pmus import NotEncodable, Pmu, discover, matching, parse_format, parse_terms
from counteroof.machine.sysfs import Tree

from . import pmu_trees

Build = Callable[[Path], Path]
Opened = list[tuple[int, int, int]]


def intel(model: int, stepping: int = 0) -> Processor:
    return Processor(architecture="x86_64", vendor="GenuineIntel", family=6, model=model, stepping=stepping)


def amd(family: int, model: int) -> Processor:
    return Processor(architecture="x86_64", vendor="AuthenticAMD", family=family, model=model)


def arm(implementer: int, part: int) -> Processor:
    return Processor(architecture="aarch64", implementer=implementer, part=part)


POWER9 = Processor(architecture="ppc64le", pvr=0x4E)
ALDERLAKE, ZEN2, ZEN4, ZEN5 = intel(0x97), amd(0x17, 0x31), amd(0x19, 0x11), amd(0x1A, 0x02)
GRACE, A64FX = arm(0x41, 0xD4F), arm(0x46, 0x001)


def planned(build: Build, cpu: Processor, root: Path) -> PerfPlan:
    tree = Tree(build(root))
    return plan(builtin(), cpu, discover(tree), tree)


def opened(source: Source) -> Opened:
    return [(term.event.type, term.event.config, term.event.cpu) for term in source.terms]


def memory(build: Build, cpu: Processor, root: Path) -> Source:
    return planned(build, cpu, root).dram[0]


def on(cpus: list[int], kinds: list[int], codes: list[int]) -> Opened:
    return [(kind, code, cpu) for kind in kinds for code in codes for cpu in cpus]


# -- memory controllers


@pytest.mark.parametrize(
    ("build", "cpu", "expected"),
    [
        (pmu_trees.skylake_sp, intel(0x55, 4), on([0, 28], list(range(14, 20)), [0x0304, 0x0C04])),
        # events 05 and 06: the alias of older kernels has the first alone, which is half of the traffic
        (
            pmu_trees.granite_rapids,
            intel(0xAD),
            on([0, 8], list(range(20, 32)), [0xCF05, 0xCF06, 0xF005, 0xF006]),
        ),
        # never the free-running ones too: that would be everything twice
        (pmu_trees.icelake_sp, intel(0x6A), on([0], list(range(20, 28)), [0x0F04, 0x3004])),
        (pmu_trees.alderlake, ALDERLAKE, on([0], [24, 25], [0x20FF, 0x30FF])),
        (pmu_trees.haswell, intel(0x3C), on([0], [9], [0x01, 0x02])),
        (
            pmu_trees.zen2,
            ZEN2,
            on(
                [0, 64],
                [12],
                [0x3807, 0x3847, 0x3887, 0x38C7, 0x1_0000_3807, 0x1_0000_3847, 0x1_0000_3887, 0x1_0000_38C7],
            ),
        ),
        (
            pmu_trees.zen4,
            ZEN4,
            on([0], list(range(20, 24)), [0x10A, 0x20A]) + on([96], list(range(24, 28)), [0x10A, 0x20A]),
        ),
        (
            pmu_trees.zen5,
            ZEN5,
            on([0], list(range(20, 32)), [0x10A, 0x20A]) + on([128], list(range(32, 44)), [0x10A, 0x20A]),
        ),
        (pmu_trees.grace, GRACE, on([0], [20], [0x1A5, 0x1DB]) + on([72], [21], [0x1A5, 0x1DB])),
        (pmu_trees.a64fx, A64FX, on([-1], [8], [0x17, 0x325, 0x326, 0x18])),
        (pmu_trees.power9, POWER9, on([0, 64], list(range(30, 38)), [0x448, 0x450])),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_memory_traffic_is_opened_on_every_controller_of_every_socket(
    tmp_path: Path, build: Build, cpu: Processor, expected: Opened
) -> None:
    assert opened(memory(build, cpu, tmp_path)) == expected


def test_memory_of_another_kind_is_said_not_to_be_in_the_bytes(tmp_path: Path) -> None:
    def xeon_max(root: Path) -> Path:
        pmu_trees.pmu(root, "uncore_imc_0", 20, pmu_trees.EVENT_UMASK, cpumask="0")
        for number in range(4):
            pmu_trees.pmu(root, f"uncore_hbm_{number}", 30 + number, pmu_trees.EVENT_UMASK, cpumask="0")
        return root

    source = memory(xeon_max, intel(0x8F), tmp_path)
    assert opened(source) == [(20, 0xCF05, 0), (20, 0xF005, 0)]
    assert source.notes == ("traffic of other memory (uncore_hbm_0-3) is not in these bytes",)


def test_without_its_memory_controllers_zen_4_falls_back_on_the_data_fabric(tmp_path: Path) -> None:
    found = planned(pmu_trees.zen4_without_umc, ZEN4, tmp_path)
    assert [source.name for source in found.dram] == ["dram_amd_df_v2_zen4"]
    codes = opened(found.dram[0])
    assert codes[0] == (12, 0x0700FE1F, 0)  # cs0, local reads, as the kernel's documents write it
    assert len(codes) == 4 * 12
    assert found.reasons["dram"] == "the kernel has no PMU amd_umc_<n>"


def test_a_kernel_that_does_not_know_the_processor_is_told_by_its_names(tmp_path: Path) -> None:
    def unnamed(root: Path) -> Path:
        pmu_trees.pmu(root, "uncore_type_6_0", 20, pmu_trees.EVENT_UMASK, cpumask="0")
        return root

    reason = planned(unnamed, intel(0xAD), tmp_path).reasons["dram"]
    assert "a newer kernel knows them" in reason


def test_both_ways_are_told_apart_except_on_the_old_data_fabric(tmp_path: Path) -> None:
    assert memory(pmu_trees.zen5, ZEN5, tmp_path / "5").split
    assert not memory(pmu_trees.zen2, ZEN2, tmp_path / "2").split


@pytest.mark.parametrize(
    ("build", "cpu", "factors"),
    [
        (pmu_trees.skylake_sp, intel(0x55, 4), {64}),
        # the .scale of old kernels is 16 times too small: it is not used
        (pmu_trees.icelake_sp, intel(0x6A), {64}),
        (pmu_trees.grace, GRACE, {32, 1}),
        (pmu_trees.a64fx, A64FX, {256, -256}),
        # what the firmware exports is what a count means
        (pmu_trees.power9, POWER9, {6.1e-5 * 2**20}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_bytes_of_a_count(tmp_path: Path, build: Build, cpu: Processor, factors: set[float]) -> None:
    assert {term.factor for term in memory(build, cpu, tmp_path).terms} == factors


def test_counts_belong_to_the_socket_of_the_processor_they_are_read_on(tmp_path: Path) -> None:
    terms = memory(pmu_trees.zen4, ZEN4, tmp_path).terms
    assert [term.socket for term in terms] == [0] * 8 + [1] * 8


def test_sockets_pmus_are_opened_as_their_drivers_want(tmp_path: Path) -> None:
    for term in memory(pmu_trees.skylake_sp, intel(0x55, 4), tmp_path).terms:
        assert term.event.exclude == 0  # any exclusion is EINVAL there
        assert term.event.system


def test_a_limit_of_what_the_channels_carry_is_known(tmp_path: Path) -> None:
    limit = memory(pmu_trees.skylake_sp, intel(0x55, 4), tmp_path).limit
    assert limit is not None
    assert 12 * 21.3e9 < limit < 12 * 200e9


# -- cores


def flops(build: Build, cpu: Processor, root: Path) -> list[tuple[str, int, float]]:
    return [(t.event.pmu, t.event.config, t.factor) for t in planned(build, cpu, root).flops]


@pytest.mark.parametrize(
    ("build", "cpu", "expected"),
    [
        (
            pmu_trees.skylake_sp,
            intel(0x55, 4),
            [
                ("cpu", 0x01C7, 1),
                ("cpu", 0x02C7, 1),
                ("cpu", 0x04C7, 2),
                ("cpu", 0x08C7, 4),
                ("cpu", 0x10C7, 4),
                ("cpu", 0x20C7, 8),
                ("cpu", 0x40C7, 8),
                ("cpu", 0x80C7, 16),
            ],
        ),
        (pmu_trees.zen2, ZEN2, [("cpu", 0x0F03, 1)]),
        (pmu_trees.zen4, ZEN4, [("cpu", 0x0F03, 1), ("cpu", 0x1003, 1), ("cpu", 0x0702, 1)]),
        (
            pmu_trees.zen5,
            ZEN5,
            [("cpu", (umask << 8) + 3, 1) for umask in (0x2F, 0x4F, 0x6F, 0x8F, 0xAF)] + [("cpu", 0x0702, 1)],
        ),
        (pmu_trees.grace, GRACE, [("armv8_pmuv3_0", 0x80C1, 1), ("armv8_pmuv3_0", 0x80C0, 1)]),
        (pmu_trees.grace, arm(0x41, 0xD40), [("armv8_pmuv3_0", 0x80C1, 1), ("armv8_pmuv3_0", 0x80C0, 2)]),
        (
            pmu_trees.a64fx,
            A64FX,
            [("armv8_pmuv3_0", 0x80C2 + number, (4, 1)[number % 2]) for number in range(6)],
        ),
        (
            pmu_trees.power9,
            POWER9,
            [("cpu", 0x45050, 1), ("cpu", 0x4D052, 2), ("cpu", 0x45052, 4), ("cpu", 0x4D054, 8)],
        ),
    ],
)
def test_flops_of_each_event(
    tmp_path: Path, build: Build, cpu: Processor, expected: list[tuple[str, int, float]]
) -> None:
    assert flops(build, cpu, tmp_path) == expected


def test_a_hybrid_processor_is_counted_on_both_kinds_of_core(tmp_path: Path) -> None:
    found = planned(pmu_trees.alderlake, ALDERLAKE, tmp_path)
    assert found.cores == ("cpu_core", "cpu_atom")
    assert [(t.event.pmu, t.event.type, t.event.config) for t in found.instructions] == [
        ("cpu_core", 0, 4 << 32 | 1),
        ("cpu_atom", 0, 10 << 32 | 1),
    ]
    assert {t.event.pmu for t in found.flops} == {"cpu_core"}
    assert found.no_flops_on == ("cpu_atom",)


def test_with_one_kind_of_core_the_kernels_own_events_need_no_type(tmp_path: Path) -> None:
    found = planned(pmu_trees.zen5, ZEN5, tmp_path)
    assert [(t.event.type, t.event.config) for t in (*found.instructions, *found.cycles)] == [(0, 1), (0, 0)]


def test_a_processor_without_flop_events_says_why(tmp_path: Path) -> None:
    found = planned(pmu_trees.haswell, intel(0x3C), tmp_path)
    assert found.flops == ()
    assert found.reasons["flops"].startswith("no FP arithmetic event at all")


def test_an_unknown_processor_has_its_architectural_events_and_says_what_is_missing(tmp_path: Path) -> None:
    found = planned(pmu_trees.zen5, amd(0x1F, 0x01), tmp_path)
    assert not found.known
    assert len(found.instructions) == 1
    assert found.flops == found.dram == ()
    assert "add one with --events FILE" in found.reasons["flops"]


def test_a_virtual_machine_has_nothing_and_says_so(tmp_path: Path) -> None:
    found = planned(pmu_trees.virtual_machine, ZEN5, tmp_path)
    assert found.instructions == found.flops == found.dram == found.fallback == ()
    assert found.reasons["flops"] == "the kernel has no PMU of the cores (most virtual machines have none)"
    assert found.reasons["dram"] == "the kernel has no PMU amd_umc_<n>; the kernel has no PMU amd_df"


def test_reads_of_a_thread_alone_come_from_the_best_event_first(tmp_path: Path) -> None:
    found = planned(pmu_trees.skylake_sp, intel(0x55, 4), tmp_path)
    assert [source.name for source in found.fallback] == [
        "OFFCORE_RESPONSE.ALL_DATA_RD.L3_MISS.ANY_SNOOP",
        "LONGEST_LAT_CACHE.MISS",
    ]
    first = found.fallback[0].terms[0].event
    assert (first.config, first.config1) == (0x01B7, 0x3FBC000491)
    assert "write-backs unseen" in found.fallback[0].notes[0]


def test_on_zen_2_reads_are_the_sum_of_two_events(tmp_path: Path) -> None:
    (source,) = planned(pmu_trees.zen2, ZEN2, tmp_path).fallback
    assert [term.event.config for term in source.terms] == [0x4843, 0xFF72]


def test_traffic_between_caches_needs_fills_and_write_backs(tmp_path: Path) -> None:
    found = planned(pmu_trees.skylake_sp, intel(0x55, 4), tmp_path / "intel")
    assert found.l1_l2 is not None
    assert [(t.event.config, t.factor) for t in found.l1_l2.terms] == [(0x0151, 64), (0x0451, 64)]
    found = planned(pmu_trees.zen5, ZEN5, tmp_path / "amd")
    assert found.l1_l2 is None
    assert found.reasons["l1_l2"] == "no event of AMD Zen 5 (cpu) counts write-backs there"


def test_lines_of_the_a64fx_are_256_bytes(tmp_path: Path) -> None:
    found = planned(pmu_trees.a64fx, A64FX, tmp_path)
    assert found.l1_l2 is not None
    assert {term.factor for term in found.l1_l2.terms} == {256}


# -- sysfs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("config:0-7", (0, ((0, 7),))),
        ("config1:0-7,32-35", (1, ((0, 7), (32, 35)))),
        ("config:18", (0, ((18, 18),))),
        ("config2:0-63", (2, ((0, 63),))),
        ("config3:0", None),
        ("something", None),
    ],
)
def test_a_format_is_a_word_and_bit_ranges(text: str, expected: object) -> None:
    assert parse_format(text) == expected


def test_a_named_event_is_fields_with_values() -> None:
    assert parse_terms("event=0x3c,umask=0x0,edge,chip=?") == {"event": 0x3C, "umask": 0, "edge": 1}


def test_values_spread_over_their_ranges_low_bits_first() -> None:
    pmu = Pmu("amd_df", 12, {"event": (0, ((0, 7), (32, 35), (59, 60)))})
    assert pmu.words({"event": 0x1234}) == (0x34 | 0x2 << 32 | 0x1 << 59, 0, 0)


def test_a_field_or_a_value_that_has_no_place_is_no_event() -> None:
    pmu = Pmu("uncore_imc", 9, {"event": (0, ((0, 7),))})
    with pytest.raises(NotEncodable, match=r"has no field 'umask' \(its fields: event\)"):
        pmu.words({"umask": 1})
    with pytest.raises(NotEncodable, match="0x100 does not fit"):
        pmu.words({"event": 0x100})


def test_an_event_the_firmware_does_not_list_is_no_event() -> None:
    with pytest.raises(NotEncodable, match="lists no event PM_MBA"):
        pmus.encode(Pmu("nest_mba0_imc", 9), EventFact(name="x", sysfs="PM_MBA*_READ_BYTES"))


def test_names_that_only_begin_alike_are_other_pmus() -> None:
    found = [
        Pmu(name, 1) for name in ("uncore_imc_0", "uncore_imc_10", "uncore_imc_free_running_0", "uncore_imc")
    ]
    assert [pmu.name for pmu in matching(found, "uncore_imc_[0-9]*")] == [
        "uncore_imc_0",
        "uncore_imc_10",
        "uncore_imc",
    ]
    assert [pmu.name for pmu in matching(found, "uncore_imc_free_running_[0-9]*")] == [
        "uncore_imc_free_running_0"
    ]
    assert [pmu.name for pmu in matching(found, "uncore_imc")] == ["uncore_imc"]


def test_pmus_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    found = discover(Tree(pmu_trees.granite_rapids(tmp_path)))
    assert [pmu.name for pmu in found][:4] == ["cpu", "uncore_imc_0", "uncore_imc_1", "uncore_imc_2"]


def test_a_pmu_that_vanished_half_way_is_left_out(tmp_path: Path) -> None:
    pmu_trees.haswell(tmp_path)
    (tmp_path / pmus.DEVICES / "uncore_imc" / "type").unlink()
    assert [pmu.name for pmu in discover(Tree(tmp_path))] == ["cpu"]
    assert discover(Tree(tmp_path / "nothing")) == ()


def test_the_pmus_of_this_machine_can_be_read() -> None:
    assert all(pmu.type >= 0 for pmu in discover())
